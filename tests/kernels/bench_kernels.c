/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_kernels.c: speed of each set on the shapes of the model, one thread, in GFLOP/s and as a share of the
 * multiply-add peak measured right before. Weights of one matrix are used again and again, so they come from
 * cache: this judges the kernels, not the memory. Numbers are medians. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SLOT_W, SLOT_X, SLOT_PANELS, SLOT_ACTS, SLOT_BIAS, SLOT_OUT, SLOT_SCRATCH };
enum { RUNS_MAX = 9 };
#define SECONDS_EACH 0.12

/* Time of this thread on a CPU: what other programs take from it does not count. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median_s(void (*fn)(void *), void *context)
{
    double t[RUNS_MAX], begin = now_s();
    int n = 0;
    fn(context); /* warm */
    while (n < RUNS_MAX && (n < 1 || now_s() - begin < SECONDS_EACH)) {
        const double start = now_s();
        fn(context);
        t[n++] = now_s() - start;
    }
    qsort(t, (size_t)n, sizeof *t, by_value);
    return t[n / 2];
}

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
    float *w = check_floats(SLOT_W, (size_t)n * (size_t)k), *x = check_floats(SLOT_X, (size_t)m * (size_t)k);
    check_fill(w, (size_t)n * (size_t)k, FAMILY_NORMAL);
    check_fill(x, (size_t)m * (size_t)k, FAMILY_NORMAL);
    struct gr_mat mat = check_pack_weights(SLOT_PANELS, w, n, k, format, epilogue == GR_EPI_SILU_MUL);
    const struct gr_acts acts = check_pack_acts(SLOT_ACTS, x, m, k);
    float *bias = check_floats(SLOT_BIAS, (size_t)mat.panels * GR_PANEL);
    check_fill(bias, (size_t)mat.panels * GR_PANEL, FAMILY_NORMAL);
    mat.bias = bias;
    float *out = check_floats(SLOT_OUT, (size_t)m * (size_t)n);
    check_fill(out, (size_t)m * (size_t)n, FAMILY_NORMAL);
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, gemm[format])) {
            continue;
        }
        struct gemm_run r = {.set = &check_sets[s],
                             .g = {.w = &mat,
                                   .a = &acts,
                                   .out = out,
                                   .ldo = epilogue == GR_EPI_SILU_MUL ? n / 2 : n,
                                   .epilogue = epilogue},
                             .scratch = check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(m))};
        const double peak = check_sets[s].peak[GR_MAT_F32](), rate = 2e-9 * m * n * k / bench_median_s(run_gemm, &r);
        printf("gemm       m %3d n %5d k %4d %s epilogue %d  %-10s %7.1f GFLOP/s  %5.1f %% of %.0f\n", m, n, k,
               format == GR_MAT_F32 ? "f32 " : "bf16", (int)epilogue, check_names[s], rate, 100.0 * rate / peak, peak);
        fflush(stdout);
    }
}

struct attention_run {
    const struct gr_kernels *set;
    struct gr_attention a;
    void *scratch;
};

static void run_attention(void *context)
{
    const struct attention_run *r = context;
    for (int i = 0; i < 4; i++) {
        r->set->attention(&r->a, r->scratch);
    }
}

static void bench_attention(int m, int s, int d, int causal, int ld)
{
    float *q = check_floats(SLOT_W, (size_t)m * (size_t)ld), *k = check_floats(SLOT_X, (size_t)s * (size_t)ld);
    float *v = check_floats(SLOT_PANELS, (size_t)s * (size_t)ld), *o = check_floats(SLOT_OUT, (size_t)m * (size_t)ld);
    check_fill(q, (size_t)m * (size_t)ld, FAMILY_NORMAL);
    check_fill(k, (size_t)s * (size_t)ld, FAMILY_NORMAL);
    check_fill(v, (size_t)s * (size_t)ld, FAMILY_NORMAL);
    for (int i = 0; i < check_set_count; i++) {
        if (!CHECK_OWN(i, attention)) {
            continue;
        }
        struct attention_run r = {.set = &check_sets[i],
                                  .a = {.q = q,
                                        .ldq = ld,
                                        .k = k,
                                        .ldk = ld,
                                        .v = v,
                                        .ldv = ld,
                                        .o = o,
                                        .ldo = ld,
                                        .m = m,
                                        .s = s,
                                        .d = d,
                                        .causal = causal,
                                        .scale = 1.0f / sqrtf((float)d)},
                                  .scratch = check_scratch(SLOT_SCRATCH, gr_attention_scratch_bytes(m, s, d))};
        const double t = bench_median_s(run_attention, &r) / 4;
        printf("attention  m %3d s %3d d %3d%s  %-10s %7.1f us  %7.1f GFLOP/s\n", m, s, d,
               causal ? " causal" : "       ", check_names[i], 1e6 * t, 4e-9 * m * s * d / t);
        fflush(stdout);
    }
}

struct rows_run {
    const struct gr_kernels *set;
    struct gr_acts a;
    const float *x;
    struct gr_row_norm norm;
    void *scratch;
};

static void run_rows(void *context)
{
    const struct rows_run *r = context;
    const struct gr_row_source src = {.x = r->x, .ldx = r->a.k, .norm = &r->norm};
    r->set->pack_rows[r->a.format](&r->a, &src, 0, r->a.m, r->scratch);
}

static void bench_rows(int m, int k, enum gr_row_norm_kind kind)
{
    float *x = check_floats(SLOT_X, (size_t)m * (size_t)k), *gamma = check_floats(SLOT_BIAS, (size_t)k);
    check_fill(x, (size_t)m * (size_t)k, FAMILY_NORMAL);
    check_fill(gamma, (size_t)k, FAMILY_NORMAL);
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, pack_rows[GR_ROWS_F32])) {
            continue;
        }
        struct rows_run r = {
            .set = &check_sets[s],
            .a = {.m = m, .k = k, .k_pad = gr_pad16(k)},
            .x = x,
            .norm = {.kind = kind, .eps = 1e-6f, .gamma = gamma, .beta = kind == GR_ROW_LAYER ? gamma : NULL},
            .scratch = check_scratch(SLOT_SCRATCH, gr_row_scratch_bytes(k))};
        r.a.data = check_floats(SLOT_ACTS, (size_t)m * (size_t)r.a.k_pad);
        const double t = bench_median_s(run_rows, &r);
        printf("pack_rows  m %3d k %4d %s  %-10s %7.1f us  %7.2f G elements/s\n", m, k,
               kind == GR_ROW_LAYER ? "layer norm" : "RMS norm  ", check_names[s], 1e6 * t, 1e-9 * m * k / t);
    }
}

void bench_all(void)
{
    static const struct {
        int m, n, k;
        enum gr_epilogue epilogue;
    } shapes[] = {
        {51, 4608, 1536, GR_EPI_STORE},     /* DiT self attention q, k, v */
        {51, 6144, 1536, GR_EPI_GELU_TANH}, /* DiT feed-forward */
        {51, 1536, 6144, GR_EPI_ADD},       /* and back */
        {81, 4096, 4608, GR_EPI_GELU_ERF},  /* connector */
        {116, 4096, 2048, GR_EPI_STORE},    /* language q, k, v */
        {116, 12288, 2048, GR_EPI_SILU_MUL}, {116, 2048, 6144, GR_EPI_ADD},
        {324, 3456, 1152, GR_EPI_STORE}, /* vision q, k, v */
        {324, 4304, 1152, GR_EPI_GELU_TANH}, {324, 1152, 4304, GR_EPI_ADD},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        bench_gemm(shapes[i].m, shapes[i].n, shapes[i].k, GR_MAT_BF16, shapes[i].epilogue);
    }
    bench_gemm(51, 1536, 1536, GR_MAT_F32, GR_EPI_STORE);
    bench_gemm(324, 1152, 1152, GR_MAT_F32, GR_EPI_ADD);
    bench_attention(51, 51, 48, 0, 4608);
    bench_attention(51, 81, 48, 0, 1536);
    bench_attention(116, 116, 128, 1, 4096);
    bench_attention(324, 324, 72, 0, 3456);
    bench_rows(51, 1536, GR_ROW_LAYER);
    bench_rows(116, 2048, GR_ROW_RMS);
    bench_rows(324, 1152, GR_ROW_LAYER);
}
