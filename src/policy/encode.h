/* SPDX-License-Identifier: Apache-2.0
 *
 * encode.h: an observation to what the device reads: image chain, tokenizer, state, noise. The tables and scratch of the four are an
 * encoder; what comes out is a gr_encoded, which knows its encoder no more, so that one can be computed while the next is filled. */
#ifndef GR_POLICY_ENCODE_H
#define GR_POLICY_ENCODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "gr00t.h"
#include "model/config.h"
#include "model/preprocess.h"
#include "model/prompt.h"

struct gr_encoder {
    const struct gr_config *config;
    const struct gr_dims *dims;
    struct gr_prompt *prompt;         /* owned */
    struct gr_preprocess *preprocess; /* owned */
    uint8_t *u8;                      /* [side, side, 3], owned */
    int n_images;
    const _Atomic bool *cancel;
};

struct gr_encoded {
    const struct gr_policy *policy;
    uint64_t serial; /* of the observation in it: every encode that succeeds takes a new one; 0: it is not filled */
    int n_images, n_tokens, n_text;
    float *pixels;        /* [n_images, 3, side, side] */
    int32_t *ids;         /* [n_tokens] */
    float *state, *noise; /* [max_state], [horizon, max_action] */
    double *raw_state;    /* [state_dim]: relative actions are composed onto it */
    bool state_f64;
    double ms; /* that the encode took */
};

/* Allocates u8; the caller sets the rest before the first run. GR_ERR_NOMEM. */
enum gr_status gr_encoder_init(struct gr_encoder *e, struct gr_err *err);
void gr_encoder_free(struct gr_encoder *e); /* what it owns */

/* Memory for one request; free with gr_encoded_free. GR_ERR_NOMEM. */
enum gr_status gr_encoder_space(const struct gr_encoder *e, struct gr_encoded **out, struct gr_err *err);
/* Statuses of gr_policy_encode. Allocates nothing. */
enum gr_status gr_encoder_run(struct gr_encoder *e, const struct gr_observation *obs, struct gr_encoded *out,
                              struct gr_err *err);
/* What the device gets; borrows. */
struct gr_model_input gr_encoded_input(const struct gr_encoded *in, const _Atomic bool *cancel);

#endif
