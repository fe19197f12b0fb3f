/* SPDX-License-Identifier: Apache-2.0
 *
 * build_impl.h: what the parts of the builder share: bh_build.c (L1, operations, destinations, pieces, arrays), build_loop.c (the list
 * and its loops), build_finish.c (lists, ring, streams),
 * build_inputs.c.
 *
 * The builder walks the lists as the tiles do. Everything that is appended stands at a cursor: in the first round of a loop at the end;
 * in later rounds the cursors go back, and what is emitted there must be what the first round emitted. */
#ifndef GR_BLACKHOLE_BUILD_IMPL_H
#define GR_BLACKHOLE_BUILD_IMPL_H

#include "device/blackhole/bh_build.h"

struct gr_bh_dest_list {
    struct gr_bh_dest *v;
    size_t n, cap, at;
};
struct gr_bh_piece_list {
    struct gr_bh_piece *v;
    size_t n, cap, at;
    size_t bytes;    /* of all pieces */
    size_t op_bytes; /* of those of the open operation */
};
struct gr_bh_io_list {
    struct gr_bh_io *v; /* names are owned */
    size_t n, cap;
};
struct gr_bh_loop_state {
    size_t body, end; /* end: behind the first round, once that is known */
    int count, round;
    unsigned rewind;
    size_t *dest_at;  /* [tiles] cursors at the beginning */
    size_t *piece_at; /* [tiles * GR_BH_STREAMS] */
};

struct gr_bh_build {
    struct gr_bh_build_cfg cfg;
    int tiles;
    struct gr_err err; /* the first failure */
    bool failed;

    uint32_t top;    /* L1 below is free */
    uint32_t low;    /* lowest it was */
    uint32_t lowest; /* since gr_bh_l1_lowest */

    struct gr_bh_op *op; /* [ops][tiles] */
    size_t ops, ops_cap, at;
    struct gr_bh_op *pending; /* [tiles] the operation that the caller fills; put into the list by gr_bh_build_flush */
    bool open;
    uint32_t executed;
    uint32_t longest; /* chunk */

    struct gr_bh_dest_list *dest;   /* [tiles] */
    struct gr_bh_piece_list *piece; /* [tiles * GR_BH_STREAMS] */
    struct gr_bh_loop_state loop[GR_BH_NESTING];
    int depth;

    struct gr_bh_constant *constant;
    size_t constants, constants_cap;
    uint32_t constant_bytes;
    struct gr_bh_io_list input, output, tap;

    struct gr_bh_program program;
    void **list;
    struct gr_bh_stream_plan *plan;
};

/* Constants are addressed from here on until they have a place: no address in L1 is as high. */
#define GR_BH_CONSTANTS_AT 0x40000000u

/* v with room for one more element than its n; on failure v as it was, and b has failed. */
void *gr_bh_build_grow(struct gr_bh_build *b, void *v, size_t n, size_t *cap, size_t size);
/* Bytes of the longest list of a tile with `more` operations than there are. */
size_t gr_bh_build_list_bytes(const struct gr_bh_build *b, size_t more);
/* Checks the open operation and puts it into the list. */
void gr_bh_build_flush(struct gr_bh_build *b);
/* Puts the operations of all tiles [tiles] at the cursor. */
void gr_bh_build_put(struct gr_bh_build *b, const struct gr_bh_op *row);
bool gr_bh_build_same_piece(const struct gr_bh_piece *a, const struct gr_bh_piece *b);
/* Sets `after` of the inputs; the lists are made. */
void gr_bh_build_free_inputs(struct gr_bh_build *b);
/* Tiles of the grid's rectangle. */
unsigned gr_bh_rectangle_tiles(const struct gr_bh_grid *grid);

#endif
