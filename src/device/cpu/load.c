/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c: the matrices of the network, packed, in the order a predict uses them, and its vectors, widened: their list, their places in
 * the store, and how they are filled when no cache has them. The checkpoint's pages are given back as soon as a matrix is
 * packed, so memory never holds both. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "device/cpu/cpu_device.h"

enum { JOBS_MAX = 8192, VECTORS_MAX = 16384, READ_AHEAD = 6 /* matrices; some 60 MB at full size */ };

struct vector_job {
    const struct gr_tensor *t;
    const float **out; /* what points to it */
    float *data;
};
struct job_list {
    struct cpu_pack_job *jobs;
    int n;
    struct vector_job *vectors;
    int n_vectors;
    struct gr_err *err;
};

enum gr_status gr_cpu_floats(struct gr_device *dev, size_t a, size_t b, const char *what, float **out,
                             struct gr_err *err)
{
    size_t n, bytes;
    if (!gr_size_mul(a, b, &n) || !gr_size_mul(n, sizeof(float), &bytes)) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: %zu x %zu floats do not fit in memory", what, a, b);
    }
    if (dev->n_blocks == (int)(sizeof dev->blocks / sizeof dev->blocks[0])) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: more memory blocks than the device keeps", what);
    }
    void *p;
    GR_TRY(gr_big_alloc(bytes, what, &p, err));
    dev->blocks[dev->n_blocks] = p;
    dev->block_bytes[dev->n_blocks++] = bytes;
    *out = p;
    return GR_OK;
}

/* ---- vectors ---- */

static size_t vector_floats(const struct gr_tensor *t) { return t->bytes / gr_dtype_bytes(t->dtype); }

static enum gr_status add_vector(struct job_list *l, const struct gr_tensor *t, const float **out)
{
    if (l->n_vectors == VECTORS_MAX) {
        return gr_fail(l->err, GR_ERR_FORMAT, "the network has more than %d vectors", VECTORS_MAX);
    }
    l->vectors[l->n_vectors++] = (struct vector_job){.t = t, .out = out};
    return GR_OK;
}

enum gr_status gr_cpu_check_finite(const float *x, size_t n, const struct gr_tensor *t, struct gr_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] - x[i] == 0.0f)) {
            return gr_fail(err, GR_ERR_FORMAT, "tensor %s holds NaN or infinity", t->name);
        }
    }
    return GR_OK;
}

static enum gr_status add_norm(struct job_list *l, const struct gr_norm *n, enum gr_row_norm_kind kind, float eps,
                               struct gr_row_norm *out)
{
    *out = (struct gr_row_norm){.kind = kind, .eps = eps};
    GR_TRY(add_vector(l, &n->w, &out->gamma));
    return n->b.data != NULL ? add_vector(l, &n->b, &out->beta) : GR_OK;
}

static enum gr_status list_vectors(struct gr_device *dev, const struct gr_weights *w, struct job_list *l)
{
    struct cpu_net *net = &dev->net;
    for (int i = 0; i < dev->dims.vit.layers; i++) {
        GR_TRY(add_norm(l, &w->vit[i].norm1, GR_ROW_LAYER, GR_VIT_EPS, &net->vit[i].norm1));
        GR_TRY(add_norm(l, &w->vit[i].norm2, GR_ROW_LAYER, GR_VIT_EPS, &net->vit[i].norm2));
    }
    GR_TRY(add_norm(l, &w->vit_post, GR_ROW_LAYER, GR_VIT_EPS, &net->vit_post));
    GR_TRY(add_norm(l, &w->connector_norm, GR_ROW_LAYER, GR_CONNECTOR_EPS, &net->connector_norm));
    for (int i = 0; i < dev->dims.llm.layers; i++) {
        GR_TRY(add_norm(l, &w->llm[i].norm1, GR_ROW_RMS, GR_LLM_EPS, &net->llm[i].norm1));
        GR_TRY(add_norm(l, &w->llm[i].norm2, GR_ROW_RMS, GR_LLM_EPS, &net->llm[i].norm2));
        GR_TRY(add_vector(l, &w->llm[i].q_norm.w, &net->llm[i].q_gamma));
        GR_TRY(add_vector(l, &w->llm[i].k_norm.w, &net->llm[i].k_gamma));
    }
    GR_TRY(add_norm(l, &w->llm_norm, GR_ROW_RMS, GR_LLM_EPS, &net->llm_norm));
    return add_norm(l, &w->vlln, GR_ROW_LAYER, GR_VLLN_EPS, &net->vlln);
}

/* ---- matrices ---- */

static enum gr_status add_job(struct job_list *l, struct cpu_pack_job job, int k)
{
    if (l->n == JOBS_MAX) {
        return gr_fail(l->err, GR_ERR_FORMAT, "the network has more than %d matrices", JOBS_MAX);
    }
    GR_TRY(gr_cpu_mat_plan(&job, k, l->err));
    l->jobs[l->n++] = job;
    return GR_OK;
}

static enum gr_status add(struct job_list *l, struct gr_mat *mat, const struct gr_linear *a)
{
    return add_job(l, (struct cpu_pack_job){.mat = mat, .n_src = 1, .src = {{.w = &a->w, .b = &a->b}}},
                   (int)a->w.shape[1]);
}

static enum gr_status add_stack(struct job_list *l, struct gr_mat *mat, const struct gr_linear *a,
                                const struct gr_linear *b, const struct gr_linear *c)
{
    struct cpu_pack_job job = {
        .mat = mat, .n_src = c != NULL ? 3 : 2, .src = {{.w = &a->w, .b = &a->b}, {.w = &b->w, .b = &b->b}}};
    if (c != NULL) {
        job.src[2] = (struct cpu_source){.w = &c->w, .b = &c->b};
    }
    return add_job(l, job, (int)a->w.shape[1]);
}

static enum gr_status add_slot(struct job_list *l, struct gr_mat *mat, const struct gr_cat_linear *a, int slot, int k)
{
    struct cpu_source src = {.w = &a->w, .b = &a->b, .per_slot = true, .slot = slot};
    return add_job(l, (struct cpu_pack_job){.mat = mat, .n_src = 1, .src = {src}}, k);
}

static enum gr_status list_backbone(struct gr_device *dev, const struct gr_weights *w, struct job_list *l)
{
    struct cpu_net *net = &dev->net;
    GR_TRY(add(l, &net->patch, &w->patch));
    for (int i = 0; i < dev->dims.vit.layers; i++) {
        const struct gr_vit_layer *v = &w->vit[i];
        GR_TRY(add_stack(l, &net->vit[i].qkv, &v->q, &v->k, &v->v));
        GR_TRY(add(l, &net->vit[i].out, &v->out));
        GR_TRY(add(l, &net->vit[i].fc1, &v->fc1));
        GR_TRY(add(l, &net->vit[i].fc2, &v->fc2));
    }
    GR_TRY(add(l, &net->connector1, &w->connector1));
    GR_TRY(add(l, &net->connector2, &w->connector2));
    for (int i = 0; i < dev->dims.llm.layers; i++) {
        const struct gr_llm_layer *v = &w->llm[i];
        GR_TRY(add_stack(l, &net->llm[i].qkv, &v->q, &v->k, &v->v));
        GR_TRY(add(l, &net->llm[i].o, &v->o));
        struct cpu_pack_job job = {.mat = &net->llm[i].gate_up,
                                   .n_src = 2,
                                   .interleave = true,
                                   .src = {{.w = &v->gate.w, .b = &v->gate.b}, {.w = &v->up.w, .b = &v->up.b}}};
        GR_TRY(add_job(l, job, (int)v->gate.w.shape[1]));
        GR_TRY(add(l, &net->llm[i].down, &v->down));
    }
    return GR_OK;
}

static enum gr_status list_head(struct gr_device *dev, const struct gr_weights *w, struct job_list *l)
{
    struct cpu_net *net = &dev->net;
    const struct gr_dims *d = &dev->dims;
    const int slot = dev->cfg.slot, D = d->dit.width;
    for (int i = 0; i < d->dit.layers; i++) {
        struct cpu_dit_block *b = &net->dit[i];
        b->cross = i % 2 == 0;
        b->text = i % (2 * d->dit.text_every) == 0;
        if (b->cross) {
            GR_TRY(add_stack(l, &b->kv, &w->dit[i].k, &w->dit[i].v, NULL));
        }
    }
    GR_TRY(add_slot(l, &net->state1, &w->state1, slot, d->dit.max_state));
    GR_TRY(add_slot(l, &net->state2, &w->state2, slot, d->dit.hidden));
    GR_TRY(add_slot(l, &net->action1, &w->action1, slot, d->dit.max_action));
    GR_TRY(add_slot(l, &net->action2, &w->action2, slot,
                    D)); /* upper half of the inputs; the lower one sees only the time */
    GR_TRY(add_slot(l, &net->action3, &w->action3, slot, D));
    for (int i = 0; i < d->dit.layers; i++) {
        struct cpu_dit_block *b = &net->dit[i];
        const struct gr_dit_block *v = &w->dit[i];
        GR_TRY(b->cross ? add(l, &b->q, &v->q) : add_stack(l, &b->q, &v->q, &v->k, &v->v));
        GR_TRY(add(l, &b->out, &v->out));
        GR_TRY(add(l, &b->ff1, &v->ff1));
        GR_TRY(add(l, &b->ff2, &v->ff2));
    }
    GR_TRY(add(l, &net->proj_out2, &w->proj_out2));
    GR_TRY(add_slot(l, &net->decoder1, &w->decoder1, slot, d->dit.out));
    return add_slot(l, &net->decoder2, &w->decoder2, slot, d->dit.hidden);
}

struct pack_run {
    const struct cpu_pack_job *job;
    _Atomic bool damaged;
};

/* What else a stacked matrix holds, for messages. */
static const char *siblings(const struct cpu_pack_job *job)
{
    return job->interleave ? " (or up_proj beside it)" : job->n_src > 1 ? " (or k, v beside it)" : "";
}

static void pack_share(int id, int n, void *arg)
{
    struct pack_run *r = arg;
    int p0, p1;
    gr_pool_share(id, n, r->job->mat->panels, &p0, &p1);
    if (!gr_cpu_mat_pack(r->job, p0, p1)) {
        atomic_store(&r->damaged, true);
    }
}

/* ---- places ---- */

/* Sets every pointer into the store, or measures it. */
static enum gr_status place(struct gr_device *dev, struct job_list *l, struct gr_store *s)
{
    for (int i = 0; i < l->n; i++) {
        void *data;
        GR_TRY(gr_store_take(s, l->jobs[i].data_bytes, 1, "packed weights", &data, l->err));
        l->jobs[i].mat->data = data;
    }
    dev->weights_bytes = s->at;
    for (int i = 0; i < l->n; i++) {
        GR_TRY(gr_store_floats(s, gr_cpu_bias_floats(&l->jobs[i]), 1, "biases", &l->jobs[i].bias, l->err));
        l->jobs[i].mat->bias = l->jobs[i].bias;
    }
    for (int i = 0; i < l->n_vectors; i++) {
        GR_TRY(gr_store_floats(s, vector_floats(l->vectors[i].t), 1, "norm weights", &l->vectors[i].data, l->err));
        *l->vectors[i].out = l->vectors[i].data;
    }
    return gr_cpu_place_constants(dev, s, l->err);
}

/* ---- filling ---- */

/* Packs matrix and bias; mat->data and bias are set. */
static enum gr_status pack_job(struct gr_device *dev, const struct cpu_pack_job *job, struct gr_err *err)
{
    struct pack_run run = {.job = job};
    if (!gr_cpu_bias_pack(job)) {
        return gr_fail(err, GR_ERR_FORMAT, "the bias of tensor %s%s holds NaN or infinity", job->src[0].w->name,
                       siblings(job));
    }
    gr_pool_run(dev->pool, pack_share, &run);
    if (atomic_load(&run.damaged)) {
        return gr_fail(err, GR_ERR_FORMAT, "tensor %s%s holds NaN or infinity", job->src[0].w->name, siblings(job));
    }
    return GR_OK;
}

/* Starts reading what job i packs, so that a snapshot that is not in the page cache comes in large pieces. */
static void read_ahead(const struct job_list *l, int i)
{
    for (int s = 0; i < l->n && s < l->jobs[i].n_src; s++) {
        const struct cpu_source *src = &l->jobs[i].src[s];
        size_t bytes = src->w->bytes, at = 0;
        if (src->per_slot) {
            bytes /= (size_t)src->w->shape[0];
            at = bytes * (size_t)src->slot;
        }
        gr_fs_map_soon((const char *)src->w->data + at, bytes);
    }
}

static enum gr_status pack_all(struct gr_device *dev, const struct gr_weights *w, struct job_list *l)
{
    size_t done = 0;
    for (int i = 0; i < READ_AHEAD; i++) {
        read_ahead(l, i);
    }
    for (int i = 0; i < l->n; i++) {
        const struct cpu_pack_job *job = &l->jobs[i];
        read_ahead(l, i + READ_AHEAD);
        GR_TRY(pack_job(dev, job, l->err));
        for (int s = 0; s < job->n_src; s++) {
            gr_snapshot_done(w->snap, job->src[s].w);
        }
        done += job->data_bytes;
        if (dev->cfg.progress != NULL) {
            dev->cfg.progress(dev->cfg.progress_user, "pack weights", done, dev->weights_bytes);
        }
    }
    for (int i = 0; i < l->n_vectors; i++) {
        const struct vector_job *v = &l->vectors[i];
        const size_t n = vector_floats(v->t);
        gr_tensor_to_f32(v->t, 0, n, v->data);
        GR_TRY(gr_cpu_check_finite(v->data, n, v->t, l->err));
    }
    return GR_OK;
}

enum gr_status gr_cpu_temp_mat(struct gr_device *dev, const struct cpu_source *src, int k, struct cpu_temp_mat *out,
                               struct gr_err *err)
{
    struct cpu_pack_job job = {.mat = &out->mat, .n_src = 1, .src = {*src}};
    GR_TRY(gr_cpu_mat_plan(&job, k, err));
    out->bytes = job.data_bytes + gr_cpu_bias_floats(&job) * sizeof(float);
    GR_TRY(gr_big_alloc(out->bytes, "AdaLN weights", &out->block, err));
    out->mat.data = out->block;
    job.bias = (float *)((char *)out->block + job.data_bytes);
    out->mat.bias = job.bias;
    enum gr_status status = pack_job(dev, &job, err);
    if (status != GR_OK) {
        gr_big_free(out->block, out->bytes);
    }
    return status;
}

static enum gr_status list_all(struct gr_device *dev, const struct gr_weights *w, struct job_list *l)
{
    const struct gr_dims *d = &w->dims;
    struct cpu_net *net = &dev->net;
    net->vit = calloc((size_t)d->vit.layers, sizeof *net->vit);
    net->llm = calloc((size_t)d->llm.layers, sizeof *net->llm);
    net->dit = calloc((size_t)d->dit.layers, sizeof *net->dit);
    net->out_norm = calloc(((size_t)d->dit.layers + 1) * (size_t)d->dit.steps, sizeof *net->out_norm);
    l->jobs = malloc(JOBS_MAX * sizeof *l->jobs);
    l->vectors = malloc(VECTORS_MAX * sizeof *l->vectors);
    if (net->vit == NULL || net->llm == NULL || net->dit == NULL || net->out_norm == NULL || l->jobs == NULL ||
        l->vectors == NULL) {
        return gr_fail(l->err, GR_ERR_NOMEM, "no memory for the table of layers");
    }
    GR_TRY(list_backbone(dev, w, l));
    GR_TRY(list_head(dev, w, l));
    return list_vectors(dev, w, l);
}

/* A fresh, zeroed block for the store. */
static enum gr_status new_block(struct gr_store *s, struct gr_err *err)
{
    gr_big_free(s->base, s->bytes);
    s->base = NULL;
    return gr_big_alloc(s->bytes, "packed weights", &s->base, err);
}

static enum gr_status fill_store(struct gr_device *dev, const struct gr_weights *w, struct job_list *l)
{
    struct gr_store measure = {.bytes = SIZE_MAX};
    GR_TRY(list_all(dev, w, l));
    GR_TRY(place(dev, l, &measure));
    dev->store.bytes = measure.at;
    GR_TRY(new_block(&dev->store, l->err));
    bool warm = dev->cfg.cache_dir != NULL && gr_cache_read(&dev->cache, dev->store.base, dev->store.bytes);
    if (!warm && dev->cache.note[0] != '\0') {
        GR_TRY(new_block(&dev->store, l->err)); /* a damaged file may have left something in it */
    }
    GR_TRY(place(dev, l, &dev->store));
    return warm ? GR_OK : pack_all(dev, w, l);
}

enum gr_status gr_cpu_load(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err)
{
    dev->dims = w->dims;
    dev->net.embed = w->embed;
    struct job_list l = {.err = err};
    enum gr_status status = fill_store(dev, w, &l);
    free(l.jobs);
    free(l.vectors);
    return status;
}
