/* SPDX-License-Identifier: Apache-2.0
 *
 * test_actions.c: decoded joint targets bit for bit; relative groups come out absolute, once; nothing that is not finite gets out. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/actions.h"
#include "side_files.h"
#include "state_cases.h"

#define GR1 "\"gr1\""
#define ACTION GR1 "|\"action\":"

enum { DIM = 29, STEPS = 16, HORIZON = 50, WIDTH = 128, WAIST = 26 };

static void check_case(const struct state_case *c)
{
    float out[STEPS * DIM];
    struct gr_err err = {0};
    gr_test_ok(gr_actions_decode(c->cfg, c->normalized, c->state, c->is_f64, out, &err), &err);
    for (int i = 0; i < STEPS * DIM; i++) {
        if (memcmp(&out[i], &c->actions[i], sizeof out[i]) != 0) {
            fail_msg("record %d: step %d, value %d is %a, expected %a", c->line, i / DIM, i % DIM, (double)out[i],
                     (double)c->actions[i]);
        }
    }
}

static void committed_records_decode_to_the_same_bits(void **state)
{
    (void)state;
    assert_int_equal(state_cases_run(gr_test_source("tests/data/state_actions/cases.jsonl"), check_case), 9);
}

static void all_records_of_the_specification_decode_to_the_same_bits(void **state)
{
    (void)state;
    assert_int_equal(state_cases_run(gr_test_shared("spec/state_action_cases.jsonl"), check_case), 42);
}

struct fixture {
    struct gr_config *cfg;
    double state[DIM];
    float normalized[HORIZON * WIDTH], out[STEPS * DIM];
};

/* All outputs of the network `x`; mean/std groups of the action as a JSON list. */
static void set_up(struct fixture *f, float x, const char *mean_std)
{
    struct side_files files;
    struct gr_err err = {0};
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, ACTION, "mean_std_embedding_keys", mean_std);
    side_files_set(&files, SIDE_STATISTICS, ACTION, "waist",
                   "{\"min\": [-1, 2, 3], \"max\": [1, 2, 3.5], \"mean\": [0.5, 7, 1], \"std\": [2, 0, 1e38]}");
    f->cfg = NULL;
    gr_test_ok(side_files_parse(&files, "gr1", &f->cfg, &err), &err);
    side_files_free(&files);
    for (int i = 0; i < DIM; i++) {
        f->state[i] = 0.01 * i + 0.125;
    }
    for (int i = 0; i < HORIZON * WIDTH; i++) {
        f->normalized[i] = x;
    }
}

static void decode(struct fixture *f)
{
    struct gr_err err = {0};
    gr_test_ok(gr_actions_decode(f->cfg, f->normalized, f->state, false, f->out, &err), &err);
}

static void zero_in_a_relative_group_is_the_state_plus_the_middle_of_that_step(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, 0.0f, "null");
    decode(&f);
    for (int step = 0; step < STEPS; step++) {
        for (int g = 0, at = 0; g < 4; at += f.cfg->emb.action[g++].dim) {
            const struct gr_group_config *a = &f.cfg->emb.action[g];
            for (int i = 0; i < a->dim; i++) {
                int t = step * a->dim + i;
                double middle = (a->lo[t] + a->hi[t]) / 2.0, want = (double)(float)f.state[at + i] + middle;
                assert_true(fabs((double)f.out[step * DIM + at + i] - want) <= 1e-6);
            }
        }
        assert_true(f.out[step * DIM + WAIST] == 0.0f); /* absolute: the middle, no state */
    }
    gr_config_free(f.cfg);
}

static void a_state_raised_by_a_tenth_raises_only_its_own_relative_targets(void **state)
{
    (void)state;
    struct fixture f;
    float before[STEPS * DIM];
    set_up(&f, 0.3f, "null");
    decode(&f);
    memcpy(before, f.out, sizeof before);
    f.state[0] += 0.1;
    f.state[WAIST] += 0.1; /* absolute: no effect */
    decode(&f);
    for (int i = 0; i < STEPS * DIM; i++) {
        if (i % DIM == 0) {
            assert_true(fabs((double)f.out[i] - (double)before[i] - 0.1) <= 1e-6);
        } else {
            assert_true(f.out[i] == before[i]);
        }
    }
    gr_config_free(f.cfg);
}

static void values_beyond_one_decode_as_one(void **state)
{
    (void)state;
    static const float pairs[][2] = {{5.0f, 1.0f}, {-5.0f, -1.0f}, {3e38f, 1.0f}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct fixture f;
        float far[STEPS * DIM];
        set_up(&f, pairs[i][0], "null");
        decode(&f);
        memcpy(far, f.out, sizeof far);
        gr_config_free(f.cfg);
        set_up(&f, pairs[i][1], "null");
        decode(&f);
        assert_memory_equal(far, f.out, sizeof far);
        gr_config_free(f.cfg);
    }
}

static void constant_dimensions_decode_to_their_minimum(void **state)
{
    (void)state;
    static const float values[] = {-1.0f, -0.2f, 0.0f, 0.7f, 9.0f};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct fixture f;
        set_up(&f, values[i], "null");
        decode(&f);
        for (int step = 0; step < STEPS; step++) {
            assert_true(f.out[step * DIM + WAIST + 1] == 2.0f);
        }
        gr_config_free(f.cfg);
    }
}

static void mean_std_groups_are_scaled_not_clipped_and_pass_where_std_is_zero(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, 1.5f, "[\"waist\"]");
    decode(&f);
    for (int step = 0; step < STEPS; step++) {
        assert_true(f.out[step * DIM + WAIST] == 3.5f);
        assert_true(f.out[step * DIM + WAIST + 1] == 1.5f);
    }
    gr_config_free(f.cfg);
}

static void the_state_is_added_as_the_request_dtype_holds_it(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_err err = {0};
    int different = 0;
    set_up(&f, 0.0f, "null");
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < DIM; i++) {
            f.state[i] = 0.1 * i + 0.0123456789 * round;
        }
        for (int is_f64 = 0; is_f64 < 2; is_f64++) {
            gr_test_ok(gr_actions_decode(f.cfg, f.normalized, f.state, is_f64 != 0, f.out, &err), &err);
            for (int i = 0; i < 7; i++) { /* left_arm, step 0 */
                const struct gr_group_config *g = &f.cfg->emb.action[0];
                double offset = 0.5 * (g->hi[i] - g->lo[i]) + g->lo[i];
                double as_f64 = f.state[i] + offset, as_f32 = (double)(float)f.state[i] + offset;
                assert_true(f.out[i] == (float)(is_f64 ? as_f64 : as_f32));
                different += (float)as_f64 != (float)as_f32;
            }
        }
    }
    assert_true(different > 0); /* else the test shows nothing */
    gr_config_free(f.cfg);
}

static void a_used_value_that_is_not_finite_is_the_devices_fault(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct fixture f;
        struct gr_err err = {0};
        set_up(&f, 0.0f, "null");
        f.normalized[15 * WIDTH + 13] = values[i]; /* right_arm[6] of the last step */
        gr_test_fails(gr_actions_decode(f.cfg, f.normalized, f.state, false, f.out, &err), &err, GR_ERR_DEVICE,
                      "action.right_arm[6] of step 15");
        f.normalized[15 * WIDTH + 13] = 0.0f;
        f.normalized[15 * WIDTH + DIM] = values[i]; /* behind the used columns */
        f.normalized[STEPS * WIDTH] = values[i];    /* behind the used rows */
        gr_test_ok(gr_actions_decode(f.cfg, f.normalized, f.state, false, f.out, &err), &err);
        gr_config_free(f.cfg);
    }
}

static void a_target_beyond_float32_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_err err = {0};
    set_up(&f, 100.0f, "[\"waist\"]"); /* 100 * 1e38 */
    gr_test_fails(gr_actions_decode(f.cfg, f.normalized, f.state, false, f.out, &err), &err, GR_ERR_DEVICE,
                  "action.waist[2] of step 0");
    gr_config_free(f.cfg);

    set_up(&f, 0.0f, "null");
    f.state[0] = 3.4028234e38; /* stays finite: the offset is far below its last digit */
    decode(&f);
    assert_true(f.out[0] == 3.4028234e38f);
    gr_config_free(f.cfg);

    char max[4096] = "[";
    size_t n = 1;
    for (int step = 0; step < STEPS; step++) {
        n += (size_t)snprintf(max + n, sizeof max - n, "%s[3e38, 1, 1, 1, 1, 1, 1]", step > 0 ? ", " : "");
    }
    snprintf(max + n, sizeof max - n, "]");
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_STATISTICS, GR1 "|\"relative_action\":|\"left_arm\"", "max", max);
    gr_test_ok(side_files_parse(&files, "gr1", &f.cfg, &err), &err);
    side_files_free(&files);
    for (int i = 0; i < HORIZON * WIDTH; i++) {
        f.normalized[i] = 1.0f;
    }
    f.state[0] = 3e38;
    gr_test_fails(gr_actions_decode(f.cfg, f.normalized, f.state, false, f.out, &err), &err, GR_ERR_INPUT,
                  "state of action.left_arm[0] is 3e+38");
    f.state[0] = 0.0;
    decode(&f);
    assert_true(f.out[0] == 3e38f);
    gr_config_free(f.cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_records_decode_to_the_same_bits),
        cmocka_unit_test(all_records_of_the_specification_decode_to_the_same_bits),
        cmocka_unit_test(zero_in_a_relative_group_is_the_state_plus_the_middle_of_that_step),
        cmocka_unit_test(a_state_raised_by_a_tenth_raises_only_its_own_relative_targets),
        cmocka_unit_test(values_beyond_one_decode_as_one),
        cmocka_unit_test(constant_dimensions_decode_to_their_minimum),
        cmocka_unit_test(mean_std_groups_are_scaled_not_clipped_and_pass_where_std_is_zero),
        cmocka_unit_test(the_state_is_added_as_the_request_dtype_holds_it),
        cmocka_unit_test(a_used_value_that_is_not_finite_is_the_devices_fault),
        cmocka_unit_test(a_target_beyond_float32_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
