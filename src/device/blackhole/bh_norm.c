/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_norm.c: LayerNorm and RMSNorm of rows whose columns lie on different tiles. Each tile sends two rows to all that share the statistics:
 * the mean of its column and the sum of squares about that mean (RMSNorm: the sum of squares alone); then every tile puts together what it
 * got. Sums come out of a product with ones, token index along columns; the transposing unpacker turns them where they meet rows.
 *
 * A right operand has 10 significand bits, the rest is cut, so E x^2 - mean^2 would lose a variance that is small against the mean.
 * Instead (Chan, Golub and LeVeque 1979), column n with w_n valid columns and a mean m_n:
 *     mean = sum w_n m_n / d,   variance = (sum of squares about the m_n + sum w_n (m_n - mean)^2) / d
 * where every difference is one sum in Dst, with x and m_n as right operands, cut alike: a constant row gives zeros. For that the weights
 * must be exact, so they are integers: w_n / g and d / g, g their common divisor. */
#include "device/blackhole/layers.h"

#include <string.h>

#include "device/blackhole/tile_format.h"

enum {
    ROW = 0 /* mean - x, transposed; x normalised later */,
    SQUARE = 1 /* squares of x, or of x - its column's mean */,
    BETWEEN = 1 /* squares of all columns' means about the mean: as many columns as the statistics, to BETWEEN_MAX */,
    INVERSE = 1 /* -1/std, a row a token */,
    MEAN = 2 /* of the own column */,
    SPREAD = 3 /* sums of squares; 1/std later */
};
enum { BETWEEN_MAX = 2 };

struct gr_bh_buf gr_bh_norm_scratch(struct gr_bh_build *b, int mt)
{
    return gr_bh_alloc(b, "norm scratch", mt, GR_BH_NORM_SCRATCH, GR_BH_FP32);
}

struct gr_bh_buf gr_bh_norm_stats_alloc(struct gr_bh_build *b, int mt, int columns, bool rms)
{
    return gr_bh_alloc(b, "norm statistics", rms ? mt : 2 * mt, gr_bh_tiles_of(columns), GR_BH_FP32);
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
    return n->columns > 0 ? n->columns : gr_bh_tiles_of(n->d / fold_of(n));
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

/* Operation on the own column: an output for each row tile of statistics, into a column of the scratch. */
static void own(const struct gr_bh_norm *n, struct gr_bh_op *op, int column, int segments)
{
    op->mt = (uint16_t)rows_of(n);
    op->nt = 1;
    op->nseg = (uint16_t)segments;
    op->out_fmt = GR_BH_FP32;
    op->out = scratch(n, column);
    op->out_m = n->scratch.m_stride;
}

/* The same for all row tiles of x: output row m is a row of the statistics, output column n a part of it. */
static void folded(const struct gr_bh_norm *n, struct gr_bh_op *op, int column, int segments)
{
    own(n, op, column, segments);
    op->nt = (uint16_t)fold_of(n);
    op->out_m = (uint32_t)fold_of(n) * n->scratch.m_stride;
    op->out_n = n->scratch.m_stride;
}

/* ---- weights ---- */

/* Elements of a row in column c of those that share statistics, over the fold. */
static int weight_of(const struct gr_bh_norm *n, int c)
{
    const int left = n->d / fold_of(n) - 32 * c;
    return left <= 0 ? 0 : fold_of(n) * (left < 32 ? left : 32);
}
/* g: weights are 32 fold but for the last. */
static int divisor_of(const struct gr_bh_norm *n)
{
    int a = n->d, b = 32 * fold_of(n);
    while (b != 0) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static float weight_value(void *user, int r, int c)
{
    const struct gr_bh_norm *n = user;
    const int column = c + (share_of(n) - 1) / 32 * 32;
    (void)r;
    return column < share_of(n) ? (float)(weight_of(n, column) / divisor_of(n)) : 0.0f;
}
static float valid_value(void *user, int r, int c)
{
    const int *valid = user;
    (void)c;
    return r < *valid ? 1.0f : 0.0f;
}
static float same_value(void *user, int r, int c)
{
    const float *v = user;
    (void)r;
    (void)c;
    return *v;
}
static struct gr_bh_buf same(struct gr_bh_build *b, float v)
{
    const bool bf16 = gr_bh_from_bf16(gr_bh_bf16(v)) == v; /* fp32 on the left has 11 bits: integers to 2048 */
    return gr_bh_constant(b, "norm weight", bf16 ? GR_BH_BF16 : GR_BH_FP32, same_value, &v);
}

/* What a norm is emitted with, beside its tiles. */
struct norm {
    const struct gr_bh_norm *n;
    struct gr_bh_buf weight,
        last; /* w_n / g, A of products with the sent rows: of full tiles; of the last, 0 for rows that nobody sends */
    struct gr_bh_buf minus_d; /* -d / g everywhere */
    struct gr_bh_buf valid;   /* of the last column: ones in the rows that are valid columns */
    float d;                  /* d / g */
};
static struct norm norm_of(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n)
{
    struct norm w = {.n = n, .valid = t->ones};
    if (n->rms) {
        return w;
    }
    int valid = n->d / fold_of(n) % 32;
    if (valid > 0) {
        w.valid = gr_bh_constant(b, "norm columns", GR_BH_BF16, valid_value, &valid);
    }
    w.d = (float)(n->d / divisor_of(n));
    w.weight = share_of(n) > 32 ? same(b, (float)(32 * fold_of(n) / divisor_of(n))) : t->ones;
    w.last = gr_bh_constant(b, "norm weights", GR_BH_BF16, weight_value, (void *)n);
    w.minus_d = same(b, -w.d);
    return w;
}

/* Emits for every tile that has a column; c: which of those that share statistics. */
typedef void (*norm_op_fn)(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op);
static struct gr_bh_op *each(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct norm *w, norm_op_fn fill)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_stage_groups(t); g++) {
        for (int c = 0; c < columns_of(w->n); c++) {
            fill(t, w, c % share_of(w->n), &op[g * gr_bh_stage_columns(b, t) + c]);
        }
    }
    return op;
}

/* ---- segments ---- */

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
    return (struct gr_bh_segment){.flags = flags,
                                  .fmt_a = (uint16_t)constant.fmt,
                                  .fmt_b = GR_BH_FP32,
                                  .kcount = 1,
                                  .a = constant.addr,
                                  .b = b,
                                  .b_m = b_m};
}
/* The same for the parts of x: output column n is part n. */
static struct gr_bh_segment times_x(struct gr_bh_buf constant, const struct gr_bh_norm *n, uint32_t flags)
{
    struct gr_bh_segment s = times(constant, n->x.addr, (uint32_t)fold_of(n) * n->x.m_stride, flags);
    s.b_n = n->x.m_stride;
    s.b_i = n->x_i;
    return s;
}
/* Ones times the parts of a row, transposed: their sums. */
static struct gr_bh_segment summed(struct gr_bh_buf ones, const struct gr_bh_norm *n, uint32_t b, uint32_t b_m)
{
    struct gr_bh_segment s = times(ones, b, (uint32_t)fold_of(n) * b_m, GR_BH_SEG_TRANSPOSE);
    s.kcount = (uint32_t)fold_of(n);
    s.b_k = b_m;
    return s;
}
/* Row tiles that hold the rows of all that share statistics. */
static uint32_t senders(const struct gr_bh_norm *n) { return (uint32_t)gr_bh_tiles_of(share_of(n)); }
static uint32_t squares_at(const struct gr_bh_norm *n)
{
    return n->stats.addr + (n->rms ? 0 : n->stats.mt / 2u * n->stats.m_stride);
}
/* Adds to op the weighted sum over all senders of the rows in a buffer. */
static void add_weighted(const struct norm *w, struct gr_bh_op *op, uint32_t addr, const struct gr_bh_buf *rows)
{
    const uint32_t full = senders(w->n) - 1;
    if (full > 0) {
        op->seg[op->nseg] = times(w->weight, addr, rows->m_stride, 0);
        op->seg[op->nseg].kcount = full;
        op->seg[op->nseg++].b_k = rows->n_stride;
    }
    op->seg[op->nseg++] = times(w->last, addr + full * rows->n_stride, rows->m_stride, 0);
}

/* ---- operations ---- */

/* The mean of the own column in every row that is one of its columns. Whoever reads it cuts it to 10 bits; 0.35 to 0.7 units of the last of
 * them are added before, so that the cut is near to rounding. Not more: of equal values the cut gives the value, whatever 1 / weight lost. */
static void mean_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    const int weight = weight_of(w->n, c);
    own(w->n, op, MEAN, 1);
    arg(op, GR_BH_SCALE, weight > 0 ? (1.0f + 0.35f / 512) / (float)weight : 0.0f);
    op->seg[0] = summed(weight < 32 * fold_of(w->n) ? w->valid : t->ones, w->n, w->n->x.addr, w->n->x.m_stride);
    op->seg[0].b_i = w->n->x_i;
}
/* (x - own mean)^2 (d / g)^2 / d, or x^2: by the SFPU, where what overflows is infinite. */
static void square_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    const struct gr_bh_norm *n = w->n;
    (void)c;
    folded(n, op, SQUARE, n->rms ? 1 : 2);
    arg(op, GR_BH_SQUARE, n->rms ? 1.0f : w->d * w->d / (float)n->d);
    op->seg[0] = times_x(t->ones, n, GR_BH_SEG_ELEMENT);
    if (!n->rms) {
        op->seg[1] =
            times(t->minus_ones, scratch(n, MEAN), n->scratch.m_stride, GR_BH_SEG_ELEMENT | GR_BH_SEG_TRANSPOSE);
    }
}
static void square_sum_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    (void)c;
    own(w->n, op, SPREAD, 1);
    if (w->n->rms) {
        arg(op, GR_BH_SCALE, 1.0f / (float)w->n->d);
    }
    op->seg[0] = summed(t->ones, w->n, scratch(w->n, SQUARE), w->n->scratch.m_stride);
}
/* (m_j - mean)^2 d / g in row j: Dst has d / g times the difference; its square times w_j / g is (d / g)^2 of its share of the variance. */
static void between_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    const struct gr_bh_buf *stats = &w->n->stats;
    (void)t;
    (void)c;
    own(w->n, op, BETWEEN, 1);
    op->nt = (uint16_t)senders(w->n);
    op->out_n = w->n->scratch.n_stride;
    arg(op, GR_BH_SQUARE, 1.0f / w->d);
    op->seg[0] = times(w->minus_d, stats->addr, stats->m_stride, GR_BH_SEG_ELEMENT);
    op->seg[0].b_n = stats->n_stride;
    add_weighted(w, op, stats->addr, stats);
}
/* (mean - x) d / g, transposed, so that the mean is not cut on the way. */
static void centre_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    (void)t;
    (void)c;
    folded(w->n, op, ROW, 1);
    op->back = 1; /* not the squares between columns */
    op->seg[0] = times_x(w->minus_d, w->n, GR_BH_SEG_ELEMENT | GR_BH_SEG_TRANSPOSE);
    add_weighted(w, op, w->n->stats.addr, &w->n->stats);
}
/* 1 / sqrt(variance + eps), not rms: g / d of it, so that nothing else need be divided */
static void deviation_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    const struct gr_bh_norm *n = w->n;
    (void)c;
    own(n, op, SPREAD, 1);
    arg(op, GR_BH_RSQRT, n->rms ? n->eps : n->eps * w->d * w->d);
    op->seg[0] = times(t->ones, squares_at(n), n->stats.m_stride, 0);
    op->seg[0].kcount = senders(n);
    op->seg[0].b_k = n->stats.n_stride;
    if (!n->rms) {
        op->back = 1; /* not x - mean */
        add_weighted(w, op, scratch(n, BETWEEN), &n->scratch);
    }
}
static void inverse_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    (void)c;
    own(w->n, op, INVERSE, 1);
    op->seg[0] =
        times(t->minus_ones, scratch(w->n, SPREAD), w->n->scratch.m_stride, GR_BH_SEG_ELEMENT | GR_BH_SEG_TRANSPOSE);
}
static void divide_op(const struct gr_bh_tiles *t, const struct norm *w, int c, struct gr_bh_op *op)
{
    const struct gr_bh_norm *n = w->n;
    const uint32_t row = n->scratch.m_stride, parts = (uint32_t)fold_of(n);
    (void)t;
    (void)c;
    folded(n, op, ROW, 1);
    if (n->rms) {
        op->seg[0] = element(n->x.addr, parts * n->x.m_stride, scratch(n, SPREAD), row, GR_BH_SEG_TRANSPOSE);
        op->seg[0].a_n = n->x.m_stride;
        op->seg[0].a_i = n->x_i;
    } else {
        op->seg[0] = element(scratch(n, INVERSE), row, scratch(n, ROW), parts * row, GR_BH_SEG_TRANSPOSE);
        op->seg[0].b_n = row;
    }
}

/* Row 0 of the outputs becomes row c of the statistics of every tile that shares them. */
static void send_rows(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n,
                      struct gr_bh_op *op, bool squares)
{
    const int columns = gr_bh_stage_columns(b, t), share = share_of(n);
    for (int i = 0; i < gr_bh_stage_groups(t) * columns_of(n); i++) {
        const int c = i % columns_of(n), g = i / columns_of(n) * columns + c, r = c % share;
        const uint32_t row = (uint32_t)(r % 32 / 16) * 2048u + (uint32_t)(r % 16) * 64u;
        op[g].flags |= GR_BH_OP_ROW;
        op[g].to = (squares ? squares_at(n) : n->stats.addr) + (uint32_t)(r / 32) * n->stats.n_stride + row;
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

/* The variances of all rows, from where deviation_op has them: what is not finite stays so. */
static void watch(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct norm *w)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_stage_groups(t); g++) {
        struct gr_bh_op *o = &op[g * gr_bh_stage_columns(b, t)];
        deviation_op(t, w, 0, o);
        o->function = GR_BH_NONE;
        o->flags = GR_BH_OP_ACCUMULATE;
        o->out = w->n->watch.addr;
        o->out_m = 0;
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
    if (!n->rms && senders(n) > BETWEEN_MAX) {
        gr_bh_build_fail(b, "a norm of %d column tiles, at most %d", share_of(n), 32 * BETWEEN_MAX);
        return;
    }
    const struct norm w = norm_of(b, t, n);
    if (!n->rms) {
        send_rows(b, t, n, each(b, t, &w, mean_op), false);
    }
    each(b, t, &w, square_op);
    struct gr_bh_op *op = each(b, t, &w, square_sum_op);
    send_rows(b, t, n, op, true);
    if (meet) {
        barrier(b, op);
    }
}

void gr_bh_emit_norm_apply(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_norm *n)
{
    const int columns = gr_bh_stage_columns(b, t);
    if (columns_of(n) > columns || (!n->rms && senders(n) > BETWEEN_MAX)) {
        return; /* refused when it was sent */
    }
    const struct norm w = norm_of(b, t, n);
    if (!n->rms) {
        each(b, t, &w, between_op);
        each(b, t, &w, centre_op);
    }
    each(b, t, &w, deviation_op);
    if (n->watch.mt > 0) {
        watch(b, t, &w);
    }
    if (!n->rms) {
        each(b, t, &w, inverse_op);
    }
    if (n->scale != NULL) {
        each(b, t, &w, divide_op);
    }
    struct gr_bh_op *op = each(b, t, &w, divide_op);
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
