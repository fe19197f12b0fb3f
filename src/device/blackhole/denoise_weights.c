/* SPDX-License-Identifier: Apache-2.0
 *
 * denoise_weights.c: the action head's matrices as the program sees them, and what depends on the checkpoint alone: time embeddings, scale
 * and shift of every AdaLN norm and step, the part of the action encoder that sees only the time. Sums in double.
 *
 * Only matrices of the blocks have the format of the arena. Those before and behind them, 1 % of the bytes, are bf16: all of a velocity goes
 * through each of them, while a block adds to a residual stream. In bfp8_b they made five sixths of the squared error of a chunk, or more. */
#include "device/blackhole/denoise_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/blackhole/tile_format.h"
#include "model/waves.h"

enum { STEPS_MAX = 64 };

/* out [steps, n] = x [steps, k] w' + b, w [n, k]. row [k] is scratch. */
static void product(const float *x, int steps, int k, const struct gr_linear *l, int n, float *row, float *out)
{
    for (int j = 0; j < n; j++) {
        double sum[STEPS_MAX] = {0};
        gr_tensor_to_f32(&l->w, (size_t)j * (size_t)k, (size_t)k, row);
        for (int s = 0; s < steps; s++) {
            const float *xs = x + (size_t)s * (size_t)k;
            for (int i = 0; i < k; i++) {
                sum[s] += (double)xs[i] * (double)row[i];
            }
            out[(size_t)s * (size_t)n + (size_t)j] = (float)(sum[s] + (double)gr_tensor_f32(&l->b, (size_t)j));
        }
    }
}

static void silu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((double)x[i] / (1.0 + exp(-(double)x[i])));
    }
}

/* What layer `what` makes of the time of a step. */
static enum gr_status check_range(const float *x, size_t n, const char *what, struct gr_err *err)
{
    const size_t bad = gr_bh_first_out_of_range(x, n);
    return bad == n ? GR_OK
                    : gr_fail(err, GR_ERR_FORMAT,
                              "%s: output %zu at some step is %g, and this device computes with magnitudes below 65536",
                              what, bad, (double)x[bad]);
}

/* rows [steps, 2D] of a layer to its place, scale before shift. */
static void place_modulation(struct gr_bh_denoise_weights *o, int layer, const float *rows, bool scale_first)
{
    const int D = o->d.dit.width, steps = o->d.dit.steps;
    float *out = o->modulation + (size_t)layer * (size_t)steps * 2 * (size_t)D;
    for (int i = 0; i < steps * 2 * D; i++) {
        const int step = i / (2 * D), half = i / D % 2, column = i % D;
        out[(step * 2 + (scale_first ? half : 1 - half)) * D + column] = rows[i];
    }
}

/* time waves -> linear_1 -> silu -> linear_2 -> silu, then through the linear of every norm. scratch: see gr_bh_denoise_weights_new. */
static enum gr_status modulations(struct gr_bh_denoise_weights *o, const struct gr_weights *w, float *scratch,
                                  struct gr_err *err)
{
    const int D = o->d.dit.width, steps = o->d.dit.steps, channels = o->d.dit.time_channels, layers = o->d.dit.layers;
    const size_t each = (size_t)steps * (size_t)D;
    float *row = scratch, *waves = row + D + channels, *hidden = waves + (size_t)steps * (size_t)channels,
          *st = hidden + each;
    float *rows = st + each;
    gr_time_waves(&o->d, waves);
    product(waves, steps, channels, &w->time1, D, row, hidden);
    silu(hidden, each);
    product(hidden, steps, D, &w->time2, D, row, st);
    memcpy(o->temb, st, each * sizeof *st);
    silu(st, each);
    for (int i = 0; i <= layers; i++) {
        const struct gr_linear *l = i == layers ? &w->proj_out1 : &w->dit[i].ada;
        product(st, steps, D, l, 2 * D, row, rows);
        GR_TRY(check_range(rows, 2 * each, l->w.name, err));
        place_modulation(o, i, rows, i < layers);
        gr_snapshot_done(w->snap, &l->w);
    }
    return GR_OK;
}

/* tau W2[lower half] + b of every step. */
static enum gr_status action_bias(struct gr_bh_denoise_weights *o, const struct gr_weights *w, int slot, float *scratch,
                                  struct gr_err *err)
{
    const int D = o->d.dit.width, steps = o->d.dit.steps;
    float *row = scratch, *tau = row + D;
    gr_action_waves(&o->d, tau);
    for (int s = 0; s < steps; s++) {
        gr_tensor_to_f32(&w->action2.b, (size_t)slot * (size_t)D, (size_t)D, o->action_bias + (size_t)s * (size_t)D);
    }
    for (int i = 0; i < D; i++) {
        gr_tensor_to_f32(&w->action2.w, ((size_t)slot * 2 * (size_t)D + (size_t)(D + i)) * (size_t)D, (size_t)D, row);
        for (int s = 0; s < steps; s++) {
            for (int j = 0; j < D; j++) {
                o->action_bias[s * D + j] += tau[s * D + i] * row[j];
            }
        }
    }
    return check_range(o->action_bias, (size_t)steps * (size_t)D, w->action2.w.name, err);
}

static struct gr_bh_matrix linear(const struct gr_linear *l)
{
    return (struct gr_bh_matrix){
        .name = l->w.name, .k = (int)l->w.shape[1], .n = (int)l->w.shape[0], .w = &l->w, .b = &l->b, .slot = -1};
}
static struct gr_bh_matrix of_slot(const struct gr_cat_linear *l, int slot)
{
    return (struct gr_bh_matrix){.name = l->w.name,
                                 .k = (int)l->w.shape[1],
                                 .n = (int)l->w.shape[2],
                                 .w = &l->w,
                                 .b = &l->b,
                                 .slot = slot,
                                 .fmt = GR_BH_BF16};
}

static void matrices(struct gr_bh_denoise_weights *o, const struct gr_weights *w, int slot)
{
    const int D = o->d.dit.width;
    const struct gr_bh_heads h = gr_bh_heads_of(o->d.dit.heads, o->d.dit.head_dim);
    gr_bh_heads_rows(&h, o->out_row);
    o->state1 = of_slot(&w->state1, slot);
    o->state2 = of_slot(&w->state2, slot);
    o->action1 = of_slot(&w->action1, slot);
    o->action3 = of_slot(&w->action3, slot);
    o->decoder1 = of_slot(&w->decoder1, slot);
    o->decoder2 = of_slot(&w->decoder2, slot);
    o->proj_out2 = linear(&w->proj_out2);
    o->proj_out2.fmt = GR_BH_BF16;
    for (int s = 0; s < o->d.dit.steps; s++) {
        o->action2[s] = of_slot(&w->action2, slot);
        o->action2[s].k = D;
        o->action2[s].bias = o->action_bias + (size_t)s * (size_t)D;
    }
    o->position_rows = w->action_pos;
    o->position_rows.ndim = 3;
    o->position_rows.shape[0] = 1;
    o->position_rows.shape[1] = w->action_pos.shape[0];
    o->position_rows.shape[2] = w->action_pos.shape[1];
    o->position = (struct gr_bh_matrix){.name = w->action_pos.name,
                                        .k = o->d.dit.horizon,
                                        .n = D,
                                        .w = &o->position_rows,
                                        .slot = 0,
                                        .fmt = GR_BH_BF16};
    for (int i = 0; i < o->d.dit.layers; i++) {
        const struct gr_dit_block *b = &w->dit[i];
        o->block[i] = (struct gr_bh_block_weights){.q = linear(&b->q),
                                                   .k = linear(&b->k),
                                                   .v = linear(&b->v),
                                                   .out = linear(&b->out),
                                                   .ff1 = linear(&b->ff1),
                                                   .ff2 = linear(&b->ff2),
                                                   .cross = i % 2 == 0,
                                                   .text = i % (2 * o->d.dit.text_every) == 0};
        o->block[i].out.row = o->out_row;
        o->block[i].out.k = gr_bh_heads_out(&h);
    }
}

static enum gr_status take_memory(struct gr_bh_denoise_weights *o, float **scratch, struct gr_err *err)
{
    const size_t D = (size_t)o->d.dit.width, steps = (size_t)o->d.dit.steps, layers = (size_t)o->d.dit.layers;
    const size_t channels = (size_t)o->d.dit.time_channels;
    const struct gr_bh_heads heads = gr_bh_heads_of(o->d.dit.heads, o->d.dit.head_dim);
    size_t modulation;
    if (!gr_size_mul((layers + 1) * steps, 2 * D, &modulation)) {
        return gr_fail(err, GR_ERR_FORMAT, "the AdaLN vectors of %zu layers of width %zu are too large", layers, D);
    }
    o->action2 = calloc(steps, sizeof *o->action2);
    o->block = calloc(layers, sizeof *o->block);
    o->temb = calloc(steps * D, sizeof *o->temb);
    o->action_bias = calloc(steps * D, sizeof *o->action_bias);
    o->modulation = calloc(modulation, sizeof *o->modulation);
    o->out_row = calloc((size_t)gr_bh_heads_out(&heads), sizeof *o->out_row);
    *scratch = calloc(D + channels + steps * (channels + 4 * D), sizeof **scratch);
    if (o->action2 == NULL || o->block == NULL || o->temb == NULL || o->action_bias == NULL || o->modulation == NULL ||
        o->out_row == NULL || *scratch == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the constants of the action head");
    }
    return GR_OK;
}

enum gr_status gr_bh_denoise_weights_new(const struct gr_weights *w, int slot, struct gr_bh_denoise_weights **out,
                                         struct gr_err *err)
{
    *out = NULL;
    if (w->dims.dit.steps < 1 || w->dims.dit.steps > STEPS_MAX) {
        return gr_fail(
            err, GR_ERR_DEVICE,
            "config.json: num_inference_timesteps is %d, the program for a Blackhole takes 1 to %d Euler steps",
            w->dims.dit.steps, STEPS_MAX);
    }
    if (slot < 0 || slot >= w->dims.dit.slots) {
        return gr_fail(err, GR_ERR_DEVICE, "slot %d of %d", slot, w->dims.dit.slots);
    }
    struct gr_bh_denoise_weights *o = calloc(1, sizeof *o);
    if (o == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the action head");
    }
    o->d = w->dims;
    float *scratch = NULL;
    enum gr_status status = take_memory(o, &scratch, err);
    if (status == GR_OK) {
        status = modulations(o, w, scratch, err);
    }
    if (status == GR_OK) {
        status = action_bias(o, w, slot, scratch, err);
    }
    free(scratch);
    if (status != GR_OK) {
        gr_bh_denoise_weights_free(o);
        return status;
    }
    matrices(o, w, slot);
    *out = o;
    return GR_OK;
}

void gr_bh_denoise_weights_free(struct gr_bh_denoise_weights *w)
{
    if (w == NULL) {
        return;
    }
    free(w->action2);
    free(w->block);
    free(w->temb);
    free(w->action_bias);
    free(w->modulation);
    free(w->out_row);
    free(w);
}

const float *gr_bh_denoise_temb(const struct gr_bh_denoise_weights *w, int step)
{
    return w->temb + (size_t)step * (size_t)w->d.dit.width;
}
