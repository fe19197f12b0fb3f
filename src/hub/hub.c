/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.c: the Hub's address and the exchanges with it: which host gets the token, when an exchange is tried again and after what wait, a few HTTP
 * handles that keep their connections open from one call to the next. */
#include "hub/hub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "net/http_text.h"

enum { IDLE_HANDLES = 64, TRIES = 6, TRIES_UNREACHED = 2, SLICE_MS = 100, LINK_BYTES = 16384, SECRET_MIN = 16 };
#define TIME_LIMIT_S 10.0
#define SLOW_S 60.0
#define FIRST_WAIT_S 1.0
#define LONGEST_WAIT_S 8.0
#define LONGEST_ASKED_S 60.0 /* what Retry-After may ask for */
#define ENDPOINT "https://huggingface.co"
/* 2025-01-01: a clock before it is wrong, and every certificate is "not yet valid" for it. */
#define CLOCK_SANE 1735689600

struct gr_hub {
    struct gr_hub_config cfg; /* strings are this struct's own */
    char *endpoint, *token, *cache_root, *ca_file;
    pthread_mutex_t lock;
    struct gr_http *idle[IDLE_HANDLES];
    int n_idle;
    _Atomic bool reached; /* something has answered */
};

static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

enum gr_status gr_hub_open(const struct gr_hub_config *cfg, struct gr_hub **out, struct gr_err *err)
{
    const char *endpoint = cfg->endpoint != NULL ? cfg->endpoint : ENDPOINT;
    struct gr_url parts;
    if (!gr_url_parse(endpoint, &parts) || parts.has_user || parts.has_query || parts.has_fragment) {
        /* No text with "@" in messages: there may be a password in front of it. */
        return gr_fail(err, GR_ERR_USAGE,
                       "the Hub's address (HF_ENDPOINT) is \"%.200s\", expected https://HOST or http://HOST:PORT",
                       strchr(endpoint, '@') == NULL ? endpoint : "...@...");
    }
    if (cfg->token != NULL && !gr_http_printable(cfg->token)) {
        return gr_fail(err, GR_ERR_USAGE,
                       "the Hub token (HF_TOKEN, or the token file) holds a character that no token has (blank, line "
                       "end ...)");
    }
    struct gr_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the Hub");
    }
    hub->cfg = *cfg;
    if (pthread_mutex_init(&hub->lock, NULL) != 0 || !copy(&hub->endpoint, endpoint) ||
        !copy(&hub->token, cfg->token) || !copy(&hub->cache_root, cfg->cache_root) ||
        !copy(&hub->ca_file, cfg->ca_file)) {
        gr_hub_close(hub);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the Hub");
    }
    for (size_t n = strlen(hub->endpoint); n > 0 && hub->endpoint[n - 1] == '/'; n--) {
        hub->endpoint[n - 1] = '\0';
    }
    hub->cfg.endpoint = hub->endpoint;
    hub->cfg.token = hub->token != NULL && hub->token[0] != '\0' ? hub->token : NULL;
    hub->cfg.cache_root = hub->cache_root;
    hub->cfg.ca_file = hub->ca_file;
    hub->cfg.time_limit_s = cfg->time_limit_s > 0.0 ? cfg->time_limit_s : TIME_LIMIT_S;
    hub->cfg.slow_s = cfg->slow_s > 0.0 ? cfg->slow_s : SLOW_S;
    hub->cfg.tries = cfg->tries > 0 ? cfg->tries : TRIES;
    *out = hub;
    return GR_OK;
}

void gr_hub_close(struct gr_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    for (int i = 0; i < hub->n_idle; i++) {
        gr_http_close(hub->idle[i]);
    }
    if (hub->token != NULL) {
        explicit_bzero(hub->token, strlen(hub->token));
    }
    free(hub->endpoint);
    free(hub->token);
    free(hub->cache_root);
    free(hub->ca_file);
    (void)pthread_mutex_destroy(&hub->lock);
    free(hub);
}

const struct gr_hub_config *gr_hub_settings(const struct gr_hub *hub) { return &hub->cfg; }

bool gr_hub_cancelled(const struct gr_hub *hub)
{
    return hub->cfg.cancel != NULL && atomic_load_explicit(hub->cfg.cancel, memory_order_relaxed);
}

/* ---- one exchange ---- */

/* The handle used last: its connections are the ones most likely still open. */
static enum gr_status take_handle(struct gr_hub *hub, struct gr_http **out, struct gr_err *err)
{
    *out = NULL;
    (void)pthread_mutex_lock(&hub->lock);
    if (hub->n_idle > 0) {
        *out = hub->idle[--hub->n_idle];
    }
    (void)pthread_mutex_unlock(&hub->lock);
    if (*out != NULL) {
        return GR_OK;
    }
    const struct gr_http_config cfg = {.ca_file = hub->cfg.ca_file,
                                       .proxies = true,
                                       .connect_s = hub->cfg.time_limit_s,
                                       .stall_s = hub->cfg.time_limit_s,
                                       .slow_s = hub->cfg.slow_s,
                                       .cancel = hub->cfg.cancel};
    return gr_http_open(&cfg, out, err);
}

static void give_handle(struct gr_hub *hub, struct gr_http *h)
{
    (void)pthread_mutex_lock(&hub->lock);
    if (hub->n_idle < IDLE_HANDLES) {
        hub->idle[hub->n_idle++] = h;
        h = NULL;
    }
    (void)pthread_mutex_unlock(&hub->lock);
    gr_http_close(h);
}

/* A board without a clock battery says 1970, and what fails then is a certificate. */
static enum gr_status mention_clock(enum gr_status status, struct gr_err *err)
{
    const time_t now = time(NULL);
    struct tm t;
    char date[32] = "";
    if (status == GR_ERR_NETWORK && now < CLOCK_SANE && gmtime_r(&now, &t) != NULL &&
        strftime(date, sizeof date, "%Y-%m-%d", &t) > 0) {
        const struct gr_err was = *err;
        return gr_fail(err, status, "%.400s; this machine's clock says %s: set it first", was.msg, date);
    }
    return status;
}

enum gr_status gr_hub_send(struct gr_hub *hub, const struct gr_http_request *request, struct gr_http_reply *reply,
                           struct gr_err *err)
{
    memset(reply, 0, sizeof *reply);
    if (hub->cfg.offline) {
        return gr_fail(err, GR_ERR_NETWORK, "%s is needed, but HF_HUB_OFFLINE forbids the network: unset it",
                       request->url[0] == '/' ? hub->endpoint : "a storage host");
    }
    struct gr_http_request r = *request;
    struct gr_buf url = {0};
    if (request->url[0] == '/') {
        gr_buf_puts(&url, hub->endpoint);
        gr_buf_puts(&url, request->url);
        r.token = hub->cfg.token;
    } else {
        gr_buf_puts(&url, request->url);
        r.token = NULL;
    }
    r.url = url.data;
    struct gr_http *h = NULL;
    enum gr_status status = url.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a request") : GR_OK;
    if (status == GR_OK) {
        status = take_handle(hub, &h, err);
    }
    if (status == GR_OK) {
        status = mention_clock(gr_http_send(h, &r, reply, err), err);
        give_handle(hub, h);
        hub->reached = hub->reached || reply->status > 0;
    }
    gr_buf_free(&url);
    return status;
}

/* ---- again ---- */

bool gr_hub_may_mend(enum gr_status sent, const struct gr_http_reply *reply)
{
    const int s = reply->status;
    return sent == GR_ERR_NETWORK ? reply->again : sent == GR_OK && (s == 408 || s == 429 || (s >= 500 && s <= 504));
}

/* A name that is not known and a port that nobody listens on are mostly mistakes of an address: only who has answered before may be about to
 * come back. */
static int tries_of(const struct gr_hub *hub, const struct gr_http_reply *reply)
{
    const bool nobody = reply->fault == GR_HTTP_UNKNOWN_HOST || reply->fault == GR_HTTP_NO_CONNECTION;
    return nobody && !hub->reached && hub->cfg.tries > TRIES_UNREACHED ? TRIES_UNREACHED : hub->cfg.tries;
}

enum gr_status gr_hub_pause(const struct gr_hub *hub, int tried, const struct gr_http_reply *reply, const char *why,
                            struct gr_err *err)
{
    return gr_hub_pause_or_stop(hub, tried, reply, why, NULL, err);
}

static bool is_over(const struct gr_hub *hub, const _Atomic bool *stop)
{
    return gr_hub_cancelled(hub) || (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed));
}

enum gr_status gr_hub_pause_or_stop(const struct gr_hub *hub, int tried, const struct gr_http_reply *reply,
                                    const char *why, const _Atomic bool *stop, struct gr_err *err)
{
    double wait_s = FIRST_WAIT_S;
    for (int i = 1; i < tried && wait_s < LONGEST_WAIT_S; i++) {
        wait_s *= 2.0;
    }
    const double asked_s = reply->status > 0 ? gr_http_retry_after(reply) : -1.0;
    if (asked_s >= 0.0) {
        wait_s = asked_s < LONGEST_ASKED_S ? asked_s : LONGEST_ASKED_S;
    }
    if (hub->cfg.note != NULL) {
        char line[GR_ERR_MSG_BYTES + 64];
        (void)snprintf(line, sizeof line, "%.400s; try %d of %d in %.3g s", why, tried + 1, tries_of(hub, reply),
                       wait_s);
        hub->cfg.note(hub->cfg.note_user, line);
    }
    for (const double end = gr_clock_ms() + 1000.0 * wait_s; gr_clock_ms() < end && !is_over(hub, stop);) {
        const double left = end - gr_clock_ms();
        gr_clock_sleep(left < SLICE_MS ? left : SLICE_MS);
    }
    return is_over(hub, stop) ? gr_fail(err, GR_ERR_BUSY, "interrupted") : GR_OK;
}

/* "ORG/NAME" out of "/api/models/ORG/NAME/..." or "/ORG/NAME/...", for messages; else the path itself. */
static void name_target(const char *url, char *out, size_t n)
{
    static const char api[] = "/api/models/";
    const char *from = strncmp(url, api, sizeof api - 1) == 0 ? url + sizeof api - 1 : url + (url[0] == '/');
    const char *slash = strchr(from, '/');
    const size_t len = slash != NULL ? (size_t)(slash - from) + 1 + strcspn(slash + 1, "/?") : 0;
    (void)snprintf(out, n, "%.*s", (int)(len < n ? len : n - 1), from);
    if (!gr_hub_is_id(out)) {
        (void)snprintf(out, n, "%.*s", (int)strcspn(url, "?"), url);
    }
}

/* No answer at all: who set the address wonders where the call went. */
static enum gr_status mention_endpoint(const struct gr_hub *hub, const struct gr_http_request *request,
                                       const struct gr_http_reply *reply, enum gr_status status, struct gr_err *err)
{
    if (status != GR_ERR_NETWORK || reply->status > 0 || reply->fault == GR_HTTP_FINE || request->url[0] != '/' ||
        strcmp(hub->endpoint, ENDPOINT) == 0) {
        return status;
    }
    const struct gr_err was = *err;
    return gr_fail(err, status, "%.300s; HF_ENDPOINT is %.150s: is that the Hub's address?", was.msg, hub->endpoint);
}

enum gr_status gr_hub_call(struct gr_hub *hub, const struct gr_http_request *request, bool (*keep)(int status),
                           struct gr_http_reply *reply, struct gr_err *err)
{
    char what[GR_HUB_ID_BYTES];
    name_target(request->url, what, sizeof what);
    for (int tried = 1;; tried++) {
        enum gr_status status = gr_hub_send(hub, request, reply, err);
        const bool refused = status == GR_OK && (reply->status < 200 || reply->status >= 300);
        if (!gr_hub_may_mend(status, reply) || tried >= tries_of(hub, reply)) {
            return refused && (keep == NULL || !keep(reply->status))
                       ? gr_hub_refused(hub, what, reply, err)
                       : mention_endpoint(hub, request, reply, status, err);
        }
        char why[GR_ERR_MSG_BYTES];
        if (refused) {
            (void)snprintf(why, sizeof why, "%.200s: the Hub answers %d", what, reply->status);
        } else {
            (void)snprintf(why, sizeof why, "%s", err->msg);
        }
        status = gr_hub_pause(hub, tried, reply, why, err);
        if (status != GR_OK) {
            return status;
        }
        gr_http_reply_free(reply);
    }
}

enum gr_status gr_hub_json(const struct gr_hub *hub, const char *what, const struct gr_http_reply *reply,
                           struct gr_json **out, struct gr_err *err)
{
    const char *text = reply->body.data != NULL ? reply->body.data : "";
    struct gr_err why = {0};
    const char *token = hub->cfg.token;
    if (token != NULL && strlen(token) >= SECRET_MIN && strstr(text, token) != NULL) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the answer repeats the token, it is not read: is this the Hub?", what);
    }
    if (text[strspn(text, " \t\r\n")] == '<') {
        return gr_fail(err, GR_ERR_NETWORK,
                       "%s: the answer is a page for people, not the Hub's JSON: is a proxy or a login in between, or "
                       "HF_ENDPOINT no Hub?",
                       what);
    }
    if (gr_json_parse(text, reply->body.len, what, GR_ERR_NETWORK, out, &why) != GR_OK) {
        return gr_fail(err, why.code, "the Hub's answer cannot be read: %s", why.msg);
    }
    return GR_OK;
}

static const char *strip(const char *url, const char *origin)
{
    const size_t n = strlen(origin);
    return strncmp(url, origin, n) == 0 && url[n] == '/' ? url + n : url;
}

const char *gr_hub_below(const struct gr_hub *hub, const char *url)
{
    const char *own = strip(url, hub->endpoint);
    return own != url ? own : strip(url, ENDPOINT);
}

enum gr_status gr_hub_next_page(const struct gr_hub *hub, const struct gr_http_reply *reply, char *out, size_t n,
                                struct gr_err *err)
{
    char link[LINK_BYTES];
    out[0] = '\0';
    (void)gr_http_reply_header(reply, "Link", link, sizeof link);
    for (char *at = strchr(link, '<'); at != NULL; at = strchr(at + 1, '<')) {
        char *end = strchr(at, '>');
        const char *rel = end != NULL ? strstr(end, "rel=\"next\"") : NULL, *next = strchr(at + 1, '<');
        if (end != NULL && (rel == NULL || (next != NULL && rel > next))) {
            continue;
        }
        if (end != NULL) {
            *end = '\0';
            const char *url = gr_hub_below(hub, at + 1);
            const int len = url[0] == '/' && url[1] != '/' ? snprintf(out, n, "%s", url) : -1;
            if (len > 0 && (size_t)len < n) {
                return GR_OK;
            }
        }
        out[0] = '\0';
        return gr_fail(err, GR_ERR_NETWORK,
                       "the next page of the Hub's listing is at an address that is not its own or too long: the "
                       "listing is not complete");
    }
    return GR_OK;
}
