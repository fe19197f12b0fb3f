/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_cpu.h: parts of the CPU machine (machine_cpu.c): DRAM, one tile and its walk, the race checker.
 *
 * What a tile sends to others waits in its outbox until every tile is at the barrier, and is then written by the thread of the receiver.
 * So no thread touches the L1 of another's tile, and results cannot depend on which tile ran first. A program that needs a send before
 * the next barrier is wrong on the chip, too: the race checker says so. */
#ifndef GR_BLACKHOLE_CPU_H
#define GR_BLACKHOLE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/blackhole/bh_arith.h"
#include "device/blackhole/machine.h"
#include "device/blackhole/program.h"

/* ------------------------------------------------------------------------------------------------------------------- DRAM */

enum { GR_BH_CHANNELS = 8 };
struct gr_bh_dram_page;
/* Channels of 4 GiB; memory is taken in pages where something was written. */
struct gr_bh_dram {
    struct gr_bh_dram_page **page[GR_BH_CHANNELS];
};
void gr_bh_dram_free(struct gr_bh_dram *d);
enum gr_status gr_bh_dram_write(struct gr_bh_dram *d, int channel, uint64_t addr, const void *src, size_t bytes,
                                struct gr_err *err);
/* [addr, addr + bytes), a multiple of 64: in place, or copied to `scratch` where it crosses pages. NULL: part of it was never written. */
const uint8_t *gr_bh_dram_read(const struct gr_bh_dram *d, int channel, uint64_t addr, size_t bytes, uint8_t *scratch);
/* Channel of a NoC coordinate, -1: no DRAM there. */
int gr_bh_dram_channel(uint32_t xy);

/* ----------------------------------------------------------------------------------------------------------- race checker */

/* Who used 16 bytes of L1 last. Operations and counts of the barriers before them are kept plus one: 0 is never. */
struct gr_bh_granule {
    uint32_t read_op, read_barriers;
    uint32_t own_op, own_barriers;
    uint32_t sent_op; /* the mover of this tile reads or writes it for this operation */
    uint32_t remote_op, remote_barriers;
    int remote_tile;
};
/* Where an operation stands in the order of its tile. */
struct gr_bh_when {
    uint32_t op;       /* counted over everything executed */
    uint32_t back;     /* it may start while so many before it are not complete */
    uint32_t barriers; /* before it */
    uint32_t sure;     /* of these, complete before it can start */
};
/* Each notes an access and returns whether it is in order; if not, *why says what it collides with. */
struct gr_bh_race {
    uint32_t addr;
    char text[120];
};
bool gr_bh_race_read(struct gr_bh_granule *g, struct gr_bh_when w, uint32_t addr, uint32_t bytes,
                     struct gr_bh_race *why);
/* Packed; `sent`: the mover reads it afterwards. */
bool gr_bh_race_write(struct gr_bh_granule *g, struct gr_bh_when w, bool sent, uint32_t addr, uint32_t bytes,
                      struct gr_bh_race *why);
/* The tile's mover writes to its own L1. */
bool gr_bh_race_self(struct gr_bh_granule *g, struct gr_bh_when w, uint32_t addr, uint32_t bytes,
                     struct gr_bh_race *why);
bool gr_bh_race_remote(struct gr_bh_granule *g, struct gr_bh_when w, int from, uint32_t addr, uint32_t bytes,
                       struct gr_bh_race *why);

/* ------------------------------------------------------------------------------------------------------------------ tiles */

struct gr_bh_send {
    uint32_t to, bytes, xy0, xy1;
    size_t at; /* in the bytes of the outbox */
    struct gr_bh_when when;
};

enum { GR_BH_BARRIERS_KEPT = 64 };
struct gr_bh_tile {
    int number;
    uint32_t xy;
    uint8_t *l1;
    uint32_t list_end; /* first byte after code and lists: what runs must not write below */

    const struct gr_bh_head *head;
    const struct gr_bh_op *ops;
    const struct gr_bh_dest *dests;
    struct gr_bh_walk walk;
    uint64_t at[GR_BH_STREAMS], saved[GR_BH_NESTING][GR_BH_STREAMS];
    uint32_t done, barriers;
    uint32_t barrier_op[GR_BH_BARRIERS_KEPT];
    bool waits; /* at a barrier */

    struct gr_bh_send *send;
    size_t sends, sends_max;
    uint8_t *box;
    size_t box_bytes, box_max;

    struct gr_bh_granule *granule; /* NULL: races are not looked for */
    enum gr_status status;
    struct gr_err err;
};

enum { GR_BH_ROWS_AT_ONCE = 16 }; /* output tiles of a column that share an unpacked right operand */
/* Of one thread. */
struct gr_bh_scratch {
    union gr_bh_dst dst[GR_BH_ROWS_AT_ONCE];
    struct gr_bh_operand left, right;
    uint32_t values[GR_BH_ELEMENTS];
    uint8_t chunk[GR_BH_L1_END];
};
struct gr_bh_tile_env {
    const struct gr_bh_grid *grid;
    const struct gr_bh_arith *arith;
    const struct gr_bh_dram *dram;
};

/* Finds head and lists in L1 and checks what does not depend on addresses: loops, counts, destinations. */
enum gr_status gr_bh_tile_start(struct gr_bh_tile *t, const struct gr_bh_grid *grid, struct gr_err *err);
/* Executes until `target` operations are done or the tile waits at a barrier. Failure is in t->status and t->err. */
void gr_bh_tile_run(struct gr_bh_tile *t, const struct gr_bh_tile_env *env, uint32_t target, struct gr_bh_scratch *s);
/* Takes what the outboxes of all tiles have for it. */
void gr_bh_tile_receive(struct gr_bh_tile *t, const struct gr_bh_tile *all, int tiles);
void gr_bh_tile_free(struct gr_bh_tile *t);

#endif
