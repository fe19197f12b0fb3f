/* SPDX-License-Identifier: Apache-2.0
 *
 * back.c: which operations may overlap, from the addresses that they use. */
#include "cost.h"

struct region {
    uint32_t lo, hi;
};

static bool meet(struct region a, struct region b) { return a.lo < b.hi && b.lo < a.hi; }

static struct region output(struct bh_cost_executed x, uint32_t m, uint32_t n)
{
    const uint32_t at = x.op->out + m * x.op->out_m + n * x.op->out_n + x.index * x.op->out_i;
    return (struct region){at, at + GR_BH_TILE_BYTES(x.op->out_fmt)};
}

static bool writes(struct bh_cost_executed x, struct region r)
{
    for (uint32_t n = 0; n < x.op->nt; n++) {
        for (uint32_t m = 0; m < x.op->mt; m++) {
            if (meet(output(x, m, n), r)) {
                return true;
            }
        }
    }
    return false;
}

/* One column of a segment's operands. */
static bool segment_reads(const struct gr_bh_segment *s, uint32_t m, uint32_t n, uint32_t i, struct bh_cost_executed x)
{
    uint32_t a = s->a + m * s->a_m + n * s->a_n + i * s->a_i, b = s->b + m * s->b_m + n * s->b_n + i * s->b_i;
    for (uint32_t k = 0; k < s->kcount; k++, a += s->a_k, b += s->b_k) {
        if (writes(x, (struct region){a, a + GR_BH_TILE_BYTES(s->fmt_a)}) ||
            (!(s->flags & GR_BH_SEG_RING) && writes(x, (struct region){b, b + GR_BH_TILE_BYTES(s->fmt_b)}))) {
            return true;
        }
    }
    return false;
}

/* Packing onto, or over, what an earlier operation packed needs nothing: the packer does one after the other. Nor does overwriting what an
 * earlier operation reads: its operands were unpacked before. But a result that is being sent must stay. */
static bool needs(struct bh_cost_executed x, struct bh_cost_executed before)
{
    for (uint32_t n = 0; n < x.op->nt; n++) {
        for (uint32_t m = 0; m < x.op->mt; m++) {
            if (before.op->dests > 0 && writes(before, output(x, m, n))) {
                return true;
            }
            for (uint32_t s = 0; s < x.op->nseg; s++) {
                if (segment_reads(&x.op->seg[s], m, n, x.index, before)) {
                    return true;
                }
            }
        }
    }
    return false;
}

unsigned bh_cost_back(struct bh_cost_executed op, const struct bh_cost_executed *before, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if ((before[i].op->flags & GR_BH_OP_BARRIER) || needs(op, before[i])) {
            return i;
        }
    }
    return n;
}
