/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_avx512.h: LayerNorm and RMSNorm of one row; included by the files that normalise or pack rows. Mean and variance take two
 * passes over the row (it is in L1): E[x^2] - mean^2 loses digits when the mean is large. Each sum runs in four parts, because
 * one chain of additions would wait four cycles for every 16 elements. */
#ifndef GR_KERNELS_NORM_AVX512_H
#define GR_KERNELS_NORM_AVX512_H

#include <math.h>

#include "kernels/avx512/math_avx512.h"
#include "kernels/kernels.h"

enum { NORM_PARTS = 4, NORM_BLOCK = 16 * NORM_PARTS };

/* y = (x - mean) * rstd + shift. The mean is rounded to float; shift takes back what that left over. */
struct row_scale {
    __m512 mean, rstd, shift;
};

GR_INLINE __m512 sum_of(const __m512 part[NORM_PARTS])
{
    return _mm512_add_ps(_mm512_add_ps(part[0], part[1]), _mm512_add_ps(part[2], part[3]));
}

static inline float row_mean(const float *x, int n)
{
    __m512 sum[NORM_PARTS];
    GR_UNROLL
    for (int j = 0; j < NORM_PARTS; j++) {
        sum[j] = _mm512_setzero_ps();
    }
    int i = 0;
    for (; i + NORM_BLOCK <= n; i += NORM_BLOCK) {
        GR_UNROLL
        for (int j = 0; j < NORM_PARTS; j++) {
            sum[j] = _mm512_add_ps(sum[j], _mm512_loadu_ps(x + i + 16 * j));
        }
    }
    for (; i < n; i += 16) {
        sum[0] = _mm512_add_ps(sum[0], _mm512_maskz_loadu_ps(lanes(n - i), x + i));
    }
    return _mm512_reduce_add_ps(sum_of(sum)) / (float)n;
}

static inline struct row_scale measure(const float *x, int n, const struct gr_row_norm *norm)
{
    const float mean = norm->kind == GR_ROW_LAYER ? row_mean(x, n) : 0.0f;
    const __m512 vmean = _mm512_set1_ps(mean);
    __m512 sum[NORM_PARTS], squares[NORM_PARTS];
    GR_UNROLL
    for (int j = 0; j < NORM_PARTS; j++) {
        sum[j] = squares[j] = _mm512_setzero_ps();
    }
    int i = 0;
    for (; i + NORM_BLOCK <= n; i += NORM_BLOCK) {
        GR_UNROLL
        for (int j = 0; j < NORM_PARTS; j++) {
            __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * j), vmean);
            sum[j] = _mm512_add_ps(sum[j], d);
            squares[j] = _mm512_fmadd_ps(d, d, squares[j]);
        }
    }
    for (; i < n; i += 16) {
        __mmask16 mask = lanes(n - i);
        __m512 d = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + i), vmean);
        sum[0] = _mm512_add_ps(sum[0], d);
        squares[0] = _mm512_fmadd_ps(d, d, squares[0]);
    }
    float variance = _mm512_reduce_add_ps(sum_of(squares)) / (float)n, rest = 0.0f;
    if (norm->kind == GR_ROW_LAYER) {
        rest = _mm512_reduce_add_ps(sum_of(sum)) / (float)n;
        variance -= rest * rest;
        variance = variance < 0.0f ? 0.0f : variance; /* rounding only */
    }
    const float rstd = 1.0f / sqrtf(variance + norm->eps);
    return (struct row_scale){vmean, _mm512_set1_ps(rstd), _mm512_set1_ps(-rest * rstd)};
}

/* 16 elements from i on, normalised; lanes outside the mask are zero. */
GR_INLINE __m512 apply(const float *x, int i, __mmask16 mask, const struct gr_row_norm *norm, const struct row_scale *s)
{
    __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    if (norm->kind == GR_ROW_RMS) {
        v = _mm512_mul_ps(v, s->rstd);
        return norm->gamma != NULL ? _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, norm->gamma + i)) : v;
    }
    v = _mm512_maskz_fmadd_ps(mask, _mm512_sub_ps(v, s->mean), s->rstd, s->shift);
    if (norm->gamma != NULL && norm->beta != NULL) {
        return _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(mask, norm->gamma + i),
                               _mm512_maskz_loadu_ps(mask, norm->beta + i));
    }
    if (norm->gamma != NULL) {
        return _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, norm->gamma + i));
    }
    return norm->beta != NULL ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, norm->beta + i)) : v;
}

#endif
