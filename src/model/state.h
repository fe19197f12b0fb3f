/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h: joint state to the network's state vector (spec/preprocess.md 4). */
#ifndef GR_MODEL_STATE_H
#define GR_MODEL_STATE_H

#include "base/err.h"
#include "model/config.h"

/* state [state_dim] in group order, taken in float32 (is_f64 false) or float64; out [max_state] float32, padded with zeros.
 * GR_ERR_INPUT: non-finite (also finite in double but infinite in float32), naming group and index. */
enum gr_status gr_state_encode(const struct gr_config *cfg, const double *state, int state_dim, bool is_f64, float *out,
                               struct gr_err *err);

#endif
