/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_request.c: a whole predict as one program, on the CPU interpreter, against the fp32 goldens of the tiny snapshot: vision, connector,
 * language model, vlln, action head. BIT_EXACT also proves that buffers are overlaid without races. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bh_golden.h"
#include "bh_predict.h"
#include "device/blackhole/bh_request.h"

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

/* Two observations on one machine; the first again at the end, which must not depend on what the second left behind. */
static void tiny_goldens(int columns, int rows, enum gr_bh_format weights, enum gr_bh_arithmetic arithmetic,
                         double bound)
{
    gr_test_need_shared();
    struct bh_predict p;
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *first = malloc(n * sizeof *first), *action = malloc(n * sizeof *action);
    bh_predict_open(&p, &net, columns, rows, weights);
    bh_predict_cpu(&p, arithmetic, 2);
    static const char *const name[] = {"t1_64x64", "t7_333x101_noise", "t1_64x64"};
    for (int i = 0; i < 3; i++) {
        const double pcc = bh_predict_case(&p, gr_test_shared("spec/goldens_tiny/%s", name[i]), i == 0, action);
        printf("# %d x %d tiles, %s, %s: action_pred %.6f\n", columns, rows, weights == GR_BH_BF16 ? "bf16" : "bfp8_b",
               name[i], pcc);
        if (!(pcc >= bound)) {
            fail_msg("PCC %.6f, at least %.4f", pcc, bound);
        }
        if (i == 0) {
            memcpy(first, action, n * sizeof *first);
        }
    }
    assert_memory_equal(first, action, n * sizeof *first);
    bh_predict_close(&p);
    free(first);
    free(action);
}

static void fast_in_row_groups_with_weights_in_bf16(void **state)
{
    (void)state;
    tiny_goldens(3, 2, GR_BH_BF16, GR_BH_FAST, 0.9995);
}
static void fast_with_weights_in_bfp8_in_the_action_head_alone(void **state)
{
    (void)state;
    bh_predict_backbone = GR_BH_BF16;
    tiny_goldens(3, 2, GR_BH_BFP8, GR_BH_FAST, 0.9992);
    bh_predict_backbone = 0;
}
static void exact_in_one_group_with_weights_in_bfp8(void **state)
{
    (void)state;
    tiny_goldens(2, 2, GR_BH_BFP8, GR_BH_BIT_EXACT, 0.999);
}
static void exact_in_row_groups_with_weights_in_bfp8(void **state)
{
    (void)state;
    tiny_goldens(3, 2, GR_BH_BFP8, GR_BH_BIT_EXACT, 0.999);
}

static void observations_that_the_program_has_no_room_for_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct bh_predict p;
    bh_predict_open(&p, &net, 3, 2, GR_BH_BFP8);
    bh_predict_cpu(&p, GR_BH_FAST, 1);
    int32_t ids[BH_PREDICT_TOKENS + 1] = {0};
    const struct {
        int n_tokens, image;
        int32_t id;
        const char *text;
    } cases[] = {
        {BH_PREDICT_TOKENS + 1, 81, 0, "129 tokens for a program of 128"},
        {0, 0, 0, "0 tokens"},
        {100, 80, 0, "80 image tokens of 100"},
        {100, 81, -1, "token 99 is -1"},
        {100, 81, net.w->dims.llm.vocab, "the vocabulary has"},
        {81, 81, BH_PREDICT_IMAGE_TOKEN, "81 image tokens of 81"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int s = 0; s < BH_PREDICT_TOKENS + 1; s++) {
            ids[s] = s < cases[i].image ? BH_PREDICT_IMAGE_TOKEN : 0;
        }
        if (cases[i].n_tokens > 0) {
            ids[cases[i].n_tokens - 1] = cases[i].id;
        }
        const struct gr_bh_observation o = {.ids = ids, .n_tokens = cases[i].n_tokens};
        gr_test_fails(gr_bh_request_inputs(p.request, p.machine, &o, &err), &err, GR_ERR_INPUT, cases[i].text);
    }
    bh_predict_close(&p);
}

/* 11 x 10 tiles, 128 rows. */
static void the_published_size_fits_into_l1(void **state)
{
    (void)state;
    struct bh_net full;
    bh_net_hollow(&full);
    for (int i = 0; i < 2; i++) {
        struct bh_predict p = {0};
        bh_predict_build(&p, &full, 11, 10, i == 0 ? GR_BH_BFP8 : GR_BH_BF16);
        const struct gr_bh_request_l1 l1 = gr_bh_request_l1(p.request);
        const struct gr_bh_head *head = p.program->list[0];
        printf(
            "# %s: %d tiles; L1 %u of %d bytes: lists %zu (%u operations, %u executed), constants %d tiles, ring %u; "
            "buffers of vision %u, connector %u, language model %u, action head %u\n",
            i == 0 ? "bfp8_b" : "bf16", p.program->grid->tiles, p.program->l1_used, GR_BH_L1_END, p.program->list_bytes,
            head->ops, p.program->executed, p.program->constants, head->ring_bytes, l1.vision, l1.connector, l1.llm,
            l1.denoise);
        assert_int_equal(p.program->grid->tiles, 108);
        assert_true(p.program->l1_used <= GR_BH_L1_END);
        gr_bh_request_free(p.request);
    }
    bh_net_close(&full);
}

static void what_does_not_fit_the_chip_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_request *r;
    struct gr_bh_request_cfg cfg = {.w = net.w,
                                    .slot = net.slot,
                                    .max_tokens = BH_PREDICT_TOKENS,
                                    .image_token = BH_PREDICT_IMAGE_TOKEN,
                                    .columns = 1,
                                    .rows = 1,
                                    .weights = GR_BH_BFP8};
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "the chip has 1 x 1");
    assert_null(r);
    cfg.columns = 4;
    cfg.max_tokens = 81;
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "81 of them of the image");
    cfg.max_tokens = 4000;
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "L1: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_the_chip_is_refused),
        cmocka_unit_test(the_published_size_fits_into_l1),
        cmocka_unit_test(observations_that_the_program_has_no_room_for_are_refused),
        cmocka_unit_test(fast_in_row_groups_with_weights_in_bf16),
        cmocka_unit_test(fast_with_weights_in_bfp8_in_the_action_head_alone),
        cmocka_unit_test(exact_in_one_group_with_weights_in_bfp8),
        cmocka_unit_test(exact_in_row_groups_with_weights_in_bfp8),
    };
    return cmocka_run_group_tests_name("bh_request", tests, open_tiny, close_tiny);
}
