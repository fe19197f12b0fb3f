/* SPDX-License-Identifier: Apache-2.0
 *
 * fs.h: files: read whole, map read-only, write atomically (temporary name, fsync, rename). */
#ifndef GR_BASE_FS_H
#define GR_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Joins folder and name into out; fails with GR_ERR_IO when it does not fit. */
enum { GR_PATH_BYTES = 4096 };
enum gr_status gr_path_join(char out[GR_PATH_BYTES], const char *dir, const char *name, struct gr_err *err);

/* True when a name ends with `end`: the kind of a file. */
bool gr_ends_with(const char *name, const char *end);

bool gr_fs_is_file(const char *path);
bool gr_fs_is_dir(const char *path);
/* Fail with `code` and the reason when there is no regular file or no folder at path: absent, of another kind, a dangling
 * link; with GR_ERR_IO when looking is not allowed. */
enum gr_status gr_fs_need_file(const char *path, enum gr_status code, struct gr_err *err);
enum gr_status gr_fs_need_dir(const char *path, enum gr_status code, struct gr_err *err);
/* Where a write to path really goes: the target when path is a link, else path itself. A rename over a link would replace the
 * link, and /dev/stdout is one. Fails with GR_ERR_IO when a link leads nowhere. */
enum gr_status gr_fs_follow(char out[GR_PATH_BYTES], const char *path, struct gr_err *err);

/* Whole regular file into malloc'ed memory with a NUL behind it; more than max_bytes is an error that names both sizes. */
enum gr_status gr_fs_read(const char *path, size_t max_bytes, char **data, size_t *n, struct gr_err *err);

struct gr_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    /* Of the file when it was mapped: another one after any change to it, also one that puts the old time back. */
    uint64_t state;
};
/* Read-only private mapping of a regular file. */
enum gr_status gr_fs_map(const char *path, struct gr_map *out, struct gr_err *err);
/* Tells the kernel that [offset, offset + n) of the mapping is not needed soon; frees its pages from this process. */
void gr_fs_map_done(const struct gr_map *map, size_t offset, size_t n);
/* Tells the kernel that n bytes at data, somewhere inside a mapping, are needed soon: it reads ahead in large pieces. */
void gr_fs_map_soon(const void *data, size_t n);
void gr_fs_unmap(struct gr_map *map);

/* Opens a regular file for reading (anything else is refused by kind, a FIFO does not hang) and tells its size. close(*fd). */
enum gr_status gr_fs_open(const char *path, int *fd, size_t *size, struct gr_err *err);
/* n bytes at offset; GR_ERR_IO also when the file ends before. path: for the message. Safe from any thread. */
enum gr_status gr_fs_read_at(int fd, const char *path, void *out, size_t n, uint64_t offset, struct gr_err *err);
/* Bytes that this process may still write to the file system of an existing file or folder. */
enum gr_status gr_fs_free_bytes(const char *path, uint64_t *out, struct gr_err *err);

/* A file that appears under its name complete or not at all. */
struct gr_writer;
enum gr_status gr_writer_open(const char *path, struct gr_writer **out, struct gr_err *err);
enum gr_status gr_writer_write(struct gr_writer *w, const void *bytes, size_t n, struct gr_err *err);
/* fsync + rename; frees w in every case, removes the temporary file on failure. */
enum gr_status gr_writer_commit(struct gr_writer *w, struct gr_err *err);
/* Drops the temporary file. NULL is allowed. */
void gr_writer_abort(struct gr_writer *w);
/* Removes the temporary files of all open writers (at most 64 are tracked), for a signal handler about to end the process:
 * async-signal-safe. The writers are unusable afterwards. */
void gr_writer_unlink_all(void);
/* The three calls for text that is already in memory. */
enum gr_status gr_fs_write(const char *path, const void *bytes, size_t n, struct gr_err *err);

/* Removes what writers of files whose names begin with `prefix` left in the folder when they were killed. A writer that lives, also in
 * another process, keeps its file: it holds a lock on it. */
void gr_writer_sweep(const char *dir, const char *prefix);

/* Creates the folder and its parents. */
enum gr_status gr_fs_mkdirs(const char *path, struct gr_err *err);

#endif
