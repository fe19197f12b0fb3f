/* SPDX-License-Identifier: Apache-2.0
 *
 * test_request.c: bodies of POST /predict: what is accepted gives this observation, what is refused gives this code, this field and a
 * message that says what to do. Tests named after cases in pain/cases.md use its files where they are. */
#include "gr_test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/json.h"
#include "request_cases.h"
#include "server/reply.h"
#include "server/request.h"

static enum gr_status parse_on(const struct gr_info *info, const char *text, size_t n, struct gr_request *r,
                               struct gr_request_error *why, struct gr_err *err)
{
    enum gr_status status = gr_request_parse(text, n, info, NULL, r, why, err);
    if (status != GR_OK) {
        gr_request_free(r);
    }
    return status;
}

static void accept_on(const struct gr_info *info, const char *text, struct gr_request *r)
{
    struct gr_request_error why;
    struct gr_err err = {0};
    if (parse_on(info, text, strlen(text), r, &why, &err) != GR_OK) {
        fail_msg("refused: %s (%s, %s): %.200s", err.msg, why.code, why.field, text);
    }
}

static void accept(const char *text, struct gr_request *r) { accept_on(&case_gr1, text, r); }

/* Every refusal: its code, field and a part of the message; the reply made of it is valid JSON. */
static void refuse_bytes(const struct gr_info *info, const char *text, size_t n, enum gr_status want, const char *code,
                         const char *field, const char *part)
{
    struct gr_request r;
    struct gr_request_error why;
    struct gr_err err = {0};
    struct gr_buf b = {0};
    struct gr_json *root = NULL;
    gr_test_fails(parse_on(info, text, n, &r, &why, &err), &err, want, part);
    if (strcmp(why.code, code) != 0 || strcmp(why.field, field) != 0 || why.in_body != (field[0] == '\0')) {
        fail_msg("code %s field \"%s\", expected %s \"%s\": %s", why.code, why.field, code, field, err.msg);
    }
    gr_reply_error(gr_reply_http_status(err.code), why.code, err.msg, why.field, &b);
    gr_test_ok(gr_json_parse(b.data, b.len, "reply", GR_ERR_INPUT, &root, &err), &err);
    gr_json_free(root);
    gr_buf_free(&b);
}

static void refuse(const char *text, enum gr_status want, const char *code, const char *field, const char *part)
{
    refuse_bytes(&case_gr1, text, strlen(text), want, code, field, part);
}

/* The good body with more fields behind it. */
#define GOOD CASE_IMAGES "," CASE_STATE "," CASE_TEXT
#define BODY(more) "{" GOOD more "}"
#define REFUSE_422(body, code, field, part) refuse(body, GR_ERR_SCHEMA, code, field, part)
#define REFUSE_400(body, code, field, part) refuse(body, GR_ERR_INPUT, code, field, part)

static void a_good_body_gives_the_observation(void **state)
{
    (void)state;
    struct gr_request r;
    accept(BODY(""), &r);
    assert_int_equal(r.obs.n_frames, 1);
    assert_int_equal(r.obs.frames[0].width, 64);
    assert_int_equal(r.obs.frames[0].height, 64);
    assert_int_equal(r.obs.frames[0].rgb[0], 200);
    assert_int_equal(r.obs.state_dim, 29);
    assert_true(r.obs.state[3] == 3 && r.obs.state[7] == 7 && r.obs.state[19] == 1.721 && r.obs.state[28] == -1e-3);
    assert_int_equal(r.obs.state_dtype, GR_STATE_F32);
    assert_string_equal(r.obs.instruction, "pick the pear");
    assert_int_equal(r.obs.noise_kind, GR_NOISE_SEED);
    assert_int_equal(r.obs.seed, 42);
    assert_null(r.obs.noise);
    assert_false(r.return_normalized);
    assert_true(r.decode_ms > 0 && r.pictures_ms > 0 && r.pictures_ms <= r.decode_ms);
    assert_int_equal(r.out_of_range, 0);
    gr_request_free(&r);
    gr_request_free(&r); /* twice is allowed */
}

static void optional_fields_are_taken_and_null_means_absent(void **state)
{
    (void)state;
    struct gr_request r;
    accept(
        BODY(
            ",\"embodiment\":\"gr1\",\"seed\":7,\"noise\":null,\"state_dtype\":\"float64\",\"return_normalized\":true"),
        &r);
    assert_int_equal(r.obs.seed, 7);
    assert_int_equal(r.obs.state_dtype, GR_STATE_F64);
    assert_true(r.return_normalized);
    gr_request_free(&r);
    accept(BODY(",\"embodiment\":null,\"seed\":null,\"state_dtype\":null,\"return_normalized\":null,\"prompt\":null"),
           &r);
    assert_int_equal(r.obs.seed, 42);
    assert_int_equal(r.obs.state_dtype, GR_STATE_F32);
    assert_false(r.return_normalized);
    gr_request_free(&r);
}

static void types_are_strict(void **state)
{
    (void)state;
    REFUSE_422("[" BODY("") "]", "wrong_type", "", "body is array, expected an object");
    REFUSE_422("17", "wrong_type", "", "body is integer");
    REFUSE_422("{\"images\":null," CASE_STATE "," CASE_TEXT "}", "wrong_type", "images", "images is null");
    REFUSE_422("{" CASE_IMAGES ",\"state\":\"x\"," CASE_TEXT "}", "wrong_type", "state",
               "state is string, expected an object of groups: left_arm (7)");
    REFUSE_422(BODY(",\"return_normalized\":\"true\""), "wrong_type", "return_normalized", "is string, expected true");
    REFUSE_422(BODY(",\"return_normalized\":1"), "wrong_type", "return_normalized", "is integer");
    REFUSE_422(BODY(",\"state_dtype\":32"), "wrong_type", "state_dtype", "is integer, expected a string");
    REFUSE_422(BODY(",\"state_dtype\":\"float16\""), "unknown_value", "state_dtype", "float32");
    REFUSE_422(BODY(",\"embodiment\":20"), "wrong_type", "embodiment", "is integer");
    REFUSE_422(BODY(",\"seed\":\"42\""), "wrong_type", "seed", "seed is string, expected an integer");
    REFUSE_422(BODY(",\"seed\":true"), "wrong_type", "seed", "boolean");
    REFUSE_422(BODY(",\"noise\":\"no\""), "wrong_type", "noise", "string");
    REFUSE_422("{" CASE_IMAGES "," CASE_STATE ",\"instruction\":[\"a\"]}", "wrong_type", "instruction", "array");
    REFUSE_422("{\"images\":{\"" CASE_CAMERA "\":{}}," CASE_STATE "," CASE_TEXT "}", "wrong_type",
               "images." CASE_CAMERA, "is object, expected base64");
    REFUSE_422("{\"images\":{\"" CASE_CAMERA "\":[7]}," CASE_STATE "," CASE_TEXT "}", "wrong_type",
               "images." CASE_CAMERA "[0]", "is integer");
}

static void js_05_unknown_fields_name_their_neighbour(void **state)
{
    (void)state;
    REFUSE_422(BODY(",\"sede\":1"), "unknown_field", "sede", "unknown field \"sede\", did you mean \"seed\"?");
    REFUSE_422(BODY(",\"image\":1"), "unknown_field", "image", "did you mean \"images\"");
    REFUSE_422(BODY(",\"return_normalised\":1"), "unknown_field", "return_normalised", "\"return_normalized\"");
    REFUSE_422(BODY(",\"Seed\":1"), "unknown_field", "Seed", "\"seed\"");
    REFUSE_422(BODY(",\"temperature\":0.7"), "unknown_field", "temperature", "\"temperature\" (known: images, state");
    REFUSE_422(BODY(",\"\":0"), "unknown_field", "", "unknown field \"\"");
    REFUSE_422(BODY(",\"a\\nb\\u2028\xc3\xa4\":0"), "unknown_field", "a?b?\xc3\xa4", "\"a?b?\xc3\xa4\"");
    REFUSE_422("{" CASE_STATE "," CASE_TEXT "}", "missing_field", "images", "\"images\" is missing");
    REFUSE_422("{" CASE_IMAGES "," CASE_TEXT "}", "missing_field", "state", "\"state\" is missing");
    REFUSE_422("{" CASE_IMAGES "," CASE_STATE "}", "missing_field", "instruction", "\"prompt\") is missing");
    REFUSE_422("{}", "missing_field", "images", "missing");
}

static void js_01_to_09_a_body_that_is_no_json_says_where(void **state)
{
    (void)state;
    REFUSE_422("", "invalid_json", "", "empty");
    REFUSE_422("{:", "invalid_json", "", "line 1, column 2");
    REFUSE_422("{:", "invalid_json", "", "byte 2");
    REFUSE_422(BODY("") "x", "invalid_json", "", "end of file expected");
    REFUSE_422(BODY(",\"seed\":1,"), "invalid_json", "", "byte");
    REFUSE_422("{\"state\":{\"waist\":[1,]}}", "invalid_json", "state.waist[1]", "byte");
    REFUSE_422("{'seed':1}", "invalid_json", "", "line 1");
    REFUSE_422("{\"seed\":1 /* one */}", "invalid_json", "seed", "line 1");
    REFUSE_422("{\n \"seed\": 1,\n \"seed\": 2}", "duplicate_key", "seed", "line 3");
    REFUSE_422("{\"state\":{\"waist\":[1],\"waist\":[2]}}", "duplicate_key", "state.waist", "twice");
    REFUSE_422("{\"prompt\":\"\xff\"}", "invalid_json", "prompt", "byte");
    REFUSE_422("{\"prompt\":\"\\ud800\"}", "invalid_json", "prompt", "byte");
    REFUSE_422("{\"prompt\":\"a\nb\"}", "invalid_json", "prompt", "byte");
    REFUSE_422("\xef\xbb\xbf\xef\xbb\xbf{}", "invalid_json", "", "byte order mark");
    refuse_bytes(&case_gr1, "{\0}\0", 4, GR_ERR_SCHEMA, "invalid_json", "", "UTF-16");
    struct gr_request r;
    accept("\xef\xbb\xbf" BODY(""), &r); /* JS-04: one byte order mark is accepted */
    gr_request_free(&r);
}

static void js_01_depth_and_number_of_values_are_bounded(void **state)
{
    (void)state;
    enum { N = 300000 };
    char *text = malloc(N + 64);
    assert_non_null(text);
    memset(text, '[', N);
    refuse_bytes(&case_gr1, text, N, GR_ERR_SCHEMA, "too_many_values", "", "more than");
    refuse_bytes(&case_gr1, text, 65, GR_ERR_SCHEMA, "invalid_json", "", "nested deeper than 64");
    size_t n = (size_t)sprintf(text, "{\"noise\":[");
    while (n < N) {
        text[n++] = '1';
        text[n++] = ',';
    }
    n += (size_t)sprintf(text + n, "1]}");
    long before = gr_test_peak_kib();
    refuse_bytes(&case_gr1, text, n, GR_ERR_SCHEMA, "too_many_values", "", "more than");
    assert_true(gr_test_peak_kib() - before < 1024);
    free(text);
}

static void img_12_only_base64_of_png_and_jpeg_is_a_picture(void **state)
{
    (void)state;
    static const struct {
        const char *value, *code, *part;
    } rows[] = {
        {"/etc/hostname", "bad_base64", "is not base64 PNG/JPEG: base64 text ends after 1 of the 4"},
        {"/etc/hostname", "bad_base64", "a path or an address is never opened"},
        {"https://example.org/a.png", "bad_base64", "byte 5 (0x3a)"},
        {"frame.png", "bad_base64", "never opened"},
        {"", "not_an_image", "is not base64 PNG/JPEG: image is empty"},
        {"R0lGODdhQABAAIcAAAA=", "not_an_image", "GIF"},
        {"UklGRgAAAABXRUJQVlA4IA==", "not_an_image", "WebP"},
        {"Qk1GAAAAAAAAADYAAAAo", "not_an_image", "BMP"},
        {"aGVsbG8gd29ybGQK", "not_an_image", "text"},
        {"data:image/png;base64,R0lGODdhQABAAIcAAAA=", "not_an_image", "GIF"},
        {"data:image/png,abc", "bad_base64", "without \";base64,\""},
        {"data:image/png;base64", "bad_base64", "data URL"},
        {"data:image/png;base64,iVBO*", "bad_base64", "byte 4 (0x2a) is no base64 character (counted behind the 22"},
        {"iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJ", "bad_image", "PNG"},
        {"/9j/4AAQSkZJRgABAQAAAQABAAD/", "bad_image", "JPEG"},
        {"iVBORw0KGgoAAAANSUhEUgAATiAAAE4gAQAAAACqhd0A", "bad_image", "64..4096"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[2048];
        snprintf(body, sizeof body, "{\"images\":{\"" CASE_CAMERA "\":\"%s\"}," CASE_STATE "," CASE_TEXT "}",
                 rows[i].value);
        REFUSE_400(body, rows[i].code, "images." CASE_CAMERA, rows[i].part);
    }
}

static void img_10_11_prefix_white_space_and_escapes_change_nothing(void **state)
{
    (void)state;
    static const char *const values[] = {
        CASE_PNG,
        "data:image/png;base64," CASE_PNG,
        " DATA:image/gif;name=x;Base64," CASE_PNG, /* the type is that of the bytes */
        "\\n" CASE_PNG "\\r\\n",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct gr_request r;
        char body[2048];
        snprintf(body, sizeof body, "{\"images\":{\"" CASE_CAMERA "\":[\"%s\"]}," CASE_STATE "," CASE_TEXT "}",
                 values[i]);
        accept(body, &r);
        assert_int_equal(r.frames[0].rgb[3 * 64 * 64 - 1], 40);
        gr_request_free(&r);
    }
    struct gr_request r; /* some writers escape every slash */
    char body[2048] = "{\"images\":{\"" CASE_CAMERA "\":\"";
    for (const char *p = CASE_JPEG; *p != '\0'; p++) {
        size_t used = strlen(body);
        snprintf(body + used, sizeof body - used, "%s%c", *p == '/' ? "\\" : "", *p);
    }
    strcat(body, "\"}," CASE_STATE "," CASE_TEXT "}");
    accept(body, &r);
    assert_int_equal(r.frames[0].height, 80);
    gr_request_free(&r);
}

/* ---- Long strings take another way through the parser: it must not show. */

#define MARK           \
    "\xf4\x8f\xbf\xbf" \
    "0" /* what the parser sees instead of the first long string */

/* Base64 of the demo picture: 56,000 characters. */
static char *long_string(void)
{
    size_t n = 0;
    unsigned char *png = gr_test_read(gr_test_source("data/demo/frame.png"), &n);
    char *text = malloc(gr_base64_length(n) + 1);
    assert_non_null(text);
    gr_base64_encode(png, n, text);
    text[gr_base64_length(n)] = '\0';
    free(png);
    return text;
}

static void a_text_that_looks_like_a_stand_in_is_a_text(void **state)
{
    (void)state;
    char *text = long_string();
    struct gr_buf b = {0};
    struct gr_request r, again;
    gr_buf_printf(&b, "{\"images\":{\"" CASE_CAMERA "\":\"%s\"}," CASE_STATE "," CASE_TEXT "}", text);
    accept(b.data, &r);
    gr_buf_free(&b);
    static const char *const marks[] = {MARK, "\\uDBFF\\udfff0", "\\udbff\\uDFFF0 tail"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        gr_buf_printf(&b, "{\"instruction\":\"%s\",\"images\":{\"" CASE_CAMERA "\":\"%s\"}," CASE_STATE "}", marks[i],
                      text);
        accept(b.data, &again);
        assert_memory_equal(again.obs.instruction, MARK, strlen(MARK));
        assert_memory_equal(again.frames[0].rgb, r.frames[0].rgb, 3 * 256 * 256);
        gr_request_free(&again);
        gr_buf_free(&b);
    }
    gr_request_free(&r);
    free(text);
}

static void a_fault_behind_a_long_string_keeps_its_position(void **state)
{
    (void)state;
    char *text = long_string(), part[96];
    struct gr_buf b = {0};
    gr_buf_printf(&b, "{\"images\":{\"" CASE_CAMERA "\":\"%s\"},\n\"seed\":nul}", text);
    REFUSE_422(b.data, "invalid_json", "seed", "line 2, column 10");
    gr_buf_free(&b);
    gr_buf_printf(&b, "{\"images\":{\"" CASE_CAMERA "\":[\"%s\",\"%s\"]},\"seed\":nul}", text, text);
    snprintf(part, sizeof part, "column %zu: invalid token near 'nul', byte %zu", b.len - 1, b.len - 1);
    REFUSE_422(b.data, "invalid_json", "seed", part);
    gr_buf_free(&b);
    gr_buf_printf(&b, "{\"images\":{\"" CASE_CAMERA "\" \"%s\"}}", text);
    snprintf(part, sizeof part, "column %zu: ':' expected, byte %zu", b.len - 2, b.len - 2);
    REFUSE_422(b.data, "invalid_json", "images." CASE_CAMERA, part);
    gr_buf_free(&b);
    free(text);
}

static void long_names_and_values_are_those_of_the_body(void **state)
{
    (void)state;
    char *text = long_string();
    struct gr_buf b = {0};
    struct gr_request r;
    struct gr_request_error why;
    struct gr_err err;
    gr_buf_printf(&b, BODY(",\"%s\":1"), text);
    assert_int_equal(parse_on(&case_gr1, b.data, b.len, &r, &why, &err), GR_ERR_SCHEMA);
    assert_string_equal(why.code, "unknown_field");
    assert_true(strlen(why.field) < 80);
    gr_buf_free(&b);
    gr_buf_printf(&b, BODY(",\"embodiment\":\"%s\""), text);
    REFUSE_400(b.data, "unknown_embodiment", "embodiment", "embodiment \"iVBORw0KGgoAAAANSUh");
    gr_buf_free(&b);
    gr_buf_printf(&b, BODY(",\"state_dtype\":\"%s\""), text);
    REFUSE_422(b.data, "unknown_value", "state_dtype", "float64");
    gr_buf_free(&b);
    gr_buf_printf(&b, "{" CASE_IMAGES "," CASE_STATE ",\"prompt\":\"%.1500s\"}", text);
    accept(b.data, &r);
    assert_int_equal(strlen(r.instruction), 1500);
    assert_memory_equal(r.instruction, text, 1500);
    gr_request_free(&r);
    gr_buf_free(&b);
    free(text);
}

static void st_07_cameras_and_frames_are_matched_by_name(void **state)
{
    (void)state;
    struct gr_request r;
    accept_on(&case_two,
              "{\"images\":{\"observation.top\":[\"" CASE_PNG "\",\"" CASE_JPEG "\"],\"wrist\":[\"" CASE_JPEG
              "\",\"" CASE_JPEG "\"]},\"state\":{\"arm\":[1,2]},\"language\":\"go\",\"noise\":[[1,2,3],[4,5,6]]}",
              &r);
    assert_int_equal(r.obs.n_frames, 4);
    const int heights[] = {80, 64, 80, 80}; /* time-major: wrist, top of the oldest time first */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r.frames[i].height, heights[i]);
    }
    assert_int_equal(r.obs.noise_kind, GR_NOISE_GIVEN);
    assert_true(r.obs.noise[5] == 6.0f);
    gr_request_free(&r);
#define TWO(images) "{\"images\":{" images "},\"state\":{\"arm\":[1,2]},\"language\":\"go\"}"
    static const struct {
        const char *body, *code, *field, *part;
    } rows[] = {
        {TWO("\"wrist\":[\"a\",\"b\"]"), "missing_camera", "images.observation.top",
         "expected: wrist, observation.top"},
        {TWO("\"wrist\":\"a\",\"observation.top\":[\"a\",\"b\"]"), "wrong_frame_count", "images.wrist",
         "has 1 frame, expected 2, oldest first"},
        {TWO("\"wrist\":[\"a\",\"b\",\"c\"],\"observation.top\":[\"a\",\"b\"]"), "wrong_frame_count", "images.wrist",
         "has 3 frames"},
        {TWO("\"Wrist\":[]"), "unknown_camera", "images.Wrist", "unknown camera \"Wrist\", expected: wrist"},
        {TWO("\"wrist\":[\"" CASE_PNG "\",\"*\"],\"observation.top\":[\"" CASE_PNG "\",\"" CASE_PNG "\"]"),
         "bad_base64", "images.wrist[1]", "images.wrist[1] is not base64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refuse_bytes(&case_two, rows[i].body, strlen(rows[i].body), GR_ERR_INPUT, rows[i].code, rows[i].field,
                     rows[i].part);
    }
}

#define WITH_STATE(groups) "{" CASE_IMAGES "," CASE_TEXT ",\"state\":{" groups "}}"
#define REST ",\"right_arm\":[0,0,0,0,0,0,0],\"left_hand\":[0,0,0,0,0,0],\"right_hand\":[0,0,0,0,0,0],\"waist\":[0,0,0]"
#define LEFT(numbers) WITH_STATE("\"left_arm\":" numbers REST)

static void st_08_state_groups_have_their_name_and_width(void **state)
{
    (void)state;
    REFUSE_400(LEFT("[1,2,3,4,5,6]"), "wrong_width", "state.left_arm", "state.left_arm has 6 values, expected 7");
    REFUSE_400(LEFT("[]"), "wrong_width", "state.left_arm", "has 0 values");
    REFUSE_400(LEFT("[[1,2,3,4,5,6,7],[1,2,3,4,5,6,7]]"), "wrong_width", "state.left_arm", "has 2 rows, expected one");
    REFUSE_422(LEFT("[[[1],2,3,4,5,6,7]]"), "wrong_type", "state.left_arm[0]", "is array, expected a number");
    REFUSE_422(LEFT("7"), "wrong_type", "state.left_arm", "is integer, expected a list of 7 numbers");
    REFUSE_422(LEFT("[1,2,\"3\",4,5,6,7]"), "wrong_type", "state.left_arm[2]", "is string, expected a number");
    REFUSE_422(LEFT("[1,2,null,4,5,6,7]"), "wrong_type", "state.left_arm[2]", "is null");
    REFUSE_422(LEFT("[1,2,3,4,5,6,true]"), "wrong_type", "state.left_arm[6]", "is boolean");
    REFUSE_400(LEFT("[1,2,3,4,5,6,7],\"neck\":[0]"), "unknown_group", "state.neck",
               "expected: left_arm (7), right_arm (7)");
    REFUSE_400(WITH_STATE("\"left_arm\":[1,2,3,4,5,6,7]"), "missing_group", "state.right_arm", "right_arm is missing");
    REFUSE_400(WITH_STATE(""), "missing_group", "state.left_arm", "left_arm is missing");
}

static void st_09_numbers_must_be_finite_as_float32(void **state)
{
    (void)state;
    struct gr_request r;
    REFUSE_400(LEFT("[1,2,1e39,4,5,6,7]"), "not_finite", "state.left_arm[2]", "not finite as float32 (1e39)");
    REFUSE_400(LEFT("[1,2,1e999,4,5,6,7]"), "not_finite", "state.left_arm[2]", "state.left_arm[2] is not finite");
    REFUSE_400(LEFT("[1,2,-1e999,4,5,6,7]"), "not_finite", "state.left_arm[2]", "byte");
    REFUSE_400(LEFT("[1,2,NaN,4,5,6,7]"), "not_finite", "state.left_arm[2]", "state.left_arm[2] is not finite");
    REFUSE_400(LEFT("[1,2,3,Infinity,5,6,7]"), "not_finite", "state.left_arm[3]", "line 1");
    REFUSE_400(LEFT("[1,2,3,-Infinity,5,6,7]"), "not_finite", "state.left_arm[3]", "not finite");
    REFUSE_422(LEFT("[1,2,nix,4,5,6,7]"), "invalid_json", "state.left_arm[2]", "byte");
    REFUSE_422(BODY(",\"seed\":NaN"), "invalid_json", "seed", "byte");
    REFUSE_422(LEFT("[1,2,99999999999999999999,4,5,6,7]"), "out_of_range", "state.left_arm[2]",
               "does not fit in 64 bits");
    accept(LEFT("[3.4028235677973362e38,1e-999,-0.0,4,5,6,7]"), &r);
    assert_true((float)r.obs.state[0] == FLT_MAX && signbit(r.obs.state[2]));
    gr_request_free(&r);
    REFUSE_400(LEFT("[3.4028235677973366e38,2,3,4,5,6,7]"), "not_finite", "state.left_arm[0]", "float32");
    accept("{" CASE_IMAGES "," CASE_TEXT ",\"state_dtype\":\"float64\",\"state\":{\"left_arm\":[1e39,2,3,4,5,6,7]" REST
           "}}",
           &r);
    assert_true(r.obs.state[0] == 1e39);
    gr_request_free(&r);
}

static void st_06_values_outside_the_recordings_are_counted(void **state)
{
    (void)state;
    struct gr_state_range ranges[29];
    struct gr_request r;
    struct gr_request_error why;
    struct gr_err err;
    for (int i = 0; i < 29; i++) {
        ranges[i] = (struct gr_state_range){-100, 100};
    }
    ranges[1] = (struct gr_state_range){1, 1};
    ranges[2] = (struct gr_state_range){5, -5}; /* unknown */
    ranges[19] = (struct gr_state_range){-1.1, 0};
    ranges[28] = (struct gr_state_range){0, 1};
    const char *body = BODY("");
    gr_test_ok(gr_request_parse(body, strlen(body), &case_gr1, ranges, &r, &why, &err), &err);
    assert_int_equal(r.out_of_range, 2);
    assert_string_equal(r.out_of_range_text, "state.left_hand[5] = 1.721, recorded range -1.1 to 0");
    gr_request_free(&r);
}

#define WITH_TEXT(fields) "{" CASE_IMAGES "," CASE_STATE "," fields "}"

static void pr_05_07_instructions(void **state)
{
    (void)state;
    struct gr_request r;
    static const char *const aliases[] = {"instruction", "language", "prompt"};
    for (int i = 0; i < 3; i++) {
        char body[2048];
        snprintf(body, sizeof body, WITH_TEXT("\"%s\":\"\\u3000\\t go \\u00e4 \\n\\u2028\\u00a0\\u001f\""), aliases[i]);
        accept(body, &r);
        assert_string_equal(r.obs.instruction, "go \xc3\xa4");
        gr_request_free(&r);
    }
    REFUSE_422(WITH_TEXT("\"prompt\":\"a\",\"language\":\"a\""), "two_instructions", "prompt",
               "\"language\" and \"prompt\" mean the same");
    REFUSE_400(WITH_TEXT("\"prompt\":\"\""), "empty_instruction", "prompt", "instruction is empty after cleaning");
    REFUSE_400(WITH_TEXT("\"prompt\":\" \\n\\u2003\\u0085\""), "empty_instruction", "prompt",
               "white space and punctuation do not count");
    REFUSE_422(WITH_TEXT("\"prompt\":\"a\\u0000b\""), "invalid_json", "prompt", "u0000");
}

/* Characters count, not bytes. */
static void pr_05_the_limit_is_2000_characters(void **state)
{
    (void)state;
    for (int n = 1999; n <= 2001; n++) {
        struct gr_buf b = {0};
        struct gr_request r;
        gr_buf_puts(&b, "{" CASE_IMAGES "," CASE_STATE ",\"prompt\":\"  ");
        for (int i = 0; i < n; i++) {
            gr_buf_puts(&b, i % 2 == 0 ? "\xe6\xb1\x89" : "\xf0\x9f\x8d\x90"); /* three bytes, four bytes */
        }
        gr_buf_puts(&b, "   \"}");
        if (n <= 2000) {
            accept(b.data, &r);
            gr_request_free(&r);
        } else {
            REFUSE_400(b.data, "long_instruction", "prompt", "instruction has 2001 characters, at most 2000");
        }
        gr_buf_free(&b);
    }
}

static void st_11_the_embodiment_is_the_one_that_is_served(void **state)
{
    (void)state;
    REFUSE_400(BODY(",\"embodiment\":\"GR1\""), "unknown_embodiment", "embodiment",
               "\"GR1\" is not served, expected: gr1");
    REFUSE_400(BODY(",\"embodiment\":\"gr1 \""), "unknown_embodiment", "embodiment", "expected: gr1");
    REFUSE_400(BODY(",\"embodiment\":\"\""), "unknown_embodiment", "embodiment", "expected: gr1");
    REFUSE_400(BODY(",\"embodiment\":\"a\\u001b[2J\""), "unknown_embodiment", "embodiment", "\"a?[2J\"");
}

static void rng_04_seeds_keep_every_digit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"42.0", 42},
                {"1e15", 1000000000000000},
                {"-0.0", 0},
                {"9007199254740993", 9007199254740993u},
                {"9007199254740992.0", 9007199254740992u},
                {"9223372036854775807", 9223372036854775807u}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char body[2048];
        struct gr_request r;
        snprintf(body, sizeof body, BODY(",\"seed\":%s"), good[i].text);
        accept(body, &r);
        assert_true(r.obs.seed == good[i].value);
        gr_request_free(&r);
    }
    static const char *const bad[] = {"-1",
                                      "0.5",
                                      "1e300",
                                      "9007199254740994.0",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "-9223372036854775809",
                                      "1e999",
                                      "-1e-300"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char body[2048];
        snprintf(body, sizeof body, BODY(",\"seed\":%s"), bad[i]);
        REFUSE_422(body, "out_of_range", "seed", "seed ");
    }
}

static void put_noise(struct gr_buf *b, int rows, int cols, const char *open, const char *close, const char *last)
{
    gr_buf_printf(b, "{" GOOD ",\"noise\":%s", open);
    for (int r = 0; r < rows; r++) {
        gr_buf_puts(b, r > 0 ? ",[" : "[");
        for (int i = 0; i < cols; i++) {
            bool end = r == rows - 1 && i == cols - 1;
            gr_buf_printf(b, "%s%s", i > 0 ? "," : "", end ? last : "-0.5");
        }
        gr_buf_puts(b, "]");
    }
    gr_buf_printf(b, "%s}", close);
}

static void rng_05_06_noise_has_its_shape(void **state)
{
    (void)state;
    static const struct {
        int rows, cols;
        const char *open, *close, *last, *code, *field, *part; /* code NULL: accepted */
    } rows[] = {
        {50, 128, "[", "]", "0.25", NULL, NULL, NULL},
        {50, 128, "[[", "]]", "0.25", NULL, NULL, NULL},
        {50, 128, "[", "]", "1e38", NULL, NULL, NULL},
        {16, 128, "[", "]", "0", "wrong_shape", "noise", "noise has 16 rows, expected [50, 128] or [1, 50, 128]"},
        {50, 127, "[", "]", "0", "wrong_shape", "noise[0]", "noise[0] has 127 numbers, expected 128"},
        {50, 128, "[[[", "]]]", "0", "wrong_shape", "noise", "noise has 1 rows"},
        {0, 0, "[", "]", "0", "wrong_shape", "noise", "noise has 0 rows"},
        {1, 50, "[", "]", "0", "wrong_shape", "noise", "noise has 1 rows"},
        {50, 128, "[", "]", "1e39", "not_finite", "noise[49][127]", "not finite"},
        {50, 128, "[", "]", "-1e999", "not_finite", "noise[49][127]", "not finite"},
        {50, 128, "[", "]", "NaN", "not_finite", "noise[49][127]", "not finite"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gr_buf b = {0};
        struct gr_request r;
        put_noise(&b, rows[i].rows, rows[i].cols, rows[i].open, rows[i].close, rows[i].last);
        if (rows[i].code == NULL) {
            accept(b.data, &r);
            assert_int_equal(r.obs.noise_kind, GR_NOISE_GIVEN);
            assert_true(r.obs.noise[6398] == -0.5f && r.obs.noise[6399] == (float)atof(rows[i].last));
            gr_request_free(&r);
        } else {
            REFUSE_400(b.data, rows[i].code, rows[i].field, rows[i].part);
        }
        gr_buf_free(&b);
    }
    struct gr_buf b = {0};
    put_noise(&b, 50, 128, "[", "]", "null");
    REFUSE_422(b.data, "wrong_type", "noise[49][127]", "is null");
    gr_buf_free(&b);
    put_noise(&b, 50, 128, "[", "],\"seed\":1", "0");
    REFUSE_400(b.data, "seed_with_noise", "noise", "exclude each other");
    gr_buf_free(&b);
}

static void js_07_the_locale_changes_nothing(void **state)
{
    (void)state;
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL) {
        gr_test_skip("no locale with a decimal comma on this machine");
    }
    struct gr_request r;
    accept(BODY(""), &r);
    assert_true(r.obs.state[19] == 1.721);
    gr_request_free(&r);
    setlocale(LC_ALL, "C");
}

static void failures_of_the_policy_have_a_field(void **state)
{
    (void)state;
    struct gr_request_error why;
    struct gr_err err = {GR_ERR_INPUT, "n_text exceeds L_max: the instruction has 25 tokens, at most 24 are allowed"};
    gr_request_explain(&err, &why);
    assert_string_equal(why.code, "long_instruction");
    assert_string_equal(why.field, "instruction");
    err = (struct gr_err){GR_ERR_INPUT, "instruction is empty after cleaning: x"};
    gr_request_explain(&err, &why);
    assert_string_equal(why.code, "empty_instruction");
    err = (struct gr_err){GR_ERR_DEVICE, "instruction"};
    gr_request_explain(&err, &why);
    assert_string_equal(why.code, "device");
    assert_true(why.in_body);
}

/* ---- Every file of pain/files/json ------------------------------------------------------------------------------------ */

struct pain {
    const char *name, *code, *field; /* code NULL: accepted */
    enum gr_status status;
};
#define CAMERA_FIELD "images." CASE_CAMERA
static const struct pain pains[] = {
    {"alias_both", "two_instructions", NULL, GR_ERR_SCHEMA},
    {"alias_prompt", NULL, NULL, GR_OK},
    {"array_top", "wrong_type", "", GR_ERR_SCHEMA},
    {"b64_illegal_char", "bad_base64", CAMERA_FIELD, GR_ERR_INPUT},
    {"b64_wrapped_76", NULL, NULL, GR_OK},
    {"base", NULL, NULL, GR_OK},
    {"bom", NULL, NULL, GR_OK},
    {"colon_after_brace", "invalid_json", "", GR_ERR_SCHEMA},
    {"comment", "invalid_json", NULL, GR_ERR_SCHEMA},
    {"data_url_png", NULL, NULL, GR_OK},
    {"deep_nesting_100k", NULL, NULL, GR_ERR_SCHEMA},
    {"dup_key_seed", "duplicate_key", "seed", GR_ERR_SCHEMA},
    {"embodiment_case", "unknown_embodiment", "embodiment", GR_ERR_INPUT},
    {"embodiment_other", "unknown_embodiment", "embodiment", GR_ERR_INPUT},
    {"empty_body", "invalid_json", "", GR_ERR_SCHEMA},
    {"frame_list_1", NULL, NULL, GR_OK},
    {"frame_list_2", "wrong_frame_count", CAMERA_FIELD, GR_ERR_INPUT},
    {"hand_thumb_first", NULL, NULL, GR_OK},
    {"image_file_path", "bad_base64", CAMERA_FIELD, GR_ERR_INPUT},
    {"invalid_utf8_instruction", "invalid_json", "instruction", GR_ERR_SCHEMA},
    {"noise_16x128", "wrong_shape", "noise", GR_ERR_INPUT},
    {"noise_1e38", NULL, NULL, GR_OK},
    {"noise_1x50x128", NULL, NULL, GR_OK},
    {"noise_empty", "wrong_shape", "noise", GR_ERR_INPUT},
    {"noise_null_inside", "wrong_type", NULL, GR_ERR_SCHEMA},
    {"noise_null_with_seed", NULL, NULL, GR_OK},
    {"noise_ragged", "wrong_shape", NULL, GR_ERR_INPUT},
    {"noise_zeros_50x128", NULL, NULL, GR_OK},
    {"prompt_2001_chars", "long_instruction", "instruction", GR_ERR_INPUT},
    {"prompt_24_tokens", NULL, NULL, GR_OK},
    {"prompt_25_tokens", NULL, NULL, GR_OK}, /* tokens are the policy's */
    {"prompt_accent_nfc", NULL, NULL, GR_OK},
    {"prompt_accent_nfd", NULL, NULL, GR_OK},
    {"prompt_as_list", "wrong_type", NULL, GR_ERR_SCHEMA},
    {"prompt_blank", "empty_instruction", "instruction", GR_ERR_INPUT},
    {"prompt_case_punct", NULL, NULL, GR_OK},
    {"prompt_chat_markup", NULL, NULL, GR_OK},
    {"prompt_cjk", NULL, NULL, GR_OK},
    {"prompt_emoji_tail", NULL, NULL, GR_OK},
    {"prompt_escape_not_newline", NULL, NULL, GR_OK},
    {"prompt_inner_space", NULL, NULL, GR_OK},
    {"prompt_only_punct", NULL, NULL, GR_OK}, /* the policy cleans */
    {"seed_1e15", NULL, NULL, GR_OK},
    {"seed_2pow53_plus1", NULL, NULL, GR_OK},
    {"seed_2pow64", "out_of_range", "seed", GR_ERR_SCHEMA},
    {"seed_and_noise", "seed_with_noise", "noise", GR_ERR_INPUT},
    {"seed_negative", "out_of_range", "seed", GR_ERR_SCHEMA},
    {"single_quotes", "invalid_json", "", GR_ERR_SCHEMA},
    {"state_1e999", "not_finite", NULL, GR_ERR_INPUT},
    {"state_flat_29", "wrong_type", "state", GR_ERR_SCHEMA},
    {"state_float32_overflow", "not_finite", NULL, GR_ERR_INPUT},
    {"state_full_gr1_44", "unknown_group", NULL, GR_ERR_INPUT},
    {"state_keys_reordered", NULL, NULL, GR_OK},
    {"state_nan_literal", "not_finite", NULL, GR_ERR_INPUT},
    {"state_nested_row", NULL, NULL, GR_OK},
    {"state_null", "wrong_type", NULL, GR_ERR_SCHEMA},
    {"state_prefixed_keys", "unknown_group", NULL, GR_ERR_INPUT},
    {"state_short_arm", "wrong_width", NULL, GR_ERR_INPUT},
    {"state_string_number", "wrong_type", NULL, GR_ERR_SCHEMA},
    {"state_two_rows", "wrong_width", NULL, GR_ERR_INPUT},
    {"trailing_comma", "invalid_json", NULL, GR_ERR_SCHEMA},
    {"trailing_data", "invalid_json", "", GR_ERR_SCHEMA},
    {"two_cameras", "unknown_camera", NULL, GR_ERR_INPUT},
    {"unknown_field", "unknown_field", "temperature", GR_ERR_SCHEMA},
    {"utf16le", "invalid_json", "", GR_ERR_SCHEMA},
    {"wrong_camera_key", "unknown_camera", NULL, GR_ERR_INPUT},
};

static void same_observation(const struct gr_request *a, const struct gr_request *b)
{
    size_t pixels = 3 * (size_t)a->frames[0].height * (size_t)a->frames[0].width;
    assert_int_equal(a->frames[0].height, b->frames[0].height);
    assert_int_equal(a->frames[0].width, b->frames[0].width);
    assert_memory_equal(a->frames[0].rgb, b->frames[0].rgb, pixels);
    assert_memory_equal(a->state, b->state, 29 * sizeof *a->state);
    assert_string_equal(a->instruction, b->instruction);
    assert_true(a->obs.seed == b->obs.seed);
}

static void each_reported_body_gets_its_answer(void **state)
{
    (void)state;
    gr_test_need_shared();
    static const char *const equal[] = {"alias_prompt",    "b64_wrapped_76", "bom",
                                        "data_url_png",    "frame_list_1",   "state_keys_reordered",
                                        "state_nested_row"};
    size_t n = 0;
    struct gr_request base, r;
    struct gr_request_error why;
    struct gr_err err = {0};
    char *text = (char *)gr_test_read(gr_test_shared("pain/files/json/base.json"), &n);
    gr_test_ok(parse_on(&case_gr1, text, n, &base, &why, &err), &err);
    free(text);
    for (size_t i = 0; i < sizeof pains / sizeof pains[0]; i++) {
        const struct pain *p = &pains[i];
        text = (char *)gr_test_read(gr_test_shared("pain/files/json/%s.json", p->name), &n);
        enum gr_status status = parse_on(&case_gr1, text, n, &r, &why, &err);
        if (status != p->status || (status != GR_OK && p->code != NULL && strcmp(p->code, why.code) != 0) ||
            (status != GR_OK && p->field != NULL && strcmp(p->field, why.field) != 0)) {
            fail_msg("%s: %s, code %s, field %s: %s", p->name, gr_status_name(status), why.code, why.field, err.msg);
        }
        for (size_t k = 0; status == GR_OK && k < sizeof equal / sizeof equal[0]; k++) {
            if (strcmp(p->name, equal[k]) == 0) {
                same_observation(&r, &base);
            }
        }
        if (status == GR_OK) {
            gr_request_free(&r);
        }
        free(text);
    }
    gr_request_free(&base);
}

/* IMG-05, 06, 09, 13: pictures as they come in requests. */
static void each_reported_picture_gets_its_answer(void **state)
{
    (void)state;
    gr_test_need_shared();
    static const struct {
        const char *name, *code, *part;
    } rows[] = {
        {"base_256.png", NULL, NULL},
        {"edge_64x64.png", NULL, NULL},
        {"edge_63x64.png", "bad_image", "63"},
        {"edge_4097x64.png", "bad_image", "4097"},
        {"bomb_20000x20000_1bit.png", "bad_image", "20000"},
        {"bomb_ihdr_only_65535x65535.png", "bad_image", "65535"},
        {"truncated_60pct.jpg", "bad_image", ""},
        {"truncated_60pct.png", "bad_image", ""},
        {"badcrc_idat.png", "bad_image", ""},
        {"not_an_image.png", "not_an_image", "is not base64 PNG/JPEG"},
        {"really_a_gif.png", "not_an_image", "GIF"},
        {"really_a_webp.png", "not_an_image", "WebP"},
        {"really_a_bmp.png", "not_an_image", "BMP"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = 0;
        struct gr_buf b = {0};
        struct gr_request r;
        unsigned char *file = gr_test_read(gr_test_shared("pain/files/images/%s", rows[i].name), &n);
        char *text = malloc(gr_base64_length(n) + 1);
        assert_non_null(text);
        gr_base64_encode(file, n, text);
        text[gr_base64_length(n)] = '\0';
        gr_buf_printf(&b, "{\"images\":{\"" CASE_CAMERA "\":\"%s\"}," CASE_STATE "," CASE_TEXT "}", text);
        if (rows[i].code == NULL) {
            accept(b.data, &r);
            gr_request_free(&r);
        } else {
            REFUSE_400(b.data, rows[i].code, CAMERA_FIELD, rows[i].part);
        }
        gr_buf_free(&b);
        free(text);
        free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(js_01_depth_and_number_of_values_are_bounded),
        cmocka_unit_test(a_good_body_gives_the_observation),
        cmocka_unit_test(optional_fields_are_taken_and_null_means_absent),
        cmocka_unit_test(types_are_strict),
        cmocka_unit_test(js_05_unknown_fields_name_their_neighbour),
        cmocka_unit_test(js_01_to_09_a_body_that_is_no_json_says_where),
        cmocka_unit_test(img_12_only_base64_of_png_and_jpeg_is_a_picture),
        cmocka_unit_test(img_10_11_prefix_white_space_and_escapes_change_nothing),
        cmocka_unit_test(a_text_that_looks_like_a_stand_in_is_a_text),
        cmocka_unit_test(a_fault_behind_a_long_string_keeps_its_position),
        cmocka_unit_test(long_names_and_values_are_those_of_the_body),
        cmocka_unit_test(st_07_cameras_and_frames_are_matched_by_name),
        cmocka_unit_test(st_08_state_groups_have_their_name_and_width),
        cmocka_unit_test(st_09_numbers_must_be_finite_as_float32),
        cmocka_unit_test(st_06_values_outside_the_recordings_are_counted),
        cmocka_unit_test(pr_05_07_instructions),
        cmocka_unit_test(pr_05_the_limit_is_2000_characters),
        cmocka_unit_test(st_11_the_embodiment_is_the_one_that_is_served),
        cmocka_unit_test(rng_04_seeds_keep_every_digit),
        cmocka_unit_test(rng_05_06_noise_has_its_shape),
        cmocka_unit_test(js_07_the_locale_changes_nothing),
        cmocka_unit_test(failures_of_the_policy_have_a_field),
        cmocka_unit_test(each_reported_body_gets_its_answer),
        cmocka_unit_test(each_reported_picture_gets_its_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
