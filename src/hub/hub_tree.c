/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_tree.c: what a commit holds, as the cache remembers it: trees/<commit>.json (format 1 of the Python client), or the links of a snapshot
 * where no tree is kept. Both are read like foreign files: names, ids and sizes are checked. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/jsonout.h"
#include "hub/hub_cache.h"

enum { TREE_MAX_BYTES = 256 << 20, FILES_MAX = 1 << 20, DEPTH_MAX = 32, FORMAT = 1 };

/* As the Python client writes it; https://bford.info/cachedir/ */
static const char cachedir_tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                                   "# This file is a cache directory tag created by huggingface_hub.\n"
                                   "# For information about cache directory tags, see:\n"
                                   "#\thttps://bford.info/cachedir/\n";

static enum gr_status tree_path(const char *root, const char *id, const char *commit, char *dir, char *out,
                                struct gr_err *err)
{
    char model[GR_PATH_BYTES], name[GR_HUB_COMMIT_BYTES + 8];
    if (!gr_hub_is_commit(commit)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no commit", commit);
    }
    GR_TRY(gr_cache_model(root, id, model, err));
    GR_TRY(gr_path_join(dir, model, "trees", err));
    (void)snprintf(name, sizeof name, "%s.json", commit);
    return gr_path_join(out, dir, name, err);
}

static void tree_text(const struct gr_hub_repo *repo, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_int(&w, "format_version", FORMAT);
    gr_jw_put_object(&w, "files");
    for (int i = 0; i < repo->n_files; i++) {
        const struct gr_hub_file *f = &repo->files[i];
        gr_jw_put_object(&w, f->path);
        gr_jw_put_u64(&w, "size", f->size);
        gr_jw_put_string(&w, "blob_id", f->blob_id);
        if (f->lfs) {
            gr_jw_put_string(&w, "lfs_sha256", f->oid);
            gr_jw_put_u64(&w, "lfs_size", f->size);
        }
        gr_jw_end_object(&w);
    }
    gr_jw_end_object(&w);
    gr_jw_end_object(&w);
}

static bool same_files(const struct gr_hub_repo *a, const struct gr_hub_repo *b)
{
    bool same = a->n_files == b->n_files;
    for (int i = 0; same && i < a->n_files; i++) {
        const struct gr_hub_file *x = &a->files[i], *y = &b->files[i];
        same = strcmp(x->path, y->path) == 0 && strcmp(x->oid, y->oid) == 0 && x->size == y->size && x->lfs == y->lfs;
    }
    return same;
}

static enum gr_status write_tag(const char *root, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct stat st;
    GR_TRY(gr_path_join(path, root, "CACHEDIR.TAG", err));
    return lstat(path, &st) == 0 ? GR_OK : gr_fs_write(path, cachedir_tag, sizeof cachedir_tag - 1, err);
}

enum gr_status gr_cache_write_tree(const char *root, const struct gr_hub_repo *repo, struct gr_err *err)
{
    char dir[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct gr_hub_repo there = {0};
    struct gr_err ignored;
    struct gr_buf text = {0};
    GR_TRY(tree_path(root, repo->id, repo->commit, dir, path, err));
    const bool known =
        gr_cache_read_tree(root, repo->id, repo->commit, &there, &ignored) == GR_OK && same_files(&there, repo);
    gr_hub_repo_free(&there);
    if (known) {
        return write_tag(root, err);
    }
    GR_TRY(gr_fs_mkdirs(dir, err));
    GR_TRY(write_tag(root, err));
    tree_text(repo, &text);
    enum gr_status status = text.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for %s", path)
                                        : gr_fs_write(path, text.data, text.len, err);
    gr_buf_free(&text);
    if (status == GR_OK) {
        (void)chmod(path, 0600); /* a listing of a private repository */
    }
    return status;
}

/* ---- reading ---- */

static bool put_hex(const struct gr_json *v, size_t n, char *out, size_t out_bytes)
{
    const char *text = gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "";
    if (strlen(text) != n || strspn(text, "0123456789abcdef") != n || n >= out_bytes) {
        return false;
    }
    memcpy(out, text, n + 1);
    return true;
}

static bool read_file(const char *path, const struct gr_json *v, struct gr_hub_file *f)
{
    const struct gr_json *sha256 = gr_json_get(v, "lfs_sha256");
    f->lfs = gr_json_kind(sha256) == GR_JSON_STRING;
    const struct gr_json *size = gr_json_get(v, f->lfs ? "lfs_size" : "size");
    if (f->lfs && gr_json_kind(size) == GR_JSON_NULL) {
        size = gr_json_get(v, "size");
    }
    if (!gr_hub_is_path(path) || gr_json_kind(size) != GR_JSON_INT || gr_json_int(size) < 0 ||
        !put_hex(gr_json_get(v, "blob_id"), 40, f->blob_id, sizeof f->blob_id) ||
        (f->lfs && !put_hex(sha256, 64, f->oid, sizeof f->oid))) {
        return false;
    }
    if (!f->lfs) {
        memcpy(f->oid, f->blob_id, sizeof f->blob_id);
    }
    f->size = (uint64_t)gr_json_int(size);
    return true;
}

static enum gr_status read_files(const struct gr_json *root, const char *path, struct gr_hub_repo *out,
                                 struct gr_err *err)
{
    const struct gr_json *version = gr_json_get(root, "format_version"), *files = gr_json_get(root, "files");
    const size_t n = gr_json_len(files);
    if (gr_json_kind(version) != GR_JSON_INT || gr_json_int(version) != FORMAT ||
        gr_json_kind(files) != GR_JSON_OBJECT || n > FILES_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: not a tree of format 1", path);
    }
    out->files = calloc(n + 1, sizeof *out->files);
    for (void *it = gr_json_first(files); it != NULL; it = gr_json_next(files, it)) {
        struct gr_hub_file *f = out->files != NULL ? &out->files[out->n_files] : NULL;
        if (f == NULL || (f->path = strdup(gr_json_key(it))) == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path);
        }
        out->n_files++;
        if (!read_file(gr_json_key(it), gr_json_value(it), f)) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: the entry of \"%.200s\" is damaged", path, f->path);
        }
    }
    gr_hub_repo_sort(out);
    return GR_OK;
}

enum gr_status gr_cache_read_tree(const char *root, const char *id, const char *commit, struct gr_hub_repo *out,
                                  struct gr_err *err)
{
    char dir[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct gr_json *json = NULL;
    memset(out, 0, sizeof *out);
    GR_TRY(tree_path(root, id, commit, dir, path, err));
    if (!gr_fs_is_file(path)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s @ %s: the Hub cache keeps no listing (%s)", id, commit, path);
    }
    GR_TRY(gr_json_read(path, TREE_MAX_BYTES, GR_ERR_FORMAT, &json, err));
    enum gr_status status = read_files(json, path, out, err);
    gr_json_free(json);
    if (status != GR_OK) {
        gr_hub_repo_free(out);
        return status;
    }
    (void)snprintf(out->id, sizeof out->id, "%s", id);
    (void)snprintf(out->commit, sizeof out->commit, "%s", commit);
    return GR_OK;
}

/* ---- links ---- */

static enum gr_status add_link(const char *full, const char *name, struct gr_hub_repo *out, struct gr_err *err)
{
    char target[GR_PATH_BYTES];
    struct stat st;
    const ssize_t n = readlink(full, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(target, '/'), *oid = slash != NULL ? slash + 1 : target;
    const size_t len = strlen(oid);
    if (stat(full, &st) != 0) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s is a link to %s, which does not exist: mount or copy the whole Hub cache", full, target);
    }
    if (!S_ISREG(st.st_mode) || (len != 40 && len != 64) || strspn(oid, "0123456789abcdef") != len) {
        return GR_OK; /* somebody's own */
    }
    struct gr_hub_file *files =
        out->n_files < FILES_MAX ? realloc(out->files, ((size_t)out->n_files + 1) * sizeof *files) : NULL;
    if (files == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the file list", full);
    }
    out->files = files;
    struct gr_hub_file *f = &files[out->n_files];
    *f = (struct gr_hub_file){.path = strdup(name), .size = (uint64_t)st.st_size, .lfs = len == 64};
    if (f->path == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the file list", full);
    }
    memcpy(f->oid, oid, len + 1);
    out->n_files++;
    return GR_OK;
}

static enum gr_status walk(const char *dir, const char *below, int depth, struct gr_hub_repo *out, struct gr_err *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_FORMAT, errno, "%s: cannot open folder", dir);
    }
    enum gr_status status = GR_OK;
    for (struct dirent *e; status == GR_OK && (e = readdir(d)) != NULL;) {
        char full[GR_PATH_BYTES], name[GR_PATH_BYTES];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        status = gr_path_join(full, dir, e->d_name, err);
        const int n = snprintf(name, sizeof name, "%s%s%s", below, below[0] != '\0' ? "/" : "", e->d_name);
        if (status != GR_OK || n < 0 || (size_t)n >= sizeof name || !gr_hub_is_path(name) || lstat(full, &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            status = depth < DEPTH_MAX ? walk(full, name, depth + 1, out, err)
                                       : gr_fail(err, GR_ERR_FORMAT, "%s: folders nested too deep", full);
        } else if (S_ISLNK(st.st_mode)) {
            status = add_link(full, name, out, err);
        }
    }
    (void)closedir(d);
    return status;
}

enum gr_status gr_cache_read_links(const char *root, const char *id, const char *commit, struct gr_hub_repo *out,
                                   struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    memset(out, 0, sizeof *out);
    GR_TRY(gr_cache_snapshot(root, id, commit, dir, err));
    if (!gr_fs_is_dir(dir)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s @ %s is not in the Hub cache: no %s", id, commit, dir);
    }
    enum gr_status status = walk(dir, "", 0, out, err);
    if (status != GR_OK) {
        gr_hub_repo_free(out);
        return status;
    }
    gr_hub_repo_sort(out);
    (void)snprintf(out->id, sizeof out->id, "%s", id);
    (void)snprintf(out->commit, sizeof out->commit, "%s", commit);
    return GR_OK;
}
