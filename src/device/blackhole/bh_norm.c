/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_norm.c: LayerNorm and RMSNorm of rows whose columns lie on different tiles. Each tile sums its column and the squares of it, and
 * sends both as one row to all that share the statistics; then every tile adds up what it got. Sums come out of a product with ones, token
 * index along columns, and are turned into rows by the transposing unpacker where they are applied. */
#include "device/blackhole/layers.h"

#include <string.h>

enum {
    ROW = 0 /* sums of one column; x - mean later */,
    SQUARE = 1 /* x^2; -mean later */,
    SPREAD = 2 /* sums of it; 1/std later */,
    MEAN = 3
};

struct gr_bh_buf gr_bh_norm_scratch(struct gr_bh_build *b, int mt)
{
    return gr_bh_alloc(b, "norm scratch", mt, GR_BH_NORM_SCRATCH, GR_BH_FP32);
}

struct gr_bh_buf gr_bh_norm_stats_alloc(struct gr_bh_build *b, int mt, int columns, bool rms)
{
    return gr_bh_alloc(b, "norm statistics", rms ? mt : 2 * mt, (columns + 31) / 32, GR_BH_FP32);
}

void gr_bh_emit_norm_stats(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_buf stats, int columns)
{
    if (columns % 32 != 0) {
        gr_bh_emit_zeros(b, t, stats);
    }
}

struct gr_bh_buf gr_bh_norm_stats(struct gr_bh_build *b, const struct gr_bh_tiles *t, int mt, int columns, bool rms)
{
    const struct gr_bh_buf stats = gr_bh_norm_stats_alloc(b, mt, columns, rms);
    gr_bh_emit_norm_stats(b, t, stats, columns);
    return stats;
}

static int fold_of(const struct gr_bh_norm *n) { return n->fold > 1 ? n->fold : 1; }
static int width_of(const struct gr_bh_norm *n) { return n->width > 0 ? n->width : n->d / fold_of(n); }
static int columns_of(const struct gr_bh_norm *n)
{
    return n->columns > 0 ? n->columns : (n->d / fold_of(n) + 31) / 32;
}
static int share_of(const struct gr_bh_norm *n) { return n->share > 0 ? n->share : columns_of(n); }
/* Row tiles of statistics. */
static int rows_of(const struct gr_bh_norm *n) { return n->x.mt / fold_of(n); }

static uint32_t scratch(const struct gr_bh_norm *n, int column)
{
    return n->scratch.addr + (uint32_t)column * n->scratch.n_stride;
}

static void arg(struct gr_bh_op *op, enum gr_bh_function f, float v)
{
    op->function = (uint16_t)f;
    memcpy(&op->arg, &v, sizeof op->arg);
}

/* Operation on the own column: mt outputs into a column of the scratch. */
static void own(const struct gr_bh_norm *n, struct gr_bh_op *op, int column, int mt, int segments)
{
    op->mt = (uint16_t)mt;
    op->nt = 1;
    op->nseg = (uint16_t)segments;
    op->out_fmt = GR_BH_FP32;
    op->out = scratch(n, column);
    op->out_m = n->scratch.m_stride;
}

/* The same for all row tiles of x: output row m is a row of the statistics, output column n a part of it. */
static void folded(const struct gr_bh_norm *n, struct gr_bh_op *op, int segments)
{
    own(n, op, ROW, rows_of(n), segments);
    op->nt = (uint16_t)fold_of(n);
    op->out_m = (uint32_t)fold_of(n) * n->scratch.m_stride;
    op->out_n = n->scratch.m_stride;
}

/* Emits for every tile that has a column. */
typedef void (*norm_op_fn)(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op);
static struct gr_bh_op *each(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n,
                             norm_op_fn fill)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_stage_groups(t); g++) {
        for (int c = 0; c < columns_of(n); c++) {
            fill(t, n, &op[g * gr_bh_stage_columns(b, t) + c]);
        }
    }
    return op;
}

/* A product of fp32 tiles of the own column, element by element. */
static struct gr_bh_segment element(uint32_t a, uint32_t a_m, uint32_t b, uint32_t b_m, uint32_t flags)
{
    return (struct gr_bh_segment){.flags = GR_BH_SEG_ELEMENT | flags,
                                  .fmt_a = GR_BH_FP32,
                                  .fmt_b = GR_BH_FP32,
                                  .kcount = 1,
                                  .a = a,
                                  .a_m = a_m,
                                  .b = b,
                                  .b_m = b_m};
}
/* A constant tile times fp32 tiles. */
static struct gr_bh_segment times(struct gr_bh_buf constant, uint32_t b, uint32_t b_m, uint32_t flags)
{
    return (struct gr_bh_segment){
        .flags = flags, .fmt_a = GR_BH_BF16, .fmt_b = GR_BH_FP32, .kcount = 1, .a = constant.addr, .b = b, .b_m = b_m};
}
/* A constant tile times all rows that were sent. */
static struct gr_bh_segment gathered(struct gr_bh_buf constant, const struct gr_bh_norm *n, bool squares)
{
    const uint32_t half = squares && !n->rms ? n->stats.mt / 2u * n->stats.m_stride : 0;
    struct gr_bh_segment s = times(constant, n->stats.addr + half, n->stats.m_stride, 0);
    s.kcount = n->stats.nt;
    s.b_k = n->stats.n_stride;
    return s;
}
/* Ones times the parts of a row, transposed: their sums. */
static struct gr_bh_segment summed(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, uint32_t b, uint32_t b_m)
{
    struct gr_bh_segment s = times(t->ones, b, (uint32_t)fold_of(n) * b_m, GR_BH_SEG_TRANSPOSE);
    s.kcount = (uint32_t)fold_of(n);
    s.b_k = b_m;
    return s;
}

static void sum_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    own(n, op, ROW, rows_of(n), 1);
    arg(op, GR_BH_SCALE, 1.0f / (float)n->d);
    op->seg[0] = summed(t, n, n->x.addr, n->x.m_stride);
}
static void square_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    (void)t;
    own(n, op, SQUARE, n->x.mt, 1);
    op->back = n->rms ? 0 : 1; /* not the sums */
    op->seg[0] = element(n->x.addr, n->x.m_stride, n->x.addr, n->x.m_stride, 0);
}
static void square_sum_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    own(n, op, SPREAD, rows_of(n), 1);
    arg(op, GR_BH_SCALE, 1.0f / (float)n->d);
    op->seg[0] = summed(t, n, scratch(n, SQUARE), n->scratch.m_stride);
}
static void mean_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    own(n, op, MEAN, rows_of(n), 1);
    op->seg[0] = gathered(t->ones, n, false);
}
static void minus_mean_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    own(n, op, SQUARE, rows_of(n), 1);
    op->back = 1; /* not the mean */
    op->seg[0] = gathered(t->minus_ones, n, false);
}
/* 1 / sqrt(E x^2 - mean^2 + eps) */
static void deviation_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    own(n, op, SPREAD, rows_of(n), n->rms ? 1 : 2);
    arg(op, GR_BH_RSQRT, n->eps);
    op->seg[0] = gathered(t->ones, n, true);
    if (!n->rms) {
        op->seg[1] = element(scratch(n, MEAN), n->scratch.m_stride, scratch(n, SQUARE), n->scratch.m_stride, 0);
    }
}
static void centre_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    folded(n, op, n->rms ? 1 : 2);
    op->back = 1; /* not the deviation */
    op->seg[0] = times(t->identity, n->x.addr, (uint32_t)fold_of(n) * n->x.m_stride, 0);
    op->seg[0].b_n = n->x.m_stride;
    if (!n->rms) {
        op->seg[1] = times(t->identity, scratch(n, SQUARE), n->scratch.m_stride, GR_BH_SEG_TRANSPOSE);
    }
}
static void divide_op(const struct gr_bh_tiles *t, const struct gr_bh_norm *n, struct gr_bh_op *op)
{
    (void)t;
    folded(n, op, 1);
    op->seg[0] = element(scratch(n, ROW), (uint32_t)fold_of(n) * n->scratch.m_stride, scratch(n, SPREAD),
                         n->scratch.m_stride, GR_BH_SEG_TRANSPOSE);
    op->seg[0].a_n = n->scratch.m_stride;
}

/* Row 0 of the outputs becomes row c of the statistics of every tile that shares them. */
static void send_rows(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n,
                      struct gr_bh_op *op, bool squares)
{
    const int columns = gr_bh_stage_columns(b, t), share = share_of(n);
    for (int i = 0; i < gr_bh_stage_groups(t) * columns_of(n); i++) {
        const int c = i % columns_of(n), g = i / columns_of(n) * columns + c, r = c % share;
        const uint32_t row = (uint32_t)(r % 32 / 16) * 2048u + (uint32_t)(r % 16) * 64u;
        const uint32_t half = squares && !n->rms ? n->stats.mt / 2u * n->stats.m_stride : 0;
        op[g].flags |= GR_BH_OP_ROW;
        op[g].to = n->stats.addr + half + (uint32_t)(r / 32) * n->stats.n_stride + row;
        op[g].to_m = n->stats.m_stride;
        if (share < columns_of(n)) {
            op[g].dest = gr_bh_dest_run(b, g, g - r, share, true, &op[g].dests);
        } else {
            op[g].dest = gr_bh_dest_group(b, t, g, true, &op[g].dests);
        }
    }
}

static void barrier(const struct gr_bh_build *b, struct gr_bh_op *op)
{
    for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
        op[g].flags |= GR_BH_OP_BARRIER;
    }
}

/* The result of tile g, column c: already divided, or with scale and shift from the stream. */
static void output(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n, int g, int c,
                   struct gr_bh_op *op)
{
    const uint32_t fold = (uint32_t)fold_of(n);
    op->out_fmt = (uint16_t)n->out.fmt;
    op->out = n->out.addr + (n->own ? 0 : (uint32_t)c * n->out.n_stride);
    op->out_m = fold * n->out.m_stride;
    op->out_n = n->out.m_stride;
    if (n->scale != NULL) {
        struct gr_bh_piece piece = {.kind = GR_BH_PIECE_MODULATE, .col = c % share_of(n), .n = width_of(n)};
        op->nseg = 2;
        op->stream = (uint16_t)n->stream;
        op->chunk = (uint32_t)gr_bh_piece_bytes(&piece, gr_bh_build_config(b)->weights);
        op->seg[0] = element(scratch(n, ROW), fold * n->scratch.m_stride, 0, 0, GR_BH_SEG_RING);
        op->seg[0].a_n = n->scratch.m_stride;
        op->seg[0].fmt_b = GR_BH_BF16;
        op->seg[1] = times(t->e0, GR_BH_TILE_BYTES(GR_BH_BF16), 0, GR_BH_SEG_RING);
        op->seg[1].fmt_b = GR_BH_BF16;
        for (uint32_t q = 0; q < fold; q++) {
            piece.scale = n->scale + q * (uint32_t)width_of(n);
            piece.shift = n->shift + q * (uint32_t)width_of(n);
            gr_bh_piece_add(b, g, n->stream, piece);
        }
    }
    if (!n->own) {
        op->to = op->out;
        op->to_m = op->out_m;
        op->to_n = op->out_n;
        op->dest = gr_bh_dest_group(b, t, g, false, &op->dests);
    }
}

void gr_bh_emit_norm_send(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n, bool meet)
{
    const int columns = gr_bh_stage_columns(b, t);
    if (columns_of(n) > columns || n->x.mt % fold_of(n) != 0) {
        gr_bh_build_fail(b, "a norm of width %d needs %d tiles, the group has %d", n->d, columns_of(n), columns);
        return;
    }
    if (!n->rms) {
        send_rows(b, t, n, each(b, t, n, sum_op), false);
    }
    each(b, t, n, square_op);
    struct gr_bh_op *op = each(b, t, n, square_sum_op);
    send_rows(b, t, n, op, true);
    if (meet) {
        barrier(b, op);
    }
}

void gr_bh_emit_norm_apply(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n)
{
    const int columns = gr_bh_stage_columns(b, t);
    if (!n->rms) {
        each(b, t, n, mean_op);
        each(b, t, n, minus_mean_op);
    }
    each(b, t, n, deviation_op);
    each(b, t, n, centre_op);
    if (n->scale != NULL) {
        each(b, t, n, divide_op);
    }
    struct gr_bh_op *op = each(b, t, n, divide_op);
    for (int i = 0; i < gr_bh_stage_groups(t) * columns_of(n); i++) {
        const int c = i % columns_of(n), g = i / columns_of(n) * columns + c;
        output(b, t, n, g, c, &op[g]);
    }
    if (!n->own) {
        barrier(b, op);
    }
}

void gr_bh_emit_norm(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n)
{
    gr_bh_emit_norm_send(b, t, n, true);
    gr_bh_emit_norm_apply(b, t, n);
}
