/* SPDX-License-Identifier: Apache-2.0
 *
 * test_manifest.c: authoring and wire manifests: what is read, how profiles merge, what is written, and what is refused where. The full set of
 * mutated manifests is tests/package/test_manifest.py. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/manifest.h"

#define DATA "tests/data/manifest/"

static void read_sample(struct gr_manifest *m)
{
    struct gr_err err;
    gr_test_ok(gr_manifest_read_yaml(gr_test_source(DATA "package.yaml"), NULL, m, &err), &err);
}

static void add_build_facts(struct gr_manifest *m)
{
    m->tt_metal_version = "none";
    m->producer_version = "0.1.0";
    m->created_at = "2026-11-29T00:00:00+00:00";
    m->hostname = gr_manifest_keep(m, "build-host");
    m->image_digest = "sha256:1e56bb8e83adc24487ec0d4d9695373434cd48b0c8da275f3e14101af6896084";
    m->image_tag = "tt-model/some-package:1e56bb8e83ad";
    m->code_sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
}

static void an_authoring_file_is_read_whole(void **state)
{
    (void)state;
    struct gr_manifest m;
    read_sample(&m);
    assert_string_equal(m.schema, "5.1");
    assert_string_equal(m.repo, "org/Some-Package");
    assert_string_equal(m.name, "some-package");
    assert_string_equal(m.arch, "wormhole_b0");
    assert_string_equal(m.kind, "tt-dit-server");
    assert_true(m.has_weights && m.weights.has_allow && !m.weights.has_ignore);
    assert_string_equal(m.weights.allow.items[1], "LICENSE");
    assert_int_equal(m.n_auxiliary, 2);
    assert_string_equal(m.auxiliary[0].repo, "org/more");
    assert_null(m.auxiliary[0].revision);
    assert_string_equal(m.auxiliary[1].allow.items[0], "*.json");
    assert_true(m.auxiliary[1].has_ignore && m.auxiliary[1].ignore.n == 0);
    assert_int_equal(m.n_roots, 2);
    assert_null(m.roots[0].path);
    assert_string_equal(m.roots[0].ref, "main");
    assert_string_equal(m.roots[0].paths.items[1], "app");
    assert_string_equal(m.roots[1].path, "code");
    assert_string_equal(m.roots[1].paths.items[0], "server");
    assert_string_equal(m.ubuntu, "22.04");
    assert_string_equal(m.registry, "registry.example.org/team");
    assert_string_equal(m.repository, "served");
    assert_string_equal(m.app, "server.main:app");
    assert_string_equal(m.lock, "requirements.lock");
    assert_string_equal(m.mesh_shape_env, "MESH_SHAPE");
    assert_string_equal(m.packages.items[1], "pydantic>=2");
    assert_int_equal(m.serve.max_model_len, 4096); /* also as a text of digits, */
    assert_int_equal(m.serve.max_num_seqs, 8);     /* a whole real, */
    assert_int_equal(m.serve.block_size, 64);      /* hexadecimal */
    assert_int_equal(m.serve.server_timeout, 90);  /* or minutes and seconds */
    assert_int_equal(m.n_profiles, 2);
    assert_int_equal(m.device_count, 4);
    assert_string_equal(m.card.quickstart, "line one\nline two\n");
    assert_string_equal(m.card.license_name, "some-license.1");
    assert_null(m.card.risks);
    gr_manifest_free(&m);
    assert_null(m.memory);
}

static void a_small_authoring_file_gets_defaults(void **state)
{
    (void)state;
    static const char text[] = "repo: org/p\nname: p\nweights: org/w\nkind: tt-dit-server\narch: blackhole\n"
                               "source: {tt_metal: ., code: [app], ubuntu: '22.04', python: '3.12'}\n"
                               "runtime: {app: \"app:app\"}\nserve: {hardware: p150, mesh_device: P150}\n";
    struct gr_manifest m;
    struct gr_profile p;
    struct gr_err err;
    gr_test_ok(gr_manifest_parse_yaml(text, sizeof text - 1, "small.yaml", NULL, &m, &err), &err);
    assert_string_equal(m.schema, "5.1");
    assert_string_equal(m.registry, "hf");
    assert_string_equal(m.repository, "p");
    assert_int_equal(m.n_profiles, 1);
    assert_string_equal(m.profiles[0].name, "default");
    assert_null(m.default_profile);
    assert_false(m.has_card);
    assert_int_equal(m.serve.port, -1);
    gr_test_ok(gr_manifest_profile(&m, NULL, &p, &err), &err);
    assert_string_equal(p.block.name, "default");
    assert_int_equal(p.chips, 1);
    assert_int_equal(p.block.port, -1);
    assert_null(p.block.additional_config);
    assert_int_equal(p.block.words.n + p.block.n_env, 0);
    gr_profile_free(&p);
    gr_manifest_free(&m);
}

static void a_profile_is_merged_over_the_defaults(void **state)
{
    (void)state;
    struct gr_manifest m;
    struct gr_profile p;
    struct gr_err err;
    read_sample(&m);
    gr_test_ok(gr_manifest_profile(&m, NULL, &p, &err), &err); /* the default one */
    assert_string_equal(p.block.name, "four");
    assert_null(p.block.description);
    assert_int_equal(p.rows, 2);
    assert_int_equal(p.cols, 2);
    assert_int_equal(p.chips, 4);
    assert_int_equal(p.block.port, 9000);
    assert_int_equal(p.block.max_num_seqs, 8);
    assert_string_equal(p.block.tool_parser, "t");
    assert_string_equal(p.block.reasoning_parser, "r");
    /* nulls are dropped, mappings merge, an empty list erases nothing */
    assert_string_equal(p.block.additional_config,
                        "{\"a\":1,\"b\":{\"c\":[1,\"x\",2.5],\"d\":7},\"e\":{\"g\":true},\"f\":\"5\"}");
    assert_int_equal(p.block.words.n, 2);
    assert_string_equal(p.block.words.items[0], "--m");
    assert_string_equal(p.block.words.items[1], "-1");
    static const char *const env[][2] = {{"ARCH_NAME", "wormhole_b0"}, {"N", "3"}, {"EMPTY", ""}, {"M", "yes"}};
    assert_int_equal(p.block.n_env, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(p.block.env[i].name, env[i][0]);
        assert_string_equal(p.block.env[i].value, env[i][1]);
    }
    gr_profile_free(&p);
    gr_test_ok(gr_manifest_profile(&m, "one", &p, &err), &err);
    assert_string_equal(p.block.description, "One \"board\".");
    assert_int_equal(p.chips, 2);
    assert_int_equal(p.block.words.n, 4);
    assert_string_equal(p.block.words.items[2], "4");
    assert_string_equal(p.block.additional_config, "{\"a\":1,\"b\":{\"c\":[1,\"x\",2.5]},\"e\":{},\"f\":\"5\"}");
    gr_profile_free(&p);
    gr_test_fails(gr_manifest_profile(&m, "three", &p, &err), &err, GR_ERR_USAGE,
                  "no serve profile named \"three\"; this package has: one, four");
    gr_profile_free(&p); /* of a failure: nothing to do */
    gr_manifest_free(&m);
}

static void the_wire_manifest_is_written_as_the_format_lays_it_out(void **state)
{
    (void)state;
    struct gr_manifest m, again;
    struct gr_buf text = {0}, second = {0};
    struct gr_err err;
    size_t n;
    read_sample(&m);
    add_build_facts(&m);
    gr_test_ok(gr_manifest_write_wire(&m, &text, &err), &err);
    char *want = (char *)gr_test_read(gr_test_source(DATA "package_manifest.json"), &n);
    assert_string_equal(text.data, want);
    free(want);
    /* what is read from it gives the same text again */
    gr_test_ok(gr_manifest_parse_wire(text.data, text.len, "own", &again, &err), &err);
    assert_string_equal(again.repo, "org/Some-Package");
    assert_string_equal(again.code_sha256, m.code_sha256);
    assert_int_equal(again.device_count, 4);
    gr_test_ok(gr_manifest_write_wire(&again, &second, &err), &err);
    assert_string_equal(text.data, second.data);
    gr_buf_free(&text);
    gr_buf_free(&second);
    gr_manifest_free(&m);
    gr_manifest_free(&again);
}

static void the_published_example_comes_back_byte_for_byte(void **state)
{
    (void)state;
    struct gr_manifest m;
    struct gr_buf text = {0};
    struct gr_err err;
    const char *path = gr_test_shared("packaging/examples/gr00t-native_manifest.json");
    gr_test_ok(gr_manifest_read_wire(path, &m, &err), &err);
    gr_test_ok(gr_manifest_write_wire(&m, &text, &err), &err);
    char *want = (char *)gr_test_read(path, NULL);
    assert_string_equal(text.data, want);
    free(want);
    gr_buf_free(&text);
    gr_manifest_free(&m);
}

#define WIRE(schema, name, more, container)                                                                      \
    "{\"schema_version\":" schema ",\"name\":\"" name "\",\"tt_metal_version\":\"none\",\"arch\":\"blackhole\"," \
    "\"producer\":{\"tt_kernel_version\":\"0\",\"created_at\":\"x\",\"new\":1}," more                            \
    "\"container\":{\"image\":{\"tag\":\"tt-model/p:0\"},\"serve_profiles\":[{\"name\":\"a\"}]" container "}}"

static enum gr_status parse_wire(const char *text, struct gr_manifest *m, struct gr_err *err)
{
    return gr_manifest_parse_wire(text, strlen(text), "w.json", m, err);
}

static void wire_readers_take_old_new_and_unknown(void **state)
{
    (void)state;
    static const char *const texts[] = {
        WIRE("\"5\"", "p", "", ""),
        WIRE("\"6\"", "p", "\"later\":[1],\"weights\":{\"repo\":\"org/w\",\"new\":2},", ",\"later\":{}"),
        WIRE("\"5.1\"", "p", "\"weights\":null,\"auxiliary_weights\":null,",
             ",\"card\":null,\"built\":null,\"runtime\":null,\"kind\":\"http-server\"")};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct gr_manifest m;
        struct gr_profile p;
        struct gr_err err;
        gr_test_ok(parse_wire(texts[i], &m, &err), &err);
        assert_int_equal(m.has_weights, i == 1);
        assert_int_equal(m.device_count, -1);
        assert_string_equal(m.code_dir, "code");
        assert_string_equal(m.registry, "hf");
        gr_test_ok(gr_manifest_profile(&m, NULL, &p, &err), &err);
        assert_int_equal(p.chips + p.rows + p.cols, 0); /* nothing known, and no reason to refuse */
        gr_profile_free(&p);
        gr_manifest_free(&m);
    }
}

/* A wire manifest is a stranger's: nothing in it may lead out of a folder or become an option. */
static void unsafe_texts_on_the_wire_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {WIRE("\"5.1\"", "../p", "", ""), "w.json: name: expected a-z"},
        {WIRE("\"5.1\"", "a..b", "", ""), "name:"},
        {WIRE("\"5.1\"", "-p", "", ""), "name:"},
        {WIRE("\"5.1\"", "", "", ""), "name:"},
        {WIRE("5.1", "p", "", ""), "schema_version: expected a string, found a number"},
        {WIRE("\"7\"", "p", "", ""), "schema_version: expected \"5\", \"5.1\" or \"6\", found \"7\""},
        {WIRE("\"5\"", "p", "\"weights\":{\"repo\":\"org/../x\"},", ""), "weights.repo:"},
        {WIRE("\"5\"", "p", "\"weights\":{\"repo\":\"/etc/x\"},", ""), "weights.repo:"},
        {WIRE("\"5\"", "p", "\"weights\":{\"repo_id\":\"org/w\",\"revision\":\"../../x\"},", ""), "weights.revision:"},
        {WIRE("\"5\"", "p", "\"weights\":{\"repo_id\":\"org/w\",\"revision\":\"/abs\"},", ""), "weights.revision:"},
        {WIRE("\"5\"", "p", "\"weights\":{\"repo_id\":\"org/w\",\"revision\":\"--upload\"},", ""), "weights.revision:"},
        {WIRE("\"5\"", "p", "\"auxiliary_weights\":[{\"repo_id\":\"o/../..\"}],", ""), "auxiliary_weights[0].repo_id:"},
        {WIRE("\"5\"", "p", "", ",\"code_dir\":\"../up\""), "container.code_dir:"},
        {WIRE("\"5\"", "p", "", ",\"code_dir\":\"/etc\""), "container.code_dir:"},
        {WIRE("\"5\"", "p", "", ",\"runtime\":{\"lock\":\"a/b\"}"), "container.runtime.lock:"},
        {WIRE("\"5\"", "p", "", ",\"runtime\":{\"app\":\"--reload\"}"), "container.runtime.app:"},
        {WIRE("\"5\"", "p", "", ",\"runtime\":{\"mesh_shape_env\":\"A B\"}"), "container.runtime.mesh_shape_env:"},
        {WIRE("\"5\"", "p", "", ",\"built\":{\"repo\":\"no-slash\"}"), "container.built.repo:"},
        {WIRE("\"5\"", "p", "", ",\"default_profile\":\"b\""),
         "container.default_profile: \"b\" names no profile, expected a"},
        {WIRE("\"5\"", "p", "", ",\"serve\":{\"prot\":1}"), "container.serve.prot: unknown key, did you mean port?"},
        {WIRE("\"5\"", "p", "", ",\"serve\":{\"env\":{\"A=B\":\"x\"}}"), "container.serve.env.A=B:"},
        {WIRE("\"5\"", "p", "", ",\"serve\":{\"env\":{\"\":\"x\"}}"), "container.serve.env:"},
        {WIRE("\"5\"", "p", "", ",\"serve\":{\"port\":true}"),
         "container.serve.port: expected an integer, found a boolean"},
        {WIRE("\"5\"", "p", "", ",\"serve\":{\"port\":70000}"),
         "container.serve.port: expected 1 to 65535, found 70000"},
        {"{\"name\":\"p\",\"name\":\"q\"}", "key appears twice"},
        {"[]", "w.json: manifest: expected a mapping, found a list"},
        {"", "w.json: empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_manifest m;
        struct gr_err err;
        gr_test_fails(parse_wire(cases[i][0], &m, &err), &err, GR_ERR_FORMAT, cases[i][1]);
        assert_null(m.memory);
    }
}

static void unsafe_image_and_profile_names_are_refused(void **state)
{
    (void)state;
    static const char frame[] =
        "{\"name\":\"p\",\"tt_metal_version\":\"none\",\"arch\":\"blackhole\",\"producer\":{\"tt_kernel_version\":\"0\",\"created_at\":\"x\"},"
        "\"container\":{\"image\":{\"tag\":\"%s\",\"digest\":%s,\"registry\":\"%s\"},\"serve_profiles\":[{\"name\":\"%s\"}%s]}}";
    static const struct {
        const char *tag, *digest, *registry, *profile, *more, *says;
    } cases[] = {
        {"--privileged", "null", "hf", "a", "", "container.image.tag:"},
        {"a b", "null", "hf", "a", "", "container.image.tag:"},
        {"x/../y:1", "null", "hf", "a", "", "container.image.tag:"},
        {"p:0", "\"sha256:00\"", "hf", "a", "", "container.image.digest:"},
        {"p:0", "\"../../etc/passwd\"", "hf", "a", "", "container.image.digest:"},
        {"p:0", "null", "--tls-verify=false", "a", "", "container.image.registry:"},
        {"p:0", "null", "hf", "../a", "", "container.serve_profiles[0].name:"},
        {"p:0", "null", "hf", "-a", "", "container.serve_profiles[0].name:"},
        {"p:0", "null", "hf", "a", ",{\"name\":\"a\"}",
         "container.serve_profiles[1].name: \"a\" is the name of container.serve_profiles[0]"},
        {"p:0", "null", "hf", "a", ",{\"description\":\"x\"}", "container.serve_profiles[1].name: required"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        struct gr_manifest m;
        struct gr_err err;
        (void)snprintf(text, sizeof text, frame, cases[i].tag, cases[i].digest, cases[i].registry, cases[i].profile,
                       cases[i].more);
        gr_test_fails(parse_wire(text, &m, &err), &err, GR_ERR_FORMAT, cases[i].says);
    }
}

static void source_paths_are_looked_up_below_the_base(void **state)
{
    (void)state;
    static const char text[] = "repo: org/p\nname: p\nweights: org/w\nkind: tt-dit-server\narch: blackhole\n"
                               "source:\n  tt_metal: tree\n  code: [app, gone]\n  ubuntu: '22.04'\n  python: '3.12'\n"
                               "runtime: {app: \"app:app\"}\nserve: {hardware: p150, mesh_device: P150}\n";
    const char *base = gr_test_temp_dir();
    struct gr_manifest m;
    struct gr_err err;
    gr_test_ok(gr_fs_mkdirs(gr_test_join(base, "tree/app"), &err), &err);
    gr_test_fails(gr_manifest_parse_yaml(text, sizeof text - 1, "m.yaml", base, &m, &err), &err, GR_ERR_FORMAT,
                  "m.yaml:8:15: source.code: ");
    gr_test_write(gr_test_join(base, "tree/gone"), "", 0);
    gr_test_ok(gr_manifest_parse_yaml(text, sizeof text - 1, "m.yaml", base, &m, &err), &err);
    gr_manifest_free(&m);
}

static void files_that_are_none_are_refused(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    struct gr_manifest m;
    struct gr_err err;
    gr_test_fails(gr_manifest_read_yaml(gr_test_join(dir, "absent"), NULL, &m, &err), &err, GR_ERR_IO, "absent");
    gr_test_fails(gr_manifest_read_wire(gr_test_join(dir, "absent"), &m, &err), &err, GR_ERR_IO, "absent");
    gr_test_fails(gr_manifest_read_wire(dir, &m, &err), &err, GR_ERR_IO, dir);
    char *big = calloc(1, (1 << 20) + 2);
    assert_non_null(big);
    memset(big, ' ', (1 << 20) + 1);
    gr_test_fails(gr_manifest_parse_wire(big, (1 << 20) + 1, "big", &m, &err), &err, GR_ERR_FORMAT, "at most 1 MiB");
    gr_test_fails(gr_manifest_parse_yaml(big, (1 << 20) + 1, "big", NULL, &m, &err), &err, GR_ERR_FORMAT,
                  "at most 1 MiB");
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_authoring_file_is_read_whole),
        cmocka_unit_test(a_small_authoring_file_gets_defaults),
        cmocka_unit_test(a_profile_is_merged_over_the_defaults),
        cmocka_unit_test(the_wire_manifest_is_written_as_the_format_lays_it_out),
        cmocka_unit_test(the_published_example_comes_back_byte_for_byte),
        cmocka_unit_test(wire_readers_take_old_new_and_unknown),
        cmocka_unit_test(unsafe_texts_on_the_wire_are_refused),
        cmocka_unit_test(unsafe_image_and_profile_names_are_refused),
        cmocka_unit_test(source_paths_are_looked_up_below_the_base),
        cmocka_unit_test(files_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
