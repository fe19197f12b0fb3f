/* SPDX-License-Identifier: Apache-2.0
 *
 * test_formats.c: the policies from exact to fastest on the demo snapshot: bits that depend on nothing but the observation, chunks that
 * agree with the exact ones, the choice of auto and how it is kept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compare.h"
#include "base/cpu.h"
#include "demo_snapshot.h"
#include "gr00t.h"
#include "gr_test.h"
#include "policy/observation.h"
#include "policy/policy.h"

static const char *const policies[] = {"exact", "high", "balanced", "fast", "mixed", "fastest"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static const char *const tasks[] = {"pick the pear from the counter and place it in the plate",
                                    "open the door",
                                    "wave",
                                    "pour the milk into the cup",
                                    "stop",
                                    "fold the towel and put it on the shelf"};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

static const char *cache; /* plans and packed weights of all tests: each is made once */

static struct gr_policy *open_at(const char *dir, const struct gr_options *o)
{
    struct gr_err err;
    struct gr_policy *p = NULL;
    gr_test_ok(gr_policy_open(dir, o, &p, &err), &err);
    return p;
}

static struct gr_policy *open_with(const struct gr_options *o) { return open_at(demo_dir, o); }

static struct gr_policy *open_policy(const char *precision, int threads)
{
    const struct gr_options o = {.precision = precision, .threads = threads, .cache_dir = cache};
    return open_with(&o);
}

static struct gr_chunk *predict_text(struct gr_policy *p, const char *instruction, int picture)
{
    struct gr_err err;
    struct gr_chunk *c = NULL;
    struct gr_sample s;
    gr_test_ok(gr_sample_make(gr_policy_config(p), picture + 1, &s, &err), &err);
    s.obs.instruction = instruction;
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_policy_predict(p, &s.obs, c, &err), &err);
    gr_sample_free(&s);
    return c;
}

static struct gr_chunk *predict_task(struct gr_policy *p, int task, int picture)
{
    return predict_text(p, tasks[task], picture);
}

static void assert_same(const struct gr_chunk *a, const struct gr_chunk *b)
{
    assert_memory_equal(a->normalized, b->normalized,
                        (size_t)a->horizon * (size_t)a->max_action_dim * sizeof *a->normalized);
    assert_memory_equal(a->actions, b->actions, (size_t)a->steps * (size_t)a->dim * sizeof *a->actions);
}

static void bits_depend_on_the_observation_alone(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        struct gr_policy *one = open_policy(policies[k], 1);
        struct gr_chunk *want = predict_task(one, 0, 0);
        assert_int_equal(want->timing.n_prefix, 0);
        for (int i = 1; i < TASKS; i++) { /* more than the prefix cache holds */
            gr_chunk_free(predict_task(one, i, 1));
        }
        for (int repeat = 0; repeat < 3;
             repeat++) { /* first without the cached prefix, then with it, then after another picture */
            struct gr_chunk *again = predict_task(one, 0, 0);
            assert_int_equal(again->timing.n_prefix > 0, repeat > 0);
            assert_same(again, want);
            gr_chunk_free(again);
            gr_chunk_free(predict_task(one, 0, 1));
        }
        gr_policy_close(one);
        for (int threads = 2; threads <= 3; threads++) {
            struct gr_policy *p = open_policy(policies[k], threads);
            for (int repeat = 0; repeat < 2; repeat++) {
                struct gr_chunk *got = predict_task(p, 0, 0);
                assert_same(got, want);
                gr_chunk_free(got);
            }
            gr_policy_close(p);
        }
        gr_chunk_free(want);
    }
}

static void without_prefix_cache_the_bits_are_the_same(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        const struct gr_options off = {
            .precision = policies[k], .threads = 1, .no_prefix_cache = true, .cache_dir = cache};
        struct gr_policy *a = open_policy(policies[k], 1), *b = open_with(&off);
        for (int picture = 0; picture < 2; picture++) {
            struct gr_chunk *with = predict_task(a, 3, picture), *without = predict_task(b, 3, picture);
            assert_int_equal(without->timing.n_prefix, 0);
            assert_int_equal(with->timing.n_prefix > 0, picture > 0);
            assert_same(with, without);
            gr_chunk_free(with);
            gr_chunk_free(without);
        }
        gr_policy_close(a);
        gr_policy_close(b);
    }
}

/* As long as an instruction may be, more of them than the cache holds, two cameras. */
static void long_instructions_of_two_cameras_keep_their_bits(void **state)
{
    (void)state;
    enum { LETTERS = 2000, TEXTS = 6 };
    const char *first = demo_dir;
    demo_dir = two_camera_snapshot();
    const struct gr_options off = {.precision = "mixed", .threads = 1, .no_prefix_cache = true, .cache_dir = cache};
    struct gr_policy *a = open_policy("mixed", 2), *b = open_with(&off);
    for (int i = 0; i < 2 * TEXTS; i++) {
        char text[LETTERS + 1];
        memset(text, 'a' + i / 2, LETTERS);
        for (int k = 1; k < LETTERS - 1; k += 2) {
            text[k] = ' ';
        }
        text[LETTERS] = '\0';
        struct gr_chunk *with = predict_text(a, text, i % 2), *without = predict_text(b, text, i % 2);
        assert_true(with->n_text > LETTERS / 4);
        assert_int_equal(with->timing.n_prefix > with->n_text, i % 2);
        assert_same(with, without);
        gr_chunk_free(with);
        gr_chunk_free(without);
    }
    gr_policy_close(a);
    gr_policy_close(b);
    demo_dir = first;
}

/* Chunks of every policy on every kernel set this machine has, against the exact ones. */
static void chunks_agree_with_exact(void **state)
{
    (void)state;
    static const char *const sets[] = {"scalar",     "avx2",       "avxvnni",    "avx512",
                                       "avx512vnni", "avx512fp16", "avx512bf16", "amx"};
    static const double floor[POLICIES] = {0.9999999, 0.9999, 0.9995, 0.999, 0.998, 0.99};
    struct gr_policy *reference = open_policy("exact", 1);
    struct gr_chunk *want = predict_task(reference, 0, 0);
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        unsigned flags = gr_cpu_detect();
        struct gr_err err;
        if (GR_TEST_FOREIGN_MALLOC && strcmp(sets[s], "avx2") != 0) {
            continue; /* a sanitizer sees the same code in all of them */
        }
        if (gr_cpu_mask(sets[s], &flags, &err) != GR_OK) {
            print_message("skipped: %s\n", err.msg);
            continue;
        }
        for (int k = 0; k < POLICIES; k++) {
            const struct gr_options o = {.precision = policies[k], .cpu = sets[s], .threads = 1};
            struct gr_policy *p = open_with(&o);
            struct gr_chunk *got = predict_task(p, 0, 0);
            const struct gr_diff d =
                gr_compare(got->actions, got->dim, want->actions, want->dim, want->steps, want->dim);
            print_message("%-10s %-9s PCC %.7f max|d| %.2e\n", sets[s], policies[k], d.pcc, d.max_abs);
            assert_true(d.has_pcc && d.pcc >= floor[k]);
            gr_chunk_free(got);
            gr_policy_close(p);
        }
    }
    gr_chunk_free(want);
    gr_policy_close(reference);
}

static void auto_chooses_what_passes_and_keeps_it(void **state)
{
    (void)state;
    char *folder = strdup(gr_test_temp_dir());
    const struct gr_options o = {.threads = 1, .cache_dir = folder};
    struct gr_policy *p = open_with(&o);
    const struct gr_info *info = gr_policy_info(p);
    const struct gr_plan *plan = gr_policy_plan(p);
    assert_string_equal(info->precision_asked, "auto");
    assert_int_equal(info->cache, GR_CACHE_WRITTEN);
    assert_true(plan->kept && plan->n_tries > 0 && plan->tries[plan->n_tries - 1].pass);
    for (int i = 0; i + 1 < plan->n_tries; i++) {
        assert_false(plan->tries[i].pass);
    }
    for (int i = 0; i < info->n_fidelity; i++) {
        const struct gr_fidelity *f = &info->fidelity[i];
        assert_true(!f->gate || (f->pass && f->pcc >= 0.9995 && f->pcc_slice >= 0.999));
    }
    char step[64], file[4096];
    snprintf(step, sizeof step, "%s", info->precision_step);
    snprintf(file, sizeof file, "%s", info->cache_file);
    struct gr_chunk *want = predict_task(p, 1, 0);
    gr_policy_close(p);

    for (int round = 0; round < 3; round++) { /* stored; weights gone; asked to choose anew */
        const struct gr_options again = {.threads = 1, .cache_dir = folder, .remeasure = round == 2};
        if (round == 1) {
            assert_int_equal(unlink(file), 0);
        }
        p = open_with(&again);
        info = gr_policy_info(p);
        assert_int_equal(info->cache, round == 0 ? GR_CACHE_WARM : GR_CACHE_WRITTEN);
        assert_string_equal(info->precision_step, step);
        assert_true(gr_policy_plan(p)->kept);
        struct gr_chunk *got = predict_task(p, 1, 0);
        assert_same(got, want);
        gr_chunk_free(got);
        gr_policy_close(p);
    }
    gr_chunk_free(want);
    free(folder);
}

/* Chunks of `precision` on another snapshot: its gate, then the same bits with and without prefix cache on 1, 2 and 3 threads. */
static void one_chunk_for_all_threads(const char *dir, const char *tokenizer, const char *precision)
{
    struct gr_chunk *want = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        for (int cached = 0; cached <= 1; cached++) {
            const struct gr_options o = {.precision = precision,
                                         .cache_dir = cache,
                                         .tokenizer_dir = tokenizer,
                                         .threads = threads,
                                         .no_prefix_cache = cached == 0};
            struct gr_policy *p = open_at(dir, &o);
            const struct gr_info *info = gr_policy_info(p);
            for (int i = 0; want == NULL && i < info->n_fidelity; i++) {
                const struct gr_fidelity *f = &info->fidelity[i];
                print_message("%s, %s: observation %d PCC %.6f slice %.6f max|d| %.1e\n", precision,
                              info->precision_step, i + 1, f->pcc, f->pcc_slice, f->max_abs);
                assert_true(f->pcc >= 0.999 && f->pcc_slice >= 0.999); /* what decisions promise of every policy */
                assert_true(i >= 2 || strcmp(precision, "auto") != 0 || (f->pass && f->pcc >= 0.9995));
            }
            for (int repeat = 0; repeat <= cached; repeat++) {
                struct gr_chunk *got = predict_task(p, 0, 2);
                assert_int_equal(got->timing.n_prefix > 0, repeat > 0);
                if (want == NULL) {
                    want = got;
                    continue;
                }
                assert_same(got, want);
                gr_chunk_free(got);
            }
            gr_policy_close(p);
        }
    }
    gr_chunk_free(want);
}

/* Channels a hundred times larger than their neighbours, as trained networks have them. */
static void outliers_keep_the_actions_and_the_bits(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    gr_test_ok(gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_OUTLIERS, 1600, dir, 1, NULL, NULL, &err), &err);
    one_chunk_for_all_threads(dir, NULL, "auto");
    one_chunk_for_all_threads(dir, NULL, "fastest");
}

static void outliers_with_the_published_vocabulary(void **state)
{
    (void)state;
    struct gr_err err;
    char *tokenizer = strdup(gr_test_shared("spec/tokenizer"));
    const char *dir = gr_test_temp_dir();
    gr_test_ok(gr_synth_write(GR_SYNTH_TINY, GR_SYNTH_OUTLIERS, 1600, dir, 1, NULL, NULL, &err), &err);
    one_chunk_for_all_threads(dir, tokenizer, "auto");
    free(tokenizer);
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_policy *p = NULL;
    const struct gr_options policy = {.precision = "quick"}, half = {.precision = "mixed", .half = "i8"};
    gr_test_fails(gr_policy_open(demo_dir, &policy, &p, &err), &err, GR_ERR_USAGE, "fastest");
    gr_test_fails(gr_policy_open(demo_dir, &half, &p, &err), &err, GR_ERR_USAGE, "bf16p");
    assert_null(p);
}

static void each_16_bit_format_can_be_asked_for(void **state)
{
    (void)state;
    static const char *const halves[] = {"f16", "bf16p", "i16"};
    for (int i = 0; i < 3; i++) {
        const struct gr_options o = {.precision = "high", .half = halves[i], .threads = 1};
        struct gr_policy *p = open_with(&o);
        const struct gr_info *info = gr_policy_info(p);
        assert_string_equal(info->half, halves[i]);
        assert_true(info->n_fidelity == 5 && info->fidelity[0].pcc > 0.9995);
        gr_policy_close(p);
    }
}

static int make_demo_and_cache(void **state)
{
    cache = gr_test_temp_dir();
    return make_demo(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_depend_on_the_observation_alone),
        cmocka_unit_test(without_prefix_cache_the_bits_are_the_same),
        cmocka_unit_test(long_instructions_of_two_cameras_keep_their_bits),
        cmocka_unit_test(chunks_agree_with_exact),
        cmocka_unit_test(auto_chooses_what_passes_and_keeps_it),
        cmocka_unit_test(outliers_keep_the_actions_and_the_bits),
        cmocka_unit_test(outliers_with_the_published_vocabulary),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(each_16_bit_format_can_be_asked_for),
    };
    return cmocka_run_group_tests(tests, make_demo_and_cache, gr_test_temp_clean);
}
