/* SPDX-License-Identifier: Apache-2.0
 *
 * boot_fixture.c: a served demo snapshot without a server. */
#include "boot_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr_test.h"
#include "model/synth.h"

static float *copy(const float *from, int rows, int cols)
{
    const size_t n = (size_t)rows * (size_t)cols * sizeof *from;
    float *to = malloc(n);
    assert_non_null(to);
    memcpy(to, from, n);
    return to;
}

static enum gr_status make_check(struct gr_boot_fixture *f, struct gr_err *err)
{
    struct gr_chunk *c = NULL;
    GR_TRY(gr_chunk_new(f->policy, &c, err));
    GR_TRY(gr_policy_predict(f->policy, &f->demo.obs, c, err));
    f->check.source = GR_GOLDEN_COMPUTED;
    strcpy(f->check.golden_kernels, "scalar");
    f->check.golden_actions = copy(c->actions, c->steps, c->dim);
    f->check.actions = copy(c->actions, c->steps, c->dim);
    f->check.golden_normalized = copy(c->normalized, c->horizon, c->max_action_dim);
    f->check.runs = 1;
    f->check.times[0] = c->timing;
    f->check.pcc_min = 0.999;
    f->check.pcc = f->check.pcc_slice = 1;
    f->check.has_pcc = true;
    gr_chunk_free(c);
    return GR_OK;
}

int gr_boot_fixture_make(struct gr_boot_fixture *f)
{
    struct gr_err err = {0};
    const char *dir = gr_test_temp_dir();
    const struct gr_options options = {.precision = "exact", .threads = 1};
    memset(f, 0, sizeof *f);
    enum gr_status status = gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, dir, 1, NULL, NULL, &err);
    if (status == GR_OK) {
        status = gr_policy_open(dir, &options, &f->policy, &err);
    }
    if (status == GR_OK) {
        status = gr_demo_make(f->policy, &f->demo, &err);
    }
    if (status == GR_OK) {
        status = make_check(f, &err);
    }
    if (status != GR_OK) {
        fprintf(stderr, "# boot_fixture: %s\n", err.msg);
        return -1;
    }
    f->facts = (struct gr_boot_facts){.policy = f->policy,
                                      .demo = &f->demo,
                                      .check = &f->check,
                                      .weights_repo = "nvidia/GR00T-N1.6-3B",
                                      .weights_revision = "0123456789abcdef0123456789abcdef01234567",
                                      .snapshot_dir = "/models/demo",
                                      .tokenizer_dir = "/models/demo/tokenizer",
                                      .threads_reason = "1 for the test",
                                      .model_built_s = 0.5,
                                      .boot_s = 1};
    f->config = (struct gr_service_config){.model = "GR00T-N1.6-3B-cpu",
                                           .device = "cpu:0",
                                           .version = "n16",
                                           .layout = "gr1",
                                           .queue = 2,
                                           .limits = {.connections = 64,
                                                      .head_bytes = 16u << 10,
                                                      .body_bytes = 96u << 20,
                                                      .bodies_bytes = 512u << 20,
                                                      .head_s = 10,
                                                      .body_s = 30,
                                                      .idle_s = 60}};
    return 0;
}

void gr_boot_fixture_free(struct gr_boot_fixture *f)
{
    free(f->check.golden_actions);
    free(f->check.golden_normalized);
    free(f->check.actions);
    gr_demo_free(&f->demo);
    gr_policy_close(f->policy);
    (void)gr_test_temp_clean(NULL);
}
