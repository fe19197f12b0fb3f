/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_quant.c: speed of the low-precision formats on the shapes of the model, as bench_kernels.c: one thread, weights from cache, share
 * of the format's own peak, measured right before and right after. */
#include "check_operands.h"

#include <stdio.h>

enum { SLOT_X = SLOT_FREE, SLOT_OUT, SLOT_SCRATCH, SLOT_GAMMA };

struct gemm_run {
    const struct gr_kernels *set;
    struct gr_gemm g;
    void *scratch;
};

static void run_gemm(void *context)
{
    const struct gemm_run *r = context;
    r->set->gemm[r->g.w->format](&r->g, 0, r->g.w->panels, r->scratch);
}

static void bench_gemm(int m, int n, int k, enum gr_mat_format format, enum gr_epilogue epilogue)
{
    const int gate_up = epilogue == GR_EPI_SILU_MUL, columns = gate_up ? n / 2 : n;
    const struct check_weights w = check_make_weights(format, n, k, gate_up, OPERANDS_RANDOM);
    const struct check_acts x = check_make_acts(gr_mat_rows(format), m, k, OPERANDS_RANDOM);
    float *out = check_floats(SLOT_OUT, (size_t)m * (size_t)columns);
    check_fill(out, (size_t)m * (size_t)columns, FAMILY_NORMAL);
    for (int s = 1; s < check_set_count; s++) { /* scalar would take minutes */
        if (!CHECK_OWN(s, gemm[format])) {
            continue;
        }
        struct gemm_run r = {.set = &check_sets[s],
                             .g = {.w = &w.mat, .a = &x.acts, .out = out, .ldo = columns, .epilogue = epilogue},
                             .scratch = check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(m))};
        const double before = check_sets[s].peak[format](), rate = 2e-9 * m * n * k / bench_median_s(run_gemm, &r);
        const double after = check_sets[s].peak[format](), peak = before > after ? before : after;
        printf("gemm       m %3d n %5d k %4d %-5s epilogue %d  %-10s %7.1f Gop/s  %5.1f %% of %.0f\n", m, n, k,
               gr_format_name(format), (int)epilogue, check_names[s], rate, 100.0 * rate / peak, peak);
        fflush(stdout);
    }
}

struct rows_run {
    const struct gr_kernels *set;
    struct gr_acts a;
    struct gr_row_source src;
    void *scratch;
};

static void run_rows(void *context)
{
    const struct rows_run *r = context;
    r->set->pack_rows[r->a.format](&r->a, &r->src, 0, r->a.m, r->scratch);
}

static void bench_rows(int m, int k, enum gr_row_format format, enum gr_row_norm_kind kind)
{
    static const char *const name[GR_ROW_FORMATS] = {"f32", "u8", "i16", "f16", "bf16"};
    float *x = check_floats(SLOT_X, (size_t)m * (size_t)k), *gamma = check_floats(SLOT_GAMMA, (size_t)k);
    check_fill(x, (size_t)m * (size_t)k, FAMILY_NORMAL);
    check_fill(gamma, (size_t)k, FAMILY_NORMAL);
    const struct gr_row_norm norm = {
        .kind = kind, .eps = 1e-6f, .gamma = gamma, .beta = kind == GR_ROW_LAYER ? gamma : NULL};
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, pack_rows[format])) {
            continue;
        }
        struct rows_run r = {.set = &check_sets[s],
                             .a = check_empty_acts(format, m, k, SLOT_ACTS, SLOT_ACT_SCALE, SLOT_ACT_ZERO),
                             .src = {.x = x, .ldx = k, .norm = &norm, .smooth = gamma},
                             .scratch = check_scratch(SLOT_SCRATCH, gr_row_scratch_bytes(k))};
        const double t = bench_median_s(run_rows, &r);
        printf("pack_rows  m %3d k %4d %-4s %s  %-10s %7.1f us  %7.2f G elements/s\n", m, k, name[format],
               kind == GR_ROW_LAYER ? "layer norm" : "RMS norm  ", check_names[s], 1e6 * t, 1e-9 * m * k / t);
    }
}

void bench_quant(void)
{
    static const struct {
        int m, n, k;
        enum gr_epilogue epilogue;
    } shapes[] = {
        {51, 4608, 1536, GR_EPI_STORE},      {51, 6144, 1536, GR_EPI_GELU_TANH}, {51, 1536, 6144, GR_EPI_ADD},
        {84, 12288, 2048, GR_EPI_SILU_MUL},  {116, 4096, 2048, GR_EPI_STORE},    {116, 2048, 6144, GR_EPI_ADD},
        {324, 4304, 1152, GR_EPI_GELU_TANH}, {324, 1152, 4304, GR_EPI_ADD},
    };
    static const enum gr_mat_format formats[] = {GR_MAT_I8, GR_MAT_I16, GR_MAT_F16, GR_MAT_BF16P};
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            bench_gemm(shapes[i].m, shapes[i].n, shapes[i].k, formats[f], shapes[i].epilogue);
        }
    }
    for (int f = GR_ROWS_U8; f < GR_ROW_FORMATS; f++) {
        bench_rows(51, 1536, (enum gr_row_format)f, GR_ROW_LAYER);
        bench_rows(324, 1152, (enum gr_row_format)f, GR_ROW_LAYER);
    }
}
