/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_place.c: where the builder puts what several tiles share: rectangles of destinations, bytes of equal streams, the ring. */
#include "bh_builds.h"
#include "gr_test.h"

#include <stdlib.h>
#include <string.h>

#include "device/blackhole/chip.h"

enum { BF16_TILE = 2048 };

/* Tiles of the rectangles of a run, by number. */
static void check_run(const struct gr_bh_grid *g, int tile, int first, int tiles, bool self, int rectangles)
{
    struct gr_bh_build *b = bh_build_for(g);
    struct gr_bh_op *op = bh_build_operation(b, g->tiles, -1, 0, 0);
    op[tile].dest = gr_bh_dest_run(b, tile, first, tiles, self, &op[tile].dests);
    const struct gr_bh_program *p = bh_build_finished(b);
    const struct gr_bh_head *h = p->list[tile];
    const struct gr_bh_op *o = (const struct gr_bh_op *)(h + 1);
    const struct gr_bh_dest *d = (const struct gr_bh_dest *)(o + h->ops) + o->dest;
    assert_int_equal(o->dests, rectangles);
    int reached[32] = {0};
    for (int i = 0; i < o->dests; i++) {
        int n = 0;
        for (int t = 0; t < g->tiles; t++) {
            const uint32_t x = g->xy[t] & 63, y = g->xy[t] >> 6;
            if (x >= (d[i].xy0 & 63) && x <= (d[i].xy1 & 63) && y >= d[i].xy0 >> 6 && y <= d[i].xy1 >> 6 &&
                (t != tile || d[i].self)) {
                reached[t]++;
                n++;
            }
        }
        assert_int_equal(n, d[i].tiles);
    }
    for (int t = 0; t < g->tiles; t++) {
        assert_int_equal(reached[t], t >= first && t < first + tiles && (t != tile || self));
    }
    gr_bh_build_free(b);
}

static void runs_of_tiles_are_reached_in_few_rectangles(void **state)
{
    (void)state;
    uint32_t xy[30];
    for (uint32_t i = 0; i < 30; i++) {
        const uint32_t x = 4 + i % 6; /* across the gap: 4..7, 10, 11 */
        xy[i] = XY(x > 7 ? x + 2 : x, 2 + i / 6);
    }
    const struct gr_bh_grid g = {.tiles = 30, .xy = xy, .xy0 = XY(4, 2), .xy1 = XY(11, 6)};
    check_run(&g, 0, 0, 30, true, 1);
    check_run(&g, 7, 0, 12, false, 1);
    check_run(&g, 9, 9, 14, true, 3);  /* the end of a row, a whole one, the beginning of another */
    check_run(&g, 29, 9, 14, true, 3); /* from outside */
    check_run(&g, 10, 10, 5, false, 2);
    check_run(&g, 11, 11, 2, false, 1); /* the own tile alone in a rectangle */
    check_run(&g, 11, 11, 1, true, 1);
    check_run(&g, 11, 11, 1, false, 0);
}

static void a_stream_that_begins_another_has_its_bytes(void **state)
{
    (void)state;
    uint32_t xy[10];
    for (uint32_t i = 0; i < 10; i++) {
        xy[i] = XY(1 + i % 5, 2 + i / 5);
    }
    const struct gr_bh_grid g = {.tiles = 10, .xy = xy, .xy0 = XY(1, 2), .xy1 = XY(5, 3)};
    struct gr_bh_build *b = bh_build_for(&g);
    for (int k = 0; k < 3;
         k++) { /* tile t: pieces t % 3, t % 3 + 1, ...: tiles 3 to 8 as 0 to 2, shorter; 9 ends differently */
        struct gr_bh_op *o = gr_bh_emit(b);
        for (int t = 0; t < 10; t++) {
            if (k == 0 || t < 3 || t == 9) {
                o[t].mt = o[t].nt = o[t].nseg = 1;
                o[t].chunk = gr_bh_piece_add(b, t, 0, bh_piece_of(t % 3 + k + (t == 9 && k == 2)));
            }
        }
    }
    const struct gr_bh_program *p = bh_build_finished(b);
    for (int t = 0; t < 10; t++) {
        const struct gr_bh_stream_plan *s = &p->plan[t * GR_BH_STREAMS];
        const struct gr_bh_stream *dram = &((const struct gr_bh_head *)p->list[t])->stream[0];
        const bool shares = t >= 3 && t < 9;
        const struct gr_bh_stream_plan *bytes = &p->plan[(shares ? t % 3 : t) * GR_BH_STREAMS];
        assert_int_equal(s->pieces, shares ? 0 : 3);
        assert_true(s->channel == bytes->channel && s->addr == bytes->addr && dram->lo == (uint32_t)bytes->addr);
        assert_int_equal(dram->dram_xy, gr_chip_dram_xy(bytes->channel, t / 8));
    }
    gr_bh_build_free(b);
}

static void less_of_a_ring_is_taken_when_it_may_be(void **state)
{
    (void)state;
    struct gr_err err;
    for (int room = 1; room <= 5; room += 2) { /* tiles; a chunk has two */
        struct gr_bh_build *b;
        const struct gr_bh_build_cfg cfg = {.grid = &bh_two, .weights = GR_BH_BFP8, .ring_fits = true};
        gr_test_ok(gr_bh_build_new(&cfg, &b, &err), &err);
        const int fit = (int)((GR_BH_L1_END - GR_BH_PROGRAM - 1024) / BF16_TILE);
        bh_build_operation(b, 2, 0, 0, gr_bh_alloc(b, "most", fit - room, 1, GR_BH_BF16).addr);
        if (room == 1) {
            bh_build_refused(b, "a ring of 4096 bytes");
            continue;
        }
        const struct gr_bh_head *h = bh_build_finished(b)->list[0];
        assert_true(room == 5 ? h->ring_bytes == 4 * BF16_TILE
                              : h->ring_bytes >= 3 * BF16_TILE && h->ring_bytes < 4 * BF16_TILE);
        gr_bh_build_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_tiles_are_reached_in_few_rectangles),
        cmocka_unit_test(a_stream_that_begins_another_has_its_bytes),
        cmocka_unit_test(less_of_a_ring_is_taken_when_it_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
