/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cpu.c: instruction-set names, and CPU quotas of made-up cgroup trees. */
#include "gr_test.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fs.h"

enum {
    ALL = GR_CPU_AVX2 | GR_CPU_AVXVNNI | GR_CPU_AVX512 | GR_CPU_AVX512VNNI | GR_CPU_AVX512FP16 | GR_CPU_AVX512BF16 |
          GR_CPU_AMX
};

static void a_name_keeps_everything_up_to_it(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned flags;
    } cases[] = {
        {NULL, ALL},
        {"scalar", 0},
        {"avx2", GR_CPU_AVX2},
        {"avxvnni", GR_CPU_AVX2 | GR_CPU_AVXVNNI},
        {"avx512", GR_CPU_AVX2 | GR_CPU_AVXVNNI | GR_CPU_AVX512},
        {"avx512vnni", ALL & ~(GR_CPU_AVX512FP16 | GR_CPU_AVX512BF16 | GR_CPU_AMX)},
        {"avx512fp16", ALL & ~(GR_CPU_AVX512BF16 | GR_CPU_AMX)},
        {"avx512bf16", ALL & ~GR_CPU_AMX},
        {"amx", ALL},
        {"avx2,avx512", GR_CPU_AVX2 | GR_CPU_AVX512},
        {"scalar,avx2", GR_CPU_AVX2},
    };
    struct gr_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned flags = ALL;
        gr_test_ok(gr_cpu_mask(cases[i].name, &flags, &err), &err);
        assert_int_equal(flags, cases[i].flags);
    }
}

static void the_best_set_is_the_highest_of_the_flags(void **state)
{
    (void)state;
    assert_string_equal(gr_cpu_best(0), "scalar");
    assert_string_equal(gr_cpu_best(GR_CPU_AVX2), "avx2");
    assert_string_equal(gr_cpu_best(GR_CPU_AVX2 | GR_CPU_AVX512 | GR_CPU_AVX512BF16), "avx512bf16");
    assert_string_equal(gr_cpu_best(ALL), "amx");
}

static void levels_below_that_the_cpu_lacks_do_not_matter(void **state)
{
    (void)state;
    struct gr_err err;
    unsigned flags = GR_CPU_AVX2 | GR_CPU_AVX512;
    gr_test_ok(gr_cpu_mask("avx512", &flags, &err), &err);
    assert_int_equal(flags, GR_CPU_AVX2 | GR_CPU_AVX512);
}

static void unknown_and_absent_sets_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    unsigned flags = GR_CPU_AVX2;
    gr_test_fails(gr_cpu_mask("avx3", &flags, &err), &err, GR_ERR_USAGE, "scalar, avx2");
    gr_test_fails(gr_cpu_mask("", &flags, &err), &err, GR_ERR_USAGE, "known");
    gr_test_fails(gr_cpu_mask("avx2,", &flags, &err), &err, GR_ERR_USAGE, "known");
    gr_test_fails(gr_cpu_mask("AVX2", &flags, &err), &err, GR_ERR_USAGE, "AVX2");
    gr_test_fails(gr_cpu_mask("avx512", &flags, &err), &err, GR_ERR_DEVICE, "avx512");
    gr_test_fails(gr_cpu_mask("avx2,avx512", &flags, &err), &err, GR_ERR_DEVICE, "avx512");
    assert_int_equal(flags, GR_CPU_AVX2);
}

static void detected_flags_agree_with_the_compiler(void **state)
{
    (void)state;
    unsigned flags = gr_cpu_detect();
    assert_int_equal(flags & ~(unsigned)ALL, 0);
    if ((flags & (GR_CPU_AVX512VNNI | GR_CPU_AVX512FP16 | GR_CPU_AVX512BF16 | GR_CPU_AMX)) != 0) {
        assert_true((flags & GR_CPU_AVX512) != 0);
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if ((flags & GR_CPU_AVX2) != 0) {
        assert_true(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    }
    if ((flags & GR_CPU_AVX512) != 0) {
        assert_true(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"));
    } else if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl")) {
        print_message("AVX-512 is there but off (valgrind)\n");
    }
#endif
}

static void the_cpu_has_a_name(void **state)
{
    (void)state;
    const char *name = gr_cpu_name();
    assert_true(strlen(name) > 3);
    assert_true(name[0] != ' ' && name[strlen(name) - 1] != ' ');
    assert_null(strstr(name, "  "));
}

static void put(const char *dir, const char *sub, const char *name, const char *text)
{
    struct gr_err err;
    const char *folder = gr_test_join(dir, "%s", sub);
    gr_test_ok(gr_fs_mkdirs(folder, &err), &err);
    gr_test_write(gr_test_join(folder, "%s", name), text, strlen(text));
}

static int quota(const char *dir, const char *self)
{
    put(dir, "proc", "cgroup", self);
    return gr_cpu_quota(gr_test_join(dir, "proc/cgroup"), gr_test_join(dir, "sys"));
}

static void the_smallest_v2_quota_on_the_way_up_holds(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    put(d, "sys", "cgroup.controllers", "cpu\n");
    assert_int_equal(quota(d, "0::/a/b/c\n"), 0);
    put(d, "sys/a/b/c", "cpu.max", "max 100000\n");
    assert_int_equal(quota(d, "0::/a/b/c\n"), 0);
    put(d, "sys/a", "cpu.max", "350000 100000\n");
    assert_int_equal(quota(d, "0::/a/b/c\n"), 3); /* 3.5, rounded down: EN-01 */
    put(d, "sys/a/b", "cpu.max", "150000 100000\n");
    assert_int_equal(quota(d, "0::/a/b/c\n"), 1);
    put(d, "sys/a/b/c", "cpu.max", "900000 100000\n");
    assert_int_equal(quota(d, "0::/a/b/c\n"), 1);
    assert_int_equal(quota(d, "0::/a\n"), 3);
    assert_int_equal(quota(d, "0::/\n"), 0);
}

static void a_container_that_sees_only_its_own_group_is_limited(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    put(d, "sys", "cpu.max", "200000 100000\n"); /* the container's group is mounted as the root */
    assert_int_equal(quota(d, "0::/\n"), 2);
    assert_int_equal(quota(d, "0::/system.slice/docker-1234.scope\n"), 2);
    assert_int_equal(quota(d, "0::/../../elsewhere\n"), 2);
}

static void v1_and_hybrid_quotas_are_read(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    const char *self = "12:memory:/m\n4:cpu,cpuacct:/docker/xyz\n3:cpuset:/docker/xyz\n0::/init\n";
    put(d, "sys/cpu,cpuacct/docker/xyz", "cpu.cfs_quota_us", "-1\n");
    put(d, "sys/cpu,cpuacct/docker/xyz", "cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(d, self), 0);
    put(d, "sys/cpu,cpuacct/docker/xyz", "cpu.cfs_quota_us", "50000\n");
    assert_int_equal(quota(d, self), 1);
    put(d, "sys/cpu,cpuacct/docker/xyz", "cpu.cfs_quota_us", "600000\n");
    assert_int_equal(quota(d, self), 6);
    put(d, "sys/unified/init", "cpu.max", "300000 100000\n");
    assert_int_equal(quota(d, self), 3);
    /* cpuset and cpuacct are other controllers */
    assert_int_equal(quota(d, "3:cpuset:/docker/xyz\n2:cpuacct:/docker/xyz\n"), 0);
}

static void rubbish_in_the_cgroup_files_is_no_limit(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    put(d, "sys/a", "cpu.max", "lots\n");
    put(d, "sys/b", "cpu.max", "100000 0\n");
    put(d, "sys/c", "cpu.max", "-5 100000\n");
    put(d, "sys/d", "cpu.max", "");
    assert_int_equal(quota(d, "0::/a\n"), 0);
    assert_int_equal(quota(d, "0::/b\n"), 0);
    assert_int_equal(quota(d, "0::/c\n"), 0);
    assert_int_equal(quota(d, "0::/d\n"), 0);
    assert_int_equal(quota(d, ""), 0);
    assert_int_equal(quota(d, "no colons here\n:\n::\n\n"), 0);
    assert_int_equal(gr_cpu_quota("/nonexistent/cgroup", "/nonexistent"), 0);
}

static void the_affinity_mask_limits_the_count(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_true(gr_cpu_count() >= 1 && gr_cpu_count() <= CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(gr_cpu_count(), 1);
    char why[GR_CPU_WHY_BYTES];
    assert_int_equal(gr_cpu_count_why(why), 1);
    assert_non_null(strstr(why, "CPU"));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_keeps_everything_up_to_it),
        cmocka_unit_test(the_best_set_is_the_highest_of_the_flags),
        cmocka_unit_test(levels_below_that_the_cpu_lacks_do_not_matter),
        cmocka_unit_test(unknown_and_absent_sets_are_refused),
        cmocka_unit_test(detected_flags_agree_with_the_compiler),
        cmocka_unit_test(the_cpu_has_a_name),
        cmocka_unit_test(the_smallest_v2_quota_on_the_way_up_holds),
        cmocka_unit_test(a_container_that_sees_only_its_own_group_is_limited),
        cmocka_unit_test(v1_and_hybrid_quotas_are_read),
        cmocka_unit_test(rubbish_in_the_cgroup_files_is_no_limit),
        cmocka_unit_test(the_affinity_mask_limits_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
