/* SPDX-License-Identifier: Apache-2.0
 *
 * finish_avx2.c: from the sums of 32 columns to the output of a product: scales, bias, activation function, store. One formula serves all
 * formats, y = fma(sum * column, row, fma(zero, offset, bias)): with ones and zeros for what a format does not have it is sum + bias. */
#include "kernels/avx2/avx2.h"

#include <math.h>

/* y / (1 + e^-z): SILU with z = y, tanh GELU with z = 2 sqrt(2/pi) (y + 0.044715 y^3), since (1 + tanh u) / 2 = 1
 * / (1 + e^-2u). */
GR_AVX2_INLINE __m256 times_sigmoid(__m256 y, __m256 z)
{
    const __m256 e = gr_avx2_exp(_mm256_sub_ps(_mm256_setzero_ps(), z));
    return _mm256_div_ps(y, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

GR_AVX2_INLINE __m256 gelu_tanh(__m256 y)
{
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(y, y), y);
    const __m256 u = _mm256_fmadd_ps(_mm256_set1_ps(0.044715f), cube, y);
    return times_sigmoid(y, _mm256_mul_ps(_mm256_set1_ps(2.0f * 0.7978845608028654f), u));
}

/* Only the connector uses it, once per predict: the library's erf is quick enough. */
static __m256 gelu_erf(__m256 y)
{
    float v[8];
    _mm256_storeu_ps(v, y);
    for (int i = 0; i < 8; i++) {
        v[i] = 0.5f * v[i] * (1.0f + erff(v[i] * 0.70710678118654752f));
    }
    return _mm256_loadu_ps(v);
}

GR_AVX2_INLINE __m256 activate(const enum gr_epilogue e, __m256 y)
{
    switch (e) {
    case GR_EPI_GELU_TANH:
        return gelu_tanh(y);
    case GR_EPI_GELU_ERF:
        return gelu_erf(y);
    case GR_EPI_SILU:
        return times_sigmoid(y, y);
    case GR_EPI_RELU:
        return _mm256_max_ps(_mm256_setzero_ps(), y); /* in this order a NaN stays */
    default:
        return y;
    }
}

/* Eight columns of one row; `left` of them exist. */
GR_AVX2_INLINE void store_columns(const enum gr_epilogue e, float *out, int left, __m256 y)
{
    if (left >= 8) {
        _mm256_storeu_ps(out, e == GR_EPI_ADD ? _mm256_add_ps(_mm256_loadu_ps(out), y) : y);
    } else if (left > 0) {
        const __m256i mask = gr_avx2_mask(left);
        _mm256_maskstore_ps(out, mask, e == GR_EPI_ADD ? _mm256_add_ps(_mm256_maskload_ps(out, mask), y) : y);
    }
}

/* What the 32 columns of a unit are scaled and shifted with. */
struct columns {
    const float *scale, *offset, *bias;
    int ints; /* the sums are int32 */
};

GR_AVX2_INLINE __m256 linear(const struct columns *u, const float *sums, int c, __m256 row, __m256 zero)
{
    __m256 t = _mm256_load_ps(sums + c);
    t = u->ints ? _mm256_cvtepi32_ps(_mm256_castps_si256(t)) : t;
    const __m256 shift = _mm256_fmadd_ps(zero, _mm256_loadu_ps(u->offset + c), _mm256_loadu_ps(u->bias + c));
    return _mm256_fmadd_ps(_mm256_mul_ps(t, _mm256_loadu_ps(u->scale + c)), row, shift);
}

GR_AVX2_INLINE void finish_rows(const enum gr_epilogue e, const struct gr_gemm *g, int unit, const float *sums)
{
    static const float zeros[GR_PANEL];
    static const float ones[GR_PANEL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct gr_mat *w = g->w;
    const size_t first = (size_t)unit * GR_PANEL;
    const struct columns u = {.scale = w->scale != NULL ? w->scale + first : ones,
                              .offset = w->offset != NULL ? w->offset + first : zeros,
                              .bias = (g->bias != NULL ? g->bias : w->bias) + first,
                              .ints = w->format == GR_MAT_I8};
    const int width = e == GR_EPI_SILU_MUL ? GR_PANEL / 2 : GR_PANEL;
    const int left = (e == GR_EPI_SILU_MUL ? w->n / 2 : w->n) - unit * width;
    float *out = g->out + (size_t)unit * (size_t)width;
    for (int r = 0; r < g->a->m && left > 0; r++, sums += GR_PANEL, out += g->ldo) {
        const __m256 row = _mm256_set1_ps(w->scale != NULL ? g->a->scale[r] : 1.0f);
        const __m256 zero = _mm256_set1_ps(w->offset != NULL ? g->a->zero[r] : 0.0f);
        for (int c = 0; c < width; c += 8) {
            __m256 y = linear(&u, sums, c, row, zero);
            if (e == GR_EPI_SILU_MUL) {
                const __m256 up = linear(&u, sums, width + c, row, zero);
                y = _mm256_mul_ps(times_sigmoid(y, y), up);
            }
            store_columns(e, out + c, left - c, activate(e, y));
        }
    }
}

/* One copy per epilogue, so that nothing is decided per element. */
void gr_avx2_finish(const struct gr_gemm *g, int unit, const void *sums)
{
    switch (g->epilogue) {
    case GR_EPI_ADD:
        finish_rows(GR_EPI_ADD, g, unit, sums);
        break;
    case GR_EPI_GELU_TANH:
        finish_rows(GR_EPI_GELU_TANH, g, unit, sums);
        break;
    case GR_EPI_GELU_ERF:
        finish_rows(GR_EPI_GELU_ERF, g, unit, sums);
        break;
    case GR_EPI_SILU:
        finish_rows(GR_EPI_SILU, g, unit, sums);
        break;
    case GR_EPI_RELU:
        finish_rows(GR_EPI_RELU, g, unit, sums);
        break;
    case GR_EPI_SILU_MUL:
        finish_rows(GR_EPI_SILU_MUL, g, unit, sums);
        break;
    case GR_EPI_STORE:
    default:
        finish_rows(GR_EPI_STORE, g, unit, sums);
        break;
    }
}
