/* SPDX-License-Identifier: Apache-2.0
 *
 * sfpu.h: the functions of program.h on one Dst tile, pushed by T1. The SFPU has 32 lanes: 4 Dst rows x 8 columns (even columns when row
 * bit 1 of the address is 0, odd ones when it is 1); a tile is 32 steps. Two steps are interleaved, an instruction of the one between
 * two of the other, so that none waits for the one before.
 *
 * What is relied upon (tt-isa-documentation, BlackholeA0/TensixTile/TensixCoprocessor; the simulator has no timing and shows none of it):
 * - SFPMAD.md: multiply-adds (MAD, ADD, MUL) take two clocks. An instruction right behind that reads the result is held back, but
 *   not if it is SFPIADD or SFPSHFT reading its destination, SFPCONFIG reading L0, or a comparing SFPSWAP: these need one instruction
 *   between. Keep the two halves of HALVES alternating, and nothing of that kind right behind a multiply-add of its own half.
 * - SFPSWAP.md: the clock behind a swap is lost; other instructions are held back, a SFPNOP is not needed.
 * - VectorUnit.md: everything else used here takes one clock.
 * - SFPLOAD.md, STALLWAIT.md: loads must not overtake the FPU: STALLWAIT(SFPU, C4), op_math.c.
 * - PushTensixInstruction.md, CSRs.md: without fusing (crt0.S) the core pushes one instruction a clock, and a round of a loop has two
 *   that push none: they hide behind two lost clocks of swaps, else a round takes two more.
 *
 * Registers: L0..L2 of the one step and L3..L5 of the other; L6, L7, L14 the exponential's polynomial; L11 the operation's argument, L11 to
 * L13 a function's own constants; L8 = 0.8373, L9 = 0.0, L10 = 1.0 (fixed).
 * Largest relative errors against double, measured: see test_bh_cpu.c. */
#ifndef GR_KERNEL_SFPU_H
#define GR_KERNEL_SFPU_H

#include "device/blackhole/kernels/instructions.h"
#include "device/blackhole/kernels/tensix_hw.h"

/* All lanes of L`l` = the fp32 with these bits. */
#define LI32(l, bits)                           \
    do {                                        \
        TTI(I_SFPLOADI(l, 8, (bits) >> 16));    \
        TTI(I_SFPLOADI(l, 10, (bits)&0xFFFFu)); \
    } while (0)
/* L11..L14 are written through L0 */
#define I_SFPCONFIG(l) (0x91000000u | ((uint32_t)(l) << 4))
#define LCONST(l, bits)      \
    do {                     \
        LI32(0, bits);       \
        TTI(I_SFPCONFIG(l)); \
    } while (0)

/* An instruction for both steps; in it L(0..2) are the step's registers and H its number. */
#define HALVES(word)        \
    do {                    \
        {                   \
            enum { H = 0 }; \
            TTI(word);      \
        }                   \
        {                   \
            enum { H = 1 }; \
            TTI(word);      \
        }                   \
    } while (0)
#define L(i) (3 * H + (i))
#define LOAD(l) HALVES(I_SFPLOAD(L(l), 0, 3, 2 * H))
#define STORE(l) HALVES(I_SFPSTORE(L(l), 0, H ? 7 : 3, 2 * H)) /* the second one goes to the next pair */

#define FOR_TILE(body)                           \
    for (uint32_t pair = 0; pair < 16; pair++) { \
        LOAD(0);                                 \
        body;                                    \
    }

/* The exponential: t = (y + 383) / 256 for 2^y. In [1, 2) its significand holds y + 127 with 15 bits behind the point, so that t << 8 has
 * the exponent of 2^y in place and its fraction as significand m (with a minus sign); 64 2^(m - 1) = c0 + c1 m + .. + c4 m^4 is in
 * [64, 128), c4 = L8, exactly 64 for m = 1 (it must not be less, or the exponent would be wrong by one). */
#define LOG2E_256 0x3BB8AA3Bu  /* log2(e) / 256 */
#define POWER_BIAS 0x3FBF8000u /* 383 / 256 */
#define POWER_BIAS_FP16 0x3DFCu
#define POWER_C0 0x420205ADu
#define POWER_C1 0x41A2BC27u
#define POWER_C2 0x41246F8Du
#define POWER_C3_FP16 0x28DFu /* 0.03806 */

static inline void sfpu_set_up(void)
{
    TTI(I_SFPENCC(3, 10)); /* lane enables on, all lanes active */
    LI32(6, POWER_C0);
    LI32(7, POWER_C1);
    LCONST(14, POWER_C2);
}

/* L(0) = 2^y of t in L(0), which is limited to 1 (then the store makes it 0, as all below 2^-126) and L13. Clobbers L(1), L(2). */
#define POWER()                                                                            \
    do {                                                                                   \
        HALVES(I_SFPSWAP(10, L(0), 9)); /* the greater */                                  \
        HALVES(I_SFPSWAP(13, L(0), 1)); /* the smaller */                                  \
        HALVES(I_SFPSHFT(8, L(0), L(0), 1));                                               \
        HALVES(I_SFPSETEXP(127, L(0), L(1), 1)); /* -m */                                  \
        TTI(I_SFPLOADI(5, 1, POWER_C3_FP16));    /* overwritten by the second half */      \
        HALVES(I_SFPMAD(8, L(1), 5, L(2), 1));                                             \
        HALVES(I_SFPMAD(L(2), L(1), 14, L(2), 1));                                         \
        HALVES(I_SFPMAD(L(2), L(1), 7, L(2), 1));                                          \
        HALVES(I_SFPMAD(L(2), L(1), 6, L(2), 1));                                          \
        HALVES(I_SFPSETEXP(0, L(2), L(0), 2)); /* significand of L(2), exponent of L(0) */ \
    } while (0)

/* What y is limited to: 2^64, so that sums of products with it stay far from 2^128, or 2^125, which still has a reciprocal. */
#define POWER_64 0x3FDF8000u      /* 447 / 256 */
#define POWER_LARGEST 0x3FFE0000u /* 508 / 256 */

/* L(0) = x / d, d = 1 + L(0), x loaded again: r = (1 - e) / d has seven bits of 1 / d; x r (1 + e + e^2). */
#define DIVIDE_BY_ONE_PLUS()                                 \
    do {                                                     \
        HALVES(I_SFPADD(L(0), 10, L(0)));                    \
        HALVES(I_SFPARECIP(L(0), L(1), 0));                  \
        LOAD(2);                                             \
        HALVES(I_SFPMAD(L(0), L(1), 10, L(0), 1)); /* e */   \
        HALVES(I_SFPMUL(L(2), L(1), L(2)));        /* x r */ \
        HALVES(I_SFPMAD(L(0), L(0), L(0), L(0), 0));         \
        HALVES(I_SFPMAD(L(2), L(0), L(2), L(0), 0));         \
    } while (0)

static inline void sfpu_exp(void)
{
    LCONST(11, LOG2E_256);
    LCONST(12, POWER_BIAS);
    LCONST(13, POWER_64);
    FOR_TILE({
        HALVES(I_SFPMAD(L(0), 11, 12, L(0), 0));
        POWER();
        STORE(0);
    });
}

static inline void sfpu_gelu(void) /* x / (1 + exp(-1.5957691 (x + 0.044715 x^3))) */
{
    LCONST(11, 0xB9D2D3E8u); /* -0.07135481 log2(e) / 256 */
    LCONST(12, 0xBC135761u); /* -1.5957691 log2(e) / 256 */
    LCONST(13, POWER_LARGEST);
    FOR_TILE({
        HALVES(I_SFPMUL(L(0), L(0), L(1)));
        HALVES(I_SFPMAD(L(1), 11, 12, L(1), 0));
        TTI(I_SFPLOADI(2, 1, POWER_BIAS_FP16));
        HALVES(I_SFPMAD(L(1), L(0), 2, L(0), 0));
        POWER();
        DIVIDE_BY_ONE_PLUS();
        STORE(0);
    });
}

static inline void sfpu_silu(void)
{
    LCONST(11, LOG2E_256 | 0x80000000u);
    LCONST(12, POWER_BIAS);
    LCONST(13, POWER_LARGEST);
    FOR_TILE({
        HALVES(I_SFPMAD(L(0), 11, 12, L(0), 0));
        POWER();
        DIVIDE_BY_ONE_PLUS();
        STORE(0);
    });
}

static inline void sfpu_recip(void) /* as DIVIDE_BY_ONE_PLUS */
{
    FOR_TILE({
        HALVES(I_SFPARECIP(L(0), L(1), 0));
        HALVES(I_SFPMAD(L(0), L(1), 10, L(0), 1));
        HALVES(I_SFPMAD(L(0), L(0), L(0), L(0), 0));
        HALVES(I_SFPMAD(L(1), L(0), L(1), L(1), 0));
        STORE(1);
    });
}

/* Of x + L11: a seed from the bits, then y = y (1.62198 - x y^2), y = y (1.88988 - x y^2). The seed is some 0.73 of the result, so that x
 * needs no factor in either step; seed and constants are those of the least error. */
static inline void sfpu_rsqrt(void)
{
    LCONST(12, 0x3FCF9D0Au); /* 1.62198 */
    LCONST(13, 0x3FF1E7BCu); /* 1.8898845 */
    LI32(6, 0x5EFD4100u);
    FOR_TILE({
        HALVES(I_SFPADD(L(0), 11, L(0)));
        HALVES(I_SFPSHFT(0xFFF, L(0), L(1), 5)); /* logical right by one */
        HALVES(I_SFPIADD(0, 6, L(1), 6));        /* L6 - L(1) */
        HALVES(I_SFPMUL(L(0), L(1), L(2)));
        HALVES(I_SFPMAD(L(2), L(1), 12, L(2), 1));
        HALVES(I_SFPMUL(L(1), L(2), L(1)));
        HALVES(I_SFPMUL(L(0), L(1), L(2)));
        HALVES(I_SFPMAD(L(2), L(1), 13, L(2), 1));
        HALVES(I_SFPMUL(L(1), L(2), L(1)));
        STORE(1);
    });
    LI32(6, POWER_C0);
}

/* The caller has stalled for the FPU and resets the Dst counter afterwards. arg: fp32 bits. */
static inline void sfpu_tile(uint32_t function, uint32_t arg)
{
    if (function == GR_BH_SCALE || function == GR_BH_RSQRT || function == GR_BH_SQUARE) {
        tt_push(I_SFPLOADI(0, 8, arg >> 16));
        tt_push(I_SFPLOADI(0, 10, arg));
        TTI(I_SFPCONFIG(11));
    }
    switch (function) {
    case GR_BH_EXP:
        sfpu_exp();
        break;
    case GR_BH_GELU:
        sfpu_gelu();
        break;
    case GR_BH_SILU:
        sfpu_silu();
        break;
    case GR_BH_RELU:
        FOR_TILE({
            HALVES(I_SFPSWAP(9, L(0), 9)); /* the greater of it and 0 */
            STORE(0);
        });
        break;
    case GR_BH_RECIP:
        sfpu_recip();
        break;
    case GR_BH_RSQRT:
        sfpu_rsqrt();
        break;
    case GR_BH_SCALE:
        FOR_TILE({
            HALVES(I_SFPMUL(L(0), 11, L(0)));
            STORE(0);
        });
        break;
    case GR_BH_SQUARE:
        FOR_TILE({
            HALVES(I_SFPMUL(L(0), L(0), L(0)));
            HALVES(I_SFPMUL(L(0), 11, L(0)));
            STORE(0);
        });
        break;
    default:
        break;
    }
}

#endif
