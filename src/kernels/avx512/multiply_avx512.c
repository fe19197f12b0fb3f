/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply_avx512.c: c += a b on plain rows. Tiles of up to 13 rows x 32 columns as in gemm_avx512.c; the sums start from c, so that
 * an element has the same bits however its rows and columns were cut. */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/math_avx512.h"

GR_INLINE void tile(const int rows, const struct gr_multiply *p, const float *a, const float *b, float *c)
{
    const size_t lda = (size_t)p->lda, ldb = (size_t)p->ldb, ldc = (size_t)p->ldc;
    __m512 acc[GR_TILE_ROWS][2];
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = _mm512_loadu_ps(c + (size_t)r * ldc);
        acc[r][1] = _mm512_loadu_ps(c + (size_t)r * ldc + 16);
    }
    for (int k = 0; k < p->k; k++, a++, b += ldb) {
        const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
        GR_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512 x = _mm512_set1_ps(a[(size_t)r * lda]);
            acc[r][0] = _mm512_fmadd_ps(x, b0, acc[r][0]);
            acc[r][1] = _mm512_fmadd_ps(x, b1, acc[r][1]);
        }
    }
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(c + (size_t)r * ldc, acc[r][0]);
        _mm512_storeu_ps(c + (size_t)r * ldc + 16, acc[r][1]);
    }
}

static void tile_rows(int rows, const struct gr_multiply *p, const float *a, const float *b, float *c)
{
    GR_ROWS_SWITCH(rows, tile, p, a, b, c)
}

void gr_multiply_add_avx512(const struct gr_multiply *p)
{
    for (int j = 0; j < p->n; j += GR_PANEL) {
        for (int t = 0; t < gr_tile_count(p->m); t++) {
            const int row = gr_tile_first(p->m, t), rows = gr_tile_first(p->m, t + 1) - row;
            tile_rows(rows, p, p->a + (size_t)row * (size_t)p->lda, p->b + j, p->c + (size_t)row * (size_t)p->ldc + j);
        }
    }
}
