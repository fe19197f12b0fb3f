/* SPDX-License-Identifier: Apache-2.0
 *
 * side_files.h: the four JSON files of a snapshot as editable text, for tests of what reads them. The texts come from
 * data/snapshot_side_files.json and tests/data/config/. Helpers fail the running test instead of returning errors. */
#ifndef SIDE_FILES_H
#define SIDE_FILES_H

#include <stdbool.h>

#include "model/config.h"

enum side_file { SIDE_CONFIG, SIDE_PROCESSOR, SIDE_IDS, SIDE_STATISTICS, SIDE_FILES };

struct side_files {
    char *text[SIDE_FILES]; /* NUL-terminated, owned */
};

/* Anchors of side_files_edit: where the chosen embodiment's parts begin. */
#define SIDE_AT_GR1 "\"gr1\""
#define SIDE_AT_VIDEO SIDE_AT_GR1 "|\"video\":"
#define SIDE_AT_STATE SIDE_AT_GR1 "|\"state\":"
#define SIDE_AT_ACTION SIDE_AT_GR1 "|\"action\":"
#define SIDE_AT_RELATIVE SIDE_AT_GR1 "|\"relative_action\":"

const char *side_file_name(enum side_file which);

/* The published shapes; `tiny` takes the config.json with eagle_config. Free with side_files_free. */
void side_files_load(struct side_files *files, bool tiny);
void side_files_free(struct side_files *files);

/* Replaces the first `old` after `anchor`: texts separated by '|' that follow each other ("\"gr1\"|\"action\""), NULL: from the start. */
void side_files_edit(struct side_files *files, enum side_file which, const char *anchor, const char *old,
                     const char *new_text);
/* Replaces the number, string, array or object behind the first "key": after `anchor`. */
void side_files_set(struct side_files *files, enum side_file which, const char *anchor, const char *key,
                    const char *value);
/* The whole text. */
void side_files_put(struct side_files *files, enum side_file which, const char *text);

enum gr_status side_files_parse(const struct side_files *files, const char *tag, struct gr_config **out,
                                struct gr_err *err);
/* The config of texts that must be good ones. */
struct gr_config *side_files_config(const struct side_files *files, const char *tag);
void side_files_write(const struct side_files *files, const char *dir);

#endif
