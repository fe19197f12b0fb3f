/* SPDX-License-Identifier: Apache-2.0
 *
 * chip.h: one Blackhole chip as the host sees it: memory of its tiles and DRAM channels through address windows, and who it is.
 *
 * Two ways to reach one: the kernel driver (tt-kmd, /dev/tenstorrent/N, version 2 or later) and the vendor's functional simulator
 * (libttsim.so, one chip per process). Both stand behind struct gr_chip_ops; nothing above this header knows which it is, but for
 * gr_chip_is_sim in reports. Coordinates are NoC 0, translated (docs/DEVICES.md, "Chip map"). Not thread-safe: one thread per chip. */
#ifndef GR_BLACKHOLE_CHIP_H
#define GR_BLACKHOLE_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    GR_CHIP_CHANNELS = 8,           /* DRAM channels of 4 GiB */
    GR_CHIP_ROWS = 10,              /* Tensix rows y = 2..11 */
    GR_CHIP_COLUMNS_MAX = 14,       /* Tensix columns of an unharvested die: x = 1..7, 10..16 */
    GR_TENSIX_L1_BYTES = 1536 << 10 /* 1.5 MiB a tile */
};
#define GR_CHIP_CHANNEL_BYTES \
    ((UINT64_C(4) << 30) - (UINT64_C(16) << 20)) /* usable, as the vendor's descriptor counts */

/* Inclusive rectangle of tiles, x0 <= x1, y0 <= y1. A single tile has both corners equal. Columns 8 and 9 inside it are skipped. */
struct gr_chip_rect {
    uint8_t x0, y0, x1, y1;
};

struct gr_chip_cfg {
    const char *sim;      /* path of libttsim.so; NULL: the kernel driver */
    const char *node_dir; /* folder of the device nodes; NULL: /dev/tenstorrent */
    int id;               /* N of the node */
};

/* What the chip says of itself. Unknown numbers are 0, unknown texts "". */
struct gr_chip_identity {
    bool sim;
    char node[64];        /* "/dev/tenstorrent/0", or the simulator's version: "ttsim 1.10.0" */
    char board[24];       /* "p150a" */
    uint64_t board_id;    /* serial number */
    int columns;          /* usable Tensix columns: 14 less the harvested ones */
    int channels;         /* usable DRAM channels */
    uint32_t firmware[4]; /* firmware bundle, e.g. 18.7.0.0 */
    uint32_t driver[3];   /* kernel driver version */
    uint32_t aiclk_mhz;   /* Tensix clock now */
    uint32_t axiclk_mhz, arcclk_mhz;
    uint32_t dram_mhz; /* GDDR data rate, MT/s */
    float celsius;     /* 0: not known */
    char pci[16];      /* "0000:01:00.0" */
    char note[160];    /* what the log should warn of, e.g. a simulator that is not version 1.10.0; "": nothing */
};

struct gr_chip;

/* Opens and identifies the chip, raises its clocks to work. GR_ERR_DEVICE with one line that names the node and what to do: no such node,
 * no permission, busy (another process holds it), driver too old, not a Blackhole, library missing or without a symbol. A simulator of
 * another version than 1.10.0 opens with a note in the identity, for the caller's log. *out is closed with gr_chip_close, which puts all
 * tiles in reset. */
enum gr_status gr_chip_open(const struct gr_chip_cfg *cfg, struct gr_chip **out, struct gr_err *err);
void gr_chip_close(struct gr_chip *chip); /* NULL is allowed */
const struct gr_chip_identity *gr_chip_identity(const struct gr_chip *chip);
bool gr_chip_is_sim(const struct gr_chip *chip);

/* Device nodes that exist, in order of N, at most max; returns their number. The simulator is not among them. */
int gr_chip_list(const char *node_dir, int *ids, int max);

/* L1 and registers of one tile. addr and bytes are multiples of 4 for registers. GR_ERR_DEVICE: the window could not be set, or the chip
 * answers all ones where it cannot (fell off the bus). */
enum gr_status gr_chip_write(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                             struct gr_err *err);
enum gr_status gr_chip_read(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                            struct gr_err *err);
/* The same bytes to every Tensix tile of the rectangle. */
enum gr_status gr_chip_multicast(struct gr_chip *chip, struct gr_chip_rect r, uint64_t addr, const void *src,
                                 size_t bytes, struct gr_err *err);
/* DRAM channel 0..7; [addr, addr + bytes) inside GR_CHIP_CHANNEL_BYTES. */
enum gr_status gr_chip_dram_write(struct gr_chip *chip, int channel, uint64_t addr, const void *src, size_t bytes,
                                  struct gr_err *err);
enum gr_status gr_chip_dram_read(struct gr_chip *chip, int channel, uint64_t addr, void *dst, size_t bytes,
                                 struct gr_err *err);
/* NoC coordinate x | y << 6 of one of the three equivalent endpoints (0..2) of a channel, as kernels use it. */
uint32_t gr_chip_dram_xy(int channel, int endpoint);

/* Lets the chip run: the simulator advances by `clocks`, on silicon the caller sleeps for some microseconds. */
void gr_chip_run(struct gr_chip *chip, uint32_t clocks);

#endif
