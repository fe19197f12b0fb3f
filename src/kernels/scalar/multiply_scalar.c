/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply_scalar.c: c += a b on plain rows, k after k. */
#include "kernels/scalar/scalar.h"

void gr_scalar_multiply_add(const struct gr_multiply *p)
{
    for (int i = 0; i < p->m; i++) {
        const float *a = p->a + (size_t)i * (size_t)p->lda;
        float *c = p->c + (size_t)i * (size_t)p->ldc;
        for (int k = 0; k < p->k; k++) {
            const float *b = p->b + (size_t)k * (size_t)p->ldb, x = a[k];
            for (int j = 0; j < p->n; j++) {
                c[j] += x * b[j];
            }
        }
    }
}
