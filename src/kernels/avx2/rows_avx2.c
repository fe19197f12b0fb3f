/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_avx2.c: work on single rows: norms, packing into activation tiles, RMSNorm with rotation of queries and
 * keys. The mean of a row is a first float mean plus the mean of what is left over it, so that rows of large,
 * nearly equal values keep their variance without sums in double. Each row's result depends on that row alone, in
 * a fixed order of the sums. */
#include "kernels/avx2/avx2.h"

#include <math.h>

struct moments {
    float centre; /* first estimate of the mean */
    float rest;   /* mean of x - centre */
    float rstd;
};

/* Loads x[i .. i + 8), zeros behind n. */
GR_AVX2_INLINE __m256 load_some(const float *x, int i, int n)
{
    return n - i >= 8 ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, gr_avx2_mask(n - i));
}

GR_AVX2_INLINE void store_some(float *x, int i, int n, __m256 v)
{
    if (n - i >= 8) {
        _mm256_storeu_ps(x + i, v);
    } else {
        _mm256_maskstore_ps(x + i, gr_avx2_mask(n - i), v);
    }
}

static float mean_of(const float *x, int n)
{
    __m256 even = _mm256_setzero_ps(), odd = even;
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        even = _mm256_add_ps(even, _mm256_loadu_ps(x + i));
        odd = _mm256_add_ps(odd, _mm256_loadu_ps(x + i + 8));
    }
    for (; i < n; i += 8) {
        even = _mm256_add_ps(even, load_some(x, i, n));
    }
    return gr_avx2_sum(_mm256_add_ps(even, odd)) / (float)n;
}

/* Sums of x - centre and of its square. */
GR_AVX2_INLINE void step_about(__m256 d, __m256 *sum, __m256 *square)
{
    *sum = _mm256_add_ps(*sum, d);
    *square = _mm256_fmadd_ps(d, d, *square);
}

static struct moments moments_of(const float *x, int n, const struct gr_row_norm *norm)
{
    struct moments m = {.centre = norm->kind == GR_ROW_LAYER ? mean_of(x, n) : 0.0f};
    const __m256 centre = _mm256_set1_ps(m.centre);
    __m256 sum[2], square[2];
    sum[0] = sum[1] = square[0] = square[1] = _mm256_setzero_ps();
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        step_about(_mm256_sub_ps(_mm256_loadu_ps(x + i), centre), &sum[0], &square[0]);
        step_about(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), centre), &sum[1], &square[1]);
    }
    for (; i < n; i += 8) {
        const __m256 keep = _mm256_castsi256_ps(gr_avx2_mask(n - i));
        step_about(_mm256_and_ps(keep, _mm256_sub_ps(load_some(x, i, n), centre)), &sum[0], &square[0]);
    }
    float variance = gr_avx2_sum(_mm256_add_ps(square[0], square[1])) / (float)n;
    if (norm->kind == GR_ROW_LAYER) {
        m.rest = gr_avx2_sum(_mm256_add_ps(sum[0], sum[1])) / (float)n;
        variance -= m.rest * m.rest;
        variance = variance < 0.0f ? 0.0f : variance; /* rounding only */
    }
    m.rstd = 1.0f / sqrtf(variance + norm->eps);
    return m;
}

/* Elements [i, i + 8) of the normed row, anything behind n. */
GR_AVX2_INLINE __m256 normed(const float *x, int i, int n, const struct moments *m, const struct gr_row_norm *norm)
{
    const __m256 d =
        _mm256_sub_ps(_mm256_sub_ps(load_some(x, i, n), _mm256_set1_ps(m->centre)), _mm256_set1_ps(m->rest));
    __m256 y = _mm256_mul_ps(d, _mm256_set1_ps(m->rstd));
    if (norm->gamma != NULL) {
        y = _mm256_mul_ps(y, load_some(norm->gamma, i, n));
    }
    if (norm->kind == GR_ROW_LAYER && norm->beta != NULL) {
        y = _mm256_add_ps(y, load_some(norm->beta, i, n));
    }
    return y;
}

void gr_avx2_norm_rows(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                       int r1)
{
    for (int r = r0; r < r1; r++) {
        const float *row = x + (size_t)r * (size_t)ldx;
        float *to = out + (size_t)r * (size_t)ldo;
        const struct moments m = moments_of(row, cols, norm);
        for (int i = 0; i < cols; i += 8) {
            store_some(to, i, cols, normed(row, i, cols, &m, norm));
        }
    }
}

/* Writes one row's chunks, `stride` floats apart, zeros behind n. */
static void pack_row(const float *row, int n, int n_pad, const struct gr_row_source *src, float *to, size_t stride)
{
    const struct gr_row_norm *norm = src->norm;
    const struct moments m = norm != NULL ? moments_of(row, n, norm) : (struct moments){0};
    for (int k = 0; k < n_pad; k += GR_CHUNK, to += stride) {
        for (int h = 0; h < GR_CHUNK; h += 8) {
            __m256 v = norm != NULL ? normed(row, k + h, n, &m, norm) : load_some(row, k + h, n);
            v = src->smooth != NULL ? _mm256_mul_ps(v, load_some(src->smooth, k + h, n)) : v;
            const __m256 keep = _mm256_castsi256_ps(gr_avx2_mask(n - k - h));
            _mm256_store_ps(to + h, _mm256_and_ps(keep, v));
        }
    }
}

void gr_avx2_pack_f32(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    (void)scratch; /* a normed row goes to its tile directly */
    for (int t = 0; t < gr_tile_count(a->m); t++) {
        const int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1);
        float *tile = (float *)a->data + (size_t)first * (size_t)a->k_pad;
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            const float *row = src->x + (size_t)(src->index != NULL ? src->index[r] : r) * (size_t)src->ldx;
            pack_row(row, a->k, a->k_pad, src, tile + (size_t)(r - first) * GR_CHUNK, (size_t)(end - first) * GR_CHUNK);
        }
    }
}

static void rotate(float *v, int half, const float *cos, const float *sin)
{
    for (int i = 0; i < half; i += 8) {
        const __m256 c = load_some(cos, i, half), s = load_some(sin, i, half);
        const __m256 lo = load_some(v, i, half), hi = load_some(v + half, i, half);
        store_some(v, i, half, _mm256_fmsub_ps(lo, c, _mm256_mul_ps(hi, s)));
        store_some(v + half, i, half, _mm256_fmadd_ps(hi, c, _mm256_mul_ps(lo, s)));
    }
}

void gr_avx2_rms_rope(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                      const float *sin, int r0, int r1)
{
    const struct gr_row_norm norm = {.kind = GR_ROW_RMS, .eps = eps, .gamma = gamma, .beta = NULL};
    const int half = dh / 2;
    for (int r = r0; r < r1; r++) {
        for (int h = 0; h < heads; h++) {
            float *v = x + (size_t)r * (size_t)ldx + (size_t)h * (size_t)dh;
            gr_avx2_norm_rows(v, 0, v, 0, dh, &norm, 0, 1);
            rotate(v, half, cos + (size_t)r * (size_t)half, sin + (size_t)r * (size_t)half);
        }
    }
}
