/* SPDX-License-Identifier: Apache-2.0
 *
 * service.h: the routes and the life of the service: starting -> ok -> draining. Between HTTP and the policy:
 *
 *     on_head: path, method, key, type, length, state  ─► reply, or let the body come
 *     on_body: /predict ─► intake queue ─► intake thread: JSON, pictures, encoding ─► predict queue
 *                                                                    ─► predict thread: engine, reply
 *
 * Both queues are first-in first-out and each has one thread, so requests are answered in the order of arrival; cfg.queue requests
 * may wait behind the one that runs or will run next. Bad requests are answered by the intake thread and never wait for the engine. GET routes are answered on the
 * network thread from texts made beforehand. */
#ifndef GR_SERVER_SERVICE_H
#define GR_SERVER_SERVICE_H

#include <stdbool.h>

#include "base/err.h"
#include "gr00t.h"
#include "policy/demo.h"
#include "policy/selfcheck.h"
#include "server/http.h"

/* What is known before the weights are open. Strings are borrowed for the life of the service. */
struct gr_service_config {
    const char *model;       /* "GR00T-N1.6-3B-cpu" */
    const char *device;      /* "cpu:0" */
    const char *version;     /* "n16" */
    const char *layout;      /* "gr1", "gr1_long_text", "auto" */
    const char *api_key;     /* NULL: none. Wanted on all routes but /health and /ready */
    const char *cors_origin; /* NULL: no CORS headers */
    int queue;               /* 8 */
    struct gr_httpd_limits limits;
};

/* What the start found out; see info.h. Borrowed until gr_service_free. */
struct gr_boot_facts {
    struct gr_policy *policy;
    const struct gr_demo *demo;
    const struct gr_selfcheck *check;
    const char *weights_repo, *weights_revision; /* NULL: unknown (a folder) */
    const char *snapshot_dir, *tokenizer_dir;
    const char *threads_reason; /* "2 CPUs of the affinity mask" */
    double model_built_s, boot_s;
};

struct gr_service;
enum gr_status gr_service_new(const struct gr_service_config *cfg, struct gr_service **out, struct gr_err *err);

/* For gr_httpd_config: callbacks whose user is the service. */
struct gr_httpd_callbacks gr_service_callbacks(struct gr_service *s);
void gr_service_set_http(struct gr_service *s, struct gr_httpd *http); /* for metrics */

/* What the start is doing, shown by /ready ("pack weights 43 %"). Copied; any thread. */
void gr_service_set_phase(struct gr_service *s, const char *text);
/* starting -> ok: makes the texts of /info, /demo, /openapi.json and starts both threads. */
enum gr_status gr_service_ready(struct gr_service *s, const struct gr_boot_facts *facts, struct gr_err *err);
/* -> draining: /health says so, /ready and new predicts get 503, accepted ones go on. */
void gr_service_drain(struct gr_service *s);
/* -> draining, and after its deadline: the running predict is cancelled and everything accepted is answered with 503. Returns when the threads have ended. */
void gr_service_stop(struct gr_service *s);
void gr_service_free(struct gr_service *s); /* after gr_httpd_free; NULL is allowed */

/* A predict failed with GR_ERR_DEVICE and the demo observation, run right after it, no longer gives the chunk of the start: the
 * engine is broken and the process should end with that code. *err has the reason. */
bool gr_service_fatal(const struct gr_service *s, struct gr_err *err);
/* Called (any thread) when gr_service_fatal becomes true. */
void gr_service_on_fatal(struct gr_service *s, void (*fn)(void *user), void *user);

#endif
