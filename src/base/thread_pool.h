/* SPDX-License-Identifier: Apache-2.0
 *
 * thread_pool.h: SPMD pool. A job runs once on every thread; threads meet at barriers inside it.
 * Waiting spins for a bounded time, less on a busy machine and not at all with more threads than CPUs, then sleeps on a futex. */
#ifndef GR_BASE_THREAD_POOL_H
#define GR_BASE_THREAD_POOL_H

#include <stdbool.h>

#include "base/err.h"

struct gr_pool;

/* Job: `id` in [0, n). The caller of gr_pool_run is thread 0. */
typedef void (*gr_pool_fn)(int id, int n, void *arg);

enum { GR_POOL_THREADS_MAX = 1024, GR_POOL_ITEMS_MAX = 1 << 23 };

/* threads 1..GR_POOL_THREADS_MAX (GR_ERR_USAGE); 1 makes no thread at all. GR_ERR_NOMEM when one cannot be started. */
enum gr_status gr_pool_new(int threads, struct gr_pool **out, struct gr_err *err);
void gr_pool_free(struct gr_pool *pool); /* NULL is allowed */
int gr_pool_threads(const struct gr_pool *pool);

/* Runs fn on every thread and returns when all are done. Not reentrant; one caller at a time. */
void gr_pool_run(struct gr_pool *pool, gr_pool_fn fn, void *arg);
/* The part of `items` things that thread id of n takes: [*first, *end). Parts are in order and as even as possible. */
void gr_pool_share(int id, int n, int items, int *first, int *end);
/* Called by every thread of a running job. Everything written before is visible after. */
void gr_pool_barrier(struct gr_pool *pool);

/* Items that go to whoever is free, for work whose time does not depend on the items alone: another process may hold a CPU.
 *
 *     gr_pool_split(pool, items, grain);
 *     while (gr_pool_next(pool, &first, &end)) { work on items [first, end) }
 *     gr_pool_barrier(pool);
 *
 * A thread gets its own run (as gr_pool_share has it) front to back, each time half of what is left and at least `grain`; then blocks of
 * `grain` from the end of the run of whoever has most left. All items exactly once; who gets which differs from run to
 * run, so the work must not depend on it. Every thread of the job calls gr_pool_split with the same numbers, and goes on asking until
 * gr_pool_next says false; a barrier lies between two splits. items 0..GR_POOL_ITEMS_MAX, grain >= 1. */
void gr_pool_split(struct gr_pool *pool, int items, int grain);
bool gr_pool_next(struct gr_pool *pool, int *first, int *end);

#endif
