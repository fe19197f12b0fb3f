/* SPDX-License-Identifier: Apache-2.0
 *
 * tensix.h: starting and stopping programs on Tensix tiles, and saying what a stuck one was doing.
 *
 * A tile has five rv32 cores: B and N move data, T0, T1, T2 feed the coprocessor (unpack, math, pack). The host writes the five images
 * and starts B, which resets caches and clock gates and releases the others (kernels/boot.h). The images are built from kernels/ and
 * embedded in the program. */
#ifndef GR_BLACKHOLE_TENSIX_H
#define GR_BLACKHOLE_TENSIX_H

#include "device/blackhole/chip.h"
#include "device/blackhole/small_programs.h"

enum gr_tensix_core { GR_CORE_B, GR_CORE_N, GR_CORE_T0, GR_CORE_T1, GR_CORE_T2, GR_CORES };

/* The five images of one program. data NULL: the core stays in reset. */
struct gr_tensix_program {
    const char *name;
    struct {
        const unsigned char *data;
        const size_t *size;
    } core[GR_CORES];
};

/* Programs of this build: "interpret" (the operation lists of program.h), "hello" (every core writes who it is), "memory" (fills and
 * checks L1 and DRAM through both NoCs). NULL: no such name, or the build had no rv32 compiler (gr_tensix_built is false then). */
const struct gr_tensix_program *gr_tensix_find(const char *name);
bool gr_tensix_built(void);
/* What to say then. */
#define GR_TENSIX_NOT_BUILT                                                                  \
    "this build has no programs for the chip: it was made without riscv64-unknown-elf-gcc; " \
    "`./setup.sh --blackhole`, then `meson setup --reconfigure build && make`"

/* Writes the images to every tile of the rectangle, clears flags and status words, starts the cores. The tiles were stopped before. */
enum gr_status gr_tensix_start(struct gr_chip *chip, struct gr_chip_rect r, const struct gr_tensix_program *p,
                               struct gr_err *err);
/* All cores into reset. L1 keeps its contents. */
enum gr_status gr_tensix_stop(struct gr_chip *chip, struct gr_chip_rect r, struct gr_err *err);

/* Polls the 32-bit word at addr of one tile until (word & mask) == value. `idle` is called between polls with the word, and returns
 * whether there is progress: deadline_ms counts from the last progress. GR_ERR_DEVICE when it passes, with the state of each core of the
 * tile (gr_tensix_state) in the message. NULL idle: the word itself is the progress. */
typedef bool (*gr_tensix_idle_fn)(void *user, uint32_t word);
enum gr_status gr_tensix_wait(struct gr_chip *chip, int x, int y, uint32_t addr, uint32_t mask, uint32_t value,
                              unsigned deadline_ms, gr_tensix_idle_fn idle, void *user, struct gr_err *err);

/* One line: per core, in reset or the operation it is at and what it waits for, from the status words of program.h. */
void gr_tensix_state(struct gr_chip *chip, int x, int y, char *text, size_t size);

#endif
