/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.h: checked size arithmetic, and big blocks in huge pages for weights and activations. */
#ifndef GR_BASE_MEM_H
#define GR_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* a * b and a + b; false when the result does not fit. */
bool gr_size_mul(size_t a, size_t b, size_t *out);
bool gr_size_add(size_t a, size_t b, size_t *out);

/* Zeroed, 2 MiB aligned, huge pages advised; pages cost nothing until touched. Message names `what` and the size. */
enum gr_status gr_big_alloc(size_t bytes, const char *what, void **out, struct gr_err *err);
void gr_big_free(void *p, size_t bytes);
/* Gives back the memory of n bytes inside such a block, as far as they fill whole pages: those read as zeros until they are written again. */
void gr_big_drop(void *p, size_t n);

#endif
