/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c: a bump allocator with checked sizes over one block. Pad bytes are never written and stay zero, so that a block has one
 * content whoever filled it. */
#include "device/cpu/store.h"

#include "base/mem.h"

enum { LINE = 64 }; /* kernels ask for it */

enum gr_status gr_store_take(struct gr_store *s, size_t a, size_t b, const char *what, void **out, struct gr_err *err)
{
    size_t n, end;
    if (!gr_size_mul(a, b, &n) || !gr_size_add(n, LINE - 1, &n) || !gr_size_add(s->at, n / LINE * LINE, &end) ||
        end > s->bytes) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: %zu x %zu bytes do not fit in memory", what, a, b);
    }
    *out = s->base != NULL ? (char *)s->base + s->at : NULL;
    s->at = end;
    return GR_OK;
}

enum gr_status gr_store_floats(struct gr_store *s, size_t a, size_t b, const char *what, float **out,
                               struct gr_err *err)
{
    size_t bytes;
    void *p = NULL;
    if (!gr_size_mul(b, sizeof(float), &bytes)) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: %zu x %zu floats do not fit in memory", what, a, b);
    }
    GR_TRY(gr_store_take(s, a, bytes, what, &p, err));
    *out = p;
    return GR_OK;
}
