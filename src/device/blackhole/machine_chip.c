/* SPDX-License-Identifier: Apache-2.0
 *
 * machine_chip.c: runs a built program on the tiles of a chip: puts heads, constants and streams where the builder wants them, starts the
 * resident interpreter and lets it go on by a number of operations at a time.
 *
 * A tile that stands still for the deadline ends the run: its cores' state goes into the message and all tiles into reset. */
#include "device/blackhole/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/blackhole/program.h"
#include "device/blackhole/tensix.h"

#define LOOK_ROUND_MS 20.0 /* how often a wait for one tile looks at all of them */

struct chip_machine {
    struct gr_bh_machine base;
    struct gr_chip *chip;
    struct gr_chip_rect rect;
    uint32_t *xy; /* [tiles] */
    int tiles;
    bool whole; /* the rectangle has no other tiles */
    bool running;
    unsigned deadline_ms;
    uint32_t begun, limit; /* operations allowed before this run and so far; they wrap */
    int waits_for;         /* tile */
    int marked;            /* moments of this run */
    uint32_t seen;         /* sum of the packed tiles and operations of all tiles, and when it was looked up */
    double looked;
};

static int tile_x(const struct chip_machine *m, int tile) { return (int)(m->xy[tile] & 63); }
static int tile_y(const struct chip_machine *m, int tile) { return (int)(m->xy[tile] >> 6 & 63); }
static struct gr_chip_rect tile_rect(const struct chip_machine *m, int tile)
{
    const uint8_t x = (uint8_t)tile_x(m, tile), y = (uint8_t)tile_y(m, tile);
    return (struct gr_chip_rect){x, y, x, y};
}

static uint32_t flag_addr(enum gr_bh_flag flag) { return GR_BH_FLAGS + 16u * (uint32_t)flag; }

static enum gr_status check_tile(const struct chip_machine *m, int tile, uint32_t addr, size_t bytes,
                                 struct gr_err *err)
{
    if (tile < 0 || tile >= m->tiles || addr > GR_BH_L1_END || bytes > GR_BH_L1_END - addr) {
        return gr_fail(err, GR_ERR_DEVICE, "tile %d of %d, %zu bytes at 0x%x: outside L1", tile, m->tiles, bytes, addr);
    }
    return GR_OK;
}

static enum gr_status l1_write(struct gr_bh_machine *base, int tile, uint32_t addr, const void *src, size_t bytes,
                               struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    GR_TRY(check_tile(m, tile, addr, bytes, err));
    return gr_chip_write(m->chip, tile_x(m, tile), tile_y(m, tile), addr, src, bytes, err);
}

static enum gr_status l1_read(struct gr_bh_machine *base, int tile, uint32_t addr, void *dst, size_t bytes,
                              struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    GR_TRY(check_tile(m, tile, addr, bytes, err));
    return gr_chip_read(m->chip, tile_x(m, tile), tile_y(m, tile), addr, dst, bytes, err);
}

static enum gr_status l1_fill(struct gr_bh_machine *base, uint32_t addr, const void *src, size_t bytes,
                              struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    GR_TRY(check_tile(m, 0, addr, bytes, err));
    return gr_chip_multicast(m->chip, m->rect, addr, src, bytes, err);
}

static enum gr_status dram_write(struct gr_bh_machine *base, int channel, uint64_t addr, const void *src, size_t bytes,
                                 struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    return gr_chip_dram_write(m->chip, channel, addr, src, bytes, err);
}

static enum gr_status stop(struct gr_bh_machine *base, struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    m->running = false;
    return gr_tensix_stop(m->chip, m->rect, err);
}

/* Programs of tiles that the group does not use would walk over whatever lies in their L1. */
static enum gr_status start_tiles(struct chip_machine *m, const struct gr_tensix_program *p, struct gr_err *err)
{
    if (m->whole) {
        return gr_tensix_start(m->chip, m->rect, p, err);
    }
    for (int t = 0; t < m->tiles; t++) {
        GR_TRY(gr_tensix_start(m->chip, tile_rect(m, t), p, err));
    }
    return GR_OK;
}

static enum gr_status start(struct gr_bh_machine *base, struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    const struct gr_tensix_program *p = gr_tensix_find("interpret");
    if (p == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, GR_TENSIX_NOT_BUILT);
    }
    m->limit = 0;
    GR_TRY(stop(base, err));
    enum gr_status st = start_tiles(m, p, err);
    for (int t = 0; st == GR_OK && t < m->tiles; t++) {
        st = gr_tensix_wait(m->chip, tile_x(m, t), tile_y(m, t), flag_addr(GR_BH_F_READY), UINT32_MAX, 1,
                            m->deadline_ms, NULL, NULL, err);
    }
    if (st != GR_OK) {
        struct gr_err ignored;
        (void)stop(base, &ignored);
        return st;
    }
    m->running = true;
    return GR_OK;
}

static void note_marks(struct chip_machine *m, uint32_t done)
{
    while (m->marked < m->base.marks && done - m->begun >= m->base.mark[m->marked].after) {
        m->base.mark[m->marked++].ms = gr_clock_ms();
    }
}

/* Any tile that packed or completed something is progress, for one tile may wait long for another. */
static bool progress(void *user, uint32_t word)
{
    struct chip_machine *m = user;
    const double now = gr_clock_ms();
    if (m->waits_for == 0) {
        note_marks(m, word);
        if (m->base.beside != NULL) {
            (void)m->base.beside(m->base.beside_user, word - m->begun);
        }
    }
    if (now - m->looked < LOOK_ROUND_MS) {
        return false;
    }
    uint32_t sum = 0;
    for (int t = 0; t < m->tiles; t++) {
        uint32_t words[4 * (GR_BH_F_PACKED - GR_BH_F_DONE) + 1] = {0};
        struct gr_err ignored; /* the caller's own read will find it */
        (void)gr_chip_read(m->chip, tile_x(m, t), tile_y(m, t), flag_addr(GR_BH_F_DONE), words, sizeof words, &ignored);
        sum += words[0] + words[4 * (GR_BH_F_PACKED - GR_BH_F_DONE)];
    }
    const bool moved = sum != m->seen;
    m->seen = sum;
    m->looked = gr_clock_ms();
    return moved;
}

/* The tile that is furthest behind says why all stand. Of those at the same operation, one that is not at its barrier: there the others
 * wait for it. */
static enum gr_status stuck(struct chip_machine *m, struct gr_err *err)
{
    int slowest = 0;
    uint64_t least = UINT64_MAX;
    for (int t = 0; t < m->tiles; t++) {
        uint32_t done = 0;
        uint32_t mover = 0; /* status of core B */
        GR_TRY(gr_chip_read(m->chip, tile_x(m, t), tile_y(m, t), flag_addr(GR_BH_F_DONE), &done, sizeof done, err));
        GR_TRY(
            gr_chip_read(m->chip, tile_x(m, t), tile_y(m, t), GR_BH_STATUS + 4 * GR_CORE_B, &mover, sizeof mover, err));
        const uint32_t passed =
            done - (m->limit - INT32_MAX); /* from far behind the limit, so that wrapping keeps the order */
        const uint64_t key = 2 * (uint64_t)passed + ((mover & 0xFF) == GR_BH_W_BARRIER);
        if (key < least) {
            least = key;
            slowest = t;
        }
    }
    char state[160];
    gr_tensix_state(m->chip, tile_x(m, slowest), tile_y(m, slowest), state, sizeof state);
    return gr_fail(err, GR_ERR_DEVICE, "%s: tile %d (%d, %d): no progress for %u ms: %s",
                   gr_chip_identity(m->chip)->node, slowest, tile_x(m, slowest), tile_y(m, slowest), m->deadline_ms,
                   state);
}

static enum gr_status run(struct gr_bh_machine *base, uint32_t n, struct gr_err *err)
{
    struct chip_machine *m = (struct chip_machine *)base;
    if (!m->running) {
        return gr_fail(err, GR_ERR_DEVICE, "the program was not started");
    }
    m->begun = m->limit;
    m->limit += n;
    m->marked = 0;
    m->seen = 0;
    m->looked = gr_clock_ms();
    GR_TRY(gr_chip_multicast(m->chip, m->rect, flag_addr(GR_BH_F_LIMIT), &m->limit, sizeof m->limit, err));
    for (int t = 0; t < (m->base.meets ? 1 : m->tiles); t++) {
        m->waits_for = t;
        /* DONE never passes the limit, so equal means there. */
        if (gr_tensix_wait(m->chip, tile_x(m, t), tile_y(m, t), flag_addr(GR_BH_F_DONE), UINT32_MAX, m->limit,
                           m->deadline_ms, progress, m, err) != GR_OK) {
            const enum gr_status st = stuck(m, err);
            struct gr_err ignored;
            (void)stop(base, &ignored);
            return st;
        }
        if (t == 0) {
            note_marks(m, m->limit);
        }
    }
    return GR_OK;
}

static void close_machine(struct gr_bh_machine *base)
{
    struct chip_machine *m = (struct chip_machine *)base;
    struct gr_err ignored;
    (void)stop(base, &ignored);
    free(m->xy);
    free(m);
}

static const struct gr_bh_machine_ops chip_ops = {
    .l1_write = l1_write,
    .l1_read = l1_read,
    .l1_fill = l1_fill,
    .dram_write = dram_write,
    .start = start,
    .run = run,
    .stop = stop,
    .close = close_machine,
};

static struct gr_chip_rect rect_of(const struct gr_bh_grid *grid)
{
    return (struct gr_chip_rect){(uint8_t)(grid->xy0 & 63), (uint8_t)(grid->xy0 >> 6 & 63), (uint8_t)(grid->xy1 & 63),
                                 (uint8_t)(grid->xy1 >> 6 & 63)};
}

static int tiles_of(struct gr_chip_rect r)
{
    const int gap = r.x0 < 8 && r.x1 > 9 ? 2 : 0; /* columns 8 and 9 have no Tensix */
    return (r.x1 - r.x0 + 1 - gap) * (r.y1 - r.y0 + 1);
}

enum gr_status gr_bh_machine_chip(struct gr_chip *chip, const struct gr_bh_grid *grid, unsigned deadline_ms,
                                  struct gr_bh_machine **out, struct gr_err *err)
{
    *out = NULL;
    const struct gr_chip_rect r = rect_of(grid);
    if (grid->tiles < 1 || grid->tiles > tiles_of(r)) {
        return gr_fail(err, GR_ERR_DEVICE, "a group of %d tiles in a rectangle of %d", grid->tiles, tiles_of(r));
    }
    struct chip_machine *m = calloc(1, sizeof *m);
    uint32_t *xy = m == NULL ? NULL : calloc((size_t)grid->tiles, sizeof *xy);
    if (xy == NULL) {
        free(m);
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for %d tiles", grid->tiles);
    }
    memcpy(xy, grid->xy, (size_t)grid->tiles * sizeof *xy);
    *m = (struct chip_machine){.base = {.ops = &chip_ops},
                               .chip = chip,
                               .rect = r,
                               .xy = xy,
                               .tiles = grid->tiles,
                               .deadline_ms = deadline_ms};
    m->whole = grid->tiles == tiles_of(r);
    *out = &m->base;
    return GR_OK;
}
