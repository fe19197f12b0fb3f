/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx512.c: fp32 products on packed panels. Tile = up to 13 rows x 32 columns: 26 accumulators, 2 weights, 1 broadcast
 * of the 32 registers; per k 2 weight loads and 13 broadcast loads feed 26 multiply-adds.
 *
 * Loop order: groups of panels > blocks of k > panel > row tiles. A block of k keeps its slice of the activations in L2
 * while all panels of the group use it; each panel's weights are read from memory once, and the first tile of a block
 * widens BF16 weights to fp32 on the way, storing them for the other tiles. Each block starts its own sums, which are then
 * added in order of k: that fixes the result and halves the rounding error of one long chain. */
#include <math.h>
#include <stdbool.h>

#include "kernels/avx512/avx512.h"
#include "kernels/avx512/math_avx512.h"

enum {
    K_BLOCK = 128, /* 16 KiB of fp32 weights beside 6.5 KiB of activations: both stay in L1 */
    PANEL_GROUP = 4
};

struct tile {
    const float *a; /* [k / 16][rows][16] */
    const void *w;  /* this block of the panel, as stored */
    float *wide;    /* [k][32], filled by the first tile when the weights are BF16 */
    int k;          /* multiple of 16 */
    float *sums;    /* [rows][32] */
    bool first_block;
    const char *prefetch; /* this tile's part of the stream's next block */
    int prefetch_lines;   /* 64-byte lines of it for every 4 k */
};

enum weight_source { W_F32, W_BF16_WIDEN };

GR_INLINE void tile_run(const int rows, const enum weight_source source, const struct tile *t)
{
    __m512 acc[GR_TILE_ROWS][2];
    const float *a = t->a;
    const char *w = t->w;
    const char *prefetch = t->prefetch;
    float *wide = t->wide;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    }
    for (int k = t->k; k > 0; k -= GR_CHUNK) {
        for (int quarter = 0; quarter < 4; quarter++) {
            for (int i = 0; i < t->prefetch_lines; i++) {
                _mm_prefetch(prefetch + 64 * i, _MM_HINT_T1);
            }
            prefetch += 64 * t->prefetch_lines;
            GR_UNROLL
            for (int i = 0; i < 4; i++) {
                __m512 w0, w1;
                if (source == W_F32) {
                    w0 = _mm512_load_ps((const float *)w + 32 * i);
                    w1 = _mm512_load_ps((const float *)w + 32 * i + 16);
                } else {
                    __m512i pair = _mm512_load_si512(w + 64 * i);
                    w0 = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
                    w1 = _mm512_castsi512_ps(_mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000)));
                    _mm512_store_ps(wide + 32 * i, w0);
                    _mm512_store_ps(wide + 32 * i + 16, w1);
                }
                GR_UNROLL
                for (int r = 0; r < rows; r++) {
                    __m512 x = _mm512_set1_ps(a[r * GR_CHUNK + i]);
                    acc[r][0] = _mm512_fmadd_ps(x, w0, acc[r][0]);
                    acc[r][1] = _mm512_fmadd_ps(x, w1, acc[r][1]);
                }
            }
            a += 4;
            w += source == W_F32 ? 512 : 256;
            wide += 128;
        }
        a += (rows - 1) * GR_CHUNK;
    }
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        float *s = t->sums + r * GR_PANEL;
        if (!t->first_block) {
            acc[r][0] = _mm512_add_ps(_mm512_load_ps(s), acc[r][0]);
            acc[r][1] = _mm512_add_ps(_mm512_load_ps(s + 16), acc[r][1]);
        }
        _mm512_store_ps(s, acc[r][0]);
        _mm512_store_ps(s + 16, acc[r][1]);
    }
}

#define ROWS_CASE(n)            \
    case n:                     \
        tile_run(n, source, t); \
        break;
#define ROWS_SWITCH(rows) \
    switch (rows) {       \
        ROWS_CASE(1)      \
        ROWS_CASE(2)      \
        ROWS_CASE(3)      \
        ROWS_CASE(4)      \
        ROWS_CASE(5)      \
        ROWS_CASE(6)      \
        ROWS_CASE(7)      \
        ROWS_CASE(8)      \
        ROWS_CASE(9)      \
        ROWS_CASE(10)     \
        ROWS_CASE(11)     \
        ROWS_CASE(12)     \
        ROWS_CASE(13)     \
    }

static __attribute__((noinline)) void tile_f32(int rows, const struct tile *t)
{
    const enum weight_source source = W_F32;
    ROWS_SWITCH(rows)
}

static __attribute__((noinline)) void tile_bf16(int rows, const struct tile *t)
{
    const enum weight_source source = W_BF16_WIDEN;
    ROWS_SWITCH(rows)
}

GR_INLINE __m512 activate(enum gr_epilogue e, __m512 y)
{
    switch (e) {
    case GR_EPI_GELU_TANH:
        return gelu_tanh_ps(y);
    case GR_EPI_SILU:
        return silu_ps(y);
    case GR_EPI_RELU:
        return _mm512_max_ps(_mm512_setzero_ps(), y); /* NaN stays NaN */
    case GR_EPI_GELU_ERF: {
        /* Only the connector uses it (0.2 M elements a frame), so the C library's erff is good enough. */
        float v[16] __attribute__((aligned(64)));
        _mm512_store_ps(v, y);
        for (int i = 0; i < 16; i++) {
            v[i] = 0.5f * v[i] * (1.0f + erff(v[i] * 0.70710678f));
        }
        return _mm512_load_ps(v);
    }
    default:
        return y;
    }
}

/* Sums of one tile to the output: bias, activation, residual. */
static void finish_tile(const struct gr_gemm *g, int panel, int row, int rows, const float *sums)
{
    const float *bias = (g->bias != NULL ? g->bias : g->w->bias) + (size_t)panel * GR_PANEL;
    __m512 b0 = _mm512_loadu_ps(bias), b1 = _mm512_loadu_ps(bias + 16);
    if (g->epilogue == GR_EPI_SILU_MUL) {
        __mmask16 mask = lanes(g->w->n / 2 - panel * 16);
        for (int r = 0; r < rows; r++) {
            __m512 gate = _mm512_add_ps(_mm512_load_ps(sums + r * GR_PANEL), b0);
            __m512 up = _mm512_add_ps(_mm512_load_ps(sums + r * GR_PANEL + 16), b1);
            _mm512_mask_storeu_ps(g->out + (size_t)(row + r) * g->ldo + panel * 16, mask,
                                  _mm512_mul_ps(silu_ps(gate), up));
        }
        return;
    }
    int left = g->w->n - panel * GR_PANEL;
    __mmask16 m0 = lanes(left), m1 = lanes(left - 16);
    for (int r = 0; r < rows; r++) {
        float *out = g->out + (size_t)(row + r) * g->ldo + panel * GR_PANEL;
        __m512 y0 = _mm512_add_ps(_mm512_load_ps(sums + r * GR_PANEL), b0);
        __m512 y1 = _mm512_add_ps(_mm512_load_ps(sums + r * GR_PANEL + 16), b1);
        if (g->epilogue == GR_EPI_ADD) {
            y0 = _mm512_add_ps(y0, _mm512_maskz_loadu_ps(m0, out));
            y1 = _mm512_add_ps(y1, _mm512_maskz_loadu_ps(m1, out + 16));
        } else {
            y0 = activate(g->epilogue, y0);
            y1 = activate(g->epilogue, y1);
        }
        _mm512_mask_storeu_ps(out, m0, y0);
        _mm512_mask_storeu_ps(out + 16, m1, y1);
    }
}

/* One block of k of one panel, all row tiles. `next` is the stream's next block: its lines are asked for evenly over the tiles,
 * because a burst of them fills the few buffers for lines in flight and then every load waits. */
static void block_run(const struct gr_gemm *g, int panel, int k0, int k, const char *next, float *wide, float *sums)
{
    const struct gr_mat *w = g->w;
    const struct gr_acts *a = g->a;
    const bool bf16 = w->format == GR_MAT_BF16, last = k0 + k == a->k_pad;
    const size_t row_bytes = bf16 ? 64 : 128;
    const int tiles = gr_tile_count(a->m), lines = (int)(k * row_bytes / 64), steps = k / 4;
    const int per_step = (lines + tiles * steps - 1) / (tiles * steps);
    struct tile t = {.w = (const char *)w->data + ((size_t)panel * a->k_pad + k0) * row_bytes,
                     .wide = wide,
                     .k = k,
                     .first_block = k0 == 0};
    for (int i = 0; i < tiles; i++) {
        int row = gr_tile_first(a->m, i), rows = gr_tile_first(a->m, i + 1) - row;
        t.a = (const float *)a->data + (size_t)row * a->k_pad + (size_t)k0 * rows;
        t.sums = sums + (size_t)row * GR_PANEL;
        t.prefetch_lines = i * per_step * steps < lines ? per_step : 0;
        t.prefetch = next + (size_t)i * per_step * steps * 64;
        if (bf16 && i == 0) {
            tile_bf16(rows, &t);
            t.w = wide;
        } else {
            tile_f32(rows, &t);
        }
        if (last) {
            finish_tile(g, panel, row, rows, t.sums);
        }
    }
}

void gr_gemm_avx512(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const int k_pad = g->a->k_pad, m = g->a->m;
    const size_t row_bytes = g->w->format == GR_MAT_BF16 ? 64 : 128;
    const char *data = g->w->data;
    float *wide = scratch, *sums = wide + K_BLOCK * GR_PANEL;
    for (int first = p0; first < p1; first += PANEL_GROUP) {
        int end = first + PANEL_GROUP < p1 ? first + PANEL_GROUP : p1;
        for (int k0 = 0; k0 < k_pad; k0 += K_BLOCK) {
            int k = k_pad - k0 < K_BLOCK ? k_pad - k0 : K_BLOCK;
            for (int p = first; p < end; p++) {
                /* Next in the order of this loop nest; past the end it falls on the following panel, whoever computes it. */
                int np = p + 1 < end ? p + 1 : k0 + K_BLOCK < k_pad ? first : end, nk = p + 1 < end ? k0 : k0 + K_BLOCK;
                if (np == end) {
                    nk = 0;
                }
                const char *next = data + ((size_t)np * k_pad + nk) * row_bytes;
                block_run(g, p, k0, k, next, wide, sums + (size_t)(p - first) * m * GR_PANEL);
            }
        }
    }
}
