/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.h: what a package says about itself: the authoring file tt-model.yaml (schema 5.1) and the wire manifest tt_kernel_manifest.json
 * made from it, in one struct. Rules: docs/PACKAGES.md. All strings belong to the manifest; NULL: not given. */
#ifndef GR_PACKAGE_MANIFEST_H
#define GR_PACKAGE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"

#define GR_MANIFEST_FILE "tt_kernel_manifest.json"
#define GR_MANIFEST_PIN "TT_WEIGHTS_REVISION" /* the variable that tells the service which revision to serve */

struct gr_strings {
    const char **items;
    int n;
};
struct gr_env {
    const char *name, *value;
};

struct gr_weights_ref {
    const char *repo, *revision;
    struct gr_strings allow, ignore;
    bool has_allow, has_ignore; /* given, even if empty */
};

/* One serve block; -1: a number that was not given. */
struct gr_serve_block {
    const char *name, *description; /* of a profile */
    const char *hardware, *mesh_device;
    int64_t port, max_model_len, max_num_seqs, block_size, server_timeout;
    const char *tool_parser, *reasoning_parser;
    bool has_capabilities;
    const char *additional_config; /* JSON text of the mapping */
    const char *args;              /* JSON text of the list, as given */
    struct gr_strings words;       /* the same flattened: what is appended to the command */
    struct gr_env *env;            /* in the order given */
    int n_env;
};

struct gr_code_root { /* source.tt_metal with source.code is the first one */
    const char *path; /* NULL when it is a git repository */
    const char *repo, *ref;
    struct gr_strings paths;
};

struct gr_card {
    const char *description, *quickstart, *architecture, *status, *intended_use, *out_of_scope_use, *usage,
        *performance, *limitations, *risks, *licensing, *related, *license_id, *license_name, *license_link,
        *pipeline_tag;
    struct gr_strings base_model;
};

struct gr_manifest {
    const char *schema, *name, *arch, *kind;
    const char *repo; /* push target: `repo` of the author, container.built.repo on the wire */
    struct gr_weights_ref weights;
    bool has_weights;
    struct gr_weights_ref *auxiliary;
    int n_auxiliary;
    struct gr_code_root *roots; /* authoring only */
    int n_roots;
    const char *ubuntu, *python;       /* authoring only */
    const char *registry, *repository; /* image */
    const char *app, *lock, *mesh_shape_env;
    struct gr_strings packages;
    struct gr_serve_block serve;
    struct gr_serve_block *profiles; /* at least one */
    int n_profiles;
    const char *default_profile;
    struct gr_strings verify;
    bool has_card;
    struct gr_card card;

    /* the wire manifest's own facts */
    const char *tt_metal_version, *image_tag, *image_digest, *code_dir, *code_sha256, *created_at, *hostname,
        *producer_version;
    int64_t device_count;
    void *memory; /* what the strings live in */
};

/* Authoring file. GR_ERR_FORMAT: "FILE:LINE:COLUMN: what, expected, found"; GR_ERR_IO. base: folder that source paths are checked below; NULL:
 * not checked. Free with gr_manifest_free. */
enum gr_status gr_manifest_read_yaml(const char *path, const char *base, struct gr_manifest *out, struct gr_err *err);
enum gr_status gr_manifest_parse_yaml(const char *text, size_t n, const char *what, const char *base,
                                      struct gr_manifest *out, struct gr_err *err);
/* Wire manifest, from a file or from memory (`what` for messages). GR_ERR_FORMAT names the key. */
enum gr_status gr_manifest_read_wire(const char *path, struct gr_manifest *out, struct gr_err *err);
enum gr_status gr_manifest_parse_wire(const char *text, size_t n, const char *what, struct gr_manifest *out,
                                      struct gr_err *err);
/* Two-space indent, every optional field written (null when unset). GR_ERR_NOMEM. */
enum gr_status gr_manifest_write_wire(const struct gr_manifest *m, struct gr_buf *out, struct gr_err *err);
void gr_manifest_free(struct gr_manifest *m);
/* What lets the weights change under the package: a revision that is no commit, or that the environment contradicts (possible on the wire only).
 * A sentence a line; nothing when all is well. */
void gr_manifest_doubts(const struct gr_manifest *m, struct gr_buf *out);
/* A copy of `text` that lives as long as the manifest; NULL: no memory. For what `package` fills in. */
const char *gr_manifest_keep(struct gr_manifest *m, const char *text);

/* A profile merged over `serve`: scalars replace, env merges name by name, an empty list or mapping erases nothing. name NULL: the default one.
 * GR_ERR_USAGE lists the profiles. Needs the manifest as long as it lives. Free with gr_profile_free. */
struct gr_profile {
    struct gr_serve_block block;
    int rows, cols, chips; /* 0: a mesh or board that this version does not know (possible on the wire only) */
    void *memory;
};
enum gr_status gr_manifest_profile(const struct gr_manifest *m, const char *name, struct gr_profile *out,
                                   struct gr_err *err);
void gr_profile_free(struct gr_profile *p);
/* Chips of a board label ("p150x4": 4), 0: none; mesh "P150x2" or "(1, 2)". */
int gr_hardware_chips(const char *hardware);
bool gr_mesh_shape(const char *mesh, int *rows, int *cols);
/* [a-z0-9][a-z0-9._-]*, no "..": safe as a folder, container and image name. */
bool gr_is_slug(const char *name);

#endif
