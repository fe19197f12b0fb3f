/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange.h: one HTTP exchange, streamed: bodies of any size in both directions, ranges, redirects that never carry a token to another
 * host. exchange.c is the only file that knows libcurl; http_client.h (JSON to a `gr00t serve`) and the Hub are built on it. */
#ifndef GR_NET_EXCHANGE_H
#define GR_NET_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Parts of an "http://" or "https://" address. */
struct gr_url {
    bool secure;    /* https */
    char host[256]; /* lower case; IPv6 with its brackets */
    int port;       /* that of the scheme when none is named */
    bool has_user, has_query, has_fragment;
};
/* False: no such address, or one with blanks, control characters or bytes beyond ASCII in it. */
bool gr_url_parse(const char *text, struct gr_url *out);
/* Scheme, host and port are equal. */
bool gr_url_same_origin(const struct gr_url *a, const struct gr_url *b);

struct gr_http; /* one handle: keeps connections open; one exchange at a time, any thread */

struct gr_http_config {
    const char *unix_path;      /* a Unix socket instead of TCP; NULL: none */
    const char *ca_file;        /* PEM; NULL: the system's */
    bool any_name;              /* a certificate may be made out for another host; it must still be one of ca_file */
    bool proxies;               /* obey http_proxy, https_proxy, all_proxy, no_proxy */
    double connect_s;           /* 0: 10 */
    double stall_s;             /* give up when nothing moves for so long; 0: 10 */
    double slow_s;              /* give up when less than 1 KiB/s moves over so long (at least stall_s); 0: never */
    const _Atomic bool *cancel; /* NULL: none; true: gr_http_send returns GR_ERR_BUSY soon */
};

enum gr_http_follow {
    GR_HTTP_FOLLOW_NONE,
    GR_HTTP_FOLLOW_ORIGIN, /* only redirects that stay on the origin (scheme, host, port) of the request */
    GR_HTTP_FOLLOW_ALL     /* others too, without the token and never from https to http; 10 hops */
};

/* What ended an exchange without a complete answer. */
enum gr_http_fault {
    GR_HTTP_FINE,
    GR_HTTP_UNKNOWN_HOST,
    GR_HTTP_NO_CONNECTION,   /* refused, no route, no socket */
    GR_HTTP_LATE_CONNECTION, /* none within connect_s */
    GR_HTTP_STALLED,         /* nothing moved for stall_s, or next to nothing for slow_s */
    GR_HTTP_LATE,            /* total_s is over */
    GR_HTTP_CUT,             /* closed before the answer was complete */
    GR_HTTP_CERTIFICATE,
    GR_HTTP_TOO_LONG, /* more than max_body */
    GR_HTTP_UNEXPECTED
};
enum { GR_HTTP_REASON_BYTES = 264 };

struct gr_http_reply {
    int status; /* 0: none came */
    bool again; /* the exchange failed in a way that another try may mend: connection, time-out, cut body */
    enum gr_http_fault fault;          /* with GR_ERR_NETWORK: for callers that word the message themselves */
    char reason[GR_HTTP_REASON_BYTES]; /* why, in words: "connection refused"; no address in it */
    const char *hint;                  /* "is it https://?": the other side does not speak this scheme; NULL: none */
    char *url;                         /* of the last hop */
    char *headers;                     /* of the last hop, as received, lines end with \n; see gr_http_reply_header */
    struct gr_buf body;                /* what no sink took; NUL-terminated */
    uint64_t body_bytes;               /* received, into the sink or the body */
    double wall_ms;
};

struct gr_http_request {
    const char *method; /* "GET", "HEAD", "PUT", "POST" */
    const char *url;
    const char *const *headers; /* "Name: value"; NULL-terminated, or NULL */
    const char *token;          /* Authorization: Bearer, to url's origin only; appears in no message */
    enum gr_http_follow follow;
    double total_s; /* whole exchange; 0: no limit */
    double stall_s; /* 0: the handle's; more for requests that the other side thinks about for long */

    const void *body; /* what is sent: bytes in memory, or body_bytes of a file from body_offset (body_fd > 0) */
    int body_fd;
    uint64_t body_offset, body_bytes;

    uint64_t range_from,
        range_to;    /* Range: bytes=from-to, both ends counted; range_to 0: to the end; both 0: no range */
    size_t max_body; /* of reply->body; 0: 16 MiB */
    /* Called once with the last hop's status and headers before any byte of the body, also when none follows; true: the body goes to `sink`,
     * else into reply->body. NULL: no sink. */
    bool (*want)(void *user, const struct gr_http_reply *reply);
    enum gr_status (*sink)(void *user, const void *bytes, size_t n,
                           struct gr_err *err); /* not GR_OK ends the exchange with that status */
    void (*sent)(void *user, uint64_t bytes);   /* progress of the request's body; NULL: none */
    void *user;
};

/* GR_ERR_DEVICE, GR_ERR_NOMEM, GR_ERR_IO (ca_file). */
enum gr_status gr_http_open(const struct gr_http_config *cfg, struct gr_http **out, struct gr_err *err);
void gr_http_close(struct gr_http *h); /* NULL is allowed */
/* Any HTTP status is GR_OK, also the 3xx of a redirect that is not followed: a foreign one with GR_HTTP_FOLLOW_ORIGIN, one without Location, and
 * 301 to 303 for PUT and POST, which would lose the body. A 206 that is not the range asked for is GR_ERR_NETWORK. GR_ERR_NETWORK names host and reason (never a query string: signed addresses are secrets); GR_ERR_BUSY cancelled;
 * GR_ERR_USAGE an address that is none; the sink's status. *reply is valid in every case; free with gr_http_reply_free. */
enum gr_status gr_http_send(struct gr_http *h, const struct gr_http_request *request, struct gr_http_reply *reply,
                            struct gr_err *err);
void gr_http_reply_free(struct gr_http_reply *reply);
/* Value of the header (any case) without blanks at the ends into out, cut at n. False: absent (out is ""). */
bool gr_http_reply_header(const struct gr_http_reply *reply, const char *name, char *out, size_t n);
/* Seconds from Retry-After (a number or a date) or RateLimit's t=; negative: neither. */
double gr_http_retry_after(const struct gr_http_reply *reply);
/* Percent-encodes everything but unreserved characters and those in `keep` ("/"). */
void gr_url_encode(struct gr_buf *out, const char *text, const char *keep);

#endif
