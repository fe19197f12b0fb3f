/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx2.c: products of packed activations with packed weights. Order of the loops: group of panels, block of
 * k, panel, row tile. The block's slice of the activations stays in L2 while all panels of the group use it; each
 * weight is read from memory once, BF16 is widened once per block into scratch, and every row tile runs on that
 * block from L1. Order of the sums: k in order inside a block of K_BLOCK, the blocks' sums added in order, then
 * the bias. */
#include "kernels/avx2/avx2.h"

#include <math.h>

enum {
    K_BLOCK =
        128, /* 16 KiB of widened weights: with the activations they fit a 32 KiB L1; 256 ran as fast, 384 slower */
    PANEL_GROUP = 8 /* the sums of a group take m KiB */
};

/* [k][16] pairs to [k][32] floats: a BF16 is the upper half of a float. Fetches the block that comes `next` (same
 * size) into L2. */
static void widen(const uint32_t *pair, const uint32_t *next, int k, float *out)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    for (int i = 0; i < k; i++, pair += GR_PANEL / 2, next += GR_PANEL / 2, out += GR_PANEL) {
        const __m256i a = _mm256_load_si256((const __m256i *)(const void *)pair);
        const __m256i b = _mm256_load_si256((const __m256i *)(const void *)(pair + 8));
        _mm_prefetch((const char *)next, _MM_HINT_T1);
        _mm256_store_ps(out, _mm256_castsi256_ps(_mm256_slli_epi32(a, 16)));
        _mm256_store_ps(out + 8, _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
        _mm256_store_ps(out + 16, _mm256_castsi256_ps(_mm256_and_si256(a, high)));
        _mm256_store_ps(out + 24, _mm256_castsi256_ps(_mm256_and_si256(b, high)));
    }
}

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

GR_AVX2_INLINE void finish_rows(const enum gr_epilogue e, const struct gr_gemm *g, int p, const float *sums)
{
    const float *bias = (g->bias != NULL ? g->bias : g->w->bias) + (size_t)p * GR_PANEL;
    const int width = e == GR_EPI_SILU_MUL ? GR_PANEL / 2 : GR_PANEL;
    const int left = (e == GR_EPI_SILU_MUL ? g->w->n / 2 : g->w->n) - p * width;
    float *out = g->out + (size_t)p * (size_t)width;
    for (int r = 0; r < g->a->m; r++, sums += GR_PANEL, out += g->ldo) {
        for (int c = 0; c < width; c += 8) {
            __m256 y = _mm256_add_ps(_mm256_load_ps(sums + c), _mm256_loadu_ps(bias + c));
            if (e == GR_EPI_SILU_MUL) {
                const __m256 up = _mm256_add_ps(_mm256_load_ps(sums + width + c), _mm256_loadu_ps(bias + width + c));
                y = _mm256_mul_ps(times_sigmoid(y, y), up);
            }
            store_columns(e, out + c, left - c, activate(e, y));
        }
    }
}

/* One copy per epilogue, so that nothing is decided per element. */
static void finish_panel(const struct gr_gemm *g, int p, const float *sums)
{
    switch (g->epilogue) {
    case GR_EPI_ADD:
        finish_rows(GR_EPI_ADD, g, p, sums);
        break;
    case GR_EPI_GELU_TANH:
        finish_rows(GR_EPI_GELU_TANH, g, p, sums);
        break;
    case GR_EPI_GELU_ERF:
        finish_rows(GR_EPI_GELU_ERF, g, p, sums);
        break;
    case GR_EPI_SILU:
        finish_rows(GR_EPI_SILU, g, p, sums);
        break;
    case GR_EPI_RELU:
        finish_rows(GR_EPI_RELU, g, p, sums);
        break;
    case GR_EPI_SILU_MUL:
        finish_rows(GR_EPI_SILU_MUL, g, p, sums);
        break;
    case GR_EPI_STORE:
    default:
        finish_rows(GR_EPI_STORE, g, p, sums);
        break;
    }
}

/* All row tiles on k in [k0, k0 + k) of one panel. */
static void add_block(const struct gr_acts *a, const float *w, int k0, int k, float *sums)
{
    const int tiles = gr_tile_count(a->m);
    int first = 0;
    for (int t = 0; t < tiles; t++) {
        const int end = gr_tile_first(a->m, t + 1), rows = end - first;
        const struct gr_avx2_product product = {.rows = rows,
                                                .cols = GR_PANEL,
                                                .k = k,
                                                .a = (const float *)a->data + (size_t)first * (size_t)a->k_pad +
                                                     (size_t)k0 * (size_t)rows,
                                                .stride = (size_t)rows * GR_CHUNK,
                                                .w = w,
                                                .c = sums + (size_t)first * GR_PANEL,
                                                .ldc = GR_PANEL,
                                                .add = k0 > 0};
        gr_avx2_multiply(&product);
        first = end;
    }
}

/* Panels [p0, p1) on k in [k0, k0 + k). */
static void add_group(const struct gr_gemm *g, int p0, int p1, int k0, int k, float *wide, float *sums)
{
    const struct gr_acts *a = g->a;
    for (int p = p0; p < p1; p++) {
        const size_t at = (size_t)p * (size_t)a->k_pad + (size_t)k0;
        const float *w = wide;
        if (g->w->format == GR_MAT_BF16) {
            const uint32_t *pair = (const uint32_t *)g->w->data + at * (GR_PANEL / 2);
            widen(pair, pair + (size_t)a->k_pad * (GR_PANEL / 2), k, wide);
        } else {
            w = (const float *)g->w->data + at * GR_PANEL;
        }
        add_block(a, w, k0, k, sums + (size_t)(p - p0) * (size_t)a->m * GR_PANEL);
    }
}

void gr_avx2_gemm(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const struct gr_acts *a = g->a;
    float *wide = scratch, *sums = wide + (size_t)K_BLOCK * GR_PANEL; /* [k][32] widened weights; [panel][m][32] sums */
    for (int first = p0; first < p1; first += PANEL_GROUP) {
        const int end = p1 - first < PANEL_GROUP ? p1 : first + PANEL_GROUP;
        for (int k0 = 0; k0 < a->k_pad; k0 += K_BLOCK) {
            add_group(g, first, end, k0, a->k_pad - k0 < K_BLOCK ? a->k_pad - k0 : K_BLOCK, wide, sums);
        }
        for (int p = first; p < end; p++) {
            finish_panel(g, p, sums + (size_t)(p - first) * (size_t)a->m * GR_PANEL);
        }
    }
}
