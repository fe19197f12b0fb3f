/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c: numbers in, Prometheus text out. A scrape copies the numbers under the lock and formats the copy, so that a thread that
 * records never waits for the printing. Base units are seconds and bytes, as Prometheus wants them. */
#include "server/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/process_facts.h"

enum { STATUS_FIRST = 100, STATUSES = 500, BUCKETS = 14 };
/* 1 ms .. 10 s: a GET takes under 1 ms, a predict 40 ms on a card and up to some seconds on two slow cores. 0.8: a chunk of gr1 lasts
 * as long, and an alert on a bound between two others would be a guess. */
static const double bucket_s[BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.8, 1, 2.5, 5, 10};

enum stage { DECODE, QUEUE, ENCODE, VISION, LLM, ADAPTER, DENOISE, DECODE_ACTIONS, TOTAL, STAGES };
static const char *const stage_names[STAGES] = {"decode",  "queue",   "encode",         "vision", "llm",
                                                "adapter", "denoise", "decode_actions", "total"};
static const char *const route_names[GR_ROUTES] = {"/health",  "/ready",   "/info",         "/demo", "/v1/models",
                                                   "/predict", "/metrics", "/openapi.json", "other"};

struct histogram {
    uint64_t bucket[BUCKETS + 1]; /* not cumulative; the last one is +Inf */
    double sum_s;
};

struct counts {
    uint64_t requests[GR_ROUTES][STATUSES];
    struct histogram route[GR_ROUTES], stage[STAGES];
    uint64_t dropped, out_of_range;
};

struct gr_metrics {
    pthread_mutex_t lock;
    struct counts counts;
    double start_time_s; /* Unix time of the process */
};

const char *gr_metric_route_name(enum gr_metric_route route)
{
    return (int)route >= 0 && route < GR_ROUTES ? route_names[route] : route_names[GR_ROUTE_OTHER];
}

enum gr_status gr_metrics_new(struct gr_metrics **out, struct gr_err *err)
{
    struct gr_metrics *m = calloc(1, sizeof *m);
    if (m == NULL || pthread_mutex_init(&m->lock, NULL) != 0) {
        free(m);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the metrics");
    }
    m->start_time_s = gr_process_start_time_s();
    *out = m;
    return GR_OK;
}

void gr_metrics_free(struct gr_metrics *m)
{
    if (m != NULL) {
        (void)pthread_mutex_destroy(&m->lock);
        free(m);
    }
}

static void observe(struct histogram *h, double ms)
{
    const double s = isfinite(ms) && ms > 0 ? ms / 1000.0 : 0;
    int i = 0;
    while (i < BUCKETS && s > bucket_s[i]) {
        i++;
    }
    h->bucket[i]++;
    h->sum_s += s;
}

void gr_metrics_request(struct gr_metrics *m, enum gr_metric_route route, int http_status, double ms)
{
    if ((int)route < 0 || route >= GR_ROUTES || http_status < STATUS_FIRST || http_status >= STATUS_FIRST + STATUSES) {
        return;
    }
    (void)pthread_mutex_lock(&m->lock);
    m->counts.requests[route][http_status - STATUS_FIRST]++;
    observe(&m->counts.route[route], ms);
    (void)pthread_mutex_unlock(&m->lock);
}

void gr_metrics_predict(struct gr_metrics *m, double decode_ms, double queue_ms, const struct gr_timing *timing,
                        double total_ms)
{
    const double ms[STAGES] = {decode_ms,       queue_ms,        timing->encode,         timing->vision, timing->llm,
                               timing->adapter, timing->denoise, timing->decode_actions, total_ms};
    (void)pthread_mutex_lock(&m->lock);
    for (int i = 0; i < STAGES; i++) {
        observe(&m->counts.stage[i], ms[i]);
    }
    (void)pthread_mutex_unlock(&m->lock);
}

void gr_metrics_out_of_range(struct gr_metrics *m, int values)
{
    (void)pthread_mutex_lock(&m->lock);
    m->counts.out_of_range += values > 0 ? (uint64_t)values : 0;
    (void)pthread_mutex_unlock(&m->lock);
}

void gr_metrics_dropped(struct gr_metrics *m)
{
    (void)pthread_mutex_lock(&m->lock);
    m->counts.dropped++;
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- printing ---- */

static void head(struct gr_buf *out, const char *name, const char *type, const char *help)
{
    gr_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label value: the text format escapes backslash, quote and line feed. */
static void label(struct gr_buf *out, const char *text)
{
    for (const char *p = text == NULL ? "" : text; *p != '\0'; p++) {
        if (*p == '\n') {
            gr_buf_puts(out, "\\n");
        } else {
            if (*p == '\\' || *p == '"') {
                gr_buf_puts(out, "\\");
            }
            gr_buf_put(out, p, 1);
        }
    }
}

static void number(struct gr_buf *out, double v)
{
    char text[32];
    (void)gr_format_f64(text, isfinite(v) ? v : 0);
    gr_buf_puts(out, text);
}

static void single(struct gr_buf *out, const char *name, const char *type, const char *help, double v)
{
    head(out, name, type, help);
    gr_buf_printf(out, "%s ", name);
    number(out, v);
    gr_buf_puts(out, "\n");
}

static void print_histogram(struct gr_buf *out, const char *name, const char *key, const char *value,
                            const struct histogram *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= BUCKETS; i++) {
        n += h->bucket[i];
        gr_buf_printf(out, "%s_bucket{%s=\"%s\",le=\"", name, key, value);
        if (i < BUCKETS) {
            number(out, bucket_s[i]);
        } else {
            gr_buf_puts(out, "+Inf");
        }
        gr_buf_printf(out, "\"} %" PRIu64 "\n", n);
    }
    gr_buf_printf(out, "%s_sum{%s=\"%s\"} ", name, key, value);
    number(out, h->sum_s);
    gr_buf_printf(out, "\n%s_count{%s=\"%s\"} %" PRIu64 "\n", name, key, value, n);
}

static void print_counts(const struct counts *c, struct gr_buf *out)
{
    head(out, "gr00t_requests_total", "counter",
         "Requests by route and status; 499: the client went away before the reply.");
    for (int r = 0; r < GR_ROUTES; r++) {
        for (int s = 0; s < STATUSES; s++) {
            /* The one series that rates are built on exists from the start. */
            if (c->requests[r][s] > 0 || (r == GR_ROUTE_PREDICT && s + STATUS_FIRST == 200)) {
                gr_buf_printf(out, "gr00t_requests_total{route=\"%s\",status=\"%d\"} %" PRIu64 "\n", route_names[r],
                              s + STATUS_FIRST, c->requests[r][s]);
            }
        }
    }
    head(out, "gr00t_request_seconds", "histogram", "Head complete to reply sent, by route.");
    for (int r = 0; r < GR_ROUTES; r++) {
        print_histogram(out, "gr00t_request_seconds", "route", route_names[r], &c->route[r]);
    }
    head(out, "gr00t_stage_seconds", "histogram", "Stages of answered predicts; total: body complete to reply made.");
    for (int s = 0; s < STAGES; s++) {
        print_histogram(out, "gr00t_stage_seconds", "stage", stage_names[s], &c->stage[s]);
    }
    single(out, "gr00t_dropped_total", "counter", "Queued predicts whose client had gone before they ran.",
           (double)c->dropped);
    single(out, "gr00t_state_out_of_range_total", "counter",
           "State values outside the range of the recordings the model was trained on.", (double)c->out_of_range);
}

static void print_now(const struct gr_metrics_now *now, struct gr_buf *out)
{
    static const char *const states[] = {"starting", "ok", "draining"};
    head(out, "gr00t_state", "gauge", "1 for the state the service is in.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        gr_buf_printf(out, "gr00t_state{state=\"%s\"} %d\n", states[i], strcmp(states[i], now->state) == 0);
    }
    single(out, "gr00t_queue_depth", "gauge", "Predicts accepted and not yet running.", now->queue_depth);
    single(out, "gr00t_queue_capacity", "gauge", "Most predicts that may wait; more get 503.", now->queue_capacity);
    single(out, "gr00t_busy", "gauge", "1 while a predict runs.", now->busy);
    single(out, "gr00t_busy_seconds", "gauge", "How long the running predict has been running; 0 when idle.",
           now->busy_s);
    single(out, "gr00t_connections", "gauge", "Open client connections.", now->connections);
    single(out, "gr00t_open_requests", "gauge", "Requests between their head and the end of their reply.",
           now->open_requests);
    head(out, "gr00t_build_info", "gauge", "Always 1; the labels say what is served.");
    const char *const pairs[][2] = {{"version", now->version},
                                    {"model", now->model},
                                    {"device", now->device},
                                    {"isa", now->isa},
                                    {"policy", now->policy}};
    gr_buf_puts(out, "gr00t_build_info{");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        gr_buf_printf(out, "%s%s=\"", i > 0 ? "," : "", pairs[i][0]);
        label(out, pairs[i][1]);
        gr_buf_puts(out, "\"");
    }
    gr_buf_puts(out, "} 1\n");
}

void gr_metrics_print(const struct gr_metrics *m, const struct gr_metrics_now *now, struct gr_buf *out)
{
    struct gr_metrics *unlocked = (struct gr_metrics *)m; /* the mutex is not part of what const promises */
    struct counts *copy = malloc(sizeof *copy);           /* 40 KB: too much for a small stack */
    if (copy == NULL) {
        out->failed = true;
        return;
    }
    (void)pthread_mutex_lock(&unlocked->lock);
    *copy = m->counts;
    (void)pthread_mutex_unlock(&unlocked->lock);
    print_counts(copy, out);
    free(copy);
    print_now(now, out);
    single(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
           gr_process_resident_bytes());
    single(out, "process_open_fds", "gauge", "Number of open file descriptors.", gr_process_open_fds());
    single(out, "process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.",
           gr_process_cpu_s());
    single(out, "process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.",
           m->start_time_s);
}
