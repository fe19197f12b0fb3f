/* SPDX-License-Identifier: Apache-2.0
 *
 * test_selfcheck.c: which golden is used, when one is kept and when it is believed, and what makes the check fail. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "gr00t.h"
#include "model/synth.h"
#include "policy/demo.h"
#include "policy/golden.h"
#include "policy/selfcheck.h"

static const char *demo_dir, *other_dir;
static struct gr_policy *shipped, *other; /* the demo's weights, and the same network with others */
static int lines, goldens;

static int set_up(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_options options = {.precision = "exact", .threads = 2, .max_text_tokens = 24};
    demo_dir = strdup(gr_test_temp_dir());
    other_dir = strdup(gr_test_temp_dir());
    bool ok = gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, demo_dir, 1, NULL, NULL, &err) == GR_OK &&
              gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 7, other_dir, 1, NULL, NULL, &err) == GR_OK &&
              gr_policy_open(demo_dir, &options, &shipped, &err) == GR_OK &&
              gr_policy_open(other_dir, &options, &other, &err) == GR_OK;
    return ok ? 0 : -1;
}

static int clean_up(void **state)
{
    gr_policy_close(shipped);
    gr_policy_close(other);
    free((char *)demo_dir);
    free((char *)other_dir);
    return gr_test_temp_clean(state);
}

static void count_run(void *user, int k, int runs, double ms)
{
    (void)user;
    assert_true(k >= 1 && k <= runs && ms >= 0.0);
    lines++;
}

static void count_golden(void *user, const char *text)
{
    (void)user;
    assert_true(text[0] != '\0');
    goldens++;
}

static enum gr_status run(struct gr_policy *policy, const char *cache, double pcc_min, int runs,
                          struct gr_selfcheck *out, struct gr_err *err)
{
    struct gr_demo demo;
    struct gr_selfcheck_config cfg = {
        .runs = runs, .pcc_min = pcc_min, .cache_dir = cache, .on_run = count_run, .on_golden = count_golden};
    lines = goldens = 0;
    gr_test_ok(gr_demo_make(policy, &demo, err), err);
    enum gr_status status = gr_selfcheck_run(policy, &demo, &cfg, out, err);
    gr_demo_free(&demo);
    return status;
}

static struct gr_golden_key key_of(struct gr_policy *policy, const struct gr_demo *demo, int n_tokens)
{
    struct gr_golden_key key;
    struct gr_err err;
    gr_test_ok(gr_golden_key_make(policy, &demo->obs, n_tokens, &key, &err), &err);
    return key;
}

static const char *golden_file(const char *cache)
{
    static char path[GR_PATH_BYTES];
    static const struct gr_demo none;
    struct gr_golden_key key = key_of(other, &none, 0);
    struct gr_err err;
    gr_test_ok(gr_golden_path(cache, &key, path, &err), &err);
    return path;
}

static void the_demo_s_weights_are_checked_against_the_shipped_golden(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    const char *cache = gr_test_temp_dir();
    gr_test_ok(run(shipped, cache, 0.999, 3, &c, &err), &err);
    assert_int_equal(c.source, GR_GOLDEN_SHIPPED);
    assert_string_equal(gr_golden_source_name(c.source), "shipped");
    assert_string_equal(c.golden_kernels, "numpy");
    assert_int_equal(c.runs, 3);
    assert_int_equal(lines, 3);
    assert_int_equal(goldens, 0);
    assert_true(c.has_pcc && c.pcc > 0.999999 && c.pcc_slice > 0.999999 && c.max_abs < 1e-3);
    assert_true(c.repeat_max_abs == 0.0);
    assert_int_equal(c.n_groups, 5);
    assert_string_equal(c.groups[0].name, "left_arm");
    for (int g = 0; g < c.n_groups; g++) {
        assert_true(c.groups[g].max_abs <= c.max_abs);
    }
    assert_true(c.times[2].total > 0.0);
    gr_selfcheck_free(&c);
}

static void other_weights_get_a_computed_golden_that_is_kept(void **state)
{
    (void)state;
    struct gr_selfcheck first, second;
    struct gr_err err;
    const char *cache = gr_test_join(gr_test_temp_dir(), "made/on/the/way");
    gr_test_ok(run(other, cache, 0.999, 1, &first, &err), &err);
    assert_int_equal(first.source, GR_GOLDEN_COMPUTED);
    assert_string_equal(gr_golden_source_name(first.source), "computed");
    assert_string_equal(first.golden_note, "");
    assert_int_equal(goldens, 1);
    assert_true(first.golden_kernels[0] != '\0');
    gr_test_ok(run(other, cache, 0.999, 1, &second, &err), &err);
    assert_int_equal(second.source, GR_GOLDEN_CACHED);
    assert_string_equal(gr_golden_source_name(second.source), "computed");
    assert_int_equal(goldens, 0);
    assert_string_equal(second.golden_kernels, first.golden_kernels);
    assert_memory_equal(second.golden_actions, first.golden_actions, 16 * 29 * sizeof(float));
    assert_memory_equal(second.golden_normalized, first.golden_normalized, 50 * 128 * sizeof(float));
    gr_selfcheck_free(&first);
    gr_selfcheck_free(&second);
}

static void without_a_cache_nothing_is_kept(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    gr_test_ok(run(other, NULL, 0.999, 1, &c, &err), &err);
    assert_int_equal(c.source, GR_GOLDEN_COMPUTED);
    assert_string_equal(c.golden_note, "");
    gr_selfcheck_free(&c);
}

static void a_damaged_golden_is_computed_again_with_a_note(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    const char *cache = gr_test_temp_dir();
    gr_test_ok(run(other, cache, 0.999, 1, &c, &err), &err);
    gr_selfcheck_free(&c);
    size_t n;
    uint8_t *good = gr_test_read(golden_file(cache), &n);
    static const size_t cut[] = {0, 1, 63, 200};
    for (size_t i = 0; i < 5 + sizeof cut / sizeof cut[0]; i++) {
        uint8_t *bad = malloc(n);
        memcpy(bad, good, n);
        size_t size = i < 5 ? n : cut[i - 5];
        if (i < 5) {
            bad[n * i / 5 + 3] ^= 1; /* head, floats, checksum */
        }
        gr_test_write(golden_file(cache), bad, size);
        free(bad);
        gr_test_ok(run(other, cache, 0.999, 1, &c, &err), &err);
        assert_int_equal(c.source, GR_GOLDEN_COMPUTED);
        assert_non_null(strstr(c.golden_note, "computed again"));
        gr_selfcheck_free(&c);
        size_t again;
        uint8_t *written = gr_test_read(golden_file(cache), &again);
        assert_int_equal(again, n); /* and stands there anew */
        assert_memory_equal(written, good, n);
        free(written);
    }
    free(good);
}

static void a_golden_of_another_observation_is_not_believed(void **state)
{
    (void)state;
    struct gr_demo demo;
    struct gr_golden golden;
    struct gr_err err;
    bool found;
    const struct gr_info *info = gr_policy_info(other);
    const char *cache = gr_test_temp_dir();
    gr_test_ok(gr_demo_make(other, &demo, &err), &err);
    gr_test_ok(gr_golden_new(info, &golden, &err), &err);
    snprintf(golden.kernels, sizeof golden.kernels, "scalar");
    struct gr_golden_key right = key_of(other, &demo, 116), longer = key_of(other, &demo, 117),
                         weights = key_of(shipped, &demo, 116), settings = right;
    settings.identity[strlen(settings.identity) - 2] ^= 1; /* the last digit of the config's digest */
    gr_test_ok(gr_golden_store(golden_file(cache), &right, &golden, &err), &err);
    gr_test_ok(gr_golden_load(golden_file(cache), &right, &golden, &found, &err), &err);
    assert_true(found);
    const struct gr_golden_key *const wrong[] = {&longer, &weights, &settings, &right};
    for (int i = 0; i < 4; i++) {
        demo.obs.seed = i < 3 ? 42 : 43;
        gr_test_fails(gr_golden_load(golden_file(cache), wrong[i], &golden, &found, &err), &err, GR_ERR_FORMAT,
                      "belongs to other");
        assert_false(found);
    }
    gr_golden_free(&golden);
    gr_demo_free(&demo);
}

static void a_cache_that_cannot_be_written_is_a_note(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    const char *file = gr_test_join(gr_test_temp_dir(), "file");
    gr_test_write(file, "x", 1);
    gr_test_ok(run(other, gr_test_join(file, "below"), 0.999, 1, &c, &err), &err);
    assert_int_equal(c.source, GR_GOLDEN_COMPUTED);
    assert_non_null(strstr(c.golden_note, "could not be kept"));
    gr_selfcheck_free(&c);
}

/* Whole and well signed, but with other actions: what broken kernels would look like. */
static void store_wrong_golden(const char *cache)
{
    struct gr_demo demo;
    struct gr_golden golden;
    struct gr_chunk *chunk = NULL;
    struct gr_err err;
    const struct gr_info *info = gr_policy_info(other);
    gr_test_ok(gr_demo_make(other, &demo, &err), &err);
    gr_test_ok(gr_golden_new(info, &golden, &err), &err);
    gr_test_ok(gr_chunk_new(other, &chunk, &err), &err);
    gr_test_ok(gr_policy_predict(other, &demo.obs, chunk, &err), &err);
    for (int i = 0; i < info->action_steps * info->action_dim; i++) {
        golden.actions[i] = chunk->actions[i] + (i % 3 == 0 ? 0.5f : -0.25f);
    }
    struct gr_golden_key key = key_of(other, &demo, chunk->n_tokens);
    gr_test_ok(gr_golden_store(golden_file(cache), &key, &golden, &err), &err);
    gr_chunk_free(chunk);
    gr_golden_free(&golden);
    gr_demo_free(&demo);
}

static void actions_far_from_the_golden_fail_the_check(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    const char *cache = gr_test_temp_dir();
    store_wrong_golden(cache);
    gr_test_fails(run(other, cache, 0.999, 2, &c, &err), &err, GR_ERR_CHECK, "at least 0.999 is wanted");
    assert_true(c.has_pcc && c.pcc < 0.999 && c.max_abs > 0.2);
    assert_int_equal(c.runs, 2);
    assert_non_null(c.actions);
    gr_selfcheck_free(&c);
    gr_test_ok(run(other, cache, 0.0, 1, &c, &err), &err); /* the bound is the caller's */
    gr_selfcheck_free(&c);
}

static void the_number_of_runs_has_bounds(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    gr_test_fails(run(shipped, NULL, 0.999, 0, &c, &err), &err, GR_ERR_USAGE, "1 to 100");
    gr_selfcheck_free(&c);
    gr_test_fails(run(shipped, NULL, 0.999, 101, &c, &err), &err, GR_ERR_USAGE, "1 to 100");
    gr_selfcheck_free(&c);
}

static void a_cancelled_check_says_so(void **state)
{
    (void)state;
    struct gr_selfcheck c;
    struct gr_err err;
    gr_policy_set_cancel(other, true);
    enum gr_status status = run(other, NULL, 0.999, 1, &c, &err);
    gr_policy_set_cancel(other, false);
    assert_int_equal(status, GR_ERR_BUSY);
    gr_selfcheck_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_demo_s_weights_are_checked_against_the_shipped_golden),
        cmocka_unit_test(other_weights_get_a_computed_golden_that_is_kept),
        cmocka_unit_test(without_a_cache_nothing_is_kept),
        cmocka_unit_test(a_damaged_golden_is_computed_again_with_a_note),
        cmocka_unit_test(a_golden_of_another_observation_is_not_believed),
        cmocka_unit_test(a_cache_that_cannot_be_written_is_a_note),
        cmocka_unit_test(actions_far_from_the_golden_fail_the_check),
        cmocka_unit_test(the_number_of_runs_has_bounds),
        cmocka_unit_test(a_cancelled_check_says_so),
    };
    return cmocka_run_group_tests_name("selfcheck", tests, set_up, clean_up);
}
