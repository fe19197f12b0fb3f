/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_selftest.c: the self-test's small programs: do all cores run, and do L1 and DRAM hold what was put there, seen from the host and from the
 * tiles. The product is in chip_product.c. */
#include "device/blackhole/chip_selftest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/blackhole/chip_impl.h"
#include "device/blackhole/program.h"
#include "device/blackhole/tensix.h"

enum { ARG_WORDS = 64, FACTOR_A = 1234567, FACTOR_B = 89 };
enum { HELLO_MS = 2000, MEMORY_MS = 3000, SIM_MS = 300000 };
enum { L1_FREE = 0x10000 }; /* above code and arguments of small programs */
enum { SIM_L1_BYTES = 32 << 10, BLOCK = 16384, TILE_DRAM_BYTES = 4 * BLOCK };
#define TILE_DRAM (UINT64_C(256) << 20) /* from here on, 1 MiB a tile */
enum { L1_PROBE = 8 << 10, DRAM_PROBE = 256 << 10, DRAM_PLACES = 3 };
enum { GRID_MAX = GR_CHIP_ROWS * GR_CHIP_COLUMNS_MAX };

void gr_selftest_report(struct gr_selftest *t, bool passed, const char *name, const char *fmt, ...)
{
    char figures[GR_ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(figures, sizeof figures, fmt, ap);
    va_end(ap);
    t->failed += !passed;
    t->line(t->user, passed, name, figures);
}

int gr_selftest_tiles(const struct gr_chip *chip) { return GR_CHIP_ROWS * chip->id.columns; }

void gr_selftest_tile(const struct gr_chip *chip, int i, int *x, int *y)
{
    const int column = GR_CHIP_X0 + i % chip->id.columns;
    *x = column < GR_CHIP_GAP0 ? column : column + 2;
    *y = GR_CHIP_Y0 + i / chip->id.columns;
}

struct gr_chip_rect gr_selftest_grid(const struct gr_chip *chip)
{
    int x0, y0, x1, y1;
    gr_selftest_tile(chip, 0, &x0, &y0);
    gr_selftest_tile(chip, gr_selftest_tiles(chip) - 1, &x1, &y1);
    return (struct gr_chip_rect){(uint8_t)x0, (uint8_t)y0, (uint8_t)x1, (uint8_t)y1};
}

static enum gr_status find(const char *name, const struct gr_tensix_program **p, struct gr_err *err)
{
    *p = gr_tensix_find(name);
    return *p != NULL ? GR_OK : gr_fail(err, GR_ERR_DEVICE, GR_TENSIX_NOT_BUILT);
}

/* ------------------------------------------------------------------------------------------------------------------ hello */

struct hearing {
    int good;                        /* tiles */
    bool heard[GR_CHIP_COLUMNS_MAX]; /* columns in which any core answered */
    char first[128];                 /* the first tile that is not good, and why; "": all are */
};

static bool core_answers(const uint32_t *words, uint32_t core)
{
    return words[GR_HELLO_OUT + 4 * core] == GR_HELLO_SEEN + core;
}

/* NULL, or what is wrong with the words of a tile. */
static const char *hello_fault(const uint32_t *words)
{
    for (uint32_t c = 0; c < GR_CORES; c++) {
        const uint32_t *w = words + GR_HELLO_OUT + 4 * c;
        if (!core_answers(words, c)) {
            return "a core does not answer";
        }
        if (w[1] != (uint32_t)FACTOR_A * FACTOR_B + c) {
            return "a core multiplies wrongly";
        }
        if (w[2] >> 16 != 0xFFB0) { /* private memory of the core */
            return "a core has its stack in the wrong place";
        }
    }
    return NULL;
}

static void name_tile(char *out, size_t size, int x, int y, const char *fault, const uint32_t *words)
{
    static const char *const letters[GR_CORES] = {"B", "N", "T0", "T1", "T2"};
    char cores[24] = "";
    size_t at = 0;
    for (uint32_t c = 0; c < GR_CORES; c++) {
        if (core_answers(words, c)) {
            at += (size_t)snprintf(cores + at, sizeof cores - at, " %s", letters[c]);
        }
    }
    snprintf(out, size, "(%d, %d): %s, these answer:%s", x, y, fault, at > 0 ? cores : " none");
}

/* All tiles have the deadline together: a chip whose tiles are all silent is known after one. */
static enum gr_status hear_tiles(struct gr_chip *chip, struct hearing *h, struct gr_err *err)
{
    const double until = gr_clock_ms() + (chip->id.sim ? SIM_MS : HELLO_MS);
    const int n = gr_selftest_tiles(chip);
    for (int i = 0; i < n; i++) {
        uint32_t words[ARG_WORDS];
        const char *fault;
        int x, y;
        gr_selftest_tile(chip, i, &x, &y);
        for (;;) {
            GR_TRY(gr_chip_read(chip, x, y, GR_BH_ARGS, words, sizeof words, err));
            fault = hello_fault(words);
            if (fault == NULL || gr_clock_ms() > until) {
                break;
            }
            gr_chip_run(chip, 1000);
        }
        h->good += fault == NULL;
        for (uint32_t c = 0; c < GR_CORES; c++) {
            h->heard[i % chip->id.columns] |= core_answers(words, c);
        }
        if (fault != NULL && h->first[0] == '\0') {
            name_tile(h->first, sizeof h->first, x, y, fault, words);
        }
    }
    return GR_OK;
}

static void report_hello(const struct gr_chip *chip, const struct hearing *h, double ms, struct gr_selftest *t)
{
    const int n = gr_selftest_tiles(chip);
    int silent = 0;
    for (int c = 0; c < chip->id.columns; c++) {
        silent += !h->heard[c];
    }
    if (h->good == n) {
        gr_selftest_report(t, true, "hello", "%d of %d tiles answer with all %d cores, %.1f ms", n, n, GR_CORES, ms);
        return;
    }
    gr_selftest_report(
        t, false, "hello",
        "%d of %d tiles answer with all %d cores, %.1f ms; first of the others: %s; %d of %d columns silent", h->good,
        n, GR_CORES, ms, h->first, silent, chip->id.columns);
}

static enum gr_status run_hello(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err)
{
    const struct gr_tensix_program *p;
    const struct gr_chip_rect grid = gr_selftest_grid(chip);
    uint32_t args[ARG_WORDS] = {
        [GR_HELLO_A] = FACTOR_A, [GR_HELLO_B] = FACTOR_B}; /* and zeros where answers of an earlier run may be */
    struct hearing h = {0};
    const double begin = gr_clock_ms();
    GR_TRY(find("hello", &p, err));
    GR_TRY(gr_chip_multicast(chip, grid, GR_BH_ARGS, args, sizeof args, err));
    GR_TRY(gr_tensix_start(chip, grid, p, err));
    GR_TRY(hear_tiles(chip, &h, err));
    report_hello(chip, &h, gr_clock_ms() - begin, t);
    return GR_OK;
}

enum gr_status gr_selftest_hello(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err)
{
    const enum gr_status st = run_hello(chip, t, err);
    struct gr_err ignored;
    (void)gr_tensix_stop(chip, gr_selftest_grid(chip), &ignored);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- memory, from the host */

static void fill(uint32_t *words, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes / 4; i++) {
        words[i] = ((uint32_t)(4 * i) + seed) * 2654435761u; /* as kernels/memory.c */
    }
}

static size_t wrong(const uint32_t *a, const uint32_t *b, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes / 4; i++) {
        n += a[i] != b[i];
    }
    return n;
}

/* Memory that a window reaches: place i of `places`. */
struct probe {
    const char *name;
    int places;
    size_t bytes; /* of one place */
    enum gr_status (*put)(struct gr_chip *chip, int place, const void *src, size_t bytes, struct gr_err *err);
    enum gr_status (*get)(struct gr_chip *chip, int place, void *dst, size_t bytes, struct gr_err *err);
};

/* Both ends of every tile's L1. */
static uint64_t l1_place(const struct gr_chip *chip, int place, int *x, int *y)
{
    gr_selftest_tile(chip, place / 2, x, y);
    return place % 2 == 0 ? L1_FREE : GR_TENSIX_L1_BYTES - L1_PROBE;
}

static enum gr_status put_l1(struct gr_chip *chip, int place, const void *src, size_t bytes, struct gr_err *err)
{
    int x, y;
    const uint64_t addr = l1_place(chip, place, &x, &y);
    return gr_chip_write(chip, x, y, addr, src, bytes, err);
}

static enum gr_status get_l1(struct gr_chip *chip, int place, void *dst, size_t bytes, struct gr_err *err)
{
    int x, y;
    const uint64_t addr = l1_place(chip, place, &x, &y);
    return gr_chip_read(chip, x, y, addr, dst, bytes, err);
}

/* Beginning, middle and end of every channel. */
static uint64_t dram_place(int place)
{
    const uint64_t end = GR_CHIP_CHANNEL_BYTES - DRAM_PROBE;
    return (uint64_t)(place % DRAM_PLACES) * (end / 2 / 64 * 64);
}

static enum gr_status put_dram(struct gr_chip *chip, int place, const void *src, size_t bytes, struct gr_err *err)
{
    return gr_chip_dram_write(chip, place / DRAM_PLACES, dram_place(place), src, bytes, err);
}

static enum gr_status get_dram(struct gr_chip *chip, int place, void *dst, size_t bytes, struct gr_err *err)
{
    return gr_chip_dram_read(chip, place / DRAM_PLACES, dram_place(place), dst, bytes, err);
}

/* Everything is written before anything is read: two places that are one are seen. */
static enum gr_status run_probe(struct gr_chip *chip, const struct probe *p, uint32_t *buf, struct gr_selftest *t,
                                struct gr_err *err)
{
    uint32_t *expected = buf, *found = buf + DRAM_PROBE / 4;
    const double mb = (double)p->bytes * p->places / 1e6, begin = gr_clock_ms();
    size_t bad = 0;
    int first = -1;
    for (int i = 0; i < p->places; i++) {
        fill(expected, p->bytes, (uint32_t)i * 0x10001u);
        GR_TRY(p->put(chip, i, expected, p->bytes, err));
    }
    const double half = gr_clock_ms();
    for (int i = 0; i < p->places; i++) {
        GR_TRY(p->get(chip, i, found, p->bytes, err));
        fill(expected, p->bytes, (uint32_t)i * 0x10001u);
        const size_t n = wrong(expected, found, p->bytes);
        first = n > 0 && bad == 0 ? i : first;
        bad += n;
    }
    const double end = gr_clock_ms(), write_s = (half - begin) / 1e3, read_s = (end - half) / 1e3;
    if (bad == 0) {
        gr_selftest_report(t, true, p->name, "%.1f MB, write %.0f MB/s, read %.0f MB/s", mb, mb / write_s, mb / read_s);
    } else {
        gr_selftest_report(t, false, p->name, "%zu wrong words in %.1f MB, the first in place %d of %d", bad, mb, first,
                           p->places);
    }
    return GR_OK;
}

static enum gr_status host_memory(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err)
{
    const struct probe l1 = {"L1, host", 2 * gr_selftest_tiles(chip), L1_PROBE, put_l1, get_l1};
    const struct probe dram = {"DRAM, host", DRAM_PLACES * chip->id.channels, DRAM_PROBE, put_dram, get_dram};
    uint32_t *buf = malloc(2 * (size_t)DRAM_PROBE);
    if (buf == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the self-test");
    }
    enum gr_status st = run_probe(chip, &l1, buf, t, err);
    if (st == GR_OK) {
        st = run_probe(chip, &dram, buf, t, err);
    }
    free(buf);
    return st;
}

/* --------------------------------------------------------------------------------------------------- memory, from the tiles */

static enum gr_status give_ranges(struct gr_chip *chip, uint32_t l1_bytes, struct gr_err *err)
{
    for (int i = 0; i < gr_selftest_tiles(chip); i++) {
        const uint64_t at = TILE_DRAM + ((uint64_t)i << 20);
        const uint32_t args[ARG_WORDS] = {
            [GR_MEMORY_L1] = L1_FREE,
            [GR_MEMORY_L1_BYTES] = l1_bytes,
            [GR_MEMORY_DRAM_XY] = gr_chip_dram_xy(i % chip->id.channels, i / chip->id.channels % 3),
            [GR_MEMORY_DRAM_LO] = (uint32_t)at,
            [GR_MEMORY_DRAM_HI] = (uint32_t)(at >> 32),
            [GR_MEMORY_DRAM_BYTES] = TILE_DRAM_BYTES,
            [GR_MEMORY_BLOCK] = BLOCK,
            [GR_MEMORY_SEED] = 0x5EED0000u + (uint32_t)i,
        };
        int x, y;
        gr_selftest_tile(chip, i, &x, &y);
        GR_TRY(gr_chip_write(chip, x, y, GR_BH_ARGS, args, sizeof args, err));
    }
    return GR_OK;
}

/* Wrong words of one kind on all tiles. */
static void report_kind(struct gr_selftest *t, const char *name, const uint32_t (*words)[ARG_WORDS],
                        const struct gr_chip *chip, int kind, double mb)
{
    const int n = gr_selftest_tiles(chip);
    for (int i = 0; i < n; i++) {
        const uint32_t *w = words[i];
        if (w[GR_MEMORY_DONE] != 1 || w[kind] != 0) {
            int x, y;
            gr_selftest_tile(chip, i, &x, &y);
            if (w[GR_MEMORY_DONE] != 1) {
                gr_selftest_report(t, false, name, "tile (%d, %d) does not finish", x, y);
            } else {
                gr_selftest_report(t, false, name,
                                   "tile (%d, %d): %u wrong words, the first of its memory at 0x%x: 0x%08x, not 0x%08x",
                                   x, y, w[kind], w[GR_MEMORY_BAD_ADDRESS], w[GR_MEMORY_FOUND], w[GR_MEMORY_EXPECTED]);
            }
            return;
        }
    }
    gr_selftest_report(t, true, name, "%d tiles, %.1f MB", n, mb * n);
}

static enum gr_status tile_memory(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err)
{
    uint32_t words[GRID_MAX][ARG_WORDS];
    const struct gr_tensix_program *p;
    const struct gr_chip_rect grid = gr_selftest_grid(chip);
    const uint32_t l1_bytes = chip->id.sim ? SIM_L1_BYTES : GR_TENSIX_L1_BYTES - L1_FREE;
    const double until = gr_clock_ms() + (chip->id.sim ? SIM_MS : MEMORY_MS);
    GR_TRY(find("memory", &p, err));
    GR_TRY(give_ranges(chip, l1_bytes, err));
    GR_TRY(gr_tensix_start(chip, grid, p, err));
    for (int i = 0; i < gr_selftest_tiles(chip); i++) {
        int x, y;
        gr_selftest_tile(chip, i, &x, &y);
        for (;;) {
            GR_TRY(gr_chip_read(chip, x, y, GR_BH_ARGS, words[i], sizeof words[i], err));
            if (words[i][GR_MEMORY_DONE] == 1 || gr_clock_ms() > until) {
                break;
            }
            gr_chip_run(chip, 1000);
        }
    }
    report_kind(t, "L1, tiles", (const uint32_t(*)[ARG_WORDS])words, chip, GR_MEMORY_BAD_L1, l1_bytes / 1e6);
    report_kind(t, "DRAM, out by NoC 0, in by NoC 1", (const uint32_t(*)[ARG_WORDS])words, chip, GR_MEMORY_BAD_NOC01,
                TILE_DRAM_BYTES / 1e6);
    report_kind(t, "DRAM, out by NoC 1, in by NoC 0", (const uint32_t(*)[ARG_WORDS])words, chip, GR_MEMORY_BAD_NOC10,
                TILE_DRAM_BYTES / 1e6);
    return GR_OK;
}

enum gr_status gr_selftest_memory(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err)
{
    struct gr_err ignored;
    GR_TRY(gr_tensix_stop(chip, gr_selftest_grid(chip), err));
    GR_TRY(host_memory(chip, t, err));
    const enum gr_status st = tile_memory(chip, t, err);
    (void)gr_tensix_stop(chip, gr_selftest_grid(chip), &ignored);
    return st;
}
