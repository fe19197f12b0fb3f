/* SPDX-License-Identifier: Apache-2.0
 *
 * upload_files.h: the files of a folder that goes to a Hub: names, sizes, ids of their content. Each is read once for both ids; later reads notice
 * when a file has changed since. */
#ifndef GR_HUB_UPLOAD_FILES_H
#define GR_HUB_UPLOAD_FILES_H

#include <sys/stat.h>

#include "base/fs.h"
#include "hub/hub.h"

enum { GR_UPLOAD_SAMPLE_BYTES = 512 }; /* the Hub tells text from binaries by so many */

struct gr_upload_file {
    char *path; /* in the repository; owned */
    char *text; /* what takes the place of the file's bytes [size]; NULL: nothing; owned */
    uint64_t size;
    struct timespec changed; /* mtime when it was found */
    char sha256[GR_HUB_OID_BYTES], git_oid[GR_HUB_OID_BYTES];
    unsigned char sample[GR_UPLOAD_SAMPLE_BYTES];
    bool send, lfs; /* differs from what the Hub has; large, by the Hub's decision */
    bool known;     /* the Hub has decided */
    bool there;     /* the Hub has a file of that name */
};
struct gr_upload_list {
    char dir[GR_PATH_BYTES];
    struct gr_upload_file *files; /* by path, as strcmp sorts */
    int n, cap;
};

/* All regular files below dir but those of .git; nothing is read yet. GR_ERR_INPUT: no folder, a link or another kind of file, a name that no
 * repository can hold, too many of them. */
enum gr_status gr_upload_walk(const char *dir, struct gr_upload_list *out, struct gr_err *err);
void gr_upload_list_free(struct gr_upload_list *l);
/* NULL: no such file. */
struct gr_upload_file *gr_upload_find(const struct gr_upload_list *l, const char *path);
/* Takes text->data. */
void gr_upload_set_text(struct gr_upload_file *f, struct gr_buf *text);
/* Fills in ids and samples. GR_ERR_BUSY: cancelled. */
enum gr_status gr_upload_hash(struct gr_upload_list *l, const _Atomic bool *cancel, struct gr_err *err);
/* The content has this id (SHA-256 or git blob id, by its length). */
bool gr_upload_is(const struct gr_upload_file *f, const char *oid);

/* Descriptor for reading; -1 when the file has a text. GR_ERR_INPUT: it is not what was hashed. */
enum gr_status gr_upload_open(const struct gr_upload_list *l, const struct gr_upload_file *f, int *fd,
                              struct gr_err *err);
/* Content into memory (malloc'ed, also when empty), hashed again. */
enum gr_status gr_upload_read(const struct gr_upload_list *l, const struct gr_upload_file *f, char **bytes,
                              struct gr_err *err);

#endif
