/* SPDX-License-Identifier: Apache-2.0
 *
 * thread_pool.h: SPMD pool. A job runs once on every thread; threads meet at barriers inside it.
 * Waiting spins for a bounded time, less on a busy machine and not at all with more threads than CPUs, then sleeps on a futex. */
#ifndef GR_BASE_THREAD_POOL_H
#define GR_BASE_THREAD_POOL_H

#include "base/err.h"

struct gr_pool;

/* Job: `id` in [0, n). The caller of gr_pool_run is thread 0. */
typedef void (*gr_pool_fn)(int id, int n, void *arg);

enum { GR_POOL_THREADS_MAX = 1024 };

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

#endif
