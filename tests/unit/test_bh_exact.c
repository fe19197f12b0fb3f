/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_exact.c: the same random programs on the simulator's chip and on the CPU machine, bit exact: all of L1 that they write is
 * equal. Operands have zeros, subnormals and far exponents among them. */
#include <stdio.h>
#include <string.h>

#include "bh_chip.h"
#include "device/blackhole/machine.h"
#include "device/blackhole/program.h"
#include "device/blackhole/tile_format.h"
#include "gr_test.h"

enum { SIDE = 32, ELEMENTS = 1024, TILES = 2, OPS = 12, STREAM = 0x10000, RING = 0x140000, RING_BYTES = 0x8000 };
/* L1: operands in three formats, then a place for the output of every operation. */
enum {
    INPUTS = 6,
    IN_FP32 = 0x20000,
    IN_BF16 = 0x28000,
    IN_BFP8 = 0x30000,
    OUT = 0x40000,
    OUT_BYTES = 0x8000,
    SENT = 0xC0000
};

static struct gr_err err;
static uint32_t seed;

static uint32_t random_word(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8 | seed << 24;
}

static uint32_t below(uint32_t n) { return (random_word() >> 4) % n; }

/* Mostly of like size; `wild`: exponents all over, zeros, subnormals. */
static void random_tile(enum gr_bh_format f, bool wild, uint8_t *tile)
{
    float v[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        uint32_t e = wild ? 60 + below(120) : 120 + below(10);
        uint32_t u = (random_word() & 0x807fffffu) | e << 23;
        u = wild && below(16) == 0 ? u & 0x80000000u : wild && below(32) == 0 ? u & 0x807fffffu : u;
        memcpy(&v[i], &u, sizeof u);
    }
    gr_bh_tile_put(f, v, SIDE, tile);
}

static struct gr_bh_segment random_segment(bool ring, enum gr_bh_format stream, bool element)
{
    struct gr_bh_segment g = {.kcount = 1 + below(3)};
    bool wide = below(3) == 0;
    g.flags = (element ? GR_BH_SEG_ELEMENT : 0) | (below(3) == 0 ? GR_BH_SEG_TRANSPOSE : 0);
    g.fmt_a = wide ? GR_BH_FP32 : GR_BH_BF16;
    g.a = wide ? IN_FP32 : IN_BF16;
    g.a_m = g.a_k = GR_BH_TILE_BYTES(g.fmt_a);
    if (ring) {
        g.flags |= GR_BH_SEG_RING;
        g.fmt_b = (uint16_t)stream;
        g.b_k = GR_BH_TILE_BYTES(stream);
        return g;
    }
    static const struct {
        enum gr_bh_format f;
        uint32_t at;
    } from[] = {{GR_BH_FP32, IN_FP32}, {GR_BH_BF16, IN_BF16}, {GR_BH_BFP8, IN_BFP8}};
    uint32_t which = below(3);
    g.fmt_b = (uint16_t)from[which].f;
    g.b = from[which].at;
    g.b_m = below(2) * GR_BH_TILE_BYTES(g.fmt_b);
    g.b_n = g.b_k = GR_BH_TILE_BYTES(g.fmt_b);
    return g;
}

/* An operation whose outputs lie at OUT + number * OUT_BYTES: two by two tiles at most. */
static struct gr_bh_op random_op(uint32_t number, enum gr_bh_format stream)
{
    static const uint16_t formats[] = {GR_BH_FP32, GR_BH_BF16, GR_BH_BFP8};
    struct gr_bh_op o = {.kind = GR_BH_COMPUTE, .mt = (uint16_t)(1 + below(2)), .nt = (uint16_t)(1 + below(2))};
    o.phases = (uint16_t)(1 + below(4));
    o.nseg = (uint16_t)(1 + below(3));
    o.out_fmt = formats[below(3)];
    o.function = (uint16_t)(below(2) ? number % GR_BH_FUNCTIONS : GR_BH_NONE);
    o.arg = o.function == GR_BH_RSQRT ? 0x3f000000u : 0xbf9d70a4u; /* 0.5, -1.23 */
    o.out = OUT + number * OUT_BYTES;
    o.out_m = GR_BH_TILE_BYTES(o.out_fmt);
    o.out_n = 2 * o.out_m;
    o.flags = GR_BH_OP_BARRIER | (o.out_fmt != GR_BH_BFP8 && below(3) == 0 ? GR_BH_OP_ACCUMULATE : 0);
    bool ring = below(2);
    for (uint32_t s = 0; s < o.nseg; s++) {
        o.seg[s] = random_segment(ring && s == 0, stream, below(3) == 0);
    }
    o.chunk = ring ? 4 * GR_BH_TILE_BYTES(stream) : 0;
    if (number % 4 == 3) { /* the maximum of columns; B in row tiles 1.. of the third input */
        o.nseg = 1;
        o.seg[0] = random_segment(false, stream, false);
        o.seg[0].flags = (o.seg[0].flags & GR_BH_SEG_TRANSPOSE) | GR_BH_SEG_MAX;
        o.seg[0].fmt_a = GR_BH_BF16;
        o.seg[0].a = IN_BF16 + INPUTS * 2048;
        o.seg[0].a_m = o.seg[0].a_k = 0;
        o.chunk = 0;
        o.function = GR_BH_NONE;
    }
    if (number % 3 == 1) { /* to everybody else */
        o.dests = 1;
        o.to = SENT + number * OUT_BYTES;
        o.to_m = o.out_m;
        o.to_n = o.out_n;
        o.flags |= o.out_fmt == GR_BH_FP32 && below(2) ? GR_BH_OP_ROW : 0;
    }
    return o;
}

static void inputs(struct gr_bh_machine *m[2], bool wild)
{
    static const struct {
        enum gr_bh_format f;
        uint32_t at;
    } to[] = {{GR_BH_FP32, IN_FP32}, {GR_BH_BF16, IN_BF16}, {GR_BH_BFP8, IN_BFP8}};
    uint8_t tile[4096];
    for (int t = 0; t < TILES; t++) {
        for (uint32_t i = 0; i < 3 * INPUTS; i++) {
            enum gr_bh_format f = to[i % 3].f;
            random_tile(f, wild, tile);
            for (int k = 0; k < 2; k++) {
                uint32_t at = to[i % 3].at + i / 3 * GR_BH_TILE_BYTES(f);
                gr_test_ok(m[k]->ops->l1_write(m[k], t, at, tile, GR_BH_TILE_BYTES(f), &err), &err);
            }
        }
    }
    float ones[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        ones[i] = 1.0f;
    }
    gr_bh_tile_put(GR_BH_BF16, ones, SIDE, tile);
    static const uint8_t zeros[OPS * OUT_BYTES];
    for (int k = 0; k < 2; k++) {
        gr_test_ok(m[k]->ops->l1_fill(m[k], IN_BF16 + INPUTS * 2048, tile, 2048, &err), &err);
        gr_test_ok(m[k]->ops->l1_fill(m[k], OUT, zeros, sizeof zeros, &err), &err);
        gr_test_ok(m[k]->ops->l1_fill(m[k], SENT, zeros, sizeof zeros, &err), &err);
    }
}

static void streams(struct gr_bh_machine *m[2], enum gr_bh_format f, bool wild)
{
    uint8_t tile[4096];
    for (int channel = 0; channel < TILES; channel++) {
        for (uint32_t i = 0; i < 8 * OPS; i++) {
            random_tile(f, wild, tile);
            for (int k = 0; k < 2; k++) {
                uint64_t at = STREAM + (uint64_t)i * GR_BH_TILE_BYTES(f);
                gr_test_ok(m[k]->ops->dram_write(m[k], channel, at, tile, GR_BH_TILE_BYTES(f), &err), &err);
            }
        }
    }
}

struct list {
    struct gr_bh_head head;
    struct gr_bh_op op[OPS + 1];
    struct gr_bh_dest dest[1];
};

static void lists(struct gr_bh_machine *m[2], const struct gr_bh_grid *grid, enum gr_bh_format stream)
{
    struct list l = {0};
    for (uint32_t i = 0; i < OPS; i++) {
        l.op[i] = random_op(i, stream);
    }
    l.op[OPS].kind = GR_BH_END;
    l.dest[0] = (struct gr_bh_dest){grid->xy0, grid->xy1, TILES - 1, 0};
    for (uint32_t t = 0; t < TILES; t++) {
        l.head = (struct gr_bh_head){.ops = OPS + 1,
                                     .dests = 1,
                                     .me = t,
                                     .tiles = TILES,
                                     .hub_xy = grid->xy[0],
                                     .xy0 = grid->xy0,
                                     .xy1 = grid->xy1,
                                     .release_tiles = TILES - 1,
                                     .ring = RING,
                                     .ring_bytes = RING_BYTES};
        l.head.stream[0] = (struct gr_bh_stream){gr_chip_dram_xy((int)t, 1), STREAM, 0};
        for (int k = 0; k < 2; k++) {
            gr_test_ok(m[k]->ops->l1_write(m[k], (int)t, GR_BH_PROGRAM, &l, sizeof l, &err), &err);
        }
    }
}

static void compare(struct gr_bh_machine *m[2], const char *what)
{
    static uint32_t a[OPS * OUT_BYTES / 4], b[OPS * OUT_BYTES / 4];
    static const uint32_t from[] = {OUT, SENT};
    for (int t = 0; t < TILES; t++) {
        for (int i = 0; i < 2; i++) {
            gr_test_ok(m[0]->ops->l1_read(m[0], t, from[i], a, sizeof a, &err), &err);
            gr_test_ok(m[1]->ops->l1_read(m[1], t, from[i], b, sizeof a, &err), &err);
            for (uint32_t j = 0; j < sizeof a / 4; j++) {
                if (a[j] != b[j]) {
                    fail_msg("%s, tile %d, operation %u, byte 0x%x of it: chip %08x, cpu %08x", what, t,
                             j * 4 / OUT_BYTES, j * 4 % OUT_BYTES, a[j], b[j]);
                }
            }
        }
    }
}

static void the_cpu_machine_has_the_bits_of_the_chip(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    static const uint32_t xy[TILES] = {1 | 2 << 6, 2 | 2 << 6};
    struct gr_bh_grid grid = {TILES, xy, xy[0], xy[1]};
    struct gr_bh_machine *m[2];
    gr_test_ok(gr_bh_machine_chip(chip, &grid, 20000, &m[0], &err), &err);
    gr_test_ok(gr_bh_machine_cpu(&grid, GR_BH_BIT_EXACT, 1, &m[1], &err), &err);
    for (uint32_t run = 0; run < 12; run++) {
        char what[40];
        enum gr_bh_format stream = run & 1 ? GR_BH_BFP8 : GR_BH_BF16;
        (void)snprintf(what, sizeof what, "program %u", run);
        seed = 100 + run;
        inputs(m, run % 4 >= 2);
        streams(m, stream, run % 4 >= 2);
        lists(m, &grid, stream);
        for (int k = 0; k < 2; k++) {
            gr_test_ok(m[k]->ops->start(m[k], &err), &err);
            gr_test_ok(m[k]->ops->run(m[k], OPS, &err), &err);
        }
        compare(m, what);
        for (int k = 0; k < 2; k++) {
            gr_test_ok(m[k]->ops->stop(m[k], &err), &err);
        }
    }
    m[0]->ops->close(m[0]);
    m[1]->ops->close(m[1]);
}

int main(void)
{
    if (bh_simulator() == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_machine_has_the_bits_of_the_chip),
    };
    return cmocka_run_group_tests(tests, NULL, bh_chip_close);
}
