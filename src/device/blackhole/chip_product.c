/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_product.c: the self-test's matrix product: [32, K] times [K, 32 * tiles], column tile n on tile n, by the same builder, list and kernels as the
 * network. Compared with sums in double of the operands as the tile formats hold them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/bh_build.h"
#include "device/blackhole/chip_impl.h"
#include "device/blackhole/chip_selftest.h"
#include "device/blackhole/machine.h"
#include "device/blackhole/tensix.h"
#include "device/blackhole/tile_format.h"

enum { SIDE = 32, K_TILES = 4, K = SIDE * K_TILES, GRID_MAX = GR_CHIP_ROWS * GR_CHIP_COLUMNS_MAX };
enum { DRAWN = 97 };
enum { DEADLINE_MS = 2000, SIM_DEADLINE_MS = 120000 };
/* Error over the sum of magnitudes. The FPU aligns eight products and cuts: with these operands 1.1e-4 at worst on the simulator, whose arithmetic is the
 * hardware's. Twice that; a fidelity phase too few is 1.2e-3. */
#define BOUND 2.2e-4

struct product {
    struct gr_bh_grid grid;
    uint32_t xy[GRID_MAX];
    int width; /* columns of B and C */
    float *a, *b, *c;
};

static float uniform(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed / 2147483648.0f;
}

static void draw_tile(float *m, size_t stride, uint32_t seed)
{
    seed *= 2654435761u;
    for (int i = 0; i < SIDE * SIDE; i++) {
        m[(size_t)(i / SIDE) * stride + (size_t)(i % SIDE)] = uniform(&seed);
    }
}

/* Values that the format holds: those of a tile written and read back. Column tiles repeat after DRAWN, fewer than any card has: the worst error does
 * not depend on the number of tiles. */
static void draw(float *m, int rows, int cols, enum gr_bh_format f, uint32_t seed)
{
    unsigned char tile[GR_BH_TILE_BYTES(GR_BH_FP32)];
    for (int r = 0; r < rows; r += SIDE) {
        for (int c = 0; c < cols; c += SIDE) {
            float *at = m + (size_t)r * (size_t)cols + c;
            draw_tile(at, (size_t)cols, seed << 16 | (uint32_t)(r / SIDE) << 8 | (uint32_t)(c / SIDE % DRAWN));
            gr_bh_tile_put(f, at, (size_t)cols, tile);
            gr_bh_tile_get(f, tile, at, (size_t)cols);
        }
    }
}

static void build(struct gr_bh_build *b, const struct product *p, enum gr_bh_format fmt)
{
    const struct gr_bh_buf a = gr_bh_alloc(b, "a", 1, K_TILES, GR_BH_BF16), w = gr_bh_alloc(b, "b", K_TILES, 1, fmt),
                           c = gr_bh_alloc(b, "c", 1, 1, GR_BH_FP32);
    gr_bh_input(b, (struct gr_bh_io){.name = "a", .buf = a, .place = GR_BH_EVERYWHERE, .rows = SIDE, .cols = K});
    gr_bh_input(b, (struct gr_bh_io){.name = "b", .buf = w, .place = GR_BH_COLUMNS, .rows = K, .cols = p->width});
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int t = 0; op != NULL && t < p->grid.tiles; t++) {
        op[t].mt = op[t].nt = op[t].nseg = 1;
        op[t].phases = fmt == GR_BH_BFP8 ? 3 : 4;
        op[t].out_fmt = GR_BH_FP32;
        op[t].out = c.addr;
        op[t].seg[0] = (struct gr_bh_segment){.fmt_a = GR_BH_BF16,
                                              .fmt_b = (uint16_t)fmt,
                                              .kcount = K_TILES,
                                              .a = a.addr,
                                              .a_k = a.n_stride,
                                              .b = w.addr,
                                              .b_k = w.m_stride};
    }
    gr_bh_output(b, (struct gr_bh_io){.name = "c", .buf = c, .place = GR_BH_COLUMNS, .rows = SIDE, .cols = p->width});
}

static enum gr_status run(struct gr_chip *chip, const struct product *p, const struct gr_bh_program *prog,
                          struct gr_err *err)
{
    struct gr_bh_machine *m = NULL;
    GR_TRY(gr_bh_machine_chip(chip, &p->grid, chip->id.sim ? SIM_DEADLINE_MS : DEADLINE_MS, &m, err));
    enum gr_status st = gr_bh_program_load(prog, m, err);
    if (st == GR_OK) {
        st = gr_bh_write_input(prog, m, "a", p->a, err);
    }
    if (st == GR_OK) {
        st = gr_bh_write_input(prog, m, "b", p->b, err);
    }
    if (st == GR_OK) {
        st = gr_bh_program_run(prog, m, NULL, NULL, err);
    }
    if (st == GR_OK) {
        st = gr_bh_read_io(prog, m, gr_bh_find_output(prog, "c"), p->c, err);
    }
    m->ops->close(m);
    return st;
}

/* Worst error of a column tile; NaN counts as infinite. */
static double error_of(const struct product *p, int tile)
{
    double worst = 0;
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int r = i / SIDE, c = tile * SIDE + i % SIDE;
        double sum = 0, magnitude = 0;
        for (int k = 0; k < K; k++) {
            const double v = (double)p->a[r * K + k] * (double)p->b[(size_t)k * (size_t)p->width + (size_t)c];
            sum += v;
            magnitude += fabs(v);
        }
        const double e = fabs((double)p->c[(size_t)r * (size_t)p->width + (size_t)c] - sum) / magnitude;
        worst = e <= worst ? worst : isnan(e) ? INFINITY : e;
    }
    return worst;
}

static void judge(const struct gr_chip *chip, const struct product *p, const char *name, struct gr_selftest *t)
{
    double worst = 0;
    int at = 0, bad = 0;
    for (int i = 0; i < p->grid.tiles; i++) {
        const double e = error_of(p, i);
        bad += !(e <= BOUND);
        if (e > worst) {
            worst = e;
            at = i;
        }
    }
    if (bad > 0) {
        int x, y;
        gr_selftest_tile(chip, at, &x, &y);
        gr_selftest_report(
            t, false, name,
            "%d of %d tiles are wrong, the worst is (%d, %d): error / sum of magnitudes %.1e, bound %.1e", bad,
            p->grid.tiles, x, y, worst, BOUND);
        return;
    }
    gr_selftest_report(t, true, name,
                       "[32, %d] x [%d, 32] on %d tiles, worst error / sum of magnitudes %.1e, bound %.1e", K, K,
                       p->grid.tiles, worst, BOUND);
}

static enum gr_status one(struct gr_chip *chip, struct product *p, enum gr_bh_format fmt, const char *name,
                          struct gr_selftest *t, struct gr_err *err)
{
    const struct gr_bh_build_cfg cfg = {.grid = &p->grid, .weights = GR_BH_BF16, .weight_phases = 4};
    const struct gr_bh_program *prog = NULL;
    struct gr_bh_build *b = NULL;
    draw(p->a, SIDE, K, GR_BH_BF16, 1);
    draw(p->b, K, p->width, fmt, 2);
    memset(p->c, 0, SIDE * sizeof(float) * (size_t)p->width);
    GR_TRY(gr_bh_build_new(&cfg, &b, err));
    build(b, p, fmt);
    enum gr_status st = gr_bh_build_finish(b, &prog, err);
    if (st == GR_OK) {
        st = run(chip, p, prog, err);
        if (st == GR_OK) {
            judge(chip, p, name, t);
        }
    }
    gr_bh_build_free(b);
    return st;
}

enum gr_status gr_selftest_matmul(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err)
{
    const int n = gr_selftest_tiles(chip);
    struct product p = {.width = SIDE * n};
    for (int i = 0; i < n; i++) {
        int x, y;
        gr_selftest_tile(chip, i, &x, &y);
        p.xy[i] = (uint32_t)x | (uint32_t)y << 6;
    }
    p.grid = (struct gr_bh_grid){.tiles = n, .xy = p.xy, .xy0 = p.xy[0], .xy1 = p.xy[n - 1]};
    p.a = malloc(sizeof(float) * SIDE * K);
    p.b = malloc(sizeof(float) * K * (size_t)p.width);
    p.c = malloc(sizeof(float) * SIDE * (size_t)p.width);
    enum gr_status st = p.a == NULL || p.b == NULL || p.c == NULL
                            ? gr_fail(err, GR_ERR_NOMEM, "out of memory for the self-test")
                            : GR_OK;
    if (st == GR_OK) {
        st = one(chip, &p, GR_BH_BF16, "bf16 x bf16", t, err);
    }
    if (st == GR_OK) {
        st = one(chip, &p, GR_BH_BFP8, "bf16 x bfp8_b", t, err);
    }
    free(p.a);
    free(p.b);
    free(p.c);
    return st;
}
