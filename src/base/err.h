/* SPDX-License-Identifier: Apache-2.0
 *
 * err.h: how a failure travels: filled where it is found, passed up untouched. */
#ifndef GR_BASE_ERR_H
#define GR_BASE_ERR_H

#include "gr00t_status.h"

/* Fills `err` and returns `code`, so that a function can `return gr_fail(err, GR_ERR_INPUT, "...", ...)`.
 * The message is made one line (control characters become '?') and kept valid UTF-8. err must not be NULL. */
enum gr_status gr_fail(struct gr_err *err, enum gr_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As gr_fail, and appends ": " and the text of errno value `errnum`. ENOMEM gives GR_ERR_NOMEM. */
enum gr_status gr_fail_errno(struct gr_err *err, enum gr_status code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* "input", "format" ...: the word for logs and JSON. */
const char *gr_status_name(enum gr_status code);

/* Leaves the function with the status of a call that failed, its message untouched. */
#define GR_TRY(call)                            \
    do {                                        \
        enum gr_status gr_try_status_ = (call); \
        if (gr_try_status_ != GR_OK) {          \
            return gr_try_status_;              \
        }                                       \
    } while (0)

#endif
