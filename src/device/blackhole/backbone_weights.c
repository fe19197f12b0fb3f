/* SPDX-License-Identifier: Apache-2.0
 *
 * backbone_weights.c: the backbone's matrices as the program sees them, and what depends on the checkpoint alone: gains less one and shifts
 * of the norms, the resized position table, rotary tables; maps of rows and columns. */
#include "device/blackhole/backbone.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/blackhole/tile_format.h"
#include "model/positions.h"

enum { TILE = 32, HALF_TILE = 16 };

/* Gives out the arrays of a gr_bh_backbone_weights; sized by take_memory(). */
struct maker {
    struct gr_bh_backbone_weights *o;
    const struct gr_weights *w;
    size_t values, maps; /* given out */
    enum gr_status status;
    struct gr_err *err;
};

static size_t up(int n) { return (size_t)gr_bh_tiles_of(n); }

static float *take(struct maker *m, size_t n)
{
    float *v = m->o->values + m->values;
    m->values += n;
    return v;
}
static int *take_map(struct maker *m, size_t n)
{
    int *v = m->o->maps + m->maps;
    m->maps += n;
    return v;
}

static struct gr_bh_matrix linear(const struct maker *m, const struct gr_linear *l)
{
    return (struct gr_bh_matrix){.name = l->w.name,
                                 .k = (int)l->w.shape[1],
                                 .n = (int)l->w.shape[0],
                                 .w = &l->w,
                                 .b = l->b.data != NULL ? &l->b : NULL,
                                 .slot = -1,
                                 .fmt = m->o->fmt};
}

/* Element i of a norm's weights as piece j = to(i) of [gain - 1 | shift]. */
static void norm_at(struct maker *m, const struct gr_norm *n, int i, float *gain, float *shift)
{
    *gain = gr_tensor_f32(&n->w, (size_t)i) - 1.0f;
    *shift = n->b.data != NULL ? gr_tensor_f32(&n->b, (size_t)i) : 0.0f;
    if (m->status == GR_OK && (!gr_bh_in_range(*gain) || !gr_bh_in_range(*shift))) {
        m->status = gr_fail(m->err, GR_ERR_FORMAT, GR_BH_OUT_OF_RANGE, gr_bh_in_range(*gain) ? n->b.name : n->w.name, i,
                            (double)(gr_bh_in_range(*gain) ? *shift : gr_tensor_f32(&n->w, (size_t)i)));
    }
}
static const float *norm(struct maker *m, const struct gr_norm *n, int d)
{
    float *v = take(m, 2 * (size_t)d);
    for (int i = 0; i < d; i++) {
        norm_at(m, n, i, &v[i], &v[d + i]);
    }
    return v;
}

/* ---- vision ---- */

/* Which row of the padded array a patch is. */
static int row_of(const struct gr_dims *d, int patch)
{
    const int y = patch / d->vit.grid, x = patch % d->vit.grid, side = d->vit.grid / GR_UNSHUFFLE;
    const int token = y / GR_UNSHUFFLE * side + x / GR_UNSHUFFLE;
    const int q = y % GR_UNSHUFFLE * GR_UNSHUFFLE + x % GR_UNSHUFFLE;
    return (token / TILE * GR_BH_PATCHES + q) * TILE + token % TILE;
}

static void positions(struct maker *m)
{
    const struct gr_dims *d = &m->o->d;
    const size_t D = (size_t)d->vit.hidden;
    float *rows = take(m, (size_t)m->o->blocks * GR_BH_PATCHES * TILE * D),
          *raster = take(m, (size_t)d->vit.patches * D);
    m->o->positions = rows;
    m->o->patch_row = take_map(m, (size_t)d->vit.patches);
    if (m->status == GR_OK) {
        m->status = gr_resize_positions(d, &m->w->vit_pos, raster, m->err);
    }
    for (int p = 0; p < d->vit.patches; p++) {
        m->o->patch_row[p] = row_of(d, p);
        for (size_t c = 0; c < D; c++) {
            const float v = raster[(size_t)p * D + c];
            rows[(size_t)row_of(d, p) * D + c] = v;
            if (m->status == GR_OK && !gr_bh_in_range(v)) {
                m->status = gr_fail(m->err, GR_ERR_FORMAT, GR_BH_OUT_OF_RANGE, m->w->vit_pos.name, (int)c, (double)v);
            }
        }
    }
}

static void vision(struct maker *m)
{
    struct gr_bh_backbone_weights *o = m->o;
    const int D = o->d.vit.hidden;
    const struct gr_bh_heads h = gr_bh_heads_of(o->d.vit.heads, D / o->d.vit.heads);
    int *row = take_map(m, (size_t)gr_bh_heads_out(&h));
    gr_bh_heads_rows(&h, row);
    o->patch = linear(m, &m->w->patch);
    for (int i = 0; i < o->d.vit.layers; i++) {
        const struct gr_vit_layer *l = &m->w->vit[i];
        o->vit[i] = (struct gr_bh_vit_weights){.q = linear(m, &l->q),
                                               .k = linear(m, &l->k),
                                               .v = linear(m, &l->v),
                                               .out = linear(m, &l->out),
                                               .fc1 = linear(m, &l->fc1),
                                               .fc2 = linear(m, &l->fc2),
                                               .norm1 = norm(m, &l->norm1, D),
                                               .norm2 = norm(m, &l->norm2, D)};
        o->vit[i].out.row = row;
        o->vit[i].out.k = gr_bh_heads_out(&h);
    }
    o->vit_post = norm(m, &m->w->vit_post, D);
    positions(m);
}

/* Row q * padded width + c of the connector is element c * 4 + q of the checkpoint's. */
static void connector(struct maker *m)
{
    struct gr_bh_backbone_weights *o = m->o;
    const int D = o->d.vit.hidden, padded = TILE * gr_bh_tiles_of(D);
    o->connector1 = linear(m, &m->w->connector1);
    o->connector2 = linear(m, &m->w->connector2);
    int *row = take_map(m, (size_t)(GR_BH_PATCHES * padded));
    float *v = take(m, 2 * GR_BH_PATCHES * (size_t)D);
    for (int q = 0; q < GR_BH_PATCHES; q++) {
        for (int c = 0; c < padded; c++) {
            row[q * padded + c] = c < D ? c * GR_BH_PATCHES + q : -1;
        }
        for (int c = 0; c < D; c++) {
            norm_at(m, &m->w->connector_norm, c * GR_BH_PATCHES + q, &v[q * D + c], &v[(GR_BH_PATCHES + q) * D + c]);
        }
    }
    o->connector1.row = row;
    o->connector1.k = GR_BH_PATCHES * padded;
    o->connector_norm = v;
}

/* ---- language model ---- */

/* Element of a head in column j of its padded columns, -1: none. */
static int element_of(const struct gr_dims *d, int j)
{
    const int half = d->llm.head_dim / 2, i = j / TILE * HALF_TILE + j % HALF_TILE;
    return i >= half ? -1 : j % TILE < HALF_TILE ? i : half + i;
}

/* Columns of queries or keys head by head of the queries, whose keys and values are those of head h * kv_heads / heads. */
static void head_columns(const struct gr_bh_backbone_weights *o, bool keys, bool rotated, int *map)
{
    const struct gr_dims *d = &o->d;
    const int width = TILE * o->head_tiles, share = d->llm.heads / d->llm.kv_heads;
    for (int i = 0; i < d->llm.heads * width; i++) {
        const int head = keys ? i / width / share : i / width, j = i % width;
        const int e = rotated ? element_of(d, j) : j < d->llm.head_dim ? j : -1;
        map[i] = e < 0 ? -1 : head * d->llm.head_dim + e;
    }
}

static const float *head_norm(struct maker *m, const struct gr_norm *n)
{
    const int width = TILE * m->o->head_tiles;
    float *v = take(m, 2 * (size_t)width);
    for (int j = 0; j < width; j++) {
        const int e = element_of(&m->o->d, j);
        if (e >= 0) {
            norm_at(m, n, e, &v[j], &v[width + j]);
        }
    }
    return v;
}

static void rotary(struct maker *m)
{
    struct gr_bh_backbone_weights *o = m->o;
    const int rows = TILE * o->rows, width = TILE * o->head_tiles, half = o->d.llm.head_dim / 2;
    const size_t n = (size_t)rows * (size_t)width, table = (size_t)rows * (size_t)half;
    float *cosine = take(m, n), *sine = take(m, n), *c = take(m, table), *s = take(m, table);
    gr_rotary_tables(&o->d, rows, c, s);
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < width; j++) {
            const int e = element_of(&o->d, j), i = e < half ? e : e - half;
            if (e >= 0) {
                cosine[r * width + j] = c[r * half + i];
                sine[r * width + j] = s[r * half + i];
            }
        }
    }
    o->cosine = cosine;
    o->sine = sine;
}

static void language(struct maker *m)
{
    struct gr_bh_backbone_weights *o = m->o;
    const int D = o->d.llm.hidden;
    const size_t columns = (size_t)o->d.llm.heads * (size_t)o->head_tiles * TILE;
    int *map[3] = {take_map(m, columns), take_map(m, columns), take_map(m, columns)};
    head_columns(o, false, true, map[0]);
    head_columns(o, true, true, map[1]);
    head_columns(o, true, false, map[2]);
    int *out_row = take_map(m, columns);
    head_columns(o, false, false, out_row);
    for (int i = 0; i < o->d.llm.layers; i++) {
        const struct gr_llm_layer *l = &m->w->llm[i];
        struct gr_bh_llm_weights *x = &o->llm[i];
        *x = (struct gr_bh_llm_weights){.q = linear(m, &l->q),
                                        .k = linear(m, &l->k),
                                        .v = linear(m, &l->v),
                                        .o = linear(m, &l->o),
                                        .gate = linear(m, &l->gate),
                                        .up = linear(m, &l->up),
                                        .down = linear(m, &l->down),
                                        .norm1 = norm(m, &l->norm1, D),
                                        .norm2 = norm(m, &l->norm2, D),
                                        .q_norm = head_norm(m, &l->q_norm),
                                        .k_norm = head_norm(m, &l->k_norm)};
        x->q.column = map[0];
        x->k.column = map[1];
        x->v.column = map[2];
        x->q.n = x->k.n = x->v.n = (int)columns;
        x->o.row = out_row;
        x->o.k = (int)columns;
    }
    o->llm_norm = norm(m, &m->w->llm_norm, D);
    o->vlln = norm(m, &m->w->vlln, D);
    rotary(m);
}

static enum gr_status take_memory(struct gr_bh_backbone_weights *o, struct gr_err *err)
{
    const struct gr_dims *d = &o->d;
    const size_t V = (size_t)d->vit.hidden, L = (size_t)d->llm.hidden, vl = (size_t)d->vit.layers;
    const size_t ll = (size_t)d->llm.layers, rows = TILE * (size_t)o->rows, width = TILE * (size_t)o->head_tiles;
    const size_t patches = (size_t)o->blocks * GR_BH_PATCHES * TILE, columns = (size_t)d->llm.heads * width;
    const size_t values = (4 * vl + 2 + 2 * GR_BH_PATCHES) * V + (patches + (size_t)d->vit.patches) * V +
                          (4 * ll + 4) * L + 4 * ll * width + 2 * rows * width + rows * (size_t)d->llm.head_dim;
    const struct gr_bh_heads heads = gr_bh_heads_of(d->vit.heads, d->vit.hidden / d->vit.heads);
    const size_t maps = (size_t)gr_bh_heads_out(&heads) + (size_t)d->vit.patches +
                        GR_BH_PATCHES * TILE * up(d->vit.hidden) + 4 * columns;
    o->vit = calloc(vl, sizeof *o->vit);
    o->llm = calloc(ll, sizeof *o->llm);
    o->values = calloc(values, sizeof *o->values);
    o->maps = calloc(maps, sizeof *o->maps);
    return o->vit != NULL && o->llm != NULL && o->values != NULL && o->maps != NULL
               ? GR_OK
               : gr_fail(err, GR_ERR_NOMEM, "no memory for the constants of the backbone");
}

enum gr_status gr_bh_backbone_weights_new(const struct gr_weights *w, int tokens, enum gr_bh_format fmt,
                                          struct gr_bh_backbone_weights **out, struct gr_err *err)
{
    *out = NULL;
    if (w->dims.llm.head_dim % 2 != 0 || w->dims.llm.heads % w->dims.llm.kv_heads != 0 || tokens < 1 ||
        tokens > GR_MAX_POSITIONS) {
        return gr_fail(err, GR_ERR_DEVICE, "%d query heads, %d of keys, of %d elements; %d tokens", w->dims.llm.heads,
                       w->dims.llm.kv_heads, w->dims.llm.head_dim, tokens);
    }
    struct gr_bh_backbone_weights *o = calloc(1, sizeof *o);
    if (o == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the backbone");
    }
    o->d = w->dims;
    o->fmt = fmt;
    o->blocks = gr_bh_tiles_of(o->d.vit.tokens);
    o->rows = gr_bh_tiles_of(tokens);
    o->head_tiles = (o->d.llm.head_dim / 2 + HALF_TILE - 1) / HALF_TILE;
    struct maker m = {.o = o, .w = w, .err = err};
    m.status = take_memory(o, err);
    if (m.status == GR_OK) {
        vision(&m);
        connector(&m);
        language(&m);
    }
    if (m.status != GR_OK) {
        gr_bh_backbone_weights_free(o);
        return m.status;
    }
    *out = o;
    return GR_OK;
}

void gr_bh_backbone_weights_free(struct gr_bh_backbone_weights *w)
{
    if (w == NULL) {
        return;
    }
    free(w->vit);
    free(w->llm);
    free(w->values);
    free(w->maps);
    free(w);
}
