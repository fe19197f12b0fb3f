/* SPDX-License-Identifier: Apache-2.0
 *
 * stage.c: source.code and source.extra_code to code/. What ships is what is listed: caches, logs and weights inside a listed folder are
 * left
 * out and counted, and a link may not bring in what lies outside its root. */
#include "package/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "package/build.h"
#include "package/tree.h"

enum { DEPTH_MAX = 64 };

struct walk {
    const char *code, *root; /* root: as the manifest says, for messages */
    char real_root[GR_PATH_BYTES];
    struct stat avoid;
    bool has_avoid;
    struct gr_stage *out;
    struct stat above[DEPTH_MAX]; /* folders on the way down: a link back to one would never end */
};

bool gr_stage_drops(const char *name)
{
    static const char *const patterns[] = {"__pycache__", "*.pyc",  ".pytest_cache", "*.egg-info",    ".venv",
                                           "venv",        "logs",   "*.log",         "*.safetensors", "*.pt",
                                           "*.pth",       "*.ckpt", "*.bin",         "*.refpt"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (fnmatch(patterns[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

bool gr_stage_same(const char *a, const char *b)
{
    struct gr_map x = {0}, y = {0};
    struct gr_err ignored;
    if (gr_fs_map(a, &x, &ignored) != GR_OK) {
        return false;
    }
    const bool same =
        gr_fs_map(b, &y, &ignored) == GR_OK && x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
    gr_fs_unmap(&x);
    gr_fs_unmap(&y);
    return same;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void note_dropped(struct gr_stage *s, const char *name)
{
    const size_t n = strlen(s->dropped);
    s->n_dropped++;
    if (n + strlen(name) + 3 < sizeof s->dropped) {
        (void)snprintf(s->dropped + n, sizeof s->dropped - n, "%s%s", n > 0 ? ", " : "", name);
    }
}

static enum gr_status stage_file(struct walk *w, const char *from, const char *name, struct gr_err *err)
{
    char to[GR_PATH_BYTES];
    uint64_t bytes = 0;
    GR_TRY(gr_path_join(to, w->code, name, err));
    if (gr_fs_is_file(to)) { /* listed twice: as a folder and again by name */
        return gr_stage_same(from, to)
                   ? GR_OK
                   : gr_fail(err, GR_ERR_INPUT, "%s: code/%s comes from another source already", from, name);
    }
    GR_TRY(gr_tree_copy(from, to, &bytes, err));
    w->out->n_files++;
    w->out->bytes += bytes;
    return GR_OK;
}

static enum gr_status stage_node(struct walk *w, const char *name, int depth, struct gr_err *err);

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static enum gr_status stage_folder(struct walk *w, const char *path, const char *name, int depth, struct gr_err *err)
{
    struct dirent **list = NULL;
    const int n = scandir(path, &list, NULL, by_name);
    if (n < 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", path);
    }
    enum gr_status status = GR_OK;
    for (int i = 0; i < n; i++) {
        char child[GR_PATH_BYTES];
        const char *leaf = list[i]->d_name;
        if (status != GR_OK || strcmp(leaf, ".") == 0 || strcmp(leaf, "..") == 0) {
            ;
        } else if (gr_stage_drops(leaf)) {
            note_dropped(w->out, leaf);
        } else {
            status = gr_path_join(child, name, leaf, err);
            status = status == GR_OK ? stage_node(w, child, depth + 1, err) : status;
        }
        free(list[i]);
    }
    free(list);
    return status;
}

/* True when the real place of a path is below the real root. */
static enum gr_status stays_inside(const struct walk *w, const char *path, struct gr_err *err)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return gr_fail_errno(err, GR_ERR_INPUT, errno, "%s: cannot follow", path);
    }
    const size_t n = strlen(w->real_root);
    const bool inside =
        strcmp(w->real_root, "/") == 0 || (strncmp(real, w->real_root, n) == 0 && (real[n] == '/' || real[n] == '\0'));
    const enum gr_status status =
        inside
            ? GR_OK
            : gr_fail(
                  err, GR_ERR_INPUT,
                  "%s: is a link to %s, outside of %s: put a copy in place of the link, or list the folder of what it "
                  "points to as a root of source.extra_code",
                  path, real, w->root);
    free(real);
    return status;
}

static enum gr_status not_there(const char *path, int e, struct gr_err *err)
{
    char target[GR_PATH_BYTES];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0) {
        return gr_fail_errno(err, GR_ERR_INPUT, e, "%s: listed in the manifest, but it cannot be read", path);
    }
    target[n] = '\0';
    return gr_fail_errno(err, GR_ERR_INPUT, e,
                         "%s: is a link to %s, which cannot be read: remove the link, or put the file there", path,
                         target);
}

static enum gr_status stage_node(struct walk *w, const char *name, int depth, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct stat st;
    GR_TRY(gr_path_join(path, w->root, name, err));
    if (stat(path, &st) != 0) {
        return not_there(path, errno, err);
    }
    GR_TRY(stays_inside(w, path, err));
    if (S_ISREG(st.st_mode)) {
        return stage_file(w, path, name, err);
    }
    if (!S_ISDIR(st.st_mode)) {
        return gr_fail(err, GR_ERR_INPUT, "%s: is neither a file nor a folder", path);
    }
    if (w->has_avoid && same_file(&st, &w->avoid)) {
        note_dropped(w->out, name[0] != '\0' ? name : ".");
        return GR_OK;
    }
    if (depth >= DEPTH_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s: more than %d folders deep", path, DEPTH_MAX);
    }
    for (int i = 0; i < depth; i++) {
        if (same_file(&w->above[i], &st)) {
            return gr_fail(err, GR_ERR_INPUT, "%s: is a link to a folder that it is in", path);
        }
    }
    w->above[depth] = st;
    return stage_folder(w, path, name, depth, err);
}

/* "./a//b/" -> "a/b" */
static enum gr_status clean_entry(const char *entry, char out[GR_PATH_BYTES], struct gr_err *err)
{
    const bool good =
        entry[0] != '/' && entry[0] != '\0' && strlen(entry) < GR_PATH_BYTES - 1 && gr_tree_clean(entry, out) >= 0;
    return good ? GR_OK
                : gr_fail(err, GR_ERR_FORMAT, "source: \"%.200s\" is no path below its root (no leading /, no ..)",
                          entry);
}

static enum gr_status stage_root(struct walk *w, const struct gr_code_root *r, struct gr_err *err)
{
    if (r->path == NULL) {
        return gr_fail(
            err, GR_ERR_INPUT,
            "source: %s at %s is a git repository, which a native package does not build; check it out and give its folder",
            r->repo != NULL ? r->repo : "?", r->ref != NULL ? r->ref : "?");
    }
    GR_TRY(gr_fs_need_dir(r->path, GR_ERR_INPUT, err));
    char *real = realpath(r->path, NULL);
    if (real == NULL || strlen(real) >= sizeof w->real_root) {
        free(real);
        return gr_fail_errno(err, GR_ERR_INPUT, errno, "%s: cannot follow", r->path);
    }
    memcpy(w->real_root, real, strlen(real) + 1);
    free(real);
    w->root = r->path;
    for (int i = 0; i < r->paths.n; i++) {
        char name[GR_PATH_BYTES];
        GR_TRY(clean_entry(r->paths.items[i], name, err));
        GR_TRY(stage_node(w, name, 0, err));
    }
    return GR_OK;
}

enum gr_status gr_stage_copy(const struct gr_manifest *m, const char *code, const char *avoid, struct gr_stage *out,
                             struct gr_err *err)
{
    struct walk *w = calloc(1, sizeof *w);
    *out = (struct gr_stage){0};
    if (w == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory to stage code");
    }
    w->code = code;
    w->out = out;
    w->has_avoid = avoid != NULL && stat(avoid, &w->avoid) == 0;
    enum gr_status status = gr_fs_mkdirs(code, err);
    for (int i = 0; i < m->n_roots && status == GR_OK; i++) {
        status = stage_root(w, &m->roots[i], err);
    }
    free(w);
    if (status == GR_OK && out->n_files == 0) {
        status = gr_fail(err, GR_ERR_INPUT, "source.code: no file to ship is left in what it lists%s%s",
                         out->n_dropped > 0 ? "; left out: " : "", out->dropped);
    }
    return status;
}

static enum gr_status add_file(struct gr_digest *d, const char *dir, const char *name, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_map map;
    GR_TRY(gr_path_join(path, dir, name, err));
    GR_TRY(gr_fs_map(path, &map, err));
    gr_digest_add(d, name, strlen(name));
    if (map.size > 0) {
        gr_digest_add(d, map.data, map.size);
    }
    gr_fs_unmap(&map);
    return GR_OK;
}

enum gr_status gr_stage_digest(const char *dir, char hex[65], struct gr_err *err)
{
    struct gr_tree_list list;
    struct gr_digest *d = NULL;
    enum gr_status status = gr_tree_list(dir, &list, err);
    if (status == GR_OK) {
        status = gr_digest_new(GR_SHA256, &d, err);
    }
    for (int i = 0; i < list.n && status == GR_OK; i++) {
        status = add_file(d, dir, list.paths[i], err);
    }
    gr_tree_list_free(&list);
    if (status != GR_OK) {
        gr_digest_free(d);
        return status;
    }
    return gr_digest_end(d, hex, err);
}
