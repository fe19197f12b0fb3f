/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c: published tensor names to roles. A few tensors fix the widths, config.json must agree with them, and then every
 * tensor's shape is checked against those widths, so that a truncated or foreign checkpoint ends here with its name. */
#include "model/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIT "backbone.model.vision_model.vision_model."
#define LLM "backbone.model.language_model.model."
#define CONNECTOR "backbone.model.mlp1."
#define HEAD "action_head."
#define DIT HEAD "model."

enum { NAME_BYTES = 256, DIM_MAX = 1 << 20, LAYERS_MAX = 1024 };

struct book {            /* what gr_weights_free needs and gr_weights_uses searches */
    struct gr_weights w; /* first: a pointer to it is a pointer to the book */
    const char **used;
    size_t n_used, cap_used;
    gr_missing_fn missing; /* may be NULL */
    void *user;
    size_t n_missing;
    char first_missing[NAME_BYTES];
    bool settled; /* all widths are known: a missing tensor does not keep the rest from being checked */
    struct gr_err *err;
};

/* ---- single tensors ---- */

static enum gr_status remember(struct book *b, const char *name)
{
    if (b->n_used == b->cap_used) {
        size_t cap = b->cap_used == 0 ? 2048 : b->cap_used * 2;
        const char **grown = realloc(b->used, cap * sizeof *grown);
        if (grown == NULL) {
            return gr_fail(b->err, GR_ERR_NOMEM, "no memory for the list of %zu tensors", cap);
        }
        b->used = grown;
        b->cap_used = cap;
    }
    b->used[b->n_used++] = name;
    return GR_OK;
}

static void shape_text(const int64_t *shape, int ndim, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < ndim && n < cap; i++) {
        int wrote = snprintf(out + n, cap - n, "%s%lld", i > 0 ? "x" : "", (long long)shape[i]);
        n += wrote > 0 ? (size_t)wrote : 0;
    }
}

static enum gr_status fail_missing(struct book *b)
{
    return b->n_missing == 1
               ? gr_fail(b->err, GR_ERR_FORMAT, "tensor %s is missing from the snapshot", b->first_missing)
               : gr_fail(b->err, GR_ERR_FORMAT, "%zu tensors are missing from the snapshot, the first is %s",
                         b->n_missing, b->first_missing);
}

static enum gr_status note_missing(struct book *b, const char *name)
{
    if (b->n_missing++ == 0) {
        snprintf(b->first_missing, sizeof b->first_missing, "%s", name);
    }
    if (b->missing != NULL) {
        b->missing(b->user, name);
    }
    return b->settled ? GR_OK : fail_missing(b);
}

/* Looks a tensor up and checks dtype, rank and the dimensions that are not 0 in `shape`. */
static enum gr_status want_shape(struct book *b, struct gr_tensor *out, const char *name, int ndim,
                                 const int64_t *shape)
{
    const struct gr_tensor *t = gr_snapshot_find(b->w.snap, name);
    if (t == NULL) {
        return note_missing(b, name);
    }
    if (t->dtype != GR_BF16 && t->dtype != GR_F16 && t->dtype != GR_F32) {
        return gr_fail(b->err, GR_ERR_FORMAT, "tensor %s has dtype %s, expected BF16, F16 or F32", name,
                       gr_dtype_name(t->dtype));
    }
    bool ok = t->ndim == ndim;
    for (int i = 0; ok && i < ndim; i++) {
        ok = shape[i] != 0 ? t->shape[i] == shape[i] : t->shape[i] >= 1 && t->shape[i] <= DIM_MAX;
    }
    if (!ok) {
        char found[128], expected[128];
        shape_text(t->shape, t->ndim, found, sizeof found);
        shape_text(shape, ndim, expected, sizeof expected);
        return gr_fail(b->err, GR_ERR_FORMAT, "tensor %s has shape [%s], expected [%s] (0: any)", name, found,
                       expected);
    }
    *out = *t;
    return remember(b, t->name);
}

static enum gr_status want(struct book *b, struct gr_tensor *out, int ndim, int64_t d0, int64_t d1, int64_t d2,
                           const char *fmt, ...) __attribute__((format(printf, 7, 8)));
static enum gr_status want(struct book *b, struct gr_tensor *out, int ndim, int64_t d0, int64_t d1, int64_t d2,
                           const char *fmt, ...)
{
    char name[NAME_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return want_shape(b, out, name, ndim, (const int64_t[]){d0, d1, d2});
}

static enum gr_status want_linear(struct book *b, struct gr_linear *l, int64_t out, int64_t in, bool bias,
                                  const char *prefix, const char *name)
{
    GR_TRY(want(b, &l->w, 2, out, in, 0, "%s%s.weight", prefix, name));
    return bias ? want(b, &l->b, 1, out, 0, 0, "%s%s.bias", prefix, name) : GR_OK;
}

static enum gr_status want_norm(struct book *b, struct gr_norm *n, int64_t width, bool bias, const char *prefix,
                                const char *name)
{
    GR_TRY(want(b, &n->w, 1, width, 0, 0, "%s%s.weight", prefix, name));
    return bias ? want(b, &n->b, 1, width, 0, 0, "%s%s.bias", prefix, name) : GR_OK;
}

static enum gr_status want_cat(struct book *b, struct gr_cat_linear *l, int64_t in, int64_t out, const char *name)
{
    int64_t slots = b->w.dims.dit.slots;
    GR_TRY(want(b, &l->w, 3, slots, in, out, HEAD "%s.W", name));
    return want(b, &l->b, 2, slots, out, 0, HEAD "%s.b", name);
}

/* ---- widths ---- */

/* A width found in a tensor against what config.json says (0: it says nothing). */
static enum gr_status settle(struct book *b, int *dim, int64_t found, const char *key, const char *tensor)
{
    if (*dim != 0 && *dim != found) {
        return gr_fail(b->err, GR_ERR_FORMAT, "config.json: %s is %d, but tensor %s says %lld", key, *dim, tensor,
                       (long long)found);
    }
    *dim = (int)found;
    return GR_OK;
}

/* More layers than config.json says are another network: using the first ones only would give plausible, wrong actions. (The
 * language model is different: select_layer means just that.) */
static enum gr_status no_layer_beyond(struct book *b, const char *key, int layers, const char *before,
                                      const char *after)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%d.%s", before, layers, after);
    return gr_snapshot_find(b->w.snap, name) == NULL
               ? GR_OK
               : gr_fail(b->err, GR_ERR_FORMAT, "config.json: %s is %d, but the snapshot has tensor %s", key, layers,
                         name);
}

static int vit_layers(const struct gr_snapshot *snap)
{
    char name[NAME_BYTES];
    int n = 0;
    do {
        snprintf(name, sizeof name, VIT "encoder.layers.%d.layer_norm1.weight", n);
    } while (gr_snapshot_find(snap, name) != NULL && ++n < LAYERS_MAX);
    return n;
}

static enum gr_status settle_vit(struct book *b)
{
    struct gr_dims *d = &b->w.dims;
    struct gr_tensor t;
    GR_TRY(want(b, &t, 2, 0, 3 * GR_PATCH * GR_PATCH, 0, VIT "embeddings.patch_embedding.weight"));
    GR_TRY(settle(b, &d->vit.hidden, t.shape[0], "eagle_config.vision_config.hidden_size", t.name));
    GR_TRY(want(b, &t, 2, 0, d->vit.hidden, 0, VIT "embeddings.position_embedding.weight"));
    int side = 1;
    while ((int64_t)side * side < t.shape[0]) {
        side++;
    }
    if ((int64_t)side * side != t.shape[0]) {
        return gr_fail(b->err, GR_ERR_FORMAT, "tensor %s has %lld rows, expected a square number", t.name,
                       (long long)t.shape[0]);
    }
    GR_TRY(settle(b, &d->vit.table_side, side, "position table side", t.name));
    GR_TRY(want(b, &t, 2, 0, d->vit.hidden, 0, VIT "encoder.layers.0.mlp.fc1.weight"));
    GR_TRY(settle(b, &d->vit.mlp, t.shape[0], "eagle_config.vision_config.intermediate_size", t.name));
    if (d->vit.layers == 0) {
        d->vit.layers = vit_layers(b->w.snap);
    }
    GR_TRY(no_layer_beyond(b, "eagle_config.vision_config.num_hidden_layers", d->vit.layers, VIT "encoder.layers.",
                           "layer_norm1.weight"));
    if (d->vit.heads < 1 || d->vit.hidden % d->vit.heads != 0) {
        return gr_fail(b->err, GR_ERR_FORMAT, "vision width %d is not divisible by %d heads", d->vit.hidden,
                       d->vit.heads);
    }
    return GR_OK;
}

static enum gr_status settle_llm(struct book *b)
{
    struct gr_dims *d = &b->w.dims;
    struct gr_tensor t;
    GR_TRY(want(b, &t, 2, 0, 0, 0, LLM "embed_tokens.weight"));
    GR_TRY(settle(b, &d->llm.vocab, t.shape[0], "vocab_size", t.name));
    GR_TRY(settle(b, &d->llm.hidden, t.shape[1], "backbone_embedding_dim", t.name));
    GR_TRY(want(b, &t, 1, 0, 0, 0, LLM "layers.0.self_attn.q_norm.weight"));
    GR_TRY(settle(b, &d->llm.head_dim, t.shape[0], "eagle_config.text_config.head_dim", t.name));
    int64_t dh = t.shape[0];
    struct gr_tensor q, k;
    GR_TRY(want(b, &q, 2, 0, d->llm.hidden, 0, LLM "layers.0.self_attn.q_proj.weight"));
    GR_TRY(want(b, &k, 2, 0, d->llm.hidden, 0, LLM "layers.0.self_attn.k_proj.weight"));
    if (dh % 2 != 0 || q.shape[0] % dh != 0 || k.shape[0] % dh != 0 || q.shape[0] % k.shape[0] != 0) {
        return gr_fail(b->err, GR_ERR_FORMAT,
                       "%s and %s have %lld and %lld rows, expected multiples of the head size %lld that divide evenly",
                       q.name, k.name, (long long)q.shape[0], (long long)k.shape[0], (long long)dh);
    }
    GR_TRY(settle(b, &d->llm.heads, q.shape[0] / dh, "eagle_config.text_config.num_attention_heads", q.name));
    GR_TRY(settle(b, &d->llm.kv_heads, k.shape[0] / dh, "eagle_config.text_config.num_key_value_heads", k.name));
    GR_TRY(want(b, &t, 2, 0, d->llm.hidden, 0, LLM "layers.0.mlp.gate_proj.weight"));
    return settle(b, &d->llm.mlp, t.shape[0], "eagle_config.text_config.intermediate_size", t.name);
}

static enum gr_status settle_dit(struct book *b)
{
    struct gr_dims *d = &b->w.dims;
    struct gr_tensor t;
    GR_TRY(no_layer_beyond(b, "diffusion_model_cfg.num_layers", d->dit.layers, DIT "transformer_blocks.",
                           "norm1.linear.weight"));
    GR_TRY(want(b, &t, 3, 0, 0, 0, HEAD "state_encoder.layer1.W"));
    GR_TRY(settle(b, &d->dit.slots, t.shape[0], "max_num_embodiments", t.name));
    GR_TRY(settle(b, &d->dit.max_state, t.shape[1], "max_state_dim", t.name));
    GR_TRY(settle(b, &d->dit.hidden, t.shape[2], "hidden_size", t.name));
    GR_TRY(want(b, &t, 3, d->dit.slots, 0, 0, HEAD "action_encoder.W1.W"));
    GR_TRY(settle(b, &d->dit.max_action, t.shape[1], "max_action_dim", t.name));
    GR_TRY(settle(b, &d->dit.width, t.shape[2], "input_embedding_dim", t.name));
    GR_TRY(want(b, &t, 2, 0, d->dit.width, 0, HEAD "position_embedding.weight"));
    GR_TRY(settle(b, &d->dit.max_seq, t.shape[0], "max_seq_len", t.name));
    GR_TRY(want(b, &t, 2, 0, d->dit.width, 0, DIT "transformer_blocks.0.ff.net.0.proj.weight"));
    GR_TRY(settle(b, &d->dit.mlp, t.shape[0], "feed-forward width", t.name));
    GR_TRY(want(b, &t, 2, 0, d->dit.width, 0, DIT "proj_out_2.weight"));
    GR_TRY(settle(b, &d->dit.out, t.shape[0], "diffusion_model_cfg.output_dim", t.name));
    GR_TRY(want(b, &t, 2, d->dit.width, 0, 0, DIT "timestep_encoder.timestep_embedder.linear_1.weight"));
    GR_TRY(settle(b, &d->dit.time_channels, t.shape[1], "time embedding width", t.name));
    if (d->dit.heads * d->dit.head_dim != d->dit.width) {
        return gr_fail(b->err, GR_ERR_FORMAT,
                       "config.json: diffusion_model_cfg has %d heads of %d, but the width is %d", d->dit.heads,
                       d->dit.head_dim, d->dit.width);
    }
    if (d->dit.horizon > d->dit.max_seq) {
        return gr_fail(b->err, GR_ERR_FORMAT,
                       "config.json: action_horizon %d exceeds the %d rows of the position table", d->dit.horizon,
                       d->dit.max_seq);
    }
    return GR_OK;
}

/* ---- all tensors ---- */

static enum gr_status find_vit(struct book *b)
{
    struct gr_weights *w = &b->w;
    const int64_t D = w->dims.vit.hidden, F = w->dims.vit.mlp;
    GR_TRY(want_linear(b, &w->patch, D, 3 * GR_PATCH * GR_PATCH, true, VIT, "embeddings.patch_embedding"));
    GR_TRY(want(b, &w->vit_pos, 2, (int64_t)w->dims.vit.table_side * w->dims.vit.table_side, D, 0,
                VIT "embeddings.position_embedding.weight"));
    for (int i = 0; i < w->dims.vit.layers; i++) {
        struct gr_vit_layer *l = &w->vit[i];
        char p[NAME_BYTES];
        snprintf(p, sizeof p, VIT "encoder.layers.%d.", i);
        GR_TRY(want_norm(b, &l->norm1, D, true, p, "layer_norm1"));
        GR_TRY(want_norm(b, &l->norm2, D, true, p, "layer_norm2"));
        GR_TRY(want_linear(b, &l->q, D, D, true, p, "self_attn.q_proj"));
        GR_TRY(want_linear(b, &l->k, D, D, true, p, "self_attn.k_proj"));
        GR_TRY(want_linear(b, &l->v, D, D, true, p, "self_attn.v_proj"));
        GR_TRY(want_linear(b, &l->out, D, D, true, p, "self_attn.out_proj"));
        GR_TRY(want_linear(b, &l->fc1, F, D, true, p, "mlp.fc1"));
        GR_TRY(want_linear(b, &l->fc2, D, F, true, p, "mlp.fc2"));
    }
    GR_TRY(want_norm(b, &w->vit_post, D, true, VIT, "post_layernorm"));
    const int64_t U = D * GR_UNSHUFFLE * GR_UNSHUFFLE, L = w->dims.llm.hidden;
    GR_TRY(want_norm(b, &w->connector_norm, U, true, CONNECTOR, "0"));
    GR_TRY(want_linear(b, &w->connector1, L, U, true, CONNECTOR, "1"));
    return want_linear(b, &w->connector2, L, L, true, CONNECTOR, "3");
}

static enum gr_status find_llm(struct book *b)
{
    struct gr_weights *w = &b->w;
    const int64_t D = w->dims.llm.hidden, F = w->dims.llm.mlp, Dh = w->dims.llm.head_dim;
    const int64_t Q = Dh * w->dims.llm.heads, K = Dh * w->dims.llm.kv_heads;
    GR_TRY(want(b, &w->embed, 2, w->dims.llm.vocab, D, 0, LLM "embed_tokens.weight"));
    for (int i = 0; i < w->dims.llm.layers; i++) {
        struct gr_llm_layer *l = &w->llm[i];
        char p[NAME_BYTES];
        snprintf(p, sizeof p, LLM "layers.%d.", i);
        GR_TRY(want_norm(b, &l->norm1, D, false, p, "input_layernorm"));
        GR_TRY(want_norm(b, &l->norm2, D, false, p, "post_attention_layernorm"));
        GR_TRY(want_norm(b, &l->q_norm, Dh, false, p, "self_attn.q_norm"));
        GR_TRY(want_norm(b, &l->k_norm, Dh, false, p, "self_attn.k_norm"));
        GR_TRY(want_linear(b, &l->q, Q, D, false, p, "self_attn.q_proj"));
        GR_TRY(want_linear(b, &l->k, K, D, false, p, "self_attn.k_proj"));
        GR_TRY(want_linear(b, &l->v, K, D, false, p, "self_attn.v_proj"));
        GR_TRY(want_linear(b, &l->o, D, Q, false, p, "self_attn.o_proj"));
        GR_TRY(want_linear(b, &l->gate, F, D, false, p, "mlp.gate_proj"));
        GR_TRY(want_linear(b, &l->up, F, D, false, p, "mlp.up_proj"));
        GR_TRY(want_linear(b, &l->down, D, F, false, p, "mlp.down_proj"));
    }
    GR_TRY(want_norm(b, &w->llm_norm, D, false, LLM, "norm"));
    return want_norm(b, &w->vlln, D, true, HEAD, "vlln");
}

static enum gr_status find_dit(struct book *b)
{
    struct gr_weights *w = &b->w;
    const struct gr_dims *d = &w->dims;
    const int64_t D = d->dit.width, F = d->dit.mlp, H = d->dit.hidden;
    GR_TRY(want_cat(b, &w->state1, d->dit.max_state, H, "state_encoder.layer1"));
    GR_TRY(want_cat(b, &w->state2, H, D, "state_encoder.layer2"));
    GR_TRY(want_cat(b, &w->action1, d->dit.max_action, D, "action_encoder.W1"));
    GR_TRY(want_cat(b, &w->action2, 2 * D, D, "action_encoder.W2"));
    GR_TRY(want_cat(b, &w->action3, D, D, "action_encoder.W3"));
    GR_TRY(want_cat(b, &w->decoder1, d->dit.out, H, "action_decoder.layer1"));
    GR_TRY(want_cat(b, &w->decoder2, H, d->dit.max_action, "action_decoder.layer2"));
    GR_TRY(want(b, &w->action_pos, 2, d->dit.max_seq, D, 0, HEAD "position_embedding.weight"));
    GR_TRY(
        want_linear(b, &w->time1, D, d->dit.time_channels, true, DIT, "timestep_encoder.timestep_embedder.linear_1"));
    GR_TRY(want_linear(b, &w->time2, D, D, true, DIT, "timestep_encoder.timestep_embedder.linear_2"));
    for (int i = 0; i < d->dit.layers; i++) {
        struct gr_dit_block *l = &w->dit[i];
        const int64_t kv = i % 2 == 0 ? d->llm.hidden : D; /* even blocks attend to the backbone */
        char p[NAME_BYTES];
        snprintf(p, sizeof p, DIT "transformer_blocks.%d.", i);
        GR_TRY(want_linear(b, &l->ada, 2 * D, D, true, p, "norm1.linear"));
        GR_TRY(want_linear(b, &l->q, D, D, true, p, "attn1.to_q"));
        GR_TRY(want_linear(b, &l->k, D, kv, true, p, "attn1.to_k"));
        GR_TRY(want_linear(b, &l->v, D, kv, true, p, "attn1.to_v"));
        GR_TRY(want_linear(b, &l->out, D, D, true, p, "attn1.to_out.0"));
        GR_TRY(want_linear(b, &l->ff1, F, D, true, p, "ff.net.0.proj"));
        GR_TRY(want_linear(b, &l->ff2, D, F, true, p, "ff.net.2"));
    }
    GR_TRY(want_linear(b, &w->proj_out1, 2 * D, D, true, DIT, "proj_out_1"));
    return want_linear(b, &w->proj_out2, d->dit.out, D, true, DIT, "proj_out_2");
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static enum gr_status fill(struct book *b)
{
    GR_TRY(settle_vit(b));
    GR_TRY(settle_llm(b));
    GR_TRY(settle_dit(b));
    b->n_used = 0; /* the widths were read from tensors that come again below */
    b->settled = true;
    struct gr_dims *d = &b->w.dims;
    if (d->vit.layers < 1 || d->llm.layers < 1 || d->dit.layers < 1) {
        return gr_fail(b->err, GR_ERR_FORMAT,
                       "the snapshot has %d vision, %d language and %d DiT layers, expected at least one of each",
                       d->vit.layers, d->llm.layers, d->dit.layers);
    }
    b->w.vit = calloc((size_t)d->vit.layers, sizeof *b->w.vit);
    b->w.llm = calloc((size_t)d->llm.layers, sizeof *b->w.llm);
    b->w.dit = calloc((size_t)d->dit.layers, sizeof *b->w.dit);
    if (b->w.vit == NULL || b->w.llm == NULL || b->w.dit == NULL) {
        return gr_fail(b->err, GR_ERR_NOMEM, "no memory for the table of layers");
    }
    GR_TRY(find_vit(b));
    GR_TRY(find_llm(b));
    GR_TRY(find_dit(b));
    if (b->n_missing > 0) {
        return fail_missing(b);
    }
    qsort(b->used, b->n_used, sizeof *b->used, by_name);
    return GR_OK;
}

enum gr_status gr_weights_open(const struct gr_snapshot *snap, const struct gr_config *cfg, gr_missing_fn missing,
                               void *user, struct gr_weights **out, struct gr_err *err)
{
    struct book *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the table of tensors");
    }
    b->err = err;
    b->missing = missing;
    b->user = user;
    b->w.dims = cfg->dims;
    b->w.snap = snap;
    enum gr_status status = fill(b);
    if (status != GR_OK) {
        gr_weights_free(&b->w);
        return status;
    }
    b->err = NULL;
    *out = &b->w;
    return GR_OK;
}

void gr_weights_free(struct gr_weights *w)
{
    if (w != NULL) {
        struct book *b = (struct book *)w;
        free(w->vit);
        free(w->llm);
        free(w->dit);
        free(b->used);
        free(b);
    }
}

bool gr_weights_uses(const struct gr_weights *w, const char *name)
{
    const struct book *b = (const struct book *)w;
    return bsearch(&name, b->used, b->n_used, sizeof *b->used, by_name) != NULL;
}
