/* SPDX-License-Identifier: Apache-2.0
 *
 * reply.c: writes the replies of POST /predict. Values are checked before the first byte: a reply is whole or is not there.
 * The order of the fields is part of the contract. */
#include "server/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonout.h"

enum { KEY_BYTES = 128, INDEX_DIGITS = 9 };

/* ---- Chunk. */

static bool all_finite(const float *v, size_t n, size_t *bad)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            *bad = i;
            return false;
        }
    }
    return true;
}

static enum gr_status check_values(const struct gr_reply_view *v, struct gr_err *err)
{
    const struct gr_chunk *c = v->chunk;
    size_t bad = 0, dim = (size_t)c->dim, width = (size_t)c->max_action_dim;
    if (!all_finite(c->actions, (size_t)c->steps * dim, &bad)) {
        return gr_fail(err, GR_ERR_DEVICE, "non-finite action at step %zu, dimension %zu", bad / dim, bad % dim);
    }
    if (v->return_normalized && !all_finite(c->normalized, (size_t)c->horizon * width, &bad)) {
        return gr_fail(err, GR_ERR_DEVICE, "non-finite action at row %zu, column %zu of the normalized chunk",
                       bad / width, bad % width);
    }
    return GR_OK;
}

static void put_actions(struct gr_jw *w, const struct gr_reply_view *v)
{
    const struct gr_info *info = v->info;
    gr_jw_put_object(w, "actions");
    for (int g = 0, first = 0; g < info->n_action_groups; first += info->action_groups[g].dim, g++) {
        gr_jw_key(w, info->action_groups[g].name);
        gr_jw_f32_rows(w, v->chunk->actions + first, v->chunk->steps, info->action_groups[g].dim, v->chunk->dim);
    }
    gr_jw_end_object(w);
    gr_jw_put_int(w, "action_horizon", v->chunk->steps);
    gr_jw_put_array(w, "action_keys");
    for (int g = 0; g < info->n_action_groups; g++) {
        gr_jw_string(w, info->action_groups[g].name);
    }
    gr_jw_end_array(w);
    gr_jw_put_object(w, "action_dims");
    for (int g = 0; g < info->n_action_groups; g++) {
        gr_jw_put_int(w, info->action_groups[g].name, info->action_groups[g].dim);
    }
    gr_jw_end_object(w);
}

static void put_model(struct gr_jw *w, const struct gr_reply_view *v)
{
    gr_jw_put_bool(w, "normalized", false);
    gr_jw_put_string(w, "embodiment", v->info->embodiment);
    gr_jw_put_int(w, "embodiment_id", v->info->embodiment_slot);
    gr_jw_put_string(w, "version", v->version);
    gr_jw_put_string(w, "model", v->model);
    if (v->layout != NULL) {
        gr_jw_put_string(w, "layout", v->layout);
    }
}

static void put_images(struct gr_jw *w, const struct gr_reply_view *v)
{
    gr_jw_put_object(w, "images");
    for (int c = 0; c < v->info->n_cameras; c++) {
        gr_jw_put_object(w, v->info->cameras[c]);
        gr_jw_put_int(w, "frames", v->info->frames_per_camera);
        gr_jw_put_array(w, "received_hw");
        gr_jw_int(w, v->obs->frames[c].height);
        gr_jw_int(w, v->obs->frames[c].width);
        gr_jw_end_array(w);
        for (int i = c; v->images != NULL && i < v->obs->n_frames; i += v->info->n_cameras) {
            if (v->images[i].exif_orientation > 1) { /* never applied, but never kept quiet either */
                gr_jw_put_int(w, "exif_orientation", v->images[i].exif_orientation);
                break;
            }
        }
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
}

static void put_inputs(struct gr_jw *w, const struct gr_reply_view *v)
{
    const struct gr_observation *obs = v->obs;
    gr_jw_put_int(w, "seq_len", v->chunk->n_tokens);
    gr_jw_put_int(w, "prompt_tokens", v->chunk->n_text);
    gr_jw_put_string(w, "state_dtype", obs->state_dtype == GR_STATE_F64 ? "float64" : "float32");
    gr_jw_put_string(w, "noise_source", obs->noise_kind == GR_NOISE_SEED ? "seed" : "request");
    gr_jw_key(w, "seed");
    if (obs->noise_kind == GR_NOISE_SEED) {
        gr_jw_u64(w, obs->seed);
    } else {
        gr_jw_null(w);
    }
}

static void put_timing(struct gr_jw *w, const struct gr_reply_view *v)
{
    const struct gr_timing *t = &v->chunk->timing;
    const struct {
        const char *key;
        double ms;
    } rows[] = {{"decode", v->decode_ms},
                {"queue", v->queue_ms},
                {"encode", t->encode},
                {"device", t->device},
                {"decode_actions", t->decode_actions},
                {"total", v->total_ms}};
    gr_jw_put_object(w, "timing_ms");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].ms >= 0.0) {
            gr_jw_put_milli(w, rows[i].key, rows[i].ms);
        }
    }
    gr_jw_end_object(w);
}

enum gr_status gr_reply_chunk(const struct gr_reply_view *v, bool compact, struct gr_buf *out, struct gr_err *err)
{
    GR_TRY(check_values(v, err));
    struct gr_jw w = {.out = out, .compact = compact};
    const struct gr_chunk *c = v->chunk;
    gr_jw_object(&w);
    put_actions(&w, v);
    put_model(&w, v);
    put_images(&w, v);
    put_inputs(&w, v);
    put_timing(&w, v);
    if (v->return_normalized) {
        gr_jw_key(&w, "action_pred_normalized");
        gr_jw_f32_rows(&w, c->normalized, c->horizon, c->max_action_dim, c->max_action_dim);
        gr_jw_key(&w, "action_pred_valid_hd");
        gr_jw_f32_rows(&w, c->normalized, c->steps, c->dim, c->max_action_dim);
    }
    gr_jw_end_object(&w);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the reply") : GR_OK;
}

/* ---- Errors. */

/* "state.left_arm[3]" as "body", "state", "left_arm", 3. A name that holds a dot or a bracket of its own comes out in pieces. */
static void put_location(struct gr_jw *w, const char *field)
{
    gr_jw_array(w);
    gr_jw_string(w, "body");
    for (const char *p = field; *p != '\0';) {
        size_t digits = *p == '[' ? strspn(p + 1, "0123456789") : 0;
        if (digits > 0 && digits <= INDEX_DIGITS && p[1 + digits] == ']') {
            gr_jw_u64(w, strtoul(p + 1, NULL, 10));
            p += digits + 2;
            p += *p == '.';
            continue;
        }
        char key[KEY_BYTES];
        size_t n = strcspn(p + 1, ".[") + 1, kept = n < sizeof key ? n : sizeof key - 1;
        memcpy(key, p, kept);
        key[kept] = '\0';
        gr_jw_string(w, key);
        p += n;
        p += *p == '.';
    }
    gr_jw_end_array(w);
}

/* The words of pydantic where it has one. */
static const char *fastapi_type(const char *code)
{
    static const char *const rows[][2] = {
        {"invalid_json", "json_invalid"}, {"missing_field", "missing"}, {"unknown_field", "extra_forbidden"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(code, rows[i][0]) == 0) {
            return rows[i][1];
        }
    }
    return code;
}

static void put_detail(struct gr_jw *w, const char *code, const char *message, const char *field)
{
    gr_jw_array(w);
    gr_jw_object(w);
    gr_jw_put_string(w, "type", fastapi_type(code));
    gr_jw_key(w, "loc");
    put_location(w, field);
    gr_jw_put_string(w, "msg", message);
    gr_jw_key(w, "input");
    gr_jw_null(w);
    gr_jw_end_object(w);
    gr_jw_end_array(w);
}

void gr_reply_error(int http_status, const char *code, const char *message, const char *field, struct gr_buf *out)
{
    struct gr_jw w = {.out = out, .compact = true};
    field = field == NULL ? "" : field;
    gr_jw_object(&w);
    gr_jw_put_object(&w, "error");
    gr_jw_put_string(&w, "code", code);
    gr_jw_put_string(&w, "message", message);
    gr_jw_put_string(&w, "field", field[0] != '\0' ? field : NULL);
    gr_jw_end_object(&w);
    gr_jw_key(&w, "detail");
    if (http_status == 422) {
        put_detail(&w, code, message, field);
    } else {
        gr_jw_string(&w, message);
    }
    gr_jw_end_object(&w);
}

int gr_reply_http_status(enum gr_status status)
{
    switch (status) {
    case GR_OK:
        return 200;
    case GR_ERR_INPUT:
        return 400;
    case GR_ERR_SCHEMA:
        return 422;
    case GR_ERR_BUSY:
        return 503;
    default:
        return 500;
    }
}
