/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_inventory.c: lists the tensors of the published checkpoint for any dimensions, in module order.
 *
 * Every spread is chosen so that residual streams stay between 1 and 10 with random weights, and the diagonals give the
 * velocity field a part that contracts (v ~ -x + f(observation)), so that integrated actions stay mostly inside [-1, 1] as
 * with trained weights. Changing any number here changes the published SHA-256 of the snapshots. */
#include "model/synth_inventory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* nvidia/GR00T-N1.6-3B: names, shapes and shard split of the published files. */
static const struct gr_synth_config CONFIG_FULL = {
    .word = "full",
    .vit = {.hidden = 1152, .mlp = 4304, .layers = 27, .heads = 16, .patch = 14, .channels = 3, .positions = 256},
    .llm = {.hidden = 2048,
            .mlp = 6144,
            .layers = 16,
            .heads = 16,
            .kv_heads = 8,
            .head_dim = 128,
            .vocab = 151680,
            .lm_head = true,
            .template_ids = {151644, 151645}},
    .head = {.layers = 32,
             .heads = 32,
             .head_dim = 48,
             .out = 1024,
             .hidden = 1024,
             .in_emb = 1536,
             .max_state = 128,
             .max_action = 128,
             .horizon = 50,
             .slots = 32,
             .max_seq = 1024,
             .steps = 4,
             .text_every = 2,
             .time_channels = 256},
    .shard_limit = 5000000000u,
};

/* Every operation and both mask kinds; the vocabulary keeps its size, so the Qwen2 tokenizer serves it. */
static const struct gr_synth_config CONFIG_TINY = {
    .word = "tiny",
    .vit = {.hidden = 48, .mlp = 104, .layers = 2, .heads = 2, .patch = 14, .channels = 3, .positions = 256},
    .llm = {.hidden = 16,
            .mlp = 40,
            .layers = 2,
            .heads = 2,
            .kv_heads = 1,
            .head_dim = 16,
            .vocab = 151680,
            .lm_head = false,
            .template_ids = {151644, 151645}},
    .head = {.layers = 4,
             .heads = 2,
             .head_dim = 24,
             .out = 16,
             .hidden = 16,
             .in_emb = 48,
             .max_state = 128,
             .max_action = 128,
             .horizon = 50,
             .slots = 21,
             .max_seq = 64,
             .steps = 4,
             .text_every = 2,
             .time_channels = 256},
    .shard_limit = 5500000u,
};

/* Goes with data/demo/tokenizer. in_emb and hidden are 128 so that the contracting part covers 32 action columns, all 29
 * of gr1; eight blocks so that each mask kind comes twice; three shards. */
static const struct gr_synth_config CONFIG_DEMO = {
    .word = "demo",
    .vit = {.hidden = 64, .mlp = 176, .layers = 2, .heads = 2, .patch = 14, .channels = 3, .positions = 256},
    .llm = {.hidden = 64,
            .mlp = 160,
            .layers = 2,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 32,
            .vocab = 1024,
            .lm_head = false,
            .template_ids = {1019, 1020}},
    .head = {.layers = 8,
             .heads = 4,
             .head_dim = 32,
             .out = 64,
             .hidden = 128,
             .in_emb = 128,
             .max_state = 128,
             .max_action = 128,
             .horizon = 50,
             .slots = 3,
             .max_seq = 64,
             .steps = 4,
             .text_every = 2,
             .time_channels = 256},
    .shard_limit = 2500000u,
};

const struct gr_synth_config *gr_synth_config_of(enum gr_synth_kind kind)
{
    switch (kind) {
    case GR_SYNTH_DEMO:
        return &CONFIG_DEMO;
    case GR_SYNTH_TINY:
        return &CONFIG_TINY;
    case GR_SYNTH_FULL:
        return &CONFIG_FULL;
    }
    return NULL;
}

static uint64_t hash_more(uint64_t h, const char *text)
{
    for (; *text != '\0'; text++) {
        h = (h ^ (uint8_t)*text) * 0x100000001B3u;
    }
    return h;
}

uint64_t gr_synth_hash(const char *name) { return hash_more(0xCBF29CE484222325u, name); }

/* ---- building blocks ---- */

/* Appends tensor "<prefix><name><kind>" [d0, d1, d2], dimensions of 0 left out. A stand-in is returned when memory is
 * refused, so that callers can go on and the fault is seen once. */
static struct gr_synth_tensor *add(struct gr_synth_inventory *inv, const char *prefix, const char *name,
                                   const char *kind, int d0, int d1, int d2, double center, double half)
{
    static _Thread_local struct gr_synth_tensor nowhere;
    struct gr_synth_tensor *t = &nowhere;
    if (inv->count == inv->capacity) {
        size_t capacity = inv->capacity == 0 ? 256 : inv->capacity * 2;
        struct gr_synth_tensor *grown = realloc(inv->tensors, capacity * sizeof *grown);
        if (grown != NULL) {
            inv->tensors = grown;
            inv->capacity = capacity;
        }
    }
    if (inv->count < inv->capacity) {
        t = &inv->tensors[inv->count++];
    } else {
        inv->failed = true;
    }
    memset(t, 0, sizeof *t);
    int n = snprintf(t->name, sizeof t->name, "%s%s%s", prefix, name, kind);
    inv->failed |= n < 0 || (size_t)n >= sizeof t->name;
    const int dims[3] = {d0, d1, d2};
    t->elements = 1;
    for (int i = 0; i < 3 && dims[i] > 0; i++) {
        t->shape[t->ndim++] = dims[i];
        t->elements *= (uint64_t)dims[i];
    }
    t->center = center;
    t->half = half;
    inv->bytes += 2 * t->elements;
    return t;
}

/* Half width that keeps the variance of a unit input: gain * sqrt(3 / fan_in). */
static double linear_half(double gain, int fan_in) { return gain * sqrt(3.0 / fan_in); }

static const double BIAS_HALF = 0.05;

static struct gr_synth_channels no_channels(void) { return (struct gr_synth_channels){0}; }

/* Linear layer [out, in]. rows: channels its output feeds; cols: channels it reads (count 0: neither). */
static void linear(struct gr_synth_inventory *inv, const char *prefix, const char *name, int out, int in, double gain,
                   bool bias, struct gr_synth_channels rows, struct gr_synth_channels cols)
{
    struct gr_synth_tensor *w = add(inv, prefix, name, ".weight", out, in, 0, 0.0, linear_half(gain, in));
    w->rows = rows;
    w->cols = cols;
    if (bias) {
        add(inv, prefix, name, ".bias", out, 0, 0, 0.0, BIAS_HALF)->rows = rows;
    }
}

static void plain_linear(struct gr_synth_inventory *inv, const char *prefix, const char *name, int out, int in,
                         double gain)
{
    linear(inv, prefix, name, out, in, gain, true, no_channels(), no_channels());
}

static void norm(struct gr_synth_inventory *inv, const char *prefix, const char *name, int width, bool bias,
                 struct gr_synth_channels rows)
{
    add(inv, prefix, name, ".weight", width, 0, 0, 1.0, 0.2)->rows = rows;
    if (bias) {
        add(inv, prefix, name, ".bias", width, 0, 0, 0.0, 0.1)->rows = rows;
    }
}

/* Channels named after the first consumer, "<prefix><name>.weight". */
static struct gr_synth_channels channels(const char *prefix, const char *name, int count)
{
    const uint64_t hash = hash_more(hash_more(gr_synth_hash(prefix), name), ".weight");
    return (struct gr_synth_channels){.name_hash = hash, .count = count, .head_dim = count, .share = 1};
}

/* ---- the three parts of the network ---- */

static void vision_layer(struct gr_synth_inventory *inv, const char *prefix, int d, int m)
{
    struct gr_synth_channels to_attn = channels(prefix, "self_attn.q_proj", d);
    struct gr_synth_channels to_mlp = channels(prefix, "mlp.fc1", d);
    struct gr_synth_channels values = channels(prefix, "self_attn.out_proj", d);
    norm(inv, prefix, "layer_norm1", d, true, to_attn);
    linear(inv, prefix, "self_attn.k_proj", d, d, 1.4, true, no_channels(), to_attn);
    linear(inv, prefix, "self_attn.v_proj", d, d, 1.0, true, values, to_attn);
    linear(inv, prefix, "self_attn.q_proj", d, d, 1.4, true, no_channels(), to_attn);
    linear(inv, prefix, "self_attn.out_proj", d, d, 1.5, true, no_channels(), values);
    norm(inv, prefix, "layer_norm2", d, true, to_mlp);
    linear(inv, prefix, "mlp.fc1", m, d, 1.0, true, no_channels(), to_mlp);
    plain_linear(inv, prefix, "mlp.fc2", d, m, 1.5);
}

static void vision(struct gr_synth_inventory *inv)
{
    static const char P[] = "backbone.model.vision_model.vision_model.";
    const struct gr_synth_config *c = inv->config;
    const int d = c->vit.hidden, m = c->vit.mlp;
    plain_linear(inv, P, "embeddings.patch_embedding", d, c->vit.channels * c->vit.patch * c->vit.patch, 1.5);
    add(inv, P, "embeddings.position_embedding", ".weight", c->vit.positions, d, 0, 0.0, 0.8)->boost =
        GR_SYNTH_BOOST_POSITIONS;
    for (int i = 0; i < c->vit.layers; i++) {
        char prefix[GR_SYNTH_NAME_BYTES];
        snprintf(prefix, sizeof prefix, "%sencoder.layers.%d.", P, i);
        vision_layer(inv, prefix, d, m);
    }
    norm(inv, P, "post_layernorm", d, true, no_channels());
    /* Pooling head: part of the published files, never used by the policy. */
    add(inv, P, "head", ".probe", 1, 1, d, 0.0, 1.0);
    add(inv, P, "head.attention.in_proj_weight", "", 3 * d, d, 0, 0.0, linear_half(1.0, d));
    add(inv, P, "head.attention.in_proj_bias", "", 3 * d, 0, 0, 0.0, BIAS_HALF);
    plain_linear(inv, P, "head.attention.out_proj", d, d, 1.0);
    norm(inv, P, "head.layernorm", d, true, no_channels());
    plain_linear(inv, P, "head.mlp.fc1", m, d, 1.0);
    plain_linear(inv, P, "head.mlp.fc2", d, m, 1.0);
}

static void language_layer(struct gr_synth_inventory *inv, const char *prefix)
{
    const struct gr_synth_config *c = inv->config;
    const int e = c->llm.hidden, f = c->llm.mlp, hd = c->llm.head_dim, q = c->llm.heads * hd, kv = c->llm.kv_heads * hd;
    struct gr_synth_channels to_attn = channels(prefix, "self_attn.q_proj", e);
    struct gr_synth_channels to_mlp = channels(prefix, "mlp.gate_proj", e);
    struct gr_synth_channels gated = channels(prefix, "mlp.down_proj", f);
    struct gr_synth_channels values = channels(prefix, "self_attn.o_proj", kv);
    values.head_dim = hd;
    values.share = c->llm.heads / c->llm.kv_heads;
    linear(inv, prefix, "self_attn.q_proj", q, e, 1.0, false, no_channels(), to_attn);
    linear(inv, prefix, "self_attn.k_proj", kv, e, 1.0, false, no_channels(), to_attn);
    linear(inv, prefix, "self_attn.v_proj", kv, e, 1.0, false, values, to_attn);
    linear(inv, prefix, "self_attn.o_proj", e, q, 1.5, false, no_channels(), values);
    add(inv, prefix, "self_attn.q_norm", ".weight", hd, 0, 0, 1.3, 0.2);
    add(inv, prefix, "self_attn.k_norm", ".weight", hd, 0, 0, 1.3, 0.2);
    linear(inv, prefix, "mlp.gate_proj", f, e, 1.0, false, no_channels(), to_mlp);
    linear(inv, prefix, "mlp.up_proj", f, e, 1.0, false, gated, to_mlp);
    linear(inv, prefix, "mlp.down_proj", e, f, 2.0, false, no_channels(), gated);
    norm(inv, prefix, "input_layernorm", e, false, to_attn);
    norm(inv, prefix, "post_attention_layernorm", e, false, to_mlp);
}

static void language(struct gr_synth_inventory *inv)
{
    static const char Q[] = "backbone.model.language_model.";
    const struct gr_synth_config *c = inv->config;
    const int e = c->llm.hidden, joined = 4 * c->vit.hidden;
    add(inv, Q, "model.embed_tokens", ".weight", c->llm.vocab, e, 0, 0.0, 1.7)->boost = GR_SYNTH_BOOST_TEMPLATE;
    for (int i = 0; i < c->llm.layers; i++) {
        char prefix[GR_SYNTH_NAME_BYTES];
        snprintf(prefix, sizeof prefix, "%smodel.layers.%d.", Q, i);
        language_layer(inv, prefix);
    }
    norm(inv, Q, "model.norm", e, false, no_channels());
    if (c->llm.lm_head) {
        add(inv, Q, "lm_head", ".weight", c->llm.vocab, e, 0, 0.0, 0.02);
    }
    struct gr_synth_channels connector = channels("backbone.model.", "mlp1.1", joined);
    norm(inv, "backbone.model.", "mlp1.0", joined, true, connector);
    linear(inv, "backbone.model.", "mlp1.1", e, joined, 1.0, true, no_channels(), connector);
    plain_linear(inv, "backbone.model.", "mlp1.3", e, e, 1.5);
}

/* Per-embodiment layer: W [slots, in, out], b [slots, out]. Its first `count` diagonals are overwritten. */
static void category(struct gr_synth_inventory *inv, const char *name, int in, int out, double gain, int count, int n,
                     const struct gr_synth_diagonal *diagonals)
{
    static const char prefix[] = "action_head.";
    struct gr_synth_tensor *w =
        add(inv, prefix, name, ".W", inv->config->head.slots, in, out, 0.0, linear_half(gain, in));
    w->n_diagonals = n;
    w->diagonal_count = count;
    for (int i = 0; i < n; i++) {
        w->diagonals[i] = diagonals[i];
    }
    add(inv, prefix, name, ".b", inv->config->head.slots, out, 0, 0.0, BIAS_HALF);
}

static int min_int(int a, int b) { return a < b ? a : b; }

static void action_head(struct gr_synth_inventory *inv)
{
    static const char M[] = "action_head.model.";
    const struct gr_synth_config *c = inv->config;
    const int w = c->head.heads * c->head.head_dim, e = c->llm.hidden;
    plain_linear(inv, M, "timestep_encoder.timestep_embedder.linear_1", w, c->head.time_channels, 1.4);
    plain_linear(inv, M, "timestep_encoder.timestep_embedder.linear_2", w, w, 2.0);
    for (int i = 0; i < c->head.layers; i++) {
        char prefix[GR_SYNTH_NAME_BYTES];
        snprintf(prefix, sizeof prefix, "%stransformer_blocks.%d.", M, i);
        const int kv = i % 2 == 0 ? e : w; /* even blocks read the language stream */
        plain_linear(inv, prefix, "norm1.linear", 2 * w, w, 0.5);
        plain_linear(inv, prefix, "attn1.to_q", w, w, 1.4);
        plain_linear(inv, prefix, "attn1.to_k", w, kv, 1.4);
        plain_linear(inv, prefix, "attn1.to_v", w, kv, 1.0);
        plain_linear(inv, prefix, "attn1.to_out.0", w, w, 1.5);
        plain_linear(inv, prefix, "ff.net.0.proj", 4 * w, w, 1.0);
        plain_linear(inv, prefix, "ff.net.2", w, 4 * w, 1.5);
    }
    plain_linear(inv, M, "proj_out_1", 2 * w, w, 0.5);
    struct gr_synth_tensor *proj = add(inv, M, "proj_out_2", ".weight", c->head.out, w, 0, 0.0, linear_half(1.0, w));
    const int n = min_int(c->head.max_action, min_int(c->head.in_emb / 4, c->head.hidden / 4));
    proj->n_diagonals = 1;
    proj->diagonal_count = n;
    proj->diagonals[0] = (struct gr_synth_diagonal){0, 0, 1.0};
    add(inv, M, "proj_out_2", ".bias", c->head.out, 0, 0, 0.0, BIAS_HALF);

    /* Two columns carry +x and -x through SiLU or ReLU; the next layer puts them together again. */
    const struct gr_synth_diagonal w1[] = {{0, 0, 4.0}};
    const struct gr_synth_diagonal split[] = {{0, 0, 1.0}, {0, n, -1.0}};
    const struct gr_synth_diagonal w3[] = {{0, 0, 1.5}, {n, 0, -1.5}};
    const struct gr_synth_diagonal out[] = {{0, 0, -1.0}, {n, 0, 1.0}};
    const int in_emb = c->head.in_emb, hidden = c->head.hidden;
    category(inv, "state_encoder.layer1", c->head.max_state, hidden, 2.0, 0, 0, NULL);
    category(inv, "state_encoder.layer2", hidden, in_emb, 1.5, 0, 0, NULL);
    category(inv, "action_encoder.W1", c->head.max_action, in_emb, 0.7, n, 1, w1);
    category(inv, "action_encoder.W2", 2 * in_emb, in_emb, 1.0, n, 2, split);
    category(inv, "action_encoder.W3", in_emb, in_emb, 1.0, n, 2, w3);
    category(inv, "action_decoder.layer1", c->head.out, hidden, 1.0, n, 2, split);
    category(inv, "action_decoder.layer2", hidden, c->head.max_action, 0.5, n, 2, out);
    norm(inv, "action_head.", "vlln", e, true, no_channels());
    add(inv, "action_head.", "position_embedding", ".weight", c->head.max_seq, in_emb, 0, 0.0, 0.5);
}

enum gr_status gr_synth_inventory_make(const struct gr_synth_config *config, struct gr_synth_inventory *out,
                                       struct gr_err *err)
{
    *out = (struct gr_synth_inventory){.config = config};
    vision(out);
    language(out);
    action_head(out);
    if (out->failed) {
        gr_synth_inventory_free(out);
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the tensor list of a %s snapshot", config->word);
    }
    return GR_OK;
}

void gr_synth_inventory_free(struct gr_synth_inventory *inv)
{
    free(inv->tensors);
    *inv = (struct gr_synth_inventory){0};
}

const struct gr_synth_tensor *gr_synth_inventory_find(const struct gr_synth_inventory *inv, const char *name)
{
    for (size_t i = 0; i < inv->count; i++) {
        if (strcmp(inv->tensors[i].name, name) == 0) {
            return &inv->tensors[i];
        }
    }
    return NULL;
}
