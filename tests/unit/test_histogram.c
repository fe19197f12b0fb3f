/* SPDX-License-Identifier: Apache-2.0
 *
 * test_histogram.c: percentiles are values that were measured, and every value is in one bin of the picture. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/histogram.h"

static void percentiles_are_nearest_ranks(void **state)
{
    (void)state;
    double v[200];
    for (int i = 0; i < 200; i++) {
        v[i] = 200 - i;
    }
    struct gr_percentiles p = gr_percentiles_of(v, 200);
    assert_true(p.p50 == 100 && p.p90 == 180 && p.p99 == 198 && p.max == 200 && p.min == 1 && p.mean > 100.49 &&
                p.mean < 100.51);
    double one[] = {7};
    p = gr_percentiles_of(one, 1);
    assert_true(p.p50 == 7 && p.p90 == 7 && p.p99 == 7 && p.max == 7 && p.min == 7);
    double two[] = {3, 1};
    p = gr_percentiles_of(two, 2);
    assert_true(p.p50 == 1 && p.p90 == 3 && p.p99 == 3);
}

/* Sum of the counts that the rows show. */
static long shown(const char *text)
{
    long sum = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *unit = strstr(line, " ms ");
        assert_non_null(unit);
        sum += strtol(unit + 4, NULL, 10);
    }
    return sum;
}

static void every_value_is_in_one_row(void **state)
{
    (void)state;
    static const struct {
        double low, step, last; /* values low, low + step, ...; the last one replaced */
        int n;
    } cases[] = {{40.0, 0.01, 40.5, 100}, {0.0, 0.0, 0.0, 5},      {1.0, 0.0, 1e6, 50},
                 {1e-9, 1e-9, 1e-8, 9},   {5.0, 100.0, 1e9, 1000}, {60.0, 0.0, 60.0, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        double *v = calloc((size_t)cases[c].n, sizeof *v);
        struct gr_buf out = {0};
        assert_non_null(v);
        for (int i = 0; i < cases[c].n; i++) {
            v[i] = cases[c].low + i * cases[c].step;
        }
        v[cases[c].n - 1] = cases[c].last;
        (void)gr_percentiles_of(v, cases[c].n);
        gr_histogram_text(v, cases[c].n, &out);
        assert_int_equal(shown(out.data), cases[c].n);
        assert_non_null(strchr(out.data, '#'));
        gr_buf_free(&out);
        free(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_nearest_ranks),
        cmocka_unit_test(every_value_is_in_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
