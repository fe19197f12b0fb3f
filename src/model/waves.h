/* SPDX-License-Identifier: Apache-2.0
 *
 * waves.h: the times of the Euler steps and their sinusoidal embeddings (spec/model.md 7), with the float32 and float64 steps of the
 * reference. */
#ifndef GR_MODEL_WAVES_H
#define GR_MODEL_WAVES_H

#include "model/spec.h"

/* DiT time embedding, [steps, time_channels]: [cos(t f) | sin(t f)], f_i = exp(-i ln(period) / (half - 1)). */
void gr_time_waves(const struct gr_dims *d, float *out);
/* Action encoder, [steps, width]: tau = [sin(t f) | cos(t f)], f_i = exp(-i ln(period) / half). */
void gr_action_waves(const struct gr_dims *d, float *out);

#endif
