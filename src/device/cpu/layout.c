/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.c: the list of matrices and vectors of the network, and their places in a store. Parts are taken in a fixed order, so that
 * where each one lies follows from dims and formats alone. */
#include "device/cpu/layout.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/cpu/constants.h"

enum { ENTRIES_MAX = 8192, VECTORS_MAX = 16384 };

struct lister {
    struct gr_device *dev;
    struct cpu_layout *l;
    struct gr_err *err;
};

/* ---- vectors ---- */

static enum gr_status add_vector(struct lister *t, const struct gr_tensor *v, const float **out)
{
    if (t->l->n_vectors == VECTORS_MAX) {
        return gr_fail(t->err, GR_ERR_FORMAT, "the network has more than %d vectors", VECTORS_MAX);
    }
    t->l->vectors[t->l->n_vectors++] = (struct cpu_vector){.t = v, .out = out};
    return GR_OK;
}

static enum gr_status add_norm(struct lister *t, const struct gr_norm *n, enum gr_row_norm_kind kind, float eps,
                               struct gr_row_norm *out)
{
    *out = (struct gr_row_norm){.kind = kind, .eps = eps};
    GR_TRY(add_vector(t, &n->w, &out->gamma));
    return n->b.data != NULL ? add_vector(t, &n->b, &out->beta) : GR_OK;
}

static enum gr_status list_vectors(struct lister *t, const struct gr_weights *w)
{
    struct cpu_net *net = &t->dev->net;
    for (int i = 0; i < w->dims.vit.layers; i++) {
        GR_TRY(add_norm(t, &w->vit[i].norm1, GR_ROW_LAYER, GR_VIT_EPS, &net->vit[i].norm1));
        GR_TRY(add_norm(t, &w->vit[i].norm2, GR_ROW_LAYER, GR_VIT_EPS, &net->vit[i].norm2));
    }
    GR_TRY(add_norm(t, &w->vit_post, GR_ROW_LAYER, GR_VIT_EPS, &net->vit_post));
    GR_TRY(add_norm(t, &w->connector_norm, GR_ROW_LAYER, GR_CONNECTOR_EPS, &net->connector_norm));
    for (int i = 0; i < w->dims.llm.layers; i++) {
        GR_TRY(add_norm(t, &w->llm[i].norm1, GR_ROW_RMS, GR_LLM_EPS, &net->llm[i].norm1));
        GR_TRY(add_norm(t, &w->llm[i].norm2, GR_ROW_RMS, GR_LLM_EPS, &net->llm[i].norm2));
        GR_TRY(add_vector(t, &w->llm[i].q_norm.w, &net->llm[i].q_gamma));
        GR_TRY(add_vector(t, &w->llm[i].k_norm.w, &net->llm[i].k_gamma));
    }
    GR_TRY(add_norm(t, &w->llm_norm, GR_ROW_RMS, GR_LLM_EPS, &net->llm_norm));
    return add_norm(t, &w->vlln, GR_ROW_LAYER, GR_VLLN_EPS, &net->vlln);
}

/* ---- matrices ---- */

struct role { /* what all matrices of a place in the network share */
    enum cpu_part part;
    int layer, layers, calls;
};

static struct role layer_of(enum cpu_part part, int layer, int layers) { return (struct role){part, layer, layers, 1}; }

/* Called "group.layer.name", or `name` alone. */
static enum gr_status add_job(struct lister *t, struct cpu_matrix *m, const struct cpu_pack_job *job, int k,
                              struct role role, const char *group, const char *name)
{
    if (t->l->n == ENTRIES_MAX) {
        return gr_fail(t->err, GR_ERR_FORMAT, "the network has more than %d matrices", ENTRIES_MAX);
    }
    struct cpu_entry *e = &t->l->entries[t->l->n];
    *e = (struct cpu_entry){
        .part = role.part, .layer = role.layer, .layers = role.layers, .calls = role.calls, .matrix = m, .pack = *job};
    e->pack.mat = &e->exact;
    if (group != NULL) {
        (void)snprintf(e->name, sizeof e->name, "%s.%d.%s", group, role.layer, name);
    } else {
        (void)snprintf(e->name, sizeof e->name, "%s", name);
    }
    GR_TRY(gr_cpu_mat_plan(&e->pack, k, t->err));
    e->format = e->exact.format;
    m->id = t->l->n++;
    return GR_OK;
}

static enum gr_status add(struct lister *t, struct cpu_matrix *m, const struct gr_linear *a, struct role role,
                          const char *group, const char *name)
{
    const struct cpu_pack_job job = {.n_src = 1, .src = {{.w = &a->w, .b = &a->b}}};
    return add_job(t, m, &job, (int)a->w.shape[1], role, group, name);
}

/* Outputs of a, b and c (NULL: none) side by side. */
static enum gr_status add_stack(struct lister *t, struct cpu_matrix *m, const struct gr_linear *a,
                                const struct gr_linear *b, const struct gr_linear *c, struct role role,
                                const char *group, const char *name)
{
    struct cpu_pack_job job = {.n_src = c != NULL ? 3 : 2, .src = {{.w = &a->w, .b = &a->b}, {.w = &b->w, .b = &b->b}}};
    if (c != NULL) {
        job.src[2] = (struct cpu_source){.w = &c->w, .b = &c->b};
    }
    return add_job(t, m, &job, (int)a->w.shape[1], role, group, name);
}

static enum gr_status add_slot(struct lister *t, struct cpu_matrix *m, const struct gr_cat_linear *a, int k, int calls,
                               const char *name)
{
    const struct cpu_pack_job job = {.n_src = 1,
                                     .src = {{.w = &a->w, .b = &a->b, .per_slot = true, .slot = t->dev->cfg.slot}}};
    return add_job(t, m, &job, k, (struct role){CPU_PART_CODEC, 0, 1, calls}, NULL, name);
}

static enum gr_status list_vision(struct lister *t, const struct gr_weights *w)
{
    struct cpu_net *net = &t->dev->net;
    GR_TRY(add(t, &net->patch, &w->patch, layer_of(CPU_PART_PATCH, 0, 1), NULL, "patch"));
    for (int i = 0; i < w->dims.vit.layers; i++) {
        const struct gr_vit_layer *v = &w->vit[i];
        struct cpu_vit_layer *n = &net->vit[i];
        const struct role role = layer_of(CPU_PART_VISION, i, w->dims.vit.layers);
        GR_TRY(add_stack(t, &n->qkv, &v->q, &v->k, &v->v, role, "vit", "qkv"));
        GR_TRY(add(t, &n->out, &v->out, role, "vit", "out"));
        GR_TRY(add(t, &n->fc1, &v->fc1, role, "vit", "fc1"));
        GR_TRY(add(t, &n->fc2, &v->fc2, role, "vit", "fc2"));
    }
    const struct role role = layer_of(CPU_PART_CONNECTOR, 0, 1);
    GR_TRY(add(t, &net->connector1, &w->connector1, role, NULL, "connector1"));
    return add(t, &net->connector2, &w->connector2, role, NULL, "connector2");
}

static enum gr_status list_language(struct lister *t, const struct gr_weights *w)
{
    for (int i = 0; i < w->dims.llm.layers; i++) {
        const struct gr_llm_layer *v = &w->llm[i];
        struct cpu_llm_layer *n = &t->dev->net.llm[i];
        const struct role role = layer_of(CPU_PART_LLM, i, w->dims.llm.layers);
        GR_TRY(add_stack(t, &n->qkv, &v->q, &v->k, &v->v, role, "llm", "qkv"));
        GR_TRY(add(t, &n->o, &v->o, role, "llm", "o"));
        const struct cpu_pack_job job = {.n_src = 2,
                                         .interleave = true,
                                         .src = {{.w = &v->gate.w, .b = &v->gate.b}, {.w = &v->up.w, .b = &v->up.b}}};
        GR_TRY(add_job(t, &n->gate_up, &job, (int)v->gate.w.shape[1], role, "llm", "gate_up"));
        GR_TRY(add(t, &n->down, &v->down, role, "llm", "down"));
    }
    return GR_OK;
}

/* Cross keys and values: first those of the text, then those of the image, as the adapter computes them. */
static enum gr_status list_keys_values(struct lister *t, const struct gr_weights *w)
{
    const struct gr_dims *d = &w->dims;
    for (int text = 1; text >= 0; text--) {
        for (int i = 0; i < d->dit.layers; i++) {
            struct cpu_dit_block *b = &t->dev->net.dit[i];
            b->cross = i % 2 == 0;
            b->text = i % (2 * d->dit.text_every) == 0;
            if (b->cross && b->text == (text != 0)) {
                GR_TRY(add_stack(t, &b->kv, &w->dit[i].k, &w->dit[i].v, NULL, layer_of(CPU_PART_KV, i, d->dit.layers),
                                 "dit", "kv"));
            }
        }
    }
    return GR_OK;
}

static enum gr_status list_head(struct lister *t, const struct gr_weights *w)
{
    struct cpu_net *net = &t->dev->net;
    const struct gr_dims *d = &w->dims;
    const int D = d->dit.width, steps = d->dit.steps;
    GR_TRY(list_keys_values(t, w));
    GR_TRY(add_slot(t, &net->state1, &w->state1, d->dit.max_state, 1, "state1"));
    GR_TRY(add_slot(t, &net->state2, &w->state2, d->dit.hidden, 1, "state2"));
    GR_TRY(add_slot(t, &net->action1, &w->action1, d->dit.max_action, steps, "action1"));
    /* Upper half of the inputs; the lower one sees only the time. */
    GR_TRY(add_slot(t, &net->action2, &w->action2, D, steps, "action2"));
    GR_TRY(add_slot(t, &net->action3, &w->action3, D, steps, "action3"));
    for (int i = 0; i < d->dit.layers; i++) {
        struct cpu_dit_block *b = &net->dit[i];
        const struct gr_dit_block *v = &w->dit[i];
        const struct role role = {CPU_PART_DIT, i, d->dit.layers, steps};
        GR_TRY(b->cross ? add(t, &b->q, &v->q, role, "dit", "q")
                        : add_stack(t, &b->q, &v->q, &v->k, &v->v, role, "dit", "q"));
        GR_TRY(add(t, &b->out, &v->out, role, "dit", "out"));
        GR_TRY(add(t, &b->ff1, &v->ff1, role, "dit", "ff1"));
        GR_TRY(add(t, &b->ff2, &v->ff2, role, "dit", "ff2"));
    }
    const struct role role = {CPU_PART_CODEC, 0, 1, steps};
    GR_TRY(add(t, &net->proj_out2, &w->proj_out2, role, NULL, "proj_out2"));
    GR_TRY(add_slot(t, &net->decoder1, &w->decoder1, d->dit.out, steps, "decoder1"));
    return add_slot(t, &net->decoder2, &w->decoder2, d->dit.hidden, steps, "decoder2");
}

static void link_matrices(struct gr_device *dev, struct cpu_layout *l)
{
    for (int i = 0; i < l->n; i++) {
        /* Behind the last one the next Euler step begins. */
        l->entries[i].matrix->next = i + 1 < l->n ? l->entries[i + 1].matrix : &dev->net.action1;
    }
}

enum gr_status gr_layout_make(struct gr_device *dev, const struct gr_weights *w, struct cpu_layout *out,
                              struct gr_err *err)
{
    const struct gr_dims *d = &w->dims;
    struct cpu_net *net = &dev->net;
    struct lister t = {.dev = dev, .l = out, .err = err};
    net->vit = calloc((size_t)d->vit.layers, sizeof *net->vit);
    net->llm = calloc((size_t)d->llm.layers, sizeof *net->llm);
    net->dit = calloc((size_t)d->dit.layers, sizeof *net->dit);
    net->out_norm = calloc(((size_t)d->dit.layers + 1) * (size_t)d->dit.steps, sizeof *net->out_norm);
    out->entries = calloc(ENTRIES_MAX, sizeof *out->entries);
    out->vectors = calloc(VECTORS_MAX, sizeof *out->vectors);
    if (net->vit == NULL || net->llm == NULL || net->dit == NULL || net->out_norm == NULL || out->entries == NULL ||
        out->vectors == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the table of layers");
    }
    GR_TRY(list_vision(&t, w));
    GR_TRY(list_language(&t, w));
    GR_TRY(list_head(&t, w));
    link_matrices(dev, out);
    return list_vectors(&t, w);
}

void gr_layout_free(struct cpu_layout *l)
{
    free(l->entries);
    free(l->vectors);
    *l = (struct cpu_layout){0};
}

/* ---- places ---- */

enum gr_status gr_layout_take(struct gr_store *s, const struct cpu_entry *e, enum gr_mat_format format,
                              struct gr_quant_parts *parts, struct gr_err *err)
{
    const bool exact = gr_mat_exact(format);
    const size_t columns = (size_t)gr_quant_panels(&e->exact, format) * (size_t)gr_mat_cols(format);
    *parts = (struct gr_quant_parts){0};
    GR_TRY(gr_store_take(s, exact ? e->pack.data_bytes : gr_quant_data_bytes(&e->exact, format), 1, "packed weights",
                         &parts->data, err));
    GR_TRY(gr_store_floats(s, columns, 1, "biases", &parts->bias, err));
    if (format == GR_MAT_I8 || format == GR_MAT_I16 || format == GR_MAT_F16) {
        GR_TRY(gr_store_floats(s, columns, 1, "weight scales", &parts->scale, err));
    }
    if (format == GR_MAT_I8) {
        GR_TRY(gr_store_floats(s, columns, 1, "column sums", &parts->offset, err));
        GR_TRY(gr_store_floats(s, (size_t)e->exact.k, 1, "smoothing vectors", &parts->smooth, err));
    }
    return GR_OK;
}

/* e's matrix in its format with these parts; data need not be there yet. */
static struct gr_mat mat_of(const struct cpu_entry *e, const struct gr_quant_parts *parts)
{
    struct gr_mat m = e->exact;
    m.format = e->format;
    m.panels = gr_quant_panels(&e->exact, e->format);
    m.data = parts->data;
    m.bias = parts->bias;
    m.scale = parts->scale;
    m.offset = parts->offset;
    m.smooth = parts->smooth;
    return m;
}

/* Sets every pointer of the network into the store, or measures it (base NULL). */
static enum gr_status place(struct gr_device *dev, struct cpu_layout *l, struct gr_store *s, struct gr_err *err)
{
    dev->weights_bytes = 0;
    for (int i = 0; i < l->n; i++) {
        struct cpu_entry *e = &l->entries[i];
        struct gr_quant_parts parts;
        e->at = s->at;
        GR_TRY(gr_layout_take(s, e, e->format, &parts, err));
        e->bytes = s->at - e->at;
        e->matrix->mat = mat_of(e, &parts);
        dev->weights_bytes += (size_t)e->matrix->mat.panels * gr_mat_panel_bytes(&e->matrix->mat);
        if (gr_mat_exact(e->format)) {
            e->exact = e->matrix->mat;
            e->pack.bias = parts.bias;
        }
    }
    l->matrices_end = s->at;
    for (int i = 0; i < l->n_vectors; i++) {
        struct cpu_vector *v = &l->vectors[i];
        GR_TRY(gr_store_floats(s, v->t->bytes / gr_dtype_bytes(v->t->dtype), 1, "norm weights", &v->data, err));
        *v->out = v->data;
    }
    return gr_cpu_place_constants(dev, s, err);
}

enum gr_status gr_layout_store(struct gr_device *dev, struct cpu_layout *l, struct gr_store *s, struct gr_err *err)
{
    struct gr_store measure = {.bytes = SIZE_MAX};
    GR_TRY(place(dev, l, &measure, err));
    gr_big_free(s->base, s->bytes);
    *s = (struct gr_store){.bytes = measure.at};
    GR_TRY(gr_big_alloc(s->bytes, "packed weights", &s->base, err));
    return place(dev, l, s, err);
}
