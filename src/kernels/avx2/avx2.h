/* SPDX-License-Identifier: Apache-2.0
 *
 * avx2.h: what the files of the AVX2 set share. Only declarations and static inline functions: an inline function
 * with external linkage could be picked by the linker for the rest of the program, which must run on CPUs without
 * AVX2. */
#ifndef GR_KERNELS_AVX2_AVX2_H
#define GR_KERNELS_AVX2_AVX2_H

#include "kernels/kernels.h"

#include <immintrin.h>

#define GR_AVX2_INLINE static inline __attribute__((always_inline))

/* Before a loop of constant length over register arrays: fully unrolled, or the arrays end up in memory. Each
 * compiler has its own spelling; clang passes over gcc's without a word. */
#if defined(__clang__)
#define GR_AVX2_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GR_AVX2_UNROLL _Pragma("GCC unroll 16")
#endif

/* c[r][0..cols) (+)= sum over i < k of a[i / 16][r][i % 16] * w[i][0..cols), sums over i in order. rows 1..13;
 * cols 16 or 32; k a multiple of 4; chunks of a are `stride` floats apart; rows of w are 32 floats apart, 32-byte
 * aligned; rows of c are ldc floats apart, 32-byte aligned. add: 0 stores, 1 adds the sum to c. */
struct gr_avx2_product {
    int rows, cols, k;
    const float *a;
    size_t stride;
    const float *w;
    float *c;
    size_t ldc;
    int add;
};
void gr_avx2_multiply(const struct gr_avx2_product *p);

/* Integer products: what one instruction set brings along, and a tile on some chunks of k. */
enum gr_avx2_store { GR_AVX2_FIRST_INTS, GR_AVX2_ADD_INTS, GR_AVX2_FIRST_FLOATS, GR_AVX2_ADD_FLOATS };
struct gr_avx2_int_block {
    int rows, chunks;
    const char *a, *w; /* [chunk][rows][64 bytes], [16 chunks][32][4 bytes] */
    int32_t *out;      /* [rows][32] sums, ints or floats */
    enum gr_avx2_store how;
};
struct gr_avx2_int {
    void (*tile)(const struct gr_avx2_int_block *b);
    int chunks; /* of one block of k */
    int split;  /* int8 operands are split into 16 bits first */
};
enum { GR_AVX2_I16_CHUNKS = 4 /* 128 k: their int32 sums cannot overflow */, GR_AVX2_INT_CHAINS = 12 };
void gr_avx2_int_gemm(const struct gr_avx2_int *set, const struct gr_gemm *g, int p0, int p1, void *scratch);
/* Gop/s of `chains`, which does GR_AVX2_INT_CHAINS * steps steps of `ops` operations each. */
double gr_avx2_int_rate(double ops, __m256i (*chains)(int steps, __m256i x, __m256i w));
double gr_avx2_int_peak(void);

/* Bias, scales, epilogue and store of 32 columns, panel or half panel `unit`. sums [m][32]: float, of I8 int32. */
void gr_avx2_finish(const struct gr_gemm *g, int unit, const void *sums);

void gr_avx2_gemm_i8(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_avx2_gemm_i16(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_avx2_pack_u8(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_avx2_pack_i16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_avx2_pack_f16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_avx2_pack_bf16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_avx2_gemm(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_avx2_attention(const struct gr_attention *a, void *scratch);
void gr_avx2_pack_f32(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch);
void gr_avx2_norm_rows(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                       int r1);
void gr_avx2_multiply_add(const struct gr_multiply *p);
void gr_avx2_rms_rope(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                      const float *sin, int r0, int r1);

/* Lanes [0, n) all ones, for masked loads and stores; n may be outside 0..8. */
GR_AVX2_INLINE __m256i gr_avx2_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* e^x with about 1e-7 relative error, x clamped to [-87, 88] (both ends stay normal numbers); a NaN stays one,
 * because the minimum and maximum instructions return their second operand for it. Polynomial and split of ln 2:
 * Cephes expf. */
GR_AVX2_INLINE __m256 gr_avx2_exp(__m256 x)
{
    x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), x));
    const __m256 n =
        _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 f = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    f = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), f);
    __m256 p = _mm256_set1_ps(1.9875691500e-4f);
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.3981999507e-3f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(8.3334519073e-3f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(4.1665795894e-2f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.6666665459e-1f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(f, f), p, _mm256_add_ps(f, _mm256_set1_ps(1.0f)));
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

/* Sum of the lanes, always in the same order. */
GR_AVX2_INLINE float gr_avx2_sum(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

#endif
