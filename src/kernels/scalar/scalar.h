/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.h: the scalar kernels, one file per family. What they compute is stated at the table in kernels.h. */
#ifndef GR_KERNELS_SCALAR_SCALAR_H
#define GR_KERNELS_SCALAR_SCALAR_H

#include "kernels/kernels.h"

void gr_scalar_gemm(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_scalar_attention(const struct gr_attention *a, void *scratch);
void gr_scalar_attention16(const struct gr_attention *a, void *scratch);
void gr_scalar_attention16_pack(const struct gr_attention *a, void *packed);
void gr_scalar_attention16_run(const struct gr_attention *a, const void *packed, void *scratch);
void gr_scalar_pack_f32(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_scalar_norm_rows(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                         int r1);
void gr_scalar_pack_u8(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_scalar_pack_i16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_scalar_pack_f16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_scalar_pack_bf16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_scalar_gemm_i8(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_scalar_gemm_i16(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_scalar_gemm_f16(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_scalar_gemm_bf16p(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_scalar_multiply_add(const struct gr_multiply *p);
void gr_scalar_rms_rope(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                        const float *sin, int r0, int r1);

/* Row r of a product's input, finished: in place where nothing is to be done to it, else in buffer [k]. */
const float *gr_scalar_source_row(const struct gr_row_source *src, int r, int k, float *buffer);
/* Epilogue and store of row r of panel p; y [columns of a panel]: bias included. */
void gr_scalar_finish_row(const struct gr_gemm *g, int p, int r, const float *y);

#endif
