/* SPDX-License-Identifier: Apache-2.0
 *
 * check_case.c: taps are compared while they pass by, none is kept. A stored array that never arrives is a failure: a tap that
 * was renamed must not make a check greener. */
#include "cli/check_case.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "cli/chunk_out.h"
#include "cli/obs_files.h"
#include "formats/safetensors.h"
#include "policy/policy.h"

enum { JSON_MAX_BYTES = 16 << 20 };

/* Owned parts of a case. */
struct golden_case {
    struct gr_safetensors *inputs, *taps;
    struct gr_json *obs_json, *expected;
    struct gr_image image;
    struct gr_frame frame;
    double *state;
    float *noise, *actions;
    float *normalized; /* [horizon, max_action_dim]; NULL: not stored in that shape */
    struct gr_observation obs;
};

static bool is_exact(const struct gr_info *info) { return strcmp(info->precision, "exact") == 0; }

static void free_case(struct golden_case *c)
{
    gr_safetensors_close(c->inputs);
    gr_safetensors_close(c->taps);
    gr_json_free(c->obs_json);
    gr_json_free(c->expected);
    gr_image_free(&c->image);
    free(c->state);
    free(c->noise);
    free(c->actions);
    free(c->normalized);
}

/* A damaged case is a wrong input, whatever its reader calls it. */
static enum gr_status as_input(enum gr_status status, struct gr_err *err)
{
    if (status == GR_ERR_FORMAT) {
        err->code = status = GR_ERR_INPUT;
    }
    return status;
}

static enum gr_status open_tensors(const char *dir, const char *name, struct gr_safetensors **out, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, name, err));
    return as_input(gr_safetensors_open(path, out, err), err);
}

static enum gr_status open_json(const char *dir, const char *name, struct gr_json **out, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, name, err));
    return gr_json_read(path, JSON_MAX_BYTES, GR_ERR_INPUT, out, err);
}

static enum gr_status read_picture(const char *dir, const struct gr_info *info, struct golden_case *c,
                                   struct gr_err *err)
{
    const struct gr_json *name = gr_json_get(c->obs_json, "image");
    char path[GR_PATH_BYTES];
    if (info->n_cameras * info->frames_per_camera != 1) {
        return gr_fail(err, GR_ERR_INPUT, "%s: golden cases have one picture, the embodiment %s takes %d", dir,
                       info->embodiment, info->n_cameras * info->frames_per_camera);
    }
    if (name != NULL && gr_json_kind(name) != GR_JSON_STRING) {
        return gr_fail(err, GR_ERR_INPUT, "%s/obs.json: image is %s, expected the name of a file", dir,
                       gr_json_kind_name(gr_json_kind(name)));
    }
    GR_TRY(gr_path_join(path, dir, name != NULL ? gr_json_string(name) : "image.png", err));
    GR_TRY(gr_obs_image_read(path, &c->image, err));
    c->frame = (struct gr_frame){c->image.rgb, c->image.height, c->image.width};
    return GR_OK;
}

/* float32 when the case does not say. */
static enum gr_status read_dtype(const char *what, struct golden_case *c, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(c->obs_json, "state_dtype");
    const char *name = v == NULL                           ? "float32"
                       : gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v)
                                                           : gr_json_kind_name(gr_json_kind(v));
    if (strcmp(name, "float32") != 0 && strcmp(name, "float64") != 0) {
        return gr_fail(err, GR_ERR_INPUT, "%s: state_dtype is %.40s, expected \"float32\" or \"float64\"", what, name);
    }
    c->obs.state_dtype = strcmp(name, "float64") == 0 ? GR_STATE_F64 : GR_STATE_F32;
    return GR_OK;
}

/* A length that expected.json may leave out: then -1, and it is not compared. */
static enum gr_status read_length(const char *dir, const struct golden_case *c, const char *key, int *out,
                                  struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(c->expected, key);
    *out = -1;
    if (v == NULL) {
        return GR_OK;
    }
    if (gr_json_kind(v) != GR_JSON_INT || gr_json_int(v) < 0 || gr_json_int(v) > INT_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s/expected.json: %s must be a whole number", dir, key);
    }
    *out = (int)gr_json_int(v);
    return GR_OK;
}

/* "noise": "inputs.safetensors:noise" refers to a stored array; otherwise "seed". */
static enum gr_status read_noise(const char *dir, const struct gr_info *info, struct golden_case *c, struct gr_err *err)
{
    const struct gr_json *noise = gr_json_get(c->obs_json, "noise"), *seed = gr_json_get(c->obs_json, "seed");
    size_t count = (size_t)info->horizon * (size_t)info->max_action_dim;
    if (noise == NULL) {
        if (gr_json_kind(seed) != GR_JSON_INT || gr_json_int(seed) < 0) {
            return gr_fail(err, GR_ERR_INPUT, "%s/obs.json: needs \"seed\" (a whole number) or \"noise\"", dir);
        }
        c->obs.noise_kind = GR_NOISE_SEED;
        c->obs.seed = (uint64_t)gr_json_int(seed);
        return GR_OK;
    }
    const struct gr_tensor *t = gr_safetensors_find(c->inputs, "noise");
    if (gr_json_kind(noise) != GR_JSON_STRING || strcmp(gr_json_string(noise), "inputs.safetensors:noise") != 0 ||
        t == NULL) {
        return gr_fail(err, GR_ERR_INPUT,
                       "%s/obs.json: noise must be \"inputs.safetensors:noise\", and that array must exist", dir);
    }
    if (t->dtype != GR_F32 || t->bytes != count * sizeof(float)) {
        return gr_fail(err, GR_ERR_INPUT, "%s/inputs.safetensors: noise is %zu bytes of %s, expected %zu float32", dir,
                       t->bytes, gr_dtype_name(t->dtype), count);
    }
    c->noise = malloc(count * sizeof(float));
    if (c->noise == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the noise");
    }
    memcpy(c->noise, t->data, t->bytes);
    c->obs.noise_kind = GR_NOISE_GIVEN;
    c->obs.noise = c->noise;
    return GR_OK;
}

/* What the network itself must give. Bounds of taps do without it, the verdict on the actions does not. */
static enum gr_status read_normalized(const char *dir, const struct gr_info *info, struct golden_case *c,
                                      struct gr_err *err)
{
    const struct gr_tensor *t = gr_safetensors_find(c->taps, "action_pred");
    const size_t count = (size_t)info->horizon * (size_t)info->max_action_dim;
    const bool floats = t != NULL && (t->dtype == GR_F32 || t->dtype == GR_BF16 || t->dtype == GR_F16);
    if (!floats || t->bytes != count * gr_dtype_bytes(t->dtype)) {
        return is_exact(info) ? GR_OK
                              : gr_fail(err, GR_ERR_INPUT,
                                        "%s/taps_fp32.safetensors: the policy %s is judged by action_pred, "
                                        "which must be %d x %d floats",
                                        dir, info->precision, info->horizon, info->max_action_dim);
    }
    c->normalized = malloc(count * sizeof *c->normalized);
    if (c->normalized == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for action_pred");
    }
    for (size_t i = 0; i < count; i++) {
        c->normalized[i] = gr_tensor_f32(t, i);
    }
    return GR_OK;
}

static enum gr_status read_case(const char *dir, const struct gr_info *info, struct golden_case *c, struct gr_err *err)
{
    char what[GR_PATH_BYTES];
    GR_TRY(gr_path_join(what, dir, "obs.json", err));
    GR_TRY(open_json(dir, "obs.json", &c->obs_json, err));
    GR_TRY(open_json(dir, "expected.json", &c->expected, err));
    GR_TRY(open_tensors(dir, "inputs.safetensors", &c->inputs, err));
    GR_TRY(open_tensors(dir, "taps_fp32.safetensors", &c->taps, err));
    GR_TRY(read_picture(dir, info, c, err));
    c->state = calloc((size_t)info->state_dim + 1, sizeof *c->state);
    if (c->state == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the state");
    }
    GR_TRY(gr_obs_state_parse(gr_json_get(c->obs_json, "state"), what, info, c->state, err));
    GR_TRY(gr_golden_read(dir, info, &c->actions, err));
    GR_TRY(read_normalized(dir, info, c, err));
    const struct gr_json *text = gr_json_get(c->obs_json, "instruction");
    if (gr_json_kind(text) != GR_JSON_STRING) {
        return gr_fail(err, GR_ERR_INPUT, "%s: instruction must be a text", what);
    }
    GR_TRY(read_dtype(what, c, err));
    c->obs.frames = &c->frame;
    c->obs.n_frames = 1;
    c->obs.state = c->state;
    c->obs.state_dim = info->state_dim;
    c->obs.instruction = gr_json_string(text);
    return read_noise(dir, info, c, err);
}

/* Arrays of inputs.safetensors that the engine hands out. The last integer picture is compared through the pixel values. */
static const char *input_tap(const char *stored)
{
    static const char *const names[] = {"pixel_values", "input_ids", "state", "noise"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], stored) == 0) {
            return names[i];
        }
    }
    return strncmp(stored, "img.bicubic", 11) == 0 ? "pixel_values" : NULL;
}

static enum gr_status list_rows(const struct golden_case *c, struct gr_check_result *out, struct gr_err *err)
{
    size_t n_inputs = gr_safetensors_count(c->inputs), n_taps = gr_safetensors_count(c->taps);
    out->rows = calloc(n_inputs + n_taps + 1, sizeof *out->rows);
    if (out->rows == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu taps", n_taps);
    }
    for (size_t i = 0; i < n_inputs + n_taps; i++) {
        bool input = i < n_inputs;
        const struct gr_tensor *t = input ? gr_safetensors_at(c->inputs, i) : gr_safetensors_at(c->taps, i - n_inputs);
        if (input && input_tap(t->name) == NULL) {
            continue;
        }
        if (!input && t->dtype != GR_F32 && t->dtype != GR_BF16 && t->dtype != GR_F16) {
            return gr_fail(err, GR_ERR_INPUT, "tap %s is stored as %s, expected F32", t->name, gr_dtype_name(t->dtype));
        }
        struct gr_check_row *row = &out->rows[out->n++];
        snprintf(row->name, sizeof row->name, "%s", t->name);
        row->kind = input ? GR_CHECK_EQUAL : GR_CHECK_TAP;
        row->judged = input || !out->by_actions;
        row->stored = t;
    }
    struct gr_check_row *row = &out->rows[out->n++];
    snprintf(row->name, sizeof row->name, "actions");
    row->kind = GR_CHECK_ACTIONS;
    row->judged = true;
    return GR_OK;
}

static size_t tensor_count(const struct gr_tensor *t) { return t->bytes / gr_dtype_bytes(t->dtype); }

/* Element i of a stored array as float, in the order of the tap. Integer pictures [h, w, 3] become planes of pixel values. */
static float stored_value(const struct gr_tensor *t, size_t i)
{
    const unsigned char *data = t->data;
    size_t plane = tensor_count(t) / 3;
    int32_t id;
    switch (t->dtype) {
    case GR_U8:
        return ((float)data[(i % plane) * 3 + i / plane] - 127.5f) / 127.5f;
    case GR_I32:
        memcpy(&id, data + i * sizeof id, sizeof id);
        return (float)id;
    case GR_BF16:
    case GR_F16:
    case GR_F32:
        return gr_tensor_f32(t, i);
    default:
        return NAN;
    }
}

static double use_of_bound(const struct gr_check_row *row)
{
    switch (row->kind) {
    case GR_CHECK_EQUAL:
        return row->diff.max_abs == 0.0 ? 0.0 : INFINITY;
    case GR_CHECK_ACTIONS:
        return row->diff.max_abs / GR_CHECK_ACTION_MAX;
    case GR_CHECK_TAP:
        break;
    }
    double use = row->diff.rel_max / GR_CHECK_REL_MAX;
    return row->diff.has_pcc ? fmax(use, row->diff.rel_rms / GR_CHECK_REL_RMS)
                             : use; /* a constant array has no telling rms */
}

static void judge(struct gr_check_row *row, const float *data, int rows, int cols, int ld)
{
    const struct gr_tensor *t = row->stored;
    size_t count = (size_t)rows * (size_t)cols;
    row->arrived = true;
    row->rows = rows;
    row->cols = cols;
    row->load = INFINITY;
    float *want = count == tensor_count(t) ? malloc(count * sizeof *want + 1) : NULL;
    if (want == NULL) {
        return; /* another shape: a failure without figures */
    }
    for (size_t i = 0; i < count; i++) {
        want[i] = stored_value(t, i);
    }
    row->diff = gr_compare(data, ld, want, cols, rows, cols);
    row->load = row->judged ? use_of_bound(row) : 0.0;
    row->ok = row->load <= 1.0; /* false for NaN as well */
    free(want);
}

static void put_tap(void *user, const char *name, const float *data, int rows, int cols, int ld)
{
    struct gr_check_result *result = user;
    for (int i = 0; i < result->n; i++) {
        struct gr_check_row *row = &result->rows[i];
        const char *tap = row->kind == GR_CHECK_EQUAL ? input_tap(row->name) : row->name;
        if (row->kind != GR_CHECK_ACTIONS && strcmp(tap, name) == 0) {
            judge(row, data, rows, cols, ld);
        }
    }
}

static enum gr_status judge_actions(const struct gr_policy *policy, const struct golden_case *c,
                                    const struct gr_chunk *chunk, struct gr_check_result *out, struct gr_err *err)
{
    const struct gr_config *config = gr_policy_config(policy);
    const struct gr_info *info = gr_policy_info(policy);
    out->verdict = (struct gr_verdict){.pcc_slice = NAN};
    out->groups = calloc((size_t)info->n_action_groups, sizeof *out->groups);
    if (out->groups == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d groups", info->n_action_groups);
    }
    out->n_groups = info->n_action_groups;
    for (int g = 0; g < out->n_groups; g++) {
        out->groups[g].name = info->action_groups[g].name;
        out->groups[g].dim = info->action_groups[g].dim;
        gr_judge_group(config, g, c->actions, chunk->actions, &out->groups[g].verdict);
    }
    if (c->normalized != NULL) {
        gr_judge_chunks(config, c->actions, chunk->actions, c->normalized, chunk->normalized, GR_JUDGE_PCC,
                        &out->verdict);
    }
    return GR_OK;
}

/* partial: of a card, which does not compute everything that has a name: what it lacks is not judged. */
static void sum_up(const struct golden_case *c, const struct gr_chunk *chunk, bool partial, struct gr_check_result *out)
{
    struct gr_check_row *actions = &out->rows[out->n - 1];
    actions->arrived = true;
    actions->rows = chunk->steps;
    actions->cols = chunk->dim;
    actions->diff = gr_compare(chunk->actions, chunk->dim, c->actions, chunk->dim, chunk->steps, chunk->dim);
    actions->load = use_of_bound(actions);
    if (out->by_actions) {
        actions->load = out->verdict.pass ? fmin(1.0, (1.0 - out->verdict.pcc) / (1.0 - GR_JUDGE_PCC)) : INFINITY;
    }
    actions->ok = actions->load <= 1.0;
    double worst = -1.0;
    for (int i = 0; i < out->n; i++) {
        struct gr_check_row *row = &out->rows[i];
        if (partial && !row->judged && !row->arrived) {
            row->ok = true;
            continue;
        }
        double load = !row->arrived ? INFINITY : isnan(row->load) ? INFINITY : row->load;
        out->failed += !row->ok;
        if (load > worst) {
            worst = load;
            out->worst = i;
        }
    }
    out->n_tokens = chunk->n_tokens;
    out->n_text = chunk->n_text;
    bool lengths = (out->want_tokens < 0 || out->want_tokens == out->n_tokens) &&
                   (out->want_text < 0 || out->want_text == out->n_text);
    out->ok = out->failed == 0 && lengths;
}

enum gr_status gr_check_case(struct gr_policy *policy, const char *case_dir, struct gr_check_result *out,
                             struct gr_err *err)
{
    struct golden_case c = {0};
    struct gr_chunk *chunk = NULL;
    struct gr_tap_sink sink = {put_tap, out};
    *out = (struct gr_check_result){.by_actions = !is_exact(gr_policy_info(policy))};
    enum gr_status status = read_case(case_dir, gr_policy_info(policy), &c, err);
    if (status != GR_OK || (status = read_length(case_dir, &c, "seq_len", &out->want_tokens, err)) != GR_OK ||
        (status = read_length(case_dir, &c, "n_text", &out->want_text, err)) != GR_OK ||
        (status = list_rows(&c, out, err)) != GR_OK || (status = gr_chunk_new(policy, &chunk, err)) != GR_OK) {
        goto out;
    }
    double start = gr_clock_ms();
    if ((status = gr_policy_predict_taps(policy, &c.obs, chunk, &sink, err)) != GR_OK) {
        goto out;
    }
    out->ms = gr_clock_ms() - start;
    if ((status = judge_actions(policy, &c, chunk, out, err)) != GR_OK) {
        goto out;
    }
    sum_up(&c, chunk, gr_policy_info(policy)->card != NULL, out);
out:
    for (int i = 0; i < out->n; i++) {
        out->rows[i].stored = NULL;
    }
    gr_chunk_free(chunk);
    free_case(&c);
    return status;
}

void gr_check_result_free(struct gr_check_result *result)
{
    free(result->rows);
    free(result->groups);
    *result = (struct gr_check_result){0};
}
