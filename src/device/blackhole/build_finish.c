/* SPDX-License-Identifier: Apache-2.0
 *
 * build_finish.c: the end of a build: where the ring and the streams are, and the bytes of every tile's list. */
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/build_impl.h"
#include "device/blackhole/chip.h"

/* Streams begin behind the first 16 MiB of a channel, which firmware and other tools use. */
#define STREAMS_AT (UINT64_C(16) << 20)
enum { ENDPOINTS = 3, TILE = 32 };

static int channel_of(int tile) { return tile % GR_CHIP_CHANNELS; }

/* Constants below the buffers, the ring below them, lists up from GR_BH_PROGRAM. */
static uint32_t place_ring(struct gr_bh_build *b, uint32_t *bytes)
{
    const uint32_t constants = (b->constant_bytes + 63) / 64 * 64;
    const uint64_t lists = GR_BH_PROGRAM + gr_bh_build_list_bytes(b, 0);
    *bytes = b->cfg.ring_bytes > 0 ? b->cfg.ring_bytes / 64 * 64 : 2 * b->longest;
    if (b->cfg.ring_fits && lists + *bytes + constants > b->low) {
        const uint64_t used = lists + constants, left = b->low > used ? (b->low - used) / 64 * 64 : 0;
        *bytes = left > b->longest ? (uint32_t)left : b->longest;
    }
    if (*bytes < b->longest) {
        gr_bh_build_fail(b, "L1: a ring of %u bytes cannot hold a chunk of %u", *bytes, b->longest);
    } else if (lists + *bytes + constants > b->low) {
        gr_bh_build_fail(
            b,
            "L1: a ring of %u bytes and lists up to %#llx, with constants of %u bytes, do not fit below the "
            "buffers, which begin at %#x",
            *bytes, (unsigned long long)lists, constants, b->low);
    }
    return b->failed ? 0 : b->low - constants - *bytes;
}

/* Gives constants their place, also where operations name them. */
static void place_constants(struct gr_bh_build *b, uint32_t at)
{
    for (size_t i = 0; i < b->constants; i++) {
        b->constant[i].addr += at - GR_BH_CONSTANTS_AT;
    }
    for (size_t i = 0; i < b->ops * (size_t)b->tiles; i++) {
        for (int s = 0; s < b->op[i].nseg; s++) {
            struct gr_bh_segment *g = &b->op[i].seg[s];
            g->a += g->a >= GR_BH_CONSTANTS_AT ? at - GR_BH_CONSTANTS_AT : 0;
            g->b += g->b >= GR_BH_CONSTANTS_AT ? at - GR_BH_CONSTANTS_AT : 0;
        }
    }
}

/* Whether stream i is the beginning of stream j, or the same. */
static bool begins(const struct gr_bh_build *b, int i, int j)
{
    const struct gr_bh_piece_list *x = &b->piece[i], *y = &b->piece[j];
    bool same = x->n > 0 && x->n <= y->n;
    for (size_t k = 0; k < x->n && same; k++) {
        same = gr_bh_build_same_piece(&x->v[k], &y->v[k]);
    }
    return same;
}

/* Streams of a channel behind each other, in the order of tiles. A stream that is the beginning of one before it, as those of row groups are, has
 * no bytes of its own. */
static void place_streams(struct gr_bh_build *b)
{
    uint64_t next[GR_CHIP_CHANNELS];
    for (int c = 0; c < GR_CHIP_CHANNELS; c++) {
        next[c] = STREAMS_AT;
    }
    for (int i = 0; i < b->tiles * GR_BH_STREAMS; i++) {
        const struct gr_bh_piece_list *l = &b->piece[i];
        int j = i % GR_BH_STREAMS;
        while (j < i && (b->plan[j].bytes == 0 || !begins(b, i, j))) {
            j += GR_BH_STREAMS;
        }
        if (j < i) {
            b->plan[i] = (struct gr_bh_stream_plan){.channel = b->plan[j].channel, .addr = b->plan[j].addr};
            continue;
        }
        const int c = channel_of(i / GR_BH_STREAMS);
        b->plan[i] =
            (struct gr_bh_stream_plan){.piece = l->v, .pieces = l->n, .bytes = l->bytes, .channel = c, .addr = next[c]};
        next[c] += l->bytes; /* a multiple of 64 */
        if (next[c] > GR_CHIP_CHANNEL_BYTES) {
            gr_bh_build_fail(b, "DRAM channel %d: streams need %llu bytes, it has %llu", c, (unsigned long long)next[c],
                             (unsigned long long)GR_CHIP_CHANNEL_BYTES);
            return;
        }
    }
}

static void fill_list(const struct gr_bh_build *b, int tile, uint32_t ring, uint32_t ring_bytes, void *list)
{
    const struct gr_bh_grid *g = b->cfg.grid;
    struct gr_bh_head *h = list;
    *h = (struct gr_bh_head){.ops = (uint32_t)b->ops,
                             .dests = (uint32_t)b->dest[tile].n,
                             .me = (uint32_t)tile,
                             .tiles = (uint32_t)b->tiles,
                             .hub_xy = g->xy[0],
                             .xy0 = g->xy0,
                             .xy1 = g->xy1,
                             .release_tiles = gr_bh_rectangle_tiles(g) - 1,
                             .ring = ring,
                             .ring_bytes = ring_bytes};
    for (int s = 0; s < GR_BH_STREAMS; s++) {
        const struct gr_bh_stream_plan *plan = &b->plan[tile * GR_BH_STREAMS + s];
        h->stream[s] =
            (struct gr_bh_stream){.dram_xy = gr_chip_dram_xy(plan->channel, tile / GR_CHIP_CHANNELS % ENDPOINTS),
                                  .lo = (uint32_t)plan->addr,
                                  .hi = (uint32_t)(plan->addr >> 32)};
    }
    struct gr_bh_op *ops = (struct gr_bh_op *)(h + 1);
    for (size_t i = 0; i < b->ops; i++) {
        ops[i] = b->op[i * (size_t)b->tiles + (size_t)tile];
    }
    if (b->dest[tile].n > 0) {
        memcpy(ops + b->ops, b->dest[tile].v, b->dest[tile].n * sizeof *b->dest[tile].v);
    }
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Room for the conversions of bh_run.c. */
static void make_room(struct gr_bh_build *b)
{
    size_t tiles = 1, values = 1;
    const struct gr_bh_io_list *lists[] = {&b->input, &b->output, &b->tap};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        for (size_t i = 0; i < lists[k]->n; i++) {
            const struct gr_bh_io *io = &lists[k]->v[i];
            tiles = larger(tiles, (size_t)io->buf.mt * io->buf.nt * GR_BH_TILE_BYTES(io->buf.fmt));
            values = larger(values, (size_t)io->rows * (size_t)io->cols);
        }
    }
    b->program.tiles = malloc(tiles);
    b->program.tap_values = malloc(values * sizeof(float));
    if (b->program.tiles == NULL || b->program.tap_values == NULL) {
        gr_bh_build_fail(b, "no memory for arrays of %zu bytes", tiles);
    }
}

static void make_lists(struct gr_bh_build *b, uint32_t ring, uint32_t ring_bytes)
{
    const size_t bytes = gr_bh_build_list_bytes(b, 0);
    b->list = calloc((size_t)b->tiles, sizeof *b->list);
    for (int t = 0; t < b->tiles && b->list != NULL; t++) {
        b->list[t] = calloc(1, bytes);
        if (b->list[t] == NULL) {
            break;
        }
        fill_list(b, t, ring, ring_bytes, b->list[t]);
    }
    if (b->list == NULL || b->list[b->tiles - 1] == NULL) {
        gr_bh_build_fail(b, "no memory for %d lists of %zu bytes", b->tiles, bytes);
    }
    b->program.list_bytes = bytes;
    b->program.list = b->list;
    b->program.data = ring;
    b->program.l1_used = (uint32_t)(GR_BH_PROGRAM + bytes) + (GR_BH_L1_END - ring);
}

static void append_end(struct gr_bh_build *b)
{
    for (int t = 0; t < b->tiles; t++) {
        b->pending[t] = (struct gr_bh_op){.kind = GR_BH_END};
    }
    gr_bh_build_put(b, b->pending);
}

/* Tiles do not differ in it. */
static bool ends_with_barrier(const struct gr_bh_build *b)
{
    const struct gr_bh_head *head = b->list[0];
    const struct gr_bh_op *last = (const struct gr_bh_op *)(head + 1) + head->ops - 2; /* before GR_BH_END */
    return last->kind == GR_BH_COMPUTE && last->flags & GR_BH_OP_BARRIER;
}

enum gr_status gr_bh_build_finish(struct gr_bh_build *b, const struct gr_bh_program **out, struct gr_err *err)
{
    gr_bh_build_flush(b);
    if (b->executed == 0 || b->depth > 0 || b->plan != NULL) {
        gr_bh_build_fail(b, "a list of %u operations ends inside %d loops, or for the second time", b->executed,
                         b->depth);
    }
    if (!b->failed) {
        append_end(b);
        b->plan = calloc((size_t)b->tiles * GR_BH_STREAMS, sizeof *b->plan);
        if (b->plan == NULL) {
            gr_bh_build_fail(b, "no memory for the streams of %d tiles", b->tiles);
        }
    }
    uint32_t ring = 0, ring_bytes = 0;
    if (!b->failed) {
        ring = place_ring(b, &ring_bytes);
        place_constants(b, ring + ring_bytes);
        place_streams(b);
    }
    if (!b->failed) {
        make_lists(b, ring, ring_bytes);
        make_room(b);
    }
    if (!b->failed) {
        gr_bh_build_free_inputs(b);
    }
    if (b->failed) {
        *err = b->err;
        return b->err.code;
    }
    struct gr_bh_program *p = &b->program;
    p->grid = b->cfg.grid;
    p->executed = b->executed;
    p->meets = ends_with_barrier(b);
    p->plan = b->plan;
    p->constant = b->constant;
    p->constants = (int)b->constants;
    p->input = b->input.v, p->inputs = (int)b->input.n;
    p->output = b->output.v, p->outputs = (int)b->output.n;
    p->tap = b->tap.v, p->taps = (int)b->tap.n;
    *out = p;
    return GR_OK;
}
