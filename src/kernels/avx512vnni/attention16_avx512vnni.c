/* SPDX-License-Identifier: Apache-2.0
 *
 * attention16_avx512vnni.c: softmax attention of one head on 16-bit integers (vpdpwssd: twice the multiply rate of fp32); formats in
 * kernels.h. Keys and values are packed first: keys transposed, so that a vector holds one pair of k for each of 16 keys,
 * values as pairs of keys for each of 16 columns, both in panels of two vectors (the last may be one). Then row tiles of at
 * most 13 run as two small products; the scores of a tile stay in L1 and become probabilities in tile layout there. */
#include <stdbool.h>
#include <stddef.h>

#include "kernels/avx512/math_avx512.h"
#include "kernels/avx512vnni/avx512vnni.h"

enum {
    MOST = 2047,     /* of q, k and v */
    P_MOST = 8191,   /* of a probability */
    SUM_PAIRS = 64,  /* pairs of keys that one int32 sum may take */
    CHUNK_PAIRS = 16 /* pairs of a row in one 64-byte chunk of a tile */
};
#define LEAST 1e-30f /* smallest maximum of a row */
#define LOG2_E 1.44269504f

/* Packed keys and values. A group is a vector of 16 keys or 16 columns; two groups make a panel. */
struct packed {
    int key_groups, column_groups;
    int d_pairs, key_pairs; /* of d and of the keys, padded to even numbers */
    float *broken;          /* [16], NaN when a key is not finite, else 0 */
    float *key_scale;       /* [key_groups * 16] */
    float *column_scale;    /* [column_groups * 16] */
    int32_t *keys;          /* [panels][d_pairs][groups of the panel * 16] pairs */
    int32_t *values;        /* [panels][key_pairs][groups of the panel * 16] pairs */
    char *end;
};

static struct packed lay_out(int s, int d, void *memory)
{
    struct packed p = {.key_groups = (s + 15) / 16,
                       .column_groups = (d + 15) / 16,
                       .d_pairs = (d + 3) / 4 * 2,
                       .key_pairs = (s + 3) / 4 * 2};
    p.broken = memory;
    p.key_scale = p.broken + 16;
    p.column_scale = p.key_scale + 16 * (size_t)p.key_groups;
    p.keys = (int32_t *)(void *)(p.column_scale + 16 * (size_t)p.column_groups);
    p.values = p.keys + 16 * (size_t)p.key_groups * p.d_pairs;
    p.end = (char *)(p.values + 16 * (size_t)p.column_groups * p.key_pairs);
    return p;
}

/* Where group g of `groups` starts in panels of `length` vectors, and the step to its next vector. */
static int32_t *group_at(int32_t *base, int g, int groups, int length, int *step)
{
    const int paired = (g | 1) < groups;
    *step = paired ? 32 : 16;
    return base + (size_t)(g / 2) * length * 32 + (paired ? g % 2 * 16 : 0);
}

/* Bits of |x|: as integers they are ordered like the numbers, with infinity and NaN above. */
GR_INLINE __m512i magnitude(__m512 x)
{
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

enum fold { FOLD_ADD, FOLD_MAX_FLOAT, FOLD_MAX_UNSIGNED };

GR_INLINE __m512i fold_two(const enum fold how, __m512i a, __m512i b)
{
    return how == FOLD_ADD         ? _mm512_add_epi32(a, b)
           : how == FOLD_MAX_FLOAT ? _mm512_castps_si512(_mm512_max_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)))
                                   : _mm512_max_epu32(a, b);
}

/* Lane i of the result: all lanes of v[i] folded. A third of the work of 16 single reductions, and no chain of them. */
GR_INLINE __m512i fold_rows(const enum fold how, __m512i v[16])
{
    GR_UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i a = v[2 * i], b = v[2 * i + 1];
        v[i] = fold_two(how, _mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    }
    GR_UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i a = v[2 * i], b = v[2 * i + 1];
        v[i] = fold_two(how, _mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    GR_UNROLL
    for (int i = 0; i < 2; i++) {
        __m512i a = v[2 * i], b = v[2 * i + 1];
        v[i] = fold_two(how, _mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    }
    return fold_two(how, _mm512_shuffle_i32x4(v[0], v[1], 0x88), _mm512_shuffle_i32x4(v[0], v[1], 0xdd));
}

/* Largest |x|, at least LEAST, of up to 16 rows; NaN when one of them is not finite. */
static __m512 largest_of_rows(const float *x, int ldx, int rows, int d)
{
    const __m512i least = _mm512_castps_si512(_mm512_set1_ps(LEAST));
    __m512i most[16];
    GR_UNROLL
    for (int i = 0; i < 16; i++) {
        most[i] = least;
    }
    for (int i = 0; i < rows; i++, x += ldx) {
        __m512i m = least;
        for (int c = 0; c < d; c += 16) {
            m = _mm512_max_epu32(m, magnitude(_mm512_maskz_loadu_ps(lanes(d - c), x + c)));
        }
        most[i] = m;
    }
    __m512 m = _mm512_castsi512_ps(fold_rows(FOLD_MAX_UNSIGNED, most));
    return _mm512_add_ps(m, _mm512_sub_ps(m, m));
}

/* 32 elements from c on, times r, as 16-bit integers. */
GR_INLINE __m512i to16(const float *x, int c, int d, __m512 r)
{
    __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(r, _mm512_maskz_loadu_ps(lanes(d - c), x + c)));
    __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(r, _mm512_maskz_loadu_ps(lanes(d - c - 16), x + c + 16)));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packs_epi32(a, b));
}

/* 16 keys: one scale each, pairs of k transposed. */
static void pack_key_group(const struct gr_attention *a, const struct packed *p, int g)
{
    const int first = g * 16, rows = a->s - first < 16 ? a->s - first : 16;
    const float *key = a->k + (size_t)first * a->ldk;
    const __m512 most = largest_of_rows(key, a->ldk, rows, a->d);
    float by[16] __attribute__((aligned(64)));
    _mm512_store_ps(by, _mm512_div_ps(_mm512_set1_ps(MOST), most));
    _mm512_store_ps(p->key_scale + first, _mm512_mul_ps(most, _mm512_set1_ps(1.0f / MOST)));
    int step;
    int32_t *dst = group_at(p->keys, g, p->key_groups, p->d_pairs, &step);
    for (int c = 0; c < a->d; c += 32) {
        __m512i r[16], t[16];
        for (int i = 0; i < 16; i++) {
            r[i] = i < rows ? to16(key + (size_t)i * a->ldk, c, a->d, _mm512_set1_ps(by[i])) : _mm512_setzero_si512();
        }
        transpose_dwords(r, t);
        for (int i = 0; i < 16 && c / 2 + i < p->d_pairs; i++, dst += step) {
            _mm512_store_si512(dst, t[i]);
        }
    }
}

/* 16 columns of v from row i on times r, rows beyond s zero. */
GR_INLINE __m512i value_row(const struct gr_attention *a, int i, int column, __mmask16 mask, __m512 r)
{
    return i < a->s
               ? _mm512_cvtps_epi32(_mm512_mul_ps(r, _mm512_maskz_loadu_ps(mask, a->v + (size_t)i * a->ldv + column)))
               : _mm512_setzero_si512();
}

/* 16 columns: one scale each, pairs of keys. */
static void pack_value_group(const struct gr_attention *a, const struct packed *p, int g)
{
    const int column = g * 16;
    const __mmask16 mask = lanes(a->d - column);
    __m512i bits = _mm512_castps_si512(_mm512_set1_ps(LEAST));
    for (int i = 0; i < a->s; i++) {
        bits = _mm512_max_epu32(bits, magnitude(_mm512_maskz_loadu_ps(mask, a->v + (size_t)i * a->ldv + column)));
    }
    __m512 most = _mm512_castsi512_ps(bits);
    most = _mm512_add_ps(most, _mm512_sub_ps(most, most)); /* infinity: NaN */
    _mm512_store_ps(p->column_scale + column, _mm512_mul_ps(most, _mm512_set1_ps(1.0f / MOST)));
    const __m512 r = _mm512_div_ps(_mm512_set1_ps(MOST), most);
    int step;
    int32_t *dst = group_at(p->values, g, p->column_groups, p->key_pairs, &step);
    for (int i = 0; i < 2 * p->key_pairs; i += 2, dst += step) {
        __m512i even = value_row(a, i, column, mask, r), odd = value_row(a, i + 1, column, mask, r);
        _mm512_store_si512(dst, _mm512_mask_blend_epi16(0xaaaaaaaau, even, _mm512_slli_epi32(odd, 16)));
    }
}

static void pack(const struct gr_attention *a, const struct packed *p)
{
    __m512 broken = _mm512_setzero_ps();
    for (int g = 0; g < p->key_groups; g++) {
        pack_key_group(a, p, g);
        __m512 scale = _mm512_load_ps(p->key_scale + 16 * (size_t)g);
        broken = _mm512_add_ps(broken, _mm512_sub_ps(scale, scale));
    }
    _mm512_store_ps(p->broken, _mm512_set1_ps(_mm512_reduce_add_ps(broken)));
    for (int g = 0; g < p->column_groups; g++) {
        pack_value_group(a, p, g);
    }
}

/* out[r][0..16 groups) = sum over pairs of a[pair / 16][r][pair % 16] . w[pair][16 groups]; an even number of pairs. What becomes of the
 * sums is not done here: with anything but plain stores behind the loop gcc 12 keeps some of the 26 sums in memory. */
GR_INLINE void product(const int rows, const int groups, const int32_t *a, const int32_t *w, int pairs, int32_t *out)
{
    __m512i acc[GR_TILE_ROWS][2];
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = _mm512_setzero_si512();
    }
    for (int left = pairs; left > 0; left -= CHUNK_PAIRS) {
        const int n = left < CHUNK_PAIRS ? left : CHUNK_PAIRS;
        for (int j = 0; j < n; j += 2, a += 2, w += 32 * groups) {
            GR_UNROLL
            for (int i = 0; i < 2; i++) {
                __m512i w0 = _mm512_load_si512(w + i * 16 * groups);
                __m512i w1 = groups > 1 ? _mm512_load_si512(w + i * 32 + 16) : w0;
                GR_UNROLL
                for (int r = 0; r < rows; r++) {
                    __m512i x = _mm512_set1_epi32(a[r * CHUNK_PAIRS + i]);
                    acc[r][0] = _mm512_dpwssd_epi32(acc[r][0], x, w0);
                    if (groups > 1) {
                        acc[r][1] = _mm512_dpwssd_epi32(acc[r][1], x, w1);
                    }
                }
            }
        }
        a += rows * CHUNK_PAIRS - n;
    }
    GR_UNROLL
    for (int r = 0; r < rows; r++) {
        _mm512_store_si512(out + r * 32, acc[r][0]);
        if (groups > 1) {
            _mm512_store_si512(out + r * 32 + 16, acc[r][1]);
        }
    }
}

static __attribute__((noinline)) void multiply(int rows, int groups, const int32_t *a, const int32_t *w, int pairs,
                                               int32_t *out)
{
    if (groups == 2) {
        GR_ROWS_SWITCH(rows, product, 2, a, w, pairs, out)
    } else {
        GR_ROWS_SWITCH(rows, product, 1, a, w, pairs, out)
    }
}

/* One tile of rows. */
struct tile {
    int row, rows;
    int seen, more;                                 /* keys that row r sees: seen + r * more, 0 when below */
    int most;                                       /* keys that its last row sees */
    int ld;                                         /* keys, rounded up to chunks of 32 */
    int16_t *q;                                     /* [d / 32][rows][32] */
    int16_t *p;                                     /* [keys / 32][rows][32] */
    float *scores;                                  /* [rows][ld] */
    __m512i folds[16];                              /* of each row's scores, lane by lane; later the sums of p */
    __m512 q_scale;                                 /* of each row, to powers of two: includes a->scale and log2 e */
    float inverse[16] __attribute__((aligned(64))); /* 1 / sum of p; NaN: broken */
};

static void pack_queries(const struct gr_attention *a, struct tile *t)
{
    const float *q = a->q + (size_t)t->row * a->ldq, sign = a->scale < 0.0f ? -1.0f : 1.0f;
    const __m512 most = largest_of_rows(q, a->ldq, t->rows, a->d);
    float by[16] __attribute__((aligned(64)));
    _mm512_store_ps(by, _mm512_div_ps(_mm512_set1_ps(sign * MOST), most));
    t->q_scale = _mm512_mul_ps(most, _mm512_set1_ps(sign * a->scale * LOG2_E / MOST));
    for (int r = 0; r < t->rows; r++, q += a->ldq) {
        for (int c = 0; c < a->d; c += 32) {
            _mm512_store_si512(t->q + (size_t)(c / 32 * t->rows + r) * 32, to16(q, c, a->d, _mm512_set1_ps(by[r])));
        }
    }
}

/* Sums of the panel of keys from group g on, times the keys' scales, to scores; maxima of those that the row sees. */
GR_INLINE void take_scores(const struct packed *k, struct tile *t, int g, const int groups, const int32_t *sums)
{
    const __m512 none = _mm512_set1_ps(-3.0e38f), s0 = _mm512_load_ps(k->key_scale + g * 16);
    const __m512 s1 = groups > 1 ? _mm512_load_ps(k->key_scale + g * 16 + 16) : s0;
    const int seen = t->seen - g * 16, all_seen = seen >= 16 * groups;
    float *out = t->scores + g * 16;
    for (int r = 0; r < t->rows; r++, out += t->ld, sums += 32) {
        __m512 y0 = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)), s0), y1 = y0;
        _mm512_store_ps(out, y0);
        if (groups > 1) {
            y1 = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums + 16)), s1);
            _mm512_store_ps(out + 16, y1);
        }
        if (!all_seen) {
            const int n = seen + r * t->more;
            y0 = _mm512_mask_mov_ps(none, lanes(n), y0);
            y1 = groups > 1 ? _mm512_mask_mov_ps(none, lanes(n - 16), y1) : y0;
        }
        y0 = _mm512_max_ps(_mm512_max_ps(y0, y1), _mm512_castsi512_ps(t->folds[r]));
        t->folds[r] = _mm512_castps_si512(y0);
    }
}

static void score_keys(const struct packed *k, struct tile *t)
{
    int32_t sums[GR_TILE_ROWS * 32] __attribute__((aligned(64)));
    for (int r = 0; r < 16; r++) {
        t->folds[r] = _mm512_castps_si512(_mm512_set1_ps(-3.0e38f));
    }
    for (int g = 0; g * 16 < t->most; g += 2) {
        const int32_t *keys = k->keys + (size_t)g * k->d_pairs * 16, *q = (const int32_t *)(const void *)t->q;
        if (g + 1 < k->key_groups) {
            multiply(t->rows, 2, q, keys, k->d_pairs, sums);
            take_scores(k, t, g, 2, sums);
        } else {
            multiply(t->rows, 1, q, keys, k->d_pairs, sums);
            take_scores(k, t, g, 1, sums);
        }
    }
}

/* rint(P_MOST 2^((y - most) scale)): 2^f for 0 <= f < 1 by a polynomial of degree 3, exact at both ends, relative error 1.03e-4. */
GR_INLINE __m512i probability(const float *y, __m512 most, __m512 scale)
{
    __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(y), most), scale);
    __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); /* x - floor(x) */
    __m512 p = _mm512_set1_ps(0.0782679696f * P_MOST);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.226307682f * P_MOST));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.695424349f * P_MOST));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(P_MOST));
    return _mm512_cvtps_epi32(_mm512_scalef_ps(p, x)); /* p 2^floor(x) */
}

/* Scores of row r, which sees n keys, to probabilities; beyond n they are zero up to the end of the tile's last chunk. Returns their
 * sum, lane by lane. */
static __m512i probabilities(const struct tile *t, int r, int n, __m512 most, __m512 scale)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const float *y = t->scores + (size_t)r * t->ld;
    int16_t *dst = t->p + (size_t)r * 32;
    __m512i sum = _mm512_setzero_si512();
    int i = 0;
    for (; i + 32 <= n; i += 32, dst += (size_t)t->rows * 32) {
        __m512i e0 = probability(y + i, most, scale), e1 = probability(y + i + 16, most, scale);
        sum = _mm512_add_epi32(sum, _mm512_add_epi32(e0, e1));
        _mm512_store_si512(dst, _mm512_permutexvar_epi64(order, _mm512_packs_epi32(e0, e1)));
    }
    for (; i < t->most; i += 32, dst += (size_t)t->rows * 32) {
        __m512i e0 = _mm512_setzero_si512(), e1 = e0;
        if (i < n) {
            e0 = _mm512_maskz_mov_epi32(lanes(n - i), probability(y + i, most, scale));
        }
        if (i + 16 < n) {
            e1 = _mm512_maskz_mov_epi32(lanes(n - i - 16), probability(y + i + 16, most, scale));
        }
        sum = _mm512_add_epi32(sum, _mm512_add_epi32(e0, e1));
        _mm512_store_si512(dst, _mm512_permutexvar_epi64(order, _mm512_packs_epi32(e0, e1)));
    }
    return sum;
}

static void softmax(const struct packed *k, struct tile *t)
{
    float most[16] __attribute__((aligned(64))), scale[16] __attribute__((aligned(64)));
    const __m512 top = _mm512_castsi512_ps(fold_rows(FOLD_MAX_FLOAT, t->folds));
    _mm512_store_ps(most, top);
    _mm512_store_ps(scale, t->q_scale);
    for (int r = 0; r < t->rows; r++) {
        t->folds[r] = probabilities(t, r, t->seen + r * t->more, _mm512_set1_ps(most[r]), _mm512_set1_ps(scale[r]));
    }
    const __m512i total = fold_rows(FOLD_ADD, t->folds);
    __m512 broken = _mm512_add_ps(_mm512_sub_ps(top, top), _mm512_sub_ps(t->q_scale, t->q_scale));
    broken = _mm512_add_ps(broken, _mm512_load_ps(k->broken));
    __m512 inverse = _mm512_maskz_div_ps(_mm512_test_epi32_mask(total, total), _mm512_set1_ps(1.0f),
                                         _mm512_cvtepi32_ps(total)); /* 0: sees no key */
    _mm512_store_ps(t->inverse, _mm512_add_ps(inverse, broken));
}

/* Sums of up to SUM_PAIRS pairs that do not end a row's keys: total = or += sums. */
GR_INLINE void keep_sums(int rows, const int groups, const int32_t *sums, float *total, bool first)
{
    for (int i = 0; i < rows * 32; i += 32) {
        GR_UNROLL
        for (int j = 0; j < groups; j++) {
            __m512 y = _mm512_cvtepi32_ps(_mm512_load_si512(sums + i + 16 * j));
            _mm512_store_ps(total + i + 16 * j, first ? y : _mm512_add_ps(_mm512_load_ps(total + i + 16 * j), y));
        }
    }
}

/* The last sums of panel g of the columns and the total before them (NULL: none) to outputs. */
GR_INLINE void store_outputs(const struct gr_attention *a, const struct packed *k, const struct tile *t, int g,
                             const int groups, const int32_t *sums, const float *total)
{
    float *o = a->o + (size_t)t->row * a->ldo + g * 16;
    for (int r = 0; r < t->rows; r++, o += a->ldo) {
        const __m512 inverse = _mm512_set1_ps(t->inverse[r]);
        GR_UNROLL
        for (int j = 0; j < groups; j++) {
            __m512 y = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * 32 + 16 * j));
            if (total != NULL) {
                y = _mm512_add_ps(_mm512_load_ps(total + r * 32 + 16 * j), y);
            }
            y = _mm512_mul_ps(_mm512_mul_ps(y, inverse), _mm512_load_ps(k->column_scale + (g + j) * 16));
            _mm512_mask_storeu_ps(o + 16 * j, lanes(a->d - (g + j) * 16), y);
        }
    }
}

GR_INLINE void weigh_panel(const struct gr_attention *a, const struct packed *k, const struct tile *t, int g,
                           const int groups)
{
    int32_t sums[GR_TILE_ROWS * 32] __attribute__((aligned(64)));
    float total[GR_TILE_ROWS * 32] __attribute__((aligned(64)));
    const int32_t *p = (const int32_t *)(const void *)t->p, *v = k->values + (size_t)g * k->key_pairs * 16;
    int pairs = (t->most + 3) / 4 * 2;
    bool first = true;
    for (; pairs > SUM_PAIRS; pairs -= SUM_PAIRS, first = false) {
        multiply(t->rows, groups, p, v, SUM_PAIRS, sums);
        keep_sums(t->rows, groups, sums, total, first);
        p += (size_t)SUM_PAIRS * t->rows;
        v += (size_t)SUM_PAIRS * 16 * groups;
    }
    multiply(t->rows, groups, p, v, pairs, sums);
    store_outputs(a, k, t, g, groups, sums, first ? NULL : total);
}

static void weigh_values(const struct gr_attention *a, const struct packed *k, const struct tile *t)
{
    int g = 0;
    for (; g + 1 < k->column_groups; g += 2) {
        weigh_panel(a, k, t, g, 2);
    }
    if (g < k->column_groups) {
        weigh_panel(a, k, t, g, 1);
    }
}

static void run(const struct gr_attention *a, const struct packed *k, char *scratch)
{
    const int tiles = gr_tile_count(a->m);
    struct tile t = {.ld = (a->s + 31) / 32 * 32, .more = a->causal ? 1 : 0};
    t.q = (int16_t *)(void *)scratch;
    t.p = t.q + (size_t)GR_TILE_ROWS * ((a->d + 31) / 32) * 32;
    t.scores = (float *)(void *)(t.p + (size_t)GR_TILE_ROWS * t.ld);
    for (int i = 0; i < tiles; i++) {
        t.row = gr_tile_first(a->m, i);
        t.rows = gr_tile_first(a->m, i + 1) - t.row;
        t.seen = a->causal ? t.row + 1 + a->s - a->m : a->s;
        t.most = t.seen + (t.rows - 1) * t.more;
        t.most = t.most < 0 ? 0 : t.most;
        pack_queries(a, &t);
        score_keys(k, &t);
        softmax(k, &t);
        weigh_values(a, k, &t);
    }
}

void gr_attention16_pack_avx512vnni(const struct gr_attention *a, void *packed)
{
    const struct packed p = lay_out(a->s, a->d, packed);
    pack(a, &p);
}

void gr_attention16_run_avx512vnni(const struct gr_attention *a, const void *packed, void *scratch)
{
    const struct packed p = lay_out(a->s, a->d, (void *)packed);
    run(a, &p, scratch);
}

void gr_attention16_avx512vnni(const struct gr_attention *a, void *scratch)
{
    const struct packed p = lay_out(a->s, a->d, scratch);
    pack(a, &p);
    run(a, &p, p.end);
}
