/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avx512bf16.c: bf16 products with vdpbf16ps; the loops are those of block_avx512.h.
 * The instruction adds the products of an odd and an even k to a float, each of the two additions rounded to nearest even with
 * denormal inputs and results taken as zero, whatever MXCSR says; products of two bf16 are exact in float. A block of up to 24
 * chunks (768 k) starts its own sums, so that the error of a row is at most (768 + k_pad / 768) 2^-24 sum |a w|. NaN and infinity
 * propagate. */
#include <immintrin.h>

typedef __m512 gr_sum;

#include "kernels/avx512/block_avx512.h"
#include "kernels/avx512/finish_avx512.h"
#include "kernels/avx512bf16/avx512bf16.h"

GR_INLINE gr_sum multiply_bf16(gr_sum sum, __m512i x, __m512i w)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
}

GR_INLINE void bf16_rows(const int rows, const struct gr_tile *t)
{
    gr_sum acc[GR_TILE_ROWS][2];
    float *sums = t->sums;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    }
    gr_tile_multiply(rows, multiply_bf16, t, acc);
    const __mmask16 keep = t->first ? 0 : 0xffff;
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < 2; j++) {
            __m512 before = _mm512_maskz_load_ps(keep, sums + GR_PANEL * r + 16 * j);
            _mm512_store_ps(sums + GR_PANEL * r + 16 * j, _mm512_add_ps(before, acc[r][j]));
        }
    }
}

static __attribute__((noinline)) void bf16_tile(int rows, struct gr_tile *t) { GR_ROWS_SWITCH(rows, bf16_rows, t) }

static __attribute__((noinline)) void bf16_finish(const struct gr_gemm *g, int panel, int row, int rows,
                                                  const void *sums)
{
    finish_tile(GR_MAT_BF16P, g, panel, row, rows, sums);
}

void gr_gemm_bf16p_avx512bf16(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    gr_block_loop(GR_MAT_BF16P, g, p0, p1, scratch, bf16_tile, bf16_finish);
}
