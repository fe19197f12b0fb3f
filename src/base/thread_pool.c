/* SPDX-License-Identifier: Apache-2.0
 *
 * thread_pool.c: persistent SPMD pool. Each thread counts its barriers in a word on a cache line of its own and looks at the words
 * of the others: one line travels each way, where a common counter needs four transfers. Up to RADIX threads look at all
 * others; more go round by round, thread i looking at i - RADIX^round, i - 2 RADIX^round, ... (a dissemination barrier).
 * A waiter spins for a time, because a predict has more than a thousand barriers and sleeping costs some 30 us, then sleeps
 * on a futex, because on a busy machine it may hold the CPU that the thread it waits for needs. */
#include "base/thread_pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/thread.h"

enum { CACHE_LINE = 64, RADIX = 8 };
/* Pauses before a waiter sleeps, 10 to 45 ns each by the CPU: at most 0.1 to 0.4 ms, on a busy machine as few as 3 to 11 us. */
enum { SPIN_MAX = 8000, SPIN_MIN = 250, PROBE = 64 };

struct seat {
    _Alignas(CACHE_LINE) _Atomic unsigned arrived; /* rounds of barriers entered, wraps */
    /* Known to the thread alone. */
    _Alignas(CACHE_LINE) int spin; /* pauses before it sleeps in a barrier */
    unsigned waits;
};

struct gr_pool {
    _Alignas(CACHE_LINE) _Atomic unsigned job_seq; /* jobs started, wraps */
    _Alignas(CACHE_LINE) _Atomic unsigned asleep; /* somebody may sleep: whoever changes what is waited for wakes all */
    _Atomic unsigned wakes;                       /* the futex word */
    _Alignas(CACHE_LINE) gr_pool_fn fn;           /* published by job_seq */
    void *arg;
    bool quit;
    int threads, started, rounds, spin_max;
    struct seat *seats;
    pthread_t *handles;
};

struct worker_arg {
    struct gr_pool *pool;
    int id;
};

/* The thread's number in the job that it runs. A thread is in one job at a time. */
static _Thread_local int self;

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Wakes whoever sleeps. A sleeper sets `asleep` before its last look at the word that it waits for, so either it sees what
 * the caller has just written there, or the caller sees `asleep`. */
static void wake(struct gr_pool *pool)
{
    if (atomic_load(&pool->asleep) != 0 && atomic_exchange(&pool->asleep, 0) != 0) {
        atomic_fetch_add(&pool->wakes, 1);
        syscall(SYS_futex, (unsigned *)&pool->wakes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

static bool reached(_Atomic unsigned *word, unsigned target) { return (int)(atomic_load(word) - target) >= 0; }

/* False: the spin ended first, and the thread slept. */
static bool wait_for(struct gr_pool *pool, _Atomic unsigned *word, unsigned target, int spin)
{
    for (int i = 0; i < spin; i++) {
        if (reached(word, target)) {
            return true;
        }
        cpu_pause();
    }
    for (;;) {
        unsigned wakes = atomic_load(&pool->wakes);
        atomic_store(&pool->asleep, 1);
        if (reached(word, target)) {
            return false;
        }
        syscall(SYS_futex, (unsigned *)&pool->wakes, FUTEX_WAIT_PRIVATE, wakes, NULL, NULL, 0);
    }
}

/* Each wait that ends in sleep halves the next spin: with a busy process on one of two CPUs a predict of the demo network took 6 times as
 * long with the full spin always, so it is 1.7 times. Each success doubles it, and now and then the full time is tried,
 * or a spin too short for the ordinary wait would stay so. */
static void wait_in_barrier(struct gr_pool *pool, _Atomic unsigned *word, unsigned target, struct seat *me)
{
    int spin = ++me->waits % PROBE == 0 ? pool->spin_max : me->spin;
    spin = wait_for(pool, word, target, spin) ? 2 * spin : me->spin / 2;
    spin = spin < SPIN_MIN ? SPIN_MIN : spin;
    me->spin = spin > pool->spin_max ? pool->spin_max : spin;
}

void gr_pool_barrier(struct gr_pool *pool)
{
    const int id = self, n = pool->threads;
    struct seat *me = &pool->seats[id];
    long step = 1;
    for (int round = 0; round < pool->rounds; round++, step *= RADIX) {
        const unsigned target = atomic_fetch_add(&me->arrived, 1) + 1;
        if (pool->rounds > 1) {
            wake(pool);
        }
        for (long j = 1; j < RADIX && j * step < n; j++) {
            long other = id - j * step;
            _Atomic unsigned *word = &pool->seats[other < 0 ? other + n : other].arrived;
            if (!reached(word, target)) {
                wait_in_barrier(pool, word, target, me);
            }
        }
    }
    wake(pool); /* with one round, the last to arrive comes here without waiting */
}

static void *worker(void *p)
{
    struct worker_arg arg = *(struct worker_arg *)p;
    free(p);
    self = arg.id;
    for (unsigned job = 1;; job++) {
        (void)wait_for(arg.pool, &arg.pool->job_seq, job, arg.pool->spin_max);
        if (arg.pool->quit) {
            return NULL;
        }
        arg.pool->fn(arg.id, arg.pool->threads, arg.pool->arg);
        gr_pool_barrier(arg.pool);
    }
}

static void start_job(struct gr_pool *pool)
{
    atomic_fetch_add(&pool->job_seq, 1);
    wake(pool);
}

static void release(struct gr_pool *pool)
{
    if (pool != NULL) {
        pool->quit = true;
        start_job(pool);
        for (int i = 0; i < pool->started; i++) {
            pthread_join(pool->handles[i], NULL);
        }
        free(pool->seats);
        free(pool->handles);
        free(pool);
    }
}

enum gr_status gr_pool_new(int threads, struct gr_pool **out, struct gr_err *err)
{
    if (threads < 1 || threads > GR_POOL_THREADS_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "%d threads asked for, supported: 1..%d", threads, GR_POOL_THREADS_MAX);
    }
    struct gr_pool *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    struct seat *seats = aligned_alloc(CACHE_LINE, (size_t)threads * sizeof *seats);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    if (pool == NULL || seats == NULL || handles == NULL) {
        free(pool);
        free(seats);
        free(handles);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a pool of %d threads", threads);
    }
    /* More threads than CPUs: whoever spins keeps another from working. */
    const int spin = threads > gr_cpu_count() ? 0 : SPIN_MAX;
    *pool = (struct gr_pool){.threads = threads, .handles = handles, .seats = seats, .spin_max = spin};
    for (long reach = 1; reach < threads; reach *= RADIX) {
        pool->rounds++;
    }
    for (int i = 0; i < threads; i++) {
        seats[i] = (struct seat){.spin = spin};
    }
    for (int i = 1; i < threads; i++) {
        struct worker_arg *arg = malloc(sizeof *arg);
        int failed = arg == NULL;
        if (!failed) {
            *arg = (struct worker_arg){.pool = pool, .id = i};
            failed = gr_thread_start(&pool->handles[pool->started], worker, arg);
        }
        if (failed) {
            free(arg);
            release(pool);
            return gr_fail(err, GR_ERR_NOMEM, "thread %d of %d could not be started; try --threads 1", i + 1, threads);
        }
        pool->started++;
    }
    *out = pool;
    return GR_OK;
}

void gr_pool_free(struct gr_pool *pool) { release(pool); }

int gr_pool_threads(const struct gr_pool *pool) { return pool->threads; }

void gr_pool_run(struct gr_pool *pool, gr_pool_fn fn, void *arg)
{
    const int outer = self;
    self = 0;
    if (pool->threads == 1) {
        fn(0, 1, arg);
    } else {
        pool->fn = fn;
        pool->arg = arg;
        start_job(pool);
        fn(0, pool->threads, arg);
        gr_pool_barrier(pool);
    }
    self = outer;
}

void gr_pool_share(int id, int n, int items, int *first, int *end)
{
    *first = (int)((long)items * id / n);
    *end = (int)((long)items * (id + 1) / n);
}
