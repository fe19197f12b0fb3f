/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_inspect.c: `gr00t inspect`: what a snapshot folder holds, without computing anything. The parts are read in the order in
 * which a damaged snapshot can still be described, and the text shows what was found before the fault. */
#include "cli/inspect_data.h"

#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/plan_text.h"
#include "cli/settings.h"
#include "cli/settings_card.h"
#include "cli/table.h"
#include "policy/policy.h"

enum { UNUSED_SHOWN = 12, IGNORED_SHOWN = 8 };

struct options {
    bool json;
    struct gr_engine_flags engine;
};

static const struct gr_arg args[] = {
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print JSON"},
    GR_ENGINE_ARGS(struct options, engine),
};

static const char *mode_name(enum gr_norm_mode mode)
{
    switch (mode) {
    case GR_NORM_MIN_MAX:
        return "min/max";
    case GR_NORM_MEAN_STD:
        return "mean/std";
    case GR_NORM_SIN_COS:
        return "sin/cos";
    }
    return "?";
}

struct setting {
    const char *key;
    double value;
    bool is_flag;
};
enum { N_SETTINGS = 13 };

/* The values of the files that the engine follows. */
static void settings_of(const struct gr_config *c, struct setting out[N_SETTINGS])
{
    const struct setting all[N_SETTINGS] = {
        {"shortest_image_edge", c->shortest_image_edge, false},
        {"crop_fraction", c->crop_fraction, false},
        {"formalize_language", c->formalize_language, true},
        {"use_percentiles", c->use_percentiles, true},
        {"clip_outliers", c->clip_outliers, true},
        {"apply_sincos_state_encoding", c->apply_sincos_state_encoding, true},
        {"use_relative_action", c->use_relative_action, true},
        {"num_inference_timesteps", c->dims.dit.steps, false},
        {"num_timestep_buckets", c->dims.dit.time_buckets, false},
        {"action_horizon", c->dims.dit.horizon, false},
        {"max_state_dim", c->dims.dit.max_state, false},
        {"max_action_dim", c->dims.dit.max_action, false},
        {"attend_text_every_n_blocks", c->dims.dit.text_every, false},
    };
    memcpy(out, all, sizeof all);
}

static void text_groups(const struct gr_embodiment *e, struct gr_buf *out)
{
    struct gr_table t = {.columns = 5, .align = "llrll", .indent = 2};
    for (int k = 0; k < 2; k++) {
        const struct gr_group_config *groups = k == 0 ? e->state : e->action;
        for (int g = 0; g < (k == 0 ? e->n_state : e->n_action); g++) {
            gr_table_cell(&t, k == 0 ? "state" : "action");
            gr_table_cell(&t, groups[g].name);
            gr_table_cellf(&t, "%d", groups[g].dim);
            gr_table_cell(&t, mode_name(groups[g].mode));
            gr_table_cell(&t, k == 0               ? ""
                              : groups[g].relative ? "relative in the model, absolute in the chunk"
                                                   : "absolute");
        }
    }
    gr_table_print(&t, out);
}

static void text_config(const struct gr_config *c, struct gr_buf *out)
{
    const struct gr_embodiment *e = &c->emb;
    struct setting settings[N_SETTINGS];
    gr_buf_line(out, "model          %s: vision %d x %d, language %d x %d, action head %d x %d\n", c->model_type,
                c->dims.vit.layers, c->dims.vit.hidden, c->dims.llm.layers, c->dims.llm.hidden, c->dims.dit.layers,
                c->dims.dit.width);
    gr_buf_line(out, "embodiment     %s, slot %d: %d camera%s x %d frame%s, state %d, chunk %d steps x %d\n", e->tag,
                e->slot, e->n_cameras, e->n_cameras == 1 ? "" : "s", e->frames_per_camera,
                e->frames_per_camera == 1 ? "" : "s", e->state_dim, e->action_steps, e->action_dim);
    for (int i = 0; i < e->n_cameras; i++) {
        gr_buf_line(out, "  camera  %s\n", e->cameras[i]);
    }
    text_groups(e, out);
    settings_of(c, settings);
    gr_buf_puts(out, "settings      ");
    for (int i = 0, width = 14; i < N_SETTINGS; i++) {
        char item[96], number[32];
        gr_format_f64(number, settings[i].value);
        int n = snprintf(item, sizeof item, " %s %s%s", settings[i].key,
                         settings[i].is_flag ? (settings[i].value != 0.0 ? "true" : "false") : number,
                         i + 1 < N_SETTINGS ? "," : "\n");
        if (width + n > 118) {
            gr_buf_puts(out, "\n              ");
            width = 14;
        }
        width += n;
        gr_buf_puts(out, item);
    }
}

static void text_tags(const struct gr_inspect *in, struct gr_buf *out)
{
    struct gr_table t = {.columns = 3, .align = "lrl", .indent = 2};
    gr_buf_printf(out, "embodiments    %d known\n", in->config->n_tags);
    for (int i = 0; i < in->config->n_tags; i++) {
        gr_table_cell(&t, in->config->tags[i]);
        gr_table_cellf(&t, "%d", in->config->slots[i]);
        gr_table_cell(&t, in->tag_notes[i]);
    }
    gr_table_print(&t, out);
}

static void text_ignored(const struct gr_config *c, struct gr_buf *out)
{
    gr_buf_printf(out, "ignored keys   %d\n", c->n_ignored);
    for (int i = 0; i < c->n_ignored && i < IGNORED_SHOWN; i++) {
        gr_buf_line(out, "  %s\n", c->ignored[i]);
    }
    if (c->n_ignored > IGNORED_SHOWN) {
        gr_buf_printf(out, "  and %d more (--json lists all)\n", c->n_ignored - IGNORED_SHOWN);
    }
}

static void text_files(const struct gr_inspect *in, struct gr_buf *out)
{
    struct gr_table t = {.columns = 2, .align = "lr", .indent = 2};
    uint64_t sum = 0;
    char size[32];
    for (size_t i = 0; i < in->n_files; i++) {
        gr_table_cell(&t, in->files[i].name);
        gr_table_cell(&t, gr_human_bytes(size, (double)in->files[i].bytes));
        sum += in->files[i].bytes;
    }
    gr_buf_printf(out, "files          %zu, %s\n", in->n_files, gr_human_bytes(size, (double)sum));
    gr_table_print(&t, out);
}

static void text_tensors(const struct gr_inspect *in, struct gr_buf *out)
{
    struct gr_table t = {.columns = 3, .align = "lrr", .indent = 2};
    char size[32];
    gr_buf_printf(out, "tensors        %zu in %d file%s, %s;", gr_snapshot_count(in->snapshot),
                  gr_snapshot_shards(in->snapshot), gr_snapshot_shards(in->snapshot) == 1 ? "" : "s",
                  gr_human_bytes(size, (double)gr_snapshot_bytes(in->snapshot)));
    for (int d = 0; d < GR_INSPECT_DTYPES; d++) {
        if (in->dtypes[d] > 0) {
            gr_buf_printf(out, " %zu %s", in->dtypes[d], gr_dtype_name((enum gr_dtype)d));
        }
    }
    gr_buf_puts(out, "\n");
    for (int p = 0; p < GR_PARTS; p++) {
        gr_table_cell(&t, gr_part_name((enum gr_part)p));
        gr_table_cellf(&t, "%zu", in->parts[p].tensors);
        gr_table_cell(&t, gr_human_bytes(size, (double)in->parts[p].bytes));
    }
    gr_table_print(&t, out);
    for (size_t i = 0; i < in->n_unused && i < UNUSED_SHOWN; i++) {
        gr_buf_line(out, "  unused  %s\n", in->unused[i]);
    }
    if (in->n_unused > UNUSED_SHOWN) {
        gr_buf_printf(out, "  and %zu more unused ones (--json lists all)\n", in->n_unused - UNUSED_SHOWN);
    }
}

static void json_strings(struct gr_jw *w, const char *key, const char *const *texts, size_t n)
{
    gr_jw_put_array(w, key);
    for (size_t i = 0; i < n; i++) {
        gr_jw_string(w, texts[i]);
    }
    gr_jw_end_array(w);
}

static void json_groups(struct gr_jw *w, const char *key, const struct gr_group_config *groups, int n, bool action)
{
    gr_jw_put_array(w, key);
    for (int g = 0; g < n; g++) {
        gr_jw_object(w);
        gr_jw_put_string(w, "name", groups[g].name);
        gr_jw_put_int(w, "dim", groups[g].dim);
        gr_jw_put_string(w, "mode", mode_name(groups[g].mode));
        if (action) {
            gr_jw_put_bool(w, "relative", groups[g].relative);
        }
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
}

static void json_embodiment(struct gr_jw *w, const struct gr_embodiment *e)
{
    gr_jw_put_object(w, "embodiment");
    gr_jw_put_string(w, "tag", e->tag);
    gr_jw_put_int(w, "slot", e->slot);
    json_strings(w, "cameras", (const char *const *)e->cameras, (size_t)e->n_cameras);
    gr_jw_put_int(w, "frames_per_camera", e->frames_per_camera);
    gr_jw_put_int(w, "action_steps", e->action_steps);
    json_groups(w, "state", e->state, e->n_state, false);
    json_groups(w, "action", e->action, e->n_action, true);
    gr_jw_end_object(w);
}

static void json_config(struct gr_jw *w, const struct gr_inspect *in)
{
    const struct gr_config *c = in->config;
    struct setting settings[N_SETTINGS];
    gr_jw_put_string(w, "model_type", c->model_type);
    json_embodiment(w, &c->emb);
    gr_jw_put_array(w, "embodiments");
    for (int i = 0; i < c->n_tags; i++) {
        gr_jw_object(w);
        gr_jw_put_string(w, "tag", c->tags[i]);
        gr_jw_put_int(w, "slot", c->slots[i]);
        gr_jw_put_bool(w, "usable", in->tag_usable[i]);
        gr_jw_put_string(w, "note", in->tag_notes[i]);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
    settings_of(c, settings);
    gr_jw_put_object(w, "settings");
    for (int i = 0; i < N_SETTINGS; i++) {
        gr_jw_key(w, settings[i].key);
        if (settings[i].is_flag) {
            gr_jw_bool(w, settings[i].value != 0.0);
        } else {
            gr_jw_f64(w, settings[i].value);
        }
    }
    gr_jw_end_object(w);
    json_strings(w, "ignored_keys", (const char *const *)c->ignored, (size_t)c->n_ignored);
}

static void json_tensors(struct gr_jw *w, const struct gr_inspect *in)
{
    gr_jw_put_u64(w, "tensors", gr_snapshot_count(in->snapshot));
    gr_jw_put_int(w, "shards", gr_snapshot_shards(in->snapshot));
    gr_jw_put_u64(w, "tensor_bytes", gr_snapshot_bytes(in->snapshot));
    gr_jw_put_object(w, "dtypes");
    for (int d = 0; d < GR_INSPECT_DTYPES; d++) {
        if (in->dtypes[d] > 0) {
            gr_jw_put_u64(w, gr_dtype_name((enum gr_dtype)d), in->dtypes[d]);
        }
    }
    gr_jw_end_object(w);
    gr_jw_put_object(w, "parts");
    for (int p = 0; p < GR_PARTS; p++) {
        gr_jw_put_object(w, gr_part_name((enum gr_part)p));
        gr_jw_put_u64(w, "tensors", in->parts[p].tensors);
        gr_jw_put_u64(w, "bytes", in->parts[p].bytes);
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
    json_strings(w, "unused_tensors", in->unused, in->n_unused);
}

static void json_all(const char *dir, const struct gr_inspect *in, const char *tokenizer, const struct gr_plan *plan,
                     struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "dir", dir);
    json_config(&w, in);
    json_tensors(&w, in);
    gr_jw_put_string(&w, "tokenizer", tokenizer);
    gr_jw_put_object(&w, "files");
    for (size_t i = 0; i < in->n_files; i++) {
        gr_jw_put_u64(&w, in->files[i].name, in->files[i].bytes);
    }
    gr_jw_end_object(&w);
    gr_jw_key(&w, "formats");
    if (plan != NULL) {
        gr_jw_object(&w);
        gr_jw_put_string(&w, "file", plan->kept ? plan->file : NULL);
        gr_plan_put(&w, plan);
        gr_jw_end_object(&w);
    } else {
        gr_jw_null(&w);
    }
    gr_jw_end_object(&w);
}

/* The plan that a command with these options would find. *found false: none, and `text` says how to get one. */
static enum gr_status find_plan(const char *dir, const struct options *o, struct gr_plan *plan, bool *found,
                                struct gr_buf *text, struct gr_err *err)
{
    struct gr_settings settings;
    struct gr_err why = {0};
    gr_settings_unknown_variables();
    enum gr_status status = gr_settings_engine(dir, &o->engine, &settings, &why);
    if (status == GR_OK) {
        status = gr_policy_find_plan(dir, &settings.engine, plan, &why);
    }
    *found = status == GR_OK;
    if (status == GR_ERR_USAGE ||
        status == GR_ERR_DEVICE) { /* a wrong option; all else has been reported before, or is a plan's */
        *err = why;
        return status;
    }
    if (*found) {
        gr_plan_text(plan, text);
    } else if (gr_settings_on_card(settings.engine.device)) {
        gr_buf_line(text, "formats        %s on the card (--mk-arena-dtype)\n",
                    settings.engine.arena != NULL && strcmp(settings.engine.arena, "bf16") == 0 ? "bf16" : "bfp8_b");
    } else if (status != GR_ERR_IO) {
        gr_buf_line(text, "formats        unknown: %s\n", why.msg);
    } else if (settings.engine.cache_dir == NULL) {
        gr_buf_puts(text, "formats        chosen anew by every start: there is no cache folder (--cache DIR)\n");
    } else {
        gr_buf_line(
            text,
            "formats        not chosen yet: the first predict or serve with these options does, and keeps it in %s\n",
            settings.engine.cache_dir);
    }
    return GR_OK;
}

static enum gr_status describe(const char *dir, const char *tag, struct gr_inspect *in, struct gr_buf *text,
                               struct gr_err *err)
{
    char size[32];
    gr_buf_line(text, "snapshot       %s\n", dir);
    GR_TRY(gr_inspect_files(dir, in, err));
    GR_TRY(gr_inspect_config(dir, tag, in, err));
    text_config(in->config, text);
    text_tags(in, text);
    text_ignored(in->config, text);
    text_files(in, text);
    enum gr_status status = gr_inspect_snapshot(dir, in, err);
    for (size_t i = 0; i < in->n_missing; i++) {
        gr_buf_line(text, "  missing  %s\n", in->missing[i]);
    }
    GR_TRY(status);
    gr_buf_printf(text, "network        needs %zu of these tensors, %s\n",
                  gr_snapshot_count(in->snapshot) - in->n_unused,
                  gr_human_bytes(size, (double)(gr_snapshot_bytes(in->snapshot) - in->parts[GR_PART_UNUSED].bytes)));
    text_tensors(in, text);
    return GR_OK;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)n_words;
    const struct options *o = options;
    struct gr_inspect in = {0};
    struct gr_plan plan = {0};
    struct gr_buf text = {0}, formats = {0};
    char tokenizer[GR_PATH_BYTES];
    struct gr_err none;
    bool chosen = false;
    GR_TRY(gr_fs_need_dir(words[0], GR_ERR_FORMAT, err));
    enum gr_status status = describe(words[0], gr_settings_embodiment(o->engine.embodiment), &in, &text, err);
    bool found = gr_settings_tokenizer(words[0], o->engine.tokenizer, tokenizer, &none) == GR_OK;
    if (status == GR_OK) {
        status = find_plan(words[0], o, &plan, &chosen, &formats, err);
    }
    if (status == GR_OK && o->json) {
        json_all(words[0], &in, found ? tokenizer : NULL, chosen ? &plan : NULL, &cli->out);
    } else if (!o->json) {
        if (status == GR_OK) {
            gr_buf_line(&text, "tokenizer      %s\n",
                        found ? tokenizer : "not found (predict needs one, see --tokenizer)");
            gr_buf_append(&text, &formats);
        }
        gr_buf_append(&cli->out, &text);
    }
    gr_plan_free(&plan);
    gr_buf_free(&formats);
    gr_buf_free(&text);
    gr_inspect_free(&in);
    return status;
}

const struct gr_command gr_cmd_inspect = {
    .name = "inspect",
    .summary = "Show what a snapshot folder holds",
    .synopsis = "DIR [--json] [OPTIONS]",
    .more = "Shows the stored choice of number formats that predict or serve would find with the same options.\n"
            "Exit code 4 when the snapshot is damaged or incomplete; the message says where.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 1,
    .max_words = 1,
    .words = "DIR",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
