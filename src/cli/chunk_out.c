/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk_out.c: prints a chunk. The JSON is the service's /predict reply, made by the same function, so that a script works with both. */
#include "cli/chunk_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/fs.h"
#include "cli/action_table.h"
#include "cli/obs_files.h"
#include "cli/plot.h"
#include "cli/wire_chunk.h"
#include "server/reply.h"

enum { SUBTITLE_BYTES = 160, OBS_MAX_BYTES = 64 << 20 };

enum gr_status gr_chunk_json(const struct gr_chunk_view *v, struct gr_buf *out, struct gr_err *err)
{
    char model[64];
    snprintf(model, sizeof model, "GR00T-N1.6-3B-%s", v->info->device);
    const struct gr_reply_view reply = {.info = v->info,
                                        .obs = v->obs,
                                        .chunk = v->chunk,
                                        .model = model,
                                        .version = "n16",
                                        .decode_ms = v->decode_ms,
                                        .queue_ms = -1.0,
                                        .total_ms = v->decode_ms + v->chunk->timing.total};
    return gr_reply_chunk(&reply, false, out, err);
}

static void text_timing(const struct gr_chunk_view *v, struct gr_buf *out)
{
    const struct gr_timing *t = &v->chunk->timing;
    gr_buf_printf(out, "total %.1f ms: decode %.1f, encode %.1f, ", v->decode_ms + t->total, v->decode_ms, t->encode);
    if (v->info->card != NULL) { /* one launch: nobody looks at the clock in between */
        gr_buf_printf(out, "device %.1f", t->device);
    } else {
        gr_buf_printf(out, "vision %.1f, llm %.1f, adapter %.1f, denoise %.1f", t->vision, t->llm, t->adapter,
                      t->denoise);
    }
    gr_buf_printf(out, ", decode_actions %.1f (%s, %s, %d thread%s, load %.1f s)\n", t->decode_actions, v->info->device,
                  v->info->isa, v->info->threads, v->info->threads == 1 ? "" : "s", v->info->load_ms / 1000.0);
}

void gr_chunk_text(const struct gr_chunk_view *v, int columns, struct gr_buf *out)
{
    const struct gr_info *info = v->info;
    gr_buf_line(out, "%s: %d steps x %d joints, radians; %d tokens, %d of them instruction; ", info->embodiment,
                v->chunk->steps, v->chunk->dim, v->chunk->n_tokens, v->chunk->n_text);
    if (v->obs->noise_kind == GR_NOISE_SEED) {
        gr_buf_printf(out, "seed %" PRIu64 "\n\n", v->obs->seed);
    } else {
        gr_buf_puts(out, "noise from the file\n\n");
    }
    gr_action_table(info->action_groups, info->n_action_groups, v->chunk->actions, v->chunk->steps, columns, out);
    if (v->golden != NULL) {
        struct gr_diff diff =
            gr_compare(v->chunk->actions, v->chunk->dim, v->golden, v->chunk->dim, v->chunk->steps, v->chunk->dim);
        gr_buf_printf(out, "against golden: PCC %.8f, max|d| %.2e rad\n", diff.pcc, diff.max_abs);
    }
    text_timing(v, out);
}

void gr_chunk_plot(const struct gr_chunk_view *v, struct gr_buf *out)
{
    char title[256], subtitle[SUBTITLE_BYTES + 64];
    snprintf(title, sizeof title, "GR00T N1.6 action chunk, %s (radians)", v->info->embodiment);
    gr_plot_subtitle(subtitle, sizeof subtitle, v->obs->instruction, SUBTITLE_BYTES - 1,
                     v->obs->noise_kind == GR_NOISE_SEED ? &v->obs->seed : NULL);
    const struct gr_plot plot = {
        .title = title,
        .subtitle = subtitle,
        .groups = v->info->action_groups,
        .n_groups = v->info->n_action_groups,
        .steps = v->chunk->steps,
        .dim = v->chunk->dim,
        .chunk = v->chunk->actions,
        .golden = v->golden,
        .chunk_name = "predicted chunk",
        .golden_name = "golden (stored result of the numpy reference)",
    };
    gr_plot_svg(&plot, out);
}

enum gr_status gr_golden_read(const char *case_dir, const struct gr_info *info, float **actions, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_wire_chunk golden;
    GR_TRY(gr_path_join(path, case_dir, "expected.json", err));
    GR_TRY(gr_wire_chunk_load(path, &golden, err));
    enum gr_status status = gr_wire_chunk_align(&golden, info->action_groups, info->n_action_groups, info->action_steps,
                                                path, GR_ERR_INPUT, actions, err);
    gr_wire_chunk_free(&golden);
    return status;
}

static bool same_state(const struct gr_json *groups, const struct gr_info *info, const struct gr_observation *obs)
{
    struct gr_err ignored;
    double *state = calloc((size_t)info->state_dim + 1, sizeof *state);
    bool same = state == NULL || gr_obs_state_parse(groups, "obs.json", info, state, &ignored) != GR_OK;
    if (!same) {
        same = true;
        for (int i = 0; i < info->state_dim; i++) {
            same = same && (float)state[i] == (float)obs->state[i];
        }
    }
    free(state);
    return same;
}

static bool same_picture(const char *case_dir, const struct gr_json *name, const struct gr_observation *obs)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    struct gr_image image = {0};
    const char *file = gr_json_kind(name) == GR_JSON_STRING ? gr_json_string(name) : "image.png";
    if (obs->n_frames != 1 || gr_path_join(path, case_dir, file, &ignored) != GR_OK ||
        gr_obs_image_read(path, &image, &ignored) != GR_OK) {
        return true;
    }
    const struct gr_frame *f = &obs->frames[0];
    const bool same = image.width == f->width && image.height == f->height &&
                      memcmp(image.rgb, f->rgb, (size_t)f->width * (size_t)f->height * 3) == 0;
    gr_image_free(&image);
    return same;
}

const char *gr_golden_differs(const char *case_dir, const struct gr_info *info, const struct gr_observation *obs)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    struct gr_json *root = NULL;
    const char *what = NULL;
    if (gr_path_join(path, case_dir, "obs.json", &ignored) != GR_OK ||
        gr_json_read(path, OBS_MAX_BYTES, GR_ERR_INPUT, &root, &ignored) != GR_OK) {
        return NULL;
    }
    const struct gr_json *text = gr_json_get(root, "instruction"), *seed = gr_json_get(root, "seed");
    const bool seeded = gr_json_kind(seed) == GR_JSON_INT && gr_json_get(root, "noise") == NULL;
    if (gr_json_kind(text) == GR_JSON_STRING && strcmp(gr_json_string(text), obs->instruction) != 0) {
        what = "the instruction";
    } else if (seeded != (obs->noise_kind == GR_NOISE_SEED)) {
        what = "the noise";
    } else if (seeded && (uint64_t)gr_json_int(seed) != obs->seed) {
        what = "the seed";
    } else if (!same_state(gr_json_get(root, "state"), info, obs)) {
        what = "the state";
    } else if (!same_picture(case_dir, gr_json_get(root, "image"), obs)) {
        what = "the picture";
    }
    gr_json_free(root);
    return what;
}
