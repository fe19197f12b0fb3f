/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect_data.h: collects what `gr00t inspect` shows: files, configuration of every embodiment, tensors by part. */
#ifndef GR_CLI_INSPECT_DATA_H
#define GR_CLI_INSPECT_DATA_H

#include <stdint.h>

#include "base/err.h"
#include "model/config.h"
#include "model/snapshot.h"

enum gr_part { GR_PART_VISION, GR_PART_CONNECTOR, GR_PART_LANGUAGE, GR_PART_ACTION, GR_PART_UNUSED, GR_PARTS };
enum { GR_INSPECT_DTYPES = GR_U64 + 1 };

const char *gr_part_name(enum gr_part part);

struct gr_inspect_file {
    char *name;
    uint64_t bytes;
};

/* Zero-initialise; every call below adds its members. Free with gr_inspect_free. */
struct gr_inspect {
    struct gr_inspect_file *files; /* [n_files], name order; names without a leading dot, first level only */
    size_t n_files;
    struct gr_config *config;
    bool *tag_usable; /* [config->n_tags] */
    char **tag_notes; /* "1 camera, state 29, 16 x 29", or why it cannot be used */
    struct gr_snapshot *snapshot;
    size_t dtypes[GR_INSPECT_DTYPES];
    struct {
        size_t tensors;
        uint64_t bytes;
    } parts[GR_PARTS];
    const char **unused; /* [n_unused], names owned by the snapshot */
    size_t n_unused;
    char **missing; /* [n_missing], tensors the network needs and the snapshot lacks */
    size_t n_missing;
};

enum gr_status gr_inspect_files(const char *dir, struct gr_inspect *in, struct gr_err *err);
/* Statuses of gr_config_open for `tag`; other embodiments that do not open are notes, not failures. */
enum gr_status gr_inspect_config(const char *dir, const char *tag, struct gr_inspect *in, struct gr_err *err);
/* After gr_inspect_config. Statuses of gr_snapshot_open and gr_weights_open; `missing` is filled in then, `unused` is not. */
enum gr_status gr_inspect_snapshot(const char *dir, struct gr_inspect *in, struct gr_err *err);
void gr_inspect_free(struct gr_inspect *in);

#endif
