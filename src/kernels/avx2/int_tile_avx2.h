/* SPDX-License-Identifier: Apache-2.0
 *
 * int_tile_avx2.h: the inner loop of integer products on 256-bit registers: 6 rows x 16 or 3 rows x 32 columns of int32 sums, one dword
 * of a row against a dword of each column a step. Before it is included, the file defines what a step does:
 *   GR_AVX2_INLINE __m256i int_step(const int kind, __m256i sum, __m256i x, __m256i w)
 *   GR_AVX2_INLINE __m256i int_step_memory(const int kind, __m256i sum, __m256i x, const char *w)   w takes no register */
#ifndef GR_KERNELS_AVX2_INT_TILE_AVX2_H
#define GR_KERNELS_AVX2_INT_TILE_AVX2_H

#include "kernels/avx2/avx2.h"

enum { INT_PART_ROWS = 6, INT_STEPS = 16 /* dwords of a chunk */ };

GR_AVX2_INLINE void int_store(int32_t *to, __m256i sum, enum gr_avx2_store how)
{
    __m256i *line = (__m256i *)(void *)to;
    if (how == GR_AVX2_ADD_FLOATS) {
        float *floats = (float *)(void *)to;
        _mm256_store_ps(floats, _mm256_add_ps(_mm256_load_ps(floats), _mm256_cvtepi32_ps(sum)));
    } else if (how == GR_AVX2_FIRST_FLOATS) {
        _mm256_store_ps((float *)(void *)to, _mm256_cvtepi32_ps(sum));
    } else {
        _mm256_store_si256(line, how == GR_AVX2_ADD_INTS ? _mm256_add_epi32(_mm256_load_si256(line), sum) : sum);
    }
}

GR_AVX2_INLINE __m256i int_weights(const char *w, int vector)
{
    return _mm256_load_si256((const __m256i *)(const void *)(w + (size_t)32 * (size_t)vector));
}

GR_AVX2_INLINE __m256i int_broadcast(const char *a)
{
    return _mm256_castps_si256(_mm256_broadcast_ss((const float *)(const void *)a));
}

/* One step for R rows and NV vectors of columns: whichever are fewer stay in registers, the others come one at a time. */
GR_AVX2_INLINE void int_row_step(const int kind, const int R, const int NV, const char *a, const char *w,
                                 __m256i sum[INT_PART_ROWS][4])
{
    __m256i few[4];
    if (NV < R) {
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            few[v] = int_weights(w, v);
        }
        GR_AVX2_UNROLL
        for (int r = 0; r < R; r++) {
            const __m256i x = int_broadcast(a + (size_t)r * GR_CHUNK_BYTES);
            GR_AVX2_UNROLL
            for (int v = 0; v < NV; v++) {
                sum[r][v] = int_step(kind, sum[r][v], x, few[v]);
            }
        }
    } else {
        GR_AVX2_UNROLL
        for (int r = 0; r < R; r++) {
            few[r] = int_broadcast(a + (size_t)r * GR_CHUNK_BYTES);
        }
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            GR_AVX2_UNROLL
            for (int r = 0; r < R; r++) {
                sum[r][v] = int_step_memory(kind, sum[r][v], few[r], w + (size_t)32 * (size_t)v);
            }
        }
    }
}

/* R rows from `row` on, 8 NV columns from `column` on. */
GR_AVX2_INLINE void int_part(const int kind, const int R, const int NV, const struct gr_avx2_int_block *b, int row,
                             int column)
{
    const char *a = b->a + (size_t)row * GR_CHUNK_BYTES, *w = b->w + (size_t)column * 4;
    const size_t skip = (size_t)b->rows * GR_CHUNK_BYTES - GR_CHUNK_BYTES;
    __m256i sum[INT_PART_ROWS][4];
    GR_AVX2_UNROLL
    for (int r = 0; r < R; r++) {
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            sum[r][v] = _mm256_setzero_si256();
        }
    }
    for (int c = 0; c < b->chunks; c++, a += skip) {
        for (int i = 0; i < INT_STEPS / 4; i++, a += 16, w += (size_t)16 * GR_PANEL) {
            GR_AVX2_UNROLL
            for (int j = 0; j < 4; j++) {
                int_row_step(kind, R, NV, a + 4 * j, w + (size_t)j * 4 * GR_PANEL, sum);
            }
        }
    }
    int32_t *out = b->out + (size_t)row * GR_PANEL + column;
    GR_AVX2_UNROLL
    for (int r = 0; r < R; r++) {
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            int_store(out + (size_t)r * GR_PANEL + 8 * v, sum[r][v], b->how);
        }
    }
}

/* A tile is cut as in tile_avx2.c: few sums do not hide the latency of a step. */
GR_AVX2_INLINE void int_tile(const int kind, const struct gr_avx2_int_block *b)
{
    static const signed char cut[GR_TILE_ROWS + 1][3] = {
        {0}, {1}, {2}, {3}, {4}, {5}, {6}, {4, 3}, {5, 3}, {6, 3}, {5, 5}, {6, 5}, {6, 6}, {5, 5, 3},
    };
    for (int i = 0, row = 0; i < 3 && cut[b->rows][i] > 0; row += cut[b->rows][i++]) {
        switch (cut[b->rows][i]) {
        case 1:
            int_part(kind, 1, 4, b, row, 0);
            break;
        case 2:
            int_part(kind, 2, 4, b, row, 0);
            break;
        case 3:
            int_part(kind, 3, 4, b, row, 0);
            break;
        case 4:
            int_part(kind, 4, 2, b, row, 0);
            int_part(kind, 4, 2, b, row, 16);
            break;
        case 5:
            int_part(kind, 5, 2, b, row, 0);
            int_part(kind, 5, 2, b, row, 16);
            break;
        default:
            int_part(kind, 6, 2, b, row, 0);
            int_part(kind, 6, 2, b, row, 16);
            break;
        }
    }
}

/* Steps with all operands in registers, for gr_avx2_int_rate. */
GR_AVX2_INLINE __m256i int_chains(const int kind, int steps, __m256i x, __m256i w)
{
    __m256i sum[GR_AVX2_INT_CHAINS];
    GR_AVX2_UNROLL
    for (int i = 0; i < GR_AVX2_INT_CHAINS; i++) {
        sum[i] = _mm256_set1_epi32(i);
    }
    for (int step = 0; step < steps; step++) {
        GR_AVX2_UNROLL
        for (int i = 0; i < GR_AVX2_INT_CHAINS; i++) {
            __asm__ volatile("" : "+x"(x)); /* or the compiler multiplies once for all steps */
            sum[i] = int_step(kind, sum[i], x, w);
        }
    }
    GR_AVX2_UNROLL
    for (int i = 1; i < GR_AVX2_INT_CHAINS; i++) {
        sum[0] = _mm256_add_epi32(sum[0], sum[i]);
    }
    return sum[0];
}

#endif
