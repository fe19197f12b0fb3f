/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plot.c: the SVG: a panel for each dimension with its labels, deterministic, safe against odd names and numbers.
 * That it is well-formed XML is checked by an XML parser in tests/cli. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"

enum { STEPS = 16, DIM = 10 };
static const struct gr_group groups[] = {{"left_arm", 7, true}, {"waist<&\">\x01", 3, false}};

static struct gr_plot make_plot(const float *chunk, const float *golden)
{
    return (struct gr_plot){.title = "a < b",
                            .subtitle = "pick & place",
                            .groups = groups,
                            .n_groups = 2,
                            .steps = STEPS,
                            .dim = DIM,
                            .chunk = chunk,
                            .golden = golden,
                            .chunk_name = "predicted",
                            .golden_name = "golden"};
}

static void fill(float *chunk)
{
    for (int i = 0; i < STEPS * DIM; i++) {
        chunk[i] = (float)(i % DIM == 3 ? 0.25 : sin(i * 0.37) * (i % DIM + 1)); /* dimension 3 is constant */
    }
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what)) {
        n++;
    }
    return n;
}

static void every_dimension_has_a_panel_with_group_and_index(void **state)
{
    (void)state;
    float chunk[STEPS * DIM], golden[STEPS * DIM];
    struct gr_buf out = {0};
    fill(chunk);
    fill(golden);
    struct gr_plot plot = make_plot(chunk, golden);
    gr_plot_svg(&plot, &out);
    assert_false(out.failed);
    assert_int_equal(count(out.data, "<g>"), DIM);
    assert_int_equal(count(out.data, "</g>"), DIM);
    assert_int_equal(count(out.data, "class=\"chunk\""), DIM + 1); /* and the legend */
    assert_int_equal(count(out.data, "class=\"golden\""), DIM + 1);
    for (int i = 0; i < 7; i++) {
        char label[32];
        snprintf(label, sizeof label, ">left_arm[%d]<", i);
        assert_int_equal(count(out.data, label), 2); /* title and axis */
    }
    gr_buf_free(&out);
}

static void names_are_escaped(void **state)
{
    (void)state;
    float chunk[STEPS * DIM];
    struct gr_buf out = {0};
    fill(chunk);
    struct gr_plot plot = make_plot(chunk, NULL);
    gr_plot_svg(&plot, &out);
    assert_non_null(strstr(out.data, ">waist&lt;&amp;&quot;&gt;?[2]<"));
    assert_non_null(strstr(out.data, ">a &lt; b<"));
    assert_non_null(strstr(out.data, ">pick &amp; place<"));
    assert_null(strstr(out.data, "class=\"golden\""));
    gr_buf_free(&out);
}

static void equal_input_gives_equal_bytes(void **state)
{
    (void)state;
    float chunk[STEPS * DIM];
    struct gr_buf a = {0}, b = {0};
    fill(chunk);
    struct gr_plot plot = make_plot(chunk, chunk);
    gr_plot_svg(&plot, &a);
    gr_plot_svg(&plot, &b);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    gr_buf_free(&a);
    gr_buf_free(&b);
}

/* Every number of the document is finite and every drawn point lies inside the picture. */
static void odd_values_stay_inside_the_picture(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, 1e30f, -1e30f, 1e-30f, NAN, INFINITY, 3.4e38f, -3.4e38f, 1e6f, -0.0f};
    float chunk[STEPS * DIM];
    for (int i = 0; i < STEPS * DIM; i++) {
        chunk[i] = odd[(i / DIM * 3 + i % DIM) % 10];
    }
    for (int s = 0; s < STEPS; s++) {
        chunk[s * DIM] = NAN;         /* nothing to draw at all */
        chunk[s * DIM + 1] = 1234567; /* constant and large */
    }
    struct gr_buf out = {0};
    struct gr_plot plot = make_plot(chunk, NULL);
    gr_plot_svg(&plot, &out);
    assert_null(strstr(out.data, "nan"));
    assert_null(strstr(out.data, "inf"));
    size_t points = 0;
    for (const char *p = out.data; (p = strstr(p, "class=\"chunk\" d=\"")) != NULL;) {
        for (p += strlen("class=\"chunk\" d=\""); *p != '"';) {
            char *end;
            assert_true(*p == 'M' || *p == 'L' || *p == 'h');
            bool point = *p != 'h';
            double x = strtod(p + 1, &end), y = point ? strtod(end, &end) : 0.0;
            assert_true(x >= 0.0 && x <= 4000.0 && y >= 0.0 && y <= 4000.0);
            points += point;
            p = end;
        }
    }
    assert_true(points > STEPS);
    gr_buf_free(&out);
}

static void a_single_step_and_many_joints_work(void **state)
{
    (void)state;
    float chunk[20] = {0};
    const struct gr_group wide = {"hand", 20, false};
    struct gr_buf out = {0};
    struct gr_plot plot = {
        .title = "t", .groups = &wide, .n_groups = 1, .steps = 1, .dim = 20, .chunk = chunk, .chunk_name = "c"};
    gr_plot_svg(&plot, &out);
    assert_int_equal(count(out.data, "<g>"), 20);
    gr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dimension_has_a_panel_with_group_and_index),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(equal_input_gives_equal_bytes),
        cmocka_unit_test(odd_values_stay_inside_the_picture),
        cmocka_unit_test(a_single_step_and_many_joints_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
