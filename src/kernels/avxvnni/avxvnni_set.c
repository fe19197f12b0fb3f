/* SPDX-License-Identifier: Apache-2.0
 *
 * avxvnni_set.c: registers the AVX-VNNI kernels: int8 and int16 products on 256-bit registers. */
#include "kernels/avxvnni/avxvnni.h"

void gr_kernels_avxvnni(struct gr_kernels *table)
{
    table->isa = "avxvnni";
    table->gemm[GR_MAT_I8] = gr_avxvnni_gemm_i8;
    table->gemm[GR_MAT_I16] = gr_avxvnni_gemm_i16;
    table->gemm_isa[GR_MAT_I8] = table->gemm_isa[GR_MAT_I16] = "avxvnni";
    table->peak[GR_MAT_I8] = gr_avxvnni_peak_i8;
    table->peak[GR_MAT_I16] = gr_avxvnni_peak_i16;
}
