/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_avx512.c: work on single rows: norms, packing into tiles, rotary embedding. Mean and variance take two passes over
 * the row (it is in L1): E[x^2] - mean^2 loses digits when the mean is large. */
#include <math.h>
#include <stdbool.h>

#include "kernels/avx512/avx512.h"
#include "kernels/avx512/math_avx512.h"

struct row_scale {
    __m512 mean,
        rest; /* the mean is mean + rest: the first pass rounds it to float, the second measures what that left */
    __m512 rstd;
};

static struct row_scale measure(const float *x, int n, const struct gr_row_norm *norm)
{
    __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    float mean = 0.0f, rest = 0.0f;
    if (norm->kind == GR_ROW_LAYER) {
        for (int i = 0; i < n; i += 16) {
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes(n - i), x + i));
        }
        mean = _mm512_reduce_add_ps(sum) / (float)n;
        sum = _mm512_setzero_ps();
    }
    __m512 vmean = _mm512_set1_ps(mean);
    for (int i = 0; i < n; i += 16) {
        __mmask16 mask = lanes(n - i);
        __m512 d = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + i), vmean);
        sum = _mm512_add_ps(sum, d);
        squares = _mm512_fmadd_ps(d, d, squares);
    }
    float variance = _mm512_reduce_add_ps(squares) / (float)n;
    if (norm->kind == GR_ROW_LAYER) {
        rest = _mm512_reduce_add_ps(sum) / (float)n;
        variance -= rest * rest;
        variance = variance < 0.0f ? 0.0f : variance; /* rounding only */
    }
    return (struct row_scale){vmean, _mm512_set1_ps(rest), _mm512_set1_ps(1.0f / sqrtf(variance + norm->eps))};
}

/* 16 elements from i on, normalised; lanes outside the mask are zero. */
GR_INLINE __m512 apply(const float *x, int i, __mmask16 mask, const struct gr_row_norm *norm, struct row_scale s)
{
    __m512 v = _mm512_sub_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), s.mean), s.rest);
    v = _mm512_maskz_mul_ps(mask, v, s.rstd);
    if (norm->gamma != NULL) {
        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, norm->gamma + i));
    }
    if (norm->kind == GR_ROW_LAYER && norm->beta != NULL) {
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, norm->beta + i));
    }
    return v;
}

void gr_norm_rows_avx512(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                         int r1)
{
    for (int r = r0; r < r1; r++) {
        const float *row = x + (size_t)r * ldx;
        float *dst = out + (size_t)r * ldo;
        struct row_scale s = measure(row, cols, norm);
        for (int i = 0; i < cols; i += 16) {
            __mmask16 mask = lanes(cols - i);
            _mm512_mask_storeu_ps(dst + i, mask, apply(row, i, mask, norm, s));
        }
    }
}

void gr_pack_f32_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    (void)scratch;
    const struct gr_row_norm *norm = src->norm;
    const int tiles = gr_tile_count(a->m);
    for (int t = 0; t < tiles; t++) {
        int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1), rows = end - first;
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            const float *row = src->x + (size_t)(src->index != NULL ? src->index[r] : r) * src->ldx;
            float *dst = (float *)a->data + (size_t)first * a->k_pad + (size_t)(r - first) * GR_CHUNK;
            struct row_scale s = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
            if (norm != NULL) {
                s = measure(row, a->k, norm);
            }
            for (int i = 0; i < a->k_pad; i += GR_CHUNK, dst += (size_t)rows * GR_CHUNK) {
                __mmask16 mask = lanes(a->k - i);
                _mm512_store_ps(dst,
                                norm != NULL ? apply(row, i, mask, norm, s) : _mm512_maskz_loadu_ps(mask, row + i));
            }
        }
    }
}

void gr_rms_rope_avx512(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                        const float *sin, int r0, int r1)
{
    const int half = dh / 2;
    const struct gr_row_norm norm = {.kind = GR_ROW_RMS, .eps = eps, .gamma = gamma};
    for (int r = r0; r < r1; r++) {
        const float *c = cos + (size_t)r * half, *s = sin + (size_t)r * half;
        for (int h = 0; h < heads; h++) {
            float *head = x + (size_t)r * ldx + (size_t)h * dh;
            struct row_scale scale = measure(head, dh, &norm);
            for (int i = 0; i < half; i += 16) {
                __mmask16 mask = lanes(half - i);
                __m512 lo = apply(head, i, mask, &norm, scale), hi = apply(head, half + i, mask, &norm, scale);
                __m512 vc = _mm512_maskz_loadu_ps(mask, c + i), vs = _mm512_maskz_loadu_ps(mask, s + i);
                _mm512_mask_storeu_ps(head + i, mask, _mm512_fmsub_ps(lo, vc, _mm512_mul_ps(hi, vs)));
                _mm512_mask_storeu_ps(head + half + i, mask, _mm512_fmadd_ps(hi, vc, _mm512_mul_ps(lo, vs)));
            }
        }
    }
}
