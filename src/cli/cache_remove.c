/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_remove.c: what of a repository's folder in the Hub cache belongs to one snapshot alone. The snapshot's folder goes first: a run that is broken off
 * leaves blobs without a name, never a name without its blob. */
#include "cli/cache_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "package/tree.h"

/* Object ids, sorted by sort_ids. */
struct ids {
    char (*items)[GR_HUB_OID_BYTES];
    int n, cap;
};

static enum gr_status add_id(struct ids *l, const char *id, struct gr_err *err)
{
    const size_t len = strlen(id);
    if ((len != 40 && len != 64) || strspn(id, "0123456789abcdef") != len) {
        return GR_OK; /* no object: somebody's own link or file */
    }
    if (l->n == l->cap) {
        const int cap = l->cap > 0 ? 2 * l->cap : 64;
        char(*items)[GR_HUB_OID_BYTES] = realloc(l->items, (size_t)cap * sizeof *items);
        if (items == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for the files of a snapshot");
        }
        l->items = items;
        l->cap = cap;
    }
    memcpy(l->items[l->n++], id, len + 1);
    return GR_OK;
}

static int compare_ids(const void *a, const void *b) { return strcmp(a, b); }

static void sort_ids(struct ids *l)
{
    int kept = 0;
    if (l->n > 1) {
        qsort(l->items, (size_t)l->n, sizeof *l->items, compare_ids);
    }
    for (int i = 0; i < l->n; i++) {
        if (kept == 0 || strcmp(l->items[kept - 1], l->items[i]) != 0) {
            memmove(l->items[kept++], l->items[i], sizeof *l->items);
        }
    }
    l->n = kept;
}

static bool has_id(const struct ids *l, const char *id)
{
    return l->n > 0 && bsearch(id, l->items, (size_t)l->n, sizeof *l->items, compare_ids) != NULL;
}

/* Calls `each` for every entry below dir that is no folder; links are not followed. */
static enum gr_status walk(const char *dir, enum gr_status (*each)(void *user, const char *path, struct gr_err *err),
                           void *user, struct gr_err *err)
{
    char *paths[] = {(char *)(uintptr_t)dir, NULL}; /* the type of fts_open */
    FTS *f = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    enum gr_status status = GR_OK;
    if (f == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", dir);
    }
    for (const FTSENT *e; status == GR_OK && (e = fts_read(f)) != NULL;) {
        if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR) {
            status = gr_fail_errno(err, GR_ERR_IO, e->fts_errno, "%s: cannot list", e->fts_path);
        } else if (e->fts_info != FTS_D && e->fts_info != FTS_DP && e->fts_level > 0) {
            status = each(user, e->fts_path, err);
        }
    }
    (void)fts_close(f);
    return status;
}

static enum gr_status note_link(void *user, const char *path, struct gr_err *err)
{
    char target[GR_PATH_BYTES];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(target, '/');
    return slash != NULL ? add_id(user, slash + 1, err) : GR_OK;
}

static enum gr_status note_blob(void *user, const char *path, struct gr_err *err)
{
    return add_id(user, strrchr(path, '/') + 1, err);
}

/* Ids that snapshots link to: that of `commit` into mine, others into theirs. */
static enum gr_status read_links(const char *snapshots, const char *commit, struct ids *mine, struct ids *theirs,
                                 struct gr_err *err)
{
    DIR *d = opendir(snapshots);
    enum gr_status status = GR_OK;
    char path[GR_PATH_BYTES];
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && status == GR_OK; e = readdir(d)) {
        if (e->d_name[0] != '.') {
            status = gr_path_join(path, snapshots, e->d_name, err);
            status =
                status == GR_OK ? walk(path, note_link, strcmp(e->d_name, commit) == 0 ? mine : theirs, err) : status;
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    sort_ids(mine);
    sort_ids(theirs);
    return status;
}

/* A pull holds the lock of each object that it fetches. */
static enum gr_status refuse_pulled(const char *root, const char *id, const char *blobs, struct gr_err *err)
{
    static const char end[] = ".incomplete";
    DIR *d = opendir(blobs);
    enum gr_status status = GR_OK;
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && status == GR_OK; e = readdir(d)) {
        char oid[sizeof e->d_name];
        struct gr_err ignored;
        int fd = -1;
        if (gr_ends_with(e->d_name, end)) {
            (void)snprintf(oid, sizeof oid, "%.*s", (int)(strlen(e->d_name) - strlen(end)), e->d_name);
            if (gr_cache_try_lock(root, id, oid, &fd, &ignored) == GR_OK && fd < 0) {
                status = gr_fail(err, GR_ERR_BUSY, "%s is being pulled: end that first", id);
            }
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return status;
}

static enum gr_status drop_ref(void *user, const char *path, struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    struct gr_err ignored;
    (void)err;
    if (gr_fs_read(path, 256, &text, &n, &ignored) == GR_OK && strncmp(text, user, strlen(user)) == 0) {
        (void)unlink(path);
    }
    free(text);
    return GR_OK;
}

/* The listing that this program keeps, and what the Python client remembers as absent. */
static enum gr_status drop_notes(const char *model, const char *commit, struct gr_err *err)
{
    char path[GR_PATH_BYTES], name[GR_HUB_COMMIT_BYTES + 32];
    (void)snprintf(name, sizeof name, "trees/%s.json", commit);
    GR_TRY(gr_path_join(path, model, name, err));
    GR_TRY(gr_tree_remove(path, err));
    (void)snprintf(name, sizeof name, ".no_exist/%s", commit);
    GR_TRY(gr_path_join(path, model, name, err));
    GR_TRY(gr_tree_remove(path, err));
    GR_TRY(gr_path_join(path, model, "refs", err));
    return gr_fs_is_dir(path) ? walk(path, drop_ref, (void *)(uintptr_t)commit, err) : GR_OK;
}

/* Counts the blobs of `mine` that are not in `theirs`; removes them unless dry_run. */
static enum gr_status drop_blobs(const char *blobs, const struct ids *mine, const struct ids *theirs, bool dry_run,
                                 struct gr_cache_removed *out, struct gr_err *err)
{
    for (int i = 0; i < mine->n; i++) {
        char path[GR_PATH_BYTES];
        struct stat st;
        GR_TRY(gr_path_join(path, blobs, mine->items[i], err));
        if (has_id(theirs, mine->items[i]) || lstat(path, &st) != 0) {
            continue;
        }
        if (!dry_run && unlink(path) != 0 && errno != ENOENT) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot remove", path);
        }
        out->n_blobs++;
        out->bytes += (uint64_t)st.st_size;
    }
    return GR_OK;
}

static enum gr_status remove_snapshot(const char *model, const char *snapshots, const char *blobs, const char *commit,
                                      bool dry_run, struct gr_cache_removed *out, struct gr_err *err)
{
    struct ids mine = {0}, theirs = {0};
    enum gr_status status = gr_path_join(out->path, snapshots, commit, err);
    status = status == GR_OK ? read_links(snapshots, commit, &mine, &theirs, err) : status;
    if (status == GR_OK && !dry_run) {
        status = drop_notes(model, commit, err);
        status = status == GR_OK ? gr_tree_remove(out->path, err) : status;
    }
    status = status == GR_OK ? drop_blobs(blobs, &mine, &theirs, dry_run, out, err) : status;
    out->n_snapshots = 1;
    free(mine.items);
    free(theirs.items);
    return status;
}

static enum gr_status remove_model(const char *model, const char *blobs, bool dry_run, struct gr_cache_removed *out,
                                   struct gr_err *err)
{
    struct ids mine = {0}, none = {0};
    struct stat st;
    (void)snprintf(out->path, sizeof out->path, "%s", model);
    out->all = true;
    if (lstat(model, &st) == 0 &&
        S_ISLNK(st.st_mode)) { /* somebody's folder elsewhere, perhaps shared: nothing is removed through a link */
        out->link = true;
        return dry_run ? GR_OK : gr_tree_remove(model, err);
    }
    enum gr_status status = gr_fs_is_dir(blobs) ? walk(blobs, note_blob, &mine, err) : GR_OK;
    status = status == GR_OK ? drop_blobs(blobs, &mine, &none, true, out, err) : status;
    free(mine.items);
    return status == GR_OK && !dry_run ? gr_tree_remove(model, err) : status;
}

enum gr_status gr_cache_remove(const char *root, const char *id, const char *commit, bool dry_run,
                               struct gr_cache_removed *out, struct gr_err *err)
{
    char model[GR_PATH_BYTES], snapshots[GR_PATH_BYTES], blobs[GR_PATH_BYTES], path[GR_PATH_BYTES],
        one[GR_HUB_COMMIT_BYTES];
    *out = (struct gr_cache_removed){0};
    GR_TRY(gr_cache_model(root, id, model, err));
    GR_TRY(gr_path_join(snapshots, model, "snapshots", err));
    GR_TRY(gr_path_join(blobs, model, "blobs", err));
    if (commit != NULL) {
        GR_TRY(gr_cache_snapshot(root, id, commit, path, err));
    }
    if (!gr_fs_is_dir(commit != NULL ? path : model)) {
        return gr_fail(err, GR_ERR_INPUT, "%s%s%s is not in the Hub cache (%s)", id, commit != NULL ? "@" : "",
                       commit != NULL ? commit : "", root);
    }
    GR_TRY(refuse_pulled(root, id, blobs, err));
    const int n = gr_cache_snapshots(root, id, one);
    if (commit != NULL && n > 1) {
        return remove_snapshot(model, snapshots, blobs, commit, dry_run, out, err);
    }
    out->n_snapshots = n;
    return remove_model(model, blobs, dry_run, out, err);
}
