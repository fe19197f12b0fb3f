/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_tiles.c: values into Tensix tiles and back: places of elements, rounding at ties, and what formats cannot hold. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/bh_arith.h"
#include "device/blackhole/tile_format.h"
#include "gr_test.h"

enum { SIDE = 32, ELEMENTS = 1024 };

static uint32_t bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static uint32_t seed = 1;

static float next(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed / 2147483648.0f;
}

static void elements_lie_where_the_header_says(void **state)
{
    (void)state;
    float v[SIDE][SIDE], tile[ELEMENTS];
    for (int r = 0; r < SIDE; r++) {
        for (int c = 0; c < SIDE; c++) {
            v[r][c] = (float)(r * 100 + c);
        }
    }
    gr_bh_tile_put(GR_BH_FP32, v[0], SIDE, tile);
    for (int r = 0; r < SIDE; r++) {
        for (int c = 0; c < SIDE; c++) {
            assert_true(tile[256 * (2 * (r / 16) + c / 16) + 16 * (r % 16) + c % 16] == v[r][c]);
        }
    }
}

static void bf16_rounds_ties_to_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t in;
        uint16_t out;
    } cases[] = {
        {0x3f808000u, 0x3f80}, /* tie, even below */
        {0x3f818000u, 0x3f82}, /* tie, even above */
        {0x3f808001u, 0x3f81}, {0x3f807fffu, 0x3f80}, {0x80000000u, 0x8000}, {0x00000001u, 0x0000},
        {0x00008001u, 0x0001}, {0x7f7fffffu, 0x7f80}, {0x7f800000u, 0x7f80}, {0xff800000u, 0xff80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float v;
        memcpy(&v, &cases[i].in, sizeof v);
        assert_int_equal(gr_bh_bf16(v), cases[i].out);
    }
    uint32_t quiet = 0x7f800001u; /* a NaN whose payload is in the low half */
    float nan;
    memcpy(&nan, &quiet, sizeof nan);
    assert_true(isnan(gr_bh_from_bf16(gr_bh_bf16(nan))));
}

/* Every value of a format comes back as itself. */
static void what_a_format_holds_survives(void **state)
{
    (void)state;
    static const enum gr_bh_format formats[] = {GR_BH_FP32, GR_BH_BF16, GR_BH_BFP8};
    for (size_t f = 0; f < 3; f++) {
        float v[ELEMENTS], back[ELEMENTS], again[ELEMENTS];
        uint8_t tile[4096], second[4096];
        for (int i = 0; i < ELEMENTS; i++) {
            v[i] = next() * ldexpf(1.0f, (int)(next() * 20.0f));
        }
        gr_bh_tile_put(formats[f], v, SIDE, tile);
        gr_bh_tile_get(formats[f], tile, back, SIDE);
        gr_bh_tile_put(formats[f], back, SIDE, second);
        gr_bh_tile_get(formats[f], second, again, SIDE);
        assert_memory_equal(back, again, sizeof back);
        assert_memory_equal(tile, second, GR_BH_TILE_BYTES(formats[f]));
    }
}

/* Half a step of the shared exponent: 2^(e - 127) / 128. */
static void bfp8_is_off_by_at_most_half_a_step(void **state)
{
    (void)state;
    float v[ELEMENTS], back[ELEMENTS];
    uint8_t tile[1088];
    for (int i = 0; i < ELEMENTS; i++) {
        v[i] = next() * ldexpf(1.0f, (int)(next() * 6.0f));
    }
    gr_bh_tile_put(GR_BH_BFP8, v, SIDE, tile);
    gr_bh_tile_get(GR_BH_BFP8, tile, back, SIDE);
    for (int i = 0; i < ELEMENTS; i++) {
        int r = i / SIDE, c = i % SIDE;
        float step = ldexpf(1.0f, tile[16 * (2 * (r / 16) + c / 16) + r % 16] - 127 - 6);
        bool clamped = fabsf(v[i]) > 127.5f * step; /* 128 would not fit: 127 */
        assert_true(fabsf(back[i] - v[i]) <= step * (clamped ? 1.0f : 0.5f));
    }
}

static void bfp8_ties_zeros_and_extremes(void **state)
{
    (void)state;
    float v[ELEMENTS] = {0}, back[ELEMENTS];
    uint8_t tile[1088];
    v[0] = 1.0f;          /* exponent 127: a step is 1/64 */
    v[1] = 2.5f / 64.0f;  /* tie: 2 */
    v[2] = -3.5f / 64.0f; /* tie: -4 */
    v[3] = -0.4f / 64.0f; /* a magnitude of 0: plus zero, minus would read as minus infinity */
    v[4] = -0.0f;
    v[SIDE] = 1.999f;     /* rounds to 128: stays 127 */
    v[2 * SIDE] = 1e-37f; /* below 2^-120: the row is zeros */
    v[3 * SIDE] = 1e-40f;
    v[4 * SIDE] = INFINITY;
    v[5 * SIDE] = -NAN;
    v[6 * SIDE] = -FLT_MAX;
    gr_bh_tile_put(GR_BH_BFP8, v, SIDE, tile);
    gr_bh_tile_get(GR_BH_BFP8, tile, back, SIDE);
    assert_true(back[0] == 1.0f && back[1] == 2.0f / 64.0f && back[2] == -4.0f / 64.0f);
    assert_int_equal(bits(back[3]), 0);
    assert_int_equal(bits(back[4]), 0);
    assert_true(back[SIDE] == 127.0f / 64.0f);
    assert_true(back[2 * SIDE] == 0.0f && back[3 * SIDE] == 0.0f);
    assert_true(isfinite(back[4 * SIDE]) && back[4 * SIDE] > 1e38f);
    assert_true(isfinite(back[5 * SIDE]) && fabsf(back[5 * SIDE]) > 1e38f);
    assert_true(isfinite(back[6 * SIDE]) && back[6 * SIDE] < -1e38f);
    for (int i = 0; i < 1088 - 64; i++) {
        assert_int_not_equal(tile[64 + i], 0x80);
    }
}

static void bf16_and_fp32_stay_finite(void **state)
{
    (void)state;
    float v[ELEMENTS] = {INFINITY, -INFINITY, NAN, FLT_MAX}, back[ELEMENTS];
    uint8_t tile[4096];
    for (int f = 0; f < 2; f++) {
        enum gr_bh_format format = f ? GR_BH_FP32 : GR_BH_BF16;
        gr_bh_tile_put(format, v, SIDE, tile);
        gr_bh_tile_get(format, tile, back, SIDE);
        assert_true(isfinite(back[0]) && back[0] > 1e38f && isfinite(back[1]) && back[1] < -1e38f);
        assert_true(isfinite(back[2]) && isfinite(back[3]) && back[3] > 1e38f);
    }
}

static void a_part_leaves_the_rest_zero(void **state)
{
    (void)state;
    float v[5 * 40], back[ELEMENTS];
    uint8_t tile[2048];
    for (int i = 0; i < 5 * 40; i++) {
        v[i] = 1.0f + (float)i;
    }
    memset(tile, 0xff, sizeof tile);
    gr_bh_tile_put_part(GR_BH_BF16, v, 40, 5, 19, tile);
    gr_bh_tile_get(GR_BH_BF16, tile, back, SIDE);
    for (int i = 0; i < ELEMENTS; i++) {
        int r = i / SIDE, c = i % SIDE;
        assert_true(back[i] == (r < 5 && c < 19 ? v[r * 40 + c] : 0.0f));
    }
}

/* In any order, whole and in part, over what was there. */
static void rows_alone_make_the_same_tile(void **state)
{
    (void)state;
    static const enum gr_bh_format formats[] = {GR_BH_FP32, GR_BH_BF16, GR_BH_BFP8};
    static const int widths[] = {32, 31, 17, 16, 5, 0};
    for (size_t f = 0; f < 3; f++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            float v[SIDE * SIDE], all[SIDE * SIDE], back[SIDE];
            uint8_t tile[4096], rows[4096];
            const int n = widths[w];
            for (int i = 0; i < ELEMENTS; i++) {
                v[i] = ldexpf(next(), i % 40 - 20);
                all[i] = i % SIDE < n ? v[i] : 0.0f;
            }
            v[3] = all[3] = n > 3 ? INFINITY : 0.0f;
            memset(tile, 0xff, sizeof tile);
            memset(rows, 0xff, sizeof rows);
            gr_bh_tile_put(formats[f], all, SIDE, tile);
            for (int i = 0; i < SIDE; i++) {
                const int r = 7 * i % SIDE;
                gr_bh_tile_put_row(formats[f], r, v + r * SIDE, n, rows);
            }
            assert_memory_equal(rows, tile, sizeof tile);
            gr_bh_tile_get(formats[f], tile, all, SIDE);
            for (int r = 0; r < SIDE; r++) {
                memset(back, 0x55, sizeof back);
                gr_bh_tile_get_row(formats[f], r, tile, n, back);
                assert_memory_equal(back, all + r * SIDE, (size_t)n * sizeof *back);
                assert_true(n == SIDE || bits(back[n]) == 0x55555555u);
            }
        }
    }
}

/* What was first written here, element by element. */
static void bf16_of_a_tile_is_that_of_its_elements(void **state)
{
    (void)state;
    float v[ELEMENTS];
    uint16_t tile[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        seed = seed * 1664525u + 1013904223u;
        memcpy(&v[i], &seed, sizeof v[i]);
        v[i] = isfinite(v[i]) && fabsf(v[i]) < 3e38f ? v[i] : 1.5f;
    }
    gr_bh_tile_put(GR_BH_BF16, v, SIDE, tile);
    for (int i = 0; i < ELEMENTS; i++) {
        const int r = i / SIDE, c = i % SIDE;
        assert_int_equal(tile[256 * (2 * (r / 16) + c / 16) + 16 * (r % 16) + c % 16], gr_bh_bf16(v[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_lie_where_the_header_says),
        cmocka_unit_test(bf16_rounds_ties_to_even),
        cmocka_unit_test(what_a_format_holds_survives),
        cmocka_unit_test(bfp8_is_off_by_at_most_half_a_step),
        cmocka_unit_test(bfp8_ties_zeros_and_extremes),
        cmocka_unit_test(bf16_and_fp32_stay_finite),
        cmocka_unit_test(a_part_leaves_the_rest_zero),
        cmocka_unit_test(rows_alone_make_the_same_tile),
        cmocka_unit_test(bf16_of_a_tile_is_that_of_its_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
