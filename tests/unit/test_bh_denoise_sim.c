/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_denoise_sim.c: the action head of the tiny snapshot on the simulator: 4 blocks and 4 steps without the host. The bits of the CPU
 * interpreter, and those of a run that stops at every tap. */
#include <stdio.h>
#include <stdlib.h>

#include "bh_chip.h"
#include "bh_golden.h"

enum { TEXT_ROOM = 40, WIDE = 2, HIGH = 2, DEADLINE_MS = 60000 };

static struct bh_net net;

static int open_tiny(void **state)
{
    (void)state;
    bh_net_synthetic(&net, GR_SYNTH_TINY);
    return 0;
}
static int close_all(void **state)
{
    bh_net_close(&net);
    (void)bh_chip_close(state);
    return gr_test_temp_clean(state);
}

static void count_tap(void *user, const char *name, const float *v, int rows, int cols)
{
    (void)name;
    (void)v;
    *(int *)user += rows * cols > 0;
}

static void denoise(enum gr_bh_format weights, double bound, bool stops)
{
    struct gr_err err;
    struct bh_rig r;
    struct bh_case c;
    gr_test_need_shared();
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *interpreter = malloc(n * sizeof *interpreter), *chip = malloc(n * sizeof *chip);
    const struct gr_bh_denoise d = {
        .w = net.head, .text_rows = TEXT_ROOM, .image_rows = net.w->dims.vit.tokens, .steps = net.w->dims.dit.steps};
    bh_golden_program(&r, &d, WIDE, HIGH, weights);
    bh_case_open(&c, &net, gr_test_shared("spec/goldens_tiny/t1_64x64"), TEXT_ROOM);
    bh_rig_load_cpu(&r, GR_BH_BIT_EXACT, 2);
    bh_case_input(&r, &c);
    bh_rig_run(&r, NULL, NULL);
    bh_rig_output(&r, "action_pred", interpreter);
    bh_rig_unload(&r);
    struct gr_bh_machine *m = NULL;
    gr_test_ok(gr_bh_machine_chip(bh_chip(), &r.grid, DEADLINE_MS, &m, &err), &err);
    bh_rig_load(&r, m);
    for (int run = 0; run < (stops ? 2 : 1); run++) { /* the second one stops at every tap */
        int taps = 0;
        bh_case_input(&r, &c);
        bh_rig_run(&r, run == 0 ? NULL : count_tap, &taps);
        bh_rig_output(&r, "action_pred", chip);
        assert_memory_equal(chip, interpreter, n * sizeof *chip);
        assert_int_equal(taps, run == 0 ? 0 : r.program->taps);
    }
    float *want = bh_case_tap(&c, "action_pred", NULL);
    const double pcc = bh_pcc(chip, want, n);
    printf("# %s: action_pred %.6f, %u operations\n", weights == GR_BH_BF16 ? "bf16" : "bfp8_b", pcc,
           r.program->executed);
    assert_true(pcc >= bound);
    bh_case_close(&c);
    bh_rig_end(&r);
    free(want);
    free(interpreter);
    free(chip);
}

static void tiny_golden_with_weights_in_bfp8(void **state)
{
    (void)state;
    denoise(GR_BH_BFP8, 0.99995, true);
}
static void tiny_golden_with_weights_in_bf16(void **state)
{
    (void)state;
    denoise(GR_BH_BF16, 0.9995, false);
}

int main(void)
{
    if (bh_simulator() == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_golden_with_weights_in_bfp8),
        cmocka_unit_test(tiny_golden_with_weights_in_bf16),
    };
    return cmocka_run_group_tests_name("bh_denoise_sim", tests, open_tiny, close_all);
}
