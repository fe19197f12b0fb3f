/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply_avx2.c: c += a b on plain rows. Tiles of up to 6 rows x 16 columns (12 sums, 2 weights, 1 broadcast of the 16 registers);
 * the sums start from c, so that an element has the same bits however its rows and columns were cut. */
#include "kernels/avx2/avx2.h"

enum { ROWS = 6, COLS = 16 };

GR_AVX2_INLINE void tile(const int rows, const struct gr_multiply *p, const float *a, const float *b, float *c)
{
    const size_t lda = (size_t)p->lda, ldb = (size_t)p->ldb, ldc = (size_t)p->ldc;
    __m256 acc[ROWS][2];
    GR_AVX2_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = _mm256_loadu_ps(c + (size_t)r * ldc);
        acc[r][1] = _mm256_loadu_ps(c + (size_t)r * ldc + 8);
    }
    for (int k = 0; k < p->k; k++, a++, b += ldb) {
        const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
        GR_AVX2_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m256 x = _mm256_broadcast_ss(a + (size_t)r * lda);
            acc[r][0] = _mm256_fmadd_ps(x, b0, acc[r][0]);
            acc[r][1] = _mm256_fmadd_ps(x, b1, acc[r][1]);
        }
    }
    GR_AVX2_UNROLL
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(c + (size_t)r * ldc, acc[r][0]);
        _mm256_storeu_ps(c + (size_t)r * ldc + 8, acc[r][1]);
    }
}

static void tile_rows(int rows, const struct gr_multiply *p, const float *a, const float *b, float *c)
{
    switch (rows) {
    case 1:
        tile(1, p, a, b, c);
        break;
    case 2:
        tile(2, p, a, b, c);
        break;
    case 3:
        tile(3, p, a, b, c);
        break;
    case 4:
        tile(4, p, a, b, c);
        break;
    case 5:
        tile(5, p, a, b, c);
        break;
    default:
        tile(6, p, a, b, c);
    }
}

void gr_avx2_multiply_add(const struct gr_multiply *p)
{
    for (int j = 0; j < p->n; j += COLS) {
        for (int row = 0; row < p->m; row += ROWS) {
            tile_rows(p->m - row < ROWS ? p->m - row : ROWS, p, p->a + (size_t)row * (size_t)p->lda, p->b + j,
                      p->c + (size_t)row * (size_t)p->ldc + j);
        }
    }
}
