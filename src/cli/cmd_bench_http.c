/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_bench_http.c: `gr00t bench http`: latency of a running service on its demo request, as seen by a client, beside what the service
 * says it spent itself. What a reader would get wrong: "overhead" counts JSON, base64 and the decoding of the picture, "service" does not
 * count the picture (see --help). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/histogram.h"
#include "cli/http_load.h"
#include "cli/served.h"
#include "cli/table.h"
#include "gr00t.h"

enum { REQUESTS = 50, REQUESTS_MAX = 1000000, CONCURRENCY_MAX = 4096, WARMUP = 3, IDLE_CALLS = 3, PICTURE_RUNS = 21 };
enum { ROWS_MAX = GR_WIRE_TIMINGS + 3 };

struct options {
    struct gr_arg_int requests, n, concurrency, warmup, idle_gap;
    const char *out;
    bool json, noise;
    struct gr_served_flags served;
};

static const struct gr_arg args[] = {
    GR_SERVED_ARGS(struct options, served),
    {.name = "n",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, n),
     .value = "N",
     .min = 1,
     .max = REQUESTS_MAX,
     .help = "timed requests [50]"},
    {.name = "requests",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, requests),
     .value = "N",
     .min = 1,
     .max = REQUESTS_MAX,
     .help = "the same"},
    {.name = "concurrency",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, concurrency),
     .value = "N",
     .min = 1,
     .max = CONCURRENCY_MAX,
     .help = "connections that send at the same time [1]"},
    {.name = "warmup",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, warmup),
     .value = "N",
     .min = 1,
     .max = REQUESTS_MAX,
     .help = "requests before the timed ones [3]"},
    {.name = "noise",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, noise),
     .help = "send the noise of the seed as numbers, as closed-loop\ncontrollers do"},
    {.name = "idle-gap",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, idle_gap),
     .value = "SECONDS",
     .min = 1,
     .max = 3600,
     .help = "afterwards, three times: silence, then one request"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the report as JSON"},
    {.name = "out",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, out),
     .value = "FILE.json",
     .help = "write the report as JSON to FILE"},
};

struct row {
    const char *name;
    struct gr_percentiles ms;
};

struct report {
    struct gr_load load;
    int ok, n_rows;
    struct row rows[ROWS_MAX];
    double *walls; /* [ok], sorted */
    double picture_ms;
    int n_pictures;
    int idle_gap_s, n_idle;
    double idle_ms[IDLE_CALLS];
    char model[GR_WIRE_NAME_BYTES], version[GR_WIRE_NAME_BYTES];
};

/* ---- the request ---- */

/* noise: the shape in which the seed's noise is sent, NULL: the request as it is. */
static enum gr_status write_body(const struct gr_served_demo *demo, const struct gr_wire_matrix *noise,
                                 struct gr_buf *out, struct gr_err *err)
{
    static const char *const seed_fields[] = {"seed", "noise", NULL};
    struct gr_jw w = {.out = out, .compact = true};
    gr_json_rewrite_members(demo->request, noise != NULL ? seed_fields : NULL, &w);
    if (noise != NULL) {
        GR_TRY(gr_served_put_noise(demo->seed, noise, GR_ERR_NETWORK, &w, err));
    }
    gr_jw_end_object(&w);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the request") : GR_OK;
}

/* Median time of gr_image_decode here for one picture of the request; 0 when it is none. */
static double picture_time(const struct gr_json *text)
{
    struct gr_err err;
    double ms[PICTURE_RUNS];
    if (gr_json_kind(text) != GR_JSON_STRING) {
        return 0.0;
    }
    const char *base64 = gr_json_string(text);
    size_t len = strlen(base64), n = 0;
    unsigned char *bytes = malloc(gr_base64_max(len) + 1);
    if (bytes == NULL || gr_base64_decode(base64, len, bytes, &n, &err) != GR_OK) {
        free(bytes);
        return 0.0;
    }
    for (int i = 0; i < PICTURE_RUNS; i++) {
        struct gr_image image = {0};
        double start = gr_clock_ms();
        bool good = gr_image_decode(bytes, n, &image, &err) == GR_OK;
        ms[i] = good ? gr_clock_ms() - start : 0.0;
        gr_image_free(&image);
    }
    free(bytes);
    return gr_percentiles_of(ms, PICTURE_RUNS).p50;
}

static void time_pictures(const struct gr_json *request, struct report *r)
{
    const struct gr_json *images = gr_json_get(request, "images");
    for (void *it = gr_json_first(images); it != NULL; it = gr_json_next(images, it)) {
        const struct gr_json *v = gr_json_value(it);
        size_t n = gr_json_kind(v) == GR_JSON_ARRAY ? gr_json_len(v) : 1;
        for (size_t i = 0; i < n; i++) {
            r->picture_ms += picture_time(gr_json_kind(v) == GR_JSON_ARRAY ? gr_json_at(v, i) : v);
            r->n_pictures++;
        }
    }
}

static enum gr_status prepare(struct gr_served *served, const struct options *o, struct report *r, struct gr_buf *body,
                              struct gr_err *err)
{
    struct gr_served_demo demo;
    struct gr_wire_chunk expected = {0};
    GR_TRY(gr_served_demo(served, &demo, err));
    enum gr_status status = GR_OK;
    if (o->noise) {
        status = gr_wire_chunk_read(demo.root, "/demo", GR_ERR_NETWORK, &expected, err);
    }
    if (status == GR_OK) {
        status = write_body(&demo, o->noise ? &expected.normalized : NULL, body, err);
    }
    if (status == GR_OK) {
        time_pictures(demo.request, r);
    }
    gr_wire_chunk_free(&expected);
    gr_json_free(demo.root);
    return status;
}

/* Model and version stand in the reply; the first warm-up call also shows whether the service answers at all. */
static enum gr_status warm_up(struct gr_served *served, const struct gr_buf *body, int n, struct report *r,
                              struct gr_err *err)
{
    struct gr_client_reply reply;
    struct gr_json *root = NULL;
    struct gr_wire_chunk chunk;
    for (int i = 0; i < n; i++) {
        GR_TRY(gr_served_predict(served, body, &reply, &root, err));
        enum gr_status status = gr_wire_chunk_read(root, "reply of /predict", GR_ERR_NETWORK, &chunk, err);
        gr_buf_free(&reply.body);
        gr_json_free(root);
        GR_TRY(status);
        snprintf(r->model, sizeof r->model, "%s", chunk.model);
        snprintf(r->version, sizeof r->version, "%s", chunk.version);
        gr_wire_chunk_free(&chunk);
    }
    return GR_OK;
}

/* ---- figures ---- */

static double sample_ms(const struct gr_load_sample *s, const char *name)
{
    for (int i = 0; i < s->n_timings; i++) {
        if (strcmp(s->timings[i].name, name) == 0) {
            return s->timings[i].ms;
        }
    }
    return 0.0;
}

static double overhead_of(const struct gr_load_sample *s)
{
    return s->wall_ms - (sample_ms(s, "encode") + sample_ms(s, "device") + sample_ms(s, "decode_actions"));
}

enum kind { WALL, PART, OVERHEAD, SERVICE };

static void add_row(struct report *r, enum kind kind, const char *name, double *values)
{
    int n = 0;
    for (int i = 0; i < r->load.requests; i++) {
        const struct gr_load_sample *s = &r->load.samples[i];
        if (s->wall_ms > 0.0) {
            values[n++] = kind == WALL       ? s->wall_ms
                          : kind == PART     ? sample_ms(s, name)
                          : kind == OVERHEAD ? overhead_of(s)
                                             : overhead_of(s) - r->picture_ms;
        }
    }
    r->rows[r->n_rows++] = (struct row){name, gr_percentiles_of(values, n)};
}

static const struct gr_load_sample *first_good(const struct report *r)
{
    for (int i = 0; i < r->load.requests; i++) {
        if (r->load.samples[i].wall_ms > 0.0) {
            return &r->load.samples[i];
        }
    }
    return NULL;
}

static enum gr_status evaluate(struct report *r, struct gr_err *err)
{
    double *values = calloc((size_t)r->load.requests * 2, sizeof *values);
    const struct gr_load_sample *first = first_good(r);
    for (int i = 0; i < r->load.requests; i++) {
        r->ok += r->load.samples[i].wall_ms > 0.0;
    }
    if (values == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d requests", r->load.requests);
    }
    r->walls = values; /* rows after the first use the second half */
    if (first == NULL) {
        return GR_OK;
    }
    add_row(r, WALL, "wall", values);
    for (int i = 0; i < first->n_timings; i++) {
        add_row(r, PART, first->timings[i].name, values + r->load.requests);
    }
    add_row(r, OVERHEAD, "overhead", values + r->load.requests);
    add_row(r, SERVICE, "service", values + r->load.requests);
    return GR_OK;
}

static enum gr_status idle_calls(struct gr_served *served, const struct gr_buf *body, int seconds, struct report *r,
                                 struct gr_err *err)
{
    r->idle_gap_s = seconds;
    for (; r->n_idle < IDLE_CALLS; r->n_idle++) {
        struct gr_load_sample sample;
        int http;
        gr_log(GR_LOG_DEBUG, "silence for %d s, %d of %d", seconds, r->n_idle + 1, IDLE_CALLS);
        gr_clock_sleep(1000.0 * seconds);
        GR_TRY(gr_load_one(served->client, body, &sample, &http, err));
        r->idle_ms[r->n_idle] = sample.wall_ms;
    }
    return GR_OK;
}

static double rate_of(const struct report *r) { return r->load.wall_s > 0.0 ? r->ok / r->load.wall_s : 0.0; }

/* ---- the report ---- */

static void text_errors(const struct report *r, struct gr_buf *out)
{
    for (int s = 0; s < GR_LOAD_STATUS_MAX; s++) {
        if (r->load.by_status[s] > 0) {
            gr_buf_printf(out, "answered %d: %d of %d\n", s, r->load.by_status[s], r->load.requests);
        }
    }
    if (r->load.network_errors > 0) {
        gr_buf_printf(out, "not answered with a chunk: %d of %d\n", r->load.network_errors, r->load.requests);
    }
}

static void put_text(const struct report *r, const char *url, struct gr_buf *out)
{
    static const char *const head[] = {"ms", "p50", "p90", "p99", "max", "mean"};
    struct gr_table t = {.columns = 6, .align = "lrrrrr"};
    gr_buf_line(out, "%s, %s %s: %d of %d requests, %d connection%s, %.2f s, %.2f requests/s\n", url, r->model,
                r->version, r->ok, r->load.requests, r->load.concurrency, r->load.concurrency == 1 ? "" : "s",
                r->load.wall_s, rate_of(r));
    text_errors(r, out);
    if (r->n_rows == 0) {
        return;
    }
    gr_buf_puts(out, "\n");
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int i = 0; i < r->n_rows; i++) {
        const struct gr_percentiles *p = &r->rows[i].ms;
        gr_table_cell(&t, r->rows[i].name);
        const double cells[] = {p->p50, p->p90, p->p99, p->max, p->mean};
        for (size_t c = 0; c < sizeof cells / sizeof cells[0]; c++) {
            gr_table_cellf(&t, "%.3f", cells[c]);
        }
    }
    gr_table_print(&t, out);
    gr_buf_printf(
        out,
        "\noverhead = wall - (encode + device + decode_actions); service = overhead - %.3f ms, the decoding of "
        "%d picture%s measured here\n\n",
        r->picture_ms, r->n_pictures, r->n_pictures == 1 ? "" : "s");
    gr_histogram_text(r->walls, r->ok, out);
    if (r->n_idle > 0) {
        gr_buf_printf(out, "\nafter %d s of silence:", r->idle_gap_s);
        for (int i = 0; i < r->n_idle; i++) {
            gr_buf_printf(out, " %.2f ms (%.2f x median)", r->idle_ms[i], r->idle_ms[i] / r->rows[0].ms.p50);
        }
        gr_buf_puts(out, "\n");
    }
}

static void json_errors(const struct report *r, struct gr_jw *w)
{
    gr_jw_put_object(w, "errors");
    for (int s = 0; s < GR_LOAD_STATUS_MAX; s++) {
        if (r->load.by_status[s] > 0) {
            char key[16];
            snprintf(key, sizeof key, "%d", s);
            gr_jw_put_int(w, key, r->load.by_status[s]);
        }
    }
    if (r->load.network_errors > 0) {
        gr_jw_put_int(w, "no_chunk", r->load.network_errors);
    }
    gr_jw_end_object(w);
}

static void json_idle(const struct report *r, struct gr_jw *w)
{
    gr_jw_key(w, "idle_gap");
    if (r->n_idle == 0 || r->n_rows == 0) {
        gr_jw_null(w);
        return;
    }
    gr_jw_object(w);
    gr_jw_put_int(w, "seconds", r->idle_gap_s);
    gr_jw_put_array(w, "wall_ms");
    for (int i = 0; i < r->n_idle; i++) {
        gr_jw_milli(w, r->idle_ms[i]);
    }
    gr_jw_end_array(w);
    gr_jw_put_array(w, "of_median");
    for (int i = 0; i < r->n_idle; i++) {
        gr_jw_milli(w, r->idle_ms[i] / r->rows[0].ms.p50);
    }
    gr_jw_end_array(w);
    gr_jw_end_object(w);
}

static void put_json(const struct report *r, const char *url, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    const struct {
        const char *key;
        int value;
    } counts[] = {{"requests", r->load.requests}, {"ok", r->ok}, {"concurrency", r->load.concurrency}};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "url", url);
    gr_jw_put_string(&w, "model", r->model);
    gr_jw_put_string(&w, "version", r->version);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        gr_jw_put_int(&w, counts[i].key, counts[i].value);
    }
    json_errors(r, &w);
    gr_jw_put_milli(&w, "wall_s", r->load.wall_s);
    gr_jw_put_milli(&w, "requests_per_s", rate_of(r));
    gr_jw_put_milli(&w, "picture_decode_ms", r->picture_ms);
    gr_jw_put_string(&w, "percentile", "nearest rank: value number ceil(p * n) of n sorted ones");
    gr_jw_put_object(&w, "ms");
    for (int i = 0; i < r->n_rows; i++) {
        gr_jw_key(&w, r->rows[i].name);
        gr_percentiles_json(&r->rows[i].ms, &w);
    }
    gr_jw_end_object(&w);
    json_idle(r, &w);
    gr_jw_end_object(&w);
}

static enum gr_status deliver(struct gr_cli *cli, const struct options *o, const struct report *r, const char *url,
                              struct gr_err *err)
{
    if (o->json) {
        put_json(r, url, &cli->out);
    } else {
        put_text(r, url, &cli->out);
    }
    if (o->out != NULL) {
        struct gr_buf file = {0};
        put_json(r, url, &file);
        enum gr_status status = gr_cli_write_file(o->out, &file, err);
        gr_buf_free(&file);
        GR_TRY(status);
    }
    if (r->ok == r->load.requests) {
        return GR_OK;
    }
    const struct gr_err *first = &r->load.first_error;
    enum gr_status code = r->ok == 0 && first->code != GR_ERR_BUSY ? first->code : GR_ERR_CHECK;
    return gr_fail(err, code, "%d of %d requests failed; the first: %s", r->load.requests - r->ok, r->load.requests,
                   first->msg);
}

static int int_or(const struct gr_arg_int *arg, int otherwise) { return arg->given ? (int)arg->value : otherwise; }

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct gr_served served = {0};
    struct gr_buf body = {0};
    struct report *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the report");
    }
    enum gr_status status = o->n.given && o->requests.given
                                ? gr_fail(err, GR_ERR_USAGE, "-n and --requests are the same option, give one")
                                : gr_served_open(&o->served, &served, err);
    if (status != GR_OK || (status = gr_served_ready(&served, err)) != GR_OK ||
        (status = prepare(&served, o, r, &body, err)) != GR_OK ||
        (status = warm_up(&served, &body, int_or(&o->warmup, WARMUP), r, err)) != GR_OK) {
        goto out;
    }
    r->load.config = &served.config;
    r->load.body = &body;
    r->load.requests = int_or(&o->n, int_or(&o->requests, REQUESTS));
    r->load.concurrency = int_or(&o->concurrency, 1);
    r->load.samples = calloc((size_t)r->load.requests, sizeof *r->load.samples);
    if (r->load.samples == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "no memory for %d requests", r->load.requests);
        goto out;
    }
    if ((status = gr_load_run(&r->load, err)) != GR_OK || (status = evaluate(r, err)) != GR_OK) {
        goto out;
    }
    if (o->idle_gap.given && r->ok > 0 &&
        (status = idle_calls(&served, &body, (int)o->idle_gap.value, r, err)) != GR_OK) {
        goto out;
    }
    status = deliver(cli, o, r, served.url, err);
out:
    free(r->load.samples);
    free(r->walls);
    free(r);
    gr_buf_free(&body);
    gr_served_close(&served);
    return status;
}

const struct gr_command gr_cmd_bench_http = {
    .name = "bench http",
    .summary = "Time a running service on its demo request",
    .synopsis = "[--url URL] [-n N] [OPTIONS]",
    .more =
        "Rows of the table\n"
        "  wall      from the first byte sent to the last one received, on a connection that is open already\n"
        "  decode, encode, device, decode_actions, total ...   what the service says in timing_ms\n"
        "  overhead  wall - (encode + device + decode_actions): everything that is not the engine\n"
        "  service   overhead without the decoding of the pictures, which `decode` holds together with JSON and base64;\n"
        "            that time is measured here with the same decoder, so client and service should be one machine\n"
        "With several connections the requests wait for each other, and wall and overhead hold that time.\n"
        "Percentiles are the nearest rank: value number ceil(p * n) of n sorted ones. Failed requests are counted by\n"
        "status and not repeated; exit code 1 when there were some.\n\n"
        "Example\n  gr00t bench http --url http://127.0.0.1:20000 -n 50 --out bench.json",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
