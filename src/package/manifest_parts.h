/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest_parts.h: what the readers of authoring and wire manifests share: values of the right type with messages that name file, place and key;
 * texts that may become paths, names or arguments; and the blocks that both have (weights, serve, card).
 * Messages: "FILE:LINE:COLUMN: KEY: what", without the place for JSON. */
#ifndef GR_PACKAGE_MANIFEST_PARTS_H
#define GR_PACKAGE_MANIFEST_PARTS_H

#include "package/manifest.h"
#include "package/manifest_node.h"

enum { GR_MANIFEST_BYTES_MAX = 1 << 20 };

struct gr_reading {
    const char *file;
    struct gr_arena *pool; /* the manifest's */
    struct gr_manifest *m;
    struct gr_err *err;
    bool wire; /* unknown keys are ignored outside serve blocks */
};
enum { GR_REQUIRED = 1, GR_NULLABLE = 2 };

/* GR_ERR_FORMAT. at: node with the place, NULL: none. where "serve", key "port": "serve.port: ..."; either may be NULL. */
enum gr_status gr_field_refuse(const struct gr_reading *r, const struct gr_node *at, const char *where, const char *key,
                               const char *fmt, ...) __attribute__((format(printf, 5, 6)));

enum gr_status gr_field_need_map(const struct gr_reading *r, const struct gr_node *node, const struct gr_node *parent,
                                 const char *where, const char *key);
/* known: NULL-terminated. */
enum gr_status gr_field_need_known(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                   const char *const *known);
/* Absent, or null with GR_NULLABLE: *out is NULL. */
enum gr_status gr_field_string(const struct gr_reading *r, const struct gr_node *map, const char *where,
                               const char *key, int flags, const char **out);
/* As gr_field_string, and 1..4096 bytes without control characters. */
enum gr_status gr_field_word(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                             int flags, const char **out);
/* -1 when absent or null. Also "8000" and 8000.0. */
enum gr_status gr_field_int(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                            int flags, int64_t min, int64_t max, int64_t *out);
/* *given (may be NULL): there, even if empty. */
enum gr_status gr_field_strings(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                const char *key, int flags, struct gr_strings *out, bool *given);
/* A list (NULL when absent, or null with GR_NULLABLE). */
enum gr_status gr_field_list(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                             int flags, const struct gr_node **out);
/* The same of at most GR_FIELD_FEW entries: what is compared each with each, or looked up by name. */
enum { GR_FIELD_FEW = 256 };
enum gr_status gr_field_few(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                            int flags, const struct gr_node **out);
const char *gr_field_at(const struct gr_reading *r, const char *where, int index); /* "serve_profiles[1]" */

/* "ORG/NAME" of letters, digits, "-._"; a commit, branch or tag name; a relative path without ".."; a container name. */
bool gr_is_repo_id(const char *text);
bool gr_is_revision_name(const char *text);
bool gr_is_inner_path(const char *text);
bool gr_is_profile_name(const char *text);
bool gr_is_image_name(const char *text);    /* also a registry, and with a tag: an engine gets it as an argument */
bool gr_is_variable_name(const char *text); /* of a shell */
bool gr_is_env_name(const char *text);      /* what a process environment can hold */

enum gr_status gr_block_weights(const struct gr_reading *r, const struct gr_node *node, const struct gr_node *parent,
                                const char *where, struct gr_weights_ref *out);
enum gr_status gr_block_serve(const struct gr_reading *r, const struct gr_node *node, const char *where, bool profile,
                              struct gr_serve_block *out);
/* Names of all profiles: given once each, and the default one among them. list: its node for places; NULL: none given. */
enum gr_status gr_block_check_profiles(const struct gr_reading *r, const struct gr_node *list, const char *where,
                                       const struct gr_node *default_profile, const char *default_key);
enum gr_status gr_block_card(const struct gr_reading *r, const struct gr_node *node, const char *where,
                             struct gr_card *out);

/* The manifest of a reading that begins: empty, with memory. */
enum gr_status gr_manifest_begin(struct gr_manifest *m, struct gr_err *err);

#endif
