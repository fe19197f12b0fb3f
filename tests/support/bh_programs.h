/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_programs.h: small programs of tile operations for tests, made by hand: lists of every tile, L1 contents, streams. The same program can
 * be loaded onto any machine. Failures fail the running test. */
#ifndef GR_BH_PROGRAMS_H
#define GR_BH_PROGRAMS_H

#include "device/blackhole/machine.h"
#include "device/blackhole/program.h"
#include "device/blackhole/tile_format.h"

enum { BH_TILES_MAX = 4, BH_OPS_MAX = 32, BH_DESTS_MAX = 32, BH_L1_DATA = 0x10000, BH_L1_DATA_BYTES = 0x60000 };

struct bh_program {
    int w, h; /* tiles, from row 2 on */
    struct gr_bh_grid grid;
    uint32_t xy[BH_TILES_MAX];
    struct gr_bh_head head[BH_TILES_MAX];
    struct gr_bh_op op[BH_TILES_MAX][BH_OPS_MAX];
    struct gr_bh_dest dest[BH_TILES_MAX][BH_DESTS_MAX];
    uint8_t *l1[BH_TILES_MAX]; /* BH_L1_DATA_BYTES from BH_L1_DATA on */
    uint8_t *stream[BH_TILES_MAX][GR_BH_STREAMS];
    size_t stream_bytes[BH_TILES_MAX][GR_BH_STREAMS];
    uint32_t free_l1;
};

/* A group of w x h tiles, w * h <= BH_TILES_MAX, ring of ring_bytes. Freed by bh_program_free. */
struct bh_program *bh_program_new(int w, int h, uint32_t ring_bytes);
struct bh_program *bh_program_new_at(int x0, int w, int h, uint32_t ring_bytes); /* from column x0 = 1..7 on */
void bh_program_free(struct bh_program *p);
/* The last tiles of the rectangle do not belong to the group. To be called first. */
void bh_leave_out(struct bh_program *p, int unused);

/* The next operation of all tiles: COMPUTE, 4 phases, 1 x 1, bf16 out, complete order. Returns its index in p->op[tile]. */
int bh_op(struct bh_program *p);
int bh_mark(struct bh_program *p, enum gr_bh_kind kind, int count, unsigned rewind); /* LOOP, NEXT, END */
/* n tiles of f in L1, the same on every tile. */
uint32_t bh_room(struct bh_program *p, enum gr_bh_format f, int n);
/* values [rows 32, cols 32] of one tile to `at` on `tile`, -1: on all. Kept as L1 has them (bh_get reads that back). */
void bh_put(struct bh_program *p, int tile, uint32_t at, enum gr_bh_format f, const float *values);
void bh_get(const struct bh_program *p, int tile, uint32_t at, enum gr_bh_format f, float *values);
/* Appends a tile to a stream; pads the stream to 64 bytes. Returns its bytes. */
size_t bh_feed(struct bh_program *p, int tile, int stream, enum gr_bh_format f, const float *values);
/* A destination of tile t: one tile, or all. Returns its index. */
uint16_t bh_dest_one(struct bh_program *p, int tile, int to);
uint16_t bh_dest_all(struct bh_program *p, int tile, bool self);

/* A segment over kcount tiles that lie one behind the other. */
struct gr_bh_segment bh_segment(unsigned flags, enum gr_bh_format fa, uint32_t a, enum gr_bh_format fb, uint32_t b,
                                uint32_t kcount);
uint32_t bh_bits(float v); /* of fp32 */

/* Values in (-scale, scale), the same for the same seed; 1024 of them. */
void bh_random(uint32_t *seed, float scale, float *values);

/* Lists, L1 and streams to the machine, and start. */
void bh_load(const struct bh_program *p, struct gr_bh_machine *m);
/* Reads a tile from the machine's L1: as bytes, and as values. */
void bh_read(struct gr_bh_machine *m, int tile, uint32_t at, enum gr_bh_format f, void *bytes, float *values);

#endif
