/* SPDX-License-Identifier: Apache-2.0
 *
 * test_demo.c: the demo observation of the shipped embodiment, and the made-up one of a robot with other cameras. */
#include "demo_snapshot.h"
#include "gr00t.h"
#include "gr_test.h"
#include "model/embedded.h"
#include "policy/demo.h"
#include "policy/golden.h"

static struct gr_policy *open_demo(const char *dir, const char *embodiment)
{
    struct gr_policy *policy = NULL;
    struct gr_err err;
    struct gr_options options = {.precision = "exact", .embodiment = embodiment, .threads = 1, .max_text_tokens = 24};
    gr_test_ok(gr_policy_open(dir, &options, &policy, &err), &err);
    return policy;
}

/* Every picture decodes to the frame that the observation has. */
static void check_pictures(const struct gr_demo *demo)
{
    for (int i = 0; i < demo->obs.n_frames; i++) {
        struct gr_image image;
        struct gr_err err;
        const struct gr_frame *f = &demo->obs.frames[i];
        gr_test_ok(gr_image_decode(demo->pictures[i].png, demo->pictures[i].n_bytes, &image, &err), &err);
        assert_int_equal(image.height, f->height);
        assert_int_equal(image.width, f->width);
        assert_memory_equal(image.rgb, f->rgb, 3 * (size_t)f->height * (size_t)f->width);
        gr_image_free(&image);
    }
}

static void the_gr1_demo_is_the_recording(void **state)
{
    (void)state;
    struct gr_policy *policy = open_demo(demo_dir, "gr1");
    struct gr_demo demo;
    struct gr_err err;
    gr_test_ok(gr_demo_make(policy, &demo, &err), &err);
    assert_true(demo.shipped);
    assert_int_equal(demo.obs.n_frames, 1);
    assert_int_equal(demo.obs.state_dim, 29);
    assert_true(demo.obs.state[0] == 0.0591 && demo.obs.state[28] == 0.0048);
    assert_int_equal(demo.obs.seed, 42);
    assert_string_equal(demo.obs.instruction, "pick the pear from the counter and place it in the plate");
    assert_int_equal(demo.pictures[0].n_bytes, gr_embed_demo_frame_size);
    check_pictures(&demo);
    gr_demo_free(&demo);
    gr_demo_free(&demo); /* twice is allowed */
    gr_policy_close(policy);
}

static void other_cameras_get_a_made_up_demo(void **state)
{
    (void)state;
    struct gr_policy *policy = open_demo(two_camera_snapshot(), "gr1");
    const struct gr_info *info = gr_policy_info(policy);
    struct gr_demo demo;
    struct gr_err err;
    gr_test_ok(gr_demo_make(policy, &demo, &err), &err);
    assert_false(demo.shipped);
    assert_int_equal(demo.obs.n_frames, 2);
    assert_int_equal(demo.obs.state_dim, info->state_dim);
    assert_int_equal(demo.obs.seed, 42);
    check_pictures(&demo);
    struct gr_chunk *chunk = NULL;
    gr_test_ok(gr_chunk_new(policy, &chunk, &err), &err);
    gr_test_ok(gr_policy_predict(policy, &demo.obs, chunk, &err), &err);
    gr_chunk_free(chunk);
    gr_demo_free(&demo);
    gr_policy_close(policy);
}

static void the_golden_s_identity_is_the_demo_snapshot_s(void **state)
{
    (void)state;
    struct gr_policy *policy = open_demo(demo_dir, "gr1");
    struct gr_demo demo;
    struct gr_golden_key key;
    struct gr_err err;
    gr_test_ok(gr_demo_make(policy, &demo, &err), &err);
    gr_test_ok(gr_golden_key_make(policy, &demo.obs, 116, &key, &err), &err);
    if (!gr_golden_is_shipped(&key, &demo)) {
        fail_msg("data/demo/golden/identity.txt is not that of the demo snapshot:\n%s", key.identity);
    }
    gr_demo_free(&demo);
    gr_policy_close(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gr1_demo_is_the_recording),
        cmocka_unit_test(other_cameras_get_a_made_up_demo),
        cmocka_unit_test(the_golden_s_identity_is_the_demo_snapshot_s),
    };
    return cmocka_run_group_tests_name("demo", tests, make_demo, gr_test_temp_clean);
}
