/* SPDX-License-Identifier: Apache-2.0
 *
 * service_parts.h: what the files of the service share: its state, and a request on its way through it. Not for anybody else.
 *
 * A job belongs to the network thread until on_body keeps it, then to the intake thread, then to the predict thread; whoever calls
 * gr_service_send gives it back to the network thread and must not touch it any more. */
#ifndef GR_SERVER_SERVICE_PARTS_H
#define GR_SERVER_SERVICE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "server/metrics.h"
#include "server/queue.h"
#include "server/request.h"
#include "server/service.h"

enum gr_service_state { GR_SERVICE_STARTING, GR_SERVICE_OK, GR_SERVICE_DRAINING };
enum {
    GR_PHASE_BYTES = 160,
    GR_RANGE_KINDS = 32,
    GR_SPARE = 2,
    GR_CLIENT_GONE = 499 /* in our books only: nobody read the reply */
};

/* When a state dimension was last named in the log for being out of range. */
struct gr_range_kind {
    char name[64];
    double logged_ms;
};

struct gr_service {
    struct gr_service_config cfg;
    struct gr_metrics *metrics;
    double started_ms;
    _Atomic(struct gr_httpd *) http;
    _Atomic int state;    /* enum gr_service_state */
    pthread_mutex_t lock; /* phase, fatal_err, on_fatal, encoded, spare */
    char phase[GR_PHASE_BYTES];
    struct gr_err fatal_err;
    void (*on_fatal)(void *user);
    void *on_fatal_user;
    _Atomic bool broken; /* the engine failed its check */

    /* Written before have_texts becomes true, constant afterwards. */
    _Atomic bool have_texts;
    struct gr_buf info, demo, openapi, models;
    struct gr_boot_facts facts;
    const struct gr_info *policy_info;
    struct gr_state_range *ranges; /* [state_dim], NULL: the statistics have percentiles only */
    /* gr_policy_predict_encoded; a test puts a failing or a slow one here. */
    enum gr_status (*predict)(struct gr_policy *p, const struct gr_encoded *in, struct gr_chunk *out,
                              struct gr_err *err);

    struct gr_queue *intake, *waiting;
    pthread_t intake_thread, predict_thread;
    bool threads; /* both run */
    struct gr_chunk *chunk;
    struct gr_encoded *demo_request; /* for the check of a failing engine */
    _Atomic bool stopping;
    pthread_cond_t room;                        /* with lock: encoded became smaller */
    int encoded, encoded_max;                   /* requests that are ready for the engine or in it */
    struct gr_encoded *spare[GR_SPARE];         /* memory of answered ones: two alternate, more is rare */
    _Atomic int open;                           /* predicts accepted and not yet answered */
    _Atomic int64_t running_since_us;           /* monotonic clock, 0: idle */
    struct gr_range_kind kinds[GR_RANGE_KINDS]; /* intake thread only */
    double refused_ms;                          /* network thread only: when the log last named a 503 */
    int refused_since;                          /* and how many there were since */
};

struct gr_job {
    struct gr_service *service;
    struct gr_httpd_request *http;
    enum gr_metric_route route;
    int status;       /* of the reply; 0: none yet */
    double body_ms;   /* clock when the body was complete */
    double encode_ms; /* time that the intake thread spent on encoding */
    bool accepted;    /* counted in service->open */
    struct gr_request request;
    struct gr_encoded *encoded;  /* request, ready for the engine; counted in service->encoded */
    char note[GR_ERR_MSG_BYTES]; /* why a status of 500 or more, for the log; "" for none */
};

/* ---- service_routes.c: network thread ---- */

void gr_service_on_head(void *user, struct gr_httpd_request *r);
void gr_service_on_end(void *user, struct gr_httpd_request *r, bool sent);

/* The reply of a job, with the headers that every reply has; name: one header more, or NULL. Gives the job away. */
void gr_service_send(struct gr_job *job, int status, const char *content_type, const char *name, const char *value,
                     struct gr_buf *body);
/* The same with an error body; 503 gets Retry-After. field "" for none. The message must not lie in *job. */
void gr_service_error(struct gr_job *job, int status, const char *code, const char *message, const char *field);

/* ---- service_predict.c ---- */

void gr_service_on_body(void *user, struct gr_httpd_request *r);
bool gr_service_full(const struct gr_service *s);
int gr_service_waiting(const struct gr_service *s); /* accepted and not yet running */
double gr_service_busy_s(const struct gr_service *s);
/* Queues, chunk, both threads. */
enum gr_status gr_service_start_threads(struct gr_service *s, struct gr_err *err);
void gr_service_stop_threads(struct gr_service *s);

/* ---- service.c ---- */

const char *gr_service_state_name(const struct gr_service *s);
void gr_service_phase(struct gr_service *s, char out[GR_PHASE_BYTES]);
void gr_service_break(struct gr_service *s, const struct gr_err *why);

#endif
