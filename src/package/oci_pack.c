/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_pack.c: writes a POSIX tar whose bytes depend on its entries alone, whatever library and version reads it. A name that the old header
 * cannot hold (long, or not ASCII) gets an extended header before it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "package/oci_tar.h"

enum { BLOCK = 512, STEP = 256 << 10, NAME_MAX_BYTES = 100, SIZE_DIGITS = 11 };

/* The header of POSIX.1-1988 (ustar). */
struct head {
    char name[NAME_MAX_BYTES], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[NAME_MAX_BYTES],
        magic[8], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct head) == BLOCK, "a header is a block");

struct pack {
    const struct gr_tar_sink *sink;
    char *step;
};

static enum gr_status put(const struct pack *p, const void *bytes, size_t n, struct gr_err *err)
{
    return n > 0 ? p->sink->put(p->sink->user, bytes, n, err) : GR_OK;
}

static enum gr_status put_padding(const struct pack *p, uint64_t n, struct gr_err *err)
{
    static const char zeros[BLOCK];
    return put(p, zeros, (size_t)((BLOCK - n % BLOCK) % BLOCK), err);
}

/* Octal digits and a NUL. */
static void put_octal(char *field, size_t width, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%0*llo", (int)width - 1, (unsigned long long)value);
    memcpy(field, text, width);
}

static enum gr_status put_head(const struct pack *p, const char *name, const char *link, char type, int mode,
                               uint64_t size, struct gr_err *err)
{
    struct head h = {.type = type, .magic = {'u', 's', 't', 'a', 'r', '\0', '0', '0'}};
    memcpy(h.name, name, strnlen(name, sizeof h.name)); /* a longer one stands in the extended header */
    memcpy(h.link, link, strnlen(link, sizeof h.link));
    put_octal(h.mode, sizeof h.mode, (uint64_t)mode & 07777);
    put_octal(h.uid, sizeof h.uid, 0);
    put_octal(h.gid, sizeof h.gid, 0);
    put_octal(h.size, sizeof h.size, size < UINT64_C(1) << (3 * SIZE_DIGITS) ? size : 0);
    put_octal(h.mtime, sizeof h.mtime, 0);
    put_octal(h.major, sizeof h.major, 0);
    put_octal(h.minor, sizeof h.minor, 0);
    memset(h.sum, ' ', sizeof h.sum);
    unsigned sum = 0;
    const unsigned char *bytes = (const unsigned char *)&h;
    for (size_t i = 0; i < sizeof h; i++) {
        sum += bytes[i];
    }
    put_octal(h.sum, sizeof h.sum - 1, sum);
    return put(p, &h, sizeof h, err);
}

static bool fits_head(const char *text)
{
    size_t n = 0;
    while (text[n] != '\0' && (unsigned char)text[n] < 0x80) {
        n++;
    }
    return text[n] == '\0' && n <= NAME_MAX_BYTES;
}

/* "27 path=a/long/name\n", where 27 counts itself too. */
static void put_record(struct gr_buf *b, const char *key, const char *value)
{
    const size_t rest = strlen(key) + strlen(value) + 3;
    size_t total = rest + 1;
    for (int round = 0; round < 3; round++) { /* one more digit may take one more digit */
        char digits[24];
        total = rest + (size_t)snprintf(digits, sizeof digits, "%zu", total);
    }
    gr_buf_printf(b, "%zu %s=%s\n", total, key, value);
}

static enum gr_status put_extended(const struct pack *p, const char *name, const char *link, uint64_t size,
                                   struct gr_err *err)
{
    struct gr_buf records = {0};
    char digits[24];
    if (!fits_head(name)) {
        put_record(&records, "path", name);
    }
    if (!fits_head(link)) {
        put_record(&records, "linkpath", link);
    }
    if (size >= UINT64_C(1) << (3 * SIZE_DIGITS)) {
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
        put_record(&records, "size", digits);
    }
    enum gr_status status = records.failed ? gr_fail(err, GR_ERR_NOMEM, "%s: no memory to write it", name) : GR_OK;
    if (status == GR_OK && records.len > 0) {
        status = put_head(p, "PaxHeader", "", 'x', 0644, records.len, err);
        status = status == GR_OK ? put(p, records.data, records.len, err) : status;
        status = status == GR_OK ? put_padding(p, records.len, err) : status;
    }
    gr_buf_free(&records);
    return status;
}

static enum gr_status put_file(const struct pack *p, const struct gr_oci_entry *e, int fd, uint64_t size,
                               struct gr_err *err)
{
    for (uint64_t left = size; left > 0;) {
        const ssize_t r = read(fd, p->step, left < STEP ? (size_t)left : STEP);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            return gr_fail_errno(err, GR_ERR_INPUT, errno, "%s: cannot read", e->source);
        }
        if (r == 0) {
            return gr_fail(err, GR_ERR_INPUT, "%s: became shorter while it was copied", e->source);
        }
        GR_TRY(put(p, p->step, (size_t)r, err));
        left -= (uint64_t)r;
    }
    return put_padding(p, size, err);
}

static enum gr_status put_entry(const struct pack *p, const struct gr_oci_entry *e, struct gr_err *err)
{
    char name[GR_PATH_BYTES];
    const char *link = e->link != NULL ? e->link : "";
    const char type = e->source != NULL ? '0' : e->link != NULL ? '2' : '5';
    int fd = -1;
    size_t size = 0;
    const int n = snprintf(name, sizeof name, "%s%s", e->path, type == '5' ? "/" : "");
    if (n < 0 || (size_t)n >= sizeof name) {
        return gr_fail(err, GR_ERR_INPUT, "%.200s...: name is too long for an image", e->path);
    }
    if (e->source != NULL && gr_fs_open(e->source, &fd, &size, err) != GR_OK) {
        return err->code = err->code == GR_ERR_IO ? GR_ERR_INPUT : err->code;
    }
    enum gr_status status = put_extended(p, name, link, size, err);
    if (status == GR_OK) {
        status = put_head(p, name, link, type, type == '2' ? 0777 : e->mode, size, err);
    }
    if (status == GR_OK) {
        status = put_file(p, e, fd, size, err);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

enum gr_status gr_tar_write(const struct gr_oci_entry *entries, int n, const struct gr_tar_sink *sink,
                            struct gr_err *err)
{
    static const char end[2 * BLOCK];
    const struct pack p = {.sink = sink, .step = malloc(STEP)};
    enum gr_status status = p.step != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory to write a layer");
    for (int i = 0; i < n && status == GR_OK; i++) {
        status = put_entry(&p, &entries[i], err);
    }
    if (status == GR_OK) {
        status = put(&p, end, sizeof end, err);
    }
    free(p.step);
    return status;
}
