/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_scalar.c: softmax attention of one head, row after row: scores, maximum, exponentials, weighted
 * values. The division by the sum comes last, on the d outputs. A row that sees no key (causal with fewer keys
 * than rows) gives zeros. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

/* K^T, so that the loop over keys is contiguous: kt[c][j] = k[j][c], rows `ld` floats apart. */
static void transpose_keys(const struct gr_attention *a, float *kt, size_t ld)
{
    for (int j = 0; j < a->s; j++) {
        const float *key = a->k + (size_t)j * (size_t)a->ldk;
        for (int c = 0; c < a->d; c++) {
            kt[(size_t)c * ld + (size_t)j] = key[c];
        }
    }
}

void gr_scalar_attention(const struct gr_attention *a, void *scratch)
{
    const size_t ld = (size_t)(a->s + GR_PANEL - 1) / GR_PANEL * GR_PANEL;
    float *kt = scratch, *p = kt + ld * (size_t)a->d;
    transpose_keys(a, kt, ld);
    for (int i = 0; i < a->m; i++) {
        const float *q = a->q + (size_t)i * (size_t)a->ldq;
        float *o = a->o + (size_t)i * (size_t)a->ldo;
        int seen = a->causal && i + a->s - a->m + 1 < a->s ? i + a->s - a->m + 1 : a->s;
        memset(p, 0, ld * sizeof *p);
        for (int c = 0; c < a->d; c++) {
            const float x = a->scale * q[c], *key = kt + (size_t)c * ld;
            for (int j = 0; j < seen; j++) {
                p[j] += x * key[j];
            }
        }
        float max = -INFINITY, sum = 0.0f;
        for (int j = 0; j < seen; j++) {
            max = p[j] > max ? p[j] : max;
        }
        for (int j = 0; j < seen; j++) {
            p[j] = expf(p[j] - max);
            sum += p[j];
        }
        memset(o, 0, (size_t)a->d * sizeof *o);
        for (int j = 0; j < seen; j++) {
            const float *v = a->v + (size_t)j * (size_t)a->ldv;
            for (int c = 0; c < a->d; c++) {
                o[c] += p[j] * v[c];
            }
        }
        for (int c = 0; c < a->d && seen > 0; c++) {
            o[c] /= sum;
        }
    }
}
