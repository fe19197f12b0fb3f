/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.c: observation to chunk. Opens the parts of a snapshot in order of cost, so that a wrong flag or a damaged side file
 * is reported before gigabytes are packed, and runs a request through them in one direction. */
#include "policy/policy.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fs.h"
#include "base/mem.h"
#include "model/actions.h"
#include "model/noise.h"
#include "model/preprocess.h"
#include "model/prompt.h"
#include "model/state.h"
#include "model/tokenizer.h"

enum { TEXT_TOKENS_DEFAULT = 2048 };
/* Far above any draw of a normal distribution; far below what makes the network overflow, which would look like a broken engine. */
static const float NOISE_MAX = 1e4f;

struct gr_policy {
    struct gr_config *config;
    struct gr_snapshot *snapshot;
    struct gr_dims dims;
    struct gr_tokenizer *tokenizer;
    struct gr_prompt *prompt;
    struct gr_preprocess *preprocess;
    const struct gr_device_ops *ops;
    struct gr_device *device;
    struct gr_info info;
    struct gr_group *groups; /* state groups, then action groups */
    int n_images;
    /* Request buffers. */
    uint8_t *u8;          /* [side, side, 3] */
    float *pixels;        /* [n_images, 3, side, side] */
    float *state, *noise; /* [max_state], [horizon, max_action] */
    float *ids_tap;       /* [max tokens] */
    _Atomic bool cancel;
};

const char *gr_version(void) { return GR00T_VERSION; }

const struct gr_info *gr_policy_info(const struct gr_policy *p) { return &p->info; }

const struct gr_config *gr_policy_config(const struct gr_policy *p) { return p->config; }

const struct gr_dims *gr_policy_dims(const struct gr_policy *p) { return &p->dims; }

/* ---- open and close ---- */

static enum gr_status open_tokenizer(struct gr_policy *p, const char *dir, const struct gr_options *o,
                                     struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    const char *folder = o->tokenizer_dir;
    if (folder == NULL) {
        GR_TRY(gr_path_join(path, dir, "tokenizer", err));
        folder = path;
        if (!gr_fs_is_dir(path)) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "%s does not exist: name a folder with the Qwen2 vocab.json and merges.txt as tokenizer",
                           path);
        }
    }
    GR_TRY(gr_tokenizer_open(folder, &p->tokenizer, err));
    const struct gr_embodiment *e = &p->config->emb;
    p->n_images = e->n_cameras * e->frames_per_camera;
    int max_text = o->max_text_tokens > 0 ? o->max_text_tokens : TEXT_TOKENS_DEFAULT;
    GR_TRY(gr_prompt_new(p->tokenizer, p->n_images, p->config->dims.vit.tokens, max_text, p->config->formalize_language,
                         &p->prompt, err));
    if (gr_prompt_max_tokens(p->prompt) > GR_MAX_POSITIONS) {
        return gr_fail(err, GR_ERR_USAGE, "%d images and %d text tokens make %d positions, the language model has %d",
                       p->n_images, max_text, gr_prompt_max_tokens(p->prompt), GR_MAX_POSITIONS);
    }
    p->info.max_text_tokens = max_text;
    return GR_OK;
}

static enum gr_status open_device(struct gr_policy *p, const struct gr_weights *w, unsigned cpu_flags,
                                  const struct gr_options *o, struct gr_err *err)
{
    int32_t image_token = gr_prompt_image_token(p->prompt), largest = gr_tokenizer_size(p->tokenizer) - 1;
    /* Embeddings are padded by some hundred rows, never doubled: another vocabulary would give other words their rows. */
    if (largest >= w->dims.llm.vocab || largest + 1 < w->dims.llm.vocab / 2) {
        return gr_fail(
            err, GR_ERR_FORMAT,
            "the tokenizer has ids up to %d, the snapshot's token embedding %d rows: they do not belong together",
            largest, w->dims.llm.vocab);
    }
    struct gr_device_cfg cfg = {.threads = o->threads > 0 ? o->threads : gr_cpu_count(),
                                .cpu_flags = cpu_flags,
                                .max_images = p->n_images,
                                .max_tokens = gr_prompt_max_tokens(p->prompt),
                                .slot = p->config->emb.slot,
                                .image_token = image_token,
                                .cache_dir = o->cache_dir,
                                .weights_digest = p->info.weights_digest,
                                .progress = o->progress,
                                .progress_user = o->progress_user};
    GR_TRY(p->ops->open(&cfg, &p->device, err));
    p->info.threads = cfg.threads;
    return p->ops->load(p->device, w, NULL, err);
}

static enum gr_status make_buffers(struct gr_policy *p, struct gr_err *err)
{
    const size_t side = (size_t)p->dims.vit.image_side;
    p->u8 = malloc(side * side * 3);
    p->pixels = malloc((size_t)p->n_images * side * side * 3 * sizeof(float));
    p->state = malloc((size_t)p->dims.dit.max_state * sizeof(float));
    p->noise = malloc((size_t)p->dims.dit.horizon * (size_t)p->dims.dit.max_action * sizeof(float));
    p->ids_tap = malloc((size_t)gr_prompt_max_tokens(p->prompt) * sizeof(float));
    if (p->u8 == NULL || p->pixels == NULL || p->state == NULL || p->noise == NULL || p->ids_tap == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the buffers of a request");
    }
    return GR_OK;
}

static enum gr_status make_info(struct gr_policy *p, struct gr_err *err)
{
    const struct gr_embodiment *e = &p->config->emb;
    p->groups = calloc((size_t)(e->n_state + e->n_action), sizeof *p->groups);
    if (p->groups == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d groups", e->n_state + e->n_action);
    }
    for (int i = 0; i < e->n_state + e->n_action; i++) {
        const struct gr_group_config *g = i < e->n_state ? &e->state[i] : &e->action[i - e->n_state];
        p->groups[i] = (struct gr_group){.name = g->name, .dim = g->dim, .relative = i >= e->n_state && g->relative};
    }
    struct gr_info *info = &p->info;
    info->model_type = p->config->model_type;
    info->embodiment = e->tag;
    info->embodiment_slot = e->slot;
    info->n_cameras = e->n_cameras;
    info->frames_per_camera = e->frames_per_camera;
    info->cameras = (const char *const *)e->cameras;
    info->n_state_groups = e->n_state;
    info->state_dim = e->state_dim;
    info->state_groups = p->groups;
    info->n_action_groups = e->n_action;
    info->action_dim = e->action_dim;
    info->action_groups = p->groups + e->n_state;
    info->action_steps = e->action_steps;
    info->horizon = p->dims.dit.horizon;
    info->max_action_dim = p->dims.dit.max_action;
    info->device = p->ops->name;
    info->isa = p->ops->isa(p->device);
    info->weight_bytes = p->ops->weight_bytes(p->device);
    struct gr_device_cache cache = p->ops->cache(p->device);
    info->cache = cache.state;
    info->cache_file = cache.file;
    info->cache_note = cache.note;
    return GR_OK;
}

static enum gr_status check_options(const struct gr_options *o, const struct gr_device_ops **ops, unsigned *cpu_flags,
                                    struct gr_err *err)
{
    const char *device = o->device != NULL ? o->device : "cpu";
    *ops = gr_device_find(device);
    if (*ops == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "device \"%s\" is unknown, this build has: cpu", device);
    }
    if (o->precision != NULL && strcmp(o->precision, "exact") != 0) {
        return gr_fail(err, GR_ERR_USAGE, "policy \"%s\" is unknown, this build has: exact", o->precision);
    }
    if (o->threads < 0 || o->max_text_tokens < 0) {
        return gr_fail(err, GR_ERR_USAGE, "threads and max_text_tokens must not be negative, found %d and %d",
                       o->threads, o->max_text_tokens);
    }
    *cpu_flags = gr_cpu_detect();
    return gr_cpu_mask(o->cpu, cpu_flags, err);
}

static enum gr_status open_parts(struct gr_policy *p, const char *dir, const struct gr_options *o, struct gr_err *err)
{
    unsigned cpu_flags;
    GR_TRY(check_options(o, &p->ops, &cpu_flags, err));
    GR_TRY(gr_config_open(dir, o->embodiment != NULL ? o->embodiment : "gr1", &p->config, err));
    GR_TRY(open_tokenizer(p, dir, o, err));
    GR_TRY(gr_preprocess_new(p->config->shortest_image_edge, p->config->crop_fraction, &p->preprocess, err));
    GR_TRY(gr_snapshot_open(dir, &p->snapshot, err));
    struct gr_weights *w;
    GR_TRY(gr_weights_open(p->snapshot, p->config, NULL, NULL, &w, err));
    p->dims = w->dims;
    for (size_t i = 0; i < gr_snapshot_count(p->snapshot); i++) {
        p->info.n_tensors += gr_weights_uses(w, gr_snapshot_at(p->snapshot, i)->name);
    }
    p->info.tensor_bytes = gr_snapshot_bytes(p->snapshot);
    enum gr_status status = gr_snapshot_digest(p->snapshot, p->info.weights_digest, err);
    if (status == GR_OK) {
        status = open_device(p, w, cpu_flags, o, err);
    }
    gr_weights_free(w);
    GR_TRY(status);
    GR_TRY(make_buffers(p, err));
    return make_info(p, err);
}

enum gr_status gr_policy_open(const char *dir, const struct gr_options *options, struct gr_policy **out,
                              struct gr_err *err)
{
    static const struct gr_options defaults;
    double start = gr_clock_ms();
    if (dir == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_policy_open: dir and out must not be NULL");
    }
    struct gr_policy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a policy");
    }
    enum gr_status status = open_parts(p, dir, options != NULL ? options : &defaults, err);
    if (status != GR_OK) {
        gr_policy_close(p);
        return status;
    }
    p->info.load_ms = gr_clock_ms() - start;
    *out = p;
    return GR_OK;
}

void gr_policy_close(struct gr_policy *p)
{
    if (p == NULL) {
        return;
    }
    if (p->device != NULL) {
        p->ops->close(p->device);
    }
    gr_snapshot_close(p->snapshot);
    gr_preprocess_free(p->preprocess);
    gr_prompt_free(p->prompt);
    gr_tokenizer_close(p->tokenizer);
    gr_config_free(p->config);
    free(p->groups);
    free(p->u8);
    free(p->pixels);
    free(p->state);
    free(p->noise);
    free(p->ids_tap);
    free(p);
}

/* ---- predict ---- */

static enum gr_status check_cancel(struct gr_policy *p, struct gr_err *err)
{
    return atomic_load_explicit(&p->cancel, memory_order_relaxed) ? gr_fail(err, GR_ERR_BUSY, "cancelled") : GR_OK;
}

static enum gr_status encode_frames(struct gr_policy *p, const struct gr_observation *obs, struct gr_err *err)
{
    if (obs->n_frames != p->n_images) {
        return gr_fail(err, GR_ERR_INPUT, "%d frames given, embodiment %s has %d cameras with %d frames each",
                       obs->n_frames, p->info.embodiment, p->info.n_cameras, p->info.frames_per_camera);
    }
    const int side = p->dims.vit.image_side;
    for (int i = 0; i < obs->n_frames; i++) {
        const struct gr_frame *f = &obs->frames[i];
        GR_TRY(check_cancel(p, err));
        if (f->rgb == NULL) {
            return gr_fail(err, GR_ERR_INPUT, "frame %d has no pixels", i);
        }
        GR_TRY(gr_preprocess_frame(p->preprocess, f->rgb, f->height, f->width, p->u8, err));
        gr_preprocess_pixels(p->u8, side, p->pixels + (size_t)i * 3 * (size_t)side * (size_t)side);
    }
    return GR_OK;
}

static enum gr_status encode_noise(struct gr_policy *p, const struct gr_observation *obs, struct gr_err *err)
{
    const size_t A = (size_t)p->dims.dit.max_action, n = (size_t)p->dims.dit.horizon * A;
    if (obs->noise_kind == GR_NOISE_SEED) {
        if (obs->seed > INT64_MAX) {
            return gr_fail(err, GR_ERR_INPUT, "seed %llu is above 9223372036854775807", (unsigned long long)obs->seed);
        }
        gr_noise(obs->seed, p->noise, n);
        return GR_OK;
    }
    if (obs->noise == NULL) {
        return gr_fail(err, GR_ERR_INPUT, "observation has no noise, expected [%d, %d] numbers or a seed",
                       p->dims.dit.horizon, p->dims.dit.max_action);
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
    memcpy(p->noise, obs->noise, n * sizeof(float));
    return GR_OK;
}

/* What makes the call itself wrong, whatever is observed. */
static enum gr_status check_call(const struct gr_policy *p, const struct gr_observation *obs,
                                 const struct gr_chunk *out, struct gr_err *err)
{
    if (p == NULL || obs == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_policy_predict: policy, observation and chunk must not be NULL");
    }
    if (out->steps != p->info.action_steps || out->dim != p->info.action_dim || out->horizon != p->info.horizon ||
        out->max_action_dim != p->info.max_action_dim) {
        return gr_fail(err, GR_ERR_USAGE,
                       "the chunk is for %d x %d actions, this policy has %d x %d: use its own gr_chunk_new",
                       out->steps, out->dim, p->info.action_steps, p->info.action_dim);
    }
    if ((obs->noise_kind != GR_NOISE_SEED && obs->noise_kind != GR_NOISE_GIVEN) ||
        (obs->state_dtype != GR_STATE_F32 && obs->state_dtype != GR_STATE_F64)) {
        return gr_fail(err, GR_ERR_USAGE, "noise_kind %d or state_dtype %d is unknown", (int)obs->noise_kind,
                       (int)obs->state_dtype);
    }
    return GR_OK;
}

/* Request-level taps, so that a check sees where a difference begins. */
static void put_inputs(const struct gr_policy *p, const struct gr_model_input *in, const struct gr_tap_sink *taps)
{
    const int side = p->dims.vit.image_side;
    taps->put(taps->user, "pixel_values", in->pixels, 3 * side * in->n_images, side, side);
    for (int i = 0; i < in->n_tokens; i++) {
        p->ids_tap[i] = (float)in->ids[i];
    }
    taps->put(taps->user, "input_ids", p->ids_tap, 1, in->n_tokens, in->n_tokens);
    taps->put(taps->user, "state", in->state, 1, p->dims.dit.max_state, p->dims.dit.max_state);
    taps->put(taps->user, "noise", in->noise, p->dims.dit.horizon, p->dims.dit.max_action, p->dims.dit.max_action);
}

static enum gr_status encode(struct gr_policy *p, const struct gr_observation *obs, struct gr_model_input *in,
                             struct gr_chunk *out, struct gr_err *err)
{
    struct gr_prompt_ids ids;
    bool f64 = obs->state_dtype == GR_STATE_F64;
    if (obs->frames == NULL || obs->instruction == NULL || obs->state == NULL) {
        return gr_fail(err, GR_ERR_INPUT, "observation has no %s",
                       obs->frames == NULL        ? "frames"
                       : obs->instruction == NULL ? "instruction"
                                                  : "state");
    }
    GR_TRY(encode_frames(p, obs, err));
    GR_TRY(gr_prompt_encode(p->prompt, obs->instruction, &ids, err));
    GR_TRY(gr_state_encode(p->config, obs->state, obs->state_dim, f64, p->state, err));
    GR_TRY(encode_noise(p, obs, err));
    *in = (struct gr_model_input){.n_images = obs->n_frames,
                                  .pixels = p->pixels,
                                  .n_tokens = ids.n_tokens,
                                  .ids = ids.ids,
                                  .state = p->state,
                                  .noise = p->noise,
                                  .cancel = &p->cancel};
    out->n_tokens = ids.n_tokens;
    out->n_text = ids.n_text;
    return GR_OK;
}

static enum gr_status predict(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                              const struct gr_tap_sink *taps, bool reference, struct gr_err *err)
{
    struct gr_model_input in;
    GR_TRY(check_call(p, obs, out, err));
    struct gr_timing *time = &out->timing;
    double start = gr_clock_ms();
    GR_TRY(encode(p, obs, &in, out, err));
    time->encode = gr_clock_ms() - start;
    in.reference = reference;
    if (taps != NULL) {
        put_inputs(p, &in, taps);
    }
    GR_TRY(p->ops->predict(p->device, &in, out->normalized, time, taps, err));
    double decode = gr_clock_ms();
    GR_TRY(
        gr_actions_decode(p->config, out->normalized, obs->state, obs->state_dtype == GR_STATE_F64, out->actions, err));
    double end = gr_clock_ms();
    time->decode_actions = end - decode;
    time->total = end - start;
    return GR_OK;
}

enum gr_status gr_policy_predict_taps(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                      const struct gr_tap_sink *taps, struct gr_err *err)
{
    return predict(p, obs, out, taps, false, err);
}

enum gr_status gr_policy_predict(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                 struct gr_err *err)
{
    return predict(p, obs, out, NULL, false, err);
}

enum gr_status gr_policy_predict_reference(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                           const char **kernels, struct gr_err *err)
{
    *kernels = p->ops->reference_isa(p->device);
    return predict(p, obs, out, NULL, true, err);
}

void gr_policy_set_cancel(struct gr_policy *p, bool cancel)
{
    atomic_store_explicit(&p->cancel, cancel, memory_order_relaxed);
}

enum gr_status gr_chunk_new(const struct gr_policy *p, struct gr_chunk **out, struct gr_err *err)
{
    if (p == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_chunk_new: policy and out must not be NULL");
    }
    struct gr_chunk *c = calloc(1, sizeof *c);
    size_t actions = (size_t)p->info.action_steps * (size_t)p->info.action_dim,
           normalized = (size_t)p->info.horizon * (size_t)p->info.max_action_dim;
    if (c != NULL) {
        c->actions = calloc(actions, sizeof(float));
        c->normalized = calloc(normalized, sizeof(float));
    }
    if (c == NULL || c->actions == NULL || c->normalized == NULL) {
        gr_chunk_free(c);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a chunk of %zu actions", actions);
    }
    c->steps = p->info.action_steps;
    c->dim = p->info.action_dim;
    c->horizon = p->info.horizon;
    c->max_action_dim = p->info.max_action_dim;
    *out = c;
    return GR_OK;
}

void gr_chunk_free(struct gr_chunk *c)
{
    if (c != NULL) {
        free(c->actions);
        free(c->normalized);
        free(c);
    }
}
