/* SPDX-License-Identifier: Apache-2.0
 *
 * build_inputs.c: from when on the inputs of a program may be written for the next request while the present one still runs: nothing that is to
 * come uses their bytes on any tile, and a barrier has shown that all tiles are past what did. */
#include <stdlib.h>

#include "device/blackhole/build_impl.h"

enum { MOST_INPUTS = 32 };

struct region {
    int64_t lo, hi;
};

static struct region tile_at(uint32_t addr, uint32_t fmt)
{
    return (struct region){addr, (int64_t)addr + GR_BH_TILE_BYTES(fmt)};
}

/* Strides may go backwards. */
static struct region along(struct region r, uint32_t stride, uint32_t count)
{
    const int64_t way = (int64_t)(int32_t)stride * ((int64_t)count - 1);
    return (struct region){r.lo + (way < 0 ? way : 0), r.hi + (way > 0 ? way : 0)};
}

static struct region region_of(const struct gr_bh_buf *b)
{
    return along(along(tile_at(b->addr, b->fmt), b->m_stride, b->mt), b->n_stride, b->nt);
}

static bool meets(const struct gr_bh_buf *b, struct region r)
{
    const struct region all = region_of(b);
    return all.lo < r.hi && r.lo < all.hi;
}

/* Whether the operation reads or writes the buffer in any of `rounds` rounds of the innermost loop, there or on a tile that it sends to. All between
 * the first and the last tile of an operand counts: never too little. */
static bool uses(const struct gr_bh_op *o, uint32_t rounds, const struct gr_bh_buf *b)
{
    const uint32_t mt = o->mt, nt = o->nt;
    if (mt == 0 || nt == 0) {
        return false;
    }
    for (int s = 0; s < o->nseg; s++) {
        const struct gr_bh_segment *g = &o->seg[s];
        const struct region a = along(along(along(tile_at(g->a, g->fmt_a), g->a_m, mt), g->a_n, nt), g->a_k, g->kcount);
        const struct region v = along(along(along(tile_at(g->b, g->fmt_b), g->b_m, mt), g->b_n, nt), g->b_k, g->kcount);
        if (meets(b, along(a, g->a_i, rounds)) ||
            (!(g->flags & GR_BH_SEG_RING) && meets(b, along(v, g->b_i, rounds)))) {
            return true;
        }
    }
    const struct region out = along(along(tile_at(o->out, o->out_fmt), o->out_m, mt), o->out_n, nt);
    const struct region to = along(along(tile_at(o->to, o->out_fmt), o->to_m, mt), o->to_n, nt);
    return meets(b, along(out, o->out_i, rounds)) || (o->dests > 0 && meets(b, along(to, o->to_i, rounds)));
}

static const struct gr_bh_op *ops_of(const struct gr_bh_build *b, int tile)
{
    return (const struct gr_bh_op *)((const struct gr_bh_head *)b->list[tile] + 1);
}

/* Adds to used[op] a bit for each input that a tile's operation uses. */
static void find_uses(const struct gr_bh_build *b, int tile, uint32_t *used)
{
    const struct gr_bh_op *ops = ops_of(b, tile);
    uint32_t count[GR_BH_NESTING + 1] = {1};
    int depth = 0;
    for (size_t i = 0; i < b->ops; i++) {
        if (ops[i].kind == GR_BH_LOOP) {
            count[++depth] = ops[i].count;
        } else if (ops[i].kind == GR_BH_NEXT) {
            depth--;
        }
        for (size_t k = 0; ops[i].kind == GR_BH_COMPUTE && k < b->input.n; k++) {
            if ((used[i] >> k & 1) == 0 && uses(&ops[i], count[depth], &b->input.v[k].buf)) {
                used[i] |= UINT32_C(1) << k;
            }
        }
    }
}

/* Read when all is done. */
static bool is_result(const struct gr_bh_build *b, const struct gr_bh_buf *buf)
{
    bool result = false;
    for (size_t i = 0; i < b->output.n; i++) {
        result = result || meets(buf, region_of(&b->output.v[i].buf));
    }
    return result;
}

/* Of all tiles, in the order of execution: each barrier behind the last use of an input would do, so the first. */
static void find_free(struct gr_bh_build *b, const uint32_t *used)
{
    const struct gr_bh_op *ops = ops_of(b, 0), *op;
    struct gr_bh_walk walk = {0};
    uint32_t done = 0, index, free_since[MOST_INPUTS] = {0};
    for (enum gr_bh_step s; (s = gr_bh_next(&walk, ops, &op, &index)) != GR_BH_STEP_END;) {
        if (s != GR_BH_STEP_OP) {
            continue;
        }
        done++;
        for (size_t k = 0; k < b->input.n; k++) {
            if (used[op - ops] >> k & 1) {
                free_since[k] = 0;
            }
            if ((op->flags & GR_BH_OP_BARRIER) && free_since[k] == 0) {
                free_since[k] = done;
            }
        }
    }
    for (size_t k = 0; k < b->input.n; k++) {
        b->input.v[k].after = free_since[k] > 0 && !is_result(b, &b->input.v[k].buf) ? free_since[k] : b->executed;
    }
}

void gr_bh_build_free_inputs(struct gr_bh_build *b)
{
    uint32_t *used = calloc(b->ops, sizeof *used);
    if (used == NULL || b->input.n > MOST_INPUTS) {
        gr_bh_build_fail(b, "%zu inputs of %zu operations: no memory, or more than %d", b->input.n, b->ops,
                         MOST_INPUTS);
        free(used);
        return;
    }
    for (int t = 0; t < b->tiles; t++) {
        find_uses(b, t, used);
    }
    find_free(b, used);
    free(used);
}
