/* SPDX-License-Identifier: Apache-2.0
 *
 * arena_piece.c: one piece of a stream: tiles of a weight column with its bias, or of a modulation, from the checkpoint's tensors. */
#include <string.h>

#include "device/blackhole/arena.h"
#include "device/blackhole/tile_format.h"

enum { TILE = 32 };

size_t gr_bh_piece_bytes(const struct gr_bh_piece *p, enum gr_bh_format weights)
{
    const size_t bf16 = GR_BH_TILE_BYTES(GR_BH_BF16);
    if (p->kind != GR_BH_PIECE_COLUMN) {
        return p->kind == GR_BH_PIECE_MODULATE ? 2 * bf16 : bf16;
    }
    return (size_t)(p->k1 - p->k0) * GR_BH_TILE_BYTES(gr_bh_matrix_format(p->w, weights)) + (p->bias ? bf16 : 0);
}

static int least(int a, int b) { return a < b ? a : b; }

/* Columns of column tile `col` of n. */
static int columns_of(int n, int col) { return least(TILE, n - col * TILE); }

/* Column of the checkpoint for column j, -1: zeros. */
static int source_of(const struct gr_bh_matrix *w, int j) { return w->column != NULL ? w->column[j] : j; }

static bool exact_type(const struct gr_tensor *t)
{
    return t->dtype == GR_BF16 || t->dtype == GR_F16 || t->dtype == GR_F32;
}

enum gr_status gr_bh_piece_check(const struct gr_bh_piece *p, struct gr_err *err)
{
    const struct gr_bh_matrix *w = p->w;
    if (p->kind == GR_BH_PIECE_MODULATE) {
        if (p->col < 0 || columns_of(p->n, p->col) < 1 || p->scale == NULL || p->shift == NULL) {
            return gr_fail(err, GR_ERR_DEVICE, "stream: column tile %d of a modulation of %d", p->col, p->n);
        }
        return GR_OK;
    }
    if (p->kind == GR_BH_PIECE_ROWS) {
        return p->rows != NULL && p->col >= 0 && columns_of(p->n, p->col) >= 1 && p->k0 >= 0 && p->k0 < p->k1
                   ? GR_OK
                   : gr_fail(err, GR_ERR_DEVICE, "stream: row tile %d of %d, column tile %d of rows of %d", p->k0,
                             p->k1, p->col, p->n);
    }
    if (w == NULL || w->w == NULL || w->w->data == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, "stream: %s: no such tensor",
                       w != NULL ? w->name : "a piece without a matrix");
    }
    if (p->k0 < 0 || p->k0 >= p->k1 || p->k1 > (w->k + TILE - 1) / TILE || p->col < 0 || columns_of(w->n, p->col) < 1) {
        return gr_fail(err, GR_ERR_DEVICE, "stream: %s: tiles %d to %d of column tile %d of a %d x %d matrix", w->name,
                       p->k0, p->k1, p->col, w->k, w->n);
    }
    const struct gr_tensor *t = w->w;
    const bool slots = w->slot >= 0;
    if (!exact_type(t) || t->ndim != (slots ? 3 : 2) || (slots && w->slot >= t->shape[0]) ||
        (w->row == NULL ? t->shape[1] < w->k : slots)) {
        return gr_fail(err, GR_ERR_DEVICE, "stream: %s: tensor of type %s with %d dimensions cannot give %d x %d",
                       w->name, gr_dtype_name(t->dtype), t->ndim, w->k, w->n);
    }
    for (int i = p->k0 * TILE; w->row != NULL && i < least(w->k, p->k1 * TILE); i++) {
        if (w->row[i] >= t->shape[1]) {
            return gr_fail(err, GR_ERR_DEVICE, "stream: %s: row %d of %lld", w->name, w->row[i],
                           (long long)t->shape[1]);
        }
    }
    const int64_t out = slots ? t->shape[2] : t->shape[0];
    for (int j = p->col * TILE; j < least(w->n, (p->col + 1) * TILE); j++) {
        if (source_of(w, j) >= out) {
            return gr_fail(err, GR_ERR_DEVICE, "stream: %s: column %d of %lld", w->name, source_of(w, j),
                           (long long)out);
        }
    }
    const struct gr_tensor *b = w->b;
    if (b != NULL && (!exact_type(b) || b->ndim != (slots ? 2 : 1) || (slots && w->slot >= b->shape[0]) ||
                      b->shape[b->ndim - 1] != out)) {
        return gr_fail(err, GR_ERR_DEVICE, "stream: %s: its bias is not of its %lld columns", w->name, (long long)out);
    }
    return GR_OK;
}

/* Tile k of column tile col of w into block [32, 32]; zeros outside of the matrix. */
static void weight_block(const struct gr_bh_matrix *w, int k, int col, float *block)
{
    const struct gr_tensor *t = w->w;
    const int rows = least(TILE, w->k - k * TILE), cols = columns_of(w->n, col), i0 = k * TILE, j0 = col * TILE;
    memset(block, 0, TILE * TILE * sizeof *block);
    if (w->slot < 0) { /* [out, in]: a column of ours lies in one piece */
        float line[TILE];
        for (int j = 0; j < cols; j++) {
            const int c = source_of(w, j0 + j);
            const size_t first = (size_t)(c < 0 ? 0 : c) * (size_t)t->shape[1];
            if (c >= 0 && w->row == NULL) {
                gr_tensor_to_f32(t, first + (size_t)i0, (size_t)rows, line);
            }
            for (int i = 0; i < rows && w->row != NULL; i++) {
                const int r = w->row[i0 + i];
                line[i] = r >= 0 && c >= 0 ? gr_tensor_f32(t, first + (size_t)r) : 0.0f;
            }
            for (int i = 0; i < rows && c >= 0; i++) {
                block[i * TILE + j] = line[i];
            }
        }
        return;
    }
    for (int i = 0; i < rows; i++) {
        const size_t row = ((size_t)w->slot * (size_t)t->shape[1] + (size_t)(i0 + i)) * (size_t)t->shape[2];
        if (w->column == NULL) {
            gr_tensor_to_f32(t, row + (size_t)j0, (size_t)cols, block + i * TILE);
        }
        for (int j = 0; j < cols && w->column != NULL; j++) {
            const int c = source_of(w, j0 + j);
            block[i * TILE + j] = c >= 0 ? gr_tensor_f32(t, row + (size_t)c) : 0.0f;
        }
    }
}

/* The bias of column tile col, in row 0 of the block. */
static void bias_block(const struct gr_bh_matrix *w, int col, float *block)
{
    memset(block, 0, TILE * TILE * sizeof *block);
    for (int j = 0; j < columns_of(w->n, col); j++) {
        const int c = source_of(w, col * TILE + j);
        if (w->bias != NULL) {
            block[j] = w->bias[col * TILE + j];
        } else if (w->b != NULL && c >= 0) {
            const size_t first = w->slot >= 0 ? (size_t)w->slot * (size_t)w->b->shape[1] : 0;
            block[j] = gr_tensor_f32(w->b, first + (size_t)c);
        }
    }
}

static bool all_in_range(const float *block)
{
    return gr_bh_first_out_of_range(block, (size_t)TILE * TILE) == (size_t)TILE * TILE;
}

static void add_error(const float *before, const float *after, struct gr_bh_piece_error *error)
{
    for (int i = 0; i < TILE * TILE; i++) {
        const double v = before[i], d = (double)after[i] - v;
        error->error += d * d;
        error->signal += v * v;
    }
}

static void put_column(const struct gr_bh_piece *p, enum gr_bh_format weights, uint8_t *dst,
                       struct gr_bh_piece_error *error)
{
    float block[TILE * TILE], rounded[TILE * TILE];
    for (int k = p->k0; k < p->k1; k++, dst += GR_BH_TILE_BYTES(weights)) {
        weight_block(p->w, k, p->col, block);
        gr_bh_tile_put(weights, block, TILE, dst);
        if (error != NULL) {
            gr_bh_tile_get(weights, dst, rounded, TILE);
            add_error(block, rounded, error);
            error->broken = error->broken || !all_in_range(block);
        }
    }
    if (p->bias) {
        bias_block(p->w, p->col, block);
        gr_bh_tile_put(GR_BH_BF16, block, TILE, dst);
        if (error != NULL) {
            error->broken = error->broken || !all_in_range(block);
        }
    }
}

static void put_modulation(const struct gr_bh_piece *p, uint8_t *dst)
{
    float scale[TILE * TILE] = {0}, shift[TILE * TILE] = {0};
    for (int j = 0; j < columns_of(p->n, p->col); j++) {
        for (int i = 0; i < TILE; i++) {
            scale[i * TILE + j] = 1.0f + p->scale[p->col * TILE + j];
        }
        shift[j] = p->shift[p->col * TILE + j];
    }
    gr_bh_tile_put(GR_BH_BF16, scale, TILE, dst);
    gr_bh_tile_put(GR_BH_BF16, shift, TILE, dst + GR_BH_TILE_BYTES(GR_BH_BF16));
}

void gr_bh_piece_put(const struct gr_bh_piece *p, enum gr_bh_format weights, void *dst, struct gr_bh_piece_error *error)
{
    if (error != NULL) {
        *error = (struct gr_bh_piece_error){0};
    }
    if (p->kind == GR_BH_PIECE_MODULATE) {
        put_modulation(p, dst);
    } else if (p->kind == GR_BH_PIECE_ROWS) {
        const size_t first = (size_t)p->k0 * TILE * (size_t)p->n + (size_t)p->col * TILE;
        gr_bh_tile_put_part(GR_BH_BF16, p->rows + first, (size_t)p->n, TILE, columns_of(p->n, p->col), dst);
    } else {
        put_column(p, gr_bh_matrix_format(p->w, weights), dst, error);
    }
}
