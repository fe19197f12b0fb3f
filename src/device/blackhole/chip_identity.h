/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_identity.h: who a chip is, from the table that its management firmware (ARC) keeps, and a look at a card that leaves it alone. */
#ifndef GR_BLACKHOLE_CHIP_IDENTITY_H
#define GR_BLACKHOLE_CHIP_IDENTITY_H

#include "device/blackhole/chip.h"

enum { GR_ARC_X = 8, GR_ARC_Y = 0 }; /* the same with and without translation */

/* Fills what the firmware knows into the chip's identity, through its read operation. On silicon GR_ERR_DEVICE: the firmware is not up, its table is none or
 * does not say which Tensix columns work, coordinate translation is off. The simulator may leave things out: they stay as they are. */
enum gr_status gr_chip_identify(struct gr_chip *chip, struct gr_err *err);
/* The Tensix clock, 0: not told. It lags behind a change by some tens of milliseconds. */
enum gr_status gr_chip_aiclk(struct gr_chip *chip, uint32_t *mhz, struct gr_err *err);

/* Identity of a card without opening it for work: no lock, no clock, no tile is touched. *busy: a process of this program holds it. Statuses of
 * gr_chip_open; on failure *id has what was learnt before it. */
enum gr_status gr_chip_peek(const struct gr_chip_cfg *cfg, struct gr_chip_identity *id, bool *busy, struct gr_err *err);

/* GR_ERR_DEVICE unless the chip has every DRAM channel: the weights are spread over all of them. */
enum gr_status gr_chip_check_channels(const struct gr_chip_identity *id, struct gr_err *err);
/* GR_ERR_DEVICE: a word at (x, y) that is never all ones was read as that. */
enum gr_status gr_chip_gone(const struct gr_chip_identity *id, int x, int y, struct gr_err *err);

/* "p150a"; "" for a number that is no Blackhole board's. */
const char *gr_chip_board_name(uint64_t board_id);

#endif
