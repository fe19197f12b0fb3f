/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_fast.c: tile arithmetic in fp32 that compilers vectorise for whatever the target has (no other flags than the rest of the program).
 * Contraction is off in the whole project, so the bits do not depend on the instruction set. */
#include <math.h>
#include <string.h>

#include "device/blackhole/bh_fast.h"

enum { FACE = 16, FACE_ELEMENTS = 256, FACE_ROWS = 64 };

/* Significand bits that phases 1 and 2 leave: 7 of the left operand (high part only), 5 and 10 of the right one. */
static uint32_t left_mask(enum gr_bh_format f, int phases)
{
    return phases < 3 ? 0xfffe0000u : f == GR_BH_FP32 ? 0xffffe000u : 0xffff0000u;
}

static uint32_t right_mask(enum gr_bh_format f, int phases)
{
    return phases < 2 ? 0xfff80000u : f == GR_BH_FP32 ? 0xffffc000u : 0xffff0000u;
}

static void unpack_fp32(const uint8_t *tile, uint32_t mask, uint32_t *out)
{
    memcpy(out, tile, 4 * GR_BH_ELEMENTS);
    for (int i = 0; i < GR_BH_ELEMENTS; i++) {
        uint32_t normal = (out[i] & 0x7f800000u) ? ~0u : 0u;
        out[i] &= mask & normal;
    }
}

static void unpack_bf16(const uint8_t *tile, uint32_t mask, uint32_t *out)
{
    for (int row = 0; row < FACE_ROWS; row++) {
        uint16_t b[FACE];
        memcpy(b, tile + (size_t)row * sizeof b, sizeof b);
        for (int i = 0; i < FACE; i++) {
            uint32_t u = (uint32_t)b[i] << 16;
            uint32_t normal = (u & 0x7f800000u) ? ~0u : 0u;
            out[row * FACE + i] = u & mask & normal;
        }
    }
}

static void unpack_bfp8(const uint8_t *tile, uint32_t mask, float *out)
{
    for (int row = 0; row < FACE_ROWS; row++) {
        const uint8_t *b = tile + FACE_ROWS + (size_t)row * FACE;
        /* exponents below 7 do not come out of tile_format.c; they are zeros here */
        uint32_t bits = tile[row] < 7 ? 0 : (uint32_t)(tile[row] - 6) << 23;
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        for (int i = 0; i < FACE; i++) {
            float m = (float)(b[i] & 0x7f) * scale;
            uint32_t u;
            memcpy(&u, &m, sizeof u);
            u = (u & mask) | (uint32_t)(b[i] & 0x80) << 24;
            memcpy(&out[row * FACE + i], &u, sizeof u);
        }
    }
}

static void unpack(enum gr_bh_format f, uint32_t mask, const uint8_t *tile, struct gr_bh_operand *out)
{
    if (f == GR_BH_FP32) {
        unpack_fp32(tile, mask, out->u);
    } else if (f == GR_BH_BF16) {
        unpack_bf16(tile, mask, out->u);
    } else {
        unpack_bfp8(tile, mask, out->f);
    }
}

static void fast_left(enum gr_bh_format f, int phases, const uint8_t *tile, struct gr_bh_operand *out)
{
    unpack(f, left_mask(f, phases), tile, out);
}

static void fast_right(enum gr_bh_format f, bool transposed, int phases, const uint8_t *tile, struct gr_bh_operand *out)
{
    if (!transposed) {
        unpack(f, right_mask(f, phases), tile, out);
        return;
    }
    struct gr_bh_operand straight;
    unpack(f, right_mask(f, phases), tile, &straight);
    for (int face = 0; face < 4; face++) {
        const float *from = straight.f + FACE_ELEMENTS * (face == 1 ? 2 : face == 2 ? 1 : face);
        float *to = out->f + FACE_ELEMENTS * face;
        for (int r = 0; r < FACE; r++) {
            for (int c = 0; c < FACE; c++) {
                to[r * FACE + c] = from[c * FACE + r];
            }
        }
    }
}

/* Four rows and eight columns of dst stay in registers over all of k. Vectors of four are what every target has. */
typedef float vec __attribute__((vector_size(16)));

static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* dst, left: 4 rows of a face; right: 8 columns of a face. */
static inline void block(vec sum[4][2], const float *left, const float *right)
{
    for (int k = 0; k < FACE; k++) {
        vec b0 = load(right + k * FACE), b1 = load(right + k * FACE + 4);
        for (int r = 0; r < 4; r++) {
            float a = left[r * FACE + k];
            vec av = {a, a, a, a};
            sum[r][0] += av * b0;
            sum[r][1] += av * b1;
        }
    }
}

static void fast_product(union gr_bh_dst *dst, const struct gr_bh_operand *left, const struct gr_bh_operand *right,
                         int phases)
{
    (void)phases;
    for (int face = 0; face < 4; face++) {
        const float *upper = left->f + FACE_ELEMENTS * (face & 2), *lower = upper + FACE_ELEMENTS;
        const float *near = right->f + FACE_ELEMENTS * (face & 1), *far = near + 2 * FACE_ELEMENTS;
        for (int r = 0; r < FACE; r += 4) {
            for (int c = 0; c < FACE; c += 8) {
                float *d = dst->f + FACE_ELEMENTS * face + r * FACE + c;
                vec sum[4][2];
                for (int i = 0; i < 4; i++) {
                    sum[i][0] = load(d + i * FACE);
                    sum[i][1] = load(d + i * FACE + 4);
                }
                block(sum, upper + r * FACE, near + c);
                block(sum, lower + r * FACE, far + c);
                for (int i = 0; i < 4; i++) {
                    memcpy(d + i * FACE, &sum[i][0], sizeof(vec));
                    memcpy(d + i * FACE + 4, &sum[i][1], sizeof(vec));
                }
            }
        }
    }
}

static void fast_element(union gr_bh_dst *dst, const struct gr_bh_operand *left, const struct gr_bh_operand *right,
                         int phases)
{
    (void)phases;
    for (int i = 0; i < GR_BH_ELEMENTS; i++) {
        dst->f[i] += left->f[i] * right->f[i];
    }
}

/* 2^y of t = (y + 383) / 256 as the kernels do it, each multiply-add in two roundings: the top of t's significand becomes the exponent, the
 * rest the significand of a polynomial. `limit` is that of t; what is too small for a number is 0. */
static inline float power(float t, float limit)
{
    uint32_t u, bits;
    t = t < 1.0f ? 1.0f : t;
    t = t < limit ? t : limit; /* what is not a number becomes the limit too */
    memcpy(&u, &t, sizeof u);
    u <<= 8;
    bits = (u & 0x7fffffu) | 0x3f800000u;
    float m, p;
    memcpy(&m, &bits, sizeof m);
    p = 0x1.acb296p-1f * m + 0x1.37cp-5f;
    p = p * m + 0x1.48df1ap+3f;
    p = p * m + 0x1.45784ep+4f;
    p = p * m + 0x1.040b5ap+5f;
    memcpy(&bits, &p, sizeof bits);
    bits = (bits & 0x7fffffu) | (u & 0x7f800000u);
    bits = bits < 0x800000u ? 0 : bits;
    memcpy(&p, &bits, sizeof p);
    return p;
}
static const float log2e_256 = 0x1.715476p-8f, power_bias = 0x1.7fp+0f;
static const float power_64 = 0x1.bfp+0f, power_largest = 0x1.fcp+0f; /* of 2^64 and 2^125 */

/* x / (1 + 2^y), t as above */
static inline float sigmoid_times(float x, float t) { return x / (1.0f + power(t, power_largest)); }

static void fast_function(union gr_bh_dst *dst, enum gr_bh_function fn, uint32_t arg)
{
    float *x = dst->f, a;
    memcpy(&a, &arg, sizeof a);
    for (int i = 0; fn == GR_BH_EXP && i < GR_BH_ELEMENTS; i++) {
        x[i] = power(x[i] * log2e_256 + power_bias, power_64);
    }
    for (int i = 0; fn == GR_BH_GELU && i < GR_BH_ELEMENTS; i++) {
        x[i] = sigmoid_times(x[i], (-0x1.a5a7dp-12f * (x[i] * x[i]) - 0x1.26aec2p-7f) * x[i] + power_bias);
    }
    for (int i = 0; fn == GR_BH_SILU && i < GR_BH_ELEMENTS; i++) {
        x[i] = sigmoid_times(x[i], -log2e_256 * x[i] + power_bias);
    }
    for (int i = 0; fn == GR_BH_RELU && i < GR_BH_ELEMENTS; i++) {
        x[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
    for (int i = 0; fn == GR_BH_RECIP && i < GR_BH_ELEMENTS; i++) {
        x[i] = 1.0f / x[i];
    }
    for (int i = 0; fn == GR_BH_RSQRT && i < GR_BH_ELEMENTS; i++) {
        x[i] = 1.0f / sqrtf(x[i] + a);
    }
    for (int i = 0; fn == GR_BH_SCALE && i < GR_BH_ELEMENTS; i++) {
        x[i] *= a;
    }
    for (int i = 0; fn == GR_BH_SQUARE && i < GR_BH_ELEMENTS; i++) {
        x[i] = x[i] * x[i] * a;
    }
}

const struct gr_bh_arith gr_bh_fast = {fast_left, fast_right, fast_product, fast_element, fast_function};
