/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_cpu_race.c: proves that a program needs no luck: each use of L1 is compared with the last ones of the same 16 bytes.
 *
 * What orders two uses. The unpacker of a tile starts an operation when all but `back` before it are complete; it reads an operation's
 * operands before the packer writes that output and all later ones; the mover sends, and meets barriers, operation after operation.
 * Across tiles only barriers order: number b is passed when every tile has completed everything before its barrier number b. */
#include <stdio.h>

#include "device/blackhole/bh_cpu.h"

enum { GRANULE = 16 };

/* op + 1 as kept: not complete when operation w starts? */
static bool open_before(struct gr_bh_when w, uint32_t kept) { return kept && kept - 1 + w.back >= w.op; }

static bool fail(struct gr_bh_race *why, uint32_t granule, const char *what, int tile, uint32_t kept)
{
    why->addr = granule * GRANULE;
    if (tile >= 0) {
        (void)snprintf(why->text, sizeof why->text, "%s tile %d in operation %u, with no barrier between", what, tile,
                       kept - 1);
    } else {
        (void)snprintf(why->text, sizeof why->text, "%s in operation %u, which need not be complete", what, kept - 1);
    }
    return false;
}

/* A remote write in the interval after barrier number remote_barriers - 1 reaches this tile by the end of it at the latest. */
static bool remote_open(const struct gr_bh_granule *g, struct gr_bh_when w)
{
    return g->remote_op && g->remote_barriers - 1 >= w.sure;
}

bool gr_bh_race_read(struct gr_bh_granule *g, struct gr_bh_when w, uint32_t addr, uint32_t bytes,
                     struct gr_bh_race *why)
{
    for (uint32_t i = addr / GRANULE; i < (addr + bytes + GRANULE - 1) / GRANULE; i++) {
        if (open_before(w, g[i].own_op)) {
            return fail(why, i, "reads what it writes", -1, g[i].own_op);
        }
        if (remote_open(&g[i], w)) {
            return fail(why, i, "reads what is written by", g[i].remote_tile, g[i].remote_op);
        }
        g[i].read_op = w.op + 1;
        g[i].read_barriers = w.barriers + 1;
    }
    return true;
}

bool gr_bh_race_write(struct gr_bh_granule *g, struct gr_bh_when w, bool sent, uint32_t addr, uint32_t bytes,
                      struct gr_bh_race *why)
{
    for (uint32_t i = addr / GRANULE; i < (addr + bytes + GRANULE - 1) / GRANULE; i++) {
        if (open_before(w, g[i].sent_op)) {
            return fail(why, i, "writes what its mover uses", -1, g[i].sent_op);
        }
        if (remote_open(&g[i], w)) {
            return fail(why, i, "writes what is written by", g[i].remote_tile, g[i].remote_op);
        }
        g[i].own_op = w.op + 1;
        g[i].own_barriers = w.barriers + 1;
        g[i].sent_op = sent ? w.op + 1 : g[i].sent_op;
    }
    return true;
}

bool gr_bh_race_self(struct gr_bh_granule *g, struct gr_bh_when w, uint32_t addr, uint32_t bytes,
                     struct gr_bh_race *why)
{
    for (uint32_t i = addr / GRANULE; i < (addr + bytes + GRANULE - 1) / GRANULE; i++) {
        /* the mover passes barriers itself: all of them before this operation are behind it */
        if (g[i].remote_op && g[i].remote_barriers - 1 >= w.barriers) {
            return fail(why, i, "sends to where is written by", g[i].remote_tile, g[i].remote_op);
        }
        g[i].own_op = w.op + 1;
        g[i].own_barriers = w.barriers + 1;
        g[i].sent_op = w.op + 1;
    }
    return true;
}

bool gr_bh_race_remote(struct gr_bh_granule *g, struct gr_bh_when w, int from, uint32_t addr, uint32_t bytes,
                       struct gr_bh_race *why)
{
    for (uint32_t i = addr / GRANULE; i < (addr + bytes + GRANULE - 1) / GRANULE; i++) {
        if (g[i].read_op && g[i].read_barriers - 1 >= w.barriers) {
            return fail(why, i, "reads what is written by", from, w.op + 1);
        }
        if (g[i].own_op && g[i].own_barriers - 1 >= w.barriers) {
            return fail(why, i, "writes what is written by", from, w.op + 1);
        }
        if (g[i].remote_op && g[i].remote_barriers - 1 >= w.barriers && g[i].remote_tile != from) {
            return fail(why, i, "is sent to by two tiles:", g[i].remote_tile, g[i].remote_op);
        }
        g[i].remote_op = w.op + 1;
        g[i].remote_barriers = w.barriers + 1;
        g[i].remote_tile = from;
    }
    return true;
}
