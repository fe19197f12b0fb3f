/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx2.c: products of packed activations with packed weights in float arithmetic. Order of the loops: group of
 * panels, block of k, panel, row tile. The block's slice of the activations stays in L2 while all panels of the group
 * use it; each weight is read from memory once, 16-bit weights are widened once per block into scratch, and every row
 * tile runs on that block from L1. Order of the sums: k in order inside a block of K_BLOCK, the blocks' sums added in
 * order, then the bias. A panel of 64 columns (F16) runs as two units of 32. */
#include "kernels/avx2/avx2.h"

enum {
    K_BLOCK =
        128, /* 16 KiB of widened weights: with the activations they fit a 32 KiB L1; 256 ran as fast, 384 slower */
    UNIT_GROUP = 8 /* the sums of a group take m KiB */
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

/* [k][64] halves, of which 32 columns are used, to [k][32] floats. */
static void widen_f16(const uint16_t *half, int k, float *out)
{
    for (int i = 0; i < k; i++, half += GR_PANEL_MAX, out += GR_PANEL) {
        for (int c = 0; c < GR_PANEL; c += 8) {
            _mm256_store_ps(out + c, _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(half + c))));
        }
    }
}

/* [k / 2][32] pairs along k to [k][32] floats. */
static void widen_bf16p(const uint32_t *pair, int k, float *out)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    for (int i = 0; i < k; i += 2, pair += GR_PANEL, out += (size_t)2 * GR_PANEL) {
        for (int c = 0; c < GR_PANEL; c += 8) {
            const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(pair + c));
            _mm256_store_ps(out + c, _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)));
            _mm256_store_ps(out + GR_PANEL + c, _mm256_castsi256_ps(_mm256_and_si256(v, high)));
        }
    }
}

/* k in [k0, k0 + k) of one unit as [k][32] floats: in place or in `wide`. */
static const float *unit_block(const struct gr_mat *w, int k_pad, int unit, int k0, int k, float *wide)
{
    const size_t at = (size_t)unit * (size_t)k_pad + (size_t)k0;
    switch (w->format) {
    case GR_MAT_BF16: {
        const uint32_t *pair = (const uint32_t *)w->data + at * (GR_PANEL / 2);
        widen(pair, pair + (size_t)k_pad * (GR_PANEL / 2), k, wide);
        return wide;
    }
    case GR_MAT_F16: {
        const size_t panel = (size_t)(unit / 2) * (size_t)k_pad + (size_t)k0;
        widen_f16((const uint16_t *)w->data + panel * GR_PANEL_MAX + (size_t)(unit % 2) * GR_PANEL, k, wide);
        return wide;
    }
    case GR_MAT_BF16P:
        widen_bf16p((const uint32_t *)w->data + at * (GR_PANEL / 2), k, wide);
        return wide;
    default:
        return (const float *)w->data + at * GR_PANEL;
    }
}

/* One line of 16 halves, each twice, to 16 floats. */
GR_AVX2_INLINE void widen_f16_line(const char *line, float *out)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    const __m256i a = _mm256_and_si256(_mm256_load_si256((const __m256i *)(const void *)line), low);
    const __m256i b = _mm256_and_si256(_mm256_load_si256((const __m256i *)(const void *)(line + 32)), low);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    _mm256_store_ps(out, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
    _mm256_store_ps(out + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
}

/* 16 BF16 to 16 floats. */
GR_AVX2_INLINE void widen_bf16_line(const char *line, float *out)
{
    for (int h = 0; h < 2; h++) {
        const __m128i bits = _mm_load_si128((const __m128i *)(const void *)(line + 16 * h));
        _mm256_store_ps(out + 8 * h, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
    }
}

/* k in [k0, k0 + k) of a tile as [chunk of 16][rows][16] floats: in place or in `wide`. */
static const float *tile_block(const struct gr_acts *a, int first, int rows, int k0, int k, float *wide)
{
    const size_t line_bytes = GR_CHUNK_BYTES, next_chunk = (size_t)rows * GR_CHUNK;
    const char *tile = (const char *)a->data + (size_t)first * gr_acts_row_bytes(a->format, a->k) +
                       (size_t)(k0 / gr_row_chunk(a->format)) * (size_t)rows * line_bytes;
    float *to = wide;
    switch (a->format) {
    case GR_ROWS_F16:
        for (int i = 0; i < k / GR_CHUNK * rows; i++, tile += line_bytes, to += GR_CHUNK) {
            widen_f16_line(tile, to);
        }
        return wide;
    case GR_ROWS_BF16:
        for (int i = 0; i < k; i += 2 * GR_CHUNK, to += next_chunk) {
            for (int r = 0; r < rows; r++, tile += line_bytes, to += GR_CHUNK) {
                widen_bf16_line(tile, to);
                widen_bf16_line(tile + line_bytes / 2, to + next_chunk);
            }
        }
        return wide;
    default:
        return (const float *)(const void *)tile;
    }
}

/* All row tiles on k in [k0, k0 + k) of one unit. */
static void add_block(const struct gr_acts *a, const float *w, int k0, int k, float *wide, float *sums)
{
    const int tiles = gr_tile_count(a->m);
    int first = 0;
    for (int t = 0; t < tiles; t++) {
        const int end = gr_tile_first(a->m, t + 1), rows = end - first;
        const struct gr_avx2_product product = {.rows = rows,
                                                .cols = GR_PANEL,
                                                .k = k,
                                                .a = tile_block(a, first, rows, k0, k, wide),
                                                .stride = (size_t)rows * GR_CHUNK,
                                                .w = w,
                                                .c = sums + (size_t)first * GR_PANEL,
                                                .ldc = GR_PANEL,
                                                .add = k0 > 0};
        gr_avx2_multiply(&product);
        first = end;
    }
}

void gr_avx2_gemm(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const struct gr_acts *a = g->a;
    const int units = gr_mat_cols(g->w->format) / GR_PANEL, last = p1 * units; /* of a panel */
    /* [k][32] widened weights; [chunk][13][16] widened rows; [unit][m][32] sums */
    float *wide_w = scratch, *wide_a = wide_w + (size_t)K_BLOCK * GR_PANEL,
          *sums = wide_a + (size_t)K_BLOCK * GR_TILE_ROWS;
    for (int first = p0 * units; first < last; first += UNIT_GROUP) {
        const int end = last - first < UNIT_GROUP ? last : first + UNIT_GROUP;
        for (int k0 = 0; k0 < a->k_pad; k0 += K_BLOCK) {
            const int k = a->k_pad - k0 < K_BLOCK ? a->k_pad - k0 : K_BLOCK;
            for (int u = first; u < end; u++) {
                const float *w = unit_block(g->w, a->k_pad, u, k0, k, wide_w);
                add_block(a, w, k0, k, wide_a, sums + (size_t)(u - first) * (size_t)a->m * GR_PANEL);
            }
        }
        for (int u = first; u < end; u++) {
            gr_avx2_finish(g, u, sums + (size_t)(u - first) * (size_t)a->m * GR_PANEL);
        }
    }
}
