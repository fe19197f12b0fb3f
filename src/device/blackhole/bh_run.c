/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_run.c: running a built program on a machine: lists and constants to the tiles, arrays of the host to and from tiles in L1, requests.
 * Takes no memory while a request runs. */
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/bh_build.h"
#include "device/blackhole/tile_format.h"

enum { TILE = 32, EVERY = -1 };

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

/* A part of an array on one tile, or on all: column tiles [column, column + nt) and row tiles from `row` on are its buffer. */
struct part {
    int tile; /* EVERY: written to all, read from tile 0 */
    int row, column, nt;
};

/* Where row r of the values lies in the padded array. */
static int place_of(const struct gr_bh_io *io, int r) { return io->row != NULL ? io->row[r] : io->row0 + r; }

/* Columns of the values in column tile `column`. */
static int columns_in(const struct gr_bh_io *io, int column)
{
    const int left = io->cols - column * TILE;
    return left < 0 ? 0 : left < TILE ? left : TILE;
}

static void tile_from_values(const struct gr_bh_io *io, const float *values, int m, int column, void *tile)
{
    float block[TILE * TILE] = {0};
    const int cols = columns_in(io, column);
    for (int r = 0; r < io->rows && cols > 0; r++) {
        const int at = place_of(io, r) - m * TILE;
        if (at >= 0 && at < TILE) {
            memcpy(block + at * TILE, values + (size_t)r * (size_t)io->cols + column * TILE,
                   (size_t)cols * sizeof(float));
        }
    }
    gr_bh_tile_put(io->buf.fmt, block, TILE, tile);
}

static void values_from_tile(const struct gr_bh_io *io, const void *tile, int m, int column, float *values)
{
    float block[TILE * TILE];
    const int cols = columns_in(io, column);
    gr_bh_tile_get(io->buf.fmt, tile, block, TILE);
    for (int r = 0; r < io->rows && cols > 0; r++) {
        const int at = place_of(io, r) - m * TILE;
        if (at >= 0 && at < TILE) {
            memcpy(values + (size_t)r * (size_t)io->cols + column * TILE, block + at * TILE,
                   (size_t)cols * sizeof(float));
        }
    }
}

static enum gr_status move(struct gr_bh_machine *m, int tile, uint32_t addr, void *bytes, size_t n, bool write,
                           struct gr_err *err)
{
    if (!write) {
        return m->ops->l1_read(m, tile == EVERY ? 0 : tile, addr, bytes, n, err);
    }
    return tile == EVERY ? m->ops->l1_fill(m, addr, bytes, n, err) : m->ops->l1_write(m, tile, addr, bytes, n, err);
}

/* The tiles of a part between L1 and `tiles`, where they lie row by row: in one go when the buffer does the same. */
static enum gr_status move_part(const struct gr_bh_buf *b, struct part part, struct gr_bh_machine *m, uint8_t *tiles,
                                bool write, struct gr_err *err)
{
    const uint32_t size = GR_BH_TILE_BYTES(b->fmt), row = (uint32_t)part.nt * size;
    if ((part.nt == 1 || b->n_stride == size) && (b->mt == 1 || b->m_stride == row)) {
        return move(m, part.tile, b->addr, tiles, (size_t)b->mt * row, write, err);
    }
    for (uint32_t i = 0; i < b->mt; i++) {
        for (uint32_t n = 0; n < (uint32_t)part.nt; n++, tiles += size) {
            GR_TRY(move(m, part.tile, b->addr + i * b->m_stride + n * b->n_stride, tiles, size, write, err));
        }
    }
    return GR_OK;
}

static int columns_of(const struct gr_bh_io *io) { return (io->cols + TILE - 1) / TILE; }

static struct part part_at(const struct gr_bh_io *io, int i)
{
    if (io->place == GR_BH_EVERYWHERE) {
        return (struct part){.tile = EVERY, .nt = io->buf.nt};
    }
    const int group = i / columns_of(io), column = i % columns_of(io);
    return (struct part){.tile = group * io->columns + column, .row = group * io->buf.mt, .column = column, .nt = 1};
}

static int parts_of(const struct gr_bh_io *io)
{
    return io->place == GR_BH_EVERYWHERE ? 1 : columns_of(io) * (io->groups > 0 ? io->groups : 1);
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

enum gr_status gr_bh_write_input(const struct gr_bh_program *p, struct gr_bh_machine *m, const char *name,
                                 const float *values, struct gr_err *err)
{
    const struct gr_bh_io *io = find(p->input, p->inputs, name);
    if (io == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, "the program has no input %s", name);
    }
    const uint32_t size = GR_BH_TILE_BYTES(io->buf.fmt);
    for (int i = 0; i < parts_of(io); i++) {
        const struct part part = part_at(io, i);
        uint8_t *tile = p->tiles;
        for (int row = 0; row < io->buf.mt; row++) {
            for (int n = 0; n < part.nt; n++, tile += size) {
                tile_from_values(io, values, part.row + row, part.column + n, tile);
            }
        }
        GR_TRY(move_part(&io->buf, part, m, p->tiles, true, err));
    }
    return GR_OK;
}

enum gr_status gr_bh_read_io(const struct gr_bh_program *p, struct gr_bh_machine *m, const struct gr_bh_io *io,
                             float *values, struct gr_err *err)
{
    const uint32_t size = GR_BH_TILE_BYTES(io->buf.fmt);
    for (int i = 0; i < parts_of(io); i++) {
        const struct part part = part_at(io, i);
        GR_TRY(move_part(&io->buf, part, m, p->tiles, false, err));
        const uint8_t *tile = p->tiles;
        for (int row = 0; row < io->buf.mt; row++) {
            for (int n = 0; n < part.nt; n++, tile += size) {
                values_from_tile(io, tile, part.row + row, part.column + n, values);
            }
        }
    }
    return GR_OK;
}

const struct gr_bh_io *gr_bh_find_input(const struct gr_bh_program *p, const char *name)
{
    return find(p->input, p->inputs, name);
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
    for (int i = 0; tap != NULL && i < p->taps; i++) { /* in the order of `after`: that of emitting */
        const struct gr_bh_io *io = &p->tap[i];
        if (io->after > done) {
            GR_TRY(m->ops->run(m, io->after - done, err));
            done = io->after;
        }
        GR_TRY(gr_bh_read_io(p, m, io, p->tap_values, err));
        tap(user, io->name, p->tap_values, io->rows, io->cols);
    }
    return done < p->executed ? m->ops->run(m, p->executed - done, err) : GR_OK;
}
