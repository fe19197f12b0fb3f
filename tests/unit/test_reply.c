/* SPDX-License-Identifier: Apache-2.0
 *
 * test_reply.c: replies of POST /predict: fields and their order, numbers, errors in both shapes. */
#include "gr_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/reply.h"

enum { STEPS = 2, DIM = 5, HORIZON = 3, WIDTH = 8 };

struct fixture {
    struct gr_info info;
    struct gr_observation obs;
    struct gr_chunk chunk;
    struct gr_frame frame;
    struct gr_image image;
    float actions[STEPS * DIM], normalized[HORIZON * WIDTH];
    struct gr_reply_view view;
};

static const struct gr_group groups[] = {{"arm", 3, true}, {"waist", 2, false}};
static const char *const cameras[] = {"cam"};

static void make(struct fixture *f)
{
    *f = (struct fixture){0};
    for (int i = 0; i < STEPS * DIM; i++) {
        f->actions[i] = (float)i / 10.0f;
    }
    for (int i = 0; i < HORIZON * WIDTH; i++) {
        f->normalized[i] = (float)i / 4.0f;
    }
    f->frame = (struct gr_frame){NULL, 480, 640};
    f->image.exif_orientation = 1;
    f->info = (struct gr_info){.embodiment = "gr1",
                               .embodiment_slot = 20,
                               .n_cameras = 1,
                               .frames_per_camera = 1,
                               .cameras = cameras,
                               .n_action_groups = 2,
                               .action_dim = DIM,
                               .action_groups = groups,
                               .action_steps = STEPS};
    f->obs = (struct gr_observation){.frames = &f->frame, .n_frames = 1, .seed = 9223372036854775807u};
    f->chunk = (struct gr_chunk){.steps = STEPS,
                                 .dim = DIM,
                                 .actions = f->actions,
                                 .horizon = HORIZON,
                                 .max_action_dim = WIDTH,
                                 .normalized = f->normalized,
                                 .n_tokens = 116,
                                 .n_text = 12,
                                 .timing = {.encode = 1.25, .device = 30, .decode_actions = 0.5}};
    f->view = (struct gr_reply_view){.info = &f->info,
                                     .obs = &f->obs,
                                     .chunk = &f->chunk,
                                     .model = "M",
                                     .version = "n16",
                                     .layout = "gr1",
                                     .decode_ms = 0.75,
                                     .queue_ms = 2,
                                     .total_ms = 34.5,
                                     .images = &f->image};
}

static void a_reply_has_the_fields_of_the_contract_in_order(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_buf b = {0};
    struct gr_err err;
    make(&f);
    gr_test_ok(gr_reply_chunk(&f.view, true, &b, &err), &err);
    assert_string_equal(
        b.data,
        "{\"actions\":{\"arm\":[[0,0.1,0.2],[0.5,0.6,0.7]],\"waist\":[[0.3,0.4],[0.8,0.9]]},\"action_horizon\":2,"
        "\"action_keys\":[\"arm\",\"waist\"],\"action_dims\":{\"arm\":3,\"waist\":2},\"normalized\":false,"
        "\"embodiment\":\"gr1\",\"embodiment_id\":20,\"version\":\"n16\",\"model\":\"M\",\"layout\":\"gr1\","
        "\"images\":{\"cam\":{\"frames\":1,\"received_hw\":[480,640]}},\"seq_len\":116,\"prompt_tokens\":12,"
        "\"state_dtype\":\"float32\",\"noise_source\":\"seed\",\"seed\":9223372036854775807,\"timing_ms\":{"
        "\"decode\":0.75,\"queue\":2,\"encode\":1.25,\"device\":30,\"decode_actions\":0.5,\"total\":34.5}}");
    gr_buf_free(&b);
}

/* The command line has no queue and no layout; RNG-05: noise of the request leaves the seed null; IMG-03: a turn mark is reported. */
static void what_does_not_apply_is_left_out_or_null(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_buf b = {0};
    struct gr_err err;
    make(&f);
    f.view.layout = NULL;
    f.view.queue_ms = -1;
    f.obs.noise_kind = GR_NOISE_GIVEN;
    f.obs.state_dtype = GR_STATE_F64;
    f.image.exif_orientation = 6;
    gr_test_ok(gr_reply_chunk(&f.view, false, &b, &err), &err);
    assert_null(strstr(b.data, "layout"));
    assert_null(strstr(b.data, "queue"));
    assert_non_null(
        strstr(b.data, "\"state_dtype\": \"float64\",\n  \"noise_source\": \"request\",\n  \"seed\": null"));
    assert_non_null(strstr(b.data, "\"exif_orientation\": 6"));
    gr_buf_free(&b);
}

/* ST-05, ST-10: the model-space chunk comes in fields of its own, actions stay what they are. */
static void st_05_normalized_values_add_fields_only(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_buf plain = {0}, with = {0};
    struct gr_err err;
    struct gr_json *root = NULL;
    make(&f);
    gr_test_ok(gr_reply_chunk(&f.view, true, &plain, &err), &err);
    f.view.return_normalized = true;
    gr_test_ok(gr_reply_chunk(&f.view, true, &with, &err), &err);
    assert_memory_equal(with.data, plain.data, plain.len - 1);
    gr_test_ok(gr_json_parse(with.data, with.len, "reply", GR_ERR_INPUT, &root, &err), &err);
    const struct gr_json *all = gr_json_get(root, "action_pred_normalized"),
                         *hd = gr_json_get(root, "action_pred_valid_hd");
    assert_int_equal(gr_json_len(all), HORIZON);
    assert_int_equal(gr_json_len(gr_json_at(all, 0)), WIDTH);
    assert_int_equal(gr_json_len(hd), STEPS);
    assert_int_equal(gr_json_len(gr_json_at(hd, 1)), DIM);
    assert_true(gr_json_number(gr_json_at(gr_json_at(hd, 1), 4)) == 3.0); /* (8 + 4) / 4 */
    gr_json_free(root);
    gr_buf_free(&plain);
    gr_buf_free(&with);
}

/* ST-03, ST-09: NaN never gets out; nothing is written before that is known. */
static void st_09_a_value_that_is_not_finite_fails_whole(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fixture f;
        struct gr_buf b = {0};
        struct gr_err err;
        make(&f);
        f.actions[7] = bad[i];
        gr_test_fails(gr_reply_chunk(&f.view, true, &b, &err), &err, GR_ERR_DEVICE,
                      "non-finite action at step 1, dimension 2");
        assert_int_equal(b.len, 0);
        f.actions[7] = 0;
        f.normalized[WIDTH + 2] = bad[i];
        gr_test_ok(gr_reply_chunk(&f.view, true, &b, &err), &err);
        gr_buf_free(&b);
        f.view.return_normalized = true;
        gr_test_fails(gr_reply_chunk(&f.view, true, &b, &err), &err, GR_ERR_DEVICE, "row 1, column 2");
        assert_int_equal(b.len, 0);
    }
}

static void js_08_printed_numbers_read_back_to_the_same_bits(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t x = 12345;
    for (int round = 0; round < 2000; round++) {
        struct gr_buf b = {0};
        struct gr_err err;
        struct gr_json *root = NULL;
        make(&f);
        for (int i = 0; i < STEPS * DIM; i++) {
            do {
                x = x * 1664525u + 1013904223u;
                uint32_t bits = x ^ x >> 13;
                memcpy(&f.actions[i], &bits, sizeof bits);
            } while (!isfinite(f.actions[i]));
        }
        gr_test_ok(gr_reply_chunk(&f.view, true, &b, &err), &err);
        gr_test_ok(gr_json_parse(b.data, b.len, "reply", GR_ERR_INPUT, &root, &err), &err);
        for (int i = 0; i < STEPS * DIM; i++) {
            const int s = i / DIM, d = i % DIM;
            const struct gr_json *group = gr_json_get(gr_json_get(root, "actions"), d < 3 ? "arm" : "waist");
            float back = (float)gr_json_number(gr_json_at(gr_json_at(group, (size_t)s), (size_t)(d < 3 ? d : d - 3)));
            assert_memory_equal(&back, &f.actions[i], sizeof back);
        }
        gr_json_free(root);
        gr_buf_free(&b);
    }
}

static void errors_come_in_both_shapes(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    gr_reply_error(422, "wrong_type", "state.left_arm[3] is string", "state.left_arm[3]", &b);
    assert_string_equal(b.data,
                        "{\"error\":{\"code\":\"wrong_type\",\"message\":\"state.left_arm[3] is string\",\"field\":"
                        "\"state.left_arm[3]\"},\"detail\":[{\"type\":\"wrong_type\",\"loc\":[\"body\",\"state\","
                        "\"left_arm\",3],\"msg\":\"state.left_arm[3] is string\",\"input\":null}]}");
    gr_buf_free(&b);
    gr_reply_error(400, "bad_image", "cut", "images.cam", &b);
    assert_string_equal(
        b.data, "{\"error\":{\"code\":\"bad_image\",\"message\":\"cut\",\"field\":\"images.cam\"},\"detail\":\"cut\"}");
    gr_buf_free(&b);
    gr_reply_error(422, "unknown_field", "x", "sede", &b);
    assert_non_null(strstr(b.data, "\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"sede\"]"));
    gr_buf_free(&b);
    gr_reply_error(422, "invalid_json", "x", "", &b);
    assert_non_null(strstr(b.data, "\"field\":null},\"detail\":[{\"type\":\"json_invalid\",\"loc\":[\"body\"],"));
    gr_buf_free(&b);
    gr_reply_error(503, "busy", "x", NULL, &b);
    assert_non_null(strstr(b.data, "\"field\":null},\"detail\":\"x\""));
    gr_buf_free(&b);
}

/* JS-02: the words of a client may hold anything. */
static void js_02_error_replies_are_valid_whatever_they_quote(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",    "\xff\xfe",     "\"\\\n\x01",   "[", "[]", "[9999999999999999999999999]", "a[1", "a.[0].",
        "...", "[0][1]x.y[z]", "\xed\xa0\x80", "]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct gr_buf b = {0};
        struct gr_json *root = NULL;
        struct gr_err err;
        gr_reply_error(422, texts[i], texts[i], texts[i], &b);
        gr_test_ok(gr_json_parse(b.data, b.len, "reply", GR_ERR_INPUT, &root, &err), &err);
        gr_json_free(root);
        gr_buf_free(&b);
    }
}

static void statuses_have_their_http_number(void **state)
{
    (void)state;
    assert_int_equal(gr_reply_http_status(GR_OK), 200);
    assert_int_equal(gr_reply_http_status(GR_ERR_INPUT), 400);
    assert_int_equal(gr_reply_http_status(GR_ERR_SCHEMA), 422);
    assert_int_equal(gr_reply_http_status(GR_ERR_BUSY), 503);
    assert_int_equal(gr_reply_http_status(GR_ERR_DEVICE), 500);
    assert_int_equal(gr_reply_http_status(GR_ERR_NOMEM), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_the_fields_of_the_contract_in_order),
        cmocka_unit_test(what_does_not_apply_is_left_out_or_null),
        cmocka_unit_test(st_05_normalized_values_add_fields_only),
        cmocka_unit_test(st_09_a_value_that_is_not_finite_fails_whole),
        cmocka_unit_test(js_08_printed_numbers_read_back_to_the_same_bits),
        cmocka_unit_test(errors_come_in_both_shapes),
        cmocka_unit_test(js_02_error_replies_are_valid_whatever_they_quote),
        cmocka_unit_test(statuses_have_their_http_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
