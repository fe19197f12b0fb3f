/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512fp16_set.c: registers the AVX-512 FP16 kernels: half products. */
#include "kernels/avx512/peak_avx512.h"
#include "kernels/avx512fp16/avx512fp16.h"

GR_PEAK_FUNCTION(vfmadd231ph_peak, "vfmadd231ph", 32)

void gr_kernels_avx512fp16(struct gr_kernels *table)
{
    table->isa = "avx512fp16";
    table->gemm[GR_MAT_F16] = gr_gemm_f16_avx512fp16;
    table->gemm_isa[GR_MAT_F16] = "avx512fp16";
    table->peak[GR_MAT_F16] = vfmadd231ph_peak;
}
