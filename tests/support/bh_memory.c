/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_memory.c: see bh_memory.h. */
#include "bh_memory.h"

#include <stdlib.h>
#include <string.h>

#include "device/blackhole/program.h"
#include "gr_test.h"

static void put(struct bh_memory *m, int tile, uint32_t addr, const void *src, size_t bytes)
{
    assert_true(tile >= 0 && tile < m->tiles && addr <= GR_BH_L1_END && bytes <= GR_BH_L1_END - addr);
    memcpy(m->l1[tile] + addr, src, bytes);
    for (size_t i = 0; i < bytes; i++) {
        m->twice += m->touched[tile][addr + i];
        m->touched[tile][addr + i] = 1;
    }
}

static enum gr_status l1_write(struct gr_bh_machine *machine, int tile, uint32_t addr, const void *src, size_t bytes,
                               struct gr_err *err)
{
    struct bh_memory *m = (struct bh_memory *)machine;
    (void)err;
    put(m, tile, addr, src, bytes);
    m->written += bytes;
    return GR_OK;
}

static enum gr_status l1_fill(struct gr_bh_machine *machine, uint32_t addr, const void *src, size_t bytes,
                              struct gr_err *err)
{
    struct bh_memory *m = (struct bh_memory *)machine;
    (void)err;
    for (int t = 0; t < m->tiles; t++) {
        put(m, t, addr, src, bytes);
    }
    m->filled += bytes;
    return GR_OK;
}

static enum gr_status l1_read(struct gr_bh_machine *machine, int tile, uint32_t addr, void *dst, size_t bytes,
                              struct gr_err *err)
{
    struct bh_memory *m = (struct bh_memory *)machine;
    (void)err;
    assert_true(tile >= 0 && tile < m->tiles && addr <= GR_BH_L1_END && bytes <= GR_BH_L1_END - addr);
    memcpy(dst, m->l1[tile] + addr, bytes);
    m->read += bytes;
    return GR_OK;
}

static enum gr_status start(struct gr_bh_machine *machine, struct gr_err *err)
{
    (void)err;
    ((struct bh_memory *)machine)->started++;
    return GR_OK;
}

static enum gr_status run(struct gr_bh_machine *machine, uint32_t n, struct gr_err *err)
{
    struct bh_memory *m = (struct bh_memory *)machine;
    (void)err;
    assert_true(m->runs < BH_MEMORY_RUNS);
    m->ran[m->runs++] = n;
    return GR_OK;
}

struct bh_memory bh_memory_of(int tiles)
{
    static const struct gr_bh_machine_ops ops = {
        .l1_write = l1_write, .l1_read = l1_read, .l1_fill = l1_fill, .start = start, .run = run};
    struct bh_memory m = {.m = {.ops = &ops}, .tiles = tiles};
    m.l1 = calloc((size_t)tiles, sizeof *m.l1);
    m.touched = calloc((size_t)tiles, sizeof *m.touched);
    assert_true(m.l1 != NULL && m.touched != NULL);
    for (int t = 0; t < tiles; t++) {
        m.l1[t] = malloc(GR_BH_L1_END);
        m.touched[t] = malloc(GR_BH_L1_END);
        assert_true(m.l1[t] != NULL && m.touched[t] != NULL);
    }
    bh_memory_spoil(&m);
    return m;
}

void bh_memory_spoil(struct bh_memory *m)
{
    for (int t = 0; t < m->tiles; t++) {
        memset(m->l1[t], 0xff, GR_BH_L1_END);
        memset(m->touched[t], 0, GR_BH_L1_END);
    }
    m->written = m->filled = m->read = m->twice = 0;
}

void bh_memory_free(struct bh_memory *m)
{
    for (int t = 0; t < m->tiles; t++) {
        free(m->l1[t]);
        free(m->touched[t]);
    }
    free(m->l1);
    free(m->touched);
    *m = (struct bh_memory){0};
}
