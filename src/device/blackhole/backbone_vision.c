/* SPDX-License-Identifier: Apache-2.0
 *
 * backbone_vision.c: the vision tower (spec/model.md 4) over row groups. A group normalises and multiplies its own rows; only keys and values
 * go to all groups.
 *
 * Pixels come times 255, which makes those of 8-bit pictures odd integers that bf16 holds exactly; the function of the first product divides
 * again. Padded rows are finite and masked as keys. */
#include "device/blackhole/backbone.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MASKED (-1e4f)
enum { TILE = 32, PIXELS = 255 };

struct vision {
    struct gr_bh_backbone *p;
    struct gr_bh_build *b;
    struct gr_bh_tiles t; /* stage: row groups */
    struct gr_bh_heads heads;
    int mt, keys, columns;           /* row tiles of a group and of all; column tiles */
    int part;                        /* hidden columns at a time */
    struct gr_bh_buf x, stats, mask; /* x: own columns fp32 */
    struct gr_bh_buf h, ff[2], scratch, q, k, v, out;
    struct gr_bh_buf own_patches, patches; /* input: columns of the tile; gathered rows of the group */
    struct gr_bh_attention_scratch attention;
};

static float mask_value(void *user, int r, int c)
{
    const struct vision *s = user;
    const int token = c / (GR_BH_PATCHES * TILE) * TILE + c % TILE;
    return r == 0 && token >= s->p->w->d.vit.tokens ? MASKED : 0.0f;
}
static float pixels_value(void *user, int r, int c)
{
    (void)user;
    (void)r;
    return c == 0 ? PIXELS : 0.0f;
}

static void buffers(struct vision *s)
{
    s->x = gr_bh_alloc(s->b, "patch rows", s->mt, 1, GR_BH_FP32);
    s->stats = gr_bh_norm_stats(s->b, &s->t, s->mt, s->columns, false);
    s->mask = gr_bh_emit_array(s->b, &s->t, "patch mask", 1, s->keys, mask_value, s);
    gr_bh_emit_heads(s->b, &s->t, &s->heads);
    const uint32_t lasting = gr_bh_l1_mark(s->b);
    s->patches = gr_bh_alloc(s->b, "patches", s->mt, gr_bh_tiles_of(s->p->w->patch.k), GR_BH_BF16);
    gr_bh_l1_release(s->b, lasting);
    s->out = gr_bh_alloc(s->b, "attention of patches", s->mt, s->heads.heads * s->heads.span, GR_BH_BF16);
    s->q = gr_bh_alloc(s->b, "queries of patches", s->mt, s->heads.span, GR_BH_BF16);
    s->k = gr_bh_alloc(s->b, "keys of patches", s->keys, s->heads.span, GR_BH_BF16);
    s->v = gr_bh_alloc(s->b, "values of patches", s->keys, s->heads.span, GR_BH_BF16);
    const uint32_t own = gr_bh_l1_mark(s->b); /* norms and attention take turns */
    s->scratch = gr_bh_norm_scratch(s->b, s->mt);
    gr_bh_l1_release(s->b, own);
    s->attention = gr_bh_attention_scratch_new(s->b, &s->heads, s->keys);
    gr_bh_l1_release(s->b, lasting);
    s->h = gr_bh_alloc(s->b, "normalised patch rows", s->mt, s->columns,
                       GR_BH_BF16); /* no larger than what overlays it: dead by then */
    s->ff[0] = gr_bh_alloc(s->b, "hidden columns of patches", s->mt, s->part, GR_BH_BF16);
    s->ff[1] = gr_bh_alloc(s->b, "hidden columns of patches", s->mt, s->part, GR_BH_BF16);
    gr_bh_l1_release(s->b, lasting); /* for the connector, whose gathered rows lie where these do */
}

static uint32_t lower(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* [mt, nt] below the action head and below `addr`, whatever else lies there. */
static struct gr_bh_buf alloc_below(const struct vision *s, const char *name, uint32_t addr, int mt, int nt)
{
    const uint32_t mark = gr_bh_l1_mark(s->b);
    gr_bh_l1_leave(s->b, "what inputs are kept apart from", lower(addr, s->p->free));
    const struct gr_bh_buf buf = gr_bh_alloc(s->b, name, mt, nt, GR_BH_BF16);
    gr_bh_l1_release(s->b, mark);
    return buf;
}

/* Each on one tile of its columns. Patches are dead once they are gathered, rows of tokens when the language model begins: those lie below what
 * the tower and the connector use. */
static void inputs(struct vision *s, uint32_t lowest)
{
    const struct gr_bh_backbone_weights *w = s->p->w;
    const int columns = gr_bh_stage_columns(s->b, &s->t), groups = gr_bh_stage_groups(&s->t);
    s->own_patches = alloc_below(s, "own columns of patches", s->patches.addr, s->mt,
                                 (gr_bh_tiles_of(w->patch.k) + columns - 1) / columns);
    s->p->token_rows = alloc_below(s, "rows of tokens", lower(lowest, s->own_patches.addr), w->rows, 1);
    s->p->used[0] = GR_BH_L1_END - s->p->token_rows.addr;
    gr_bh_input(s->b, (struct gr_bh_io){.name = "patches",
                                        .buf = s->own_patches,
                                        .place = GR_BH_COLUMNS,
                                        .rows = w->d.vit.patches,
                                        .cols = w->patch.k,
                                        .row = w->patch_row,
                                        .groups = groups,
                                        .columns = columns});
    gr_bh_input(s->b, (struct gr_bh_io){.name = "token_rows",
                                        .buf = s->p->token_rows,
                                        .place = GR_BH_COLUMNS,
                                        .rows = 32 * w->rows,
                                        .cols = w->d.llm.hidden});
}

static void tap(struct vision *s, const char *name)
{
    const struct gr_dims *d = &s->p->w->d;
    gr_bh_tap_io(s->b, (struct gr_bh_io){.name = name,
                                         .buf = s->x,
                                         .place = GR_BH_COLUMNS,
                                         .rows = d->vit.patches,
                                         .cols = d->vit.hidden,
                                         .row = s->p->w->patch_row,
                                         .groups = gr_bh_stage_groups(&s->t),
                                         .columns = gr_bh_stage_columns(s->b, &s->t)});
}

static void emit(struct vision *s, struct gr_bh_linear l)
{
    l.stream = GR_BH_STREAM_GROUPS;
    gr_bh_emit_linear(s->b, &s->t, &l);
}

/* x = (255 patches W + 255 b) / 255 + positions */
static void embed(struct vision *s)
{
    const struct gr_bh_backbone_weights *w = s->p->w;
    gr_bh_emit_gather(s->b, &s->t, gr_bh_tiles_of(w->patch.k), s->own_patches, GR_BH_NONE, s->patches);
    struct gr_bh_linear l = gr_bh_whole(&w->patch, s->patches, s->x);
    l.bias_rows = gr_bh_constant(s->b, "bias of pixels", GR_BH_BF16, pixels_value, NULL);
    l.function = GR_BH_SCALE;
    l.arg = 1.0f / PIXELS;
    emit(s, l);
    struct gr_bh_op *op = gr_bh_emit_own(s->b, &s->t, s->columns, s->x);
    const int groups = gr_bh_stage_groups(&s->t), columns = gr_bh_stage_columns(s->b, &s->t);
    for (int i = 0; i < groups * s->columns; i++) {
        const int group = i / s->columns, c = i % s->columns, tile = group * columns + c;
        struct gr_bh_op *o = &op[tile];
        o->flags = GR_BH_OP_ACCUMULATE;
        o->mt = 1; /* one piece a row tile */
        o->nt = (uint16_t)s->mt;
        o->out_n = s->x.m_stride;
        o->nseg = 1;
        o->stream = GR_BH_STREAM_WEIGHTS;
        o->seg[0] = (struct gr_bh_segment){
            .flags = GR_BH_SEG_RING, .fmt_a = GR_BH_BF16, .fmt_b = GR_BH_BF16, .kcount = 1, .a = s->t.identity.addr};
        for (int m = 0; m < s->mt; m++) {
            const int row = group * s->mt + m;
            o->chunk = gr_bh_piece_add(s->b, tile, GR_BH_STREAM_WEIGHTS,
                                       (struct gr_bh_piece){.kind = GR_BH_PIECE_ROWS,
                                                            .k0 = row,
                                                            .k1 = row + 1,
                                                            .col = c,
                                                            .rows = w->positions,
                                                            .n = w->d.vit.hidden});
        }
    }
    gr_bh_emit_barrier(s->b); /* patches are overlaid */
    tap(s, "vit.embed");
}

static struct gr_bh_norm norm(const struct vision *s, const float *weights)
{
    const int D = s->p->w->d.vit.hidden;
    return (struct gr_bh_norm){.x = s->x,
                               .d = D,
                               .eps = GR_VIT_EPS,
                               .scale = weights,
                               .shift = weights + D,
                               .stream = GR_BH_STREAM_GROUPS,
                               .scratch = s->scratch,
                               .stats = s->stats,
                               .out = s->h};
}

static void attention(struct vision *s, const struct gr_bh_vit_weights *w)
{
    struct gr_bh_linear l = gr_bh_whole(&w->q, s->h, s->q);
    l.heads = &s->heads;
    l.function = GR_BH_SCALE;
    l.arg = 1.0f / sqrtf((float)s->heads.head_dim);
    emit(s, l);
    l = gr_bh_whole(&w->k, s->h, s->k);
    l.heads = &s->heads;
    l.to_groups = true;
    l.out_g = (uint32_t)s->mt * s->k.m_stride;
    l.back = 1; /* not the queries */
    emit(s, l);
    l = gr_bh_whole(&w->v, s->h, s->v);
    l.heads = &s->heads;
    l.to_groups = true;
    l.out_g = (uint32_t)s->mt * s->v.m_stride;
    l.back = 2;
    l.barrier = true;
    emit(s, l);
    const struct gr_bh_attention a = {
        .heads = &s->heads, .q = s->q, .k = s->k, .v = s->v, .mask = s->mask, .scratch = s->attention, .out = s->out};
    gr_bh_emit_attention(s->b, &s->t, &a);
    l = gr_bh_whole(&w->out, s->out, s->x);
    l.accumulate = true;
    emit(s, l);
}

/* Some hidden columns at a time, in two buffers by turns. */
static void mlp(struct vision *s, const struct gr_bh_vit_weights *w)
{
    const int all = gr_bh_tiles_of(w->fc1.n);
    for (int n = 0, turn = 0; n < all; n += s->part, turn ^= 1) {
        struct gr_bh_linear l = gr_bh_whole(&w->fc1, s->h, s->ff[turn]);
        l.n0 = n;
        l.n1 = n + s->part < all ? n + s->part : all;
        l.function = GR_BH_GELU;
        l.back = n > 0 ? 1 : 0; /* not the product of the columns before */
        l.gather = l.barrier = true;
        emit(s, l);
        const int n1 = l.n1;
        l = gr_bh_whole(&w->fc2, s->ff[turn], s->x);
        l.k0 = n;
        l.k1 = n1;
        l.accumulate = true;
        emit(s, l);
    }
}

static void layers(struct vision *s)
{
    const struct gr_bh_backbone_weights *w = s->p->w;
    gr_bh_loop(s->b, w->d.vit.layers, 0);
    for (int i = 0; i < w->d.vit.layers; i++) {
        gr_bh_round(s->b, i);
        struct gr_bh_norm n = norm(s, w->vit[i].norm1);
        gr_bh_emit_norm(s->b, &s->t, &n);
        attention(s, &w->vit[i]);
        n = norm(s, w->vit[i].norm2);
        gr_bh_emit_norm(s->b, &s->t, &n);
        mlp(s, &w->vit[i]);
        char name[24];
        (void)snprintf(name, sizeof name, "vit.layer%d", i);
        tap(s, name);
    }
    gr_bh_loop_end(s->b);
}

void gr_bh_emit_vision(struct gr_bh_backbone *p)
{
    const struct gr_dims *d = &p->w->d;
    const int tiles = gr_bh_build_config(p->b)->grid->tiles;
    struct vision s = {.p = p,
                       .b = p->b,
                       .t = p->t,
                       .heads = gr_bh_heads_of(d->vit.heads, d->vit.hidden / d->vit.heads),
                       .keys = GR_BH_PATCHES * p->w->blocks,
                       .columns = gr_bh_tiles_of(d->vit.hidden)};
    s.mt = s.keys / p->groups;
    s.part = p->row_parts > 1 ? (3 * s.columns + 3) / 4 : s.columns; /* as L1 is short */
    if (p->groups > 1) {
        s.t.groups = p->groups;
        s.t.columns = s.columns;
    }
    if (s.columns * p->groups > tiles) {
        gr_bh_build_fail(p->b, "%d groups of patch rows of width %d on %d tiles", p->groups, d->vit.hidden, tiles);
        return;
    }
    gr_bh_heads_on(&s.heads, s.mt, gr_bh_stage_columns(p->b, &s.t));
    (void)gr_bh_l1_lowest(p->b);
    buffers(&s);
    const uint32_t tower = gr_bh_l1_lowest(p->b);
    gr_bh_connector_place(p, &s.t, s.mt);
    inputs(&s, lower(tower, GR_BH_L1_END - p->used[1]));
    embed(&s);
    layers(&s);
    struct gr_bh_norm n = norm(&s, p->w->vit_post);
    n.own = true;
    n.out = s.x;
    n.watch = p->watch;
    gr_bh_emit_norm(p->b, &s.t, &n);
    tap(&s, "vit.out");
    gr_bh_emit_barrier(p->b); /* statistics are sent again, and what others normalised with is overlaid */
    gr_bh_emit_connector(p, &s.t, s.x, s.stats);
}
