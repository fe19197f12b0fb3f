/* SPDX-License-Identifier: Apache-2.0
 *
 * attention16_scalar.c: softmax attention of one head on 16-bit integers, as stated at struct gr_attention. Keys and values are rounded
 * first, in their own order; then row after row: rounded query, integer scores, probabilities of 13 bits, weighted values. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

enum { MOST = 2047, P_MOST = 8191, SUM_KEYS = 128, LINE_FLOATS = 16 };
#define LEAST 1e-30f

/* Keys and values, rounded. */
struct packed {
    float *broken;       /* NaN when a key is not finite, else 0 */
    float *key_scale;    /* [s] */
    float *column_scale; /* [d] */
    int16_t *keys;       /* [s, d] */
    int16_t *values;     /* [s, d] */
};

static struct packed lay_out(const struct gr_attention *a, void *memory)
{
    struct packed p = {.broken = memory};
    p.key_scale = p.broken + LINE_FLOATS;
    p.column_scale = p.key_scale + a->s;
    p.keys = (int16_t *)(void *)(p.column_scale + a->d);
    p.values = p.keys + (size_t)a->s * (size_t)a->d;
    return p;
}

/* Largest |x| of n elements that stand `step` floats apart, at least LEAST; NaN when one is not finite. */
static float largest(const float *x, int n, size_t step)
{
    float most = LEAST;
    for (int i = 0; i < n; i++) {
        const float size = fabsf(x[(size_t)i * step]);
        if (!isfinite(size)) {
            return NAN;
        }
        most = size > most ? size : most;
    }
    return most;
}

static int16_t rounded(float x, float by) { return isnan(by) ? 0 : (int16_t)rintf(x * by); }

void gr_scalar_attention16_pack(const struct gr_attention *a, void *packed)
{
    const struct packed p = lay_out(a, packed);
    const size_t d = (size_t)a->d;
    *p.broken = 0.0f;
    for (int j = 0; j < a->s; j++) {
        const float *key = a->k + (size_t)j * (size_t)a->ldk, most = largest(key, a->d, 1);
        p.key_scale[j] = most * (1.0f / MOST);
        *p.broken += most - most;
        for (int c = 0; c < a->d; c++) {
            p.keys[(size_t)j * d + (size_t)c] = rounded(key[c], MOST / most);
        }
    }
    for (int c = 0; c < a->d; c++) {
        const float most = largest(a->v + c, a->s, (size_t)a->ldv);
        p.column_scale[c] = most * (1.0f / MOST);
        for (int j = 0; j < a->s; j++) {
            p.values[(size_t)j * d + (size_t)c] = rounded(a->v[(size_t)j * (size_t)a->ldv + (size_t)c], MOST / most);
        }
    }
}

/* Rounds the query to `query` and gives the scores, times 1 / *scale, of n keys to y. */
static void score(const struct gr_attention *a, const struct packed *p, const float *q, int n, int16_t *query, float *y,
                  float *scale)
{
    const float most = largest(q, a->d, 1), sign = a->scale < 0.0f ? -1.0f : 1.0f;
    *scale = most * (sign * a->scale / MOST);
    for (int c = 0; c < a->d; c++) {
        query[c] = rounded(q[c], sign * MOST / most);
    }
    for (int j = 0; j < n; j++) {
        const int16_t *key = p->keys + (size_t)j * (size_t)a->d;
        int32_t sum = 0;
        for (int c = 0; c < a->d; c++) {
            sum += query[c] * key[c];
        }
        y[j] = (float)sum * p->key_scale[j];
    }
}

/* y [n] to rounded probabilities; returns 1 / their sum, NaN when something is not finite. */
static float softmax(float *y, int n, float scale, int32_t *probability)
{
    float top = -INFINITY;
    int32_t total = 0;
    for (int j = 0; j < n; j++) {
        if (!isfinite(y[j]) || !isfinite(scale)) {
            memset(probability, 0, (size_t)n * sizeof *probability);
            return NAN;
        }
        top = y[j] > top ? y[j] : top;
    }
    for (int j = 0; j < n; j++) {
        probability[j] = (int32_t)rintf(P_MOST * expf((y[j] - top) * scale));
        total += probability[j];
    }
    return n > 0 ? 1.0f / (float)total : 0.0f;
}

/* Sum over n keys of column c: exact over SUM_KEYS keys, the rest in float. */
static float weigh(const struct gr_attention *a, const struct packed *p, const int32_t *probability, int n, int c)
{
    float total = 0.0f;
    for (int first = 0; first < n; first += SUM_KEYS) {
        int32_t sum = 0;
        for (int j = first; j < n && j < first + SUM_KEYS; j++) {
            sum += probability[j] * p->values[(size_t)j * (size_t)a->d + (size_t)c];
        }
        total += (float)sum;
    }
    return total;
}

void gr_scalar_attention16_run(const struct gr_attention *a, const void *packed, void *scratch)
{
    const struct packed p = lay_out(a, (void *)packed);
    float *y = scratch;
    int32_t *probability = (int32_t *)(void *)(y + a->s);
    int16_t *query = (int16_t *)(void *)(probability + a->s);
    for (int i = 0; i < a->m; i++) {
        float *o = a->o + (size_t)i * (size_t)a->ldo, scale;
        int n = a->causal && i + a->s - a->m + 1 < a->s ? i + a->s - a->m + 1 : a->s;
        n = n > 0 ? n : 0;
        score(a, &p, a->q + (size_t)i * (size_t)a->ldq, n, query, y, &scale);
        const float inverse = softmax(y, n, scale, probability) + *p.broken;
        for (int c = 0; c < a->d; c++) {
            o[c] = weigh(a, &p, probability, n, c) * inverse * p.column_scale[c];
        }
    }
}

void gr_scalar_attention16(const struct gr_attention *a, void *scratch)
{
    gr_scalar_attention16_pack(a, scratch);
    gr_scalar_attention16_run(a, scratch, (char *)scratch + gr_attention16_packed_bytes(a->s, a->d));
}
