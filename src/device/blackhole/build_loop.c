/* SPDX-License-Identifier: Apache-2.0
 *
 * build_loop.c: the list of operations and its loops. Emitted operations go to a cursor; in rounds after the first the cursors of
 * operations, destinations and rewound streams stand where the first round began, so that everything is compared instead of appended. */
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/build_impl.h"

/* What would hang or corrupt a tile is found here, with its number. */
static bool op_is_right(struct gr_bh_build *b, int tile)
{
    const struct gr_bh_op *o = &b->pending[tile];
    const bool computes = o->mt > 0 && o->nt > 0;
    if (o->kind != GR_BH_COMPUTE || o->nseg > GR_BH_SEGMENTS || o->stream >= GR_BH_STREAMS ||
        o->function >= GR_BH_FUNCTIONS || (computes && o->nseg == 0) || (size_t)o->dest + o->dests > b->dest[tile].n) {
        gr_bh_build_fail(b,
                         "operation %zu, tile %d: kind %u, %u segments, stream %u, function %u, destinations %u to %u",
                         b->at, tile, o->kind, o->nseg, o->stream, o->function, o->dest, o->dest + o->dests);
    } else if ((o->flags ^ b->pending[0].flags) & GR_BH_OP_BARRIER) {
        gr_bh_build_fail(b, "operation %zu: tile %d and tile 0 do not agree on its barrier", b->at, tile);
    }
    if (o->nseg > 0 && (o->seg[0].flags & GR_BH_SEG_MAX) && (o->nseg > 1 || o->function != GR_BH_NONE)) {
        gr_bh_build_fail(b, "operation %zu, tile %d: a maximum takes no function and no other segment", b->at, tile);
    }
    for (int s = 0; s < GR_BH_STREAMS; s++) {
        const size_t reads = s == o->stream && computes ? (size_t)o->chunk * o->nt : 0;
        const size_t added = b->piece[tile * GR_BH_STREAMS + s].op_bytes;
        if (reads != added) {
            gr_bh_build_fail(b, "operation %zu, tile %d: reads %zu bytes of stream %d, its pieces have %zu", b->at,
                             tile, reads, s, added);
        }
    }
    if (o->chunk % 64 != 0 || (o->chunk > 0 && !computes)) {
        gr_bh_build_fail(b, "operation %zu, tile %d: a chunk of %u bytes for %u x %u output tiles", b->at, tile,
                         o->chunk, o->mt, o->nt);
    }
    return !b->failed;
}

void gr_bh_build_flush(struct gr_bh_build *b)
{
    if (!b->open) {
        return;
    }
    b->open = false;
    for (int t = 0; t < b->tiles && op_is_right(b, t); t++) {
        b->longest = b->pending[t].chunk > b->longest ? b->pending[t].chunk : b->longest;
    }
    gr_bh_build_put(b, b->pending);
}

/* The operation of a later round must be the first round's, but for the number that only the host looks at. */
static void compare(struct gr_bh_build *b, const struct gr_bh_op *row)
{
    for (int t = 0; t < b->tiles && !b->failed; t++) {
        struct gr_bh_op first = b->op[b->at * (size_t)b->tiles + (size_t)t];
        first.tap = row[t].tap;
        const unsigned char *x = (const unsigned char *)&first, *y = (const unsigned char *)&row[t];
        for (size_t i = 0; i < sizeof first; i++) {
            if (x[i] != y[i]) {
                gr_bh_build_fail(
                    b, "operation %zu, tile %d: differs from the first round's at byte %zu of struct gr_bh_op", b->at,
                    t, i);
                break;
            }
        }
    }
}

void gr_bh_build_put(struct gr_bh_build *b, const struct gr_bh_op *row)
{
    for (int i = 0; i < b->depth; i++) {
        const struct gr_bh_loop_state *l = &b->loop[i];
        if (l->round > 0 && b->at >= l->end) {
            gr_bh_build_fail(b, "operation %zu: round %d of a loop has more operations than its first round", b->at,
                             l->round);
        }
    }
    if (!b->failed && b->at < b->ops) {
        compare(b, row);
    } else if (!b->failed) {
        const size_t bytes = (size_t)b->tiles * sizeof *row;
        b->op = gr_bh_build_grow(b, b->op, b->ops, &b->ops_cap, bytes);
        if (!b->failed) {
            memcpy(b->op + b->ops * (size_t)b->tiles, row, bytes);
            b->ops++;
        }
    }
    b->at++;
}

/* LOOP, NEXT: the same on all tiles. */
static void put_all(struct gr_bh_build *b, struct gr_bh_op op)
{
    for (int t = 0; t < b->tiles; t++) {
        b->pending[t] = op;
    }
    gr_bh_build_put(b, b->pending);
}

void gr_bh_loop(struct gr_bh_build *b, int count, unsigned rewind)
{
    gr_bh_build_flush(b);
    if (b->failed) {
        return;
    }
    if (count < 1 || count > UINT16_MAX || rewind >= 1u << GR_BH_STREAMS || b->depth == GR_BH_NESTING) {
        gr_bh_build_fail(b, "a loop of %d rounds, rewinding %#x, inside %d others", count, rewind, b->depth);
        return;
    }
    put_all(b, (struct gr_bh_op){.kind = GR_BH_LOOP, .count = (uint16_t)count, .rewind = (uint16_t)rewind});
    struct gr_bh_loop_state *l = &b->loop[b->depth++];
    l->body = b->at;
    l->end = 0;
    l->count = count;
    l->round = -1;
    l->rewind = rewind;
    for (int t = 0; t < b->tiles; t++) {
        l->dest_at[t] = b->dest[t].at;
    }
    for (int s = 0; s < b->tiles * GR_BH_STREAMS; s++) {
        l->piece_at[s] = b->piece[s].at;
    }
}

/* The innermost loop, whose current round ends here; NULL: failed. */
static struct gr_bh_loop_state *end_round(struct gr_bh_build *b)
{
    gr_bh_build_flush(b);
    if (!b->failed && b->depth == 0) {
        gr_bh_build_fail(b, "a round without a loop");
    }
    if (b->failed) {
        return NULL;
    }
    struct gr_bh_loop_state *l = &b->loop[b->depth - 1];
    if (l->round == 0) {
        l->end = b->at;
    } else if (l->round > 0 && b->at != l->end) {
        gr_bh_build_fail(b, "operation %zu: round %d of a loop has fewer operations than its first round", b->at,
                         l->round);
    }
    return b->failed ? NULL : l;
}

void gr_bh_round(struct gr_bh_build *b, int i)
{
    struct gr_bh_loop_state *l = end_round(b);
    if (l == NULL) {
        return;
    }
    if (i != l->round + 1 || i >= l->count) {
        gr_bh_build_fail(b, "round %d of a loop of %d rounds follows round %d", i, l->count, l->round);
        return;
    }
    l->round = i;
    if (i == 0) {
        return;
    }
    b->at = l->body;
    for (int t = 0; t < b->tiles; t++) {
        b->dest[t].at = l->dest_at[t];
    }
    for (int s = 0; s < b->tiles * GR_BH_STREAMS; s++) {
        if (l->rewind >> s % GR_BH_STREAMS & 1) {
            b->piece[s].at = l->piece_at[s];
        }
    }
}

void gr_bh_loop_end(struct gr_bh_build *b)
{
    const struct gr_bh_loop_state *l = end_round(b);
    if (l == NULL) {
        return;
    }
    if (l->round != l->count - 1) {
        gr_bh_build_fail(b, "a loop of %d rounds ends after %d", l->count, l->round + 1);
        return;
    }
    b->depth--;
    put_all(b, (struct gr_bh_op){.kind = GR_BH_NEXT});
}
