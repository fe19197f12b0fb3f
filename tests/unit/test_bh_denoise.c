/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_denoise.c: the action head as one program, on the CPU interpreter, against the fp32 goldens of the tiny snapshot: 4 blocks and 4 steps,
 * weights in bf16 and bfp8_b. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bh_reference.h"

enum { TEXT_ROOM = 50, WIDE = 2, HIGH = 2 };

static struct bh_net net;

static int open_tiny(void **state)
{
    (void)state;
    bh_net_synthetic(&net, GR_SYNTH_TINY);
    return 0;
}
static int close_tiny(void **state)
{
    bh_net_close(&net);
    return gr_test_temp_clean(state);
}

static struct gr_bh_denoise whole(void)
{
    return (struct gr_bh_denoise){
        .w = net.head, .text_rows = TEXT_ROOM, .image_rows = net.w->dims.vit.tokens, .steps = net.w->dims.dit.steps};
}

/* Compares taps with the golden's. */
struct taps {
    const struct bh_case *c;
    double least;
    int compared, all;
};
static void compare_tap(void *user, const char *name, const float *v, int rows, int cols)
{
    struct taps *t = user;
    size_t n = 0;
    float *want = bh_case_tap(t->c, name, &n);
    t->all++;
    if (want != NULL) {
        assert_int_equal(n, rows * cols);
        const double pcc = bh_pcc(v, want, n);
        printf("# %s %.6f\n", name, pcc);
        t->least = pcc < t->least ? pcc : t->least;
        t->compared++;
        free(want);
    }
}

static void compare_times(const struct bh_case *c)
{
    for (int step = 0; step < net.w->dims.dit.steps; step++) {
        char name[24];
        size_t n = 0;
        (void)snprintf(name, sizeof name, "dit.temb.step%d", step);
        float *want = bh_case_tap(c, name, &n);
        const float *got = gr_bh_denoise_temb(net.head, step);
        assert_int_equal(n, net.w->dims.dit.width);
        for (size_t i = 0; i < n; i++) {
            assert_true(fabsf(got[i] - want[i]) <= 1e-5f);
        }
        free(want);
    }
}

static void compare_case(struct bh_rig *r, const char *name, double bound)
{
    struct bh_case c;
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *action = malloc(n * sizeof *action), *again = malloc(n * sizeof *again);
    bh_case_open(&c, &net, gr_test_shared("spec/goldens_tiny/%s", name), TEXT_ROOM);
    float *want = bh_case_tap(&c, "action_pred", NULL);
    compare_times(&c);
    bh_case_input(r, &c);
    bh_rig_run(r, NULL, NULL);
    bh_rig_output(r, "action_pred", action);
    const double pcc = bh_pcc(action, want, n);
    printf("# %s %s: action_pred %.6f\n", name, r->weights == GR_BH_BF16 ? "bf16" : "bfp8_b", pcc);
    /* Again, one operation or so at a time, with every tap: the same bits. */
    struct taps taps = {.c = &c, .least = 1.0};
    bh_case_input(r, &c);
    bh_rig_run(r, compare_tap, &taps);
    bh_rig_output(r, "action_pred", again);
    assert_memory_equal(action, again, n * sizeof *action);
    assert_int_equal(taps.all, 1 + net.w->dims.dit.steps * (net.w->dims.dit.layers + 3));
    assert_int_equal(taps.compared, taps.all);
    if (!(pcc >= bound && taps.least >= bound - 1e-3)) {
        fail_msg("%s: PCC %.6f, the worst tap %.6f; at least %.4f", name, pcc, taps.least, bound);
    }
    bh_case_close(&c);
    free(want);
    free(action);
    free(again);
}

/* On the fast interpreter, without taps. */
static void compare_other_cases(enum gr_bh_format weights, double bound)
{
    static const char *const cases[] = {"t2_256x256",     "t3_1280x800",        "t4_4096x64",     "t5_64x4096",
                                        "t6_640x480_f64", "t8_512x512_extreme", "t9_256x256_zero"};
    struct bh_rig r;
    const struct gr_bh_denoise d = whole();
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *action = malloc(n * sizeof *action);
    bh_golden_program(&r, &d, WIDE, HIGH, weights);
    bh_rig_load_cpu(&r, GR_BH_FAST, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bh_case c;
        bh_case_open(&c, &net, gr_test_shared("spec/goldens_tiny/%s", cases[i]), TEXT_ROOM);
        float *want = bh_case_tap(&c, "action_pred", NULL);
        bh_case_input(&r, &c);
        bh_rig_run(&r, NULL, NULL);
        bh_rig_output(&r, "action_pred", action);
        const double pcc = bh_pcc(action, want, n);
        printf("# %s: action_pred %.6f\n", cases[i], pcc);
        if (!(pcc >= bound)) {
            fail_msg("%s: PCC %.6f, at least %.4f", cases[i], pcc, bound);
        }
        bh_case_close(&c);
        free(want);
    }
    bh_rig_end(&r);
    free(action);
}

static void tiny_goldens(enum gr_bh_format weights, double bound)
{
    struct bh_rig r;
    const struct gr_bh_denoise d = whole();
    gr_test_need_shared();
    bh_golden_program(&r, &d, WIDE, HIGH, weights);
    bh_rig_load_cpu(&r, GR_BH_BIT_EXACT, 2);
    compare_case(&r, "t1_64x64", bound);
    compare_case(&r, "t7_333x101_noise", bound); /* on the machine that ran the other */
    bh_rig_end(&r);
    compare_other_cases(weights, bound);
}

static void tiny_goldens_with_weights_in_bf16(void **state)
{
    (void)state;
    tiny_goldens(GR_BH_BF16, 0.9995);
}
static void tiny_goldens_with_weights_in_bfp8(void **state)
{
    (void)state;
    tiny_goldens(GR_BH_BFP8, 0.99995);
}

/* The demo snapshot has two rounds of four blocks. */
struct rounds {
    const struct bh_net *net;
    const struct bh_case *c;
    double *x, worst;
    int compared;
};
static void compare_block(void *user, const char *name, const float *v, int rows, int cols)
{
    struct rounds *u = user;
    char want[24];
    (void)snprintf(want, sizeof want, "dit.block%d.step0", u->compared);
    if (strcmp(name, want) == 0) {
        bh_reference_block(u->net, u->c, u->compared++, u->x);
        const double rms = bh_relative_rms(v, u->x, (size_t)rows * (size_t)cols);
        printf("# %s: relative rms %.2e\n", name, rms);
        u->worst = rms > u->worst ? rms : u->worst;
    }
}

static void blocks_of_later_rounds_have_their_own_weights_and_keys(void **state)
{
    (void)state;
    struct bh_net demo;
    struct bh_rig r;
    struct bh_case c;
    bh_net_synthetic(&demo, GR_SYNTH_DEMO);
    const struct gr_dims *dims = &demo.w->dims;
    const struct gr_bh_denoise d = {.w = demo.head, .text_rows = TEXT_ROOM, .image_rows = dims->vit.tokens, .steps = 1};
    bh_case_random(&c, &demo, TEXT_ROOM - 7, TEXT_ROOM);
    bh_golden_program(&r, &d, WIDE, HIGH, GR_BH_BF16);
    bh_rig_load_cpu(&r, GR_BH_BIT_EXACT, 2);
    struct rounds u = {
        .net = &demo, .c = &c, .x = calloc((size_t)(dims->dit.horizon + 1) * (size_t)dims->dit.width, sizeof(double))};
    bh_reference_rows(&demo, &c, u.x);
    bh_case_input(&r, &c);
    bh_rig_run(&r, compare_block, &u);
    assert_int_equal(u.compared, dims->dit.layers);
    assert_true(dims->dit.layers > 2 * dims->dit.text_every);
    if (!(u.worst <= 1e-2)) {
        fail_msg("relative rms %.2e", u.worst);
    }
    bh_rig_end(&r);
    bh_case_close(&c);
    bh_net_close(&demo);
    free(u.x);
}

static bool all_finite(struct bh_rig *r)
{
    float v[32];
    bool finite = true;
    bh_rig_output(r, "watch", v);
    for (int i = 0; i < 32; i++) {
        finite = finite && isfinite(v[i]);
    }
    return finite;
}

static void the_last_norm_of_a_step_is_watched(void **state)
{
    (void)state;
    struct bh_rig r;
    struct bh_case c;
    struct gr_bh_denoise d = whole();
    bh_case_random(&c, &net, TEXT_ROOM - 7, TEXT_ROOM);
    bh_rig_begin(&r, WIDE, HIGH, GR_BH_BFP8);
    d.watch = gr_bh_alloc(r.build, "watch", 1, 1, GR_BH_FP32);
    gr_bh_emit_denoise(r.build, &d);
    gr_bh_output(r.build,
                 (struct gr_bh_io){.name = "watch", .buf = d.watch, .place = GR_BH_EVERYWHERE, .rows = 1, .cols = 32});
    bh_rig_finish(&r);
    bh_rig_load_cpu(&r, GR_BH_FAST, 2);
    bh_case_input(&r, &c);
    bh_rig_run(&r, NULL, NULL);
    assert_true(all_finite(&r));
    c.noise[3] = 1e30f; /* more than the device lets through */
    bh_case_input(&r, &c);
    bh_rig_run(&r, NULL, NULL);
    assert_false(all_finite(&r));
    bh_rig_end(&r);
    bh_case_close(&c);
}

static void what_the_network_has_not_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    const struct {
        struct gr_bh_denoise d;
        int tiles;
        const char *text;
    } cases[] = {
        {{.w = net.head, .text_rows = 32, .image_rows = 81, .steps = 5}, 4, "5 steps of 4"},
        {{.w = net.head, .text_rows = 32, .image_rows = 81, .steps = 4, .first_block = 3, .blocks = 2},
         4,
         "blocks 3..4 of 4"},
        {{.w = net.head, .text_rows = 0, .image_rows = 81, .steps = 4}, 4, "0 of the text"},
        {{.w = net.head, .text_rows = 32, .image_rows = 81, .steps = 4}, 2, "on 2 tiles"},
        {{.w = net.head, .text_rows = 9000, .image_rows = 81, .steps = 4}, 4, "L1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bh_rig r;
        bh_rig_begin(&r, cases[i].tiles, 1, GR_BH_BFP8);
        gr_bh_emit_denoise(r.build, &cases[i].d);
        gr_test_fails(gr_bh_build_finish(r.build, &r.program, &err), &err, GR_ERR_DEVICE, cases[i].text);
        bh_rig_end(&r);
    }
    struct gr_bh_denoise_weights *none;
    gr_test_fails(gr_bh_denoise_weights_new(net.w, 99, &none, &err), &err, GR_ERR_DEVICE, "slot 99");
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_network_has_not_is_refused),
        cmocka_unit_test(the_last_norm_of_a_step_is_watched),
        cmocka_unit_test(blocks_of_later_rounds_have_their_own_weights_and_keys),
        cmocka_unit_test(tiny_goldens_with_weights_in_bf16),
        cmocka_unit_test(tiny_goldens_with_weights_in_bfp8),
    };
    return cmocka_run_group_tests_name("bh_denoise", tests, open_tiny, close_tiny);
}
