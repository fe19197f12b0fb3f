/* SPDX-License-Identifier: Apache-2.0
 *
 * err.c: writes the one-line message of a failure. Messages quote names out of files, so whatever comes in is cleaned:
 * the result is printable UTF-8 without line breaks, cut at a character. An argument may point into err->msg itself. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { DRAFT_BYTES = 4 * GR_ERR_MSG_BYTES, REASON_BYTES = 96 };

enum gr_status gr_fail(struct gr_err *err, enum gr_status code, const char *fmt, ...)
{
    char draft[DRAFT_BYTES] = "";
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(draft, sizeof draft, fmt, ap);
    va_end(ap);
    err->code = code;
    (void)gr_utf8_clean(err->msg, sizeof err->msg, draft);
    return code;
}

enum gr_status gr_fail_errno(struct gr_err *err, enum gr_status code, int errnum, const char *fmt, ...)
{
    char draft[DRAFT_BYTES] = "", scratch[REASON_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(draft, sizeof draft, fmt, ap);
    va_end(ap);
    const char *why = strerror_r(errnum, scratch, sizeof scratch);
    /* The reason is worth more than the tail of a very long name: cut that, at a character. */
    size_t used = strlen(draft), room = GR_ERR_MSG_BYTES - REASON_BYTES;
    if (used > room) {
        used = room;
        while (used > 0 && ((unsigned char)draft[used] & 0xc0) == 0x80) {
            used--;
        }
    }
    (void)snprintf(draft + used, sizeof draft - used, ": %s", why);
    err->code = errnum == ENOMEM ? GR_ERR_NOMEM : code;
    (void)gr_utf8_clean(err->msg, sizeof err->msg, draft);
    return err->code;
}

const char *gr_status_name(enum gr_status code)
{
    switch (code) {
    case GR_OK:
        return "ok";
    case GR_ERR_USAGE:
        return "usage";
    case GR_ERR_INPUT:
        return "input";
    case GR_ERR_SCHEMA:
        return "schema";
    case GR_ERR_BUSY:
        return "busy";
    case GR_ERR_FORMAT:
        return "format";
    case GR_ERR_IO:
        return "io";
    case GR_ERR_NOMEM:
        return "memory";
    case GR_ERR_NETWORK:
        return "network";
    case GR_ERR_ACCESS:
        return "access";
    case GR_ERR_DEVICE:
        return "device";
    case GR_ERR_CHECK:
        return "check";
    }
    return "unknown";
}
