/* SPDX-License-Identifier: Apache-2.0
 *
 * half_scalar.h: IEEE half precision without compiler support for it: values stay float or double and are rounded to what a half
 * can hold, to nearest even, halves below 2^-14 (subnormal) and overflow to infinity included. */
#ifndef GR_KERNELS_SCALAR_HALF_SCALAR_H
#define GR_KERNELS_SCALAR_HALF_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float gr_half_to_float(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
    float x;
    uint32_t bits;
    memcpy(&x, &magnitude, sizeof x);
    x *= 0x1p112f; /* the biases differ by 112; exact, also for subnormal halves */
    memcpy(&bits, &x, sizeof bits);
    bits |= sign | (magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0); /* infinity and NaN keep the largest exponent */
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x rounded to a half, as double. */
static inline double gr_half_round(double x)
{
    enum { BIAS = 1023, FRACTION = 52, HALF_FRACTION = 10, HALF_LEAST = -14 };
    if (!(fabs(x) < 65520.0)) {
        return isnan(x) ? x : copysign(INFINITY, x);
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> FRACTION & 0x7ff) - BIAS;
    e = e < HALF_LEAST ? HALF_LEAST : e;
    /* 1.5 * 2^52 times the half's unit in the last place: adding it makes the double's last place that unit. */
    bits = (uint64_t)(e - HALF_FRACTION + FRACTION + BIAS) << FRACTION | (uint64_t)1 << (FRACTION - 1);
    double magic;
    memcpy(&magic, &bits, sizeof magic);
    return copysign((x + magic) - magic, x);
}

static inline uint16_t gr_half_from_float(float x)
{
    const float rounded = (float)gr_half_round((double)x);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (isnan(rounded)) {
        return sign | 0x7e00u;
    }
    if (isinf(rounded)) {
        return sign | 0x7c00u;
    }
    if (fabsf(rounded) < 0x1p-14f) {
        return (uint16_t)(sign | (uint16_t)(fabsf(rounded) * 0x1p24f));
    }
    return (uint16_t)(sign | (uint16_t)(((bits & 0x7fffffffu) - (112u << 23)) >> 13));
}

#endif
