/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_device_sim.c: the Blackhole device on the simulator, in one process: boot, predicts with inputs written for the next one meanwhile, reset,
 * boot again, and the bits of a launch for every tap. The tiny snapshot; a predict takes seconds. GR00T_BH_LONG in the environment: twenty of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compare.h"
#include "bh_chip.h"
#include "gr_test.h"
#include "gr00t.h"
#include "model/synth.h"
#include "policy/observation.h"
#include "policy/policy.h"

enum { SHORT = 3, LONG = 20, OTHERS = 2 }; /* predicts; observations that they alternate between */

static const char *simulator, *tiny_dir;

static int set_up(void **state)
{
    (void)state;
    struct gr_err err;
    tiny_dir = strdup(gr_test_temp_dir());
    return gr_synth_write(GR_SYNTH_TINY, GR_SYNTH_UNIFORM, 1600, tiny_dir, 1, NULL, NULL, &err) == GR_OK ? 0 : -1;
}
static int clean_up(void **state)
{
    free((char *)tiny_dir);
    return gr_test_temp_clean(state);
}

static struct gr_policy *boot(const struct gr_options *o)
{
    struct gr_policy *p = NULL;
    struct gr_err err;
    gr_test_ok(gr_policy_open(tiny_dir, o, &p, &err), &err);
    return p;
}

/* Observations 1 and 2, encoded. */
static struct gr_encoded *request[OTHERS];

static void encode(struct gr_policy *p)
{
    for (int k = 0; k < OTHERS; k++) {
        struct gr_err err;
        struct gr_sample sample;
        gr_test_ok(gr_sample_make(gr_policy_config(p), k + 1, &sample, &err), &err);
        gr_test_ok(gr_policy_encoded_new(p, &request[k], &err), &err);
        gr_test_ok(gr_policy_encode(p, &sample.obs, request[k], &err), &err);
        gr_sample_free(&sample);
    }
}

/* Whose inputs are written while a program runs, and how often it was asked for. */
struct following {
    const struct gr_encoded *request;
    int asked;
};
static const struct gr_encoded *next(void *user)
{
    struct following *f = user;
    f->asked++;
    return f->request;
}

static float *copy_of(const struct gr_chunk *c)
{
    const size_t bytes = (size_t)c->horizon * (size_t)c->max_action_dim * sizeof(float);
    float *copy = malloc(bytes);
    memcpy(copy, c->normalized, bytes);
    return copy;
}

/* The chunk of request k, malloc'ed. */
static float *predict_encoded(struct gr_policy *p, int k)
{
    struct gr_err err;
    struct gr_chunk *c = NULL;
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_policy_predict_encoded(p, request[k], c, &err), &err);
    const struct gr_timing *t = &c->timing; /* one launch, which the host watches */
    assert_true(t->vision > 0 && t->llm > 0 && t->adapter > 0 && t->denoise > 0);
    assert_true(fabs(t->vision + t->llm + t->adapter + t->denoise - t->device) < 1e-3);
    float *copy = copy_of(c);
    gr_chunk_free(c);
    return copy;
}

/* The chunk of observation k, malloc'ed. */
static float *predict(struct gr_policy *p, int k, const struct gr_tap_sink *taps)
{
    struct gr_err err;
    struct gr_chunk *c = NULL;
    struct gr_sample sample;
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_sample_make(gr_policy_config(p), k, &sample, &err), &err);
    gr_test_ok(gr_policy_predict_taps(p, &sample.obs, c, taps, &err), &err);
    float *copy = copy_of(c);
    gr_sample_free(&sample);
    gr_chunk_free(c);
    return copy;
}

static void count_tap(void *user, const char *name, const float *data, int rows, int cols, int ld)
{
    (void)name;
    (void)data;
    *(int *)user += rows > 0 && cols > 0 && ld >= cols;
}

static void boots_predicts_and_boots_again(void **state)
{
    (void)state;
    gr_test_need_shared();
    const char *tokenizer = strdup(gr_test_shared("spec/tokenizer"));
    struct gr_options o = {
        .device = "blackhole", .simulator = simulator, .tokenizer_dir = tokenizer, .threads = 2, .max_text_tokens = 24};
    struct gr_options exact = {.precision = "exact", .tokenizer_dir = tokenizer, .threads = 2, .max_text_tokens = 24};
    float *want[OTHERS];
    int taps = 0;
    const int predicts = getenv("GR00T_BH_LONG") != NULL ? LONG : SHORT;
    double start = gr_clock_ms();
    struct gr_policy *p = boot(&o);
    assert_true(gr_policy_info(p)->card->simulator);
    printf("# boot %.1f s\n", (gr_clock_ms() - start) / 1000.0);
    start = gr_clock_ms();
    const int steps = gr_policy_info(p)->action_steps, dim = gr_policy_info(p)->action_dim,
              ld = gr_policy_info(p)->max_action_dim;
    const size_t bytes = (size_t)gr_policy_info(p)->horizon * (size_t)ld * sizeof(float);
    struct following follows = {0};
    encode(p);
    gr_policy_set_next(p, next, &follows);
    for (int i = 0; i < predicts; i++) {
        follows.request = i > 0 ? request[(i + 1) % OTHERS] : NULL; /* the first two are alone */
        float *got = predict_encoded(p, i % OTHERS);
        if (i < OTHERS) {
            want[i] = got;
            continue;
        }
        assert_memory_equal(got, want[i % OTHERS], bytes);
        free(got);
    }
    assert_true(follows.asked > predicts);
    for (int k = 0; k < OTHERS; k++) {
        gr_encoded_free(request[k]);
    }
    printf("# %d predicts, %.2f s each\n", predicts, (gr_clock_ms() - start) / 1000.0 / predicts);
    gr_policy_close(p);
    o.dit_backend = "ops";
    p = boot(&o);
    const struct gr_tap_sink sink = {count_tap, &taps};
    float *again = predict(p, 1, &sink);
    assert_memory_equal(again, want[0], bytes);
    assert_true(taps > 20);
    free(again);
    gr_policy_close(p);
    p = boot(&exact);
    float *cpu = predict(p, 1, NULL);
    const struct gr_diff d = gr_compare(want[0], ld, cpu, ld, steps, dim);
    printf("# against the exact network on the CPU: PCC %.6f, max|d| %.1e\n", d.pcc, d.max_abs);
    assert_true(d.pcc >= 0.999);
    free(cpu);
    gr_policy_close(p);
    for (int i = 0; i < OTHERS; i++) {
        free(want[i]);
    }
    free((char *)tokenizer);
}

int main(void)
{
    simulator = bh_simulator();
    if (simulator == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(boots_predicts_and_boots_again)};
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
