/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_amx.c: int8 and bf16 products on tile registers. Two row tiles by the two column registers of a panel: four tiles of
 * sums, two of activations, two of weights; a chunk of k is four loads and four tdp instructions of 13 cycles each.
 *
 * Loop order: panel > block of k > pairs of row tiles; a block goes on with the sums that the one before stored. With many rows the tile
 * loads bind, and a block is short enough for its weights to stay in L1. With few rows memory binds: 51 rows could take
 * four times the weights that arrive. Then the next block is fetched in several places at once, because the hardware's prefetcher, which
 * alone has more lines in flight than the core's 16 line buffers, runs 20 lines ahead in each page it sees touched.
 * With one place the same loop got 55 % of the bandwidth of a plain read, with eight 74 to 79 %.
 *
 * int8 sums are exact. tdpbf16ps sums the even and the odd k of a chunk of 32 in two chains of 16, adds the two, then the result to
 * the tile, each step rounded to nearest even, denormal inputs and results taken as zero, whatever MXCSR says. Products of two bf16
 * are exact in float, so that a sum is off by at most (k_pad / 32 + 18) 2^-24 sum |a w|. The bits depend on k alone, not on blocks or
 * rows. NaN and infinity propagate. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/amx/amx.h"
#include "kernels/avx512/finish_avx512.h"

enum {
    FEW_TILES = 4,      /* up to here the sums of a pair, not its weights, are worth keeping at hand */
    BLOCK_FEW = 24,     /* chunks of a block: 48 KiB of weights */
    BLOCK_MANY = 12,    /* half of L1 */
    CHUNK_BYTES = 2048, /* of weights: 16 groups of k x 32 columns x 4 bytes */
    STREAMS = 8,        /* places where the next block is fetched at once; pages, about */
    LINE = 64,
    SUMS_STRIDE = GR_PANEL * 4,
    TILE_WIDTH = 64,
    TAIL_BYTES = 1024 /* GR_TILE_ROWS x TILE_WIDTH, padded */
};

/* The operand of ldtilecfg. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* What is to be fetched: STREAMS parts side by side, `lines` lines of each left. */
struct fetch {
    const char *at;
    size_t part; /* bytes from one part to the next */
    int lines;
    int each; /* lines of every part for every chunk that runs */
};

/* A pair of row tiles in one block of k. */
struct pair {
    const char *a[2];    /* activations: [chunks][rows][64] */
    const char *last[2]; /* of the last chunk */
    int rows[2];         /* rows[1] == 0: one row tile alone */
    const char *w;       /* [chunks][2048] */
    int chunks;
    char *sums;        /* [2][tile_rows][32] */
    size_t tile_bytes; /* of sums */
    bool first;        /* block of the panel: start from zero */
    const char *out;   /* rows that this pair will be written to, NULL: not yet */
    size_t out_stride; /* bytes */
};

/* Tiles 0, 1: sums of the upper row tile; 2, 3: of the lower; 4, 5: activations; 6, 7: weights. */
static void set_tiles(int rows)
{
    const uint8_t r = (uint8_t)rows;
    struct tile_config c = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {r, r, r, r, r, r, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(c)); /* gcc's intrinsic declares 8 bytes of its operand only */
}

GR_INLINE void fetch_step(struct fetch *f)
{
    const int n = f->lines < f->each ? f->lines : f->each;
    for (int i = 0; i < n; i++, f->at += LINE) {
        GR_UNROLL
        for (int part = 0; part < STREAMS; part++) {
            _mm_prefetch(f->at + (size_t)part * f->part, _MM_HINT_T1);
        }
    }
    f->lines -= n;
}

/* Output rows [first, first + n) of the pair, two lines each: a row's lines lie far from the next row's, and the stores would wait for them. */
GR_INLINE void claim_output(const struct pair *t, int first, int n)
{
    const int rows = t->rows[0] + t->rows[1];
    for (int r = first; r < first + n && r < rows; r++) {
        const char *line = t->out + (size_t)r * t->out_stride;
        __asm__ volatile("prefetchw %0\n\tprefetchw %1" : : "m"(line[0]), "m"(line[LINE]));
    }
}

#define TDP(c, a, b)                 \
    do {                             \
        if (f == GR_MAT_I8) {        \
            _tile_dpbusd(c, a, b);   \
        } else {                     \
            _tile_dpbf16ps(c, a, b); \
        }                            \
    } while (0)

/* Loads stand close before the instruction that needs them: in a burst they would delay the first one. */
GR_INLINE void chunk_run(const enum gr_mat_format f, const bool two, const char *a0, const char *a1, const char *w)
{
    _tile_loadd(6, w, 128);
    _tile_loadd(4, a0, TILE_WIDTH);
    TDP(0, 4, 6);
    _tile_loadd(7, w + 64, 128);
    TDP(1, 4, 7);
    if (two) {
        _tile_loadd(5, a1, TILE_WIDTH);
        TDP(2, 5, 6);
        TDP(3, 5, 7);
    }
}

GR_INLINE void pair_run(const enum gr_mat_format f, const bool two, const struct pair *t, struct fetch *next)
{
    const size_t step0 = (size_t)t->rows[0] * TILE_WIDTH, step1 = (size_t)t->rows[1] * TILE_WIDTH;
    const char *a0 = t->a[0], *a1 = t->a[1], *w = t->w;
    char *const sums0 = t->sums, *const sums1 = t->sums + t->tile_bytes;
    const int claims = (t->rows[0] + t->rows[1] + t->chunks - 1) / t->chunks;
    struct fetch ahead = *next; /* in registers */
    if (t->first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums0, SUMS_STRIDE);
        _tile_loadd(1, sums0 + LINE, SUMS_STRIDE);
        if (two) {
            _tile_loadd(2, sums1, SUMS_STRIDE);
            _tile_loadd(3, sums1 + LINE, SUMS_STRIDE);
        }
    }
    for (int i = 0; i < t->chunks - 1; i++) {
        chunk_run(f, two, a0, a1, w);
        fetch_step(&ahead);
        if (t->out != NULL) {
            claim_output(t, i * claims, claims);
        }
        w += CHUNK_BYTES;
        a0 += step0;
        a1 += step1;
    }
    chunk_run(f, two, t->last[0], t->last[1], w);
    fetch_step(&ahead);
    _tile_stored(0, sums0, SUMS_STRIDE);
    _tile_stored(1, sums0 + LINE, SUMS_STRIDE);
    if (two) {
        _tile_stored(2, sums1, SUMS_STRIDE);
        _tile_stored(3, sums1 + LINE, SUMS_STRIDE);
    }
    *next = ahead;
}

static __attribute__((noinline)) void finish_i8(const struct gr_gemm *g, int panel, int row, int rows, const void *sums)
{
    finish_tile(GR_MAT_I8, g, panel, row, rows, sums);
}

static __attribute__((noinline)) void finish_bf16p(const struct gr_gemm *g, int panel, int row, int rows,
                                                   const void *sums)
{
    finish_tile(GR_MAT_BF16P, g, panel, row, rows, sums);
}

typedef void finish_fn(const struct gr_gemm *g, int panel, int row, int rows, const void *sums);

struct plan {
    const struct gr_gemm *g;
    int chunks;    /* of a whole panel */
    int block;     /* of a block, the last of a panel may be shorter */
    int stop;      /* panels of this thread end here */
    int tile_rows; /* of the higher row tiles */
    char *tail;    /* the last chunk of the last row tile, with room behind it */
    char *sums;    /* [tiles][tile_rows][32] */
};

/* The block that follows chunk `end` of a panel, or behind this thread's panels what the caller knows to follow; `steps` chunks run
 * meanwhile. */
static struct fetch fetch_after(const struct plan *p, int panel, int end, int steps)
{
    const char *at = (const char *)p->g->w->data + ((size_t)panel * (size_t)p->chunks + (size_t)end) * CHUNK_BYTES;
    const char *stop = (const char *)p->g->w->data + (size_t)p->stop * (size_t)p->chunks * CHUNK_BYTES;
    size_t bytes = (size_t)(stop - at);
    if (bytes == 0) {
        at = p->g->next;
        bytes = at != NULL ? p->g->next_bytes : 0;
    }
    const size_t block = (size_t)p->block * CHUNK_BYTES;
    const int lines = (int)((bytes < block ? bytes : block) / (STREAMS * LINE));
    return (struct fetch){at, (size_t)lines * LINE, lines, (lines + steps - 1) / steps};
}

/* Sets the parts of t that belong to its row tile `slot`: `rows` rows from `row` on, of which chunks [c, c + n) run. */
GR_INLINE void set_rows(const struct plan *p, struct pair *t, int slot, int row, int rows, int c, int n)
{
    const size_t tile = (size_t)rows * TILE_WIDTH;
    const char *a = (const char *)p->g->a->data + (size_t)row * (size_t)p->chunks * TILE_WIDTH;
    t->rows[slot] = rows;
    t->a[slot] = a + (size_t)c * tile;
    t->last[slot] = c + n == p->chunks && row + rows == p->g->a->m ? p->tail : a + (size_t)(c + n - 1) * tile;
}

static finish_fn *const finish_of[] = {[GR_MAT_I8] = finish_i8, [GR_MAT_BF16P] = finish_bf16p};

/* Chunks [c, c + n) of one panel: all pairs of row tiles. */
GR_INLINE void block_run(const enum gr_mat_format f, const struct plan *p, int panel, int c, int n)
{
    const struct gr_gemm *g = p->g;
    const int m = g->a->m, tiles = gr_tile_count(m), base = m / tiles, extra = m % tiles; /* as gr_tile_first */
    const int columns = g->epilogue == GR_EPI_SILU_MUL ? GR_PANEL / 2 : GR_PANEL;
    const bool last = c + n == p->chunks;
    struct fetch next = fetch_after(p, panel, c + n, (tiles + 1) / 2 * n);
    struct pair t = {.w = (const char *)g->w->data + ((size_t)panel * (size_t)p->chunks + (size_t)c) * CHUNK_BYTES,
                     .chunks = n,
                     .sums = p->sums,
                     .tile_bytes = (size_t)p->tile_rows * SUMS_STRIDE,
                     .first = c == 0,
                     .out_stride = (size_t)g->ldo * sizeof *g->out};
    int row = 0;
    for (int i = 0; i < tiles; i += 2, t.sums += 2 * t.tile_bytes) {
        const bool two = i + 1 < tiles;
        const int rows0 = base + (i < extra), rows1 = two ? base + (i + 1 < extra) : 0;
        set_rows(p, &t, 0, row, rows0, c, n);
        set_rows(p, &t, 1, row + rows0, rows1, c, n);
        t.out = last ? (const char *)(g->out + (size_t)row * (size_t)g->ldo + (size_t)panel * (size_t)columns) : NULL;
        if (two) {
            pair_run(f, true, &t, &next);
        } else {
            pair_run(f, false, &t, &next);
        }
        if (last) {
            finish_of[f](g, panel, row, rows0, t.sums);
            if (two) {
                finish_of[f](g, panel, row + rows0, rows1, t.sums + t.tile_bytes);
            }
        }
        row += rows0 + rows1;
    }
}

/* Row tiles are one row lower from some tile on, but setting tile sizes costs as much as 30 tdp instructions. So all are read
 * at the height of the higher ones: the row too many is the first of the next chunk, and its sums are not looked at. Behind the last
 * chunk of the last tile nothing may be read: that one is copied. */
static void copy_tail(const struct plan *p)
{
    const int m = p->g->a->m, tiles = gr_tile_count(m), rows = m / tiles;
    const char *end = (const char *)p->g->a->data + (size_t)m * (size_t)p->chunks * TILE_WIDTH;
    memset(p->tail, 0, (size_t)p->tile_rows * TILE_WIDTH);
    memcpy(p->tail, end - (size_t)rows * TILE_WIDTH, (size_t)rows * TILE_WIDTH);
}

GR_INLINE void gemm_run(const enum gr_mat_format f, const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const int chunks = g->a->k_pad / gr_row_chunk(gr_mat_rows(f));
    const int most = gr_tile_count(g->a->m) <= FEW_TILES ? BLOCK_FEW : BLOCK_MANY, blocks = (chunks + most - 1) / most;
    const struct plan p = {.g = g,
                           .chunks = chunks,
                           .block = (chunks + blocks - 1) / blocks,
                           .stop = p1,
                           .tile_rows = gr_tile_first(g->a->m, 1),
                           .tail = scratch,
                           .sums = (char *)scratch + TAIL_BYTES};
    copy_tail(&p);
    set_tiles(p.tile_rows);
    for (int panel = p0; panel < p1; panel++) {
        for (int c = 0; c < chunks; c += p.block) {
            block_run(f, &p, panel, c, chunks - c < p.block ? chunks - c : p.block);
        }
    }
    _tile_release();
}

void gr_gemm_i8_amx(const struct gr_gemm *g, int p0, int p1, void *scratch) { gemm_run(GR_MAT_I8, g, p0, p1, scratch); }

void gr_gemm_bf16p_amx(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    gemm_run(GR_MAT_BF16P, g, p0, p1, scratch);
}

enum { PEAK_LOOPS = 20000, PEAK_CHAINS = 4, PEAK_TRIES = 3, PEAK_OPS = 2 * 16 * 16 }; /* of one k */

GR_INLINE double peak_of(const enum gr_mat_format f)
{
    double best_ms = 1e30;
    set_tiles(16);
    for (int i = 0; i < PEAK_TRIES; i++) {
        double start_ms = gr_clock_ms();
        for (int n = 0; n < PEAK_LOOPS; n++) {
            TDP(0, 4, 6);
            TDP(1, 4, 7);
            TDP(2, 5, 6);
            TDP(3, 5, 7);
        }
        double ms = gr_clock_ms() - start_ms;
        best_ms = ms < best_ms ? ms : best_ms;
    }
    _tile_release();
    return (double)PEAK_OPS * (f == GR_MAT_I8 ? 64 : 32) * PEAK_CHAINS * PEAK_LOOPS / best_ms / 1e6;
}

double gr_peak_i8_amx(void) { return peak_of(GR_MAT_I8); }
double gr_peak_bf16p_amx(void) { return peak_of(GR_MAT_BF16P); }
