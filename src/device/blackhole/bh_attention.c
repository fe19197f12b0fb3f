/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_attention.c: softmax(q k' + mask) v for heads that need not fill whole column tiles.
 *
 * The tile of column n computes all heads that touch column n, one below the other: its queries once for each head, with zeros in the columns of
 * other heads, against the keys of the whole span. Row maxima are those of the scores rounded to bf16; the exponential is taken of
 * the scores computed anew, so that only the shift is rounded. The row sums of a head are multiplied by a huge number in the columns of others: their
 * inverse there is as good as zero, and the sum over the heads leaves each column to its own. */
#include "device/blackhole/layers.h"

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

struct gr_bh_span gr_bh_heads_span(const struct gr_bh_heads *h, int column)
{
    struct gr_bh_span s;
    s.head0 = 32 * column / h->head_dim;
    s.head1 = least(h->heads - 1, (32 * column + 31) / h->head_dim);
    s.column0 = s.head0 * h->head_dim / 32;
    s.column1 = least(h->columns - 1, ((s.head1 + 1) * h->head_dim - 1) / 32);
    return s;
}

static bool wraps(const struct gr_bh_heads *h, int window)
{
    for (int c = 0; c < h->columns; c++) {
        const struct gr_bh_span s = gr_bh_heads_span(h, c);
        if (s.column0 / window != s.column1 / window) {
            return true;
        }
    }
    return false;
}

struct gr_bh_heads gr_bh_heads_of(int heads, int head_dim)
{
    struct gr_bh_heads h = {
        .heads = heads, .head_dim = head_dim, .columns = gr_bh_tiles_of(heads * head_dim), .whole = head_dim % 32 == 0};
    for (int c = 0; c < h.columns; c++) {
        const struct gr_bh_span s = gr_bh_heads_span(&h, c);
        h.each = most(h.each, s.head1 - s.head0 + 1);
        h.span = most(h.span, s.column1 - s.column0 + 1);
    }
    h.window = h.span;
    while (wraps(&h, h.window)) {
        h.window++;
    }
    return h;
}

uint16_t gr_bh_heads_dest(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_heads *h, int tile,
                          int column, bool to_groups, uint16_t *count)
{
    const int columns = gr_bh_stage_columns(b, t), own = tile / columns;
    uint16_t first = 0, n = 0;
    for (int i = 0; i < gr_bh_stage_groups(t) * h->columns; i++) {
        const int g = i / h->columns, c = i % h->columns, to = g * columns + c;
        const struct gr_bh_span s = gr_bh_heads_span(h, c);
        if (to != tile && (to_groups || g == own) && s.column0 <= column && column <= s.column1) {
            const uint16_t at = gr_bh_dest_tile(b, tile, to);
            first = n++ == 0 ? at : first;
        }
    }
    *count = n;
    return first;
}

/* Columns lo..hi of a tile hold 1, the others `outside`. */
struct cut {
    int lo, hi;
    float outside;
};
static float cut_value(void *user, int r, int c)
{
    const struct cut *u = user;
    (void)r;
    return c >= u->lo && c < u->hi ? 1.0f : u->outside;
}
static struct gr_bh_buf cut_tile(struct gr_bh_build *b, const struct gr_bh_heads *h, int head, int column,
                                 float outside)
{
    struct cut u = {most(0, head * h->head_dim - 32 * column), least(32, (head + 1) * h->head_dim - 32 * column),
                    outside};
    if (u.lo >= u.hi) {
        u.lo = u.hi = 0;
    }
    return gr_bh_constant(b, "head mask", GR_BH_BF16, cut_value, &u);
}

void gr_bh_heads_alloc(struct gr_bh_build *b, struct gr_bh_heads *h)
{
    h->masks = gr_bh_alloc(b, "head masks", h->each, h->span + 1, GR_BH_BF16);
}

void gr_bh_emit_heads(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_heads *h)
{
    const int columns = gr_bh_stage_columns(b, t);
    if (h->columns > columns) {
        gr_bh_build_fail(b, "%d heads of %d need %d tiles, the group has %d", h->heads, h->head_dim, h->columns,
                         columns);
        return;
    }
    if (h->masks.mt == 0) {
        gr_bh_heads_alloc(b, h);
    }
    for (int i = 0; i < h->each * (h->span + 1); i++) {
        const int j = i / (h->span + 1), slot = i % (h->span + 1);
        struct gr_bh_op *op = gr_bh_emit(b);
        for (int k = 0; k < gr_bh_stage_groups(t) * h->columns; k++) {
            const int c = k % h->columns, g = k / h->columns * columns + c;
            const struct gr_bh_span s = gr_bh_heads_span(h, c);
            const bool select = slot == h->span;
            const struct gr_bh_buf tile =
                cut_tile(b, h, s.head0 + j, select ? c : s.column0 + slot, select ? 0x1p60f : 0.0f);
            op[g].mt = op[g].nt = op[g].nseg = 1;
            op[g].out_fmt = GR_BH_BF16;
            op[g].out = h->masks.addr + (uint32_t)j * h->masks.m_stride + (uint32_t)slot * h->masks.n_stride;
            op[g].seg[0] = (struct gr_bh_segment){.flags = GR_BH_SEG_ELEMENT,
                                                  .fmt_a = GR_BH_BF16,
                                                  .fmt_b = GR_BH_BF16,
                                                  .kcount = 1,
                                                  .a = t->ones.addr,
                                                  .b = tile.addr};
        }
    }
}

struct gr_bh_attention_scratch gr_bh_attention_scratch_new(struct gr_bh_build *b, const struct gr_bh_heads *h, int mt,
                                                           int keys, int each)
{
    struct gr_bh_attention_scratch s = {.each = each > 0 ? least(each, h->each) : h->each};
    const int held = s.each * mt;
    s.q = h->whole ? (struct gr_bh_buf){0} : gr_bh_alloc(b, "queries of heads", held, h->span, GR_BH_BF16);
    s.p = gr_bh_alloc(b, "scores", held, keys, GR_BH_BF16);
    s.max = gr_bh_alloc(b, "row maxima", held, 1, GR_BH_BF16);
    s.shift = gr_bh_alloc(b, "negative row maxima", held, 1, GR_BH_BF16);
    s.o = gr_bh_alloc(b, "attention of heads", h->each * mt, 1, GR_BH_FP32);
    s.inv = gr_bh_alloc(b, "inverse row sums", h->each * mt, 1, GR_BH_FP32);
    return s;
}

/* What the operations of one tile are about: heads j0..j1 of its column, as row tiles j0 * mt .. j1 * mt of o and inv, and of the rest of
 * the scratch, which starts again with every `each` heads. */
struct part {
    const struct gr_bh_tiles *t;
    const struct gr_bh_attention *a;
    struct gr_bh_span s;
    int j0, j1;
};

static uint32_t row(const struct part *p, struct gr_bh_buf buf)
{
    const bool all = buf.addr == p->a->scratch.o.addr || buf.addr == p->a->scratch.inv.addr;
    const int j = all ? p->j0 : p->j0 % p->a->scratch.each;
    return buf.addr + (uint32_t)(j * p->a->q.mt) * buf.m_stride;
}

/* Output tiles [rows of the heads, nt] of buf. */
static void output(const struct part *p, struct gr_bh_op *op, struct gr_bh_buf buf, int nt, int segments)
{
    op->mt = (uint16_t)((p->j1 - p->j0) * p->a->q.mt);
    op->nt = (uint16_t)nt;
    op->nseg = (uint16_t)segments;
    op->out_fmt = (uint16_t)buf.fmt;
    op->out = row(p, buf);
    op->out_m = buf.m_stride;
    op->out_n = buf.n_stride;
}

static struct gr_bh_segment segment(struct gr_bh_buf a, struct gr_bh_buf b, uint32_t flags)
{
    return (struct gr_bh_segment){
        .flags = flags, .fmt_a = (uint16_t)a.fmt, .fmt_b = (uint16_t)b.fmt, .kcount = 1, .a = a.addr, .b = b.addr};
}

static void queries_op(const struct part *p, struct gr_bh_op *op)
{
    const struct gr_bh_heads *h = p->a->heads;
    const struct gr_bh_buf q = p->a->q;
    output(p, op, p->a->scratch.q, p->s.column1 - p->s.column0 + 1, 1);
    op->back = (uint16_t)(p->j0 % p->a->scratch.each); /* not the heads before */
    op->seg[0] = segment(q, h->masks, GR_BH_SEG_ELEMENT);
    op->seg[0].a += (uint32_t)(p->s.column0 % h->window) * q.n_stride;
    op->seg[0].a_m = q.m_stride;
    op->seg[0].a_n = q.n_stride;
    op->seg[0].b += (uint32_t)p->j0 * h->masks.m_stride;
    op->seg[0].b_n = h->masks.n_stride;
}

/* q k' + mask, the first two segments of scores and exponentials. */
static void scores(const struct part *p, struct gr_bh_op *op)
{
    const struct gr_bh_attention *a = p->a;
    const uint32_t slot = (uint32_t)(p->s.column0 % a->heads->window);
    const struct gr_bh_buf q = a->heads->whole ? a->q : a->scratch.q;
    op->seg[0] = segment(q, a->k, GR_BH_SEG_TRANSPOSE);
    op->seg[0].kcount = (uint32_t)(p->s.column1 - p->s.column0 + 1);
    op->seg[0].a = a->heads->whole ? q.addr + slot * q.n_stride : row(p, q);
    op->seg[0].a_m = q.m_stride;
    op->seg[0].a_k = q.n_stride;
    op->seg[0].b += slot * a->k.n_stride;
    op->seg[0].b_n = a->k.m_stride;
    op->seg[0].b_k = a->k.n_stride;
    op->seg[0].b_i = a->k_i;
    op->seg[1] = segment(a->mask_rows ? p->t->identity : p->t->e0, a->mask, 0);
    op->seg[1].b_n = a->mask.n_stride;
    op->seg[1].b_m = a->mask_rows ? a->mask.m_stride : 0;
}

static void scores_op(const struct part *p, struct gr_bh_op *op)
{
    output(p, op, p->a->scratch.p, p->a->k.mt, 2);
    scores(p, op);
}
static void max_op(const struct part *p, struct gr_bh_op *op)
{
    const struct gr_bh_buf s = p->a->scratch.p;
    output(p, op, p->a->scratch.max, 1, 1);
    op->seg[0] = segment(p->t->ones, s, GR_BH_SEG_MAX | GR_BH_SEG_TRANSPOSE);
    op->seg[0].kcount = p->a->k.mt;
    op->seg[0].b = row(p, s);
    op->seg[0].b_m = s.m_stride;
    op->seg[0].b_k = s.n_stride;
}
static void shift_op(const struct part *p, struct gr_bh_op *op)
{
    output(p, op, p->a->scratch.shift, 1, 1);
    op->seg[0] = segment(p->t->minus_e0, p->a->scratch.max, 0);
    op->seg[0].b = row(p, p->a->scratch.max);
    op->seg[0].b_m = p->a->scratch.max.m_stride;
}
static void exp_op(const struct part *p, struct gr_bh_op *op)
{
    output(p, op, p->a->scratch.p, p->a->k.mt, 3);
    op->function = GR_BH_EXP;
    scores(p, op);
    op->seg[2] = segment(p->t->identity, p->a->scratch.shift, GR_BH_SEG_TRANSPOSE);
    op->seg[2].b = row(p, p->a->scratch.shift);
    op->seg[2].b_m = p->a->scratch.shift.m_stride;
}
/* Output column n is head n of the tile: what selects it changes with the head. */
static void inverse_op(const struct part *p, struct gr_bh_op *op)
{
    const struct gr_bh_heads *h = p->a->heads;
    const struct gr_bh_buf s = p->a->scratch.p, inv = p->a->scratch.inv;
    output(p, op, inv, p->j1 - p->j0, 1);
    op->mt = p->a->q.mt;
    op->out_n = (uint32_t)p->a->q.mt * inv.m_stride;
    op->function = GR_BH_RECIP;
    op->seg[0] = segment(s, h->masks, 0);
    op->seg[0].kcount = p->a->k.mt;
    op->seg[0].a = row(p, s);
    op->seg[0].a_m = s.m_stride;
    op->seg[0].a_n = (uint32_t)p->a->q.mt * s.m_stride;
    op->seg[0].a_k = s.n_stride;
    op->seg[0].b += (uint32_t)p->j0 * h->masks.m_stride + (uint32_t)h->span * h->masks.n_stride;
    op->seg[0].b_n = h->masks.m_stride;
}
static void values_op(const struct part *p, struct gr_bh_op *op)
{
    const struct gr_bh_buf s = p->a->scratch.p, v = p->a->v;
    output(p, op, p->a->scratch.o, 1, 1);
    op->back = 1; /* not the row sums */
    op->seg[0] = segment(s, v, 0);
    op->seg[0].kcount = p->a->k.mt;
    op->seg[0].a = row(p, s);
    op->seg[0].a_m = s.m_stride;
    op->seg[0].a_k = s.n_stride;
    op->seg[0].b_k = v.m_stride;
    op->seg[0].b_i = p->a->v_i;
}

typedef void (*part_op_fn)(const struct part *p, struct gr_bh_op *op);
/* Emits for heads j0..j1 of every tile that has so many. */
static void each(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a, int j0, int j1,
                 part_op_fn fill)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int i = 0; i < gr_bh_stage_groups(t) * a->heads->columns; i++) {
        const int c = i % a->heads->columns;
        struct part p = {t, a, gr_bh_heads_span(a->heads, c), j0, j1};
        p.j1 = least(j1, p.s.head1 - p.s.head0 + 1);
        if (p.j0 < p.j1) {
            fill(&p, &op[i / a->heads->columns * gr_bh_stage_columns(b, t) + c]);
        }
    }
}

/* Sum over the heads of (p v) / (row sum) of column c, to every tile of the group. */
static void gather_op(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a, int g, int c,
                      struct gr_bh_op *op)
{
    const struct gr_bh_buf o = a->scratch.o, inv = a->scratch.inv;
    const struct gr_bh_span s = gr_bh_heads_span(a->heads, c);
    op->mt = a->q.mt;
    op->nt = op->nseg = 1;
    op->out_fmt = (uint16_t)a->out.fmt;
    op->out = op->to = a->out.addr + (uint32_t)c * a->out.n_stride;
    op->out_m = op->to_m = a->out.m_stride;
    op->seg[0] = segment(o, inv, GR_BH_SEG_ELEMENT);
    op->seg[0].kcount = (uint32_t)(s.head1 - s.head0 + 1);
    op->seg[0].a_m = o.m_stride;
    op->seg[0].a_k = (uint32_t)a->q.mt * o.m_stride;
    op->seg[0].b_m = inv.m_stride;
    op->seg[0].b_k = (uint32_t)a->q.mt * inv.m_stride;
    op->dest = gr_bh_dest_group(b, t, g, false, &op->dests);
}

static void gather(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a)
{
    const int columns = gr_bh_stage_columns(b, t);
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
        if (g / columns < gr_bh_stage_groups(t) && g % columns < a->heads->columns) {
            gather_op(b, t, a, g, g % columns, &op[g]);
        }
    }
}

void gr_bh_emit_attention(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a)
{
    const int all = a->heads->each, held = a->scratch.each;
    const int step = a->mask_rows ? 1 : held; /* the strides of a mask with rows are those of one head */
    for (int j0 = 0; j0 < all; j0 += held) {
        const int j1 = least(j0 + held, all);
        for (int j = j0; j < j1 && !a->heads->whole; j++) {
            each(b, t, a, j, j + 1, queries_op);
        }
        for (int j = j0; j < j1; j += step) {
            each(b, t, a, j, j + step, scores_op);
        }
        each(b, t, a, j0, j1, max_op);
        each(b, t, a, j0, j1, shift_op);
        for (int j = j0; j < j1; j += step) {
            each(b, t, a, j, j + step, exp_op);
        }
        each(b, t, a, j0, j1, inverse_op);
        each(b, t, a, j0, j1, values_op);
    }
    gather(b, t, a);
}
