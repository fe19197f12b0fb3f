/* SPDX-License-Identifier: Apache-2.0
 *
 * service.c: the life of the service: starting -> ok -> draining -> stopped, and the texts that are made once on the way. */
#include "server/service.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/utf8.h"
#include "policy/policy.h"
#include "server/info.h"
#include "server/service_parts.h"

enum { QUEUE_MAX = 65536 };

static bool fits_a_header(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e) {
            return false;
        }
    }
    return *text != '\0';
}

static enum gr_status check_config(const struct gr_service_config *cfg, struct gr_err *err)
{
    if (cfg->queue < 1 || cfg->queue > QUEUE_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "queue is %d, expected 1..%d", cfg->queue, QUEUE_MAX);
    }
    if (cfg->api_key != NULL && !fits_a_header(cfg->api_key)) {
        return gr_fail(err, GR_ERR_USAGE, "the API key is empty or has bytes that no HTTP header can carry");
    }
    if (cfg->cors_origin != NULL && !fits_a_header(cfg->cors_origin)) {
        return gr_fail(err, GR_ERR_USAGE, "the CORS origin is empty or has bytes that no HTTP header can carry");
    }
    if (cfg->cors_origin != NULL && cfg->api_key != NULL && strcmp(cfg->cors_origin, "*") == 0) {
        return gr_fail(err, GR_ERR_USAGE,
                       "CORS origin \"*\" together with an API key: every web page could use a key that a browser "
                       "knows; name the one origin");
    }
    return GR_OK;
}

enum gr_status gr_service_new(const struct gr_service_config *cfg, struct gr_service **out, struct gr_err *err)
{
    GR_TRY(check_config(cfg, err));
    struct gr_service *s = calloc(1, sizeof *s);
    if (s == NULL || pthread_mutex_init(&s->lock, NULL) != 0 || pthread_cond_init(&s->room, NULL) != 0) {
        free(s);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the service");
    }
    s->cfg = *cfg;
    s->predict = gr_policy_predict_encoded;
    s->started_ms = gr_clock_ms();
    gr_service_set_phase(s, "starting");
    enum gr_status status = gr_metrics_new(&s->metrics, err);
    if (status == GR_OK) {
        status = gr_queue_new(cfg->queue + 1, &s->intake, err);
    }
    if (status == GR_OK) {
        status = gr_queue_new(cfg->queue + 1, &s->waiting, err);
    }
    if (status != GR_OK) {
        gr_service_free(s);
        return status;
    }
    *out = s;
    return GR_OK;
}

void gr_service_free(struct gr_service *s)
{
    if (s == NULL) {
        return;
    }
    gr_service_stop_threads(s);
    gr_queue_free(s->intake);
    gr_queue_free(s->waiting);
    gr_chunk_free(s->chunk);
    gr_encoded_free(s->demo_request);
    for (int i = 0; i < GR_SPARE; i++) {
        gr_encoded_free(s->spare[i]);
    }
    gr_metrics_free(s->metrics);
    gr_buf_free(&s->info);
    gr_buf_free(&s->demo);
    gr_buf_free(&s->openapi);
    gr_buf_free(&s->models);
    free(s->ranges);
    (void)pthread_cond_destroy(&s->room);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static void on_warning(void *user, const char *text)
{
    (void)user;
    gr_log(GR_LOG_WARN, "HTTP: %s", text);
}

/* Requests that HTTP refused before a route saw them. */
static void on_refused(void *user, int status, const char *why)
{
    const struct gr_service *s = user;
    gr_metrics_request(s->metrics, GR_ROUTE_OTHER, status, 0);
    gr_log(GR_LOG_DEBUG, "refused %d: %s", status, why);
}

struct gr_httpd_callbacks gr_service_callbacks(struct gr_service *s)
{
    return (struct gr_httpd_callbacks){.on_head = gr_service_on_head,
                                       .on_body = gr_service_on_body,
                                       .on_end = gr_service_on_end,
                                       .on_refused = on_refused,
                                       .on_warning = on_warning,
                                       .user = s};
}

void gr_service_set_http(struct gr_service *s, struct gr_httpd *http) { atomic_store(&s->http, http); }

void gr_service_set_phase(struct gr_service *s, const char *text)
{
    (void)pthread_mutex_lock(&s->lock);
    (void)gr_utf8_clean(s->phase, sizeof s->phase, text);
    (void)pthread_mutex_unlock(&s->lock);
}

void gr_service_phase(struct gr_service *s, char out[GR_PHASE_BYTES])
{
    (void)pthread_mutex_lock(&s->lock);
    memcpy(out, s->phase, GR_PHASE_BYTES);
    (void)pthread_mutex_unlock(&s->lock);
}

const char *gr_service_state_name(const struct gr_service *s)
{
    static const char *const names[] = {"starting", "ok", "draining"};
    /* With a broken engine the process is ending. */
    return names[atomic_load(&s->broken) ? GR_SERVICE_DRAINING : atomic_load(&s->state)];
}

/* ---- ready ---- */

static void models_json(const struct gr_service *s, struct gr_buf *out)
{
    const char *id = s->facts.weights_repo != NULL ? s->facts.weights_repo : s->cfg.model;
    const char *slash = strchr(id, '/');
    struct gr_buf owner = {0};
    if (slash != NULL && slash > id) {
        gr_buf_put(&owner, id, (size_t)(slash - id));
    }
    out->failed |= owner.failed;
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "object", "list");
    gr_jw_put_array(&w, "data");
    gr_jw_object(&w);
    gr_jw_put_string(&w, "id", id);
    gr_jw_put_string(&w, "object", "model");
    gr_jw_put_int(&w, "created", (int64_t)time(NULL));
    gr_jw_put_string(&w, "owned_by", owner.data != NULL ? owner.data : "local");
    gr_jw_end_object(&w);
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
    gr_buf_free(&owner);
}

/* Recorded range of each state dimension. With percentiles in place of min and max two values in a hundred would be "out of range" on a
 * good day: nothing is counted then. */
static enum gr_status make_ranges(struct gr_service *s, struct gr_err *err)
{
    const struct gr_config *c = gr_policy_config(s->facts.policy);
    if (c->use_percentiles) {
        return GR_OK;
    }
    s->ranges = calloc((size_t)c->emb.state_dim + 1, sizeof *s->ranges);
    if (s->ranges == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d ranges", c->emb.state_dim);
    }
    int at = 0;
    for (int g = 0; g < c->emb.n_state; g++) {
        const struct gr_group_config *group = &c->emb.state[g];
        for (int i = 0; i < group->dim; i++, at++) {
            const bool known = group->lo != NULL && group->hi != NULL;
            s->ranges[at] = known ? (struct gr_state_range){.lo = group->lo[i], .hi = group->hi[i]}
                                  : (struct gr_state_range){.lo = 1, .hi = -1};
        }
    }
    return GR_OK;
}

static enum gr_status make_texts(struct gr_service *s, struct gr_err *err)
{
    GR_TRY(gr_info_json(&s->cfg, &s->facts, &s->info, err));
    GR_TRY(gr_demo_json(&s->facts, &s->demo, err));
    GR_TRY(gr_openapi_json(&s->cfg, &s->facts, &s->openapi, err));
    models_json(s, &s->models);
    if (s->info.failed || s->demo.failed || s->openapi.failed || s->models.failed) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the texts of the service");
    }
    return GR_OK;
}

enum gr_status gr_service_ready(struct gr_service *s, const struct gr_boot_facts *facts, struct gr_err *err)
{
    s->facts = *facts;
    s->policy_info = gr_policy_info(facts->policy);
    GR_TRY(make_ranges(s, err));
    GR_TRY(make_texts(s, err));
    GR_TRY(gr_service_start_threads(s, err));
    atomic_store(&s->have_texts, true);
    int starting = GR_SERVICE_STARTING;
    /* A drain that came during the start stays. */
    if (atomic_compare_exchange_strong(&s->state, &starting, GR_SERVICE_OK)) {
        gr_service_set_phase(s, "serving");
    }
    return GR_OK;
}

void gr_service_drain(struct gr_service *s)
{
    atomic_store(&s->state, GR_SERVICE_DRAINING);
    gr_service_set_phase(s, "draining");
}

void gr_service_stop(struct gr_service *s)
{
    gr_service_drain(s);
    gr_service_stop_threads(s);
}

/* ---- a broken engine ---- */

void gr_service_break(struct gr_service *s, const struct gr_err *why)
{
    (void)pthread_mutex_lock(&s->lock);
    s->fatal_err = *why;
    void (*fn)(void *) = s->on_fatal;
    void *user = s->on_fatal_user;
    (void)pthread_mutex_unlock(&s->lock);
    atomic_store(&s->broken, true);
    if (fn != NULL) {
        fn(user);
    }
}

bool gr_service_fatal(const struct gr_service *s, struct gr_err *err)
{
    if (!atomic_load(&s->broken)) {
        return false;
    }
    struct gr_service *unlocked = (struct gr_service *)s; /* the mutex is not part of what const promises */
    (void)pthread_mutex_lock(&unlocked->lock);
    *err = s->fatal_err;
    (void)pthread_mutex_unlock(&unlocked->lock);
    return true;
}

void gr_service_on_fatal(struct gr_service *s, void (*fn)(void *user), void *user)
{
    (void)pthread_mutex_lock(&s->lock);
    s->on_fatal = fn;
    s->on_fatal_user = user;
    (void)pthread_mutex_unlock(&s->lock);
}
