/* SPDX-License-Identifier: Apache-2.0
 *
 * constants.c: what depends on the checkpoint alone and is computed once: the position table resized to the patch grid, rotary
 * tables, and everything that sees only the time of an Euler step (time embedding, AdaLN vectors, time half of the action
 * encoder). Tables follow the reference's float32 and float64 steps (spec/model.md 4, 6, 7). */
#include "device/cpu/constants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/pack.h"
#include "model/positions.h"
#include "model/waves.h"

enum gr_status gr_cpu_rotary(struct gr_device *dev, struct gr_err *err)
{
    const int half = dev->dims.llm.head_dim / 2, rows = dev->cfg.max_tokens;
    GR_TRY(gr_cpu_floats(dev, (size_t)rows, (size_t)half, "rotary table", &dev->net.rope_cos, err));
    GR_TRY(gr_cpu_floats(dev, (size_t)rows, (size_t)half, "rotary table", &dev->net.rope_sin, err));
    gr_rotary_tables(&dev->dims, rows, dev->net.rope_cos, dev->net.rope_sin);
    return GR_OK;
}

/* ---- products with a few rows, at load only ---- */

struct product {
    struct gr_device *dev;
    struct gr_gemm g;
};

static void product_share(int id, int n, void *arg)
{
    struct product *p = arg;
    int p0, p1;
    gr_pool_share(id, n, p->g.w->panels, &p0, &p1);
    p->dev->kernels.gemm[p->g.w->format](&p->g, p0, p1, p->dev->s.thread[id]);
}

/* out [m, n] = x [m, k] w + b. */
static enum gr_status product(struct gr_device *dev, const float *x, int m, int k, const struct cpu_source *src,
                              enum gr_epilogue e, float *out, int ldo, struct gr_err *err)
{
    struct cpu_temp_mat w;
    GR_TRY(gr_cpu_temp_mat(dev->pool, src, k, &w, err));
    struct gr_acts acts = {
        .format = GR_ROWS_F32, .m = m, .k = k, .k_pad = gr_row_pad(GR_ROWS_F32, k), .data = dev->s.pack};
    const struct gr_row_source rows = {.x = x, .ldx = k};
    dev->kernels.pack_rows[acts.format](&acts, &rows, 0, m, dev->s.thread[0]);
    struct product p = {.dev = dev, .g = {.w = &w.mat, .a = &acts, .out = out, .ldo = ldo, .epilogue = e}};
    gr_pool_run(dev->pool, product_share, &p);
    gr_big_free(w.block, w.bytes);
    return GR_OK;
}

/* ---- everything that sees only the time ---- */

static enum gr_status time_embedding(struct gr_device *dev, const struct gr_weights *w, float *silu, struct gr_err *err)
{
    const struct gr_dims *d = &dev->dims;
    const int steps = d->dit.steps, D = d->dit.width;
    float *waves = dev->s.wide, *hidden = dev->s.attn;
    gr_time_waves(d, waves);
    struct cpu_source first = {.w = &w->time1.w, .b = &w->time1.b}, second = {.w = &w->time2.w, .b = &w->time2.b};
    GR_TRY(product(dev, waves, steps, d->dit.time_channels, &first, GR_EPI_SILU, hidden, D, err));
    GR_TRY(product(dev, hidden, steps, D, &second, GR_EPI_STORE, dev->net.temb, D, err));
    for (int i = 0; i < steps * D; i++) {
        double v = (double)dev->net.temb[i];
        silu[i] = dev->net.temb[i] * (float)(1.0 / (1.0 + exp(-v)));
    }
    return GR_OK;
}

/* Turns rows [first D | second D] into gamma = 1 + scale and beta = shift of each step: [steps, 2, D]. */
static void split_modulation(const struct gr_dims *d, const float *rows, bool scale_first, float *out)
{
    const int D = d->dit.width;
    for (int k = 0; k < d->dit.steps; k++) {
        const float *row = rows + (size_t)k * 2 * (size_t)D;
        float *gamma = out + (size_t)k * 2 * (size_t)D, *beta = gamma + D;
        for (int i = 0; i < D; i++) {
            gamma[i] = 1.0f + row[scale_first ? i : D + i];
            beta[i] = row[scale_first ? D + i : i];
        }
    }
}

/* The norms of all blocks and steps that read net.ada. */
static void place_modulations(struct gr_device *dev)
{
    const int steps = dev->dims.dit.steps, layers = dev->dims.dit.layers;
    const size_t D = (size_t)dev->dims.dit.width;
    struct gr_row_norm *out = dev->net.out_norm;
    for (int i = layers; i >= 0; i--) { /* out_norm comes first */
        for (int k = 0; k < steps; k++) {
            const float *gamma = dev->net.ada + ((size_t)i * (size_t)steps + (size_t)k) * 2 * D;
            out[k] = (struct gr_row_norm){.kind = GR_ROW_LAYER,
                                          .eps = i == layers ? GR_DIT_OUT_EPS : GR_DIT_EPS,
                                          .gamma = gamma,
                                          .beta = gamma + D};
        }
        if (i < layers) {
            dev->net.dit[i].norm1 = out;
        }
        out += steps;
    }
    dev->net.plain_norm = (struct gr_row_norm){.kind = GR_ROW_LAYER, .eps = GR_DIT_EPS};
}

static enum gr_status modulations(struct gr_device *dev, const struct gr_weights *w, const float *silu,
                                  struct gr_err *err)
{
    const struct gr_dims *d = &dev->dims;
    const int steps = d->dit.steps, D = d->dit.width, layers = d->dit.layers;
    const size_t each = (size_t)steps * 2 * (size_t)D;
    float *rows = dev->s.ff;
    for (int i = 0; i <= layers; i++) {
        bool last = i == layers;
        struct cpu_source src = {.w = last ? &w->proj_out1.w : &w->dit[i].ada.w,
                                 .b = last ? &w->proj_out1.b : &w->dit[i].ada.b};
        GR_TRY(product(dev, silu, steps, D, &src, GR_EPI_STORE, rows, 2 * D, err));
        gr_snapshot_done(w->snap, src.w);
        /* proj_out_1 has the shift first, the blocks have the scale first. */
        split_modulation(d, rows, !last, dev->net.ada + (size_t)i * each);
        if (dev->cfg.progress != NULL) {
            const uint64_t each_bytes = src.w->bytes; /* all AdaLN matrices have one shape */
            dev->cfg.progress(dev->cfg.progress_user, "compute constants", ((uint64_t)i + 1) * each_bytes,
                              ((uint64_t)layers + 1) * each_bytes);
        }
    }
    return GR_OK;
}

static enum gr_status action_constants(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err)
{
    const struct gr_dims *d = &dev->dims;
    const int steps = d->dit.steps, D = d->dit.width, ld = dev->net.action_bias_ld;
    gr_action_waves(d, dev->s.wide);
    struct cpu_source src = {.w = &w->action2.w, .b = &w->action2.b, .per_slot = true, .slot = dev->cfg.slot, .in0 = D};
    GR_TRY(product(dev, dev->s.wide, steps, D, &src, GR_EPI_STORE, dev->net.action_bias, ld, err));
    gr_tensor_to_f32(&w->action_pos, 0, (size_t)d->dit.horizon * (size_t)D, dev->net.action_pos);
    return gr_cpu_check_finite(dev->net.action_pos, (size_t)d->dit.horizon * (size_t)D, &w->action_pos, err);
}

enum gr_status gr_cpu_place_constants(struct gr_device *dev, struct gr_store *s, struct gr_err *err)
{
    const struct gr_dims *d = &dev->dims;
    struct cpu_net *net = &dev->net;
    const size_t steps = (size_t)d->dit.steps, D = (size_t)d->dit.width, V = (size_t)d->vit.hidden;
    const size_t ld = (D + GR_PANEL_MAX - 1) / GR_PANEL_MAX * GR_PANEL_MAX;
    net->action_bias_ld = (int)ld;
    GR_TRY(gr_store_floats(s, (size_t)d->vit.patches, V, "position table", &net->vit_pos, err));
    GR_TRY(gr_store_floats(s, steps, D, "time embedding", &net->temb, err));
    GR_TRY(gr_store_floats(s, ((size_t)d->dit.layers + 1) * steps, 2 * D, "AdaLN vectors", &net->ada, err));
    GR_TRY(gr_store_floats(s, steps, ld, "time half of the action encoder", &net->action_bias, err));
    GR_TRY(gr_store_floats(s, (size_t)d->dit.horizon, D, "action position table", &net->action_pos, err));
    if (s->base != NULL) {
        place_modulations(dev);
    }
    return GR_OK;
}

enum gr_status gr_cpu_constants(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err)
{
    float *silu = dev->s.x; /* nothing below uses it otherwise */
    const size_t positions = (size_t)dev->dims.vit.patches * (size_t)dev->dims.vit.hidden;
    GR_TRY(gr_resize_positions(&dev->dims, &w->vit_pos, dev->net.vit_pos, err));
    GR_TRY(gr_cpu_check_finite(dev->net.vit_pos, positions, &w->vit_pos, err));
    GR_TRY(time_embedding(dev, w, silu, err));
    GR_TRY(modulations(dev, w, silu, err));
    return action_constants(dev, w, err);
}
