/* SPDX-License-Identifier: Apache-2.0
 *
 * fs.c: reading and mapping regular files. Paths come from people and from other files, so everything that is not a
 * regular file is refused by kind: opening a FIFO must not hang, a link into a cache that is not there is named. */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"

enum { PAGE = 4096, READ_STEP = 1 << 16 };

enum gr_status gr_path_join(char out[GR_PATH_BYTES], const char *dir, const char *name, struct gr_err *err)
{
    size_t n = strlen(dir);
    const char *slash = n > 0 && dir[n - 1] != '/' ? "/" : "";
    int w = snprintf(out, GR_PATH_BYTES, "%s%s%s", dir, slash, name);
    if (w < 0 || w >= GR_PATH_BYTES) {
        return gr_fail(err, GR_ERR_IO, "path of %zu bytes is too long (limit %d): %s/%s", n + strlen(name) + 1,
                       GR_PATH_BYTES - 1, dir, name);
    }
    return GR_OK;
}

bool gr_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

bool gr_fs_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool gr_fs_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *kind_name(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISREG(mode)  ? "a file"
                            : "not a regular file";
}

/* Fails with the target's name when path is a link to nothing, the usual reason when just part of a cache was mounted. */
static bool dangles(const char *path, enum gr_status code, struct gr_err *err)
{
    char target[512];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) {
        return false;
    }
    target[n] = '\0';
    (void)gr_fail(err, code,
                  "%s: is a link to %s, which does not exist; is the whole cache mounted? if it is, pull again", path,
                  target);
    return true;
}

static enum gr_status open_failed(const char *path, int errnum, struct gr_err *err)
{
    if (errnum == ENOENT && dangles(path, GR_ERR_IO, err)) {
        return GR_ERR_IO;
    }
    return gr_fail_errno(err, GR_ERR_IO, errnum, "%s: cannot open", path);
}

static enum gr_status need(const char *path, bool dir, enum gr_status code, struct gr_err *err)
{
    const char *kind = dir ? "folder" : "file";
    struct stat st;
    if (*path == '\0') {
        return gr_fail(err, code, "the name of a %s is empty", kind);
    }
    if (stat(path, &st) == 0) {
        return (dir ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode))
                   ? GR_OK
                   : gr_fail(err, code, "%s: is %s, expected a %s", path, kind_name(st.st_mode),
                             dir ? kind : "regular file");
    }
    int e = errno;
    if (e == ENOENT) {
        return dangles(path, code, err) ? code : gr_fail(err, code, "%s: no such %s", path, kind);
    }
    return gr_fail_errno(err, e == EACCES ? GR_ERR_IO : code, e, "%s: cannot open", path);
}

enum gr_status gr_fs_need_file(const char *path, enum gr_status code, struct gr_err *err)
{
    return need(path, false, code, err);
}

enum gr_status gr_fs_need_dir(const char *path, enum gr_status code, struct gr_err *err)
{
    return need(path, true, code, err);
}

enum gr_status gr_fs_follow(char out[GR_PATH_BYTES], const char *path, struct gr_err *err)
{
    struct stat st;
    char *target = NULL;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        target = realpath(path, NULL);
        if (target == NULL) {
            return open_failed(path, errno, err);
        }
    }
    enum gr_status status = GR_OK;
    const char *to = target != NULL ? target : path;
    if (strlen(to) >= GR_PATH_BYTES) {
        status = gr_fail_errno(err, GR_ERR_IO, ENAMETOOLONG, "%s: cannot write", path);
    } else {
        memcpy(out, to, strlen(to) + 1);
    }
    free(target);
    return status;
}

enum gr_status gr_fs_open(const char *path, int *fd, size_t *size, struct gr_err *err)
{
    int f;
    do {
        f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (f < 0 && errno == EINTR);
    if (f < 0) {
        return open_failed(path, errno, err);
    }
    struct stat st;
    if (fstat(f, &st) != 0) {
        int e = errno;
        (void)close(f);
        return gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot stat", path);
    }
    if (!S_ISREG(st.st_mode)) {
        (void)close(f);
        return gr_fail(err, GR_ERR_IO, "%s: is %s, expected a regular file", path, kind_name(st.st_mode));
    }
    *fd = f;
    *size = (size_t)st.st_size;
    return GR_OK;
}

/* Reads up to n bytes; fewer only at the end of the file. -1 with errno on failure. */
static ssize_t read_full(int fd, char *data, size_t n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t r = read(fd, data + got, n - got);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            return -1;
        }
        if (r == 0) {
            break;
        }
        got += (size_t)r;
    }
    return (ssize_t)got;
}

/* The size stat reports is a hint only: files under /proc say 0, and a file may grow while it is read. */
static enum gr_status slurp(int fd, const char *path, size_t hint, size_t max_bytes, char **data, size_t *n,
                            struct gr_err *err)
{
    size_t cap = (hint < max_bytes ? hint : max_bytes) + 2, len = 0;
    char *buf = NULL;
    for (;;) {
        char *grown = realloc(buf, cap);
        if (grown == NULL) {
            free(buf);
            return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %zu bytes", path, cap);
        }
        buf = grown;
        ssize_t r = read_full(fd, buf + len, cap - 1 - len);
        if (r < 0) {
            int e = errno;
            free(buf);
            return gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot read", path);
        }
        len += (size_t)r;
        if (len > max_bytes) {
            free(buf);
            return gr_fail(err, GR_ERR_IO, "%s: more than %zu bytes, the limit here", path, max_bytes);
        }
        if (len < cap - 1) {
            break;
        }
        cap += cap / 2 + READ_STEP;
    }
    buf[len] = '\0';
    *data = buf;
    *n = len;
    return GR_OK;
}

enum gr_status gr_fs_read(const char *path, size_t max_bytes, char **data, size_t *n, struct gr_err *err)
{
    int fd = -1;
    size_t size = 0;
    GR_TRY(gr_fs_open(path, &fd, &size, err));
    enum gr_status status;
    if (size > max_bytes) {
        status = gr_fail(err, GR_ERR_IO, "%s: %zu bytes, the limit here is %zu", path, size, max_bytes);
    } else {
        status = slurp(fd, path, size, max_bytes, data, n, err);
    }
    (void)close(fd);
    return status;
}

enum gr_status gr_fs_read_at(int fd, const char *path, void *out, size_t n, uint64_t offset, struct gr_err *err)
{
    char *p = out;
    while (n > 0) {
        ssize_t r = pread(fd, p, n, (off_t)offset);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read", path);
        }
        if (r == 0) {
            return gr_fail(err, GR_ERR_IO, "%s: ends %zu bytes too early", path, n);
        }
        p += r;
        n -= (size_t)r;
        offset += (uint64_t)r;
    }
    return GR_OK;
}

enum gr_status gr_fs_free_bytes(const char *path, uint64_t *out, struct gr_err *err)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot tell the free space", path);
    }
    uint64_t blocks = fs.f_bavail, size = fs.f_frsize;
    *out = size > 0 && blocks > UINT64_MAX / size ? UINT64_MAX : blocks * size;
    /* Writing past this limit would end the process with SIGXFSZ. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < *out) {
        *out = limit.rlim_cur;
    }
    return GR_OK;
}

enum gr_status gr_fs_map(const char *path, struct gr_map *out, struct gr_err *err)
{
    int fd = -1;
    size_t size = 0;
    GR_TRY(gr_fs_open(path, &fd, &size, err));
    struct stat st;
    struct gr_map map = {.size = size};
    enum gr_status status = fstat(fd, &st) == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot stat", path);
    if (status == GR_OK) {
        const uint64_t facts[] = {(uint64_t)st.st_ino,         (uint64_t)st.st_size,
                                  (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec,
                                  (uint64_t)st.st_ctim.tv_sec, (uint64_t)st.st_ctim.tv_nsec};
        map.state = gr_hash64(facts, sizeof facts, 0);
    }
    if (status == GR_OK && size > 0) {
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot map %zu bytes", path, size);
        } else {
            map.data = p;
        }
    }
    (void)close(fd);
    if (status == GR_OK) {
        *out = map;
    }
    return status;
}

void gr_fs_map_done(const struct gr_map *map, size_t offset, size_t n)
{
    if (map->data == NULL || offset >= map->size) {
        return;
    }
    if (n > map->size - offset) {
        n = map->size - offset;
    }
    /* Only pages that lie wholly inside; the last page of the file counts as whole. The mapping starts on a page. */
    size_t from = (offset + PAGE - 1) / PAGE * PAGE;
    size_t to = offset + n == map->size ? (map->size + PAGE - 1) / PAGE * PAGE : (offset + n) / PAGE * PAGE;
    if (from < to) {
        (void)madvise((uint8_t *)(uintptr_t)map->data + from, to - from, MADV_DONTNEED);
    }
}

void gr_fs_map_soon(const void *data, size_t n)
{
    uintptr_t from = (uintptr_t)data / PAGE * PAGE;
    (void)madvise((void *)from, n + ((uintptr_t)data - from), MADV_WILLNEED);
}

void gr_fs_unmap(struct gr_map *map)
{
    if (map->data != NULL) {
        (void)munmap((uint8_t *)(uintptr_t)map->data, map->size);
    }
    *map = (struct gr_map){0};
}

enum gr_status gr_fs_mkdirs(const char *path, struct gr_err *err)
{
    char part[GR_PATH_BYTES];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        return gr_fail_errno(err, GR_ERR_IO, n == 0 ? ENOENT : ENAMETOOLONG, "%s: cannot create folder", path);
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0') {
            continue;
        }
        char kept = part[i];
        part[i] = '\0';
        int e = mkdir(part, 0777) != 0 ? errno : 0;
        if (e != 0 && !gr_fs_is_dir(part)) {
            return gr_fail_errno(err, GR_ERR_IO, e == EEXIST ? ENOTDIR : e, "%s: cannot create folder", part);
        }
        part[i] = kept;
    }
    return GR_OK;
}
