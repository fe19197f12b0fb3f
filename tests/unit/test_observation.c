/* SPDX-License-Identifier: Apache-2.0
 *
 * test_observation.c: the built-in observations. */
#include "gr_test.h"

#include <string.h>

#include "policy/observation.h"

static const double mean_a[] = {1.0, -2.0}, std_a[] = {0.5, 0.0}, mean_b[] = {3.0}, std_b[] = {10.0};
static struct gr_group_config groups[] = {{.name = "a", .dim = 2, .mean = mean_a, .std = std_a},
                                          {.name = "b", .dim = 1, .mean = mean_b, .std = std_b}};

static struct gr_config small_config(int cameras, int frames)
{
    struct gr_config c = {0};
    c.emb = (struct gr_embodiment){
        .tag = "t", .n_cameras = cameras, .frames_per_camera = frames, .n_state = 2, .state_dim = 3, .state = groups};
    return c;
}

static void observation_k_is_mean_plus_k_tenths_of_std(void **state)
{
    (void)state;
    struct gr_config cfg = small_config(1, 1);
    struct gr_sample s;
    struct gr_err err;
    gr_test_ok(gr_sample_make(&cfg, 2, &s, &err), &err);
    assert_int_equal(s.obs.state_dim, 3);
    assert_true(s.obs.state[0] == 1.0 + 0.2 * 0.5 && s.obs.state[1] == -2.0 && s.obs.state[2] == 3.0 + 0.2 * 10.0);
    assert_int_equal(s.obs.n_frames, 1);
    assert_int_equal(s.obs.frames[0].height, GR_SAMPLE_SIDE);
    assert_int_equal(s.obs.noise_kind, GR_NOISE_SEED);
    assert_true(s.obs.seed == 43);
    gr_sample_free(&s);
    gr_test_fails(gr_sample_make(&cfg, 0, &s, &err), &err, GR_ERR_USAGE, "count from 1");
}

static void the_last_word_changes_and_nothing_else(void **state)
{
    (void)state;
    static const char *const stem = "pick the pear from the counter and place it in the ";
    char a[GR_SAMPLE_TEXT_BYTES], b[GR_SAMPLE_TEXT_BYTES];
    for (int k = 1; k < 30; k++) {
        gr_sample_instruction(k, a);
        gr_sample_instruction(k + 1, b);
        assert_memory_equal(a, stem, strlen(stem));
        assert_string_not_equal(a, b);
        assert_null(strchr(a + strlen(stem), ' '));
        assert_string_not_equal(a + strlen(stem), "plate"); /* the demo's own */
    }
}

/* The bytes are part of the calibration: another picture is another calibration. */
static void pictures_are_the_same_on_every_machine(void **state)
{
    (void)state;
    static uint8_t rgb[GR_SAMPLE_SIDE * GR_SAMPLE_SIDE * 3];
    static const char *const want[] = {
        "b86423344b6214be5737efb9437ffab95be9e6b6d56ceca561d0709f52a1441b",
        "74f3644ae77348b1f5b5d4fb924ab832a3809780823e76675beb7e5dcf3d49ca",
        "efa5f63810c85fa00653cb2bee537076b55aaf201369db4ed2a8e8c8f8630975",
    };
    for (int k = 1; k <= 3; k++) {
        char hex[65];
        gr_sample_picture(k, 0, rgb);
        gr_test_sha256(rgb, sizeof rgb, hex);
        assert_string_equal(hex, want[k - 1]);
    }
}

static void every_frame_of_an_observation_differs(void **state)
{
    (void)state;
    struct gr_config cfg = small_config(2, 2);
    struct gr_sample s;
    struct gr_err err;
    gr_test_ok(gr_sample_make(&cfg, 1, &s, &err), &err);
    assert_int_equal(s.obs.n_frames, 4);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(s.frames[i].rgb, s.frames[j].rgb, GR_SAMPLE_SIDE * GR_SAMPLE_SIDE * 3);
        }
    }
    gr_sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observation_k_is_mean_plus_k_tenths_of_std),
        cmocka_unit_test(the_last_word_changes_and_nothing_else),
        cmocka_unit_test(pictures_are_the_same_on_every_machine),
        cmocka_unit_test(every_frame_of_an_observation_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
