/* SPDX-License-Identifier: Apache-2.0
 *
 * test_policy_cache.c: a policy from the cache of packed weights computes the same bits as one packed from the snapshot, for every set of
 * kernels, and no state of the cache folder keeps a policy from opening. */
#include "gr_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fs.h"
#include "demo_snapshot.h"
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
    struct gr_options o = {.cache_dir = cache, .threads = 2};
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
        struct gr_options off = {.cpu = sets[i], .threads = 1}, on = off;
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
    struct gr_options o = {.cache_dir = cache, .threads = 1};
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
        struct gr_options o = {.cache_dir = cache, .threads = 1};
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
        struct gr_options o = {.cache_dir = cache, .threads = 2};
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
    };
    return cmocka_run_group_tests(tests, make_demo, gr_test_temp_clean);
}
