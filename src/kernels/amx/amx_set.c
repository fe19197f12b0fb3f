/* SPDX-License-Identifier: Apache-2.0
 *
 * amx_set.c: registers the AMX kernels: int8 and bf16 products on tile registers. */
#include "kernels/amx/amx.h"

void gr_kernels_amx(struct gr_kernels *table)
{
    table->isa = "amx";
    table->gemm[GR_MAT_I8] = gr_gemm_i8_amx;
    table->gemm[GR_MAT_BF16P] = gr_gemm_bf16p_amx;
    table->gemm_isa[GR_MAT_I8] = table->gemm_isa[GR_MAT_BF16P] = "amx";
    table->peak[GR_MAT_I8] = gr_peak_i8_amx;
    table->peak[GR_MAT_BF16P] = gr_peak_bf16p_amx;
}
