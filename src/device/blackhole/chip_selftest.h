/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_selftest.h: does an open chip work? Each function runs some checks on every tile and channel and reports a line a check. */
#ifndef GR_BLACKHOLE_CHIP_SELFTEST_H
#define GR_BLACKHOLE_CHIP_SELFTEST_H

#include "device/blackhole/chip.h"

/* Called once a check, with its name and its figures, or what failed first. */
typedef void (*gr_selftest_line_fn)(void *user, bool passed, const char *name, const char *figures);
struct gr_selftest {
    gr_selftest_line_fn line;
    void *user;
    int failed; /* checks so far */
};

/* Tiles are in reset afterwards. A check that does not pass is a line and counted; GR_ERR_DEVICE only when the chip cannot be talked to or the build
 * has no programs for it; GR_ERR_NOMEM. */

/* The five cores of every tile start, multiply and answer. */
enum gr_status gr_selftest_hello(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err);
/* L1 and DRAM: written and read through the host's windows (with the rate), then by the tiles themselves, DRAM through both NoCs. A simulator
 * gets smaller ranges. */
enum gr_status gr_selftest_memory(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err);
/* The resident interpreter multiplies on every tile: bf16 x bf16 and bf16 x bfp8_b, compared with sums in double of the same operands. */
enum gr_status gr_selftest_matmul(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err);

/* For the files of the self-test: reports a line. */
void gr_selftest_report(struct gr_selftest *t, bool passed, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Tile i of the chip's whole grid, row by row, and the number of tiles. */
void gr_selftest_tile(const struct gr_chip *chip, int i, int *x, int *y);
int gr_selftest_tiles(const struct gr_chip *chip);
struct gr_chip_rect gr_selftest_grid(const struct gr_chip *chip);

#endif
