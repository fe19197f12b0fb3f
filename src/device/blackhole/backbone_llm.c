/* SPDX-License-Identifier: Apache-2.0
 *
 * backbone_llm.c: the language model and vlln (spec/model.md 6, 7.1), and what the parts of the backbone share.
 *
 * Heads are padded to whole column tiles, keys and values repeated for the query heads that share them (a column map). Rotation: in each
 * column tile the second half of the columns holds the partners of the first, so that a signed permutation tile gives what is
 * multiplied by the sine. Rows behind the last token are finite, and no row before them sees them. */
#include "device/blackhole/backbone.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MASKED (-1e4f)
enum { HALF_TILE = 16 };

/* ---- what the parts share ---- */

void gr_bh_emit_barrier(struct gr_bh_build *b)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
    }
}

struct gr_bh_op *gr_bh_emit_own(struct gr_bh_build *b, const struct gr_bh_tiles *t, int columns, struct gr_bh_buf out)
{
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int i = 0; i < gr_bh_stage_groups(t) * columns; i++) {
        struct gr_bh_op *o = &op[i / columns * gr_bh_stage_columns(b, t) + i % columns];
        o->mt = out.mt;
        o->nt = 1;
        o->out_fmt = (uint16_t)out.fmt;
        o->out = out.addr;
        o->out_m = out.m_stride;
    }
    return op;
}

/* A x B of one tile each, by row tile. */
static struct gr_bh_segment by_row(struct gr_bh_buf a, uint32_t a_m, struct gr_bh_buf b, uint32_t b_m, uint32_t flags)
{
    return (struct gr_bh_segment){.flags = flags,
                                  .fmt_a = (uint16_t)a.fmt,
                                  .fmt_b = (uint16_t)b.fmt,
                                  .kcount = 1,
                                  .a = a.addr,
                                  .a_m = a_m,
                                  .b = b.addr,
                                  .b_m = b_m};
}

void gr_bh_emit_gather(struct gr_bh_build *b, const struct gr_bh_tiles *t, int columns, struct gr_bh_buf own,
                       enum gr_bh_function function, struct gr_bh_buf out)
{
    const int tiles = gr_bh_stage_columns(b, t);
    const bool to_groups = out.mt > own.mt;
    struct gr_bh_op *op = gr_bh_emit(b);
    for (int g = 0; g < gr_bh_build_config(b)->grid->tiles; g++) {
        const int group = g / tiles, n = g % tiles;
        struct gr_bh_op *o = &op[g];
        o->flags = GR_BH_OP_BARRIER;
        if (group >= gr_bh_stage_groups(t) || n >= columns) {
            continue;
        }
        o->mt = own.mt;
        o->nt = (uint16_t)((columns - n + tiles - 1) / tiles);
        o->out_fmt = (uint16_t)out.fmt;
        o->function = (uint16_t)function;
        o->out = out.addr + (to_groups ? (uint32_t)(group * own.mt) * out.m_stride : 0) + (uint32_t)n * out.n_stride;
        o->out_m = out.m_stride;
        o->out_n = (uint32_t)tiles * out.n_stride;
        o->to = o->out;
        o->to_m = o->out_m;
        o->to_n = o->out_n;
        o->nseg = 1;
        o->seg[0] = by_row(t->identity, 0, own, own.m_stride, 0);
        o->seg[0].b_n = own.n_stride;
        if (to_groups) {
            o->dest = gr_bh_dest_all(b, g, false);
            o->dests = 1;
        } else {
            o->dest = gr_bh_dest_group(b, t, g, false, &o->dests);
        }
    }
}

int gr_bh_backbone_groups(const struct gr_bh_backbone_weights *w, int tiles)
{
    return w->blocks * gr_bh_tiles_of(w->d.vit.hidden) <= tiles ? w->blocks : 1;
}

static int vl_tiles(const struct gr_bh_backbone *p)
{
    return gr_bh_tiles_of(p->text_rows) + gr_bh_tiles_of(p->image_rows);
}

uint32_t gr_bh_backbone_kept(const struct gr_bh_backbone *p)
{
    const uint32_t rows = (uint32_t)p->w->rows;
    return rows * ((uint32_t)vl_tiles(p) * GR_BH_TILE_BYTES(GR_BH_BF16) + GR_BH_TILE_BYTES(GR_BH_FP32));
}

static void input(struct gr_bh_backbone *p, const char *name, struct gr_bh_buf buf, enum gr_bh_place place, int cols)
{
    gr_bh_input(p->b, (struct gr_bh_io){.name = name, .buf = buf, .place = place, .rows = 32 * buf.mt, .cols = cols});
}

void gr_bh_backbone_place(struct gr_bh_backbone *p)
{
    const int rows = p->w->rows, blocks = p->w->blocks;
    p->x = gr_bh_alloc(p->b, "rows of the sequence", rows, 1, GR_BH_FP32);
    p->vl_rows = gr_bh_alloc(p->b, "which rows the action head sees", vl_tiles(p), rows, GR_BH_BF16);
    p->kept = gr_bh_l1_mark(p->b);
    p->image = gr_bh_alloc(p->b, "image rows", blocks, 1, GR_BH_FP32);
    p->image_rows_in = gr_bh_alloc(p->b, "where image rows go", rows, blocks, GR_BH_BF16);
    input(p, "vl_rows", p->vl_rows, GR_BH_EVERYWHERE, 32 * rows);
    input(p, "image_rows", p->image_rows_in, GR_BH_EVERYWHERE, 32 * blocks);
}

/* ---- the language model ---- */

struct llm {
    struct gr_bh_backbone *p;
    struct gr_bh_build *b;
    const struct gr_bh_tiles *t;
    const struct gr_bh_backbone_weights *w;
    struct gr_bh_heads heads;
    int all, mt, columns, part; /* row tiles, those of a row part, column tiles, hidden columns at a time */
    struct gr_bh_buf rotation;  /* constant tile */
    struct gr_bh_buf stats, q_stats, k_stats, mask, cosine, sine;
    struct gr_bh_buf h, ff, gate, up;
    struct gr_bh_buf scratch, q, k, rotated; /* own columns */
    struct gr_bh_buf q_head, k_head, v_head; /* of the tile's head */
    struct gr_bh_attention_scratch attention;
    struct gr_bh_buf last_scratch, last_stats, vlln_stats; /* of the norms behind the layers */
};

/* A mask depends on key tile less row tile alone: from row to row it begins a tile earlier. This is that of the first rows, with the keys that
 * those of the last have before them. */
static float causal_value(void *user, int r, int c)
{
    const struct llm *s = user;
    return c - 32 * (s->all - 1) > r ? MASKED : 0.0f;
}
/* Row x times it: -x[j + 16] in column j, x[j] in column j + 16. */
static float rotation_value(void *user, int r, int c)
{
    (void)user;
    return r == c + HALF_TILE ? -1.0f : c == r + HALF_TILE ? 1.0f : 0.0f;
}

/* Stride by row part of a buffer that has the rows of all. */
static uint32_t part_stride(const struct llm *s, struct gr_bh_buf buf)
{
    return buf.mt > s->mt ? (uint32_t)s->mt * buf.m_stride : 0;
}
static struct gr_bh_buf rows_of_part(const struct llm *s, struct gr_bh_buf buf)
{
    buf.mt = (uint16_t)s->mt;
    return buf;
}

/* Of the rows before, another part needs keys and values: they are not overlaid then. */
static void keys_values(struct llm *s)
{
    s->k_head = gr_bh_alloc(s->b, "keys of the sequence", s->all, s->heads.span, GR_BH_BF16);
    s->v_head = gr_bh_alloc(s->b, "values of the sequence", s->all, s->heads.span, GR_BH_BF16);
}

static void buffers(struct llm *s)
{
    struct gr_bh_build *b = s->b;
    const int mt = s->mt;
    s->rotation = gr_bh_constant(b, "rotation", GR_BH_BF16, rotation_value, NULL);
    s->stats = gr_bh_norm_stats_alloc(b, mt, s->columns, true);
    s->q_stats = gr_bh_norm_stats_alloc(b, mt, s->w->head_tiles, true);
    s->k_stats = gr_bh_norm_stats_alloc(b, mt, s->w->head_tiles, true);
    s->mask = gr_bh_alloc(b, "causal mask", s->heads.rows, 2 * s->all - 1, GR_BH_BF16);
    s->cosine = gr_bh_alloc(b, "cosines", s->all, 1, GR_BH_BF16);
    s->sine = gr_bh_alloc(b, "sines", s->all, 1, GR_BH_BF16);
    s->gate = gr_bh_alloc(b, "gates", mt, 1, GR_BH_BF16);
    s->up = gr_bh_alloc(b, "hidden columns before the gates", mt, 1, GR_BH_BF16);
    gr_bh_heads_alloc(b, &s->heads);
    if (s->all > mt) {
        keys_values(s);
    }
    const uint32_t before = gr_bh_l1_mark(b);
    const int wide = s->columns > s->heads.columns ? s->columns : s->heads.columns;
    s->h = gr_bh_alloc(b, "normalised rows of the sequence", mt, wide, GR_BH_BF16);
    const uint32_t gathered = gr_bh_l1_mark(b);
    s->ff = gr_bh_alloc(b, "hidden columns of the sequence", mt, s->part, GR_BH_BF16);
    gr_bh_l1_release(b, gathered);
    s->scratch = gr_bh_norm_scratch(b, mt);
    s->q = gr_bh_alloc(b, "own queries", mt, 1, GR_BH_FP32);
    s->k = gr_bh_alloc(b, "own keys", mt, 1, GR_BH_FP32);
    s->rotated = gr_bh_alloc(b, "rotated", mt, 1, GR_BH_FP32);
    s->q_head = gr_bh_alloc(b, "queries of the sequence", mt, s->heads.span, GR_BH_BF16);
    if (s->all == mt) {
        keys_values(s);
    }
    s->attention = gr_bh_attention_scratch_new(b, &s->heads, s->all);
    gr_bh_l1_release(b, before);
    s->last_scratch = gr_bh_norm_scratch(b, s->all);
    s->last_stats = gr_bh_norm_stats_alloc(b, s->all, s->columns, true);
    s->vlln_stats = gr_bh_norm_stats_alloc(b, s->all, s->columns, false);
    gr_bh_l1_release(b, before);
}

static void emit(struct llm *s, struct gr_bh_linear l) { gr_bh_emit_linear(s->b, s->t, &l); }

static void tap(struct llm *s, const char *name)
{
    gr_bh_tap(s->b, name, s->p->x, GR_BH_COLUMNS, 0, s->p->tokens, s->w->d.llm.hidden);
}

/* x = image rows at their places + rows of the other tokens. What they came from is overlaid after the barrier. */
static void sequence(struct llm *s)
{
    const struct gr_bh_backbone *p = s->p;
    struct gr_bh_op *op = gr_bh_emit_own(s->b, s->t, s->columns, p->x);
    for (int g = 0; g < gr_bh_build_config(s->b)->grid->tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
        if (g < s->columns) {
            op[g].nseg = 2;
            op[g].seg[0] = by_row(p->image_rows_in, p->image_rows_in.m_stride, p->image, 0, 0);
            op[g].seg[0].kcount = p->image.mt;
            op[g].seg[0].a_k = p->image_rows_in.n_stride;
            op[g].seg[0].b_k = p->image.m_stride;
            op[g].seg[1] = by_row(s->t->identity, 0, p->token_rows, p->token_rows.m_stride, 0);
        }
    }
    tap(s, "llm.input");
}

/* Own column tile n mod head_tiles of a table that was computed at load, into L1. */
static void table(struct llm *s, struct gr_bh_buf out, const float *rows)
{
    struct gr_bh_op *op = gr_bh_emit_own(s->b, s->t, s->heads.columns, out);
    for (int g = 0; g < s->heads.columns; g++) {
        op[g].mt = 1; /* one piece a row tile */
        op[g].nt = (uint16_t)s->all;
        op[g].out_n = out.m_stride;
        op[g].nseg = 1;
        op[g].stream = GR_BH_STREAM_WEIGHTS;
        op[g].seg[0] = by_row(s->t->identity, 0, (struct gr_bh_buf){.fmt = GR_BH_BF16}, 0, GR_BH_SEG_RING);
        for (int m = 0; m < s->all; m++) {
            op[g].chunk = gr_bh_piece_add(s->b, g, GR_BH_STREAM_WEIGHTS,
                                          (struct gr_bh_piece){.kind = GR_BH_PIECE_ROWS,
                                                               .k0 = m,
                                                               .k1 = m + 1,
                                                               .col = g % s->w->head_tiles,
                                                               .rows = rows,
                                                               .n = 32 * s->w->head_tiles});
        }
    }
}

static struct gr_bh_norm norm(const struct llm *s, const float *weights)
{
    return (struct gr_bh_norm){.x = rows_of_part(s, s->p->x),
                               .x_i = part_stride(s, s->p->x),
                               .d = s->w->d.llm.hidden,
                               .rms = true,
                               .eps = GR_LLM_EPS,
                               .scale = weights,
                               .shift = weights + s->w->d.llm.hidden,
                               .stream = GR_BH_STREAM_WEIGHTS,
                               .scratch = s->scratch,
                               .stats = s->stats,
                               .out = s->h};
}
static struct gr_bh_norm head_norm(const struct llm *s, struct gr_bh_buf x, struct gr_bh_buf stats,
                                   const float *weights)
{
    const int width = 32 * s->w->head_tiles;
    return (struct gr_bh_norm){.x = x,
                               .d = s->w->d.llm.head_dim,
                               .columns = s->heads.columns,
                               .share = s->w->head_tiles,
                               .rms = true,
                               .eps = GR_LLM_EPS,
                               .scale = weights,
                               .shift = weights + width,
                               .width = width,
                               .stream = GR_BH_STREAM_WEIGHTS,
                               .scratch = s->scratch,
                               .stats = stats,
                               .out = x,
                               .own = true};
}

/* out = factor * (x cos + (x rotated) sin), to the tiles of the head. */
static void rotate(struct llm *s, struct gr_bh_buf x, struct gr_bh_buf out, float factor, bool meet)
{
    struct gr_bh_op *op = gr_bh_emit_own(s->b, s->t, s->heads.columns, s->rotated);
    for (int g = 0; g < s->heads.columns; g++) {
        op[g].nseg = 1;
        op[g].seg[0] = by_row(x, x.m_stride, s->rotation, 0, 0);
    }
    op = gr_bh_emit_own(s->b, s->t, s->heads.columns, rows_of_part(s, out));
    for (int g = 0; g < gr_bh_build_config(s->b)->grid->tiles; g++) {
        op[g].flags = meet ? GR_BH_OP_BARRIER : 0;
        if (g >= s->heads.columns) {
            continue;
        }
        op[g].nseg = 2;
        op[g].function = GR_BH_SCALE;
        memcpy(&op[g].arg, &factor, sizeof factor);
        op[g].out += (uint32_t)(g % s->heads.span) * out.n_stride;
        op[g].to = op[g].out;
        op[g].to_m = op[g].out_m;
        op[g].out_i = op[g].to_i = part_stride(s, out);
        op[g].seg[0] = by_row(x, x.m_stride, s->cosine, s->cosine.m_stride, GR_BH_SEG_ELEMENT);
        op[g].seg[0].b_i = part_stride(s, s->cosine);
        op[g].seg[1] = by_row(s->rotated, s->rotated.m_stride, s->sine, s->sine.m_stride, GR_BH_SEG_ELEMENT);
        op[g].seg[1].b_i = part_stride(s, s->sine);
        op[g].dest = gr_bh_heads_dest(s->b, s->t, &s->heads, g, g, false, &op[g].dests);
    }
}

static void attention(struct llm *s, const struct gr_bh_llm_weights *w)
{
    emit(s, gr_bh_whole(&w->q, s->h, s->q));
    struct gr_bh_linear l = gr_bh_whole(&w->k, s->h, s->k);
    l.back = 1; /* not the queries */
    emit(s, l);
    l = gr_bh_whole(&w->v, s->h, s->v_head);
    l.heads = &s->heads;
    l.out_i = part_stride(s, s->v_head);
    l.back = 2;
    emit(s, l);
    const struct gr_bh_norm q = head_norm(s, s->q, s->q_stats, w->q_norm),
                            k = head_norm(s, s->k, s->k_stats, w->k_norm);
    gr_bh_emit_norm_send(s->b, s->t, &q, false);
    gr_bh_emit_norm_send(s->b, s->t, &k, true);
    gr_bh_emit_norm_apply(s->b, s->t, &q);
    rotate(s, s->q, s->q_head, 1.0f / sqrtf((float)s->w->d.llm.head_dim), false);
    gr_bh_emit_norm_apply(s->b, s->t, &k);
    rotate(s, s->k, s->k_head, 1.0f, true);
    struct gr_bh_buf mask = s->mask;
    mask.addr += (uint32_t)(s->all - 1) * mask.n_stride;
    const struct gr_bh_attention a = {.heads = &s->heads,
                                      .q = s->q_head,
                                      .k = s->k_head,
                                      .v = s->v_head,
                                      .mask = mask,
                                      .mask_rows = true,
                                      .mask_part = 0u - (uint32_t)s->heads.rows * mask.n_stride,
                                      .mask_i = 0u - (uint32_t)s->mt * mask.n_stride,
                                      .scratch = s->attention,
                                      .out = s->h};
    gr_bh_emit_attention(s->b, s->t, &a);
    l = gr_bh_whole(&w->o, s->h, s->p->x);
    l.out_i = part_stride(s, s->p->x);
    l.accumulate = true;
    emit(s, l);
}

/* ff = gates (.) up, to all tiles. */
static void gather_hidden(struct llm *s, int n0, int n1)
{
    const int tiles = gr_bh_build_config(s->b)->grid->tiles;
    struct gr_bh_op *op = gr_bh_emit_own(s->b, s->t, tiles, s->ff);
    for (int g = 0; g < tiles; g++) {
        const int n = n0 + ((g - n0) % tiles + tiles) % tiles; /* as gr_bh_emit_linear gives out columns */
        op[g].flags = GR_BH_OP_BARRIER;
        op[g].mt = n < n1 ? op[g].mt : 0;
        op[g].nseg = n < n1 ? 1 : 0;
        if (n < n1) {
            op[g].out += (uint32_t)(n - n0) * s->ff.n_stride;
            op[g].to = op[g].out;
            op[g].to_m = op[g].out_m;
            op[g].seg[0] = by_row(s->gate, s->gate.m_stride, s->up, s->up.m_stride, GR_BH_SEG_ELEMENT);
            op[g].dest = gr_bh_dest_all(s->b, g, false);
            op[g].dests = 1;
        }
    }
}

/* x += down(silu(gate h) (.) up h), some hidden columns at a time, in one buffer: nobody fills it again before all have read it. */
static void mlp(struct llm *s, const struct gr_bh_llm_weights *w)
{
    const int all = gr_bh_tiles_of(w->gate.n);
    for (int n = 0; n < all; n += s->part) {
        struct gr_bh_linear l = gr_bh_whole(&w->gate, s->h, s->gate);
        l.n0 = n;
        l.n1 = n + s->part < all ? n + s->part : all;
        l.function = GR_BH_SILU;
        l.back = n > 0 ? 1 : 0; /* not the product of the columns before */
        emit(s, l);
        const int n1 = l.n1;
        l.w = &w->up;
        l.out = s->up;
        l.function = GR_BH_NONE;
        l.back = n > 0 ? 2 : 1;
        emit(s, l);
        gather_hidden(s, n, n1);
        l = gr_bh_whole(&w->down, s->ff, s->p->x);
        l.out_i = part_stride(s, s->p->x);
        l.k0 = n;
        l.k1 = n1;
        l.accumulate = true;
        l.barrier = n1 < all;
        emit(s, l);
    }
}

/* Of a row part. Keys of those behind are those of the layer before, and masked. */
static void layer(struct llm *s, const struct gr_bh_llm_weights *w)
{
    const struct gr_bh_norm first = norm(s, w->norm1), second = norm(s, w->norm2);
    gr_bh_emit_norm(s->b, s->t, &first);
    attention(s, w);
    gr_bh_emit_norm(s->b, s->t, &second);
    mlp(s, w);
}

static void layers(struct llm *s)
{
    const int n = s->w->d.llm.layers;
    gr_bh_loop(s->b, n, 0);
    for (int i = 0; i < n; i++) {
        gr_bh_round(s->b, i);
        gr_bh_loop(s->b, s->all / s->mt, 1u << GR_BH_STREAM_WEIGHTS);
        for (int part = 0; part < s->all / s->mt; part++) {
            gr_bh_round(s->b, part);
            layer(s, &s->w->llm[i]);
        }
        gr_bh_loop_end(s->b);
        char name[24];
        (void)snprintf(name, sizeof name, "llm.layer%d", i);
        tap(s, name);
    }
    gr_bh_loop_end(s->b);
}

/* Final norm and vlln, both in place. */
static void last_norms(struct llm *s)
{
    struct gr_bh_norm n = norm(s, s->w->llm_norm);
    gr_bh_emit_barrier(s->b); /* hidden columns of others are overlaid */
    gr_bh_emit_norm_stats(s->b, s->t, s->last_stats, s->columns);
    gr_bh_emit_norm_stats(s->b, s->t, s->vlln_stats, s->columns);
    n.own = true;
    n.x = n.out = s->p->x;
    n.watch = s->p->watch;
    n.x_i = 0;
    n.scratch = s->last_scratch;
    n.stats = s->last_stats;
    gr_bh_emit_norm(s->b, s->t, &n);
    tap(s, "llm.out");
    n.rms = false;
    n.eps = GR_VLLN_EPS;
    n.scale = s->w->vlln;
    n.shift = s->w->vlln + s->w->d.llm.hidden;
    n.stats = s->vlln_stats;
    gr_bh_emit_norm(s->b, s->t, &n);
    tap(s, "vlln.out");
    gr_bh_emit_barrier(s->b); /* and everything but x by rows of vl */
}

void gr_bh_emit_llm(struct gr_bh_backbone *p)
{
    const struct gr_dims *d = &p->w->d;
    const int tiles = gr_bh_build_config(p->b)->grid->tiles;
    struct llm s = {.p = p,
                    .b = p->b,
                    .t = &p->t,
                    .w = p->w,
                    .heads = gr_bh_heads_of(d->llm.heads, 32 * p->w->head_tiles),
                    .all = p->w->rows,
                    .mt = p->w->rows / p->row_parts,
                    .columns = gr_bh_tiles_of(d->llm.hidden)};
    s.part = (gr_bh_tiles_of(d->llm.mlp) + p->mlp_parts - 1) / p->mlp_parts;
    if (s.columns > tiles || s.heads.columns > tiles || s.part > tiles) {
        gr_bh_build_fail(p->b, "a language model of width %d, %d head columns on %d tiles", d->llm.hidden,
                         s.heads.columns, tiles);
        return;
    }
    gr_bh_heads_on(&s.heads, s.mt, tiles);
    (void)gr_bh_l1_lowest(p->b);
    buffers(&s);
    p->used[2] = GR_BH_L1_END - gr_bh_l1_lowest(p->b);
    sequence(&s);
    gr_bh_emit_norm_stats(s.b, s.t, s.stats, s.columns);
    gr_bh_emit_norm_stats(s.b, s.t, s.q_stats, s.w->head_tiles);
    gr_bh_emit_norm_stats(s.b, s.t, s.k_stats, s.w->head_tiles);
    gr_bh_emit_fill(s.b, s.t, "causal mask", s.mask, causal_value, &s);
    if (s.all > s.mt) {
        gr_bh_emit_zeros(s.b, s.t, s.k_head);
        gr_bh_emit_zeros(s.b, s.t, s.v_head);
    }
    gr_bh_emit_heads(s.b, s.t, &s.heads);
    table(&s, s.cosine, s.w->cosine);
    table(&s, s.sine, s.w->sine);
    layers(&s);
    last_norms(&s);
}

/* By a 0/1 product of the rows of x. */
void gr_bh_emit_vl(struct gr_bh_backbone *p, bool text, int first, struct gr_bh_buf vl)
{
    const int row = first + (text ? 0 : gr_bh_tiles_of(p->text_rows));
    const int columns = gr_bh_tiles_of(p->w->d.llm.hidden);
    struct gr_bh_op *op = gr_bh_emit_own(p->b, &p->t, columns, vl);
    for (int g = 0; g < gr_bh_build_config(p->b)->grid->tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
        if (g >= columns) {
            continue;
        }
        op[g].nseg = 1;
        op[g].out += (uint32_t)g * vl.n_stride;
        op[g].to = op[g].out;
        op[g].to_m = op[g].out_m;
        op[g].seg[0] = by_row(p->vl_rows, p->vl_rows.m_stride, p->x, 0, 0);
        op[g].seg[0].a += (uint32_t)row * p->vl_rows.m_stride;
        op[g].seg[0].a_k = p->vl_rows.n_stride;
        op[g].seg[0].kcount = p->x.mt;
        op[g].seg[0].b_k = p->x.m_stride;
        op[g].dest = gr_bh_dest_all(p->b, g, false);
        op[g].dests = 1;
    }
}

void gr_bh_emit_backbone(struct gr_bh_backbone *p)
{
    gr_bh_emit_vision(p);
    gr_bh_l1_release(p->b, p->kept); /* once the rows of the sequence are there, their sources may go */
    gr_bh_emit_llm(p);
}
