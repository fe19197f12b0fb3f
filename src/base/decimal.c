/* SPDX-License-Identifier: Apache-2.0
 *
 * decimal.c: the shortest decimal that reads back as the same number, and of those the nearest to it. No locale, no printf.
 * float32 (hundreds in each reply) takes Schubfach (R. Giulietti, "The Schubfach way to render doubles"): three 96-bit
 * products. float64 (few) takes the free-format algorithm of Burger and Dybvig with exact integers: slower, and obviously
 * right. Integers of up to 16 digits are written without a point, so that a reader may take them for integers. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* digits * 10^exponent */
struct decimal {
    uint64_t digits;
    int exponent;
};

/* ---- text form ---- */

enum { POINT_MIN = -6, POINT_MAX = 16 }; /* 1e-6 .. below 1e16 in plain notation */

static int put_digits(char *out, uint64_t v)
{
    char rev[20];
    int n = 0;
    do {
        rev[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    for (int i = 0; i < n; i++) {
        out[i] = rev[n - 1 - i];
    }
    return n;
}

static int put_zeros(char *out, int n)
{
    memset(out, '0', (size_t)n);
    return n;
}

static int put_decimal(char *out, struct decimal d)
{
    char digits[20];
    while (d.digits % 10 == 0) { /* never zero here */
        d.digits /= 10;
        d.exponent++;
    }
    int n = put_digits(digits, d.digits), w = 0;
    int lead = n + d.exponent - 1; /* power of ten of the first digit */
    if (lead < POINT_MIN || lead >= POINT_MAX) {
        out[w++] = digits[0];
        if (n > 1) {
            out[w++] = '.';
            memcpy(out + w, digits + 1, (size_t)(n - 1));
            w += n - 1;
        }
        out[w++] = 'e';
        if (lead < 0) {
            out[w++] = '-';
            lead = -lead;
        }
        return w + put_digits(out + w, (uint64_t)lead);
    }
    if (d.exponent >= 0) {
        memcpy(out, digits, (size_t)n);
        return n + put_zeros(out + n, d.exponent);
    }
    int whole = lead + 1; /* digits before the point */
    if (whole <= 0) {
        out[w++] = '0';
        out[w++] = '.';
        w += put_zeros(out + w, -whole);
        memcpy(out + w, digits, (size_t)n);
        return w + n;
    }
    memcpy(out, digits, (size_t)whole);
    out[whole] = '.';
    memcpy(out + whole + 1, digits + whole, (size_t)(n - whole));
    return n + 1;
}

static int finish(char out[32], int n)
{
    out[n] = '\0';
    return n;
}

static int put_null(char out[32])
{
    memcpy(out, "null", 5);
    return 4;
}

/* ---- float32 ---- */

enum { POW10_MIN = -31, POW10_MAX = 45 };

/* ceil(10^k * 2^(63 - floor(log2(10^k)))) for k = -31..45 */
static const uint64_t pow10_64[POW10_MAX - POW10_MIN + 1] = {
    0x81ceb32c4b43fcf5u, 0xa2425ff75e14fc32u, 0xcad2f7f5359a3b3fu, 0xfd87b5f28300ca0eu, 0x9e74d1b791e07e49u,
    0xc612062576589ddbu, 0xf79687aed3eec552u, 0x9abe14cd44753b53u, 0xc16d9a0095928a28u, 0xf1c90080baf72cb2u,
    0x971da05074da7befu, 0xbce5086492111aebu, 0xec1e4a7db69561a6u, 0x9392ee8e921d5d08u, 0xb877aa3236a4b44au,
    0xe69594bec44de15cu, 0x901d7cf73ab0acdau, 0xb424dc35095cd810u, 0xe12e13424bb40e14u, 0x8cbccc096f5088ccu,
    0xafebff0bcb24aaffu, 0xdbe6fecebdedd5bfu, 0x89705f4136b4a598u, 0xabcc77118461cefdu, 0xd6bf94d5e57a42bdu,
    0x8637bd05af6c69b6u, 0xa7c5ac471b478424u, 0xd1b71758e219652cu, 0x83126e978d4fdf3cu, 0xa3d70a3d70a3d70bu,
    0xcccccccccccccccdu, 0x8000000000000000u, 0xa000000000000000u, 0xc800000000000000u, 0xfa00000000000000u,
    0x9c40000000000000u, 0xc350000000000000u, 0xf424000000000000u, 0x9896800000000000u, 0xbebc200000000000u,
    0xee6b280000000000u, 0x9502f90000000000u, 0xba43b74000000000u, 0xe8d4a51000000000u, 0x9184e72a00000000u,
    0xb5e620f480000000u, 0xe35fa931a0000000u, 0x8e1bc9bf04000000u, 0xb1a2bc2ec5000000u, 0xde0b6b3a76400000u,
    0x8ac7230489e80000u, 0xad78ebc5ac620000u, 0xd8d726b7177a8000u, 0x878678326eac9000u, 0xa968163f0a57b400u,
    0xd3c21bcecceda100u, 0x84595161401484a0u, 0xa56fa5b99019a5c8u, 0xcecb8f27f4200f3au, 0x813f3978f8940985u,
    0xa18f07d736b90be6u, 0xc9f2c9cd04674edfu, 0xfc6f7c4045812297u, 0x9dc5ada82b70b59eu, 0xc5371912364ce306u,
    0xf684df56c3e01bc7u, 0x9a130b963a6c115du, 0xc097ce7bc90715b4u, 0xf0bdc21abb48db21u, 0x96769950b50d88f5u,
    0xbc143fa4e250eb32u, 0xeb194f8e1ae525feu, 0x92efd1b8d0cf37bfu, 0xb7abc627050305aeu, 0xe596b7b0c643c71au,
    0x8f7e32ce7bea5c70u, 0xb35dbf821ae4f38cu,
};

static int floor_log2_pow10(int e) { return (e * 1741647) >> 19; /* exact for |e| <= 1233 */ }

/* floor(log10(2^e)), or of 3/4 * 2^e */
static int floor_log10_pow2(int e, bool three_quarters) { return (e * 1262611 - (three_quarters ? 524031 : 0)) >> 22; }

/* High part of g * cp / 2^64 with the lost bits folded into the lowest one. */
static uint32_t round_to_odd(uint64_t g, uint32_t cp)
{
    uint64_t low = (g & 0xffffffffu) * cp;
    uint64_t high = (g >> 32) * cp + (low >> 32);
    return (uint32_t)(high >> 32) | ((uint32_t)high > 1 ? 1u : 0u);
}

static struct decimal shortest_f32(uint32_t fraction, uint32_t biased)
{
    uint32_t c = biased != 0 ? 0x800000u | fraction : fraction;
    int q = biased != 0 ? (int)biased - 150 : -149;
    if (q <= 0 && q > -24 && (c & ((1u << -q) - 1u)) == 0) {
        return (struct decimal){c >> -q, 0}; /* an integer below 2^24 */
    }
    /* The neighbour below is twice as near at a power of two. */
    bool closer = fraction == 0 && biased > 1;
    uint32_t odd = c & 1u; /* reading rounds to even: the interval's ends belong to even numbers only */
    int k = floor_log10_pow2(q, closer);
    int h = q + floor_log2_pow10(-k) + 1;
    uint64_t g = pow10_64[-k - POW10_MIN];
    uint32_t vbl = round_to_odd(g, (4 * c - 2 + (closer ? 1u : 0u)) << h);
    uint32_t vb = round_to_odd(g, (4 * c) << h);
    uint32_t vbr = round_to_odd(g, (4 * c + 2) << h);
    uint32_t lower = vbl + odd, upper = vbr - odd, s = vb / 4;
    if (s >= 10) {
        uint32_t tens = s / 10;
        bool below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
        if (below != above) {
            return (struct decimal){tens + (above ? 1u : 0u), k + 1};
        }
    }
    bool below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    if (below != above) {
        return (struct decimal){s + (above ? 1u : 0u), k};
    }
    uint32_t mid = 4 * s + 2;
    bool up = vb > mid || (vb == mid && (s & 1u) != 0);
    return (struct decimal){s + (up ? 1u : 0u), k};
}

int gr_format_f32(char out[32], float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t biased = bits >> 23 & 0xffu, fraction = bits & 0x7fffffu;
    if (biased == 0xff) {
        return put_null(out);
    }
    int n = 0;
    if (bits >> 31 != 0) {
        out[n++] = '-';
    }
    if (biased == 0 && fraction == 0) {
        out[n++] = '0';
    } else {
        n += put_decimal(out + n, shortest_f32(fraction, biased));
    }
    return finish(out, n);
}

/* ---- float64 ---- */

enum { LIMBS = 40 }; /* 2^1024 * 10 * 4 and 5^324 * 2^54 need 36 */

struct big {
    int n; /* limbs in use; the highest one is not zero */
    uint32_t limb[LIMBS];
};

static void big_set(struct big *b, uint64_t v)
{
    b->limb[0] = (uint32_t)v;
    b->limb[1] = (uint32_t)(v >> 32);
    b->n = b->limb[1] != 0 ? 2 : b->limb[0] != 0 ? 1 : 0;
}

static void big_mul(struct big *b, uint32_t f)
{
    uint64_t carry = 0;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * f;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0 && b->n < LIMBS) {
        b->limb[b->n++] = (uint32_t)carry;
    }
}

static void big_mul_pow10(struct big *b, int e)
{
    for (; e >= 9; e -= 9) {
        big_mul(b, 1000000000u);
    }
    for (; e > 0; e--) {
        big_mul(b, 10);
    }
}

static void big_shift(struct big *b, int bits)
{
    int limbs = bits / 32;
    bits %= 32;
    if (b->n == 0 || b->n + limbs > LIMBS) {
        return;
    }
    memmove(b->limb + limbs, b->limb, sizeof b->limb[0] * (size_t)b->n);
    memset(b->limb, 0, sizeof b->limb[0] * (size_t)limbs);
    b->n += limbs;
    big_mul(b, 1u << bits);
}

/* -1, 0, 1: a + b compared with c. */
static int big_cmp_sum(const struct big *a, const struct big *b, const struct big *c)
{
    int top = a->n > b->n ? a->n : b->n;
    top = top > c->n ? top : c->n;
    int64_t diff = 0; /* of the limbs seen so far, highest first; settled once it leaves the reach of a carry */
    for (int i = top - 1; i >= 0; i--) {
        int64_t x = i < a->n ? a->limb[i] : 0, y = i < b->n ? b->limb[i] : 0, z = i < c->n ? c->limb[i] : 0;
        diff = diff * ((int64_t)1 << 32) + x + y - z;
        if (diff > 0 || diff < -1) {
            return diff > 0 ? 1 : -1;
        }
    }
    return diff < 0 ? -1 : 0;
}

static int big_cmp(const struct big *a, const struct big *b)
{
    static const struct big zero;
    return big_cmp_sum(a, &zero, b);
}

/* a -= b, a >= b. */
static void big_sub(struct big *a, const struct big *b)
{
    int64_t borrow = 0;
    for (int i = 0; i < a->n; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->n ? (int64_t)b->limb[i] : 0);
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    while (a->n > 0 && a->limb[a->n - 1] == 0) {
        a->n--;
    }
}

/* Burger and Dybvig: value = r / s, half gaps to the neighbours above and below = up / s and down / s. */
struct ratio {
    struct big r, s, up, down;
};

static void set_ratio(struct ratio *x, uint64_t m, int e, bool closer)
{
    int extra = closer ? 2 : 1; /* a factor of 2 or 4 makes the half gaps whole numbers */
    big_set(&x->r, m);
    big_set(&x->s, 1);
    big_set(&x->up, 1);
    big_set(&x->down, 1);
    big_shift(&x->r, (e > 0 ? e : 0) + extra);
    big_shift(&x->s, (e < 0 ? -e : 0) + extra);
    big_shift(&x->up, (e > 0 ? e : 0) + (closer ? 1 : 0));
    big_shift(&x->down, e > 0 ? e : 0);
}

static void scale_ratio(struct ratio *x, int k)
{
    if (k >= 0) {
        big_mul_pow10(&x->s, k);
    } else {
        big_mul_pow10(&x->r, -k);
        big_mul_pow10(&x->up, -k);
        big_mul_pow10(&x->down, -k);
    }
}

static struct decimal shortest_f64(uint64_t fraction, uint32_t biased)
{
    uint64_t m = biased != 0 ? (uint64_t)1 << 52 | fraction : fraction;
    int e = biased != 0 ? (int)biased - 1075 : -1074;
    bool closer = fraction == 0 && biased > 1, even = (m & 1) == 0;
    struct ratio x;
    set_ratio(&x, m, e, closer);
    int length = 64 - __builtin_clzll(m) + e;    /* value in [2^(length-1), 2^length) */
    int k = floor_log10_pow2(length - 1, false); /* value in [10^k, 10^(k+2)) */
    scale_ratio(&x, k);
    big_mul(&x.s, 10);
    k++; /* now r / s < 10; first digit has weight 10^k or 10^(k-1) */
    int end = big_cmp_sum(&x.r, &x.up, &x.s);
    if (!(end > 0 || (end == 0 && even))) { /* the upper end stays below 10^k */
        big_mul(&x.r, 10);
        big_mul(&x.up, 10);
        big_mul(&x.down, 10);
        k--;
    }
    uint64_t digits = 0;
    for (;;) {
        uint32_t digit = 0;
        while (big_cmp(&x.r, &x.s) >= 0) {
            big_sub(&x.r, &x.s);
            digit++;
        }
        digits = digits * 10 + digit;
        int low = big_cmp(&x.r, &x.down), high = big_cmp_sum(&x.r, &x.up, &x.s);
        bool stop_low = low < 0 || (low == 0 && even), stop_high = high > 0 || (high == 0 && even);
        if (stop_low || stop_high) {
            int half = big_cmp_sum(&x.r, &x.r, &x.s);
            bool up = stop_high && (!stop_low || half > 0 || (half == 0 && (digit & 1u) != 0));
            return (struct decimal){digits + (up ? 1u : 0u), k};
        }
        big_mul(&x.r, 10);
        big_mul(&x.up, 10);
        big_mul(&x.down, 10);
        k--;
    }
}

int gr_format_f64(char out[32], double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    uint32_t biased = (uint32_t)(bits >> 52 & 0x7ffu);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    if (biased == 0x7ff) {
        return put_null(out);
    }
    int n = 0;
    if (bits >> 63 != 0) {
        out[n++] = '-';
    }
    if (biased == 0 && fraction == 0) {
        out[n++] = '0';
    } else {
        n += put_decimal(out + n, shortest_f64(fraction, biased));
    }
    return finish(out, n);
}
