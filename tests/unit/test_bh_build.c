/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_build.c: the builder of operation lists. What a tile would do with a finished list, walked as the tiles walk it (gr_bh_next),
 * is compared with what was emitted round by round; what would hang or corrupt a tile must be refused, with the place. */
#include "bh_builds.h"
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/chip.h"
#include "device/blackhole/tile_format.h"

enum { BF16_TILE = 2048, LOG = 4096 };

static struct gr_bh_build *make(void) { return bh_build_for(&bh_two); }

/* ---- L1 ---- */

static void buffers_lie_apart_and_a_release_lets_them_overlay(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    struct gr_bh_buf x = gr_bh_alloc(b, "x", 2, 3, GR_BH_BFP8), y = gr_bh_alloc(b, "y", 1, 1, GR_BH_FP32);
    const uint32_t mark = gr_bh_l1_mark(b);
    struct gr_bh_buf z = gr_bh_alloc(b, "z", 5, 1, GR_BH_BF16);
    gr_bh_l1_release(b, mark);
    struct gr_bh_buf over = gr_bh_alloc(b, "over", 1, 1, GR_BH_BF16);
    assert_int_equal(x.addr + 6 * 1088, GR_BH_L1_END);
    assert_int_equal(x.m_stride, 3 * 1088);
    assert_int_equal(x.n_stride, 1088);
    assert_int_equal(y.addr + 4096, x.addr);
    assert_int_equal(z.addr + 5 * BF16_TILE, y.addr);
    assert_int_equal(over.addr + BF16_TILE, y.addr);
    assert_int_equal((x.addr | y.addr | z.addr | over.addr) % 64, 0);
    bh_build_operation(b, 2, 0, 0, y.addr);
    const struct gr_bh_program *p = bh_build_finished(b);
    assert_int_equal(p->data,
                     z.addr - 2 * 2 * BF16_TILE); /* the ring holds two chunks, below everything that was ever in use */
    assert_int_equal(p->l1_used, GR_BH_PROGRAM + p->list_bytes + GR_BH_L1_END - p->data);
    gr_bh_build_free(b);
}

static void full_l1_names_the_buffer_its_need_and_what_is_left(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    (void)gr_bh_alloc(b, "rows", 10, 60, GR_BH_BF16);
    assert_int_equal(gr_bh_alloc(b, "hidden columns", 10, 10, GR_BH_FP32).addr, 0);
    (void)gr_bh_alloc(b, "later", 100, 100, GR_BH_FP32);
    char words[128];
    const size_t left =
        GR_BH_L1_END - GR_BH_PROGRAM - 600u * BF16_TILE - sizeof(struct gr_bh_head) - sizeof(struct gr_bh_op);
    (void)snprintf(words, sizeof words, "hidden columns needs 409600 bytes (10 x 10 tiles of 4096), %zu are left",
                   left);
    bh_build_refused(b, words);
}

static void a_ring_that_does_not_fit_below_the_buffers_is_refused(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    const int fit = (int)((GR_BH_L1_END - GR_BH_PROGRAM - 2048) / BF16_TILE);
    bh_build_operation(b, 2, 0, 0, gr_bh_alloc(b, "all", fit, 1, GR_BH_BF16).addr);
    bh_build_refused(b, "a ring of 8192 bytes and lists");
}

static void a_ring_is_as_large_as_asked_and_holds_the_longest_chunk(void **state)
{
    (void)state;
    for (uint32_t bytes = 2 * BF16_TILE - 1; bytes <= 2 * BF16_TILE + 1; bytes++) {
        struct gr_err err;
        struct gr_bh_build *b;
        gr_test_ok(
            gr_bh_build_new(&(struct gr_bh_build_cfg){.grid = &bh_two, .weights = GR_BH_BFP8, .ring_bytes = bytes}, &b,
                            &err),
            &err);
        bh_build_operation(b, 2, 0, 0, 0);
        if (bytes < 2 * BF16_TILE) {
            bh_build_refused(b, "a ring of 4032 bytes cannot hold a chunk of 4096");
            continue;
        }
        const struct gr_bh_head *h = bh_build_finished(b)->list[0];
        assert_true(h->ring_bytes == 2 * BF16_TILE && h->ring == GR_BH_L1_END - h->ring_bytes);
        gr_bh_build_free(b);
    }
}

static float eye(void *user, int r, int c) { return r == c ? *(const float *)user : 0.0f; }

static void constants_are_shared_and_never_overlaid(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    float a = 1.0f, c = 2.0f;
    const uint32_t mark = gr_bh_l1_mark(b);
    struct gr_bh_buf one = gr_bh_constant(b, "one", GR_BH_BF16, eye, &a),
                     wide = gr_bh_constant(b, "wide", GR_BH_FP32, eye, &a);
    struct gr_bh_buf same = gr_bh_constant(b, "same", GR_BH_BF16, eye, &a),
                     other = gr_bh_constant(b, "other", GR_BH_BF16, eye, &c);
    assert_int_equal(same.addr, one.addr);
    assert_int_not_equal(wide.addr, one.addr);
    assert_int_not_equal(other.addr, one.addr);
    gr_bh_l1_release(b, mark);
    const struct gr_bh_buf x = gr_bh_alloc(b, "x", 1, 1, GR_BH_BF16);
    struct gr_bh_op *op = bh_build_operation(b, 2, -1, 0, x.addr);
    op[1].seg[0] = (struct gr_bh_segment){.a = wide.addr, .b = other.addr};
    op[1].nseg = 2;
    op[1].seg[1] = (struct gr_bh_segment){.a = x.addr, .b = one.addr};
    const struct gr_bh_program *p = bh_build_finished(b);
    assert_int_equal(p->constants, 3);
    const struct gr_bh_op *last = (const struct gr_bh_op *)((const struct gr_bh_head *)p->list[1] + 1);
    assert_true(last->seg[0].a == p->constant[1].addr && last->seg[0].b == p->constant[2].addr);
    assert_true(last->seg[1].a == x.addr && last->seg[1].b == p->constant[0].addr);
    for (int i = 0; i < 3; i++) {
        assert_true(p->constant[i].addr >= p->data &&
                    p->constant[i].addr + GR_BH_TILE_BYTES(p->constant[i].fmt) <= x.addr);
    }
    float tile[32 * 32];
    gr_bh_tile_get(p->constant[2].fmt, p->constant[2].bytes, tile, 32);
    assert_true(tile[0] == 2.0f && tile[1] == 0.0f && tile[33] == 2.0f);
    gr_bh_build_free(b);
}

/* ---- loops ---- */

/* What was emitted, or what a walk over the list executes: operation by operation, the piece of tile 1. */
struct log {
    int n;
    struct {
        uint32_t out;
        int stream, mark;
    } v[LOG];
};

static void note(struct log *l, uint32_t out, int stream, int mark)
{
    assert_true(l->n < LOG);
    l->v[l->n].out = out;
    l->v[l->n].stream = stream;
    l->v[l->n++].mark = mark;
}

static void emit(struct gr_bh_build *b, struct log *l, int stream, int mark, uint32_t out)
{
    bh_build_operation(b, 2, stream, mark, out);
    note(l, out, stream, stream >= 0 ? mark + 1 : -1);
}

static const struct gr_bh_op *ops_of(const struct gr_bh_program *p, int tile)
{
    return (const struct gr_bh_op *)((const struct gr_bh_head *)p->list[tile] + 1);
}

/* As tile 1 does, twice: the second request must be as the first. */
static void walk(const struct gr_bh_program *p, struct log *l)
{
    const struct gr_bh_stream_plan *plan = &p->plan[GR_BH_STREAMS];
    size_t at[GR_BH_STREAMS] = {0}, saved[GR_BH_NESTING][GR_BH_STREAMS];
    struct gr_bh_walk w = {0};
    for (;;) {
        const struct gr_bh_op *o;
        uint32_t index;
        switch (gr_bh_next(&w, ops_of(p, 1), &o, &index)) {
        case GR_BH_STEP_OP:
            note(l, o->out, o->chunk > 0 ? o->stream : -1,
                 o->chunk > 0 ? plan[o->stream].piece[at[o->stream]++].col : -1);
            break;
        case GR_BH_STEP_ENTER:
            memcpy(saved[w.depth - 1], at, sizeof at);
            break;
        case GR_BH_STEP_AGAIN:
            for (int s = 0; s < GR_BH_STREAMS; s++) {
                at[s] = o->rewind >> s & 1 ? saved[w.depth - 1][s] : at[s];
            }
            break;
        case GR_BH_STEP_END:
            assert_int_equal(at[0], plan[0].pieces);
            assert_int_equal(at[1], plan[1].pieces);
            return;
        }
    }
}

/* Steps of blocks in two groups, as the denoise program has them: weights of stream 0 are the same in every step, modulations of stream 1
 * are not. */
static void nested_loops_execute_what_was_emitted_round_by_round(void **state)
{
    (void)state;
    static struct log emitted, walked;
    struct gr_bh_build *b = make();
    emit(b, &emitted, 0, 1, 10);
    gr_bh_loop(b, 4, 1u << 0);
    for (int step = 0; step < 4; step++) {
        gr_bh_round(b, step);
        emit(b, &emitted, 0, 2, 11);
        gr_bh_loop(b, 3, 0);
        for (int block = 0; block < 3; block++) {
            gr_bh_round(b, block);
            emit(b, &emitted, 1, 20 + 10 * step + block, 12);
            emit(b, &emitted, 0, 5 + block, 13);
        }
        gr_bh_loop_end(b);
        gr_bh_loop(b, 2, 1u << 0 | 1u << 1);
        for (int again = 0; again < 2; again++) {
            gr_bh_round(b, again);
            emit(b, &emitted, 1, 90 + step, 14);
            emit(b, &emitted, 0, 8, 15);
        }
        gr_bh_loop_end(b);
        emit(b, &emitted, -1, 0, 16);
    }
    gr_bh_loop_end(b);
    emit(b, &emitted, 1, 100, 17);
    const struct gr_bh_program *p = bh_build_finished(b);
    walk(p, &walked);
    assert_int_equal(walked.n, emitted.n);
    assert_memory_equal(walked.v, emitted.v, (size_t)emitted.n * sizeof emitted.v[0]);
    assert_int_equal(p->executed, 1 + 4 * (1 + 6 + 4 + 1) + 1);
    assert_int_equal(((const struct gr_bh_head *)p->list[0])->ops,
                     1 + 1 + 1 + 4 + 4 + 1 + 1 + 1 + 1); /* bodies are there once */
    assert_int_equal(p->plan[0].pieces, 1 + 1 + 3 + 1);
    assert_int_equal(p->plan[1].pieces, 4 * (3 + 1) + 1);
    gr_bh_build_free(b);
}

static void destinations_of_later_rounds_are_those_of_the_first(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    for (int round = 0; round < 3; round++) {
        if (round == 0) {
            gr_bh_loop(b, 3, 0);
        }
        gr_bh_round(b, round);
        for (int k = 0; k < 2; k++) {
            struct gr_bh_op *o = bh_build_operation(b, 2, -1, 0, 0);
            o[0].dest = gr_bh_dest_tile(b, 0, 1);
            assert_int_equal(gr_bh_dest_all(b, 0, false), o[0].dest + 1);
            o[0].dests = 2;
            assert_int_equal(o[0].dest, 2 * k);
        }
    }
    gr_bh_loop_end(b);
    const struct gr_bh_program *p = bh_build_finished(b);
    const struct gr_bh_head *h = p->list[0];
    const struct gr_bh_dest *d = (const struct gr_bh_dest *)(ops_of(p, 0) + h->ops);
    assert_int_equal(h->dests, 4);
    assert_int_equal(((const struct gr_bh_head *)p->list[1])->dests, 0);
    assert_true(d[2].xy0 == bh_two.xy[1] && d[2].xy1 == bh_two.xy[1] && d[2].tiles == 1 && d[2].self == 0);
    assert_true(d[3].xy0 == XY(7, 2) && d[3].xy1 == XY(10, 2) && d[3].tiles == 1 &&
                d[3].self == 0); /* 8 and 9 are no tiles */
    assert_int_equal(p->list_bytes, sizeof *h + h->ops * sizeof(struct gr_bh_op) + 4 * sizeof *d);
    gr_bh_build_free(b);
}

static void taps_in_loops_have_a_stop_in_every_round(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    struct gr_bh_buf x = gr_bh_alloc(b, "x", 1, 1, GR_BH_FP32);
    bh_build_operation(b, 2, -1, 0, 0);
    gr_bh_loop(b, 3, 0);
    for (int i = 0; i < 3; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "x.step%d", i);
        gr_bh_round(b, i);
        bh_build_operation(b, 2, -1, 0, 0);
        bh_build_operation(b, 2, -1, 0, 0);
        gr_bh_tap(b, name, x, GR_BH_COLUMNS, 0, 32, 64);
    }
    gr_bh_loop_end(b);
    gr_bh_output(b, (struct gr_bh_io){.name = "y", .buf = x, .place = GR_BH_COLUMNS, .rows = 1, .cols = 64});
    bh_build_operation(b, 2, -1, 0, 0);
    const struct gr_bh_program *p = bh_build_finished(b);
    assert_int_equal(p->taps, 3);
    assert_string_equal(p->tap[2].name, "x.step2");
    assert_int_equal(p->tap[0].after, 3);
    assert_int_equal(p->tap[2].after, 7);
    assert_int_equal(gr_bh_find_output(p, "y")->after, 7);
    assert_null(gr_bh_find_output(p, "x"));
    gr_bh_build_free(b);
}

/* ---- refusals ---- */

enum wrong {
    OTHER_OP,
    OTHER_DEST,
    OTHER_PIECE,
    MORE,
    FEWER,
    MORE_INSIDE,
    MORE_AT_END,
    FEWER_AT_END,
    SKIPPED_ROUND,
    EARLY_END,
    NO_END,
    SHORT_CHUNK,
    BARRIER,
    NO_SEGMENT,
    MAXIMUM,
    NO_DEST,
    DEEP,
    OUTSIDE,
    WIDE
};

static void two_rounds(struct gr_bh_build *b, enum wrong wrong)
{
    struct gr_bh_op *o;
    gr_bh_loop(b, 2, 1);
    for (int i = 0; i < (wrong == EARLY_END ? 1 : 2); i++) {
        gr_bh_round(b, i);
        o = bh_build_operation(b, 2, 0, wrong == OTHER_PIECE ? i : 0, wrong == OTHER_OP ? (uint32_t)i : 0);
        o[1].dest = gr_bh_dest_tile(b, 1, wrong == OTHER_DEST ? i : 0);
        o[1].dests = 1;
        for (int k = 0; k < (wrong == MORE ? 1 + i : wrong == FEWER ? 2 - i : 1); k++) {
            bh_build_operation(b, 2, -1, 0, 7);
        }
        gr_bh_loop(b, 2, 0);
        for (int k = 0; k < 2; k++) {
            gr_bh_round(b, wrong == SKIPPED_ROUND ? 2 * k : k);
            bh_build_operation(b, 2, -1, 0, 8);
            if (wrong == MORE_INSIDE && i == 1) {
                bh_build_operation(b, 2, -1, 0, 8);
            }
        }
        gr_bh_loop_end(b);
        if ((wrong == MORE_AT_END && i == 1) || (wrong == FEWER_AT_END && i == 0)) {
            bh_build_operation(b, 2, -1, 0, 9);
        }
    }
    if (wrong != NO_END) {
        gr_bh_loop_end(b);
    }
}

static void one_wrong_operation(struct gr_bh_build *b, enum wrong wrong)
{
    struct gr_bh_op *o = bh_build_operation(b, 2, 0, 0, 0);
    o[0].chunk -= wrong == SHORT_CHUNK ? 64 : 0;
    o[1].flags = wrong == BARRIER ? GR_BH_OP_BARRIER : 0;
    o[1].nseg = wrong == NO_SEGMENT ? 0 : 1;
    o[0].function = wrong == MAXIMUM ? GR_BH_SCALE : GR_BH_NONE;
    o[0].seg[0].flags = wrong == MAXIMUM ? GR_BH_SEG_MAX : 0;
    o[0].dests = wrong == NO_DEST ? 1 : 0;
    for (int i = 0; wrong == DEEP && i < 4; i++) {
        gr_bh_loop(b, 2, 0);
        gr_bh_round(b, 0);
    }
    if (wrong == OUTSIDE) {
        gr_bh_loop(b, 1, 0);
        (void)gr_bh_piece_add(b, 0, 0, bh_piece_of(0));
    }
    if (wrong == WIDE) {
        struct gr_bh_buf x = gr_bh_alloc(b, "x", 1, 1, GR_BH_FP32);
        gr_bh_tap(b, "x", x, GR_BH_COLUMNS, 0, 32, 65);
    }
}

static void what_would_hang_or_corrupt_a_tile_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum wrong wrong;
        const char *words;
    } cases[] = {
        {OTHER_OP, "operation 1, tile 0: differs from the first round's at byte 32"},
        {OTHER_DEST, "operation 1, tile 1: a destination differs"},
        {OTHER_PIECE, "operation 1, tile 0: a piece of stream 0, which is rewound, differs"},
        {MORE, "operation 3, tile 0: differs"},
        {FEWER, "operation 3, tile 0: differs"},
        {MORE_INSIDE, "operation 5, tile 0: differs"},
        {MORE_AT_END, "operation 6: round 1 of a loop has more operations than its first round"},
        {FEWER_AT_END, "operation 6: round 1 of a loop has fewer operations than its first round"},
        {SKIPPED_ROUND, "round 2 of a loop of 2 rounds follows round 0"},
        {EARLY_END, "a loop of 2 rounds ends after 1"},
        {NO_END, "ends inside 1 loops"},
        {SHORT_CHUNK, "operation 0, tile 0: reads 4032 bytes of stream 0, its pieces have 4096"},
        {BARRIER, "operation 0: tile 1 and tile 0 do not agree on its barrier"},
        {NO_SEGMENT, "operation 0, tile 1: kind 0, 0 segments"},
        {MAXIMUM, "operation 0, tile 0: a maximum takes no function"},
        {NO_DEST, "operation 0, tile 0"},
        {DEEP, "inside 3 others"},
        {OUTSIDE, "a piece was added outside of an operation"},
        {WIDE, "tap x: 32 x 65 values at row 0 do not fit into 1 x 2 tiles"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_bh_build *b = make();
        if (cases[i].wrong < SHORT_CHUNK) {
            two_rounds(b, cases[i].wrong);
        } else {
            one_wrong_operation(b, cases[i].wrong);
        }
        bh_build_refused(b, cases[i].words);
    }
    bh_build_refused(make(), "a list of 0 operations");
}

static void a_program_knows_whether_all_meet_at_its_end(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) { /* all, one tile alone, none, all but in a loop */
        struct gr_bh_build *b = make();
        bh_build_operation(b, 2, 0, 0, gr_bh_alloc(b, "x", 1, 1, GR_BH_BF16).addr);
        if (kind == 3) {
            gr_bh_loop(b, 1, 0);
            gr_bh_round(b, 0);
        }
        struct gr_bh_op *op = gr_bh_emit(b);
        for (int t = 0; t < 2; t++) {
            op[t].flags = kind == 2 || (kind == 1 && t == 1) ? 0 : GR_BH_OP_BARRIER;
        }
        if (kind == 3) {
            gr_bh_loop_end(b);
        }
        if (kind == 1) {
            bh_build_refused(b, "");
            continue;
        }
        assert_int_equal(bh_build_finished(b)->meets, kind == 0);
        gr_bh_build_free(b);
    }
}

static void the_first_failure_is_the_one_that_is_told(void **state)
{
    (void)state;
    struct gr_bh_build *b = make();
    gr_bh_build_fail(b, "first %d", 1);
    two_rounds(b, OTHER_OP);
    bh_build_refused(b, "first 1");
}

static void a_grid_with_a_tile_outside_its_rectangle_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_build *b;
    const struct gr_bh_grid g = {.tiles = 2, .xy = bh_two.xy, .xy0 = XY(7, 2), .xy1 = XY(7, 2)};
    assert_int_equal(gr_bh_build_new(&(struct gr_bh_build_cfg){.grid = &g}, &b, &err), GR_ERR_DEVICE);
    assert_string_equal(err.msg, "tile group: tile 1 at 10,2 is outside its rectangle");
}

/* ---- heads and streams ---- */

static void heads_name_the_group_its_ring_and_streams_that_lie_apart(void **state)
{
    (void)state;
    uint32_t xy[12];
    for (uint32_t i = 0; i < 12; i++) {
        xy[i] = XY(1 + i % 6, 2 + i / 6);
    }
    const struct gr_bh_grid grid = {.tiles = 12, .xy = xy, .xy0 = XY(1, 2), .xy1 = XY(6, 3)};
    struct gr_bh_build *b = bh_build_for(&grid);
    for (int k = 0; k < 3; k++) {
        bh_build_operation(b, k == 1 ? 12 : 5, k % 2, k, 0);
    }
    const struct gr_bh_program *p = bh_build_finished(b);
    for (int i = 0; i < 12 * GR_BH_STREAMS; i++) {
        const struct gr_bh_stream_plan *s = &p->plan[i];
        const struct gr_bh_head *h = p->list[i / GR_BH_STREAMS];
        const struct gr_bh_stream *dram = &h->stream[i % GR_BH_STREAMS];
        assert_int_equal(s->channel, i / GR_BH_STREAMS % 8);
        assert_int_equal(s->addr % 64, 0);
        assert_int_equal(dram->lo | (uint64_t)dram->hi << 32, s->addr);
        assert_int_equal(dram->dram_xy, gr_chip_dram_xy(s->channel, i / GR_BH_STREAMS / 8));
        for (int j = 0; j < i; j++) {
            const struct gr_bh_stream_plan *o = &p->plan[j];
            assert_true(o->channel != s->channel || o->addr + o->bytes <= s->addr || s->addr + s->bytes <= o->addr);
        }
    }
    const struct gr_bh_head *h = p->list[9];
    assert_true(h->me == 9 && h->tiles == 12 && h->hub_xy == XY(1, 2) && h->xy0 == XY(1, 2) && h->xy1 == XY(6, 3));
    assert_true(h->release_tiles == 11 && h->ring == p->data && h->ring_bytes == 8192);
    gr_bh_build_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_lie_apart_and_a_release_lets_them_overlay),
        cmocka_unit_test(full_l1_names_the_buffer_its_need_and_what_is_left),
        cmocka_unit_test(a_ring_that_does_not_fit_below_the_buffers_is_refused),
        cmocka_unit_test(a_ring_is_as_large_as_asked_and_holds_the_longest_chunk),
        cmocka_unit_test(constants_are_shared_and_never_overlaid),
        cmocka_unit_test(nested_loops_execute_what_was_emitted_round_by_round),
        cmocka_unit_test(destinations_of_later_rounds_are_those_of_the_first),
        cmocka_unit_test(taps_in_loops_have_a_stop_in_every_round),
        cmocka_unit_test(what_would_hang_or_corrupt_a_tile_is_refused),
        cmocka_unit_test(a_program_knows_whether_all_meet_at_its_end),
        cmocka_unit_test(the_first_failure_is_the_one_that_is_told),
        cmocka_unit_test(a_grid_with_a_tile_outside_its_rectangle_is_refused),
        cmocka_unit_test(heads_name_the_group_its_ring_and_streams_that_lie_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
