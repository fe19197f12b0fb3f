/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_device.c: the CPU device behind device.h: open, run a predict as one SPMD job, close. */
#include "device/cpu/cpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "device/cpu/load.h"

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
    gr_prefix_free(dev);
    gr_plan_free(&dev->plan);
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
    /* AVX2 sums in another order than the wider sets: an independent check of them. Scalar would take minutes. */
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

static bool is_image(const struct gr_device *dev, const struct gr_model_input *in, int i)
{
    return in->ids[i] == dev->cfg.image_token;
}

static enum gr_status check_input(const struct gr_device *dev, const struct gr_model_input *in, struct gr_err *err)
{
    const int images = in->n_images, expected = images * dev->dims.vit.tokens;
    if (images < 1 || images > dev->cfg.max_images || in->n_tokens < 1 || in->n_tokens > dev->cfg.max_tokens) {
        return gr_fail(err, GR_ERR_INPUT, "%d images and %d tokens, the device was opened for at most %d and %d",
                       images, in->n_tokens, dev->cfg.max_images, dev->cfg.max_tokens);
    }
    int image = 0;
    for (int i = 0; i < in->n_tokens; i++) {
        if (in->ids[i] < 0 || in->ids[i] >= dev->dims.llm.vocab) {
            return gr_fail(err, GR_ERR_INPUT, "token %d has id %d, the embedding has %d rows", i, in->ids[i],
                           dev->dims.llm.vocab);
        }
        image += is_image(dev, in, i);
    }
    if (image != expected || image == in->n_tokens) {
        return gr_fail(err, GR_ERR_INPUT, "the prompt has %d image tokens and %d others, expected %d and at least 1",
                       image, in->n_tokens - image, expected);
    }
    return GR_OK;
}

static int prefix_rows(const struct gr_device *dev, const struct gr_model_input *in)
{
    int n = 0;
    while (!is_image(dev, in, n)) { /* there is one */
        n++;
    }
    return n;
}

/* Sorts the rows that are computed into text and image. */
static void sort_rows(struct gr_device *dev, const struct gr_model_input *in, int skip)
{
    int text = 0, image = 0;
    for (int i = skip; i < in->n_tokens; i++) {
        if (is_image(dev, in, i)) {
            dev->s.image_rows[image++] = i - skip;
        } else {
            dev->s.text_rows[text++] = i - skip;
        }
    }
}

enum gr_status gr_cpu_predict(struct gr_device *dev, struct cpu_run *r, const struct gr_model_input *in, float *action,
                              struct gr_err *err)
{
    GR_TRY(check_input(dev, in, err));
    const bool reference = r->kernels == &dev->reference;
    const int prefix = prefix_rows(dev, in);
    /* Taps show every row, and the reference path must not see rows of the other kernels. */
    const bool fresh = reference || r->taps != NULL || r->capture != NULL || dev->cfg.no_prefix_cache;
    r->dev = dev;
    r->in = in;
    r->prefix = gr_prefix_take(dev, in->ids, prefix, fresh, &r->skip);
    sort_rows(dev, in, r->skip);
    r->stage_ms[CPU_START] = gr_clock_ms();
    gr_pool_run(dev->pool, run, r);
    if (r->cancelled) {
        return gr_fail(err, GR_ERR_BUSY, "cancelled");
    }
    if (!reference) {
        gr_prefix_keep(r->prefix, in->ids, prefix);
    }
    memcpy(action, dev->s.action, (size_t)dev->dims.dit.horizon * (size_t)dev->dims.dit.max_action * sizeof(float));
    return GR_OK;
}

static enum gr_status predict(struct gr_device *dev, const struct gr_model_input *in, float *action,
                              struct gr_timing *time, const struct gr_tap_sink *taps, struct gr_err *err)
{
    struct cpu_run r = {.taps = taps, .kernels = in->reference ? &dev->reference : &dev->kernels};
    GR_TRY(gr_cpu_predict(dev, &r, in, action, err));
    const double *ms = r.stage_ms;
    time->vision = ms[CPU_VISION] - ms[CPU_START];
    time->llm = ms[CPU_LLM] - ms[CPU_VISION];
    time->adapter = ms[CPU_ADAPTER] - ms[CPU_LLM];
    time->denoise = ms[CPU_DENOISE] - ms[CPU_ADAPTER];
    time->device = ms[CPU_DENOISE] - ms[CPU_START];
    time->n_prefix = r.skip;
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

static const struct gr_plan *plan(const struct gr_device *dev) { return &dev->plan; }

const struct gr_device_ops gr_device_cpu = {.name = "cpu",
                                            .text_tokens = 2048,
                                            .open = open_device,
                                            .load = gr_cpu_load,
                                            .predict = predict,
                                            .close = close_device,
                                            .isa = isa,
                                            .reference_isa = reference_isa,
                                            .weight_bytes = weight_bytes,
                                            .cache = cache,
                                            .plan = plan,
                                            .find_plan = gr_cpu_find_plan};
