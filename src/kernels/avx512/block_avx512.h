/* SPDX-License-Identifier: Apache-2.0
 *
 * block_avx512.h: the loops that all low-precision products of the AVX-512 sets share; they differ in the multiply instruction only.
 * The including file defines before: `typedef ... gr_sum`, the accumulator, in the very type of the instruction's builtin (int32 or half
 * lanes, not __m512i): gcc keeps a converted copy of every accumulator otherwise, and spills half of them in every step.
 *
 * Tile: up to 13 rows x 2 registers of columns: 26 accumulators, 2 weights, 1 broadcast of the 32 registers. A step takes 2
 * weight loads and 13 dword broadcasts (no shuffle) for 26 multiply-adds. The accumulators stay in registers only while nothing
 * but the multiply loop stands between their first and last use, so a tile function ends where its sums leave for memory
 * (tools/check_spills.py looks at that).
 *
 * Loop order: panel > block of k > row tiles. A block of weights is read from memory once and its activations stay in L2; while
 * its tiles run, the block after it is fetched, a few lines every quarter chunk. One chunk of weights has 2048 bytes in all
 * formats that are not fp32. */
#ifndef GR_KERNELS_BLOCK_AVX512_H
#define GR_KERNELS_BLOCK_AVX512_H

#include <stdbool.h>

#include "kernels/avx512/math_avx512.h"
#include "kernels/kernels.h"

enum {
    GR_WEIGHT_CHUNK = 2048, /* bytes of a panel's chunk: 16 steps of two registers */
    GR_BLOCK_CHUNKS =
        24, /* 48 KiB of weights a block: L2 feeds the loop as well as L1, and fewer blocks mean fewer calls */
    GR_SEGMENTS_CHUNKS = 8, /* blocks end at multiples of it: no segment of int16 or half sums crosses a block */
    GR_QUARTERS = 4
};

/* One row tile in one block of k (or a segment of it). */
struct gr_tile {
    const char *a; /* [chunks][rows][64 bytes] */
    const char *w; /* [chunks][16][2][64 bytes] */
    int chunks;
    bool first;           /* sums start here: what stands in them is not valid */
    void *sums;           /* [rows][columns of the panel] */
    const char *prefetch; /* this tile's part of the block after this one */
    int prefetch_lines;   /* lines of it for every quarter chunk */
};

typedef int32_t __attribute__((may_alias)) gr_dword; /* a broadcast reads rows that were stored as bytes or halves */

typedef gr_sum gr_multiply_fn(gr_sum sum, __m512i x, __m512i w);

/* acc += a w over t->chunks. rows and multiply are compile-time constants. */
GR_INLINE void gr_tile_multiply(const int rows, gr_multiply_fn *multiply, const struct gr_tile *t,
                                gr_sum acc[GR_TILE_ROWS][2])
{
    const char *a = t->a, *w = t->w, *prefetch = t->prefetch;
    const int lines = t->prefetch_lines;
    for (int chunk = t->chunks; chunk > 0; chunk--) {
        for (int quarter = 0; quarter < GR_QUARTERS; quarter++) {
            for (int i = 0; i < lines; i++) {
                _mm_prefetch(prefetch + 64 * i, _MM_HINT_T1);
            }
            prefetch += 64 * lines;
            GR_UNROLL
            for (int i = 0; i < 4; i++) {
                __m512i w0 = _mm512_load_si512(w + 128 * i), w1 = _mm512_load_si512(w + 128 * i + 64);
                GR_UNROLL
                for (int r = 0; r < rows; r++) {
                    __m512i x = _mm512_set1_epi32(*(const gr_dword *)(a + r * GR_CHUNK_BYTES + 4 * i));
                    acc[r][0] = multiply(acc[r][0], x, w0);
                    acc[r][1] = multiply(acc[r][1], x, w1);
                }
            }
            w += GR_WEIGHT_CHUNK / GR_QUARTERS;
            a += 16;
        }
        a += (rows - 1) * GR_CHUNK_BYTES;
    }
}

/* The tile after `chunks` of this one, in the same rows. */
GR_INLINE void gr_tile_advance(struct gr_tile *t, int rows, int chunks)
{
    t->a += (ptrdiff_t)chunks * rows * GR_CHUNK_BYTES;
    t->w += (ptrdiff_t)chunks * GR_WEIGHT_CHUNK;
    t->prefetch += (ptrdiff_t)chunks * GR_QUARTERS * 64 * t->prefetch_lines;
    t->first = false;
}

/* Adds the tile's product to its sums. */
typedef void gr_tile_fn(int rows, struct gr_tile *t);
typedef void gr_finish_fn(const struct gr_gemm *g, int panel, int row, int rows, const void *sums);

/* Chunks of a block: as even as possible. */
static inline int gr_block_chunks(int chunks)
{
    int blocks = (chunks + GR_BLOCK_CHUNKS - 1) / GR_BLOCK_CHUNKS, even = (chunks + blocks - 1) / blocks;
    return (even + GR_SEGMENTS_CHUNKS - 1) / GR_SEGMENTS_CHUNKS * GR_SEGMENTS_CHUNKS;
}

/* Where the stream goes on after a block, and how many lines of it are to be fetched. */
struct gr_stream {
    const char *at;
    size_t lines;
};

/* The next block, or at the end of this thread's panels what the caller knows to follow. */
static inline struct gr_stream gr_stream_after(const struct gr_gemm *g, const char *block_end, const char *stop,
                                               size_t bytes)
{
    const char *at = block_end < stop ? block_end : g->next;
    size_t left = block_end < stop ? (size_t)(stop - block_end) : g->next != NULL ? g->next_bytes : 0;
    return (struct gr_stream){at, (left < bytes ? left : bytes) / 64};
}

/* One block of a panel: chunks [c, c + n) of `chunks`, all row tiles. The lines of the next block are spread over the tiles: a burst
 * of them fills the few buffers for lines in flight, and then every load waits. */
GR_INLINE void gr_block_run(const enum gr_mat_format format, const struct gr_gemm *g, int panel, int c, int n,
                            int chunks, struct gr_stream next, char *sums, gr_tile_fn *run, gr_finish_fn *finish)
{
    const int m = g->a->m, tiles = gr_tile_count(m), base = m / tiles, extra = m % tiles; /* as gr_tile_first */
    const size_t quarters = (size_t)n * GR_QUARTERS, row_sums = (size_t)gr_mat_cols(format) * sizeof(float);
    const size_t even = (next.lines + (size_t)tiles * quarters - 1) / ((size_t)tiles * quarters);
    struct gr_tile t = {.a = (const char *)g->a->data,
                        .w = (const char *)g->w->data + ((size_t)panel * (size_t)chunks + (size_t)c) * GR_WEIGHT_CHUNK,
                        .chunks = n};
    int row = 0;
    for (int i = 0; i < tiles; i++) {
        const int rows = base + (i < extra);
        const size_t lines = next.lines >= even * quarters ? even : next.lines / quarters;
        struct gr_tile tile = t;
        tile.a += ((size_t)row * (size_t)chunks + (size_t)c * (size_t)rows) * GR_CHUNK_BYTES;
        tile.first = c == 0;
        /* With one block a tile is finished at once, and all tiles share the same lines. */
        tile.sums = sums + (n == chunks ? 0 : (size_t)row * row_sums);
        tile.prefetch = next.at;
        tile.prefetch_lines = (int)lines;
        next.at += 64 * lines * quarters;
        next.lines -= lines * quarters;
        const void *finished = tile.sums;
        run(rows, &tile);
        if (c + n == chunks) {
            finish(g, panel, row, rows, finished);
        }
        row += rows;
    }
}

/* Panels [p0, p1) of a product. sums: [m][columns of a panel], 64-byte aligned. format, run and finish are compile-time constants. */
GR_INLINE void gr_block_loop(const enum gr_mat_format format, const struct gr_gemm *g, int p0, int p1, void *sums,
                             gr_tile_fn *run, gr_finish_fn *finish)
{
    const int chunks = g->a->k_pad / gr_row_chunk(gr_mat_rows(format)), step = gr_block_chunks(chunks);
    const char *data = g->w->data, *stop = data + (size_t)p1 * (size_t)chunks * GR_WEIGHT_CHUNK;
    for (int p = p0; p < p1; p++) {
        for (int c = 0; c < chunks; c += step) {
            const int n = chunks - c < step ? chunks - c : step;
            const char *end = data + ((size_t)p * (size_t)chunks + (size_t)(c + n)) * GR_WEIGHT_CHUNK;
            struct gr_stream next = gr_stream_after(g, end, stop, (size_t)step * GR_WEIGHT_CHUNK);
            gr_block_run(format, g, p, c, n, chunks, next, sums, run, finish);
        }
    }
}

#endif
