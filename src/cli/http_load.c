/* SPDX-License-Identifier: Apache-2.0
 *
 * http_load.c: the load generator of `gr00t bench http`. Threads draw request numbers from one counter; answers are read (JSON) outside the
 * timed span, on the thread that got them. */
#include "cli/http_load.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

struct worker {
    struct crew *crew;
    struct gr_client *client;
    pthread_t thread;
    bool started;
};

struct crew {
    struct gr_load *load;
    pthread_mutex_t lock; /* guards everything below and the counters of `load` */
    pthread_cond_t go_changed;
    bool go;
    int next;
};

enum gr_status gr_load_one(struct gr_client *client, const struct gr_buf *body, struct gr_load_sample *out, int *http,
                           struct gr_err *err)
{
    static const char path[] = "/predict";
    struct gr_client_reply reply;
    struct gr_json *root = NULL;
    struct gr_wire_chunk chunk;
    *http = 0;
    *out = (struct gr_load_sample){0};
    GR_TRY(gr_client_send(client, path, body->data, body->len, &reply, err));
    *http = reply.status;
    enum gr_status status = gr_client_check(client, path, &reply, err);
    if (status == GR_OK) {
        status = gr_json_parse(reply.body.data, reply.body.len, "reply of /predict", GR_ERR_NETWORK, &root, err);
    }
    if (status == GR_OK) {
        status = gr_wire_chunk_read(root, "reply of /predict", GR_ERR_NETWORK, &chunk, err);
    }
    if (status == GR_OK) {
        out->wall_ms = reply.wall_ms;
        out->n_timings = chunk.n_timings;
        memcpy(out->timings, chunk.timings, sizeof out->timings);
        gr_wire_chunk_free(&chunk);
    }
    gr_json_free(root);
    gr_buf_free(&reply.body);
    return status;
}

static int draw(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    int i = crew->next < crew->load->requests ? crew->next++ : -1;
    pthread_mutex_unlock(&crew->lock);
    return i;
}

static void count_failure(struct crew *crew, int http, const struct gr_err *err)
{
    struct gr_load *load = crew->load;
    pthread_mutex_lock(&crew->lock);
    if (http > 0 && http < GR_LOAD_STATUS_MAX && (http < 200 || http >= 300)) {
        load->by_status[http]++;
    } else {
        load->network_errors++;
    }
    if (load->first_error.code == GR_OK) {
        load->first_error = *err;
    }
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *user)
{
    struct worker *w = user;
    struct crew *crew = w->crew;
    pthread_mutex_lock(&crew->lock);
    while (!crew->go) {
        pthread_cond_wait(&crew->go_changed, &crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
    for (int i; (i = draw(crew)) >= 0;) {
        struct gr_err err = {0};
        int http;
        if (gr_load_one(w->client, crew->load->body, &crew->load->samples[i], &http, &err) != GR_OK) {
            count_failure(crew, http, &err);
        }
    }
    return NULL;
}

/* Opens the connection for real: a request that costs the service nothing. */
static enum gr_status connect_worker(struct worker *w, struct gr_err *err)
{
    struct gr_client_reply reply;
    GR_TRY(gr_client_open(w->crew->load->config, &w->client, err));
    GR_TRY(gr_client_send(w->client, "/health", NULL, 0, &reply, err));
    gr_buf_free(&reply.body);
    int code = pthread_create(&w->thread, NULL, work, w);
    if (code != 0) {
        return gr_fail_errno(err, GR_ERR_NOMEM, code, "cannot start a thread");
    }
    w->started = true;
    return GR_OK;
}

enum gr_status gr_load_run(struct gr_load *load, struct gr_err *err)
{
    struct crew crew = {.load = load, .lock = PTHREAD_MUTEX_INITIALIZER, .go_changed = PTHREAD_COND_INITIALIZER};
    struct worker *workers = calloc((size_t)load->concurrency, sizeof *workers);
    if (workers == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d connections", load->concurrency);
    }
    enum gr_status status = GR_OK;
    for (int i = 0; i < load->concurrency && status == GR_OK; i++) {
        workers[i].crew = &crew;
        status = connect_worker(&workers[i], err);
    }
    pthread_mutex_lock(&crew.lock);
    crew.next = status == GR_OK ? 0 : load->requests; /* threads that wait must still end */
    crew.go = true;
    pthread_cond_broadcast(&crew.go_changed);
    pthread_mutex_unlock(&crew.lock);
    double start = gr_clock_ms();
    for (int i = 0; i < load->concurrency; i++) {
        if (workers[i].started) {
            pthread_join(workers[i].thread, NULL);
        }
    }
    load->wall_s = (gr_clock_ms() - start) / 1000.0;
    for (int i = 0; i < load->concurrency; i++) {
        gr_client_close(workers[i].client);
    }
    free(workers);
    return status;
}
