/* SPDX-License-Identifier: Apache-2.0
 *
 * http_conn.h: what the http_*.c files share and nobody else sees: the server, its connections, its requests.
 *
 * Everything without a word about threads belongs to the network thread, which also runs libmicrohttpd (external polling, no thread of the
 * library): so a connection's record, the library's state of it and its socket never change under each other's feet. */
#ifndef GR_SERVER_HTTP_CONN_H
#define GR_SERVER_HTTP_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "server/http.h"

enum {
    GR_HTTPD_LINGER = 64,               /* refused clients that are still being read, at most */
    GR_HTTPD_SWALLOW_BYTES = 64 * 1024, /* a body up to this size is read to its end although the reply is known */
    GR_HTTPD_PEER_BYTES = 64,
    GR_HTTPD_METHOD_BYTES = 24
};

enum gr_httpd_phase {
    GR_HTTPD_IDLE, /* waiting for a head, or in the middle of one */
    GR_HTTPD_BODY, /* head done, body coming */
    GR_HTTPD_KEPT, /* ours to answer; the library has suspended the connection */
    GR_HTTPD_SEND  /* reply given to the library */
};

struct gr_httpd_conn {
    struct gr_httpd_conn *prev, *next; /* ring of all connections; the sweep takes the first and puts it last */
    struct MHD_Connection *mhd;
    struct gr_httpd_request *request; /* open one, or NULL */
    int fd;
    enum gr_httpd_phase phase;
    double since_ms;     /* phase began */
    double head_ms;      /* first byte of the next head was noticed; 0: none yet */
    uint64_t base_bytes; /* gr_httpd_received when the phase IDLE began */
    char *pool;          /* the library's memory of this connection, for trimming; NULL: unknown */
    bool fat;            /* its memory was used and not given back since */
    bool finished;       /* the last request was read to its end and answered */
    bool in_head;        /* request line read, handler not called yet */
    bool expired;        /* closed by us on purpose */
    char peer[GR_HTTPD_PEER_BYTES];
};

/* A socket whose client was refused while it was still sending. It is read for a while, because closing it with unread data would reset the
 * connection and destroy the refusal on its way. */
struct gr_httpd_linger {
    int fd; /* -1: free */
    double end_ms, quiet_ms;
};

struct gr_httpd {
    struct gr_httpd_config cfg;
    struct MHD_Daemon *mhd;
    pthread_t thread;
    int epoll_fd, wake_fd, spare_fd, mhd_fd;
    bool tls, tcp;
    size_t pool_bytes; /* 0: pools are not trimmed */
    atomic_int connections, open_requests;
    atomic_size_t bodies;
    atomic_bool draining, stopping;

    pthread_mutex_t lock; /* the next four */
    pthread_cond_t changed;
    struct gr_httpd_request *ready_first, *ready_last; /* kept requests that have their reply */
    bool drained;

    struct gr_httpd_conn ring; /* head of the ring, no connection itself */
    struct gr_httpd_conn *adding;
    struct gr_httpd_linger linger[GR_HTTPD_LINGER];
    int n_linger, fat; /* sockets lingering, connections that are fat */
    double sweep_ms, next_sweep_ms;
    double accept_again_ms; /* > 0: accepting pauses until then, the system has no descriptors */
    double warned_ms;
    bool listening, drain_seen;
    char start_log[256]; /* last word of the library while it starts */
};

struct gr_httpd_request {
    struct gr_httpd *http;
    struct gr_httpd_conn *conn;
    struct MHD_Connection *mhd;
    struct gr_httpd_request *next_ready; /* under http->lock */
    enum gr_httpd_method method;
    char method_name[GR_HTTPD_METHOD_BYTES];
    char *path;
    void *user;
    double arrived_ms;
    bool has_body, chunked, expects;
    uint64_t announced;
    char *body;
    size_t body_len, body_cap;
    atomic_bool replied;
    struct MHD_Response *response; /* written before the request enters the ready list */
    int status;
    bool close;
    bool seen;     /* by on_head */
    bool sync;     /* replied within a callback, or refused here */
    bool kept;     /* by on_body; the connection is suspended */
    bool discard;  /* what comes of the body is thrown away */
    bool early;    /* answered before its body was read */
    bool sent_raw; /* refused by our own write */
};

/* The request whose callback runs on this thread, NULL elsewhere. */
extern _Thread_local struct gr_httpd_request *gr_httpd_current;

/* ---- http_handler.c: callbacks of the library ---- */
enum MHD_Result gr_httpd_handle(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                const char *version, const char *data, size_t *n, void **ctx);
void gr_httpd_completed(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_RequestTerminationCode code);

/* ---- http_head.c: which heads are refused, and with what ---- */
struct gr_httpd_refusal {
    int status; /* 0: none */
    const char *code, *message;
};
/* Fills has_body, chunked, expects, announced. */
struct gr_httpd_refusal gr_httpd_check_head(struct gr_httpd_request *r, const char *version);

/* ---- http_reply.c ---- */
void gr_httpd_refuse(struct gr_httpd_request *r, const struct gr_httpd_refusal *why);
/* Writes the refusal past the library, for moments when it accepts none. False with TLS or when the socket takes nothing. */
bool gr_httpd_refuse_raw(struct gr_httpd *http, int fd, const struct gr_httpd_refusal *why);
enum MHD_Result gr_httpd_queue(struct gr_httpd_request *r);

/* ---- http_conn.c ---- */
void gr_httpd_accept(struct gr_httpd *http);
void gr_httpd_notify(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_ConnectionNotificationCode code);
/* Bytes the kernel has received on this connection so far; 0 when it does not say (Unix sockets). */
uint64_t gr_httpd_received(const struct gr_httpd *http, int fd);
void gr_httpd_phase(struct gr_httpd_conn *conn, enum gr_httpd_phase phase);
void gr_httpd_learn_pool(struct gr_httpd_conn *conn, struct gr_httpd *http, const char *first_byte);
/* Time limits of some connections and of lingering sockets; cheap, called by the loop. */
void gr_httpd_sweep(struct gr_httpd *http, double now);
void gr_httpd_close_idle(struct gr_httpd *http);
void gr_httpd_linger_read(struct gr_httpd *http, int slot, double now);
void gr_httpd_linger_end(struct gr_httpd *http);
void gr_httpd_warn(struct gr_httpd *http, const char *text);

/* epoll data: sources of the loop; lingering slots follow. */
enum { GR_HTTPD_SRC_MHD, GR_HTTPD_SRC_WAKE, GR_HTTPD_SRC_LISTEN, GR_HTTPD_SRC_LINGER };

#endif
