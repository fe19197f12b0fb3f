/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bench.c: the arithmetic behind `gr00t bench engine`: what a predict multiplies, how fast that could be, what a clock allows. */
#include "gr_test.h"

#include <math.h>
#include <string.h>

#include "cli/bench_meter.h"
#include "cli/bench_roofline.h"
#include "cli/flops.h"

static struct gr_dims published_dims(void)
{
    struct gr_dims d = {0};
    d.vit.hidden = 1152, d.vit.mlp = 4304, d.vit.layers = 27, d.vit.heads = 16, d.vit.patches = 324, d.vit.tokens = 81;
    d.llm.hidden = 2048, d.llm.mlp = 6144, d.llm.layers = 16, d.llm.heads = 16, d.llm.kv_heads = 8,
    d.llm.head_dim = 128;
    d.dit.layers = 32, d.dit.heads = 32, d.dit.head_dim = 48, d.dit.width = 1536, d.dit.mlp = 6144, d.dit.out = 1024;
    d.dit.hidden = 1024, d.dit.max_state = 128, d.dit.max_action = 128, d.dit.horizon = 50, d.dit.steps = 4,
    d.dit.text_every = 2;
    return d;
}

static struct gr_work work_of(int n_images, int n_tokens, int n_prefix)
{
    struct gr_dims d = published_dims();
    struct gr_work_size size = {n_images, n_tokens, n_prefix};
    struct gr_work work;
    struct gr_err err;
    gr_test_ok(gr_work_make(&d, &size, &work, &err), &err);
    return work;
}

static double gflop(const struct gr_work *w, enum gr_work_stage s) { return gr_work_flops(w, s) / 1e9; }

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) {
        fail_msg("%.6f, expected %.6f within %g", got, want, tolerance);
    }
}

/* The published figures, to a decimal. They count the time half of the action encoder's second layer in every step (0.94 GFLOP) and one decoded
 * row more (4 steps, two layers: 0.01), which this engine does not compute. */
static void work_of_the_published_shapes_is_as_published(void **state)
{
    (void)state;
    struct gr_work at116 = work_of(1, 116, 0), at128 = work_of(1, 128, 0);
    const double not_computed = 4 * 2.0 * (50.0 * 1536 * 1536 + 1024.0 * 1024 + 1024.0 * 128) / 1e9;
    near(gflop(&at116, GR_WORK_VISION), 282.1, 0.06);
    near(gflop(&at116, GR_WORK_LLM), 188.6, 0.06);
    near(gflop(&at116, GR_WORK_ADAPTER), 11.7, 0.06);
    near(gflop(&at116, GR_WORK_DENOISE) + not_computed, 345.1, 0.06);
    near(gflop(&at128, GR_WORK_LLM), 208.3, 0.06);
    near(gflop(&at128, GR_WORK_ADAPTER), 12.9, 0.06);
    near(gflop(&at128, GR_WORK_DENOISE) + not_computed, 345.2, 0.06);
    gr_work_free(&at116);
    gr_work_free(&at128);
}

static void rows_from_the_prefix_cache_are_not_counted(void **state)
{
    (void)state;
    struct gr_work all = work_of(1, 116, 0), cached = work_of(1, 116, 32), rest = work_of(1, 84, 0);
    const struct gr_work *w[] = {&all, &cached, &rest};
    double products[3];
    for (int i = 0; i < 3; i++) {
        products[i] = gr_work_flops(w[i], GR_WORK_LLM) - w[i]->attention[GR_WORK_LLM];
    }
    assert_true(products[1] == products[2]); /* 84 rows are multiplied, ... */
    near(cached.attention[GR_WORK_LLM] / all.attention[GR_WORK_LLM], 84.0 / 116.0, 1e-12); /* ... each sees all keys */
    assert_true(gr_work_flops(&cached, GR_WORK_ADAPTER) == gr_work_flops(&rest, GR_WORK_ADAPTER));
    assert_true(gr_work_flops(&cached, GR_WORK_DENOISE) == gr_work_flops(&all, GR_WORK_DENOISE));
    gr_work_free(&all);
    gr_work_free(&cached);
    gr_work_free(&rest);
}

/* All weights once, those of the Euler steps four times. */
static void streamed_bytes_follow_the_formats(void **state)
{
    (void)state;
    struct gr_work work = work_of(1, 116, 0);
    struct gr_meter_rates rates = {.gops = {[GR_MAT_F32] = 400, [GR_MAT_BF16] = 400, [GR_MAT_I8] = 1600}, .gbytes = 25};
    struct gr_roofs roofs;
    static enum gr_mat_format formats[1024];
    static const struct {
        enum gr_mat_format format;
        double bytes; /* of an element */
    } cases[] = {{GR_MAT_F32, 4}, {GR_MAT_BF16, 2}, {GR_MAT_I8, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (int i = 0; i < work.n; i++) {
            formats[i] = cases[c].format;
        }
        gr_roof_of(&work, formats, false, &rates, &roofs);
        near(roofs.total.bytes / cases[c].bytes / 1e9, 4.69, 0.03); /* the published 4.69 G elements, and padding */
        near(roofs.stage[GR_WORK_DENOISE].bytes / cases[c].bytes / 4e6, 838.0, 3.0);
    }
    gr_work_free(&work);
}

static void a_mixed_stage_is_the_sum_of_its_instructions(void **state)
{
    (void)state;
    struct gr_product products[] = {{.name = "a", .stage = GR_WORK_LLM, .m = 100, .n = 64, .k = 1000, .times = 1},
                                    {.name = "b", .stage = GR_WORK_LLM, .m = 100, .n = 64, .k = 1000, .times = 3}};
    struct gr_work work = {.products = products, .n = 2};
    struct gr_meter_rates rates = {.gops = {[GR_MAT_F32] = 100, [GR_MAT_I8] = 400}, .gbytes = 1000};
    struct gr_roofs roofs;
    const enum gr_mat_format formats[] = {GR_MAT_F32, GR_MAT_I8};
    work.attention[GR_WORK_LLM] = 1e6;
    gr_roof_of(&work, formats, true, &rates, &roofs);
    const struct gr_roof *r = &roofs.stage[GR_WORK_LLM];
    near(r->format_ms[GR_MAT_F32], 12.8e6 / 100e6 + 1e6 / 100e6, 1e-9); /* causal attention stays fp32 */
    near(r->format_ms[GR_MAT_I8], 3 * 12.8e6 / 400e6, 1e-9);
    near(r->ops_ms, 0.128 + 0.01 + 0.096, 1e-9);
    assert_true(r->bound_ms == r->ops_ms);
    rates.gbytes = 1;
    gr_roof_of(&work, formats, true, &rates, &roofs);
    near(r->memory_ms, (4.0 * 64 * 1008 + 3 * 64 * 1024) * 1e-6, 1e-9); /* k is padded to 16 and to 64 */
    assert_true(r->bound_ms == r->memory_ms && roofs.total.bound_ms == r->bound_ms);
}

static void formats_come_from_the_plan_by_name(void **state)
{
    (void)state;
    struct gr_product products[] = {{.name = "llm.0.qkv"}, {.name = "llm.0.o"}, {.name = "dit.0.q"}};
    struct gr_work work = {.products = products, .n = 3};
    struct gr_plan_matrix matrices[] = {{.name = "dit.0.q", .format = "i8"},
                                        {.name = "vit.0.qkv", .format = "bf16"},
                                        {.name = "llm.0.o", .format = "f16"},
                                        {.name = "llm.0.qkv", .format = "bf16p"}};
    struct gr_plan plan = {.matrices = matrices, .n_matrices = 4};
    enum gr_mat_format formats[3];
    struct gr_err err;
    gr_test_ok(gr_roof_formats(&work, &plan, 0.0, formats, &err), &err);
    assert_int_equal(formats[0], GR_MAT_BF16P);
    assert_int_equal(formats[1], GR_MAT_F16);
    assert_int_equal(formats[2], GR_MAT_I8);
    strcpy(matrices[0].format, "i4");
    gr_test_fails(gr_roof_formats(&work, &plan, 0.0, formats, &err), &err, GR_ERR_DEVICE, "\"i4\"");
    plan.n_matrices = 3;
    gr_test_fails(gr_roof_formats(&work, &plan, 0.0, formats, &err), &err, GR_ERR_DEVICE, "llm.0.qkv");
}

static void without_a_plan_the_size_tells(void **state)
{
    (void)state;
    struct gr_product products[] = {{.name = "a", .m = 1, .n = 32, .k = 1000, .times = 1}};
    struct gr_work work = {.products = products, .n = 1};
    enum gr_mat_format format;
    struct gr_err err;
    gr_test_ok(gr_roof_formats(&work, NULL, 64000.0, &format, &err), &err);
    assert_int_equal(format, GR_MAT_BF16);
    gr_test_ok(gr_roof_formats(&work, NULL, 128000.0, &format, &err), &err);
    assert_int_equal(format, GR_MAT_F32);
}

static void a_peak_is_held_against_clock_and_ports(void **state)
{
    (void)state;
    static const struct {
        enum gr_mat_format format;
        const char *isa, *name;
        double gops, rate, possible; /* of one thread at 3 GHz */
    } cases[] = {
        {GR_MAT_F32, "avx512", "vfmadd231ps", 188.0, 2.0, 192.0},
        {GR_MAT_BF16, "avx2", "vfmadd231ps", 90.0, 2.0, 96.0},
        {GR_MAT_I8, "avx512vnni", "vpdpbusd", 760.0, 2.0, 768.0},
        {GR_MAT_BF16P, "avx512bf16", "vdpbf16ps", 95.0, 0.5, 96.0}, /* a CPU that has it in name only */
        {GR_MAT_BF16P, "avx512bf16", "vdpbf16ps", 380.0, 2.0, 384.0},
        {GR_MAT_I8, "amx", "tdpbusd", 6100.0, 0.0625, 6144.0},
        {GR_MAT_I8, "scalar", "scalar", 3.0, 0.0, 0.0}, /* no single instruction: nothing to compare with */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double possible;
        struct gr_instruction in = gr_instruction_of(cases[i].format, cases[i].isa);
        assert_string_equal(in.name, cases[i].name);
        assert_true(gr_instruction_rate(&in, cases[i].gops, 3.0, &possible) == cases[i].rate);
        near(possible, cases[i].possible, 1e-9);
        assert_true(gr_instruction_rate(&in, cases[i].gops, 0.0, &possible) == 0.0 && possible == 0.0);
    }
    assert_string_equal(gr_instruction_of(GR_MAT_I16, NULL).name, "none");
}

static void spread_sorts_and_takes_the_middle(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 3}, one[] = {7};
    struct gr_spread s = gr_spread_of(odd, 3);
    assert_true(s.p50 == 2 && s.min == 1 && s.max == 3);
    assert_true(gr_spread_of(even, 4).p50 == 2.5);
    s = gr_spread_of(one, 1);
    assert_true(s.p50 == 7 && s.min == 7 && s.max == 7);
}

static void the_meter_measures_what_the_table_has(void **state)
{
    (void)state;
    struct gr_meter *meter;
    struct gr_err err;
    gr_test_ok(gr_meter_open(2, 0, &meter, &err), &err);
    struct gr_meter_rates rates = gr_meter_sample(meter);
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        assert_true((rates.gops[f] > 0.0) == (gr_meter_kernels(meter)->peak[f] != NULL));
    }
    assert_true(rates.gops[GR_MAT_F32] == rates.gops[GR_MAT_BF16]); /* the same loop */
#if defined(__x86_64__)
    assert_true(rates.ghz[GR_MAT_F32] > 0.05 && rates.ghz[GR_MAT_F32] < 10.0);
#endif
    assert_true(rates.gbytes > 0.01 && rates.gbytes < 10000.0);
    gr_meter_close(meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_the_published_shapes_is_as_published),
        cmocka_unit_test(rows_from_the_prefix_cache_are_not_counted),
        cmocka_unit_test(streamed_bytes_follow_the_formats),
        cmocka_unit_test(a_mixed_stage_is_the_sum_of_its_instructions),
        cmocka_unit_test(formats_come_from_the_plan_by_name),
        cmocka_unit_test(without_a_plan_the_size_tells),
        cmocka_unit_test(a_peak_is_held_against_clock_and_ports),
        cmocka_unit_test(spread_sorts_and_takes_the_middle),
        cmocka_unit_test(the_meter_measures_what_the_table_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
