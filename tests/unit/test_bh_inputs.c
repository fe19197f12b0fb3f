/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_inputs.c: from when on inputs may be written for the next request: what the builder says of small lists, and that a predict has the
 * same bits when each of its inputs is spoilt at that moment. */
#include "bh_builds.h"
#include "bh_predict.h"

#include <stdlib.h>
#include <string.h>

#include "device/blackhole/layers.h"
#include "gr_test.h"

enum { TOKENS = 100, IMAGE = 81 };

static struct bh_net net;

/* ---- small lists ---- */

enum use { NOBODY, LEFT, RIGHT, OUTPUT, SENT, BACKWARDS, LOOPED, RESULT, USES };

static void operation(struct gr_bh_build *b, enum use use, struct gr_bh_buf in, struct gr_bh_buf other, bool barrier)
{
    struct gr_bh_op *op = bh_build_operation(b, 2, -1, 0, other.addr);
    op[0].flags = op[1].flags = barrier ? GR_BH_OP_BARRIER : 0;
    struct gr_bh_op *o = &op[1]; /* one tile is enough */
    o->nseg = 1;
    o->seg[0] =
        (struct gr_bh_segment){.fmt_a = GR_BH_BF16, .fmt_b = GR_BH_BF16, .kcount = 1, .a = other.addr, .b = other.addr};
    o->out_fmt = GR_BH_BF16;
    switch (use) {
    case LEFT:
        o->seg[0].a = in.addr;
        break;
    case RIGHT: /* at k = 2 */
        o->seg[0].kcount = 3;
        o->seg[0].b = in.addr - 2 * in.n_stride;
        o->seg[0].b_k = in.n_stride;
        break;
    case OUTPUT: /* at n = 1 */
        o->nt = 2;
        o->out = in.addr - in.n_stride;
        o->out_n = in.n_stride;
        break;
    case SENT:
        o->to = in.addr;
        o->dest = gr_bh_dest_tile(b, 1, 0);
        o->dests = 1;
        break;
    case BACKWARDS:
        o->mt = 3;
        o->seg[0].a = in.addr + 2 * in.n_stride;
        o->seg[0].a_m = 0u - in.n_stride;
        break;
    case LOOPED: /* in the second round */
        o->seg[0].a = in.addr - in.n_stride;
        o->seg[0].a_i = in.n_stride;
        break;
    default:
        break;
    }
}

/* Five operations, barriers at the second and the fourth; `user` uses the input, in a loop of two rounds that has it alone. */
static uint32_t free_after(enum use use, int user)
{
    struct gr_bh_build *b = bh_build_for(&bh_two);
    (void)gr_bh_alloc(b, "before", 1, 4, GR_BH_BF16);
    const struct gr_bh_buf in = gr_bh_alloc(b, "in", 1, 1, GR_BH_BF16);
    (void)gr_bh_alloc(b, "behind", 1, 4, GR_BH_BF16);
    const struct gr_bh_buf other = gr_bh_alloc(b, "other", 1, 1, GR_BH_BF16);
    gr_bh_input(b, (struct gr_bh_io){.name = "in", .buf = in, .place = GR_BH_EVERYWHERE, .rows = 1, .cols = 1});
    for (int i = 1; i <= 5; i++) {
        const bool looped = use == LOOPED && i == user;
        if (looped) {
            gr_bh_loop(b, 2, 0);
        }
        for (int round = 0; round < (looped ? 2 : 1); round++) {
            if (looped) {
                gr_bh_round(b, round);
            }
            operation(b, i == user ? use : NOBODY, in, other, i == 2 || i == 4);
        }
        if (looped) {
            gr_bh_loop_end(b);
        }
    }
    const struct gr_bh_io out = {.name = "out", .place = GR_BH_EVERYWHERE, .rows = 1, .cols = 1};
    struct gr_bh_io o = out;
    o.buf = use == RESULT ? in : other;
    gr_bh_output(b, o);
    const uint32_t after = bh_build_finished(b)->input[0].after;
    gr_bh_build_free(b);
    return after;
}

static void an_input_is_free_at_the_first_barrier_behind_its_last_use(void **state)
{
    (void)state;
    for (int use = LEFT; use < LOOPED; use++) {
        assert_int_equal(free_after(use, 1), 2);
        assert_int_equal(free_after(use, 2), 2); /* the barrier comes last */
        assert_int_equal(free_after(use, 3), 4);
        assert_int_equal(free_after(use, 4), 4);
        assert_int_equal(free_after(use, 5), 5); /* not before the end */
    }
    assert_int_equal(free_after(LOOPED, 1), 3);
    assert_int_equal(free_after(LOOPED, 3), 5);
    assert_int_equal(free_after(NOBODY, 1), 2);
    assert_int_equal(free_after(RESULT, 1), 5);
}

/* ---- predicts ---- */

/* Spoils each input, on every tile, when it is free: with what makes every sum that it gets into no number. */
struct spoiler {
    struct bh_predict *p;
    int spoilt;
    uint32_t last;
};

static bool spoil(void *user, uint32_t done)
{
    static uint8_t nan[GR_BH_L1_END];
    struct spoiler *s = user;
    struct gr_err err;
    memset(nan, 0xFF, sizeof nan);
    for (int i = 0; i < s->p->program->inputs; i++) {
        const struct gr_bh_io *io = &s->p->program->input[i];
        const size_t bytes = (size_t)io->buf.mt * io->buf.nt * GR_BH_TILE_BYTES(io->buf.fmt);
        if (io->after > s->last && io->after <= done) {
            gr_test_ok(s->p->machine->ops->l1_fill(s->p->machine, io->buf.addr, nan, bytes, &err), &err);
            s->spoilt++;
        }
    }
    s->last = done;
    return false;
}

static int by_moment(const void *a, const void *b)
{
    const struct gr_bh_mark *x = a, *y = b;
    return (x->after > y->after) - (x->after < y->after);
}

static void predict(struct bh_predict *p, float *action)
{
    const struct gr_dims *d = &net.w->dims;
    const size_t side = (size_t)d->vit.image_side;
    const size_t pixel = 3 * side * side, state = (size_t)d->dit.max_state,
                 noise = (size_t)d->dit.horizon * (size_t)d->dit.max_action;
    float *v = malloc((pixel + state + noise) * sizeof *v);
    int32_t ids[TOKENS];
    struct gr_err err;
    for (size_t i = 0; i < pixel + state + noise; i++) {
        v[i] = (float)(i * 37 % 256) / 127.5f - 1.0f;
    }
    for (int t = 0; t < TOKENS; t++) {
        ids[t] = t < IMAGE ? BH_PREDICT_IMAGE_TOKEN : t;
    }
    const struct gr_bh_observation o = {
        .pixels = v, .ids = ids, .n_tokens = TOKENS, .state = v + pixel, .noise = v + pixel + state};
    gr_test_ok(gr_bh_request_inputs(p->request, p->machine, &o, 0, &err), &err);
    gr_test_ok(gr_bh_program_run(p->program, p->machine, NULL, NULL, &err), &err);
    gr_test_ok(gr_bh_request_action(p->request, p->machine, action, &err), &err);
    free(v);
}

static void spoilt_inputs_change_nothing(int columns, int rows, bool halves)
{
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    struct gr_bh_mark mark[32];
    struct bh_predict p;
    bh_predict_halves = halves;
    bh_predict_open(&p, &net, columns, rows, GR_BH_BFP8);
    bh_predict_halves = false;
    bh_predict_cpu(&p, GR_BH_FAST, 2);
    predict(&p, want);
    struct spoiler s = {.p = &p};
    for (int i = 0; i < p.program->inputs; i++) {
        mark[i] = (struct gr_bh_mark){.after = p.program->input[i].after};
    }
    qsort(mark, (size_t)p.program->inputs, sizeof *mark, by_moment);
    p.machine->mark = mark;
    p.machine->marks = p.program->inputs;
    p.machine->beside = spoil;
    p.machine->beside_user = &s;
    predict(&p, got);
    assert_memory_equal(got, want, n * sizeof *want);
    assert_true(s.spoilt >= 3); /* patches, rows of tokens, state */
    p.machine->beside = NULL;
    predict(&p, got); /* and what was spoilt is written whole */
    assert_memory_equal(got, want, n * sizeof *want);
    bh_predict_close(&p);
    free(want);
    free(got);
}

static void inputs_that_are_free_are_used_no_more(void **state)
{
    (void)state;
    spoilt_inputs_change_nothing(2, 2, false);
    spoilt_inputs_change_nothing(3, 2, false); /* row groups */
    spoilt_inputs_change_nothing(3, 2, true);
}

/* Those that are most of the bytes have the whole action head to be written in. */
static void patches_and_rows_of_tokens_are_free_before_the_steps(void **state)
{
    (void)state;
    struct bh_net full;
    bh_net_hollow(&full);
    for (int layout = 1; layout <= 2; layout++) {
        struct bh_predict p = {0};
        uint32_t adapter = 0;
        bh_predict_tokens = layout * BH_PREDICT_TOKENS;
        bh_predict_backbone = GR_BH_BF16;
        bh_predict_build(&p, &full, 11, 10, GR_BH_BFP8);
        bh_predict_tokens = BH_PREDICT_TOKENS;
        bh_predict_backbone = 0;
        for (int i = 0; i < p.program->taps; i++) {
            adapter = strcmp(p.program->tap[i].name, "state_features") == 0 ? p.program->tap[i].after : adapter;
        }
        for (int i = 0; i < p.program->inputs; i++) {
            const struct gr_bh_io *io = &p.program->input[i];
            const bool most = strcmp(io->name, "patches") == 0 || strcmp(io->name, "token_rows") == 0;
            assert_true(!most || (io->after > 0 && io->after < adapter));
        }
        gr_bh_request_free(p.request);
    }
    bh_net_close(&full);
}

static int set_up(void **state)
{
    (void)state;
    bh_net_synthetic(&net, GR_SYNTH_TINY);
    return 0;
}
static int clean_up(void **state)
{
    bh_net_close(&net);
    return gr_test_temp_clean(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_input_is_free_at_the_first_barrier_behind_its_last_use),
                                       cmocka_unit_test(inputs_that_are_free_are_used_no_more),
                                       cmocka_unit_test(patches_and_rows_of_tokens_are_free_before_the_steps)};
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
