/* SPDX-License-Identifier: Apache-2.0
 *
 * test_joint_names.c: joints are named for the groups we know, and for nothing else. */
#include "gr_test.h"

#include <string.h>

#include "server/joint_names.h"

/* ST-06: whoever fills a hand vector can look up which end the thumb is at. */
static void st_06_gr1_groups_have_all_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *group;
        int dim;
        const char *first, *last;
    } rows[] = {{"left_arm", 7, "left_shoulder_pitch", "left_wrist_pitch"},
                {"right_arm", 7, "right_shoulder_pitch", "right_wrist_pitch"},
                {"left_hand", 6, "left_pinky", "left_thumb_rotation"},
                {"right_hand", 6, "right_pinky", "right_thumb_rotation"},
                {"waist", 3, "waist_yaw", "waist_roll"}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (int i = 0; i < rows[r].dim; i++) {
            const char *name = gr_joint_name("gr1", rows[r].group, rows[r].dim, i);
            assert_non_null(name);
            for (int k = 0; k < i; k++) {
                assert_string_not_equal(name, gr_joint_name("gr1", rows[r].group, rows[r].dim, k));
            }
        }
        assert_string_equal(gr_joint_name("gr1", rows[r].group, rows[r].dim, 0), rows[r].first);
        assert_string_equal(gr_joint_name("gr1", rows[r].group, rows[r].dim, rows[r].dim - 1), rows[r].last);
    }
}

static void what_is_not_known_has_no_names(void **state)
{
    (void)state;
    assert_null(gr_joint_name("GR1", "waist", 3, 0));
    assert_null(gr_joint_name("unitree_g1", "waist", 3, 0));
    assert_null(gr_joint_name("gr1", "neck", 3, 0));
    assert_null(gr_joint_name("gr1", "waist", 2, 0));
    assert_null(gr_joint_name("gr1", "waist", 3, 3));
    assert_null(gr_joint_name("gr1", "waist", 3, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(st_06_gr1_groups_have_all_their_names),
        cmocka_unit_test(what_is_not_known_has_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
