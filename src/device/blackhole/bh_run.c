/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_run.c: running a built program on a machine: lists and constants to the tiles, arrays of the host to and from tiles in L1, requests.
 * Takes no memory while a request runs. */
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/bh_build.h"
#include "device/blackhole/tile_format.h"

enum {
    TILE = 32,
    FACE = 16,
    FACE_ROWS = 64, /* of a tile, 16 values each, in the order in which they lie there */
    EVERY = -1,
    ROW_TILES = 64,  /* of an array whose tiles are moved in parts */
    GAP_BYTES = 1024 /* of zeros that are sent rather than begin another write */
};
#define ALL_ROWS UINT64_MAX /* a bit a face row */

enum gr_status gr_bh_program_load(const struct gr_bh_program *p, struct gr_bh_machine *m, struct gr_err *err)
{
    /* What no operation writes is multiplied by zeros here and there, and 0 * NaN is NaN. */
    void *zeros = calloc(1, GR_BH_L1_END - p->data + 1);
    if (zeros == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "L1: no memory for %u zeros", GR_BH_L1_END - p->data);
    }
    enum gr_status status = m->ops->l1_fill(m, p->data, zeros, GR_BH_L1_END - p->data, err);
    free(zeros);
    for (int t = 0; status == GR_OK && t < p->grid->tiles; t++) {
        status = m->ops->l1_write(m, t, GR_BH_PROGRAM, p->list[t], p->list_bytes, err);
    }
    for (int i = 0; status == GR_OK && i < p->constants; i++) {
        const struct gr_bh_constant *c = &p->constant[i];
        status = m->ops->l1_fill(m, c->addr, c->bytes, GR_BH_TILE_BYTES(c->fmt), err);
    }
    return status == GR_OK ? m->ops->start(m, err) : status;
}

/* ---- arrays ---- */

/* A part of an array on one tile, or on all: column tiles [column, column + nt) and row tiles from `row` on are columns [slot, slot + nt) of
 * its buffer. */
struct part {
    int tile; /* EVERY: written to all, read from tile 0 */
    int row, column, slot, nt;
};

/* Where row r of the values lies in the padded array. */
static int place_of(const struct gr_bh_io *io, int r) { return io->row != NULL ? io->row[r] : io->row0 + r; }

static int columns_of(const struct gr_bh_io *io) { return (io->cols + TILE - 1) / TILE; }

/* Columns of the values in column tile `column`, which has some. */
static int columns_in(const struct gr_bh_io *io, int column)
{
    const int left = io->cols - column * TILE;
    return left < TILE ? left : TILE;
}

/* Column tiles of a part that have values. */
static int columns_with_values(const struct gr_bh_io *io, struct part part)
{
    const int left = columns_of(io) - part.column;
    return left < part.nt ? left : part.nt;
}

static struct part part_at(const struct gr_bh_program *p, const struct gr_bh_io *io, int i)
{
    if (io->place == GR_BH_EVERYWHERE) {
        return (struct part){.tile = EVERY, .nt = io->buf.nt};
    }
    const int group = i / columns_of(io), column = i % columns_of(io);
    const int tiles = io->groups > 0 ? io->columns : p->grid->tiles;
    return (struct part){.tile = group * io->columns + column % tiles,
                         .row = group * io->buf.mt,
                         .column = column,
                         .slot = column / tiles,
                         .nt = 1};
}

static int parts_of(const struct gr_bh_io *io)
{
    return io->place == GR_BH_EVERYWHERE ? 1 : columns_of(io) * (io->groups > 0 ? io->groups : 1);
}

/* Bytes between L1 and the room of the program, where the tiles of a part lie row by row. Neighbours on both sides go together. */
struct copy {
    struct gr_bh_machine *m;
    int tile;
    bool write;
    uint32_t addr, bytes;
    uint8_t *at;
    struct gr_err *err;
};

static enum gr_status copy_now(struct copy *c)
{
    const struct gr_bh_machine_ops *ops = c->m->ops;
    const uint32_t n = c->bytes;
    c->bytes = 0;
    if (n == 0) {
        return GR_OK;
    }
    if (!c->write) {
        return ops->l1_read(c->m, c->tile == EVERY ? 0 : c->tile, c->addr, c->at, n, c->err);
    }
    return c->tile == EVERY ? ops->l1_fill(c->m, c->addr, c->at, n, c->err)
                            : ops->l1_write(c->m, c->tile, c->addr, c->at, n, c->err);
}

static enum gr_status copy_add(struct copy *c, uint32_t addr, uint8_t *at, uint32_t bytes)
{
    if (c->bytes > 0 && addr == c->addr + c->bytes && at == c->at + c->bytes) {
        c->bytes += bytes;
        return GR_OK;
    }
    GR_TRY(copy_now(c));
    c->addr = addr;
    c->at = at;
    c->bytes = bytes;
    return GR_OK;
}

/* The face rows of a tile whose bits are set. */
static enum gr_status copy_tile(struct copy *c, enum gr_bh_format fmt, uint64_t rows, uint32_t addr, uint8_t *at)
{
    if (rows == ALL_ROWS) {
        return copy_add(c, addr, at, GR_BH_TILE_BYTES(fmt));
    }
    const uint32_t step = GR_BH_TILE_BYTES(fmt) / FACE_ROWS;
    for (uint32_t i = 0; i < FACE_ROWS; i++) {
        if ((rows >> i & 1) != 0) {
            GR_TRY(copy_add(c, addr + i * step, at + i * step, step));
        }
    }
    return GR_OK;
}

/* rows: of each row tile; NULL: all. */
static enum gr_status copy_part(struct copy *c, const struct gr_bh_buf *b, struct part part, const uint64_t *rows,
                                uint8_t *tiles)
{
    c->tile = part.tile;
    for (uint32_t i = 0; i < b->mt; i++) {
        for (uint32_t n = 0; n < (uint32_t)part.nt; n++, tiles += GR_BH_TILE_BYTES(b->fmt)) {
            const uint32_t addr = b->addr + i * b->m_stride + ((uint32_t)part.slot + n) * b->n_stride;
            GR_TRY(copy_tile(c, b->fmt, rows != NULL ? rows[i] : ALL_ROWS, addr, tiles));
        }
    }
    return copy_now(c);
}

/* The tile of row r of the values in the room, first column tile of the part; NULL: the part does not have the row. */
static uint8_t *tile_of(const struct gr_bh_program *p, const struct gr_bh_io *io, struct part part, int r)
{
    const int row = place_of(io, r) / TILE - part.row;
    const size_t size = GR_BH_TILE_BYTES(io->buf.fmt);
    return row < 0 || row >= io->buf.mt ? NULL : (uint8_t *)p->tiles + (size_t)(row * part.nt) * size;
}

/* Face rows with values in each row tile of a part, if the tiles can be moved in parts: exponents of bfp8_b lie elsewhere than what they are of. */
static bool find_rows(const struct gr_bh_io *io, struct part part, gr_bh_row_fn row, void *user, uint64_t *rows)
{
    if (io->buf.mt > ROW_TILES || io->buf.fmt == GR_BH_BFP8) {
        return false;
    }
    memset(rows, 0, io->buf.mt * sizeof *rows);
    for (int r = 0; r < io->rows; r++) {
        const int at = place_of(io, r) - part.row * TILE;
        if (at >= 0 && at < io->buf.mt * TILE && (row == NULL || row(user, r) != NULL)) {
            const int left = at % TILE / FACE * TILE + at % FACE;
            rows[at / TILE] |= UINT64_C(1) << left | UINT64_C(1) << (left + FACE);
        }
    }
    return true;
}

/* Short gaps between the face rows, and at both ends, belong to them. */
static void close_gaps(uint64_t *rows, const struct gr_bh_buf *b)
{
    const int n = b->mt * FACE_ROWS, most = GAP_BYTES / (int)(GR_BH_TILE_BYTES(b->fmt) / FACE_ROWS);
    int gap = 0;
    for (int i = 0; i <= n; i++) {
        if (i < n && (rows[i / FACE_ROWS] >> i % FACE_ROWS & 1) == 0) {
            gap++;
            continue;
        }
        for (int k = i - gap; k < i && gap <= most; k++) {
            rows[k / FACE_ROWS] |= UINT64_C(1) << k % FACE_ROWS;
        }
        gap = 0;
    }
}

static void tiles_from_rows(const struct gr_bh_program *p, const struct gr_bh_io *io, struct part part,
                            gr_bh_row_fn row, void *user)
{
    const size_t size = GR_BH_TILE_BYTES(io->buf.fmt);
    for (int r = 0; r < io->rows; r++) {
        uint8_t *tile = tile_of(p, io, part, r);
        const float *v = tile != NULL ? row(user, r) : NULL;
        for (int n = 0; v != NULL && n < columns_with_values(io, part); n++, tile += size) {
            const int column = part.column + n;
            gr_bh_tile_put_row(io->buf.fmt, place_of(io, r) % TILE, v + column * TILE, columns_in(io, column), tile);
        }
    }
}

/* Rows that are zero on all tiles of a column array go to all at once, and never to the same bytes as the others: nothing depends on which of the
 * two arrives first. */
static enum gr_status write_columns(const struct gr_bh_program *p, struct gr_bh_machine *m, const struct gr_bh_io *io,
                                    gr_bh_row_fn row, void *user, struct gr_err *err)
{
    uint64_t rows[ROW_TILES], zeros[ROW_TILES];
    const bool apart = io->groups <= 1 && find_rows(io, part_at(p, io, 0), row, user, rows);
    struct copy c = {.m = m, .write = true, .err = err};
    const size_t bytes = (size_t)io->buf.mt * io->buf.nt * GR_BH_TILE_BYTES(io->buf.fmt);
    memset(p->tiles, 0, bytes);
    if (apart) {
        close_gaps(rows, &io->buf);
        for (int i = 0; i < io->buf.mt; i++) {
            zeros[i] = ~rows[i];
        }
        GR_TRY(copy_part(&c, &io->buf, (struct part){.tile = EVERY, .nt = io->buf.nt}, zeros, p->tiles));
    }
    for (int i = 0; i < parts_of(io); i++) {
        const struct part part = part_at(p, io, i);
        if (!apart && i > 0) { /* another group has other rows */
            memset(p->tiles, 0, bytes);
        }
        tiles_from_rows(p, io, part, row, user);
        GR_TRY(copy_part(&c, &io->buf, part, apart ? rows : NULL, p->tiles));
    }
    return GR_OK;
}

int gr_bh_io_parts(const struct gr_bh_io *io) { return parts_of(io); }

enum gr_status gr_bh_write_part(const struct gr_bh_program *p, struct gr_bh_machine *m, const struct gr_bh_io *io,
                                int i, gr_bh_row_fn row, void *user, struct gr_err *err)
{
    struct copy c = {.m = m, .write = true, .err = err};
    const struct part part = part_at(p, io, i);
    memset(p->tiles, 0, (size_t)io->buf.mt * (size_t)part.nt * GR_BH_TILE_BYTES(io->buf.fmt));
    tiles_from_rows(p, io, part, row, user);
    return copy_part(&c, &io->buf, part, NULL, p->tiles);
}

static const struct gr_bh_io *find(const struct gr_bh_io *v, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(v[i].name, name) == 0) {
            return &v[i];
        }
    }
    return NULL;
}

enum gr_status gr_bh_write_rows(const struct gr_bh_program *p, struct gr_bh_machine *m, const char *name,
                                gr_bh_row_fn row, void *user, struct gr_err *err)
{
    const struct gr_bh_io *io = find(p->input, p->inputs, name);
    if (io == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, "the program has no input %s", name);
    }
    if (io->place == GR_BH_COLUMNS) {
        return write_columns(p, m, io, row, user, err);
    }
    return gr_bh_write_part(p, m, io, 0, row, user, err);
}

struct values {
    const float *v;
    size_t cols;
};

static const float *row_of_values(void *user, int r)
{
    const struct values *v = user;
    return v->v + (size_t)r * v->cols;
}

enum gr_status gr_bh_write_input(const struct gr_bh_program *p, struct gr_bh_machine *m, const char *name,
                                 const float *values, struct gr_err *err)
{
    const struct gr_bh_io *io = find(p->input, p->inputs, name);
    struct values v = {.v = values, .cols = io != NULL ? (size_t)io->cols : 0};
    return gr_bh_write_rows(p, m, name, row_of_values, &v, err);
}

enum gr_status gr_bh_read_io(const struct gr_bh_program *p, struct gr_bh_machine *m, const struct gr_bh_io *io,
                             float *values, struct gr_err *err)
{
    uint64_t rows[ROW_TILES];
    struct copy c = {.m = m, .err = err};
    const size_t size = GR_BH_TILE_BYTES(io->buf.fmt);
    for (int i = 0; i < parts_of(io); i++) {
        const struct part part = part_at(p, io, i);
        GR_TRY(copy_part(&c, &io->buf, part, find_rows(io, part, NULL, NULL, rows) ? rows : NULL, p->tiles));
        for (int r = 0; r < io->rows; r++) {
            const uint8_t *tile = tile_of(p, io, part, r);
            for (int n = 0; tile != NULL && n < columns_with_values(io, part); n++, tile += size) {
                const int column = part.column + n;
                gr_bh_tile_get_row(io->buf.fmt, place_of(io, r) % TILE, tile, columns_in(io, column),
                                   values + (size_t)r * (size_t)io->cols + column * TILE);
            }
        }
    }
    return GR_OK;
}

const struct gr_bh_io *gr_bh_find_output(const struct gr_bh_program *p, const char *name)
{
    return find(p->output, p->outputs, name);
}

/* ---- requests ---- */

enum gr_status gr_bh_program_run(const struct gr_bh_program *p, struct gr_bh_machine *m, gr_bh_tap_fn tap, void *user,
                                 struct gr_err *err)
{
    uint32_t done = 0;
    m->meets = false;
    for (int i = 0; tap != NULL && i < p->taps; i++) { /* in the order of `after`: that of emitting */
        const struct gr_bh_io *io = &p->tap[i];
        if (io->after > done) {
            GR_TRY(m->ops->run(m, io->after - done, err));
            done = io->after;
        }
        GR_TRY(gr_bh_read_io(p, m, io, p->tap_values, err));
        tap(user, io->name, p->tap_values, io->rows, io->cols);
    }
    m->meets = p->meets;
    return done < p->executed ? m->ops->run(m, p->executed - done, err) : GR_OK;
}
