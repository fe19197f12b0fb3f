/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_build.c: the builder's calls: L1, constants, operations with their destinations and pieces, arrays of the host. Loops are in
 * build_loop.c, the end in build_finish.c. Nothing here returns a status: the first failure is kept, and what follows it does nothing. */
#include "device/blackhole/bh_build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/build_impl.h"
#include "device/blackhole/tile_format.h"

enum { TILE = 32, FIRST_ROOM = 16 };

void gr_bh_build_fail(struct gr_bh_build *b, const char *fmt, ...)
{
    char text[GR_ERR_MSG_BYTES];
    if (b->failed) {
        return;
    }
    b->failed = true;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)gr_fail(&b->err, GR_ERR_DEVICE, "%s", text);
}

void *gr_bh_build_grow(struct gr_bh_build *b, void *v, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) {
        return v;
    }
    const size_t room = *cap > 0 ? 2 * *cap : FIRST_ROOM;
    void *grown = room <= SIZE_MAX / size ? realloc(v, room * size) : NULL;
    if (grown == NULL) {
        if (!b->failed) {
            b->failed = true;
            (void)gr_fail(&b->err, GR_ERR_NOMEM, "operation lists: no memory for %zu elements of %zu bytes", room,
                          size);
        }
        return v;
    }
    *cap = room;
    return grown;
}

static uint32_t x_of(uint32_t xy) { return xy & 63; }
static uint32_t y_of(uint32_t xy) { return xy >> 6 & 63; }

/* Columns 8 and 9 hold no Tensix. */
unsigned gr_bh_rectangle_tiles(const struct gr_bh_grid *grid)
{
    unsigned columns = 0;
    for (uint32_t x = x_of(grid->xy0); x <= x_of(grid->xy1); x++) {
        columns += x != 8 && x != 9;
    }
    return columns * (y_of(grid->xy1) - y_of(grid->xy0) + 1);
}

static enum gr_status check_grid(const struct gr_bh_grid *g, struct gr_err *err)
{
    if (g->tiles < 1 || x_of(g->xy0) > x_of(g->xy1) || y_of(g->xy0) > y_of(g->xy1)) {
        return gr_fail(err, GR_ERR_DEVICE, "tile group: %d tiles from %u,%u to %u,%u", g->tiles, x_of(g->xy0),
                       y_of(g->xy0), x_of(g->xy1), y_of(g->xy1));
    }
    for (int i = 0; i < g->tiles; i++) {
        const uint32_t x = x_of(g->xy[i]), y = y_of(g->xy[i]);
        if (x < x_of(g->xy0) || x > x_of(g->xy1) || y < y_of(g->xy0) || y > y_of(g->xy1) || x == 8 || x == 9) {
            return gr_fail(err, GR_ERR_DEVICE, "tile group: tile %d at %u,%u is outside its rectangle", i, x, y);
        }
    }
    return GR_OK;
}

enum gr_status gr_bh_build_new(const struct gr_bh_build_cfg *cfg, struct gr_bh_build **out, struct gr_err *err)
{
    GR_TRY(check_grid(cfg->grid, err));
    const size_t tiles = (size_t)cfg->grid->tiles;
    struct gr_bh_build *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "operation lists: no memory for %zu tiles", tiles);
    }
    b->cfg = *cfg;
    b->tiles = cfg->grid->tiles;
    b->top = b->low = b->lowest = GR_BH_L1_END;
    b->pending = calloc(tiles, sizeof *b->pending);
    b->dest = calloc(tiles, sizeof *b->dest);
    b->piece = calloc(tiles * GR_BH_STREAMS, sizeof *b->piece);
    bool full = b->pending == NULL || b->dest == NULL || b->piece == NULL;
    for (int i = 0; i < GR_BH_NESTING; i++) {
        b->loop[i].dest_at = calloc(tiles, sizeof(size_t));
        b->loop[i].piece_at = calloc(tiles * GR_BH_STREAMS, sizeof(size_t));
        full = full || b->loop[i].dest_at == NULL || b->loop[i].piece_at == NULL;
    }
    if (full) {
        gr_bh_build_free(b);
        return gr_fail(err, GR_ERR_NOMEM, "operation lists: no memory for %zu tiles", tiles);
    }
    *out = b;
    return GR_OK;
}

const struct gr_bh_build_cfg *gr_bh_build_config(const struct gr_bh_build *b) { return &b->cfg; }

static void free_ios(struct gr_bh_io_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free((char *)(uintptr_t)l->v[i].name);
    }
    free(l->v);
}

void gr_bh_build_free(struct gr_bh_build *b)
{
    if (b == NULL) {
        return;
    }
    for (int t = 0; t < b->tiles; t++) {
        if (b->dest != NULL) {
            free(b->dest[t].v);
        }
        if (b->list != NULL) {
            free(b->list[t]);
        }
    }
    for (int s = 0; s < b->tiles * GR_BH_STREAMS && b->piece != NULL; s++) {
        free(b->piece[s].v);
    }
    for (int i = 0; i < GR_BH_NESTING; i++) {
        free(b->loop[i].dest_at);
        free(b->loop[i].piece_at);
    }
    for (size_t i = 0; i < b->constants; i++) {
        free(b->constant[i].bytes);
    }
    free_ios(&b->input);
    free_ios(&b->output);
    free_ios(&b->tap);
    free(b->constant);
    free(b->op);
    free(b->pending);
    free(b->dest);
    free(b->piece);
    free(b->list);
    free(b->plan);
    free(b->program.tiles);
    free(b->program.tap_values);
    free(b);
}

/* ---- L1 ---- */

size_t gr_bh_build_list_bytes(const struct gr_bh_build *b, size_t more)
{
    size_t dests = 0;
    for (int t = 0; t < b->tiles; t++) {
        dests = b->dest[t].n > dests ? b->dest[t].n : dests;
    }
    return sizeof(struct gr_bh_head) + (b->ops + more) * sizeof(struct gr_bh_op) + dests * sizeof(struct gr_bh_dest);
}

struct gr_bh_buf gr_bh_alloc(struct gr_bh_build *b, const char *name, int mt, int nt, enum gr_bh_format fmt)
{
    struct gr_bh_buf none = {0};
    if (b->failed) {
        return none;
    }
    if (mt < 1 || nt < 1 || mt > UINT16_MAX || nt > UINT16_MAX) {
        gr_bh_build_fail(b, "L1: %s has %d x %d tiles", name, mt, nt);
        return none;
    }
    const uint32_t tile = GR_BH_TILE_BYTES(fmt);
    const uint64_t bytes = (uint64_t)mt * (uint64_t)nt * tile, lists = GR_BH_PROGRAM + gr_bh_build_list_bytes(b, 1);
    const uint64_t left = b->top > lists ? b->top - lists : 0;
    if (bytes > left) {
        gr_bh_build_fail(b, "L1: %s needs %llu bytes (%d x %d tiles of %u), %llu are left", name,
                         (unsigned long long)bytes, mt, nt, tile, (unsigned long long)left);
        return none;
    }
    b->top -= (uint32_t)bytes;
    b->low = b->top < b->low ? b->top : b->low;
    b->lowest = b->top < b->lowest ? b->top : b->lowest;
    return (struct gr_bh_buf){.addr = b->top,
                              .m_stride = (uint32_t)nt * tile,
                              .n_stride = tile,
                              .mt = (uint16_t)mt,
                              .nt = (uint16_t)nt,
                              .fmt = fmt};
}

void gr_bh_l1_leave(struct gr_bh_build *b, const char *name, uint32_t addr)
{
    const uint32_t tile = GR_BH_TILE_BYTES(GR_BH_BF16);
    if (b->top > addr) {
        (void)gr_bh_alloc(b, name, 1, (int)((b->top - addr + tile - 1) / tile), GR_BH_BF16);
    }
}

uint32_t gr_bh_l1_mark(const struct gr_bh_build *b) { return b->top; }

void gr_bh_l1_release(struct gr_bh_build *b, uint32_t mark)
{
    if (b->failed) {
        return;
    }
    if (mark < b->top || mark > GR_BH_L1_END) {
        gr_bh_build_fail(b, "L1: released to %#x, which is not allocated", mark);
        return;
    }
    b->top = mark;
}

uint32_t gr_bh_l1_lowest(struct gr_bh_build *b)
{
    const uint32_t lowest = b->lowest;
    b->lowest = b->top;
    return lowest;
}

static struct gr_bh_buf tile_at(uint32_t addr, enum gr_bh_format fmt)
{
    const uint32_t tile = GR_BH_TILE_BYTES(fmt);
    return (struct gr_bh_buf){.addr = addr, .m_stride = tile, .n_stride = tile, .mt = 1, .nt = 1, .fmt = fmt};
}

struct gr_bh_buf gr_bh_constant(struct gr_bh_build *b, const char *name, enum gr_bh_format fmt,
                                float (*value)(void *user, int r, int c), void *user)
{
    struct gr_bh_buf none = {0};
    if (b->failed) {
        return none;
    }
    b->constant = gr_bh_build_grow(b, b->constant, b->constants, &b->constants_cap, sizeof *b->constant);
    void *bytes = malloc(GR_BH_TILE_BYTES(fmt));
    if (bytes == NULL || b->failed) {
        gr_bh_build_fail(b, "L1: no memory for the constant %s", name);
        free(bytes);
        return none;
    }
    float v[TILE * TILE];
    for (int i = 0; i < TILE * TILE; i++) {
        v[i] = value(user, i / TILE, i % TILE);
    }
    gr_bh_tile_put(fmt, v, TILE, bytes);
    for (size_t i = 0; i < b->constants; i++) {
        const struct gr_bh_constant *c = &b->constant[i];
        if (c->fmt == fmt && memcmp(c->bytes, bytes, GR_BH_TILE_BYTES(fmt)) == 0) {
            free(bytes);
            return tile_at(c->addr, fmt);
        }
    }
    const uint32_t addr = GR_BH_CONSTANTS_AT + b->constant_bytes;
    b->constant_bytes += GR_BH_TILE_BYTES(fmt);
    if (b->constant_bytes > GR_BH_L1_END) {
        gr_bh_build_fail(b, "L1: %u bytes of constants, with %s", b->constant_bytes, name);
        free(bytes);
        return none;
    }
    b->constant[b->constants++] = (struct gr_bh_constant){.addr = addr, .fmt = fmt, .bytes = bytes};
    return tile_at(addr, fmt);
}

/* ---- operations ---- */

struct gr_bh_op *gr_bh_emit(struct gr_bh_build *b)
{
    gr_bh_build_flush(b);
    memset(b->pending, 0, (size_t)b->tiles * sizeof *b->pending);
    for (int t = 0; t < b->tiles; t++) {
        b->pending[t].kind = GR_BH_COMPUTE;
        b->pending[t].phases = 4;
        b->pending[t].tap = b->executed;
    }
    if (b->failed) {
        return b->pending; /* to be filled and forgotten */
    }
    for (int s = 0; s < b->tiles * GR_BH_STREAMS; s++) {
        b->piece[s].op_bytes = 0;
    }
    b->open = true;
    b->executed++;
    return b->pending;
}

/* True when something of `tile` may be added to the open operation. */
static bool may_add(struct gr_bh_build *b, const char *what, int tile)
{
    if (!b->failed && !b->open) {
        gr_bh_build_fail(b, "a %s was added outside of an operation", what);
    }
    if (!b->failed && (tile < 0 || tile >= b->tiles)) {
        gr_bh_build_fail(b, "a %s was added for tile %d of %d", what, tile, b->tiles);
    }
    return !b->failed;
}

uint16_t gr_bh_dest_add(struct gr_bh_build *b, int tile, struct gr_bh_dest d)
{
    if (!may_add(b, "destination", tile)) {
        return 0;
    }
    struct gr_bh_dest_list *l = &b->dest[tile];
    if (l->at < l->n) {
        if (memcmp(&l->v[l->at], &d, sizeof d) != 0) {
            gr_bh_build_fail(b, "operation %zu, tile %d: a destination differs from the first round's", b->at, tile);
        }
        return (uint16_t)l->at++;
    }
    if (l->n >= UINT16_MAX) {
        gr_bh_build_fail(b, "tile %d has more than %d destinations", tile, UINT16_MAX);
        return 0;
    }
    l->v = gr_bh_build_grow(b, l->v, l->n, &l->cap, sizeof *l->v);
    if (b->failed) {
        return 0;
    }
    l->v[l->n++] = d;
    return (uint16_t)l->at++;
}

static uint16_t add_tile(struct gr_bh_build *b, int tile, int to)
{
    const uint32_t xy = b->cfg.grid->xy[to];
    return gr_bh_dest_add(b, tile, (struct gr_bh_dest){.xy0 = xy, .xy1 = xy, .tiles = 1, .self = to == tile});
}

uint16_t gr_bh_dest_all(struct gr_bh_build *b, int tile, bool self)
{
    const struct gr_bh_grid *g = b->cfg.grid;
    if (g->xy0 == g->xy1) {
        return add_tile(b, tile, 0);
    }
    const unsigned tiles = gr_bh_rectangle_tiles(g) - (self ? 0 : 1);
    return gr_bh_dest_add(b, tile,
                          (struct gr_bh_dest){.xy0 = g->xy0, .xy1 = g->xy1, .tiles = (uint16_t)tiles, .self = self});
}

uint16_t gr_bh_dest_tile(struct gr_bh_build *b, int tile, int to)
{
    if (!b->failed && (to < 0 || to >= b->tiles)) {
        gr_bh_build_fail(b, "tile %d sends to tile %d of %d", tile, to, b->tiles);
    }
    return b->failed ? 0 : add_tile(b, tile, to);
}

static uint32_t next_column(uint32_t x) { return x == 7 ? 10 : x + 1; }

/* Tiles [at, return value) form a rectangle, row by row, no further than `end`. */
static int rectangle_end(const struct gr_bh_grid *g, int at, int end)
{
    const int first = at;
    while (at + 1 < end && y_of(g->xy[at + 1]) == y_of(g->xy[first]) &&
           x_of(g->xy[at + 1]) == next_column(x_of(g->xy[at]))) {
        at++;
    }
    const int width = at + 1 - first;
    int rows = 1;
    while (first + (rows + 1) * width <= end) {
        const uint32_t *row = g->xy + first + rows * width;
        bool same = true;
        for (int i = 0; i < width; i++) {
            same = same && x_of(row[i]) == x_of(g->xy[first + i]) && y_of(row[i]) == y_of(row[-width]) + 1;
        }
        if (!same) {
            break;
        }
        rows++;
    }
    return first + rows * width;
}

uint16_t gr_bh_dest_run(struct gr_bh_build *b, int tile, int first, int tiles, bool self, uint16_t *count)
{
    const struct gr_bh_grid *g = b->cfg.grid;
    uint16_t dest = 0;
    *count = 0;
    if (!b->failed && (first < 0 || tiles < 1 || first + tiles > b->tiles)) {
        gr_bh_build_fail(b, "tile %d sends to tiles %d to %d of %d", tile, first, first + tiles - 1, b->tiles);
    }
    for (int at = first, next; !b->failed && at < first + tiles; at = next) {
        next = rectangle_end(g, at, first + tiles);
        const bool inside = tile >= at && tile < next;
        if (inside && !self && next == at + 1) {
            continue;
        }
        const uint16_t n = (uint16_t)(next - at - (inside && !self ? 1 : 0));
        const uint16_t i = gr_bh_dest_add(
            b, tile, (struct gr_bh_dest){.xy0 = g->xy[at], .xy1 = g->xy[next - 1], .tiles = n, .self = inside && self});
        dest = (*count)++ == 0 ? i : dest;
    }
    return dest;
}

bool gr_bh_build_same_piece(const struct gr_bh_piece *a, const struct gr_bh_piece *b)
{
    return a->kind == b->kind && a->bias == b->bias && a->k0 == b->k0 && a->k1 == b->k1 && a->col == b->col &&
           a->w == b->w && a->scale == b->scale && a->shift == b->shift && a->rows == b->rows && a->n == b->n;
}

uint32_t gr_bh_piece_add(struct gr_bh_build *b, int tile, int stream, struct gr_bh_piece p)
{
    if (!may_add(b, "piece", tile)) {
        return 0;
    }
    const size_t bytes = gr_bh_piece_bytes(&p, b->cfg.weights);
    if (stream < 0 || stream >= GR_BH_STREAMS || bytes > GR_BH_L1_END) {
        gr_bh_build_fail(b, "operation %zu, tile %d: a piece of %zu bytes for stream %d", b->at, tile, bytes, stream);
        return 0;
    }
    struct gr_bh_piece_list *l = &b->piece[tile * GR_BH_STREAMS + stream];
    if (l->at < l->n) {
        if (!gr_bh_build_same_piece(&l->v[l->at], &p)) {
            gr_bh_build_fail(
                b, "operation %zu, tile %d: a piece of stream %d, which is rewound, differs from the first round's",
                b->at, tile, stream);
        }
    } else {
        l->v = gr_bh_build_grow(b, l->v, l->n, &l->cap, sizeof *l->v);
        if (b->failed) {
            return 0;
        }
        l->v[l->n++] = p;
        l->bytes += bytes;
    }
    l->at++;
    l->op_bytes += bytes;
    return (uint32_t)bytes;
}

/* ---- arrays of the host ---- */

static void add_io(struct gr_bh_build *b, struct gr_bh_io_list *l, const char *what, struct gr_bh_io io)
{
    if (b->failed) {
        return;
    }
    const int columns = io.place != GR_BH_COLUMNS ? io.buf.nt : io.groups > 0 ? io.columns : b->tiles;
    const int room = io.buf.mt * TILE * (io.groups > 0 ? io.groups : 1);
    int low = io.row0, high = io.row0 + io.rows - 1;
    for (int r = 0; io.row != NULL && r < io.rows; r++) {
        low = r == 0 || io.row[r] < low ? io.row[r] : low;
        high = r == 0 || io.row[r] > high ? io.row[r] : high;
    }
    const int wide = io.place == GR_BH_COLUMNS ? columns * io.buf.nt : columns;
    if (io.rows < 1 || io.cols < 1 || low < 0 || high >= room || io.cols > wide * TILE ||
        (io.groups > 0 && (io.place != GR_BH_COLUMNS || io.groups * io.columns > b->tiles))) {
        gr_bh_build_fail(b, "%s %s: %d x %d values at row %d do not fit into %d x %d tiles", what, io.name, io.rows,
                         io.cols, io.row0, io.buf.mt, wide);
        return;
    }
    l->v = gr_bh_build_grow(b, l->v, l->n, &l->cap, sizeof *l->v);
    io.name = strdup(io.name);
    if (io.name == NULL) {
        gr_bh_build_fail(b, "%s: no memory for its name", what);
    }
    if (b->failed) {
        free((char *)(uintptr_t)io.name);
        return;
    }
    l->v[l->n++] = io;
}

void gr_bh_input(struct gr_bh_build *b, struct gr_bh_io io) { add_io(b, &b->input, "input", io); }

void gr_bh_output(struct gr_bh_build *b, struct gr_bh_io io)
{
    io.after = b->executed;
    add_io(b, &b->output, "output", io);
}

void gr_bh_tap_io(struct gr_bh_build *b, struct gr_bh_io io)
{
    io.after = b->executed;
    add_io(b, &b->tap, "tap", io);
}

void gr_bh_tap(struct gr_bh_build *b, const char *name, struct gr_bh_buf buf, enum gr_bh_place place, int row0,
               int rows, int cols)
{
    gr_bh_tap_io(b,
                 (struct gr_bh_io){.name = name, .buf = buf, .place = place, .row0 = row0, .rows = rows, .cols = cols});
}
