/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_avx512.c: softmax attention of one head. K is transposed once into panels of 32 keys, V copied into panels of 32
 * and 16 columns, then row tiles of at most 13 run as two small products: the scores of a tile stay in L1, and the
 * probabilities are written straight in tile layout for the second product. Masked keys get probability zero, which
 * adds nothing, so a row does not depend on the other rows of its tile. */
#include <stddef.h>

#include "kernels/avx512/avx512.h"
#include "kernels/avx512/math_avx512.h"

/* out[r][0..16 nc) = sum over k of a[k / 16][r][k % 16] * w[k][16 nc]; k a multiple of 4. */
GR_INLINE void product(const int rows, const int nc, const float *a, const float *w, int k, float *out, int ldo)
{
    __m512 acc[GR_TILE_ROWS][2];
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    }
    for (int k0 = 0; k0 < k; k0 += GR_CHUNK) {
        int n = k - k0 < GR_CHUNK ? k - k0 : GR_CHUNK;
        for (int j = 0; j < n; j += 4, a += 4, w += 64 * nc) {
            GR_UNROLL
            for (int i = 0; i < 4; i++) {
                __m512 w0 = _mm512_load_ps(w + i * 16 * nc);
                __m512 w1 = nc > 1 ? _mm512_load_ps(w + i * 32 + 16) : w0;
                GR_UNROLL
                for (int r = 0; r < rows; r++) {
                    __m512 x = _mm512_set1_ps(a[r * GR_CHUNK + i]);
                    acc[r][0] = add_product(acc[r][0], x, w0);
                    if (nc > 1) {
                        acc[r][1] = add_product(acc[r][1], x, w1);
                    }
                }
            }
        }
        a += rows * GR_CHUNK - n;
    }
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        _mm512_store_ps(out + (size_t)r * ldo, acc[r][0]);
        if (nc > 1) {
            _mm512_store_ps(out + (size_t)r * ldo + 16, acc[r][1]);
        }
    }
}

static __attribute__((noinline)) void product_rows(int rows, int nc, const float *a, const float *w, int k, float *out,
                                                   int ldo)
{
    if (nc == 2) {
        GR_ROWS_SWITCH(rows, product, 2, a, w, k, out, ldo)
    } else {
        GR_ROWS_SWITCH(rows, product, 1, a, w, k, out, ldo)
    }
}

/* dst[c][0..16) = src[0..16)[c] for c < cols (at most 16); rows beyond `rows` read as zero. */
static void transpose16(const float *src, int lds, float *dst, int ldd, int rows, int cols)
{
    __m512i r[16], t[16];
    __mmask16 mask = lanes(cols);
    for (int i = 0; i < 16; i++) {
        r[i] =
            i < rows ? _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, src + (size_t)i * lds)) : _mm512_setzero_si512();
    }
    transpose_dwords(r, t);
    for (int i = 0; i < cols && i < 16; i++) {
        _mm512_store_si512(dst + (size_t)i * ldd, t[i]);
    }
}

/* Scratch of one head; every part is a multiple of 64 bytes. */
struct head {
    int key_panels, keys4, d4;      /* ceil(s / 32); s and d rounded up to 4 */
    int wide_panels, narrow_panels; /* of V: 32 and 16 columns */
    float *kt;                      /* [key_panels][d4][32], rows d..d4 zero */
    float *v;                       /* [wide][keys4][32], then [narrow][keys4][16] */
    float *q;                       /* [d / 16][rows][16] */
    float *p;                       /* [keys / 16][rows][16] */
    float *scores;                  /* [rows][key_panels * 32] */
};

static struct head lay_out(const struct gr_attention *a, void *scratch)
{
    struct head h = {.key_panels = (a->s + 31) / 32,
                     .keys4 = (a->s + 3) / 4 * 4,
                     .d4 = (a->d + 3) / 4 * 4,
                     .wide_panels = a->d / 32,
                     .narrow_panels = (a->d % 32 + 15) / 16};
    h.kt = scratch;
    h.v = h.kt + (size_t)h.key_panels * 32 * h.d4;
    h.q = h.v + (size_t)h.keys4 * (h.wide_panels * 32 + h.narrow_panels * 16);
    h.p = h.q + (size_t)GR_TILE_ROWS * gr_pad16(a->d);
    h.scores = h.p + (size_t)GR_TILE_ROWS * gr_pad16(a->s);
    return h;
}

static void pack_keys(const struct gr_attention *a, const struct head *h)
{
    for (int p = 0; p < h->key_panels; p++) {
        for (int half = 0; half < 2; half++) {
            int row = p * 32 + half * 16, rows = a->s - row;
            rows = rows < 0 ? 0 : rows < 16 ? rows : 16;
            for (int c = 0; c < a->d; c += 16) {
                transpose16(a->k + (size_t)(rows > 0 ? row : 0) * a->ldk + c, a->ldk,
                            h->kt + ((size_t)p * h->d4 + c) * 32 + half * 16, 32, rows, a->d - c);
            }
            for (int c = a->d; c < h->d4; c++) {
                _mm512_store_ps(h->kt + ((size_t)p * h->d4 + c) * 32 + half * 16, _mm512_setzero_ps());
            }
        }
    }
}

static void pack_values(const struct gr_attention *a, const struct head *h)
{
    float *narrow = h->v + (size_t)h->wide_panels * h->keys4 * 32;
    for (int i = 0; i < h->keys4; i++) {
        const float *v = a->v + (size_t)(i < a->s ? i : 0) * a->ldv;
        __mmask16 row_mask = i < a->s ? 0xffff : 0;
        for (int p = 0; p < h->wide_panels; p++) {
            float *dst = h->v + ((size_t)p * h->keys4 + i) * 32;
            _mm512_store_ps(dst, _mm512_maskz_loadu_ps(row_mask, v + p * 32));
            _mm512_store_ps(dst + 16, _mm512_maskz_loadu_ps(row_mask, v + p * 32 + 16));
        }
        for (int p = 0; p < h->narrow_panels; p++) {
            int c = h->wide_panels * 32 + p * 16;
            _mm512_store_ps(narrow + ((size_t)p * h->keys4 + i) * 16,
                            _mm512_maskz_loadu_ps(row_mask & lanes(a->d - c), v + c));
        }
    }
}

/* Keys that row `row` may see. */
static int visible(const struct gr_attention *a, int row)
{
    int n = a->causal ? row + 1 + a->s - a->m : a->s;
    return n < a->s ? n : a->s;
}

/* Scores of row r of the tile to unnormalised probabilities; returns 1 / sum. */
static float softmax_row(const struct head *h, int r, int rows, int n, int keys)
{
    float *x = h->scores + (size_t)r * h->key_panels * 32;
    __m512 max = _mm512_set1_ps(-3.0e38f), sum = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        max = _mm512_mask_max_ps(max, lanes(n - i), max, _mm512_load_ps(x + i));
    }
    max = _mm512_set1_ps(_mm512_reduce_max_ps(max));
    for (int i = 0; i < keys; i += 16) {
        __m512 e = _mm512_maskz_mov_ps(lanes(n - i), exp_ps(_mm512_sub_ps(_mm512_load_ps(x + i), max)));
        sum = _mm512_add_ps(sum, e);
        _mm512_store_ps(h->p + ((size_t)(i / 16) * rows + r) * 16, e);
    }
    return 1.0f / _mm512_reduce_add_ps(sum);
}

static void weigh_values(const struct gr_attention *a, const struct head *h, int row, int rows, int keys,
                         const float *inv)
{
    float out[GR_TILE_ROWS * 32] __attribute__((aligned(64)));
    const float *narrow = h->v + (size_t)h->wide_panels * h->keys4 * 32;
    for (int p = 0; p < h->wide_panels + h->narrow_panels; p++) {
        int wide = p < h->wide_panels, nc = wide ? 2 : 1;
        int col = wide ? p * 32 : h->wide_panels * 32 + (p - h->wide_panels) * 16;
        const float *v =
            wide ? h->v + (size_t)p * h->keys4 * 32 : narrow + (size_t)(p - h->wide_panels) * h->keys4 * 16;
        product_rows(rows, nc, h->p, v, keys, out, 32);
        for (int r = 0; r < rows; r++) {
            __m512 scale = _mm512_set1_ps(inv[r]);
            for (int j = 0; j < nc; j++) {
                __m512 y = _mm512_mul_ps(_mm512_load_ps(out + r * 32 + 16 * j), scale);
                _mm512_mask_storeu_ps(a->o + (size_t)(row + r) * a->ldo + col + 16 * j, lanes(a->d - col - 16 * j), y);
            }
        }
    }
}

void gr_attention_avx512(const struct gr_attention *a, void *scratch)
{
    struct head h = lay_out(a, scratch);
    pack_keys(a, &h);
    pack_values(a, &h);
    const int tiles = gr_tile_count(a->m);
    for (int t = 0; t < tiles; t++) {
        int row = gr_tile_first(a->m, t), rows = gr_tile_first(a->m, t + 1) - row;
        int most = visible(a, row + rows - 1), keys = (most + 3) / 4 * 4;
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < a->d; c += 16) {
                __m512 x = _mm512_maskz_loadu_ps(lanes(a->d - c), a->q + (size_t)(row + r) * a->ldq + c);
                _mm512_store_ps(h.q + ((size_t)(c / 16) * rows + r) * 16, _mm512_mul_ps(_mm512_set1_ps(a->scale), x));
            }
        }
        for (int p = 0; p < (most + 31) / 32; p++) {
            product_rows(rows, 2, h.q, h.kt + (size_t)p * h.d4 * 32, h.d4, h.scores + p * 32, h.key_panels * 32);
        }
        float inv[GR_TILE_ROWS];
        for (int r = 0; r < rows; r++) {
            inv[r] = softmax_row(&h, r, rows, visible(a, row + r), keys);
        }
        weigh_values(a, &h, row, rows, keys, inv);
    }
}
