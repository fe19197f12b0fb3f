/* SPDX-License-Identifier: Apache-2.0
 *
 * arena_key.c: the key of an arena's file: the weights by their digest, everything else that its bytes depend on by content: formats,
 * geometry and order of pieces, row and column maps, and vectors that were computed at load. Where streams go in DRAM does not matter. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "device/blackhole/arena_impl.h"

/* Raise it whenever the same plan would give other bytes: rounding, tile layout, order of streams. */
enum { EDITION = 2, TILE = 32 };

static void add_text(struct gr_digest *d, const char *text) { gr_digest_add(d, text, strlen(text) + 1); }

static void add_numbers(struct gr_digest *d, const int32_t *v, size_t n) { gr_digest_add(d, v, n * sizeof *v); }

/* The part of a vector of n that column tile col reads. */
static void add_part(struct gr_digest *d, const void *v, size_t size, int n, int col)
{
    const int first = col * TILE, left = n - first;
    const int32_t count = v == NULL ? -1 : left < TILE ? left : TILE;
    add_numbers(d, &count, 1);
    if (v != NULL) {
        gr_digest_add(d, (const char *)v + (size_t)first * size, (size_t)count * size);
    }
}

static void add_piece(struct gr_digest *d, const struct gr_bh_piece *p)
{
    const int32_t what[] = {p->kind, p->bias, p->k0, p->k1, p->col, p->n};
    add_numbers(d, what, sizeof what / sizeof what[0]);
    if (p->kind == GR_BH_PIECE_MODULATE) {
        add_part(d, p->scale, sizeof(float), p->n, p->col);
        add_part(d, p->shift, sizeof(float), p->n, p->col);
        return;
    }
    if (p->kind == GR_BH_PIECE_ROWS) {
        for (int r = 0; r < TILE; r++) {
            add_part(d, p->rows + (size_t)(p->k0 * TILE + r) * (size_t)p->n, sizeof(float), p->n, p->col);
        }
        return;
    }
    const struct gr_bh_matrix *w = p->w;
    const int32_t matrix[] = {w->k, w->n, w->slot, w->b != NULL, (int32_t)w->fmt};
    add_text(d, w->w->name);
    add_text(d, w->b != NULL ? w->b->name : "");
    add_numbers(d, matrix, sizeof matrix / sizeof matrix[0]);
    add_part(d, w->column, sizeof(int), w->n, p->col);
    const int32_t rows = w->row == NULL ? -1 : (p->k1 * TILE < w->k ? p->k1 * TILE : w->k) - p->k0 * TILE;
    add_numbers(d, &rows, 1);
    if (w->row != NULL) {
        gr_digest_add(d, w->row + p->k0 * TILE, (size_t)rows * sizeof *w->row);
    }
    add_part(d, p->bias ? w->bias : NULL, sizeof(float), w->n, p->col);
}

enum gr_status gr_bh_arena_key(const struct gr_bh_stream_plan *plan, int tiles, const struct gr_bh_arena_cfg *cfg,
                               char *key, size_t size, struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES];
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    for (int s = 0; s < tiles * GR_BH_STREAMS; s++) {
        const int32_t pieces = (int32_t)plan[s].pieces;
        add_numbers(d, &pieces, 1);
        for (size_t i = 0; i < plan[s].pieces; i++) {
            add_piece(d, &plan[s].piece[i]);
        }
    }
    GR_TRY(gr_digest_end(d, hex, err));
    (void)snprintf(key, size, "blackhole arena %d; weights %s; format %d; tiles %d; plan %s", EDITION,
                   cfg->weights_digest, (int)cfg->weights, tiles, hex);
    return GR_OK;
}
