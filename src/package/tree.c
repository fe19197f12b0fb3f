/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c: folders as a whole. Removal walks with descriptors and never through a link, so that a tree somebody else fills meanwhile
 * cannot lead it elsewhere. */
#include "package/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 128, FILES_MAX = 1 << 20, COPY_STEP = 1 << 20, TEMP_TRIES = 64 };

int gr_tree_clean(const char *path, char out[GR_PATH_BYTES])
{
    size_t len = 0;
    int parts = 0;
    out[0] = '\0';
    for (const char *at = path; *at != '\0';) {
        const size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            return -1;
        }
        if (n > 0 && !(n == 1 && at[0] == '.')) {
            if (len + n + 2 > GR_PATH_BYTES) {
                return -2;
            }
            if (parts++ > 0) {
                out[len++] = '/';
            }
            memcpy(out + len, at, n);
            len += n;
            out[len] = '\0';
        }
        at += n + (at[n] == '/');
    }
    return parts;
}

int gr_tree_compare(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    /* "/" ends a part and so comes before every other character */
    const int x = *a == '\0' ? 0 : *a == '/' ? 1 : 2 + (unsigned char)*a;
    const int y = *b == '\0' ? 0 : *b == '/' ? 1 : 2 + (unsigned char)*b;
    return (x > y) - (x < y);
}

static int compare_paths(const void *a, const void *b) { return gr_tree_compare(*(char *const *)a, *(char *const *)b); }

static enum gr_status list_add(struct gr_tree_list *l, const char *path, struct gr_err *err)
{
    if (l->n == l->cap) {
        const int cap = l->cap == 0 ? 64 : l->cap * 2;
        char **grown = cap <= FILES_MAX ? realloc(l->paths, (size_t)cap * sizeof *grown) : NULL;
        if (grown == NULL) {
            return gr_fail(err, cap > FILES_MAX ? GR_ERR_INPUT : GR_ERR_NOMEM, "%s: file number %d of this folder",
                           path, cap);
        }
        l->paths = grown;
        l->cap = cap;
    }
    l->paths[l->n] = strdup(path);
    return l->paths[l->n++] != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "%s: no memory to list it", path);
}

static enum gr_status walk(const char *dir, const char *prefix, int depth, struct gr_tree_list *l, struct gr_err *err)
{
    char path[GR_PATH_BYTES], name[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, prefix, err));
    if (depth > DEPTH_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s: more than %d folders deep", path, DEPTH_MAX);
    }
    DIR *d = opendir(path);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", path);
    }
    enum gr_status status = GR_OK;
    struct dirent *e;
    while (status == GR_OK && (e = readdir(d)) != NULL) {
        struct stat st, target;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        status = gr_path_join(name, prefix, e->d_name, err);
        if (status != GR_OK) {
            break;
        }
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            status = gr_fail_errno(err, GR_ERR_IO, errno, "%s/%s: cannot look at it", dir, name);
        } else if (S_ISDIR(st.st_mode)) {
            status = walk(dir, name, depth + 1, l, err);
        } else if (S_ISREG(st.st_mode) ||
                   (S_ISLNK(st.st_mode) && fstatat(dirfd(d), e->d_name, &target, 0) == 0 && S_ISREG(target.st_mode))) {
            status = list_add(l, name, err);
        } else {
            status = gr_fail(err, GR_ERR_INPUT, "%s/%s: is neither a file nor a folder", dir, name);
        }
    }
    (void)closedir(d);
    return status;
}

enum gr_status gr_tree_list(const char *dir, struct gr_tree_list *out, struct gr_err *err)
{
    *out = (struct gr_tree_list){0};
    GR_TRY(walk(dir, "", 0, out, err));
    if (out->n > 0) {
        qsort(out->paths, (size_t)out->n, sizeof *out->paths, compare_paths);
    }
    return GR_OK;
}

void gr_tree_list_free(struct gr_tree_list *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->paths[i]);
    }
    free(l->paths);
    *l = (struct gr_tree_list){0};
}

static enum gr_status copy_bytes(int in, int out, const char *from, const char *to, uint64_t *bytes, struct gr_err *err)
{
    char *step = malloc(COPY_STEP);
    if (step == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to copy", from);
    }
    enum gr_status status = GR_OK;
    *bytes = 0;
    while (status == GR_OK) {
        const ssize_t r = read(in, step, COPY_STEP);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read", from);
        }
        if (r <= 0) {
            break;
        }
        for (ssize_t at = 0; at < r && status == GR_OK;) {
            const ssize_t w = write(out, step + at, (size_t)(r - at));
            if (w < 0 && errno != EINTR) {
                status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot write", to);
            }
            at += w > 0 ? w : 0;
        }
        *bytes += (uint64_t)r;
    }
    free(step);
    return status;
}

enum gr_status gr_tree_copy(const char *from, const char *to, uint64_t *bytes, struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    const char *slash = strrchr(to, '/');
    if (slash != NULL && slash != to && (size_t)(slash - to) < sizeof dir) {
        memcpy(dir, to, (size_t)(slash - to));
        dir[slash - to] = '\0';
        GR_TRY(gr_fs_mkdirs(dir, err));
    }
    int in = -1;
    size_t size;
    struct stat st;
    uint64_t n = 0;
    GR_TRY(gr_fs_open(from, &in, &size, err));
    enum gr_status status = GR_OK;
    const mode_t mode = fstat(in, &st) == 0 && (st.st_mode & S_IXUSR) != 0 ? 0755 : 0644;
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (out < 0) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create", to);
    } else {
        status = copy_bytes(in, out, from, to, &n, err);
        (void)fchmod(out, mode); /* whatever the umask */
        if (close(out) != 0 && status == GR_OK && errno != EINTR) {
            status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot write", to);
        }
    }
    (void)close(in);
    if (bytes != NULL) {
        *bytes = n;
    }
    return status;
}

/* As nftw calls it; links stay as they are. */
static int open_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)at;
    const mode_t mode = kind == FTW_D || (st->st_mode & S_IXUSR) != 0 ? 0755 : 0644;
    return kind == FTW_SL || chmod(path, mode) == 0 ? 0 : -1;
}

enum gr_status gr_tree_open_to_readers(const char *dir, struct gr_err *err)
{
    return nftw(dir, open_one, DEPTH_MAX, FTW_PHYS) == 0
               ? GR_OK
               : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot open it to readers", dir);
}

/* 0, or the errno of what could not be removed. */
static int remove_at(int at, const char *name, int depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return errno;
    }
    const int fd = depth < DEPTH_MAX * 2 ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0) {
        return errno;
    }
    (void)fchmod(fd, 0700);
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        const int e = errno;
        (void)close(fd);
        return e;
    }
    int failed = 0;
    struct dirent *e;
    while (failed == 0 && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            failed = remove_at(fd, e->d_name, depth + 1);
        }
    }
    (void)closedir(d);
    return failed != 0 ? failed : unlinkat(at, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

int gr_tree_remove_at(int dir, const char *name) { return remove_at(dir, name, 0); }

enum gr_status gr_tree_remove(const char *path, struct gr_err *err)
{
    const int e = remove_at(AT_FDCWD, path, 0);
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot remove", path);
}

/* A folder that a dead run left: nobody holds its lock. */
static void sweep(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return;
    }
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        const size_t n = strlen(prefix);
        if (strncmp(e->d_name, prefix, n) != 0 || strlen(e->d_name) != n + 6) {
            continue;
        }
        const int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            (void)remove_at(dirfd(d), e->d_name, 0);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    (void)closedir(d);
}

/* False: between the making of the folder and its lock another process took it for a dead one and removed it. */
static bool take_lock(struct gr_tree_temp *t)
{
    struct stat mine, there;
    t->lock = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (t->lock >= 0 && flock(t->lock, LOCK_EX) != 0 && errno == EINTR) {
    }
    const bool kept = t->lock >= 0 && fstat(t->lock, &mine) == 0 && lstat(t->path, &there) == 0 &&
                      mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
    if (!kept && t->lock >= 0) {
        (void)close(t->lock);
        t->lock = -1;
    }
    return kept;
}

enum gr_status gr_tree_temp_make(const char *dir, const char *name, const char *kind, struct gr_tree_temp *out,
                                 struct gr_err *err)
{
    char prefix[512], pattern[600];
    out->lock = -1;
    out->path[0] = '\0';
    const int n = snprintf(prefix, sizeof prefix, ".%s.%s-", name, kind);
    if (n < 0 || (size_t)n >= sizeof prefix) {
        return gr_fail(err, GR_ERR_INPUT, "%s: name is too long", name);
    }
    (void)snprintf(pattern, sizeof pattern, "%sXXXXXX", prefix);
    GR_TRY(gr_fs_mkdirs(dir, err));
    sweep(dir, prefix);
    for (int i = 0; i < TEMP_TRIES; i++) {
        GR_TRY(gr_path_join(out->path, dir, pattern, err));
        if (mkdtemp(out->path) == NULL) {
            const int e = errno;
            out->path[0] = '\0';
            return gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot create a folder in it", dir);
        }
        if (take_lock(out)) {
            return GR_OK;
        }
        (void)rmdir(out->path); /* still there when it cannot be opened */
    }
    out->path[0] = '\0';
    return gr_fail(err, GR_ERR_IO, "%s: a folder made in it is removed again by another process", dir);
}

void gr_tree_temp_drop(struct gr_tree_temp *t)
{
    struct gr_err ignored;
    if (t->path[0] != '\0') {
        (void)gr_tree_remove(t->path, &ignored);
    }
    if (t->lock >= 0) {
        (void)close(t->lock);
    }
    t->path[0] = '\0';
    t->lock = -1;
}
