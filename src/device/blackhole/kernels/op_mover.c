/* SPDX-License-Identifier: Apache-2.0
 *
 * op_mover.c, core B: sends results to other tiles, runs the barriers, and counts the operations that are complete. */
#include "device/blackhole/kernels/op_walk.h"

enum { BUF_WRITE = 1, BUF_ATOMIC = 2, ROW_BYTES = 64, ROW_STEP = 1024 };

struct mover {
    uint32_t acks, adds, barriers; /* what the NoC's counters will have reached */
};

void kernel_main(void);

static const struct gr_bh_dest *dest_list(void) { return (const struct gr_bh_dest *)(op_list() + head->ops); }

static void put(struct mover *v, const struct gr_bh_dest *d, uint32_t to, uint32_t from, uint32_t bytes)
{
    if (d->xy0 == d->xy1) {
        noc_write(0, BUF_WRITE, d->xy0, to, from, bytes);
        v->acks++;
    } else {
        noc_multicast(0, BUF_WRITE, d->xy0, d->xy1, to, from, bytes, d->self);
        v->acks += d->tiles;
    }
}

static void send(struct mover *v, const struct gr_bh_op *o, uint32_t to, uint32_t from)
{
    const struct gr_bh_dest *d = dest_list() + o->dest;
    for (uint32_t left = o->dests; left; left--, d++) {
        if (o->flags & GR_BH_OP_ROW) {
            put(v, d, to, from, ROW_BYTES);
            put(v, d, to + ROW_STEP, from + ROW_STEP, ROW_BYTES);
        } else {
            put(v, d, to, from, GR_BH_TILE_BYTES(o->out_fmt));
        }
    }
}

static void wait_acks(const struct mover *v, uint32_t number)
{
    AWAIT(GR_BH_W_ACK, number, ahead(noc_rd(0, NOC_CNT_WR_ACK), v->acks) >= 0);
}

/* Everybody reports to tile 0, which tells all of the rectangle when the last one has. */
static void barrier(struct mover *v, uint32_t number)
{
    v->barriers++;
    noc_add(0, BUF_ATOMIC, head->hub_xy, GR_BH_FLAGS + 16 * GR_BH_F_GATHER, GR_BH_FLAGS + 16 * GR_BH_F_SCRATCH, 1);
    v->adds++;
    AWAIT(GR_BH_W_ACK, number, ahead(noc_rd(0, NOC_CNT_ATOMIC_RESP), v->adds) >= 0);
    if (head->me != 0) {
        AWAIT(GR_BH_W_BARRIER, number, ahead(FLAG(GR_BH_F_RELEASE), v->barriers) >= 0);
        return;
    }
    AWAIT(GR_BH_W_BARRIER, number, ahead(FLAG(GR_BH_F_GATHER), v->barriers * head->tiles) >= 0);
    if (head->release_tiles > 0) {
        FLAG(GR_BH_F_RELEASE_SRC) = v->barriers;
        noc_multicast(0, BUF_WRITE, head->xy0, head->xy1, GR_BH_FLAGS + 16 * GR_BH_F_RELEASE,
                      GR_BH_FLAGS + 16 * GR_BH_F_RELEASE_SRC, 16, 0);
        v->acks += head->release_tiles;
        wait_acks(v, number);
    }
}

void kernel_main(void)
{
    struct gr_bh_walk w = {0};
    struct mover v = {.acks = noc_rd(0, NOC_CNT_WR_ACK), .adds = noc_rd(0, NOC_CNT_ATOMIC_RESP)};
    uint32_t packed = 0;
    for (uint32_t number = 0;; number++) {
        uint32_t i;
        const struct gr_bh_op *o = next_op(&w, &i);
        AWAIT(GR_BH_W_LIMIT, number, ahead(FLAG(GR_BH_F_LIMIT), number) > 0);
        for (uint32_t n = 0; n < o->nt; n++) {
            for (uint32_t m = 0; m < o->mt; m++) {
                packed++;
                AWAIT(GR_BH_W_PACKED, number, ahead(FLAG(GR_BH_F_PACKED), packed) >= 0);
                send(&v, o, o->to + m * o->to_m + n * o->to_n + i * o->to_i,
                     o->out + m * o->out_m + n * o->out_n + i * o->out_i);
            }
        }
        wait_acks(&v, number);
        if (o->flags & GR_BH_OP_BARRIER) {
            barrier(&v, number);
        }
        FLAG(GR_BH_F_DONE) = number + 1;
    }
}
