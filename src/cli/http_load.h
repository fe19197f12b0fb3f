/* SPDX-License-Identifier: Apache-2.0
 *
 * http_load.h: posts one body many times, over several kept-alive connections at once, and notes what each answer took. */
#ifndef GR_CLI_HTTP_LOAD_H
#define GR_CLI_HTTP_LOAD_H

#include "base/buf.h"
#include "base/err.h"
#include "cli/wire_chunk.h"
#include "net/http_client.h"

enum { GR_LOAD_STATUS_MAX = 600 };

struct gr_load_sample {
    double wall_ms; /* 0: not answered with a chunk */
    int n_timings;
    struct gr_wire_timing timings[GR_WIRE_TIMINGS];
};

struct gr_load {
    const struct gr_client_config *config; /* of every connection */
    const struct gr_buf *body;
    int requests, concurrency;
    /* results */
    struct gr_load_sample *samples;    /* [requests], the caller's */
    int by_status[GR_LOAD_STATUS_MAX]; /* answers with another status than 200 */
    int network_errors;                /* no answer, or a 200 that is no chunk */
    struct gr_err first_error;         /* of either kind; code GR_OK: none */
    double wall_s;                     /* from the start of the first to the end of the last */
};

/* `concurrency` threads with a connection each; all are connected before the clock starts. Failed requests are counted, not repeated.
 * GR_OK also when all of them failed. */
enum gr_status gr_load_run(struct gr_load *load, struct gr_err *err);

/* One request: GR_OK for an answer with a chunk. *http: its status, 0 without one. */
enum gr_status gr_load_one(struct gr_client *client, const struct gr_buf *body, struct gr_load_sample *out, int *http,
                           struct gr_err *err);

#endif
