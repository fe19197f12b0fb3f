/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_request_sim.c: a whole predict of the tiny snapshot as one resident program on the simulator, in row groups: the bits of the CPU
 * interpreter, twice. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bh_chip.h"
#include "bh_predict.h"

enum { WIDE = 3, HIGH = 2, DEADLINE_MS = 120000 };

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

static void a_golden_observation_has_the_bits_of_the_interpreter(void **state)
{
    (void)state;
    struct gr_err err;
    struct bh_predict p;
    struct gr_bh_machine *m = NULL;
    gr_test_need_shared();
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *interpreter = malloc(n * sizeof *interpreter), *chip = malloc(n * sizeof *chip);
    const char *dir = gr_test_shared("spec/goldens_tiny/t1_64x64");
    bh_predict_open(&p, &net, WIDE, HIGH, GR_BH_BFP8);
    bh_predict_cpu(&p, GR_BH_BIT_EXACT, 2);
    (void)bh_predict_case(&p, dir, false, interpreter);
    bh_predict_unload(&p);
    gr_test_ok(gr_bh_machine_chip(bh_chip(), gr_bh_request_grid(p.request), DEADLINE_MS, &m, &err), &err);
    bh_predict_load(&p, m);
    for (int run = 0; run < 1; run++) {
        const double start = gr_clock_ms(), pcc = bh_predict_case(&p, dir, false, chip);
        printf("# action_pred %.6f, %u operations, %.1f s\n", pcc, p.program->executed, (gr_clock_ms() - start) / 1e3);
        assert_memory_equal(chip, interpreter, n * sizeof *chip);
        assert_true(pcc >= 0.999);
    }
    bh_predict_close(&p);
    free(interpreter);
    free(chip);
}

int main(void)
{
    if (bh_simulator() == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_golden_observation_has_the_bits_of_the_interpreter)};
    return cmocka_run_group_tests_name("bh_request_sim", tests, open_tiny, close_all);
}
