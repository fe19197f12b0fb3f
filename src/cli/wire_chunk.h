/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_chunk.h: an action chunk read back from JSON: a reply of the service, what `gr00t predict --json` prints, or what is expected of
 * them. Names and widths of the joint groups come from the text: nothing is known about the robot in advance. */
#ifndef GR_CLI_WIRE_CHUNK_H
#define GR_CLI_WIRE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "gr00t.h"

enum { GR_WIRE_TIMINGS = 16, GR_WIRE_NAME_BYTES = 80 };

struct gr_wire_timing {
    char name[24];
    double ms;
};

/* A dense table of numbers. */
struct gr_wire_matrix {
    int rows, cols;
    float *values; /* [rows, cols], NULL: absent */
};

/* Free with gr_wire_chunk_free. */
struct gr_wire_chunk {
    int n_groups;
    struct gr_group *groups; /* [n_groups]; `relative` is not in the text and false */
    int steps, dim;
    float *actions;                          /* [steps, dim] groups side by side */
    struct gr_wire_matrix valid, normalized; /* action_pred_valid_hd, action_pred_normalized */
    char model[GR_WIRE_NAME_BYTES], version[GR_WIRE_NAME_BYTES], embodiment[GR_WIRE_NAME_BYTES]; /* "" when absent */
    char noise_source[GR_WIRE_NAME_BYTES];
    bool has_seed;
    uint64_t seed;
    int64_t seq_len, prompt_tokens; /* 0 when absent */
    int n_timings;
    struct gr_wire_timing timings[GR_WIRE_TIMINGS]; /* in the order of the text */
};

/* Reads {"actions": {group: [[numbers] x steps]}, ...}, or "actions_fp32", or the same inside "expected". `what` names the source and
 * `code` is the status of a failure: reply or file. */
enum gr_status gr_wire_chunk_read(const struct gr_json *root, const char *what, enum gr_status code,
                                  struct gr_wire_chunk *out, struct gr_err *err);
/* The same from a file: GR_ERR_INPUT, GR_ERR_IO. */
enum gr_status gr_wire_chunk_load(const char *path, struct gr_wire_chunk *out, struct gr_err *err);
void gr_wire_chunk_free(struct gr_wire_chunk *c);
/* The actions of `from` in the order of `groups`, [steps, sum of their dims] malloc'ed; fails with `code` when groups or steps differ. */
enum gr_status gr_wire_chunk_align(const struct gr_wire_chunk *from, const struct gr_group *groups, int n_groups,
                                   int steps, const char *what, enum gr_status code, float **out, struct gr_err *err);
/* Milliseconds of one part, 0 when absent. */
double gr_wire_chunk_ms(const struct gr_wire_chunk *c, const char *name);

/* A line of facts, the table, a line of timings. */
void gr_wire_chunk_text(const struct gr_wire_chunk *c, int columns, struct gr_buf *out);

#endif
