/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk_out.c: prints a chunk. The JSON is the service's /predict reply, made by the same function, so that a script works with both. */
#include "cli/chunk_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "cli/compare.h"
#include "cli/plot.h"
#include "server/reply.h"

enum { CELL = 9, STEP_CELL = 4, GROUP_GAP = 2, SUBTITLE_BYTES = 160 };

void gr_chunk_json(const struct gr_chunk_view *v, struct gr_buf *out)
{
    char model[64];
    struct gr_err err;
    snprintf(model, sizeof model, "GR00T-N1.6-3B-%s", v->info->device);
    const struct gr_reply_view reply = {.info = v->info,
                                        .obs = v->obs,
                                        .chunk = v->chunk,
                                        .model = model,
                                        .version = "n16",
                                        .decode_ms = v->decode_ms,
                                        .queue_ms = -1.0,
                                        .total_ms = v->decode_ms + v->chunk->timing.total};
    if (gr_reply_chunk(&reply, false, out, &err) != GR_OK) {
        out->failed = true;
    }
}

static int group_width(const struct gr_group *g)
{
    int name = (int)strlen(g->name) + 1;
    return g->dim * CELL > name ? g->dim * CELL : name;
}

/* Groups first .. last - 1 side by side: names, indices, then a row for each step. */
static void text_block(const struct gr_chunk_view *v, int first, int last, int first_dim, struct gr_buf *out)
{
    const struct gr_group *groups = v->info->action_groups;
    for (int line = -2; line < v->chunk->steps; line++) {
        struct gr_buf row = {0};
        if (line == -2) {
            gr_buf_printf(&row, "%*s", STEP_CELL, "");
        } else if (line == -1) {
            gr_buf_printf(&row, "%*s", STEP_CELL, "step");
        } else {
            gr_buf_printf(&row, "%*d", STEP_CELL, line);
        }
        for (int g = first, d = first_dim; g < last; d += groups[g].dim, g++) {
            size_t start = row.len;
            for (int i = 0; i < groups[g].dim && line >= -1; i++) {
                if (line == -1) {
                    char index[16];
                    snprintf(index, sizeof index, "[%d]", i);
                    gr_buf_printf(&row, "%*s", CELL, index);
                } else {
                    double value = (double)v->chunk->actions[(size_t)line * (size_t)v->chunk->dim + (size_t)(d + i)];
                    gr_buf_printf(&row, "%*.4f", CELL, value);
                }
            }
            if (line == -2) {
                gr_buf_line(&row, "  %s", groups[g].name);
            }
            int used = (int)(row.len - start), width = group_width(&groups[g]) + GROUP_GAP;
            if (g + 1 < last && used < width) {
                gr_buf_printf(&row, "%*s", width - used, "");
            }
        }
        gr_buf_puts(&row, "\n");
        gr_buf_append(out, &row);
        gr_buf_free(&row);
    }
}

static void text_timing(const struct gr_chunk_view *v, struct gr_buf *out)
{
    const struct gr_timing *t = &v->chunk->timing;
    gr_buf_printf(
        out,
        "total %.1f ms: decode %.1f, encode %.1f, vision %.1f, llm %.1f, adapter %.1f, denoise %.1f, decode_actions %.1f "
        "(%s, %s, %d thread%s, load %.1f s)\n",
        v->decode_ms + t->total, v->decode_ms, t->encode, t->vision, t->llm, t->adapter, t->denoise, t->decode_actions,
        v->info->device, v->info->isa, v->info->threads, v->info->threads == 1 ? "" : "s", v->info->load_ms / 1000.0);
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
    for (int first = 0, d = 0; first < info->n_action_groups;) {
        int width = STEP_CELL, last = first, dims = 0;
        while (last < info->n_action_groups &&
               (last == first || width + group_width(&info->action_groups[last]) <= columns)) {
            width += group_width(&info->action_groups[last]) + GROUP_GAP;
            dims += info->action_groups[last].dim;
            last++;
        }
        text_block(v, first, last, d, out);
        gr_buf_puts(out, "\n");
        first = last;
        d += dims;
    }
    if (v->golden != NULL) {
        struct gr_diff diff = gr_compare(v->chunk->actions, v->chunk->steps, v->chunk->dim, v->chunk->dim, v->golden);
        gr_buf_printf(out, "against golden: PCC %.8f, max|d| %.2e rad\n", diff.pcc, diff.max_abs);
    }
    text_timing(v, out);
}

void gr_chunk_plot(const struct gr_chunk_view *v, struct gr_buf *out)
{
    char title[256], subtitle[SUBTITLE_BYTES + 64], text[SUBTITLE_BYTES + 4];
    snprintf(text, SUBTITLE_BYTES, "%s", v->obs->instruction);
    size_t n = strlen(text), full = strlen(v->obs->instruction);
    while (n < full && n > 0 && ((unsigned char)v->obs->instruction[n] & 0xC0) == 0x80) {
        n--; /* never half a character */
    }
    text[n] = '\0';
    snprintf(title, sizeof title, "GR00T N1.6 action chunk, %s (radians)", v->info->embodiment);
    int used = snprintf(subtitle, sizeof subtitle, "%s%s", text, n < full ? "..." : "");
    if (v->obs->noise_kind == GR_NOISE_SEED && used > 0 && (size_t)used < sizeof subtitle) {
        snprintf(subtitle + used, sizeof subtitle - (size_t)used, ", seed %" PRIu64, v->obs->seed);
    }
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

static enum gr_status golden_group(const struct gr_json *rows, const char *path, const struct gr_group *group,
                                   int steps, int dim, float *out, struct gr_err *err)
{
    if (gr_json_len(rows) != (size_t)steps) {
        return gr_fail(err, GR_ERR_INPUT, "%s: actions_fp32.%s has %zu rows, expected %d", path, group->name,
                       gr_json_len(rows), steps);
    }
    for (int s = 0; s < steps; s++) {
        const struct gr_json *row = gr_json_at(rows, (size_t)s);
        if (gr_json_len(row) != (size_t)group->dim) {
            return gr_fail(err, GR_ERR_INPUT, "%s: actions_fp32.%s[%d] has %zu values, expected %d", path, group->name,
                           s, gr_json_len(row), group->dim);
        }
        for (int i = 0; i < group->dim; i++) {
            const struct gr_json *x = gr_json_at(row, (size_t)i);
            if (!gr_json_is_number(x)) {
                return gr_fail(err, GR_ERR_INPUT, "%s: actions_fp32.%s[%d][%d] is no number", path, group->name, s, i);
            }
            out[s * dim + i] = (float)gr_json_number(x);
        }
    }
    return GR_OK;
}

enum gr_status gr_golden_read(const char *case_dir, const struct gr_info *info, float **actions, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_json *root = NULL;
    float *values = NULL;
    GR_TRY(gr_path_join(path, case_dir, "expected.json", err));
    GR_TRY(gr_json_read(path, 16u << 20, GR_ERR_INPUT, &root, err));
    enum gr_status status = GR_OK;
    const struct gr_json *groups = gr_json_get(root, "actions_fp32");
    values = calloc((size_t)info->action_steps * (size_t)info->action_dim, sizeof *values);
    if (values == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path);
    } else if (gr_json_kind(groups) != GR_JSON_OBJECT) {
        status = gr_fail(err, GR_ERR_INPUT, "%s: has no object actions_fp32", path);
    }
    for (int g = 0, d = 0; status == GR_OK && g < info->n_action_groups; d += info->action_groups[g].dim, g++) {
        const struct gr_group *group = &info->action_groups[g];
        status = golden_group(gr_json_get(groups, group->name), path, group, info->action_steps, info->action_dim,
                              values + d, err);
    }
    gr_json_free(root);
    if (status != GR_OK) {
        free(values);
        return status;
    }
    *actions = values;
    return GR_OK;
}
