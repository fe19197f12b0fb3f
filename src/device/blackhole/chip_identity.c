/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_identity.c: reads the telemetry table of the chip's management processor.
 *
 * Where things are (docs/DEVICES.md has the sources): scratch words of the ARC's reset unit hold the addresses of a list of tags and of their
 * values, both in the ARC's own memory. A tag that a firmware does not know is missing from the list, so nothing has a fixed place. */
#include "device/blackhole/chip_identity.h"

#include <string.h>

#include "device/blackhole/chip_impl.h"

/* Seen from the NoC at (8, 0). tt-kmd 2.10.1 blackhole.c, telemetry.h; tt-umd 0.9.9 blackhole_implementation.hpp. */
#define ARC_SCRATCH(n) (UINT64_C(0x80030400) + 4 * (n))
#define ARC_BOOT_STATUS ARC_SCRATCH(2)
#define ARC_VALUES ARC_SCRATCH(12)
#define ARC_TAGS ARC_SCRATCH(13)
#define ARC_NOC_CONFIG UINT64_C(0x80050100) /* bit 14: coordinates are translated */
#define ARC_MEMORY UINT32_C(0x10000000)
#define ARC_MEMORY_BYTES UINT32_C(0x80000)

enum { BOOT_MASK = 7, BOOT_UP = 5 }; /* started, takes messages: tt-umd 0.9.9 blackhole_tt_device.cpp */
enum { TRANSLATED_BIT = 14, TAGS_MAX = 256 };

/* Tags: tt-umd 0.9.9 telemetry.hpp. */
enum {
    TAG_BOARD_HIGH = 1,
    TAG_BOARD_LOW = 2,
    TAG_ASIC_CELSIUS = 11, /* signed, 16 bits behind the point */
    TAG_AICLK = 14,
    TAG_AXICLK = 15,
    TAG_ARCCLK = 16,
    TAG_GDDR_SPEED = 23,
    TAG_FIRMWARE = 28, /* one byte a number, from the top */
    TAG_TENSIX_COLUMNS = 34,
    TAG_GDDR_CHANNELS = 36,
    TAGS_KNOWN = 64
};

struct telemetry {
    uint32_t value[TAGS_KNOWN];
    bool has[TAGS_KNOWN];
};

enum gr_status gr_chip_gone(const struct gr_chip_identity *id, int x, int y, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_DEVICE,
                   "%s: (%d, %d) answers all ones: the card fell off the bus or the tile hangs; `tt-smi -r` resets it",
                   id->node, x, y);
}

enum gr_status gr_chip_check_channels(const struct gr_chip_identity *id, struct gr_err *err)
{
    return id->channels == GR_CHIP_CHANNELS
               ? GR_OK
               : gr_fail(err, GR_ERR_DEVICE,
                         "%s: board %s has %d of %d DRAM channels: not supported; a p150 has all of them", id->node,
                         id->board, id->channels, GR_CHIP_CHANNELS);
}

static enum gr_status get(struct gr_chip *chip, uint64_t addr, void *dst, size_t bytes, struct gr_err *err)
{
    return chip->ops->read(chip, GR_ARC_X, GR_ARC_Y, addr, dst, bytes, err);
}

static enum gr_status get32(struct gr_chip *chip, uint64_t addr, uint32_t *v, struct gr_err *err)
{
    GR_TRY(get(chip, addr, v, sizeof *v, err));
    return *v != UINT32_MAX ? GR_OK : gr_chip_gone(&chip->id, GR_ARC_X, GR_ARC_Y, err);
}

static bool in_memory(uint32_t addr, uint32_t bytes)
{
    return addr % 4 == 0 && addr >= ARC_MEMORY && addr - ARC_MEMORY <= ARC_MEMORY_BYTES &&
           bytes <= ARC_MEMORY_BYTES - (addr - ARC_MEMORY);
}

static enum gr_status no_table(const struct gr_chip *chip, const char *what, uint32_t v, struct gr_err *err)
{
    return gr_fail(
        err, GR_ERR_DEVICE,
        "%s: the card's firmware has no telemetry table (%s 0x%08x): flash a firmware bundle of 18.5 or later",
        chip->id.node, what, v);
}

static enum gr_status read_table(struct gr_chip *chip, struct telemetry *t, struct gr_err *err)
{
    uint32_t tags = 0, values = 0, head[2], entries[TAGS_MAX];
    GR_TRY(get32(chip, ARC_TAGS, &tags, err));
    GR_TRY(get32(chip, ARC_VALUES, &values, err));
    if (!in_memory(tags, sizeof head) || !in_memory(values, 4)) {
        return no_table(chip, "its place is", in_memory(tags, sizeof head) ? values : tags, err);
    }
    GR_TRY(get(chip, tags, head, sizeof head, err)); /* version, number of tags */
    const uint32_t n = head[1];
    if (n == 0 || n > TAGS_MAX || !in_memory(tags, (uint32_t)sizeof head + 4 * n)) {
        return no_table(chip, "its length is", n, err);
    }
    GR_TRY(get(chip, tags + sizeof head, entries, 4 * (size_t)n, err));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t tag = entries[i] & 0xFFFF, at = entries[i] >> 16;
        if (tag < TAGS_KNOWN && in_memory(values, 4 * at + 4)) {
            GR_TRY(get(chip, values + UINT64_C(4) * at, &t->value[tag], 4, err));
            t->has[tag] = true;
        }
    }
    return GR_OK;
}

/* By the serial number's type field, bits 55:36: tt-kmd 2.10.1 telemetry.c, tt-umd 0.9.9 cluster_descriptor_types.hpp. */
const char *gr_chip_board_name(uint64_t board_id)
{
    switch (board_id >> 36 & 0xFFFFF) {
    case 0x36:
        return "p100";
    case 0x40:
        return "p150a";
    case 0x41:
        return "p150b";
    case 0x42:
        return "p150c";
    case 0x43:
        return "p100a";
    case 0x44:
        return "p300b";
    case 0x45:
        return "p300a";
    case 0x46:
        return "p300c";
    case 0x47:
        return "galaxy";
    default:
        return "";
    }
}

static int ones(uint32_t v)
{
    int n = 0;
    for (; v != 0; v &= v - 1) {
        n++;
    }
    return n;
}

static void take(const struct telemetry *t, struct gr_chip_identity *id)
{
    id->board_id = (uint64_t)t->value[TAG_BOARD_HIGH] << 32 | t->value[TAG_BOARD_LOW];
    const char *board = gr_chip_board_name(id->board_id);
    if (board[0] != '\0' || !id->sim) {
        strcpy(id->board, board[0] != '\0' ? board : "unknown");
    }
    for (int i = 0; i < 4; i++) {
        id->firmware[i] = t->value[TAG_FIRMWARE] >> (24 - 8 * i) & 0xFF;
    }
    id->aiclk_mhz = t->value[TAG_AICLK];
    id->axiclk_mhz = t->value[TAG_AXICLK];
    id->arcclk_mhz = t->value[TAG_ARCCLK];
    id->dram_mhz = t->value[TAG_GDDR_SPEED];
    id->celsius = (float)(int32_t)t->value[TAG_ASIC_CELSIUS] / 65536.0f;
    if (t->has[TAG_TENSIX_COLUMNS]) {
        id->columns = ones(t->value[TAG_TENSIX_COLUMNS] & ((1u << GR_CHIP_COLUMNS_MAX) - 1));
    }
    if (t->has[TAG_GDDR_CHANNELS]) {
        id->channels = ones(t->value[TAG_GDDR_CHANNELS] & ((1u << GR_CHIP_CHANNELS) - 1));
    }
}

enum gr_status gr_chip_identify(struct gr_chip *chip, struct gr_err *err)
{
    struct telemetry t = {0};
    uint32_t boot = 0, noc = 0;
    GR_TRY(get32(chip, ARC_BOOT_STATUS, &boot, err));
    if ((boot & BOOT_MASK) != BOOT_UP) {
        return gr_fail(err, GR_ERR_DEVICE,
                       "%s: the card's firmware is not up (status 0x%08x): reset the card with `tt-smi -r`",
                       chip->id.node, boot);
    }
    GR_TRY(get32(chip, ARC_NOC_CONFIG, &noc, err));
    if ((noc >> TRANSLATED_BIT & 1) == 0) {
        return gr_fail(
            err, GR_ERR_DEVICE,
            "%s: the card's firmware does not translate tile coordinates: flash a firmware bundle of 18.5 or later",
            chip->id.node);
    }
    GR_TRY(read_table(chip, &t, err));
    take(&t, &chip->id);
    if (!chip->id.sim &&
        (!t.has[TAG_TENSIX_COLUMNS] || chip->id.columns == 0)) { /* guessing would address tiles that are not there */
        return gr_fail(err, GR_ERR_DEVICE,
                       "%s: firmware %u.%u.%u does not say which Tensix columns work: flash a bundle of 18.5 or later",
                       chip->id.node, chip->id.firmware[0], chip->id.firmware[1], chip->id.firmware[2]);
    }
    if (!chip->id.sim && !t.has[TAG_GDDR_CHANNELS]) { /* every channel, as tt-umd reads it */
        chip->id.channels = GR_CHIP_CHANNELS;
    }
    return GR_OK;
}

enum gr_status gr_chip_aiclk(struct gr_chip *chip, uint32_t *mhz, struct gr_err *err)
{
    struct telemetry t = {0};
    GR_TRY(read_table(chip, &t, err));
    *mhz = t.value[TAG_AICLK];
    return GR_OK;
}
