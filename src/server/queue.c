/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: a ring of pointers behind one mutex. The items are requests, a few hundred a second at most, so a lock that is held for
 * some instructions costs nothing that anybody could measure. */
#include "server/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct gr_queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty; /* or closed */
    bool closed;
    int capacity, depth, first;
    void *items[]; /* [capacity] */
};

enum { CAPACITY_MAX = 1 << 20 };

enum gr_status gr_queue_new(int capacity, struct gr_queue **out, struct gr_err *err)
{
    if (capacity < 1 || capacity > CAPACITY_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "queue of %d requests, expected 1..%d", capacity, CAPACITY_MAX);
    }
    struct gr_queue *q = calloc(1, sizeof *q + (size_t)capacity * sizeof q->items[0]);
    if (q == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a queue of %d requests", capacity);
    }
    q->capacity = capacity;
    if (pthread_mutex_init(&q->lock, NULL) != 0) {
        free(q);
        return gr_fail(err, GR_ERR_NOMEM, "the system refuses a mutex");
    }
    if (pthread_cond_init(&q->not_empty, NULL) != 0) {
        (void)pthread_mutex_destroy(&q->lock);
        free(q);
        return gr_fail(err, GR_ERR_NOMEM, "the system refuses a condition variable");
    }
    *out = q;
    return GR_OK;
}

void gr_queue_free(struct gr_queue *q)
{
    if (q == NULL) {
        return;
    }
    assert(q->depth == 0);
    (void)pthread_cond_destroy(&q->not_empty);
    (void)pthread_mutex_destroy(&q->lock);
    free(q);
}

bool gr_queue_push(struct gr_queue *q, void *item)
{
    assert(item != NULL); /* NULL is what poppers get at the end */
    (void)pthread_mutex_lock(&q->lock);
    const bool taken = !q->closed && q->depth < q->capacity;
    if (taken) {
        q->items[(q->first + q->depth) % q->capacity] = item;
        q->depth++;
        (void)pthread_cond_signal(&q->not_empty);
    }
    (void)pthread_mutex_unlock(&q->lock);
    return taken;
}

void *gr_queue_pop(struct gr_queue *q)
{
    void *item = NULL;
    (void)pthread_mutex_lock(&q->lock);
    while (q->depth == 0 && !q->closed) {
        (void)pthread_cond_wait(&q->not_empty, &q->lock);
    }
    if (q->depth > 0) {
        item = q->items[q->first];
        q->first = (q->first + 1) % q->capacity;
        q->depth--;
    }
    (void)pthread_mutex_unlock(&q->lock);
    return item;
}

void *gr_queue_peek(struct gr_queue *q)
{
    (void)pthread_mutex_lock(&q->lock);
    void *item = q->depth > 0 ? q->items[q->first] : NULL;
    (void)pthread_mutex_unlock(&q->lock);
    return item;
}

void gr_queue_close(struct gr_queue *q)
{
    (void)pthread_mutex_lock(&q->lock);
    q->closed = true;
    (void)pthread_cond_broadcast(&q->not_empty);
    (void)pthread_mutex_unlock(&q->lock);
}

int gr_queue_depth(const struct gr_queue *q)
{
    struct gr_queue *unlocked = (struct gr_queue *)q; /* the mutex is not part of what const promises */
    (void)pthread_mutex_lock(&unlocked->lock);
    const int depth = q->depth;
    (void)pthread_mutex_unlock(&unlocked->lock);
    return depth;
}
