/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_cache.c: paths, refs, links and locks of the Hub cache. Every name that becomes part of a path is checked here again, whoever gave it.
 * What is right already is not written again: a complete cache may be read-only. */
#include "hub/hub_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINK_TRIES = 100 };

static bool is_oid(const char *oid)
{
    const size_t n = strlen(oid);
    return (n == 40 || n == 64) && strspn(oid, "0123456789abcdef") == n;
}

static enum gr_status refuse(const char *name, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" cannot be part of a path in the Hub cache", name);
}

enum gr_status gr_cache_name(const char *id, char out[GR_CACHE_NAME_BYTES], struct gr_err *err)
{
    if (!gr_hub_is_id(id)) {
        return refuse(id, err);
    }
    const char *slash = strchr(id, '/');
    (void)snprintf(out, GR_CACHE_NAME_BYTES, "models--%.*s--%s", (int)(slash - id), id, slash + 1);
    return GR_OK;
}

enum gr_status gr_cache_model(const char *root, const char *id, char *out, struct gr_err *err)
{
    char name[GR_CACHE_NAME_BYTES];
    GR_TRY(gr_cache_name(id, name, err));
    return gr_path_join(out, root, name, err);
}

static enum gr_status below(const char *root, const char *id, const char *kind, const char *name, char *out,
                            struct gr_err *err)
{
    char model[GR_PATH_BYTES], dir[GR_PATH_BYTES];
    GR_TRY(gr_cache_model(root, id, model, err));
    GR_TRY(gr_path_join(dir, model, kind, err));
    return gr_path_join(out, dir, name, err);
}

enum gr_status gr_cache_blob(const char *root, const char *id, const char *oid, char *out, struct gr_err *err)
{
    return is_oid(oid) ? below(root, id, "blobs", oid, out, err) : refuse(oid, err);
}

enum gr_status gr_cache_snapshot(const char *root, const char *id, const char *commit, char *out, struct gr_err *err)
{
    return gr_hub_is_commit(commit) ? below(root, id, "snapshots", commit, out, err) : refuse(commit, err);
}

int gr_cache_snapshots(const char *root, const char *id, char one[GR_HUB_COMMIT_BYTES])
{
    char model[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct gr_err ignored;
    int n = 0;
    one[0] = '\0';
    if (gr_cache_model(root, id, model, &ignored) != GR_OK ||
        gr_path_join(path, model, "snapshots", &ignored) != GR_OK) {
        return 0;
    }
    DIR *d = opendir(path);
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (gr_hub_is_commit(e->d_name)) {
            memcpy(one, e->d_name, GR_HUB_COMMIT_BYTES);
            n++;
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n;
}

bool gr_cache_has(const char *root, const char *id, const struct gr_hub_file *f)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    struct stat st;
    return gr_cache_blob(root, id, f->oid, path, &ignored) == GR_OK && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == f->size;
}

/* Makes the folder that `path` is to stand in. */
static enum gr_status make_parent(const char *path, struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const size_t n = slash != NULL ? (size_t)(slash - path) : 0;
    if (n == 0 || n >= sizeof dir) {
        return GR_OK;
    }
    memcpy(dir, path, n);
    dir[n] = '\0';
    return gr_fs_is_dir(dir) ? GR_OK : gr_fs_mkdirs(dir, err);
}

/* ---- refs ---- */

static enum gr_status ref_path(const char *root, const char *id, const char *revision, char *out, struct gr_err *err)
{
    return gr_hub_is_revision(revision) ? below(root, id, "refs", revision, out, err) : refuse(revision, err);
}

static bool read_ref(const char *path, char commit[GR_HUB_COMMIT_BYTES])
{
    char *text = NULL;
    size_t n = 0;
    struct gr_err ignored;
    if (!gr_fs_is_file(path) || gr_fs_read(path, 256, &text, &n, &ignored) != GR_OK) {
        return false;
    }
    text[strcspn(text, " \r\n")] = '\0';
    const bool ok = gr_hub_is_commit(text);
    if (ok) {
        memcpy(commit, text, GR_HUB_COMMIT_BYTES);
    }
    free(text);
    return ok;
}

enum gr_status gr_cache_resolve(const char *root, const char *id, const char *revision,
                                char commit[GR_HUB_COMMIT_BYTES], struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(ref_path(root, id, revision, path, err));
    if (gr_hub_is_commit(revision)) {
        memcpy(commit, revision, GR_HUB_COMMIT_BYTES);
        return GR_OK;
    }
    if (read_ref(path, commit)) {
        return GR_OK;
    }
    char one[GR_HUB_COMMIT_BYTES];
    const int n = gr_cache_snapshots(root, id, one);
    if (n > 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s @ %s is not in the Hub cache, but %s%s@%s is: name it", id, revision,
                       n > 1 ? "for instance " : "", id, one);
    }
    return gr_fail(err, GR_ERR_FORMAT, "%s @ %s is not in the Hub cache: no commit in %.200s", id, revision, path);
}

enum gr_status gr_cache_write_ref(const char *root, const char *id, const char *revision, const char *commit,
                                  struct gr_err *err)
{
    char path[GR_PATH_BYTES], now[GR_HUB_COMMIT_BYTES];
    GR_TRY(ref_path(root, id, revision, path, err));
    if (!gr_hub_is_commit(commit)) {
        return refuse(commit, err);
    }
    if (gr_hub_is_commit(revision) || (read_ref(path, now) && strcmp(now, commit) == 0)) {
        return GR_OK;
    }
    GR_TRY(make_parent(path, err));
    return gr_fs_write(path, commit, strlen(commit), err);
}

/* ---- links ---- */

/* "../../blobs/<oid>", one "../" more for every folder in path. */
static enum gr_status link_target(const char *path, const char *oid, char *out, struct gr_err *err)
{
    struct gr_buf b = {0};
    gr_buf_puts(&b, "../../");
    for (const char *c = path; *c != '\0'; c++) {
        if (*c == '/') {
            gr_buf_puts(&b, "../");
        }
    }
    gr_buf_printf(&b, "blobs/%s", oid);
    const bool fits = !b.failed && b.len < GR_PATH_BYTES;
    if (fits) {
        memcpy(out, b.data, b.len + 1);
    }
    gr_buf_free(&b);
    return fits ? GR_OK : refuse(path, err);
}

enum gr_status gr_cache_link(const char *root, const char *id, const char *commit, const char *path, const char *oid,
                             struct gr_err *err)
{
    static atomic_uint counter;
    char dir[GR_PATH_BYTES], name[GR_PATH_BYTES], target[GR_PATH_BYTES], now[GR_PATH_BYTES], temp[GR_PATH_BYTES],
        model[GR_PATH_BYTES];
    if (!gr_hub_is_path(path) || !is_oid(oid)) {
        return refuse(path, err);
    }
    GR_TRY(gr_cache_snapshot(root, id, commit, dir, err));
    GR_TRY(gr_path_join(name, dir, path, err));
    GR_TRY(link_target(path, oid, target, err));
    const ssize_t n = readlink(name, now, sizeof now - 1);
    if (n > 0 && (size_t)n == strlen(target) && memcmp(now, target, (size_t)n) == 0) {
        return GR_OK;
    }
    GR_TRY(make_parent(name, err));
    GR_TRY(gr_cache_model(root, id, model,
                          err)); /* a link that a killed process leaves must not look like a file of the snapshot */
    for (int i = 0; i < LINK_TRIES; i++) {
        const int len =
            snprintf(temp, sizeof temp, "%s/.link-%ld-%u", model, (long)getpid(), atomic_fetch_add(&counter, 1U));
        if (len < 0 || (size_t)len >= sizeof temp) {
            return refuse(path, err);
        }
        if (symlink(target, temp) == 0) {
            if (rename(temp, name) == 0) {
                return GR_OK;
            }
            const int e = errno;
            (void)unlink(temp);
            return gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot link", name);
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot link", name);
}

/* ---- locks ---- */

enum gr_status gr_cache_try_lock(const char *root, const char *id, const char *oid, int *fd, struct gr_err *err)
{
    char name[GR_CACHE_NAME_BYTES], locks[GR_PATH_BYTES], dir[GR_PATH_BYTES], file[GR_HUB_OID_BYTES + 8],
        path[GR_PATH_BYTES];
    *fd = -1;
    if (!is_oid(oid)) {
        return refuse(oid, err);
    }
    GR_TRY(gr_cache_name(id, name, err));
    GR_TRY(gr_path_join(locks, root, ".locks", err));
    GR_TRY(gr_path_join(dir, locks, name, err));
    (void)snprintf(file, sizeof file, "%s.lock", oid);
    GR_TRY(gr_path_join(path, dir, file, err));
    GR_TRY(make_parent(path, err));
    int f;
    do {
        f = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    } while (f < 0 && errno == EINTR);
    if (f < 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create the lock", path);
    }
    while (flock(f, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            (void)close(f);
            return GR_OK;
        }
        if (errno != EINTR) {
            break; /* a file system without locks: nobody can hold one */
        }
    }
    *fd = f;
    return GR_OK;
}
