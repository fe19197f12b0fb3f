/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_layout.h: an OCI layout as read from disk, its documents checked against their digests. What oci_read.c and oci_unpack.c share. */
#ifndef GR_PACKAGE_OCI_LAYOUT_H
#define GR_PACKAGE_OCI_LAYOUT_H

#include <stdbool.h>

#include "base/json.h"
#include "package/oci.h"

enum { GR_OCI_LAYERS_MAX = 127 }; /* of overlayfs engines */
/* Of one layer, unpacked; and entries of an image. Ours have 30 MB and some hundred. */
#define GR_OCI_UNPACKED_MAX (UINT64_C(16) << 30)
enum { GR_OCI_ENTRIES_MAX = 1000000 };

struct gr_oci_blob {
    char digest[GR_OCI_DIGEST_BYTES];
    char diff_id[GR_OCI_DIGEST_BYTES]; /* layers: of the unpacked tar */
    uint64_t size;
    bool gzip;
};
struct gr_oci_layout {
    const char *dir; /* the caller's */
    struct gr_oci_blob manifest, config;
    struct gr_oci_blob layers[GR_OCI_LAYERS_MAX];
    int n_layers;
    char tag[GR_PATH_BYTES];
    struct gr_json *index, *manifest_doc, *config_doc;
};
/* Reads oci-layout, index, manifest, config and manifest.json; layers are looked at by gr_oci_layout_layers. Free in every case.
 * GR_ERR_FORMAT, GR_ERR_IO. */
enum gr_status gr_oci_layout_open(const char *dir, struct gr_oci_layout *out, struct gr_err *err);
void gr_oci_layout_free(struct gr_oci_layout *l);
/* Size, digest and unpacked digest of every layer. */
enum gr_status gr_oci_layout_layers(const struct gr_oci_layout *l, struct gr_err *err);
enum gr_status gr_oci_blob_path(const struct gr_oci_layout *l, const struct gr_oci_blob *b, char out[GR_PATH_BYTES],
                                struct gr_err *err);
void gr_oci_layout_facts(const struct gr_oci_layout *l, struct gr_oci_image *out);

#endif
