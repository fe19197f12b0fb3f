/* SPDX-License-Identifier: Apache-2.0
 *
 * http_reply.c: replies and refusals. A reply from another thread becomes a response of the library here and is handed to the network
 * thread, which alone touches the connection: a reply may therefore come before the callback that kept the request has returned. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/http_conn.h"
#include "server/reply.h"

/* Name: token characters. Value: no control characters, so that no value can start a header of its own. A header with a bad name is left
 * out, bad characters of a value become blanks. */
static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    for (const char *p = name; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f || *p == ':') {
            return;
        }
    }
    char *copy = strdup(value);
    if (copy == NULL) {
        return;
    }
    for (char *p = copy; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = ' ';
        }
    }
    (void)MHD_add_response_header(response, name, copy);
    free(copy);
}

/* Takes body->data. NULL when memory is refused. */
static struct MHD_Response *make_response(const struct gr_httpd_reply *reply, struct gr_buf *body)
{
    static char nothing[1];
    struct gr_buf none = {0};
    struct gr_buf *b = body != NULL && reply->content_type != NULL ? body : &none;
    struct MHD_Response *response = NULL;
    if (b->failed) {
        response = NULL;
    } else if (reply->text != NULL) {
        response = MHD_create_response_from_buffer(reply->text->len, reply->text->data, MHD_RESPMEM_PERSISTENT);
    } else if (b->len == 0) {
        response = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    } else {
        response = MHD_create_response_from_buffer(b->len, b->data, MHD_RESPMEM_MUST_FREE);
        if (response != NULL) {
            *b = (struct gr_buf){0};
        }
    }
    if (body != NULL) {
        gr_buf_free(body);
    }
    if (response == NULL) {
        return NULL;
    }
    if (reply->content_type != NULL) {
        add_header(response, "Content-Type", reply->content_type);
    }
    for (int i = 0; i < reply->n_headers; i++) {
        add_header(response, reply->headers[i].name, reply->headers[i].value);
    }
    return response;
}

void gr_httpd_reply(struct gr_httpd_request *r, const struct gr_httpd_reply *reply, struct gr_buf *body)
{
    if (atomic_exchange(&r->replied, true)) { /* a second reply is our own mistake, and harmless */
        if (body != NULL) {
            gr_buf_free(body);
        }
        return;
    }
    r->response = make_response(reply, body);
    r->status = reply->status >= 200 && reply->status <= 599 ? reply->status : 500;
    r->close = reply->close;
    if (r == gr_httpd_current) {
        r->sync = true; /* the handler that called back goes on with it */
        return;
    }
    struct gr_httpd *http = r->http;
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&http->lock);
    r->next_ready = NULL;
    if (http->ready_last != NULL) {
        http->ready_last->next_ready = r;
    } else {
        http->ready_first = r;
    }
    http->ready_last = r;
    /* Inside the lock: once it is open the network thread may end the request, and then gr_httpd_free close wake_fd. */
    (void)!write(http->wake_fd, &one, sizeof one);
    (void)pthread_mutex_unlock(&http->lock);
}

static void tell_refused(const struct gr_httpd *http, const struct gr_httpd_refusal *why)
{
    if (http->cfg.on.on_refused != NULL) {
        http->cfg.on.on_refused(http->cfg.on.user, why->status, why->message);
    }
}

void gr_httpd_refuse(struct gr_httpd_request *r, const struct gr_httpd_refusal *why)
{
    const struct gr_httpd_header later = {"Retry-After", "1"};
    struct gr_httpd_reply reply = {.status = why->status, .content_type = "application/json", .close = true};
    if (why->status == 503) {
        reply.headers = &later;
        reply.n_headers = 1;
    }
    struct gr_buf body = {0};
    gr_reply_error(why->status, why->code, why->message, "", &body);
    r->response = make_response(&reply, &body);
    r->status = why->status;
    r->close = true;
    r->sync = true;
    atomic_store(&r->replied, true);
    tell_refused(r->http, why);
}

bool gr_httpd_refuse_raw(struct gr_httpd *http, int fd, const struct gr_httpd_refusal *why)
{
    if (http->tls) {
        return false;
    }
    struct gr_buf body = {0}, all = {0};
    gr_reply_error(why->status, why->code, why->message, "", &body);
    gr_buf_printf(
        &all, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
        why->status, MHD_get_reason_phrase_for((unsigned)why->status), body.len,
        why->status == 503 ? "Retry-After: 1\r\n" : "");
    gr_buf_append(&all, &body);
    const bool sent = !all.failed && send(fd, all.data, all.len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)all.len;
    gr_buf_free(&body);
    gr_buf_free(&all);
    tell_refused(http, why);
    return sent;
}

/* Gives the reply to the library. MHD_NO closes the connection. */
enum MHD_Result gr_httpd_queue(struct gr_httpd_request *r)
{
    struct MHD_Response *response = r->response;
    if (response == NULL) {
        return MHD_NO; /* no memory for it */
    }
    r->response = NULL;
    gr_httpd_release_body(r);
    if (r->close || atomic_load(&r->http->draining)) {
        (void)MHD_add_response_header(response, "Connection", "close");
    }
    gr_httpd_phase(r->conn, GR_HTTPD_SEND);
    const enum MHD_Result done = MHD_queue_response(r->mhd, (unsigned)r->status, response);
    MHD_destroy_response(response); /* the library holds it as long as it is sent */
    return done;
}
