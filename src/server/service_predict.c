/* SPDX-License-Identifier: Apache-2.0
 *
 * service_predict.c: a predict on its way: accepted on the network thread, read and encoded by the intake thread while the engine computes
 * the one before, computed and answered by the predict thread. Every accepted request leaves through gr_service_send exactly once, also
 * when its client has gone, the engine has failed or the service stops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "policy/policy.h"
#include "server/reply.h"
#include "server/service_parts.h"

static const double range_log_ms = 60000;
/* Beyond this many bytes of encoded requests (0.8 MB each with one picture) the intake thread waits for the engine. */
static const size_t encoded_bytes_max = 128u << 20;

/* ---- accepting ---- */

/* cfg.queue requests may wait behind the one that runs, or that will run next: a burst on an idle server is counted the same way as one on a
 * busy server, whatever the intake thread has done by then. */
bool gr_service_full(const struct gr_service *s) { return atomic_load(&s->open) > s->cfg.queue; }

static bool take_place(struct gr_service *s)
{
    int open = atomic_load(&s->open);
    do {
        if (open > s->cfg.queue) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&s->open, &open, open + 1));
    return true;
}

int gr_service_waiting(const struct gr_service *s)
{
    const int running = atomic_load(&s->running_since_us) != 0;
    const int waiting = atomic_load(&s->open) - running;
    return waiting > 0 ? waiting : 0;
}

double gr_service_busy_s(const struct gr_service *s)
{
    const int64_t since = atomic_load(&s->running_since_us);
    return since == 0 ? 0 : (gr_clock_ms() - (double)since / 1e3) / 1e3;
}

/* ---- memory of encoded requests ---- */

static enum gr_status take_encoded(struct gr_job *job, struct gr_err *err)
{
    struct gr_service *s = job->service;
    (void)pthread_mutex_lock(&s->lock);
    for (int i = 0; job->encoded == NULL && i < GR_SPARE; i++) {
        job->encoded = s->spare[i];
        s->spare[i] = NULL;
    }
    s->encoded++;
    (void)pthread_mutex_unlock(&s->lock);
    enum gr_status status = job->encoded != NULL ? GR_OK : gr_policy_encoded_new(s->facts.policy, &job->encoded, err);
    if (status != GR_OK) {
        (void)pthread_mutex_lock(&s->lock);
        s->encoded--;
        (void)pthread_mutex_unlock(&s->lock);
    }
    return status;
}

static void give_encoded(struct gr_job *job)
{
    struct gr_service *s = job->service;
    struct gr_encoded *mine = job->encoded;
    if (mine == NULL) {
        return;
    }
    job->encoded = NULL;
    (void)pthread_mutex_lock(&s->lock);
    for (int i = 0; mine != NULL && i < GR_SPARE; i++) {
        if (s->spare[i] == NULL) {
            s->spare[i] = mine;
            mine = NULL;
        }
    }
    s->encoded--;
    (void)pthread_cond_signal(&s->room);
    (void)pthread_mutex_unlock(&s->lock);
    gr_encoded_free(mine);
}

/* ---- answering ---- */

/* The place is given back before the reply goes out: a client that has its answer may ask again at once. */
static void leave(struct gr_job *job)
{
    gr_request_free(&job->request);
    give_encoded(job);
    if (job->accepted) {
        job->accepted = false;
        atomic_fetch_sub(&job->service->open, 1);
    }
}

static void refuse(struct gr_job *job, int status, const char *code, const char *message, const char *field)
{
    leave(job);
    gr_service_error(job, status, code, message, field);
}

/* What the library found, and what a client or the operator of this service can do about it. */
static void refuse_input(struct gr_job *job, int status, const struct gr_request_error *why, const char *message)
{
    char text[GR_ERR_MSG_BYTES + 96];
    const bool too_many = strncmp(message, "n_text", 6) == 0;
    const char *layout = job->service->cfg.layout;
    const bool layout_helps = too_many && layout != NULL && strcmp(layout, "gr1") == 0;
    snprintf(text, sizeof text, "%s%s%s", message, too_many ? ": shorten it" : "",
             layout_helps ? ", or start the service with --layout gr1_long_text (152 tokens)" : "");
    refuse(job, status, why->code, text, why->field);
}

void gr_service_on_body(void *user, struct gr_httpd_request *r)
{
    struct gr_service *s = user;
    struct gr_job *job = gr_httpd_user(r);
    job->body_ms = gr_clock_ms();
    if (!take_place(s)) {
        refuse(job, 503, "queue_full", "the queue is full; try again", "");
        return;
    }
    job->accepted = true;
    if (!gr_queue_push(s->intake, job)) {
        refuse(job, 503, "draining", "the server is shutting down", "");
    }
}

/* ---- both threads ---- */

/* The reply of a request that could not be encoded or computed. True: the engine itself is in doubt. */
static bool answer_failure(struct gr_job *job, enum gr_status status, const struct gr_err *err)
{
    if (status == GR_ERR_BUSY) {
        refuse(job, 503, "draining", "the server is shutting down", "");
        return false;
    }
    const int http_status = gr_reply_http_status(status);
    if (http_status < 500) {
        struct gr_request_error why;
        gr_request_explain(err, &why);
        refuse_input(job, http_status, &why, err->msg);
        return false;
    }
    if (status == GR_ERR_NOMEM) {
        refuse(job, http_status, "no_memory", "no memory for this request; try again", "");
        return false;
    }
    /* The text of the fault is for the log: it may hold what no client should see. */
    memcpy(job->note, err->msg, sizeof job->note);
    refuse(job, 500, "engine_failure", "the engine failed on this request; it has been logged", "");
    return true;
}

/* True when the job was answered because nobody needs its chunk any more, or nobody can compute it. */
static bool answered_early(struct gr_service *s, struct gr_job *job)
{
    if (gr_httpd_gone(job->http)) {
        gr_metrics_dropped(s->metrics);
        refuse(job, GR_CLIENT_GONE, "client_closed", "the client closed its side before the answer was ready", "");
    } else if (atomic_load(&s->broken)) {
        refuse(job, 503, "engine_failure", "the engine failed its check; the server is ending", "");
    } else if (atomic_load(&s->stopping)) {
        refuse(job, 503, "draining", "the server is shutting down", "");
    } else {
        return false;
    }
    return true;
}

/* ---- intake ---- */

/* Names each joint once a minute: at twenty requests a second nobody could read the log otherwise. */
static void note_range(struct gr_service *s, const struct gr_request *r)
{
    gr_metrics_out_of_range(s->metrics, r->out_of_range);
    struct gr_range_kind *oldest = &s->kinds[0];
    const size_t n = strcspn(r->out_of_range_text, " ");
    const double now = gr_clock_ms();
    for (int i = 0; i < GR_RANGE_KINDS; i++) {
        struct gr_range_kind *k = &s->kinds[i];
        if (k->name[0] != '\0' && strlen(k->name) == n && memcmp(k->name, r->out_of_range_text, n) == 0) {
            if (now - k->logged_ms < range_log_ms) {
                return;
            }
            oldest = k;
            break;
        }
        if (k->logged_ms < oldest->logged_ms) {
            oldest = k;
        }
    }
    if (n < sizeof oldest->name) {
        memcpy(oldest->name, r->out_of_range_text, n);
        oldest->name[n] = '\0';
        oldest->logged_ms = now;
    }
    gr_log(GR_LOG_WARN, "%s (%d values of this request are outside the recorded range)", r->out_of_range_text,
           r->out_of_range);
}

static void wait_for_room(struct gr_service *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->encoded >= s->encoded_max) {
        (void)pthread_cond_wait(&s->room, &s->lock);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* Parsed to ready for the engine. Pictures are as large as their senders like and are not kept: what is encoded has one size. */
static enum gr_status encode(struct gr_service *s, struct gr_job *job, struct gr_err *err)
{
    const double start = gr_clock_ms();
    GR_TRY(take_encoded(job, err));
    enum gr_status status = gr_policy_encode(s->facts.policy, &job->request.obs, job->encoded, err);
    gr_request_drop_pictures(&job->request);
    job->encode_ms = gr_clock_ms() - start;
    return status;
}

static void take_in(struct gr_service *s, struct gr_job *job)
{
    wait_for_room(s);
    if (answered_early(s, job)) {
        return;
    }
    struct gr_request_error why = {0};
    struct gr_err err = {0};
    size_t n;
    const char *body = gr_httpd_body(job->http, &n);
    enum gr_status status = gr_request_parse(body, n, s->policy_info, s->ranges, &job->request, &why, &err);
    gr_httpd_release_body(job->http);
    if (status != GR_OK) {
        refuse(job, gr_reply_http_status(status), why.code[0] != '\0' ? why.code : gr_status_name(status), err.msg,
               why.field);
        return;
    }
    if (job->request.out_of_range > 0) {
        note_range(s, &job->request);
    }
    status = encode(s, job, &err);
    if (status != GR_OK) {
        (void)answer_failure(job, status, &err); /* whatever it is, the network has computed nothing */
    } else if (!gr_queue_push(s->waiting, job)) {
        refuse(job, 503, "draining", "the server is shutting down", "");
    }
}

static void *intake_main(void *arg)
{
    struct gr_service *s = arg;
    for (struct gr_job *job = gr_queue_pop(s->intake); job != NULL; job = gr_queue_pop(s->intake)) {
        take_in(s, job);
    }
    return NULL;
}

/* ---- predict ---- */

/* Does the engine still compute what it computed at the start? */
static void check_engine(struct gr_service *s, const struct gr_err *cause)
{
    const struct gr_selfcheck *check = s->facts.check;
    struct gr_err err = {0};
    enum gr_status status = s->predict(s->facts.policy, s->demo_request, s->chunk, &err);
    if (status == GR_ERR_BUSY) {
        return; /* cancelled: the service is ending anyway */
    }
    const size_t n = (size_t)s->chunk->steps * (size_t)s->chunk->dim * sizeof(float);
    if (status == GR_OK && memcmp(s->chunk->actions, check->actions, n) == 0) {
        gr_log(GR_LOG_WARN, "the engine failed (%s) and gives the chunk of the start again; serving goes on",
               cause->msg);
        return;
    }
    struct gr_err why;
    (void)gr_fail(&why, GR_ERR_DEVICE, "the engine is broken: %.200s; the demo observation then: %.200s", cause->msg,
                  status == GR_OK ? "other values than at the start" : err.msg);
    gr_service_break(s, &why);
}

static enum gr_status print_chunk(struct gr_service *s, const struct gr_job *job, double waited_ms, struct gr_buf *out,
                                  struct gr_err *err)
{
    const struct gr_request *r = &job->request;
    const double total_ms = gr_clock_ms() - job->body_ms;
    const struct gr_reply_view view = {.info = s->policy_info,
                                       .obs = &r->obs,
                                       .chunk = s->chunk,
                                       .model = s->cfg.model,
                                       .version = s->cfg.version,
                                       .layout = s->cfg.layout,
                                       .images = r->images,
                                       .return_normalized = r->return_normalized,
                                       .decode_ms = r->decode_ms,
                                       .queue_ms = waited_ms,
                                       .total_ms = total_ms};
    GR_TRY(gr_reply_chunk(&view, true, out, err));
    gr_metrics_predict(s->metrics, r->decode_ms, waited_ms, &s->chunk->timing, total_ms);
    return GR_OK;
}

static void compute(struct gr_service *s, struct gr_job *job)
{
    if (answered_early(s, job)) {
        return;
    }
    const double start_ms = gr_clock_ms();
    const double waited_ms = start_ms - job->body_ms - job->request.decode_ms - job->encode_ms;
    struct gr_buf body = {0};
    struct gr_err err = {0};
    atomic_store(&s->running_since_us, (int64_t)(start_ms * 1e3) + 1);
    enum gr_status status = s->predict(s->facts.policy, job->encoded, s->chunk, &err);
    if (status == GR_OK) {
        status = print_chunk(s, job, waited_ms > 0 ? waited_ms : 0, &body, &err);
    }
    if (status == GR_OK) {
        atomic_store(&s->running_since_us, 0);
        leave(job);
        gr_service_send(job, 200, "application/json", NULL, NULL, &body);
        return;
    }
    gr_buf_free(&body);
    if (answer_failure(job, status, &err)) {
        check_engine(s, &err);
    }
    atomic_store(&s->running_since_us, 0);
}

/* For the engine, while it computes: who comes next. Only the predict thread pops from `waiting`, and it is the one that is inside the
 * predict: what is peeked stays there until that returns. The intake thread encodes before it pushes; the queue's mutex orders the two. */
static const struct gr_encoded *next_request(void *user)
{
    const struct gr_service *s = user;
    const struct gr_job *job = gr_queue_peek(s->waiting);
    return job != NULL ? job->encoded : NULL;
}

static void *predict_main(void *arg)
{
    struct gr_service *s = arg;
    for (struct gr_job *job = gr_queue_pop(s->waiting); job != NULL; job = gr_queue_pop(s->waiting)) {
        compute(s, job);
    }
    return NULL;
}

/* ---- start and stop ---- */

static enum gr_status make_buffers(struct gr_service *s, struct gr_err *err)
{
    const struct gr_dims *d = gr_policy_dims(s->facts.policy);
    const size_t side = (size_t)d->vit.image_side, frames = (size_t)s->facts.demo->obs.n_frames;
    const size_t each = (frames * 3 * side * side + (size_t)d->dit.horizon * (size_t)d->dit.max_action) * sizeof(float);
    const size_t most = encoded_bytes_max / each;
    s->encoded_max = most < GR_SPARE                          ? GR_SPARE
                     : most > (size_t)s->cfg.queue + GR_SPARE ? s->cfg.queue + GR_SPARE
                                                              : (int)most;
    GR_TRY(gr_chunk_new(s->facts.policy, &s->chunk, err));
    GR_TRY(gr_policy_encoded_new(s->facts.policy, &s->demo_request, err));
    return gr_policy_encode(s->facts.policy, &s->facts.demo->obs, s->demo_request, err);
}

enum gr_status gr_service_start_threads(struct gr_service *s, struct gr_err *err)
{
    GR_TRY(make_buffers(s, err));
    gr_policy_set_next(s->facts.policy, next_request, s);
    int failed = gr_thread_start(&s->intake_thread, intake_main, s);
    if (failed == 0) {
        failed = gr_thread_start(&s->predict_thread, predict_main, s);
        if (failed != 0) {
            gr_queue_close(s->intake);
            (void)pthread_join(s->intake_thread, NULL);
        }
    }
    if (failed != 0) {
        gr_policy_set_next(s->facts.policy, NULL, NULL);
        return gr_fail_errno(err, GR_ERR_DEVICE, failed, "the system refuses a thread");
    }
    s->threads = true;
    return GR_OK;
}

void gr_service_stop_threads(struct gr_service *s)
{
    atomic_store(&s->stopping, true);
    if (s->intake != NULL) {
        gr_queue_close(s->intake);
    }
    if (!s->threads) {
        return;
    }
    s->threads = false;
    gr_policy_set_cancel(s->facts.policy, true);
    (void)pthread_join(s->intake_thread, NULL);
    gr_queue_close(s->waiting); /* not before: what the intake thread had taken goes through it */
    (void)pthread_join(s->predict_thread, NULL);
    gr_policy_set_next(s->facts.policy, NULL, NULL); /* the policy outlives this service and its queue */
    gr_policy_set_cancel(s->facts.policy, false);
}
