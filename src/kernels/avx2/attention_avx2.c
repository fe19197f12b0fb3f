/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_avx2.c: softmax attention of one head. Keys are transposed into panels of 32 once per head and values
 * copied into panels of 32 columns, so that both products run on the tile kernel; scores of at most 13 rows stay
 * in L1 and the exponentials are written straight in tile layout. The division by the sum comes last, on the
 * outputs. Keys a row does not see get exactly zero, so a row never depends on what a causal mask hides. */
#include "kernels/avx2/avx2.h"

#include <math.h>
#include <string.h>

/* Scratch of one head. All parts start on a cache line. */
struct parts {
    int d4, s4;      /* d, s rounded up to 4: steps of the tile kernel */
    int s32;         /* s rounded up to a panel */
    size_t score_ld; /* floats of one row of scores */
    float *keys;     /* [s32 / 32][d4][32] */
    float *values;   /* [ceil(d / 32)][s4][32] */
    float *queries;  /* [chunk of d][rows][16], scaled */
    float *scores;   /* [rows][s32] */
    float *weights;  /* [chunk of s][rows][16], e^(score - maximum) */
    float *outputs;  /* [rows][32] */
};

static int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

static struct parts plan(const struct gr_attention *a, void *scratch)
{
    struct parts p = {.d4 = round_up(a->d, 4), .s4 = round_up(a->s, 4), .s32 = round_up(a->s, GR_PANEL)};
    p.score_ld = (size_t)p.s32;
    p.keys = scratch;
    p.values = p.keys + (size_t)p.s32 * (size_t)p.d4;
    p.queries = p.values + (size_t)round_up(a->d, GR_PANEL) * (size_t)p.s4;
    p.scores = p.queries + (size_t)GR_TILE_ROWS * (size_t)round_up(a->d, GR_CHUNK);
    p.weights = p.scores + GR_TILE_ROWS * p.score_ld;
    p.outputs = p.weights + (size_t)GR_TILE_ROWS * (size_t)p.s32;
    return p;
}

/* Columns [c, c + 8) of one row; zeros behind d and for rows that do not exist. */
GR_AVX2_INLINE __m256 load_row(const float *x, int ld, int row, int rows, int c, int d)
{
    if (row >= rows) {
        return _mm256_setzero_ps();
    }
    const float *from = x + (size_t)row * (size_t)ld + c;
    return d - c >= 8 ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, gr_avx2_mask(d - c));
}

/* out[i][0..8) = lane i of the eight rows, for i < n; rows of out are a panel apart. */
static void transpose8(const __m256 row[8], float *out, int n)
{
    __m256 t[8], u[8], column[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        column[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        column[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
    for (int i = 0; i < n; i++) {
        _mm256_store_ps(out + (size_t)i * GR_PANEL, column[i]);
    }
}

static void pack_keys(const struct gr_attention *a, const struct parts *p)
{
    for (int j = 0; j < p->s32; j += 8) {
        float *panel = p->keys + (size_t)(j / GR_PANEL) * (size_t)p->d4 * GR_PANEL + j % GR_PANEL;
        for (int c = 0; c < p->d4; c += 8) {
            __m256 row[8];
            for (int i = 0; i < 8; i++) {
                row[i] = load_row(a->k, a->ldk, j + i, a->s, c, a->d);
            }
            transpose8(row, panel + (size_t)c * GR_PANEL, p->d4 - c < 8 ? p->d4 - c : 8);
        }
    }
}

static void pack_values(const struct gr_attention *a, const struct parts *p)
{
    const int width = round_up(a->d, 16);
    for (int j = 0; j < p->s4; j++) {
        for (int c = 0; c < width; c += 8) {
            float *to = p->values + ((size_t)(c / GR_PANEL) * (size_t)p->s4 + (size_t)j) * GR_PANEL + c % GR_PANEL;
            _mm256_store_ps(to, load_row(a->v, a->ldv, j, a->s, c, a->d));
        }
    }
}

static void pack_queries(const struct gr_attention *a, const struct parts *p, int first, int rows)
{
    const __m256 scale = _mm256_set1_ps(a->scale);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < round_up(a->d, GR_CHUNK); c += 8) {
            float *to = p->queries + (size_t)(c / GR_CHUNK * rows + r) * GR_CHUNK + c % GR_CHUNK;
            _mm256_store_ps(to, _mm256_mul_ps(scale, load_row(a->q, a->ldq, first + r, a->m, c, a->d)));
        }
    }
}

static float max_of(const float *x, int n)
{
    __m256 m = _mm256_set1_ps(-INFINITY);
    for (int j = 0; j < n; j += 8) {
        const __m256 seen = _mm256_castsi256_ps(gr_avx2_mask(n - j));
        m = _mm256_max_ps(m, _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_load_ps(x + j), seen));
    }
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

/* Exponentials of row r of the tile over its n keys, zeros up to `end`; returns one over their sum, 0 without keys. */
static float softmax_row(const struct parts *p, int r, int rows, int n, int end)
{
    const float *x = p->scores + (size_t)r * p->score_ld;
    const __m256 max = _mm256_set1_ps(max_of(x, n));
    __m256 sum = _mm256_setzero_ps();
    for (int j = 0; j < end; j += 8) {
        const __m256 seen = _mm256_castsi256_ps(gr_avx2_mask(n - j));
        const __m256 e = _mm256_and_ps(seen, gr_avx2_exp(_mm256_sub_ps(_mm256_load_ps(x + j), max)));
        sum = _mm256_add_ps(sum, e);
        _mm256_store_ps(p->weights + (size_t)(j / GR_CHUNK * rows + r) * GR_CHUNK + j % GR_CHUNK, e);
    }
    return n > 0 ? 1.0f / gr_avx2_sum(sum) : 0.0f;
}

static void store_outputs(const struct gr_attention *a, const struct parts *p, int first, int rows, int c0,
                          const float *inverse)
{
    for (int r = 0; r < rows; r++) {
        float *to = a->o + (size_t)(first + r) * (size_t)a->ldo + c0;
        const float *from = p->outputs + (size_t)r * GR_PANEL;
        const __m256 scale = _mm256_set1_ps(inverse[r]);
        for (int c = 0; c < GR_PANEL && c0 + c < a->d; c += 8) {
            const __m256 y = _mm256_mul_ps(_mm256_load_ps(from + c), scale);
            if (a->d - c0 - c >= 8) {
                _mm256_storeu_ps(to + c, y);
            } else {
                _mm256_maskstore_ps(to + c, gr_avx2_mask(a->d - c0 - c), y);
            }
        }
    }
}

static int keys_seen(const struct gr_attention *a, int row)
{
    const int n = row + a->s - a->m + 1;
    return !a->causal || n > a->s ? a->s : n < 0 ? 0 : n;
}

static void attend_rows(const struct gr_attention *a, const struct parts *p, int first, int rows)
{
    const int most = keys_seen(a, first + rows - 1); /* the last row sees the most keys */
    const int d16 = round_up(a->d, 16);
    float inverse[GR_TILE_ROWS];
    pack_queries(a, p, first, rows);
    for (int j = 0; j < most; j += GR_PANEL) {
        const struct gr_avx2_product product = {.rows = rows,
                                                .cols = most - j > 16 ? GR_PANEL : 16,
                                                .k = p->d4,
                                                .a = p->queries,
                                                .stride = (size_t)rows * GR_CHUNK,
                                                .w = p->keys + (size_t)j * (size_t)p->d4,
                                                .c = p->scores + j,
                                                .ldc = p->score_ld};
        gr_avx2_multiply(&product);
    }
    for (int r = 0; r < rows; r++) {
        inverse[r] = softmax_row(p, r, rows, keys_seen(a, first + r), round_up(most, 8));
    }
    for (int c = 0; c < a->d; c += GR_PANEL) {
        const struct gr_avx2_product product = {.rows = rows,
                                                .cols = d16 - c > 16 ? GR_PANEL : 16,
                                                .k = round_up(most, 4),
                                                .a = p->weights,
                                                .stride = (size_t)rows * GR_CHUNK,
                                                .w = p->values + (size_t)c * (size_t)p->s4,
                                                .c = p->outputs,
                                                .ldc = GR_PANEL};
        gr_avx2_multiply(&product);
        store_outputs(a, p, first, rows, c, inverse);
    }
}

void gr_avx2_attention(const struct gr_attention *a, void *scratch)
{
    const struct parts p = plan(a, scratch);
    pack_keys(a, &p);
    pack_values(a, &p);
    for (int t = 0; t < gr_tile_count(a->m); t++) {
        const int first = gr_tile_first(a->m, t);
        attend_rows(a, &p, first, gr_tile_first(a->m, t + 1) - first);
    }
}
