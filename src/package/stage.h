/* SPDX-License-Identifier: Apache-2.0
 *
 * stage.h: the files that an authoring manifest lists, copied to code/. */
#ifndef GR_PACKAGE_STAGE_H
#define GR_PACKAGE_STAGE_H

#include "package/manifest.h"

struct gr_stage {
    int n_files, n_dropped;
    uint64_t bytes;
    char dropped[256]; /* names of some that were left out: "logs, a.pyc" */
};
/* Copies what the roots list to the new folder `code`; links are followed as long as they stay inside their root. `avoid`: a folder that
 * is never
 * entered, the one being written to. GR_ERR_INPUT: an entry is missing, leads outside, or two sources differ; GR_ERR_IO. */
enum gr_status gr_stage_copy(const struct gr_manifest *m, const char *code, const char *avoid, struct gr_stage *out,
                             struct gr_err *err);
/* A pattern of packaging's list: such names never ship from inside a listed folder. */
bool gr_stage_drops(const char *name);
/* Two files with the same bytes. */
bool gr_stage_same(const char *a, const char *b);

#endif
