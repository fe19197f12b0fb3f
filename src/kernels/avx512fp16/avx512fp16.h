/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512fp16.h: functions of the AVX-512 FP16 set, see kernels.h for their contracts. */
#ifndef GR_KERNELS_AVX512FP16_H
#define GR_KERNELS_AVX512FP16_H

#include "kernels/kernels.h"

void gr_gemm_f16_avx512fp16(const struct gr_gemm *g, int p0, int p1, void *scratch);

#endif
