/* SPDX-License-Identifier: Apache-2.0
 *
 * demo.c: the demo observation. In: what an open policy expects. Out: the built-in recording when its camera and groups are that
 * policy's, else a made-up observation whose pictures are written as PNG, so that a client can post what is handed out. */
#include "policy/demo.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "formats/png.h"
#include "model/embedded.h"
#include "policy/observation.h"
#include "policy/policy.h"

/* Camera of the recording; data/README.md. */
static const char demo_camera[] = "ego_view_bg_crop_pad_res256_freq20";

struct memory {
    struct gr_sample sample; /* made up */
    struct gr_image image;   /* recorded */
    struct gr_frame frame;
    double *state;
    char *instruction;
    uint8_t **png; /* [n_frames], owned; NULL: the built-in file */
    int n_png;
};

/* Fills state when the groups of the recording are those of the policy: same names, same widths. */
static bool state_fits(const struct gr_json *root, const struct gr_info *info, double *state)
{
    if (gr_json_len(root) != (size_t)info->n_state_groups) {
        return false;
    }
    for (int g = 0; g < info->n_state_groups; g++) {
        const struct gr_json *row = gr_json_get(root, info->state_groups[g].name);
        if (gr_json_len(row) != (size_t)info->state_groups[g].dim) {
            return false;
        }
        for (size_t i = 0; i < gr_json_len(row); i++) {
            *state++ = gr_json_number(gr_json_at(row, i));
        }
    }
    return true;
}

static enum gr_status take_recording(struct memory *m, struct gr_demo *out, struct gr_err *err)
{
    out->pictures[0] = (struct gr_demo_picture){gr_embed_demo_frame, gr_embed_demo_frame_size};
    GR_TRY(gr_image_decode(gr_embed_demo_frame, gr_embed_demo_frame_size, &m->image, err));
    m->frame = (struct gr_frame){m->image.rgb, m->image.height, m->image.width};
    size_t n = gr_embed_demo_instruction_size;
    while (n > 0 && strchr(" \r\n", gr_embed_demo_instruction[n - 1]) != NULL) {
        n--;
    }
    m->instruction = strndup((const char *)gr_embed_demo_instruction, n);
    if (m->instruction == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the demo observation");
    }
    out->obs = (struct gr_observation){.frames = &m->frame,
                                       .n_frames = 1,
                                       .state = m->state,
                                       .state_dtype = GR_STATE_F32,
                                       .instruction = m->instruction,
                                       .noise_kind = GR_NOISE_SEED,
                                       .seed = GR_DEFAULT_SEED};
    out->shipped = true;
    return GR_OK;
}

static enum gr_status make_up(struct memory *m, const struct gr_policy *policy, struct gr_demo *out, struct gr_err *err)
{
    GR_TRY(gr_sample_make(gr_policy_config(policy), 1, &m->sample, err));
    m->png = calloc((size_t)m->sample.obs.n_frames + 1, sizeof *m->png);
    if (m->png == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the demo observation");
    }
    for (int i = 0; i < m->sample.obs.n_frames; i++) {
        const struct gr_frame *f = &m->sample.frames[i];
        size_t n = 0;
        GR_TRY(gr_png_encode(f->rgb, f->height, f->width, &m->png[i], &n, err));
        m->n_png++;
        out->pictures[i] = (struct gr_demo_picture){m->png[i], n};
    }
    out->obs = m->sample.obs;
    return GR_OK;
}

static enum gr_status make(struct memory *m, const struct gr_policy *policy, struct gr_demo *out, struct gr_err *err)
{
    const struct gr_info *info = gr_policy_info(policy);
    struct gr_json *root = NULL;
    m->state = calloc((size_t)info->state_dim + 1, sizeof *m->state);
    out->pictures = calloc((size_t)info->n_cameras * (size_t)info->frames_per_camera + 1, sizeof *out->pictures);
    if (m->state == NULL || out->pictures == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the demo observation");
    }
    bool one = info->n_cameras == 1 && info->frames_per_camera == 1 && strcmp(info->cameras[0], demo_camera) == 0;
    if (one) {
        GR_TRY(gr_json_parse((const char *)gr_embed_demo_state, gr_embed_demo_state_size, "built-in state.json",
                             GR_ERR_DEVICE, &root, err));
    }
    enum gr_status status =
        one && state_fits(root, info, m->state) ? take_recording(m, out, err) : make_up(m, policy, out, err);
    gr_json_free(root);
    out->obs.state_dim = info->state_dim;
    return status;
}

enum gr_status gr_demo_make(const struct gr_policy *policy, struct gr_demo *out, struct gr_err *err)
{
    *out = (struct gr_demo){0};
    struct memory *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the demo observation");
    }
    out->memory = m;
    enum gr_status status = make(m, policy, out, err);
    if (status != GR_OK) {
        gr_demo_free(out);
    }
    return status;
}

void gr_demo_free(struct gr_demo *demo)
{
    struct memory *m = demo->memory;
    if (m != NULL) {
        for (int i = 0; i < m->n_png; i++) {
            free(m->png[i]);
        }
        free(m->png);
        gr_sample_free(&m->sample);
        gr_image_free(&m->image);
        free(m->state);
        free(m->instruction);
        free(m);
    }
    free(demo->pictures);
    *demo = (struct gr_demo){0};
}
