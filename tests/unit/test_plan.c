/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plan.c: the file of a plan: what is written comes back, and a file that is anything else counts as none. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/plan.h"

static const char key[] = "weights 0123; cpu \"X\"; policy auto";

static struct gr_plan sample(void)
{
    struct gr_plan p = {
        .asked = "auto", .policy = "mixed", .step = "mixed, llm 8", .half = "f16", .cpu = "Xeon \xc3\xa9"};
    p.n_peaks = 2;
    p.peaks[0] = (__typeof__(p.peaks[0])){"i8", "avx512vnni", 812.125};
    p.peaks[1] = (__typeof__(p.peaks[0])){"f16", "avx512fp16", 405.0};
    p.n_tries = 2;
    p.tries[0] = (struct gr_plan_try){.step = "fastest", .judged = 1};
    p.tries[0].verdict[0] = (struct gr_verdict){NAN, -0.25, INFINITY, 0.5, "waist", false};
    p.tries[1] = (struct gr_plan_try){.step = "mixed, llm 8", .judged = 3, .pass = true};
    for (int k = 0; k < 3; k++) {
        p.tries[1].verdict[k] = (struct gr_verdict){0.99951 + k * 1e-5, 0.9991, 0.0125, 0.99, "left_arm", true};
    }
    p.n_matrices = 3;
    p.matrices = calloc(3, sizeof *p.matrices);
    p.matrices[0] = (struct gr_plan_matrix){"vit.3.fc1", "i8", 0.0123456789};
    p.matrices[1] = (struct gr_plan_matrix){"llm.0.qkv", "f16", -1};
    p.matrices[2] = (struct gr_plan_matrix){"dit.0.ff", "bf16", 0};
    return p;
}

static const char *written(const struct gr_plan *p)
{
    struct gr_err err;
    const char *path = gr_test_join(gr_test_temp_dir(), "plan.json");
    gr_test_ok(gr_plan_write(path, key, p, &err), &err);
    return path;
}

static void a_plan_comes_back_as_it_was(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_plan p = sample(), q;
    const char *path = written(&p);
    gr_test_ok(gr_plan_read(path, key, &q, &err), &err);
    assert_string_equal(q.asked, "auto");
    assert_string_equal(q.policy, "mixed");
    assert_string_equal(q.step, "mixed, llm 8");
    assert_string_equal(q.half, "f16");
    assert_string_equal(q.cpu, p.cpu);
    assert_int_equal(q.n_peaks, 2);
    assert_string_equal(q.peaks[1].isa, "avx512fp16");
    assert_true(q.peaks[0].gops == 812.125);
    assert_int_equal(q.n_tries, 2);
    assert_int_equal(q.tries[0].judged, 1);
    assert_true(isnan(q.tries[0].verdict[0].pcc) && isinf(q.tries[0].verdict[0].max_abs));
    assert_false(q.tries[0].pass);
    assert_true(q.tries[1].pass);
    assert_memory_equal(q.tries[1].verdict, p.tries[1].verdict, sizeof p.tries[1].verdict);
    assert_int_equal(q.n_matrices, 3);
    assert_memory_equal(q.matrices, p.matrices, 3 * sizeof *p.matrices);
    assert_true(q.kept);
    assert_string_equal(q.file, path);
    gr_plan_free(&p);
    gr_plan_free(&q);
    assert_null(q.matrices);
}

static void no_file_and_another_key_are_told_apart(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_plan p = sample(), q;
    const char *path = written(&p);
    gr_test_fails(gr_plan_read(gr_test_join(gr_test_temp_dir(), "none"), key, &q, &err), &err, GR_ERR_IO, "none");
    gr_test_fails(gr_plan_read(path, "weights 9", &q, &err), &err, GR_ERR_FORMAT, "other weights");
    assert_null(q.matrices);
    gr_plan_free(&p);
}

static void a_cut_file_is_refused_at_every_length(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_plan p = sample(), q;
    const char *path = written(&p), *cut = gr_test_join(gr_test_temp_dir(), "cut.json");
    size_t n;
    uint8_t *text = gr_test_read(path, &n);
    for (size_t i = 0; i < n; i++) {
        gr_test_write(cut, text, i);
        assert_int_equal(gr_plan_read(cut, key, &q, &err), GR_ERR_FORMAT);
    }
    free(text);
    gr_plan_free(&p);
}

static void a_flipped_byte_is_refused_wherever_it_is(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_plan p = sample(), q;
    const char *path = written(&p), *bad = gr_test_join(gr_test_temp_dir(), "bad.json");
    size_t n;
    uint8_t *text = gr_test_read(path, &n);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        uint8_t before = text[i];
        text[i] ^= (uint8_t)(1u << (x >> 29));
        gr_test_write(bad, text, n);
        assert_int_equal(gr_plan_read(bad, key, &q, &err), GR_ERR_FORMAT);
        assert_null(q.matrices);
        text[i] = before;
    }
    free(text);
    gr_plan_free(&p);
}

/* What a writer of another mind would store, with a checksum that fits. */
static void values_that_no_plan_has_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_plan q;
    struct gr_plan p = sample();
    p.tries[1].verdict[0].pcc = 1.5;
    gr_test_fails(gr_plan_read(written(&p), key, &q, &err), &err, GR_ERR_FORMAT, "pcc");
    p.tries[1].verdict[0].pcc = 1.0;
    p.tries[1].verdict[1].max_abs = -1;
    gr_test_fails(gr_plan_read(written(&p), key, &q, &err), &err, GR_ERR_FORMAT, "max_abs");
    p.tries[1].verdict[1].max_abs = 0;
    p.matrices[2].error = -2;
    gr_test_fails(gr_plan_read(written(&p), key, &q, &err), &err, GR_ERR_FORMAT, "error");
    p.matrices[2].error = 0;
    p.peaks[0].gops = -1;
    gr_test_fails(gr_plan_read(written(&p), key, &q, &err), &err, GR_ERR_FORMAT, "gops");
    p.peaks[0].gops = 1;
    snprintf(p.matrices[1].name, sizeof p.matrices[1].name, "\033[2J");
    gr_test_fails(gr_plan_read(written(&p), key, &q, &err), &err, GR_ERR_FORMAT, "name");
    gr_plan_free(&p);
}

static void a_folder_and_foreign_json_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_plan q;
    const char *dir = gr_test_temp_dir(), *path = gr_test_join(dir, "x.json");
    assert_int_not_equal(gr_plan_read(dir, key, &q, &err), GR_OK);
    gr_test_write(path, "[]", 2);
    gr_test_fails(gr_plan_read(path, key, &q, &err), &err, GR_ERR_FORMAT, "checksum");
    assert_int_not_equal(gr_plan_write(gr_test_join(dir, "absent/plan.json"), key, &q, &err), GR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_comes_back_as_it_was),
        cmocka_unit_test(no_file_and_another_key_are_told_apart),
        cmocka_unit_test(a_cut_file_is_refused_at_every_length),
        cmocka_unit_test(a_flipped_byte_is_refused_wherever_it_is),
        cmocka_unit_test(values_that_no_plan_has_are_refused),
        cmocka_unit_test(a_folder_and_foreign_json_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
