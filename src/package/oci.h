/* SPDX-License-Identifier: Apache-2.0
 *
 * oci.h: an image as an OCI layout on disk: written reproducibly (equal trees, equal digests), checked, unpacked. oci_tar.c is the only
 * file that
 * knows libarchive. The layout carries the names that skopeo, umoci, podman, docker load and ctr look for (docs/PACKAGES.md). */
#ifndef GR_PACKAGE_OCI_H
#define GR_PACKAGE_OCI_H

#include <signal.h>

#include "base/err.h"
#include "base/fs.h"
#include "package/manifest.h"

enum { GR_OCI_DIGEST_BYTES = 72 }; /* "sha256:" + 64 hex */

/* One entry of the root file system; a folder is made for every parent. */
struct gr_oci_entry {
    const char *path;   /* in the image, without leading "/" */
    const char *source; /* file whose bytes it gets; NULL: `link` or a folder */
    const char *link;   /* symbolic link to this */
    int mode;           /* 0755 */
};
struct gr_oci_layer {
    const struct gr_oci_entry *entries; /* any order; written sorted */
    int n;
};
struct gr_oci_config {
    const char *name; /* image name: tt-model/<name>:<tag> */
    struct gr_env *env;
    int n_env;
    struct gr_strings entrypoint, cmd;
    const char *user, *workdir, *stop_signal;
    struct gr_env *labels;
    int n_labels;
    int port;                          /* ExposedPorts; 0: none */
    const char *created;               /* RFC 3339; NULL: 1970 */
    const volatile sig_atomic_t *stop; /* may be NULL. Not 0: end soon with GR_ERR_CHECK */
};
struct gr_oci_image {
    char config_digest[GR_OCI_DIGEST_BYTES], manifest_digest[GR_OCI_DIGEST_BYTES];
    char tag[GR_PATH_BYTES]; /* tt-model/<name>:<12 hex of the config digest> */
    uint64_t layer_bytes;    /* compressed, all layers */
    int n_layers;
};
/* Writes `dir` new (it must not exist). GR_ERR_IO, GR_ERR_INPUT (a source that cannot be read). */
enum gr_status gr_oci_write(const char *dir, const struct gr_oci_config *cfg, const struct gr_oci_layer *layers,
                            int n_layers, struct gr_oci_image *out, struct gr_err *err);
/* Checks size and digest of every blob that index, manifest and config name. GR_ERR_FORMAT. */
enum gr_status gr_oci_check(const char *dir, struct gr_oci_image *out, struct gr_err *err);
/* Checks, then unpacks into `root` (made new; removed again on failure). Refuses absolute names, "..", and writes through links; obeys
 * whiteouts. GR_ERR_FORMAT, GR_ERR_IO. */
enum gr_status gr_oci_unpack(const char *dir, const char *root, struct gr_oci_image *out, struct gr_err *err);
/* What the image's config says, for a run without an engine. Strings live until gr_oci_run_free. */
struct gr_oci_run {
    struct gr_strings entrypoint, cmd, env; /* env: "K=V" */
    const char *user, *workdir, *stop_signal;
    void *memory;
};
enum gr_status gr_oci_read_run(const char *dir, struct gr_oci_run *out, struct gr_err *err);
void gr_oci_run_free(struct gr_oci_run *r);
/* The layout as the tar that `docker load` reads, to a descriptor: each file once, sorted, links followed. */
enum gr_status gr_oci_stream(const char *dir, int fd, struct gr_err *err);

#endif
