/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_sync_sim.c: what holds operations together, on the simulated chip and the CPU machine: loops and streams through the ring,
 * barriers and sends between tiles, a resident program over several requests, and a program that hangs. */
#include "gr_test.h"

#include <math.h>
#include <string.h>

#include "bh_both.h"
#include "bh_chip.h"
#include "device/blackhole/tensix.h"

enum { T16 = 2048, T32 = 4096, T8 = 1088 };

static struct gr_err err;
static float got[16][1024];
static double want[1024], size[1024];

static void put_random(struct bh_program *p, int tile, uint32_t at, enum gr_bh_format f, float scale, uint32_t seed,
                       float *kept)
{
    bh_random(&seed, scale, kept);
    bh_put(p, tile, at, f, kept);
    bh_get(p, tile < 0 ? 0 : tile, at, f, kept);
}

static void diagonal(struct bh_program *p, uint32_t at, float v)
{
    static float one[1024];
    for (int i = 0; i < 1024; i++) {
        one[i] = i / 32 == i % 32 ? v : 0.0f;
    }
    bh_put(p, -1, at, GR_BH_BF16, one);
}

/* ------------------------------------------------------------------------------------------------------ loops and streams */

enum {
    OUTER = 2,
    INNER = 3,
    COLUMNS = 2,
    LOOP_OPS = OUTER * (2 * INNER + 1),
    LOOP_OUTS = INNER * COLUMNS + INNER + OUTER
};

struct loops {
    struct bh_program *p;
    uint32_t x;
    float in[INNER][1024], w[COLUMNS][2][1024], v[INNER][1024], z[OUTER][1024];
    struct bh_out outs[LOOP_OUTS];
};

/* Stream 0: W[0], W[1]. Stream 1, for each outer round: V[0..2] again, then Z of the round. */
static void feed_loops(struct loops *l)
{
    static float t[1024];
    struct bh_program *p = l->p;
    uint32_t seed = 5;
    for (int n = 0; n < COLUMNS; n++) {
        for (int k = 0; k < 2; k++) {
            bh_random(&seed, 1, l->w[n][k]);
            (void)bh_feed(p, 0, 0, GR_BH_BFP8, l->w[n][k]);
            gr_bh_tile_get(GR_BH_BFP8, p->stream[0][0] + p->stream_bytes[0][0] - T8, l->w[n][k], 32);
        }
    }
    for (int o = 0; o < OUTER; o++) {
        for (int i = 0; i <= INNER; i++) {
            float *keep = i < INNER ? l->v[i] : l->z[o];
            if (o == 0 || i == INNER) {
                bh_random(&seed, 1, t);
            } else {
                memcpy(t, l->v[i], sizeof t);
            }
            (void)bh_feed(p, 0, 1, GR_BH_BF16, t);
            gr_bh_tile_get(GR_BH_BF16, p->stream[0][1] + p->stream_bytes[0][1] - T16, keep, 32);
        }
    }
}

/* 2 x ( 3 x ( Y[i, n] += X W[n] from stream 0, read anew each time;  U[i] += X[i] V[i] from stream 1 );  S[o] += X[0] Z[o] from stream 1 ) */
static void make_loops(struct loops *l, uint32_t ring_bytes)
{
    struct bh_program *p = l->p = bh_program_new(1, 1, ring_bytes);
    l->x = bh_room(p, GR_BH_BF16, INNER);
    const uint32_t y = bh_room(p, GR_BH_FP32, INNER * COLUMNS);
    const uint32_t u = bh_room(p, GR_BH_FP32, INNER);
    const uint32_t s = bh_room(p, GR_BH_FP32, OUTER);
    for (int i = 0; i < INNER; i++) {
        put_random(p, 0, l->x + (uint32_t)i * T16, GR_BH_BF16, 1, 71 + (uint32_t)i, l->in[i]);
    }
    feed_loops(l);
    (void)bh_mark(p, GR_BH_LOOP, OUTER, 1u << 0);
    (void)bh_mark(p, GR_BH_LOOP, INNER, 1u << 0);
    struct gr_bh_op *o = &p->op[0][bh_op(p)];
    *o = (struct gr_bh_op){
        .kind = GR_BH_COMPUTE, .flags = GR_BH_OP_ACCUMULATE, .mt = 1, .nt = COLUMNS, .nseg = 1, .phases = 4};
    o->chunk = 2 * T8;
    o->out = y;
    o->out_n = T32;
    o->out_i = COLUMNS * T32;
    o->seg[0] = bh_segment(GR_BH_SEG_RING, GR_BH_BF16, l->x, GR_BH_BFP8, 0, 2);
    o = &p->op[0][bh_op(p)];
    *o = (struct gr_bh_op){
        .kind = GR_BH_COMPUTE, .flags = GR_BH_OP_ACCUMULATE, .mt = 1, .nt = 1, .nseg = 1, .phases = 4};
    o->stream = 1;
    o->chunk = T16;
    o->out = u;
    o->out_i = T32;
    o->seg[0] = bh_segment(GR_BH_SEG_RING, GR_BH_BF16, l->x, GR_BH_BF16, 0, 1);
    o->seg[0].a_i = T16;
    (void)bh_mark(p, GR_BH_NEXT, 0, 0);
    o = &p->op[0][bh_op(p)];
    *o = (struct gr_bh_op){
        .kind = GR_BH_COMPUTE, .flags = GR_BH_OP_ACCUMULATE, .mt = 1, .nt = 1, .nseg = 1, .phases = 4};
    o->stream = 1;
    o->chunk = T16;
    o->out = s;
    o->out_i = T32;
    o->seg[0] = bh_segment(GR_BH_SEG_RING, GR_BH_BF16, l->x, GR_BH_BF16, 0, 1);
    (void)bh_mark(p, GR_BH_NEXT, 0, 0);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    for (int i = 0; i < LOOP_OUTS; i++) { /* y, u, s lie one behind the other */
        l->outs[i] = (struct bh_out){0, y + (uint32_t)i * T32, GR_BH_FP32};
    }
}

/* Everything was added `times` times. */
static void check_loops(const struct loops *l, int times)
{
    for (int i = 0; i < LOOP_OUTS; i++) {
        memset(want, 0, sizeof want);
        memset(size, 0, sizeof size);
        int rounds = times * OUTER;
        if (i < INNER * COLUMNS) {
            bh_mul(l->in[0], l->w[i % COLUMNS][0], want, size);
            bh_mul(l->in[1], l->w[i % COLUMNS][1], want, size);
        } else if (i < INNER * COLUMNS + INNER) {
            bh_mul(l->in[i - INNER * COLUMNS], l->v[i - INNER * COLUMNS], want, size);
        } else {
            rounds = times;
            bh_mul(l->in[0], l->z[i - INNER * COLUMNS - INNER], want, size);
        }
        for (int e = 0; e < 1024; e++) {
            want[e] *= rounds;
            size[e] *= rounds;
        }
        bh_close("loops", got[i], want, size, 3e-4, 0);
    }
}

static void loops_rewind_streams_and_the_ring_skips_its_end(void **state)
{
    (void)state;
    static struct loops l;
    /* Just one chunk; one that never divides; all of them. */
    static const uint32_t rings[] = {2 * T8, 2 * T8 + T16 + 64, 64 * 1024};
    for (size_t r = 0; r < sizeof rings / sizeof rings[0]; r++) {
        make_loops(&l, rings[r]);
        bh_run_both(l.p, LOOP_OPS, l.outs, LOOP_OUTS, got);
        check_loops(&l, 1);
        bh_program_free(l.p);
    }
}

static void a_resident_program_serves_requests_whole_or_one_operation_at_a_time(void **state)
{
    (void)state;
    static struct loops l;
    make_loops(&l, 8 * 1024);
    struct gr_bh_machine *chip = bh_machine_chip(l.p, BH_DEADLINE_MS);
    struct gr_bh_machine *cpu = bh_machine_cpu(l.p);
    bh_load(l.p, chip);
    bh_load(l.p, cpu);
    for (int request = 1; request <= 3; request++) {
        for (int i = 0; i < LOOP_OPS; i++) {
            if (request != 2) { /* the second by single operations */
                gr_test_ok(chip->ops->run(chip, LOOP_OPS, &err), &err);
                break;
            }
            gr_test_ok(chip->ops->run(chip, 1, &err), &err);
        }
        gr_test_ok(cpu->ops->run(cpu, LOOP_OPS, &err), &err);
        bh_same(chip, cpu, l.outs, LOOP_OUTS, got);
        check_loops(&l, request);
    }
    /* Another input, put there between two requests, is what the next one sees. */
    put_random(l.p, 0, l.x, GR_BH_BF16, 2, 99, l.in[0]);
    uint8_t tile[T16];
    gr_bh_tile_put(GR_BH_BF16, l.in[0], 32, tile);
    gr_test_ok(chip->ops->l1_write(chip, 0, l.x, tile, sizeof tile, &err), &err);
    gr_test_ok(cpu->ops->l1_write(cpu, 0, l.x, tile, sizeof tile, &err), &err);
    gr_test_ok(chip->ops->run(chip, LOOP_OPS, &err), &err);
    gr_test_ok(cpu->ops->run(cpu, LOOP_OPS, &err), &err);
    bh_same(chip, cpu, l.outs, LOOP_OUTS, got);
    chip->ops->close(chip);
    cpu->ops->close(cpu);
    bh_program_free(l.p);
}

/* ---------------------------------------------------------------------------------------------------------------- groups */

/* Three rounds of: every tile's X to all; H = sum of them / 4 to all in another buffer; X = half of the H of the next tile. */
static void exchange(int x0, int w, int h, int unused)
{
    struct bh_program *p = bh_program_new_at(x0, w, h, 64);
    bh_leave_out(p, unused);
    const int tiles = p->grid.tiles;
    static float x[BH_TILES_MAX][1024];
    const uint32_t own = bh_room(p, GR_BH_BF16, 1);
    const uint32_t g = bh_room(p, GR_BH_BF16, BH_TILES_MAX);
    const uint32_t g2 = bh_room(p, GR_BH_BF16, BH_TILES_MAX);
    const uint32_t quarter = bh_room(p, GR_BH_BF16, 1);
    diagonal(p, quarter, 0.25f);
    (void)bh_mark(p, GR_BH_LOOP, 3, 0);
    const int gather = bh_op(p);
    const int sum = bh_op(p);
    const int next = bh_op(p);
    (void)bh_mark(p, GR_BH_NEXT, 0, 0);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    struct bh_out outs[BH_TILES_MAX];
    for (int t = 0; t < tiles; t++) {
        put_random(p, t, own, GR_BH_BF16, 1, 81 + (uint32_t)t, x[t]);
        const uint32_t mine = (uint32_t)t * T16;
        struct gr_bh_op *o = &p->op[t][gather];
        o->flags = GR_BH_OP_BARRIER;
        o->function = GR_BH_SCALE;
        o->arg = bh_bits(4.0f);
        o->out = o->to = g + mine;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, own, GR_BH_BF16, quarter, 1);
        o->dest = tiles > 1 ? bh_dest_all(p, t, false) : 0;
        o->dests = tiles > 1;
        o = &p->op[t][sum];
        o->flags = GR_BH_OP_BARRIER;
        o->out = o->to = g2 + mine;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, g, GR_BH_BF16, quarter, (uint32_t)tiles);
        o->seg[0].b_k = 0;
        o->dest = p->op[t][gather].dest;
        o->dests = tiles > 1;
        o = &p->op[t][next];
        o->function = GR_BH_SCALE;
        o->arg = bh_bits(2.0f);
        o->out = own;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, g2 + (uint32_t)((t + 1) % tiles) * T16, GR_BH_BF16, quarter, 1);
        outs[t] = (struct bh_out){t, own, GR_BH_BF16};
    }
    bh_run_both(p, 9, outs, tiles, got);
    /* After the first round all tiles hold half the sum over 4; then tiles / 8 of that each round. */
    for (int e = 0; e < 1024; e++) {
        want[e] = 0;
        size[e] = 0;
        for (int t = 0; t < tiles; t++) {
            want[e] += x[t][e] * (0.25 / 2) * pow(tiles * 0.125, 2);
            size[e] += fabs((double)x[t][e]) * (0.25 / 2) * pow(tiles * 0.125, 2);
        }
    }
    for (int t = 0; t < tiles; t++) {
        bh_close("exchange", got[t], want, size, 9.0 / 256, 0); /* nine roundings to bf16 */
    }
    bh_program_free(p);
}

static void tiles_gather_and_meet_at_barriers(void **state)
{
    (void)state;
    exchange(1, 1, 1, 0);
    exchange(1, 2, 1, 0);
    exchange(1, 2, 2, 0);
    exchange(7, 2, 2, 0); /* columns 7 and 10 */
    exchange(1, 2, 2, 1); /* the fourth tile of the rectangle is in reset */
}

/* Row 0 of every tile's result becomes row t of S on all tiles, then S itself is used. */
static void rows_are_sent_to_all(void **state)
{
    (void)state;
    struct bh_program *p = bh_program_new(2, 2, 64);
    static float x[BH_TILES_MAX][1024];
    const uint32_t in = bh_room(p, GR_BH_FP32, 1), out = bh_room(p, GR_BH_FP32, 1), s = bh_room(p, GR_BH_FP32, 1);
    const uint32_t copy = bh_room(p, GR_BH_FP32, 1), one = bh_room(p, GR_BH_BF16, 1);
    diagonal(p, one, 1);
    const int send = bh_op(p);
    const int use = bh_op(p);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    struct bh_out outs[2 * BH_TILES_MAX];
    for (int t = 0; t < 4; t++) {
        put_random(p, t, in, GR_BH_BF16, 1, 91 + (uint32_t)t, x[t]);
        struct gr_bh_op *o = &p->op[t][send];
        o->flags = GR_BH_OP_ROW | GR_BH_OP_BARRIER;
        o->out_fmt = GR_BH_FP32;
        o->out = out;
        o->to = s + (uint32_t)t * 64;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, in, GR_BH_BF16, one, 1);
        o->dest = bh_dest_all(p, t, true);
        o->dests = 1;
        o = &p->op[t][use];
        o->out_fmt = GR_BH_FP32;
        o->out = copy;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, one, GR_BH_FP32, s, 1);
        outs[2 * t] = (struct bh_out){t, s, GR_BH_FP32};
        outs[2 * t + 1] = (struct bh_out){t, copy, GR_BH_FP32};
    }
    bh_run_both(p, 2, outs, 8, got);
    for (int i = 0; i < 1024; i++) {
        want[i] = i < 4 * 32 ? x[i / 32][i % 32] : 0;
    }
    for (int t = 0; t < 8; t++) {
        bh_close("rows", got[t], want, NULL, 0, 0); /* bf16 values come through exactly */
    }
    bh_program_free(p);
}

/* Tile t sends to t + 1 and t + 2; tile 3 computes nothing and only takes part in the barrier. */
static void single_tiles_are_destinations(void **state)
{
    (void)state;
    struct bh_program *p = bh_program_new(2, 2, 64);
    static float x[BH_TILES_MAX][1024];
    const uint32_t in = bh_room(p, GR_BH_BF16, 1), out = bh_room(p, GR_BH_BF16, 1), r = bh_room(p, GR_BH_BF16, 4);
    const uint32_t one = bh_room(p, GR_BH_BF16, 1), total = bh_room(p, GR_BH_FP32, 1);
    diagonal(p, one, 1);
    const int send = bh_op(p);
    const int use = bh_op(p);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    struct bh_out outs[BH_TILES_MAX];
    for (int t = 0; t < 4; t++) {
        put_random(p, t, in, GR_BH_BF16, 1, 95 + (uint32_t)t, x[t]);
        struct gr_bh_op *o = &p->op[t][send];
        o->flags = GR_BH_OP_BARRIER;
        o->mt = t < 3;
        o->out = out;
        o->to = r + (uint32_t)t * T16;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, in, GR_BH_BF16, one, 1);
        o->dest = bh_dest_one(p, t, (t + 1) % 4);
        (void)bh_dest_one(p, t, (t + 2) % 4);
        o->dests = 2;
        o = &p->op[t][use];
        o->out_fmt = GR_BH_FP32;
        o->out = total;
        o->nseg = 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, r, GR_BH_BF16, one, 4);
        o->seg[0].b_k = 0;
        outs[t] = (struct bh_out){t, total, GR_BH_FP32};
    }
    bh_run_both(p, 2, outs, 4, got);
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 1024; i++) {
            const int one_back = (t + 3) % 4, two_back = (t + 2) % 4;
            want[i] = (one_back < 3 ? (double)x[one_back][i] : 0) + (two_back < 3 ? (double)x[two_back][i] : 0);
            size[i] = 2;
        }
        bh_close("single destinations", got[t], want, size, 3e-4, 0);
    }
    bh_program_free(p);
}

/* Operations that need not wait for the one before: 2 uses what 0 made, 3 what 1 and 2 made. */
static void operations_may_overlap_those_they_do_not_need(void **state)
{
    (void)state;
    struct bh_program *p = bh_program_new(1, 1, 64);
    static float x[1024];
    const uint32_t in = bh_room(p, GR_BH_BF16, 1), buf = bh_room(p, GR_BH_BF16, 4), half = bh_room(p, GR_BH_BF16, 1);
    diagonal(p, half, 0.5f);
    put_random(p, 0, in, GR_BH_BF16, 1, 97, x);
    for (uint32_t i = 0; i < 4; i++) {
        struct gr_bh_op *o = &p->op[0][bh_op(p)];
        o->back = i == 3 ? 0 : 1;
        o->out = buf + i * T16;
        o->nseg = i == 3 ? 2 : 1;
        o->seg[0] = bh_segment(0, GR_BH_BF16, i < 2 ? in : i == 2 ? buf : buf + T16, GR_BH_BF16, half, 1);
        o->seg[1] = bh_segment(0, GR_BH_BF16, buf + 2 * T16, GR_BH_BF16, half, 1);
    }
    (void)bh_mark(p, GR_BH_END, 0, 0);
    bh_run_both(p, 4, &(struct bh_out){0, buf + 3 * T16, GR_BH_BF16}, 1, got);
    for (int i = 0; i < 1024; i++) {
        want[i] = 0.5 * (0.5 + 0.25) * x[i];
    }
    bh_close("overlap", got[0], want, NULL, 1.0 / 128, 0);
    bh_program_free(p);
}

/* ------------------------------------------------------------------------------------------------------------------ hang */

/* One tile of two waits for a chunk that cannot come: the ring is too small for it. The other waits for it at the barrier. */
static void a_program_that_hangs_is_reported_and_the_next_one_runs(void **state)
{
    struct bh_program *p = bh_program_new(2, 1, 1024);
    const uint32_t in = bh_room(p, GR_BH_BF16, 1), out = bh_room(p, GR_BH_BF16, 1);
    const int i = bh_op(p);
    (void)bh_mark(p, GR_BH_END, 0, 0);
    for (int t = 0; t < 2; t++) {
        struct gr_bh_op *o = &p->op[t][i];
        o->flags = GR_BH_OP_BARRIER;
        o->out = out;
        o->nseg = 1;
        o->seg[0] = bh_segment(t ? GR_BH_SEG_RING : 0u, GR_BH_BF16, in, GR_BH_BF16, t ? 0 : in, 1);
        o->chunk = t ? T16 : 0;
    }
    struct gr_bh_machine *chip = bh_machine_chip(p, 200);
    bh_load(p, chip);
    gr_test_fails(chip->ops->run(chip, 1, &err), &err, GR_ERR_DEVICE,
                  "(2, 2): no progress for 200 ms: B op 0: packer, N op 0: ring space, "
                  "T0 op 0: weights, T1 op 0: weights, T2 op 0: products");
    char text[200];
    for (int x = 1; x <= 2; x++) {
        gr_tensix_state(bh_chip(), x, 2, text, sizeof text);
        assert_string_equal(text, "B in reset, N in reset, T0 in reset, T1 in reset, T2 in reset");
    }
    gr_test_fails(chip->ops->run(chip, 1, &err), &err, GR_ERR_DEVICE, "not started");
    chip->ops->close(chip);
    bh_program_free(p);
    tiles_gather_and_meet_at_barriers(state);
    loops_rewind_streams_and_the_ring_skips_its_end(state);
}

int main(void)
{
    if (bh_simulator() == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_rewind_streams_and_the_ring_skips_its_end),
        cmocka_unit_test(a_resident_program_serves_requests_whole_or_one_operation_at_a_time),
        cmocka_unit_test(tiles_gather_and_meet_at_barriers),
        cmocka_unit_test(rows_are_sent_to_all),
        cmocka_unit_test(single_tiles_are_destinations),
        cmocka_unit_test(operations_may_overlap_those_they_do_not_need),
        cmocka_unit_test(a_program_that_hangs_is_reported_and_the_next_one_runs),
    };
    return cmocka_run_group_tests(tests, NULL, bh_chip_close);
}
