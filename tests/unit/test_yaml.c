/* SPDX-License-Identifier: Apache-2.0
 *
 * test_yaml.c: YAML 1.1 as PyYAML's safe loader reads it: what scalars mean, aliases and merge keys, places, and what is refused where. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "package/yaml.h"

static enum gr_status parse_n(struct gr_arena *arena, const char *text, size_t n, const struct gr_node **root,
                              struct gr_err *err)
{
    return gr_yaml_parse(arena, text, n, "doc", root, err);
}

/* The document as compact JSON, "!" before what JSON cannot hold. */
static void as_json(const char *text, char *out, size_t cap)
{
    struct gr_arena *arena = gr_arena_new();
    struct gr_buf b = {0};
    const struct gr_node *root = NULL;
    struct gr_err err;
    gr_test_ok(parse_n(arena, text, strlen(text), &root, &err), &err);
    const struct gr_node *fault = gr_node_to_json(root, &b);
    (void)snprintf(out, cap, "%s%s", fault != NULL ? "!" : "", fault != NULL ? gr_node_kind_name(fault->kind) : b.data);
    gr_buf_free(&b);
    gr_arena_free(arena);
}

static void expect(const char *text, const char *json)
{
    char got[4096];
    as_json(text, got, sizeof got);
    if (strcmp(got, json) != 0) {
        fail_msg("%s\ngives %s, expected %s", text, got, json);
    }
}

static void refuses(const char *text, const char *where)
{
    struct gr_arena *arena = gr_arena_new();
    const struct gr_node *root = NULL;
    struct gr_err err;
    gr_test_fails(parse_n(arena, text, strlen(text), &root, &err), &err, GR_ERR_FORMAT, where);
    gr_arena_free(arena);
}

/* PyYAML 6.0 gave the right column. */
static void plain_scalars_mean_what_pyyaml_says(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"yes", "true"},
        {"Yes", "true"},
        {"YES", "true"},
        {"on", "true"},
        {"True", "true"},
        {"no", "false"},
        {"Off", "false"},
        {"FALSE", "false"},
        {"yEs", "\"yEs\""},
        {"y", "\"y\""},
        {"tRUE", "\"tRUE\""},
        {"", "null"},
        {"~", "null"},
        {"null", "null"},
        {"Null", "null"},
        {"nULL", "\"nULL\""},
        {"0", "0"},
        {"-0", "0"},
        {"+12", "12"},
        {"1_000", "1000"},
        {"0x10", "16"},
        {"-0xfF", "-255"},
        {"0b101", "5"},
        {"010", "8"},
        {"0o10", "\"0o10\""},
        {"08", "\"08\""},
        {"0_", "0"},
        {"0_7", "7"},
        {"1:30", "90"},
        {"190:20:30", "685230"},
        {"-1:30", "-90"},
        {"1:60", "\"1:60\""},
        {"0:30", "\"0:30\""},

        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"5.1", "5.1"},
        {"5.", "5.0"},
        {".5", "0.5"},
        {"-.5", "\"-.5\""},
        {"-0.0", "-0.0"},
        {"+1.5", "1.5"},
        {"1_0.2_5", "10.25"},
        {"1e3", "\"1e3\""},
        {"1.0e3", "\"1.0e3\""},
        {"1.0e+3", "1000.0"},
        {"1.5E-1", "0.15"},
        {"1:30.5", "90.5"},
        {"1_0:30.5", "630.5"},
        {".inf", "!a number"},
        {"-.INF", "!a number"},
        {".NaN", "!a number"},
        {"+.nan", "\"+.nan\""},
        {"2026-01-01", "!a date"},
        {"2026-1-1", "\"2026-1-1\""},
        {"2026-01-01x", "\"2026-01-01x\""},
        {"2026-1-1 10:00:00", "!a date"},
        {"2001-12-14t21:59:43.10-05:00", "!a date"},
        {"2001-12-14 21:59:43.10 -5", "!a date"},
        {"2001-12-14T21:59:43Z", "!a date"},
        {"2001-12-14T21:59", "\"2001-12-14T21:59\""},
        {"12345-01-01", "\"12345-01-01\""},
        {"\"5.1\"", "\"5.1\""},
        {"'yes'", "\"yes\""},
        {"\"\"", "\"\""},
        {"|\n  12\n", "\"12\\n\""},
        {">\n a\n b\n", "\"a b\\n\""},
        {"'it''s'", "\"it's\""},
        {"\"a\\tb\\u00e9\"", "\"a\\tb\xc3\xa9\""},
        {"! 5", "5"},
        {"! \"5\"", "5"},
        {"!!str 5", "\"5\""},
        {"!!int \"0x10\"", "16"},
        {"!!float 5", "5.0"},
        {"!!bool \"on\"", "true"},
        {"!!null \"\"", "null"},
        {"!!map {a: 1}", "{\"a\":1}"},
        {"P150x2", "\"P150x2\""},
        {"a#b", "\"a#b\""},
        {"a # b", "\"a\""},
        {"%YAML 1.1\n--- 7", "7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(cases[i][0], cases[i][1]);
    }
}

static void collections_aliases_and_merge_keys_make_one_tree(void **state)
{
    (void)state;
    expect("a: 1\nb: [x, {c: d}]\n", "{\"a\":1,\"b\":[\"x\",{\"c\":\"d\"}]}");
    expect("- &x {k: v}\n- *x\n- [*x]\n", "[{\"k\":\"v\"},{\"k\":\"v\"},[{\"k\":\"v\"}]]");
    expect("a: &t hello\nb: *t\n", "{\"a\":\"hello\",\"b\":\"hello\"}");
    /* merged keys come first and give way to the mapping's own; of a list the first wins */
    expect("base: &b {x: 1, y: 2}\nd: {y: 3, <<: *b, z: 4}\n",
           "{\"base\":{\"x\":1,\"y\":2},\"d\":{\"x\":1,\"y\":3,\"z\":4}}");
    expect("- &a {x: 1, p: a}\n- &b {y: 2, p: b}\n- {<<: [*a, *b]}\n",
           "[{\"x\":1,\"p\":\"a\"},{\"y\":2,\"p\":\"b\"},{\"y\":2,\"p\":\"a\",\"x\":1}]");
    expect("a: &a {<<: {x: 1}, y: 2}\nb: {<<: *a}\n", "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"x\":1,\"y\":2}}");
    expect("{\"<<\": 1, \"=\": 2}", "{\"<<\":1,\"=\":2}");
    expect("? key\n: value\n", "{\"key\":\"value\"}");
    expect("# nothing\n", "null");
    expect("a: 'x\ty'\nb: 1 # a\ttab\n", "{\"a\":\"x\\ty\",\"b\":1}");
    expect("\xef\xbb\xbf"
           "a: 1\r\nb: 2\r\n",
           "{\"a\":1,\"b\":2}");
}

static void every_node_knows_its_place(void **state)
{
    (void)state;
    static const char text[] =
        "# one\nname: caf\xc3\xa9\nserve:\n  env: {A: \"1\", \xc3\xa9t\xc3\xa9: two}\n  list:\n    - x\n";
    struct gr_arena *arena = gr_arena_new();
    const struct gr_node *root = NULL;
    struct gr_err err;
    gr_test_ok(parse_n(arena, text, strlen(text), &root, &err), &err);
    const struct gr_node *serve = gr_node_get(root, "serve"), *env = gr_node_get(serve, "env");
    const struct {
        const struct gr_node *node;
        int line, column;
    } places[] = {{root, 2, 1},
                  {root->keys[0], 2, 1},
                  {gr_node_get(root, "name"), 2, 7},
                  {serve, 4, 3},
                  {env, 4, 8},
                  {env->keys[0], 4, 9},
                  {gr_node_get(env, "A"), 4, 12},
                  {gr_node_get(env, "\xc3\xa9t\xc3\xa9"), 4, 22}, /* columns count characters */
                  {gr_node_get(serve, "list")->items[0], 6, 7}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_equal(places[i].node->line, places[i].line);
        assert_int_equal(places[i].node->column, places[i].column);
    }
    assert_null(gr_node_get(root, "serv"));
    assert_null(gr_node_get(NULL, "x"));
    assert_null(gr_node_get(env->items[0], "x"));
    assert_int_equal(root->size, 8);
    gr_arena_free(arena);
}

static void faults_are_refused_with_their_place(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a: 1\nb: 2\na: 3\n", "doc:3:1: a: key given twice, first at 1:1"},
        {"x:\n  \"k\": 1\n  k: 2\n", "doc:3:3: k: key given twice, first at 2:3"},
        {"{<<: {a: 1}, <<: {b: 1}}", "doc:1:14: <<: key given twice, first at 1:6"},
        {"a: [1, 2\nb: 3\n", "not valid YAML"},
        {"a: b: c\n", "doc:1:5: not valid YAML: mapping values are not allowed in this context"},
        {"a: \"open\n", "not valid YAML: found unexpected end of stream"},
        {"a: 1\n---\nb: 2\n", "doc:2:1: a second document, expected one"},
        {"a: *nowhere\n", "doc:1:4: alias *nowhere has no anchor before it"},
        {"a: &x [1, *x]\n", "doc:1:11: an alias inside the value that it stands for"},
        {"- &x 1\n- &x 2\n", "doc:2:3: anchor &x is there already"},
        {"<<: 5\n", "doc:1:5: <<: expected a mapping or a list of mappings, found an integer"},
        {"<<: [{a: 1}, b]\n", "doc:1:14: <<: expected a mapping or a list of mappings, found a string"},
        {"a: <<\n", "doc:1:4: << or ="},
        {"a: =\n", "doc:1:4: << or ="},
        {"[1, 2]: x\n", "doc:1:1: a list or mapping as a key"},
        {"a: 0x_\n", "doc:1:4: \"0x_\" cannot be read as a number; quote it"},
        {"a: 9223372036854775808\n", "cannot be read as a number"},
        {"a: -9223372036854775809\n", "cannot be read as a number"},
        {"a: !!int maybe\n", "doc:1:4: \"maybe\" is not an integer, as its tag says"},
        {"a: !!binary aGk=\n", "doc:1:4: tag tag:yaml.org,2002:binary: only the core types"},
        {"a: !!python/object/apply:os.system [x]\n", "doc:1:4: a tag on a list or mapping"},
        {"a: !!set {x}\n", "doc:1:4: a tag on a list or mapping"},
        {"a: \"x\\0y\"\n", "doc:1:4: a NUL character in a text"},
        {"a:\n\tb: 1\n", "doc:2:1: not valid YAML"},
        {"a: b\tc\n", "doc:1:5: a tab between values, expected blanks"},
        {"a: 'b'\t\nc: 1\n", "doc:1:7: a tab between values, expected blanks"},
        {"a: 1\nb: \xff\xfe\n", "doc:2:4: not valid YAML"},
        {"\xff\xfe"
         "a\0:\0",
         "doc:1:1: not valid YAML"},
        {"a: \x01\n", "doc:1:4: not valid YAML: control characters are not allowed"},
        {"%YAML 2.0\n---\na\n", "not valid YAML: found incompatible YAML document"},
        {"a: {b: ]\n", "not valid YAML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuses(cases[i][0], cases[i][1]);
    }
}

/* A number of several hundred digits is neither read nor a reason to stop. */
static void absurd_numbers_are_refused(void **state)
{
    (void)state;
    char text[1024] = "";
    memset(text, '7', 600);
    refuses(text, "cannot be read as a number");
    (void)snprintf(text + 600, sizeof text - 600, ".5");
    refuses(text, "cannot be read as a number");
    (void)snprintf(text + 600, sizeof text - 600, ":10.5");
    refuses(text, "cannot be read as a number");
    (void)snprintf(text + 600, sizeof text - 600, ":10");
    refuses(text, "cannot be read as a number");
}

static void refuses_buf(struct gr_buf *b, const char *where)
{
    struct gr_arena *arena = gr_arena_new();
    const struct gr_node *root = NULL;
    struct gr_err err;
    assert_false(b->failed);
    gr_test_fails(parse_n(arena, b->data, b->len, &root, &err), &err, GR_ERR_FORMAT, where);
    gr_arena_free(arena);
    gr_buf_free(b);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    for (int i = 0; i < 9; i++) { /* each line ten times the one before */
        gr_buf_printf(&b, "l%d: &l%d [", i, i);
        for (int k = 0; k < 10; k++) {
            gr_buf_printf(&b, i > 0 ? "*l%d, " : "x, ", i - 1);
        }
        gr_buf_puts(&b, "]\n");
    }
    refuses_buf(&b, "aliases make this value larger than 65536 values");
    gr_buf_puts(&b, "m0: &m0 {");
    for (int i = 0; i < 500; i++) {
        gr_buf_printf(&b, "k%d: [1, 1, 1, 1], ", i);
    }
    gr_buf_puts(&b, "}\n");
    for (int i = 1; i < 100; i++) {
        gr_buf_printf(&b, "m%d: {<<: *m0}\n", i);
    }
    refuses_buf(&b, "larger than 65536 values");
    for (int i = 0; i < 70; i++) {
        gr_buf_puts(&b, "[");
    }
    refuses_buf(&b, "nested deeper than 60 levels");
    for (int i = 0; i < 1100; i++) {
        gr_buf_printf(&b, "k%d: 1\n", i);
    }
    refuses_buf(&b, "doc:1025:1: more than 1024 keys in one mapping");
    for (int i = 0; i < 1100; i++) {
        gr_buf_printf(&b, "- &a%d 1\n", i);
    }
    refuses_buf(&b, "doc:1025:3: more than 1024 anchors");
    for (int i = 0; i < 70000; i++) {
        gr_buf_puts(&b, "- 1\n");
    }
    refuses_buf(&b, "more than 65536 values in one document");
    for (int i = 0; i < 140; i++) {
        gr_buf_printf(&b, "# %08000d\n", i);
    }
    refuses_buf(&b, "at most 1 MiB is read");
}

static void depth_of_60_is_read(void **state)
{
    (void)state;
    char text[200] = "";
    memset(text, '[', 60);
    memset(text + 60, ']', 60);
    struct gr_arena *arena = gr_arena_new();
    const struct gr_node *root = NULL;
    struct gr_err err;
    gr_test_ok(parse_n(arena, text, strlen(text), &root, &err), &err);
    assert_int_equal(root->size, 60);
    gr_arena_free(arena);
}

/* Cut anywhere, a document is read or refused, and never read past its end. */
static void every_prefix_is_answered(void **state)
{
    (void)state;
    size_t n;
    uint8_t *text = gr_test_read(gr_test_source("tt-model.yaml"), &n);
    for (size_t cut = 0; cut < n; cut += 3) {
        struct gr_arena *arena = gr_arena_new();
        const struct gr_node *root = NULL;
        struct gr_err err = {0};
        char *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, text, cut);
        const enum gr_status status = parse_n(arena, part, cut, &root, &err);
        assert_true(status == GR_OK || (status == GR_ERR_FORMAT && strncmp(err.msg, "doc:", 4) == 0));
        free(part);
        gr_arena_free(arena);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_mean_what_pyyaml_says),
        cmocka_unit_test(collections_aliases_and_merge_keys_make_one_tree),
        cmocka_unit_test(every_node_knows_its_place),
        cmocka_unit_test(faults_are_refused_with_their_place),
        cmocka_unit_test(absurd_numbers_are_refused),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(depth_of_60_is_read),
        cmocka_unit_test(every_prefix_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
