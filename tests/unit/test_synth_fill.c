/* SPDX-License-Identifier: Apache-2.0
 *
 * test_synth_fill.c: values of synthetic tensors: ranges, the normal distribution, outliers (docs/SYNTHETIC.md). No file is
 * written; tensors of the full size are made one or two at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gr_test.h"

#include "model/synth.h"
#include "model/synth_fill.h"
#include "model/synth_inventory.h"

static float widen(uint16_t bits)
{
    const uint32_t b = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

/* The full-size tensors. */
static struct gr_synth_inventory full;

static const struct gr_synth_tensor *named(const char *name)
{
    const struct gr_synth_tensor *t = gr_synth_inventory_find(&full, name);
    if (t == NULL) {
        fail_msg("no tensor %s", name);
    }
    return t;
}

static float *make(const char *name, enum gr_synth_weights weights, uint64_t seed)
{
    struct gr_err err;
    struct gr_synth_filler *f = NULL;
    const struct gr_synth_tensor *t = named(name);
    uint16_t *bits = malloc(t->elements * sizeof *bits);
    float *out = malloc(t->elements * sizeof *out);
    assert_non_null(bits);
    assert_non_null(out);
    gr_test_ok(gr_synth_filler_new(full.config, weights, seed, &f, &err), &err);
    gr_synth_fill(f, t, 0, t->elements, bits);
    gr_synth_filler_free(f);
    for (uint64_t i = 0; i < t->elements; i++) {
        out[i] = widen(bits[i]);
    }
    free(bits);
    return out;
}

/* ---- ranges ---- */

/* Pieces of a file begin anywhere, also in the middle of four elements, in a diagonal or in an outlier column. */
static void any_split_into_ranges_gives_the_same_values(void **state)
{
    (void)state;
    static const char *const names[] = {"backbone.model.mlp1.1.weight", "action_head.action_decoder.layer2.W",
                                        "backbone.model.language_model.model.layers.3.self_attn.v_proj.weight",
                                        "backbone.model.vision_model.vision_model.embeddings.position_embedding.weight",
                                        "action_head.model.proj_out_2.bias"};
    struct gr_err err;
    struct gr_synth_filler *f = NULL;
    gr_test_ok(gr_synth_filler_new(full.config, GR_SYNTH_OUTLIERS, 9, &f, &err), &err);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const struct gr_synth_tensor *t = named(names[k]);
        const uint64_t n = t->elements < 500000 ? t->elements : 500000;
        uint16_t *whole = malloc(n * sizeof *whole), *parts = malloc(n * sizeof *parts);
        gr_synth_fill(f, t, 0, n, whole);
        uint64_t step = 1;
        for (uint64_t at = 0; at < n; at += step) {
            step = (step * 7 + 3) % 9973 + 1;
            gr_synth_fill(f, t, at, step < n - at ? step : n - at, parts + at);
        }
        assert_memory_equal(whole, parts, n * sizeof *whole);
        free(whole);
        free(parts);
    }
    gr_synth_filler_free(f);
}

/* ---- gaussian ---- */

static void probit_inverts_the_normal_distribution(void **state)
{
    (void)state;
    assert_true(gr_synth_probit(0.5) == 0.0);
    assert_true(fabs(gr_synth_probit(0.975) - 1.9599639845400542) < 1e-14);
    assert_true(fabs(gr_synth_probit(1e-10) + 6.3613409024040557) < 1e-13);
    for (unsigned i = 0; i < 65536; i++) {
        const double p = (i + 0.5) / 65536.0, x = gr_synth_probit(p);
        assert_true(fabs(0.5 * erfc(-x / sqrt(2.0)) - p) <= 1e-14 * p + 1e-17);
        assert_true(x == -gr_synth_probit(1.0 - p)); /* 1 - p is exact here */
    }
}

static void moments(const float *v, uint64_t n, double *mean, double *std, double *kurtosis)
{
    double s1 = 0, s2 = 0, s4 = 0;
    for (uint64_t i = 0; i < n; i++) {
        s1 += (double)v[i];
    }
    *mean = s1 / (double)n;
    for (uint64_t i = 0; i < n; i++) {
        const double d = (double)v[i] - *mean;
        s2 += d * d;
        s4 += d * d * d * d;
    }
    *std = sqrt(s2 / (double)n);
    *kurtosis = s4 / (double)n / pow(*std, 4);
}

/* 2048 x 2048 values: the standard error of the std is 0.035 %, that of the kurtosis 0.0024; bounds are 5 and 8 of them. */
static void gaussian_has_the_spread_of_uniform_and_the_shape_of_a_bell(void **state)
{
    (void)state;
    static const char name[] = "backbone.model.language_model.model.layers.0.self_attn.q_proj.weight";
    const struct gr_synth_tensor *t = named(name);
    const double expected = t->half / sqrt(3.0);
    for (int w = GR_SYNTH_UNIFORM; w <= GR_SYNTH_GAUSSIAN; w++) {
        double mean, std, kurtosis;
        float *v = make(name, (enum gr_synth_weights)w, 1600);
        moments(v, t->elements, &mean, &std, &kurtosis);
        assert_true(fabs(mean) < 5 * expected / sqrt((double)t->elements));
        assert_true(fabs(std / expected - 1) < 0.0018);
        assert_true(fabs(kurtosis - (w == GR_SYNTH_UNIFORM ? 1.8 : 3.0)) < 0.02);
        free(v);
    }
    float *norm = make("backbone.model.language_model.model.norm.weight", GR_SYNTH_GAUSSIAN, 1600);
    double mean, std, kurtosis;
    moments(norm, 2048, &mean, &std, &kurtosis);
    assert_true(fabs(mean - 1.0) < 0.02 && fabs(std - 0.2 / sqrt(3.0)) < 0.01);
    free(norm);
}

/* ---- outliers ---- */

/* What stands before and behind one activation. */
struct link {
    const char *producer, *bias, *consumers[3];
    int channels, columns, head_dim, share;
};

#define VIT "backbone.model.vision_model.vision_model.encoder.layers.4."
#define LLM "backbone.model.language_model.model.layers.13."
static const struct link LINKS[] = {
    {VIT "layer_norm1.weight",
     VIT "layer_norm1.bias",
     {VIT "self_attn.q_proj.weight", VIT "self_attn.k_proj.weight", VIT "self_attn.v_proj.weight"},
     1152,
     1152,
     1152,
     1},
    {VIT "layer_norm2.weight", VIT "layer_norm2.bias", {VIT "mlp.fc1.weight"}, 1152, 1152, 1152, 1},
    {VIT "self_attn.v_proj.weight",
     VIT "self_attn.v_proj.bias",
     {VIT "self_attn.out_proj.weight"},
     1152,
     1152,
     1152,
     1},
    {"backbone.model.mlp1.0.weight",
     "backbone.model.mlp1.0.bias",
     {"backbone.model.mlp1.1.weight"},
     4608,
     4608,
     4608,
     1},
    {LLM "input_layernorm.weight",
     NULL,
     {LLM "self_attn.q_proj.weight", LLM "self_attn.k_proj.weight", LLM "self_attn.v_proj.weight"},
     2048,
     2048,
     2048,
     1},
    {LLM "post_attention_layernorm.weight",
     NULL,
     {LLM "mlp.gate_proj.weight", LLM "mlp.up_proj.weight"},
     2048,
     2048,
     2048,
     1},
    {LLM "self_attn.v_proj.weight", NULL, {LLM "self_attn.o_proj.weight"}, 1024, 2048, 128, 2},
    {LLM "mlp.up_proj.weight", NULL, {LLM "mlp.down_proj.weight"}, 6144, 6144, 6144, 1},
};
enum { N_LINKS = sizeof LINKS / sizeof LINKS[0] };

/* Typical ratio of a row or column of the outlier family to the same one of the gaussian family: the median over its elements, so
 * that crossing outliers of the other side and BF16 rounding (at most 2^-8 on either side) do not matter. */
static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median_ratio(const float *with, const float *without, size_t n, size_t stride)
{
    float ratio[8192];
    size_t kept = 0;
    for (size_t i = 0; i < n && kept < 8192; i++) {
        if (without[i * stride] != 0.0f) {
            ratio[kept++] = with[i * stride] / without[i * stride];
        }
    }
    qsort(ratio, kept, sizeof ratio[0], by_value);
    return (double)ratio[kept / 2];
}

static void check_bias(const struct link *l, int c, double factor)
{
    static const char *cached;
    static float *with, *without;
    if (l->bias == NULL) {
        return;
    }
    if (cached != l->bias) {
        free(with);
        free(without);
        with = make(l->bias, GR_SYNTH_OUTLIERS, 1600);
        without = make(l->bias, GR_SYNTH_GAUSSIAN, 1600);
        cached = l->bias;
    }
    assert_true(fabs((double)with[c] - (double)without[c] * factor) <= fabs((double)with[c]) * 0x1p-8);
}

/* Producer row times f, each consumer column divided by the same f: the function stays. Returns the number of outlier channels. */
static int check_link(const struct link *l)
{
    const struct gr_synth_tensor *p = named(l->producer);
    const size_t width = p->ndim == 1 ? 1 : (size_t)p->shape[1];
    float *with = make(l->producer, GR_SYNTH_OUTLIERS, 1600), *without = make(l->producer, GR_SYNTH_GAUSSIAN, 1600);
    double *factor = calloc((size_t)l->channels, sizeof *factor);
    int outliers = 0;
    assert_int_equal(p->shape[0], l->channels);
    for (int c = 0; c < l->channels; c++) {
        const double f = median_ratio(with + (size_t)c * width, without + (size_t)c * width, width, 1);
        const bool hit = f != 1.0;
        assert_true(!hit || (f > 20 * (1 - 0x1p-8) && f < 60 * (1 + 0x1p-8)));
        factor[c] = f;
        outliers += hit;
        check_bias(l, c, gr_synth_outlier(&p->rows, 1600, c));
    }
    free(with);
    free(without);
    for (int k = 0; k < 3 && l->consumers[k] != NULL; k++) {
        const struct gr_synth_tensor *t = named(l->consumers[k]);
        with = make(l->consumers[k], GR_SYNTH_OUTLIERS, 1600);
        without = make(l->consumers[k], GR_SYNTH_GAUSSIAN, 1600);
        assert_int_equal(t->shape[1], l->columns);
        for (int c = 0; c < l->columns; c++) {
            const int channel = c / l->head_dim / l->share * l->head_dim +
                                c % l->head_dim; /* query head h reads value head h / share */
            const double f = median_ratio(with + c, without + c, (size_t)t->shape[0], (size_t)l->columns);
            assert_true(fabs(f * factor[channel] - 1) < 3 * 0x1p-8);
        }
        free(with);
        free(without);
    }
    free(factor);
    return outliers;
}

static void outliers_move_between_producer_and_consumer(void **state)
{
    (void)state;
    int outliers = 0, channels = 0;
    for (int i = 0; i < N_LINKS; i++) {
        const int found = check_link(&LINKS[i]);
        assert_true(found > 0); /* else the layer of the list checks nothing */
        outliers += found;
        channels += LINKS[i].channels;
    }
    /* 19,328 channels at 0.3 %: 58 expected, standard deviation 7.6. */
    assert_true(outliers > 58 - 30 && outliers < 58 + 30);
    assert_int_equal(channels, 1152 * 3 + 4608 + 2048 * 2 + 1024 + 6144);
}

/* Value projections are read by one outlier and write another; where both meet the factor is their quotient. */
static void crossing_outliers_get_both_factors(void **state)
{
    (void)state;
    static const char name[] = LLM "self_attn.v_proj.weight";
    const struct gr_synth_tensor *t = named(name);
    float *with = make(name, GR_SYNTH_OUTLIERS, 1600), *without = make(name, GR_SYNTH_GAUSSIAN, 1600);
    int crossings = 0;
    for (int64_t r = 0; r < t->shape[0]; r++) {
        const double row = gr_synth_outlier(&t->rows, 1600, (int)r);
        for (int64_t c = 0; c < t->shape[1]; c++) {
            const double col = gr_synth_outlier(&t->cols, 1600, (int)c);
            const size_t at = (size_t)(r * t->shape[1] + c);
            const double expected = (double)without[at] * (row / col);
            assert_true(fabs((double)with[at] - expected) <= fabs(expected) * 0x1p-8);
            crossings += row != 1.0 && col != 1.0;
        }
    }
    assert_true(crossings > 0);
    free(with);
    free(without);
}

static void all_other_tensors_are_those_of_gaussian(void **state)
{
    (void)state;
    static const char *const names[] = {VIT "mlp.fc2.weight",
                                        VIT "self_attn.q_proj.bias",
                                        LLM "self_attn.q_norm.weight",
                                        "backbone.model.mlp1.3.weight",
                                        "action_head.model.transformer_blocks.2.attn1.to_k.weight",
                                        "action_head.vlln.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        float *with = make(names[i], GR_SYNTH_OUTLIERS, 1600), *without = make(names[i], GR_SYNTH_GAUSSIAN, 1600);
        assert_memory_equal(with, without, named(names[i])->elements * sizeof *with);
        free(with);
        free(without);
    }
}

static void check_boosted(const char *name, int expected)
{
    const struct gr_synth_tensor *t = named(name);
    const size_t width = (size_t)t->shape[1];
    float *with = make(name, GR_SYNTH_OUTLIERS, 1600), *without = make(name, GR_SYNTH_GAUSSIAN, 1600);
    uint64_t rows[3];
    int changed = 0;
    const int n = gr_synth_boosted_rows(full.config, t, 1600, rows);
    assert_int_equal(n, expected);
    for (int64_t r = 0; r < t->shape[0]; r++) {
        if (memcmp(with + (size_t)r * width, without + (size_t)r * width, width * sizeof *with) == 0) {
            continue;
        }
        changed++;
        bool listed = false;
        for (int k = 0; k < n; k++) {
            listed |= rows[k] == (uint64_t)r;
        }
        assert_true(listed);
        for (size_t c = 0; c < width; c++) {
            const float x = with[(size_t)r * width + c], y = 30.0f * without[(size_t)r * width + c];
            assert_true(fabsf(x - y) <= fabsf(y) * 0x1p-8f);
        }
    }
    assert_int_equal(changed, expected);
    free(with);
    free(without);
}

static void three_positions_and_two_template_tokens_are_large(void **state)
{
    (void)state;
    check_boosted("backbone.model.vision_model.vision_model.embeddings.position_embedding.weight", 3);
    struct gr_synth_inventory tiny = {0}, kept = full; /* the embedding of the full size takes too long here */
    struct gr_err err;
    gr_test_ok(gr_synth_inventory_make(gr_synth_config_of(GR_SYNTH_TINY), &tiny, &err), &err);
    full = tiny;
    check_boosted("backbone.model.language_model.model.embed_tokens.weight", 2);
    full = kept;
    gr_synth_inventory_free(&tiny);
}

static int set_up(void **state)
{
    struct gr_err err;
    (void)state;
    return gr_synth_inventory_make(gr_synth_config_of(GR_SYNTH_FULL), &full, &err) == GR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gr_synth_inventory_free(&full);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_into_ranges_gives_the_same_values),
        cmocka_unit_test(probit_inverts_the_normal_distribution),
        cmocka_unit_test(gaussian_has_the_spread_of_uniform_and_the_shape_of_a_bell),
        cmocka_unit_test(outliers_move_between_producer_and_consumer),
        cmocka_unit_test(crossing_outliers_get_both_factors),
        cmocka_unit_test(all_other_tensors_are_those_of_gaussian),
        cmocka_unit_test(three_positions_and_two_template_tokens_are_large),
    };
    return cmocka_run_group_tests_name("synth_fill", tests, set_up, tear_down);
}
