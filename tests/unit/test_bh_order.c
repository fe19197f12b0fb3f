/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_order.c: order on the CPU machine: loops and streams, sends and barriers on any number of threads, and what must be refused:
 * programs that reach outside their memory, that cannot go on, and races that a lucky chip would survive. */
#include <string.h>

#include "bh_group.h"
#include "gr_test.h"

enum { BF16_BYTES = 2048, FP32_BYTES = 4096, ONES = BH_DATA, X = BH_DATA + 0x1000, Y = 0x40000, Z = 0x48000 };

static void fill(struct bh_group *g, uint32_t addr, enum gr_bh_format f, float value)
{
    float v[BH_ELEMENTS];
    for (int i = 0; i < BH_ELEMENTS; i++) {
        v[i] = value;
    }
    group_put_values(g, -1, addr, f, v);
}

/* out = the bf16 tile at `from`, in bf16. */
static struct gr_bh_op *copy_op(struct bh_group *g, uint32_t from, uint32_t out)
{
    struct gr_bh_op *o = group_add(g, GR_BH_COMPUTE);
    for (int t = 0; t < g->tiles; t++) {
        struct gr_bh_op *p = &g->op[t][g->ops - 1];
        p->nseg = 1;
        p->out = out;
        p->out_fmt = GR_BH_BF16;
        p->seg[0] = group_segment(from, GR_BH_BF16, ONES, GR_BH_BF16, GR_BH_SEG_ELEMENT);
    }
    return o;
}

static void open_with_data(struct bh_group *g, int tiles, enum gr_bh_arithmetic arithmetic, int threads)
{
    float v[BH_ELEMENTS];
    group_open(g, tiles, arithmetic, threads);
    fill(g, ONES, GR_BH_BF16, 1.0f);
    for (int t = 0; t < tiles; t++) {
        group_put(g, t, X, GR_BH_BF16, 1.0f, v);
    }
}

static float first(struct bh_group *g, int tile, uint32_t addr)
{
    float v[BH_ELEMENTS];
    group_get(g, tile, addr, GR_BH_BF16, v);
    return v[0];
}

/* ------------------------------------------------------------------------------------------------------ loops and streams */

/* Y[0] += chunk of stream 0; out_i walks over Z with a copy of stream 1's chunk. */
static void loop_program(struct bh_group *g, uint16_t rewind, uint16_t outer)
{
    struct gr_bh_op *o = group_add(g, GR_BH_LOOP);
    o->count = outer;
    o->rewind = rewind;
    o = group_add(g, GR_BH_LOOP);
    o->count = 3;
    o = group_add(g, GR_BH_COMPUTE);
    o->nseg = 1, o->chunk = BF16_BYTES, o->out = Y, o->out_fmt = GR_BH_FP32, o->flags = GR_BH_OP_ACCUMULATE;
    o->seg[0] = group_segment(ONES, GR_BH_BF16, 0, GR_BH_BF16, GR_BH_SEG_RING | GR_BH_SEG_ELEMENT);
    o = group_add(g, GR_BH_COMPUTE);
    o->nseg = 1, o->chunk = BF16_BYTES, o->stream = 1, o->out = Z, o->out_i = BF16_BYTES, o->out_fmt = GR_BH_BF16;
    o->seg[0] = group_segment(ONES, GR_BH_BF16, 0, GR_BH_BF16, GR_BH_SEG_RING | GR_BH_SEG_ELEMENT);
    group_add(g, GR_BH_NEXT);
    group_add(g, GR_BH_NEXT);
    group_alike(g);
}

static void streams_rewind_and_indices_count(void **state)
{
    (void)state;
    enum { ROUNDS = 2, CHUNKS = 6 };
    float in[2][CHUNKS][BH_ELEMENTS], sum[BH_ELEMENTS], z[BH_ELEMENTS];
    struct bh_group g;
    open_with_data(&g, 1, GR_BH_BIT_EXACT, 1);
    for (int i = 0; i < 2 * CHUNKS; i++) {
        group_put_stream(&g, 0, i / CHUNKS, (uint32_t)(i % CHUNKS), GR_BH_BF16, in[i / CHUNKS][i % CHUNKS]);
    }
    loop_program(&g, 1, ROUNDS); /* stream 0 begins anew each outer round, stream 1 goes on */
    group_must_run(&g, ROUNDS * 3 * 2);
    group_get(&g, 0, Y, GR_BH_FP32, sum);
    for (int i = 0; i < BH_ELEMENTS; i++) {
        float want = 0;
        for (int k = 0; k < CHUNKS; k++) {
            want += in[0][k % 3][i];
        }
        assert_true(sum[i] == want);
    }
    for (uint32_t i = 0; i < 3;
         i++) { /* the index is that of the inner loop: the second outer round wrote over the first */
        group_get(&g, 0, Z + i * BF16_BYTES, GR_BH_BF16, z);
        assert_memory_equal(z, in[1][3 + i], sizeof z);
    }
    group_close(&g);
}

/* Requests: the second goes through the same operations with the streams from their start, and no host action is in between. */
static void a_request_begins_anew_in_pieces_or_at_once(void **state)
{
    (void)state;
    float v[BH_ELEMENTS], once[BH_ELEMENTS], pieces[BH_ELEMENTS];
    for (int run = 0; run < 2; run++) {
        struct bh_group g;
        open_with_data(&g, 1, GR_BH_FAST, 1);
        for (uint32_t i = 0; i < 6; i++) {
            group_put_stream(&g, 0, 0, i, GR_BH_BF16, v);
            group_put_stream(&g, 0, 1, i, GR_BH_BF16, v);
        }
        loop_program(&g, 0, 2);
        group_must_run(&g, run ? 1 : 24);
        for (int i = 1; run && i < 24; i++) {
            group_go_on(&g, 1);
        }
        group_get(&g, 0, Y, GR_BH_FP32, run ? pieces : once);
        group_close(&g);
    }
    assert_memory_equal(once, pieces, sizeof once);
}

static void a_chunk_may_be_as_large_as_the_ring(void **state)
{
    (void)state;
    float v[BH_ELEMENTS];
    for (uint32_t more = 0; more < 2; more++) {
        struct bh_group g;
        open_with_data(&g, 1, GR_BH_FAST, 1);
        for (uint32_t i = 0; i < 16; i++) {
            group_put_stream(&g, 0, 0, i, GR_BH_BF16, v);
        }
        for (uint32_t i = 0; i < 2; i++) {
            struct gr_bh_op *o = group_add(&g, GR_BH_COMPUTE);
            o->nseg = 1, o->chunk = i ? BH_RING_BYTES + more * 64 : 6144;
            o->seg[0] = group_segment(ONES, GR_BH_BF16, 0, GR_BH_BF16, GR_BH_SEG_RING);
        }
        if (more) {
            group_must_fail(&g, 2, "operation 1 (number 1 of the list): chunk of 16448 bytes, the ring has 16384");
        } else {
            group_must_run(&g, 2);
        }
        group_close(&g);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ sends */

/* Four tiles gather each other's columns and multiply the whole by their own, three times over. */
static void gather_program(struct bh_group *g)
{
    struct gr_bh_op *o = group_add(g, GR_BH_LOOP);
    o->count = 3;
    group_alike(g);
    group_add(g, GR_BH_COMPUTE);
    for (int t = 0; t < g->tiles; t++) {
        o = &g->op[t][g->ops - 1];
        o->nseg = 1, o->out = Y, o->out_fmt = GR_BH_BF16, o->flags = GR_BH_OP_BARRIER, o->function = GR_BH_SILU;
        o->seg[0] = group_segment(X, GR_BH_BF16, X + BF16_BYTES, GR_BH_BFP8, 0);
        o->dest = 1, o->dests = 1, o->to = Z + (uint32_t)t * BF16_BYTES;
    }
    group_add(g, GR_BH_COMPUTE);
    for (int t = 0; t < g->tiles; t++) {
        o = &g->op[t][g->ops - 1];
        o->nseg = 1, o->out = X
        , o->out_fmt = GR_BH_BF16, o->flags = GR_BH_OP_BARRIER;
        o->seg[0] = group_segment(Z, GR_BH_BF16, X + BF16_BYTES, GR_BH_BFP8, GR_BH_SEG_TRANSPOSE);
        o->seg[0].kcount = (uint32_t)g->tiles, o->seg[0].a_k = BF16_BYTES;
    }
    group_add(g, GR_BH_NEXT);
}

static void any_number_of_threads_has_the_same_bits(void **state)
{
    (void)state;
    for (int set = 0; set < 2; set++) {
        static float out[2][BH_TILES_MAX][BH_ELEMENTS];
        for (int run = 0; run < 2; run++) {
            float v[BH_ELEMENTS];
            struct bh_group g;
            open_with_data(&g, BH_TILES_MAX, set ? GR_BH_FAST : GR_BH_BIT_EXACT, run ? 3 : 1);
            for (int t = 0; t < BH_TILES_MAX; t++) {
                group_put(&g, t, X + BF16_BYTES, GR_BH_BFP8, 0.2f, v);
            }
            gather_program(&g);
            group_must_run(&g, 6);
            for (int t = 0; t < BH_TILES_MAX; t++) {
                group_get(&g, t, X, GR_BH_BF16, out[run][t]);
            }
            group_close(&g);
        }
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        assert_memory_not_equal(out[0][0], out[0][1], sizeof out[0][0]);
    }
}

/* Destination lists: everybody else, everybody, one tile; row 0 in two pieces. */
static void sends_reach_their_rectangle_and_no_more(void **state)
{
    (void)state;
    static const bool reached[3][BH_TILES_MAX] = {{0, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 1, 0}};
    static const uint16_t dest[3] = {0, 1, 2 + 2};
    for (int n = 0; n < 3; n++) {
        struct bh_group g;
        open_with_data(&g, BH_TILES_MAX, GR_BH_BIT_EXACT, 2);
        copy_op(&g, X, Y)->flags = GR_BH_OP_BARRIER;
        group_alike(&g);
        g.op[0][0].dest = dest[n], g.op[0][0].dests = 1, g.op[0][0].to = Z;
        group_must_run(&g, 1);
        for (int t = 0; t < BH_TILES_MAX; t++) {
            assert_true(first(&g, t, Z) == (reached[n][t] ? first(&g, 0, X) : 0.0f));
        }
        group_close(&g);
    }
}

static void a_row_is_sent_in_two_pieces(void **state)
{
    (void)state;
    float x[BH_ELEMENTS], y[BH_ELEMENTS];
    struct bh_group g;
    open_with_data(&g, 2, GR_BH_BIT_EXACT, 1);
    struct gr_bh_op *o = copy_op(&g, X, Y);
    o->flags = GR_BH_OP_BARRIER | GR_BH_OP_ROW;
    o->out_fmt = GR_BH_FP32;
    o->to = Z + 3 * 64; /* row 3 of a tile */
    group_alike(&g);
    g.op[0][0].dests = 1;
    group_must_run(&g, 1);
    group_get(&g, 0, X, GR_BH_BF16, x);
    group_get(&g, 1, Z, GR_BH_FP32, y);
    for (int i = 0; i < BH_ELEMENTS; i++) {
        assert_true(y[i] == (i / BH_SIDE == 3 ? x[i % BH_SIDE] : 0.0f));
    }
    group_close(&g);
}

/* ------------------------------------------------------------------------------------------------------------------ races */

/* Tile 0 sends X to Z of tile 1 in operation `send`; tile 1 reads Z, or packs to it, in operation `use`; operation `barrier` has one. */
static void exchange(struct bh_group *g, int ops, int send, int use, int barrier, bool write)
{
    for (int i = 0; i < ops; i++) {
        copy_op(g, X, Y + 0x1000);
    }
    for (int t = 0; t < 2; t++) {
        g->op[t][barrier].flags = GR_BH_OP_BARRIER;
    }
    g->op[0][send].dest = 0, g->op[0][send].dests = 1, g->op[0][send].to = Z;
    if (write) {
        g->op[1][use].out = Z;
    } else {
        g->op[1][use].seg[0].a = Z;
    }
}

static void what_a_barrier_orders_is_no_race(void **state)
{
    (void)state;
    static const int orders[][3] = {{0, 2, 1}, {1, 2, 1}, {2, 0, 1}, {2, 1, 1}}; /* send, use, barrier */
    for (size_t i = 0; i < 2 * (sizeof orders / sizeof *orders); i++) {
        const int *o = orders[i / 2];
        struct bh_group g;
        open_with_data(&g, 2, GR_BH_BIT_EXACT, 1);
        exchange(&g, 4, o[0], o[1], o[2], i % 2);
        group_must_run(&g, 4);
        group_close(&g);
    }
}

static void what_no_barrier_orders_is_a_race(void **state)
{
    (void)state;
    static const int orders[][3] = {{0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {1, 0, 3}, {3, 2, 1}, {2, 3, 1}};
    for (size_t i = 0; i < 2 * (sizeof orders / sizeof *orders); i++) {
        const int *o = orders[i / 2];
        struct bh_group g;
        open_with_data(&g, 2, GR_BH_BIT_EXACT, 1);
        exchange(&g, 4, o[0], o[1], o[2], i % 2);
        group_must_fail(&g, 4, "0x48000: ");
        assert_non_null(strstr(g.err.msg, i % 2 ? "writes what is written by" : "reads what is written by"));
        group_close(&g);
    }
}

/* An operation that may start before the one with the barrier is complete does not see what came through it. */
static void starting_early_is_a_race(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct bh_group g;
        open_with_data(&g, 2, GR_BH_BIT_EXACT, 1);
        exchange(&g, 4, 0, 2, 1, false);
        g.op[0][2].back = g.op[1][2].back = (uint16_t)early;
        if (early) {
            group_must_fail(&g, 4, "tile 1, operation 2");
        } else {
            group_must_run(&g, 4);
        }
        group_close(&g);
        /* and of its own result */
        open_with_data(&g, 1, GR_BH_BIT_EXACT, 1);
        copy_op(&g, X, Y);
        copy_op(&g, Y, Z)->back = (uint16_t)early;
        if (early) {
            group_must_fail(&g, 2, "reads what it writes in operation 0");
        } else {
            group_must_run(&g, 2);
        }
        group_close(&g);
    }
}

/* The mover may still read the first output when the second is packed over it. */
static void a_staging_tile_used_twice_is_a_race(void **state)
{
    (void)state;
    for (int step = 0; step < 2; step++) {
        struct bh_group g;
        open_with_data(&g, 2, GR_BH_BIT_EXACT, 1);
        copy_op(&g, X, Y);
        for (int t = 0; t < 2; t++) {
            struct gr_bh_op *o = &g.op[t][0];
            o->flags = GR_BH_OP_BARRIER;
            o->mt = 2, o->out_m = step ? BF16_BYTES : 0;
            o->dests = 1, o->to = Z + (t ? 0x2000 : 0), o->to_m = BF16_BYTES;
        }
        if (step) {
            group_must_run(&g, 1);
        } else {
            group_must_fail(&g, 1, "writes what its mover uses in operation 0");
        }
        group_close(&g);
    }
}

static void two_senders_to_one_place_are_a_race(void **state)
{
    (void)state;
    struct bh_group g;
    open_with_data(&g, BH_TILES_MAX, GR_BH_BIT_EXACT, 1);
    copy_op(&g, X, Y);
    for (int t = 0; t < BH_TILES_MAX; t++) {
        g.op[t][0].flags = GR_BH_OP_BARRIER;
        g.op[t][0].dest = 2 + 3, g.op[t][0].dests = t == 1 || t == 2, g.op[t][0].to = Z;
    }
    group_must_fail(&g, 1, "is sent to by two tiles: tile 1");
    group_close(&g);
}

/* ----------------------------------------------------------------------------------------------------------------- faults */

static void aside(struct gr_bh_op *o) { o->seg[0].a += 8; }
static void beyond_l1(struct gr_bh_op *o) { o->seg[0].b = GR_BH_L1_END - 16; }
static void into_the_code(struct gr_bh_op *o) { o->out = 0x4000; }
static void into_the_list(struct gr_bh_op *o) { o->out = GR_BH_PROGRAM; }
static void into_the_ring(struct gr_bh_op *o) { o->out = BH_RING + 0x1000; }
static void no_such_format(struct gr_bh_op *o) { o->out_fmt = 3; }
static void bfp8_on_the_left(struct gr_bh_op *o) { o->seg[0].fmt_a = GR_BH_BFP8; }
static void adding_bfp8(struct gr_bh_op *o) { o->out_fmt = GR_BH_BFP8, o->flags = GR_BH_OP_ACCUMULATE; }
static void a_bf16_row(struct gr_bh_op *o) { o->flags = GR_BH_OP_ROW; }
static void five_phases(struct gr_bh_op *o) { o->phases = 5; }
static void four_segments(struct gr_bh_op *o) { o->nseg = 4; }
static void ring_without_chunk(struct gr_bh_op *o) { o->seg[0].flags |= GR_BH_SEG_RING; }
static void odd_chunk(struct gr_bh_op *o) { o->chunk = 1000; }
static void third_stream(struct gr_bh_op *o) { o->chunk = 64, o->stream = 2; }
static void nothing_written(struct gr_bh_op *o) { o->chunk = 64; }
static void beyond_the_chunk(struct gr_bh_op *o) { o->chunk = 64, o->seg[0].flags |= GR_BH_SEG_RING, o->seg[0].b = 0; }
static void maximum_of_no_ones(struct gr_bh_op *o) { o->seg[0].flags = GR_BH_SEG_MAX; }
static void stale_rows(struct gr_bh_op *o)
{
    o->seg[0] = group_segment(ONES, GR_BH_BF16, X, GR_BH_BF16, GR_BH_SEG_MAX);
    o->function = GR_BH_EXP;
}
static void send_beyond_l1(struct gr_bh_op *o) { o->dest = o->dests = 1, o->to = GR_BH_L1_END - BF16_BYTES + 16; }
static void no_such_destination(struct gr_bh_op *o) { o->dests = 9; }
static void no_such_kind(struct gr_bh_op *o) { o->kind = 7; }
static void a_loop_without_end(struct gr_bh_op *o) { o->kind = GR_BH_LOOP, o->count = 2; }
static void an_end_without_loop(struct gr_bh_op *o) { o->kind = GR_BH_NEXT; }

static void nonsense_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(struct gr_bh_op *o);
        const char *words;
    } cases[] = {{aside, "A at 0x21008"},
                 {beyond_l1, "B from 0x17fff0"},
                 {into_the_code, "output from 0x4000"},
                 {into_the_list, "output from 0xb000"},
                 {into_the_ring, "writes into the ring"},
                 {no_such_format, "output format 3"},
                 {bfp8_on_the_left, "operand formats 6 and 5"},
                 {adding_bfp8, "output format 6"},
                 {a_bf16_row, "row 0"},
                 {five_phases, "5 phases"},
                 {four_segments, "4 segments"},
                 {ring_without_chunk, "without a chunk"},
                 {odd_chunk, "chunk of 1000"},
                 {third_stream, "stream 2 of 2"},
                 {nothing_written, "stream 0: nothing at 0x10000"},
                 {beyond_the_chunk, "B in its chunk from 0x0 to 0x800"},
                 {maximum_of_no_ones, "not ones"},
                 {stale_rows, "stale"},
                 {send_beyond_l1, "destination from"},
                 {no_such_destination, "destinations 0 + 9 of 3"},
                 {no_such_kind, "kind 7"},
                 {a_loop_without_end, "inside a loop"},
                 {an_end_without_loop, "kind 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bh_group g;
        open_with_data(&g, 1, GR_BH_FAST, 1);
        copy_op(&g, X, Y);
        cases[i].spoil(copy_op(&g, X, Z));
        group_must_fail(&g, 2, cases[i].words);
        assert_non_null(strstr(g.err.msg, "tile 0"));
        group_close(&g);
    }
}

static void a_barrier_that_one_tile_never_reaches_is_a_fault(void **state)
{
    (void)state;
    struct bh_group g;
    open_with_data(&g, BH_TILES_MAX, GR_BH_FAST, 2);
    copy_op(&g, X, Y);
    copy_op(&g, X, Y);
    for (int t = 0; t < BH_TILES_MAX; t++) {
        g.op[t][1].flags = t == 2 ? 0 : GR_BH_OP_BARRIER;
    }
    group_must_fail(&g, 2, "tile 0, operation 1: waits at barrier 1, which tile 2 did not reach in 2 operations");
    group_close(&g);
}

/* A destination whose acknowledgements are counted wrongly would hang or run ahead on the chip. */
static void a_wrong_count_of_acknowledgements_is_a_fault(void **state)
{
    (void)state;
    struct bh_group g;
    open_with_data(&g, 1, GR_BH_FAST, 1); /* "all others" of one tile: 0 counted, and the write is acknowledged */
    struct gr_bh_op *o = copy_op(&g, X, Y);
    o->dests = 1, o->to = Z;
    group_must_fail(&g, 1, "destination 0: 0 tiles expected, (1, 2) to (1, 2) are 1");
    group_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_rewind_and_indices_count),
        cmocka_unit_test(a_request_begins_anew_in_pieces_or_at_once),
        cmocka_unit_test(a_chunk_may_be_as_large_as_the_ring),
        cmocka_unit_test(any_number_of_threads_has_the_same_bits),
        cmocka_unit_test(sends_reach_their_rectangle_and_no_more),
        cmocka_unit_test(a_row_is_sent_in_two_pieces),
        cmocka_unit_test(what_a_barrier_orders_is_no_race),
        cmocka_unit_test(what_no_barrier_orders_is_a_race),
        cmocka_unit_test(starting_early_is_a_race),
        cmocka_unit_test(a_staging_tile_used_twice_is_a_race),
        cmocka_unit_test(two_senders_to_one_place_are_a_race),
        cmocka_unit_test(nonsense_is_refused_by_name),
        cmocka_unit_test(a_barrier_that_one_tile_never_reaches_is_a_fault),
        cmocka_unit_test(a_wrong_count_of_acknowledgements_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
