/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512vnni.h: functions of the AVX-512 VNNI set, see kernels.h for their contracts. */
#ifndef GR_KERNELS_AVX512VNNI_H
#define GR_KERNELS_AVX512VNNI_H

#include "kernels/kernels.h"

void gr_gemm_i8_avx512vnni(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_gemm_i16_avx512vnni(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_attention16_avx512vnni(const struct gr_attention *a, void *scratch);
void gr_attention16_pack_avx512vnni(const struct gr_attention *a, void *packed);
void gr_attention16_run_avx512vnni(const struct gr_attention *a, const void *packed, void *scratch);

#endif
