/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_format.c: values into tiles of L1 and back. A face row of 16 is the unit: bfp8_b shares one exponent over it. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "device/blackhole/tile_format.h"

enum { SIDE = 32, FACE = 16, ROWS = 64 /* face rows of a tile */ };

/* Below 2^-120 the unpacker's normalisation would wrap the exponent of small magnitudes: such face rows are written as zeros. */
enum { BFP8_LEAST_EXPONENT = 7 };

static uint32_t bits_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float of_bits(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

size_t gr_bh_first_out_of_range(const float *v, size_t n)
{
    int bad = 0; /* without a way out, so that compilers vectorise */
    for (size_t i = 0; i < n; i++) {
        bad |= !gr_bh_in_range(v[i]);
    }
    size_t i = 0;
    while (bad && gr_bh_in_range(v[i])) {
        i++;
    }
    return bad ? i : n;
}

uint16_t gr_bh_bf16(float v)
{
    uint32_t u = bits_of(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(u >> 16 | 0x40u); /* a payload in the low half only must not become infinity */
    }
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float gr_bh_from_bf16(uint16_t v) { return of_bits((uint32_t)v << 16); }

/* Face row of the left half of row r; that of the right half is FACE on. */
static int left_of(int r) { return r / FACE * SIDE + r % FACE; }

/* A row of finite values, as bits, to its two face rows. A gigabyte of weights goes through here: loops without branches over all 32, which compilers
 * vectorise; shorter ones they unroll into single values. */
static void put_halves(const void *row, size_t half, uint8_t *dst)
{
    memcpy(dst, row, half);
    memcpy(dst + FACE * half, (const uint8_t *)row + half, half);
}

static void put_bf16(const uint32_t *v, uint8_t *dst)
{
    uint16_t row[SIDE];
    for (int i = 0; i < SIDE; i++) {
        uint32_t b = (v[i] + 0x7fffu + (v[i] >> 16 & 1u)) >> 16; /* as gr_bh_bf16 */
        row[i] = (uint16_t)(b - ((b & 0x7fffu) == 0x7f80u));     /* not up to infinity */
    }
    put_halves(row, FACE * sizeof *row, dst);
}

/* The exponent of 16 magnitudes. A face row whose is too small is multiplied by zero. */
static uint8_t scale_of(const uint32_t *m, float *half, float *rest)
{
    uint32_t most = 0;
    for (int i = 0; i < FACE; i++) {
        most = m[i] > most ? m[i] : most;
    }
    const int e = (int)(most >> 23);
    const bool small = e < BFP8_LEAST_EXPONENT;
    /* times 2^(133 - e), which brings the largest into [64, 128), in two steps that are powers of two float can hold */
    const float first = small ? 0 : of_bits((uint32_t)(127 + (133 - e) / 2) << 23);
    const float second = small ? 0 : of_bits((uint32_t)(260 - e - (133 - e) / 2) << 23);
    for (int i = 0; i < FACE; i++) {
        half[i] = first;
        rest[i] = second;
    }
    return small ? 0 : (uint8_t)e;
}

static void put_bfp8(const uint32_t *v, uint8_t *exponent, uint8_t *dst)
{
    uint32_t m[SIDE];
    float scaled[SIDE], half[SIDE], rest[SIDE];
    uint8_t row[SIDE];
    for (int i = 0; i < SIDE; i++) {
        m[i] = v[i] & 0x7fffffffu;
    }
    exponent[0] = scale_of(m, half, rest);
    exponent[FACE] = scale_of(m + FACE, half + FACE, rest + FACE);
    memcpy(scaled, m, sizeof m);
    for (int i = 0; i < SIDE; i++) {
        scaled[i] = scaled[i] * half[i] * rest[i] + 8388608.0f; /* 2^23: the addition rounds to nearest even */
    }
    memcpy(m, scaled, sizeof m);
    for (int i = 0; i < SIDE; i++) {
        const uint32_t k = m[i] & 0xffu, most = k > 127 ? 127 : k;
        const uint32_t sign = most != 0 ? 0x80u : 0; /* a negative zero reads as minus infinity */
        row[i] = (uint8_t)(most | (v[i] >> 24 & sign));
    }
    put_halves(row, FACE, dst);
}

void gr_bh_tile_put_row(enum gr_bh_format f, int r, const float *src, int cols, void *dst)
{
    uint32_t v[SIDE];
    uint8_t *d = dst;
    const size_t row = (size_t)left_of(r);
    if (cols == SIDE) {
        memcpy(v, src, sizeof v);
    } else {
        memset(v, 0, sizeof v);
        memcpy(v, src, (size_t)cols * sizeof *v);
    }
    for (int i = 0; i < SIDE; i++) { /* infinities and NaNs: the largest number */
        v[i] = (v[i] & 0x7f800000u) == 0x7f800000u ? (v[i] & 0x80000000u) | 0x7f7fffffu : v[i];
    }
    if (f == GR_BH_FP32) {
        put_halves(v, FACE * sizeof *v, d + row * FACE * sizeof *v);
    } else if (f == GR_BH_BF16) {
        put_bf16(v, d + row * FACE * sizeof(uint16_t));
    } else {
        put_bfp8(v, d + row, d + ROWS + row * FACE);
    }
}

void gr_bh_tile_put(enum gr_bh_format f, const float *src, size_t ld, void *dst)
{
    gr_bh_tile_put_part(f, src, ld, SIDE, SIDE, dst);
}

void gr_bh_tile_put_part(enum gr_bh_format f, const float *src, size_t ld, int rows, int cols, void *dst)
{
    for (int r = 0; r < SIDE; r++) {
        gr_bh_tile_put_row(f, r, r < rows ? src + (size_t)r * ld : src, r < rows ? cols : 0, dst);
    }
}

static void get_face_row(enum gr_bh_format f, int row, const uint8_t *s, float *v)
{
    if (f == GR_BH_FP32) {
        memcpy(v, s + (size_t)row * FACE * 4, FACE * sizeof *v);
    } else if (f == GR_BH_BF16) {
        uint16_t b[FACE];
        memcpy(b, s + (size_t)row * FACE * 2, sizeof b);
        for (int i = 0; i < FACE; i++) {
            v[i] = gr_bh_from_bf16(b[i]);
        }
    } else {
        const uint8_t *b = s + ROWS + (size_t)row * FACE;
        float step = ldexpf(1.0f, (int)s[row] - 127 - 6);
        for (int i = 0; i < FACE; i++) {
            float m = (float)(b[i] & 0x7f) * step;
            v[i] = b[i] == 0x80 ? -INFINITY : b[i] & 0x80 ? -m : m;
        }
    }
}

void gr_bh_tile_get_row(enum gr_bh_format f, int r, const void *src, int cols, float *dst)
{
    float v[SIDE];
    get_face_row(f, left_of(r), src, v);
    get_face_row(f, left_of(r) + FACE, src, v + FACE);
    memcpy(dst, v, (size_t)cols * sizeof *v);
}

void gr_bh_tile_get(enum gr_bh_format f, const void *src, float *dst, size_t ld)
{
    for (int r = 0; r < SIDE; r++) {
        gr_bh_tile_get_row(f, r, src, SIDE, dst + (size_t)r * ld);
    }
}
