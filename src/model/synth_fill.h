/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_fill.h: the values of a synthetic tensor, any range of elements at a time: a pure function of family, seed, tensor
 * name and element index, so the split into ranges and threads never shows. */
#ifndef GR_MODEL_SYNTH_FILL_H
#define GR_MODEL_SYNTH_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/synth.h"
#include "model/synth_inventory.h"

struct gr_synth_filler;

/* Scratch for one thread (0.7 MB). Free with gr_synth_filler_free. */
enum gr_status gr_synth_filler_new(const struct gr_synth_config *config, enum gr_synth_weights weights, uint64_t seed,
                                   struct gr_synth_filler **out, struct gr_err *err);
void gr_synth_filler_free(struct gr_synth_filler *f); /* NULL is allowed */

/* Elements [first, first + n) of the tensor as BF16 bit patterns. The range must lie in the tensor. */
void gr_synth_fill(struct gr_synth_filler *f, const struct gr_synth_tensor *tensor, uint64_t first, size_t n,
                   uint16_t *out);

/* Factor of channel c of the outlier family: 1 for most, 20 to 60 for about 3 in 1,000. */
double gr_synth_outlier(const struct gr_synth_channels *channels, uint64_t seed, int c);

/* Rows that are multiplied in the outlier family: fills rows and returns how many (0 to 3). */
int gr_synth_boosted_rows(const struct gr_synth_config *config, const struct gr_synth_tensor *tensor, uint64_t seed,
                          uint64_t rows[3]);

/* Inverse of the standard normal distribution function, 0 < p < 1: Wichura's AS241 (PPND16, relative error about 1e-16).
 * Only + - * / sqrt and log. */
double gr_synth_probit(double p);

#endif
