/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.h: layers of a transformer as tile operations (bh_build.h). Each call emits operations for all tiles of the group.
 *
 * Buffers in L1 are overlaid freely under one rule: what is sent to a tile between two barriers must not touch what that tile reads or
 * writes itself between the same two barriers. Operations of one tile are complete in order, so what only one tile uses needs no rule. */
#ifndef GR_BLACKHOLE_LAYERS_H
#define GR_BLACKHOLE_LAYERS_H

#include "device/blackhole/bh_build.h"

/* Constant tiles that the layers use, and the stage: how the rows and columns of a layer lie on the tiles.
 *
 * Rows may be split into groups: group g has some row tiles of everything, and column n of its rows is on tile g * columns + n. A group
 * gathers its rows among its own tiles; keys and values go to all groups. Tiles behind the last group take no part. */
struct gr_bh_tiles {
    int groups, columns;                                /* row groups and tiles of each; 0: one group of all tiles */
    struct gr_bh_buf identity, ones, minus_ones, zeros; /* bf16 */
    struct gr_bh_buf e0;                                /* ones in column 0: spreads row 0 of B over all rows */
    struct gr_bh_buf minus_e0;
};
struct gr_bh_tiles gr_bh_tiles_new(struct gr_bh_build *b);

/* Constant array [mt, nt] bf16 in one buffer, filled by an operation a tile. value(user, r, c) with r and c in the whole array. */
struct gr_bh_buf gr_bh_emit_array(struct gr_bh_build *b, const struct gr_bh_tiles *t, const char *name, int mt, int nt,
                                  float (*value)(void *user, int r, int c), void *user);
/* The same into a buffer that is there; zeros into any buffer, with a barrier. */
void gr_bh_emit_fill(struct gr_bh_build *b, const struct gr_bh_tiles *t, const char *name, struct gr_bh_buf out,
                     float (*value)(void *user, int r, int c), void *user);
void gr_bh_emit_zeros(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_buf out);

static inline int gr_bh_stage_groups(const struct gr_bh_tiles *t) { return t->groups > 1 ? t->groups : 1; }
static inline int gr_bh_stage_columns(const struct gr_bh_build *b, const struct gr_bh_tiles *t)
{
    return t->columns > 0 ? t->columns : gr_bh_build_config(b)->grid->tiles;
}
/* Destinations of `tile`: all tiles of its group. */
uint16_t gr_bh_dest_group(struct gr_bh_build *b, const struct gr_bh_tiles *t, int tile, bool self, uint16_t *count);

struct gr_bh_heads;

/* Columns of an output: column tile n of [mt, nt] is computed by tile n mod tiles (of the group). */
struct gr_bh_linear {
    const struct gr_bh_matrix *w;
    struct gr_bh_buf in;  /* gathered [mt, k1 - k0] on every tile, bf16 or fp32 */
    uint32_t in_g, out_g; /* strides of in and out by group: where they hold the rows of all groups */
    int k0, k1;           /* k tiles of this part; bias only with k0 == 0 */
    int n0, n1;           /* column tiles of this part */
    struct gr_bh_buf
        bias_rows; /* A operand of the bias product, [mt, 1]: ones in column 0 of some rows; mt 0: of all rows */
    enum gr_bh_function function;
    float arg;
    struct gr_bh_buf out;            /* own columns: [mt, columns of one tile]; or with gather or heads: */
    bool gather;                     /* the gathered buffer, where column n goes to n - n0 of every tile */
    const struct gr_bh_heads *heads; /* [mt, span]: column n goes to the tiles whose head needs it */
    bool to_groups;                  /* to the tiles of all groups: those that heads say, or tile n */
    bool accumulate;
    bool barrier;
    int stream;
    int back;       /* how many operations just before need not be complete */
    uint32_t out_i; /* stride of out by loop index */
};
void gr_bh_emit_linear(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_linear *l);
/* y = x W + b over the whole of W, its columns on their tiles, from stream 0. The caller fills in the rest. */
struct gr_bh_linear gr_bh_whole(const struct gr_bh_matrix *w, struct gr_bh_buf in, struct gr_bh_buf out);

/* h = norm(x), optionally modulated, gathered on every tile: x own columns fp32 [mt, 1] of width d, zero in columns beyond it. Two barriers.
 * Not rms: at most 64 column tiles share statistics. x - mean has the 10 significand bits of x that the FPU reads; the variance of what these
 * say is right however large the mean. */
struct gr_bh_norm {
    struct gr_bh_buf x;
    uint32_t x_i; /* its stride by loop index */
    int d;        /* divisor of the mean: elements that share statistics */
    int columns;  /* column tiles; 0: ceil(d / 32) */
    int share;    /* column tiles that share statistics, side by side: heads; 0: all */
    int fold; /* row tiles m * fold .. m * fold + fold - 1 are parts of the same rows, d / fold columns each; 0: 1 */
    bool rms; /* RMSNorm: no mean */
    float eps;
    const float *scale,
        *shift; /* [fold, width] of this round: h = n * (1 + scale) + shift from stream `stream`; both NULL: none */
    int width;  /* 0: d / fold */
    int stream;
    struct gr_bh_buf scratch; /* own [mt, GR_BH_NORM_SCRATCH] fp32 */
    struct gr_bh_buf stats;   /* means, then squares (rms: squares alone): row n of a tile sent by tile n */
    struct gr_bh_buf out;     /* gathered [mt, columns] bf16; */
    bool
        own; /* or own columns [mt, 1]: without the second barrier, which must come before the statistics are used again */
    struct gr_bh_buf
        watch; /* [1, 1] fp32, or none: the variances of all rows are added to it on the group's first tile. Whatever
                               overflows before stays in a residual stream, so its last norm knows; products take infinity for a
                               number or for nothing, and the result does not show it */
};
enum { GR_BH_NORM_SCRATCH = 4 };
/* Scratch and statistics of norms of at most mt row tiles and `columns` column tiles. Rows of the statistics that nobody sends must be and stay
 * zero: they are made so here, by an operation with a barrier; nothing may overlay `stats` while its norms are to come, and all norms
 * that share it have the same width. fold divides mt. */
struct gr_bh_buf gr_bh_norm_scratch(struct gr_bh_build *b, int mt);
struct gr_bh_buf gr_bh_norm_stats(struct gr_bh_build *b, const struct gr_bh_tiles *t, int mt, int columns, bool rms);
/* In two steps. */
struct gr_bh_buf gr_bh_norm_stats_alloc(struct gr_bh_build *b, int mt, int columns, bool rms);
void gr_bh_emit_norm_stats(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_buf stats, int columns);
void gr_bh_emit_norm(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n);
/* In two halves, so that several norms share the barrier of the first. */
void gr_bh_emit_norm_send(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n, bool barrier);
void gr_bh_emit_norm_apply(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n);

/* softmax(q k' + mask) v for heads of any width, one head and some of its row tiles a tile.
 * Heads lie side by side in the columns, so a head may begin and end inside a column tile: its tiles hold all column tiles that it touches, as
 * many for every head, and columns of other heads are taken out of the queries by 0/1 tiles. The output has for every head what it
 * holds: the matrix that multiplies it has its rows by gr_bh_heads_rows. */
enum { GR_BH_HEADS_TILES = 140 };
struct gr_bh_heads {
    int heads, head_dim, columns;
    int span;  /* column tiles that a tile holds of queries, keys and values; column c lies in slot c mod span */
    int rows;  /* row tiles of its head that a tile has */
    int parts; /* tiles of a head in each group; 0: there are too few tiles */
    int16_t item[GR_BH_HEADS_TILES]; /* head * parts + part of tile n of a group; -1: none */
    bool whole;                      /* every head fills its column tiles: nothing to take out */
    struct gr_bh_buf masks;          /* [1, span] bf16: 0/1 for each slot of the tile's head */
};
struct gr_bh_heads gr_bh_heads_of(int heads, int head_dim);
/* Gives out heads and row tiles in groups of mt row tiles and `tiles` tiles, to as many tiles as possible. */
void gr_bh_heads_on(struct gr_bh_heads *h, int mt, int tiles);
/* Columns of the output, and the row map (struct gr_bh_matrix) of what multiplies it: which of heads * head_dim each is, -1 where it belongs to
 * another head. */
static inline int gr_bh_heads_out(const struct gr_bh_heads *h) { return 32 * h->heads * h->span; }
void gr_bh_heads_rows(const struct gr_bh_heads *h, int *row);
/* Fills in masks, by operations: into masks that were allocated, or new ones. */
void gr_bh_heads_alloc(struct gr_bh_build *b, struct gr_bh_heads *h);
void gr_bh_emit_heads(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_heads *h);
/* Destinations of column c of queries, keys or values: the tiles that need it but for `tile`, which has it, in its group or in all. dests in
 * *count. */
uint16_t gr_bh_heads_dest(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_heads *h, int tile,
                          int column, bool to_groups, uint16_t *count);

/* For at most `keys` key tiles. */
struct gr_bh_attention_scratch {
    struct gr_bh_buf q;          /* [rows, span] bf16: queries, zero outside the head */
    struct gr_bh_buf p;          /* [rows, keys] bf16: scores, then exp(scores - max) */
    struct gr_bh_buf max, shift; /* [rows, 1] bf16: row maxima along columns; their negative in every row */
    struct gr_bh_buf o, inv;     /* [rows, span], [rows, 1] fp32: p v, 1 / row sums */
};
struct gr_bh_attention_scratch gr_bh_attention_scratch_new(struct gr_bh_build *b, const struct gr_bh_heads *h,
                                                           int keys);

struct gr_bh_attention {
    const struct gr_bh_heads *heads;
    struct gr_bh_buf q;         /* [mt, span] bf16, scaled by head_dim^-0.5 */
    struct gr_bh_buf k, v;      /* [keys, span] bf16 */
    uint32_t k_i, v_i;          /* their strides by loop index */
    struct gr_bh_buf mask;      /* bf16 [1, keys]: row 0 is added to every row of scores; */
    bool mask_rows;             /* or [rows of a tile, keys], added element by element (causal): */
    uint32_t mask_part, mask_i; /* at so many bytes from those of the part before; their stride by loop index */
    struct gr_bh_attention_scratch scratch;
    struct gr_bh_buf out; /* gathered [mt, heads * span] bf16; one barrier */
};
void gr_bh_emit_attention(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a);

#endif
