/* SPDX-License-Identifier: Apache-2.0
 *
 * served.c: waiting and asking. In: the options of a client command; out: parsed answers, or one line that says which address did
 * what. A "starting" service is waited for without being told to; one that does not listen only with --wait. */
#include "cli/served.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/settings.h"
#include "gr00t.h"
#include "model/noise.h"

#define DEFAULT_URL "http://127.0.0.1:20000"
enum { STARTING_S = 600, PAUSE_MS = 200, NOTE_MS = 5000, BUSY_TRIES = 5, BUSY_PAUSE_MAX_S = 30 };

enum gr_status gr_served_open(const struct gr_served_flags *flags, struct gr_served *out, struct gr_err *err)
{
    *out = (struct gr_served){.url = flags->url != NULL ? flags->url : DEFAULT_URL, .wait_s = STARTING_S};
    if (flags->wait.given) {
        out->wait_s = (double)flags->wait.value;
        out->wait_for_listener = true;
    }
    if (flags->api_key_file != NULL) {
        GR_TRY(gr_settings_key(flags->api_key_file, &out->key, err));
    }
    out->config = (struct gr_client_config){
        .url = out->url, .api_key = out->key, .ca_file = flags->ca_file, .any_name = flags->any_name};
    return gr_client_open(&out->config, &out->client, err);
}

void gr_served_close(struct gr_served *s)
{
    gr_client_close(s->client);
    if (s->key != NULL) {
        explicit_bzero(s->key, strlen(s->key));
    }
    free(s->key);
    *s = (struct gr_served){0};
}

static enum gr_status parse_object(const struct gr_served *s, const char *path, const struct gr_client_reply *reply,
                                   struct gr_json **root, struct gr_err *err)
{
    struct gr_err inner = {0};
    enum gr_status status = gr_json_parse(reply->body.data, reply->body.len, path, GR_ERR_NETWORK, root, &inner);
    if (status == GR_OK && gr_json_kind(*root) == GR_JSON_OBJECT) {
        return GR_OK;
    }
    if (status == GR_OK) {
        gr_json_free(*root);
        *root = NULL;
        status = gr_fail(&inner, GR_ERR_NETWORK, "no JSON object");
    }
    return gr_fail(err, status,
                   "%s%s answered %d with something else than expected (%.200s); is this the address of a "
                   "GR00T service?",
                   s->url, path, reply->status, inner.msg);
}

enum gr_status gr_served_get(struct gr_served *s, const char *path, struct gr_json **root, struct gr_err *err)
{
    struct gr_client_reply reply;
    GR_TRY(gr_client_send(s->client, path, NULL, 0, &reply, err));
    enum gr_status status = gr_client_check(s->client, path, &reply, err);
    if (status == GR_OK) {
        status = parse_object(s, path, &reply, root, err);
    }
    gr_buf_free(&reply.body);
    return status;
}

enum gr_status gr_served_demo(struct gr_served *s, struct gr_served_demo *out, struct gr_err *err)
{
    *out = (struct gr_served_demo){.seed = GR_DEFAULT_SEED};
    GR_TRY(gr_served_get(s, "/demo", &out->root, err));
    out->request = gr_json_get(out->root, "request");
    if (gr_json_kind(out->request) != GR_JSON_OBJECT) {
        gr_json_free(out->root);
        out->root = NULL;
        return gr_fail(err, GR_ERR_NETWORK, "%s/demo has no request in it; is this a GR00T service?", s->url);
    }
    const struct gr_json *seed = gr_json_get(out->request, "seed");
    if (gr_json_kind(seed) == GR_JSON_INT && gr_json_int(seed) >= 0) {
        out->seed = (uint64_t)gr_json_int(seed);
    }
    return GR_OK;
}

enum gr_status gr_served_put_noise(uint64_t seed, const struct gr_wire_matrix *shape, enum gr_status code,
                                   struct gr_jw *w, struct gr_err *err)
{
    size_t n = (size_t)shape->rows * (size_t)shape->cols;
    if (n < GR_NOISE_MIN) {
        return gr_fail(err, code,
                       "no action_pred_normalized, which tells the shape of the noise, or one of %zu numbers", n);
    }
    float *noise = calloc(n, sizeof *noise);
    if (noise == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the noise");
    }
    gr_noise(seed, noise, n);
    gr_jw_key(w, "noise");
    gr_jw_f32_rows(w, noise, shape->rows, shape->cols, shape->cols);
    free(noise);
    return GR_OK;
}

/* One look at /health: GR_OK when ready, GR_ERR_BUSY when it may become so. */
static enum gr_status look(struct gr_served *s, struct gr_err *err)
{
    struct gr_json *root = NULL;
    GR_TRY(gr_served_get(s, "/health", &root, err));
    const struct gr_json *v = gr_json_get(root, "status");
    const char *word = gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "";
    enum gr_status status = GR_OK;
    if (strcmp(word, "starting") == 0) {
        status = gr_fail(err, GR_ERR_BUSY, "%s is still starting", s->url);
    } else if (strcmp(word, "draining") == 0) {
        status = gr_fail(err, GR_ERR_NETWORK, "%s is shutting down", s->url);
    } else if (strcmp(word, "ok") != 0) {
        status = gr_fail(err, GR_ERR_NETWORK,
                         "%s/health has no status that is known (\"%.40s\"); is this the address of "
                         "a GR00T service?",
                         s->url, word);
    }
    gr_json_free(root);
    return status;
}

enum gr_status gr_served_ready(struct gr_served *s, struct gr_err *err)
{
    double start = gr_clock_ms(), noted = start - NOTE_MS + 2 * PAUSE_MS;
    for (;;) {
        enum gr_status status = look(s, err);
        bool worth = status == GR_ERR_BUSY || (status == GR_ERR_NETWORK && s->wait_for_listener);
        double now = gr_clock_ms();
        if (!worth) {
            return status;
        }
        if (now - start >= 1000.0 * s->wait_s) {
            struct gr_err last = *err;
            return gr_fail(err, GR_ERR_NETWORK, "waited %.0f s: %s", s->wait_s, last.msg);
        }
        if (now - noted >= NOTE_MS) {
            noted = now;
            gr_log(GR_LOG_INFO, "waiting, %.0f of %.0f s: %s", (now - start) / 1000.0, s->wait_s, err->msg);
        }
        gr_clock_sleep(PAUSE_MS);
    }
}

enum gr_status gr_served_predict(struct gr_served *s, const struct gr_buf *body, struct gr_client_reply *reply,
                                 struct gr_json **root, struct gr_err *err)
{
    static const char path[] = "/predict";
    struct gr_client_reply got;
    if (body->failed || body->data == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the request");
    }
    for (int tries = 1;; tries++) {
        GR_TRY(gr_client_send(s->client, path, body->data, body->len, &got, err));
        enum gr_status status = gr_client_check(s->client, path, &got, err);
        if (status == GR_OK && (status = parse_object(s, path, &got, root, err)) == GR_OK) {
            *reply = got;
            return GR_OK;
        }
        double seconds = got.retry_after_s > 0.0 ? got.retry_after_s : 1.0;
        gr_buf_free(&got.body);
        if (status != GR_ERR_BUSY) {
            return status;
        }
        if (tries == BUSY_TRIES) {
            struct gr_err last = *err;
            return gr_fail(err, GR_ERR_NETWORK, "asked %d times: %s", tries, last.msg);
        }
        seconds = seconds > BUSY_PAUSE_MAX_S ? BUSY_PAUSE_MAX_S : seconds;
        gr_log(GR_LOG_INFO, "asking again in %.0f s: %s", seconds, err->msg);
        gr_clock_sleep(1000.0 * seconds);
    }
}
