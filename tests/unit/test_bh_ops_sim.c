/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_ops_sim.c: every kind of tile operation on the simulated chip, against the CPU machine bit by bit and against double arithmetic
 * within a bound. One tile, one operation; test_bh_sync_sim.c has groups, loops and requests. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bh_both.h"
#include "bh_chip.h"
#include "bh_functions.h"

static float a[4][1024], b[4][1024], got[4][1024];
static double want[1024], size[1024];

/* Error relative to sum |a b| by fidelity phases: doubled worst of these tests (7e-3, 1.2e-3, 1.5e-4, 1.5e-4). A missing phase leaves out
 * low bits; what stays with all four comes from products being aligned to the largest of 8 and cut. */
static const double phase_bound[5] = {0, 1.5e-2, 2.5e-3, 3e-4, 3e-4};

/* What the packer's rounding adds, of the value's size (bfp8_b: of the largest of 16, so of sum |a b|). */
static double out_bound(enum gr_bh_format f) { return f == GR_BH_FP32 ? 0 : f == GR_BH_BF16 ? 1.0 / 256 : 1.0 / 64; }

static void fill_random(struct bh_program *p, uint32_t at, enum gr_bh_format f, int n, float scale, uint32_t seed,
                        float (*kept)[1024])
{
    for (int i = 0; i < n; i++) {
        const uint32_t to = at + (uint32_t)i * GR_BH_TILE_BYTES(f);
        bh_random(&seed, scale, kept[i]);
        bh_put(p, -1, to, f, kept[i]);
        bh_get(p, 0, to, f, kept[i]);
    }
}

static void identity(struct bh_program *p, uint32_t at)
{
    static float one[1024];
    for (int i = 0; i < 1024; i++) {
        one[i] = i / 32 == i % 32 ? 1.0f : 0.0f;
    }
    bh_put(p, -1, at, GR_BH_BF16, one);
}

static void clear_want(void)
{
    memset(want, 0, sizeof want);
    memset(size, 0, sizeof size);
}

static void transpose(const float *from, float *to)
{
    for (int i = 0; i < 1024; i++) {
        to[32 * (i % 32) + i / 32] = from[i];
    }
}

/* out = sum over k tiles of A B with the given formats, phases and flags. */
static void product(enum gr_bh_format fa, enum gr_bh_format fb, enum gr_bh_format fo, int phases, unsigned flags)
{
    enum { K = 3 };
    struct bh_program *p = bh_program_new(1, 1, 64);
    const uint32_t at = bh_room(p, fa, K);
    const uint32_t bt = bh_room(p, fb, K);
    const uint32_t out = bh_room(p, fo, 1);
    fill_random(p, at, fa, K, 1.5f, 11, a);
    fill_random(p, bt, fb, K, 0.7f, 12, b);
    struct gr_bh_op *o = &p->op[0][bh_op(p)];
    o->phases = (uint16_t)phases;
    o->out_fmt = (uint16_t)fo;
    o->out = out;
    o->nseg = 1;
    o->seg[0] = bh_segment(flags, fa, at, fb, bt, K);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    bh_run_both(p, 1, &(struct bh_out){0, out, fo}, 1, got);
    clear_want();
    for (int k = 0; k < K; k++) {
        float turned[1024];
        memcpy(turned, b[k], sizeof turned);
        if (flags & GR_BH_SEG_TRANSPOSE) {
            transpose(b[k], turned);
        }
        if (flags & GR_BH_SEG_ELEMENT) {
            for (int i = 0; i < 1024; i++) {
                want[i] += (double)a[k][i] * turned[i];
                size[i] += fabs((double)a[k][i] * turned[i]);
            }
        } else {
            bh_mul(a[k], turned, want, size);
        }
    }
    char what[80];
    snprintf(what, sizeof what, "formats %d x %d -> %d, %d phases, flags %u", fa, fb, fo, phases, flags);
    double row = 0;
    for (int i = 0; fo == GR_BH_BFP8 && i < 1024; i++) {
        row = fmax(row, size[i]);
    }
    /* fp32 operands are cut to tf32's 11 bits, and of those in SrcA the FPU uses 10 */
    const double tf32 = (fa == GR_BH_FP32 ? 1.0 / 1024 : 0) + (fb == GR_BH_FP32 ? 1.0 / 512 : 0);
    bh_close(what, got[0], want, size, phase_bound[phases] + tf32 + out_bound(fo), row * out_bound(fo));
    bh_program_free(p);
}

static void matrix_products_in_all_formats_and_phases(void **state)
{
    (void)state;
    for (int phases = 1; phases <= 4; phases++) {
        product(GR_BH_BF16, GR_BH_BFP8, GR_BH_FP32, phases, 0);
    }
    product(GR_BH_BF16, GR_BH_BF16, GR_BH_FP32, 4, 0);
    product(GR_BH_FP32, GR_BH_FP32, GR_BH_FP32, 4, 0);
    product(GR_BH_FP32, GR_BH_BF16, GR_BH_FP32, 4, 0);
    product(GR_BH_BF16, GR_BH_FP32, GR_BH_FP32, 4, 0);
    product(GR_BH_BF16, GR_BH_BFP8, GR_BH_BF16, 3, 0);
    product(GR_BH_BF16, GR_BH_BF16, GR_BH_BF16, 4, 0);
    product(GR_BH_BF16, GR_BH_BF16, GR_BH_BFP8, 4, 0);
    product(GR_BH_FP32, GR_BH_FP32, GR_BH_BFP8, 4, 0);
}

static void element_products_and_transposed_operands(void **state)
{
    (void)state;
    product(GR_BH_BF16, GR_BH_BF16, GR_BH_FP32, 4, GR_BH_SEG_ELEMENT);
    product(GR_BH_FP32, GR_BH_FP32, GR_BH_FP32, 4, GR_BH_SEG_ELEMENT);
    product(GR_BH_FP32, GR_BH_BF16, GR_BH_BF16, 4, GR_BH_SEG_ELEMENT);
    product(GR_BH_BF16, GR_BH_BF16, GR_BH_FP32, 4, GR_BH_SEG_TRANSPOSE);
    product(GR_BH_BF16, GR_BH_FP32, GR_BH_FP32, 4, GR_BH_SEG_TRANSPOSE);
    product(GR_BH_FP32, GR_BH_FP32, GR_BH_FP32, 4, GR_BH_SEG_TRANSPOSE | GR_BH_SEG_ELEMENT);
}

/* A x I' + E x F with other formats in each segment: the unpackers change their set-up in the middle of a tile. */
static void segments_of_different_kinds_add_up(void **state)
{
    (void)state;
    struct bh_program *p = bh_program_new(1, 1, 64);
    const uint32_t x = bh_room(p, GR_BH_FP32, 2);
    const uint32_t w = bh_room(p, GR_BH_BFP8, 1);
    const uint32_t h = bh_room(p, GR_BH_BF16, 1);
    const uint32_t one = bh_room(p, GR_BH_BF16, 1);
    const uint32_t out = bh_room(p, GR_BH_FP32, 1);
    fill_random(p, x, GR_BH_FP32, 2, 1.0f, 21, a);
    fill_random(p, w, GR_BH_BFP8, 1, 1.0f, 22, b);
    fill_random(p, h, GR_BH_BF16, 1, 1.0f, 23, b + 1);
    identity(p, one);
    struct gr_bh_op *o = &p->op[0][bh_op(p)];
    o->out_fmt = GR_BH_FP32;
    o->out = out;
    o->nseg = 3;
    o->seg[0] = bh_segment(GR_BH_SEG_TRANSPOSE, GR_BH_BF16, one, GR_BH_FP32, x, 1);
    o->seg[1] = bh_segment(GR_BH_SEG_ELEMENT, GR_BH_FP32, x, GR_BH_FP32, x + 4096, 1);
    o->seg[2] = bh_segment(0, GR_BH_BF16, h, GR_BH_BFP8, w, 1);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    bh_run_both(p, 1, &(struct bh_out){0, out, GR_BH_FP32}, 1, got);
    clear_want();
    bh_mul(b[1], b[0], want, size);
    float turned[1024];
    transpose(a[0], turned);
    for (int i = 0; i < 1024; i++) {
        want[i] += turned[i] + (double)a[0][i] * a[1][i];
        size[i] += fabs((double)turned[i]) + fabs((double)a[0][i] * a[1][i]);
    }
    bh_close("three segments", got[0], want, size, 2e-3, 0);
    bh_program_free(p);
}

static void maximum_over_rows_and_tiles(enum gr_bh_format fb, float shift, unsigned flags)
{
    enum { K = 3 };
    struct bh_program *p = bh_program_new(1, 1, 64);
    const uint32_t ones = bh_room(p, GR_BH_BF16, 1);
    const uint32_t bt = bh_room(p, fb, K);
    const uint32_t out = bh_room(p, GR_BH_FP32, 2);
    for (int i = 0; i < 1024; i++) {
        a[0][i] = 1.0f;
    }
    bh_put(p, 0, ones, GR_BH_BF16, a[0]);
    uint32_t seed = 31;
    for (int k = 0; k < K; k++) {
        const uint32_t to = bt + (uint32_t)k * GR_BH_TILE_BYTES(fb);
        bh_random(&seed, 4.0f, b[k]);
        for (int i = 0; i < 1024; i++) {
            b[k][i] += shift;
        }
        bh_put(p, 0, to, fb, b[k]);
        bh_get(p, 0, to, fb, b[k]);
    }
    for (int n = 0; n < 2; n++) { /* twice: both halves of Dst */
        struct gr_bh_op *o = &p->op[0][bh_op(p)];
        o->out_fmt = GR_BH_FP32;
        o->out = out + 4096 * (uint32_t)n;
        o->nseg = 1;
        o->seg[0] = bh_segment(GR_BH_SEG_MAX | flags, GR_BH_BF16, ones, fb, bt, K);
        o->seg[0].a_k = 0;
    }
    (void)bh_mark(p, GR_BH_END, 0, 0);
    const struct bh_out outs[2] = {{0, out, GR_BH_FP32}, {0, out + 4096, GR_BH_FP32}};
    bh_run_both(p, 2, outs, 2, got);
    clear_want();
    for (int c = 0; c < 32; c++) {
        want[c] = -INFINITY;
        for (int k = 0; k < K; k++) {
            for (int r = 0; r < 32; r++) {
                want[c] = fmax(want[c], (double)b[k][flags & GR_BH_SEG_TRANSPOSE ? 32 * c + r : 32 * r + c]);
            }
        }
    }
    bh_close("maximum", got[0], want, NULL, fb == GR_BH_FP32 ? 1.0 / 1024 : 0, 0); /* tf32: 10 bits after the point */
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    bh_program_free(p);
}

static void maxima_of_columns(void **state)
{
    (void)state;
    maximum_over_rows_and_tiles(GR_BH_BF16, 0, 0);
    maximum_over_rows_and_tiles(GR_BH_BF16, -50, 0); /* all negative */
    maximum_over_rows_and_tiles(GR_BH_FP32, 1000, 0);
    maximum_over_rows_and_tiles(GR_BH_FP32, -1, GR_BH_SEG_TRANSPOSE);
}

static void functions_of_the_sfpu(void **state)
{
    (void)state;
    static const struct {
        enum gr_bh_function function;
        float scale, shift, arg;
        double relative, absolute;
    } cases[] = {
        {GR_BH_NONE, 3, 0, 0, 0, 0},
        {GR_BH_EXP, 20, 0, 0, 2e-5, 0},
        {GR_BH_EXP, 200, -112, 0, 2e-5, 0},
        {GR_BH_GELU, 6, 0, 0, 2e-5, 1e-6},
        {GR_BH_SILU, 8, 0, 0, 2e-5, 0},
        {GR_BH_RELU, 3, 0, 0, 0, 0},
        {GR_BH_RECIP, 7, 8, 0, 5e-7, 0},
        {GR_BH_RSQRT, 1, 1.5f, 0, 3e-6, 0},
        {GR_BH_RSQRT, 1, 1.001f, 1e-5f, 3e-6, 0},
        {GR_BH_SCALE, 3, 0, 1.0f / 1536, 1e-7, 0},
        {GR_BH_SCALE, 3, 0, 0, 0, 0},
        {GR_BH_SQUARE, 3, 0, 1.0f / 1536, 2e-7, 0},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct bh_program *p = bh_program_new(1, 1, 64);
    static float x[CASES][1024], y[CASES][1024];
    struct bh_out outs[CASES];
    const uint32_t one = bh_room(p, GR_BH_BF16, 1);
    identity(p, one);
    for (int i = 0; i < CASES; i++) {
        const uint32_t in = bh_room(p, GR_BH_BF16, 1);
        uint32_t seed = 41 + (uint32_t)i;
        bh_random(&seed, cases[i].scale, x[i]);
        for (int e = 0; e < 1024; e++) {
            x[i][e] += cases[i].shift;
        }
        bh_put(p, 0, in, GR_BH_BF16, x[i]);
        bh_get(p, 0, in, GR_BH_BF16, x[i]);
        outs[i] = (struct bh_out){0, bh_room(p, GR_BH_FP32, 1), GR_BH_FP32};
        struct gr_bh_op *o = &p->op[0][bh_op(p)];
        o->function = (uint16_t)cases[i].function;
        o->arg = bh_bits(cases[i].arg);
        o->out_fmt = GR_BH_FP32;
        o->out = outs[i].at;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, in, GR_BH_BF16, one, 1);
    }
    (void)bh_mark(p, GR_BH_END, 0, 0);
    bh_run_both(p, CASES, outs, CASES, y);
    for (int i = 0; i < CASES; i++) {
        for (int e = 0; e < 1024; e++) {
            want[e] = bh_function(cases[i].function, x[i][e], cases[i].arg);
        }
        char what[40];
        snprintf(what, sizeof what, "function %u, case %d", cases[i].function, i);
        bh_close(what, y[i], want, NULL, cases[i].relative, cases[i].absolute);
    }
    bh_program_free(p);
}

static void accumulate(enum gr_bh_format fo, double bound)
{
    struct bh_program *p = bh_program_new(1, 1, 64);
    const uint32_t x = bh_room(p, GR_BH_BF16, 1);
    const uint32_t w = bh_room(p, GR_BH_BF16, 1);
    const uint32_t out = bh_room(p, fo, 1);
    fill_random(p, x, GR_BH_BF16, 1, 1, 51, a);
    fill_random(p, w, GR_BH_BF16, 1, 1, 52, b);
    fill_random(p, out, fo, 1, 1, 53, a + 1);
    for (int n = 0; n < 2; n++) {
        struct gr_bh_op *o = &p->op[0][bh_op(p)];
        o->flags = GR_BH_OP_ACCUMULATE;
        o->out_fmt = (uint16_t)fo;
        o->out = out;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, x, GR_BH_BF16, w, 1);
    }
    (void)bh_mark(p, GR_BH_END, 0, 0);
    bh_run_both(p, 2, &(struct bh_out){0, out, fo}, 1, got);
    clear_want();
    bh_mul(a[0], b[0], want, size);
    for (int i = 0; i < 1024; i++) {
        want[i] = a[1][i] + 2 * want[i];
        size[i] = fabs((double)a[1][i]) + 2 * size[i];
    }
    bh_close("accumulate", got[0], want, size, bound, 0);
    bh_program_free(p);
}

static void results_are_added_onto_l1(void **state)
{
    (void)state;
    accumulate(GR_BH_FP32, phase_bound[4]);
    accumulate(GR_BH_BF16, 2.0 / 128); /* cut twice, each time at 2^-8 */
}

/* 2 x 3 output tiles with all strides different: rows of A by m, columns of B by n, k inside. */
static void strides_by_row_column_and_k(void **state)
{
    (void)state;
    enum { M = 2, N = 3, K = 2 };
    struct bh_program *p = bh_program_new(1, 1, 64);
    const uint32_t at = bh_room(p, GR_BH_BF16, M * K);
    const uint32_t bt = bh_room(p, GR_BH_BF16, N * K);
    const uint32_t out = bh_room(p, GR_BH_FP32, M * N);
    static float x[M * K][1024], w[N * K][1024], y[M * N][1024];
    struct bh_out outs[M * N];
    fill_random(p, at, GR_BH_BF16, M * K, 1, 61, x);
    fill_random(p, bt, GR_BH_BF16, N * K, 1, 62, w);
    struct gr_bh_op *o = &p->op[0][bh_op(p)];
    o->mt = M;
    o->nt = N;
    o->out_fmt = GR_BH_FP32;
    o->out = out;
    o->out_m = 4096;
    o->out_n = M * 4096;
    o->nseg = 1;
    o->seg[0] = bh_segment(0, GR_BH_BF16, at, GR_BH_BF16, bt, K);
    o->seg[0].a_m = K * 2048;
    o->seg[0].b_n = 2048;
    o->seg[0].b_k = N * 2048;
    (void)bh_mark(p, GR_BH_END, 0, 0);
    for (int i = 0; i < M * N; i++) {
        outs[i] = (struct bh_out){0, out + 4096 * (uint32_t)i, GR_BH_FP32};
    }
    bh_run_both(p, 1, outs, M * N, y);
    for (int i = 0; i < M * N; i++) {
        clear_want();
        for (int k = 0; k < K; k++) {
            bh_mul(x[i % M * K + k], w[k * N + i / M], want, size);
        }
        bh_close("strides", y[i], want, size, phase_bound[4], 0);
    }
    bh_program_free(p);
}

int main(void)
{
    if (bh_simulator() == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_products_in_all_formats_and_phases),
        cmocka_unit_test(element_products_and_transposed_operands),
        cmocka_unit_test(segments_of_different_kinds_add_up),
        cmocka_unit_test(maxima_of_columns),
        cmocka_unit_test(functions_of_the_sfpu),
        cmocka_unit_test(results_are_added_onto_l1),
        cmocka_unit_test(strides_by_row_column_and_k),
    };
    return cmocka_run_group_tests(tests, NULL, bh_chip_close);
}
