/* SPDX-License-Identifier: Apache-2.0
 *
 * service_routes.c: what is answered on the network thread: all GET routes, and everything that is refused before a body is read.
 *
 * A predict needs Content-Type absent or JSON. `curl -d` says "application/x-www-form-urlencoded" unless told otherwise and gets 415 with the
 * flag to add: that type and text/plain are the ones a foreign web page may send to 127.0.0.1 without asking the server first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "server/reply.h"
#include "server/service_parts.h"

enum { HEADERS_MAX = 8 };
static const char json_type[] = "application/json";
static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";
static const char get_methods[] = "GET, HEAD, OPTIONS", post_methods[] = "POST, OPTIONS";

/* ---- replies ---- */

static void send_reply(struct gr_job *job, int status, const char *content_type, const char *name, const char *value,
                       struct gr_buf *body, const struct gr_buf *text)
{
    const char *origin = job->service->cfg.cors_origin;
    struct gr_httpd_header headers[HEADERS_MAX];
    int n = 0;
    if (name != NULL) {
        headers[n++] = (struct gr_httpd_header){name, value};
    }
    if (origin != NULL) {
        headers[n++] = (struct gr_httpd_header){"Access-Control-Allow-Origin", origin};
        headers[n++] = (struct gr_httpd_header){"Vary", "Origin"};
        if (gr_httpd_method(job->http) == GR_HTTPD_OPTIONS) {
            headers[n++] = (struct gr_httpd_header){"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"};
            headers[n++] =
                (struct gr_httpd_header){"Access-Control-Allow-Headers", "Authorization, Content-Type, X-API-Key"};
            headers[n++] = (struct gr_httpd_header){"Access-Control-Max-Age", "600"};
        }
    }
    if (body != NULL && body->failed) { /* no memory for the text: the status must do */
        gr_buf_free(body);
        body = NULL;
        content_type = NULL;
        status = 503;
    }
    job->status = status;
    /* 499 is for our books only; a client that has gone reads nothing. What follows a body without a length is anybody's guess. */
    const struct gr_httpd_reply reply = {.status = status == GR_CLIENT_GONE ? 503 : status,
                                         .content_type = content_type,
                                         .headers = headers,
                                         .n_headers = n,
                                         .text = text,
                                         .close = status == GR_CLIENT_GONE || status == 411};
    gr_httpd_reply(job->http, &reply, body);
}

void gr_service_send(struct gr_job *job, int status, const char *content_type, const char *name, const char *value,
                     struct gr_buf *body)
{
    send_reply(job, status, content_type, name, value, body, NULL);
}

static void send_error(struct gr_job *job, int status, const char *code, const char *message, const char *field,
                       const char *name, const char *value)
{
    struct gr_buf body = {0};
    if (status >= 500 && job->note[0] == '\0') {
        size_t n = strnlen(message, sizeof job->note - 1);
        memcpy(job->note, message, n);
        job->note[n] = '\0';
    }
    gr_reply_error(status, code, message, field, &body);
    gr_service_send(job, status, json_type, name, value, &body);
}

void gr_service_error(struct gr_job *job, int status, const char *code, const char *message, const char *field)
{
    const bool again = status == 503;
    send_error(job, status, code, message, field, again ? "Retry-After" : NULL, again ? "1" : NULL);
}

static void send_json(struct gr_job *job, int status, struct gr_buf *body)
{
    const bool again = status == 503;
    gr_service_send(job, status, json_type, again ? "Retry-After" : NULL, again ? "1" : NULL, body);
}

static void send_starting(struct gr_job *job)
{
    char phase[GR_PHASE_BYTES], message[GR_PHASE_BYTES + 32] = "the server is starting: ";
    gr_service_phase(job->service, phase);
    strcat(message, phase);
    gr_service_error(job, 503, "starting", message, "");
}

/* A text made at the end of the start. */
static void send_text(struct gr_job *job, const struct gr_buf *text)
{
    if (!atomic_load(&job->service->have_texts)) {
        send_starting(job);
        return;
    }
    send_reply(job, 200, json_type, NULL, NULL, NULL, text);
}

/* ---- GET ---- */

static void get_health(struct gr_job *job)
{
    struct gr_service *s = job->service;
    struct gr_buf body = {0};
    struct gr_jw w = {.out = &body, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "status", gr_service_state_name(s));
    gr_jw_put_string(&w, "model", s->cfg.model);
    gr_jw_put_string(&w, "device", s->cfg.device);
    gr_jw_end_object(&w);
    send_json(job, 200, &body);
}

static bool is_ready(const struct gr_service *s)
{
    return atomic_load(&s->state) == GR_SERVICE_OK && !atomic_load(&s->broken);
}

static void get_ready(struct gr_job *job)
{
    struct gr_service *s = job->service;
    struct gr_buf body = {0};
    struct gr_jw w = {.out = &body, .compact = true};
    char phase[GR_PHASE_BYTES];
    const bool ready = is_ready(s);
    gr_service_phase(s, phase);
    gr_jw_object(&w);
    gr_jw_put_bool(&w, "ready", ready);
    gr_jw_put_string(&w, "status", gr_service_state_name(s));
    gr_jw_put_string(&w, "phase", atomic_load(&s->broken) ? "engine failure" : phase);
    gr_jw_put_int(&w, "queue_depth", gr_service_waiting(s));
    gr_jw_put_milli(&w, "busy_s", gr_service_busy_s(s));
    gr_jw_end_object(&w);
    send_json(job, ready ? 200 : 503, &body);
}

static void get_models(struct gr_job *job)
{
    if (atomic_load(&job->service->have_texts)) {
        send_text(job, &job->service->models);
        return;
    }
    struct gr_buf body = {0};
    gr_buf_puts(&body, "{\"object\":\"list\",\"data\":[]}");
    send_json(job, 200, &body);
}

static void get_metrics(struct gr_job *job)
{
    struct gr_service *s = job->service;
    struct gr_httpd *http = atomic_load(&s->http);
    const bool open = atomic_load(&s->have_texts);
    const double busy_s = gr_service_busy_s(s);
    const struct gr_metrics_now now = {.state = gr_service_state_name(s),
                                       .queue_depth = gr_service_waiting(s),
                                       .queue_capacity = s->cfg.queue,
                                       .busy = busy_s > 0,
                                       .open_requests = http != NULL ? gr_httpd_open_requests(http) : 0,
                                       .connections = http != NULL ? gr_httpd_connections(http) : 0,
                                       .busy_s = busy_s,
                                       .version = gr_version(),
                                       .model = s->cfg.model,
                                       .device = s->cfg.device,
                                       .isa = open ? s->policy_info->isa : "",
                                       .policy = open ? s->policy_info->precision : ""};
    struct gr_buf body = {0};
    gr_metrics_print(s->metrics, &now, &body);
    gr_service_send(job, 200, metrics_type, NULL, NULL, &body);
}

/* The text says "ok"; while the service drains that one word is another. */
static void get_info(struct gr_job *job)
{
    static const char ok[] = "{\"status\":\"ok\"";
    const struct gr_buf *info = &job->service->info;
    if (!atomic_load(&job->service->have_texts) || is_ready(job->service) || info->len < sizeof ok - 1) {
        send_text(job, info);
        return;
    }
    struct gr_buf copy = {0};
    gr_buf_printf(&copy, "{\"status\":\"%s\"", gr_service_state_name(job->service));
    gr_buf_put(&copy, info->data + sizeof ok - 1, info->len - (sizeof ok - 1));
    send_json(job, 200, &copy);
}

static void get_demo(struct gr_job *job) { send_text(job, &job->service->demo); }
static void get_openapi(struct gr_job *job) { send_text(job, &job->service->openapi); }

/* The paths are the names that the metrics have. */
static const struct route {
    void (*get)(struct gr_job *job); /* NULL: POST only */
    bool open;                       /* needs no key: probes have none */
} routes[GR_ROUTE_OTHER] = {
    [GR_ROUTE_HEALTH] = {get_health, true},    [GR_ROUTE_READY] = {get_ready, true},
    [GR_ROUTE_INFO] = {get_info, false},       [GR_ROUTE_DEMO] = {get_demo, false},
    [GR_ROUTE_MODELS] = {get_models, false},   [GR_ROUTE_PREDICT] = {NULL, false},
    [GR_ROUTE_METRICS] = {get_metrics, false}, [GR_ROUTE_OPENAPI] = {get_openapi, false},
};

static enum gr_metric_route find_route(const char *path)
{
    int i = 0;
    while (i < GR_ROUTE_OTHER && strcmp(gr_metric_route_name((enum gr_metric_route)i), path) != 0) {
        i++;
    }
    return (enum gr_metric_route)i;
}

/* ---- who may, and what ---- */

/* The time depends on the length of what the client sent, never on where it differs. */
static bool same_secret(const char *given, const char *secret)
{
    const size_t n_secret = strlen(secret);
    size_t n = strlen(given);
    while (n > 0 && (given[n - 1] == ' ' || given[n - 1] == '\t')) {
        n--; /* blanks behind a header's value are no part of it */
    }
    volatile unsigned char differs = n != n_secret;
    for (size_t i = 0; i < n; i++) {
        differs = (unsigned char)(differs | (given[i] ^ secret[i % (n_secret + 1)]));
    }
    return differs == 0;
}

/* NULL when the request may pass, else why not. */
static const char *key_fault(const struct gr_job *job)
{
    static const char wrong[] = "the key of this request is not this server's";
    const char *secret = job->service->cfg.api_key, *given = gr_httpd_header(job->http, "X-API-Key");
    if (secret == NULL) {
        return NULL;
    }
    if (given != NULL) {
        return same_secret(given, secret) ? NULL : wrong;
    }
    given = gr_httpd_header(job->http, "Authorization");
    if (given == NULL || strncasecmp(given, "Bearer ", 7) != 0) {
        return "this server wants its API key: Authorization: Bearer KEY";
    }
    given += 7;
    return same_secret(given + strspn(given, " "), secret) ? NULL : wrong;
}

/* application/json, anything/anything+json, with any parameters; nothing at all. */
static bool is_json_type(const char *type)
{
    if (type == NULL) {
        return true;
    }
    type += strspn(type, " \t");
    const size_t n = strcspn(type, "; \t");
    const char suffix[] = "+json";
    return n == 0 || (n == sizeof json_type - 1 && strncasecmp(type, json_type, n) == 0) ||
           (n > sizeof suffix && memchr(type, '/', n) != NULL &&
            strncasecmp(type + n - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0);
}

/* True when the predict was answered: its body is not wanted. */
static bool predict_refused(struct gr_job *job)
{
    struct gr_service *s = job->service;
    const char *coding = gr_httpd_header(job->http, "Content-Encoding");
    if (gr_httpd_header(job->http, "Content-Length") == NULL &&
        gr_httpd_header(job->http, "Transfer-Encoding") == NULL) {
        gr_service_error(job, 411, "length_required", "the request needs Content-Length or Transfer-Encoding: chunked",
                         "");
    } else if (!is_json_type(gr_httpd_header(job->http, "Content-Type"))) {
        gr_service_error(job, 415, "unsupported_media_type",
                         "the body must be JSON: send Content-Type: application/json (curl: -H 'Content-Type: "
                         "application/json')",
                         "");
    } else if (coding != NULL && coding[0] != '\0' && strcasecmp(coding, "identity") != 0) {
        send_error(job, 415, "unsupported_encoding",
                   "compressed bodies are not read: send it uncompressed, without Content-Encoding", "",
                   "Accept-Encoding", "identity");
    } else if (atomic_load(&s->broken)) {
        gr_service_error(job, 503, "engine_failure", "the engine failed its check; the server is ending", "");
    } else if (atomic_load(&s->state) == GR_SERVICE_STARTING) {
        send_starting(job);
    } else if (atomic_load(&s->state) == GR_SERVICE_DRAINING) {
        gr_service_error(job, 503, "draining", "the server is shutting down", "");
    } else if (gr_service_full(s)) {
        gr_service_error(job, 503, "queue_full", "the queue is full; try again", "");
    } else {
        return false;
    }
    return true;
}

static void dispatch(struct gr_job *job)
{
    const struct route *route = job->route != GR_ROUTE_OTHER ? &routes[job->route] : NULL;
    const enum gr_httpd_method method = gr_httpd_method(job->http);
    const char *fault = route == NULL || !route->open ? key_fault(job) : NULL;
    const bool is_get = method == GR_HTTPD_GET || method == GR_HTTPD_HEAD;
    const char *allow = route == NULL || route->get != NULL ? get_methods : post_methods;
    if (method == GR_HTTPD_OPTIONS && (route != NULL || strcmp(gr_httpd_path(job->http), "*") == 0)) {
        gr_service_send(job, 204, NULL, "Allow", route == NULL ? "GET, HEAD, POST, OPTIONS" : allow, NULL);
    } else if (fault != NULL) {
        send_error(job, 401, "unauthorized", fault, "", "WWW-Authenticate", "Bearer realm=\"gr00t\"");
    } else if (route == NULL) {
        gr_service_error(job, 404, "not_found",
                         "no such path; there are /health /ready /info /demo /v1/models /predict /metrics "
                         "/openapi.json",
                         "");
    } else if (route->get != NULL ? !is_get : method != GR_HTTPD_POST) {
        send_error(job, 405, "method_not_allowed",
                   route->get != NULL ? "this path answers GET and HEAD" : "this path answers POST", "", "Allow",
                   allow);
    } else if (route->get != NULL) {
        route->get(job);
    } else {
        (void)predict_refused(job);
    }
}

void gr_service_on_head(void *user, struct gr_httpd_request *r)
{
    struct gr_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        const struct gr_httpd_reply reply = {.status = 503, .close = true};
        gr_httpd_set_user(r, NULL);
        gr_httpd_reply(r, &reply, NULL);
        return;
    }
    job->service = user;
    job->http = r;
    job->route = find_route(gr_httpd_path(r));
    gr_httpd_set_user(r, job);
    dispatch(job);
}

/* A client that ignores Retry-After is refused thousands of times a second: one line a second tells enough. True: this one is named, *since more
 * were not. */
static bool name_refusal(struct gr_service *s, int *since)
{
    const double now = gr_clock_ms();
    if (s->refused_ms > 0 && now - s->refused_ms < 1000) {
        s->refused_since++;
        return false;
    }
    *since = s->refused_since;
    s->refused_since = 0;
    s->refused_ms = now;
    return true;
}

void gr_service_on_end(void *user, struct gr_httpd_request *r, bool sent)
{
    struct gr_service *s = user;
    struct gr_job *job = gr_httpd_user(r);
    if (job == NULL) {
        return;
    }
    const double ms = gr_clock_ms() - gr_httpd_arrived_ms(r);
    if (job->status == 0 && sent) { /* HTTP refused its body, and has told on_refused */
        free(job);
        return;
    }
    const int status = job->status != 0 ? job->status : GR_CLIENT_GONE;
    const char *note = job->note;
    /* "Not ready" is what /ready is asked for, every second by an orchestrator: no failure. */
    bool failed = status >= 500 && job->route != GR_ROUTE_READY;
    int since = 0;
    failed = failed && (status != 503 || name_refusal(s, &since));
    char more[48] = "";
    if (since > 0) {
        snprintf(more, sizeof more, " (%d more 503 since the last line)", since);
    }
    gr_metrics_request(s->metrics, job->route, status, ms);
    gr_log(failed ? GR_LOG_WARN : GR_LOG_DEBUG, "%s %s %s %d %.1f ms%s%s%s%s", gr_httpd_peer(r),
           gr_httpd_method_name(r), gr_httpd_path(r), status, ms, sent ? "" : ", not sent", note[0] != '\0' ? ": " : "",
           note, more);
    free(job);
}
