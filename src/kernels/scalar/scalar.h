/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.h: the scalar kernels, one file per family. What they compute is stated at the table in kernels.h. */
#ifndef GR_KERNELS_SCALAR_SCALAR_H
#define GR_KERNELS_SCALAR_SCALAR_H

#include "kernels/kernels.h"

void gr_scalar_gemm(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_scalar_attention(const struct gr_attention *a, void *scratch);
void gr_scalar_pack_f32(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_scalar_norm_rows(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                         int r1);
void gr_scalar_rms_rope(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                        const float *sin, int r0, int r1);

#endif
