/* SPDX-License-Identifier: Apache-2.0
 *
 * test_table.c: columns line up, whatever is in them; JSON output has its commas. */
#include "gr_test.h"

#include <math.h>
#include <string.h>

#include "base/jsonout.h"
#include "cli/table.h"

static void columns_are_aligned_and_lines_have_no_blanks_at_the_end(void **state)
{
    (void)state;
    struct gr_table t = {.columns = 3, .align = "lr", .indent = 1};
    struct gr_buf out = {0};
    gr_table_cell(&t, "a");
    gr_table_cellf(&t, "%d", 7);
    gr_table_cell(&t, "x");
    gr_table_cell(&t, "long");
    gr_table_cell(&t, "1000");
    gr_table_end_row(&t);
    gr_table_cell(&t, "b");
    gr_table_print(&t, &out);
    assert_string_equal(out.data, " a        7  x\n long  1000\n b\n");
    gr_buf_free(&out);
}

static void width_counts_characters_not_bytes(void **state)
{
    (void)state;
    struct gr_table t = {.columns = 2, .align = "ll"};
    struct gr_buf out = {0};
    const char *const cells[] = {"\xc3\xa4\xc3\xb6", "1", "abc", "2"};
    for (int i = 0; i < 4; i++) {
        gr_table_cell(&t, cells[i]);
    }
    gr_table_print(&t, &out);
    assert_string_equal(out.data, "\xc3\xa4\xc3\xb6   1\nabc  2\n");
    gr_buf_free(&out);
}

static void an_empty_table_prints_nothing(void **state)
{
    (void)state;
    struct gr_table t = {.columns = 2};
    struct gr_buf out = {0};
    gr_table_print(&t, &out);
    assert_int_equal(out.len, 0);
    gr_buf_free(&out);
}

static void json_has_commas_quotes_and_null_for_nan(void **state)
{
    (void)state;
    struct gr_buf out = {0};
    struct gr_jw w = {.out = &out};
    gr_jw_object(&w);
    gr_jw_key(&w, "a\"b");
    gr_jw_array(&w);
    gr_jw_array(&w);
    gr_jw_int(&w, -1);
    gr_jw_f32(&w, 0.1f);
    gr_jw_end_array(&w);
    gr_jw_array(&w);
    gr_jw_end_array(&w);
    gr_jw_end_array(&w);
    gr_jw_key(&w, "t");
    gr_jw_bool(&w, true);
    gr_jw_key(&w, "n");
    gr_jw_f64(&w, (double)NAN);
    gr_jw_key(&w, "ms");
    gr_jw_milli(&w, 1.23456);
    gr_jw_key(&w, "e");
    gr_jw_object(&w);
    gr_jw_end_object(&w);
    gr_jw_key(&w, "s");
    gr_jw_string(&w, NULL);
    gr_jw_end_object(&w);
    assert_string_equal(
        out.data, "{\n  \"a\\\"b\": [\n    [-1, 0.1],\n    []\n  ],\n  \"t\": true,\n  \"n\": null,\n  \"ms\": 1.235,\n"
                  "  \"e\": {},\n  \"s\": null\n}\n");
    gr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned_and_lines_have_no_blanks_at_the_end),
        cmocka_unit_test(width_counts_characters_not_bytes),
        cmocka_unit_test(an_empty_table_prints_nothing),
        cmocka_unit_test(json_has_commas_quotes_and_null_for_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
