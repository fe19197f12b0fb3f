/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_norm.c: LayerNorm and RMSNorm as tile operations, on the CPU interpreter, against double arithmetic: widths that do and do not fill their
 * column tiles, means that are large against the deviation, folded rows, heads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bh_layer.h"
#include "device/blackhole/layers.h"
#include "device/blackhole/tile_format.h"

enum { ROWS = 51, MT = 2 };

static void norm_row(double *y, const float *x, int d, const float *scale, const float *shift, bool rms, double eps)
{
    double mean = 0, square = 0;
    for (int i = 0; i < d; i++) {
        mean += rms ? 0 : (double)x[i] / d;
    }
    for (int i = 0; i < d; i++) {
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / d;
    }
    for (int i = 0; i < d; i++) {
        const double v = ((double)x[i] - mean) / sqrt(square + eps);
        y[i] = scale != NULL ? v * (1 + (double)scale[i]) + (double)shift[i] : v;
    }
}

static void norm_rows(double *y, const float *x, int d, const float *scale, const float *shift, bool rms, double eps)
{
    for (int r = 0; r < ROWS; r++) {
        norm_row(y + r * d, x + r * d, d, scale, shift, rms, eps);
    }
}

/* LayerNorm (or RMSNorm) of rows xv [ROWS, d], twice: the statistics of the request before do no harm. */
static void norm_run(int d, int tiles, const float *scale, const float *shift, bool rms, const float *xv, float *got)
{
    struct bh_rig r;
    bh_rig_begin(&r, tiles, 1, GR_BH_BF16);
    const struct gr_bh_tiles t = gr_bh_tiles_new(r.build);
    const struct gr_bh_buf x = gr_bh_alloc(r.build, "x", MT, 1, GR_BH_FP32),
                           h = gr_bh_alloc(r.build, "h", MT, gr_bh_tiles_of(d), GR_BH_BF16);
    const struct gr_bh_norm norm = {.x = x,
                                    .d = d,
                                    .rms = rms,
                                    .eps = 1e-5f,
                                    .scale = scale,
                                    .shift = shift,
                                    .stream = 1,
                                    .scratch = gr_bh_norm_scratch(r.build, MT),
                                    .stats = gr_bh_norm_stats(r.build, &t, MT, gr_bh_tiles_of(d), rms),
                                    .out = h};
    gr_bh_emit_norm(r.build, &t, &norm);
    bh_layer_io(&r, true, "x", x, GR_BH_COLUMNS, ROWS, d);
    bh_layer_io(&r, false, "h", h, GR_BH_EVERYWHERE, ROWS, d);
    bh_rig_finish(&r);
    bh_rig_load_cpu(&r, GR_BH_BIT_EXACT, 2);
    bh_rig_input(&r, "x", xv);
    for (int again = 0; again < 2; again++) {
        memset(got, 0, (size_t)ROWS * (size_t)d * sizeof *got);
        bh_rig_run(&r, NULL, NULL);
        bh_rig_output(&r, "h", got);
    }
    bh_rig_end(&r);
}

static void norm_case(int d, int tiles, bool modulated, bool rms, float size)
{
    const size_t n = (size_t)ROWS * (size_t)d;
    float *scale = bh_layer_uniform((size_t)d, 0.4f), *shift = bh_layer_uniform((size_t)d, 0.4f);
    float *xv = bh_layer_uniform(n, size), *got = malloc(n * sizeof *got);
    double *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++) {
        xv[i] += size / 6; /* a mean */
    }
    norm_rows(want, xv, d, modulated ? scale : NULL, shift, rms, 1e-5);
    norm_run(d, tiles, modulated ? scale : NULL, modulated ? shift : NULL, rms, xv, got);
    bh_layer_near(rms ? "rms norm" : modulated ? "modulated norm" : "norm", d, got, want, n, 4e-3);
    free(scale);
    free(shift);
    free(xv);
    free(got);
    free(want);
}

static void norms_take_statistics_over_tiles(void **state)
{
    (void)state;
    static const int width[] = {32, 48, 64, 96};
    for (int i = 0; i < 4; i++) {
        norm_case(width[i], gr_bh_tiles_of(width[i]), false, false, 3.0f);
        norm_case(width[i], gr_bh_tiles_of(width[i]) + 1, true, false, 3.0f);
        norm_case(width[i], gr_bh_tiles_of(width[i]), i % 2 == 0, true, 3.0f);
    }
    norm_case(48, 2, false, false, 5e-3f);     /* epsilon counts */
    norm_case(32 * 35, 35, true, false, 3.0f); /* statistics in two column tiles */
}

/* Rows of deviation 1 about `mean`, the first and the last constant. */
static void far_case(int d, float mean, double bound)
{
    const size_t n = (size_t)ROWS * (size_t)d, last = n - (size_t)d;
    float *x = bh_layer_uniform(n, 1.7320508f), *got = malloc(n * sizeof *got);
    double *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++) {
        const bool constant = i < (size_t)d || i >= last;
        x[i] = mean + (constant ? 0.3f : x[i]);
    }
    norm_rows(want, x, d, NULL, NULL, false, 1e-5);
    norm_run(d, gr_bh_tiles_of(d), NULL, NULL, false, x, got);
    for (size_t i = 0; i < n; i++) {
        if ((d == 1 || i < (size_t)d || i >= last) && got[i] != 0.0f) {
            fail_msg("a constant row of width %d, mean %g: %g", d, (double)mean, (double)got[i]);
        }
        want[i] = i < (size_t)d || i >= last ? 0.0 : want[i];
    }
    if (d > 1) {
        char what[60];
        snprintf(what, sizeof what, "norm about a mean of %g", (double)mean);
        bh_layer_near(what, d, got, want, n, bound);
    }
    free(x);
    free(got);
    free(want);
}

/* x has 10 bits where it meets the mean: it loses up to a unit u, 2^-9 of the power of two below the mean, which is 0.29 u rms about the mean
 * of what is left; that mean is off by 0.7 u at most and mostly by less than 0.3. 4e-3 are the roundings of statistics and output. (bf16 rows,
 * rounded to nearest, have units of 4 u: 1.15 u rms.) */
static void norms_about_a_mean_that_is_large_against_the_deviation(void **state)
{
    (void)state;
    static const int width[] = {1, 33, 48, 64, 96, 32 * 34 + 8};
    for (int i = 0; i < 6; i++) {
        far_case(width[i], 0.0f, 4e-3);
        far_case(width[i], -10.0f, 4e-3 + 0.5 / 64);
        far_case(width[i], 100.0f, 4e-3 + 0.5 / 8);
        far_case(width[i], -1000.0f, 4e-3 + 0.5 / 1);
    }
}

/* Whether the watch of a norm of rows of about 1 but for one element, twice, stayed finite. */
static bool watched(enum gr_bh_arithmetic arithmetic, bool rms, float element)
{
    enum { WIDTH = 64 };
    struct bh_rig r;
    float *x = bh_layer_uniform((size_t)ROWS * WIDTH, 3.0f), sums[32 * 32];
    x[WIDTH * (ROWS - 1) + 5] = element;
    bh_rig_begin(&r, gr_bh_tiles_of(WIDTH), 1, GR_BH_BF16);
    const struct gr_bh_tiles t = gr_bh_tiles_new(r.build);
    const struct gr_bh_buf in = gr_bh_alloc(r.build, "x", MT, 1, GR_BH_FP32),
                           h = gr_bh_alloc(r.build, "h", MT, gr_bh_tiles_of(WIDTH), GR_BH_BF16);
    const struct gr_bh_norm norm = {.x = in,
                                    .d = WIDTH,
                                    .rms = rms,
                                    .eps = 1e-5f,
                                    .stream = 1,
                                    .scratch = gr_bh_norm_scratch(r.build, MT),
                                    .stats = gr_bh_norm_stats(r.build, &t, MT, gr_bh_tiles_of(WIDTH), rms),
                                    .out = h,
                                    .watch = gr_bh_alloc(r.build, "watch", 1, 1, GR_BH_FP32)};
    gr_bh_emit_zeros(r.build, &t, norm.watch);
    gr_bh_emit_norm(r.build, &t, &norm);
    bh_layer_io(&r, true, "x", in, GR_BH_COLUMNS, ROWS, WIDTH);
    bh_layer_io(&r, false, "watch", norm.watch, GR_BH_EVERYWHERE, 32, 32);
    bh_rig_finish(&r);
    bh_rig_load_cpu(&r, arithmetic, 2);
    bool finite = true;
    for (int again = 0; again < 2; again++) {
        x[WIDTH * (ROWS - 1) + 5] = again == 0 ? element : 1.0f; /* the next request begins anew */
        bh_rig_input(&r, "x", x);
        bh_rig_run(&r, NULL, NULL);
        bh_rig_output(&r, "watch", sums);
        bool all = true;
        for (int i = 0; i < 32; i++) {
            all = all && isfinite(sums[i]);
        }
        finite = again == 0 ? all : finite;
        assert_true(again == 0 || all);
    }
    bh_rig_end(&r);
    free(x);
    return finite;
}

static void a_watched_norm_tells_of_rows_that_overflow(void **state)
{
    (void)state;
    static const float harmless[] = {1.0f, -1e3f, 1e15f}, too_large[] = {1e21f, -1e30f, 0x1p100f, 3e38f, INFINITY, NAN};
    for (int kind = 0; kind < 4; kind++) {
        const enum gr_bh_arithmetic arithmetic = kind / 2 == 0 ? GR_BH_BIT_EXACT : GR_BH_FAST;
        for (int i = 0; i < 3; i++) {
            assert_true(watched(arithmetic, kind % 2, harmless[i]));
        }
        for (int i = 0; i < 6; i++) {
            if (watched(arithmetic, kind % 2, too_large[i])) {
                fail_msg("kind %d: %g passed", kind, (double)too_large[i]);
            }
        }
    }
}

/* x [groups * mt * 32, columns * 32] through a norm whose result stays on its tiles. */
static void own_norm(int groups, struct gr_bh_norm n, int mt, int columns, const float *xv, float *got)
{
    struct bh_rig r;
    bh_rig_begin(&r, 3, 2, GR_BH_BF16);
    struct gr_bh_tiles t = gr_bh_tiles_new(r.build);
    t.groups = groups;
    t.columns = 6 / groups;
    n.x = n.out = gr_bh_alloc(r.build, "x", mt, 1, GR_BH_FP32);
    n.own = true;
    n.eps = 1e-5f;
    n.scratch = gr_bh_norm_scratch(r.build, mt);
    n.stats = gr_bh_norm_stats(r.build, &t, mt, columns, n.rms);
    struct gr_bh_io x = {.name = "x",
                         .buf = n.x,
                         .place = GR_BH_COLUMNS,
                         .rows = groups * mt * 32,
                         .cols = columns * 32,
                         .groups = groups,
                         .columns = t.columns};
    gr_bh_input(r.build, x);
    gr_bh_emit_norm(r.build, &t, &n);
    gr_bh_output(r.build, x);
    bh_rig_finish(&r);
    bh_rig_load_cpu(&r, GR_BH_BIT_EXACT, 2);
    bh_rig_input(&r, "x", xv);
    bh_rig_run(&r, NULL, NULL);
    bh_rig_output(&r, "x", got);
    bh_rig_end(&r);
}

/* Two groups of one row tile of rows, each in two parts of 80 columns that lie below each other. */
static void norms_of_folded_rows_in_groups(void **state)
{
    (void)state;
    enum { GROUPS = 2, FOLD = 2, PART = 80, WIDTH = 96, TOKENS = 32 };
    float *scale = bh_layer_uniform(FOLD * PART, 0.4f), *shift = bh_layer_uniform(FOLD * PART, 0.4f);
    float *x = bh_layer_uniform(GROUPS * FOLD * TOKENS * WIDTH, 2.0f), got[GROUPS * FOLD * TOKENS * WIDTH];
    double want[GROUPS * FOLD * TOKENS * PART];
    float cut[GROUPS * FOLD * TOKENS * PART];
    for (int i = 0; i < GROUPS * FOLD * TOKENS * WIDTH; i++) {
        x[i] = i % WIDTH < PART ? x[i] + 0.7f : 0.0f;
    }
    const struct gr_bh_norm n = {.d = FOLD * PART, .fold = FOLD, .scale = scale, .shift = shift};
    own_norm(GROUPS, n, FOLD, WIDTH / 32, x, got);
    for (int g = 0; g < GROUPS; g++) {
        for (int i = 0; i < TOKENS; i++) {
            float row[FOLD * PART];
            double normed[FOLD * PART];
            for (int k = 0; k < FOLD * PART; k++) {
                row[k] = x[((g * FOLD + k / PART) * TOKENS + i) * WIDTH + k % PART];
            }
            norm_row(normed, row, FOLD * PART, scale, shift, false, 1e-5);
            for (int k = 0; k < FOLD * PART; k++) {
                const int at = (g * FOLD + k / PART) * TOKENS + i, c = k % PART;
                want[at * PART + c] = normed[k];
                cut[at * PART + c] = got[at * WIDTH + c];
            }
        }
    }
    bh_layer_near("folded norm", PART, cut, want, sizeof want / sizeof *want, 4e-3);
    free(scale);
    free(shift);
    free(x);
}

/* Three heads of two column tiles, 50 columns and padding. */
static void heads_norm(bool rms)
{
    enum { HEADS = 3, DIM = 50, WIDTH = 64 };
    float *scale = bh_layer_uniform(WIDTH, 0.4f), *shift = bh_layer_uniform(WIDTH, 0.4f),
          *x = bh_layer_uniform(64 * HEADS * WIDTH, 2.0f);
    float got[64 * HEADS * WIDTH], cut[64 * HEADS * DIM];
    double want[64 * HEADS * DIM];
    for (int i = 0; i < 64 * HEADS * WIDTH; i++) {
        x[i] = i % WIDTH < DIM ? x[i] * (float)(1 + i / WIDTH % HEADS) + (rms ? 0.0f : 3.0f) : 0.0f;
    }
    const struct gr_bh_norm n = {.d = DIM,
                                 .columns = HEADS * WIDTH / 32,
                                 .share = WIDTH / 32,
                                 .width = WIDTH,
                                 .rms = rms,
                                 .scale = scale,
                                 .shift = shift};
    own_norm(1, n, 2, HEADS * WIDTH / 32, x, got);
    for (int h = 0; h < 64 * HEADS; h++) {
        norm_row(want + h * DIM, x + h * WIDTH, DIM, scale, shift, rms, 1e-5);
        memcpy(cut + h * DIM, got + h * WIDTH, DIM * sizeof *cut);
    }
    bh_layer_near("norm of heads", DIM, cut, want, sizeof want / sizeof *want, 4e-3);
    free(scale);
    free(shift);
    free(x);
}

static void norms_of_heads(void **state)
{
    (void)state;
    heads_norm(true);
    heads_norm(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_take_statistics_over_tiles),
        cmocka_unit_test(norms_about_a_mean_that_is_large_against_the_deviation),
        cmocka_unit_test(a_watched_norm_tells_of_rows_that_overflow),
        cmocka_unit_test(norms_of_folded_rows_in_groups),
        cmocka_unit_test(norms_of_heads),
    };
    return cmocka_run_group_tests_name("bh_norm", tests, NULL, NULL);
}
