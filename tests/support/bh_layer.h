/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_layer.h: what tests of single layers on a rig share. */
#ifndef BH_LAYER_H
#define BH_LAYER_H

#include "bh_rig.h"

/* n values in [-scale, scale) that bf16 holds, malloc'ed; the same sequence in every run. */
float *bh_layer_uniform(size_t n, float scale);
/* An input or output of the build. */
void bh_layer_io(struct bh_rig *r, bool in, const char *name, struct gr_bh_buf buf, enum gr_bh_place place, int rows,
                 int cols);
/* Relative rms at most `bound`, else the test fails and names what, and the width d. */
void bh_layer_near(const char *what, int d, const float *got, const double *want, size_t n, double bound);

#endif
