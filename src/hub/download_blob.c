/* SPDX-License-Identifier: Apache-2.0
 *
 * download_blob.c: one object on its way to disk: the lock, <oid>.incomplete that an earlier call may have begun, the hash that runs along, and
 * the rename and links once it is right. Bytes are only ever appended, never written at a distance: after a kill or a power cut the file is
 * shorter, not wrong in the middle, and its size says so. Nothing waits for the disk: a blob shorter than listed counts as missing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/download_parts.h"

enum { READ_BYTES = 256 << 10 };

static enum gr_status start_digest(struct gr_dl_transfer *t, struct gr_err *err)
{
    const struct gr_hub_file *f = t->blob->files[0];
    gr_digest_free(t->digest);
    t->digest = NULL;
    GR_TRY(gr_digest_new(f->lfs ? GR_SHA256 : GR_SHA1, &t->digest, err));
    if (!f->lfs) {
        char head[48];
        const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)f->size);
        gr_digest_add(t->digest, head, (size_t)n + 1); /* with its NUL: git's header */
    }
    return GR_OK;
}

static enum gr_status open_file(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err)
{
    char blob[GR_PATH_BYTES];
    struct stat st;
    const struct gr_hub_file *f = t->blob->files[0];
    GR_TRY(gr_cache_blob(dl->cfg->cache_root, dl->pull->id, f->oid, blob, err));
    const int n = snprintf(t->path, sizeof t->path, "%s.incomplete", blob);
    if (n < 0 || (size_t)n >= sizeof t->path) {
        return gr_fail(err, GR_ERR_USAGE, "path too long: %.80s...", blob);
    }
    do {
        t->fd = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    } while (t->fd < 0 && errno == EINTR);
    if (t->fd < 0 || fstat(t->fd, &st) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create", t->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return gr_fail(err, GR_ERR_IO, "%s is no regular file: remove it and run this again", t->path);
    }
    t->resumed = (uint64_t)st.st_size;
    if (t->resumed > f->size || dl->pull->force || t->blob->again) {
        t->resumed = 0;
        if (ftruncate(t->fd, 0) != 0) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot begin again", t->path);
        }
    }
    t->next = t->resumed;
    return start_digest(t, err);
}

enum gr_status gr_dl_open(struct gr_dl *dl, struct gr_dl_blob *b, struct gr_dl_transfer **out, bool *there,
                          struct gr_err *err)
{
    int lock_fd = -1;
    *out = NULL;
    *there = false;
    GR_TRY(gr_cache_try_lock(dl->cfg->cache_root, dl->pull->id, b->files[0]->oid, &lock_fd, err));
    if (lock_fd < 0) {
        return GR_OK;
    }
    if (!dl->pull->force && gr_cache_has(dl->cfg->cache_root, dl->pull->id, b->files[0])) {
        (void)close(lock_fd); /* another process was faster */
        *there = true;
        return gr_dl_link(dl, b, err);
    }
    struct gr_dl_transfer *t = calloc(1, sizeof *t);
    if (t == NULL || pthread_cond_init(&t->data, NULL) != 0) {
        free(t);
        (void)close(lock_fd);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a transfer");
    }
    t->dl = dl;
    t->blob = b;
    t->lock_fd = lock_fd;
    t->fd = -1;
    enum gr_status status = open_file(dl, t, err);
    if (status != GR_OK) {
        gr_dl_close(t);
        return status;
    }
    *out = t;
    return GR_OK;
}

void gr_dl_close(struct gr_dl_transfer *t)
{
    if (t == NULL) {
        return;
    }
    gr_digest_free(t->digest);
    if (t->fd >= 0) {
        (void)close(t->fd);
    }
    (void)close(t->lock_fd);
    (void)pthread_cond_destroy(&t->data);
    free(t->url);
    free(t);
}

enum gr_status gr_dl_hash_resumed(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err)
{
    if (t->written >= t->resumed) {
        return GR_OK;
    }
    char *bytes = malloc(READ_BYTES);
    enum gr_status status = bytes == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory to read %s", t->path) : GR_OK;
    while (status == GR_OK && t->written < t->resumed) {
        const uint64_t left = t->resumed - t->written;
        const size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
        status = dl->stop || gr_hub_cancelled(dl->hub) ? gr_fail(err, GR_ERR_BUSY, "interrupted")
                                                       : gr_fs_read_at(t->fd, t->path, bytes, n, t->written, err);
        if (status == GR_OK) {
            gr_digest_add(t->digest, bytes, n);
            t->written += n;
            gr_dl_progress(dl, n, t->blob);
        }
    }
    free(bytes);
    return status;
}

enum gr_status gr_dl_put(struct gr_dl *dl, struct gr_dl_transfer *t, const void *bytes, size_t n, struct gr_err *err)
{
    const char *p = bytes;
    for (size_t left = n; left > 0;) {
        const ssize_t done = pwrite(t->fd, p, left, (off_t)(t->written + (n - left)));
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return gr_fail_errno(err, GR_ERR_IO, done < 0 ? errno : EIO,
                                 "%s: cannot write byte %llu of %llu (what came is kept: make room and run it again)",
                                 t->path, (unsigned long long)t->written, (unsigned long long)t->blob->files[0]->size);
        }
        p += done;
        left -= (size_t)done;
    }
    gr_digest_add(t->digest, bytes, n);
    t->written += n;
    atomic_fetch_add_explicit(&dl->fetched, n, memory_order_relaxed);
    gr_dl_progress(dl, n, t->blob);
    return GR_OK;
}

enum gr_status gr_dl_link(const struct gr_dl *dl, const struct gr_dl_blob *b, struct gr_err *err)
{
    for (int i = 0; i < b->n_files; i++) {
        GR_TRY(gr_cache_link(dl->cfg->cache_root, dl->pull->id, dl->repo->commit, b->files[i]->path, b->files[i]->oid,
                             err));
    }
    return GR_OK;
}

enum gr_status gr_dl_begin_again(struct gr_dl *dl, struct gr_dl_transfer *t, const char *why, struct gr_err *err)
{
    const char *path = t->blob->files[0]->path;
    if (t->blob->again) {
        (void)unlink(t->path);
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: %s %s, twice: nothing of it is kept; its server or what is in between damages it",
                       dl->repo->id, path, why);
    }
    gr_dl_note(dl, "%s %s: begins again", path, why);
    t->blob->again = true;
    gr_dl_progress(dl, (uint64_t)0 - t->written, t->blob);
    t->resumed = t->written = t->next = 0;
    t->trouble = GR_DL_NONE;
    free(t->url);
    t->url = NULL;
    if (ftruncate(t->fd, 0) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot begin again", t->path);
    }
    return start_digest(t, err);
}

enum gr_status gr_dl_finish(struct gr_dl *dl, struct gr_dl_transfer *t, bool *again, struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES], why[2 * GR_DIGEST_HEX_BYTES + 64], blob[GR_PATH_BYTES];
    const struct gr_hub_file *f = t->blob->files[0];
    struct gr_digest *digest = t->digest;
    t->digest = NULL;
    *again = false;
    GR_TRY(gr_digest_end(digest, hex, err));
    if (strcmp(hex, f->oid) != 0) {
        (void)snprintf(why, sizeof why, "hashes to %.12s, the Hub lists %.12s", hex, f->oid);
        *again = true;
        return gr_dl_begin_again(dl, t, why, err);
    }
    GR_TRY(gr_cache_blob(dl->cfg->cache_root, dl->pull->id, f->oid, blob, err));
    const int fd = t->fd;
    t->fd = -1;
    /* Network file systems report a full disk here. */
    if (close(fd) != 0 && errno != EINTR) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot write", t->path);
    }
    if (rename(t->path, blob) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot rename", t->path);
    }
    return gr_dl_link(dl, t->blob, err);
}
