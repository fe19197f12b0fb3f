/* SPDX-License-Identifier: Apache-2.0
 *
 * observation.h: observations k = 1, 2, 3 ... of a snapshot, made from nothing but its configuration: for calibration (1), for
 * checks (1 and 2) and for reports (3). Frame k of a small picture generator, state = mean + k/10 std of the statistics, the
 * demo instruction with its last word changed, noise seed 41 + k. Pure functions: same k and configuration, same bytes. */
#ifndef GR_POLICY_OBSERVATION_H
#define GR_POLICY_OBSERVATION_H

#include <stdint.h>

#include "base/err.h"
#include "gr00t.h"
#include "model/config.h"

/* EDITION: raise it whenever a picture, a state, an instruction or a seed changes: plans and packed weights on disk depend on them. */
enum { GR_SAMPLE_SIDE = 256, GR_SAMPLE_TEXT_BYTES = 80, GR_SAMPLE_REPORT = 3, GR_SAMPLE_EDITION = 2 };

struct gr_sample {
    struct gr_observation obs; /* points into the members below */
    uint8_t *rgb;              /* [n_frames, GR_SAMPLE_SIDE, GR_SAMPLE_SIDE, 3] */
    struct gr_frame *frames;
    double *state;
    char instruction[GR_SAMPLE_TEXT_BYTES];
};

/* k >= 1. Free with gr_sample_free; the struct must not be moved in between. GR_ERR_NOMEM, GR_ERR_USAGE (k). */
enum gr_status gr_sample_make(const struct gr_config *cfg, int k, struct gr_sample *out, struct gr_err *err);
void gr_sample_free(struct gr_sample *sample);

/* Picture k as camera `view` sees it: a table with a plate and round and square things, some grain. rgb [side, side, 3],
 * side GR_SAMPLE_SIDE. Integer arithmetic only. */
void gr_sample_picture(int k, int view, uint8_t *rgb);
/* Instruction k into out. */
void gr_sample_instruction(int k, char out[GR_SAMPLE_TEXT_BYTES]);

#endif
