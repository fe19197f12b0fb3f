/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_group.h: small groups of tiles on the CPU machine, for tests that write their operation lists by hand. */
#ifndef GR_BH_GROUP_TEST_H
#define GR_BH_GROUP_TEST_H

#include "device/blackhole/machine.h"
#include "device/blackhole/program.h"

enum {
    BH_TILES_MAX = 4,
    BH_OPS_MAX = 24,
    BH_SIDE = 32,
    BH_ELEMENTS = 1024,
    BH_DATA = 0x20000, /* for operands */
    BH_OUT = 0x60000,  /* out of an operation unless it says else */
    BH_RING = 0x100000,
    BH_RING_BYTES = 0x4000,
    BH_STREAM = 0x10000 /* first byte of stream s in DRAM channel tile + 4 s */
};

/* Two columns of tiles from (1, 2) on. Destinations of every tile: 0: all others, 1: all and itself, 2 + n: tile n. */
struct bh_group {
    struct gr_bh_machine *m;
    int tiles;
    uint32_t xy[BH_TILES_MAX];
    struct gr_bh_op op[BH_TILES_MAX][BH_OPS_MAX];
    uint32_t ops;
    struct gr_err err;
};
void group_open(struct bh_group *g, int tiles, enum gr_bh_arithmetic arithmetic, int threads);
void group_close(struct bh_group *g);

/* The next operation, alike on every tile until changed: one output tile, four phases. Returns tile 0's; group_alike gives it to all. */
struct gr_bh_op *group_add(struct bh_group *g, enum gr_bh_kind kind);
void group_alike(struct bh_group *g);
/* A segment of one k. */
struct gr_bh_segment group_segment(uint32_t a, enum gr_bh_format fmt_a, uint32_t b, enum gr_bh_format fmt_b,
                                   uint32_t flags);

/* Ends the list, starts it and runs n operations; must succeed. */
void group_must_run(struct bh_group *g, uint32_t n);
/* The same; must be refused as a fault of the device, with `words` in the message. */
void group_must_fail(struct bh_group *g, uint32_t n, const char *words);
void group_go_on(struct bh_group *g, uint32_t n);

float group_random(void); /* -1..1; the same sequence after group_open */
/* Random numbers up to `scale` to a tile of L1, of one tile of the group or (-1) of all. v: what was stored. */
void group_put(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, float scale, float *v);
void group_put_values(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, const float *v);
void group_get(struct bh_group *g, int tile, uint32_t addr, enum gr_bh_format f, float *v);
/* Random tile number i of a stream. */
void group_put_stream(struct bh_group *g, int tile, int stream, uint32_t i, enum gr_bh_format f, float *v);

#endif
