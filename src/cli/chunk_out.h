/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk_out.h: an action chunk for people (table, plot) and programs (JSON, the fields of the service's reply). */
#ifndef GR_CLI_CHUNK_OUT_H
#define GR_CLI_CHUNK_OUT_H

#include "base/buf.h"
#include "base/err.h"
#include "gr00t.h"

struct gr_chunk_view {
    const struct gr_info *info;
    const struct gr_observation *obs;
    const struct gr_chunk *chunk;
    const float *golden; /* [steps, dim], NULL: none */
    double decode_ms;    /* reading and decoding the pictures */
};

/* Statuses of gr_reply_chunk. */
enum gr_status gr_chunk_json(const struct gr_chunk_view *view, struct gr_buf *out, struct gr_err *err);
/* A line of facts, the table no wider than `columns`, one line of timings. */
void gr_chunk_text(const struct gr_chunk_view *view, int columns, struct gr_buf *out);
void gr_chunk_plot(const struct gr_chunk_view *view, struct gr_buf *out);

/* The fp32 actions of CASE_DIR/expected.json, [action_steps, action_dim] malloc'ed. GR_ERR_INPUT, GR_ERR_IO. */
enum gr_status gr_golden_read(const char *case_dir, const struct gr_info *info, float **actions, struct gr_err *err);

/* Which part of the observation is not the case's (its obs.json): "the instruction", "the seed", "the noise", "the state", "the picture".
 * NULL: none is, or nothing there says. */
const char *gr_golden_differs(const char *case_dir, const struct gr_info *info, const struct gr_observation *obs);

#endif
