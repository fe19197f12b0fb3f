/* SPDX-License-Identifier: Apache-2.0
 *
 * sfpu.h: the functions of program.h on one Dst tile, pushed by T1. The SFPU has 32 lanes: 4 Dst rows x 8 columns (even columns when row
 * bit 1 of the address is 0, odd ones when it is 1); a tile is 32 steps.
 *
 * Registers: L0 value, L1..L3 temporaries, L4..L7 and L12..L14 constants, L11 the operation's argument, L9 = 0.0, L10 = 1.0 (fixed).
 * Errors against double, measured: exp 3e-6, gelu 2e-6, silu 3e-6, 1/x 6e-8, 1/sqrt 1e-7 relative. */
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

static inline void sfpu_set_up(void)
{
    TTI(I_SFPENCC(3, 10));   /* lane enables on, all lanes active */
    LCONST(12, 0x3FB8AA3Bu); /* log2(e) */
    LCONST(13, 0x4B400000u); /* 1.5 * 2^23: adding it rounds to an integer */
    LCONST(14, 0x3F317218u); /* polynomial of 2^f: c1 */
    LI32(4, 0x3AAEC3FFu);    /* c5 0.00133336 */
    LI32(5, 0x3C1D955Bu);    /* c4 0.00961813 */
    LI32(6, 0x3D635847u);    /* c3 0.05550411 */
    LI32(7, 0x3E75FDF0u);    /* c2 0.24022651 */
}

/* L1 = exp(L1); clobbers L2, L3.  The argument is clamped to [-87, 80]. */
#define EXP_L1()                                                  \
    do {                                                          \
        TTI(I_SFPLOADI(3, 0, 0xC2AE)); /* -87.0               */  \
        TTI(I_SFPSWAP(3, 1, 9));       /* L1 = max(L1, -87)   */  \
        TTI(I_SFPLOADI(2, 0, 0x42A0)); /* 80.0                */  \
        TTI(I_SFPSWAP(2, 1, 1));       /* L1 = min(L1, 80)    */  \
        TTI(I_SFPNOP);                                            \
        TTI(I_SFPMAD(1, 12, 13, 2, 0)); /* t = x log2e + magic */ \
        TTI(I_SFPMAD(10, 2, 13, 3, 2)); /* n = t - magic       */ \
        TTI(I_SFPMAD(1, 12, 3, 3, 2));  /* f = x log2e - n     */ \
        TTI(I_SFPMAD(4, 3, 5, 1, 0));                             \
        TTI(I_SFPMAD(1, 3, 6, 1, 0));                             \
        TTI(I_SFPMAD(1, 3, 7, 1, 0));                             \
        TTI(I_SFPMAD(1, 3, 14, 1, 0));                            \
        TTI(I_SFPMAD(1, 3, 10, 1, 0)); /* 2^f                 */  \
        TTI(I_SFPSHFT(23, 0, 2, 1));   /* n into the exponent */  \
        TTI(I_SFPIADD(0, 2, 1, 4));                               \
    } while (0)

/* L2 = 1/L1; clobbers L3 */
#define RECIP_L1()                     \
    do {                               \
        TTI(I_SFPARECIP(1, 2, 0));     \
        TTI(I_SFPMAD(1, 2, 10, 3, 1)); \
        TTI(I_SFPMAD(2, 3, 2, 2, 0));  \
        TTI(I_SFPMAD(1, 2, 10, 3, 1)); \
        TTI(I_SFPMAD(2, 3, 2, 2, 0));  \
    } while (0)

#define FOR_TILE(out, body)                      \
    for (uint32_t step = 0; step < 32; step++) { \
        TTI(I_SFPLOAD(0, 0, 3, 0));              \
        body;                                    \
        TTI(I_SFPSTORE(out, 0, 7, 0));           \
    }

static inline void sfpu_gelu(void) /* x / (1 + exp(-1.5957691 (x + 0.044715 x^3))) */
{
    FOR_TILE(0, {
        TTI(I_SFPMUL(0, 0, 1));
        LI32(2, 0x3D922279u); /* 0.07135481 */
        LI32(3, 0x3FCC422Au); /* 1.5957691  */
        TTI(I_SFPMAD(1, 2, 3, 1, 0));
        TTI(I_SFPMAD(1, 0, 9, 1, 1));
        EXP_L1();
        TTI(I_SFPADD(1, 10, 1));
        RECIP_L1();
        TTI(I_SFPMUL(0, 2, 0));
    });
}

static inline void sfpu_silu(void)
{
    FOR_TILE(0, {
        TTI(I_SFPMOV(0, 1, 1));
        EXP_L1();
        TTI(I_SFPADD(1, 10, 1));
        RECIP_L1();
        TTI(I_SFPMUL(0, 2, 0));
    });
}

static inline void sfpu_rsqrt(void) /* of L0 + L11: seed from the bits, three Newton steps */
{
    FOR_TILE(1, {
        TTI(I_SFPADD(0, 11, 0));
        TTI(I_SFPMOV(0, 1, 0));
        TTI(I_SFPSHFT(0xFFF, 0, 1, 1)); /* logical right by one */
        LI32(2, 0x5F3759DFu);
        TTI(I_SFPIADD(0, 2, 1, 6)); /* L1 = L2 - L1 */
        LI32(2, 0x3FC00000u);       /* 1.5 */
        TTI(I_SFPMULI(0x3F00, 0));  /* x / 2 */
        for (uint32_t newton = 0; newton < 3; newton++) {
            TTI(I_SFPMUL(0, 1, 3));
            TTI(I_SFPMAD(3, 1, 2, 3, 1)); /* 1.5 - (x / 2) y y */
            TTI(I_SFPMUL(1, 3, 1));
        }
    });
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
        FOR_TILE(1, {
            TTI(I_SFPMOV(0, 1, 0));
            EXP_L1();
        });
        break;
    case GR_BH_GELU:
        sfpu_gelu();
        break;
    case GR_BH_SILU:
        sfpu_silu();
        break;
    case GR_BH_RELU:
        FOR_TILE(0, {
            TTI(I_SFPSWAP(9, 0, 9));
            TTI(I_SFPNOP);
        }); /* L0 = max(L0, 0) */
        break;
    case GR_BH_RECIP:
        FOR_TILE(2, {
            TTI(I_SFPMOV(0, 1, 0));
            RECIP_L1();
        });
        break;
    case GR_BH_RSQRT:
        sfpu_rsqrt();
        break;
    case GR_BH_SCALE:
        FOR_TILE(0, { TTI(I_SFPMUL(0, 11, 0)); });
        break;
    case GR_BH_SQUARE:
        FOR_TILE(0, {
            TTI(I_SFPMUL(0, 0, 0));
            TTI(I_SFPMUL(0, 11, 0));
        });
        break;
    default:
        break;
    }
}

#endif
