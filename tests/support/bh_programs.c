/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_programs.c: see bh_programs.h. */
#include "bh_programs.h"

#include <stdlib.h>
#include <string.h>

#include "device/blackhole/chip.h"
#include "gr_test.h"

enum { STREAM_MAX = 1 << 20, STREAM_AT = 0x100000, STREAM_STEP = 0x200000 };

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes);
    assert_non_null(p);
    return p;
}

struct bh_program *bh_program_new(int w, int h, uint32_t ring_bytes) { return bh_program_new_at(1, w, h, ring_bytes); }

struct bh_program *bh_program_new_at(int x0, int w, int h, uint32_t ring_bytes)
{
    struct bh_program *p = need(sizeof *p);
    const int tiles = w * h;
    p->w = w;
    p->h = h;
    p->free_l1 = BH_L1_DATA;
    for (int t = 0; t < tiles; t++) {
        const int x = x0 + t % w;
        p->xy[t] = (uint32_t)(x > 7 ? x + 2 : x) | (uint32_t)(2 + t / w) << 6; /* columns 8 and 9 have no Tensix */
        p->l1[t] = need(BH_L1_DATA_BYTES);
        for (int s = 0; s < GR_BH_STREAMS; s++) {
            p->stream[t][s] = need(STREAM_MAX);
        }
    }
    p->grid = (struct gr_bh_grid){.tiles = tiles, .xy = p->xy, .xy0 = p->xy[0], .xy1 = p->xy[tiles - 1]};
    const uint32_t ring = (BH_L1_DATA + BH_L1_DATA_BYTES - ring_bytes) & ~63u;
    for (int t = 0; t < tiles; t++) {
        struct gr_bh_head *h0 = &p->head[t];
        *h0 = (struct gr_bh_head){
            .me = (uint32_t)t, .tiles = (uint32_t)tiles, .hub_xy = p->xy[0], .xy0 = p->grid.xy0, .xy1 = p->grid.xy1};
        h0->release_tiles = (uint32_t)tiles - 1;
        h0->ring = ring;
        h0->ring_bytes = ring_bytes;
        for (int s = 0; s < GR_BH_STREAMS; s++) {
            h0->stream[s].dram_xy = gr_chip_dram_xy(t, s);
            h0->stream[s].lo = (uint32_t)(STREAM_AT + s * STREAM_STEP);
        }
    }
    return p;
}

void bh_program_free(struct bh_program *p)
{
    for (int t = 0; t < BH_TILES_MAX; t++) {
        free(p->l1[t]);
        for (int s = 0; s < GR_BH_STREAMS; s++) {
            free(p->stream[t][s]);
        }
    }
    free(p);
}

void bh_leave_out(struct bh_program *p, int unused)
{
    p->grid.tiles -= unused;
    for (int t = 0; t < p->grid.tiles; t++) {
        p->head[t].tiles = (uint32_t)p->grid.tiles;
    }
}

static int append(struct bh_program *p, const struct gr_bh_op *o)
{
    const uint32_t i = p->head[0].ops;
    assert_true(i < BH_OPS_MAX);
    for (int t = 0; t < p->grid.tiles; t++) {
        p->op[t][i] = *o;
        p->head[t].ops++;
    }
    return (int)i;
}

int bh_op(struct bh_program *p)
{
    return append(p, &(struct gr_bh_op){.kind = GR_BH_COMPUTE, .mt = 1, .nt = 1, .phases = 4, .out_fmt = GR_BH_BF16});
}

int bh_mark(struct bh_program *p, enum gr_bh_kind kind, int count, unsigned rewind)
{
    return append(p, &(struct gr_bh_op){.kind = (uint16_t)kind, .count = (uint16_t)count, .rewind = (uint16_t)rewind});
}

uint32_t bh_room(struct bh_program *p, enum gr_bh_format f, int n)
{
    const uint32_t at = p->free_l1;
    p->free_l1 += (GR_BH_TILE_BYTES(f) * (uint32_t)n + 63) & ~63u;
    assert_true(p->free_l1 <= p->head[0].ring);
    return at;
}

static uint8_t *l1_at(const struct bh_program *p, int tile, uint32_t at)
{
    assert_true(at >= BH_L1_DATA && at < BH_L1_DATA + BH_L1_DATA_BYTES);
    return p->l1[tile] + (at - BH_L1_DATA);
}

void bh_put(struct bh_program *p, int tile, uint32_t at, enum gr_bh_format f, const float *values)
{
    for (int t = 0; t < p->grid.tiles; t++) {
        if (tile < 0 || tile == t) {
            gr_bh_tile_put(f, values, 32, l1_at(p, t, at));
        }
    }
}

void bh_get(const struct bh_program *p, int tile, uint32_t at, enum gr_bh_format f, float *values)
{
    gr_bh_tile_get(f, l1_at(p, tile, at), values, 32);
}

size_t bh_feed(struct bh_program *p, int tile, int stream, enum gr_bh_format f, const float *values)
{
    size_t *n = &p->stream_bytes[tile][stream];
    const size_t bytes = GR_BH_TILE_BYTES(f);
    assert_true(*n + bytes <= STREAM_MAX);
    gr_bh_tile_put(f, values, 32, p->stream[tile][stream] + *n);
    *n += bytes; /* all formats are multiples of 64 */
    return bytes;
}

static uint16_t add_dest(struct bh_program *p, int tile, struct gr_bh_dest d)
{
    const uint32_t i = p->head[tile].dests++;
    assert_true(i < BH_DESTS_MAX);
    p->dest[tile][i] = d;
    return (uint16_t)i;
}

uint16_t bh_dest_one(struct bh_program *p, int tile, int to)
{
    return add_dest(p, tile, (struct gr_bh_dest){.xy0 = p->xy[to], .xy1 = p->xy[to], .tiles = 1, .self = tile == to});
}

uint16_t bh_dest_all(struct bh_program *p, int tile, bool self)
{
    const uint16_t n = (uint16_t)(p->w * p->h - !self); /* also those that the group does not use */
    return add_dest(p, tile, (struct gr_bh_dest){.xy0 = p->grid.xy0, .xy1 = p->grid.xy1, .tiles = n, .self = self});
}

struct gr_bh_segment bh_segment(unsigned flags, enum gr_bh_format fa, uint32_t a, enum gr_bh_format fb, uint32_t b,
                                uint32_t kcount)
{
    return (struct gr_bh_segment){.flags = flags,
                                  .fmt_a = (uint16_t)fa,
                                  .fmt_b = (uint16_t)fb,
                                  .kcount = kcount,
                                  .a = a,
                                  .a_k = GR_BH_TILE_BYTES(fa),
                                  .b = b,
                                  .b_k = GR_BH_TILE_BYTES(fb)};
}

uint32_t bh_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

void bh_random(uint32_t *seed, float scale, float *values)
{
    for (int i = 0; i < 1024; i++) {
        *seed = *seed * 1664525u + 1013904223u; /* Numerical Recipes */
        values[i] = scale * ((float)(*seed >> 8) / 8388608.0f - 1.0f);
    }
}

void bh_load(const struct bh_program *p, struct gr_bh_machine *m)
{
    struct gr_err err;
    for (int t = 0; t < p->grid.tiles; t++) {
        const struct gr_bh_head *h = &p->head[t];
        const size_t ops = h->ops * sizeof p->op[t][0];
        const uint32_t at = GR_BH_PROGRAM + (uint32_t)sizeof *h;
        assert_true(at + ops + h->dests * sizeof p->dest[t][0] <= BH_L1_DATA);
        gr_test_ok(m->ops->l1_write(m, t, GR_BH_PROGRAM, h, sizeof *h, &err), &err);
        gr_test_ok(m->ops->l1_write(m, t, at, p->op[t], ops, &err), &err);
        if (h->dests > 0) {
            gr_test_ok(m->ops->l1_write(m, t, at + (uint32_t)ops, p->dest[t], h->dests * sizeof p->dest[t][0], &err),
                       &err);
        }
        gr_test_ok(m->ops->l1_write(m, t, BH_L1_DATA, p->l1[t], BH_L1_DATA_BYTES, &err), &err);
        for (int s = 0; s < GR_BH_STREAMS; s++) {
            if (p->stream_bytes[t][s] > 0) {
                gr_test_ok(m->ops->dram_write(m, t, h->stream[s].lo, p->stream[t][s], p->stream_bytes[t][s], &err),
                           &err);
            }
        }
    }
    gr_test_ok(m->ops->start(m, &err), &err);
}

void bh_read(struct gr_bh_machine *m, int tile, uint32_t at, enum gr_bh_format f, void *bytes, float *values)
{
    struct gr_err err;
    gr_test_ok(m->ops->l1_read(m, tile, at, bytes, GR_BH_TILE_BYTES(f), &err), &err);
    gr_bh_tile_get(f, bytes, values, 32);
}
