/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_arith.c: what both sets of arithmetic share: operands of the bit exact set, the column maximum, the packer. To the bit as the vendor's
 * functional simulator states it. */
#include <string.h>

#include "device/blackhole/bh_arith.h"

enum { FACE = 16, FACE_ELEMENTS = 256, FACE_ROWS = 64 };

#define SIGN 0x80000000u
#define EXPONENT 0x7f800000u
#define INFINITE 0x7f800000u

static uint32_t flushed(uint32_t u) { return u & EXPONENT ? u : u & SIGN; }

static float of_bits(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint32_t bits_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* ------------------------------------------------------------------------------------------------------------------- pack */

/* Accumulation in L1: both sides and the sum lose subnormals, every NaN becomes the same one. */
static uint32_t add_fp32(uint32_t there, uint32_t value)
{
    uint32_t sum = bits_of(of_bits(flushed(there)) + of_bits(flushed(value)));
    return (sum & ~SIGN) > INFINITE ? 0x7fc00000u : flushed(sum);
}

/* The sum of two bf16 to nearest even. Beyond that the adder takes a NaN for a large number; such tiles are beyond repair anyway, and
 * here they stay NaN. */
static uint32_t add_bf16(uint32_t there, uint32_t value)
{
    float sum = of_bits(flushed(there << 16)) + of_bits(flushed(value << 16));
    uint32_t u = bits_of(sum);
    if ((u & ~SIGN) > INFINITE) {
        return 0x7fc0u;
    }
    if (!(u & EXPONENT)) {
        return u >> 16 & 0x8000u;
    }
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

static void pack_fp32(bool accumulate, const uint32_t *dst, uint8_t *tile)
{
    if (!accumulate) {
        memcpy(tile, dst, 4 * GR_BH_ELEMENTS);
        return;
    }
    uint32_t there[GR_BH_ELEMENTS];
    memcpy(there, tile, sizeof there);
    for (int i = 0; i < GR_BH_ELEMENTS; i++) {
        there[i] = add_fp32(there[i], dst[i]);
    }
    memcpy(tile, there, sizeof there);
}

static void pack_bf16(bool accumulate, const uint32_t *dst, uint8_t *tile)
{
    uint16_t out[GR_BH_ELEMENTS], there[GR_BH_ELEMENTS];
    for (int i = 0; i < GR_BH_ELEMENTS; i++) {
        uint32_t u = dst[i];
        u = (u & ~SIGN) > INFINITE ? (u & SIGN) | INFINITE : u;
        u = (u + 0x8000u) >> 16; /* half away from zero */
        out[i] = (uint16_t)((u & 0x7f80u) ? u : 0);
    }
    if (accumulate) {
        memcpy(there, tile, sizeof there);
        for (int i = 0; i < GR_BH_ELEMENTS; i++) {
            out[i] = (uint16_t)add_bf16(there[i], out[i]);
        }
    }
    memcpy(tile, out, sizeof out);
}

/* Rounds twice: to 7 significand bits, half up, then again when a smaller number is moved to the exponent of its row. */
static void pack_bfp8(const uint32_t *dst, uint8_t *tile)
{
    for (int row = 0; row < FACE_ROWS; row++) {
        uint32_t v[FACE], most = 0;
        for (int i = 0; i < FACE; i++) {
            uint32_t u = dst[row * FACE + i];
            u = (u & ~SIGN) > INFINITE ? (u & SIGN) | INFINITE : u;
            u = ((u >> 16) + 1) & 0xfffeu;
            v[i] = u & 0x7f80u ? u : 0;
            uint32_t e = v[i] >> 7 & 0xffu;
            most = e > most ? e : most;
        }
        tile[row] = (uint8_t)most;
        for (int i = 0; i < FACE; i++) {
            uint32_t e = v[i] >> 7 & 0xffu, m = (v[i] & 0x7fu) | (e ? 0x80u : 0), shift = most - e;
            m = shift >= 8 ? 0 : (m + (1u << shift)) >> (shift + 1);
            m = m > 127 ? 127 : m;
            tile[FACE_ROWS + row * FACE + i] = (uint8_t)(m ? m | (v[i] >> 8 & 0x80u) : 0);
        }
    }
}

void gr_bh_pack(enum gr_bh_format f, bool accumulate, const union gr_bh_dst *dst, uint8_t *tile)
{
    if (f == GR_BH_FP32) {
        pack_fp32(accumulate, dst->u, tile);
    } else if (f == GR_BH_BF16) {
        pack_bf16(accumulate, dst->u, tile);
    } else {
        pack_bfp8(dst->u, tile);
    }
}

/* ----------------------------------------------------------------------------------------------------------------- unpack */

/* A bfp8_b element as the unpacker gives it: normalised, and the exponent wraps when it falls below zero. */
static uint32_t from_bfp8(uint32_t byte, uint32_t exponent)
{
    uint32_t m = byte << 1 & 0xffu;
    if (!m) {
        return byte & 0x80u ? SIGN | INFINITE : 0;
    }
    while (!(m & 0x80u)) {
        m <<= 1;
        exponent--;
    }
    return (byte & 0x80u) << 24 | (exponent & 0xffu) << 23 | (m & 0x7fu) << 16;
}

static void unpack(enum gr_bh_format f, const uint8_t *tile, uint32_t *out)
{
    if (f == GR_BH_FP32) {
        memcpy(out, tile, 4 * GR_BH_ELEMENTS);
        for (int i = 0; i < GR_BH_ELEMENTS; i++) {
            out[i] &= 0xffffe000u; /* tf32, cut */
        }
    } else if (f == GR_BH_BF16) {
        for (int i = 0; i < GR_BH_ELEMENTS; i++) {
            out[i] = (uint32_t)tile[2 * i] << 16 | (uint32_t)tile[2 * i + 1] << 24;
        }
    } else {
        for (int i = 0; i < GR_BH_ELEMENTS; i++) {
            out[i] = from_bfp8(tile[FACE_ROWS + i], tile[i / FACE]);
        }
    }
}

/* Faces 1 and 2 change places, each face is transposed. */
static void turn(const uint32_t *in, uint32_t *out)
{
    for (int face = 0; face < 4; face++) {
        const uint32_t *from = in + FACE_ELEMENTS * (face == 1 ? 2 : face == 2 ? 1 : face);
        for (int i = 0; i < FACE_ELEMENTS; i++) {
            out[FACE_ELEMENTS * face + i] = from[i % FACE * FACE + i / FACE];
        }
    }
}

void gr_bh_unpack(enum gr_bh_format f, bool transposed, const uint8_t *tile, uint32_t *out)
{
    if (!transposed) {
        unpack(f, tile, out);
        return;
    }
    uint32_t straight[GR_BH_ELEMENTS];
    unpack(f, tile, straight);
    turn(straight, out);
}

void gr_bh_unpack_values(enum gr_bh_format f, bool transposed, const uint8_t *tile, uint32_t *out)
{
    gr_bh_unpack(f, transposed, tile, out);
    for (int i = 0; i < GR_BH_ELEMENTS; i++) {
        out[i] = out[i] & EXPONENT ? out[i] : 0;
    }
}

/* Sign and magnitude as an integer of the same order; -0 is below +0, NaNs are beyond the infinities. */
static int32_t ordered(uint32_t u) { return u & SIGN ? (int32_t)(u ^ ~SIGN) : (int32_t)u; }

void gr_bh_column_max(union gr_bh_dst *dst, const uint32_t *values, bool first)
{
    for (int half = 0; half < 2; half++) {
        for (int c = 0; c < FACE; c++) {
            uint32_t most = first ? 0xffffe000u : dst->u[half * FACE_ELEMENTS + c]; /* below every number */
            for (int r = 0; r < 2 * FACE; r++) {
                uint32_t v = values[(r / FACE * 2 + half) * FACE_ELEMENTS + r % FACE * FACE + c];
                most = ordered(v) > ordered(most) ? v : most;
            }
            dst->u[half * FACE_ELEMENTS + c] = most;
        }
    }
}
