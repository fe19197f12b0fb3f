/* SPDX-License-Identifier: Apache-2.0
 *
 * check_kernels.c: checks every entry of the kernel table for every instruction set of this CPU against a
 * double-precision reference; prints TAP lines and the seed. check_kernels [--seed N] [--bench]. Exit code 1 when
 * a case failed. */
#include "check.h"

#include "base/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_set(unsigned flags) { gr_kernels_init(&check_sets[check_set_count++], flags); }

int main(int argc, char **argv)
{
    unsigned long long seed = 1600;
    int bench = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) {
            bench = 1;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--seed N] [--bench]\n", argv[0]);
            return 2;
        }
    }
    const unsigned flags = gr_cpu_detect();
    add_set(0);
    if (flags & GR_CPU_AVX2) {
        add_set(GR_CPU_AVX2);
    }
    if (flags & GR_CPU_AVX512) {
        add_set(GR_CPU_AVX2 | GR_CPU_AVX512);
    }
    for (int s = check_set_count; s < SETS_MAX; s++) {
        static const char *const name[SETS_MAX] = {"scalar", "avx2", "avx512"};
        printf("# skipped: this CPU cannot run the %s set or one below it\n", name[s]);
    }
    check_seed(seed);
    printf("# seed %llu\n", seed);
    if (bench) {
        bench_all();
        return 0;
    }
    check_gemm_all();
    check_attention_all();
    check_rows_all();
    return check_finish();
}
