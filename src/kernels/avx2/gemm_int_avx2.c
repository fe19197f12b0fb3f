/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_int_avx2.c: integer products on 256-bit registers. The order of the loops is that of gemm_avx2.c; here too each weight is read
 * from memory once. Without VNNI int8 runs as int16: vpmaddubsw would saturate, so the bytes of a dword are split into its even and its odd ones, weights
 * with their sign, and vpmaddwd multiplies the pairs. AVX-VNNI shares the loops with instructions of its own. */
#include "kernels/avx2/avx2.h"

GR_AVX2_INLINE __m256i int_step(const int kind, __m256i sum, __m256i x, __m256i w)
{
    (void)kind;
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
    __asm__("" : "+x"(sum)); /* or gcc adds up the products of many steps first, for which it has no registers */
    return sum;
}
GR_AVX2_INLINE __m256i int_step_memory(const int kind, __m256i sum, __m256i x, const char *w)
{
    return int_step(kind, sum, x, _mm256_load_si256((const __m256i *)(const void *)w));
}
#include "kernels/avx2/int_tile_avx2.h"

#include "base/clock.h"

enum {
    PANEL_GROUP = 8,
    SPLIT_K = 256,              /* of int8 weights: 16 KiB when split, L1 holds it */
    SPLIT_CHUNKS = SPLIT_K / 32 /* of split rows */
};

/* 8 dwords: even bytes to 16 bits, odd bytes to 16 bits. */
GR_AVX2_INLINE void split_weights(const __m256i *w, __m256i *even, __m256i *odd)
{
    const __m256i bytes = _mm256_load_si256(w);
    *even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    *odd = _mm256_srai_epi16(bytes, 8);
}

/* k / 4 steps of 32 dwords to twice as many: evens, odds. */
static void split_panel(const char *w, int k, char *out)
{
    enum { VECTORS = 4 /* of a step */ };
    const __m256i *from = (const __m256i *)(const void *)w;
    __m256i *to = (__m256i *)(void *)out;
    for (int i = 0; i < k; i += 4, from += VECTORS, to += (size_t)2 * VECTORS) {
        for (int v = 0; v < VECTORS; v++) {
            split_weights(from + v, to + v, to + VECTORS + v);
        }
    }
}

/* Chunks of 64 bytes of `rows` rows to twice as many chunks in the order of split_panel: even bytes and odd bytes of a dword in turn. */
static void split_rows(const char *a, int rows, int chunks, char *out)
{
    const __m256i low = _mm256_set1_epi16(0xff);
    const size_t next_chunk = (size_t)rows * GR_CHUNK_BYTES;
    for (int c = 0; c < chunks; c++, out += next_chunk) {
        for (int r = 0; r < rows; r++, a += GR_CHUNK_BYTES, out += GR_CHUNK_BYTES) {
            for (int h = 0; h < 2; h++) {
                const __m256i bytes = _mm256_load_si256((const __m256i *)(const void *)(a + 32 * h));
                const __m256i even = _mm256_and_si256(bytes, low), odd = _mm256_srli_epi16(bytes, 8);
                const __m256i lo = _mm256_unpacklo_epi32(even, odd), hi = _mm256_unpackhi_epi32(even, odd);
                __m256i *to = (__m256i *)(void *)(out + (h == 0 ? 0 : next_chunk));
                _mm256_store_si256(to, _mm256_permute2x128_si256(lo, hi, 0x20));
                _mm256_store_si256(to + 1, _mm256_permute2x128_si256(lo, hi, 0x31));
            }
        }
    }
}

/* All row tiles on chunks [c0, c0 + chunks) of one panel; w: the panel's weights there. */
static void add_block(const struct gr_avx2_int *set, const struct gr_acts *a, const char *w, int c0, int chunks,
                      char *split, int32_t *sums)
{
    const size_t row_bytes = gr_acts_row_bytes(a->format, a->k);
    const int floats = a->format == GR_ROWS_I16;
    for (int t = 0; t < gr_tile_count(a->m); t++) {
        const int first = gr_tile_first(a->m, t), rows = gr_tile_first(a->m, t + 1) - first;
        struct gr_avx2_int_block b = {.rows = rows, .chunks = chunks, .w = w, .out = sums + (size_t)first * GR_PANEL};
        b.a = (const char *)a->data + (size_t)first * row_bytes + (size_t)c0 * (size_t)rows * GR_CHUNK_BYTES;
        b.how = floats ? (c0 > 0 ? GR_AVX2_ADD_FLOATS : GR_AVX2_FIRST_FLOATS)
                       : (c0 > 0 ? GR_AVX2_ADD_INTS : GR_AVX2_FIRST_INTS);
        if (set->split) {
            split_rows(b.a, rows, chunks, split);
            b.a = split;
            b.chunks = 2 * chunks;
        }
        set->tile(&b);
    }
}

void gr_avx2_int_gemm(const struct gr_avx2_int *set, const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const struct gr_acts *a = g->a;
    const int all = a->k_pad / gr_row_chunk(a->format);
    const size_t panel_bytes = gr_mat_panel_bytes(g->w), step_bytes = (size_t)4 * GR_PANEL;
    char *split_w = scratch, *split_a = split_w + (size_t)SPLIT_K * GR_PANEL * 2;
    int32_t *sums =
        (int32_t *)(void *)(split_a + (size_t)SPLIT_CHUNKS * GR_TILE_ROWS * GR_CHUNK_BYTES); /* [panel][m][32] */
    for (int first = p0; first < p1; first += PANEL_GROUP) {
        const int end = p1 - first < PANEL_GROUP ? p1 : first + PANEL_GROUP;
        for (int c0 = 0; c0 < all; c0 += set->chunks) {
            const int chunks = all - c0 < set->chunks ? all - c0 : set->chunks;
            for (int p = first; p < end; p++) {
                const char *w =
                    (const char *)g->w->data + (size_t)p * panel_bytes + (size_t)c0 * INT_STEPS * step_bytes;
                if (set->split) {
                    split_panel(w, chunks * 64, split_w);
                    w = split_w;
                }
                add_block(set, a, w, c0, chunks, split_a, sums + (size_t)(p - first) * (size_t)a->m * GR_PANEL);
            }
        }
        for (int p = first; p < end; p++) {
            gr_avx2_finish(g, p, sums + (size_t)(p - first) * (size_t)a->m * GR_PANEL);
        }
    }
}

static void madd_tile(const struct gr_avx2_int_block *b) { int_tile(0, b); }

void gr_avx2_gemm_i8(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    static const struct gr_avx2_int set = {.tile = madd_tile, .chunks = SPLIT_K / 64, .split = 1};
    gr_avx2_int_gemm(&set, g, p0, p1, scratch);
}

void gr_avx2_gemm_i16(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    static const struct gr_avx2_int set = {.tile = madd_tile, .chunks = GR_AVX2_I16_CHUNKS};
    gr_avx2_int_gemm(&set, g, p0, p1, scratch);
}

double gr_avx2_int_rate(double ops, __m256i (*chains)(int steps, __m256i x, __m256i w))
{
    enum { STEPS = 30000, RUNS = 5 };
    static const volatile int seed[2] = {0x01010101, 0x02020202};
    volatile int sink = 0;
    double best = 0.0;
    for (int run = 0; run < RUNS; run++) {
        const __m256i x = _mm256_set1_epi32(seed[0]), w = _mm256_set1_epi32(seed[1]);
        const double start_ms = gr_clock_ms();
        sink = sink + _mm256_extract_epi32(chains(STEPS, x, w), 0);
        const double rate = ops * GR_AVX2_INT_CHAINS * STEPS / (gr_clock_ms() - start_ms) * 1e-6;
        best = rate > best ? rate : best;
    }
    return best;
}

static __m256i madd_chains(int steps, __m256i x, __m256i w) { return int_chains(0, steps, x, w); }

double gr_avx2_int_peak(void) { return gr_avx2_int_rate(2.0 * 16, madd_chains); }
