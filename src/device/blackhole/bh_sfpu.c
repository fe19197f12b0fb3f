/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_sfpu.c: the functions of kernels/sfpu.h, instruction by instruction, with the vector unit's multiply-add to the bit. A change of a
 * recipe there is a change here. */
#include "device/blackhole/bh_arith.h"

#define SIGN 0x80000000u
#define INFINITE 0x7f800000u
#define ONE 0x3f800000u

/* ----------------------------------------------------------------------------------------------------------- instructions */

static uint32_t exponent(uint32_t u) { return u >> 23 & 0xffu; }

/* 24 bits; subnormals are zero. */
static uint32_t significand(uint32_t u) { return exponent(u) ? (u & 0x7fffffu) | 0x800000u : 0; }

static bool is_nan(uint32_t u) { return (u & ~SIGN) > INFINITE; }

/* x * y + z where an operand or the product is not finite. */
static uint32_t special(uint32_t x, uint32_t y, uint32_t z)
{
    bool xi = (x & ~SIGN) == INFINITE, yi = (y & ~SIGN) == INFINITE, zi = (z & ~SIGN) == INFINITE;
    uint32_t sign = (x ^ y) & SIGN;
    if (is_nan(x) || is_nan(y) || is_nan(z) || (xi && !significand(y)) || (yi && !significand(x)) ||
        (zi && (xi || yi) && sign != (z & SIGN))) {
        return 0x7fc00000u;
    }
    return zi ? z : sign | INFINITE;
}

/* Right by d, what is shifted out kept in the lowest bit unless nothing else is left. */
static uint32_t shifted(uint32_t m, int32_t d)
{
    if (d <= 0) {
        return m;
    }
    uint32_t r = d > 31 ? 0 : m >> d;
    return r && r << d != m ? r | 1u : r;
}

/* m / 2^26 * 2^(e - 127), m not 0, to nearest even; below the smallest normal number 0. */
static uint32_t rounded(uint32_t sign, uint32_t m, int32_t e)
{
    int n = 5 - __builtin_clz(m);
    e += n;
    if (e >= 255) {
        return sign | INFINITE;
    }
    if (e <= 0) {
        n++;
        e = 0;
    }
    /* the unit looks at bits n | 1 for what it drops: all of them but in the last step before underflow */
    m = n <= 0 ? m << -n : m >> n | ((m & ((uint32_t)n | 1u)) != 0);
    uint32_t r = ((uint32_t)e << 23) + (m >> 3 & 0x7fffffu);
    r += (m & 7u) + (r & 1u) > 4;
    return sign | (r >> 23 ? r : 0);
}

/* x * y + z: the product is cut to 27 bits and a sticky one before the addition. */
static uint32_t mad(uint32_t x, uint32_t y, uint32_t z)
{
    int32_t e = (int32_t)exponent(x) + (int32_t)exponent(y) - 127, ez = (int32_t)exponent(z);
    if (exponent(x) == 255 || exponent(y) == 255 || ez == 255 || e >= 255) {
        return special(x, y, z);
    }
    uint64_t full = (uint64_t)significand(x) * significand(y);
    uint32_t sign = (x ^ y) & SIGN, signz = z & SIGN;
    uint32_t m = (uint32_t)(full >> 20) | ((full & 0xfffffu) != 0), mz = significand(z) << 3;
    if (!m || e < 0) {
        return mz ? z : sign & signz;
    }
    int32_t top = e > ez ? e : ez;
    m = shifted(m, top - e);
    mz = shifted(mz, top - ez);
    uint32_t r = sign == signz ? m + mz : m >= mz ? m - mz : mz - m;
    if (!r) {
        return sign & signz;
    }
    return rounded(m >= mz ? sign : signz, r, top);
}

static uint32_t negated(uint32_t u) { return u ^ SIGN; }

static uint32_t mul(uint32_t a, uint32_t b) { return mad(a, b, 0); }

static uint32_t add(uint32_t a, uint32_t b) { return mad(ONE, a, b); }

static int32_t ordered(uint32_t u) { return u & SIGN ? (int32_t)(u ^ ~SIGN) : (int32_t)u; }

static uint32_t greater(uint32_t a, uint32_t b) { return ordered(a) > ordered(b) ? a : b; }

static uint32_t smaller(uint32_t a, uint32_t b) { return ordered(a) < ordered(b) ? a : b; }

/* Seven bits of 1 / x: 2 / (1 + (i + 1/2) / 128) - 1 to the nearest 128th, i the seven top bits of the significand. */
static uint32_t recip_seed(uint32_t x)
{
    uint32_t size = x & ~SIGN;
    if (size < 0x800000u) {
        return (x & SIGN) | INFINITE;
    }
    if (size >= 0x7e800000u) { /* 2^126 */
        return x & SIGN;
    }
    uint32_t divisor = 257 + 2 * (size >> 16 & 0x7fu);
    return (x & SIGN) | (253 - (size >> 23)) << 23 | ((65536 + divisor / 2) / divisor - 128) << 16;
}

/* ---------------------------------------------------------------------------------------------------------------- recipes */

#define LOG2E_256 0x3bb8aa3bu                                           /* log2(e) / 256 */
#define POWER_BIAS 0x3fbf8000u                                          /* 383 / 256 */
enum power_limit { POWER_64 = 0x3fdf8000, POWER_LARGEST = 0x3ffe0000 }; /* 2^64, 2^125 */

/* 2^y of t = (y + 383) / 256, between 2^-127 (which the store makes 0) and the limit: the top of t's significand becomes the exponent, the
 * rest the significand m of a polynomial of 2^m. */
static uint32_t power(uint32_t t, enum power_limit limit)
{
    t = smaller(greater(t, ONE), limit) << 8;
    uint32_t m = (t & 0x7fffffu) | ONE;
    uint32_t p = mad(0x3f56594bu, m, 0x3d1be000u); /* 0.8373, 0.03806 */
    p = mad(p, m, 0x41246f8du);
    p = mad(p, m, 0x41a2bc27u);
    p = mad(p, m, 0x420205adu);
    return (p & 0x7fffffu) | (t & INFINITE);
}

/* 1 + e + e^2 = 1 + the result, e what the seed y lacks. */
static uint32_t correction(uint32_t x, uint32_t y)
{
    uint32_t e = mad(negated(x), y, ONE);
    return mad(e, e, e);
}

static uint32_t reciprocal(uint32_t x)
{
    uint32_t y = recip_seed(x);
    return mad(y, correction(x, y), y);
}

/* x / (1 + 2^y), t as for power() */
static uint32_t sigmoid_times(uint32_t x, uint32_t t)
{
    uint32_t d = add(power(t, POWER_LARGEST), ONE), r = recip_seed(d);
    uint32_t y = mul(x, r);
    return mad(y, correction(d, r), y);
}

static uint32_t gelu(uint32_t x)
{
    /* -0.07135481 and -1.5957691 log2(e) / 256 */
    return sigmoid_times(x, mad(mad(mul(x, x), 0xb9d2d3e8u, 0xbc135761u), x, POWER_BIAS));
}

static uint32_t inverse_root(uint32_t x)
{
    uint32_t y = 0x5efd4100u - (x >> 1);
    y = mul(y, mad(negated(mul(x, y)), y, 0x3fcf9d0au));    /* 1.62198 */
    return mul(y, mad(negated(mul(x, y)), y, 0x3ff1e7bcu)); /* 1.8898845 */
}

static uint32_t function_of(enum gr_bh_function fn, uint32_t x, uint32_t arg)
{
    switch (fn) {
    case GR_BH_EXP:
        return power(mad(x, LOG2E_256, POWER_BIAS), POWER_64);
    case GR_BH_GELU:
        return gelu(x);
    case GR_BH_SILU:
        return sigmoid_times(x, mad(x, negated(LOG2E_256), POWER_BIAS));
    case GR_BH_RELU:
        return greater(x, 0);
    case GR_BH_RECIP:
        return reciprocal(x);
    case GR_BH_RSQRT:
        return inverse_root(add(x, arg));
    case GR_BH_SCALE:
        return mul(x, arg);
    case GR_BH_SQUARE:
        return mul(mul(x, x), arg);
    default:
        return x;
    }
}

void gr_bh_sfpu(union gr_bh_dst *dst, enum gr_bh_function fn, uint32_t arg)
{
    for (int i = 0; fn != GR_BH_NONE && i < GR_BH_ELEMENTS; i++) {
        uint32_t y = function_of(fn, dst->u[i], arg);
        dst->u[i] = y & INFINITE ? y : y & SIGN; /* the store flushes subnormals */
    }
}
