/* SPDX-License-Identifier: Apache-2.0
 *
 * op_math.c, core T1: products and maxima into Dst in fp32, then the SFPU function. Dst is used in halves, so that one is packed while the
 * next tile is computed in the other. */
#include "device/blackhole/kernels/instructions.h"
#include "device/blackhole/kernels/op_walk.h"
#include "device/blackhole/kernels/sfpu.h"

enum { DST_HALF = 512 }; /* rows, as the offset register counts */

void kernel_main(void);

/* Address modifiers 0, 1, 2, 4, 5 walk a 32x32x32 product; 5 ends a fidelity phase; 6 walks an element product; 3 steps over the faces for
 * the maximum; 7 is the SFPU's step of four Dst rows. */
static void set_modifiers(void)
{
    /*              SrcA incr,cr,clr  SrcB incr,cr,clr      Dst incr,cr,clr, fidelity incr,clr */
    SET_ADDRMOD(0, AM_AB(0, 0, 0, 8, 0, 0), AM_DST(8, 0, 0, 0, 0));
    SET_ADDRMOD(1, AM_AB(16, 0, 0, 0, 1, 0), AM_DST(8, 0, 0, 0, 0));
    SET_ADDRMOD(2, AM_AB(0, 1, 0, 32, 1, 0), AM_DST(8, 0, 0, 0, 0));
    SET_ADDRMOD(3, AM_AB(16, 0, 0, 0, 0, 0), AM_DST(0, 0, 0, 0, 0));
    SET_ADDRMOD(4, AM_AB(32, 1, 0, 48, 1, 0), AM_DST(0, 1, 0, 0, 0));
    SET_ADDRMOD(5, AM_AB(0, 1, 1, 0, 1, 1), AM_DST(0, 1, 1, 1, 0));
    SET_ADDRMOD(6, AM_AB(8, 0, 0, 8, 0, 0), AM_DST(8, 0, 0, 0, 0));
    SET_ADDRMOD(7, 0, AM_DST(4, 0, 0, 0, 0));
}

/* Replay slots 0..15: the 16 steps of a matrix product. 16..23: the 8 of an element product. */
static void record(void)
{
    TTI(I_REPLAY(0, 16, 0, 1));
    TTI(I_MVMUL(0, 0, 0)); /* face 0 of SrcB x face 0 of SrcA */
    TTI(I_MVMUL(0, 1, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 0 x 1 */
    TTI(I_MVMUL(0, 2, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 2 x 0 */
    TTI(I_MVMUL(0, 1, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 2 x 1 */
    TTI(I_MVMUL(0, 4, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 1 x 2 */
    TTI(I_MVMUL(0, 1, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 1 x 3 */
    TTI(I_MVMUL(0, 2, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 3 x 2 */
    TTI(I_MVMUL(0, 1, 0));
    TTI(I_MVMUL(0, 0, 0)); /* 3 x 3 */
    TTI(I_MVMUL(0, 5, 0));
    TTI(I_REPLAY(16, 8, 0, 1));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 6, 0));
    TTI(I_ELWMUL(0, 0, 0, 5, 0));
}

static void set_up(void)
{
    cfg_wr(0, 0);
    /* formats of SrcA, SrcB and of what is packed (T2 changes that), Dst and SFPU in fp32 */
    cfg_wr(1, FMT_BF16 << 17 | FMT_BF16 << 21 | FMT_BF16 << 25 | 1u << 29 | 1u << 30);
    cfg_wr(2, 0);
    cfg_wr(220, 0);
    TTI(I_SETC16(T_CFG_STATE, 0));
    TTI(I_SETC16(T_CLR_DVALID, 0));
    TTI(I_SETC16(T_SRCA_FMT, 0));
    TTI(I_SETC16(T_SRCB_FMT, 0));
    set_modifiers();
    TTI(I_SETRWC(0, 0, 0, 0, 0, 0xF));
    record();
    TTI(I_ZEROACC(3, 1, 3, 0));
    TTI(I_SEMINIT(2, 0, 1u << SEM_MATH_PACK));
    TTI(I_SEMINIT(2, 0, 1u << SEM_UNPACK));
    sfpu_set_up();
    tensix_sync();
    FLAG(GR_BH_F_READY) = 1;
}

/* Column maxima of the faces: 0 and 2 into row 0 of Dst face 0, 1 and 3 into row 0 of Dst face 1. Rows that nobody wrote are packed as
 * zeros. */
static void maximum(void)
{
    TTI(I_GMPOOL(0, 3, 0));
    TTI(I_GMPOOL(0, 3, 16));
    TTI(I_GMPOOL(0, 3, 0));
    TTI(I_GMPOOL(0, 3, 16));
}

static void segment(const struct gr_bh_segment *g, uint32_t phases)
{
    const uint32_t flags = g->flags;
    for (uint32_t k = g->kcount; k; k--) {
        if (flags & GR_BH_SEG_MAX) {
            maximum();
        } else if (flags & GR_BH_SEG_ELEMENT) {
            for (uint32_t q = phases; q; q--) {
                TTI(I_REPLAY(16, 8, 0, 0));
            }
        } else {
            for (uint32_t q = phases; q; q--) {
                TTI(I_REPLAY(0, 16, 0, 0));
            }
        }
        TTI(I_SETRWC(3, 0, 0, 0, 0, 0xF)); /* release both source banks */
    }
}

static void tile(const struct gr_bh_op *o, uint32_t half)
{
    TTI(I_SEMWAIT(BLK_MATH | BLK_SFPU | BLK_SYNC, 1u << SEM_MATH_PACK, SEM_ON_MAX));
    if (half) {
        TTI(I_SETC16(T_MATH_DST_OFFSET, DST_HALF));
    } else {
        TTI(I_SETC16(T_MATH_DST_OFFSET, 0));
    }
    for (uint32_t s = 0; s < o->nseg; s++) {
        segment(&o->seg[s], o->phases);
    }
    if (o->function != GR_BH_NONE) {
        TTI(I_STALLWAIT(BLK_SFPU, WAIT_MATH));
        sfpu_tile(o->function, o->arg);
        TTI(I_SETRWC(0, 0, 0, 0, 0, 0xF));
    }
    TTI(I_STALLWAIT(BLK_SYNC, WAIT_MATH | WAIT_SFPU));
    TTI(I_SEMPOST(1u << SEM_MATH_PACK));
}

void kernel_main(void)
{
    struct gr_bh_walk w = {0};
    uint32_t half = 0, used = 0;
    set_up();
    for (uint32_t number = 0;; number++) {
        uint32_t i;
        const struct gr_bh_op *o = next_op(&w, &i);
        gate(number, o->back);
        for (uint32_t n = o->nt; n; n--) {
            if (o->chunk) {
                used++;
                AWAIT(GR_BH_W_CHUNK, number, ahead(FLAG(GR_BH_F_PRODUCED), used) >= 0);
            }
            for (uint32_t m = o->mt; m; m--) {
                tile(o, half);
                half ^= 1;
            }
        }
    }
}
