/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer.h: what exchange.c (libcurl) and transfer.c (what comes back is judged, without libcurl) share about a running exchange. */
#ifndef GR_NET_TRANSFER_H
#define GR_NET_TRANSFER_H

#include <time.h>

#include "net/exchange.h"

/* One exchange. */
struct gr_transfer {
    struct gr_http *h;
    const char *unix_path;      /* NULL: TCP */
    const _Atomic bool *cancel; /* NULL: none */
    const struct gr_http_request *request;
    struct gr_http_reply *reply;
    struct gr_err *err;
    enum gr_status status; /* found while libcurl was at work; err or reply->fault says why */
    double start_ms;
    struct gr_url origin, here; /* of the request, of this hop */
    bool abroad;                /* the origin was left once */

    /* This hop. */
    struct gr_buf head;
    bool head_ended, to_sink;
    char *next; /* address of the redirect to follow; its body is skipped */
    uint64_t skipped, file_at;
    uint64_t range_bytes; /* of a 206; 0: unknown */
    double moved_ms;      /* when something last moved */
    int64_t moved;
    double slow_ms;     /* since when it is counted whether enough moves, */
    int64_t slow_moved; /* and how much had moved then */
};

/* The caller's wish to stop. */
bool gr_transfer_cancelled(const struct gr_transfer *x);
/* Notes why the exchange fails; the first one wins. Returns 0: what a callback tells libcurl to end the transfer. */
size_t gr_transfer_broke(struct gr_transfer *x, enum gr_http_fault fault, bool again, const char *why);
/* gr_transfer_broke for a certificate that is refused; `now`: what the system's clock says. */
void gr_transfer_certificate(struct gr_transfer *x, const char *why, time_t now);
/* The message of what gr_transfer_broke noted. */
enum gr_status gr_transfer_tell(const struct gr_transfer *x);
/* Callbacks of libcurl: a header line, a piece of the body. */
size_t gr_transfer_header(char *bytes, size_t size, size_t n, void *user);
size_t gr_transfer_body(char *bytes, size_t size, size_t n, void *user);

/* Where a redirect leads to, malloc'ed and without user, password and fragment. NULL: no http address. In exchange.c. */
char *gr_url_resolve(const char *from, const char *location, struct gr_url *out);

#endif
