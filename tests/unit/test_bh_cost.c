/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_cost.c: the cost model (tools/bh_cost) on small programs whose time is reckoned by hand: all rates nothing but the ones in
 * question, at 1000 MHz, so that a clock is a nanosecond. */
#include "../../tools/bh_cost/cost.h"
#include "bh_golden.h"

#include <string.h>

enum { TILES = 9, TILE = 2048, CHUNK = 2 * TILE, LAST = 8 /* the tile that shares a DRAM channel with tile 0 */ };
#define XY(x, y) ((uint32_t)(x) | (uint32_t)(y) << 6)

static const uint32_t xy[TILES] = {XY(1, 2), XY(2, 2), XY(3, 2),  XY(4, 2), XY(5, 2),
                                   XY(6, 2), XY(7, 2), XY(10, 2), XY(11, 2)};
static const struct gr_bh_grid grid = {.tiles = TILES, .xy = xy, .xy0 = XY(1, 2), .xy1 = XY(11, 2)};
static const float vector[32];

static struct gr_bh_build *begin_ring(uint32_t ring_bytes)
{
    struct gr_err err;
    struct gr_bh_build *b = NULL;
    const struct gr_bh_build_cfg cfg = {
        .grid = &grid, .weights = GR_BH_BFP8, .weight_phases = 3, .ring_bytes = ring_bytes};
    gr_test_ok(gr_bh_build_new(&cfg, &b, &err), &err);
    return b;
}
static struct gr_bh_build *begin(void) { return begin_ring(0); }

static struct gr_bh_buf buffer(struct gr_bh_build *b, int mt, enum gr_bh_format fmt)
{
    return gr_bh_alloc(b, "buffer", mt, 1, fmt);
}

/* out [mt, 1] = in [mt, k] times in [k, 1], addresses of all k the same. */
static void fill(struct gr_bh_op *op, struct gr_bh_buf in, struct gr_bh_buf out, int mt, int k)
{
    op->mt = (uint16_t)mt;
    op->nt = op->nseg = 1;
    op->phases = 1;
    op->out_fmt = (uint16_t)out.fmt;
    op->out = out.addr;
    op->out_m = out.m_stride;
    op->seg[0] = (struct gr_bh_segment){
        .fmt_a = (uint16_t)in.fmt, .fmt_b = (uint16_t)in.fmt, .kcount = (uint32_t)k, .a = in.addr, .b = in.addr};
}

static struct bh_cost_rates nothing(void)
{
    struct bh_cost_rates r = {.clock_mhz = 1000,
                              .dram_gb = 1e30,
                              .dram_percent = 100,
                              .unpack_bytes = 1e30,
                              .pack_bytes = 1e30,
                              .pack_add = 1,
                              .noc_bytes = 1e30};
    return r;
}

/* Ends the build and walks it. */
static struct bh_cost_result walk(struct gr_bh_build *b, struct bh_cost_run run)
{
    struct gr_err err;
    struct bh_cost_result r;
    gr_test_ok(gr_bh_build_finish(b, &run.program, &err), &err);
    gr_test_ok(bh_cost_walk(&run, &r, &err), &err);
    gr_bh_build_free(b);
    return r;
}
static double clocks(struct gr_bh_build *b, struct bh_cost_rates rates)
{
    struct bh_cost_result r = walk(b, (struct bh_cost_run){.rates = rates});
    bh_cost_free(&r);
    return r.clocks;
}
static void same(double got, double want)
{
    if (!(got > want - 1e-6 && got < want + 1e-6)) {
        fail_msg("%.3f clocks, by hand %.3f", got, want);
    }
}

static struct gr_bh_build *product(int k, int phases)
{
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 1, GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    fill(&op[0], in, out, 1, k);
    op[0].phases = (uint16_t)phases;
    return b;
}

static void the_slower_of_unpacker_and_fpu_sets_the_pace(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.pair_clocks = 50;
    r.matrix_clocks = 16;
    same(clocks(product(10, 1), r), 10 * 50 + 16);
    same(clocks(product(10, 4), r), 50 + 10 * 64);
}

static void wide_and_transposed_operands_take_longer_to_unpack(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.pair_clocks = 50;
    r.unpack_bytes = 64;
    r.transpose_clocks = 7;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_FP32), out = buffer(b, 1, GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    fill(&op[0], in, out, 1, 3);
    op[0].seg[0].flags = GR_BH_SEG_TRANSPOSE;
    same(clocks(b, r), 3 * (64 + 7));
}

static void unpacking_is_two_pairs_ahead_at_most(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.unpack_bytes = 10.24; /* 200 clocks for a bf16 pair, 400 for an fp32 one */
    r.matrix_clocks = 500;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), wide = buffer(b, 1, GR_BH_FP32);
    struct gr_bh_op *op = gr_bh_emit(b), second = {0};
    fill(&op[0], in, wide, 1, 3); /* unpacked at 200, 400, 900; multiplied at 700, 1200, 1700 */
    fill(&second, wide, wide, 1, 2);
    op[0].nseg = 2;
    op[0].seg[1] = second.seg[0];
    op[0].seg[1].flags = GR_BH_SEG_ELEMENT; /* no time; unpacked at 1200 + 400, 1700 + 400 */
    same(clocks(b, r), 2100);
}

static struct gr_bh_build *four_tiles(enum gr_bh_format fmt, unsigned flags)
{
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 4, fmt);
    struct gr_bh_op *op = gr_bh_emit(b);
    fill(&op[0], in, out, 4, 1);
    op[0].function = GR_BH_SCALE;
    op[0].flags = (uint16_t)flags;
    return b;
}

static void functions_and_packing_overlap(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.sfpu_clocks = 1, r.sfpu_mad_clocks = 1;
    const double scale = bh_cost_function_clocks(&r, GR_BH_SCALE);
    same(scale, 32 * (3 + 1) + 3); /* load, multiply, store, the core's loop; the argument */
    r.pack_clocks = 300;
    same(clocks(four_tiles(GR_BH_BF16, 0), r), scale + 4 * 300);
    r.pack_clocks = 10;
    same(clocks(four_tiles(GR_BH_BF16, 0), r), 4 * scale + 10);
    /* The packer's thread would do both. */
    r.matrix_clocks = 50;
    struct bh_cost_result all =
        walk(four_tiles(GR_BH_BF16, 0), (struct bh_cost_run){.rates = r, .pack_functions = true});
    same(all.clocks, 50 + 4 * (scale + 10));
    bh_cost_free(&all);
    r = nothing();
    r.pack_bytes = 32;
    r.pack_add = 2;
    same(clocks(four_tiles(GR_BH_FP32, 0), r), 4 * 4096 / 32);
    same(clocks(four_tiles(GR_BH_FP32, GR_BH_OP_ACCUMULATE), r), 2 * 4 * 4096 / 32);
}

static void products_wait_for_a_free_half_of_dst(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.matrix_clocks = 100;
    r.pack_clocks = 300;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 3, GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    fill(&op[0], in, out, 3, 1);
    op = gr_bh_emit(b); /* a product of 900 clocks: begins when the first half is free again, at 700 = 100 + 2 * 300 */
    fill(&op[0], in, out, 1, 9);
    op[0].back = 1;
    same(clocks(b, r), 700 + 900 + 300);
}

static double operations(int n, int back)
{
    struct bh_cost_rates r = nothing();
    r.pair_clocks = 50;
    r.matrix_clocks = 16;
    r.pack_clocks = 100;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 1, GR_BH_BF16);
    for (int i = 0; i < n; i++) {
        struct gr_bh_op *op = gr_bh_emit(b);
        fill(&op[0], in, out, 1, 1);
        op[0].back = (uint16_t)back;
    }
    return clocks(b, r);
}

static void an_operation_waits_for_those_it_depends_on(void **state)
{
    (void)state;
    same(operations(2, 0), 2 * (50 + 16 + 100));
    same(operations(2, 1), 50 + 16 + 2 * 100);
    same(operations(3, 1), 50 + 16 + 3 * 100); /* the third begins when the first is complete, at 166 */
    same(operations(4, 1), 50 + 16 + 4 * 100);
    same(operations(3, 0), 3 * (50 + 16 + 100));
}

static void control_code_of_a_waiting_core_costs_what_comes_after_the_wait(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.walk_clocks = 1;
    r.start_clocks = 10;
    r.done_clocks = 100;
    /* The first: walk, start, the tile is seen. It is complete 100 later; the second has walked by then. */
    struct gr_bh_build *b = product(1, 1);
    fill(&gr_bh_emit(b)[0], buffer(b, 1, GR_BH_BF16), buffer(b, 1, GR_BH_BF16), 1, 1);
    same(clocks(b, r), 1 + 10 + 100 + 100 + 10 + 100);
}

static void formats_cost_when_they_change(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.format_clocks = 60;
    struct gr_bh_build *b = product(1, 1); /* unpacker, then packer */
    const struct gr_bh_buf wide = buffer(b, 1, GR_BH_FP32), out = buffer(b, 1, GR_BH_BF16);
    fill(&gr_bh_emit(b)[0], wide, out, 1, 1); /* unpacker */
    fill(&gr_bh_emit(b)[0], wide, out, 1, 1);
    same(clocks(b, r), 60 + 60 + 60);
}

/* ---- the stream ---- */

/* nt columns with a chunk each on some tiles; computing one takes `pair` clocks. */
static double stream(uint32_t ring, const int *tiles, int n, int nt, struct bh_cost_rates r)
{
    struct gr_bh_build *b = begin_ring(ring);
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 1, GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int i = 0; i < n; i++) {
        struct gr_bh_op *o = &op[tiles[i]];
        fill(o, in, out, 1, 1);
        o->nt = (uint16_t)nt;
        o->chunk = CHUNK;
        o->seg[0].flags = GR_BH_SEG_RING;
        o->seg[0].b = 0;
        for (int c = 0; c < nt; c++) {
            /* Tiles with equal streams would share their bytes. */
            const struct gr_bh_piece p = {
                .kind = GR_BH_PIECE_MODULATE, .col = tiles[i], .scale = vector, .shift = vector, .n = 32 * TILES};
            assert_int_equal(gr_bh_piece_add(b, tiles[i], 0, p), CHUNK);
        }
    }
    return clocks(b, r);
}
static const int first_tile[] = {0}, two_channels[] = {0, 1}, one_channel[] = {0, LAST};

static struct bh_cost_rates dram(void)
{
    struct bh_cost_rates r = nothing();
    r.dram_gb = 1024; /* 8 channels: 128 bytes a clock each, of which half: a chunk takes 64 clocks */
    r.dram_percent = 50;
    return r;
}

static void tiles_share_the_rate_of_a_channel(void **state)
{
    (void)state;
    same(stream(0, first_tile, 1, 4, dram()), 4 * 64);
    same(stream(0, two_channels, 2, 4, dram()), 4 * 64);
    same(stream(0, one_channel, 2, 4, dram()), 8 * 64);
    struct bh_cost_rates r = dram();
    r.noc_bytes = 32; /* and none gets more than its link carries */
    same(stream(0, first_tile, 1, 1, r), 128);
}

static void two_chunks_are_under_way_at_most(void **state)
{
    (void)state;
    struct bh_cost_rates r = dram();
    r.dram_us = 1;
    same(stream(8 * CHUNK, first_tile, 1, 1, r), 64 + 1000);
    same(stream(8 * CHUNK, first_tile, 1, 2, r), 2 * 64 + 1000);
    same(stream(8 * CHUNK, first_tile, 1, 3, r), 2 * (64 + 1000));
}

static void the_ring_reads_ahead_as_far_as_it_has_room(void **state)
{
    (void)state;
    struct bh_cost_rates r = dram();
    r.pair_clocks = 500;
    same(stream(2 * CHUNK, first_tile, 1, 4, r), 64 + 4 * 500);
    same(stream(CHUNK, first_tile, 1, 4, r), 4 * (64 + 500));
    same(stream(CHUNK + 64, first_tile, 1, 4, r), 4 * (64 + 500)); /* the end is skipped */
    r.pair_clocks = 10;
    same(stream(2 * CHUNK, first_tile, 1, 4, r), 4 * 64 + 10);
}

/* ---- between tiles ---- */

static void a_barrier_waits_for_the_slowest_tile(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.pair_clocks = 50;
    r.barrier_us = 2;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 1, GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int t = 0; t < TILES; t++) {
        op[t].flags = GR_BH_OP_BARRIER;
    }
    fill(&op[1], in, out, 1, 10);
    fill(&op[2], in, out, 1, 1);
    fill(&gr_bh_emit(b)[2], in, out, 1, 3);
    struct bh_cost_result all = walk(b, (struct bh_cost_run){.rates = r});
    same(all.clocks, 10 * 50 + 2000 + 3 * 50);
    assert_int_equal(all.sums[0].barriers, 1);
    same(all.sums[0].busy[BH_COST_UNPACK], 10 * 50 + 3 * 50); /* of the tile that has most in each */
    bh_cost_free(&all);
}

static struct gr_bh_build *exchange(bool all, unsigned flags)
{
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16),
                           out = buffer(b, 2, flags & GR_BH_OP_ROW ? GR_BH_FP32 : GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int t = 0; t < 3; t++) {
        fill(&op[t], in, out, 2, 1);
        op[t].flags = (uint16_t)flags;
        op[t].dest = all ? gr_bh_dest_all(b, t, true) : gr_bh_dest_tile(b, t, LAST);
        op[t].dests = 1;
    }
    return b;
}

static void multicasts_take_turns_and_writes_to_one_tile_do_not(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.noc_bytes = 64;
    r.noc_us = 0.5;
    same(clocks(exchange(true, 0), r), 3 * 2 * TILE / 64 + 500);
    same(clocks(exchange(false, 0), r), 2 * TILE / 64 + 500);
    r.multicast_clocks = 1000;
    same(clocks(exchange(true, GR_BH_OP_ROW), r), 3 * 2 * 2 * (64 / 64 + 1000) + 500); /* two pieces a tile */
    same(clocks(exchange(false, GR_BH_OP_ROW), r), 2 * 2 * 64 / 64 + 500);
}

static void a_result_is_sent_while_the_next_is_computed(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.noc_bytes = 64; /* 32 clocks a tile */
    r.matrix_clocks = 100;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 2, GR_BH_BF16);
    struct gr_bh_op *op = gr_bh_emit(b);
    fill(&op[0], in, out, 2, 1);
    op[0].dest = gr_bh_dest_all(b, 0, false);
    op[0].dests = 1;
    same(clocks(b, r), 2 * 100 + 32);
}

/* ---- sums, rounds, what-ifs ---- */

static void rounds_of_the_last_loop_are_told_apart(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.pair_clocks = 50;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 1, GR_BH_BF16);
    fill(&gr_bh_emit(b)[0], in, out, 1, 7);
    gr_bh_loop(b, 3, 0);
    for (int i = 0; i < 3; i++) {
        gr_bh_round(b, i);
        gr_bh_loop(b, 2, 0);
        for (int j = 0; j < 2; j++) {
            gr_bh_round(b, j);
            struct gr_bh_op *op = gr_bh_emit(b);
            fill(&op[0], in, out, 1, 2);
            op[0].phases = 3;
            op[0].nseg = 2;
            op[0].seg[1] = op[0].seg[0];
            op[0].seg[1].flags = GR_BH_SEG_ELEMENT;
        }
        gr_bh_loop_end(b);
    }
    gr_bh_loop_end(b);
    fill(&gr_bh_emit(b)[0], in, out, 1, 1);
    const int stage[] = {0, 0, 0, 1, 0, 0, 0, 0}; /* op, loop, loop, op, next, next, op, end */
    struct bh_cost_result all = walk(b, (struct bh_cost_run){.rates = r, .stage = stage, .stages = 2});
    assert_int_equal(all.rounds, 5);
    same(bh_cost_total(&all, 0, -1).clocks, 350);
    for (int i = 1; i <= 3; i++) {
        const struct bh_cost_sums s = bh_cost_total(&all, i, 1);
        same(s.clocks, 2 * 4 * 50);
        assert_int_equal(s.operations, 2);
        assert_int_equal(s.pairs, 2 * 4);
        assert_int_equal(s.passes, 2 * 2 * 3);
        assert_int_equal(s.elements, 2 * 2 * 3);
        assert_int_equal(s.packs, 2);
        assert_int_equal(bh_cost_total(&all, i, 0).operations, 0);
    }
    same(bh_cost_total(&all, 4, -1).clocks, 50);
    same(bh_cost_total(&all, -1, -1).clocks, all.clocks);
    bh_cost_free(&all);
}

static void a_free_unit_takes_no_time(void **state)
{
    (void)state;
    struct bh_cost_rates r = nothing();
    r.pair_clocks = 50;
    r.matrix_clocks = 16;
    r.pack_clocks = 100;
    const unsigned units[] = {BH_COST_UNPACK, BH_COST_FPU, BH_COST_PACK};
    const double left[] = {10 * 16 + 100, 10 * 50 + 100, 10 * 50 + 16};
    for (size_t i = 0; i < 3; i++) {
        struct bh_cost_result all =
            walk(product(10, 1), (struct bh_cost_run){.rates = r, .free_units = 1u << units[i]});
        same(all.clocks, left[i]);
        same(all.sums[0].busy[BH_COST_UNPACK], 500); /* the account stays */
        bh_cost_free(&all);
    }
}

static void dependencies_follow_from_addresses(void **state)
{
    (void)state;
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf x = buffer(b, 2, GR_BH_BF16), y = buffer(b, 2, GR_BH_BF16), z = buffer(b, 2, GR_BH_BF16);
    struct gr_bh_op make = {.phases = 1}, reads = make, other = make, again = make, transposed = make;
    fill(&make, x, y, 2, 1);
    fill(&reads, y, z, 1, 1);
    fill(&other, x, z, 1, 1);
    fill(&again, x, y, 1, 1);
    fill(&transposed, x, z, 1, 2);
    transposed.seg[0].b_k = y.addr - x.addr; /* the second k tile of B */
    const struct bh_cost_executed before[] = {{&other, 0}, {&make, 0}};
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&other, 0}, before, 2), 2);
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&reads, 0}, before, 2), 1);
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&transposed, 0}, before, 2), 1);
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&again, 0}, before, 2), 2);
    make.dests = 1; /* y may still be on its way */
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&again, 0}, before, 2), 1);
    make.dests = 0;
    make.flags = GR_BH_OP_BARRIER;
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&again, 0}, before, 2), 1);
    make.flags = 0;
    reads.seg[0].a_i = reads.seg[0].b_i = z.addr - y.addr; /* in the second round it reads z */
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&reads, 1}, before, 2), 0);
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&reads, 1}, before + 1, 1), 1);
    make.out_i = z.addr - y.addr; /* and so the other writes z in its second */
    const struct bh_cost_executed second[] = {{&make, 1}};
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&reads, 1}, second, 1), 0);
    assert_int_equal(bh_cost_back((struct bh_cost_executed){&reads, 0}, second, 1), 1);
    gr_bh_build_free(b);
}

static void stages_are_known_by_their_matrices(void **state)
{
    (void)state;
    static const struct gr_tensor w = {.ndim = 2, .shape = {32, 32}};
    static const char *const names[] = {"m.blocks.7.ff.net.0.proj.weight", "m.layers.7.other.weight"};
    struct gr_err err;
    const struct gr_bh_program *p = NULL;
    struct bh_cost_stages st;
    struct gr_bh_matrix m[2];
    struct gr_bh_build *b = begin();
    const struct gr_bh_buf in = buffer(b, 1, GR_BH_BF16), out = buffer(b, 1, GR_BH_BF16);
    for (int i = 0; i < 2; i++) {
        m[i] = (struct gr_bh_matrix){.name = names[i], .k = 32, .n = 32, .w = &w, .slot = -1};
        fill(&gr_bh_emit(b)[0], in, out, 1, 1);
        struct gr_bh_op *op = gr_bh_emit(b);
        fill(&op[3], in, out, 1, 1);
        op[3].chunk = gr_bh_piece_add(b, 3, 1, (struct gr_bh_piece){.kind = GR_BH_PIECE_COLUMN, .k1 = 1, .w = &m[i]});
        op[3].stream = 1;
    }
    fill(&gr_bh_emit(b)[0], in, out, 1, 1);
    gr_test_ok(gr_bh_build_finish(b, &p, &err), &err);
    gr_test_ok(bh_cost_stages_new(p, GR_BH_BFP8, &st, &err), &err);
    static const char *const want[] = {"second norm", "MLP", "before m.layers.other", "m.layers.other", "end"};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(st.name[st.stage[i]], want[i]);
    }
    bh_cost_stages_free(&st);
    gr_bh_build_free(b);
}

static void lists_that_differ_between_tiles_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct bh_cost_result r;
    struct gr_bh_build *b = product(1, 1);
    fill(&gr_bh_emit(b)[0], buffer(b, 1, GR_BH_BF16), buffer(b, 1, GR_BH_BF16), 1, 1);
    struct bh_cost_run run = {.rates = nothing()};
    gr_test_ok(gr_bh_build_finish(b, &run.program, &err), &err);
    struct gr_bh_head *h = run.program->list[5];
    ((struct gr_bh_op *)(h + 1))[1].kind = GR_BH_END;
    assert_int_equal(bh_cost_walk(&run, &r, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "tile 5"));
    ((struct gr_bh_op *)(h + 1))[1] = (struct gr_bh_op){.kind = GR_BH_COMPUTE, .nt = 1, .mt = 1, .chunk = 1 << 20};
    assert_int_equal(bh_cost_walk(&run, &r, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "chunk"));
    gr_bh_build_free(b);
}

/* The denoise program of the tiny snapshot: every Euler step costs the same work, and every operation has a stage that is known. */
static void the_denoise_program_is_understood(void **state)
{
    struct bh_net net;
    struct gr_err err;
    struct bh_cost_stages st;
    struct bh_cost_run run = {0};
    struct bh_cost_result r;
    bh_net_synthetic(&net, GR_SYNTH_TINY);
    const struct gr_bh_denoise d = {
        .w = net.head, .text_rows = 40, .image_rows = net.w->dims.vit.tokens, .steps = net.w->dims.dit.steps};
    struct gr_bh_build *b = begin();
    gr_bh_emit_denoise(b, &d);
    gr_test_ok(gr_bh_build_finish(b, &run.program, &err), &err);
    gr_test_ok(bh_cost_stages_new(run.program, GR_BH_BFP8, &st, &err), &err);
    for (int i = 0; i < st.n; i++) {
        assert_int_not_equal(strncmp(st.name[i], "before ", 7), 0);
    }
    run.stage = st.stage;
    run.stages = st.n;
    bh_cost_defaults(&run.rates);
    gr_test_ok(bh_cost_walk(&run, &r, &err), &err);
    assert_int_equal(r.rounds, d.steps + 2);
    assert_int_equal(bh_cost_total(&r, -1, -1).operations, run.program->executed);
    for (int i = 0; i < st.n; i++) {
        const struct bh_cost_sums first = bh_cost_total(&r, 1, i);
        for (int k = 2; k <= d.steps; k++) {
            const struct bh_cost_sums s = bh_cost_total(&r, k, i);
            assert_int_equal(s.operations, first.operations);
            assert_int_equal(s.read_bytes, first.read_bytes);
            assert_int_equal(s.pairs, first.pairs);
            assert_int_equal(s.multicast_bytes, first.multicast_bytes);
        }
    }
    const double whole = r.clocks;
    bh_cost_free(&r);
    for (int u = BH_COST_UNPACK; u < BH_COST_UNITS;
         u++) { /* but for the stream, which is hidden here, each unit counts */
        run.free_units = 1u << u;
        gr_test_ok(bh_cost_walk(&run, &r, &err), &err);
        assert_true(r.clocks < whole);
        bh_cost_free(&r);
    }
    bh_cost_stages_free(&st);
    gr_bh_build_free(b);
    bh_net_close(&net);
    assert_int_equal(gr_test_temp_clean(state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slower_of_unpacker_and_fpu_sets_the_pace),
        cmocka_unit_test(wide_and_transposed_operands_take_longer_to_unpack),
        cmocka_unit_test(unpacking_is_two_pairs_ahead_at_most),
        cmocka_unit_test(functions_and_packing_overlap),
        cmocka_unit_test(products_wait_for_a_free_half_of_dst),
        cmocka_unit_test(an_operation_waits_for_those_it_depends_on),
        cmocka_unit_test(control_code_of_a_waiting_core_costs_what_comes_after_the_wait),
        cmocka_unit_test(formats_cost_when_they_change),
        cmocka_unit_test(tiles_share_the_rate_of_a_channel),
        cmocka_unit_test(two_chunks_are_under_way_at_most),
        cmocka_unit_test(the_ring_reads_ahead_as_far_as_it_has_room),
        cmocka_unit_test(a_barrier_waits_for_the_slowest_tile),
        cmocka_unit_test(multicasts_take_turns_and_writes_to_one_tile_do_not),
        cmocka_unit_test(a_result_is_sent_while_the_next_is_computed),
        cmocka_unit_test(rounds_of_the_last_loop_are_told_apart),
        cmocka_unit_test(a_free_unit_takes_no_time),
        cmocka_unit_test(dependencies_follow_from_addresses),
        cmocka_unit_test(stages_are_known_by_their_matrices),
        cmocka_unit_test(the_denoise_program_is_understood),
        cmocka_unit_test(lists_that_differ_between_tiles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
