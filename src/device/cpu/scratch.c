/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch.c: the buffers of a predict. One set serves all stages in turn, so each is as large as the largest stage needs it. */
#include <stdlib.h>

#include "base/mem.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/quantise.h"

static size_t max_of(size_t a, size_t b) { return a > b ? a : b; }

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

/* Rows and widths over all stages: one set of buffers serves them in turn. */
struct extent {
    size_t x, wide, attn, ff, pack; /* floats */
    int rows, k, keys, head;        /* largest of each, for kernel scratch */
};

static void grow(struct extent *e, size_t rows, size_t width, size_t wide, size_t attn, size_t ff, int keys, int head)
{
    size_t k = max_of(max_of(width, attn), ff);
    e->x = max_of(e->x, rows * width);
    e->wide = max_of(e->wide, rows * wide);
    e->attn = max_of(e->attn, rows * attn);
    e->ff = max_of(e->ff, rows * ff);
    e->pack = max_of(e->pack, rows * ((k + 15) / 16 * 16));
    e->rows = (int)max_of((size_t)e->rows, rows);
    e->k = (int)max_of((size_t)e->k, k);
    e->keys = (int)max_of((size_t)e->keys, (size_t)keys);
    e->head = (int)max_of((size_t)e->head, (size_t)head);
}

static struct extent measure(const struct gr_device *dev)
{
    const struct gr_dims *d = &dev->dims;
    const size_t images = (size_t)dev->cfg.max_images, S = (size_t)dev->cfg.max_tokens;
    const size_t V = (size_t)d->vit.hidden, U = V * GR_UNSHUFFLE * GR_UNSHUFFLE, L = (size_t)d->llm.hidden,
                 D = (size_t)d->dit.width;
    const size_t Q = (size_t)d->llm.heads * (size_t)d->llm.head_dim,
                 K = (size_t)d->llm.kv_heads * (size_t)d->llm.head_dim;
    const size_t narrow = max_of(max_of((size_t)d->dit.hidden, (size_t)d->dit.out), (size_t)d->dit.max_action);
    struct extent e = {0};
    grow(&e, images * (size_t)d->vit.patches, V, 3 * V, V, (size_t)d->vit.mlp, d->vit.patches,
         d->vit.hidden / d->vit.heads);
    grow(&e, images * (size_t)d->vit.tokens, L, U, L, max_of(L, U), 1, 1); /* connector */
    grow(&e, images * (size_t)d->vit.patches, V, 3 * GR_PATCH * GR_PATCH, V, 3 * GR_PATCH * GR_PATCH, 1, 1);
    grow(&e, S, L, Q + 2 * K, Q, (size_t)d->llm.mlp, dev->cfg.max_tokens, d->llm.head_dim);
    grow(&e, (size_t)d->dit.horizon + 1, max_of(D, narrow), max_of(3 * D, narrow), max_of(D, narrow),
         max_of((size_t)d->dit.mlp, D), d->dit.horizon + 1, d->dit.head_dim);
    grow(&e, 1, (size_t)d->dit.max_state, 1, 1, 1, 1, 1);
    /* Constants at load: one row a step; the time channels are packed too and may be wider than anything else here. */
    const size_t C = (size_t)d->dit.time_channels;
    grow(&e, (size_t)d->dit.steps, max_of(D, C), max_of(D, C), D, 2 * D, 1, 1);
    return e;
}

static enum gr_status thread_scratch(struct gr_device *dev, const struct extent *e, struct gr_err *err)
{
    /* The quantiser multiplies calibration rows with every matrix. */
    const int rows = e->rows > GR_QUANT_ROWS ? e->rows : GR_QUANT_ROWS;
    size_t bytes = max_of(gr_row_scratch_bytes(e->k), gr_gemm_scratch_bytes(rows));
    bytes = max_of(bytes, gr_attention_scratch_bytes(e->rows, e->keys, e->head));
    dev->s.thread = calloc((size_t)dev->cfg.threads, sizeof *dev->s.thread);
    if (dev->s.thread == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d threads", dev->cfg.threads);
    }
    bytes = (bytes + 4095) / 4096 * 4096;
    float *all;
    GR_TRY(gr_cpu_floats(dev, (size_t)dev->cfg.threads, bytes / sizeof(float), "kernel scratch", &all, err));
    for (int i = 0; i < dev->cfg.threads; i++) {
        dev->s.thread[i] = (char *)all + (size_t)i * bytes;
    }
    return GR_OK;
}

/* Room for the packed keys and values of every cross block. */
static enum gr_status packed_keys_values(struct gr_device *dev, struct gr_err *err)
{
    const struct gr_dims *d = &dev->dims;
    const int rows = dev->cfg.max_images * d->vit.tokens;
    dev->s.packed_head =
        gr_attention16_packed_bytes(rows > dev->cfg.max_tokens ? rows : dev->cfg.max_tokens, d->dit.head_dim);
    const size_t block = (size_t)d->dit.heads * dev->s.packed_head, cross = ((size_t)d->dit.layers + 1) / 2;
    float *all;
    GR_TRY(gr_cpu_floats(dev, cross, (block + sizeof *all - 1) / sizeof *all, "packed keys and values", &all, err));
    for (size_t i = 0; i < cross; i++) {
        dev->net.dit[2 * i].packed = (char *)all + i * block;
    }
    return GR_OK;
}

/* Of the cross blocks that see the image; the others' stand in the prefix cache. */
static enum gr_status image_keys_values(struct gr_device *dev, struct gr_err *err)
{
    const size_t rows = (size_t)dev->cfg.max_images * (size_t)dev->dims.vit.tokens,
                 width = 2 * (size_t)dev->dims.dit.width;
    size_t blocks = 0;
    for (int i = 0; i < dev->dims.dit.layers; i++) {
        blocks += dev->net.dit[i].cross && !dev->net.dit[i].text;
    }
    float *kv;
    GR_TRY(gr_cpu_floats(dev, blocks, rows * width, "image keys and values", &kv, err));
    for (int i = 0; i < dev->dims.dit.layers; i++) {
        if (dev->net.dit[i].cross && !dev->net.dit[i].text) {
            dev->net.dit[i].image_kv = kv;
            kv += rows * width;
        }
    }
    return GR_OK;
}

enum gr_status gr_cpu_scratch(struct gr_device *dev, struct gr_err *err)
{
    const struct gr_dims *d = &dev->dims;
    struct cpu_scratch *s = &dev->s;
    const size_t images = (size_t)dev->cfg.max_images, S = (size_t)dev->cfg.max_tokens, L = (size_t)d->llm.hidden;
    const size_t chunk = (size_t)d->dit.horizon * (size_t)d->dit.max_action;
    struct extent e = measure(dev);
    GR_TRY(gr_cpu_floats(dev, images * (size_t)d->vit.patches, 3 * GR_PATCH * GR_PATCH, "patches", &s->patches, err));
    GR_TRY(gr_cpu_floats(dev, e.x, 1, "residual stream", &s->x, err));
    GR_TRY(gr_cpu_floats(dev, e.wide, 1, "q, k, v", &s->wide, err));
    GR_TRY(gr_cpu_floats(dev, e.attn, 1, "attention output", &s->attn, err));
    GR_TRY(gr_cpu_floats(dev, e.ff, 1, "feed-forward", &s->ff, err));
    float *pack;
    GR_TRY(gr_cpu_floats(dev, e.pack, 1, "packed activations", &pack, err));
    s->pack = pack;
    GR_TRY(gr_cpu_floats(dev, (size_t)e.rows, 1, "scales of packed rows", &s->row_scale, err));
    GR_TRY(gr_cpu_floats(dev, (size_t)e.rows, 1, "zero points of packed rows", &s->row_zero, err));
    GR_TRY(gr_cpu_floats(dev, images * (size_t)d->vit.tokens, L, "image features", &s->features, err));
    GR_TRY(gr_cpu_floats(dev, S, L, "backbone features", &s->vl, err));
    GR_TRY(gr_cpu_floats(dev, (size_t)d->dit.width, 1, "state features", &s->state, err));
    GR_TRY(gr_cpu_floats(dev, chunk, 1, "actions", &s->action, err));
    GR_TRY(gr_cpu_floats(dev, chunk, 1, "velocity", &s->velocity, err));
    GR_TRY(image_keys_values(dev, err));
    GR_TRY(packed_keys_values(dev, err));
    GR_TRY(gr_prefix_init(dev, err));
    s->text_rows = calloc(2 * S, sizeof *s->text_rows);
    if (s->text_rows == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu row numbers", 2 * S);
    }
    s->image_rows = s->text_rows + S;
    return thread_scratch(dev, &e, err);
}
