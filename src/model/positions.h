/* SPDX-License-Identifier: Apache-2.0
 *
 * positions.h: the vision tower's position table resized to the patch grid, and rotary tables of the language model: what depends on
 * the checkpoint alone (spec/model.md 4, 6), with the float32 and float64 steps of the reference. */
#ifndef GR_MODEL_POSITIONS_H
#define GR_MODEL_POSITIONS_H

#include "base/err.h"
#include "formats/safetensors.h"
#include "model/spec.h"

/* table [table_side^2, hidden] to out [patches, hidden], raster order. */
enum gr_status gr_resize_positions(const struct gr_dims *d, const struct gr_tensor *table, float *out,
                                   struct gr_err *err);
/* cosine, sine [rows, head_dim / 2]. */
void gr_rotary_tables(const struct gr_dims *d, int rows, float *cosine, float *sine);

#endif
