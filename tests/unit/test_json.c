/* SPDX-License-Identifier: Apache-2.0
 *
 * test_json.c: the strict JSON reader: what it takes, what it refuses, and that a refusal says where and why. */
#include "corpus.h"

#include <stdio.h>

#include "base/fs.h"
#include "base/json.h"

static enum gr_status parse(const char *text, struct gr_json **root, struct gr_err *err)
{
    return gr_json_parse(text, strlen(text), "doc", GR_ERR_INPUT, root, err);
}

static void values_are_read_in_file_order(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_test_ok(parse("{\"z\":[1,-2.5,\"\xc3\xa9\",true,null],\"a\":{},\"m\":9223372036854775807}", &root, &err), &err);
    const struct gr_json *z = gr_json_get(root, "z");
    assert_int_equal(gr_json_kind(root), GR_JSON_OBJECT);
    assert_int_equal(gr_json_len(root), 3);
    assert_int_equal(gr_json_len(z), 5);
    assert_int_equal(gr_json_kind(gr_json_at(z, 0)), GR_JSON_INT);
    assert_int_equal(gr_json_int(gr_json_at(z, 0)), 1);
    assert_true(gr_json_number(gr_json_at(z, 0)) == 1.0);
    assert_int_equal(gr_json_kind(gr_json_at(z, 1)), GR_JSON_REAL);
    assert_true(gr_json_number(gr_json_at(z, 1)) == -2.5);
    assert_string_equal(gr_json_string(gr_json_at(z, 2)), "\xc3\xa9");
    assert_true(gr_json_bool(gr_json_at(z, 3)));
    assert_int_equal(gr_json_kind(gr_json_at(z, 4)), GR_JSON_NULL);
    assert_int_equal(gr_json_int(gr_json_get(root, "m")), INT64_MAX);
    const char *order[] = {"z", "a", "m"};
    int i = 0;
    for (void *it = gr_json_first(root); it != NULL; it = gr_json_next(root, it)) {
        assert_string_equal(gr_json_key(it), order[i++]);
        assert_ptr_equal(gr_json_value(it), gr_json_get(root, gr_json_key(it)));
    }
    assert_int_equal(i, 3);
    gr_json_free(root);
}

static void absent_values_and_wrong_kinds_give_null(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_test_ok(parse("{\"a\":[1],\"n\":5}", &root, &err), &err);
    const struct gr_json *n = gr_json_get(root, "n");
    assert_null(gr_json_get(root, "x"));
    assert_null(gr_json_get(NULL, "x"));
    assert_null(gr_json_get(n, "x"));
    assert_null(gr_json_at(root, 0));
    assert_null(gr_json_at(NULL, 0));
    assert_null(gr_json_at(gr_json_get(root, "a"), 1));
    assert_int_equal(gr_json_len(n), 0);
    assert_int_equal(gr_json_len(NULL), 0);
    assert_null(gr_json_first(n));
    assert_true(gr_json_is_number(n));
    assert_false(gr_json_is_number(root));
    assert_false(gr_json_is_number(NULL));
    gr_json_free(root);
    gr_json_free(NULL);
}

static void every_kind_has_a_name(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    gr_test_ok(parse("[null,false,1,1.0,\"\",[],{}]", &root, &err), &err);
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(gr_json_kind_name(gr_json_kind(gr_json_at(root, i))), names[i]);
    }
    gr_json_free(root);
}

static void refusals_say_where_and_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "doc: empty"},
        {" \n ", "doc: empty"},
        {"\xef\xbb\xbf{}", "byte order mark"},
        {"{\n  \"a\": 1,\n  \"b\": }", "doc: line 3, column 8: "},
        {"{\"a\":1,\n\"a\":2}", "line 2, column 3: key appears twice in one object, near '\"a\"'"},
        {"[9223372036854775808]", "integer does not fit in 64 bits"},
        {"[1e999]", "too large for a 64-bit float"},
        {"[\"a\\u0000b\"]", "\\u0000 inside a string is not allowed"},
        {"{\"a\\u0000b\":1}", "\\u0000 inside a string is not allowed"},
        {"{} x", "line 1, column 4: end of file expected"},
        {"[NaN]", "line 1, column 4: invalid token near 'NaN'"},
        {"[\"\\ud800\"]", "Unicode"},
        {"[1,2", "line 1"},
        {"f\0", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gr_json *root = NULL;
        struct gr_err err;
        gr_test_fails(parse(cases[i].text, &root, &err), &err, GR_ERR_INPUT, cases[i].message);
        assert_null(root);
    }
}

static void the_caller_chooses_the_status(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_test_fails(gr_json_parse("[", 1, "config.json", GR_ERR_FORMAT, &root, &err), &err, GR_ERR_FORMAT,
                  "config.json: ");
    gr_test_fails(gr_json_parse("[", 1, "body", GR_ERR_SCHEMA, &root, &err), &err, GR_ERR_SCHEMA, "body: ");
}

static void sixty_four_levels_are_the_limit(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    char text[200];
    memset(text, '[', 65);
    memset(text + 64, ']', 64);
    gr_test_ok(gr_json_parse(text, 128, "doc", GR_ERR_INPUT, &root, &err), &err);
    gr_json_free(root);
    root = NULL;
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    gr_test_fails(gr_json_parse(text, 130, "doc", GR_ERR_INPUT, &root, &err), &err, GR_ERR_INPUT,
                  "line 1, column 65: nested deeper than 64 levels");
}

static void a_hundred_thousand_levels_do_not_crash(void **state)
{
    (void)state;
    enum { N = 100000 };
    static char text[2 * N];
    struct gr_json *root = NULL;
    struct gr_err err;
    memset(text, '[', N);
    memset(text + N, ']', N);
    gr_test_fails(gr_json_parse(text, sizeof text, "doc", GR_ERR_INPUT, &root, &err), &err, GR_ERR_INPUT,
                  "nested deeper");
    /* quotes and backslashes before the nest must not hide it */
    memcpy(text, "[\"\\\"[\",", 7);
    gr_test_fails(gr_json_parse(text, sizeof text, "doc", GR_ERR_INPUT, &root, &err), &err, GR_ERR_INPUT,
                  "nested deeper");
}

static void only_the_given_bytes_are_read(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_test_ok(gr_json_parse("[1]]]]", 3, "doc", GR_ERR_INPUT, &root, &err), &err);
    gr_json_free(root);
    root = NULL;
    gr_test_fails(gr_json_parse("[1]\0", 4, "doc", GR_ERR_INPUT, &root, &err), &err, GR_ERR_INPUT,
                  "line 1, column 4: NUL byte");
}

static void a_file_is_read_up_to_its_limit(void **state)
{
    (void)state;
    const char *path = gr_test_join(gr_test_temp_dir(), "a.json");
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_test_write(path, "{\"a\":1}", 7);
    gr_test_ok(gr_json_read(path, 7, GR_ERR_FORMAT, &root, &err), &err);
    assert_int_equal(gr_json_int(gr_json_get(root, "a")), 1);
    gr_json_free(root);
    root = NULL;
    gr_test_fails(gr_json_read(path, 6, GR_ERR_FORMAT, &root, &err), &err, GR_ERR_IO, "limit");
    gr_test_write(path, "{\"a\":}", 6);
    gr_test_fails(gr_json_read(path, 7, GR_ERR_FORMAT, &root, &err), &err, GR_ERR_FORMAT, "a.json: line 1, column 6");
}

static bool takes(const char *path, const char *name)
{
    (void)name;
    size_t n;
    uint8_t *text = gr_test_read(path, &n);
    struct gr_json *root = NULL;
    struct gr_err err;
    bool ok = gr_json_parse((const char *)text, n, "doc", GR_ERR_INPUT, &root, &err) == GR_OK;
    gr_json_free(root);
    free(text);
    return ok;
}

static void the_corpus_is_sorted_into_good_and_bad(void **state)
{
    (void)state;
    corpus_check("json", takes);
}

static void request_bodies_seen_in_the_field_get_the_right_verdict(void **state)
{
    (void)state;
    static const char *const bad[] = {"bom",
                                      "colon_after_brace",
                                      "comment",
                                      "deep_nesting_100k",
                                      "dup_key_seed",
                                      "empty_body",
                                      "single_quotes",
                                      "invalid_utf8_instruction",
                                      "state_1e999",
                                      "state_nan_literal",
                                      "trailing_comma",
                                      "trailing_data",
                                      "seed_2pow64",
                                      "utf16le"};
    gr_test_need_shared();
    char dir[4096];
    (void)snprintf(dir, sizeof dir, "%s", gr_test_shared("pain/files/json"));
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.' || dot == NULL || strcmp(dot, ".json") != 0) {
            continue;
        }
        bool ok = takes(gr_test_join(dir, "%s", e->d_name), e->d_name), want = true;
        *dot = '\0';
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            want = want && strcmp(bad[i], e->d_name) != 0;
        }
        n++;
        if (ok != want) {
            fail_msg("%s: %s", e->d_name, ok ? "accepted" : "refused");
        }
    }
    closedir(d);
    assert_true(n >= 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_in_file_order),
        cmocka_unit_test(absent_values_and_wrong_kinds_give_null),
        cmocka_unit_test(every_kind_has_a_name),
        cmocka_unit_test(refusals_say_where_and_why),
        cmocka_unit_test(the_caller_chooses_the_status),
        cmocka_unit_test(sixty_four_levels_are_the_limit),
        cmocka_unit_test(a_hundred_thousand_levels_do_not_crash),
        cmocka_unit_test(only_the_given_bytes_are_read),
        cmocka_unit_test(a_file_is_read_up_to_its_limit),
        cmocka_unit_test(the_corpus_is_sorted_into_good_and_bad),
        cmocka_unit_test(request_bodies_seen_in_the_field_get_the_right_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
