/* SPDX-License-Identifier: Apache-2.0
 *
 * op_unpack.c, core T0: feeds both source registers for every segment of every operation: A to SrcB, B to SrcA, which is how the FPU wants
 * the left and the right operand of a product. */
#include "device/blackhole/kernels/instructions.h"
#include "device/blackhole/kernels/op_walk.h"

enum { PLAIN = 0, TRANSPOSED = 1 };

static uint32_t context; /* of the two address registers a unit has */

void kernel_main(void);

/* fp32 tiles are read as tf32. */
static uint32_t register_format(uint32_t f) { return f == GR_BH_FP32 ? FMT_TF32 : f; }
static uint32_t register_bytes(uint32_t f) { return f == GR_BH_FP32 ? 4u : f == GR_BH_BF16 ? 2u : 1u; }

static void drain(void)
{
    while (sem_read(SEM_UNPACK) > 0) {
    }
}

static void set_up(void)
{
    cfg_wr(65, 1u | 4u << 16); /* y_dim 1, z_dim 4 faces */
    cfg_wr(113, 1u | 4u << 16);
    cfg_wr(73, 0xFu | 0xFu << 16);
    cfg_wr(121, 0xFu | 0xFu << 16);
    cfg_wr(84, 64u | 64u << 16); /* unpacker 0 writes from the fifth row on */
    cfg_wr(86, 256u | 256u << 16);
    cfg_wr(50, 1u << 8);
    TTI(I_SETC16(T_SRCA_SET, 4));
    TTI(I_SETC16(T_UNPACK_CTX, 0));
    TTI(I_SETADCXY(ADC_UNP0 | ADC_UNP1, 0, 0, 0, 0, 0xB));
    TTI(I_SETADCZW(ADC_UNP0 | ADC_UNP1, 0, 0, 0, 0, 0xF));
    TTI(I_SETADCXX(ADC_UNP0 | ADC_UNP1, 1023, 0));
}

static void set_formats(uint32_t fa, uint32_t fb, uint32_t transposed)
{
    static uint32_t current = ~0u;
    const uint32_t key = fa | fb << 4 | transposed << 8;
    if (key == current) {
        return;
    }
    current = key;
    drain();
    cfg_wr(56, (16 * register_bytes(fb)) << 16);
    cfg_wr(57, 256 * register_bytes(fb));
    cfg_wr(59, 256 * register_bytes(fa));
    cfg_wr(64, fb | 1u << 4);
    cfg_wr(112, fa | 1u << 4 | 256u << 16);
    cfg_wr(72, register_format(fb) | 2u << 4 | transposed << 8);
    cfg_wr(120, register_format(fa) | 2u << 4);
    if (transposed) {
        TTI(I_SETADCXX(ADC_UNP0, 255, 0)); /* a face at a time */
    } else {
        TTI(I_SETADCXX(ADC_UNP0, 1023, 0));
    }
}

/* Faces 0, 2, 1, 3, each transposed on its way; the last hands the bank over. */
static void unpack_transposed(void)
{
    TTI(I_UNPACR(0, 0, 0));
    TTI(I_SETADCZW(ADC_UNP0, 0, 1, 0, 2, 5));
    TTI(I_UNPACR(0, 0, 0));
    TTI(I_SETADCZW(ADC_UNP0, 0, 2, 0, 1, 5));
    TTI(I_UNPACR(0, 0, 0));
    TTI(I_SETADCZW(ADC_UNP0, 0, 3, 0, 3, 5));
    TTI(I_UNPACR(0, 0, 1));
    TTI(I_SETADCZW(ADC_UNP0, 0, 0, 0, 0, 5));
}

static void unpack_pair(uint32_t a, uint32_t b, uint32_t transposed)
{
    while (sem_read(SEM_UNPACK) >= 2) {
    }
    cfg_wr(76 + context, b / 16 - 1); /* the unit adds one */
    cfg_wr(124 + context, a / 16 - 1);
    sem_post(SEM_UNPACK);
    TTI(I_STALLWAIT(BLK_UNPACK, WAIT_TRISC_CFG));
    TTI(I_UNPACR(1, 0, 1));
    if (transposed) {
        unpack_transposed();
    } else {
        TTI(I_UNPACR(0, 0, 1));
    }
    TTI(I_STALLWAIT(BLK_SYNC, WAIT_UNPACK0 | WAIT_UNPACK1));
    TTI(I_SEMGET(1u << SEM_UNPACK));
    context ^= 1;
    if (context) {
        TTI(I_SETC16(T_UNPACK_CTX, 0x0101));
    } else {
        TTI(I_SETC16(T_UNPACK_CTX, 0));
    }
}

static void unpack_segment(const struct gr_bh_segment *g, uint32_t m, uint32_t n, uint32_t i, uint32_t chunk)
{
    const uint32_t transposed = g->flags & GR_BH_SEG_TRANSPOSE ? TRANSPOSED : PLAIN;
    uint32_t a = g->a + m * g->a_m + n * g->a_n + i * g->a_i;
    uint32_t b = g->flags & GR_BH_SEG_RING ? chunk + g->b : g->b + m * g->b_m + n * g->b_n + i * g->b_i;
    set_formats(g->fmt_a, g->fmt_b, transposed);
    for (uint32_t k = g->kcount; k; k--, a += g->a_k, b += g->b_k) {
        unpack_pair(a, b, transposed);
    }
}

void kernel_main(void)
{
    struct gr_bh_walk w = {0};
    uint32_t at = 0, bytes = 0, used = 0;
    wait_configured();
    set_up();
    for (uint32_t number = 0;; number++) {
        uint32_t i;
        const struct gr_bh_op *o = next_op(&w, &i);
        gate(number, o->back);
        for (uint32_t n = 0; n < o->nt; n++) {
            uint32_t chunk = 0;
            if (o->chunk) {
                chunk = head->ring + ring_place(&at, &bytes, o->chunk);
                used++;
                FLAG(GR_BH_F_CONSUMED) = bytes - o->chunk; /* a skipped end is free, or N might wait for it */
                AWAIT(GR_BH_W_CHUNK, number, ahead(FLAG(GR_BH_F_PRODUCED), used) >= 0);
            }
            for (uint32_t m = 0; m < o->mt; m++) {
                for (uint32_t s = 0; s < o->nseg; s++) {
                    unpack_segment(&o->seg[s], m, n, i, chunk);
                }
            }
            if (o->chunk) {
                drain();
                FLAG(GR_BH_F_CONSUMED) = bytes;
            }
        }
    }
}
