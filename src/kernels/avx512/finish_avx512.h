/* SPDX-License-Identifier: Apache-2.0
 *
 * finish_avx512.h: the epilogue of one tile: sums [rows][columns of a panel] to dequantised, biased, activated output, in the order
 * that kernels.h states. Included by the files of every AVX-512 set that have sums to finish, so that they cannot differ.
 *
 * A tile of a small product costs some 3,700 cycles, so that what stands here counts: format and kind are compile-time constants,
 * everything per column is loaded once per tile, and there is no branch per element. */
#ifndef GR_KERNELS_FINISH_AVX512_H
#define GR_KERNELS_FINISH_AVX512_H

#include <math.h>

#include "kernels/avx512/math_avx512.h"
#include "kernels/kernels.h"

enum { GR_FINISH_VECTORS = GR_PANEL_MAX / 16 };

/* What a tile needs per column. */
struct finish_columns {
    __m512 bias[GR_FINISH_VECTORS];
    __m512 scale[GR_FINISH_VECTORS];  /* formats with scales */
    __m512 offset[GR_FINISH_VECTORS]; /* I8 */
};

GR_INLINE int finish_scales(const enum gr_mat_format f) { return f == GR_MAT_I8 || f == GR_MAT_I16 || f == GR_MAT_F16; }

/* 1 / d for 1 <= d < 2^127, relative error 2^-27: half the time of a division. */
GR_INLINE __m512 finish_recip(__m512 d)
{
    __m512 r = _mm512_rcp14_ps(d);
    return _mm512_mul_ps(r, _mm512_fnmadd_ps(d, r, _mm512_set1_ps(2.0f)));
}

/* y / (1 + e^-u); the exact division is part of the fp32 formats' bits. */
GR_INLINE __m512 finish_sigmoid(const enum gr_mat_format f, __m512 y, __m512 minus_u)
{
    __m512 d = _mm512_add_ps(_mm512_set1_ps(1.0f), exp_ps(minus_u));
    return f == GR_MAT_F32 || f == GR_MAT_BF16 ? _mm512_div_ps(y, d) : _mm512_mul_ps(y, finish_recip(d));
}

/* tanh GELU through the identity 0.5 (1 + tanh u) = 1 / (1 + e^-2u), u = sqrt(2/pi) (y + 0.044715 y^3). */
GR_INLINE __m512 finish_gelu_tanh(const enum gr_mat_format f, __m512 y)
{
    __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(y, y), _mm512_set1_ps(-0.0713548163f), _mm512_set1_ps(-1.59576912f));
    return finish_sigmoid(f, y, _mm512_mul_ps(y, cubic));
}

/* Only the connector uses it (0.2 M elements a frame), so the C library's erff is good enough. */
GR_INLINE __m512 finish_gelu_erf(__m512 y)
{
    float v[16] __attribute__((aligned(64)));
    _mm512_store_ps(v, y);
    for (int i = 0; i < 16; i++) {
        v[i] = 0.5f * v[i] * (1.0f + erff(v[i] * 0.70710678f));
    }
    return _mm512_load_ps(v);
}

GR_INLINE __m512 finish_activate(const enum gr_mat_format f, const enum gr_epilogue e, __m512 y)
{
    switch (e) {
    case GR_EPI_GELU_TANH:
        return finish_gelu_tanh(f, y);
    case GR_EPI_GELU_ERF:
        return finish_gelu_erf(y);
    case GR_EPI_SILU:
    case GR_EPI_SILU_MUL: /* of the gate */
        return finish_sigmoid(f, y, _mm512_sub_ps(_mm512_setzero_ps(), y));
    case GR_EPI_RELU:
        return _mm512_max_ps(_mm512_setzero_ps(), y); /* NaN stays NaN */
    default:
        return y;
    }
}

/* y of 16 columns of one row. sums: int32 for I8, else float. */
GR_INLINE __m512 finish_dequantise(const enum gr_mat_format f, const struct finish_columns *c, int j, const void *sums,
                                   __m512 row_scale, __m512 row_zero)
{
    if (f == GR_MAT_I8) {
        __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)), c->scale[j]);
        return _mm512_fmadd_ps(t, row_scale, _mm512_fmadd_ps(row_zero, c->offset[j], c->bias[j]));
    }
    __m512 t = _mm512_load_ps(sums);
    return finish_scales(f) ? _mm512_fmadd_ps(_mm512_mul_ps(t, c->scale[j]), row_scale, c->bias[j])
                            : _mm512_add_ps(t, c->bias[j]);
}

GR_INLINE void finish_columns_load(const enum gr_mat_format f, const struct gr_gemm *g, int panel,
                                   struct finish_columns *c)
{
    const int vectors = gr_mat_cols(f) / 16;
    const size_t first = (size_t)panel * (size_t)gr_mat_cols(f);
    const float *bias = (g->bias != NULL ? g->bias : g->w->bias) + first;
    GR_UNROLL
    for (int j = 0; j < vectors; j++) {
        c->bias[j] = _mm512_loadu_ps(bias + 16 * j);
        if (finish_scales(f)) {
            c->scale[j] = _mm512_loadu_ps(g->w->scale + first + 16 * j);
        }
        if (f == GR_MAT_I8) {
            c->offset[j] = _mm512_loadu_ps(g->w->offset + first + 16 * j);
        }
    }
}

GR_INLINE void finish_kind(const enum gr_mat_format f, const enum gr_epilogue e, const struct gr_gemm *g, int panel,
                           int row, int rows, const void *sums)
{
    const int cols = gr_mat_cols(f), vectors = cols / 16, halves = e == GR_EPI_SILU_MUL ? 2 : 1;
    const int first = panel * cols / halves, n = g->w->n / halves; /* output columns */
    struct finish_columns c;
    __mmask16 mask[GR_FINISH_VECTORS];
    finish_columns_load(f, g, panel, &c);
    GR_UNROLL
    for (int j = 0; j < vectors / halves; j++) {
        mask[j] = lanes(n - first - 16 * j);
    }
    float *out = g->out + (size_t)row * (size_t)g->ldo + first;
    const char *s = sums; /* of the row */
    for (int r = 0; r < rows; r++, s += (size_t)cols * sizeof(float), out += g->ldo) {
        __m512 scale = finish_scales(f) ? _mm512_set1_ps(g->a->scale[row + r]) : _mm512_setzero_ps();
        __m512 zero = f == GR_MAT_I8 ? _mm512_set1_ps(g->a->zero[row + r]) : _mm512_setzero_ps();
        GR_UNROLL
        for (int j = 0; j < vectors; j += halves) {
            __m512 y = finish_dequantise(f, &c, j, s + 64 * j, scale, zero);
            float *to = out + 16 * (j / halves);
            if (e == GR_EPI_ADD) {
                y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask[j], to));
            } else {
                y = finish_activate(f, e, y);
            }
            if (e == GR_EPI_SILU_MUL) {
                y = _mm512_mul_ps(y, finish_dequantise(f, &c, j + 1, s + 64 * (j + 1), scale, zero));
            }
            _mm512_mask_storeu_ps(to, mask[j / halves], y);
        }
    }
}

/* Rows [row, row + rows) of a panel: `sums` [rows][gr_mat_cols(f)], 64-byte aligned, int32 for I8, else float, to g->out with bias,
 * activation or residual. f is a compile-time constant, equal to g->w->format. The caller wraps it in one noinline function. */
GR_INLINE void finish_tile(const enum gr_mat_format f, const struct gr_gemm *g, int panel, int row, int rows,
                           const void *sums)
{
#define GR_FINISH_CASE(e)                             \
    case e:                                           \
        finish_kind(f, e, g, panel, row, rows, sums); \
        break;
    switch (g->epilogue) {
        GR_FINISH_CASE(GR_EPI_STORE)
        GR_FINISH_CASE(GR_EPI_ADD)
        GR_FINISH_CASE(GR_EPI_GELU_TANH)
        GR_FINISH_CASE(GR_EPI_GELU_ERF)
        GR_FINISH_CASE(GR_EPI_SILU)
        GR_FINISH_CASE(GR_EPI_RELU)
        GR_FINISH_CASE(GR_EPI_SILU_MUL)
    }
#undef GR_FINISH_CASE
}

#endif
