/* SPDX-License-Identifier: Apache-2.0
 *
 * denoise.c: the program of the action head (spec/model.md 7).
 *
 * Row 0 is the state, rows 1.. are the actions. Rows 0 and behind the last action are kept clean of what belongs to the others by
 * operands that have ones in some rows only. Stream 0 holds what every Euler step reads again, stream 1 what differs from step to step. */
#include "device/blackhole/denoise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/denoise_impl.h"

enum { WEIGHTS, STEPS }; /* streams */

/* ---- once a request ---- */

static void barrier(struct gr_bh_denoise_plan *p)
{
    struct gr_bh_op *op = gr_bh_emit(p->b);
    for (int g = 0; g < gr_bh_build_config(p->b)->grid->tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
    }
}

static void emit(struct gr_bh_denoise_plan *p, struct gr_bh_linear l) { gr_bh_emit_linear(p->b, &p->t, &l); }

/* Part i of a buffer of parts that lie side by side, nt column tiles each. */
static struct gr_bh_buf part_of(struct gr_bh_buf buf, int i, int nt)
{
    buf.addr += (uint32_t)(i * nt) * buf.n_stride;
    buf.nt = (uint16_t)nt;
    return buf;
}

/* Of some row tiles of one kind. Nobody overlays rows of vl before all are done with them. */
static void keys_values_of(struct gr_bh_denoise_plan *p, const struct gr_bh_cross *c, int first, struct gr_bh_buf vl)
{
    gr_bh_loop(p->b, p->rounds, 0);
    for (int round = 0; round < p->rounds; round++) {
        gr_bh_round(p->b, round);
        for (int i = 0, at = 0; i < p->cycle; i++) {
            const struct gr_bh_block_weights *w = &p->w->block[p->first + round * p->cycle + i];
            if (!w->cross || w->text != (c == &p->text)) {
                continue;
            }
            struct gr_bh_linear k = gr_bh_whole(&w->k, vl, part_of(c->k, at, p->heads.span));
            k.out.addr += (uint32_t)first * c->k.m_stride;
            k.heads = &p->heads;
            k.back = at > 0 ? 1 : 0; /* but for rows of vl nothing here needs what was computed just before */
            k.out_i = (uint32_t)(c->each * p->heads.span) * c->k.n_stride;
            emit(p, k);
            struct gr_bh_linear v = k;
            v.back = 1;
            v.w = &w->v;
            v.out.addr += c->v.addr - c->k.addr;
            at++;
            emit(p, v);
        }
    }
    gr_bh_loop_end(p->b);
    barrier(p);
}

static void cross_keys_values(struct gr_bh_denoise_plan *p, const struct gr_bh_cross *c)
{
    const bool placed =
        gr_bh_cross_used(c) && c->vl.mt > 0; /* not if L1 was too small: then nothing comes of all this */
    const int keys = placed ? gr_bh_tiles_of(c->rows) : 0;
    for (int first = 0; first < keys; first += c->vl.mt) {
        struct gr_bh_buf vl = c->vl;
        vl.mt = (uint16_t)(keys - first < vl.mt ? keys - first : vl.mt);
        if (p->cfg.vl != NULL) {
            p->cfg.vl(p->cfg.vl_user, c == &p->text, first, vl);
        }
        keys_values_of(p, c, first, vl);
    }
}

/* base = state features in row 0, position rows below. */
static void state_and_positions(struct gr_bh_denoise_plan *p)
{
    struct gr_bh_linear l = gr_bh_whole(&p->w->state1, p->state, p->state_hidden);
    l.bias_rows = p->row0;
    l.function = GR_BH_RELU;
    l.gather = l.barrier = true;
    emit(p, l);
    emit(p, gr_bh_whole(&p->w->position, p->unit, p->base));
    l = gr_bh_whole(&p->w->state2, p->state_hidden, p->base);
    l.bias_rows = p->row0;
    l.accumulate = true;
    emit(p, l);
    gr_bh_tap(p->b, "state_features", p->base, GR_BH_COLUMNS, 0, 1, p->w->d.dit.width);
}

/* ---- a step ---- */

static void tap(struct gr_bh_denoise_plan *p, const char *name, int step, struct gr_bh_buf buf, enum gr_bh_place place,
                int row0, int rows, int cols)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%s.step%d", name, step);
    gr_bh_tap(p->b, text, buf, place, row0, rows, cols);
}

/* An operation of the own column: out = sum of the constant tile times each input, mt row tiles. */
static struct gr_bh_op *own_sum(struct gr_bh_denoise_plan *p, int columns, struct gr_bh_buf out,
                                const struct gr_bh_buf *in, int n)
{
    struct gr_bh_op *op = gr_bh_emit(p->b);
    for (int g = 0; g < columns; g++) {
        op[g].mt = (uint16_t)p->mt;
        op[g].nt = 1;
        op[g].nseg = (uint16_t)n;
        op[g].out_fmt = (uint16_t)out.fmt;
        op[g].out = out.addr;
        op[g].out_m = out.m_stride;
        for (int i = 0; i < n; i++) {
            op[g].seg[i] = (struct gr_bh_segment){.fmt_a = GR_BH_BF16,
                                                  .fmt_b = (uint16_t)in[i].fmt,
                                                  .kcount = 1,
                                                  .a = p->t.identity.addr,
                                                  .b = in[i].addr,
                                                  .b_m = in[i].m_stride};
        }
    }
    return op;
}

/* Clean copy of the actions on every tile. */
static void gather_actions(struct gr_bh_denoise_plan *p)
{
    const int columns = gr_bh_tiles_of(p->w->d.dit.max_action), tiles = gr_bh_build_config(p->b)->grid->tiles;
    struct gr_bh_op *op = gr_bh_emit(p->b);
    for (int g = 0; g < tiles; g++) {
        op[g].flags = GR_BH_OP_BARRIER;
        if (g >= columns) {
            continue;
        }
        op[g].mt = (uint16_t)p->mt;
        op[g].nt = op[g].nseg = 1;
        op[g].out_fmt = (uint16_t)p->actions.fmt;
        op[g].out = op[g].to = p->actions.addr + (uint32_t)g * p->actions.n_stride;
        op[g].out_m = op[g].to_m = p->actions.m_stride;
        op[g].seg[0] = (struct gr_bh_segment){.flags = GR_BH_SEG_ELEMENT,
                                              .fmt_a = GR_BH_FP32,
                                              .fmt_b = GR_BH_BF16,
                                              .kcount = 1,
                                              .a = p->action.addr,
                                              .a_m = p->action.m_stride,
                                              .b = p->kept.addr,
                                              .b_m = p->kept.m_stride};
        op[g].dest = gr_bh_dest_all(p->b, g, false);
        op[g].dests = 1;
    }
}

/* x = base + W3 silu(W2 [W1 a | tau] + b2) in the action rows. */
static void encode_actions(struct gr_bh_denoise_plan *p, int step)
{
    const int D = p->w->d.dit.width;
    gather_actions(p);
    struct gr_bh_linear l = gr_bh_whole(&p->w->action1, p->actions, p->h);
    l.bias_rows = p->biased;
    l.gather = l.barrier = true;
    emit(p, l);
    l = gr_bh_whole(&p->w->action2[step], p->h, p->features);
    l.bias_rows = p->biased;
    l.function = GR_BH_SILU;
    l.gather = l.barrier = true;
    l.stream = STEPS; /* the bias differs; the matrix is small enough to come along */
    emit(p, l);
    l = gr_bh_whole(&p->w->action3, p->features, p->part);
    l.bias_rows = p->biased;
    emit(p, l);
    tap(p, "action_features", step, p->part, GR_BH_COLUMNS, 1, p->rows - 1, D);
    own_sum(p, p->columns, p->x, (const struct gr_bh_buf[]){p->base, p->part}, 2);
}

static void norm(struct gr_bh_denoise_plan *p, float eps, int layer, int step)
{
    const bool last = layer == p->w->d.dit.layers;
    const struct gr_bh_norm n = {.x = p->x,
                                 .d = p->w->d.dit.width,
                                 .eps = eps,
                                 .scale = layer < 0 ? NULL : gr_bh_denoise_scale(p->w, layer, step),
                                 .shift = layer < 0 ? NULL : gr_bh_denoise_shift(p->w, layer, step),
                                 .stream = STEPS,
                                 .scratch = p->scratch,
                                 .stats = p->stats,
                                 .out = p->h,
                                 .watch = last ? p->cfg.watch : (struct gr_bh_buf){0}};
    gr_bh_emit_norm(p->b, &p->t, &n);
}

/* out = attention(h, h or vl); at: which of its kind in the cycle a cross block is. */
static void attention(struct gr_bh_denoise_plan *p, const struct gr_bh_block_weights *w, int at)
{
    struct gr_bh_attention a = {.heads = &p->heads,
                                .q = p->q,
                                .k = p->k,
                                .v = p->v,
                                .mask = p->self_mask,
                                .scratch = p->attention,
                                .out = p->out};
    struct gr_bh_linear l = gr_bh_whole(&w->q, p->h, p->q);
    l.heads = &p->heads;
    l.function = GR_BH_SCALE;
    l.arg = 1.0f / sqrtf((float)p->heads.head_dim);
    l.barrier = w->cross;
    emit(p, l);
    if (w->cross) {
        const struct gr_bh_cross *c = w->text ? &p->text : &p->image;
        a.k = part_of(c->k, at, p->heads.span);
        a.v = part_of(c->v, at, p->heads.span);
        a.k_i = a.v_i = (uint32_t)(c->each * p->heads.span) * c->k.n_stride;
        a.mask = c->mask;
    } else {
        l = gr_bh_whole(&w->k, p->h, p->k);
        l.heads = &p->heads;
        l.back = 1; /* not the queries */
        emit(p, l);
        l.w = &w->v;
        l.out = p->v;
        l.back = 2;
        l.barrier = true;
        emit(p, l);
    }
    gr_bh_emit_attention(p->b, &p->t, &a);
}

/* Part i of the hidden columns of the MLP, gathered in the buffer of its turn. */
static void mlp_hidden(struct gr_bh_denoise_plan *p, const struct gr_bh_block_weights *w, int i)
{
    const int all = gr_bh_tiles_of(w->ff1.n);
    struct gr_bh_linear l = gr_bh_whole(&w->ff1, p->h, p->ff[i & 1]);
    l.n0 = i * p->hidden_columns;
    l.n1 = l.n0 + p->hidden_columns < all ? l.n0 + p->hidden_columns : all;
    l.function = GR_BH_GELU;
    l.back = i < 2 ? i : 2; /* only the rows must be there */
    l.gather = l.barrier = true;
    emit(p, l);
}

/* x += its product. again: the buffer will be filled once more, by others too, so everybody must have read it. */
static void mlp_add(struct gr_bh_denoise_plan *p, const struct gr_bh_block_weights *w, int i, bool last, bool again)
{
    const int all = gr_bh_tiles_of(w->ff1.n);
    struct gr_bh_linear l = gr_bh_whole(&w->ff2, p->ff[i & 1], p->x);
    l.k0 = i * p->hidden_columns;
    l.k1 = l.k0 + p->hidden_columns < all ? l.k0 + p->hidden_columns : all;
    l.accumulate = true;
    l.back = last ? 0 : 1; /* not the part that is being gathered */
    l.barrier = again;
    emit(p, l);
}

/* x += W2 gelu(W1 h + b1) + b2 in parts: each is computed while the one before is on its way to the other tiles. */
static void mlp(struct gr_bh_denoise_plan *p, const struct gr_bh_block_weights *w)
{
    const int parts = (gr_bh_tiles_of(w->ff1.n) + p->hidden_columns - 1) / p->hidden_columns;
    mlp_hidden(p, w, 0);
    for (int i = 0; i < parts; i++) {
        if (i + 1 < parts) {
            mlp_hidden(p, w, i + 1);
        }
        mlp_add(p, w, i, i + 1 == parts, i + 2 < parts);
    }
}

static void blocks(struct gr_bh_denoise_plan *p, int step)
{
    gr_bh_loop(p->b, p->rounds, 0);
    for (int round = 0; round < p->rounds; round++) {
        int text = 0, image = 0;
        gr_bh_round(p->b, round);
        for (int i = 0; i < p->cycle; i++) {
            const int layer = p->first + round * p->cycle + i;
            const struct gr_bh_block_weights *w = &p->w->block[layer];
            norm(p, GR_DIT_EPS, layer, step);
            attention(p, w, !w->cross ? 0 : w->text ? text++ : image++);
            struct gr_bh_linear l = gr_bh_whole(&w->out, p->out, p->x);
            l.accumulate = true;
            emit(p, l);
            norm(p, GR_DIT_EPS, -1, step);
            mlp(p, w);
            char name[24];
            (void)snprintf(name, sizeof name, "dit.block%d", layer);
            tap(p, name, step, p->x, GR_BH_COLUMNS, 0, p->rows, p->w->d.dit.width);
        }
    }
    gr_bh_loop_end(p->b);
}

/* a += velocity / steps. What the state row and the rows behind give is added as well and never read. */
static void decode_velocity(struct gr_bh_denoise_plan *p, int step)
{
    const struct gr_dims *d = &p->w->d;
    norm(p, GR_DIT_OUT_EPS, d->dit.layers, step);
    struct gr_bh_linear l = gr_bh_whole(&p->w->proj_out2, p->h, p->y);
    l.gather = l.barrier = true;
    emit(p, l);
    tap(p, "dit.out", step, p->y, GR_BH_EVERYWHERE, 0, p->rows, d->dit.out);
    l = gr_bh_whole(&p->w->decoder1, p->y, p->hidden);
    l.function = GR_BH_RELU;
    l.gather = l.barrier = true;
    emit(p, l);
    emit(p, gr_bh_whole(&p->w->decoder2, p->hidden, p->part));
    tap(p, "velocity", step, p->part, GR_BH_COLUMNS, 1, d->dit.horizon, d->dit.max_action);
    const int columns = gr_bh_tiles_of(d->dit.max_action);
    struct gr_bh_op *op = own_sum(p, columns, p->action, &p->part, 1);
    const float dt = 1.0f / (float)d->dit.steps;
    for (int g = 0; g < columns; g++) {
        op[g].function = GR_BH_SCALE;
        memcpy(&op[g].arg, &dt, sizeof dt);
        op[g].flags |= GR_BH_OP_ACCUMULATE;
    }
}

/* ---- the program ---- */

/* Which blocks, and how they repeat: cross text, self, cross image, self, ... */
static bool choose_blocks(struct gr_bh_denoise_plan *p)
{
    const struct gr_dims *d = &p->w->d;
    const int blocks = p->cfg.blocks > 0 ? p->cfg.blocks : d->dit.layers, cycle = 2 * d->dit.text_every;
    p->first = p->cfg.first_block;
    p->cycle = p->first % cycle == 0 && blocks % cycle == 0 ? cycle : blocks;
    p->rounds = blocks / p->cycle;
    if (p->first < 0 || p->first + blocks > d->dit.layers || p->cfg.steps < 1 || p->cfg.steps > d->dit.steps) {
        gr_bh_build_fail(p->b, "blocks %d..%d of %d, %d steps of %d", p->first, p->first + blocks - 1, d->dit.layers,
                         p->cfg.steps, d->dit.steps);
        return false;
    }
    p->text.rows = p->cfg.text_rows;
    p->image.rows = p->cfg.image_rows;
    for (int i = 0; i < p->cycle; i++) {
        const struct gr_bh_block_weights *w = &p->w->block[p->first + i];
        if (w->cross) {
            (w->text ? &p->text : &p->image)->each++;
        }
    }
    if ((gr_bh_cross_used(&p->text) && p->text.rows < 1) || (gr_bh_cross_used(&p->image) && p->image.rows < 1)) {
        gr_bh_build_fail(p->b, "cross blocks without rows: %d of the text, %d of the image", p->text.rows,
                         p->image.rows);
        return false;
    }
    return true;
}

struct gr_bh_denoise_plan *gr_bh_denoise_plan_new(struct gr_bh_build *b, const struct gr_bh_denoise *d)
{
    const struct gr_dims *dims = &d->w->d;
    struct gr_bh_denoise_plan *p = malloc(sizeof *p);
    if (p == NULL) {
        gr_bh_build_fail(b, "no memory for the plan of the action head");
        return NULL;
    }
    *p = (struct gr_bh_denoise_plan){.b = b,
                                     .cfg = *d,
                                     .w = d->w,
                                     .heads = gr_bh_heads_of(dims->dit.heads, dims->dit.head_dim),
                                     .rows = dims->dit.horizon + 1,
                                     .mt = gr_bh_tiles_of(dims->dit.horizon + 1),
                                     .columns = gr_bh_tiles_of(dims->dit.width),
                                     .text = {.name = "vl_text", .mask_name = "text_mask"},
                                     .image = {.name = "vl_image", .mask_name = "image_mask"}};
    const int tiles = gr_bh_build_config(b)->grid->tiles;
    gr_bh_heads_on(&p->heads, p->mt, tiles);
    p->hidden_columns = d->narrow ? (p->columns + 1) / 2 : p->columns;
    if (p->columns > tiles || gr_bh_tiles_of(dims->dit.max_action) > tiles) {
        gr_bh_build_fail(b, "rows of width %d and actions of width %d on %d tiles", dims->dit.width,
                         dims->dit.max_action, tiles);
    } else if (choose_blocks(p)) {
        p->t = gr_bh_tiles_new(b);
        gr_bh_denoise_inputs(p);
        return p;
    }
    free(p);
    return NULL;
}

void gr_bh_denoise_emit(struct gr_bh_denoise_plan *p)
{
    const struct gr_dims *dims = &p->w->d;
    gr_bh_denoise_constants(p);
    cross_keys_values(p, &p->text);
    cross_keys_values(p, &p->image);
    state_and_positions(p);
    gr_bh_loop(p->b, p->cfg.steps, 1u << WEIGHTS);
    for (int step = 0; step < p->cfg.steps; step++) {
        gr_bh_round(p->b, step);
        encode_actions(p, step);
        blocks(p, step);
        decode_velocity(p, step);
    }
    gr_bh_loop_end(p->b);
    gr_bh_output(p->b, (struct gr_bh_io){.name = "action_pred",
                                         .buf = p->action,
                                         .place = GR_BH_COLUMNS,
                                         .row0 = 1,
                                         .rows = dims->dit.horizon,
                                         .cols = dims->dit.max_action});
}

void gr_bh_denoise_plan_free(struct gr_bh_denoise_plan *p) { free(p); }

void gr_bh_emit_denoise(struct gr_bh_build *b, const struct gr_bh_denoise *d)
{
    struct gr_bh_denoise_plan *p = gr_bh_denoise_plan_new(b, d);
    if (p != NULL) {
        gr_bh_denoise_place(p, gr_bh_l1_mark(b));
        gr_bh_denoise_emit(p);
        gr_bh_denoise_plan_free(p);
    }
}
