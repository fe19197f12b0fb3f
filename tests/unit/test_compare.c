/* SPDX-License-Identifier: Apache-2.0
 *
 * test_compare.c: differences and correlation of two arrays, with row strides, values that are not finite and constants. */
#include "gr_test.h"

#include <math.h>

#include "base/compare.h"

static void it_finds_the_largest_difference_and_the_correlation(void **state)
{
    (void)state;
    const float want[6] = {1, 2, 3, 4, 5, 6}, got[8] = {1, 2, 3, 99, 4, 5, 6.5f, 99}; /* row stride 4 */
    struct gr_diff d = gr_compare(got, 4, want, 3, 2, 3);
    assert_true(d.max_abs == 0.5 && d.max_want == 6.0);
    assert_true(fabs(d.rel_max - 0.5 / 6.0) < 1e-15);
    assert_true(fabs(d.rel_rms - sqrt(0.25 / 91.0)) < 1e-15);
    /* numpy.corrcoef([1,2,3,4,5,6.5], [1,2,3,4,5,6]) */
    assert_true(d.has_pcc && fabs(d.pcc - 0.9970501410659874) < 1e-14);
}

static void it_treats_nan_as_infinitely_far_and_constants_as_without_correlation(void **state)
{
    (void)state;
    const float want[3] = {1, 2, 3}, bad[3] = {1, NAN, 3}, flat[3] = {2, 2, 2}, zero[3] = {0, 0, 0};
    assert_true(isinf(gr_compare(bad, 3, want, 3, 1, 3).max_abs));
    assert_false(gr_compare(flat, 3, want, 3, 1, 3).has_pcc);
    struct gr_diff same = gr_compare(zero, 3, zero, 3, 1, 3);
    assert_true(same.rel_max == 0.0 && same.rel_rms == 0.0 && !same.has_pcc);
}

static void it_takes_a_block_of_a_wider_array_on_both_sides(void **state)
{
    (void)state;
    const float want[8] = {1, 2, 3, -7, 4, 5, 6, -7}, got[10] = {1, 2, 3, 99, 99, 4, 5, 6, 99, 99};
    struct gr_diff d = gr_compare(got, 5, want, 4, 2, 3);
    assert_true(d.max_abs == 0.0 && d.max_want == 6.0 && d.has_pcc && d.pcc > 1 - 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_the_largest_difference_and_the_correlation),
        cmocka_unit_test(it_treats_nan_as_infinitely_far_and_constants_as_without_correlation),
        cmocka_unit_test(it_takes_a_block_of_a_wider_array_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
