/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_group.c: see bh_group.h. */
#include "bh_group.h"

#include <string.h>

#include "device/blackhole/tile_format.h"
#include "gr_test.h"

enum { TILE_BYTES_MAX = 4096, DESTS_MAX = 2 + BH_TILES_MAX };

static uint32_t seed;

static struct gr_bh_grid grid_of(struct bh_group *g)
{
    for (int i = 0; i < g->tiles; i++) {
        g->xy[i] = (uint32_t)(1 + i % 2) | (uint32_t)(2 + i / 2) << 6;
    }
    return (struct gr_bh_grid){g->tiles, g->xy, g->xy[0], g->xy[g->tiles - 1]};
}

void group_open(struct bh_group *g, int tiles, enum gr_bh_arithmetic arithmetic, int threads)
{
    memset(g, 0, sizeof *g);
    g->tiles = tiles;
    seed = 7;
    struct gr_bh_grid grid = grid_of(g);
    gr_test_ok(gr_bh_machine_cpu(&grid, arithmetic, threads, &g->m, &g->err), &g->err);
}

void group_close(struct bh_group *g) { g->m->ops->close(g->m); }

struct gr_bh_op *group_add(struct bh_group *g, enum gr_bh_kind kind)
{
    uint32_t i = g->ops++;
    assert_true(g->ops < BH_OPS_MAX);
    for (int t = 0; t < g->tiles; t++) {
        g->op[t][i] = (struct gr_bh_op){.kind = (uint16_t)kind, .mt = 1, .nt = 1, .phases = 4, .out = BH_OUT};
    }
    return &g->op[0][i];
}

void group_alike(struct bh_group *g)
{
    for (int t = 1; t < g->tiles; t++) {
        memcpy(g->op[t], g->op[0], sizeof g->op[0]);
    }
}

struct gr_bh_segment group_segment(uint32_t a, enum gr_bh_format fmt_a, uint32_t b, enum gr_bh_format fmt_b,
                                   uint32_t flags)
{
    return (struct gr_bh_segment){
        .flags = flags, .fmt_a = (uint16_t)fmt_a, .fmt_b = (uint16_t)fmt_b, .kcount = 1, .a = a, .b = b};
}

static uint32_t channel_of(int tile, int stream) { return (uint32_t)(tile + 4 * stream); }

static void load(struct bh_group *g)
{
    struct gr_bh_grid grid = grid_of(g);
    for (int t = 0; t < g->tiles; t++) {
        uint8_t list[sizeof(struct gr_bh_head) + sizeof g->op[0] + DESTS_MAX * sizeof(struct gr_bh_dest)];
        struct gr_bh_head h = {.ops = g->ops, .dests = 2 + (uint32_t)g->tiles, .me = (uint32_t)t};
        h.tiles = (uint32_t)g->tiles;
        h.hub_xy = g->xy[0];
        h.xy0 = grid.xy0;
        h.xy1 = grid.xy1;
        h.ring = BH_RING;
        h.ring_bytes = BH_RING_BYTES;
        for (int s = 0; s < GR_BH_STREAMS; s++) {
            uint32_t c = channel_of(t, s); /* x 18: channels 0..3, 17: 4..7; the second of three endpoints */
            h.stream[s] = (struct gr_bh_stream){(c < 4 ? 18 : 17) | (12 + c % 4 * 3 + 1) << 6, BH_STREAM, 0};
        }
        struct gr_bh_dest d[DESTS_MAX] = {{h.xy0, h.xy1, (uint16_t)(g->tiles - 1), 0},
                                          {h.xy0, h.xy1, (uint16_t)g->tiles, 1}};
        for (int i = 0; i < g->tiles; i++) {
            d[2 + i] = (struct gr_bh_dest){g->xy[i], g->xy[i], 1, i == t};
        }
        size_t ops = g->ops * sizeof g->op[0][0], dests = h.dests * sizeof *d;
        memcpy(list, &h, sizeof h);
        memcpy(list + sizeof h, g->op[t], ops);
        memcpy(list + sizeof h + ops, d, dests);
        gr_test_ok(g->m->ops->l1_write(g->m, t, GR_BH_PROGRAM, list, sizeof h + ops + dests, &g->err), &g->err);
    }
}

static enum gr_status start_and_run(struct bh_group *g, uint32_t n)
{
    for (int t = 0; t < g->tiles; t++) {
        g->op[t][g->ops] = (struct gr_bh_op){.kind = GR_BH_END};
    }
    g->ops++;
    load(g);
    enum gr_status s = g->m->ops->start(g->m, &g->err);
    return s != GR_OK ? s : g->m->ops->run(g->m, n, &g->err);
}

void group_must_run(struct bh_group *g, uint32_t n) { gr_test_ok(start_and_run(g, n), &g->err); }

void group_go_on(struct bh_group *g, uint32_t n) { gr_test_ok(g->m->ops->run(g->m, n, &g->err), &g->err); }

void group_must_fail(struct bh_group *g, uint32_t n, const char *words)
{
    if (start_and_run(g, n) == GR_OK) {
        fail_msg("expected a fault with \"%s\"", words);
    }
    assert_int_equal(g->err.code, GR_ERR_DEVICE);
    if (!strstr(g->err.msg, words)) {
        fail_msg("\"%s\" does not say \"%s\"", g->err.msg, words);
    }
    struct gr_err again; /* the machine has stopped */
    assert_int_equal(g->m->ops->run(g->m, 1, &again), GR_ERR_DEVICE);
}

float group_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed / 2147483648.0f;
}

void group_put_values(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, const float *v)
{
    uint8_t bytes[TILE_BYTES_MAX];
    gr_bh_tile_put(f, v, BH_SIDE, bytes);
    gr_test_ok(tile < 0 ? g->m->ops->l1_fill(g->m, addr, bytes, GR_BH_TILE_BYTES(f), &g->err)
                        : g->m->ops->l1_write(g->m, tile, addr, bytes, GR_BH_TILE_BYTES(f), &g->err),
               &g->err);
}

static void random_values(enum gr_bh_format f, float scale, uint8_t *bytes, float *v)
{
    for (int i = 0; i < BH_ELEMENTS; i++) {
        v[i] = group_random() * scale;
    }
    gr_bh_tile_put(f, v, BH_SIDE, bytes);
    gr_bh_tile_get(f, bytes, v, BH_SIDE);
}

void group_put(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, float scale, float *v)
{
    uint8_t bytes[TILE_BYTES_MAX];
    random_values(f, scale, bytes, v);
    group_put_values(g, tile, addr, f, v);
}

void group_get(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, float *v)
{
    uint8_t bytes[TILE_BYTES_MAX];
    gr_test_ok(g->m->ops->l1_read(g->m, tile, addr, bytes, GR_BH_TILE_BYTES(f), &g->err), &g->err);
    gr_bh_tile_get(f, bytes, v, BH_SIDE);
}

void group_put_stream(struct bh_group *g, int tile, int stream, uint32_t i, enum gr_bh_format f, float *v)
{
    uint8_t bytes[TILE_BYTES_MAX];
    random_values(f, 1.0f, bytes, v);
    gr_test_ok(g->m->ops->dram_write(g->m, (int)channel_of(tile, stream), BH_STREAM + (uint64_t)i * GR_BH_TILE_BYTES(f),
                                     bytes, GR_BH_TILE_BYTES(f), &g->err),
               &g->err);
}
