/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c: constant tiles and arrays, and y = f(x W + b) with its weights from a stream. */
#include "device/blackhole/layers.h"

#include <string.h>

struct diagonal {
    float diagonal, all, column0;
};
static float diagonal_value(void *user, int r, int c)
{
    const struct diagonal *d = user;
    return d->all + (r == c ? d->diagonal : 0.0f) + (c == 0 ? d->column0 : 0.0f);
}

struct gr_bh_tiles gr_bh_tiles_new(struct gr_bh_build *b)
{
    struct gr_bh_tiles t = {0};
    t.identity = gr_bh_constant(b, "identity", GR_BH_BF16, diagonal_value, &(struct diagonal){.diagonal = 1.0f});
    t.ones = gr_bh_constant(b, "ones", GR_BH_BF16, diagonal_value, &(struct diagonal){.all = 1.0f});
    t.minus_ones = gr_bh_constant(b, "minus ones", GR_BH_BF16, diagonal_value, &(struct diagonal){.all = -1.0f});
    t.zeros = gr_bh_constant(b, "zeros", GR_BH_BF16, diagonal_value, &(struct diagonal){0});
    t.e0 = gr_bh_constant(b, "e0", GR_BH_BF16, diagonal_value, &(struct diagonal){.column0 = 1.0f});
    t.minus_e0 = gr_bh_constant(b, "minus e0", GR_BH_BF16, diagonal_value, &(struct diagonal){.column0 = -1.0f});
    return t;
}

struct window {
    float (*value)(void *user, int r, int c);
    void *user;
    int r0, c0;
};
static float window_value(void *user, int r, int c)
{
    const struct window *w = user;
    return w->value(w->user, w->r0 + r, w->c0 + c);
}

static struct gr_bh_segment ones_times(const struct gr_bh_tiles *t, uint32_t tile)
{
    return (struct gr_bh_segment){.flags = GR_BH_SEG_ELEMENT,
                                  .fmt_a = GR_BH_BF16,
                                  .fmt_b = GR_BH_BF16,
                                  .kcount = 1,
                                  .a = t->ones.addr,
                                  .b = tile};
}

void gr_bh_emit_fill(struct gr_bh_build *b, const struct gr_bh_tiles *t, const char *name, struct gr_bh_buf out,
                     float (*value)(void *user, int r, int c), void *user)
{
    for (int i = 0; i < out.mt * out.nt; i++) {
        const int m = i / out.nt, n = i % out.nt;
        struct window w = {value, user, 32 * m, 32 * n};
        const struct gr_bh_buf tile = gr_bh_constant(b, name, GR_BH_BF16, window_value, &w);
        struct gr_bh_op *op = gr_bh_emit(b);
        for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
            op[g].mt = op[g].nt = op[g].nseg = 1;
            op[g].out_fmt = (uint16_t)out.fmt;
            op[g].out = out.addr + (uint32_t)m * out.m_stride + (uint32_t)n * out.n_stride;
            op[g].seg[0] = ones_times(t, tile.addr);
        }
    }
}

struct gr_bh_buf gr_bh_emit_array(struct gr_bh_build *b, const struct gr_bh_tiles *t, const char *name, int mt, int nt,
                                  float (*value)(void *user, int r, int c), void *user)
{
    const struct gr_bh_buf out = gr_bh_alloc(b, name, mt, nt, GR_BH_BF16);
    gr_bh_emit_fill(b, t, name, out, value, user);
    return out;
}

void gr_bh_emit_zeros(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_buf out)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
        op[g].mt = out.mt;
        op[g].nt = out.nt;
        op[g].nseg = 1;
        op[g].out_fmt = (uint16_t)out.fmt;
        op[g].out = out.addr;
        op[g].out_m = out.m_stride;
        op[g].out_n = out.n_stride;
        op[g].seg[0] = ones_times(t, t->zeros.addr);
    }
}

uint16_t gr_bh_dest_group(struct gr_bh_build *b, const struct gr_bh_tiles *t, int tile, bool self, uint16_t *count)
{
    const int columns = gr_bh_stage_columns(b, t);
    if (gr_bh_stage_groups(t) > 1) {
        return gr_bh_dest_run(b, tile, tile / columns * columns, columns, self, count);
    }
    *count = 1;
    return gr_bh_dest_all(b, tile, self);
}

/* Operation of a tile of `group` with `count` columns from `first` on, every `step`th. */
static void linear_op(const struct gr_bh_build_cfg *cfg, const struct gr_bh_tiles *t, const struct gr_bh_linear *l,
                      bool bias, int group, int first, int count, uint32_t step, struct gr_bh_op *op)
{
    const uint32_t kt = (uint32_t)(l->k1 - l->k0);
    const enum gr_bh_format fmt = gr_bh_matrix_format(l->w, cfg->weights);
    op->mt = l->in.mt;
    op->nt = (uint16_t)count;
    op->phases = (uint16_t)(fmt == cfg->weights ? cfg->weight_phases : gr_bh_weight_phases(fmt));
    op->function = (uint16_t)l->function;
    memcpy(&op->arg, &l->arg, sizeof op->arg);
    op->out_fmt = (uint16_t)l->out.fmt;
    op->stream = (uint16_t)l->stream;
    op->back = (uint16_t)l->back;
    op->flags = l->accumulate ? GR_BH_OP_ACCUMULATE : 0;
    const uint32_t column = l->heads != NULL ? (uint32_t)(first % l->heads->span)
                            : l->gather      ? (uint32_t)(first - l->n0)
                                             : 0;
    op->out = l->out.addr + (uint32_t)group * l->out_g + column * l->out.n_stride;
    op->out_m = l->out.m_stride;
    op->out_n = (l->gather ? step : 1) * l->out.n_stride;
    op->out_i = l->out_i;
    if (l->gather || l->heads != NULL || l->to_groups) {
        op->to = op->out;
        op->to_m = op->out_m;
        op->to_n = op->out_n;
        op->to_i = op->out_i;
    }
    op->nseg = bias ? 2 : 1;
    op->seg[0] = (struct gr_bh_segment){.flags = GR_BH_SEG_RING,
                                        .fmt_a = (uint16_t)l->in.fmt,
                                        .fmt_b = (uint16_t)fmt,
                                        .kcount = kt,
                                        .a = l->in.addr + (uint32_t)group * l->in_g,
                                        .a_m = l->in.m_stride,
                                        .a_k = l->in.n_stride,
                                        .b_k = GR_BH_TILE_BYTES(fmt)};
    if (bias) {
        const bool some = l->bias_rows.mt > 0;
        op->seg[1] = (struct gr_bh_segment){.flags = GR_BH_SEG_RING,
                                            .fmt_a = GR_BH_BF16,
                                            .fmt_b = GR_BH_BF16,
                                            .kcount = 1,
                                            .a = some ? l->bias_rows.addr : t->e0.addr,
                                            .a_m = some && l->bias_rows.mt > 1 ? l->bias_rows.m_stride : 0,
                                            .b = kt * GR_BH_TILE_BYTES(fmt)};
    }
}

/* Tile n of every group, but for `tile`. */
static uint16_t to_groups(struct gr_bh_build *b, const struct gr_bh_tiles *t, int tile, int n, uint16_t *count)
{
    uint16_t first = 0;
    *count = 0;
    for (int g = 0; g < gr_bh_stage_groups(t); g++) {
        const int to = g * gr_bh_stage_columns(b, t) + n;
        if (to != tile) {
            const uint16_t at = gr_bh_dest_tile(b, tile, to);
            first = (*count)++ == 0 ? at : first;
        }
    }
    return first;
}

static void linear_tile(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_linear *l, bool bias,
                        int tile, struct gr_bh_op *op)
{
    const struct gr_bh_build_cfg *cfg = gr_bh_build_config(b);
    const int columns = gr_bh_stage_columns(b, t), group = tile / columns, n = tile % columns;
    const int first = l->n0 + (((n - l->n0) % columns) + columns) % columns;
    const int count = first < l->n1 ? (l->n1 - first + columns - 1) / columns : 0;
    if (count == 0) {
        return;
    }
    struct gr_bh_piece piece = {.kind = GR_BH_PIECE_COLUMN, .bias = bias, .k0 = l->k0, .k1 = l->k1, .w = l->w};
    linear_op(cfg, t, l, bias, group, first, count, (uint32_t)columns, op);
    op->chunk = (uint32_t)gr_bh_piece_bytes(&piece, cfg->weights);
    for (int i = 0; i < count; i++) {
        piece.col = first + i * columns;
        gr_bh_piece_add(b, tile, l->stream, piece);
    }
    if (l->gather) {
        op->dest = gr_bh_dest_group(b, t, tile, false, &op->dests);
    } else if (l->heads != NULL) {
        op->dest = gr_bh_heads_dest(b, t, l->heads, tile, first, l->to_groups, &op->dests);
    } else if (l->to_groups) {
        op->dest = to_groups(b, t, tile, n, &op->dests);
    }
}

void gr_bh_emit_linear(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_linear *l)
{
    const int tiles = gr_bh_build_config(b)->grid->tiles, columns = gr_bh_stage_columns(b, t);
    const bool bias = l->k0 == 0 && (l->w->b != NULL || l->w->bias != NULL);
    if (l->k1 - l->k0 > l->in.nt || ((l->heads != NULL || l->to_groups) && l->n1 > columns)) {
        gr_bh_build_fail(b, "matrix %s: %d k tiles of %d rows, %d columns on %d tiles", l->w->name, l->k1 - l->k0,
                         l->in.nt, l->n1, columns);
        return;
    }
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < tiles; g++) {
        if (g < gr_bh_stage_groups(t) * columns) {
            linear_tile(b, t, l, bias, g, &op[g]);
        }
        if (l->barrier) {
            op[g].flags |= GR_BH_OP_BARRIER;
        }
    }
}

struct gr_bh_linear gr_bh_whole(const struct gr_bh_matrix *w, struct gr_bh_buf in, struct gr_bh_buf out)
{
    return (struct gr_bh_linear){.w = w, .in = in, .k1 = gr_bh_tiles_of(w->k), .n1 = gr_bh_tiles_of(w->n), .out = out};
}
