/* SPDX-License-Identifier: Apache-2.0
 *
 * quant_rows_avx2.c: rows to the low-precision formats. A first pass leaves the finished row in scratch, with zeros up to whole chunks, and
 * its range; a second one quantises 32 elements at a time. Same operations in float as the scalar set, so the same bits. */
#include "kernels/avx2/avx2.h"

#include <math.h>

/* A finished row and what its scale follows from. */
struct row {
    const float *x; /* [k_pad] */
    float lo, hi;   /* 0 among them */
    int broken;     /* NaN or infinity */
};

/* 64 bytes of packed rows: one chunk, the next `stride` bytes on. */
struct target {
    char *chunk;
    size_t stride;
    int k_pad;
    float *scale, *zero;
};

static float least(__m256 v)
{
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m)));
}

static float most(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static struct row finish_row(const struct gr_row_source *src, int r, int k, int k_pad, float *buffer)
{
    const float *x = src->x + (size_t)(src->index != NULL ? src->index[r] : r) * (size_t)src->ldx;
    if (src->norm != NULL) {
        gr_avx2_norm_rows(x, 0, buffer, 0, k, src->norm, 0, 1);
        x = buffer;
    }
    const __m256 none = _mm256_setzero_ps();
    __m256 lo = none, hi = none, bad = none;
    for (int i = 0; i < k_pad; i += 8) {
        const __m256i mask = gr_avx2_mask(k - i);
        __m256 v = k - i >= 8 ? _mm256_loadu_ps(x + i) : k > i ? _mm256_maskload_ps(x + i, mask) : none;
        if (src->smooth != NULL && k > i) {
            v = _mm256_mul_ps(v, k - i >= 8 ? _mm256_loadu_ps(src->smooth + i)
                                            : _mm256_maskload_ps(src->smooth + i, mask));
        }
        lo = _mm256_min_ps(lo, v);
        hi = _mm256_max_ps(hi, v);
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(_mm256_sub_ps(v, v), none, _CMP_UNORD_Q)); /* inf - inf is NaN */
        _mm256_store_ps(buffer + i, v);
    }
    return (struct row){.x = buffer, .lo = least(lo), .hi = most(hi), .broken = _mm256_movemask_ps(bad) != 0};
}

static float largest_of(const struct row *row) { return row->hi > -row->lo ? row->hi : -row->lo; }

static float at_least(float x, float smallest) { return x > smallest ? x : smallest; }

/* rint(x inverse) of elements [i, i + 8). */
GR_AVX2_INLINE __m256i scaled(const struct row *row, int i, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_load_ps(row->x + i), inverse));
}

static void quantise_u8(const struct row *row, const struct target *to)
{
    const float scale = at_least((row->hi - row->lo) / 255.0f, 1e-20f), inverse = 1.0f / scale;
    const float point = rintf(-row->lo * inverse);
    const int zero_point = row->broken || !(point > 0.0f) ? 0 : point > 255.0f ? 255 : (int)point;
    *to->scale = row->broken ? NAN : scale;
    *to->zero = -*to->scale * (float)zero_point;
    const __m256 factor = _mm256_set1_ps(inverse);
    const __m256i shift = _mm256_set1_epi32(zero_point), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int i = 0; i < to->k_pad; i += 32) {
        __m256i q[4];
        for (int j = 0; j < 4; j++) {
            q[j] = _mm256_add_epi32(scaled(row, i + 8 * j, factor), shift);
        }
        const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        _mm256_store_si256((__m256i *)(void *)(to->chunk + (size_t)(i / 64) * to->stride + i % 64),
                           _mm256_permutevar8x32_epi32(bytes, order));
    }
}

static void quantise_i16(const struct row *row, const struct target *to)
{
    const float scale = at_least(largest_of(row) / 8191.0f, 1e-20f);
    *to->scale = row->broken ? NAN : scale;
    const __m256 factor = _mm256_set1_ps(1.0f / scale);
    for (int i = 0; i < to->k_pad; i += 16) {
        const __m256i words = _mm256_packs_epi32(scaled(row, i, factor), scaled(row, i + 8, factor));
        _mm256_store_si256((__m256i *)(void *)(to->chunk + (size_t)(i / 32) * to->stride + i % 32 * 2),
                           _mm256_permute4x64_epi64(words, 0xd8));
    }
}

static void quantise_f16(const struct row *row, const struct target *to)
{
    int e = 3; /* scale 1 */
    if (!row->broken && largest_of(row) > 0.0f) {
        (void)frexpf(largest_of(row), &e);
        e = e < GR_F16_LEAST_EXPONENT + 3 ? GR_F16_LEAST_EXPONENT + 3 : e;
    }
    *to->scale = row->broken ? NAN : ldexpf(1.0f, e - 3);
    const __m256 factor = _mm256_set1_ps(ldexpf(1.0f, 3 - e));
    for (int i = 0; i < to->k_pad; i += 8) {
        const __m128i half =
            _mm256_cvtps_ph(_mm256_mul_ps(_mm256_load_ps(row->x + i), factor), _MM_FROUND_TO_NEAREST_INT);
        const __m256i wide = _mm256_cvtepu16_epi32(half);
        _mm256_store_si256((__m256i *)(void *)(to->chunk + (size_t)(i / 16) * to->stride + i % 16 * 4),
                           _mm256_or_si256(wide, _mm256_slli_epi32(wide, 16)));
    }
}

/* BF16 in the low halves of the dwords: to nearest even, NaN stays one. */
GR_AVX2_INLINE __m256i bf16_of(__m256 x)
{
    const __m256i bits = _mm256_castps_si256(x),
                  even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan)), 16);
}

static void round_bf16(const struct row *row, const struct target *to)
{
    for (int i = 0; i < to->k_pad; i += 16) {
        const __m256i words =
            _mm256_packus_epi32(bf16_of(_mm256_load_ps(row->x + i)), bf16_of(_mm256_load_ps(row->x + i + 8)));
        _mm256_store_si256((__m256i *)(void *)(to->chunk + (size_t)(i / 32) * to->stride + i % 32 * 2),
                           _mm256_permute4x64_epi64(words, 0xd8));
    }
}

static void pack(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, float *buffer,
                 void (*quantise)(const struct row *row, const struct target *to))
{
    const size_t row_bytes = gr_acts_row_bytes(a->format, a->k);
    for (int t = 0; t < gr_tile_count(a->m); t++) {
        const int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1);
        char *tile = (char *)a->data + (size_t)first * row_bytes;
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            const struct row row = finish_row(src, r, a->k, a->k_pad, buffer);
            const struct target to = {.chunk = tile + (size_t)(r - first) * GR_CHUNK_BYTES,
                                      .stride = (size_t)(end - first) * GR_CHUNK_BYTES,
                                      .k_pad = a->k_pad,
                                      .scale = a->scale != NULL ? a->scale + r : NULL,
                                      .zero = a->zero != NULL ? a->zero + r : NULL};
            quantise(&row, &to);
        }
    }
}

void gr_avx2_pack_u8(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_u8);
}

void gr_avx2_pack_i16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_i16);
}

void gr_avx2_pack_f16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_f16);
}

void gr_avx2_pack_bf16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, round_bf16);
}
