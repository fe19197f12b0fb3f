/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512bf16_set.c: registers the AVX-512 BF16 kernels: bf16 products. */
#include "kernels/kernels.h"

void gr_kernels_avx512bf16(struct gr_kernels *table) { table->isa = "avx512bf16"; }
