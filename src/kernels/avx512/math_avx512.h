/* SPDX-License-Identifier: Apache-2.0
 *
 * math_avx512.h: vector functions of the AVX-512 set; included by files of this folder only. */
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

/* Mask of the first n lanes, n may be below 0 or above 16. */
GR_INLINE __mmask16 lanes(int n)
{
    return n >= 16 ? (__mmask16)0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : (__mmask16)0;
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

/* y / (1 + e^-y) */
GR_INLINE __m512 silu_ps(__m512 y)
{
    __m512 e = exp_ps(_mm512_sub_ps(_mm512_setzero_ps(), y));
    return _mm512_div_ps(y, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

/* tanh GELU through the identity 0.5 (1 + tanh u) = 1 / (1 + e^-2u), u = sqrt(2/pi) (y + 0.044715 y^3). */
GR_INLINE __m512 gelu_tanh_ps(__m512 y)
{
    __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(y, y), _mm512_set1_ps(-0.0713548163f), _mm512_set1_ps(-1.59576912f));
    return _mm512_div_ps(y, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_ps(_mm512_mul_ps(y, cubic))));
}

#endif
