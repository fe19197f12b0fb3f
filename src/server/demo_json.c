/* SPDX-License-Identifier: Apache-2.0
 *
 * demo_json.c: GET /demo: a request that can be posted as it is, and the chunk that it should give. The picture is the file itself, so that
 * the whole way of a request is tried, and numbers are printed so that they read back bit by bit. */
#include "server/info.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/jsonout.h"
#include "server/info_parts.h"

static enum gr_status picture(struct gr_jw *w, const struct gr_demo_picture *p, struct gr_err *err)
{
    const size_t n = gr_base64_length(p->n_bytes);
    char *text = malloc(n + 1);
    if (text == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a demo picture of %zu characters", n);
    }
    gr_base64_encode(p->png, p->n_bytes, text);
    text[n] = '\0';
    gr_jw_string(w, text);
    free(text);
    return GR_OK;
}

/* One file for each camera, or its list of frames, oldest first; the demo has them time-major. */
static enum gr_status images(struct gr_jw *w, const struct gr_info *info, const struct gr_demo *demo,
                             struct gr_err *err)
{
    gr_jw_put_object(w, "images");
    for (int c = 0; c < info->n_cameras; c++) {
        gr_jw_key(w, info->cameras[c]);
        if (info->frames_per_camera > 1) {
            gr_jw_array(w);
        }
        for (int t = 0; t < info->frames_per_camera; t++) {
            GR_TRY(picture(w, &demo->pictures[t * info->n_cameras + c], err));
        }
        if (info->frames_per_camera > 1) {
            gr_jw_end_array(w);
        }
    }
    gr_jw_end_object(w);
    return GR_OK;
}

static enum gr_status request(struct gr_jw *w, const struct gr_info *info, const struct gr_demo *demo,
                              struct gr_err *err)
{
    const struct gr_observation *obs = &demo->obs;
    const bool is_f64 = obs->state_dtype == GR_STATE_F64;
    gr_jw_put_object(w, "request");
    GR_TRY(images(w, info, demo, err));
    gr_jw_put_object(w, "state");
    int at = 0;
    for (int g = 0; g < info->n_state_groups; g++) {
        gr_jw_put_array(w, info->state_groups[g].name);
        for (int i = 0; i < info->state_groups[g].dim; i++, at++) {
            if (is_f64) {
                gr_jw_f64(w, obs->state[at]);
            } else {
                gr_jw_f32(w, (float)obs->state[at]);
            }
        }
        gr_jw_end_array(w);
    }
    gr_jw_end_object(w);
    if (is_f64) {
        gr_jw_put_string(w, "state_dtype", "float64");
    }
    gr_jw_put_string(w, "instruction", obs->instruction);
    gr_jw_put_u64(w, "seed", obs->seed);
    gr_jw_end_object(w);
    return GR_OK;
}

static void expected(struct gr_jw *w, const struct gr_info *info, const struct gr_selfcheck *check)
{
    gr_jw_put_object(w, "expected");
    gr_jw_put_object(w, "actions");
    int at = 0;
    for (int g = 0; g < info->n_action_groups; g++) {
        gr_jw_key(w, info->action_groups[g].name);
        gr_jw_f32_rows(w, check->golden_actions + at, info->action_steps, info->action_groups[g].dim, info->action_dim);
        at += info->action_groups[g].dim;
    }
    gr_jw_end_object(w);
    gr_jw_key(w, "action_pred_normalized");
    gr_jw_f32_rows(w, check->golden_normalized, info->horizon, info->max_action_dim, info->max_action_dim);
    gr_jw_put_object(w, "gates");
    gr_jw_put_f64(w, "pcc_actions_min", check->pcc_min);
    gr_jw_key(w, "max_abs_repeat");
    gr_jw_raw(w, "0.0");
    gr_jw_end_object(w);
    gr_jw_put_string(w, "source", gr_golden_source_name(check->source));
    gr_jw_end_object(w);
}

enum gr_status gr_demo_json(const struct gr_boot_facts *facts, struct gr_buf *out, struct gr_err *err)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    GR_TRY(request(&w, info, facts->demo, err));
    expected(&w, info, facts->check);
    gr_jw_end_object(&w);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the text of /demo") : GR_OK;
}
