/* SPDX-License-Identifier: Apache-2.0
 *
 * thread_pool.c: persistent SPMD pool with a central barrier.
 *
 * A waiter spins for some tenths of a millisecond, because two barriers a matrix product make sleeping too slow, then
 * sleeps on a futex, because unbounded spinning on a busy machine takes the CPU from the thread it waits for. */
#include "base/thread_pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"

enum { CACHE_LINE = 64, SPIN_PAUSES = 8000 /* 0.1 to 0.3 ms, by the length of the CPU's pause */ };

/* job_seq and barrier_seq are futex words: each goes up by one (and wraps) and wakes whoever waits for the change. */
struct gr_pool {
    _Alignas(CACHE_LINE) _Atomic unsigned job_seq;
    _Alignas(CACHE_LINE) _Atomic unsigned barrier_seq;
    _Alignas(CACHE_LINE) _Atomic int arrived;
    _Alignas(CACHE_LINE) _Atomic int sleepers;
    _Alignas(CACHE_LINE) gr_pool_fn fn; /* published by job_seq */
    void *arg;
    bool quit;
    int threads, started;
    pthread_t *handles;
};

struct worker_arg {
    struct gr_pool *pool;
    int id;
};

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void wait_for_change(struct gr_pool *pool, _Atomic unsigned *word, unsigned old)
{
    for (int i = 0; i < SPIN_PAUSES; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old) {
            return;
        }
        cpu_pause();
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(word) == old) {
        syscall(SYS_futex, (unsigned *)word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void advance(struct gr_pool *pool, _Atomic unsigned *word)
{
    atomic_fetch_add(word, 1);
    /* A waiter adds itself to `sleepers` before its last look at the word, so either it sees the new value or we see it. */
    if (atomic_load(&pool->sleepers) > 0) {
        syscall(SYS_futex, (unsigned *)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

void gr_pool_barrier(struct gr_pool *pool)
{
    if (pool->threads == 1) {
        return;
    }
    unsigned seq = atomic_load(&pool->barrier_seq);
    if (atomic_fetch_add(&pool->arrived, 1) == pool->threads - 1) {
        atomic_store(&pool->arrived, 0);
        advance(pool, &pool->barrier_seq);
    } else {
        wait_for_change(pool, &pool->barrier_seq, seq);
    }
}

static void *worker(void *p)
{
    struct worker_arg arg = *(struct worker_arg *)p;
    free(p);
    for (unsigned seq = 0;; seq++) {
        wait_for_change(arg.pool, &arg.pool->job_seq, seq);
        if (arg.pool->quit) {
            return NULL;
        }
        arg.pool->fn(arg.id, arg.pool->threads, arg.pool->arg);
        gr_pool_barrier(arg.pool);
    }
}

static void stop(struct gr_pool *pool)
{
    pool->quit = true;
    advance(pool, &pool->job_seq);
    for (int i = 0; i < pool->started; i++) {
        pthread_join(pool->handles[i], NULL);
    }
}

enum gr_status gr_pool_new(int threads, struct gr_pool **out, struct gr_err *err)
{
    if (threads < 1 || threads > GR_POOL_THREADS_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "%d threads asked for, supported: 1..%d", threads, GR_POOL_THREADS_MAX);
    }
    struct gr_pool *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    if (pool == NULL || handles == NULL) {
        free(pool);
        free(handles);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a pool of %d threads", threads);
    }
    *pool = (struct gr_pool){.threads = threads, .handles = handles};
    for (int i = 1; i < threads; i++) {
        struct worker_arg *arg = malloc(sizeof *arg);
        int failed = arg == NULL;
        if (!failed) {
            *arg = (struct worker_arg){.pool = pool, .id = i};
            failed = gr_thread_start(&pool->handles[pool->started], worker, arg);
        }
        if (failed) {
            free(arg);
            stop(pool);
            free(handles);
            free(pool);
            return gr_fail(err, GR_ERR_NOMEM, "thread %d of %d could not be started; try --threads 1", i + 1, threads);
        }
        pool->started++;
    }
    *out = pool;
    return GR_OK;
}

void gr_pool_free(struct gr_pool *pool)
{
    if (pool != NULL) {
        stop(pool);
        free(pool->handles);
        free(pool);
    }
}

int gr_pool_threads(const struct gr_pool *pool) { return pool->threads; }

void gr_pool_run(struct gr_pool *pool, gr_pool_fn fn, void *arg)
{
    if (pool->threads == 1) {
        fn(0, 1, arg);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    advance(pool, &pool->job_seq);
    fn(0, pool->threads, arg);
    gr_pool_barrier(pool);
}

void gr_pool_share(int id, int n, int items, int *first, int *end)
{
    *first = (int)((long)items * id / n);
    *end = (int)((long)items * (id + 1) / n);
}
