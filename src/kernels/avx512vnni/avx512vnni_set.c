/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512vnni_set.c: registers the AVX-512 VNNI kernels and measures the peaks of their instructions. */
#include "kernels/avx512/peak_avx512.h"
#include "kernels/avx512vnni/avx512vnni.h"

GR_PEAK_FUNCTION(vpdpbusd_peak, "vpdpbusd", 64)
GR_PEAK_FUNCTION(vpdpwssd_peak, "vpdpwssd", 32)

void gr_kernels_avx512vnni(struct gr_kernels *table)
{
    table->isa = "avx512vnni";
    table->gemm[GR_MAT_I8] = gr_gemm_i8_avx512vnni;
    table->gemm[GR_MAT_I16] = gr_gemm_i16_avx512vnni;
    table->gemm_isa[GR_MAT_I8] = table->gemm_isa[GR_MAT_I16] = "avx512vnni";
    table->attention16 = gr_attention16_avx512vnni;
    table->attention16_pack = gr_attention16_pack_avx512vnni;
    table->attention16_run = gr_attention16_run_avx512vnni;
    table->peak[GR_MAT_I8] = vpdpbusd_peak;
    table->peak[GR_MAT_I16] = vpdpwssd_peak;
}
