/* SPDX-License-Identifier: Apache-2.0
 *
 * machine_cpu.c: a group of Tensix tiles in host memory, for tests without a chip and as the oracle of the chip.
 *
 * Tiles run on the threads of a pool from barrier to barrier, each on its own L1 only; then each takes what was sent to it. The same
 * bits come out for any number of threads. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "device/blackhole/bh_cpu.h"
#include "device/blackhole/bh_fast.h"

struct machine {
    struct gr_bh_machine base; /* first: the interface's pointer is this one */
    struct gr_bh_grid grid;
    uint32_t *xy; /* [tiles] */
    struct gr_bh_tile *tile;
    void *l1; /* [tiles, GR_BH_L1_END] */
    size_t l1_bytes;
    struct gr_bh_dram dram;
    struct gr_bh_tile_env env;
    struct gr_pool *pool;
    struct gr_bh_scratch *scratch; /* [threads] */
    bool started;
    uint32_t target;
    atomic_int next; /* tile, inside a job */
};

static struct machine *of(struct gr_bh_machine *m)
{
    void *p = m;
    return p;
}

/* ----------------------------------------------------------------------------------------------------------------- memory */

static enum gr_status range(const struct machine *m, int tile, uint32_t addr, size_t bytes, struct gr_err *err)
{
    if (tile < 0 || tile >= m->grid.tiles || addr > GR_BH_L1_END || bytes > GR_BH_L1_END - addr) {
        return gr_fail(err, GR_ERR_DEVICE, "tile %d of %d has no %zu bytes of L1 at 0x%x", tile, m->grid.tiles, bytes,
                       addr);
    }
    return GR_OK;
}

static enum gr_status l1_write(struct gr_bh_machine *base, int tile, uint32_t addr, const void *src, size_t bytes,
                               struct gr_err *err)
{
    struct machine *m = of(base);
    GR_TRY(range(m, tile, addr, bytes, err));
    memcpy(m->tile[tile].l1 + addr, src, bytes);
    return GR_OK;
}

static enum gr_status l1_read(struct gr_bh_machine *base, int tile, uint32_t addr, void *dst, size_t bytes,
                              struct gr_err *err)
{
    struct machine *m = of(base);
    GR_TRY(range(m, tile, addr, bytes, err));
    memcpy(dst, m->tile[tile].l1 + addr, bytes);
    return GR_OK;
}

static enum gr_status l1_fill(struct gr_bh_machine *base, uint32_t addr, const void *src, size_t bytes,
                              struct gr_err *err)
{
    for (int i = 0; i < of(base)->grid.tiles; i++) {
        GR_TRY(l1_write(base, i, addr, src, bytes, err));
    }
    return GR_OK;
}

static enum gr_status dram_write(struct gr_bh_machine *base, int channel, uint64_t addr, const void *src, size_t bytes,
                                 struct gr_err *err)
{
    return gr_bh_dram_write(&of(base)->dram, channel, addr, src, bytes, err);
}

/* -------------------------------------------------------------------------------------------------------------------- run */

static void run_tiles(int id, int n, void *arg)
{
    struct machine *m = arg;
    (void)n;
    for (int i; (i = atomic_fetch_add(&m->next, 1)) < m->grid.tiles;) {
        gr_bh_tile_run(&m->tile[i], &m->env, m->target, &m->scratch[id]);
    }
}

static void receive_tiles(int id, int n, void *arg)
{
    struct machine *m = arg;
    (void)id;
    (void)n;
    for (int i; (i = atomic_fetch_add(&m->next, 1)) < m->grid.tiles;) {
        gr_bh_tile_receive(&m->tile[i], m->tile, m->grid.tiles);
    }
}

/* A job over all tiles; the failure of the lowest tile is that of the machine. */
static enum gr_status over_tiles(struct machine *m, gr_pool_fn fn, struct gr_err *err)
{
    atomic_store(&m->next, 0);
    gr_pool_run(m->pool, fn, m);
    for (int i = 0; i < m->grid.tiles; i++) {
        if (m->tile[i].status != GR_OK) {
            *err = m->tile[i].err;
            return m->tile[i].status;
        }
    }
    return GR_OK;
}

/* All tiles wait at a barrier (*all true), or none does; anything else never ends. */
static enum gr_status meet(struct machine *m, bool *all, struct gr_err *err)
{
    int at = -1, past = -1;
    for (int i = m->grid.tiles - 1; i >= 0; i--) {
        *(m->tile[i].waits ? &at : &past) = i;
    }
    *all = at >= 0;
    if (at >= 0 && past >= 0) {
        return gr_fail(err, GR_ERR_DEVICE,
                       "tile %d, operation %u: waits at barrier %u, which tile %d did not reach in %u operations", at,
                       m->tile[at].done - 1, m->tile[at].barriers, past, m->tile[past].done);
    }
    for (int i = 0; i < m->grid.tiles; i++) {
        m->tile[i].waits = false;
    }
    return GR_OK;
}

static enum gr_status go(struct machine *m, struct gr_err *err)
{
    for (bool more = true; more;) {
        GR_TRY(over_tiles(m, run_tiles, err));
        GR_TRY(meet(m, &more, err));
        GR_TRY(over_tiles(m, receive_tiles, err));
        for (int i = 0; i < m->grid.tiles; i++) {
            m->tile[i].sends = m->tile[i].box_bytes = 0;
        }
    }
    return GR_OK;
}

static enum gr_status advance(struct machine *m, uint32_t n, struct gr_err *err)
{
    if (!m->started) {
        return gr_fail(err, GR_ERR_DEVICE, "no program was started");
    }
    m->target += n;
    enum gr_status status = go(m, err);
    m->started = status == GR_OK;
    return status;
}

static enum gr_status run(struct gr_bh_machine *base, uint32_t n, struct gr_err *err)
{
    uint32_t done = 0;
    for (int i = 0; base->beside && i < base->marks && base->mark[i].after < n; i++) {
        GR_TRY(advance(of(base), base->mark[i].after - done, err));
        done = base->mark[i].after;
        while (base->beside(base->beside_user, done)) {
        }
    }
    return advance(of(base), n - done, err);
}

static enum gr_status start(struct gr_bh_machine *base, struct gr_err *err)
{
    struct machine *m = of(base);
    m->target = 0;
    m->started = false;
    for (int i = 0; i < m->grid.tiles; i++) {
        GR_TRY(gr_bh_tile_start(&m->tile[i], &m->grid, err));
    }
    m->started = true;
    return GR_OK;
}

static enum gr_status stop(struct gr_bh_machine *base, struct gr_err *err)
{
    (void)err;
    of(base)->started = false;
    return GR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- open, close */

static void close_machine(struct gr_bh_machine *base)
{
    struct machine *m = of(base);
    for (int i = 0; m->tile && i < m->grid.tiles; i++) {
        gr_bh_tile_free(&m->tile[i]);
    }
    gr_bh_dram_free(&m->dram);
    gr_big_free(m->l1, m->l1_bytes);
    gr_pool_free(m->pool);
    free(m->scratch);
    free(m->tile);
    free(m->xy);
    free(m);
}

static const struct gr_bh_machine_ops cpu_ops = {l1_write, l1_read, l1_fill, dram_write,
                                                 start,    run,     stop,    close_machine};

static enum gr_status tiles_new(struct machine *m, const struct gr_bh_grid *grid, bool races, struct gr_err *err)
{
    size_t n = (size_t)grid->tiles;
    m->xy = calloc(n, sizeof *m->xy);
    m->tile = calloc(n, sizeof *m->tile);
    if (!m->xy || !m->tile) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for %d tiles", grid->tiles);
    }
    memcpy(m->xy, grid->xy, n * sizeof *m->xy);
    m->grid = *grid;
    m->grid.xy = m->xy;
    m->l1_bytes = n * GR_BH_L1_END;
    GR_TRY(gr_big_alloc(m->l1_bytes, "L1 of the tiles", &m->l1, err));
    for (size_t i = 0; i < n; i++) {
        struct gr_bh_tile *t = &m->tile[i];
        t->number = (int)i;
        t->xy = grid->xy[i];
        t->l1 = (uint8_t *)m->l1 + i * GR_BH_L1_END;
        t->granule = races ? calloc(GR_BH_L1_END / 16, sizeof *t->granule) : NULL;
        if (races && !t->granule) {
            return gr_fail(err, GR_ERR_NOMEM, "out of memory for the race checker of %d tiles", grid->tiles);
        }
    }
    return GR_OK;
}

static enum gr_status machine_new(struct machine *m, const struct gr_bh_grid *grid, enum gr_bh_arithmetic arithmetic,
                                  int threads, struct gr_err *err)
{
    m->base.ops = &cpu_ops;
    GR_TRY(gr_pool_new(threads, &m->pool, err));
    m->scratch = aligned_alloc(64, (size_t)threads * sizeof *m->scratch);
    if (!m->scratch) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for %d threads", threads);
    }
    GR_TRY(tiles_new(m, grid, arithmetic == GR_BH_BIT_EXACT, err));
    m->env = (struct gr_bh_tile_env){&m->grid, arithmetic == GR_BH_BIT_EXACT ? &gr_bh_exact : &gr_bh_fast, &m->dram};
    return GR_OK;
}

enum gr_status gr_bh_machine_cpu(const struct gr_bh_grid *grid, enum gr_bh_arithmetic arithmetic, int threads,
                                 struct gr_bh_machine **out, struct gr_err *err)
{
    *out = NULL;
    if (grid->tiles < 1 || grid->tiles > 4096) {
        return gr_fail(err, GR_ERR_DEVICE, "a group of %d tiles", grid->tiles);
    }
    struct machine *m = calloc(1, sizeof *m);
    if (!m) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for a machine");
    }
    enum gr_status status = machine_new(m, grid, arithmetic, threads, err);
    if (status != GR_OK) {
        close_machine(&m->base);
        return status;
    }
    *out = &m->base;
    return GR_OK;
}
