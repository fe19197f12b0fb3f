/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h: bounded first-in first-out of pointers between threads. */
#ifndef GR_SERVER_QUEUE_H
#define GR_SERVER_QUEUE_H

#include <stdbool.h>

#include "base/err.h"

struct gr_queue;
/* capacity >= 1. GR_ERR_NOMEM. */
enum gr_status gr_queue_new(int capacity, struct gr_queue **out, struct gr_err *err);
void gr_queue_free(struct gr_queue *q); /* must be empty; NULL is allowed */
/* False when full or closed. Never blocks. */
bool gr_queue_push(struct gr_queue *q, void *item);
/* Waits for an item; NULL when closed and empty. */
void *gr_queue_pop(struct gr_queue *q);
/* What the next pop returns, or NULL when empty; stays in the queue, and stays the next one until somebody pops. Never blocks. */
void *gr_queue_peek(struct gr_queue *q);
/* Pushes fail from now on, poppers get what is left, then NULL. */
void gr_queue_close(struct gr_queue *q);
int gr_queue_depth(const struct gr_queue *q);

#endif
