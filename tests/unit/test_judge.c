/* SPDX-License-Identifier: Apache-2.0
 *
 * test_judge.c: when a chunk counts as close enough to the exact one, and the observations that a device is given to find out. */
#include "gr_test.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo_snapshot.h"
#include "model/tokenizer.h"
#include "policy/judge.h"

static struct gr_config *config;
static float *exact_actions, *actions, *exact, *normalized;
static int steps, dim, width, horizon;

static int set_up(void **state)
{
    struct gr_err err;
    if (make_demo(state) != 0 || gr_config_open(demo_dir, "gr1", &config, &err) != GR_OK) {
        return -1;
    }
    steps = config->emb.action_steps;
    dim = config->emb.action_dim;
    width = config->dims.dit.max_action;
    horizon = config->dims.dit.horizon;
    exact_actions = calloc((size_t)(steps * dim), sizeof(float));
    actions = calloc((size_t)(steps * dim), sizeof(float));
    exact = calloc((size_t)(horizon * width), sizeof(float));
    normalized = calloc((size_t)(horizon * width), sizeof(float));
    return 0;
}

static int clean_up(void **state)
{
    free(exact_actions);
    free(actions);
    free(exact);
    free(normalized);
    gr_config_free(config);
    return gr_test_temp_clean(state);
}

/* Two equal chunks with some shape in every group. */
static void equal_chunks(void)
{
    for (int i = 0; i < steps * dim; i++) {
        actions[i] = exact_actions[i] = sinf((float)i * 0.7f);
    }
    for (int i = 0; i < horizon * width; i++) {
        normalized[i] = exact[i] = cosf((float)i * 0.3f);
    }
}

static struct gr_verdict verdict(void)
{
    struct gr_verdict v;
    gr_judge_chunks(config, exact_actions, actions, exact, normalized, GR_JUDGE_PCC_CHOICE, &v);
    return v;
}

static void equal_chunks_pass(void **state)
{
    (void)state;
    equal_chunks();
    struct gr_verdict v = verdict();
    assert_true(v.pass && v.max_abs == 0 && v.pcc > 0.999999 && v.pcc_slice > 0.999999 && v.worst_pcc > 0.999999);
    assert_true(v.worst_group[0] != '\0');
}

static void one_bad_group_fails_the_whole(void **state)
{
    (void)state;
    equal_chunks();
    const int first = dim - config->emb.action[config->emb.n_action - 1].dim; /* waist: 3 of 29 columns */
    for (int r = 0; r < steps; r++) {
        for (int c = first; c < dim; c++) {
            actions[r * dim + c] += (r + c) % 2 == 0 ? 0.12f : -0.12f;
        }
    }
    struct gr_verdict v = verdict();
    assert_false(v.pass);
    assert_true(v.pcc > 0.99);
    assert_string_equal(v.worst_group, config->emb.action[config->emb.n_action - 1].name);
    assert_true(v.worst_pcc < 0.99 + 0.01);
}

/* Its correlation is noise, its values are right. */
static void a_nearly_constant_group_is_judged_by_its_differences(void **state)
{
    (void)state;
    equal_chunks();
    const int first = dim - config->emb.action[config->emb.n_action - 1].dim;
    for (int r = 0; r < steps; r++) {
        for (int c = first; c < dim; c++) {
            exact_actions[r * dim + c] = 0.1f + 1e-5f * (float)(r % 3);
            actions[r * dim + c] = 0.1f + 1e-5f * (float)(r % 2);
        }
    }
    struct gr_verdict v = verdict();
    assert_true(v.pass);
    assert_string_not_equal(v.worst_group, config->emb.action[config->emb.n_action - 1].name);
}

static void constant_chunks_are_judged_by_their_differences(void **state)
{
    (void)state;
    equal_chunks();
    for (int i = 0; i < steps * dim; i++) {
        actions[i] = exact_actions[i] = 0.25f;
    }
    struct gr_verdict v = verdict();
    assert_true(v.pass && isnan(v.pcc));
    for (int i = 0; i < steps * dim; i++) {
        actions[i] = 9.0f;
    }
    assert_false(verdict().pass);
}

static void the_slice_and_values_that_are_not_finite_count(void **state)
{
    (void)state;
    equal_chunks();
    for (int i = 0; i < steps * width; i++) {
        normalized[i] += i % 2 == 0 ? 0.1f : -0.1f;
    }
    struct gr_verdict v = verdict();
    assert_true(!v.pass && v.pcc > 0.9999 && v.pcc_slice < 0.999);
    equal_chunks();
    normalized[3] = NAN;
    assert_false(verdict().pass);
    equal_chunks();
    actions[3] = INFINITY;
    assert_false(verdict().pass);
}

/* A chunk straight from the network, and one that no action can be made of. */
static void the_device_gets_inputs_and_verdicts(void **state)
{
    (void)state;
    struct gr_err err;
    static _Atomic bool cancel;
    struct gr_tokenizer *tokenizer = NULL;
    struct gr_encoder encoder = {
        .config = config, .dims = &config->dims, .n_images = config->emb.n_cameras, .cancel = &cancel};
    gr_test_ok(gr_tokenizer_open(gr_test_join(demo_dir, "tokenizer"), &tokenizer, &err), &err);
    /* Room for two tokens only: the instruction is cut until it fits. */
    gr_test_ok(gr_prompt_new(tokenizer, 1, config->dims.vit.tokens, 2, true, &encoder.prompt, &err), &err);
    gr_test_ok(gr_preprocess_new(config->shortest_image_edge, config->crop_fraction, &encoder.preprocess, &err), &err);
    gr_test_ok(gr_encoder_init(&encoder, &err), &err);
    struct gr_judge j = {.encoder = &encoder, .cancel = &cancel};
    struct gr_calibration c = gr_judge_calibration(&j);
    struct gr_model_input in[GR_PLAN_OBSERVATIONS], again;
    for (int i = 0; i < GR_PLAN_OBSERVATIONS; i++) {
        gr_test_ok(c.input(c.user, i, &in[i], &err), &err);
        assert_true(in[i].n_tokens > 0 && in[i].n_images == 1 && in[i].cancel == &cancel);
    }
    gr_test_ok(c.input(c.user, 0, &again, &err), &err);
    assert_ptr_equal(again.pixels, in[0].pixels); /* encoded once */
    const size_t pixels = (size_t)config->dims.vit.image_side * (size_t)config->dims.vit.image_side * 3;
    assert_memory_not_equal(in[0].pixels, in[1].pixels, pixels * sizeof(float));
    assert_memory_not_equal(in[0].noise, in[1].noise, 64);
    assert_memory_not_equal(in[1].state, in[2].state, 64);
    struct gr_verdict v;
    equal_chunks();
    c.judge(c.user, 1, exact, normalized, &v);
    assert_true(v.pass && v.max_abs == 0);
    normalized[0] = NAN;
    c.judge(c.user, 1, exact, normalized, &v);
    assert_false(v.pass);
    gr_judge_free(&j);
    gr_encoder_free(&encoder);
    gr_tokenizer_close(tokenizer);
}

static struct gr_prompt *prompt_of(struct gr_tokenizer *tokenizer, int max_text)
{
    struct gr_prompt *p = NULL;
    struct gr_err err;
    gr_test_ok(gr_prompt_new(tokenizer, 1, config->dims.vit.tokens, max_text, true, &p, &err), &err);
    return p;
}

/* More room for text changes nothing unless an instruction had to be cut. */
static void a_digest_tells_what_a_calibration_saw(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_tokenizer *tokenizer = NULL;
    char hex[3][GR_DIGEST_HEX_BYTES];
    gr_test_ok(gr_tokenizer_open(gr_test_join(demo_dir, "tokenizer"), &tokenizer, &err), &err);
    const int room[] = {24, 152, 2};
    for (int i = 0; i < 3; i++) {
        struct gr_encoder encoder = {.config = config, .prompt = prompt_of(tokenizer, room[i])};
        gr_test_ok(gr_judge_digest(&encoder, hex[i], &err), &err);
        gr_prompt_free(encoder.prompt);
    }
    assert_string_equal(hex[0], hex[1]);
    assert_string_not_equal(hex[0], hex[2]);
    gr_tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_tells_what_a_calibration_saw),
        cmocka_unit_test(equal_chunks_pass),
        cmocka_unit_test(one_bad_group_fails_the_whole),
        cmocka_unit_test(a_nearly_constant_group_is_judged_by_its_differences),
        cmocka_unit_test(constant_chunks_are_judged_by_their_differences),
        cmocka_unit_test(the_slice_and_values_that_are_not_finite_count),
        cmocka_unit_test(the_device_gets_inputs_and_verdicts),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
