/* SPDX-License-Identifier: Apache-2.0
 *
 * test_observation.c: the built-in observations, and the arithmetic that the bench counts for them. */
#include "gr_test.h"

#include <math.h>
#include <string.h>

#include "cli/bench_meter.h"
#include "cli/flops.h"
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
        "134f5803dde23f3d38136deb2314b62960915f0a3ae54c27441203b3786f1aa7",
        "972d965ac8850980adec5bc3c6ab13756da7cf2a3b3967e87c64605bed181d27",
        "29c15373778e00a42448bdbd1167c85010bb8ae7f2e602988c9b1e1a09b459a8",
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

static struct gr_dims published_dims(void)
{
    struct gr_dims d = {0};
    d.vit.hidden = 1152, d.vit.mlp = 4304, d.vit.layers = 27, d.vit.heads = 16, d.vit.patches = 324, d.vit.tokens = 81;
    d.llm.hidden = 2048, d.llm.mlp = 6144, d.llm.layers = 16, d.llm.heads = 16, d.llm.kv_heads = 8,
    d.llm.head_dim = 128;
    d.dit.layers = 32, d.dit.heads = 32, d.dit.head_dim = 48, d.dit.width = 1536, d.dit.mlp = 6144, d.dit.out = 1024;
    d.dit.hidden = 1024, d.dit.max_state = 128, d.dit.max_action = 128, d.dit.horizon = 50, d.dit.steps = 4,
    d.dit.text_every = 2;
    return d;
}

static void work_of_the_published_shapes_is_as_published(void **state)
{
    (void)state;
    struct gr_dims d = published_dims();
    struct gr_flops at116 = gr_flops_of(&d, 1, 116), at128 = gr_flops_of(&d, 1, 128);
    const double got[] = {at116.vision, at116.llm,     at116.adapter, at116.denoise,
                          at128.llm,    at128.adapter, at128.denoise};
    const double want[] = {282.1, 188.6, 11.7, 345.1, 208.3, 12.9, 345.2}; /* GFLOP, to a decimal */
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++) {
        assert_true(fabs(got[i] / 1e9 - want[i]) < 0.06);
    }
    assert_true(fabs(at116.total / 1e9 - 827.5) < 0.1);
}

static void spread_sorts_and_takes_the_middle(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 3}, one[] = {7};
    struct gr_spread s = gr_spread_of(odd, 3);
    assert_true(s.p50 == 2 && s.min == 1 && s.max == 3);
    assert_true(gr_spread_of(even, 4).p50 == 2.5);
    s = gr_spread_of(one, 1);
    assert_true(s.p50 == 7 && s.min == 7 && s.max == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observation_k_is_mean_plus_k_tenths_of_std),
        cmocka_unit_test(the_last_word_changes_and_nothing_else),
        cmocka_unit_test(pictures_are_the_same_on_every_machine),
        cmocka_unit_test(every_frame_of_an_observation_differs),
        cmocka_unit_test(work_of_the_published_shapes_is_as_published),
        cmocka_unit_test(spread_sorts_and_takes_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
