/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h: what commands of this program may see of a policy beyond the public header: taps and the pieces of a
 * request before and after the network. */
#ifndef GR_POLICY_POLICY_H
#define GR_POLICY_POLICY_H

#include "device/device.h"
#include "gr00t.h"
#include "model/config.h"

const struct gr_config *gr_policy_config(const struct gr_policy *p);
/* Dimensions completed from the tensor shapes. */
const struct gr_dims *gr_policy_dims(const struct gr_policy *p);

/* gr_policy_predict that also hands out every tap of spec/README.md, plus "pixel_values" [3*side, side], "input_ids" (as float), "state",
 * "noise". */
enum gr_status gr_policy_predict_taps(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                      const struct gr_tap_sink *taps, struct gr_err *err);

/* gr_policy_predict on the reference path: fp32 arithmetic with another set of kernels than the served one where this machine has
 * a fast one. *kernels: its name ("avx2"), static text. */
enum gr_status gr_policy_predict_reference(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                           const char **kernels, struct gr_err *err);

#endif
