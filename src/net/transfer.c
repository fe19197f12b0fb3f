/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer.c: what a hop brings, judged as it comes: headers kept up to a bound, redirects followed or not, the range compared with the one asked
 * for, the body sent on to sink or memory; and the words for what went wrong. Nothing here shows a path, a query or a token. */
#include "net/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_text.h"

enum { HEAD_MAX = 256 << 10, SKIP_MAX = 1 << 20, BODY_MAX = 16 << 20, WHERE_BYTES = 300, CLOCK_YEAR_MIN = 2025 };

size_t gr_transfer_broke(struct gr_transfer *x, enum gr_http_fault fault, bool again, const char *why)
{
    if (x->status == GR_OK) {
        x->status = GR_ERR_NETWORK;
        x->reply->fault = fault;
        x->reply->again = again;
        snprintf(x->reply->reason, sizeof x->reply->reason, "%s", why);
    }
    return 0;
}

bool gr_transfer_cancelled(const struct gr_transfer *x) { return x->cancel != NULL && atomic_load(x->cancel); }

/* Host as messages name it; no path, no query. */
static const char *where(const struct gr_transfer *x, char out[WHERE_BYTES])
{
    if (x->unix_path != NULL) {
        snprintf(out, WHERE_BYTES, "unix:%s", x->unix_path);
    } else if (x->here.port == (x->here.secure ? 443 : 80)) {
        snprintf(out, WHERE_BYTES, "%s", x->here.host);
    } else {
        snprintf(out, WHERE_BYTES, "%s:%d", x->here.host, x->here.port);
    }
    return out;
}

enum gr_status gr_transfer_tell(const struct gr_transfer *x)
{
    const struct gr_http_reply *r = x->reply;
    const char *sep = r->hint != NULL ? "; " : "", *hint = r->hint != NULL ? r->hint : "";
    char host[WHERE_BYTES];
    where(x, host);
    switch (r->fault) {
    case GR_HTTP_UNKNOWN_HOST:
    case GR_HTTP_NO_CONNECTION:
    case GR_HTTP_LATE_CONNECTION:
        return gr_fail(x->err, GR_ERR_NETWORK, "no answer from %s: %s", host, r->reason);
    case GR_HTTP_CERTIFICATE:
        return gr_fail(x->err, GR_ERR_NETWORK, "the certificate of %s is not accepted: %s", host, r->reason);
    case GR_HTTP_CUT:
        return gr_fail(x->err, GR_ERR_NETWORK, "%s: the connection was closed before the answer was complete (%s)%s%s",
                       host, r->reason, sep, hint);
    default:
        return gr_fail(x->err, GR_ERR_NETWORK, "%s: %s%s%s", host, r->reason, sep, hint);
    }
}

/* A certificate that begins in the future: on a machine without a battery for its clock the clock is what is wrong. */
void gr_transfer_certificate(struct gr_transfer *x, const char *why, time_t now)
{
    char text[GR_HTTP_REASON_BYTES];
    struct tm tm;
    if (strstr(why, "not yet valid") != NULL && gmtime_r(&now, &tm) != NULL && tm.tm_year + 1900 < CLOCK_YEAR_MIN) {
        snprintf(text, sizeof text,
                 "it is not yet valid, because the system clock is wrong: it says %04d-%02d-%02d; set it",
                 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
        gr_transfer_broke(x, GR_HTTP_CERTIFICATE, false, text);
    } else {
        gr_transfer_broke(x, GR_HTTP_CERTIFICATE, false, why);
    }
}

static bool keeps_method(const struct gr_transfer *x)
{
    int status = x->reply->status;
    bool plain = strcmp(x->request->method, "GET") == 0 || strcmp(x->request->method, "HEAD") == 0;
    return status == 307 || status == 308 || (plain && status >= 301 && status <= 303);
}

/* Decides about a redirect; false: it must not be followed, and that is an error. */
static bool consider_redirect(struct gr_transfer *x)
{
    const char *value = NULL;
    size_t n = 0;
    struct gr_url to;
    if (x->request->follow == GR_HTTP_FOLLOW_NONE || !keeps_method(x) ||
        !gr_http_find(x->reply->headers, "Location", &value, &n) || n == 0) {
        return true;
    }
    char *location = strndup(value, n), *next = location == NULL ? NULL : gr_url_resolve(x->reply->url, location, &to);
    free(location);
    if (next == NULL) {
        gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, "it redirects to something that is no http address");
        return false;
    }
    bool home = gr_url_same_origin(&to, &x->origin);
    if (!home && x->request->follow == GR_HTTP_FOLLOW_ORIGIN) {
        free(next);
        return true;
    }
    if (x->here.secure && !to.secure) {
        free(next);
        gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, "it redirects from https to http, which is not followed");
        return false;
    }
    x->next = next;
    return true;
}

/* A 206 must be the range that was asked for. */
static bool check_range(struct gr_transfer *x)
{
    const struct gr_http_request *q = x->request;
    char text[128];
    unsigned long long from = 0, to = 0;
    if (x->reply->status != 206) {
        return true;
    }
    bool right = gr_http_reply_header(x->reply, "Content-Range", text, sizeof text) &&
                 sscanf(text, "bytes %20llu-%20llu", &from, &to) == 2 && from == q->range_from && to >= from &&
                 (q->range_to == 0 || to <= q->range_to);
    if (!right) {
        gr_transfer_broke(x, GR_HTTP_UNEXPECTED, true, "it sent another range than the one asked for");
        return false;
    }
    x->range_bytes = to - from + 1;
    return true;
}

static bool end_head(struct gr_transfer *x)
{
    x->head_ended = true;
    x->reply->headers = x->head.data;
    x->head = (struct gr_buf){0};
    if (!consider_redirect(x)) {
        return false;
    }
    if (x->next != NULL) {
        return true;
    }
    if (!check_range(x)) {
        return false;
    }
    x->to_sink = x->request->want != NULL && x->request->want(x->request->user, x->reply);
    return true;
}

size_t gr_transfer_header(char *bytes, size_t size, size_t n, void *user)
{
    struct gr_transfer *x = user;
    size_t len = size * n, kept = len;
    if (x->head_ended) {
        return len; /* trailers */
    }
    if (len > 5 && memcmp(bytes, "HTTP/", 5) == 0) { /* also after 100 Continue */
        const char *blank = memchr(bytes, ' ', len);
        x->head.len = 0;
        x->reply->status = blank == NULL ? 0 : (int)strtol(blank + 1, NULL, 10); /* ends at the line's end */
    }
    while (kept > 0 && (bytes[kept - 1] == '\n' || bytes[kept - 1] == '\r')) {
        kept--;
    }
    if (x->head.len + kept + 1 > HEAD_MAX) {
        return gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, "its headers are longer than 256 KiB");
    }
    if (kept == 0) {
        return x->reply->status >= 200 && !end_head(x) ? 0 : len;
    }
    gr_buf_put(&x->head, bytes, kept);
    gr_buf_puts(&x->head, "\n");
    if (x->head.failed) {
        x->status = gr_fail(x->err, GR_ERR_NOMEM, "no memory for the headers of the answer");
    }
    return x->head.failed ? 0 : len;
}

size_t gr_transfer_body(char *bytes, size_t size, size_t n, void *user)
{
    struct gr_transfer *x = user;
    struct gr_http_reply *reply = x->reply;
    size_t len = size * n, most = x->request->max_body > 0 ? x->request->max_body : BODY_MAX;
    if (gr_transfer_cancelled(x)) {
        return 0;
    }
    if (x->next != NULL) {
        x->skipped += len;
        return x->skipped > SKIP_MAX ? 0 : len;
    }
    if (x->to_sink) {
        x->status = x->request->sink(x->request->user, bytes, len, x->err);
        reply->body_bytes += x->status == GR_OK ? len : 0;
        return x->status == GR_OK ? len : 0;
    }
    if (len > most - reply->body.len) {
        char why[64];
        snprintf(why, sizeof why, "its answer is longer than %zu KiB", most >> 10);
        return gr_transfer_broke(x, GR_HTTP_TOO_LONG, false, why);
    }
    gr_buf_put(&reply->body, bytes, len);
    if (reply->body.failed) {
        x->status = gr_fail(x->err, GR_ERR_NOMEM, "no memory for the answer");
        return 0;
    }
    reply->body_bytes += len;
    return len;
}
