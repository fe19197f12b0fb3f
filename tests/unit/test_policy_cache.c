/* SPDX-License-Identifier: Apache-2.0
 *
 * test_policy_cache.c: a policy from the cache of packed weights computes the same bits as one packed from the snapshot, for every set of
 * kernels, and no state of the cache folder keeps a policy from opening. */
#include "gr_test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fs.h"
#include "demo_snapshot.h"
#include "device/plan.h"
#include "gr00t.h"
#include "policy/observation.h"
#include "policy/policy.h"

static struct gr_policy *open_with(const struct gr_options *o, enum gr_cache_state state)
{
    struct gr_err err;
    struct gr_policy *p = NULL;
    gr_test_ok(gr_policy_open(demo_dir, o, &p, &err), &err);
    const struct gr_info *info = gr_policy_info(p);
    if (info->cache != state) {
        fail_msg("cache state %d, expected %d: %s", (int)info->cache, (int)state,
                 info->cache_note != NULL ? info->cache_note : "-");
    }
    return p;
}

static struct gr_policy *open_in(const char *cache, enum gr_cache_state state)
{
    struct gr_options o = {.precision = "exact", .cache_dir = cache, .threads = 2};
    return open_with(&o, state);
}

/* Normalised chunk of observation 1; closes p. */
static float *answer(struct gr_policy *p, size_t *n)
{
    struct gr_sample s;
    struct gr_chunk *c = NULL;
    struct gr_err err;
    gr_test_ok(gr_sample_make(gr_policy_config(p), 1, &s, &err), &err);
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_policy_predict(p, &s.obs, c, &err), &err);
    *n = (size_t)c->horizon * (size_t)c->max_action_dim * sizeof(float);
    float *out = malloc(*n);
    memcpy(out, c->normalized, *n);
    gr_chunk_free(c);
    gr_sample_free(&s);
    gr_policy_close(p);
    return out;
}

static void assert_same_answer(struct gr_policy *a, struct gr_policy *b)
{
    size_t n, m;
    float *x = answer(a, &n), *y = answer(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void warm_and_cold_give_the_same_bits_in_every_set(void **state)
{
    (void)state;
    static const char *const sets[] = {"scalar", "avx2", "avx512"};
    const char *cache = gr_test_temp_dir();
    for (int i = 0; i < 3; i++) {
        unsigned flags = gr_cpu_detect();
        struct gr_err err;
        if (gr_cpu_mask(sets[i], &flags, &err) != GR_OK) {
            print_message("skipped: this CPU has no %s\n", sets[i]);
            continue;
        }
        struct gr_options off = {.precision = "exact", .cpu = sets[i], .threads = 1}, on = off;
        on.cache_dir = cache;
        struct gr_policy *plain = open_with(&off, GR_CACHE_OFF), *cold = open_with(&on, GR_CACHE_WRITTEN);
        on.threads = 3;
        on.max_text_tokens = 100; /* neither is part of the packed form */
        struct gr_policy *warm = open_with(&on, GR_CACHE_WARM), *again = open_with(&on, GR_CACHE_WARM);
        assert_string_equal(gr_policy_info(cold)->cache_file, gr_policy_info(warm)->cache_file);
        assert_null(gr_policy_info(cold)->cache_note);
        assert_null(gr_policy_info(warm)->cache_note);
        assert_null(gr_policy_info(plain)->cache_file);
        assert_int_equal(gr_policy_info(warm)->weight_bytes, gr_policy_info(plain)->weight_bytes);
        assert_same_answer(plain, warm);
        gr_policy_close(cold);
        gr_policy_close(again);
    }
}

static void info_says_what_was_loaded(void **state)
{
    (void)state;
    struct gr_policy *p = open_in(NULL, GR_CACHE_OFF), *q = open_in(NULL, GR_CACHE_OFF);
    const struct gr_info *a = gr_policy_info(p), *b = gr_policy_info(q);
    assert_int_equal(strlen(a->weights_digest), 64);
    assert_string_equal(a->weights_digest, b->weights_digest);
    assert_in_range(a->n_tensors, 100, 2000);
    assert_null(a->cache_file);
    assert_null(a->cache_note);
    gr_policy_close(p);
    gr_policy_close(q);
}

static void another_embodiment_does_not_get_these_weights(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir();
    struct gr_policy *p = open_in(cache, GR_CACHE_WRITTEN);
    const int slot = gr_policy_info(p)->embodiment_slot == 0 ? 1 : 0;
    gr_policy_close(p);
    /* The demo has tables for gr1 only: another slot for the same tag. */
    const char *dir = gr_test_temp_dir(), *first = demo_dir;
    gr_test_copy_dir(demo_dir, dir);
    gr_test_write(gr_test_join(dir, "embodiment_id.json"), slot == 1 ? "{\"gr1\": 1}" : "{\"gr1\": 0}", 10);
    demo_dir = dir;
    struct gr_policy *cold = open_in(cache, GR_CACHE_WRITTEN), *warm = open_in(cache, GR_CACHE_WARM);
    assert_int_equal(gr_policy_info(cold)->embodiment_slot, slot);
    assert_same_answer(cold, warm);
    demo_dir = first;
    gr_policy_close(open_in(cache, GR_CACHE_WARM));
}

static void a_damaged_file_is_rebuilt_and_says_so(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir();
    struct gr_policy *p = open_in(cache, GR_CACHE_WRITTEN);
    char path[4096];
    size_t n;
    snprintf(path, sizeof path, "%s", gr_policy_info(p)->cache_file);
    uint8_t *file = gr_test_read(path, &n);
    for (int i = 0; i < 8; i++) {
        const size_t at = i < 4 ? (size_t)i * 11 : n / 9 * (size_t)i;
        uint8_t kept = file[at];
        file[at] ^= 0x55;
        gr_test_write(path, file, n);
        struct gr_policy *q = open_in(cache, GR_CACHE_WRITTEN);
        assert_non_null(gr_policy_info(q)->cache_note);
        assert_non_null(strstr(gr_policy_info(q)->cache_note, "packed-"));
        gr_policy_close(q);
        file[at] = kept;
    }
    uint8_t *again = gr_test_read(path, &n);
    assert_memory_equal(file, again, n); /* the same weights make the same file */
    free(again);
    assert_int_equal(truncate(path, (off_t)(n / 2)), 0);
    assert_same_answer(p, open_in(cache, GR_CACHE_WRITTEN));
    free(file);
}

static void a_folder_that_cannot_be_used_is_survived(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir(), *file = gr_test_join(dir, "file");
    gr_test_write(file, "x", 1);
    struct gr_policy *p = open_in(file, GR_CACHE_UNWRITTEN);
    assert_non_null(strstr(gr_policy_info(p)->cache_note, "Not a directory"));
    assert_null(gr_policy_info(p)->cache_file);
    assert_same_answer(p, open_in(NULL, GR_CACHE_OFF));
    p = open_in("", GR_CACHE_UNWRITTEN);
    assert_non_null(strstr(gr_policy_info(p)->cache_note, "empty"));
    gr_policy_close(p);
}

static void a_load_that_fails_leaves_no_file(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir(), *cache = gr_test_join(gr_test_temp_dir(), "cache");
    gr_test_copy_dir(demo_dir, dir);
    gr_test_write(gr_test_join(dir, "model-00001-of-00002.safetensors"), "broken", 6);
    struct gr_options o = {.precision = "exact", .cache_dir = cache, .threads = 1};
    struct gr_policy *p = NULL;
    struct gr_err err;
    assert_int_equal(gr_policy_open(dir, &o, &p, &err), GR_ERR_FORMAT);
    assert_false(gr_fs_is_dir(cache));
}

static pid_t opener(const char *cache)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* one thread: the thread sanitizer allows no new ones after a fork */
        struct gr_options o = {.precision = "exact", .cache_dir = cache, .threads = 1};
        struct gr_policy *p = NULL;
        struct gr_err err;
        bool ok = gr_policy_open(demo_dir, &o, &p, &err) == GR_OK && gr_policy_info(p)->cache_note == NULL;
        _exit(ok ? 0 : 1);
    }
    return pid;
}

static void processes_that_open_at_once_share_the_folder(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir();
    pid_t pid[3];
    for (int i = 0; i < 3; i++) {
        pid[i] = opener(cache);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_same_answer(open_in(cache, GR_CACHE_WARM), open_in(NULL, GR_CACHE_OFF));
}

static void a_kill_during_an_open_leaves_a_good_file_or_none(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir();
    size_t n, m;
    float *good = answer(open_in(NULL, GR_CACHE_OFF), &n);
    struct gr_policy *whole = open_in(cache, GR_CACHE_WRITTEN);
    const unsigned open_us = (unsigned)(gr_policy_info(whole)->load_ms * 1000);
    assert_int_equal(remove(gr_policy_info(whole)->cache_file), 0);
    gr_policy_close(whole);
    uint32_t x = 11;
    int files = 0;
    for (int i = 0; i < 12; i++) {
        pid_t pid = opener(cache);
        x = x * 1664525u + 1013904223u;
        usleep((x >> 8) % (open_us + open_us / 3));
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        struct gr_options o = {.precision = "exact", .cache_dir = cache, .threads = 2};
        struct gr_policy *p = NULL;
        struct gr_err err;
        gr_test_ok(gr_policy_open(demo_dir, &o, &p, &err), &err);
        const struct gr_info *info = gr_policy_info(p);
        assert_null(info->cache_note);
        assert_true(info->cache == GR_CACHE_WARM || info->cache == GR_CACHE_WRITTEN);
        files += info->cache == GR_CACHE_WARM;
        assert_int_equal(remove(info->cache_file), 0);
        if (i % 4 == 0) {
            float *found = answer(p, &m);
            assert_memory_equal(good, found, n);
            free(found);
        } else {
            gr_policy_close(p);
        }
    }
    free(good);
    print_message("# %d of 12 kills came after the file was complete\n", files);
}

/* ---- chosen number formats: a plan and what it packed ---- */

static struct gr_policy *open_chosen(const char *cache, const char *precision, enum gr_cache_state state)
{
    const struct gr_options o = {.precision = precision, .cache_dir = cache, .threads = 2};
    return open_with(&o, state);
}

static void plan_path(struct gr_policy *p, char out[4096])
{
    assert_true(gr_policy_plan(p)->kept);
    snprintf(out, 4096, "%s", gr_policy_plan(p)->file);
}

static bool mentions(const char *path, const char *text)
{
    size_t n;
    uint8_t *bytes = gr_test_read(path, &n);
    const bool found = memmem(bytes, n < 8192 ? n : 8192, text, strlen(text)) != NULL;
    free(bytes);
    return found;
}

/* What an older program quantised in another way has another key, also within one version. */
static void keys_hold_the_edition_of_the_recipe(void **state)
{
    (void)state;
    char plan[4096], edition[32];
    snprintf(edition, sizeof edition, "; recipe %d;", GR_RECIPE_EDITION);
    struct gr_policy *p = open_chosen(gr_test_temp_dir(), "fastest", GR_CACHE_WRITTEN);
    plan_path(p, plan);
    assert_true(mentions(plan, edition));
    assert_true(mentions(gr_policy_info(p)->cache_file, edition));
    gr_policy_close(p);
}

static void a_plan_that_cannot_be_used_is_made_anew_and_says_so(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir();
    struct gr_policy *p = open_chosen(cache, "fastest", GR_CACHE_WRITTEN);
    char plan[4096];
    plan_path(p, plan);
    assert_null(gr_policy_info(p)->cache_note);
    size_t n, all;
    uint8_t *good = gr_test_read(plan, &n);
    for (int i = 0; i < 6; i++) {
        uint8_t *bad = malloc(n);
        memcpy(bad, good, n);
        all = i == 0 ? 0 : i == 1 ? n / 2 : i == 2 ? n - 1 : n;
        bad[i == 3 ? 3 : n / (size_t)(i + 2)] ^= i < 3 ? 0 : 1;
        gr_test_write(plan, bad, all);
        free(bad);
        if (i == 5) {
            assert_int_equal(unlink(plan), 0);
            gr_test_write(plan, "{\"gr00t_plan\": 0}", 18);
        }
        struct gr_policy *q = open_chosen(cache, "fastest", GR_CACHE_WRITTEN);
        assert_non_null(gr_policy_info(q)->cache_note);
        assert_non_null(strstr(gr_policy_info(q)->cache_note, "plan-"));
        gr_policy_close(q);
        q = open_chosen(cache, "fastest", GR_CACHE_WARM);
        assert_null(gr_policy_info(q)->cache_note);
        gr_policy_close(q);
    }
    free(good);
    assert_int_equal(unlink(plan), 0);
    assert_int_equal(mkdir(plan, 0777), 0);
    struct gr_policy *q = open_chosen(cache, "fastest", GR_CACHE_WRITTEN);
    assert_non_null(strstr(gr_policy_info(q)->cache_note, "plan-"));
    assert_false(gr_policy_plan(q)->kept);
    assert_same_answer(p, q);
}

static void a_plan_needs_its_weights_and_they_need_a_plan(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir();
    struct gr_policy *mixed = open_chosen(cache, "mixed", GR_CACHE_WRITTEN),
                     *fastest = open_chosen(cache, "fastest", GR_CACHE_WRITTEN);
    char plan[4096], packed[4096], other[4096];
    plan_path(fastest, plan);
    snprintf(packed, sizeof packed, "%s", gr_policy_info(fastest)->cache_file);
    snprintf(other, sizeof other, "%s", gr_policy_info(mixed)->cache_file);
    assert_string_not_equal(packed, other);
    assert_int_equal(unlink(plan), 0);
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WRITTEN));
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WARM));
    assert_int_equal(unlink(packed), 0);
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WRITTEN));
    size_t n;
    uint8_t *file = gr_test_read(other, &n); /* whole, but of another policy */
    gr_test_write(packed, file, n);
    struct gr_policy *p = open_chosen(cache, "fastest", GR_CACHE_WRITTEN);
    assert_non_null(strstr(gr_policy_info(p)->cache_note, "packed-"));
    assert_same_answer(p, fastest);
    file[n / 2] ^= 1;
    gr_test_write(other, file, n);
    p = open_chosen(cache, "mixed", GR_CACHE_WRITTEN);
    assert_non_null(strstr(gr_policy_info(p)->cache_note, "damaged"));
    assert_same_answer(p, mixed);
    free(file);
}

/* Weights are calibrated with what the cameras see. */
static void another_camera_is_another_plan(void **state)
{
    (void)state;
    const char *cache = gr_test_temp_dir(), *first = demo_dir;
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WRITTEN));
    demo_dir = two_camera_snapshot();
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WRITTEN));
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WARM));
    demo_dir = first;
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WARM));
}

static pid_t chooser(const char *cache)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct gr_options o = {.precision = "mixed", .cache_dir = cache, .threads = 1};
        struct gr_policy *p = NULL;
        struct gr_err err;
        bool ok = gr_policy_open(demo_dir, &o, &p, &err) == GR_OK && gr_policy_info(p)->cache_note == NULL;
        _exit(ok ? 0 : 1);
    }
    return pid;
}

static int count_files(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        n += strstr(e->d_name, part) != NULL;
    }
    (void)closedir(d);
    return n;
}

static void choosers_at_once_agree_on_one_file(void **state)
{
    (void)state;
    char *cache = strdup(gr_test_temp_dir());
    pid_t pid[3];
    for (int i = 0; i < 3; i++) {
        pid[i] = chooser(cache);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    gr_policy_close(open_chosen(cache, "mixed", GR_CACHE_WARM));
    assert_int_equal(count_files(cache, "packed-"), 1);
    assert_int_equal(count_files(cache, "plan-"), 1);
    free(cache);
}

static void a_kill_while_formats_are_chosen_leaves_nothing(void **state)
{
    (void)state;
    char *cache = strdup(gr_test_temp_dir());
    struct gr_policy *p = open_chosen(cache, "mixed", GR_CACHE_WRITTEN);
    const unsigned open_us = (unsigned)(gr_policy_info(p)->load_ms * 1000);
    char plan[4096], packed[4096];
    plan_path(p, plan);
    snprintf(packed, sizeof packed, "%s", gr_policy_info(p)->cache_file);
    uint32_t x = 5;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(unlink(plan), 0);
        assert_int_equal(unlink(packed), 0);
        pid_t pid = chooser(cache);
        x = x * 1664525u + 1013904223u;
        usleep((x >> 8) % (open_us + open_us / 3));
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        const char *temp = gr_test_join(cache, ".plan-0.json.tmp-1-0"); /* what a kill at the worst moment leaves */
        gr_test_write(temp, "x", 1);
        struct gr_options o = {.precision = "mixed", .cache_dir = cache, .threads = 2};
        struct gr_policy *q = NULL;
        struct gr_err err;
        gr_test_ok(gr_policy_open(demo_dir, &o, &q, &err), &err);
        assert_null(gr_policy_info(q)->cache_note);
        gr_policy_close(q);
        assert_int_equal(count_files(cache, ".tmp-"), 0);
    }
    assert_same_answer(p, open_chosen(cache, "mixed", GR_CACHE_WARM));
    free(cache);
}

/* A limit on the size of files stands for a full disk. */
static void what_does_not_fit_on_the_disk_is_served_from_memory(void **state)
{
    (void)state;
    char *cache = strdup(gr_test_temp_dir());
    static const rlim_t limits[] = {0, 4096, 100000};
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct rlimit limit = {limits[i], limits[i]};
            struct gr_options o = {.precision = "fastest", .cache_dir = cache, .threads = 1};
            struct gr_policy *p = NULL;
            struct gr_err err;
            (void)signal(SIGXFSZ, SIG_IGN);
            bool ok = setrlimit(RLIMIT_FSIZE, &limit) == 0 && gr_policy_open(demo_dir, &o, &p, &err) == GR_OK &&
                      gr_policy_info(p)->cache == GR_CACHE_UNWRITTEN &&
                      strstr(gr_policy_info(p)->cache_note, "are free") != NULL;
            _exit(ok ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(count_files(cache, ".tmp-"), 0);
        assert_int_equal(count_files(cache, "packed-"), 0);
    }
    gr_policy_close(open_chosen(cache, "fastest", GR_CACHE_WRITTEN));
    gr_policy_close(open_chosen("", "fastest", GR_CACHE_UNWRITTEN));
    assert_int_equal(count_files(".", "plan-"), 0);
    free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_and_cold_give_the_same_bits_in_every_set),
        cmocka_unit_test(info_says_what_was_loaded),
        cmocka_unit_test(another_embodiment_does_not_get_these_weights),
        cmocka_unit_test(a_damaged_file_is_rebuilt_and_says_so),
        cmocka_unit_test(a_folder_that_cannot_be_used_is_survived),
        cmocka_unit_test(a_load_that_fails_leaves_no_file),
        cmocka_unit_test(processes_that_open_at_once_share_the_folder),
        cmocka_unit_test(a_kill_during_an_open_leaves_a_good_file_or_none),
        cmocka_unit_test(keys_hold_the_edition_of_the_recipe),
        cmocka_unit_test(a_plan_that_cannot_be_used_is_made_anew_and_says_so),
        cmocka_unit_test(a_plan_needs_its_weights_and_they_need_a_plan),
        cmocka_unit_test(another_camera_is_another_plan),
        cmocka_unit_test(choosers_at_once_agree_on_one_file),
        cmocka_unit_test(a_kill_while_formats_are_chosen_leaves_nothing),
        cmocka_unit_test(what_does_not_fit_on_the_disk_is_served_from_memory),
    };
    return cmocka_run_group_tests(tests, make_demo, gr_test_temp_clean);
}
