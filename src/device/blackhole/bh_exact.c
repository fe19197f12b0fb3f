/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_exact.c: products of the FPU to the bit. One instruction multiplies 16 k; it aligns the products of each 8 to the largest exponent
 * among them, rounds them there, adds, and puts both sums and Dst together in one fp32 rounding. A fidelity phase takes 5 bits of the
 * right and 7 of the left significand.
 *
 * The exponents do not depend on the phase, so alignment is found once and used for all. Sums are done in float lanes: a product has 12
 * bits, a shift right is a multiplication by a power of two, and nothing is lost before the rounding. */
#include <string.h>

#include "device/blackhole/bh_arith.h"

enum {
    FACE = 16,
    FACE_ELEMENTS = 256,
    SIDE = 32,
    GROUP = 8,             /* products that are aligned together */
    GROUPS = SIDE / GROUP, /* of a row of k */
    PHASES = 4,
    NOTHING = -600, /* exponent of a zero: below any sum of two others */
    BIAS = 127
};

/* What a phase takes off the exponent: the low part of the right significand is 5 bits further down, of the left one 7. */
static int phase_exponent(int phase) { return -BIAS - (phase & 1 ? 5 : 0) - (phase & 2 ? 7 : 0); }

/* Unpacked values to the parts that the phases multiply. */
static void split(struct gr_bh_operand *x, bool left, const uint32_t *values)
{
    for (int i = 0; i < GR_BH_ELEMENTS; i++) {
        uint32_t u = values[i], m = (u >> 13 & 0x3ffu) | 0x400u; /* 11 bits */
        int32_t e = (int32_t)(u >> 23 & 0xffu);
        uint32_t high = left ? m >> 4 : m >> 6;
        uint32_t low = left ? (m & 15u) << 3 : m >> 1 & 31u;
        float sign = e == 0 ? 0.0f : u >> 31 ? -1.0f : 1.0f; /* subnormals are zeros */
        x->part.m[0][i] = sign * (float)high;
        x->part.m[1][i] = sign * (float)low;
        x->part.e[i] = e ? e : NOTHING;
    }
}

static void exact_left(enum gr_bh_format f, int phases, const uint8_t *tile, struct gr_bh_operand *out)
{
    (void)phases;
    uint32_t values[GR_BH_ELEMENTS];
    gr_bh_unpack(f, false, tile, values);
    split(out, true, values);
}

static void exact_right(enum gr_bh_format f, bool transposed, int phases, const uint8_t *tile,
                        struct gr_bh_operand *out)
{
    (void)phases;
    uint32_t values[GR_BH_ELEMENTS];
    gr_bh_unpack(f, transposed, tile, values);
    split(out, false, values);
}

/* A sum of products: sign of the sum, integer with its lowest bit at 2^-23 of the exponent's power. */
struct sum {
    uint32_t negative, m;
    int32_t e;
};

static struct sum sum_of(int32_t products, int32_t e)
{
    if (e <= 0) {
        return (struct sum){0, 0, 0};
    }
    uint32_t size = products < 0 ? (uint32_t)-products : (uint32_t)products;
    return (struct sum){products < 0, size << 13, e};
}

/* Right by d, half up; a negative number half down. */
static uint32_t aligned(uint32_t m, uint32_t negative, int32_t d)
{
    return d <= 0 ? m : d > 30 ? 0 : (m + (1u << (d - 1)) - negative) >> d;
}

/* Dst + a + b. */
static uint32_t accumulate(uint32_t dst, struct sum a, struct sum b)
{
    int32_t ed = (int32_t)(dst >> 23 & 0xffu), e = a.e > b.e ? a.e : b.e;
    e = e > ed ? e : ed;
    if (e <= 0) {
        return 0;
    }
    uint32_t negative = dst >> 31, md = ed ? (dst & 0x7fffffu) | 0x800000u : 0;
    int32_t m = (int32_t)aligned(md, 0, e - ed);
    int32_t ma = (int32_t)aligned(a.m, a.negative, e - a.e), mb = (int32_t)aligned(b.m, b.negative, e - b.e);
    m += a.negative == negative ? ma : -ma;
    m += b.negative == negative ? mb : -mb;
    if (!m) {
        return 0;
    }
    negative ^= m < 0;
    uint32_t size = m < 0 ? (uint32_t)-m : (uint32_t)m;
    int shift = __builtin_clz(size) - 8;
    size = shift < 0 ? (size + (1u << (-shift - 1))) >> -shift : size << shift;
    e += (int32_t)(size >> 24 & 1u) - shift;
    if (e <= 0) {
        return 0;
    }
    return negative << 31 | (e >= 255 ? 0x7f800000u : (uint32_t)e << 23 | (size & 0x7fffffu));
}

/* Sums of products of one row of the left operand with 16 columns of the right one, for a group of k. */
struct lane_sums {
    int32_t sum[PHASES][FACE], e[FACE];
    bool nothing; /* the row is zero here */
};

/* left, right: element 0 of the row, and of the first of 8 rows, in their faces. */
static void group_sums(const struct gr_bh_operand *left, int l, const struct gr_bh_operand *right, int r, int phases,
                       struct lane_sums *out)
{
    int32_t largest[FACE];
    float scale[GROUP][FACE];
    bool some = false;
    for (int j = 0; j < FACE; j++) {
        largest[j] = 2 * NOTHING;
    }
    for (int i = 0; i < GROUP; i++) {
        int32_t e = left->part.e[l + i];
        some |= e != NOTHING;
        for (int j = 0; j < FACE; j++) {
            int32_t s = e + right->part.e[r + i * FACE + j];
            largest[j] = s > largest[j] ? s : largest[j];
        }
    }
    memcpy(out->e, largest, sizeof largest);
    out->nothing = !some;
    if (!some) {
        return;
    }
    for (int i = 0; i < GROUP; i++) {
        uint32_t bits[FACE];
        for (int j = 0; j < FACE; j++) {
            int32_t d = BIAS + left->part.e[l + i] + right->part.e[r + i * FACE + j] - largest[j];
            bits[j] = (uint32_t)(d > 0 ? d : 0) << 23; /* 2^-(distance to the largest) */
        }
        memcpy(scale[i], bits, sizeof bits);
    }
    for (int p = 0; p < phases; p++) {
        const float *a = left->part.m[p >> 1] + l, *b = right->part.m[p & 1] + r;
        int32_t sum[FACE] = {0};
        for (int i = 0; i < GROUP; i++) {
            for (int j = 0; j < FACE; j++) {
                float v = a[i] * b[i * FACE + j] * scale[i][j];
                sum[j] += (int32_t)(v + (v < 0.0f ? -0.5f : 0.5f)); /* half away from zero */
            }
        }
        memcpy(out->sum[p], sum, sizeof sum);
    }
}

static void exact_product(union gr_bh_dst *dst, const struct gr_bh_operand *left, const struct gr_bh_operand *right,
                          int phases)
{
    for (int row = 0; row < SIDE; row++) {
        for (int half = 0; half < 2; half++) { /* of the columns */
            struct lane_sums sums[GROUPS];
            for (int g = 0; g < GROUPS; g++) {
                int far = g / 2, k = g % 2 * GROUP; /* which face along k, and where in it */
                int l = (row / FACE * 2 + far) * FACE_ELEMENTS + row % FACE * FACE + k;
                int r = (far * 2 + half) * FACE_ELEMENTS + k * FACE;
                group_sums(left, l, right, r, phases, &sums[g]);
            }
            uint32_t *d = dst->u + (row / FACE * 2 + half) * FACE_ELEMENTS + row % FACE * FACE;
            for (int p = 0; p < phases; p++) {
                int adjust = phase_exponent(p);
                for (int g = 0; g < GROUPS; g += 2) {
                    struct lane_sums *a = &sums[g], *b = &sums[g + 1];
                    for (int j = 0; !(a->nothing && b->nothing) && j < FACE; j++) {
                        struct sum none = {0, 0, 0};
                        d[j] = accumulate(d[j], a->nothing ? none : sum_of(a->sum[p][j], a->e[j] + adjust),
                                          b->nothing ? none : sum_of(b->sum[p][j], b->e[j] + adjust));
                    }
                }
            }
        }
    }
}

static void exact_element(union gr_bh_dst *dst, const struct gr_bh_operand *left, const struct gr_bh_operand *right,
                          int phases)
{
    struct sum none = {0, 0, 0};
    for (int p = 0; p < phases; p++) {
        int adjust = phase_exponent(p);
        for (int i = 0; i < GR_BH_ELEMENTS; i++) {
            int32_t product = (int32_t)(left->part.m[p >> 1][i] * right->part.m[p & 1][i]);
            struct sum s = sum_of(product, left->part.e[i] + right->part.e[i] + adjust);
            dst->u[i] = accumulate(dst->u[i], s, none);
        }
    }
}

const struct gr_bh_arith gr_bh_exact = {exact_left, exact_right, exact_product, exact_element, gr_bh_sfpu};
