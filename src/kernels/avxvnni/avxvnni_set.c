/* SPDX-License-Identifier: Apache-2.0
 *
 * avxvnni_set.c: registers the AVX-VNNI kernels: int8 and int16 products on 256-bit registers. */
#include "kernels/kernels.h"

void gr_kernels_avxvnni(struct gr_kernels *table) { table->isa = "avxvnni"; }
