/* SPDX-License-Identifier: Apache-2.0
 *
 * resize.h: the two integer-exact resizers of the image chain: area interpolation of a square picture (spec/preprocess.md
 * 2.1) and Pillow's bicubic (2.2). Tables live in memory of the caller; a run allocates nothing. */
#ifndef GR_MODEL_RESIZE_H
#define GR_MODEL_RESIZE_H

#include <stddef.h>
#include <stdint.h>

/* A square picture [side, side, 3] uint8 of which the part [height, width, 3] at row `top`, column `left` is stored and the
 * rest is zero: a letterboxed frame without the copy. */
struct gr_square {
    const uint8_t *rgb;
    size_t stride_bytes;
    int height, width, top, left, side;
};

/* Tables of one area resize n -> d, and the rows it works in. */
struct gr_area {
    enum { GR_AREA_COPY, GR_AREA_WHOLE, GR_AREA_TABLE, GR_AREA_UP } kind;
    int n_max, d;                   /* fixed by gr_area_place */
    int n;                          /* size the tables are made for; 0: none yet */
    int k;                          /* WHOLE: n / d */
    int n_entries;                  /* TABLE: entries in order of destination, then source */
    int32_t *entry_dst, *entry_src; /* [n_max + 2*d] */
    float *entry_weight;
    int32_t *ofs, *c0, *c1; /* UP: [d] first source column and its two 11-bit weights */
    uint8_t *row;           /* [3*n_max] one source row with its padding */
    uint16_t *sum;          /* [3*n_max] WHOLE: k rows added up */
    float *line, *acc;      /* [3*d] TABLE: a row after the horizontal pass, a destination row being summed */
    int32_t *pair[2];       /* [3*d] UP: two neighbouring rows after the horizontal pass */
};

/* Places the arrays in `memory` (64-byte aligned) and returns the bytes they take; memory NULL only counts.
 * n_max / d must be at most 257 (sums of k bytes in uint16). */
size_t gr_area_place(struct gr_area *a, int n_max, int d, void *memory);
/* Makes the tables for n <= n_max; does nothing when they are there already. */
void gr_area_plan(struct gr_area *a, int n);
/* src of side a->n to out [d, d, 3]. */
void gr_area_run(const struct gr_area *a, const struct gr_square *src, uint8_t *out);

/* Tables of Pillow's bicubic n -> m: weights in 22-bit fixed point. */
struct gr_bicubic {
    int n, m, taps_max;
    int32_t *lo, *taps; /* [m] first source index, number of weights */
    int32_t *weight;    /* [m, taps_max] */
    uint8_t *half;      /* [n, m, 3] after the horizontal pass */
};

/* As gr_area_place; with memory the tables are made too. */
size_t gr_bicubic_place(struct gr_bicubic *b, int n, int m, void *memory);
/* in [n, n, 3] to out [m, m, 3]. */
void gr_bicubic_run(const struct gr_bicubic *b, const uint8_t *in, uint8_t *out);

#endif
