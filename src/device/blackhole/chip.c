/* SPDX-License-Identifier: Apache-2.0
 *
 * chip.c: one Blackhole chip, whichever way it is reached: checks what callers ask for, because a wrong coordinate or address stops the
 * simulator's process and can hang a card's bus, and hands it to chip_sim.c or chip_kmd.c. */
#include "device/blackhole/chip.h"

#include "device/blackhole/chip_impl.h"

enum { DRAM_COLUMN_LOW = 18, DRAM_COLUMN_HIGH = 17, DRAM_ROW = 12, ENDPOINTS = 3 };

/* Number of a Tensix column, from 0; -1: none. Harvested columns are the last ones in translated coordinates. */
static int column_of(const struct gr_chip *chip, int x)
{
    const int n = x < GR_CHIP_GAP0 ? x - GR_CHIP_X0 : x - GR_CHIP_X0 - 2;
    return x < GR_CHIP_X0 || x == GR_CHIP_GAP0 || x == GR_CHIP_GAP1 || n >= chip->id.columns ? -1 : n;
}

static enum gr_status check_tile(const struct gr_chip *chip, int x, int y, struct gr_err *err)
{
    if (column_of(chip, x) < 0 || y < GR_CHIP_Y0 || y >= GR_CHIP_Y0 + GR_CHIP_ROWS) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: no Tensix tile at (%d, %d)", chip->id.node, x, y);
    }
    return GR_OK;
}

/* The whole grid of this chip. */
static struct gr_chip_rect grid_of(const struct gr_chip *chip)
{
    const int last = GR_CHIP_X0 + chip->id.columns - 1;
    const int x1 = last < GR_CHIP_GAP0 ? last : last + 2;
    return (struct gr_chip_rect){GR_CHIP_X0, GR_CHIP_Y0, (uint8_t)x1, GR_CHIP_Y0 + GR_CHIP_ROWS - 1};
}

static enum gr_status hold_all(struct gr_chip *chip, struct gr_err *err)
{
    const uint32_t hold = GR_TENSIX_RESET_ALL;
    return chip->ops->multicast(chip, grid_of(chip), GR_TENSIX_SOFT_RESET, &hold, sizeof hold, err);
}

enum gr_status gr_chip_open(const struct gr_chip_cfg *cfg, struct gr_chip **out, struct gr_err *err)
{
    struct gr_chip *chip = NULL;
    *out = NULL;
    GR_TRY(cfg->sim != NULL ? gr_chip_sim_open(cfg, &chip, err) : gr_chip_kmd_open(cfg, &chip, err));
    /* A process that died may have left its program running. */
    const enum gr_status st = hold_all(chip, err);
    if (st != GR_OK) {
        chip->ops->close(chip);
        return st;
    }
    *out = chip;
    return GR_OK;
}

void gr_chip_close(struct gr_chip *chip)
{
    if (chip == NULL) {
        return;
    }
    struct gr_err ignored; /* a chip that fell off the bus cannot be told, and is closed all the same */
    (void)hold_all(chip, &ignored);
    chip->ops->close(chip);
}

const struct gr_chip_identity *gr_chip_identity(const struct gr_chip *chip) { return &chip->id; }

bool gr_chip_is_sim(const struct gr_chip *chip) { return chip->id.sim; }

enum gr_status gr_chip_write(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                             struct gr_err *err)
{
    GR_TRY(check_tile(chip, x, y, err));
    return bytes == 0 ? GR_OK : chip->ops->write(chip, x, y, addr, src, bytes, err);
}

enum gr_status gr_chip_read(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                            struct gr_err *err)
{
    GR_TRY(check_tile(chip, x, y, err));
    return bytes == 0 ? GR_OK : chip->ops->read(chip, x, y, addr, dst, bytes, err);
}

enum gr_status gr_chip_multicast(struct gr_chip *chip, struct gr_chip_rect r, uint64_t addr, const void *src,
                                 size_t bytes, struct gr_err *err)
{
    GR_TRY(check_tile(chip, r.x0, r.y0, err));
    GR_TRY(check_tile(chip, r.x1, r.y1, err));
    if (r.x0 > r.x1 || r.y0 > r.y1) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: rectangle (%d, %d) to (%d, %d) is turned round", chip->id.node, r.x0,
                       r.y0, r.x1, r.y1);
    }
    if (bytes == 0) {
        return GR_OK;
    }
    if (r.x0 == r.x1 && r.y0 == r.y1) {
        return chip->ops->write(chip, r.x0, r.y0, addr, src, bytes, err);
    }
    return chip->ops->multicast(chip, r, addr, src, bytes, err);
}

static enum gr_status check_dram(const struct gr_chip *chip, int channel, uint64_t addr, size_t bytes,
                                 struct gr_err *err)
{
    if (channel < 0 || channel >= chip->id.channels) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: DRAM channel %d: the chip has %d", chip->id.node, channel,
                       chip->id.channels);
    }
    if (addr > GR_CHIP_CHANNEL_BYTES || bytes > GR_CHIP_CHANNEL_BYTES - addr) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: DRAM channel %d: %zu bytes at 0x%llx are outside its %llu MiB",
                       chip->id.node, channel, bytes, (unsigned long long)addr,
                       (unsigned long long)(GR_CHIP_CHANNEL_BYTES >> 20));
    }
    return GR_OK;
}

enum gr_status gr_chip_dram_write(struct gr_chip *chip, int channel, uint64_t addr, const void *src, size_t bytes,
                                  struct gr_err *err)
{
    GR_TRY(check_dram(chip, channel, addr, bytes, err));
    const uint32_t xy = gr_chip_dram_xy(channel, 0);
    return bytes == 0 ? GR_OK : chip->ops->dram_write(chip, (int)(xy & 63), (int)(xy >> 6), addr, src, bytes, err);
}

enum gr_status gr_chip_dram_read(struct gr_chip *chip, int channel, uint64_t addr, void *dst, size_t bytes,
                                 struct gr_err *err)
{
    GR_TRY(check_dram(chip, channel, addr, bytes, err));
    const uint32_t xy = gr_chip_dram_xy(channel, 0);
    return bytes == 0 ? GR_OK : chip->ops->dram_read(chip, (int)(xy & 63), (int)(xy >> 6), addr, dst, bytes, err);
}

uint32_t gr_chip_dram_xy(int channel, int endpoint)
{
    const int half = GR_CHIP_CHANNELS / 2;
    const int x = channel < half ? DRAM_COLUMN_LOW : DRAM_COLUMN_HIGH;
    const int y = DRAM_ROW + ENDPOINTS * (channel % half) + endpoint;
    return (uint32_t)x | (uint32_t)y << 6;
}

void gr_chip_run(struct gr_chip *chip, uint32_t clocks) { chip->ops->run(chip, clocks); }
