/* SPDX-License-Identifier: Apache-2.0
 *
 * test_info.c: the texts of /info, /demo and /openapi.json: valid JSON, every promised fact, the demo request exact to the bit. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "boot_fixture.h"
#include "policy/policy.h"
#include "server/info.h"
#include "server/info_parts.h"

static struct gr_boot_fixture fixture;

static int make(void **state)
{
    (void)state;
    return gr_boot_fixture_make(&fixture);
}

static int clean(void **state)
{
    (void)state;
    gr_boot_fixture_free(&fixture);
    return 0;
}

static struct gr_json *parse(struct gr_buf *text)
{
    struct gr_json *root = NULL;
    struct gr_err err;
    gr_test_ok(gr_json_parse(text->data, text->len, "text", GR_ERR_CHECK, &root, &err), &err);
    gr_buf_free(text);
    return root;
}

/* "a.b.2.c" */
static const struct gr_json *at(const struct gr_json *v, const char *path)
{
    char copy[200], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *p = strtok_r(copy, ".", &save); p != NULL; p = strtok_r(NULL, ".", &save)) {
        v = gr_json_kind(v) == GR_JSON_ARRAY ? gr_json_at(v, (size_t)atoi(p)) : gr_json_get(v, p);
        if (v == NULL) {
            fail_msg("%s: no %s", path, p);
        }
    }
    return v;
}

static struct gr_json *info_of(const struct gr_boot_fixture *f)
{
    struct gr_buf text = {0};
    struct gr_err err;
    gr_test_ok(gr_info_json(&f->config, &f->facts, &text, &err), &err);
    return parse(&text);
}

static void info_has_every_promised_fact(void **state)
{
    (void)state;
    static const char *const paths[] = {"status",
                                        "model",
                                        "version",
                                        "task",
                                        "layout",
                                        "embodiment.tag",
                                        "embodiment.slot",
                                        "hardware.cpu",
                                        "hardware.cpus",
                                        "hardware.isa",
                                        "hardware.threads",
                                        "hardware.threads_reason",
                                        "stage.served",
                                        "stage.kernels",
                                        "stage.policy",
                                        "stage.policy_asked",
                                        "stage.policy_step",
                                        "stage.half",
                                        "stage.peaks",
                                        "stage.fidelity",
                                        "stage.weights.tensors",
                                        "stage.weights.packed_bytes",
                                        "weights.repo",
                                        "weights.revision",
                                        "weights.snapshot_dir",
                                        "weights.digest",
                                        "weights.tokenizer_dir",
                                        "source.server_version",
                                        "source.compiler",
                                        "source.build",
                                        "cache.state",
                                        "cache.file",
                                        "cache.note",
                                        "inputs.images.cameras.0.key",
                                        "inputs.images.cameras.0.frames",
                                        "inputs.images.side_min",
                                        "inputs.images.alpha",
                                        "inputs.images.exif_orientation",
                                        "inputs.state.groups.4.key",
                                        "inputs.state.groups.0.unit",
                                        "inputs.state.groups.0.joints",
                                        "inputs.state.groups.0.normalization.min.6",
                                        "inputs.state.groups.0.normalization.max.6",
                                        "inputs.state.dtype",
                                        "inputs.instruction.max_chars",
                                        "inputs.instruction.max_tokens",
                                        "inputs.instruction.aliases.1",
                                        "inputs.noise.shape.1",
                                        "inputs.seed.default",
                                        "inputs.seed.max",
                                        "outputs.groups.4.normalization",
                                        "outputs.groups.0.joints",
                                        "outputs.groups.0.normalization.min.15.6",
                                        "outputs.action_horizon",
                                        "outputs.action_rate_hz",
                                        "outputs.normalized_means",
                                        "noise.default_seed",
                                        "limits.connections",
                                        "limits.head_bytes",
                                        "limits.body_bytes",
                                        "limits.bodies_bytes",
                                        "limits.head_s",
                                        "limits.body_s",
                                        "limits.idle_s",
                                        "limits.queue",
                                        "limits.text_tokens",
                                        "device_facts.boot_s",
                                        "warmup_latency_ms.0",
                                        "warmup_fidelity_vs_golden.source",
                                        "warmup_fidelity_vs_golden.kernels",
                                        "warmup_fidelity_vs_golden.pcc_actions",
                                        "warmup_fidelity_vs_golden.max_abs",
                                        "warmup_fidelity_vs_golden.pcc_slice",
                                        "warmup_fidelity_vs_golden.per_group",
                                        "warmup_fidelity_vs_golden.repeat_max_abs",
                                        "policies",
                                        "license",
                                        "license_notice"};
    struct gr_json *info = info_of(&fixture);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        (void)at(info, paths[i]);
    }
    assert_string_equal(gr_json_string(at(info, "stage.served")), "cpu-exact");
    assert_int_equal(gr_json_int(at(info, "outputs.action_rate_hz")), 20);
    assert_int_equal(gr_json_int(at(info, "noise.default_seed")), 42);
    assert_string_equal(gr_json_string(at(info, "outputs.groups.0.representation")),
                        "relative in the model, absolute on the wire");
    assert_string_equal(gr_json_string(at(info, "outputs.groups.4.representation")),
                        "absolute in the model and on the wire");
    assert_string_equal(gr_json_string(at(info, "inputs.state.groups.2.joints.5")), "left_thumb_rotation");
    gr_json_free(info);
}

static void unknown_weights_are_null(void **state)
{
    (void)state;
    struct gr_boot_fixture folder = fixture;
    folder.facts.weights_repo = folder.facts.weights_revision = NULL;
    folder.check.has_pcc = false;
    folder.facts.check = &folder.check;
    struct gr_json *info = info_of(&folder);
    assert_int_equal(gr_json_kind(at(info, "weights.repo")), GR_JSON_NULL);
    assert_int_equal(gr_json_kind(at(info, "warmup_fidelity_vs_golden.pcc_actions")), GR_JSON_NULL);
    gr_json_free(info);
}

static void the_licence_of_the_weights_is_named(void **state)
{
    (void)state;
    struct gr_boot_fixture folder = fixture;
    char path[512];
    folder.facts.snapshot_dir = gr_test_temp_dir();
    struct gr_json *info = info_of(&folder);
    assert_int_equal(gr_json_kind(at(info, "weights.license_file")), GR_JSON_NULL);
    assert_non_null(strstr(gr_json_string(at(info, "license")), "NVIDIA License, non-commercial"));
    const char *notice = gr_json_string(at(info, "license_notice"));
    assert_non_null(strstr(notice, "NVIDIA License: non-commercial use only"));
    assert_non_null(strstr(notice, "nvidia/GR00T-N1.6-3B/blob/main/LICENSE"));
    gr_json_free(info);
    snprintf(path, sizeof path, "%s/LICENSE", folder.facts.snapshot_dir);
    gr_test_write(path, "terms", 5);
    info = info_of(&folder);
    assert_string_equal(gr_json_string(at(info, "weights.license_file")), path);
    gr_json_free(info);
}

static void the_rate_comes_from_camera_keys_that_agree(void **state)
{
    (void)state;
    static const struct {
        const char *cameras[2];
        int hz;
    } cases[] = {{{"ego_freq20", "wrist_freq20"}, 20}, {{"ego_freq20", "wrist_freq10"}, 0},
                 {{"ego_freq20", "wrist"}, 0},         {{"ego_freq20x", "ego_freq20x"}, 0},
                 {{"ego_freq", "ego_freq"}, 0},        {{"ego_freq99999999999", "ego_freq99999999999"}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct gr_info info = {.n_cameras = 2, .cameras = cases[i].cameras};
        assert_int_equal(gr_info_rate_hz(&info), cases[i].hz);
    }
}

static void the_demo_request_is_the_demo_observation(void **state)
{
    (void)state;
    const struct gr_info *info = gr_policy_info(fixture.policy);
    const struct gr_observation *obs = &fixture.demo.obs;
    struct gr_buf text = {0};
    struct gr_err err;
    gr_test_ok(gr_demo_json(&fixture.facts, &text, &err), &err);
    struct gr_json *demo = parse(&text);
    int i = 0;
    for (int g = 0; g < info->n_state_groups; g++) {
        const struct gr_json *values = gr_json_get(at(demo, "request.state"), info->state_groups[g].name);
        assert_int_equal(gr_json_len(values), info->state_groups[g].dim);
        for (int k = 0; k < info->state_groups[g].dim; k++, i++) {
            const double v = gr_json_number(gr_json_at(values, (size_t)k));
            assert_true((float)v == (float)obs->state[i]);
        }
    }
    assert_string_equal(gr_json_string(at(demo, "request.instruction")), obs->instruction);
    assert_int_equal(gr_json_int(at(demo, "request.seed")), 42);
    const char *b64 = gr_json_string(gr_json_get(at(demo, "request.images"), info->cameras[0]));
    unsigned char *png = malloc(gr_base64_max(strlen(b64)));
    size_t n = 0;
    gr_test_ok(gr_base64_decode(b64, strlen(b64), png, &n, &err), &err);
    assert_int_equal(n, fixture.demo.pictures[0].n_bytes);
    assert_memory_equal(png, fixture.demo.pictures[0].png, n);
    free(png);
    const struct gr_json *waist = at(demo, "expected.actions.waist");
    assert_int_equal(gr_json_len(waist), info->action_steps);
    assert_true((float)gr_json_number(at(waist, "15.2")) ==
                fixture.check.golden_actions[15 * info->action_dim + info->action_dim - 1]);
    assert_int_equal(gr_json_len(at(demo, "expected.action_pred_normalized")), info->horizon);
    assert_int_equal(gr_json_len(at(demo, "expected.action_pred_normalized.0")), info->max_action_dim);
    assert_true(gr_json_number(at(demo, "expected.gates.pcc_actions_min")) == 0.999);
    assert_true(gr_json_number(at(demo, "expected.gates.max_abs_repeat")) == 0);
    assert_string_equal(gr_json_string(at(demo, "expected.source")), "computed");
    gr_json_free(demo);
}

static void the_openapi_document_speaks_of_this_embodiment(void **state)
{
    (void)state;
    struct gr_buf text = {0};
    struct gr_err err;
    gr_test_ok(gr_openapi_json(&fixture.config, &fixture.facts, &text, &err), &err);
    static const char *const marks[] = {"@IMAGES@", "@STATE@", "@ACTIONS@", "@VERSION@", "@EMBODIMENT@"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        assert_null(memmem(text.data, text.len, marks[i], strlen(marks[i])));
    }
    struct gr_json *doc = parse(&text);
    const struct gr_json *schemas = at(doc, "components.schemas");
    assert_string_equal(gr_json_string(at(doc, "info.version")), gr_version());
    assert_string_equal(gr_json_string(at(schemas, "Images.required.0")), gr_policy_info(fixture.policy)->cameras[0]);
    assert_int_equal(gr_json_int(at(schemas, "State.properties.waist.anyOf.0.maxItems")), 3);
    assert_int_equal(gr_json_int(at(schemas, "Actions.properties.left_arm.items.minItems")), 7);
    assert_int_equal(gr_json_int(at(schemas, "Actions.properties.left_arm.minItems")), 16);
    gr_json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_has_every_promised_fact),
        cmocka_unit_test(unknown_weights_are_null),
        cmocka_unit_test(the_licence_of_the_weights_is_named),
        cmocka_unit_test(the_rate_comes_from_camera_keys_that_agree),
        cmocka_unit_test(the_demo_request_is_the_demo_observation),
        cmocka_unit_test(the_openapi_document_speaks_of_this_embodiment),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
