/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_memory.h: a machine that only remembers: L1 of its tiles, and what it was asked for. */
#ifndef BH_MEMORY_H
#define BH_MEMORY_H

#include "device/blackhole/machine.h"

enum { BH_MEMORY_RUNS = 16 };

struct bh_memory {
    struct gr_bh_machine m; /* first member */
    int tiles, runs, started;
    uint32_t ran[BH_MEMORY_RUNS];
    uint8_t **l1;
    size_t written, filled, read; /* bytes: to one tile, to all, from one */
    size_t twice;      /* bytes of L1 that were written again: on a chip the later of two need not arrive later */
    uint8_t **touched; /* [tiles][GR_BH_L1_END] */
};
/* L1 of all tiles is ones. */
struct bh_memory bh_memory_of(int tiles);
/* Ones and zero counts again, as if layers had overlaid everything. */
void bh_memory_spoil(struct bh_memory *m);
void bh_memory_free(struct bh_memory *m);

#endif
