/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512_set.c: registers the AVX-512 kernels (F, BW, DQ, VL) and measures the multiply-add peak. */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/peak_avx512.h"

GR_PEAK_FUNCTION(fma_peak, "vfmadd231ps", 16)

void gr_kernels_avx512(struct gr_kernels *table)
{
    table->isa = "avx512";
    table->pack_rows[GR_ROWS_F32] = gr_pack_f32_avx512;
    table->pack_rows[GR_ROWS_U8] = gr_pack_u8_avx512;
    table->pack_rows[GR_ROWS_I16] = gr_pack_i16_avx512;
    table->pack_rows[GR_ROWS_F16] = gr_pack_f16_avx512;
    table->pack_rows[GR_ROWS_BF16] = gr_pack_bf16_avx512;
    table->norm_rows = gr_norm_rows_avx512;
    table->gemm[GR_MAT_F32] = table->gemm[GR_MAT_BF16] = gr_gemm_avx512;
    table->gemm_isa[GR_MAT_F32] = table->gemm_isa[GR_MAT_BF16] = "avx512";
    table->attention = gr_attention_avx512;
    table->rms_rope = gr_rms_rope_avx512;
    table->multiply_add = gr_multiply_add_avx512;
    table->peak[GR_MAT_F32] = table->peak[GR_MAT_BF16] = fma_peak;
}
