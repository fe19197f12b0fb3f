/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plan_text.c: what `gr00t inspect` says about number formats. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_text.h"

static void add(struct gr_plan *p, const char *name, const char *format, double error)
{
    struct gr_plan_matrix *m = &p->matrices[p->n_matrices++];
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->format, sizeof m->format, "%s", format);
    m->error = error;
}

static void layers_that_are_alike_are_one_line(void **state)
{
    (void)state;
    struct gr_plan p = {.asked = "auto", .step = "mixed, llm 8", .half = "f16", .cpu = "some CPU"};
    struct gr_buf out = {0};
    p.matrices = calloc(16, sizeof *p.matrices);
    add(&p, "patch", "bf16", 0);
    for (int i = 5; i >= 0; i--) { /* the order of use is not that of the numbers */
        char name[32];
        snprintf(name, sizeof name, "vit.%d.fc1", i);
        add(&p, name, i == 2 ? "f16" : "i8", 0.001 * (i + 1));
        snprintf(name, sizeof name, "vit.%d.fc2", i);
        add(&p, name, "i8", -1);
    }
    gr_plan_text(&p, &out);
    assert_non_null(out.data);
    assert_non_null(strstr(out.data, "mixed, llm 8 (asked: auto; 16-bit: f16)\n"));
    assert_non_null(strstr(out.data, "vit.*.fc1  0-1, 3-5  i8"));
    assert_non_null(strstr(out.data, "6.0e-03"));
    assert_non_null(strstr(out.data, "vit.*.fc1  2         f16"));
    assert_non_null(strstr(out.data, "vit.*.fc2  0-5       i8       not measured\n"));
    assert_non_null(strstr(out.data, "patch"));
    gr_buf_free(&out);
    p.half[0] = '\0'; /* exact: nothing is held in 16 bits */
    out = (struct gr_buf){0};
    gr_plan_text(&p, &out);
    assert_non_null(strstr(out.data, "mixed, llm 8 (asked: auto)\n"));
    gr_buf_free(&out);
    gr_plan_free(&p);
}

static void every_try_has_its_verdicts(void **state)
{
    (void)state;
    struct gr_plan p = {.asked = "auto", .step = "exact", .half = "f16", .cpu = "some CPU", .n_tries = 2, .n_peaks = 1};
    struct gr_buf out = {0};
    p.peaks[0] = (__typeof__(p.peaks[0])){"i8", "avx512vnni", 812.4};
    p.tries[0] = (struct gr_plan_try){.step = "fastest", .judged = 1};
    p.tries[0].verdict[0] = (struct gr_verdict){0.998, NAN, INFINITY, 0.5, "waist", false};
    p.tries[1] = (struct gr_plan_try){.step = "mixed", .judged = 3, .pass = true};
    for (int k = 0; k < 3; k++) {
        p.tries[1].verdict[k] = (struct gr_verdict){0.9997, 0.9995, 0.01, 1, "", true};
    }
    gr_plan_text(&p, &out);
    assert_non_null(strstr(out.data, "i8 812 Gop/s of a thread (avx512vnni)\n"));
    assert_non_null(strstr(out.data, "0.998000"));
    assert_non_null(strstr(out.data, "constant"));
    assert_non_null(strstr(out.data, "fails"));
    assert_non_null(strstr(out.data, "waist"));
    assert_non_null(strstr(out.data, "3, report"));
    gr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_are_alike_are_one_line),
        cmocka_unit_test(every_try_has_its_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
