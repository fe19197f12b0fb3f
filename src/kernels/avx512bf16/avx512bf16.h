/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512bf16.h: functions of the AVX-512 BF16 set, see kernels.h for their contracts. */
#ifndef GR_KERNELS_AVX512BF16_H
#define GR_KERNELS_AVX512BF16_H

#include "kernels/kernels.h"

void gr_gemm_bf16p_avx512bf16(const struct gr_gemm *g, int p0, int p1, void *scratch);

#endif
