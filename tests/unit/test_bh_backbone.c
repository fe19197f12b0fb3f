/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_backbone.c: the program of a whole predict at its published size on 11 x 10 tiles, run. Needs a full-size snapshot (seed 1600) in
 * GR00T_BH_FULL, 10 GB of memory and minutes; without it only what is not there is said.
 *
 *   GR00T_BH_FULL=DIR test_bh_backbone         one golden observation on the CPU interpreter, weights in bfp8_b
 *   GR00T_BH_FULL=DIR test_bh_backbone mixed   in bfp8_b in the action head, bf16 before
 *   GR00T_BH_FULL=DIR test_bh_backbone bf16    in bf16: 15 GB of memory
 *
 * GR00T_BH_CACHE names a folder to keep packed weights in between runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bh_chip.h"
#include "bh_predict.h"

enum { WIDE = 11, HIGH = 10 };

static struct bh_net net;

static int open_full(void **state)
{
    (void)state;
    bh_net_open(&net, getenv("GR00T_BH_FULL"));
    return 0;
}
static int close_full(void **state)
{
    (void)state;
    bh_net_close(&net);
    return 0;
}

static void golden(enum gr_bh_format weights, double bound)
{
    struct bh_predict p;
    double start = gr_clock_ms();
    bh_predict_open(&p, &net, WIDE, HIGH, weights);
    printf("# %s: streams %.1f MB, packed in %.1f s\n", weights == GR_BH_BF16 ? "bf16" : "bfp8_b",
           (double)gr_bh_arena_bytes(p.arena) / 1e6, (gr_clock_ms() - start) / 1e3);
    bh_predict_cpu(&p, GR_BH_FAST, 2);
    start = gr_clock_ms();
    const double pcc = bh_predict_case(&p, gr_test_shared("spec/goldens_full/f1_256x256"), true, NULL);
    printf("# action_pred %.6f, %.1f s\n", pcc, (gr_clock_ms() - start) / 1e3);
    bh_predict_close(&p);
    if (!(pcc >= bound)) {
        fail_msg("PCC %.6f, at least %.4f", pcc, bound);
    }
}

/* bfp8_b rounds random weights by 0.8 %, eight times as much as bf16, which gives 0.9998 in the reference; see bf16_vs_fp32.tsv. */
static void a_golden_observation_with_weights_in_bfp8(void **state)
{
    (void)state;
    golden(GR_BH_BFP8, 0.997);
}
static void a_golden_observation_with_bfp8_in_the_action_head_alone(void **state)
{
    (void)state;
    bh_predict_backbone = GR_BH_BF16;
    golden(GR_BH_BFP8, 0.999);
}
static void a_golden_observation_with_weights_in_bf16(void **state)
{
    (void)state;
    golden(GR_BH_BF16, 0.9995);
}

int main(int argc, char **argv)
{
    if (getenv("GR00T_BH_FULL") == NULL) {
        printf("1..0 # SKIP GR00T_BH_FULL names no full-size snapshot\n");
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest bfp8[] = {cmocka_unit_test(a_golden_observation_with_weights_in_bfp8)};
    const struct CMUnitTest mixed[] = {cmocka_unit_test(a_golden_observation_with_bfp8_in_the_action_head_alone)};
    const struct CMUnitTest bf16[] = {cmocka_unit_test(a_golden_observation_with_weights_in_bf16)};
    const char *which = argc > 1 ? argv[1] : "bfp8";
    if (strcmp(which, "bf16") == 0) {
        return cmocka_run_group_tests_name("bh_backbone", bf16, open_full, close_full);
    }
    return strcmp(which, "mixed") == 0 ? cmocka_run_group_tests_name("bh_backbone", mixed, open_full, close_full)
                                       : cmocka_run_group_tests_name("bh_backbone", bfp8, open_full, close_full);
}
