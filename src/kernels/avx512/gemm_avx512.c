/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx512.c: fp32 products on packed panels. Tile = up to 13 rows x 32 columns: 26 accumulators, 2 weights, 1 broadcast
 * of the 32 registers; per k 2 weight loads and 13 broadcast loads feed 26 multiply-adds.
 *
 * Loop order: groups of panels > blocks of k > panel > row tiles. A block of k keeps its slice of the activations in L2
 * while all panels of the group use it; each panel's weights are read from memory once, and the first tile of a block
 * widens BF16 weights to fp32 on the way, storing them for the other tiles. Each block starts its own sums, which are then
 * added in order of k: that fixes the result and halves the rounding error of one long chain. */
#include <stdbool.h>

#include "kernels/avx512/avx512.h"
#include "kernels/avx512/finish_avx512.h"

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
                    acc[r][0] = add_product(acc[r][0], x, w0);
                    acc[r][1] = add_product(acc[r][1], x, w1);
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

static __attribute__((noinline)) void tile_f32(int rows, const struct tile *t)
{
    GR_ROWS_SWITCH(rows, tile_run, W_F32, t)
}

static __attribute__((noinline)) void tile_bf16(int rows, const struct tile *t)
{
    GR_ROWS_SWITCH(rows, tile_run, W_BF16_WIDEN, t)
}

static __attribute__((noinline)) void tile_finish(const struct gr_gemm *g, int panel, int row, int rows,
                                                  const float *sums)
{
    finish_tile(GR_MAT_F32, g, panel, row, rows, sums); /* BF16 has the same sums */
}

/* What follows a block in the stream of weights. */
struct stream {
    const char *at;
    int lines; /* of 64 bytes, to be fetched */
};

/* One block of k of one panel, all row tiles. The lines of `next` are asked for evenly over the tiles, because a burst of them fills
 * the few buffers for lines in flight and then every load waits. */
static void block_run(const struct gr_gemm *g, int panel, int k0, int k, struct stream next, float *wide, float *sums)
{
    const struct gr_mat *w = g->w;
    const struct gr_acts *a = g->a;
    const bool bf16 = w->format == GR_MAT_BF16, last = k0 + k == a->k_pad;
    const int tiles = gr_tile_count(a->m), steps = k / 4;
    const int per_step = (next.lines + tiles * steps - 1) / (tiles * steps);
    struct tile t = {.w = (const char *)w->data + ((size_t)panel * a->k_pad + k0) * gr_mat_k_bytes(w->format),
                     .wide = wide,
                     .k = k,
                     .first_block = k0 == 0};
    for (int i = 0; i < tiles; i++) {
        int row = gr_tile_first(a->m, i), rows = gr_tile_first(a->m, i + 1) - row;
        t.a = (const float *)a->data + (size_t)row * a->k_pad + (size_t)k0 * rows;
        t.sums = sums + (size_t)row * GR_PANEL;
        t.prefetch_lines = i * per_step * steps < next.lines ? per_step : 0;
        t.prefetch = next.at + (size_t)i * per_step * steps * 64;
        if (bf16 && i == 0) {
            tile_bf16(rows, &t);
            t.w = wide;
        } else {
            tile_f32(rows, &t);
        }
        if (last) {
            tile_finish(g, panel, row, rows, t.sums);
        }
    }
}

/* After block k0 of panel p, in the order of the loop nest below; after the last block: what the caller knows to follow. */
static struct stream stream_after(const struct gr_gemm *g, int p, int k0, int first, int end, int p1)
{
    const size_t k_bytes = gr_mat_k_bytes(g->w->format), block = K_BLOCK * k_bytes;
    const int k_pad = g->a->k_pad;
    if (p + 1 < end) {
        p++;
    } else if (k0 + K_BLOCK < k_pad) {
        p = first;
        k0 += K_BLOCK;
    } else if (end < p1) {
        p = end;
        k0 = 0;
    } else {
        size_t bytes = g->next == NULL ? 0 : g->next_bytes < block ? g->next_bytes : block;
        return (struct stream){g->next, (int)(bytes / 64)};
    }
    size_t left = (size_t)(k_pad - k0) * k_bytes;
    return (struct stream){(const char *)g->w->data + ((size_t)p * k_pad + k0) * k_bytes,
                           (int)((left < block ? left : block) / 64)};
}

void gr_gemm_avx512(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const int k_pad = g->a->k_pad, m = g->a->m;
    float *wide = scratch, *sums = wide + K_BLOCK * GR_PANEL;
    for (int first = p0; first < p1; first += PANEL_GROUP) {
        int end = first + PANEL_GROUP < p1 ? first + PANEL_GROUP : p1;
        for (int k0 = 0; k0 < k_pad; k0 += K_BLOCK) {
            int k = k_pad - k0 < K_BLOCK ? k_pad - k0 : K_BLOCK;
            for (int p = first; p < end; p++) {
                block_run(g, p, k0, k, stream_after(g, p, k0, first, end, p1), wide,
                          sums + (size_t)(p - first) * m * GR_PANEL);
            }
        }
    }
}
