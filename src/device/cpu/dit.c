/* SPDX-License-Identifier: Apache-2.0
 *
 * dit.c: action head (spec/model.md 7): VL LayerNorm, keys and values of the cross blocks once a request, then the Euler steps
 * of flow matching through the AlternateVLDiT. Row 0 of the DiT is the state, rows 1.. are the actions. */
#include <string.h>

#include "device/cpu/cpu_device.h"

static int image_rows(const struct cpu_thread *t) { return t->run->in->n_images * t->dev->dims.vit.tokens; }
static int text_rows(const struct cpu_thread *t) { return t->run->in->n_tokens - image_rows(t); }

/* Keys and values of cross block i as its attention sees them. */
static struct cpu_heads cross_heads(const struct cpu_thread *t, int i)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct cpu_dit_block *b = &dev->net.dit[i];
    const float *kv = b->text ? gr_prefix_text(dev, t->run->prefix, i / (2 * d->dit.text_every)) : b->image_kv;
    return (struct cpu_heads){.k = kv,
                              .v = kv + d->dit.width,
                              .ldk = 2 * d->dit.width,
                              .ldv = 2 * d->dit.width,
                              .heads = d->dit.heads,
                              .share = 1,
                              .groups = 1,
                              .s = b->text ? text_rows(t) : image_rows(t),
                              .d = d->dit.head_dim,
                              .packed = gr_cpu_attention16(t) ? b->packed : NULL};
}

/* Text rows that the prefix lacks come behind those it has. False: cancelled. */
static bool cross_keys_values(struct cpu_thread *t, bool text, const int32_t *rows, int n)
{
    struct gr_device *dev = t->dev;
    if (n == 0) {
        return true;
    }
    const size_t width = 2 * (size_t)dev->dims.dit.width;
    for (int i = 0, seen = 0; i < dev->dims.dit.layers; i++) {
        const struct cpu_dit_block *b = &dev->net.dit[i];
        if (!b->cross || b->text != text) {
            continue;
        }
        if (gr_cpu_stop(t)) {
            return false;
        }
        float *out = text ? gr_prefix_text(dev, t->run->prefix, seen++) + (size_t)t->run->skip * width : b->image_kv;
        gr_cpu_product(t, &(struct cpu_product){.x = dev->s.vl, .index = rows, .m = n, .w = &b->kv, .out = out});
    }
    return true;
}

/* The keys and values of the cross blocks stay the same over the Euler steps. */
static void pack_cross(const struct cpu_thread *t)
{
    for (int i = 0; gr_cpu_attention16(t) && i < t->dev->dims.dit.layers; i++) {
        if (t->dev->net.dit[i].cross) {
            const struct cpu_heads h = cross_heads(t, i);
            gr_cpu_attention_pack(t, &h);
        }
    }
    gr_cpu_barrier(t);
}

bool gr_cpu_adapter(struct cpu_thread *t)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct gr_model_input *in = t->run->in;
    const int skip = t->run->skip, m = in->n_tokens - skip, L = d->llm.hidden, D = d->dit.width;
    int r0, r1;
    gr_cpu_share(t, m, &r0, &r1);
    t->run->kernels->norm_rows(dev->s.x, L, dev->s.vl, L, L, &dev->net.vlln, r0, r1);
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.vl, m, L, L, "vlln.out");
    if (!cross_keys_values(t, true, dev->s.text_rows, text_rows(t) - skip) ||
        !cross_keys_values(t, false, dev->s.image_rows, image_rows(t))) {
        return false;
    }
    pack_cross(t);
    gr_cpu_linear(t, in->state, 1, NULL, &dev->net.state1, GR_EPI_RELU, dev->s.attn);
    gr_cpu_linear(t, dev->s.attn, 1, NULL, &dev->net.state2, GR_EPI_STORE, dev->s.state);
    gr_cpu_tap(t, dev->s.state, 1, D, D, "state_features");
    return true;
}

/* Actions to rows 1.. of x: W3 silu(W2 [W1 a | tau]), then the position rows. */
static void encode_actions(struct cpu_thread *t, int step)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const int N = d->dit.horizon, D = d->dit.width;
    float *rows = dev->s.x + D, *u = dev->s.wide, *v = dev->s.attn;
    gr_cpu_linear(t, dev->s.action, N, NULL, &dev->net.action1, GR_EPI_STORE, u);
    gr_cpu_product(t,
                   &(struct cpu_product){.x = u,
                                         .m = N,
                                         .w = &dev->net.action2,
                                         .bias = dev->net.action_bias + (size_t)step * (size_t)dev->net.action_bias_ld,
                                         .epilogue = GR_EPI_SILU,
                                         .out = v});
    gr_cpu_linear(t, v, N, NULL, &dev->net.action3, GR_EPI_STORE, rows);
    gr_cpu_tap(t, rows, N, D, D, "action_features.step%d", step);
    int r0, r1;
    gr_cpu_share(t, N, &r0, &r1);
    for (size_t i = (size_t)r0 * (size_t)D; i < (size_t)r1 * (size_t)D; i++) {
        rows[i] += dev->net.action_pos[i];
    }
    if (t->id == 0) {
        memcpy(dev->s.x, dev->s.state, (size_t)D * sizeof(float));
    }
    gr_cpu_barrier(t);
}

static void block(struct cpu_thread *t, int i, int step)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct cpu_dit_block *b = &dev->net.dit[i];
    const int T = d->dit.horizon + 1, D = d->dit.width;
    float *x = dev->s.x, *wide = dev->s.wide, *attn = dev->s.attn, *ff = dev->s.ff;
    const int W = b->cross ? D : 3 * D;
    gr_cpu_linear(t, x, T, &b->norm1[step], &b->q, GR_EPI_STORE, wide);
    struct cpu_heads h = {.k = wide + D,
                          .v = wide + 2 * D,
                          .ldk = W,
                          .ldv = W,
                          .heads = d->dit.heads,
                          .share = 1,
                          .groups = 1,
                          .s = T,
                          .d = d->dit.head_dim};
    if (b->cross) {
        h = cross_heads(t, i);
    }
    h.q = wide;
    h.ldq = W;
    h.o = attn;
    h.ldo = D;
    h.m = T;
    gr_cpu_attention(t, &h);
    gr_cpu_linear(t, attn, T, NULL, &b->out, GR_EPI_ADD, x);
    gr_cpu_linear(t, x, T, &dev->net.plain_norm, &b->ff1, GR_EPI_GELU_TANH, ff);
    gr_cpu_linear(t, ff, T, NULL, &b->ff2, GR_EPI_ADD, x);
    gr_cpu_tap(t, x, T, D, D, "dit.block%d.step%d", i, step);
}

static void decode_velocity(struct cpu_thread *t, int step)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const int N = d->dit.horizon, O = d->dit.out, A = d->dit.max_action;
    float *y = dev->s.wide, *hidden = dev->s.attn;
    gr_cpu_linear(t, dev->s.x, N + 1, &dev->net.out_norm[step], &dev->net.proj_out2, GR_EPI_STORE, y);
    gr_cpu_tap(t, y, N + 1, O, O, "dit.out.step%d", step);
    gr_cpu_linear(t, y + O, N, NULL, &dev->net.decoder1, GR_EPI_RELU, hidden); /* the state row is not decoded */
    gr_cpu_linear(t, hidden, N, NULL, &dev->net.decoder2, GR_EPI_STORE, dev->s.velocity);
    gr_cpu_tap(t, dev->s.velocity, N, A, A, "velocity.step%d", step);
}

bool gr_cpu_denoise(struct cpu_thread *t)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const int N = d->dit.horizon, A = d->dit.max_action, D = d->dit.width;
    const float dt = (float)(1.0 / d->dit.steps);
    if (t->id == 0) {
        memcpy(dev->s.action, t->run->in->noise, (size_t)N * (size_t)A * sizeof(float));
    }
    gr_cpu_barrier(t);
    int i0, i1;
    gr_cpu_share(t, N * A, &i0, &i1);
    for (int step = 0; step < d->dit.steps; step++) {
        encode_actions(t, step);
        gr_cpu_tap(t, dev->net.temb + (size_t)step * (size_t)D, 1, D, D, "dit.temb.step%d", step);
        for (int i = 0; i < d->dit.layers; i++) {
            if (gr_cpu_stop(t)) {
                return false;
            }
            block(t, i, step);
        }
        decode_velocity(t, step);
        for (int i = i0; i < i1; i++) {
            dev->s.action[i] += dt * dev->s.velocity[i];
        }
        gr_cpu_barrier(t);
    }
    gr_cpu_tap(t, dev->s.action, N, A, A, "action_pred");
    return true;
}
