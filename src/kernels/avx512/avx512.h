/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512.h: functions of the AVX-512 set, see kernels.h for their contracts. */
#ifndef GR_KERNELS_AVX512_H
#define GR_KERNELS_AVX512_H

#include "kernels/kernels.h"

void gr_gemm_avx512(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_attention_avx512(const struct gr_attention *a, void *scratch);
void gr_pack_f32_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_pack_u8_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_pack_i16_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_pack_f16_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_pack_bf16_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_norm_rows_avx512(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                         int r1);
void gr_multiply_add_avx512(const struct gr_multiply *p);
void gr_rms_rope_avx512(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                        const float *sin, int r0, int r1);

#endif
