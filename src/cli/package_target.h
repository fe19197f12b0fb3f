/* SPDX-License-Identifier: Apache-2.0
 *
 * package_target.h: the package that a verb's TARGET names: a folder, a wire manifest, or ORG/NAME[@REVISION], pulled or on the Hub. */
#ifndef GR_CLI_PACKAGE_TARGET_H
#define GR_CLI_PACKAGE_TARGET_H

#include "cli/settings_tool.h"
#include "package/manifest.h"

#define GR_CATALOG_TAG "tt-model-catalog"
#define GR_PACKAGE_TAG "tt-model-cache" /* every package's */

struct gr_package_target {
    struct gr_manifest manifest;
    struct gr_buf text;        /* of the manifest, as it is */
    char id[GR_HUB_ID_BYTES];  /* "" of a path */
    char where[GR_PATH_BYTES]; /* file, or "ORG/NAME at <commit>" */
    bool installed;
};
/* Something has this name here: a folder, a file, or a link that leads nowhere, about which its reader says so. */
bool gr_is_there(const char *path);
/* GR_ERR_USAGE: an authoring file (the message has the two commands to run instead), no such thing; GR_ERR_FORMAT: the manifest; statuses of
 * gr_hub_look. Free with gr_package_target_free, also after a failure. */
enum gr_status gr_package_target(const char *target, struct gr_package_target *out, struct gr_err *err);
void gr_package_target_free(struct gr_package_target *t);

/* Manifest of a repository as it is on the Hub; repo with its files. GR_ERR_FORMAT: it has none, so it is no package. */
enum gr_status gr_package_on_hub(struct gr_hub *hub, const struct gr_hub_repo *repo, struct gr_buf *text,
                                 struct gr_manifest *out, struct gr_err *err);
bool gr_package_has_tag(const struct gr_hub_repo *repo, const char *tag);
/* What the catalog wants of a card. GR_ERR_FORMAT names what is missing. */
enum gr_status gr_package_catalog_check(const struct gr_manifest *m, const char *what, struct gr_err *err);

#endif
