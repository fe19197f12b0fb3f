/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512bf16_set.c: registers the AVX-512 BF16 kernels: bf16 products. */
#include "kernels/avx512/peak_avx512.h"
#include "kernels/avx512bf16/avx512bf16.h"

GR_PEAK_FUNCTION(vdpbf16ps_peak, "vdpbf16ps", 32)

void gr_kernels_avx512bf16(struct gr_kernels *table)
{
    table->isa = "avx512bf16";
    table->gemm[GR_MAT_BF16P] = gr_gemm_bf16p_avx512bf16;
    table->gemm_isa[GR_MAT_BF16P] = "avx512bf16";
    table->peak[GR_MAT_BF16P] = vdpbf16ps_peak;
}
