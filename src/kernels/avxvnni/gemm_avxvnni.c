/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_avxvnni.c: int8 and int16 products on 256-bit registers with the dot-product instructions. vpdpbusd multiplies four bytes of a row
 * (unsigned) with four weights (signed) and adds exactly; vpdpwssd does so with two 16-bit numbers. The loops are those of the AVX2 set. */
#include "kernels/avxvnni/avxvnni.h"

#include "kernels/avx2/avx2.h"

enum { BYTES, WORDS };

/* Written out: compilers load all operands first and copy sums, for which 12 sums, 3 rows and a vector of weights leave no register. */
#define DOT(name, weights) __asm__("%{vex%} " name " %2, %1, %0" : "+x"(sum) : "x"(x), weights)

GR_AVX2_INLINE __m256i int_step(const int kind, __m256i sum, __m256i x, __m256i w)
{
    if (kind == BYTES) {
        DOT("vpdpbusd", "x"(w));
    } else {
        DOT("vpdpwssd", "x"(w));
    }
    return sum;
}

GR_AVX2_INLINE __m256i int_step_memory(const int kind, __m256i sum, __m256i x, const char *w)
{
    const __m256i *weights = (const __m256i *)(const void *)w;
    if (kind == BYTES) {
        DOT("vpdpbusd", "m"(*weights));
    } else {
        DOT("vpdpwssd", "m"(*weights));
    }
    return sum;
}
#include "kernels/avx2/int_tile_avx2.h"

enum { I8_CHUNKS = 8 /* 512 k: 16 KiB of weights, L1 holds them */ };

static void bytes_tile(const struct gr_avx2_int_block *b) { int_tile(BYTES, b); }
static void words_tile(const struct gr_avx2_int_block *b) { int_tile(WORDS, b); }

void gr_avxvnni_gemm_i8(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    static const struct gr_avx2_int set = {.tile = bytes_tile, .chunks = I8_CHUNKS};
    gr_avx2_int_gemm(&set, g, p0, p1, scratch);
}

void gr_avxvnni_gemm_i16(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    static const struct gr_avx2_int set = {.tile = words_tile, .chunks = GR_AVX2_I16_CHUNKS};
    gr_avx2_int_gemm(&set, g, p0, p1, scratch);
}

static __m256i bytes_chains(int steps, __m256i x, __m256i w) { return int_chains(BYTES, steps, x, w); }
static __m256i words_chains(int steps, __m256i x, __m256i w) { return int_chains(WORDS, steps, x, w); }

double gr_avxvnni_peak_i8(void) { return gr_avx2_int_rate(2.0 * 32, bytes_chains); }
double gr_avxvnni_peak_i16(void) { return gr_avx2_int_rate(2.0 * 16, words_chains); }
