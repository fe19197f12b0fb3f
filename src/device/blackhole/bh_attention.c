/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_attention.c: softmax(q k' + mask) v for heads that need not fill whole column tiles.
 *
 * A tile has one head and some row tiles of it. It holds all column tiles that its head lies in, of its queries with zeros in the columns of
 * other heads; what these get is left for the next product to ignore. Row maxima are those of the scores rounded to bf16; the exponential is
 * taken of the scores computed anew, so that only the shift is rounded. */
#include "device/blackhole/layers.h"

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

/* First of the `span` column tiles that are held for a head. */
static int first_column(const struct gr_bh_heads *h, int head)
{
    return least(head * h->head_dim / 32, h->columns - h->span);
}

/* The column tile in a slot of a head. */
static int column_of(const struct gr_bh_heads *h, int head, int slot)
{
    const int first = first_column(h, head);
    return first + (slot - first % h->span + h->span) % h->span;
}

/* Gives every head `parts` tiles, those first that compute one of its columns: what a tile computes goes into its own slots too, where
 * another head would miss it. */
static bool give_tiles(struct gr_bh_heads *h, int mt, int tiles, int parts)
{
    int behind = h->columns; /* the next tile without a column */
    h->rows = (mt + parts - 1) / parts;
    h->parts = (mt + h->rows - 1) / h->rows;
    for (int i = 0; i < GR_BH_HEADS_TILES; i++) {
        h->item[i] = -1;
    }
    for (int i = 0; i < h->heads * h->parts; i++) {
        const int first = first_column(h, i / h->parts);
        int c = first;
        while (c < first + h->span && h->item[c] >= 0) {
            c++;
        }
        c = c == first + h->span ? behind++ : c;
        if (c >= tiles) {
            return false;
        }
        h->item[c] = (int16_t)i;
    }
    return true;
}

struct gr_bh_heads gr_bh_heads_of(int heads, int head_dim)
{
    struct gr_bh_heads h = {
        .heads = heads, .head_dim = head_dim, .columns = gr_bh_tiles_of(heads * head_dim), .whole = head_dim % 32 == 0};
    for (int i = 0; i < heads; i++) {
        h.span = most(h.span, ((i + 1) * head_dim - 1) / 32 - i * head_dim / 32 + 1);
    }
    return h;
}

void gr_bh_heads_on(struct gr_bh_heads *h, int mt, int tiles)
{
    const int usable = least(tiles, GR_BH_HEADS_TILES);
    int parts = h->columns <= usable ? least(mt, usable / h->heads) : 0;
    while (parts > 0 && !give_tiles(h, mt, usable, parts)) {
        parts--;
    }
    h->parts = parts > 0 ? h->parts : 0;
}

void gr_bh_heads_rows(const struct gr_bh_heads *h, int *row)
{
    for (int i = 0; i < gr_bh_heads_out(h); i++) {
        const int head = i / 32 / h->span, c = 32 * column_of(h, head, i / 32 % h->span) + i % 32;
        row[i] = c / h->head_dim == head ? c : -1;
    }
}

uint16_t gr_bh_heads_dest(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_heads *h, int tile,
                          int column, bool to_groups, uint16_t *count)
{
    const int columns = gr_bh_stage_columns(b, t), own = tile / columns;
    uint16_t first = 0, n = 0;
    for (int to = 0; to < gr_bh_stage_groups(t) * columns; to++) {
        const int item = h->item[to % columns], c = item < 0 ? 0 : first_column(h, item / h->parts);
        if (to != tile && item >= 0 && (to_groups || to / columns == own) && c <= column && column < c + h->span) {
            const uint16_t at = gr_bh_dest_tile(b, tile, to);
            first = n++ == 0 ? at : first;
        }
    }
    *count = n;
    return first;
}

/* Columns lo..hi of a tile hold 1, the others 0. */
struct cut {
    int lo, hi;
};
static float cut_value(void *user, int r, int c)
{
    const struct cut *u = user;
    (void)r;
    return c >= u->lo && c < u->hi ? 1.0f : 0.0f;
}
static struct gr_bh_buf cut_tile(struct gr_bh_build *b, const struct gr_bh_heads *h, int head, int column)
{
    struct cut u = {most(0, head * h->head_dim - 32 * column), least(32, (head + 1) * h->head_dim - 32 * column)};
    if (u.lo >= u.hi) {
        u.lo = u.hi = 0;
    }
    return gr_bh_constant(b, "head mask", GR_BH_BF16, cut_value, &u);
}

static bool has_tiles(struct gr_bh_build *b, const struct gr_bh_heads *h)
{
    if (h->parts == 0) {
        gr_bh_build_fail(b, "%d heads of %d elements on too few tiles", h->heads, h->head_dim);
    }
    return h->parts > 0;
}

void gr_bh_heads_alloc(struct gr_bh_build *b, struct gr_bh_heads *h)
{
    if (!h->whole) {
        h->masks = gr_bh_alloc(b, "head masks", 1, h->span, GR_BH_BF16);
    }
}

void gr_bh_emit_heads(struct gr_bh_build *b, const struct gr_bh_tiles *t, struct gr_bh_heads *h)
{
    const int columns = gr_bh_stage_columns(b, t);
    if (!has_tiles(b, h)) {
        return;
    }
    if (h->masks.mt == 0) {
        gr_bh_heads_alloc(b, h);
    }
    for (int slot = 0; slot < h->span && !h->whole; slot++) {
        struct gr_bh_op *op = gr_bh_emit(b);
        for (int g = 0; g < gr_bh_stage_groups(t) * columns; g++) {
            if (h->item[g % columns] < 0) {
                continue;
            }
            const int head = h->item[g % columns] / h->parts;
            op[g].mt = op[g].nt = op[g].nseg = 1;
            op[g].out_fmt = GR_BH_BF16;
            op[g].out = h->masks.addr + (uint32_t)slot * h->masks.n_stride;
            op[g].seg[0] = (struct gr_bh_segment){.flags = GR_BH_SEG_ELEMENT,
                                                  .fmt_a = GR_BH_BF16,
                                                  .fmt_b = GR_BH_BF16,
                                                  .kcount = 1,
                                                  .a = t->ones.addr,
                                                  .b = cut_tile(b, h, head, column_of(h, head, slot)).addr};
        }
    }
}

struct gr_bh_attention_scratch gr_bh_attention_scratch_new(struct gr_bh_build *b, const struct gr_bh_heads *h, int keys)
{
    struct gr_bh_attention_scratch s = {0};
    if (!has_tiles(b, h)) {
        return s;
    }
    s.q = h->whole ? s.q : gr_bh_alloc(b, "queries of a head", h->rows, h->span, GR_BH_BF16);
    s.p = gr_bh_alloc(b, "scores", h->rows, keys, GR_BH_BF16);
    s.max = gr_bh_alloc(b, "row maxima", h->rows, 1, GR_BH_BF16);
    s.shift = gr_bh_alloc(b, "negative row maxima", h->rows, 1, GR_BH_BF16);
    s.o = gr_bh_alloc(b, "attention of a head", h->rows, h->span, GR_BH_FP32);
    s.inv = gr_bh_alloc(b, "inverse row sums", h->rows, 1, GR_BH_FP32);
    return s;
}

/* What the operations of one tile are about. */
struct item {
    const struct gr_bh_tiles *t;
    const struct gr_bh_attention *a;
    int head, row0, rows; /* row tiles of the group */
};

/* Output tiles [rows, nt] of buf. */
static void output(const struct item *i, struct gr_bh_op *op, struct gr_bh_buf buf, int nt, int segments)
{
    op->mt = (uint16_t)i->rows;
    op->nt = (uint16_t)nt;
    op->nseg = (uint16_t)segments;
    op->out_fmt = (uint16_t)buf.fmt;
    op->out = buf.addr;
    op->out_m = buf.m_stride;
    op->out_n = buf.n_stride;
}

static struct gr_bh_segment segment(struct gr_bh_buf a, struct gr_bh_buf b, uint32_t flags)
{
    return (struct gr_bh_segment){
        .flags = flags, .fmt_a = (uint16_t)a.fmt, .fmt_b = (uint16_t)b.fmt, .kcount = 1, .a = a.addr, .b = b.addr};
}

/* The tile's rows of a buffer that has those of the group. */
static struct gr_bh_buf own_rows(const struct item *i, struct gr_bh_buf buf)
{
    buf.addr += (uint32_t)i->row0 * buf.m_stride;
    return buf;
}

static void queries_op(const struct item *i, struct gr_bh_op *op)
{
    const struct gr_bh_heads *h = i->a->heads;
    const struct gr_bh_buf q = own_rows(i, i->a->q);
    output(i, op, i->a->scratch.q, h->span, 1);
    op->seg[0] = segment(q, h->masks, GR_BH_SEG_ELEMENT);
    op->seg[0].a_m = q.m_stride;
    op->seg[0].a_n = q.n_stride;
    op->seg[0].b_n = h->masks.n_stride;
}

/* q k' + mask, the first two segments of scores and exponentials. */
static void scores(const struct item *i, struct gr_bh_op *op)
{
    const struct gr_bh_attention *a = i->a;
    const struct gr_bh_buf q = a->heads->whole ? own_rows(i, a->q) : a->scratch.q;
    op->seg[0] = segment(q, a->k, GR_BH_SEG_TRANSPOSE);
    op->seg[0].kcount = (uint32_t)a->heads->span;
    op->seg[0].a_m = q.m_stride;
    op->seg[0].a_k = q.n_stride;
    op->seg[0].b_n = a->k.m_stride;
    op->seg[0].b_k = a->k.n_stride;
    op->seg[0].b_i = a->k_i;
    op->seg[1] = segment(a->mask_rows ? i->t->identity : i->t->e0, a->mask, 0);
    op->seg[1].b += (uint32_t)(i->row0 / a->heads->rows) * a->mask_part;
    op->seg[1].b_n = a->mask.n_stride;
    op->seg[1].b_m = a->mask_rows ? a->mask.m_stride : 0;
    op->seg[1].b_i = a->mask_i;
}

static void scores_op(const struct item *i, struct gr_bh_op *op)
{
    output(i, op, i->a->scratch.p, i->a->k.mt, 2);
    scores(i, op);
}
static void max_op(const struct item *i, struct gr_bh_op *op)
{
    const struct gr_bh_buf s = i->a->scratch.p;
    output(i, op, i->a->scratch.max, 1, 1);
    op->seg[0] = segment(i->t->ones, s, GR_BH_SEG_MAX | GR_BH_SEG_TRANSPOSE);
    op->seg[0].kcount = i->a->k.mt;
    op->seg[0].b_m = s.m_stride;
    op->seg[0].b_k = s.n_stride;
}
static void shift_op(const struct item *i, struct gr_bh_op *op)
{
    output(i, op, i->a->scratch.shift, 1, 1);
    op->seg[0] = segment(i->t->minus_e0, i->a->scratch.max, 0);
    op->seg[0].b_m = i->a->scratch.max.m_stride;
}
static void exp_op(const struct item *i, struct gr_bh_op *op)
{
    output(i, op, i->a->scratch.p, i->a->k.mt, 3);
    op->function = GR_BH_EXP;
    scores(i, op);
    op->seg[2] = segment(i->t->identity, i->a->scratch.shift, GR_BH_SEG_TRANSPOSE);
    op->seg[2].b_m = i->a->scratch.shift.m_stride;
}
static void inverse_op(const struct item *i, struct gr_bh_op *op)
{
    const struct gr_bh_buf s = i->a->scratch.p;
    output(i, op, i->a->scratch.inv, 1, 1);
    op->function = GR_BH_RECIP;
    op->seg[0] = segment(s, i->t->ones, 0);
    op->seg[0].kcount = i->a->k.mt;
    op->seg[0].a_m = s.m_stride;
    op->seg[0].a_k = s.n_stride;
}
static void values_op(const struct item *i, struct gr_bh_op *op)
{
    const struct gr_bh_buf s = i->a->scratch.p, v = i->a->v;
    output(i, op, i->a->scratch.o, i->a->heads->span, 1);
    op->back = 1; /* not the row sums */
    op->seg[0] = segment(s, v, 0);
    op->seg[0].kcount = i->a->k.mt;
    op->seg[0].a_m = s.m_stride;
    op->seg[0].a_k = s.n_stride;
    op->seg[0].b_k = v.m_stride;
    op->seg[0].b_n = v.n_stride;
    op->seg[0].b_i = i->a->v_i;
}
/* (p v) / (row sum), for every tile of the group. */
static void gather_op(const struct item *i, struct gr_bh_op *op)
{
    const struct gr_bh_buf o = i->a->scratch.o, inv = i->a->scratch.inv;
    struct gr_bh_buf out = own_rows(i, i->a->out);
    out.addr += (uint32_t)(i->head * i->a->heads->span) * out.n_stride;
    output(i, op, out, i->a->heads->span, 1);
    op->to = op->out;
    op->to_m = op->out_m;
    op->to_n = op->out_n;
    op->seg[0] = segment(o, inv, GR_BH_SEG_ELEMENT);
    op->seg[0].a_m = o.m_stride;
    op->seg[0].a_n = o.n_stride;
    op->seg[0].b_m = inv.m_stride;
}

typedef void (*item_op_fn)(const struct item *i, struct gr_bh_op *op);
/* Emits for every tile that has a head; with a barrier: the result goes to all tiles of the group. */
static void each(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a, bool meet,
                 item_op_fn fill)
{
    const struct gr_bh_heads *h = a->heads;
    const int columns = gr_bh_stage_columns(b, t), tiles = gr_bh_stage_groups(t) * columns;
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
        const int n = g < tiles ? h->item[g % columns] : -1;
        op[g].flags = meet ? GR_BH_OP_BARRIER : 0;
        if (n >= 0) {
            struct item i = {.t = t, .a = a, .head = n / h->parts, .row0 = n % h->parts * h->rows};
            i.rows = least(h->rows, a->q.mt - i.row0);
            fill(&i, &op[g]);
            op[g].dest = meet ? gr_bh_dest_group(b, t, g, false, &op[g].dests) : 0;
        }
    }
}

void gr_bh_emit_attention(struct gr_bh_build *b, const struct gr_bh_tiles *t, const struct gr_bh_attention *a)
{
    if (!has_tiles(b, a->heads)) {
        return;
    }
    if (!a->heads->whole) {
        each(b, t, a, false, queries_op);
    }
    each(b, t, a, false, scores_op);
    each(b, t, a, false, max_op);
    each(b, t, a, false, shift_op);
    each(b, t, a, false, exp_op);
    each(b, t, a, false, inverse_op);
    each(b, t, a, false, values_op);
    each(b, t, a, true, gather_op);
}
