/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_cpu.c: operations on the CPU machine against double arithmetic, with both sets of arithmetic. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "bh_functions.h"
#include "bh_group.h"
#include "device/blackhole/bh_fast.h"
#include "gr_test.h"

/* Error of a sum of products by the sum of their sizes. Exact: the FPU rounds a product at 2^-11 of the largest of its 8, twice as much
 * with the later phases; the errors are random, 6e-5 was measured on the chip's simulator. Fast: fp32 sums of at most 128 terms, 2^-24
 * each. */
static const struct set {
    enum gr_bh_arithmetic arithmetic;
    double product;
} sets[] = {{GR_BH_BIT_EXACT, 2e-4}, {GR_BH_FAST, 128 * FLT_EPSILON / 2}};
enum { SETS = 2, FP32_BYTES = 4096, BF16_BYTES = 2048 };

static void assert_sum(float got, double want, double size, double bound)
{
    if (!(fabs(got - want) <= bound * size)) {
        fail_msg("%.9g, expected %.9g, off by %.3g of %.9g", got, want, fabs(got - want) / size, size);
    }
}

/* want, size += a b and its sizes; a, b and the sums [32, 32]. */
static void multiply(const float *a, const float *b, bool transposed, double *want, double *size)
{
    for (int i = 0; i < BH_ELEMENTS; i++) {
        int r = i / BH_SIDE, c = i % BH_SIDE;
        for (int k = 0; k < BH_SIDE; k++) {
            double p = (double)a[r * BH_SIDE + k] * b[transposed ? c * BH_SIDE + k : k * BH_SIDE + c];
            want[i] += p;
            size[i] += fabs(p);
        }
    }
}

/* y [2, 2] = a [2, 3] b [3, 2]: b from the ring. */
static void a_matrix_product_from_the_ring(void **state)
{
    (void)state;
    enum { MT = 2, KT = 3, NT = 2 };
    static float a[MT][KT][BH_ELEMENTS], b[NT][KT][BH_ELEMENTS], y[BH_ELEMENTS];
    for (int run = 0; run < 2 * SETS; run++) {
        enum gr_bh_format f = run & 1 ? GR_BH_BFP8 : GR_BH_BF16;
        struct bh_group g;
        group_open(&g, 1, sets[run / 2].arithmetic, 1);
        for (int i = 0; i < MT * KT; i++) {
            group_put(&g, 0, BH_DATA + (uint32_t)i * BF16_BYTES, GR_BH_BF16, 1.0f, a[i / KT][i % KT]);
        }
        for (int i = 0; i < NT * KT; i++) {
            group_put_stream(&g, 0, 0, (uint32_t)i, f, b[i / KT][i % KT]);
        }
        struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
        o->mt = MT, o->nt = NT, o->nseg = 1, o->chunk = KT * GR_BH_TILE_BYTES(f), o->phases = f == GR_BH_BFP8 ? 3 : 4;
        o->out_m = NT * FP32_BYTES, o->out_n = FP32_BYTES;
        o->seg[0] = group_segment(BH_DATA, GR_BH_BF16, 0, f, GR_BH_SEG_RING);
        o->seg[0].kcount = KT, o->seg[0].a_m = KT * BF16_BYTES, o->seg[0].a_k = BF16_BYTES;
        o->seg[0].b_k = GR_BH_TILE_BYTES(f);
        group_must_run(&g, 1);
        for (int i = 0; i < MT * NT; i++) {
            static double want[BH_ELEMENTS], size[BH_ELEMENTS];
            memset(want, 0, sizeof want);
            memset(size, 0, sizeof size);
            for (int k = 0; k < KT; k++) {
                multiply(a[i / NT][k], b[i % NT][k], false, want, size);
            }
            group_get(&g, 0, BH_OUT + (uint32_t)i * FP32_BYTES, GR_BH_FP32, y);
            for (int e = 0; e < BH_ELEMENTS; e++) {
                assert_sum(y[e], want[e], size[e], sets[run / 2].product);
            }
        }
        group_close(&g);
    }
}

/* y = a b' + c (.) d with fp32 operands, which the unpacker cuts to tf32 (2^-10) and the FPU to ten bits on the right (2^-9). */
static void segments_add_transposed_and_element_products(void **state)
{
    (void)state;
    static float a[BH_ELEMENTS], b[BH_ELEMENTS], c[BH_ELEMENTS], d[BH_ELEMENTS], y[BH_ELEMENTS];
    for (int run = 0; run < SETS; run++) {
        struct bh_group g;
        group_open(&g, 1, sets[run].arithmetic, 1);
        group_put(&g, 0, BH_DATA, GR_BH_BF16, 1.0f, a);
        group_put(&g, 0, BH_DATA + 0x1000, GR_BH_BFP8, 1.0f, b);
        group_put(&g, 0, BH_DATA + 0x2000, GR_BH_FP32, 1.0f, c);
        group_put(&g, 0, BH_DATA + 0x3000, GR_BH_FP32, 1.0f, d);
        struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
        o->nseg = 2;
        o->seg[0] = group_segment(BH_DATA, GR_BH_BF16, BH_DATA + 0x1000, GR_BH_BFP8, GR_BH_SEG_TRANSPOSE);
        o->seg[1] = group_segment(BH_DATA + 0x2000, GR_BH_FP32, BH_DATA + 0x3000, GR_BH_FP32, GR_BH_SEG_ELEMENT);
        group_must_run(&g, 1);
        group_get(&g, 0, BH_OUT, GR_BH_FP32, y);
        static double want[BH_ELEMENTS], size[BH_ELEMENTS];
        memset(want, 0, sizeof want);
        memset(size, 0, sizeof size);
        multiply(a, b, true, want, size);
        for (int i = 0; i < BH_ELEMENTS; i++) {
            double p = (double)c[i] * d[i], cut = fabs(p) * (ldexp(1, -10) + ldexp(1, -9));
            if (!(fabs(y[i] - want[i] - p) <= sets[run].product * (size[i] + fabs(p)) + cut)) {
                fail_msg("element %d of set %d: %.9g, expected %.9g", i, run, y[i], want[i] + p);
            }
        }
        group_close(&g);
    }
}

/* Where x is the element product of a bf16 tile with ones: itself, without error. */
static struct gr_bh_op *copy_op(struct bh_group *g, uint32_t from, uint32_t ones)
{
    struct gr_bh_op *o = group_add(g, GR_BH_COMPUTE);
    o->nseg = 1;
    o->seg[0] = group_segment(from, GR_BH_BF16, ones, GR_BH_BF16, GR_BH_SEG_ELEMENT);
    return o;
}

static void fill(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, float value)
{
    float v[BH_ELEMENTS];
    for (int i = 0; i < BH_ELEMENTS; i++) {
        v[i] = value;
    }
    group_put_values(g, tile, addr, f, v);
}

/* Largest relative errors, measured over two million arguments of each range: exp 1.6e-5 (its argument is kept to 2^-16 of a power of two,
 * 1.1e-5, and the polynomial is within 4.2e-6), gelu and silu 1.6e-5 (gelu 2.1e-5 at -9, where its argument grows with x^3), 1/x 2.4e-7,
 * 1/sqrt 2.5e-6; bf16 rounds by 2e-3. */
static void functions_are_close_to_theirs_in_double(void **state)
{
    (void)state;
    static const struct {
        enum gr_bh_function fn;
        float scale, arg;
        bool positive;
        double bound;
    } cases[] = {{GR_BH_NONE, 1, 0, false, 0},
                 {GR_BH_EXP, 10, 0, false, 1.7e-5},
                 {GR_BH_EXP, 88, 0, false, 2e-5},
                 {GR_BH_GELU, 4, 0, false, 1.7e-5},
                 {GR_BH_SILU, 20, 0, false, 1.7e-5},
                 {GR_BH_RELU, 3, 0, false, 0},
                 {GR_BH_RECIP, 50, 0, true, 3e-7},
                 {GR_BH_RSQRT, 9, 1e-5f, true, 2.6e-6},
                 {GR_BH_SCALE, 3, 0.7f, false, 6.0e-8},
                 {GR_BH_SCALE, 3, -1.0f / 1536, false, 6.0e-8},
                 {GR_BH_SQUARE, 3, -1.0f / 1536, false, 1.2e-7}};
    for (size_t i = 0; i < SETS * (sizeof cases / sizeof *cases); i++) {
        size_t n = i / SETS;
        float x[BH_ELEMENTS], y[BH_ELEMENTS];
        struct bh_group g;
        group_open(&g, 1, sets[i % SETS].arithmetic, 1);
        group_put(&g, 0, BH_DATA, GR_BH_BF16, cases[n].scale, x);
        for (int j = 0; cases[n].positive && j < BH_ELEMENTS; j++) {
            x[j] = fabsf(x[j]) + 0.015625f;
        }
        group_put_values(&g, 0, BH_DATA, GR_BH_BF16, x);
        group_get(&g, 0, BH_DATA, GR_BH_BF16, x);
        fill(&g, 0, BH_DATA + BF16_BYTES, GR_BH_BF16, 1.0f);
        struct gr_bh_op *o = copy_op(&g, BH_DATA, BH_DATA + BF16_BYTES);
        o->function = (uint16_t)cases[n].fn;
        memcpy(&o->arg, &cases[n].arg, sizeof o->arg);
        group_must_run(&g, 1);
        group_get(&g, 0, BH_OUT, GR_BH_FP32, y);
        for (int j = 0; j < BH_ELEMENTS; j++) {
            double want = bh_function(cases[n].fn, x[j], cases[n].arg);
            if (!(fabs(y[j] - want) <= cases[n].bound * fabs(want))) {
                fail_msg("function %d of %.9g, set %zu: %.9g, expected %.9g (%.2g)", cases[n].fn, x[j], i % SETS, y[j],
                         want, fabs(y[j] / want - 1));
            }
        }
        group_close(&g);
    }
}

/* y = function of n values by one set's arithmetic alone, which also takes what the FPU does not deliver. */
static void apply(size_t set, enum gr_bh_function fn, const float *x, size_t n, float *y)
{
    const struct gr_bh_arith *a = sets[set].arithmetic == GR_BH_BIT_EXACT ? &gr_bh_exact : &gr_bh_fast;
    union gr_bh_dst dst = {0};
    memcpy(dst.f, x, n * sizeof *x);
    a->function(&dst, fn, 0);
    memcpy(y, dst.f, n * sizeof *y);
}

/* The exponential takes integer and fraction of x log2(e) apart: a fraction just above 0 or just below 1 on the wrong side would be wrong
 * by a factor of two. */
static void exponentials_around_powers_of_two_are_right(void **state)
{
    (void)state;
    for (int power = -125; power <= 66; power++) {
        float x[BH_ELEMENTS], y[BH_ELEMENTS];
        for (int i = 0; i < BH_ELEMENTS; i++) { /* steps of 2^-18 of a power of two */
            x[i] = (float)((power + ldexp(i - BH_ELEMENTS / 2, -18)) * 0.6931471805599453);
        }
        for (size_t set = 0; set < SETS; set++) {
            apply(set, GR_BH_EXP, x, BH_ELEMENTS, y);
            for (int i = 0; i < BH_ELEMENTS; i++) {
                double want = bh_function(GR_BH_EXP, (double)x[i], 0);
                if (!(fabs(y[i] - want) <= 2e-5 * want)) {
                    fail_msg("exp(%.9g), set %zu: %.9g, expected %.9g", x[i], set, y[i], want);
                }
            }
        }
    }
}

static void far_arguments_of_functions_end_as_they_should(void **state)
{
    (void)state;
    static const float x[] = {NAN, INFINITY, 1e30f, 89, 88.75f, -88, -1e4f, -1e30f, -INFINITY, 0, 100, -100};
    enum { N = sizeof x / sizeof *x };
    float y[N];
    for (size_t set = 0; set < SETS; set++) {
        apply(set, GR_BH_EXP, x, N, y);
        for (int i = 0; i < 5; i++) {
            assert_true(y[i] == 0x1p64f);
        }
        for (int i = 5; i < 9; i++) {
            assert_true(y[i] == 0.0f);
        }
        assert_true(y[9] == 1.0f);
        for (int silu = 0; silu < 2; silu++) {
            apply(set, silu ? GR_BH_SILU : GR_BH_GELU, x, N, y);
            assert_true(isnan(y[0]) && isinf(y[1]) && !isfinite(y[8]));
            assert_true(fabsf(y[2] - 1e30f) < 1e24f && fabsf(y[10] - 100) < 1e-4f && y[9] == 0.0f);
            assert_true(fabsf(y[6]) < 1e-30f && fabsf(y[7]) < 1e-7f && fabsf(y[11]) < 1e-30f);
        }
        apply(set, GR_BH_RECIP, x, N, y);
        assert_true(isnan(y[0]));
        apply(set, GR_BH_RSQRT, x, N, y);
        assert_true(isnan(y[0]));
        apply(set, GR_BH_SCALE, x, N, y);
        assert_true(isnan(y[0]));
    }
}

static void the_maximum_of_columns_is_in_row_0(void **state)
{
    (void)state;
    static float b[2][BH_ELEMENTS], y[BH_ELEMENTS];
    for (int run = 0; run < 2 * SETS; run++) {
        bool transposed = run & 1;
        struct bh_group g;
        group_open(&g, 1, sets[run / 2].arithmetic, 1);
        fill(&g, 0, BH_DATA, GR_BH_BF16, 1.0f);
        for (uint32_t k = 0; k < 2; k++) {
            group_put(&g, 0, BH_DATA + (1 + k) * BF16_BYTES, GR_BH_BF16, 5.0f, b[k]);
            for (int i = 0; i < BH_ELEMENTS; i++) {
                b[k][i] -= 4.5f; /* columns without a positive number */
            }
            group_put_values(&g, 0, BH_DATA + (1 + k) * BF16_BYTES, GR_BH_BF16, b[k]);
            group_get(&g, 0, BH_DATA + (1 + k) * BF16_BYTES, GR_BH_BF16, b[k]);
        }
        struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
        o->nseg = 1;
        o->seg[0] = group_segment(BH_DATA, GR_BH_BF16, BH_DATA + BF16_BYTES, GR_BH_BF16,
                                  GR_BH_SEG_MAX | (transposed ? GR_BH_SEG_TRANSPOSE : 0));
        o->seg[0].kcount = 2, o->seg[0].b_k = BF16_BYTES;
        group_must_run(&g, 1);
        group_get(&g, 0, BH_OUT, GR_BH_FP32, y);
        for (int i = 0; i < BH_ELEMENTS; i++) {
            float most = -INFINITY;
            for (int k = 0; k < 2 * BH_SIDE; k++) {
                int r = k % BH_SIDE, c = i % BH_SIDE;
                most = fmaxf(most, b[k / BH_SIDE][transposed ? c * BH_SIDE + r : r * BH_SIDE + c]);
            }
            assert_true(y[i] == (i < BH_SIDE ? most : 0.0f));
        }
        group_close(&g);
    }
}

static void outputs_add_onto_what_is_there(void **state)
{
    (void)state;
    static float x[BH_ELEMENTS], there[BH_ELEMENTS], y[BH_ELEMENTS];
    for (int run = 0; run < 2 * SETS; run++) {
        enum gr_bh_format f = run & 1 ? GR_BH_BF16 : GR_BH_FP32;
        struct bh_group g;
        group_open(&g, 1, sets[run / 2].arithmetic, 1);
        group_put(&g, 0, BH_DATA, GR_BH_BF16, 1.0f, x);
        fill(&g, 0, BH_DATA + BF16_BYTES, GR_BH_BF16, 1.0f);
        group_put(&g, 0, BH_OUT, f, 1.0f, there);
        struct gr_bh_op *o = copy_op(&g, BH_DATA, BH_DATA + BF16_BYTES);
        o->flags = GR_BH_OP_ACCUMULATE;
        o->out_fmt = (uint16_t)f;
        group_must_run(&g, 1);
        group_get(&g, 0, BH_OUT, f, y);
        for (int i = 0; i < BH_ELEMENTS; i++) { /* half a unit of the last place */
            double want = (double)x[i] + there[i], bound = f == GR_BH_BF16 ? ldexp(1, -8) : ldexp(1, -24);
            assert_true(fabs(y[i] - want) <= bound * fabs(want) + FLT_MIN);
        }
        group_close(&g);
    }
}

/* What the packer does with the halves between two numbers: away from zero; bfp8_b rounds twice and keeps 127 as its largest. */
static void the_packer_rounds_half_away_from_zero(void **state)
{
    (void)state;
    static const float in[] = {1.00390625f, -1.00390625f, 1.01171875f, 1.0f, 1e-39f, -1e-39f};
    static const float bf16[] = {1.0078125f, -1.0078125f, 1.015625f, 1.0f, 0.0f, 0.0f};
    for (int run = 0; run < SETS; run++) {
        float v[BH_ELEMENTS] = {0}, y[BH_ELEMENTS];
        struct bh_group g;
        group_open(&g, 1, sets[run].arithmetic, 1);
        fill(&g, 0, BH_DATA, GR_BH_BF16, 1.0f);
        /* 1.00390625 = 1 + 2^-8 has 9 bits: left operand tf32, right ones */
        memcpy(v, in, sizeof in);
        group_put_values(&g, 0, BH_DATA + 0x1000, GR_BH_FP32, v);
        for (uint32_t f = 0; f < 2; f++) {
            struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
            o->nseg = 1;
            o->seg[0] = group_segment(BH_DATA + 0x1000, GR_BH_FP32, BH_DATA, GR_BH_BF16, GR_BH_SEG_ELEMENT);
            o->out_fmt = f ? GR_BH_BFP8 : GR_BH_BF16;
            o->out = BH_OUT + f * FP32_BYTES;
        }
        group_must_run(&g, 2);
        group_get(&g, 0, BH_OUT, GR_BH_BF16, y);
        for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
            assert_true(y[i] == bf16[i]);
        }
        group_get(&g, 0, BH_OUT + FP32_BYTES, GR_BH_BFP8, y);
        assert_true(y[0] == 1.0f && y[1] == -1.0f && y[2] == 1.015625f && y[3] == 1.0f && y[4] == 0.0f && y[5] == 0.0f);
        group_close(&g);
    }
}

/* The two sets do the same program; what is between them is the FPU's rounding of products. */
static void both_sets_are_close_to_each_other(void **state)
{
    (void)state;
    static float y[SETS][BH_ELEMENTS], a[BH_ELEMENTS], b[BH_ELEMENTS];
    for (int run = 0; run < SETS; run++) {
        struct bh_group g;
        group_open(&g, 1, sets[run].arithmetic, 1);
        group_put(&g, 0, BH_DATA, GR_BH_BF16, 0.25f, a);
        group_put(&g, 0, BH_DATA + BF16_BYTES, GR_BH_BF16, 0.25f, b);
        struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
        o->nseg = 1, o->function = GR_BH_GELU;
        o->seg[0] = group_segment(BH_DATA, GR_BH_BF16, BH_DATA + BF16_BYTES, GR_BH_BF16, 0);
        group_must_run(&g, 1);
        group_get(&g, 0, BH_OUT, GR_BH_FP32, y[run]);
        group_close(&g);
    }
    double difference = 0, size = 0;
    for (int i = 0; i < BH_ELEMENTS; i++) {
        difference += pow(y[0][i] - y[1][i], 2);
        size += pow(y[1][i], 2);
    }
    assert_true(difference > 0 && sqrt(difference / size) < 1e-3);
}

/* Bits of 12 operations, which are those of the simulator as test_bh_exact.c shows where there is one: all functions, one to four
 * phases, formats. A change of these numbers without one of the kernels is an error in the arithmetic. */
static void the_exact_set_keeps_the_bits_of_the_simulator(void **state)
{
    (void)state;
    static const uint64_t want[12] = {0xf67a36d13f3e394b, 0x489a55bf7c98c5f4, 0x9feae63133f93a4b, 0x57fb3116632abf31,
                                      0xb6b4c723ac3c26f1, 0xac36b853a4924345, 0x944a9779365557f2, 0xbaae24685b099004,
                                      0x64e7932f285a268c, 0x481d150fe6a913b9, 0xa949a6dcb46a505c, 0xb2d98f13d8ddb967};
    static const uint16_t out[3] = {GR_BH_FP32, GR_BH_BF16, GR_BH_BFP8};
    struct bh_group g;
    float v[BH_ELEMENTS], argument = -1.23f;
    group_open(&g, 1, GR_BH_BIT_EXACT, 1);
    group_put(&g, 0, BH_DATA, GR_BH_FP32, 2.0f, v);
    group_put(&g, 0, BH_DATA + 0x1000, GR_BH_BFP8, 1.0f, v);
    group_put(&g, 0, BH_DATA + 0x2000, GR_BH_BF16, 3.0f, v);
    for (uint16_t i = 0; i < 12; i++) {
        struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
        o->nseg = 2;
        o->function = i < GR_BH_FUNCTIONS ? i : GR_BH_NONE;
        memcpy(&o->arg, &argument, sizeof o->arg);
        o->phases = 1 + i % 4;
        o->out_fmt = out[i < GR_BH_FUNCTIONS ? 0 : i % 3];
        o->out = BH_OUT + (uint32_t)i * FP32_BYTES;
        o->seg[0] =
            group_segment(BH_DATA + 0x2000, GR_BH_BF16, BH_DATA + 0x1000, GR_BH_BFP8, i % 2 ? GR_BH_SEG_TRANSPOSE : 0);
        o->seg[1] = group_segment(BH_DATA, GR_BH_FP32, BH_DATA, GR_BH_FP32, GR_BH_SEG_ELEMENT);
    }
    group_must_run(&g, 12);
    for (uint32_t i = 0; i < 12; i++) {
        uint8_t tile[FP32_BYTES] = {0};
        gr_test_ok(g.m->ops->l1_read(g.m, 0, BH_OUT + i * FP32_BYTES, tile, sizeof tile, &g.err), &g.err);
        uint64_t hash = gr_hash64(tile, sizeof tile, 0);
        if (hash != want[i]) {
            fail_msg("operation %u: 0x%016llx", i, (unsigned long long)hash);
        }
    }
    group_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_product_from_the_ring),
        cmocka_unit_test(segments_add_transposed_and_element_products),
        cmocka_unit_test(functions_are_close_to_theirs_in_double),
        cmocka_unit_test(exponentials_around_powers_of_two_are_right),
        cmocka_unit_test(far_arguments_of_functions_end_as_they_should),
        cmocka_unit_test(the_maximum_of_columns_is_in_row_0),
        cmocka_unit_test(outputs_add_onto_what_is_there),
        cmocka_unit_test(the_packer_rounds_half_away_from_zero),
        cmocka_unit_test(both_sets_are_close_to_each_other),
        cmocka_unit_test(the_exact_set_keeps_the_bits_of_the_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
