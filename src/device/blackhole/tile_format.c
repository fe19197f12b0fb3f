/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_format.c: values into tiles of L1 and back. A face row of 16 is the unit: bfp8_b shares one exponent over it. */
#include <math.h>
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

uint16_t gr_bh_bf16(float v)
{
    uint32_t u = bits_of(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(u >> 16 | 0x40u); /* a payload in the low half only must not become infinity */
    }
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float gr_bh_from_bf16(uint16_t v) { return of_bits((uint32_t)v << 16); }

/* Row r of face row `row`: where it lies in a [32, 32] array. */
static size_t place(int row, size_t ld)
{
    int face = row / FACE;
    return (size_t)(face / 2 * FACE + row % FACE) * ld + (size_t)(face % 2) * FACE;
}

/* One face row of finite values, as bits. Loops without branches, which compilers vectorise: a gigabyte of weights goes through here. */
static void put_bf16(const uint32_t *v, uint8_t *dst)
{
    uint16_t row[FACE];
    for (int i = 0; i < FACE; i++) {
        uint32_t b = (v[i] + 0x7fffu + (v[i] >> 16 & 1u)) >> 16; /* as gr_bh_bf16 */
        row[i] = (uint16_t)(b - ((b & 0x7fffu) == 0x7f80u));     /* not up to infinity */
    }
    memcpy(dst, row, sizeof row);
}

static void put_bfp8(const uint32_t *v, uint8_t *exponent, uint8_t *dst)
{
    int32_t most = 0;
    for (int i = 0; i < FACE; i++) {
        int32_t size = (int32_t)(v[i] & 0x7fffffffu);
        most = size > most ? size : most;
    }
    int e = most >> 23;
    if (e < BFP8_LEAST_EXPONENT) {
        *exponent = 0;
        memset(dst, 0, FACE);
        return;
    }
    /* times 2^(133 - e), which brings the largest into [64, 128), in two steps that are powers of two float can hold */
    float half = of_bits((uint32_t)(127 + (133 - e) / 2) << 23),
          rest = of_bits((uint32_t)(260 - e - (133 - e) / 2) << 23);
    *exponent = (uint8_t)e;
    float scaled[FACE];
    uint32_t m[FACE];
    for (int i = 0; i < FACE; i++) {
        m[i] = v[i] & 0x7fffffffu;
    }
    memcpy(scaled, m, sizeof m);
    for (int i = 0; i < FACE; i++) {
        scaled[i] = scaled[i] * half * rest + 8388608.0f; /* 2^23: the addition rounds to nearest even */
    }
    memcpy(m, scaled, sizeof m);
    for (int i = 0; i < FACE; i++) {
        int32_t k = (int32_t)(m[i] & 0xffu);
        k = k > 127 ? 127 : k;
        uint32_t sign = k ? v[i] >> 24 & 0x80u : 0; /* a negative zero reads as minus infinity */
        dst[i] = (uint8_t)((uint32_t)k | sign);
    }
}

static void put_row(enum gr_bh_format f, int row, const uint32_t *v, uint8_t *dst)
{
    if (f == GR_BH_FP32) {
        memcpy(dst + (size_t)row * FACE * 4, v, FACE * sizeof *v);
    } else if (f == GR_BH_BF16) {
        put_bf16(v, dst + (size_t)row * FACE * 2);
    } else {
        put_bfp8(v, dst + row, dst + ROWS + (size_t)row * FACE);
    }
}

void gr_bh_tile_put(enum gr_bh_format f, const float *src, size_t ld, void *dst)
{
    gr_bh_tile_put_part(f, src, ld, SIDE, SIDE, dst);
}

void gr_bh_tile_put_part(enum gr_bh_format f, const float *src, size_t ld, int rows, int cols, void *dst)
{
    for (int row = 0; row < ROWS; row++) {
        int r = row / FACE / 2 * FACE + row % FACE, left = cols - row / FACE % 2 * FACE;
        uint32_t v[FACE] = {0};
        if (r < rows && left >= FACE) {
            memcpy(v, src + place(row, ld), sizeof v);
        } else if (r < rows && left > 0) {
            memcpy(v, src + place(row, ld), (size_t)left * sizeof *v);
        }
        for (int i = 0; i < FACE; i++) { /* infinities and NaNs: the largest number */
            v[i] = (v[i] & 0x7f800000u) == 0x7f800000u ? (v[i] & 0x80000000u) | 0x7f7fffffu : v[i];
        }
        put_row(f, row, v, dst);
    }
}

void gr_bh_tile_get(enum gr_bh_format f, const void *src, float *dst, size_t ld)
{
    const uint8_t *s = src;
    for (int row = 0; row < ROWS; row++) {
        float *v = dst + place(row, ld);
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
}
