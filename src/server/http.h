/* SPDX-License-Identifier: Apache-2.0
 *
 * http.h: HTTP/1.1 on a listening socket. Bytes in, requests out, replies in, bytes out; knows nothing of routes or robots.
 *
 *     head complete ──► on_head  (network thread) replies at once, or lets the body come
 *     body complete ──► on_body  (network thread) replies at once, or keeps the request and replies later from any thread
 *     reply sent or client gone ──► on_end (network thread); the request is invalid afterwards
 *
 * One network thread serves all sockets; callbacks must not block. A request that is kept costs no thread. Every reply of ours is one
 * write. What a client may cost is bounded: head, body, all bodies together, connections, and the time for each part. */
#ifndef GR_SERVER_HTTP_H
#define GR_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct gr_httpd;
struct gr_httpd_request;

enum gr_httpd_method { GR_HTTPD_GET, GR_HTTPD_HEAD, GR_HTTPD_POST, GR_HTTPD_OPTIONS, GR_HTTPD_OTHER };

struct gr_httpd_limits {
    int connections; /* 4096; beyond, the one that is silent for longest is closed; a process that may not open so many descriptors refuses clients earlier */
    size_t head_bytes;   /* 16 KiB: request line and headers; more is 431 */
    size_t body_bytes;   /* 96 MiB: more is 413, before a byte of it is read when the length is announced */
    size_t bodies_bytes; /* 512 MiB: received and not yet released bodies of all clients; more is 503 */
    double head_s, body_s,
        idle_s; /* 10, 30, 60: whole head, whole body, silence between requests; reached: connection closed */
};

struct gr_httpd_callbacks {
    void (*on_head)(void *user, struct gr_httpd_request *r);
    void (*on_body)(void *user, struct gr_httpd_request *r);
    /* Once for each request that on_head saw. sent: the whole reply was handed to the socket. */
    void (*on_end)(void *user, struct gr_httpd_request *r, bool sent);
    /* A request that was refused here (400, 408, 413, 431, 503), for counters. Of these only one that is refused in the middle of
     * its body was seen by on_head, and gets its on_end too. May be NULL. */
    void (*on_refused)(void *user, int status, const char *why);
    /* A fault of the library or the system that a log should show. May be NULL. */
    void (*on_warning)(void *user, const char *text);
    void *user;
};

struct gr_httpd_config {
    int listen_fd; /* listening TCP or Unix socket; stays the caller's, who closes it after gr_httpd_free */
    bool unix_socket;
    bool inherited; /* socket activation: draining stops accepting but leaves the socket open for its owner */
    const char *tls_cert, *tls_key; /* PEM text, NULL: plain HTTP */
    struct gr_httpd_limits limits;
    struct gr_httpd_callbacks on;
};

/* Starts serving. GR_ERR_USAGE: certificate or key unusable, no TLS in the library. GR_ERR_DEVICE: the system refuses threads or epoll. */
enum gr_status gr_httpd_start(const struct gr_httpd_config *cfg, struct gr_httpd **out, struct gr_err *err);

/* Whether certificate and key, PEM text, can be used together: before a port is taken. GR_ERR_USAGE. */
enum gr_status gr_httpd_check_tls(const char *cert, const char *key, struct gr_err *err);

/* Stops accepting: new clients are refused by the system, idle connections are closed, replies from now on say Connection: close. */
void gr_httpd_drain(struct gr_httpd *http);
/* Waits until no request is open (between on_head and on_end) or timeout_ms passed. True: none is open. */
bool gr_httpd_wait_idle(struct gr_httpd *http, double timeout_ms);
int gr_httpd_open_requests(const struct gr_httpd *http);
int gr_httpd_connections(const struct gr_httpd *http);
/* Ends the thread. No request may be kept any more. NULL is allowed. */
void gr_httpd_free(struct gr_httpd *http);

/* ---- a request; strings live until on_end ---- */

enum gr_httpd_method gr_httpd_method(const struct gr_httpd_request *r);
const char *gr_httpd_method_name(const struct gr_httpd_request *r); /* as sent, cleaned */
const char *gr_httpd_path(const struct gr_httpd_request *r);        /* percent-decoded, without the query */
/* Value of a header, name in any case; NULL when absent. When a header came several times: the first. On the network thread only. */
const char *gr_httpd_header(const struct gr_httpd_request *r, const char *name);
/* From on_body on. NUL behind it. */
const char *gr_httpd_body(const struct gr_httpd_request *r, size_t *n);
/* Gives the body's memory back early, when it has been parsed. */
void gr_httpd_release_body(struct gr_httpd_request *r);
double gr_httpd_arrived_ms(const struct gr_httpd_request *r); /* gr_clock_ms when the head was complete */
const char *gr_httpd_peer(const struct gr_httpd_request *r);  /* "127.0.0.1:51234", "unix" */
void gr_httpd_set_user(struct gr_httpd_request *r, void *user);
void *gr_httpd_user(const struct gr_httpd_request *r);
/* The client closed or reset its side: nobody waits for the reply (one that closed only its sending side counts as gone, but still gets a
 * reply that is given). Any thread, while the request is kept. */
bool gr_httpd_gone(const struct gr_httpd_request *r);

/* ---- a reply: exactly one for each request ---- */

struct gr_httpd_header {
    const char *name, *value;
};
struct gr_httpd_reply {
    int status;
    const char *content_type;              /* NULL: no body */
    const struct gr_httpd_header *headers; /* [n_headers], copied */
    int n_headers;
    bool close;                /* close the connection afterwards */
    const struct gr_buf *text; /* the body when it lives until gr_httpd_free: it is not copied. Else NULL */
};

/* Any thread, once for each request; in a callback or, for a kept request, later. Takes the memory of *body (which becomes empty); NULL: no
 * body. HEAD gets the headers of the same reply. Adds Date, Content-Length, Connection. A request is kept when on_body returns
 * without a reply. */
void gr_httpd_reply(struct gr_httpd_request *r, const struct gr_httpd_reply *reply, struct gr_buf *body);

#endif
