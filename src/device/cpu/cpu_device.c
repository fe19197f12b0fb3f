/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_device.c: the CPU device behind device.h: open, size the scratch, load, run a predict as one SPMD job, close. */
#include "device/cpu/cpu_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"

static size_t max_of(size_t a, size_t b) { return a > b ? a : b; }

static void close_device(struct gr_device *dev)
{
    if (dev == NULL) {
        return;
    }
    gr_pool_free(dev->pool);
    gr_big_free(dev->store.base, dev->store.bytes);
    for (int i = 0; i < dev->n_blocks; i++) {
        gr_big_free(dev->blocks[i], dev->block_bytes[i]);
    }
    free(dev->net.out_norm);
    free(dev->net.vit);
    free(dev->net.llm);
    free(dev->net.dit);
    free(dev->s.text_rows);
    free(dev->s.thread);
    free(dev);
}

static enum gr_status open_device(const struct gr_device_cfg *cfg, struct gr_device **out, struct gr_err *err)
{
    struct gr_device *dev = calloc(1, sizeof *dev);
    if (dev == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the CPU device");
    }
    dev->cfg = *cfg;
    gr_kernels_init(&dev->kernels, cfg->cpu_flags);
    /* AVX2 sums in another order than AVX-512: an independent check of it. Scalar would take minutes. */
    gr_kernels_init(&dev->reference, cfg->cpu_flags & GR_CPU_AVX2 ? GR_CPU_AVX2 : cfg->cpu_flags);
    enum gr_status status = gr_pool_new(cfg->threads, &dev->pool, err);
    if (status != GR_OK) {
        close_device(dev);
        return status;
    }
    dev->cache = (struct gr_cache){.pool = dev->pool, .progress = cfg->progress, .progress_user = cfg->progress_user};
    *out = dev;
    return GR_OK;
}

/* ---- scratch ---- */

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
         max_of((size_t)d->dit.mlp, D), 1, d->dit.head_dim);
    grow(&e, 1, (size_t)d->dit.max_state, 1, 1, 1, 1, 1);
    /* Constants at load: one row a step; the time channels are packed too and may be wider than anything else here. */
    const size_t C = (size_t)d->dit.time_channels;
    grow(&e, (size_t)d->dit.steps, max_of(D, C), max_of(D, C), D, 2 * D, 1, 1);
    return e;
}

static enum gr_status thread_scratch(struct gr_device *dev, const struct extent *e, struct gr_err *err)
{
    size_t bytes = max_of(gr_row_scratch_bytes(e->k), gr_gemm_scratch_bytes(e->rows));
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

static enum gr_status make_scratch(struct gr_device *dev, struct gr_err *err)
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
    GR_TRY(gr_cpu_floats(dev, e.pack, 1, "packed activations", &s->pack, err));
    GR_TRY(gr_cpu_floats(dev, images * (size_t)d->vit.tokens, L, "image features", &s->features, err));
    GR_TRY(gr_cpu_floats(dev, S, L, "backbone features", &s->vl, err));
    GR_TRY(gr_cpu_floats(dev, (size_t)d->dit.width, 1, "state features", &s->state, err));
    GR_TRY(gr_cpu_floats(dev, chunk, 1, "actions", &s->action, err));
    GR_TRY(gr_cpu_floats(dev, chunk, 1, "velocity", &s->velocity, err));
    const size_t cross = ((size_t)d->dit.layers + 1) / 2, kv = S * 2 * (size_t)d->dit.width;
    float *cache;
    GR_TRY(gr_cpu_floats(dev, cross, kv, "cross keys and values", &cache, err));
    for (size_t i = 0; i < cross; i++) {
        dev->net.dit[2 * i].kv_cache = cache + i * kv;
    }
    s->text_rows = calloc(2 * S, sizeof *s->text_rows);
    if (s->text_rows == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu row numbers", 2 * S);
    }
    s->image_rows = s->text_rows + S;
    return thread_scratch(dev, &e, err);
}

/* ---- load ---- */

/* All that the bytes of the store depend on. Kernels, because they compute its constants. */
static void cache_key(const struct gr_device *dev, const struct gr_dims *d, char *out, size_t cap)
{
    (void)snprintf(
        out, cap,
        "weights %s; program " GR00T_VERSION
        "; kernels %s; policy exact; slot %d; panel %d; vision %d %d %d %d, table %d, "
        "image %d, grid %d, patches %d, tokens %d; language %d %d %d %d %d %d %d; head %d %d %d %d %d, out %d, hidden "
        "%d, state %d, action %d, horizon %d, slots %d, positions %d, steps %d of %d, text every %d, time %d",
        dev->cfg.weights_digest, dev->kernels.isa, dev->cfg.slot, GR_PANEL, d->vit.hidden, d->vit.mlp, d->vit.layers,
        d->vit.heads, d->vit.table_side, d->vit.image_side, d->vit.grid, d->vit.patches, d->vit.tokens, d->llm.hidden,
        d->llm.mlp, d->llm.layers, d->llm.heads, d->llm.kv_heads, d->llm.head_dim, d->llm.vocab, d->dit.layers,
        d->dit.heads, d->dit.head_dim, d->dit.width, d->dit.mlp, d->dit.out, d->dit.hidden, d->dit.max_state,
        d->dit.max_action, d->dit.horizon, d->dit.slots, d->dit.max_seq, d->dit.steps, d->dit.time_buckets,
        d->dit.text_every, d->dit.time_channels);
}

static enum gr_status load(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct gr_err *err)
{
    (void)calibration;
    if (dev->cfg.cache_dir != NULL) {
        char key[GR_CACHE_KEY_BYTES];
        cache_key(dev, &w->dims, key, sizeof key);
        gr_cache_init(&dev->cache, dev->cfg.cache_dir, key);
    }
    GR_TRY(gr_cpu_load(dev, w, err));
    GR_TRY(make_scratch(dev, err));
    GR_TRY(gr_cpu_rotary(dev, err));
    if (dev->cache.state == GR_CACHE_WARM) {
        return GR_OK;
    }
    GR_TRY(gr_cpu_constants(dev, w, err));
    if (dev->cfg.cache_dir != NULL) {
        gr_cache_write(&dev->cache, dev->store.base, dev->store.bytes);
    }
    return GR_OK;
}

/* ---- predict ---- */

static void run(int id, int n, void *arg)
{
    static bool (*const stages[CPU_STAGES])(struct cpu_thread *) = {
        [CPU_VISION] = gr_cpu_vision,
        [CPU_LLM] = gr_cpu_llm,
        [CPU_ADAPTER] = gr_cpu_adapter,
        [CPU_DENOISE] = gr_cpu_denoise,
    };
    struct cpu_run *r = arg;
    struct cpu_thread t = {.run = r, .dev = r->dev, .id = id, .n = n};
    for (int stage = CPU_VISION; stage < CPU_STAGES; stage++) {
        bool done = stages[stage](&t);
        if (id == 0) {
            r->stage_ms[stage] = gr_clock_ms();
            r->cancelled = !done;
        }
        if (!done) {
            return;
        }
    }
}

/* Checks ids and sorts the sequence into text and image rows. */
static enum gr_status sort_rows(struct gr_device *dev, const struct gr_model_input *in, struct gr_err *err)
{
    const int images = in->n_images, expected = images * dev->dims.vit.tokens;
    if (images < 1 || images > dev->cfg.max_images || in->n_tokens < 1 || in->n_tokens > dev->cfg.max_tokens) {
        return gr_fail(err, GR_ERR_INPUT, "%d images and %d tokens, the device was opened for at most %d and %d",
                       images, in->n_tokens, dev->cfg.max_images, dev->cfg.max_tokens);
    }
    int text = 0, image = 0;
    for (int i = 0; i < in->n_tokens; i++) {
        if (in->ids[i] < 0 || in->ids[i] >= dev->dims.llm.vocab) {
            return gr_fail(err, GR_ERR_INPUT, "token %d has id %d, the embedding has %d rows", i, in->ids[i],
                           dev->dims.llm.vocab);
        }
        if (in->ids[i] == dev->cfg.image_token) {
            dev->s.image_rows[image++] = i;
        } else {
            dev->s.text_rows[text++] = i;
        }
    }
    if (image != expected || text == 0) {
        return gr_fail(err, GR_ERR_INPUT, "the prompt has %d image tokens and %d others, expected %d and at least 1",
                       image, text, expected);
    }
    return GR_OK;
}

static enum gr_status predict(struct gr_device *dev, const struct gr_model_input *in, float *action,
                              struct gr_timing *time, const struct gr_tap_sink *taps, struct gr_err *err)
{
    GR_TRY(sort_rows(dev, in, err));
    struct cpu_run r = {.dev = dev, .in = in, .taps = taps, .kernels = in->reference ? &dev->reference : &dev->kernels};
    r.stage_ms[CPU_START] = gr_clock_ms();
    gr_pool_run(dev->pool, run, &r);
    if (r.cancelled) {
        return gr_fail(err, GR_ERR_BUSY, "cancelled");
    }
    memcpy(action, dev->s.action, (size_t)dev->dims.dit.horizon * (size_t)dev->dims.dit.max_action * sizeof(float));
    const double *ms = r.stage_ms;
    time->vision = ms[CPU_VISION] - ms[CPU_START];
    time->llm = ms[CPU_LLM] - ms[CPU_VISION];
    time->adapter = ms[CPU_ADAPTER] - ms[CPU_LLM];
    time->denoise = ms[CPU_DENOISE] - ms[CPU_ADAPTER];
    time->device = ms[CPU_DENOISE] - ms[CPU_START];
    return GR_OK;
}

static const char *isa(const struct gr_device *dev) { return dev->kernels.isa; }

static const char *reference_isa(const struct gr_device *dev) { return dev->reference.isa; }

static uint64_t weight_bytes(const struct gr_device *dev) { return dev->weights_bytes; }

static struct gr_device_cache cache(const struct gr_device *dev)
{
    const struct gr_cache *c = &dev->cache;
    const bool kept = c->state == GR_CACHE_WARM || c->state == GR_CACHE_WRITTEN;
    return (struct gr_device_cache){
        .state = c->state, .file = kept ? c->path : NULL, .note = c->note[0] != '\0' ? c->note : NULL};
}

const struct gr_device_ops gr_device_cpu = {.name = "cpu",
                                            .open = open_device,
                                            .load = load,
                                            .predict = predict,
                                            .close = close_device,
                                            .isa = isa,
                                            .reference_isa = reference_isa,
                                            .weight_bytes = weight_bytes,
                                            .cache = cache};
