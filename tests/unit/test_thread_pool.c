/* SPDX-License-Identifier: Apache-2.0
 *
 * test_thread_pool.c: every thread runs every job once, a barrier makes all earlier writes visible, and divided work is done
 * exactly once whoever does it. Run under ThreadSanitizer by `make tsan`. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/thread_pool.h"
#include "gr_test.h"

enum { THREADS_MAX = 70 /* three rounds of a barrier */, STEPS = 5 };

struct shared {
    struct gr_pool *pool;
    int values[THREADS_MAX];
    long checks[THREADS_MAX];
};

/* Each step every thread writes its cell, meets the others, and adds up all cells; without the barrier sums would differ. */
static void meet(int id, int n, void *arg)
{
    struct shared *s = arg;
    for (int step = 1; step <= STEPS; step++) {
        s->values[id] = step * (id + 1);
        gr_pool_barrier(s->pool);
        for (int i = 0; i < n; i++) {
            s->checks[id] += s->values[i];
        }
        gr_pool_barrier(s->pool);
    }
}

static void every_thread_sees_what_all_wrote_before_the_barrier(void **state)
{
    (void)state;
    struct gr_err err;
    for (int threads = 1; threads <= THREADS_MAX; threads += threads < 10 ? 1 : 30) {
        struct shared s = {0};
        gr_test_ok(gr_pool_new(threads, &s.pool, &err), &err);
        assert_int_equal(gr_pool_threads(s.pool), threads);
        const int rounds = threads < 10 ? 200 : 4;
        for (int round = 0; round < rounds; round++) {
            gr_pool_run(s.pool, meet, &s);
        }
        long sum = 0;
        for (int i = 1; i <= threads; i++) {
            sum += i;
        }
        for (int i = 0; i < threads; i++) {
            assert_int_equal(s.checks[i], (long)rounds * (STEPS * (STEPS + 1) / 2) * sum);
        }
        gr_pool_free(s.pool);
    }
}

static void count(int id, int n, void *arg)
{
    (void)n;
    ((int *)arg)[id]++;
}

/* The pause is longer than the spin, so workers sleep on the futex and must be woken. */
static void sleeping_workers_wake_for_the_next_job(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_pool *pool;
    int runs[3] = {0};
    gr_test_ok(gr_pool_new(3, &pool, &err), &err);
    for (int i = 0; i < 5; i++) {
        usleep(20000);
        gr_pool_run(pool, count, runs);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(runs[i], 5);
    }
    gr_pool_free(pool);
}

/* ---- items that go to whoever is free ---- */

enum { ITEMS_MAX = 300, PRODUCTS = 400 };

struct work {
    struct gr_pool *pool;
    _Atomic int done[ITEMS_MAX];
    unsigned seen[ITEMS_MAX]; /* plain, written by whoever takes the item: the thread sanitizer watches it */
    int (*items_of)(int product);
    _Atomic int wrong, stolen;
    int slow; /* a thread that dawdles; -1: all do, at random */
};

static unsigned next_random(unsigned *x) { return *x = *x * 1664525u + 1013904223u; }

static void dawdle(unsigned pauses)
{
    for (volatile unsigned i = 0; i < pauses; i++) {
        ;
    }
}

static void divide(int id, int n, void *arg)
{
    struct work *w = arg;
    unsigned x = (unsigned)id + 7u;
    for (int product = 0; product < PRODUCTS; product++) {
        const int items = w->items_of(product), grain = 1 + product % 4;
        int first, end, own_first, own_end;
        gr_pool_share(id, n, items, &own_first, &own_end);
        const bool late = w->slow == id || (w->slow < 0 && next_random(&x) >> 28 == 0);
        if (late && next_random(&x) >> 30 == 0) {
            usleep(200); /* asleep before it has begun */
        }
        gr_pool_split(w->pool, items, grain);
        while (gr_pool_next(w->pool, &first, &end)) {
            w->wrong += first < 0 || end > items || first >= end;
            w->stolen += first < own_first || end > own_end;
            for (int i = first; i < end; i++) {
                w->done[i]++;
                w->seen[i]++;
            }
            dawdle(late ? 3000 : next_random(&x) >> 24);
        }
        gr_pool_barrier(w->pool);
        for (int i = id; i < ITEMS_MAX; i += n) {
            w->wrong += w->done[i] != (i < items) || w->seen[i] != (unsigned)(i < items);
            w->done[i] = 0;
            w->seen[i] = 0;
        }
        gr_pool_barrier(w->pool);
    }
}

static int many_items(int product) { return (product * 37) % (ITEMS_MAX + 1); }
static int few_items(int product) { return product % 6; }

static void every_item_is_done_once_whoever_is_late(void **state)
{
    (void)state;
    static int (*const counts[])(int) = {many_items, few_items};
    static const int threads[] = {1, 2, 3, 5, 9};
    struct gr_err err;
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        for (int slow = -1; slow < 2; slow++) {
            struct work w = {.items_of = counts[slow & 1], .slow = slow};
            gr_test_ok(gr_pool_new(threads[t], &w.pool, &err), &err);
            gr_pool_run(w.pool, divide, &w);
            gr_pool_run(w.pool, divide, &w);
            assert_int_equal(w.wrong, 0);
            assert_true(threads[t] > 1 || w.stolen == 0);
            gr_pool_free(w.pool);
        }
    }
}

/* Thread 1 waits until all items are done, so thread 0 has to take them. */
static void wait_for_others(int id, int n, void *arg)
{
    struct work *w = arg;
    int first, end, items = w->items_of(0);
    (void)n;
    if (id == 1) {
        for (int done = 0; done < items; done = w->stolen) {
            usleep(100);
        }
    }
    gr_pool_split(w->pool, items, 3);
    while (gr_pool_next(w->pool, &first, &end)) {
        w->wrong += id != 0;
        w->stolen += end - first;
    }
}

static int hundred(int product)
{
    (void)product;
    return 100;
}

static void the_run_of_a_thread_that_has_not_begun_is_taken_too(void **state)
{
    (void)state;
    struct gr_err err;
    struct work w = {.items_of = hundred};
    gr_test_ok(gr_pool_new(2, &w.pool, &err), &err);
    gr_pool_run(w.pool, wait_for_others, &w);
    assert_int_equal(w.stolen, 100);
    assert_int_equal(w.wrong, 0);
    gr_pool_free(w.pool);
}

/* A run that is empty for as many products as the word can count must not be taken for one that is done. */
static void count_long(int id, int n, void *arg)
{
    struct work *w = arg;
    int first, end;
    (void)n;
    for (int product = 0; product < (1 << 16); product++) {
        gr_pool_split(w->pool, product == 0 || product == (1 << 16) - 1 ? 2 : 0, 1);
        while (gr_pool_next(w->pool, &first, &end)) {
            w->stolen += end - first;
        }
        if (product % (1 << 14) == 0 || product == (1 << 16) - 2) {
            gr_pool_barrier(w->pool); /* between empty products nothing can go wrong without one */
        }
    }
    w->wrong += id < 0;
}

static void empty_products_do_not_wear_out_the_count(void **state)
{
    (void)state;
    struct gr_err err;
    struct work w = {0};
    gr_test_ok(gr_pool_new(2, &w.pool, &err), &err);
    for (int i = 0; i < 3; i++) {
        gr_pool_run(w.pool, count_long, &w);
    }
    assert_int_equal(w.stolen, 12);
    gr_pool_free(w.pool);
}

/* ---- more threads than CPUs ---- */

enum { BARRIERS = 500 };

static void meet_often(int id, int n, void *arg)
{
    (void)id;
    (void)n;
    for (int i = 0; i < BARRIERS; i++) {
        gr_pool_barrier(arg);
    }
}

/* With a spin of 0.1 ms before each sleep a barrier of twice as many threads as CPUs took 0.5 ms, without 0.04 ms. The bound is ten times
 * what is wanted: other programs run too. */
static void more_threads_than_cpus_do_not_spin(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_pool *pool;
    const int threads = 2 * gr_cpu_count();
    if (threads > 16) {
        print_message("skipped: %d threads are no small number\n", threads);
        return;
    }
    double best = 1e9;
    gr_test_ok(gr_pool_new(threads, &pool, &err), &err);
    for (int i = 0; i < 5; i++) {
        const double begin = gr_clock_ms();
        gr_pool_run(pool, meet_often, pool);
        const double ms = (gr_clock_ms() - begin) / BARRIERS;
        best = ms < best ? ms : best;
    }
    gr_pool_free(pool);
    print_message("# %d threads: %.3f ms a barrier\n", threads, best);
    assert_true(best < 0.4);
}

static void wrong_thread_counts_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_pool *pool = NULL;
    gr_test_fails(gr_pool_new(0, &pool, &err), &err, GR_ERR_USAGE, "0 threads");
    gr_test_fails(gr_pool_new(100000, &pool, &err), &err, GR_ERR_USAGE, "100000");
    assert_null(pool);
    gr_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_sees_what_all_wrote_before_the_barrier),
        cmocka_unit_test(sleeping_workers_wake_for_the_next_job),
        cmocka_unit_test(every_item_is_done_once_whoever_is_late),
        cmocka_unit_test(the_run_of_a_thread_that_has_not_begun_is_taken_too),
        cmocka_unit_test(empty_products_do_not_wear_out_the_count),
        cmocka_unit_test(more_threads_than_cpus_do_not_spin),
        cmocka_unit_test(wrong_thread_counts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
