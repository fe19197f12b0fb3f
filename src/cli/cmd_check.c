/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_check.c: `gr00t check`: golden cases against the engine. A line a case with what decides (the worst array; for a policy that is
 * not exact the actions), then PCC and max|d| of every action group and of every array (not with --quiet); the last line counts. Exit
 * code 1 when a case is outside its bounds. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonout.h"
#include "cli/check_case.h"
#include "cli/cli.h"
#include "cli/open_policy.h"
#include "cli/settings.h"
#include "cli/settings_card.h"
#include "cli/table.h"
#include "gr00t.h"

struct options {
    bool json;
    const char *out;
    struct gr_engine_flags engine;
};

static const struct gr_arg args[] = {
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the report as JSON"},
    {.name = "out",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, out),
     .value = "FILE",
     .help = "write the JSON to FILE"},
    GR_ENGINE_ARGS(struct options, engine),
};

/* The last part of a path, without slashes behind it: *n bytes. */
static const char *case_name(const char *dir, int *n)
{
    size_t end = strlen(dir);
    while (end > 1 && dir[end - 1] == '/') {
        end--;
    }
    size_t first = end;
    while (first > 0 && dir[first - 1] != '/') {
        first--;
    }
    *n = (int)(end - first);
    return dir + first;
}

static void verdict_cell(struct gr_table *t, const struct gr_check_row *row)
{
    gr_table_cell(t, row->ok && !row->judged                        ? "not judged"
                     : row->ok                                      ? "ok"
                     : !row->arrived                                ? "MISSING"
                     : isinf(row->load) && row->diff.max_abs == 0.0 ? "SHAPE"
                                                                    : "FAILED");
}

/* Every array of a case. */
static void print_rows(const struct gr_check_result *r, struct gr_buf *out)
{
    struct gr_table t = {.columns = 7, .align = "llrrrrr", .indent = 4};
    const char *const head[] = {"", "array", "shape", "PCC", "max|d|", "of max", "rel. rms"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int i = 0; i < r->n; i++) {
        const struct gr_check_row *row = &r->rows[i];
        verdict_cell(&t, row);
        gr_table_cell(&t, row->name);
        gr_table_cellf(&t, row->arrived ? "%dx%d" : "-", row->rows, row->cols);
        gr_table_cellf(&t, row->diff.has_pcc ? "%.9f" : "-", row->diff.pcc);
        gr_table_cellf(&t, "%.2e", row->diff.max_abs);
        gr_table_cellf(&t, "%.2e", row->diff.rel_max);
        gr_table_cellf(&t, "%.2e", row->diff.rel_rms);
    }
    gr_table_print(&t, out);
}

static void pcc_cell(struct gr_table *t, bool has, double pcc) { gr_table_cellf(t, has ? "%.6f" : "constant", pcc); }

/* Physical actions group by group, then the two correlations over all of them. */
static void print_groups(const struct gr_check_result *r, struct gr_buf *out)
{
    struct gr_table t = {.columns = 6, .align = "llrrrr", .indent = 4};
    const char *const head[] = {"", "actions", "joints", "PCC", "max|d|", "of range"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int g = 0; g < r->n_groups; g++) {
        const struct gr_group_verdict *v = &r->groups[g].verdict;
        gr_table_cell(&t, v->pass ? "ok" : "FAILED");
        gr_table_cell(&t, r->groups[g].name);
        gr_table_cellf(&t, "%d", r->groups[g].dim);
        pcc_cell(&t, v->diff.has_pcc, v->diff.pcc);
        gr_table_cellf(&t, "%.2e", v->diff.max_abs);
        gr_table_cellf(&t, v->range > 0.0 ? "%.3f%%" : "-", 100.0 * v->diff.max_abs / v->range);
    }
    const struct gr_check_row *all = &r->rows[r->n - 1];
    gr_table_cell(&t, !all->diff.has_pcc || all->diff.pcc >= GR_JUDGE_PCC ? "ok" : "FAILED");
    gr_table_cell(&t, "all groups");
    gr_table_cellf(&t, "%d", all->cols);
    pcc_cell(&t, all->diff.has_pcc, all->diff.pcc);
    gr_table_cellf(&t, "%.2e", all->diff.max_abs);
    gr_table_end_row(&t);
    if (!isnan(r->verdict.pcc_slice)) {
        gr_table_cell(&t, r->verdict.pcc_slice >= GR_JUDGE_SLICE_PCC ? "ok" : "FAILED");
        gr_table_cell(&t, "normalised");
        gr_table_cellf(&t, "%d", all->cols);
        pcc_cell(&t, true, r->verdict.pcc_slice);
        gr_table_end_row(&t);
    }
    gr_table_print(&t, out);
}

/* What decides when taps do not. */
static void print_verdict(const struct gr_check_result *r, struct gr_buf *out)
{
    const struct gr_verdict *v = &r->verdict;
    gr_buf_printf(out, isnan(v->pcc) ? "actions constant" : "actions PCC %.6f", v->pcc);
    gr_buf_printf(out, ", max|d| %.1e", v->max_abs);
    gr_buf_printf(out, isnan(v->pcc_slice) ? ", slice constant" : ", slice PCC %.6f", v->pcc_slice);
    if (v->worst_group[0] != '\0') {
        gr_buf_line(out, ", worst group %s %.6f", v->worst_group, v->worst_pcc);
    }
}

static void print_worst(const struct gr_check_row *worst, struct gr_buf *out)
{
    if (!worst->arrived) {
        gr_buf_line(out, "%s never arrived", worst->name);
    } else if (worst->kind == GR_CHECK_TAP) {
        gr_buf_line(out, "worst %s: max|d| %.1e = %.1e of max, rms %.1e", worst->name, worst->diff.max_abs,
                    worst->diff.rel_max, worst->diff.rel_rms);
    } else {
        gr_buf_line(out, "worst %s: max|d| %.1e", worst->name, worst->diff.max_abs);
    }
}

static void print_case(const struct gr_cli *cli, const char *dir, const struct gr_check_result *r, struct gr_buf *out)
{
    const struct gr_check_row *worst = &r->rows[r->worst];
    const char *red = cli->color && !r->ok ? "\033[31m" : "", *off = cli->color && !r->ok ? "\033[0m" : "";
    int n;
    const char *name = case_name(dir, &n);
    gr_buf_printf(out, "%s%-6s%s ", red, r->ok ? "ok" : "FAILED", off);
    gr_buf_line(out, "%-24.*s %d arrays, ", n, name, r->n);
    if (r->failed > 0) {
        gr_buf_printf(out, "%d outside, ", r->failed);
    }
    if (!r->by_actions || (!worst->ok && worst->kind != GR_CHECK_ACTIONS)) {
        print_worst(worst, out);
        gr_buf_puts(out, "; ");
    }
    if (r->by_actions) {
        print_verdict(r, out);
    } else {
        gr_buf_printf(out, "actions max|d| %.1e", r->rows[r->n - 1].diff.max_abs);
    }
    gr_buf_printf(out, "; %.0f ms\n", r->ms);
    if (r->want_tokens >= 0 && (r->want_tokens != r->n_tokens || r->want_text != r->n_text)) {
        gr_buf_printf(out, "    sequence %d (%d text), expected %d (%d text)\n", r->n_tokens, r->n_text, r->want_tokens,
                      r->want_text);
    }
    if (!cli->quiet) {
        print_groups(r, out);
        print_rows(r, out);
    }
}

static void json_row(struct gr_jw *w, const struct gr_check_row *row)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "name", row->name);
    gr_jw_put_bool(w, "ok", row->ok);
    gr_jw_put_bool(w, "arrived", row->arrived);
    gr_jw_put_bool(w, "judged", row->judged);
    gr_jw_put_int(w, "rows", row->rows);
    gr_jw_put_int(w, "cols", row->cols);
    gr_jw_put_f64(w, "pcc", row->diff.has_pcc ? row->diff.pcc : (double)NAN);
    gr_jw_put_f64(w, "max_abs", row->diff.max_abs);
    gr_jw_put_f64(w, "rel_max", row->diff.rel_max);
    gr_jw_put_f64(w, "rel_rms", row->diff.rel_rms);
    gr_jw_end_object(w);
}

static void json_group(struct gr_jw *w, const struct gr_check_group *g)
{
    const struct gr_group_verdict *v = &g->verdict;
    gr_jw_object(w);
    gr_jw_put_string(w, "name", g->name);
    gr_jw_put_int(w, "dim", g->dim);
    gr_jw_put_bool(w, "ok", v->pass);
    gr_jw_put_f64(w, "pcc", v->diff.has_pcc ? v->diff.pcc : (double)NAN);
    gr_jw_put_f64(w, "max_abs", v->diff.max_abs);
    gr_jw_put_f64(w, "range", v->range > 0.0 ? v->range : (double)NAN);
    gr_jw_end_object(w);
}

static void json_case(struct gr_jw *w, const char *dir, const struct gr_check_result *r)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "case", dir);
    gr_jw_put_bool(w, "ok", r->ok);
    gr_jw_put_milli(w, "ms", r->ms);
    gr_jw_put_int(w, "seq_len", r->n_tokens);
    gr_jw_put_int(w, "prompt_tokens", r->n_text);
    gr_jw_put_string(w, "worst", r->rows[r->worst].name);
    const struct gr_diff *actions = &r->rows[r->n - 1].diff;
    gr_jw_put_f64(w, "pcc", actions->has_pcc ? actions->pcc : (double)NAN);
    gr_jw_put_f64(w, "pcc_slice", r->verdict.pcc_slice);
    gr_jw_put_f64(w, "max_abs", actions->max_abs);
    gr_jw_put_array(w, "groups");
    for (int g = 0; g < r->n_groups; g++) {
        json_group(w, &r->groups[g]);
    }
    gr_jw_end_array(w);
    gr_jw_put_array(w, "arrays");
    for (int i = 0; i < r->n; i++) {
        json_row(w, &r->rows[i]);
    }
    gr_jw_end_array(w);
    gr_jw_end_object(w);
}

static void json_head(struct gr_jw *w, const char *dir, const struct gr_info *info)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "snapshot", dir);
    gr_jw_put_string(w, "device", info->device);
    gr_jw_put_string(w, "isa", info->isa);
    gr_jw_put_int(w, "threads", info->threads);
    gr_jw_put_string(w, "policy", info->precision);
    gr_jw_put_string(w, "policy_step", info->precision_step);
    gr_jw_put_string(w, "half", info->half);
    gr_jw_put_object(w, "bounds");
    if (strcmp(info->precision, "exact") == 0) {
        gr_jw_put_f64(w, "rel_max", GR_CHECK_REL_MAX);
        gr_jw_put_f64(w, "rel_rms", GR_CHECK_REL_RMS);
        gr_jw_put_f64(w, "actions_max_abs", GR_CHECK_ACTION_MAX);
    } else {
        gr_jw_put_f64(w, "pcc", GR_JUDGE_PCC);
        gr_jw_put_f64(w, "pcc_slice", GR_JUDGE_SLICE_PCC);
        gr_jw_put_f64(w, "group_pcc", GR_JUDGE_GROUP_PCC);
        gr_jw_put_f64(w, "group_share", GR_JUDGE_GROUP_SHARE);
    }
    gr_jw_end_object(w);
    gr_jw_put_array(w, "cases");
}

static void json_tail(struct gr_jw *w, int within, int of)
{
    gr_jw_end_array(w);
    gr_jw_put_int(w, "within", within);
    gr_jw_put_int(w, "of", of);
    gr_jw_end_object(w);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    const struct options *o = options;
    struct gr_policy *policy = NULL;
    struct gr_buf json = {0};
    struct gr_jw w = {.out = &json};
    int within = 0, cases = n_words - 1;
    struct gr_engine_flags engine = o->engine;
    const char *device = NULL;
    enum gr_status status = gr_settings_device(engine.device, &device, err);
    if (engine.policy == NULL && !gr_settings_on_card(device)) {
        engine.policy = "exact"; /* which alone can keep the bounds of the taps */
    }
    if (status != GR_OK || (status = gr_cli_open_policy(cli, words[0], &engine, &policy, err)) != GR_OK) {
        goto out;
    }
    json_head(&w, words[0], gr_policy_info(policy));
    for (int i = 1; i < n_words; i++) {
        struct gr_check_result result;
        if ((status = gr_check_case(policy, words[i], &result, err)) == GR_OK) {
            within += result.ok;
            json_case(&w, words[i], &result);
            if (!o->json) {
                print_case(cli, words[i], &result, &cli->out);
                status = gr_cli_flush(cli, err);
            }
        }
        gr_check_result_free(&result);
        if (status != GR_OK) {
            goto out;
        }
    }
    json_tail(&w, within, cases);
    if (o->out != NULL && (status = gr_cli_write_file(o->out, &json, err)) != GR_OK) {
        goto out;
    }
    if (o->json) {
        gr_buf_append(&cli->out, &json);
    } else {
        gr_buf_printf(&cli->out, "%d of %d cases within bounds\n", within, cases);
    }
    if (within != cases) {
        status = gr_fail(err, GR_ERR_CHECK, "%d of %d cases outside their bounds", cases - within, cases);
    }
out:
    gr_buf_free(&json);
    gr_policy_close(policy);
    return status;
}

const struct gr_command gr_cmd_check = {
    .name = "check",
    .summary = "Compare the engine with golden cases, tap by tap",
    .synopsis = "DIR CASE_DIR... [OPTIONS]",
    .more =
        "Each array that a case stores is compared: inputs of the network bit for bit, taps with max|d| <= 1e-4 of the\n"
        "largest value and relative rms <= 2e-5, actions with max|d| <= 1e-4. --quiet: one line a case.\n"
        "The policy is exact unless --policy names another one. For another one the taps are printed and not judged; its\n"
        "actions need PCC >= 0.999, physical and normalised, and each group PCC >= 0.99 or max|d| <= 1 % of its range.\n"
        "Exit code 1 when a case is outside.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 2,
    .max_words = -1,
    .words = "DIR CASE_DIR",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
