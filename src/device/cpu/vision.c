/* SPDX-License-Identifier: Apache-2.0
 *
 * vision.c: SigLIP2 tower and connector (spec/model.md 4, 5). All images of an observation run as one batch of rows; attention
 * stays inside an image. */
#include "device/cpu/cpu_device.h"

/* One patch: channel fastest, then column, then row. */
static void cut_patch(const struct gr_dims *d, const float *pixels, int patch, float *out)
{
    const int side = d->vit.image_side, y0 = patch / d->vit.grid * GR_PATCH, x0 = patch % d->vit.grid * GR_PATCH;
    for (int y = 0; y < GR_PATCH; y++) {
        for (int x = 0; x < GR_PATCH; x++) {
            for (int c = 0; c < 3; c++) {
                *out++ = pixels[((size_t)c * (size_t)side + (size_t)(y0 + y)) * (size_t)side + (size_t)(x0 + x)];
            }
        }
    }
}

static void embed_patches(struct cpu_thread *t, int rows)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const int P = d->vit.patches, D = d->vit.hidden, K = 3 * GR_PATCH * GR_PATCH;
    int r0, r1;
    gr_cpu_share(t, rows, &r0, &r1);
    for (int r = r0; r < r1; r++) {
        const float *pixels =
            t->run->in->pixels + (size_t)(r / P) * 3 * (size_t)d->vit.image_side * (size_t)d->vit.image_side;
        cut_patch(d, pixels, r % P, dev->s.patches + (size_t)r * (size_t)K);
    }
    gr_cpu_barrier(t);
    gr_cpu_linear(t, dev->s.patches, rows, NULL, &dev->net.patch, GR_EPI_STORE, dev->s.x);
    gr_cpu_tap(t, dev->s.x, rows, D, D, "vit.patch_embed");
    for (int r = r0; r < r1; r++) {
        float *x = dev->s.x + (size_t)r * (size_t)D;
        const float *pos = dev->net.vit_pos + (size_t)(r % P) * (size_t)D;
        for (int i = 0; i < D; i++) {
            x[i] += pos[i];
        }
    }
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.x, rows, D, D, "vit.embed");
}

static void layer(struct cpu_thread *t, int rows, int i)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const struct cpu_vit_layer *l = &dev->net.vit[i];
    const int D = d->vit.hidden, P = d->vit.patches;
    float *x = dev->s.x, *qkv = dev->s.wide, *attn = dev->s.attn, *ff = dev->s.ff;
    gr_cpu_linear(t, x, rows, &l->norm1, &l->qkv, GR_EPI_STORE, qkv);
    struct cpu_heads h = {.q = qkv,
                          .k = qkv + D,
                          .v = qkv + 2 * D,
                          .ldq = 3 * D,
                          .ldk = 3 * D,
                          .ldv = 3 * D,
                          .o = attn,
                          .ldo = D,
                          .heads = d->vit.heads,
                          .share = 1,
                          .groups = rows / P,
                          .m = P,
                          .s = P,
                          .d = D / d->vit.heads};
    gr_cpu_attention(t, &h);
    gr_cpu_linear(t, attn, rows, NULL, &l->out, GR_EPI_ADD, x);
    gr_cpu_linear(t, x, rows, &l->norm2, &l->fc1, GR_EPI_GELU_TANH, ff);
    gr_cpu_linear(t, ff, rows, NULL, &l->fc2, GR_EPI_ADD, x);
    gr_cpu_tap(t, x, rows, D, D, "vit.layer%d", i);
}

/* 2x2 patches to one token: element c * 4 + dy * 2 + dx = vit[2y + dy][2x + dx][c]. */
static void unshuffle(const struct gr_dims *d, const float *vit, int token, float *out)
{
    const int side = d->vit.grid / GR_UNSHUFFLE, y = token / side, x = token % side, D = d->vit.hidden;
    for (int c = 0; c < D; c++) {
        for (int j = 0; j < GR_UNSHUFFLE * GR_UNSHUFFLE; j++) {
            int patch = (GR_UNSHUFFLE * y + j / GR_UNSHUFFLE) * d->vit.grid + GR_UNSHUFFLE * x + j % GR_UNSHUFFLE;
            *out++ = vit[(size_t)patch * (size_t)D + (size_t)c];
        }
    }
}

static void connector(struct cpu_thread *t, int images)
{
    struct gr_device *dev = t->dev;
    const struct gr_dims *d = &dev->dims;
    const int D = d->vit.hidden, U = D * GR_UNSHUFFLE * GR_UNSHUFFLE, L = d->llm.hidden, N = d->vit.tokens,
              rows = images * N;
    float *wide = dev->s.wide;
    int r0, r1;
    gr_cpu_share(t, rows, &r0, &r1);
    for (int r = r0; r < r1; r++) {
        unshuffle(d, dev->s.attn + (size_t)(r / N) * (size_t)d->vit.patches * (size_t)D, r % N,
                  wide + (size_t)r * (size_t)U);
    }
    gr_cpu_barrier(t);
    gr_cpu_tap(t, wide, rows, U, U, "mlp1.input");
    gr_cpu_linear(t, wide, rows, &dev->net.connector_norm, &dev->net.connector1, GR_EPI_GELU_ERF, dev->s.ff);
    gr_cpu_linear(t, dev->s.ff, rows, NULL, &dev->net.connector2, GR_EPI_STORE, dev->s.features);
    gr_cpu_tap(t, dev->s.features, rows, L, L, "mlp1.out");
}

bool gr_cpu_vision(struct cpu_thread *t)
{
    struct gr_device *dev = t->dev;
    const int images = t->run->in->n_images, rows = images * dev->dims.vit.patches, D = dev->dims.vit.hidden;
    embed_patches(t, rows);
    for (int i = 0; i < dev->dims.vit.layers; i++) {
        if (gr_cpu_stop(t)) {
            return false;
        }
        layer(t, rows, i);
    }
    int r0, r1;
    gr_cpu_share(t, rows, &r0, &r1);
    t->run->kernels->norm_rows(dev->s.x, D, dev->s.attn, D, D, &dev->net.vit_post, r0, r1);
    gr_cpu_barrier(t);
    gr_cpu_tap(t, dev->s.attn, rows, D, D, "vit.out");
    if (gr_cpu_stop(t)) {
        return false;
    }
    connector(t, images);
    return true;
}
