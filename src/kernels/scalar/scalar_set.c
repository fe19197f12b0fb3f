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

/* The low-precision formats have no instruction of their own here: the rate of the loop itself, on one panel in cache. Zeros take as long
 * as other numbers. */
static double loop_rate(enum gr_mat_format format, void (*gemm)(const struct gr_gemm *g, int p0, int p1, void *scratch))
{
    enum { ROWS = 4, K = 128, REPEATS = 8 };
    static const _Alignas(64) unsigned char weights[K * GR_PANEL_MAX * 2], rows[ROWS * K * 4];
    static const float zeros[GR_PANEL_MAX];
    float out[ROWS * GR_PANEL_MAX] = {0}, scale[ROWS] = {0}, zero[ROWS] = {0};
    const int n = gr_mat_cols(format);
    const struct gr_mat w = {
        .format = format, .n = n, .k = K, .panels = 1, .data = weights, .bias = zeros, .scale = zeros, .offset = zeros};
    const struct gr_acts a = {.format = gr_mat_rows(format),
                              .m = ROWS,
                              .k = K,
                              .k_pad = K,
                              .data = (void *)rows,
                              .scale = scale,
                              .zero = zero};
    const struct gr_gemm g = {.w = &w, .a = &a, .out = out, .ldo = n};
    double best = 0;
    for (int run = 0; run < PEAK_RUNS; run++) {
        const double start_ms = gr_clock_ms();
        for (int i = 0; i < REPEATS; i++) {
            gemm(&g, 0, 1, NULL);
        }
        const double rate = 2.0 * REPEATS * ROWS * K * n / (gr_clock_ms() - start_ms) * 1e-6;
        best = rate > best ? rate : best;
    }
    return best;
}

static double i8_rate(void) { return loop_rate(GR_MAT_I8, gr_scalar_gemm_i8); }
static double i16_rate(void) { return loop_rate(GR_MAT_I16, gr_scalar_gemm_i16); }
static double f16_rate(void) { return loop_rate(GR_MAT_F16, gr_scalar_gemm_f16); }
static double bf16p_rate(void) { return loop_rate(GR_MAT_BF16P, gr_scalar_gemm_bf16p); }

void gr_kernels_scalar(struct gr_kernels *table)
{
    table->isa = "scalar";
    table->pack_rows[GR_ROWS_F32] = gr_scalar_pack_f32;
    table->pack_rows[GR_ROWS_U8] = gr_scalar_pack_u8;
    table->pack_rows[GR_ROWS_I16] = gr_scalar_pack_i16;
    table->pack_rows[GR_ROWS_F16] = gr_scalar_pack_f16;
    table->pack_rows[GR_ROWS_BF16] = gr_scalar_pack_bf16;
    table->norm_rows = gr_scalar_norm_rows;
    table->gemm[GR_MAT_F32] = table->gemm[GR_MAT_BF16] = gr_scalar_gemm;
    table->gemm[GR_MAT_I8] = gr_scalar_gemm_i8;
    table->gemm[GR_MAT_I16] = gr_scalar_gemm_i16;
    table->gemm[GR_MAT_F16] = gr_scalar_gemm_f16;
    table->gemm[GR_MAT_BF16P] = gr_scalar_gemm_bf16p;
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        table->gemm_isa[f] = "scalar";
    }
    table->attention = gr_scalar_attention;
    table->attention16 = gr_scalar_attention16;
    table->attention16_pack = gr_scalar_attention16_pack;
    table->attention16_run = gr_scalar_attention16_run;
    table->rms_rope = gr_scalar_rms_rope;
    table->multiply_add = gr_scalar_multiply_add;
    table->peak[GR_MAT_F32] = table->peak[GR_MAT_BF16] = scalar_fma_peak;
    table->peak[GR_MAT_I8] = i8_rate;
    table->peak[GR_MAT_I16] = i16_rate;
    table->peak[GR_MAT_F16] = f16_rate;
    table->peak[GR_MAT_BF16P] = bf16p_rate;
}
