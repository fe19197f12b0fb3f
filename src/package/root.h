/* SPDX-License-Identifier: Apache-2.0
 *
 * root.h: the root file system of the image, as lists of files: below the program's libraries and what they need, above the program and
 * the code. */
#ifndef GR_PACKAGE_ROOT_H
#define GR_PACKAGE_ROOT_H

#include "package/build.h"
#include "package/tree.h"

struct gr_root_plan {
    const char *program;
    const char *code; /* the staged folder, and its files */
    const struct gr_tree_list *files;
    const char *scratch; /* a folder for small files of the image's own; must live as long as the root */
    const char *license, *notice;
    const char *dpkg; /* "/var/lib/dpkg" */
};
struct gr_root {
    struct gr_oci_entry *base, *app;
    int n_base, n_app;
    int n_libraries;
    bool certificates; /* were found */
    uint64_t program_bytes, root_bytes;
    struct gr_buf lock; /* text of requirements.lock */
    char **texts;       /* what the entries point to */
    int n_texts, cap_texts;
};
/* GR_ERR_INPUT: no program, or a library is missing; GR_ERR_IO. Free in every case. */
enum gr_status gr_root_make(const struct gr_root_plan *plan, struct gr_root *out, struct gr_err *err);
void gr_root_free(struct gr_root *r);

#endif
