/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h: one block of memory for everything that is computed from the weights. Parts are taken in a fixed order, so that where each one
 * lies follows from the dims and options alone: the same code measures the block, fills it, and finds the parts again in a
 * block that was read from disk. */
#ifndef GR_CPU_STORE_H
#define GR_CPU_STORE_H

#include <stddef.h>

#include "base/err.h"

struct gr_store {
    void *base;   /* NULL: measuring */
    size_t bytes; /* of the block; while measuring SIZE_MAX */
    size_t at;    /* taken so far */
};

/* Next part of a * b bytes, on a cache line. *out is NULL while measuring. GR_ERR_NOMEM when the size does not fit. */
enum gr_status gr_store_take(struct gr_store *s, size_t a, size_t b, const char *what, void **out, struct gr_err *err);
/* The same for a * b floats. */
enum gr_status gr_store_floats(struct gr_store *s, size_t a, size_t b, const char *what, float **out,
                               struct gr_err *err);

#endif
