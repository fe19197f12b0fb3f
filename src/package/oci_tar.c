/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_tar.c: gzip both ways and the reading of tar by libarchive; no other file knows it. Its writers of containers stay out of the
 * program: they
 * bring half a dozen libraries along. Names are bytes: no locale has a say in what a layer holds. */
#include "package/oci_tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

/* ---- writing ---- */

struct out {
    const struct gr_tar_sink *sink;
    struct gr_err err; /* of the sink */
    enum gr_status status;
    bool dropped; /* nobody wants the rest */
};

static la_ssize_t put(struct archive *a, void *user, const void *bytes, size_t n)
{
    struct out *o = user;
    if (o->dropped) {
        return (la_ssize_t)n;
    }
    o->status = o->sink->put(o->sink->user, bytes, n, &o->err);
    if (o->status != GR_OK) {
        archive_set_error(a, EIO, "%s", o->err.msg);
        return -1;
    }
    return (la_ssize_t)n;
}

/* What the sink said, if it was the sink. */
static enum gr_status write_failed(struct archive *a, const struct out *o, const char *what, struct gr_err *err)
{
    if (o->status != GR_OK) {
        *err = o->err;
        return o->status;
    }
    const char *why = archive_error_string(a);
    return gr_fail(err, archive_errno(a) == ENOMEM ? GR_ERR_NOMEM : GR_ERR_IO, "%s: cannot write it to the image: %s",
                   what, why != NULL ? why : "the archive library failed");
}

static enum gr_status open_out(struct archive *a, struct out *o, struct gr_err *err)
{
    /* The last block as long as it is: padding would depend on the block size. */
    if (archive_write_set_bytes_per_block(a, BLOCK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        archive_write_open(a, o, NULL, put, NULL) != ARCHIVE_OK) {
        return write_failed(a, o, "layer", err);
    }
    return GR_OK;
}

struct gr_gzip {
    struct archive *a;
    struct out out;
};

enum gr_status gr_gzip_new(const struct gr_tar_sink *sink, struct gr_gzip **out, struct gr_err *err)
{
    struct gr_gzip *z = calloc(1, sizeof *z);
    struct archive_entry *entry = archive_entry_new();
    enum gr_status status = GR_OK;
    if (z != NULL) {
        z->out.sink = sink;
        z->a = archive_write_new();
    }
    if (z == NULL || z->a == NULL || entry == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "no memory to compress a layer");
    } else {
        archive_entry_set_filetype(entry, AE_IFREG);
        /* "raw" is a stream without a container, so that this is gzip and nothing else */
        const bool ok = archive_write_set_format_raw(z->a) == ARCHIVE_OK &&
                        archive_write_add_filter_gzip(z->a) == ARCHIVE_OK &&
                        archive_write_set_filter_option(z->a, "gzip", "timestamp", NULL) == ARCHIVE_OK &&
                        archive_write_set_filter_option(z->a, "gzip", "compression-level", "9") == ARCHIVE_OK;
        status = ok ? open_out(z->a, &z->out, err) : write_failed(z->a, &z->out, "layer", err);
        if (status == GR_OK && archive_write_header(z->a, entry) != ARCHIVE_OK) {
            status = write_failed(z->a, &z->out, "layer", err);
        }
    }
    archive_entry_free(entry);
    if (status != GR_OK) {
        gr_gzip_free(z);
        z = NULL;
    }
    *out = z;
    return status;
}

enum gr_status gr_gzip_add(struct gr_gzip *z, const void *bytes, size_t n, struct gr_err *err)
{
    return archive_write_data(z->a, bytes, n) == (la_ssize_t)n ? GR_OK : write_failed(z->a, &z->out, "layer", err);
}

enum gr_status gr_gzip_end(struct gr_gzip *z, struct gr_err *err)
{
    const enum gr_status status =
        archive_write_close(z->a) == ARCHIVE_OK ? GR_OK : write_failed(z->a, &z->out, "layer", err);
    gr_gzip_free(z);
    return status;
}

void gr_gzip_free(struct gr_gzip *z)
{
    if (z != NULL && z->a != NULL) {
        z->out.dropped = true; /* archive_write_fail would leak: only a filter that is closed gives back its memory */
        (void)archive_write_free(z->a);
    }
    free(z);
}

/* ---- reading ---- */

struct gr_tar {
    struct archive *a;
    int fd;
    char path[GR_PATH_BYTES];
};

static enum gr_status damaged(const struct gr_tar *t, struct gr_err *err)
{
    const char *why = archive_error_string(t->a);
    return gr_fail(err, archive_errno(t->a) == ENOMEM ? GR_ERR_NOMEM : GR_ERR_FORMAT, "%s: damaged layer: %s", t->path,
                   why != NULL ? why : "the archive library failed");
}

static enum gr_status open_layer(const char *path, bool gzip, bool raw, struct gr_tar **out, struct gr_err *err)
{
    struct gr_tar *t = calloc(1, sizeof *t);
    size_t size;
    *out = t;
    if (t == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to read it", path);
    }
    t->fd = -1;
    GR_TRY(gr_path_join(t->path, "", path, err));
    GR_TRY(gr_fs_open(path, &t->fd, &size, err));
    t->a = archive_read_new();
    if (t->a == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to read it", path);
    }
    bool ok =
        raw ? archive_read_support_format_raw(t->a) == ARCHIVE_OK : archive_read_support_format_tar(t->a) == ARCHIVE_OK;
    ok = ok && archive_read_support_format_empty(t->a) == ARCHIVE_OK;
    ok = ok && (!gzip || archive_read_support_filter_gzip(t->a) == ARCHIVE_OK);
    return ok && archive_read_open_fd(t->a, t->fd, BLOCK) == ARCHIVE_OK ? GR_OK : damaged(t, err);
}

/* The first header has been read, so the filters are known. */
static enum gr_status need_gzip(const struct gr_tar *t, bool gzip, struct gr_err *err)
{
    const bool is = archive_filter_code(t->a, 0) == ARCHIVE_FILTER_GZIP;
    return is || !gzip ? GR_OK : gr_fail(err, GR_ERR_FORMAT, "%s: is not gzip, as its media type says", t->path);
}

static enum gr_status inflate(struct gr_tar *t, bool gzip, uint64_t max_bytes, char *block,
                              const struct gr_tar_sink *sink, struct gr_err *err)
{
    struct archive_entry *entry;
    const int first = archive_read_next_header(t->a, &entry);
    if (first != ARCHIVE_OK && first != ARCHIVE_EOF) {
        return damaged(t, err);
    }
    GR_TRY(need_gzip(t, gzip, err));
    for (uint64_t total = 0; first == ARCHIVE_OK;) {
        const la_ssize_t n = archive_read_data(t->a, block, BLOCK);
        if (n < 0) {
            return damaged(t, err);
        }
        if (n == 0) {
            break;
        }
        total += (uint64_t)n;
        if (total > max_bytes) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: unpacks to more than %llu bytes, the limit here", t->path,
                           (unsigned long long)max_bytes);
        }
        GR_TRY(sink->put(sink->user, block, (size_t)n, err));
    }
    return GR_OK;
}

enum gr_status gr_tar_inflate(const char *path, bool gzip, uint64_t max_bytes, const struct gr_tar_sink *sink,
                              struct gr_err *err)
{
    struct gr_tar *t = NULL;
    char *block = malloc(BLOCK);
    enum gr_status status =
        block != NULL ? open_layer(path, gzip, true, &t, err) : gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path);
    if (status == GR_OK) {
        status = inflate(t, gzip, max_bytes, block, sink, err);
    }
    gr_tar_close(t);
    free(block);
    return status;
}

enum gr_status gr_tar_open(const char *path, bool gzip, struct gr_tar **out, struct gr_err *err)
{
    const enum gr_status status = open_layer(path, gzip, false, out, err);
    if (status != GR_OK) {
        gr_tar_close(*out);
        *out = NULL;
    }
    return status;
}

enum gr_status gr_tar_next(struct gr_tar *t, struct gr_tar_item *item, bool *end, struct gr_err *err)
{
    struct archive_entry *e;
    const int r = archive_read_next_header(t->a, &e);
    *end = r == ARCHIVE_EOF;
    if (*end) {
        return GR_OK;
    }
    if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
        return damaged(t, err);
    }
    /* Extended headers are UTF-8, old ones whatever bytes they are. */
    const char *path = archive_entry_pathname_utf8(e), *hard = archive_entry_hardlink_utf8(e);
    path = path != NULL ? path : archive_entry_pathname(e);
    hard = hard != NULL ? hard : archive_entry_hardlink(e);
    const char *soft = archive_entry_symlink_utf8(e);
    soft = soft != NULL ? soft : archive_entry_symlink(e);
    if (path == NULL || path[0] == '\0') {
        return gr_fail(err, GR_ERR_FORMAT, "%s: holds an entry without a readable name", t->path);
    }
    const unsigned type = archive_entry_filetype(e);
    *item = (struct gr_tar_item){.path = path, .mode = (int)archive_entry_perm(e)};
    item->size = archive_entry_size(e) > 0 ? (uint64_t)archive_entry_size(e) : 0;
    item->link = hard != NULL ? hard : type == AE_IFLNK ? soft : NULL;
    item->kind = hard != NULL       ? GR_TAR_HARDLINK
                 : type == AE_IFREG ? GR_TAR_FILE
                 : type == AE_IFDIR ? GR_TAR_FOLDER
                 : type == AE_IFLNK ? GR_TAR_SYMLINK
                                    : GR_TAR_OTHER;
    return item->kind != GR_TAR_SYMLINK || (soft != NULL && soft[0] != '\0')
               ? GR_OK
               : gr_fail(err, GR_ERR_FORMAT, "%s: %s is a link without a target", t->path, path);
}

enum gr_status gr_tar_read(struct gr_tar *t, void *out, size_t cap, size_t *n, struct gr_err *err)
{
    const la_ssize_t r = archive_read_data(t->a, out, cap);
    *n = r > 0 ? (size_t)r : 0;
    return r >= 0 ? GR_OK : damaged(t, err);
}

void gr_tar_close(struct gr_tar *t)
{
    if (t == NULL) {
        return;
    }
    if (t->a != NULL) {
        (void)archive_read_free(t->a);
    }
    if (t->fd >= 0) {
        (void)close(t->fd);
    }
    free(t);
}
