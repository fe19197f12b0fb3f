/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_impl.h: what the two ways to a chip (chip_sim.c, chip_kmd.c) give to chip.c. Arguments were checked there: tiles exist, DRAM ranges
 * lie inside a channel. */
#ifndef GR_BLACKHOLE_CHIP_IMPL_H
#define GR_BLACKHOLE_CHIP_IMPL_H

#include "device/blackhole/chip.h"

enum {
    GR_CHIP_X0 = 1, /* Tensix columns in translated coordinates: 1..7, 10..16 */
    GR_CHIP_GAP0 = 8,
    GR_CHIP_GAP1 = 9,
    GR_CHIP_Y0 = 2 /* rows 2..11 */
};
#define GR_TENSIX_SOFT_RESET UINT64_C(0xFFB121B0) /* one bit a core: 1 holds it */
#define GR_TENSIX_RESET_ALL UINT32_C(0x47800)

struct gr_chip_ops {
    /* One tile, or all of a rectangle. */
    enum gr_status (*write)(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                            struct gr_err *err);
    enum gr_status (*read)(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                           struct gr_err *err);
    enum gr_status (*multicast)(struct gr_chip *chip, struct gr_chip_rect r, uint64_t addr, const void *src,
                                size_t bytes, struct gr_err *err);
    /* DRAM behind the endpoint at (x, y). */
    enum gr_status (*dram_write)(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                                 struct gr_err *err);
    enum gr_status (*dram_read)(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                                struct gr_err *err);
    void (*run)(struct gr_chip *chip, uint32_t clocks);
    /* Frees everything, the struct too. */
    void (*close)(struct gr_chip *chip);
};

/* First member of struct sim_chip and struct kmd_chip. */
struct gr_chip {
    const struct gr_chip_ops *ops;
    struct gr_chip_identity id;
};

/* Open and identify; on failure nothing is left open. */
enum gr_status gr_chip_sim_open(const struct gr_chip_cfg *cfg, struct gr_chip **out, struct gr_err *err);
enum gr_status gr_chip_kmd_open(const struct gr_chip_cfg *cfg, struct gr_chip **out, struct gr_err *err);

#endif
