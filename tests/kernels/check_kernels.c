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

/* Every set of this CPU on top of those below it, as gr_cpu_mask gives them. */
static void add_sets(void)
{
    static const char *const names[SETS_MAX] = {"scalar",     "avx2",       "avxvnni",    "avx512",
                                                "avx512vnni", "avx512fp16", "avx512bf16", "amx"};
    for (int i = 0; i < SETS_MAX; i++) {
        unsigned flags = gr_cpu_detect();
        struct gr_err err;
        if (gr_cpu_mask(names[i], &flags, &err) != GR_OK) {
            printf("# skipped: this CPU cannot run the %s set\n", names[i]);
            continue;
        }
        check_names[check_set_count] = names[i];
        gr_kernels_init(&check_sets[check_set_count++], flags);
    }
}

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
    add_sets();
    check_seed(seed);
    printf("# seed %llu\n", seed);
    if (bench) {
        bench_all();
        bench_quant();
        return 0;
    }
    check_gemm_all();
    check_attention_all();
    check_attention16_all();
    check_rows_all();
    check_quant_rows_all();
    check_quant_all();
    return check_finish();
}
