/* SPDX-License-Identifier: Apache-2.0
 *
 * noise.c: standard normal numbers from a seed: mt19937, then Box-Muller in blocks of 16 with the polynomials of the reference
 * generator's vectorised code (spec/noise.md). In: seed. Out: float32, the same bits on every machine.
 * Each fmaf is one rounding and every other operation rounds on its own: neither may be changed into the other. Library logf,
 * sinf and cosf would change a third of the values. */
#include "model/noise.h"

#include <math.h>
#include <string.h>

enum { MT_WORDS = 624, MT_SHIFT = 397, BLOCK = 16, PAIRS = BLOCK / 2 };

struct mt19937 {
    uint32_t word[MT_WORDS];
    int next;
};

static void mt_seed(struct mt19937 *mt, uint32_t seed)
{
    mt->word[0] = seed;
    for (uint32_t i = 1; i < MT_WORDS; i++) {
        uint32_t before = mt->word[i - 1];
        mt->word[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    mt->next = MT_WORDS;
}

static void mt_twist(struct mt19937 *mt)
{
    uint32_t *w = mt->word;
    for (int k = 0; k < MT_WORDS; k++) {
        uint32_t y = (w[k] & 0x80000000u) | (w[(k + 1) % MT_WORDS] & 0x7FFFFFFFu);
        w[k] = w[(k + MT_SHIFT) % MT_WORDS] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908B0DFu : 0);
    }
    mt->next = 0;
}

static uint32_t mt_next(struct mt19937 *mt)
{
    if (mt->next == MT_WORDS) {
        mt_twist(mt);
    }
    uint32_t y = mt->word[mt->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
}

/* Natural logarithm, 0 < x <= 1 (Cephes logf, fused). */
static float log_ref(float x)
{
    static const float p[] = {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                              -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f};
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    float e = (float)((bits >> 23) - 127) + 1.0f;
    bits = (bits & 0x007FFFFF) | 0x3F000000; /* mantissa in [0.5, 1) */
    memcpy(&x, &bits, sizeof x);
    if (x < 0.707106781186547524f) {
        e = e - 1.0f;
        x = (x - 1.0f) + x;
    } else {
        x = x - 1.0f;
    }
    const float z = x * x;
    float y = 7.0376836292e-2f;
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        y = fmaf(y, x, p[i]);
    }
    y = y * x;
    y = fmaf(y, z, e * -2.12194440e-4f);
    y = y - z * 0.5f;
    x = x + y;
    return fmaf(e, 0.693359375f, x);
}

/* Sine and cosine of 0 <= x < 2 pi (Cephes sinf and cosf, fused). */
static void sincos_ref(float x, float *sine, float *cosine)
{
    const int32_t j = ((int32_t)(x * 1.27323954473516f) + 1) & ~1; /* even octant */
    const float y = (float)j;
    x = fmaf(y, -0.78515625f, x); /* pi/4 in three parts */
    x = fmaf(y, -2.4187564849853515625e-4f, x);
    x = fmaf(y, -3.77489497744594108e-8f, x);
    const float z = x * x;
    float c = fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f);
    c = fmaf(c * z, z, -(z * 0.5f)) + 1.0f;
    float s = fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f);
    s = fmaf(s * z, x, x);
    const float for_sine = (j & 2) != 0 ? c : s, for_cosine = (j & 2) != 0 ? s : c;
    *sine = (j & 4) != 0 ? -for_sine : for_sine;
    *cosine = ((j - 2) & 4) != 0 ? for_cosine : -for_cosine;
}

/* 16 draws to 16 values. */
static void fill_block(struct mt19937 *mt, float out[BLOCK])
{
    float u[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        u[i] = (float)(mt_next(mt) & 0xFFFFFFu) * 0x1p-24f;
    }
    for (int j = 0; j < PAIRS; j++) {
        const float r = sqrtf(-2.0f * log_ref(1.0f - u[j]));
        float s, c;
        sincos_ref(6.283185307179586f * u[j + PAIRS], &s, &c);
        out[j] = r * c;
        out[j + PAIRS] = r * s;
    }
}

void gr_noise(uint64_t seed, float *out, size_t n)
{
    struct mt19937 mt;
    mt_seed(&mt, (uint32_t)seed);
    const size_t blocks = n / BLOCK, rest = n % BLOCK;
    for (size_t b = 0; b < blocks; b++) {
        fill_block(&mt, out + b * BLOCK);
    }
    if (rest > 0 && blocks > 0) {
        /* The reference has drawn for the rest too, throws that away and draws the last 16 values anew. */
        for (size_t i = 0; i < rest; i++) {
            (void)mt_next(&mt);
        }
        fill_block(&mt, out + n - BLOCK);
    }
}
