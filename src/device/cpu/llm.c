/* SPDX-License-Identifier: Apache-2.0
 *
 * llm.c: the first layers of Qwen3 over text and image tokens, causal, final norm applied (spec/model.md 6). */
#include <string.h>

#include "device/cpu/cpu_device.h"

/* Row r: embedding of its token, or the next image token's features. text_rows and image_rows were filled before. */
static void embed_tokens(struct cpu_thread *t, int S, int D)
{
    struct gr_device *dev = t->dev;
    const struct gr_model_input *in = t->run->in;
    int r0, r1, image = 0;
    gr_cpu_share(t, S, &r0, &r1);
    for (int r = 0; r < r1; r++) {
        bool is_image = in->ids[r] == dev->cfg.image_token;
        float *x = dev->s.x + (size_t)r * (size_t)D;
        if (r >= r0 && is_image) {
            memcpy(x, dev->s.features + (size_t)image * (size_t)D, (size_t)D * sizeof(float));
        } else if (r >= r0) {
            gr_tensor_to_f32(&dev->net.embed, (size_t)in->ids[r] * (size_t)D, (size_t)D, x);
        }
        image += is_image;
    }
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.x, S, D, D, "llm.input");
}

static void layer(struct cpu_thread *t, int S, int i)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct cpu_llm_layer *l = &dev->net.llm[i];
    const int D = d->llm.hidden, Dh = d->llm.head_dim;
    const int Q = d->llm.heads * Dh, K = d->llm.kv_heads * Dh, W = Q + 2 * K;
    float *x = dev->s.x, *qkv = dev->s.wide, *attn = dev->s.attn, *ff = dev->s.ff;
    gr_cpu_linear(t, x, S, &l->norm1, &l->qkv, GR_EPI_STORE, qkv);
    int r0, r1;
    gr_cpu_share(t, S, &r0, &r1);
    t->run->kernels->rms_rope(qkv, W, d->llm.heads, Dh, l->q_gamma, GR_LLM_EPS, dev->net.rope_cos, dev->net.rope_sin,
                              r0, r1);
    t->run->kernels->rms_rope(qkv + Q, W, d->llm.kv_heads, Dh, l->k_gamma, GR_LLM_EPS, dev->net.rope_cos,
                              dev->net.rope_sin, r0, r1);
    gr_cpu_barrier(t);
    struct cpu_heads h = {.q = qkv,
                          .k = qkv + Q,
                          .v = qkv + Q + K,
                          .ldq = W,
                          .ldk = W,
                          .ldv = W,
                          .o = attn,
                          .ldo = Q,
                          .heads = d->llm.heads,
                          .share = d->llm.heads / d->llm.kv_heads,
                          .groups = 1,
                          .m = S,
                          .s = S,
                          .d = Dh,
                          .causal = true};
    gr_cpu_attention(t, &h);
    gr_cpu_linear(t, attn, S, NULL, &l->o, GR_EPI_ADD, x);
    gr_cpu_linear(t, x, S, &l->norm2, &l->gate_up, GR_EPI_SILU_MUL, ff);
    gr_cpu_linear(t, ff, S, NULL, &l->down, GR_EPI_ADD, x);
    gr_cpu_tap(t, x, S, D, D, "llm.layer%d", i);
}

bool gr_cpu_llm(struct cpu_thread *t)
{
    struct gr_device *dev = t->dev;
    const int S = t->run->in->n_tokens, D = dev->dims.llm.hidden;
    embed_tokens(t, S, D);
    for (int i = 0; i < dev->dims.llm.layers; i++) {
        if (gr_cpu_stop(t)) {
            return false;
        }
        layer(t, S, i);
    }
    int r0, r1;
    gr_cpu_share(t, S, &r0, &r1);
    t->run->kernels->norm_rows(dev->s.x, D, dev->s.x, D, D, &dev->net.llm_norm, r0, r1);
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.x, S, D, D, "llm.out");
    return true;
}
