/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512fp16_set.c: registers the AVX-512 FP16 kernels: half products. */
#include "kernels/kernels.h"

void gr_kernels_avx512fp16(struct gr_kernels *table) { table->isa = "avx512fp16"; }
