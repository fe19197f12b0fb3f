/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx512fp16.c: half products with vfmadd231ph, panels of 64 columns; the loops are those of block_avx512.h.
 * Half sums go to float every 8 chunks (128 k): the multiply-adds round to 11 bits once a k, so that a row is off by some 2e-3 of
 * its size, as with bf16 rows, while a row that is scaled to [4, 8) stays far below the largest half, 65504. NaN and infinity
 * propagate. */
#include <immintrin.h>

typedef __m512h gr_sum;

#include "kernels/avx512/block_avx512.h"
#include "kernels/avx512/finish_avx512.h"
#include "kernels/avx512fp16/avx512fp16.h"

enum { F16_SEGMENT = GR_SEGMENTS_CHUNKS, F16_COLUMNS = 64 };

/* gcc takes the forms of the instruction that overwrite x or w for the intrinsic, and spills. */
GR_INLINE gr_sum multiply_f16(gr_sum sum, __m512i x, __m512i w)
{
    __asm__("vfmadd231ph %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
}

/* sums += the 32 halves of h. */
GR_INLINE void add_halves(gr_sum sum, __mmask16 keep, float *sums)
{
    __m512i h = _mm512_castph_si512(sum);
    __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(h)), high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1));
    _mm512_store_ps(sums, _mm512_add_ps(_mm512_maskz_load_ps(keep, sums), low));
    _mm512_store_ps(sums + 16, _mm512_add_ps(_mm512_maskz_load_ps(keep, sums + 16), high));
}

/* At most F16_SEGMENT chunks. */
GR_INLINE void f16_rows(const int rows, const struct gr_tile *t)
{
    gr_sum acc[GR_TILE_ROWS][2];
    float *sums = t->sums;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = _mm512_setzero_ph();
    }
    gr_tile_multiply(rows, multiply_f16, t, acc);
    const __mmask16 keep = t->first ? 0 : 0xffff;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        add_halves(acc[r][0], keep, sums + F16_COLUMNS * r);
        add_halves(acc[r][1], keep, sums + F16_COLUMNS * r + 32);
    }
}

static __attribute__((noinline)) void f16_segment(int rows, const struct gr_tile *t)
{
    GR_ROWS_SWITCH(rows, f16_rows, t)
}

static void f16_tile(int rows, struct gr_tile *t)
{
    for (int left = t->chunks; left > 0; left -= F16_SEGMENT) {
        t->chunks = left < F16_SEGMENT ? left : F16_SEGMENT;
        f16_segment(rows, t);
        gr_tile_advance(t, rows, t->chunks);
    }
}

static __attribute__((noinline)) void f16_finish(const struct gr_gemm *g, int panel, int row, int rows,
                                                 const void *sums)
{
    finish_tile(GR_MAT_F16, g, panel, row, rows, sums);
}

void gr_gemm_f16_avx512fp16(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    gr_block_loop(GR_MAT_F16, g, p0, p1, scratch, f16_tile, f16_finish);
}
