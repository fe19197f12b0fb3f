/* SPDX-License-Identifier: Apache-2.0
 *
 * test_state.c: the state encoding bit for bit, its three modes in both dtypes, constant dimensions, and states it must refuse. */
#include "gr_test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/state.h"
#include "side_files.h"
#include "state_cases.h"

#define GR1 "\"gr1\""
#define STATE GR1 "|\"state\":"

enum { DIM = 29, MAX_STATE = 128 };

static void check_case(const struct state_case *c)
{
    float out[MAX_STATE];
    struct gr_err err = {0};
    memset(out, 0xff, sizeof out);
    gr_test_ok(gr_state_encode(c->cfg, c->state, DIM, c->is_f64, out, &err), &err);
    for (int i = 0; i < MAX_STATE; i++) {
        float want = i < 64 ? c->encoded[i] : 0.0f;
        if (memcmp(&out[i], &want, sizeof want) != 0) {
            fail_msg("record %d: value %d is %a, expected %a", c->line, i, (double)out[i], (double)want);
        }
    }
}

static void committed_records_encode_to_the_same_bits(void **state)
{
    (void)state;
    assert_int_equal(state_cases_run(gr_test_source("tests/data/state_actions/cases.jsonl"), check_case), 9);
}

static void all_records_of_the_specification_encode_to_the_same_bits(void **state)
{
    (void)state;
    assert_int_equal(state_cases_run(gr_test_shared("spec/state_action_cases.jsonl"), check_case), 42);
}

/* The published files with switches; state of zeros unless set. */
static struct gr_config *config(const char *sincos, const char *clip, const char *waist, const char *mean_std)
{
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, NULL, "apply_sincos_state_encoding", sincos);
    side_files_set(&files, SIDE_PROCESSOR, NULL, "clip_outliers", clip);
    side_files_set(&files, SIDE_PROCESSOR, STATE, "mean_std_embedding_keys", mean_std);
    if (waist != NULL) {
        side_files_set(&files, SIDE_STATISTICS, STATE, "waist", waist);
    }
    gr_test_ok(side_files_parse(&files, "gr1", &cfg, &err), &err);
    side_files_free(&files);
    return cfg;
}

/* Measured over 2 million values a range: 7.1e-8 up to 10^6, 3.3e-7 up to 2^22, where the product v * 2/pi runs out of digits. */
static void sine_and_cosine_of_float32_are_close_to_the_double_ones(void **state)
{
    (void)state;
    struct gr_config *cfg = config("true", "true", NULL, "null");
    float out[MAX_STATE];
    struct gr_err err = {0};
    uint64_t seed = 12345;
    for (int round = 0; round < 3000; round++) {
        double v[DIM];
        for (int i = 0; i < DIM; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            double unit = (double)(seed >> 11) * 0x1p-53 * 2.0 - 1.0;
            v[i] = unit * (round % 3 == 0 ? 4.0 : round % 3 == 1 ? 300.0 : 0x1p22);
        }
        gr_test_ok(gr_state_encode(cfg, v, DIM, false, out, &err), &err);
        double bound = round % 3 == 2 ? 5e-7 : 7.5e-8;
        for (int i = 0, at = 0, g = 0; g < cfg->emb.n_state; at += 2 * cfg->emb.state[g++].dim) {
            for (int k = 0; k < cfg->emb.state[g].dim; k++, i++) {
                double x = (double)(float)v[i];
                assert_true(fabs((double)out[at + k] - sin(x)) <= bound);
                assert_true(fabs((double)out[at + cfg->emb.state[g].dim + k] - cos(x)) <= bound);
            }
        }
    }
    gr_config_free(cfg);
}

static void zero_keeps_its_sign(void **state)
{
    (void)state;
    struct gr_config *cfg = config("true", "true", NULL, "null");
    double v[DIM] = {0.0, -0.0};
    float out[MAX_STATE];
    struct gr_err err = {0};
    for (int is_f64 = 0; is_f64 < 2; is_f64++) {
        gr_test_ok(gr_state_encode(cfg, v, DIM, is_f64 != 0, out, &err), &err);
        assert_true(out[0] == 0.0f && !signbit(out[0]));
        assert_true(out[1] == 0.0f && signbit(out[1]));
        assert_true(out[7] == 1.0f && out[8] == 1.0f);
    }
    gr_config_free(cfg);
}

static void beyond_two_to_the_22_the_c_library_takes_over(void **state)
{
    (void)state;
    struct gr_config *cfg = config("true", "true", NULL, "null");
    static const float values[] = {0x1p22f, -0x1p22f, 0x1.fffffep21f, 5e6f, 1e10f, -3e30f, FLT_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double v[DIM] = {(double)values[i]};
        float out[MAX_STATE];
        struct gr_err err = {0};
        gr_test_ok(gr_state_encode(cfg, v, DIM, false, out, &err), &err);
        assert_true(fabs((double)out[0] - sin(v[0])) <= 5e-7);
        assert_true(fabs((double)out[7] - cos(v[0])) <= 5e-7);
        if (fabsf(values[i]) >= 0x1p22f) {
            assert_true(out[0] == sinf(values[i]) && out[7] == cosf(values[i]));
        }
    }
    gr_config_free(cfg);
}

static void a_float32_request_rounds_and_a_float64_request_does_not(void **state)
{
    (void)state;
    struct gr_config *cfg = config(
        "false", "true", "{\"min\": [0, 0, 0], \"max\": [3, 3, 3], \"mean\": [0, 0, 0], \"std\": [1, 1, 1]}", "null");
    double v[DIM] = {0};
    float f32[MAX_STATE], f64[MAX_STATE];
    struct gr_err err = {0};
    v[26] = 1.5000000001; /* rounds to 1.5: exactly the middle */
    gr_test_ok(gr_state_encode(cfg, v, DIM, false, f32, &err), &err);
    gr_test_ok(gr_state_encode(cfg, v, DIM, true, f64, &err), &err);
    assert_true(f32[26] == 0.0f);
    assert_true(f64[26] == (float)(2.0 * (1.5000000001 / 3.0) - 1.0) && f64[26] > 0.0f);
    gr_config_free(cfg);
}

static void constant_dimensions_encode_to_zero(void **state)
{
    (void)state;
    /* The second is within 1e-8 of constant, the third is not. */
    struct gr_config *cfg = config(
        "false", "true",
        "{\"min\": [0.0, 0.0, -0.1], \"max\": [0.0, 1e-09, 0.1], \"mean\": [0, 0, 0], \"std\": [0, 0, 0.05]}", "null");
    double v[DIM] = {0};
    float out[MAX_STATE];
    struct gr_err err = {0};
    v[26] = 0.3, v[27] = -5.0, v[28] = 0.05;
    for (int is_f64 = 0; is_f64 < 2; is_f64++) {
        gr_test_ok(gr_state_encode(cfg, v, DIM, is_f64 != 0, out, &err), &err);
        assert_true(out[26] == 0.0f && out[27] == 0.0f);
        assert_true(fabsf(out[28] - 0.5f) < 1e-6f);
    }
    gr_config_free(cfg);
}

static void closeness_is_measured_from_the_minimum(void **state)
{
    (void)state;
    /* 0.01000005 apart at 1000: not close by 1e-8 + 1e-5 * |min|, close by the same rule on max. */
    struct gr_config *cfg = config(
        "false", "true",
        "{\"min\": [1000, -1000, 0], \"max\": [1000.01000005, -999.98999995, 1], \"mean\": [0, 0, 0], \"std\": [1, 1, 1]}",
        "null");
    double v[DIM] = {0};
    float out[MAX_STATE];
    struct gr_err err = {0};
    v[26] = 1000.0, v[27] = -1000.0;
    gr_test_ok(gr_state_encode(cfg, v, DIM, true, out, &err), &err);
    assert_true(out[26] == -1.0f && out[27] == -1.0f);
    gr_config_free(cfg);
}

static void the_reported_constant_statistics_give_no_nan(void **state)
{
    (void)state;
    char *text =
        (char *)gr_test_read(gr_test_shared("pain/files/weights/stats_constant_dim/statistics_fragment.json"), NULL);
    char *waist = strchr(text + 1, '{'); /* {"waist": {...}} */
    *strrchr(text, '}') = '\0';
    for (int mode = 0; mode < 2; mode++) {
        struct gr_config *cfg = config("false", "true", waist, mode == 0 ? "null" : "[\"waist\"]");
        double v[DIM] = {0};
        float out[MAX_STATE];
        struct gr_err err = {0};
        v[26] = 0.25;
        gr_test_ok(gr_state_encode(cfg, v, DIM, false, out, &err), &err);
        assert_true(out[26] == (mode == 0 ? 0.0f : 0.25f)); /* std 0: the value itself */
        gr_config_free(cfg);
    }
    free(text);
}

static void outliers_are_clipped_only_when_asked(void **state)
{
    (void)state;
    const char *waist = "{\"min\": [0, 0, 0], \"max\": [1, 1, 1], \"mean\": [0, 0, 0], \"std\": [1, 1, 1]}";
    for (int clip = 0; clip < 2; clip++) {
        struct gr_config *cfg = config("false", clip ? "true" : "false", waist, "null");
        double v[DIM] = {0};
        float out[MAX_STATE];
        struct gr_err err = {0};
        v[26] = 3.0, v[27] = -3.0, v[28] = 0.5;
        gr_test_ok(gr_state_encode(cfg, v, DIM, false, out, &err), &err);
        assert_true(out[26] == (clip ? 1.0f : 5.0f));
        assert_true(out[27] == (clip ? -1.0f : -7.0f));
        assert_true(out[28] == 0.0f);
        gr_config_free(cfg);
    }
}

static void values_that_are_not_finite_in_float32_are_refused(void **state)
{
    (void)state;
    static const double values[] = {NAN, INFINITY, -INFINITY, 1e39, -1e300};
    struct gr_config *cfg = config("true", "true", NULL, "null");
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        for (int is_f64 = 0; is_f64 < 2; is_f64++) {
            double v[DIM] = {0};
            float out[MAX_STATE];
            struct gr_err err = {0};
            v[20 + 3] = values[i]; /* right_hand starts at 20 */
            gr_test_fails(gr_state_encode(cfg, v, DIM, is_f64 != 0, out, &err), &err, GR_ERR_INPUT,
                          "state.right_hand[3]");
        }
    }
    gr_config_free(cfg);
}

static void a_value_that_overflows_once_normalised_is_refused(void **state)
{
    (void)state;
    const char *waist = "{\"min\": [0, 0, 0], \"max\": [1e-3, 1, 1], \"mean\": [0, 0, 0], \"std\": [1, 1e-30, 1]}";
    double v[DIM] = {0};
    float out[MAX_STATE];
    struct gr_err err = {0};
    v[26] = 3e38;
    struct gr_config *cfg = config("false", "false", waist, "null");
    gr_test_fails(gr_state_encode(cfg, v, DIM, false, out, &err), &err, GR_ERR_INPUT,
                  "state.waist[0] is 3e+38, too far from its statistics");
    gr_config_free(cfg);
    cfg = config("false", "true", waist, "null"); /* clipped: fine */
    gr_test_ok(gr_state_encode(cfg, v, DIM, false, out, &err), &err);
    assert_true(out[26] == 1.0f);
    gr_config_free(cfg);
    v[26] = 0.0, v[27] = 1e10;
    cfg = config("false", "true", waist, "[\"waist\"]");
    gr_test_fails(gr_state_encode(cfg, v, DIM, true, out, &err), &err, GR_ERR_INPUT, "state.waist[1]");
    gr_config_free(cfg);
}

static void a_state_of_another_width_is_refused(void **state)
{
    (void)state;
    struct gr_config *cfg = config("true", "true", NULL, "null");
    double v[DIM + 1] = {0};
    float out[MAX_STATE];
    struct gr_err err = {0};
    gr_test_fails(gr_state_encode(cfg, v, 28, false, out, &err), &err, GR_ERR_INPUT,
                  "state has 28 numbers, expected 29");
    gr_test_fails(gr_state_encode(cfg, v, 30, false, out, &err), &err, GR_ERR_INPUT,
                  "state has 30 numbers, expected 29");
    gr_test_fails(gr_state_encode(cfg, v, 0, false, out, &err), &err, GR_ERR_INPUT, "state has 0 numbers, expected 29");
    gr_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_records_encode_to_the_same_bits),
        cmocka_unit_test(all_records_of_the_specification_encode_to_the_same_bits),
        cmocka_unit_test(sine_and_cosine_of_float32_are_close_to_the_double_ones),
        cmocka_unit_test(zero_keeps_its_sign),
        cmocka_unit_test(beyond_two_to_the_22_the_c_library_takes_over),
        cmocka_unit_test(a_float32_request_rounds_and_a_float64_request_does_not),
        cmocka_unit_test(constant_dimensions_encode_to_zero),
        cmocka_unit_test(closeness_is_measured_from_the_minimum),
        cmocka_unit_test(the_reported_constant_statistics_give_no_nan),
        cmocka_unit_test(outliers_are_clipped_only_when_asked),
        cmocka_unit_test(values_that_are_not_finite_in_float32_are_refused),
        cmocka_unit_test(a_value_that_overflows_once_normalised_is_refused),
        cmocka_unit_test(a_state_of_another_width_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
