/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.h: is a chunk of approximate arithmetic close enough to the exact one, and the observations on which a device asks that
 * while it chooses number formats. Correlation: Pearson's, over all values of both chunks side by side. */
#ifndef GR_POLICY_JUDGE_H
#define GR_POLICY_JUDGE_H

#include "base/compare.h"
#include "device/device.h"
#include "policy/encode.h"

/* Least correlation of physical actions: what every policy promises, and what a choice demands so that other observations keep it too. */
#define GR_JUDGE_PCC 0.999
#define GR_JUDGE_PCC_CHOICE 0.9995
#define GR_JUDGE_SLICE_PCC 0.999  /* of the normalised chunk, rows and columns that become actions */
#define GR_JUDGE_GROUP_PCC 0.99   /* of each action group, */
#define GR_JUDGE_GROUP_SHARE 0.01 /* unless its largest difference is within this share of its range */

struct gr_group_verdict {
    struct gr_diff diff;
    double range; /* largest minus smallest recorded value; 0: unknown */
    bool near;    /* passes by its difference alone */
    bool pass;
};

/* Group g of the physical actions [action_steps, action_dim]. */
void gr_judge_group(const struct gr_config *c, int g, const float *exact_actions, const float *actions,
                    struct gr_group_verdict *out);
/* Physical actions, which need pcc_min, and normalised chunks [horizon, max_action]. A value that is not finite does not pass. */
void gr_judge_chunks(const struct gr_config *c, const float *exact_actions, const float *actions, const float *exact,
                     const float *normalized, double pcc_min, struct gr_verdict *out);

/* For gr_calibration.user. Zero-initialise, set encoder and cancel (both borrowed), free with gr_judge_free. */
struct gr_judge {
    struct gr_encoder *encoder;
    const _Atomic bool *cancel;
    struct gr_encoded *in[GR_PLAN_OBSERVATIONS]; /* NULL: not asked for yet */
    float *actions;                              /* two decoded chunks */
};
struct gr_calibration gr_judge_calibration(struct gr_judge *j);
/* Everything but the weights that the chunks of a calibration depend on: configuration, observations, and the instructions' token ids,
 * which the tokenizer and the room for text decide. GR_ERR_NOMEM, or the prompt's. */
enum gr_status gr_judge_digest(const struct gr_encoder *e, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err);
void gr_judge_free(struct gr_judge *j);

#endif
