/* SPDX-License-Identifier: Apache-2.0
 *
 * test_recipe.c: what a small fixed matrix is quantised to, and what the ladder is, as one hash beside the edition that goes into the
 * keys of caches: bytes that change without a new edition would be served from an old cache in one place and made anew in another. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "device/cpu/quantise.h"
#include "device/cpu/recipe.h"
#include "device/plan.h"
#include "gr_test.h"

enum { N = 70, K = 45, ROWS = 40, PANELS = (N + GR_PANEL - 1) / GR_PANEL, COLS = (PANELS + 1) * GR_PANEL, LAYERS = 32 };

/* The edition of src/device/plan.h and the hash that belongs to it. */
static const struct {
    int edition;
    const char *sha256;
} known = {1, "9d0f31528ddb8dff412e582f31c3fe717760547fc15a45de39cd349a6efc5488"};

static uint64_t seed = 11;

/* Without any function of libm, whose last bit differs between versions of it. */
static float uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(seed >> 11) * 0x1p-53);
}

static void *zeros(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    return memset(p, 0, (bytes + 127) / 64 * 64);
}

/* Calibration rows with one input that stands out. */
static void make_rows(struct gr_quant_rows *rows, float *x, float *largest, float *mean)
{
    for (int i = 0; i < ROWS * K; i++) {
        x[i] = (uniform() - 0.25f) * (i % K == 9 ? 30.0f : 1.0f);
        largest[i % K] = fmaxf(largest[i % K], fabsf(x[i]));
        mean[i % K] += x[i] / ROWS;
    }
    *rows = (struct gr_quant_rows){.n = ROWS, .k = K, .x = x, .largest = largest, .mean = mean};
}

static void add_matrix(struct gr_digest *d, const struct gr_quantiser *q, const struct gr_mat *exact,
                       const struct gr_quant_rows *rows, enum gr_mat_format format)
{
    const struct gr_quant_parts parts = {.data = zeros((size_t)COLS * (K + 64) * 2),
                                         .scale = zeros(COLS * sizeof(float)),
                                         .offset = zeros(COLS * sizeof(float)),
                                         .smooth = zeros(K * sizeof(float)),
                                         .bias = zeros(COLS * sizeof(float))};
    struct gr_mat out;
    struct gr_err err;
    double error;
    gr_test_ok(gr_quantise(q, exact, rows, format, &parts, &out, &error, &err), &err);
    gr_digest_add(d, parts.data, gr_quant_data_bytes(exact, format));
    gr_digest_add(d, parts.scale, N * sizeof(float));
    gr_digest_add(d, parts.offset, N * sizeof(float));
    gr_digest_add(d, parts.smooth, K * sizeof(float));
    gr_digest_add(d, parts.bias, N * sizeof(float));
    free(parts.data);
    free(parts.scale);
    free(parts.offset);
    free(parts.smooth);
    free(parts.bias);
}

/* One matrix to every format, scalar kernels: one thread, the same bits on every machine. */
static void add_matrices(struct gr_digest *d)
{
    static float x[ROWS * K], largest[K], mean[K];
    struct gr_err err;
    struct gr_kernels kernels;
    struct gr_quant_rows rows;
    const int k_pad = gr_pad16(K);
    float *data = zeros((size_t)PANELS * GR_PANEL * (size_t)k_pad * sizeof(float)), *bias = zeros(COLS * sizeof(float));
    for (int i = 0; i < K * N; i++) {
        const int k = i / N, c = i % N;
        data[(c / GR_PANEL * k_pad + k) * GR_PANEL + c % GR_PANEL] = uniform() - 0.5f;
        bias[c] = 0.25f;
    }
    make_rows(&rows, x, largest, mean);
    gr_kernels_init(&kernels, 0);
    void *scratch[1] = {zeros(gr_gemm_scratch_bytes(GR_QUANT_ROWS) + gr_row_scratch_bytes(K))};
    struct gr_quantiser q = {.kernels = &kernels, .scratch = scratch, .smooth = true, .feedback = true, .bias = true};
    gr_test_ok(gr_pool_new(1, &q.pool, &err), &err);
    const struct gr_mat exact = {.format = GR_MAT_F32, .n = N, .k = K, .panels = PANELS, .data = data, .bias = bias};
    for (int format = GR_MAT_I8; format < GR_MAT_FORMATS; format++) {
        add_matrix(d, &q, &exact, &rows, (enum gr_mat_format)format);
    }
    gr_pool_free(q.pool);
    free(scratch[0]);
    free(data);
    free(bias);
}

/* Which format each part gets on each step. */
static void add_ladder(struct gr_digest *d)
{
    for (const struct gr_recipe *r = gr_recipe_ladder(); !r->exact; r++) {
        const uint8_t guard = r->guard;
        gr_digest_add(d, r->step, strlen(r->step) + 1);
        gr_digest_add(d, &guard, 1);
        for (int i = 0; i < (CPU_PART_DIT + 1) * LAYERS; i++) {
            const enum cpu_part part = (enum cpu_part)(i / LAYERS);
            const uint8_t wide = gr_recipe_format(r, GR_MAT_F16, part, i % LAYERS, LAYERS) == GR_MAT_F16;
            gr_digest_add(d, &wide, 1);
        }
    }
}

static void quantised_bytes_and_ladder_are_those_of_this_edition(void **state)
{
    (void)state;
    char now[GR_DIGEST_HEX_BYTES];
    struct gr_err err;
    struct gr_digest *d;
    gr_test_ok(gr_digest_new(GR_SHA256, &d, &err), &err);
    add_matrices(d);
    add_ladder(d);
    gr_test_ok(gr_digest_end(d, now, &err), &err);
    if (strcmp(now, known.sha256) != 0 || known.edition != GR_RECIPE_EDITION) {
        fail_msg(
            "a fixed matrix is quantised to other bytes than before, or the ladder is another one. What an older program packed is still in "
            "caches: raise GR_RECIPE_EDITION in src/device/plan.h (now %d; this test knows %d), then write the edition and %s "
            "into this test.",
            GR_RECIPE_EDITION, known.edition, now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantised_bytes_and_ladder_are_those_of_this_edition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
