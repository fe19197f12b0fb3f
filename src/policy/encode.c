/* SPDX-License-Identifier: Apache-2.0
 *
 * encode.c: checks an observation and makes pixels, ids, state and noise of it, in this order: the first fault in it is the one
 * that is reported. */
#include "policy/encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/noise.h"
#include "model/state.h"

/* Far above any draw of a normal distribution; far below what makes the network overflow, which would look like a broken engine. */
static const float NOISE_MAX = 1e4f;

/* One for the process: a number tells observations apart whichever memory or policy they are in, also memory that is filled again. */
static _Atomic uint64_t next_serial = 1;

enum gr_status gr_encoder_init(struct gr_encoder *e, struct gr_err *err)
{
    const size_t side = (size_t)e->dims->vit.image_side;
    e->u8 = malloc(side * side * 3);
    return e->u8 != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory for the buffers of a request");
}

void gr_encoder_free(struct gr_encoder *e)
{
    gr_preprocess_free(e->preprocess);
    gr_prompt_free(e->prompt);
    free(e->u8);
}

void gr_encoded_free(struct gr_encoded *e)
{
    if (e != NULL) {
        free(e->pixels);
        free(e->ids);
        free(e->state);
        free(e->noise);
        free(e->raw_state);
        free(e);
    }
}

enum gr_status gr_encoder_space(const struct gr_encoder *e, struct gr_encoded **out, struct gr_err *err)
{
    const struct gr_dims *d = e->dims;
    const size_t side = (size_t)d->vit.image_side;
    struct gr_encoded *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->pixels = malloc((size_t)e->n_images * side * side * 3 * sizeof(float));
        m->ids = malloc((size_t)gr_prompt_max_tokens(e->prompt) * sizeof *m->ids);
        m->state = malloc((size_t)d->dit.max_state * sizeof(float));
        m->noise = malloc((size_t)d->dit.horizon * (size_t)d->dit.max_action * sizeof(float));
        m->raw_state = malloc(((size_t)e->config->emb.state_dim + 1) * sizeof *m->raw_state);
    }
    if (m == NULL || m->pixels == NULL || m->ids == NULL || m->state == NULL || m->noise == NULL ||
        m->raw_state == NULL) {
        gr_encoded_free(m);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the buffers of a request");
    }
    *out = m;
    return GR_OK;
}

static enum gr_status encode_frames(struct gr_encoder *e, const struct gr_observation *obs, float *pixels,
                                    struct gr_err *err)
{
    const struct gr_embodiment *emb = &e->config->emb;
    if (obs->n_frames != e->n_images) {
        return gr_fail(err, GR_ERR_INPUT, "%d frames given, embodiment %s has %d cameras with %d frames each",
                       obs->n_frames, emb->tag, emb->n_cameras, emb->frames_per_camera);
    }
    const size_t side = (size_t)e->dims->vit.image_side;
    for (int i = 0; i < obs->n_frames; i++) {
        const struct gr_frame *f = &obs->frames[i];
        if (atomic_load_explicit(e->cancel, memory_order_relaxed)) {
            return gr_fail(err, GR_ERR_BUSY, "cancelled");
        }
        if (f->rgb == NULL) {
            return gr_fail(err, GR_ERR_INPUT, "frame %d has no pixels", i);
        }
        GR_TRY(gr_preprocess_frame(e->preprocess, f->rgb, f->height, f->width, e->u8, err));
        gr_preprocess_pixels(e->u8, (int)side, pixels + (size_t)i * 3 * side * side);
    }
    return GR_OK;
}

static enum gr_status encode_prompt(struct gr_encoder *e, const char *instruction, struct gr_encoded *out,
                                    struct gr_err *err)
{
    struct gr_prompt_ids ids;
    GR_TRY(gr_prompt_encode(e->prompt, instruction, &ids, err));
    memcpy(out->ids, ids.ids, (size_t)ids.n_tokens * sizeof *out->ids);
    out->n_tokens = ids.n_tokens;
    out->n_text = ids.n_text;
    return GR_OK;
}

static enum gr_status encode_noise(const struct gr_encoder *e, const struct gr_observation *obs, float *noise,
                                   struct gr_err *err)
{
    const size_t A = (size_t)e->dims->dit.max_action, n = (size_t)e->dims->dit.horizon * A;
    if (obs->noise_kind == GR_NOISE_SEED) {
        if (obs->seed > INT64_MAX) {
            return gr_fail(err, GR_ERR_INPUT, "seed %llu is above 9223372036854775807", (unsigned long long)obs->seed);
        }
        gr_noise(obs->seed, noise, n);
        return GR_OK;
    }
    if (obs->noise == NULL) {
        return gr_fail(err, GR_ERR_INPUT, "observation has no noise, expected [%d, %d] numbers or a seed",
                       e->dims->dit.horizon, e->dims->dit.max_action);
    }
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(obs->noise[i])) {
            return gr_fail(err, GR_ERR_INPUT, "noise[%zu][%zu] is not finite", i / A, i % A);
        }
        if (fabsf(obs->noise[i]) > NOISE_MAX) {
            return gr_fail(err, GR_ERR_INPUT,
                           "noise[%zu][%zu] is %g, expected a normally distributed number (at most %g)", i / A, i % A,
                           (double)obs->noise[i], (double)NOISE_MAX);
        }
    }
    memcpy(noise, obs->noise, n * sizeof(float));
    return GR_OK;
}

enum gr_status gr_encoder_run(struct gr_encoder *e, const struct gr_observation *obs, struct gr_encoded *out,
                              struct gr_err *err)
{
    const double start = gr_clock_ms();
    const bool f64 = obs->state_dtype == GR_STATE_F64;
    out->serial = 0;
    if (obs->frames == NULL || obs->instruction == NULL || obs->state == NULL) {
        return gr_fail(err, GR_ERR_INPUT, "observation has no %s",
                       obs->frames == NULL        ? "frames"
                       : obs->instruction == NULL ? "instruction"
                                                  : "state");
    }
    GR_TRY(encode_frames(e, obs, out->pixels, err));
    GR_TRY(encode_prompt(e, obs->instruction, out, err));
    GR_TRY(gr_state_encode(e->config, obs->state, obs->state_dim, f64, out->state, err));
    memcpy(out->raw_state, obs->state, (size_t)obs->state_dim * sizeof *out->raw_state);
    GR_TRY(encode_noise(e, obs, out->noise, err));
    out->n_images = obs->n_frames;
    out->state_f64 = f64;
    out->ms = gr_clock_ms() - start;
    out->serial = atomic_fetch_add_explicit(&next_serial, 1, memory_order_relaxed);
    return GR_OK;
}

struct gr_model_input gr_encoded_input(const struct gr_encoded *in, const _Atomic bool *cancel)
{
    return (struct gr_model_input){.n_images = in->n_images,
                                   .pixels = in->pixels,
                                   .n_tokens = in->n_tokens,
                                   .ids = in->ids,
                                   .state = in->state,
                                   .noise = in->noise,
                                   .cancel = cancel,
                                   .serial = in->serial};
}
