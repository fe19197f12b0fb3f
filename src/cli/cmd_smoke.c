/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_smoke.c: `gr00t smoke`: the demo request through a running service, three times: with its seed, again, and with the noise of
 * that seed sent as numbers. Out: one line PASS or FAIL with every figure. The second and third must equal the first bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/served.h"
#include "cli/wire_chunk.h"
#include "gr00t.h"

#define PCC_MIN 0.999 /* gates of a service that names none */
#define REPEAT_MAX 0.0
#define CONSTANT_MAX 1e-4 /* golden bound, for a chunk that is too flat for a correlation */
enum { RUNS = 3, FIRST = 0, SECOND = 1, NOISE = 2, GATES_BYTES = 320 };

struct options {
    const char *out;
    bool json;
    struct gr_served_flags served;
};

static const struct gr_arg args[] = {
    GR_SERVED_ARGS(struct options, served),
    {.name = "out",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, out),
     .value = "FILE.json",
     .help = "write all figures as JSON to FILE"},
    {.name = "json",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, json),
     .help = "print the figures as JSON instead of the line"},
};

struct smoke {
    struct gr_served_demo demo;
    struct gr_wire_chunk expected, got[RUNS];
    double wall_ms[RUNS];
    float *golden; /* expected.actions in the reply's group order, [steps, dim] */
    double pcc_min, repeat_max;
    /* figures */
    struct gr_diff actions, valid;
    bool has_valid;
    double repeat_maxdiff, seed_maxdiff;
    char failed[GATES_BYTES]; /* what failed, "" for nothing */
};

static void smoke_free(struct smoke *s)
{
    gr_json_free(s->demo.root);
    gr_wire_chunk_free(&s->expected);
    for (int i = 0; i < RUNS; i++) {
        gr_wire_chunk_free(&s->got[i]);
    }
    free(s->golden);
}

static double number_or(const struct gr_json *v, double otherwise)
{
    return gr_json_is_number(v) ? gr_json_number(v) : otherwise;
}

static enum gr_status read_demo(struct gr_served *served, struct smoke *s, struct gr_err *err)
{
    GR_TRY(gr_served_demo(served, &s->demo, err));
    const struct gr_json *expected = gr_json_get(s->demo.root, "expected"), *gates = gr_json_get(expected, "gates");
    s->pcc_min = number_or(gr_json_get(gates, "pcc_actions_min"), PCC_MIN);
    s->repeat_max = number_or(gr_json_get(gates, "max_abs_repeat"), REPEAT_MAX);
    return gr_wire_chunk_read(expected, "/demo: expected", GR_ERR_NETWORK, &s->expected, err);
}

/* noise: the shape in which the seed's noise is sent, NULL: the seed itself. */
static enum gr_status write_request(const struct smoke *s, const struct gr_wire_matrix *noise, struct gr_buf *out,
                                    struct gr_err *err)
{
    static const char *const ours[] = {"seed", "noise", "return_normalized", NULL};
    struct gr_jw w = {.out = out, .compact = true};
    gr_json_rewrite_members(s->demo.request, ours, &w);
    gr_jw_put_bool(&w, "return_normalized", true);
    if (noise == NULL) {
        gr_jw_put_u64(&w, "seed", s->demo.seed);
    } else {
        GR_TRY(gr_served_put_noise(s->demo.seed, noise, GR_ERR_CHECK, &w, err));
    }
    gr_jw_end_object(&w);
    return GR_OK;
}

static enum gr_status post(struct gr_served *served, struct smoke *s, int run, const struct gr_buf *body,
                           struct gr_err *err)
{
    struct gr_client_reply reply;
    struct gr_json *root = NULL;
    GR_TRY(gr_served_predict(served, body, &reply, &root, err));
    s->wall_ms[run] = reply.wall_ms;
    enum gr_status status = gr_wire_chunk_read(root, "reply of /predict", GR_ERR_CHECK, &s->got[run], err);
    gr_buf_free(&reply.body);
    gr_json_free(root);
    return status;
}

/* The same chunk twice with the seed, then once with the seed's noise as numbers. */
static enum gr_status post_all(struct gr_served *served, struct smoke *s, struct gr_err *err)
{
    struct gr_buf body = {0};
    enum gr_status status = write_request(s, NULL, &body, err);
    if (status == GR_OK) {
        status = post(served, s, FIRST, &body, err);
    }
    if (status == GR_OK) {
        status = post(served, s, SECOND, &body, err);
    }
    gr_buf_free(&body);
    GR_TRY(status);
    status = write_request(s, &s->got[FIRST].normalized, &body, err);
    if (status == GR_OK) {
        status = post(served, s, NOISE, &body, err);
    }
    gr_buf_free(&body);
    return status;
}

/* Largest difference of two replies, actions and normalised chunk. */
static enum gr_status difference(const struct gr_wire_chunk *a, const struct gr_wire_chunk *b, double *out,
                                 struct gr_err *err)
{
    float *same_order = NULL;
    GR_TRY(
        gr_wire_chunk_align(b, a->groups, a->n_groups, a->steps, "the repeated reply", GR_ERR_CHECK, &same_order, err));
    *out = gr_compare(same_order, a->dim, a->actions, a->dim, a->steps, a->dim).max_abs;
    free(same_order);
    if (a->normalized.rows != b->normalized.rows || a->normalized.cols != b->normalized.cols) {
        return gr_fail(err, GR_ERR_CHECK, "action_pred_normalized has another shape in the repeated reply");
    }
    const int rows = a->normalized.rows, cols = a->normalized.cols;
    double d = gr_compare(b->normalized.values, cols, a->normalized.values, cols, rows, cols).max_abs;
    *out = d > *out ? d : *out;
    return GR_OK;
}

static void fail_gate(struct smoke *s, const char *fmt, double value, double bound)
{
    size_t used = strlen(s->failed);
    used += (size_t)snprintf(s->failed + used, sizeof s->failed - used, "%s", used > 0 ? "; " : "");
    if (used < sizeof s->failed) {
        snprintf(s->failed + used, sizeof s->failed - used, fmt, value, bound);
    }
}

static bool pcc_passes(const struct gr_diff *d, double min)
{
    return d->has_pcc ? d->pcc >= min : d->max_abs <= CONSTANT_MAX;
}

static enum gr_status judge(struct smoke *s, struct gr_err *err)
{
    const struct gr_wire_chunk *got = &s->got[FIRST];
    GR_TRY(gr_wire_chunk_align(&s->expected, got->groups, got->n_groups, got->steps, "the expected chunk of /demo",
                               GR_ERR_CHECK, &s->golden, err));
    s->actions = gr_compare(got->actions, got->dim, s->golden, got->dim, got->steps, got->dim);
    const struct gr_wire_matrix *want = &s->expected.normalized, *valid = &got->valid;
    if (want->values != NULL && valid->values != NULL && want->rows >= valid->rows && want->cols >= valid->cols) {
        s->has_valid = true;
        s->valid = gr_compare(valid->values, valid->cols, want->values, want->cols, valid->rows, valid->cols);
    }
    GR_TRY(difference(got, &s->got[SECOND], &s->repeat_maxdiff, err));
    GR_TRY(difference(got, &s->got[NOISE], &s->seed_maxdiff, err));
    if (!pcc_passes(&s->actions, s->pcc_min)) {
        fail_gate(
            s, s->actions.has_pcc ? "PCC(actions) %.6f is below %.6g" : "max|d| %.3g of a constant chunk is above %.3g",
            s->actions.has_pcc ? s->actions.pcc : s->actions.max_abs, s->actions.has_pcc ? s->pcc_min : CONSTANT_MAX);
    }
    if (!(s->repeat_maxdiff <= s->repeat_max)) {
        fail_gate(s, "the repeated request differs by %.1e, at most %.1e", s->repeat_maxdiff, s->repeat_max);
    }
    if (!(s->seed_maxdiff <= s->repeat_max)) {
        fail_gate(s, "the noise of the seed gives another chunk than the seed: %.1e, at most %.1e", s->seed_maxdiff,
                  s->repeat_max);
    }
    return GR_OK;
}

static void put_pcc(const struct gr_diff *d, int decimals, struct gr_buf *out)
{
    if (d->has_pcc) {
        gr_buf_printf(out, "%.*f", decimals, d->pcc);
    } else {
        gr_buf_puts(out, "n/a");
    }
}

/* Group `g` of the first reply against its part of the golden. */
static struct gr_diff group_diff(const struct smoke *s, int g, int column)
{
    const struct gr_wire_chunk *got = &s->got[FIRST];
    return gr_compare(got->actions + column, got->dim, s->golden + column, got->dim, got->steps, got->groups[g].dim);
}

static void put_line(const struct smoke *s, struct gr_buf *out)
{
    const struct gr_wire_chunk *a = &s->got[FIRST], *b = &s->got[SECOND];
    gr_buf_line(out, "%s %s %s: PCC(actions)=", s->failed[0] == '\0' ? "PASS" : "FAIL", a->model, a->version);
    put_pcc(&s->actions, 6, out);
    gr_buf_printf(out, " max|d|=%.4f PCC(action_pred_valid)=", s->actions.max_abs);
    if (s->has_valid) {
        put_pcc(&s->valid, 6, out);
    } else {
        gr_buf_puts(out, "n/a");
    }
    gr_buf_printf(out, " repeat_maxdiff=%.1e %s device_ms=%.2f/%.2f total_ms=%.2f/%.2f wall_ms=%.0f per_group[",
                  s->repeat_maxdiff, s->seed_maxdiff <= s->repeat_max ? "seed_path_ok" : "seed_path_FAILED",
                  gr_wire_chunk_ms(a, "device"), gr_wire_chunk_ms(b, "device"), gr_wire_chunk_ms(a, "total"),
                  gr_wire_chunk_ms(b, "total"), s->wall_ms[FIRST]);
    for (int g = 0, d = 0; g < a->n_groups; d += a->groups[g].dim, g++) {
        struct gr_diff diff = group_diff(s, g, d);
        gr_buf_line(out, "%s%s=", g > 0 ? " " : "", a->groups[g].name);
        put_pcc(&diff, 5, out);
        gr_buf_printf(out, "/%.4f", diff.max_abs);
    }
    gr_buf_puts(out, "]");
    if (s->failed[0] != '\0') {
        gr_buf_line(out, " failed[%s]", s->failed);
    }
    gr_buf_puts(out, "\n");
}

static void json_pcc(struct gr_jw *w, const char *key, const struct gr_diff *d)
{
    gr_jw_put_f64(w, key, d->has_pcc ? d->pcc : (double)NAN);
}

static void json_runs(struct gr_jw *w, const struct smoke *s)
{
    static const char *const names[RUNS] = {"seed", "repeat", "noise"};
    gr_jw_put_array(w, "runs");
    for (int i = 0; i < RUNS; i++) {
        gr_jw_object(w);
        gr_jw_put_string(w, "request", names[i]);
        gr_jw_put_milli(w, "wall_ms", s->wall_ms[i]);
        for (int t = 0; t < s->got[i].n_timings; t++) {
            gr_jw_put_milli(w, s->got[i].timings[t].name, s->got[i].timings[t].ms);
        }
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
}

static void json_groups(struct gr_jw *w, const struct smoke *s)
{
    const struct gr_wire_chunk *a = &s->got[FIRST];
    gr_jw_put_object(w, "per_group");
    for (int g = 0, d = 0; g < a->n_groups; d += a->groups[g].dim, g++) {
        struct gr_diff diff = group_diff(s, g, d);
        gr_jw_put_object(w, a->groups[g].name);
        json_pcc(w, "pcc", &diff);
        gr_jw_put_f64(w, "max_abs", diff.max_abs);
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
}

static void put_json(const struct smoke *s, const char *url, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    const struct {
        const char *name;
        double value;
    } figures[] = {{"max_abs", s->actions.max_abs},
                   {"repeat_max_abs", s->repeat_maxdiff},
                   {"seed_path_max_abs", s->seed_maxdiff},
                   {"gate_pcc_actions_min", s->pcc_min},
                   {"gate_max_abs_repeat", s->repeat_max}};
    gr_jw_object(&w);
    gr_jw_put_bool(&w, "pass", s->failed[0] == '\0');
    gr_jw_put_string(&w, "failed", s->failed[0] == '\0' ? NULL : s->failed);
    gr_jw_put_string(&w, "url", url);
    gr_jw_put_string(&w, "model", s->got[FIRST].model);
    gr_jw_put_string(&w, "version", s->got[FIRST].version);
    gr_jw_put_u64(&w, "seed", s->demo.seed);
    json_pcc(&w, "pcc_actions", &s->actions);
    json_pcc(&w, "pcc_action_pred_valid", &s->valid);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        gr_jw_put_f64(&w, figures[i].name, figures[i].value);
    }
    gr_jw_put_bool(&w, "seed_path_ok", s->seed_maxdiff <= s->repeat_max);
    json_groups(&w, s);
    json_runs(&w, s);
    gr_jw_end_object(&w);
}

/* A reply that is no chunk at all has no figures: still one line. */
static void put_broken(const struct smoke *s, const struct options *o, const char *url, const char *why,
                       struct gr_buf *out)
{
    const char *model = s->got[FIRST].model, *version = s->got[FIRST].version;
    if (!o->json) {
        gr_buf_line(out, "FAIL %s %s: %s\n", *model != '\0' ? model : "unknown", *version != '\0' ? version : "unknown",
                    why);
        return;
    }
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_bool(&w, "pass", false);
    gr_jw_put_string(&w, "failed", why);
    gr_jw_put_string(&w, "url", url);
    gr_jw_end_object(&w);
}

static enum gr_status report(struct gr_cli *cli, const struct options *o, const struct gr_served *served,
                             const struct smoke *s, struct gr_err *err)
{
    if (o->json) {
        put_json(s, served->url, &cli->out);
    } else {
        put_line(s, &cli->out);
    }
    if (o->out != NULL) {
        struct gr_buf file = {0};
        put_json(s, served->url, &file);
        enum gr_status status = gr_cli_write_file(o->out, &file, err);
        gr_buf_free(&file);
        GR_TRY(status);
    }
    return s->failed[0] == '\0' ? GR_OK : gr_fail(err, GR_ERR_CHECK, "%s: %s", served->url, s->failed);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct gr_served served = {0};
    struct smoke s = {0};
    enum gr_status status = gr_served_open(&o->served, &served, err);
    if (status != GR_OK || (status = gr_served_ready(&served, err)) != GR_OK ||
        (status = read_demo(&served, &s, err)) != GR_OK) {
        goto out;
    }
    if ((status = post_all(&served, &s, err)) != GR_OK || (status = judge(&s, err)) != GR_OK) {
        if (status == GR_ERR_CHECK) {
            put_broken(&s, o, served.url, err->msg, &cli->out);
        }
        goto out;
    }
    status = report(cli, o, &served, &s, err);
out:
    smoke_free(&s);
    gr_served_close(&served);
    return status;
}

const struct gr_command gr_cmd_smoke = {
    .name = "smoke",
    .summary = "Check a running service with its demo request",
    .synopsis = "[--url URL] [OPTIONS]",
    .more =
        "Posts what GET /demo hands out three times: with its seed, again, and with the noise of that seed as numbers.\n"
        "Prints one line, PASS or FAIL: correlation (PCC) and largest difference against the expected chunk, largest\n"
        "difference of the repeated request, device and total times of the first two requests as the service measured\n"
        "them, time of the first as seen from here, and correlation and largest difference of each joint group.\n"
        "The gates are those of /demo. Exit code: 0 pass, 1 fail, 3 request refused, 5 no service, 6 key refused.\n\n"
        "Example\n  gr00t smoke --url http://127.0.0.1:20000 --wait 1800 --out smoke.json",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
