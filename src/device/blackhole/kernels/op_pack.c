/* SPDX-License-Identifier: Apache-2.0
 *
 * op_pack.c, core T2: packs every finished Dst tile to L1, in the format of its operation, adding onto what is there when that says so. */
#include "device/blackhole/kernels/instructions.h"
#include "device/blackhole/kernels/op_walk.h"

enum { GPR_ADDR = 8, GPR_OFFSET = 12, DST_HALF = 512 };

void kernel_main(void);

static void set_up(void)
{
    cfg_wr(14, 0);
    cfg_wr(15, 0);
    cfg_wr(18, 1); /* Dst is 32 bits wide */
    cfg_wr(20, 0);
    cfg_wr(24, 0xFFFF); /* no edge masking */
    cfg_wr(28, 1u << 8);
    cfg_wr(68, 4u << 16); /* exponents: 4 x 16 bytes a tile */
    cfg_wr(180, 0);
    TTI(I_SETC16(T_CFG_STATE, 0));
    TTI(I_SETC16(T_ADDRMOD_PACK(0), 4));                  /* 4 rows on */
    TTI(I_SETC16(T_ADDRMOD_PACK(1), 1u << 5 | 1u << 13)); /* back to the start */
    TTI(I_SETC16(T_ADDRMOD_PACK(2), 1u << 5 | 1u << 12)); /* next face */
    TTI(I_SETADCXX(ADC_PACK, 15, 0));
    TTI(I_SETADCXY(ADC_PACK, 0, 0, 0, 0, 0xB));
    TTI(I_SETADCZW(ADC_PACK, 0, 0, 0, 0, 0xF));
    TTI(I_REPLAY(0, 16, 0, 1)); /* a tile: 4 faces x 4 groups of 4 rows */
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(2, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(2, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(2, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(0, 0, 0));
    TTI(I_PACR(1, 0, 1));
}

static void set_output(uint32_t format, uint32_t accumulate)
{
    static uint32_t current = ~0u;
    const uint32_t key = format | accumulate << 8;
    if (key == current) {
        return;
    }
    current = key;
    const uint32_t row = format == GR_BH_FP32   ? 64u
                         : format == GR_BH_BF16 ? 32u
                                                : 16u; /* bytes of a Dst row as the packer counts them */
    TTI(I_STALLWAIT(BLK_SYNC, WAIT_PACK));
    tensix_sync();
    cfg_wr(12, row << 16);
    cfg_wr(13, 16 * row | (64 * row) << 16);
    cfg_wr(70, 1u | format << 4 | format << 8);
    cfg_wr(71, accumulate ? 1u << 19 : 0);
    if (format == GR_BH_FP32) { /* the packer's source format in the word that T1 wrote */
        TTI(I_RMWCIB(3, 1, 0x1E, GR_BH_FP32 << 1));
    } else if (format == GR_BH_BF16) {
        TTI(I_RMWCIB(3, 1, 0x1E, GR_BH_BF16 << 1));
    } else {
        TTI(I_RMWCIB(3, 1, 0x1E, GR_BH_BFP8 << 1));
    }
    tensix_sync();
    TTI(I_STALLWAIT(BLK_PACK, WAIT_TRISC_CFG));
}

static void pack_tile(uint32_t out, uint32_t half)
{
    const uint32_t addr = out / 16 - 1; /* the unit adds one */
    TTI(I_SEMWAIT(BLK_TDMA | BLK_SYNC, 1u << SEM_MATH_PACK, SEM_ON_ZERO));
    tt_push(I_SETDMAREG(2 * GPR_ADDR, addr));
    tt_push(I_SETDMAREG(2 * GPR_ADDR + 1, addr >> 16 | 0x8000u));
    tt_push(I_SETDMAREG(2 * GPR_OFFSET, half ? DST_HALF : 0u));
    tt_push(I_SETDMAREG(2 * GPR_OFFSET + 1, 0));
    TTI(I_STALLWAIT(BLK_CFG, WAIT_THCON));
    TTI(I_WRCFG(GPR_ADDR, 69));
    TTI(I_WRCFG(GPR_OFFSET, 180));
    TTI(I_DMANOP); /* two: let the configuration land */
    TTI(I_DMANOP);
    TTI(I_REPLAY(0, 16, 0, 0));
    TTI(I_STALLWAIT(BLK_MATH, WAIT_PACK));
    if (half) {
        TTI(I_ZEROACC(2, 1, 1, 1));
    } else {
        TTI(I_ZEROACC(2, 1, 1, 0));
    }
    TTI(I_SEMGET(1u << SEM_MATH_PACK));
    TTI(I_STALLWAIT(BLK_SYNC, WAIT_PACK));
    tensix_sync();
}

void kernel_main(void)
{
    struct gr_bh_walk w = {0};
    uint32_t half = 0, packed = 0;
    wait_configured();
    set_up();
    for (uint32_t number = 0;; number++) {
        uint32_t i;
        const struct gr_bh_op *o = next_op(&w, &i);
        for (uint32_t n = 0; n < o->nt; n++) {
            for (uint32_t m = 0; m < o->mt; m++) {
                /* The queue stays empty until there is a tile (op_walk.h, gate). */
                AWAIT(GR_BH_W_MATH, number, sem_read(SEM_MATH_PACK) > 0);
                set_output(o->out_fmt, o->flags & GR_BH_OP_ACCUMULATE);
                pack_tile(o->out + m * o->out_m + n * o->out_n + i * o->out_i, half);
                FLAG(GR_BH_F_PACKED) = ++packed;
                half ^= 1;
            }
        }
    }
}
