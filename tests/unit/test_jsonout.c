/* SPDX-License-Identifier: Apache-2.0
 *
 * test_jsonout.c: the JSON writer in both forms: what it writes reads back, and non-finite numbers never get out. */
#include "gr_test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/jsonout.h"

static void write_sample(struct gr_jw *w)
{
    gr_jw_object(w);
    gr_jw_key(w, "a \"key\"");
    gr_jw_array(w);
    gr_jw_int(w, -3);
    gr_jw_u64(w, UINT64_MAX);
    gr_jw_array(w);
    gr_jw_f32(w, 0.1f);
    gr_jw_f64(w, 0.1);
    gr_jw_milli(w, 1.23456);
    gr_jw_end_array(w);
    gr_jw_array(w);
    gr_jw_end_array(w);
    gr_jw_end_array(w);
    gr_jw_key(w, "s");
    gr_jw_string(w, "line\nand \xff");
    gr_jw_key(w, "n");
    gr_jw_string(w, NULL);
    gr_jw_key(w, "flags");
    gr_jw_object(w);
    gr_jw_key(w, "yes");
    gr_jw_bool(w, true);
    gr_jw_key(w, "no");
    gr_jw_bool(w, false);
    gr_jw_key(w, "null");
    gr_jw_null(w);
    gr_jw_end_object(w);
    gr_jw_key(w, "raw");
    gr_jw_raw(w, "[1,{\"x\":2}]");
    gr_jw_key(w, "empty");
    gr_jw_object(w);
    gr_jw_end_object(w);
    gr_jw_end_object(w);
}

static void compact_text_has_no_blanks(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    struct gr_jw w = {.out = &b, .compact = true};
    write_sample(&w);
    assert_string_equal(
        b.data, "{\"a \\\"key\\\"\":[-3,18446744073709551615,[0.1,0.1,1.235],[]],\"s\":\"line\\nand \xef\xbf\xbd\","
                "\"n\":null,\"flags\":{\"yes\":true,\"no\":false,\"null\":null},\"raw\":[1,{\"x\":2}],\"empty\":{}}");
    gr_buf_free(&b);
}

static void indented_text_breaks_two_levels(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    struct gr_jw w = {.out = &b};
    write_sample(&w);
    assert_string_equal(b.data, "{\n"
                                "  \"a \\\"key\\\"\": [\n"
                                "    -3,\n"
                                "    18446744073709551615,\n"
                                "    [0.1, 0.1, 1.235],\n"
                                "    []\n"
                                "  ],\n"
                                "  \"s\": \"line\\nand \xef\xbf\xbd\",\n"
                                "  \"n\": null,\n"
                                "  \"flags\": {\n"
                                "    \"yes\": true,\n"
                                "    \"no\": false,\n"
                                "    \"null\": null\n"
                                "  },\n"
                                "  \"raw\": [1,{\"x\":2}],\n"
                                "  \"empty\": {}\n"
                                "}\n");
    gr_buf_free(&b);
}

static void numbers_that_json_cannot_say_become_null(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    struct gr_jw w = {.out = &b, .compact = true};
    gr_jw_array(&w);
    gr_jw_f32(&w, (float)NAN);
    gr_jw_f64(&w, (double)INFINITY);
    gr_jw_milli(&w, (double)NAN);
    gr_jw_f32(&w, -0.0f);
    gr_jw_end_array(&w);
    assert_string_equal(b.data, "[null,null,null,-0]");
    gr_buf_free(&b);
}

/* JS-07: with a decimal comma in the locale. */
static void js_07_the_locale_changes_nothing(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool set = false;
    for (size_t i = 0; i < sizeof locales / sizeof locales[0] && !set; i++) {
        set = setlocale(LC_ALL, locales[i]) != NULL;
    }
    if (!set) {
        gr_test_skip("no locale with a decimal comma on this machine");
    }
    struct gr_buf b = {0};
    struct gr_jw w = {.out = &b, .compact = true};
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_jw_array(&w);
    gr_jw_f32(&w, 1.5f);
    gr_jw_f64(&w, -2.25);
    gr_jw_milli(&w, 0.125);
    gr_jw_end_array(&w);
    assert_string_equal(b.data, "[1.5,-2.25,0.125]");
    gr_test_ok(gr_json_parse(b.data, b.len, "own", GR_ERR_INPUT, &root, &err), &err);
    assert_true(gr_json_number(gr_json_at(root, 0)) == 1.5);
    gr_json_free(root);
    gr_buf_free(&b);
    setlocale(LC_ALL, "C");
}

static void members_and_rows_are_what_their_parts_are(void **state)
{
    (void)state;
    const float values[] = {1, 2.5f, 9, 3, -4, 9}; /* the third column is no part of the block */
    struct gr_buf b = {0};
    struct gr_jw w = {.out = &b, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_object(&w, "o");
    gr_jw_put_string(&w, "s", "x");
    gr_jw_put_string(&w, "none", NULL);
    gr_jw_put_bool(&w, "b", true);
    gr_jw_end_object(&w);
    gr_jw_put_array(&w, "a");
    gr_jw_end_array(&w);
    gr_jw_put_int(&w, "i", -1);
    gr_jw_put_u64(&w, "u", UINT64_MAX);
    gr_jw_put_f64(&w, "f", 0.1);
    gr_jw_put_milli(&w, "m", 1.23456);
    gr_jw_key(&w, "r");
    gr_jw_f32_rows(&w, values, 2, 2, 3);
    gr_jw_end_object(&w);
    assert_string_equal(b.data,
                        "{\"o\":{\"s\":\"x\",\"none\":null,\"b\":true},\"a\":[],\"i\":-1,\"u\":18446744073709551615,"
                        "\"f\":0.1,\"m\":1.235,\"r\":[[1,2.5],[3,-4]]}");
    gr_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compact_text_has_no_blanks),
        cmocka_unit_test(indented_text_breaks_two_levels),
        cmocka_unit_test(numbers_that_json_cannot_say_become_null),
        cmocka_unit_test(members_and_rows_are_what_their_parts_are),
        cmocka_unit_test(js_07_the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
