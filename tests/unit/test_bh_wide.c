/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_wide.c: the action head at its published size on 48 tiles. Needs a full-size snapshot (seed 1600) in GR00T_BH_FULL, and minutes; without
 * it only what is not there is said.
 *
 *   GR00T_BH_FULL=DIR test_bh_wide            L1 use; a cross and a self block; the whole denoise, on the CPU interpreter
 *   GR00T_BH_FULL=DIR test_bh_wide simulator  a cross and a self block on the simulator: the bits of the interpreter are not asked for */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bh_chip.h"
#include "bh_reference.h"

enum { TEXT_ROWS = 35, WIDE = 6, HIGH = 8, DEADLINE_MS = 600000 };

static struct bh_net net;
static struct bh_case golden;

static int open_full(void **state)
{
    (void)state;
    bh_net_open(&net, getenv("GR00T_BH_FULL"));
    bh_case_open(&golden, &net, gr_test_shared("spec/goldens_full/f1_256x256"), TEXT_ROWS);
    return 0;
}
static int close_full(void **state)
{
    bh_case_close(&golden);
    bh_net_close(&net);
    return bh_chip_close(state);
}

static const char *name_of(enum gr_bh_format f) { return f == GR_BH_BF16 ? "bf16" : "bfp8_b"; }

static void program(struct bh_rig *r, enum gr_bh_format f, int blocks, int steps)
{
    const struct gr_bh_denoise d = {
        .w = net.head, .text_rows = TEXT_ROWS, .image_rows = net.w->dims.vit.tokens, .blocks = blocks, .steps = steps};
    const double start = gr_clock_ms();
    bh_golden_program(r, &d, WIDE, HIGH, f);
    printf(
        "# %s, %d blocks, %d steps: %u bytes of L1 of %d, lists %zu, streams %.1f MB, %u operations; built in %.1f s\n",
        name_of(f), blocks, steps, r->program->l1_used, GR_BH_L1_END, r->program->list_bytes,
        (double)gr_bh_arena_bytes(r->arena) / 1e6, r->program->executed, (gr_clock_ms() - start) / 1e3);
}

static struct {
    double *x[2]; /* after blocks 0 and 1 */
    double bound, worst;
} pair;
static void compare_block(void *user, const char *name, const float *v, int rows, int cols)
{
    (void)user;
    int block, step;
    if (sscanf(name, "dit.block%d.step%d", &block, &step) == 2) {
        const size_t n = (size_t)rows * (size_t)cols;
        float *want = malloc(n * sizeof *want);
        for (size_t i = 0; i < n; i++) {
            want[i] = (float)pair.x[block][i];
        }
        const double pcc = bh_pcc(v, want, n);
        printf("# %s: PCC %.7f, relative rms %.2e\n", name, pcc, bh_relative_rms(v, pair.x[block], n));
        pair.worst = pcc < pair.worst ? pcc : pair.worst;
        free(want);
    }
}

static void block_pair(enum gr_bh_format f, double bound, bool chip)
{
    const size_t n = (size_t)(net.w->dims.dit.horizon + 1) * (size_t)net.w->dims.dit.width;
    struct bh_rig r;
    struct gr_err err;
    for (int i = 0; i < 2 && pair.x[1] == NULL; i++) {
        pair.x[i] = malloc(n * sizeof *pair.x[i]);
        if (i == 0) {
            bh_reference_rows(&net, &golden, pair.x[0]);
        } else {
            memcpy(pair.x[1], pair.x[0], n * sizeof *pair.x[1]);
        }
        bh_reference_block(&net, &golden, i, pair.x[i]);
    }
    program(&r, f, 2, 1);
    const double start = gr_clock_ms();
    if (chip) {
        struct gr_bh_machine *m = NULL;
        gr_test_ok(gr_bh_machine_chip(bh_chip(), &r.grid, DEADLINE_MS, &m, &err), &err);
        bh_rig_load(&r, m);
    } else {
        bh_rig_load_cpu(&r, GR_BH_FAST, 2);
    }
    /* Text alone: block 2 is the first that looks at the image. */
    bh_rig_input(&r, "noise", golden.noise);
    bh_rig_input(&r, "state", golden.state);
    bh_rig_input(&r, "vl_text", golden.vl_text);
    bh_rig_input(&r, "text_mask", golden.text_mask);
    pair.worst = 1;
    bh_rig_run(&r, compare_block, NULL);
    printf("# %s: %.1f s\n", chip ? "simulator" : "interpreter", (gr_clock_ms() - start) / 1e3);
    bh_rig_end(&r);
    if (!(pair.worst >= bound)) {
        fail_msg("PCC %.7f, at least %.5f", pair.worst, bound);
    }
}

static void a_cross_and_a_self_block(void **state)
{
    (void)state;
    block_pair(GR_BH_BF16, 0.9999, false);
    block_pair(GR_BH_BFP8, 0.999, false);
}
static void a_cross_and_a_self_block_on_the_simulator(void **state)
{
    (void)state;
    block_pair(GR_BH_BF16, 0.9999, true);
    block_pair(GR_BH_BFP8, 0.999, true);
}

static void show_tap(void *user, const char *name, const float *v, int rows, int cols)
{
    (void)user;
    size_t n = 0;
    float *want = bh_case_tap(&golden, name, &n);
    if (want != NULL) {
        assert_int_equal(n, rows * cols);
        printf("# %s: PCC %.6f\n", name, bh_pcc(v, want, n));
        free(want);
    }
}

static void the_whole_denoise(void **state)
{
    (void)state;
    struct bh_rig r;
    program(&r, GR_BH_BFP8, net.w->dims.dit.layers, net.w->dims.dit.steps);
    assert_true(r.program->l1_used <= GR_BH_L1_END);
    bh_rig_load_cpu(&r, GR_BH_FAST, 2);
    bh_case_input(&r, &golden);
    const double start = gr_clock_ms();
    bh_rig_run(&r, show_tap, NULL);
    size_t n = 0;
    float *want = bh_case_tap(&golden, "action_pred", &n), *got = malloc(n * sizeof *got);
    bh_rig_output(&r, "action_pred", got);
    const double pcc = bh_pcc(got, want, n);
    printf("# action_pred: PCC %.6f, %.1f s\n", pcc, (gr_clock_ms() - start) / 1e3);
    bh_rig_end(&r);
    free(want);
    free(got);
    assert_true(pcc >= 0.99);
}

int main(int argc, char **argv)
{
    const char *dir = getenv("GR00T_BH_FULL");
    if (dir == NULL) {
        printf("1..0 # SKIP GR00T_BH_FULL names no full-size snapshot\n");
        return GR_TEST_SKIPPED;
    }
    if (argc > 1 && strcmp(argv[1], "simulator") == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(a_cross_and_a_self_block_on_the_simulator)};
        return bh_simulator() == NULL ? GR_TEST_SKIPPED
                                      : cmocka_run_group_tests_name("bh_wide", tests, open_full, close_full);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_cross_and_a_self_block), cmocka_unit_test(the_whole_denoise)};
    return cmocka_run_group_tests_name("bh_wide", tests, open_full, close_full);
}
