/* SPDX-License-Identifier: Apache-2.0
 *
 * avx2_set.c: puts the AVX2 kernels into the table and measures the multiply-add peak of 256-bit vectors. */
#include "kernels/avx2/avx2.h"

#include "base/clock.h"

/* 12 chains: multiply-adds have 4 to 5 cycles of latency and two start per cycle. */
enum { PEAK_CHAINS = 12, PEAK_STEPS = 40000, PEAK_RUNS = 5 };

static __m256 chains(__m256 x, __m256 y)
{
    __m256 acc[PEAK_CHAINS];
    GR_AVX2_UNROLL
    for (int i = 0; i < PEAK_CHAINS; i++) {
        acc[i] = _mm256_set1_ps((float)i);
    }
    for (int step = 0; step < PEAK_STEPS; step++) {
        GR_AVX2_UNROLL
        for (int i = 0; i < PEAK_CHAINS; i++) {
            acc[i] = _mm256_fmadd_ps(acc[i], x, y);
        }
    }
    GR_AVX2_UNROLL
    for (int i = 1; i < PEAK_CHAINS; i++) {
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    }
    return acc[0];
}

static double avx2_fma_peak(void)
{
    static const volatile float seed[2] = {0.999f, 1e-3f};
    volatile float sink = 0.0f;
    double best = 0.0;
    for (int run = 0; run < PEAK_RUNS; run++) {
        const __m256 x = _mm256_set1_ps(seed[0]), y = _mm256_set1_ps(seed[1]);
        const double start_ms = gr_clock_ms();
        sink = sink + gr_avx2_sum(chains(x, y));
        const double rate = 2.0 * 8 * PEAK_CHAINS * PEAK_STEPS / (gr_clock_ms() - start_ms) * 1e-6;
        best = rate > best ? rate : best;
    }
    return best;
}

void gr_kernels_avx2(struct gr_kernels *table)
{
    table->isa = "avx2";
    table->pack_rows[GR_ROWS_F32] = gr_avx2_pack_f32;
    table->pack_rows[GR_ROWS_U8] = gr_avx2_pack_u8;
    table->pack_rows[GR_ROWS_I16] = gr_avx2_pack_i16;
    table->pack_rows[GR_ROWS_F16] = gr_avx2_pack_f16;
    table->pack_rows[GR_ROWS_BF16] = gr_avx2_pack_bf16;
    table->norm_rows = gr_avx2_norm_rows;
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        const int ints = f == GR_MAT_I8 || f == GR_MAT_I16;
        table->gemm[f] = f == GR_MAT_I8 ? gr_avx2_gemm_i8 : ints ? gr_avx2_gemm_i16 : gr_avx2_gemm;
        table->gemm_isa[f] = "avx2";
        table->peak[f] = ints ? gr_avx2_int_peak : avx2_fma_peak;
    }
    table->attention = gr_avx2_attention;
    table->rms_rope = gr_avx2_rms_rope;
    table->multiply_add = gr_avx2_multiply_add;
}
