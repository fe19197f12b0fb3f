/* SPDX-License-Identifier: Apache-2.0
 *
 * quant_rows_avx512.c: rows to the low-precision formats. One pass finishes the row (norm, smoothing) into scratch, which stays in
 * L1, and takes the extremes on the way; the next one quantises it a whole chunk of 64 bytes at a time. Same bits as the
 * scalar set, norms apart. */
#include <math.h>
#include <stdbool.h>

#include "kernels/avx512/avx512.h"
#include "kernels/avx512/norm_avx512.h"

#define SMALLEST_SCALE 1e-20f

/* One row of packed activations. */
struct target {
    char *chunk;   /* its first 64 bytes */
    size_t stride; /* bytes to the next */
    int chunks;
    float *scale, *zero; /* NULL where the format has none */
};

/* What the scale of a row follows from. */
struct range {
    float lo, hi; /* 0 among them */
    bool broken;  /* NaN or infinity */
};

/* In parts for the same reason as the sums of norm_avx512.h. */
struct range_parts {
    __m512 lo[NORM_PARTS], hi[NORM_PARTS], zero[NORM_PARTS]; /* zero: 0 x, summed: NaN when any x is not finite */
};

GR_INLINE void take_in(struct range_parts *p, int j, __m512 x)
{
    p->lo[j] = _mm512_min_ps(p->lo[j], x);
    p->hi[j] = _mm512_max_ps(p->hi[j], x);
    p->zero[j] = _mm512_fmadd_ps(x, _mm512_setzero_ps(), p->zero[j]);
}

static struct range merge(const struct range_parts *p)
{
    __m512 lo = _mm512_min_ps(_mm512_min_ps(p->lo[0], p->lo[1]), _mm512_min_ps(p->lo[2], p->lo[3]));
    __m512 hi = _mm512_max_ps(_mm512_max_ps(p->hi[0], p->hi[1]), _mm512_max_ps(p->hi[2], p->hi[3]));
    return (struct range){.lo = _mm512_reduce_min_ps(lo),
                          .hi = _mm512_reduce_max_ps(hi),
                          .broken = _mm512_cmp_ps_mask(sum_of(p->zero), _mm512_setzero_ps(), _CMP_UNORD_Q) != 0};
}

/* 16 elements from i on, as the product is to see them. */
GR_INLINE __m512 finished(const struct gr_row_source *src, const float *x, int i, __mmask16 mask,
                          const struct row_scale *s)
{
    __m512 v = src->norm != NULL ? apply(x, i, mask, src->norm, s) : _mm512_maskz_loadu_ps(mask, x + i);
    return src->smooth != NULL ? _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, src->smooth + i)) : v;
}

/* Row x to buffer, zeros up to k_pad; the buffer may be left out (NULL) when nothing is to be done to the row. */
GR_INLINE struct range finish_row(const struct gr_row_source *src, const float *x, int k, int k_pad, float *buffer)
{
    struct row_scale s = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    if (src->norm != NULL) {
        s = measure(x, k, src->norm);
    }
    struct range_parts parts;
    GR_UNROLL
    for (int j = 0; j < NORM_PARTS; j++) {
        parts.lo[j] = parts.hi[j] = parts.zero[j] = _mm512_setzero_ps();
    }
    int i = 0;
    for (; i + NORM_BLOCK <= k; i += NORM_BLOCK) {
        GR_UNROLL
        for (int j = 0; j < NORM_PARTS; j++) {
            _mm_prefetch((const char *)(x + k + i + 16 * j), _MM_HINT_T1); /* the next row, where rows are dense */
            __m512 v = finished(src, x, i + 16 * j, 0xffff, &s);
            take_in(&parts, j, v);
            if (buffer != NULL) {
                _mm512_store_ps(buffer + i + 16 * j, v);
            }
        }
    }
    for (; i < k_pad; i += 16) {
        __m512 v = finished(src, x, i, lanes(k - i), &s);
        take_in(&parts, 0, v);
        if (buffer != NULL) {
            _mm512_store_ps(buffer + i, v);
        }
    }
    return merge(&parts);
}

static __attribute__((noinline)) struct range finish_rms(const struct gr_row_source *src, const float *x, int k,
                                                         int k_pad, float *buffer)
{
    const struct gr_row_norm norm = {GR_ROW_RMS, src->norm->eps, src->norm->gamma, NULL};
    const struct gr_row_source known = {.norm = &norm, .smooth = src->smooth};
    return finish_row(&known, x, k, k_pad, buffer);
}

static __attribute__((noinline)) struct range finish_layer(const struct gr_row_source *src, const float *x, int k,
                                                           int k_pad, float *buffer)
{
    const struct gr_row_norm norm = {GR_ROW_LAYER, src->norm->eps, src->norm->gamma, src->norm->beta};
    const struct gr_row_source known = {.norm = &norm, .smooth = src->smooth};
    return finish_row(&known, x, k, k_pad, buffer);
}

static __attribute__((noinline)) struct range finish_plain(const struct gr_row_source *src, const float *x, int k,
                                                           int k_pad, float *buffer)
{
    const struct gr_row_source known = {.smooth = src->smooth};
    return finish_row(&known, x, k, k_pad, buffer);
}

/* 16 elements as rounded integers. */
GR_INLINE __m512i rounded(const float *x, __m512 inverse)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
}

/* Two vectors packed to 16 bits stand in alternating quarters: back in order. */
GR_INLINE __m512i in_order16(__m512i packed)
{
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
}

static void quantise_u8(const float *x, const struct range *range, const struct target *to)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    float scale = (range->hi - range->lo) / 255.0f;
    scale = scale > SMALLEST_SCALE ? scale : SMALLEST_SCALE;
    const float inverse = 1.0f / scale, middle = rintf(-range->lo * inverse);
    const int zero_point = range->broken || !(middle > 0.0f) ? 0 : middle < 255.0f ? (int)middle : 255;
    *to->scale = range->broken ? NAN : scale;
    *to->zero = -*to->scale * (float)zero_point;
    const __m512 by = _mm512_set1_ps(inverse);
    const __m512i zero = _mm512_set1_epi16((short)zero_point);
    char *chunk = to->chunk;
    for (int c = 0; c < to->chunks; c++, x += 64, chunk += to->stride) {
        __m512i a = _mm512_packs_epi32(rounded(x, by), rounded(x + 16, by));
        __m512i b = _mm512_packs_epi32(rounded(x + 32, by), rounded(x + 48, by));
        a = _mm512_packus_epi16(_mm512_adds_epi16(a, zero), _mm512_adds_epi16(b, zero));
        _mm512_store_si512(chunk, _mm512_permutexvar_epi32(order, a));
    }
}

static float largest_of(const struct range *range) { return range->hi > -range->lo ? range->hi : -range->lo; }

static void quantise_i16(const float *x, const struct range *range, const struct target *to)
{
    float scale = largest_of(range) / 8191.0f;
    scale = scale > SMALLEST_SCALE ? scale : SMALLEST_SCALE;
    *to->scale = range->broken ? NAN : scale;
    const __m512 by = _mm512_set1_ps(1.0f / scale);
    char *chunk = to->chunk;
    for (int c = 0; c < to->chunks; c++, x += 32, chunk += to->stride) {
        _mm512_store_si512(chunk, in_order16(_mm512_packs_epi32(rounded(x, by), rounded(x + 16, by))));
    }
}

static void quantise_f16(const float *x, const struct range *range, const struct target *to)
{
    int e = 3; /* scale 1 */
    if (!range->broken && largest_of(range) > 0.0f) {
        (void)frexpf(largest_of(range), &e);
        e = e < GR_F16_LEAST_EXPONENT + 3 ? GR_F16_LEAST_EXPONENT + 3 : e;
    }
    *to->scale = range->broken ? NAN : ldexpf(1.0f, e - 3);
    const __m512 by = _mm512_set1_ps(ldexpf(1.0f, 3 - e));
    char *chunk = to->chunk;
    for (int c = 0; c < to->chunks; c++, x += 16, chunk += to->stride) {
        __m256i half = _mm512_cvtps_ph(_mm512_mul_ps(_mm512_loadu_ps(x), by), _MM_FROUND_TO_NEAREST_INT);
        __m512i twice = _mm512_cvtepu16_epi32(half);
        _mm512_store_si512(chunk, _mm512_or_si512(twice, _mm512_slli_epi32(twice, 16)));
    }
}

/* To the upper half of each lane, nearest even, moved down. NaN turns quiet: cutting it must not make it an infinity. */
GR_INLINE __m512i bf16_of(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_srli_epi32(_mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000)), 16);
}

static void round_bf16(const float *x, const struct range *range, const struct target *to)
{
    (void)range; /* no scale */
    char *chunk = to->chunk;
    for (int c = 0; c < to->chunks; c++, x += 32, chunk += to->stride) {
        __m512i a = bf16_of(_mm512_loadu_ps(x)), b = bf16_of(_mm512_loadu_ps(x + 16));
        _mm512_store_si512(chunk, in_order16(_mm512_packus_epi32(a, b)));
    }
}

static void pack(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, float *buffer,
                 void (*quantise)(const float *x, const struct range *range, const struct target *to))
{
    const int k_pad = gr_row_pad(a->format, a->k), tiles = gr_tile_count(a->m);
    const size_t row_bytes = gr_acts_row_bytes(a->format, a->k);
    const bool as_it_is = src->norm == NULL && src->smooth == NULL && k_pad == a->k;
    for (int t = 0; t < tiles; t++) {
        int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1);
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            const float *x = src->x + (size_t)(src->index != NULL ? src->index[r] : r) * src->ldx;
            const struct target to = {.chunk = (char *)a->data + (size_t)first * row_bytes +
                                               (size_t)(r - first) * GR_CHUNK_BYTES,
                                      .stride = (size_t)(end - first) * GR_CHUNK_BYTES,
                                      .chunks = (int)(row_bytes / GR_CHUNK_BYTES),
                                      .scale = a->scale != NULL ? a->scale + r : NULL,
                                      .zero = a->zero != NULL ? a->zero + r : NULL};
            struct range range = src->norm == NULL ? finish_plain(src, x, a->k, k_pad, as_it_is ? NULL : buffer)
                                 : src->norm->kind == GR_ROW_RMS ? finish_rms(src, x, a->k, k_pad, buffer)
                                                                 : finish_layer(src, x, a->k, k_pad, buffer);
            quantise(as_it_is ? x : buffer, &range, &to);
        }
    }
}

void gr_pack_u8_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_u8);
}

void gr_pack_i16_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_i16);
}

void gr_pack_f16_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_f16);
}

void gr_pack_bf16_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, round_bf16);
}
