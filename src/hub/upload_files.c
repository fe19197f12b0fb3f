/* SPDX-License-Identifier: Apache-2.0
 *
 * upload_files.c: walks a folder and hashes what is there. Links are refused: what a link names is not what its author sees in the folder, and
 * would become public with it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "hub/upload_files.h"

enum { FILES_MAX = 100000, DEPTH_MAX = 64, READ_BYTES = 256 << 10 };

static enum gr_status no_memory(struct gr_err *err)
{
    return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of files");
}

void gr_upload_list_free(struct gr_upload_list *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->files[i].path);
        free(l->files[i].text);
    }
    free(l->files);
    *l = (struct gr_upload_list){0};
}

static enum gr_status add_file(struct gr_upload_list *l, const char *path, const struct stat *st, struct gr_err *err)
{
    if (l->n == FILES_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s: more than %d files", l->dir, FILES_MAX);
    }
    if (l->n == l->cap) {
        const int cap = l->cap > 0 ? 2 * l->cap : 32;
        struct gr_upload_file *files = realloc(l->files, (size_t)cap * sizeof *files);
        if (files == NULL) {
            return no_memory(err);
        }
        l->files = files;
        l->cap = cap;
    }
    struct gr_upload_file *f = &l->files[l->n];
    *f = (struct gr_upload_file){.path = strdup(path), .size = (uint64_t)st->st_size, .changed = st->st_mtim};
    if (f->path == NULL) {
        return no_memory(err);
    }
    l->n++;
    return GR_OK;
}

static enum gr_status walk(struct gr_upload_list *l, const char *below, int depth, struct gr_err *err);

static enum gr_status take_entry(struct gr_upload_list *l, const char *below, const char *name, int depth,
                                 struct gr_err *err)
{
    char path[GR_PATH_BYTES], full[GR_PATH_BYTES];
    struct stat st;
    GR_TRY(gr_path_join(path, below, name, err));
    GR_TRY(gr_path_join(full, l->dir, path, err));
    if (!gr_hub_is_path(path)) {
        return gr_fail(err, GR_ERR_INPUT, "%s: a repository cannot hold a file of this name", full);
    }
    if (lstat(full, &st) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s", full);
    }
    if (S_ISDIR(st.st_mode)) {
        return walk(l, path, depth + 1, err);
    }
    if (!S_ISREG(st.st_mode)) {
        return gr_fail(err, GR_ERR_INPUT, "%s is %s; only files and folders can be pushed", full,
                       S_ISLNK(st.st_mode) ? "a symbolic link" : "neither a file nor a folder");
    }
    return add_file(l, path, &st, err);
}

static enum gr_status walk(struct gr_upload_list *l, const char *below, int depth, struct gr_err *err)
{
    char full[GR_PATH_BYTES];
    if (depth > DEPTH_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s: folders nested deeper than %d", l->dir, DEPTH_MAX);
    }
    GR_TRY(gr_path_join(full, l->dir, below, err));
    DIR *d = opendir(full);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", full);
    }
    enum gr_status status = GR_OK;
    errno = 0;
    for (struct dirent *e; status == GR_OK && (e = readdir(d)) != NULL; errno = 0) {
        const char *name = e->d_name;
        bool ours = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, ".git") != 0;
        status = ours ? take_entry(l, below, name, depth, err) : GR_OK;
    }
    if (status == GR_OK && errno != 0) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", full);
    }
    (void)closedir(d);
    return status;
}

static int by_path(const void *a, const void *b)
{
    const struct gr_upload_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

enum gr_status gr_upload_walk(const char *dir, struct gr_upload_list *out, struct gr_err *err)
{
    *out = (struct gr_upload_list){0};
    GR_TRY(gr_fs_need_dir(dir, GR_ERR_INPUT, err));
    GR_TRY(gr_path_join(out->dir, dir, "", err));
    enum gr_status status = walk(out, "", 0, err);
    if (status == GR_OK && out->n == 0) {
        status = gr_fail(err, GR_ERR_INPUT, "%s: no files in it", dir);
    }
    if (status != GR_OK) {
        gr_upload_list_free(out);
        return status;
    }
    qsort(out->files, (size_t)out->n, sizeof *out->files, by_path);
    return GR_OK;
}

static int key_to_file(const void *key, const void *file)
{
    return strcmp(key, ((const struct gr_upload_file *)file)->path);
}

struct gr_upload_file *gr_upload_find(const struct gr_upload_list *l, const char *path)
{
    return l->n == 0 ? NULL : bsearch(path, l->files, (size_t)l->n, sizeof *l->files, key_to_file);
}

void gr_upload_set_text(struct gr_upload_file *f, struct gr_buf *text)
{
    free(f->text);
    f->text = text->data;
    f->size = text->len;
    *text = (struct gr_buf){0};
}

bool gr_upload_is(const struct gr_upload_file *f, const char *oid)
{
    return strlen(oid) == 64 ? strcmp(oid, f->sha256) == 0 : strcmp(oid, f->git_oid) == 0;
}

static enum gr_status changed(const struct gr_upload_list *l, const struct gr_upload_file *f, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_INPUT, "%s%s has changed while it was being pushed; run again", l->dir, f->path);
}

enum gr_status gr_upload_open(const struct gr_upload_list *l, const struct gr_upload_file *f, int *fd,
                              struct gr_err *err)
{
    char full[GR_PATH_BYTES];
    size_t size;
    struct stat st;
    *fd = -1;
    if (f->text != NULL) {
        return GR_OK;
    }
    GR_TRY(gr_path_join(full, l->dir, f->path, err));
    GR_TRY(gr_fs_open(full, fd, &size, err));
    if (size != f->size || fstat(*fd, &st) != 0 || st.st_mtim.tv_sec != f->changed.tv_sec ||
        st.st_mtim.tv_nsec != f->changed.tv_nsec) {
        (void)close(*fd);
        *fd = -1;
        return changed(l, f, err);
    }
    return GR_OK;
}

/* Both ids of a content that comes in pieces. */
struct ids {
    struct gr_digest *sha256, *git;
};

static enum gr_status ids_begin(struct ids *d, uint64_t size, struct gr_err *err)
{
    char head[40];
    const int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
    *d = (struct ids){0};
    GR_TRY(gr_digest_new(GR_SHA256, &d->sha256, err));
    enum gr_status status = gr_digest_new(GR_SHA1, &d->git, err);
    if (status != GR_OK) {
        gr_digest_free(d->sha256);
        return status;
    }
    gr_digest_add(d->git, head, (size_t)n + 1); /* with its NUL */
    return GR_OK;
}

static void ids_add(struct ids *d, const void *bytes, size_t n)
{
    gr_digest_add(d->sha256, bytes, n);
    gr_digest_add(d->git, bytes, n);
}

static enum gr_status ids_end(struct ids *d, char sha256[GR_HUB_OID_BYTES], char git[GR_HUB_OID_BYTES],
                              struct gr_err *err)
{
    enum gr_status status = gr_digest_end(d->sha256, sha256, err);
    if (status != GR_OK) {
        gr_digest_free(d->git);
        return status;
    }
    return gr_digest_end(d->git, git, err);
}

static enum gr_status hash_file(const struct gr_upload_list *l, struct gr_upload_file *f, char *space,
                                const _Atomic bool *cancel, struct gr_err *err)
{
    int fd = -1;
    struct ids d;
    enum gr_status status = GR_OK;
    GR_TRY(gr_upload_open(l, f, &fd, err));
    if ((status = ids_begin(&d, f->size, err)) != GR_OK) {
        goto out;
    }
    for (uint64_t at = 0; at < f->size && status == GR_OK;) {
        const size_t n = f->size - at < READ_BYTES ? (size_t)(f->size - at) : READ_BYTES;
        const char *bytes = f->text != NULL ? f->text + at : space;
        if (cancel != NULL && atomic_load(cancel)) {
            status = gr_fail(err, GR_ERR_BUSY, "cancelled");
        } else if (f->text == NULL && gr_fs_read_at(fd, f->path, space, n, at, err) != GR_OK) {
            status = err->code;
        } else {
            ids_add(&d, bytes, n);
            if (at == 0) {
                memcpy(f->sample, bytes, n < sizeof f->sample ? n : sizeof f->sample);
            }
            at += n;
        }
    }
    if (status != GR_OK) {
        gr_digest_free(d.sha256);
        gr_digest_free(d.git);
        goto out;
    }
    status = ids_end(&d, f->sha256, f->git_oid, err);
out:
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

enum gr_status gr_upload_hash(struct gr_upload_list *l, const _Atomic bool *cancel, struct gr_err *err)
{
    char *space = malloc(READ_BYTES);
    enum gr_status status = space != NULL ? GR_OK : no_memory(err);
    for (int i = 0; i < l->n && status == GR_OK; i++) {
        status = hash_file(l, &l->files[i], space, cancel, err);
    }
    free(space);
    return status;
}

enum gr_status gr_upload_read(const struct gr_upload_list *l, const struct gr_upload_file *f, char **bytes,
                              struct gr_err *err)
{
    int fd = -1;
    struct ids d;
    char sha256[GR_HUB_OID_BYTES], git[GR_HUB_OID_BYTES];
    const size_t n = (size_t)f->size;
    GR_TRY(gr_upload_open(l, f, &fd, err));
    char *data = malloc(n + 1);
    enum gr_status status =
        data != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %zu bytes", f->path, n);
    if (status == GR_OK && f->text != NULL) {
        memcpy(data, f->text, n);
    } else if (status == GR_OK) {
        status = gr_fs_read_at(fd, f->path, data, n, 0, err);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status == GR_OK && (status = ids_begin(&d, f->size, err)) == GR_OK) {
        ids_add(&d, data, n);
        status = ids_end(&d, sha256, git, err);
    }
    if (status == GR_OK && strcmp(git, f->git_oid) != 0) {
        status = changed(l, f, err);
    }
    if (status != GR_OK) {
        free(data);
        return status;
    }
    data[n] = '\0';
    *bytes = data;
    return GR_OK;
}
