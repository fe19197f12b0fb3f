/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar_set.c: fills the kernel table with the scalar set and measures the scalar multiply-add peak. The set is
 * complete: a CPU without any extension runs the whole model on it. */
#include "kernels/scalar/scalar.h"

#include "base/clock.h"

enum { PEAK_SUMS = 32, PEAK_STEPS = 100000, PEAK_RUNS = 5 };

/* 32 independent sums. x and y are read from volatile memory, so that the compiler cannot know the values. */
static double scalar_fma_peak(void)
{
    static const volatile float seed[2] = {0.999f, 1e-3f};
    float sum[PEAK_SUMS];
    double best = 0;
    for (int i = 0; i < PEAK_SUMS; i++) {
        sum[i] = (float)i;
    }
    for (int run = 0; run < PEAK_RUNS; run++) {
        const float x = seed[0], y = seed[1];
        double start_ms = gr_clock_ms();
        for (int step = 0; step < PEAK_STEPS; step++) {
            for (int i = 0; i < PEAK_SUMS; i++) {
                sum[i] = sum[i] * x + y;
            }
        }
        double rate = 2.0 * PEAK_SUMS * PEAK_STEPS / (gr_clock_ms() - start_ms) * 1e-6;
        best = rate > best ? rate : best;
    }
    volatile float sink = 0;
    for (int i = 0; i < PEAK_SUMS; i++) {
        sink = sink + sum[i];
    }
    return best;
}

void gr_kernels_scalar(struct gr_kernels *table)
{
    table->isa = "scalar";
    table->pack_rows[GR_ROWS_F32] = gr_scalar_pack_f32;
    table->norm_rows = gr_scalar_norm_rows;
    table->gemm[GR_MAT_F32] = table->gemm[GR_MAT_BF16] = gr_scalar_gemm;
    table->gemm_isa[GR_MAT_F32] = table->gemm_isa[GR_MAT_BF16] = "scalar";
    table->attention = gr_scalar_attention;
    table->rms_rope = gr_scalar_rms_rope;
    table->peak[GR_MAT_F32] = table->peak[GR_MAT_BF16] = scalar_fma_peak;
}
