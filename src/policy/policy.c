/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.c: observation to chunk. Opens the parts of a snapshot in order of cost, so that a wrong flag or a damaged side file
 * is reported before gigabytes are packed, and runs a request through them in one direction. */
#include "policy/policy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fs.h"
#include "model/actions.h"
#include "model/tokenizer.h"
#include "policy/encode.h"
#include "policy/judge.h"
#include "policy/reference.h"

struct gr_policy {
    struct gr_config *config;
    struct gr_snapshot *snapshot;
    struct gr_dims dims;
    struct gr_tokenizer *tokenizer;
    struct gr_encoder encoder;
    pthread_mutex_t encode_lock; /* the encoder has one scratch; a predict of what is encoded does not need it */
    bool have_lock;
    const struct gr_device_ops *ops;
    struct gr_device *device;
    unsigned cpu_flags;
    struct gr_info info;
    char calibration_digest[GR_DIGEST_HEX_BYTES]; /* of what else than weights a choice of formats depends on */
    struct gr_group *groups;                      /* state groups, then action groups */
    struct gr_encoded *request;                   /* of gr_policy_predict */
    float *ids_tap;                               /* [max tokens] */
    gr_next_fn next;                              /* of gr_policy_set_next */
    void *next_user;
    _Atomic bool cancel;
};

const char *gr_version(void) { return GR00T_VERSION; }

const struct gr_info *gr_policy_info(const struct gr_policy *p) { return &p->info; }

const struct gr_config *gr_policy_config(const struct gr_policy *p) { return p->config; }

const struct gr_dims *gr_policy_dims(const struct gr_policy *p) { return &p->dims; }

bool gr_progress_counts(const char *what)
{
    return strcmp(what, "calibrate") == 0 || strcmp(what, "try a policy") == 0;
}

const struct gr_plan *gr_policy_plan(const struct gr_policy *p)
{
    return p->ops->plan != NULL ? p->ops->plan(p->device) : NULL;
}

/* ---- open and close ---- */

/* Names of the ladder from exact to fast, without "auto". */
static const char *const ladder[] = {"exact", "high", "balanced", "fast", "mixed", "fastest"};
static const char *const halves[] = {"f16", "bf16p", "i16"};

/* "auto" for what means it; NULL: no such name. */
static const char *ladder_name(const char *asked)
{
    if (asked == NULL || strcmp(asked, "auto") == 0 || strcmp(asked, "mixed_dit") == 0) {
        return "auto";
    }
    for (size_t i = 0; i < sizeof ladder / sizeof ladder[0]; i++) {
        if (strcmp(asked, ladder[i]) == 0) {
            return ladder[i];
        }
    }
    return NULL;
}

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
    struct gr_encoder *enc = &p->encoder;
    enc->config = p->config;
    enc->n_images = e->n_cameras * e->frames_per_camera;
    int max_text = o->max_text_tokens > 0 ? o->max_text_tokens : p->ops->text_tokens;
    GR_TRY(gr_prompt_new(p->tokenizer, enc->n_images, p->config->dims.vit.tokens, max_text,
                         p->config->formalize_language, &enc->prompt, err));
    if (gr_prompt_max_tokens(enc->prompt) > GR_MAX_POSITIONS) {
        return gr_fail(err, GR_ERR_USAGE, "%d images and %d text tokens make %d positions, the language model has %d",
                       enc->n_images, max_text, gr_prompt_max_tokens(enc->prompt), GR_MAX_POSITIONS);
    }
    p->info.max_text_tokens = max_text;
    return GR_OK;
}

/* Embeddings are padded by some hundred rows, never doubled: another vocabulary would give other words their rows. */
static enum gr_status check_vocabulary(const struct gr_policy *p, struct gr_err *err)
{
    const int32_t largest = gr_tokenizer_size(p->tokenizer) - 1, rows = p->dims.llm.vocab;
    if (largest >= rows || largest + 1 < rows / 2) {
        return gr_fail(
            err, GR_ERR_FORMAT,
            "the tokenizer has ids up to %d, the snapshot's token embedding %d rows: they do not belong together",
            largest, rows);
    }
    return GR_OK;
}

/* What the options alone say. */
static struct gr_device_cfg asked_device(const struct gr_options *o)
{
    return (struct gr_device_cfg){.threads = o->threads > 0 ? o->threads : gr_cpu_count(),
                                  .cache_dir = o->cache_dir,
                                  .policy = ladder_name(o->precision),
                                  .half = o->half,
                                  .remeasure = o->remeasure,
                                  .no_prefix_cache = o->no_prefix_cache,
                                  .progress = o->progress,
                                  .progress_user = o->progress_user,
                                  .card = o->card,
                                  .simulator = o->simulator,
                                  .arena = o->arena,
                                  .dit_backend = o->dit_backend,
                                  .command_queues = o->command_queues};
}

static struct gr_device_cfg device_cfg(const struct gr_policy *p, const struct gr_options *o)
{
    struct gr_device_cfg cfg = asked_device(o);
    cfg.cpu_flags = p->cpu_flags;
    cfg.max_images = p->encoder.n_images;
    cfg.max_tokens = gr_prompt_max_tokens(p->encoder.prompt);
    cfg.slot = p->config->emb.slot;
    cfg.image_token = gr_prompt_image_token(p->encoder.prompt);
    cfg.weights_digest = p->info.weights_digest;
    cfg.weights_content = p->info.weights_content;
    cfg.calibration_digest = p->calibration_digest;
    return cfg;
}

static enum gr_status open_device(struct gr_policy *p, const struct gr_weights *w, const struct gr_options *o,
                                  struct gr_err *err)
{
    const struct gr_device_cfg cfg = device_cfg(p, o);
    GR_TRY(p->ops->open(&cfg, &p->device, err));
    p->info.threads = cfg.threads;
    struct gr_judge judge = {.encoder = &p->encoder, .cancel = &p->cancel};
    const struct gr_calibration calibration = gr_judge_calibration(&judge);
    enum gr_status status = p->ops->load(p->device, w, strcmp(cfg.policy, "exact") != 0 ? &calibration : NULL, err);
    gr_judge_free(&judge);
    return status;
}

static enum gr_status make_buffers(struct gr_policy *p, struct gr_err *err)
{
    p->encoder.dims = &p->dims;
    p->encoder.cancel = &p->cancel;
    p->have_lock = pthread_mutex_init(&p->encode_lock, NULL) == 0;
    p->ids_tap = malloc((size_t)gr_prompt_max_tokens(p->encoder.prompt) * sizeof(float));
    if (p->ids_tap == NULL || !p->have_lock) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the buffers of a request");
    }
    GR_TRY(gr_encoder_init(&p->encoder, err));
    return gr_policy_encoded_new(p, &p->request, err);
}

/* What was chosen, and how good it is. */
static void plan_info(struct gr_policy *p)
{
    static const struct gr_plan exact = {.asked = "exact", .policy = "exact", .step = "exact"};
    const struct gr_plan *plan = gr_policy_plan(p) != NULL ? gr_policy_plan(p) : &exact;
    struct gr_info *info = &p->info;
    info->precision_asked = plan->asked;
    info->precision = plan->policy;
    info->precision_step = plan->step;
    info->half = plan->half;
    if (info->card != NULL) {
        info->precision_asked = "auto";
        info->precision = info->precision_step = info->card->arena;
    }
    if (strcmp(plan->policy, "exact") == 0 || plan->n_tries == 0) {
        return;
    }
    _Static_assert(sizeof info->fidelity / sizeof info->fidelity[0] == GR_PLAN_OBSERVATIONS, "as gr00t.h says");
    const struct gr_plan_try *chosen = &plan->tries[plan->n_tries - 1];
    info->n_fidelity = chosen->judged;
    for (int i = 0; i < chosen->judged; i++) {
        const struct gr_verdict *v = &chosen->verdict[i];
        info->fidelity[i] = (struct gr_fidelity){.gate = gr_plan_gates(i),
                                                 .pcc = v->pcc,
                                                 .pcc_slice = v->pcc_slice,
                                                 .max_abs = v->max_abs,
                                                 .worst_pcc = v->worst_pcc,
                                                 .worst_group = v->worst_group,
                                                 .pass = v->pass};
    }
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
    info->card = p->ops->card != NULL ? p->ops->card(p->device) : NULL;
    info->weight_bytes = p->ops->weight_bytes(p->device);
    struct gr_device_cache cache = p->ops->cache(p->device);
    info->cache = cache.state;
    info->cache_file = cache.file;
    info->cache_note = cache.note;
    plan_info(p);
    return GR_OK;
}

enum gr_status gr_policy_check_formats(const char *precision, const char *half, struct gr_err *err)
{
    if (ladder_name(precision) == NULL) {
        return gr_fail(err, GR_ERR_USAGE,
                       "policy \"%.80s\" is unknown, expected auto, exact, high, balanced, fast, mixed or fastest",
                       precision);
    }
    bool known = half == NULL;
    for (size_t i = 0; !known && i < sizeof halves / sizeof halves[0]; i++) {
        known = strcmp(half, halves[i]) == 0;
    }
    return known ? GR_OK
                 : gr_fail(err, GR_ERR_USAGE, "16-bit format \"%.80s\" is unknown, expected f16, bf16p or i16", half);
}

static enum gr_status check_options(struct gr_policy *p, const struct gr_options *o, struct gr_err *err)
{
    const char *device = o->device != NULL ? o->device : "cpu";
    p->ops = gr_device_find(device);
    if (p->ops == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "device \"%s\" is unknown, this build has: %s", device, gr_device_names);
    }
    GR_TRY(gr_policy_check_formats(o->precision, o->half, err));
    if (o->threads < 0 || o->max_text_tokens < 0) {
        return gr_fail(err, GR_ERR_USAGE, "threads and max_text_tokens must not be negative, found %d and %d",
                       o->threads, o->max_text_tokens);
    }
    p->cpu_flags = gr_cpu_detect();
    return gr_cpu_mask(o->cpu, &p->cpu_flags, err);
}

/* Everything before the device. Free *w also on failure; NULL then when there is none. */
static enum gr_status open_files(struct gr_policy *p, const char *dir, const struct gr_options *o,
                                 struct gr_weights **w, struct gr_err *err)
{
    GR_TRY(gr_config_open(dir, o->embodiment != NULL ? o->embodiment : "gr1", &p->config, err));
    GR_TRY(open_tokenizer(p, dir, o, err));
    GR_TRY(gr_preprocess_new(p->config->shortest_image_edge, p->config->crop_fraction, &p->encoder.preprocess, err));
    GR_TRY(gr_snapshot_open(dir, &p->snapshot, err));
    GR_TRY(gr_weights_open(p->snapshot, p->config, NULL, NULL, w, err));
    p->dims = (*w)->dims;
    for (size_t i = 0; i < gr_snapshot_count(p->snapshot); i++) {
        const struct gr_tensor *t = gr_snapshot_at(p->snapshot, i);
        const bool used = gr_weights_uses(*w, t->name);
        p->info.n_tensors += used;
        p->info.n_skipped += !used;
        p->info.skipped_bytes += used ? 0 : t->bytes;
    }
    p->info.tensor_bytes = gr_snapshot_bytes(p->snapshot);
    GR_TRY(gr_snapshot_digest(p->snapshot, p->info.weights_digest, err));
    if (o->cache_dir != NULL) {
        const int threads = o->threads > 0 ? o->threads : gr_cpu_count();
        GR_TRY(gr_snapshot_content(p->snapshot, o->cache_dir, threads, p->info.weights_content, err));
    }
    GR_TRY(check_vocabulary(p, err));
    return gr_judge_digest(&p->encoder, p->calibration_digest, err);
}

static enum gr_status open_parts(struct gr_policy *p, const char *dir, const struct gr_options *o, struct gr_err *err)
{
    struct gr_weights *w = NULL;
    GR_TRY(check_options(p, o, err));
    const struct gr_device_cfg asked = asked_device(o);
    GR_TRY(p->ops->probe != NULL ? p->ops->probe(&asked, err) : GR_OK);
    enum gr_status status = open_files(p, dir, o, &w, err);
    if (status == GR_OK && (status = make_buffers(p, err)) == GR_OK) {
        status = open_device(p, w, o, err);
    }
    gr_weights_free(w);
    GR_TRY(status);
    return make_info(p, err);
}

enum gr_status gr_policy_find_plan(const char *dir, const struct gr_options *o, struct gr_plan *out, struct gr_err *err)
{
    struct gr_weights *w = NULL;
    struct gr_policy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a policy");
    }
    enum gr_status status = check_options(p, o, err);
    if (status == GR_OK && (o->cache_dir == NULL || !gr_fs_is_dir(o->cache_dir) || p->ops->find_plan == NULL)) {
        status = gr_fail(err, GR_ERR_IO, "no cache folder, or a device that chooses no number formats");
    }
    if (status == GR_OK && (status = open_files(p, dir, o, &w, err)) == GR_OK) {
        const struct gr_device_cfg cfg = device_cfg(p, o);
        status = p->ops->find_plan(&cfg, &p->dims, out, err);
    }
    gr_weights_free(w);
    gr_policy_close(p);
    return status;
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
    gr_encoded_free(p->request);
    gr_encoder_free(&p->encoder);
    gr_tokenizer_close(p->tokenizer);
    gr_config_free(p->config);
    if (p->have_lock) {
        (void)pthread_mutex_destroy(&p->encode_lock);
    }
    free(p->groups);
    free(p->ids_tap);
    free(p);
}

/* ---- predict ---- */

/* What makes the call itself wrong, whatever is observed. */
static enum gr_status check_chunk(const struct gr_policy *p, const struct gr_chunk *out, struct gr_err *err)
{
    if (out->steps != p->info.action_steps || out->dim != p->info.action_dim || out->horizon != p->info.horizon ||
        out->max_action_dim != p->info.max_action_dim) {
        return gr_fail(err, GR_ERR_USAGE,
                       "the chunk is for %d x %d actions, this policy has %d x %d: use its own gr_chunk_new",
                       out->steps, out->dim, p->info.action_steps, p->info.action_dim);
    }
    return GR_OK;
}

static enum gr_status check_observation(const struct gr_observation *obs, struct gr_err *err)
{
    if ((obs->noise_kind != GR_NOISE_SEED && obs->noise_kind != GR_NOISE_GIVEN) ||
        (obs->state_dtype != GR_STATE_F32 && obs->state_dtype != GR_STATE_F64)) {
        return gr_fail(err, GR_ERR_USAGE, "noise_kind %d or state_dtype %d is unknown", (int)obs->noise_kind,
                       (int)obs->state_dtype);
    }
    return GR_OK;
}

enum gr_status gr_policy_encoded_new(const struct gr_policy *p, struct gr_encoded **out, struct gr_err *err)
{
    if (p == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_policy_encoded_new: policy and out must not be NULL");
    }
    GR_TRY(gr_encoder_space(&p->encoder, out, err));
    (*out)->policy = p;
    return GR_OK;
}

enum gr_status gr_policy_encode(struct gr_policy *p, const struct gr_observation *obs, struct gr_encoded *out,
                                struct gr_err *err)
{
    if (p == NULL || obs == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_policy_encode: policy, observation and request must not be NULL");
    }
    if (out->policy != p) {
        return gr_fail(err, GR_ERR_USAGE, "the request belongs to another policy: use its own gr_policy_encoded_new");
    }
    GR_TRY(check_observation(obs, err));
    (void)pthread_mutex_lock(&p->encode_lock);
    enum gr_status status = gr_encoder_run(&p->encoder, obs, out, err);
    (void)pthread_mutex_unlock(&p->encode_lock);
    return status;
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

/* On the reference path of the device, or of the CPU when it has none. */
static enum gr_status reference_network(struct gr_policy *p, const struct gr_model_input *in, struct gr_chunk *out,
                                        const char **kernels, struct gr_err *err)
{
    if (p->ops->reference_isa != NULL) {
        *kernels = p->ops->reference_isa(p->device);
        return p->ops->predict(p->device, in, out->normalized, &out->timing, NULL, err);
    }
    const struct gr_reference r = {.snapshot = p->snapshot,
                                   .config = p->config,
                                   .device = {.threads = p->info.threads,
                                              .cpu_flags = p->cpu_flags,
                                              .max_images = p->encoder.n_images,
                                              .max_tokens = gr_prompt_max_tokens(p->encoder.prompt),
                                              .slot = p->config->emb.slot,
                                              .image_token = gr_prompt_image_token(p->encoder.prompt)}};
    return gr_reference_predict(&r, in, out->normalized, &out->timing, kernels, err);
}

/* reference: NULL, or on the reference path, whose kernels it then names. */
static enum gr_status compute(struct gr_policy *p, const struct gr_encoded *r, struct gr_chunk *out,
                              const struct gr_tap_sink *taps, const char **reference, struct gr_err *err)
{
    struct gr_model_input in = gr_encoded_input(r, &p->cancel);
    struct gr_timing *time = &out->timing;
    const double start = gr_clock_ms();
    time->encode = r->ms;
    in.reference = reference != NULL;
    out->n_tokens = r->n_tokens;
    out->n_text = r->n_text;
    if (taps != NULL) {
        put_inputs(p, &in, taps);
    }
    if (reference != NULL) {
        GR_TRY(reference_network(p, &in, out, reference, err));
    } else {
        GR_TRY(p->ops->predict(p->device, &in, out->normalized, time, taps, err));
    }
    const double decode = gr_clock_ms();
    GR_TRY(gr_actions_decode(p->config, out->normalized, r->raw_state, r->state_f64, out->actions, err));
    const double end = gr_clock_ms();
    time->decode_actions = end - decode;
    time->total = r->ms + end - start;
    return GR_OK;
}

static enum gr_status predict(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                              const struct gr_tap_sink *taps, const char **reference, struct gr_err *err)
{
    if (p == NULL || obs == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_policy_predict: policy, observation and chunk must not be NULL");
    }
    GR_TRY(check_chunk(p, out, err));
    GR_TRY(gr_policy_encode(p, obs, p->request, err));
    return compute(p, p->request, out, taps, reference, err);
}

enum gr_status gr_policy_predict_encoded(struct gr_policy *p, const struct gr_encoded *in, struct gr_chunk *out,
                                         struct gr_err *err)
{
    if (p == NULL || in == NULL || out == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "gr_policy_predict_encoded: policy, request and chunk must not be NULL");
    }
    if (in->policy != p || in->serial == 0) {
        return gr_fail(err, GR_ERR_USAGE, "the request is %s",
                       in->policy != p ? "another policy's" : "empty: gr_policy_encode has not filled it");
    }
    GR_TRY(check_chunk(p, out, err));
    return compute(p, in, out, NULL, NULL, err);
}

enum gr_status gr_policy_predict_taps(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                      const struct gr_tap_sink *taps, struct gr_err *err)
{
    return predict(p, obs, out, taps, NULL, err);
}

enum gr_status gr_policy_predict(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                 struct gr_err *err)
{
    return predict(p, obs, out, NULL, NULL, err);
}

enum gr_status gr_policy_predict_reference(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                           const char **kernels, struct gr_err *err)
{
    return predict(p, obs, out, NULL, kernels, err);
}

/* What the device asks. */
static bool next_input(void *user, struct gr_model_input *in)
{
    const struct gr_policy *p = user;
    const struct gr_encoded *next = p->next(p->next_user);
    const bool known = next != NULL && next->policy == p && next->serial != 0;
    if (known) {
        *in = gr_encoded_input(next, &p->cancel);
    }
    return known;
}

void gr_policy_set_next(struct gr_policy *p, gr_next_fn next, void *user)
{
    if (p->ops->set_next != NULL) {
        p->next = next;
        p->next_user = user;
        p->ops->set_next(p->device, next != NULL ? next_input : NULL, p);
    }
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
