/* SPDX-License-Identifier: Apache-2.0
 *
 * llm.c: the first layers of Qwen3 over text and image tokens, causal, final norm applied (spec/model.md 6). */
#include <string.h>

#include "device/cpu/cpu_device.h"

/* Row r: embedding of its token, or the next image token's features. The first `skip` rows are not computed: row r stands at x row
 * r - skip. No image comes before them. */
static void embed_tokens(struct cpu_thread *t, int S, int D)
{
    struct gr_device *dev = t->dev;
    const struct gr_model_input *in = t->run->in;
    const int skip = t->run->skip;
    int r0, r1, image = 0;
    gr_cpu_share(t, S - skip, &r0, &r1);
    for (int r = 0; r < r1; r++) {
        const int32_t id = in->ids[skip + r];
        bool is_image = id == dev->cfg.image_token;
        float *x = dev->s.x + (size_t)r * (size_t)D;
        if (r >= r0 && is_image) {
            memcpy(x, dev->s.features + (size_t)image * (size_t)D, (size_t)D * sizeof(float));
        } else if (r >= r0) {
            gr_tensor_to_f32(&dev->net.embed, (size_t)id * (size_t)D, (size_t)D, x);
        }
        image += is_image;
    }
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.x, S - skip, D, D, "llm.input");
}

/* Norms and rotates queries and keys of this thread's rows, and puts their keys and values behind those of the prefix. */
static void rotate_rows(struct cpu_thread *t, int m, const struct cpu_llm_layer *l, float *qkv, float *kv)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct gr_kernels *kernels = t->run->kernels;
    const int Dh = d->llm.head_dim, Q = d->llm.heads * Dh, K = d->llm.kv_heads * Dh, W = Q + 2 * K, skip = t->run->skip;
    const size_t table = (size_t)skip * (size_t)Dh / 2;
    const float *cos = dev->net.rope_cos + table, *sin = dev->net.rope_sin + table;
    int r0, r1;
    gr_cpu_share(t, m, &r0, &r1);
    kernels->rms_rope(qkv, W, d->llm.heads, Dh, l->q_gamma, GR_LLM_EPS, cos, sin, r0, r1);
    kernels->rms_rope(qkv + Q, W, d->llm.kv_heads, Dh, l->k_gamma, GR_LLM_EPS, cos, sin, r0, r1);
    for (int r = r0; r < r1; r++) {
        memcpy(kv + (size_t)(skip + r) * 2 * (size_t)K, qkv + (size_t)r * (size_t)W + Q, 2 * (size_t)K * sizeof *kv);
    }
    gr_cpu_barrier(t);
}

static void layer(struct cpu_thread *t, int S, int i)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct cpu_llm_layer *l = &dev->net.llm[i];
    const int D = d->llm.hidden, Dh = d->llm.head_dim, m = S - t->run->skip;
    const int Q = d->llm.heads * Dh, K = d->llm.kv_heads * Dh;
    float *x = dev->s.x, *qkv = dev->s.wide, *attn = dev->s.attn, *ff = dev->s.ff;
    float *kv = gr_prefix_llm(dev, t->run->prefix, i);
    gr_cpu_linear(t, x, m, &l->norm1, &l->qkv, GR_EPI_STORE, qkv);
    rotate_rows(t, m, l, qkv, kv);
    struct cpu_heads h = {
        .q = qkv,
        .k = kv,
        .v = kv + K,
        .ldq = Q + 2 * K,
        .ldk = 2 * K,
        .ldv = 2 * K,
        .o = attn,
        .ldo = Q,
        .heads = d->llm.heads,
        .share = d->llm.heads / d->llm.kv_heads,
        .groups = 1,
        .m = m,
        .s = S,
        .d = Dh,
        .causal = true,
        .fp32 = true}; /* 16-bit values share a scale over all keys: text rows would depend on the image */
    gr_cpu_attention(t, &h);
    gr_cpu_linear(t, attn, m, NULL, &l->o, GR_EPI_ADD, x);
    gr_cpu_linear(t, x, m, &l->norm2, &l->gate_up, GR_EPI_SILU_MUL, ff);
    gr_cpu_linear(t, ff, m, NULL, &l->down, GR_EPI_ADD, x);
    gr_cpu_tap(t, x, m, D, D, "llm.layer%d", i);
}

bool gr_cpu_llm(struct cpu_thread *t)
{
    struct gr_device *dev = t->dev;
    const int S = t->run->in->n_tokens, m = S - t->run->skip, D = dev->dims.llm.hidden;
    embed_tokens(t, S, D);
    for (int i = 0; i < dev->dims.llm.layers; i++) {
        if (gr_cpu_stop(t)) {
            return false;
        }
        layer(t, S, i);
    }
    int r0, r1;
    gr_cpu_share(t, m, &r0, &r1);
    t->run->kernels->norm_rows(dev->s.x, D, dev->s.x, D, D, &dev->net.llm_norm, r0, r1);
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.x, m, D, D, "llm.out");
    return true;
}
