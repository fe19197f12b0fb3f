/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_avx2.c: the inner loop of products and attention: some rows of packed activations times 16 or 32 columns of
 * weights, the sums kept in registers over the whole of k. The 16 registers hold 6 rows x 2 vectors (12 sums, 2
 * weights, 1 broadcast; 8 loads feed 12 multiply-adds) or 3 rows x 4 vectors (12 sums, 3 broadcasts, 1 weight).
 * Both reach 96 % of the multiply-add peak from L1, 5 x 2 92 %; 4 x 2 only 82 %, because 8 sums are too few to
 * hide the latency. A tile is therefore cut into parts of 6, 5 and 3 rows. */
#include "kernels/avx2/avx2.h"

enum { PART_ROWS = 6 };

/* One step of k for R rows; w: one row of weights, of which NV vectors are used. */
GR_AVX2_INLINE void step(const int R, const int NV, const float *a, const float *w, __m256 acc[PART_ROWS][4])
{
    __m256 few[4]; /* weights or broadcasts, whichever are fewer, stay in registers; the others come one at a time */
    if (NV < R) {
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            few[v] = _mm256_load_ps(w + 8 * v);
        }
        GR_AVX2_UNROLL
        for (int r = 0; r < R; r++) {
            const __m256 x = _mm256_broadcast_ss(a + r * GR_CHUNK);
            GR_AVX2_UNROLL
            for (int v = 0; v < NV; v++) {
                acc[r][v] = _mm256_fmadd_ps(x, few[v], acc[r][v]);
            }
        }
    } else {
        GR_AVX2_UNROLL
        for (int r = 0; r < R; r++) {
            few[r] = _mm256_broadcast_ss(a + r * GR_CHUNK);
        }
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            const __m256 y = _mm256_load_ps(w + 8 * v);
            GR_AVX2_UNROLL
            for (int r = 0; r < R; r++) {
                acc[r][v] = _mm256_fmadd_ps(few[r], y, acc[r][v]);
            }
        }
    }
}

GR_AVX2_INLINE void four_steps(const int R, const int NV, const float *a, const float *w, __m256 acc[PART_ROWS][4])
{
    GR_AVX2_UNROLL
    for (int i = 0; i < 4; i++) {
        step(R, NV, a + i, w + i * GR_PANEL, acc);
    }
}

GR_AVX2_INLINE void part(const int R, const int NV, const struct gr_avx2_product *p, const float *a, const float *w,
                         float *c)
{
    __m256 acc[PART_ROWS][4];
    GR_AVX2_UNROLL
    for (int r = 0; r < R; r++) {
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            acc[r][v] = _mm256_setzero_ps();
        }
    }
    const size_t skip = p->stride - GR_CHUNK;
    int k = p->k;
    for (; k >= GR_CHUNK; k -= GR_CHUNK, a += skip) {
        for (int h = 0; h < 4; h++, a += 4, w += (size_t)4 * GR_PANEL) {
            four_steps(R, NV, a, w, acc);
        }
    }
    for (; k > 0; k -= 4, a += 4, w += (size_t)4 * GR_PANEL) {
        four_steps(R, NV, a, w, acc);
    }
    GR_AVX2_UNROLL
    for (int r = 0; r < R; r++) {
        GR_AVX2_UNROLL
        for (int v = 0; v < NV; v++) {
            float *to = c + (size_t)r * p->ldc + 8 * v;
            _mm256_store_ps(to, p->add ? _mm256_add_ps(_mm256_load_ps(to), acc[r][v]) : acc[r][v]);
        }
    }
}

static void part1(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(1, 2, p, a, w, c); }
static void part2(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(2, 2, p, a, w, c); }
static void part3(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(3, 2, p, a, w, c); }
static void part4(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(4, 2, p, a, w, c); }
static void part5(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(5, 2, p, a, w, c); }
static void part6(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(6, 2, p, a, w, c); }
static void wide1(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(1, 4, p, a, w, c); }
static void wide2(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(2, 4, p, a, w, c); }
static void wide3(const struct gr_avx2_product *p, const float *a, const float *w, float *c) { part(3, 4, p, a, w, c); }

enum { WIDE_ROWS = 3, PARTS_MAX = 3 };
typedef void (*part_fn)(const struct gr_avx2_product *p, const float *a, const float *w, float *c);
static const part_fn narrow[PART_ROWS + 1] = {NULL, part1, part2, part3, part4, part5, part6};
static const part_fn wide[WIDE_ROWS + 1] = {NULL, wide1, wide2, wide3};

/* Heights of the parts of a tile, the quickest cut of each. */
static const signed char cut[GR_TILE_ROWS + 1][PARTS_MAX] = {
    {0}, {1}, {2}, {3}, {4}, {5}, {6}, {4, 3}, {5, 3}, {6, 3}, {5, 5}, {6, 5}, {6, 6}, {5, 5, 3},
};

void gr_avx2_multiply(const struct gr_avx2_product *p)
{
    int row = 0;
    for (int i = 0; i < PARTS_MAX && cut[p->rows][i] > 0; i++) {
        const int rows = cut[p->rows][i];
        const float *a = p->a + (size_t)row * GR_CHUNK;
        float *c = p->c + (size_t)row * p->ldc;
        if (rows <= WIDE_ROWS && p->cols == GR_PANEL) {
            wide[rows](p, a, p->w, c);
        } else {
            for (int col = 0; col < p->cols; col += 16) {
                narrow[rows](p, a, p->w + col, c + col);
            }
        }
        row += rows;
    }
}
