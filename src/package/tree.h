/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h: whole folders: list, copy a file, remove, and temporary folders beside a target that the next run clears away when a run was
 * killed. */
#ifndef GR_PACKAGE_TREE_H
#define GR_PACKAGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

/* Relative paths of the files below a folder in path order: part by part, so that "a/x" stands before "a-b/x". */
struct gr_tree_list {
    char **paths;
    int n, cap;
};
/* Links to files count as files; other kinds and links to folders are GR_ERR_INPUT. Free in every case. */
enum gr_status gr_tree_list(const char *dir, struct gr_tree_list *out, struct gr_err *err);
void gr_tree_list_free(struct gr_tree_list *l);
/* The path without "." parts, doubled slashes and slashes at the ends. Number of its parts; -1: it has a ".." part, -2: too long. */
int gr_tree_clean(const char *path, char out[GR_PATH_BYTES]);
/* -1, 0, 1 in path order. */
int gr_tree_compare(const char *a, const char *b);

/* Bytes of a regular file to a new file; mode 0755 when the source is executable by its owner, else 0644. Parents are made. *bytes may be
 * NULL. */
enum gr_status gr_tree_copy(const char *from, const char *to, uint64_t *bytes, struct gr_err *err);
/* Folders 0755, files 0644 or, where their owner may run them, 0755: whatever the umask was. `dir` is a folder of ours: no links are in it. */
enum gr_status gr_tree_open_to_readers(const char *dir, struct gr_err *err);
/* Removes a file or a folder with all in it; links are removed, never followed. An absent one is fine. */
enum gr_status gr_tree_remove(const char *path, struct gr_err *err);
/* The same for a name in an open folder: 0, or the errno of what could not be removed. */
int gr_tree_remove_at(int dir, const char *name);

/* A new folder ".<name>.<kind>-XXXXXX" in `dir`, locked while it is in use. Folders of the same name and kind whose owner has died are
 * removed. */
struct gr_tree_temp {
    char path[GR_PATH_BYTES];
    int lock; /* descriptor; -1: closed */
};
enum gr_status gr_tree_temp_make(const char *dir, const char *name, const char *kind, struct gr_tree_temp *out,
                                 struct gr_err *err);
/* Removes the folder, if it still has its name, and the lock. Safe on a zeroed struct with lock -1. */
void gr_tree_temp_drop(struct gr_tree_temp *t);

#endif
