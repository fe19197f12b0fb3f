/* SPDX-License-Identifier: Apache-2.0
 *
 * test_choose.c: the choice of number formats on weights that are hard on them: NaN, magnitudes beyond half precision, zeros, products that
 * overflow, every storage type. Each policy serves them or refuses them by name; auto always ends at something that is right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "demo_snapshot.h"
#include "formats/safetensors.h"
#include "gr00t.h"
#include "gr_test.h"
#include "model/snapshot.h"
#include "policy/observation.h"
#include "policy/policy.h"

#define VIT "backbone.model.vision_model.vision_model."
#define LLM "backbone.model.language_model.model."
#define HEAD "action_head."

static const char *const policies[] = {"auto", "high", "balanced", "fast", "mixed", "fastest"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

/* ---- snapshots with other weights ---- */

/* What is done to the values of tensors whose names end with `name`. */
struct edit {
    const char *name;
    void (*change)(float *x, size_t n, size_t row, float by); /* row: values of one output */
    float by;
};

static void times(float *x, size_t n, size_t row, float by)
{
    (void)row;
    for (size_t i = 0; i < n; i++) {
        x[i] *= by;
    }
}

static void one_is(float *x, size_t n, size_t row, float by)
{
    (void)row;
    x[n / 2] = by;
}

static void first_output_is(float *x, size_t n, size_t row, float by)
{
    for (size_t i = 0; i < row && i < n; i++) {
        x[i] = by;
    }
}

/* To the storage type; half precision without subnormals. */
static size_t store(enum gr_dtype type, float x, uint8_t *to)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == GR_F32) {
        memcpy(to, &bits, 4);
        return 4;
    }
    const uint32_t exponent = bits >> 23 & 255;
    uint16_t v = (uint16_t)(bits >> 16);
    if (type == GR_F16) {
        const uint32_t most = 0x7bff, value = exponent < 113 ? 0 : ((bits & 0x7fffffff) - (112u << 23)) >> 13;
        v = (uint16_t)((bits >> 16 & 0x8000) | (value < most ? value : most));
    }
    memcpy(to, &v, 2);
    return 2;
}

static void apply(const struct edit *edits, const struct gr_tensor *t, float *values, size_t n)
{
    for (; edits != NULL && edits->name != NULL; edits++) {
        const size_t len = strlen(edits->name), all = strlen(t->name);
        if (all >= len && strcmp(t->name + all - len, edits->name) == 0) {
            edits->change(values, n, (size_t)t->shape[t->ndim - 1], edits->by);
        }
    }
}

/* The demo as one file of this type. edits end with a NULL name. */
static const char *snapshot_of(enum gr_dtype type, const struct edit *edits)
{
    struct gr_err err;
    struct gr_snapshot *snap = NULL;
    const char *dir = gr_test_temp_dir();
    gr_test_copy_dir(demo_dir, dir);
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    const size_t n = gr_snapshot_count(snap);
    size_t header_bytes = 0, total = 0;
    struct gr_tensor *t = calloc(n, sizeof *t);
    for (size_t i = 0; i < n; i++) {
        t[i] = *gr_snapshot_at(snap, i);
        t[i].dtype = type;
        total += 2 * t[i].bytes; /* the demo is BF16 */
    }
    uint8_t *header = NULL;
    gr_test_ok(gr_safetensors_header(t, n, &header, &header_bytes, &err), &err);
    uint8_t *file = malloc(header_bytes + total);
    memcpy(file, header, header_bytes);
    size_t at = header_bytes;
    for (size_t i = 0; i < n; i++) {
        const struct gr_tensor *from = gr_snapshot_at(snap, i);
        const size_t count = from->bytes / 2;
        float *values = malloc(count * sizeof *values);
        gr_tensor_to_f32(from, 0, count, values);
        apply(edits, from, values, count);
        for (size_t k = 0; k < count; k++) {
            at += store(type, values[k], file + at);
        }
        free(values);
    }
    const int shards = gr_snapshot_shards(snap);
    gr_snapshot_close(snap);
    for (int i = 1; i <= shards; i++) {
        assert_int_equal(remove(gr_test_join(dir, "model-%05d-of-%05d.safetensors", i, shards)), 0);
    }
    assert_int_equal(remove(gr_test_join(dir, "model.safetensors.index.json")), 0);
    gr_test_write(gr_test_join(dir, "model.safetensors"), file, at);
    free(file);
    free(header);
    free(t);
    return dir;
}

/* ---- answers ---- */

static struct gr_policy *open_policy(const char *dir, const struct gr_options *o)
{
    struct gr_policy *p = NULL;
    struct gr_err err;
    gr_test_ok(gr_policy_open(dir, o, &p, &err), &err);
    return p;
}

static struct gr_chunk *predict(struct gr_policy *p)
{
    struct gr_sample s;
    struct gr_chunk *c = NULL;
    struct gr_err err;
    gr_test_ok(gr_sample_make(gr_policy_config(p), 1, &s, &err), &err);
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_policy_predict(p, &s.obs, c, &err), &err);
    gr_sample_free(&s);
    return c;
}

/* Correlation of the actions of `dir` by these options with its exact ones. */
static double agreement(const char *dir, const struct gr_chunk *exact, const char *precision, const char *half)
{
    const struct gr_options o = {.precision = precision, .half = half, .threads = 2};
    struct gr_policy *p = open_policy(dir, &o);
    struct gr_chunk *c = predict(p);
    const struct gr_diff d = gr_compare(c->actions, c->dim, exact->actions, c->dim, c->steps, c->dim);
    const double pcc = d.has_pcc ? d.pcc : d.max_abs < 1e-3 ? 1.0 : 0.0;
    print_message("%-9s %-5s PCC %.6f max|d| %.2e: %s\n", precision, half != NULL ? half : "", pcc, d.max_abs,
                  gr_policy_info(p)->precision_step);
    gr_chunk_free(c);
    gr_policy_close(p);
    return pcc;
}

static void all_policies_agree(const char *dir)
{
    static const char *const halves[] = {"f16", "bf16p", "i16"};
    const struct gr_options o = {.precision = "exact", .threads = 2};
    struct gr_policy *p = open_policy(dir, &o);
    struct gr_chunk *exact = predict(p);
    gr_policy_close(p);
    for (int k = 0; k < POLICIES; k++) {
        for (int h = 0; h < (k == 1 ? 3 : 1); h++) {
            assert_true(agreement(dir, exact, policies[k], k == 1 ? halves[h] : NULL) > (k == 0 ? 0.999 : 0.98));
        }
    }
    gr_chunk_free(exact);
}

/* ---- tests ---- */

static void every_storage_type_serves_every_policy(void **state)
{
    (void)state;
    all_policies_agree(snapshot_of(GR_F16, NULL));
    all_policies_agree(snapshot_of(GR_F32, NULL));
}

static void what_is_no_number_is_refused_by_name_in_every_policy(void **state)
{
    (void)state;
    static const char *const names[] = {LLM "layers.0.mlp.down_proj.weight",
                                        VIT "encoder.layers.1.mlp.fc1.weight",
                                        HEAD "model.transformer_blocks.0.norm1.linear.weight",
                                        HEAD "action_decoder.layer2.W",
                                        LLM "norm.weight",
                                        LLM "embed_tokens.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct edit edits[] = {{names[i], i == 3 ? times : one_is, i % 2 == 0 ? NAN : INFINITY}, {0}};
        const char *dir = snapshot_of(GR_F32, edits);
        for (int k = 0; k < POLICIES; k++) {
            const struct gr_options o = {.precision = policies[k], .threads = 2};
            struct gr_policy *p = NULL;
            struct gr_err err;
            gr_test_fails(gr_policy_open(dir, &o, &p, &err), &err, GR_ERR_FORMAT, names[i]);
            assert_null(p);
        }
    }
}

static void weights_beyond_half_precision_are_served(void **state)
{
    (void)state;
    const struct edit edits[] = {{"mlp.up_proj.weight", times, 0x1p-45f},
                                 {"mlp.down_proj.weight", times, 0x1p45f},
                                 {"ff.net.0.proj.weight", first_output_is, 1e-30f},
                                 {"attn1.to_out.0.weight", first_output_is, 0.0f},
                                 {0}};
    all_policies_agree(snapshot_of(GR_F32, edits));
}

static void matrices_of_zeros_are_served(void **state)
{
    (void)state;
    const struct edit edits[] = {{"layers.0.mlp.down_proj.weight", times, 0.0f},
                                 {"layers.1.mlp.fc1.weight", times, 0.0f},
                                 {"layers.0.self_attn.q_proj.weight", times, 0.0f},
                                 {"blocks.1.ff.net.2.weight", times, 0.0f},
                                 {0}};
    all_policies_agree(snapshot_of(GR_BF16, edits));
}

static void one_huge_weight_is_survived(void **state)
{
    (void)state;
    const struct edit edits[] = {{"layers.0.mlp.fc2.weight", one_is, 1e6f},
                                 {"layers.1.mlp.up_proj.weight", one_is, -1e9f},
                                 {"blocks.0.ff.net.0.proj.weight", one_is, 1e5f},
                                 {0}};
    const char *dir = snapshot_of(GR_F32, edits);
    const struct gr_options o = {.precision = "exact", .threads = 2};
    struct gr_policy *p = open_policy(dir, &o);
    struct gr_chunk *exact = predict(p);
    gr_policy_close(p);
    assert_true(agreement(dir, exact, "auto", NULL) > 0.999);
    for (int k = 1; k < POLICIES; k++) {
        assert_true(isfinite(agreement(dir, exact, policies[k], NULL)));
    }
    gr_chunk_free(exact);
}

/* Products come so close to the largest float that rounding in another format takes them beyond. */
static void a_step_of_the_ladder_that_gives_nan_has_failed(void **state)
{
    (void)state;
    const struct edit edits[] = {
        {"mlp.up_proj.weight", times, 0x1.ap124f}, {"mlp.down_proj.weight", times, 0x1p-124f}, {0}};
    const char *dir = snapshot_of(GR_F32, edits);
    const struct gr_options o = {.precision = "exact", .threads = 2};
    struct gr_policy *p = open_policy(dir, &o);
    struct gr_chunk *exact = predict(p);
    gr_policy_close(p);
    assert_true(agreement(dir, exact, "auto", NULL) > 0.999);
    gr_chunk_free(exact);
}

static void a_network_that_overflows_is_refused_by_matrix(void **state)
{
    (void)state;
    const struct edit edits[] = {{"layers.1.mlp.fc1.weight", times, 0x1p120f}, {0}};
    const char *dir = snapshot_of(GR_F32, edits);
    for (int k = 0; k < POLICIES; k++) {
        const struct gr_options o = {.precision = policies[k], .threads = 2};
        struct gr_policy *p = NULL;
        struct gr_err err;
        gr_test_fails(gr_policy_open(dir, &o, &p, &err), &err, GR_ERR_FORMAT, "connector1: ");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_storage_type_serves_every_policy),
        cmocka_unit_test(what_is_no_number_is_refused_by_name_in_every_policy),
        cmocka_unit_test(weights_beyond_half_precision_are_served),
        cmocka_unit_test(matrices_of_zeros_are_served),
        cmocka_unit_test(one_huge_weight_is_survived),
        cmocka_unit_test(a_step_of_the_ladder_that_gives_nan_has_failed),
        cmocka_unit_test(a_network_that_overflows_is_refused_by_matrix),
    };
    return cmocka_run_group_tests(tests, make_demo, gr_test_temp_clean);
}
