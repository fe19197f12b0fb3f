/* SPDX-License-Identifier: Apache-2.0
 *
 * math_avx512.h: vector functions of the AVX-512 sets; included by files of their folders only. */
#ifndef GR_KERNELS_MATH_AVX512_H
#define GR_KERNELS_MATH_AVX512_H

#include <immintrin.h>

#define GR_INLINE static inline __attribute__((always_inline))

/* Before a loop of constant length over register arrays: fully unrolled, or the arrays end up in memory. clang passes over
 * gcc's spelling without a word. */
#if defined(__clang__)
#define GR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GR_UNROLL _Pragma("GCC unroll 16")
#endif

/* Calls f(rows, ...) with the rows of a tile (GR_TILE_ROWS at most) as a constant. */
#define GR_ROWS_CASE(n, f, ...) \
    case n:                     \
        f(n, __VA_ARGS__);      \
        break;
#define GR_ROWS_SWITCH(rows, f, ...)     \
    switch (rows) {                      \
        GR_ROWS_CASE(1, f, __VA_ARGS__)  \
        GR_ROWS_CASE(2, f, __VA_ARGS__)  \
        GR_ROWS_CASE(3, f, __VA_ARGS__)  \
        GR_ROWS_CASE(4, f, __VA_ARGS__)  \
        GR_ROWS_CASE(5, f, __VA_ARGS__)  \
        GR_ROWS_CASE(6, f, __VA_ARGS__)  \
        GR_ROWS_CASE(7, f, __VA_ARGS__)  \
        GR_ROWS_CASE(8, f, __VA_ARGS__)  \
        GR_ROWS_CASE(9, f, __VA_ARGS__)  \
        GR_ROWS_CASE(10, f, __VA_ARGS__) \
        GR_ROWS_CASE(11, f, __VA_ARGS__) \
        GR_ROWS_CASE(12, f, __VA_ARGS__) \
        GR_ROWS_CASE(13, f, __VA_ARGS__) \
    }

/* acc + x w in a tile. In assembly, because gcc turns the intrinsic into the form that overwrites x, copies x first, and then lacks
 * registers. */
GR_INLINE __m512 add_product(__m512 acc, __m512 x, __m512 w)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
    return acc;
}

/* Mask of the first n lanes, n may be below 0 or above 16. */
GR_INLINE __mmask16 lanes(int n)
{
    return n >= 16 ? (__mmask16)0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : (__mmask16)0;
}

/* 16 x 16 dwords from rows r to columns t; r is destroyed. */
GR_INLINE void transpose_dwords(__m512i r[16], __m512i t[16])
{
    GR_UNROLL
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    GR_UNROLL
    for (int i = 0; i < 8; i++) {
        const int from = i / 2 * 4 + i % 2, to = i / 2 * 4 + i % 2 * 2;
        r[to] = _mm512_unpacklo_epi64(t[from], t[from + 2]);
        r[to + 1] = _mm512_unpackhi_epi64(t[from], t[from + 2]);
    }
    GR_UNROLL
    for (int j = 0; j < 4; j++) {
        __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88), b = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        __m512i c = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd), d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
        t[j] = _mm512_shuffle_i32x4(a, b, 0x88);
        t[8 + j] = _mm512_shuffle_i32x4(a, b, 0xdd);
        t[4 + j] = _mm512_shuffle_i32x4(c, d, 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(c, d, 0xdd);
    }
}

/* e^x for x clamped to [-87, 87], relative error about 2e-7: x = n ln2 + f, degree-6 polynomial in f (Cephes expf). */
GR_INLINE __m512 exp_ps(__m512 x)
{
    /* x last in both: of two operands min and max return the second when one is NaN, so NaN stays NaN. */
    x = _mm512_max_ps(_mm512_set1_ps(-87.0f), _mm512_min_ps(_mm512_set1_ps(87.0f), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
    __m512 f = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    f = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), f);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(f, f), p, _mm512_add_ps(f, _mm512_set1_ps(1.0f)));
    return _mm512_scalef_ps(p, n);
}

#endif
