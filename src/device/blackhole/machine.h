/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.h: what runs a built program: the chip (through chip.h, tensix.h) or the CPU interpreter. The device and the tests use this
 * seam, so that the same program, inputs and taps go through both. Tiles are numbered 0..tiles-1 as in struct gr_bh_head.me. */
#ifndef GR_BLACKHOLE_MACHINE_H
#define GR_BLACKHOLE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gr_chip;
struct gr_bh_machine;

/* Where the tiles of a group are. xy[i] = x | y << 6 of tile i; all inside one rectangle, whose other tiles exist and are unused. */
struct gr_bh_grid {
    int tiles;
    const uint32_t *xy;
    uint32_t xy0, xy1; /* rectangle */
};

struct gr_bh_machine_ops {
    enum gr_status (*l1_write)(struct gr_bh_machine *m, int tile, uint32_t addr, const void *src, size_t bytes,
                               struct gr_err *err);
    enum gr_status (*l1_read)(struct gr_bh_machine *m, int tile, uint32_t addr, void *dst, size_t bytes,
                              struct gr_err *err);
    enum gr_status (*l1_fill)(struct gr_bh_machine *m, uint32_t addr, const void *src, size_t bytes,
                              struct gr_err *err); /* every tile */
    enum gr_status (*dram_write)(struct gr_bh_machine *m, int channel, uint64_t addr, const void *src, size_t bytes,
                                 struct gr_err *err);
    /* Starts the resident program whose head and lists were written to GR_BH_PROGRAM of every tile. */
    enum gr_status (*start)(struct gr_bh_machine *m, struct gr_err *err);
    /* Lets n more operations (loops unrolled) start and waits until every tile has completed them. GR_ERR_DEVICE: no progress within the
     * deadline; the message has the state of the cores of the first stuck tile, and the tiles are in reset. */
    enum gr_status (*run)(struct gr_bh_machine *m, uint32_t n, struct gr_err *err);
    enum gr_status (*stop)(struct gr_bh_machine *m, struct gr_err *err);
    void (*close)(struct gr_bh_machine *m);
};
/* A moment of a run: when `after` of its operations were complete on tile 0, as the host saw it while it waited. */
struct gr_bh_mark {
    uint32_t after;
    double ms; /* gr_clock_ms; a machine that runs as slowly as the interpreter leaves it alone */
};
/* What the host does beside a run, in the thread of run: `done` of its operations are complete on tile 0. True: there is more to do now. */
typedef bool (*gr_bh_beside_fn)(void *user, uint32_t done);
struct gr_bh_machine {
    const struct gr_bh_machine_ops *ops;
    struct gr_bh_mark *mark; /* of the next run, in order of `after`; the caller's */
    int marks;
    gr_bh_beside_fn beside; /* called now and then, by the interpreter when a mark is passed; NULL: nothing */
    void *beside_user;
    bool meets; /* the next run ends with a barrier: what tile 0 has completed, all have */
};

/* The tiles of an open chip, which stays the caller's. */
enum gr_status gr_bh_machine_chip(struct gr_chip *chip, const struct gr_bh_grid *grid, unsigned deadline_ms,
                                  struct gr_bh_machine **out, struct gr_err *err);

enum gr_bh_arithmetic {
    GR_BH_BIT_EXACT, /* products aligned and cut, fidelity phases and packer rounding as the FPU does them; for small programs */
    GR_BH_FAST /* operands rounded as the unpackers do, products and sums in fp32; for the full size */
};
/* Tiles in host memory; threads >= 1 share the tiles between barriers, and the bits do not depend on how many. A program that reads outside L1 or
 * the streams, or that cannot go on, is GR_ERR_DEVICE with the tile and the operation. BIT_EXACT also refuses races: bytes of L1 that one tile sends and
 * another uses with no barrier between, or that an operation uses before they must be there (bh_cpu_race.c). */
enum gr_status gr_bh_machine_cpu(const struct gr_bh_grid *grid, enum gr_bh_arithmetic arithmetic, int threads,
                                 struct gr_bh_machine **out, struct gr_err *err);

#endif
