/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.h: the network's normalised actions to physical joint targets (spec/preprocess.md 5). */
#ifndef GR_MODEL_ACTIONS_H
#define GR_MODEL_ACTIONS_H

#include "base/err.h"
#include "model/config.h"

/* normalized [horizon, max_action] float32; state as in gr_state_encode; actions [action_steps, action_dim] float32.
 * state has passed gr_state_encode. GR_ERR_DEVICE when a used value is not finite (the network's fault, never passed on);
 * GR_ERR_INPUT when the state is so large that a relative target leaves float32. */
enum gr_status gr_actions_decode(const struct gr_config *cfg, const float *normalized, const double *state, bool is_f64,
                                 float *actions, struct gr_err *err);

#endif
