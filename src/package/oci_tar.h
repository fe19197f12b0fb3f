/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_tar.h: the tar and gzip streams of an image layer. Writing: entries to a tar in pieces, pieces through gzip, both to a sink; equal
 * entries give equal bytes. Reading: the unpacked bytes of a layer (for its checksum), or its entries one by one. */
#ifndef GR_PACKAGE_OCI_TAR_H
#define GR_PACKAGE_OCI_TAR_H

#include <stdbool.h>

#include "package/oci.h"

struct gr_tar_sink {
    enum gr_status (*put)(void *user, const void *bytes, size_t n, struct gr_err *err);
    void *user;
};

/* oci_pack.c. The entries in the order given: times 0, owner 0, no more padding than the format's end mark. GR_ERR_INPUT: a source that
 * cannot be
 * read or that changed meanwhile. */
enum gr_status gr_tar_write(const struct gr_oci_entry *entries, int n, const struct gr_tar_sink *sink,
                            struct gr_err *err);

struct gr_gzip;
/* Level 9, header without time and name. `sink` must live until gr_gzip_end. */
enum gr_status gr_gzip_new(const struct gr_tar_sink *sink, struct gr_gzip **out, struct gr_err *err);
enum gr_status gr_gzip_add(struct gr_gzip *z, const void *bytes, size_t n, struct gr_err *err);
/* Writes the end; frees z in every case. */
enum gr_status gr_gzip_end(struct gr_gzip *z, struct gr_err *err);
void gr_gzip_free(struct gr_gzip *z); /* NULL is allowed */

/* The tar itself, to a sink. gzip: what the file must be. More than max_bytes is GR_ERR_FORMAT. */
enum gr_status gr_tar_inflate(const char *path, bool gzip, uint64_t max_bytes, const struct gr_tar_sink *sink,
                              struct gr_err *err);

enum gr_tar_kind { GR_TAR_FILE, GR_TAR_FOLDER, GR_TAR_SYMLINK, GR_TAR_HARDLINK, GR_TAR_OTHER };
struct gr_tar_item {
    const char *path, *link; /* until the next call */
    enum gr_tar_kind kind;
    int mode;
    uint64_t size;
};
struct gr_tar;
enum gr_status gr_tar_open(const char *path, bool gzip, struct gr_tar **out, struct gr_err *err);
/* *end: no more entries. GR_ERR_FORMAT: damaged. */
enum gr_status gr_tar_next(struct gr_tar *t, struct gr_tar_item *item, bool *end, struct gr_err *err);
/* Some bytes of the entry's file; *n 0: its end. */
enum gr_status gr_tar_read(struct gr_tar *t, void *out, size_t cap, size_t *n, struct gr_err *err);
void gr_tar_close(struct gr_tar *t); /* NULL is allowed */

#endif
