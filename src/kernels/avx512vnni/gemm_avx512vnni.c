/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx512vnni.c: int8 (vpdpbusd) and int16 (vpdpwssd) products on packed panels; the loops are those of block_avx512.h.
 * Int8 sums stay integers over all of k: 255 * 127 * k fits 32 bits up to k = 66,000, and vpdpbusd does not saturate.
 * Int16 sums go to float every 4 chunks: 128 products of 14 and 12 bits just fit. */
#include <immintrin.h>
#include <stdint.h>

typedef int32_t gr_sum __attribute__((vector_size(64)));

#include "kernels/avx512/block_avx512.h"
#include "kernels/avx512/finish_avx512.h"
#include "kernels/avx512vnni/avx512vnni.h"

enum { I16_SEGMENT = 4 /* chunks */ };

GR_INLINE gr_sum multiply_i8(gr_sum sum, __m512i x, __m512i w)
{
    return (gr_sum)_mm512_dpbusd_epi32((__m512i)sum, x, w);
}

GR_INLINE gr_sum multiply_i16(gr_sum sum, __m512i x, __m512i w)
{
    return (gr_sum)_mm512_dpwssd_epi32((__m512i)sum, x, w);
}

GR_INLINE void i8_rows(const int rows, const struct gr_tile *t)
{
    gr_sum acc[GR_TILE_ROWS][2];
    __m512i *sums = t->sums;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = (gr_sum){0};
    }
    gr_tile_multiply(rows, multiply_i8, t, acc);
    const __mmask16 keep = t->first ? 0 : 0xffff;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < 2; j++) {
            __m512i before = _mm512_maskz_load_epi32(keep, sums + 2 * r + j);
            _mm512_store_si512(sums + 2 * r + j, _mm512_add_epi32(before, (__m512i)acc[r][j]));
        }
    }
}

GR_INLINE void i16_rows(const int rows, struct gr_tile *tile)
{
    struct gr_tile t = *tile;
    gr_sum acc[GR_TILE_ROWS][2];
    float *sums = t.sums;
    __mmask16 keep = t.first ? 0 : 0xffff;
    for (int left = t.chunks; left > 0; left -= I16_SEGMENT) {
        t.chunks = left < I16_SEGMENT ? left : I16_SEGMENT;
        GR_UNROLL
        for (int r = 0; r < rows; r++) {
            acc[r][0] = acc[r][1] = (gr_sum){0};
        }
        gr_tile_multiply(rows, multiply_i16, &t, acc);
        GR_UNROLL
        for (int r = 0; r < rows; r++) {
            for (int j = 0; j < 2; j++) {
                __m512 before = _mm512_maskz_load_ps(keep, sums + 32 * r + 16 * j);
                _mm512_store_ps(sums + 32 * r + 16 * j, _mm512_add_ps(before, _mm512_cvtepi32_ps((__m512i)acc[r][j])));
            }
        }
        keep = 0xffff;
        gr_tile_advance(&t, rows, t.chunks);
    }
}

static __attribute__((noinline)) void i8_tile(int rows, struct gr_tile *t) { GR_ROWS_SWITCH(rows, i8_rows, t) }

static __attribute__((noinline)) void i16_tile(int rows, struct gr_tile *t) { GR_ROWS_SWITCH(rows, i16_rows, t) }

static __attribute__((noinline)) void i8_finish(const struct gr_gemm *g, int panel, int row, int rows, const void *sums)
{
    finish_tile(GR_MAT_I8, g, panel, row, rows, sums);
}

static __attribute__((noinline)) void i16_finish(const struct gr_gemm *g, int panel, int row, int rows,
                                                 const void *sums)
{
    finish_tile(GR_MAT_I16, g, panel, row, rows, sums);
}

void gr_gemm_i8_avx512vnni(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    gr_block_loop(GR_MAT_I8, g, p0, p1, scratch, i8_tile, i8_finish);
}

void gr_gemm_i16_avx512vnni(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    gr_block_loop(GR_MAT_I16, g, p0, p1, scratch, i16_tile, i16_finish);
}
