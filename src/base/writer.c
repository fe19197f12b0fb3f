/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c: the atomic writer of fs.h. Bytes go to ".<name>.tmp-<pid>-<counter>" beside the target; fsync, rename, fsync of
 * the folder. Readers see the old file or the new one, never a part. A failed write is remembered, so that a commit after
 * it cannot publish half a file. A lock on the temporary file says that its writer lives: process ids say nothing across
 * containers that share a folder. */
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

#include "base/fs.h"

struct gr_writer {
    int fd;
    int failed; /* errno of the first failed write */
    char path[GR_PATH_BYTES], temp[GR_PATH_BYTES], dir[GR_PATH_BYTES];
};

enum { WRITE_STEP = 1 << 30 }; /* Linux moves at most 2 GiB - 4 KiB a call */
enum { ATTEMPTS = 100 };       /* names tried; the counter goes on from one to the next */

/* Temporary names of open writers, for gr_writer_unlink_all. A writer that finds no free place is not tracked. */
enum { TRACKED = 64 };
static _Atomic(struct gr_writer *) tracked[TRACKED];

static void track(struct gr_writer *w)
{
    for (int i = 0; i < TRACKED; i++) {
        struct gr_writer *none = NULL;
        if (atomic_compare_exchange_strong(&tracked[i], &none, w)) {
            return;
        }
    }
}

static void forget(struct gr_writer *w)
{
    for (int i = 0; i < TRACKED; i++) {
        struct gr_writer *self = w;
        (void)atomic_compare_exchange_strong(&tracked[i], &self, NULL);
    }
}

void gr_writer_unlink_all(void)
{
    for (int i = 0; i < TRACKED; i++) {
        struct gr_writer *w = atomic_load(&tracked[i]);
        if (w != NULL) {
            (void)unlink(w->temp);
        }
    }
}

static enum gr_status make_names(struct gr_writer *w, const char *path, struct gr_err *err)
{
    size_t n = strlen(path);
    if (n >= sizeof w->path) {
        return gr_fail_errno(err, GR_ERR_IO, ENAMETOOLONG, "%s: cannot create", path);
    }
    if (n == 0 || path[n - 1] == '/') {
        return gr_fail(err, GR_ERR_IO, "cannot write a file called '%s'", path);
    }
    memcpy(w->path, path, n + 1);
    const char *slash = strrchr(path, '/');
    size_t dir_len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (dir_len == 0) {
        memcpy(w->dir, ".", 2);
    } else {
        memcpy(w->dir, path, dir_len);
        w->dir[dir_len] = '\0';
    }
    return GR_OK;
}

static enum gr_status make_temp_name(struct gr_writer *w, struct gr_err *err)
{
    static atomic_uint counter;
    const char *slash = strrchr(w->path, '/');
    const char *name = slash == NULL ? w->path : slash + 1;
    char temp[GR_PATH_BYTES];
    /* 200 bytes of the name at most: names end at 255 and the temporary one is longer. */
    int t = snprintf(temp, sizeof temp, ".%.200s.tmp-%ld-%u", name, (long)getpid(), atomic_fetch_add(&counter, 1u));
    if (t < 0 || (size_t)t >= sizeof temp) {
        return gr_fail(err, GR_ERR_IO, "%s: name is too long", w->path);
    }
    return gr_path_join(w->temp, w->dir, temp, err);
}

/* Creates the temporary file and locks it. A name may be taken: by a killed process of the same id, or by a live one of another container. A
 * sweep may find the file before it is locked: then another one is made. */
static enum gr_status create_temp(struct gr_writer *w, struct gr_err *err)
{
    int e = EEXIST;
    for (int i = 0; i < ATTEMPTS && e == EEXIST; i++) {
        GR_TRY(make_temp_name(w, err));
        do {
            w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        } while (w->fd < 0 && errno == EINTR);
        e = w->fd < 0 ? errno : 0;
        struct stat st;
        /* A file system without locks: no sweep can take one there either. */
        if (e == 0 && ((flock(w->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
                       (fstat(w->fd, &st) == 0 && st.st_nlink == 0))) {
            (void)close(w->fd);
            w->fd = -1;
            e = EEXIST;
        }
    }
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot create", w->path);
}

void gr_writer_sweep(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        const char *name = entry->d_name;
        if (name[0] != '.' || strncmp(name + 1, prefix, strlen(prefix)) != 0 || strstr(name, ".tmp-") == NULL) {
            continue;
        }
        int fd = openat(dirfd(d), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat mine, named;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &mine) == 0 && S_ISREG(mine.st_mode) &&
            fstatat(dirfd(d), name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == mine.st_ino &&
            named.st_dev == mine.st_dev) {
            (void)unlinkat(dirfd(d), name, 0);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    (void)closedir(d);
}

enum gr_status gr_writer_open(const char *path, struct gr_writer **out, struct gr_err *err)
{
    struct gr_writer *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to write", path);
    }
    w->fd = -1;
    enum gr_status status = make_names(w, path, err);
    if (status != GR_OK) {
        free(w);
        return status;
    }
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        free(w);
        return gr_fail(err, GR_ERR_IO, "%s: exists and is %s, expected a regular file or nothing", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a device, FIFO or socket");
    }
    track(w); /* before the file exists: a signal in between must not leave it behind */
    status = create_temp(w, err);
    if (status != GR_OK) {
        forget(w);
        free(w);
        return status;
    }
    *out = w;
    return GR_OK;
}

enum gr_status gr_writer_write(struct gr_writer *w, const void *bytes, size_t n, struct gr_err *err)
{
    const char *p = bytes;
    while (w->failed == 0 && n > 0) {
        ssize_t done = write(w->fd, p, n < WRITE_STEP ? n : WRITE_STEP);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            w->failed = done < 0 ? errno : EIO;
            break;
        }
        p += done;
        n -= (size_t)done;
    }
    return w->failed == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, w->failed, "%s: cannot write", w->path);
}

static int sync_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return 0; /* a folder that may be written but not read: the rename itself is done */
    }
    int e = fsync(fd) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
    (void)close(fd);
    return e;
}

enum gr_status gr_writer_commit(struct gr_writer *w, struct gr_err *err)
{
    enum gr_status status = GR_OK;
    int e = w->failed;
    if (e == 0 && fsync(w->fd) != 0 && errno != EINVAL) { /* EINVAL: a file system without fsync */
        e = errno;
    }
    int lock = dup(w->fd); /* the file stays locked until it has its name */
    /* Network file systems report a full disk at close. */
    if (close(w->fd) != 0 && e == 0 && errno != EINTR) {
        e = errno;
    }
    w->fd = -1;
    if (e == 0 && rename(w->temp, w->path) != 0) {
        e = errno;
    }
    if (lock >= 0) {
        (void)close(lock);
    }
    if (e != 0) {
        (void)unlink(w->temp);
        status = gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot write", w->path);
    } else if ((e = sync_folder(w->dir)) != 0) {
        status = gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot sync its folder", w->path);
    }
    forget(w);
    free(w);
    return status;
}

void gr_writer_abort(struct gr_writer *w)
{
    if (w == NULL) {
        return;
    }
    (void)close(w->fd);
    (void)unlink(w->temp);
    forget(w);
    free(w);
}

enum gr_status gr_fs_write(const char *path, const void *bytes, size_t n, struct gr_err *err)
{
    struct gr_writer *w = NULL;
    enum gr_status status = gr_writer_open(path, &w, err);
    if (status != GR_OK || w == NULL) {
        return status;
    }
    status = gr_writer_write(w, bytes, n, err);
    if (status != GR_OK) {
        gr_writer_abort(w);
        return status;
    }
    return gr_writer_commit(w, err);
}
