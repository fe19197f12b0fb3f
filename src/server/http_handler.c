/* SPDX-License-Identifier: Apache-2.0
 *
 * http_handler.c: what libmicrohttpd calls: once when a head is complete, for each piece of a body, once when the request is complete, and at
 * its end. A response that is queued in the first call closes the connection, so a reply to a request without a body waits for the last call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/http_conn.h"

_Thread_local struct gr_httpd_request *gr_httpd_current;

static enum gr_httpd_method method_of(const char *name)
{
    static const struct {
        const char *name;
        enum gr_httpd_method method;
    } known[] = {
        {"GET", GR_HTTPD_GET}, {"HEAD", GR_HTTPD_HEAD}, {"POST", GR_HTTPD_POST}, {"OPTIONS", GR_HTTPD_OPTIONS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0) {
            return known[i].method;
        }
    }
    return GR_HTTPD_OTHER;
}

/* "http://host:1/info" and "/info" are the same to an origin server (RFC 9112 3.2.2). */
static const char *path_of(const char *url)
{
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        return url;
    }
    const char *slash = strchr(strstr(url, "://") + 3, '/');
    return slash != NULL ? slash : "/";
}

static struct gr_httpd_request *new_request(struct gr_httpd *http, struct MHD_Connection *c, const char *url,
                                            const char *method)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct gr_httpd_request *r = calloc(1, sizeof *r);
    if (r == NULL || (r->path = strdup(path_of(url))) == NULL) {
        free(r);
        return NULL;
    }
    r->http = http;
    r->conn = info->socket_context;
    r->mhd = c;
    r->method = method_of(method);
    r->arrived_ms = gr_clock_ms();
    for (size_t i = 0; method[i] != '\0' && i + 1 < sizeof r->method_name; i++) {
        r->method_name[i] = method[i] > ' ' && method[i] < 0x7f ? method[i] : '?';
    }
    r->conn->request = r;
    r->conn->finished = false;
    r->conn->in_head = false;
    gr_httpd_learn_pool(r->conn, http, method);
    return r;
}

static void call_back(struct gr_httpd_request *r, void (*fn)(void *user, struct gr_httpd_request *r))
{
    gr_httpd_current = r;
    fn(r->http->cfg.on.user, r);
    gr_httpd_current = NULL;
}

static enum MHD_Result head_done(struct gr_httpd *http, struct MHD_Connection *c, const char *url, const char *method,
                                 const char *version, void **ctx)
{
    struct gr_httpd_request *r = new_request(http, c, url, method);
    if (r == NULL) {
        return MHD_NO;
    }
    *ctx = r;
    const struct gr_httpd_refusal why = gr_httpd_check_head(r, version);
    if (why.status != 0) {
        gr_httpd_refuse(r, &why);
        r->early = true;
        return gr_httpd_queue(r);
    }
    gr_httpd_phase(r->conn, GR_HTTPD_BODY);
    r->seen = true;
    atomic_fetch_add(&http->open_requests, 1);
    call_back(r, http->cfg.on.on_head);
    if (!r->sync || !r->has_body) {
        return MHD_YES;
    }
    /* The answer is known but a body follows. A small one is read to keep the connection; else the reply goes out and the connection ends. */
    if (!r->close && !r->expects && !r->chunked && r->announced <= GR_HTTPD_SWALLOW_BYTES) {
        r->discard = true;
        return MHD_YES;
    }
    r->early = true;
    return gr_httpd_queue(r);
}

/* Memory follows what was received: doubled, never beyond the announced length. */
static bool grow_body(struct gr_httpd_request *r, size_t need)
{
    if (need < r->body_cap) { /* one byte stays for the NUL */
        return true;
    }
    size_t cap = r->body_cap < 8192 ? 8192 : r->body_cap * 2; /* body_bytes is checked before: no overflow */
    if (!r->chunked && cap > r->announced + 1) {
        cap = (size_t)r->announced + 1;
    }
    if (cap < need + 1) {
        cap = need + 1;
    }
    const size_t more = cap - r->body_cap;
    if (atomic_fetch_add(&r->http->bodies, more) + more > r->http->cfg.limits.bodies_bytes) {
        atomic_fetch_sub(&r->http->bodies, more);
        return false;
    }
    char *body = realloc(r->body, cap);
    if (body == NULL) {
        atomic_fetch_sub(&r->http->bodies, more);
        return false;
    }
    r->body = body;
    r->body_cap = cap;
    return true;
}

/* In the middle of a body the library takes no response: we write it ourselves and close, or with TLS read on and answer at the end. */
static enum MHD_Result refuse_in_body(struct gr_httpd_request *r, const struct gr_httpd_refusal *why)
{
    gr_httpd_release_body(r);
    r->discard = true;
    if (r->http->tls) {
        gr_httpd_refuse(r, why);
        return MHD_YES;
    }
    r->early = true;
    r->sent_raw = gr_httpd_refuse_raw(r->http, r->conn->fd, why);
    atomic_store(&r->replied, true);
    return MHD_NO;
}

static enum MHD_Result body_piece(struct gr_httpd_request *r, const char *data, size_t *n)
{
    const size_t got = *n;
    if (r->conn->expired) {
        return MHD_NO;
    }
    *n = 0;
    if (r->discard) {
        return MHD_YES;
    }
    if (got > r->http->cfg.limits.body_bytes - r->body_len) {
        return refuse_in_body(r,
                              &(struct gr_httpd_refusal){413, "body_too_large", "the body is larger than the limit"});
    }
    if (!grow_body(r, r->body_len + got)) {
        return refuse_in_body(r, &(struct gr_httpd_refusal){503, "busy", "no memory for another body now, try again"});
    }
    memcpy(r->body + r->body_len, data, got);
    r->body_len += got;
    r->body[r->body_len] = '\0';
    return MHD_YES;
}

static enum MHD_Result request_done(struct gr_httpd_request *r)
{
    if (r->conn->expired) {
        return MHD_NO;
    }
    if (r->sync || r->kept) {
        return gr_httpd_queue(r);
    }
    call_back(r, r->http->cfg.on.on_body);
    if (r->sync) {
        return gr_httpd_queue(r);
    }
    /* Another thread may have replied already: the request then waits in the ready list, which this thread reads later, so the
     * connection is always suspended before it is resumed. */
    r->kept = true;
    gr_httpd_phase(r->conn, GR_HTTPD_KEPT);
    MHD_suspend_connection(r->mhd);
    return MHD_YES;
}

enum MHD_Result gr_httpd_handle(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                const char *version, const char *data, size_t *n, void **ctx)
{
    struct gr_httpd_request *r = *ctx;
    if (r == NULL) {
        return head_done(cls, c, url, method, version, ctx);
    }
    return *n > 0 ? body_piece(r, data, n) : request_done(r);
}

void gr_httpd_completed(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_RequestTerminationCode code)
{
    (void)c;
    struct gr_httpd *http = cls;
    struct gr_httpd_request *r = *ctx;
    if (r == NULL) {
        return;
    }
    *ctx = NULL;
    const bool sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK || r->sent_raw;
    r->conn->request = NULL;
    r->conn->finished = sent && !r->early;
    gr_httpd_phase(r->conn, GR_HTTPD_IDLE);
    r->conn->base_bytes = gr_httpd_received(http, r->conn->fd);
    if (r->seen) {
        http->cfg.on.on_end(http->cfg.on.user, r, sent);
    }
    const bool seen = r->seen;
    if (r->response != NULL) {
        MHD_destroy_response(r->response);
    }
    gr_httpd_release_body(r);
    free(r->path);
    free(r);
    if (seen && atomic_fetch_sub(&http->open_requests, 1) == 1) {
        (void)pthread_mutex_lock(&http->lock);
        (void)pthread_cond_broadcast(&http->changed);
        (void)pthread_mutex_unlock(&http->lock);
    }
}
