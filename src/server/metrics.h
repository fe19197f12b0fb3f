/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h: counters and histograms of the service, printed in the Prometheus text format 0.0.4. Recording never blocks for long and
 * allocates nothing; any thread. */
#ifndef GR_SERVER_METRICS_H
#define GR_SERVER_METRICS_H

#include "base/buf.h"
#include "base/err.h"
#include "gr00t.h"

enum gr_metric_route {
    GR_ROUTE_HEALTH,
    GR_ROUTE_READY,
    GR_ROUTE_INFO,
    GR_ROUTE_DEMO,
    GR_ROUTE_MODELS,
    GR_ROUTE_PREDICT,
    GR_ROUTE_METRICS,
    GR_ROUTE_OPENAPI,
    GR_ROUTE_OTHER,
    GR_ROUTES
};
const char *gr_metric_route_name(enum gr_metric_route route); /* "/predict"; "other" */

struct gr_metrics;
enum gr_status gr_metrics_new(struct gr_metrics **out, struct gr_err *err);
void gr_metrics_free(struct gr_metrics *m); /* NULL is allowed */

void gr_metrics_request(struct gr_metrics *m, enum gr_metric_route route, int http_status, double ms);
/* Stage latencies of one answered predict: decode, queue, encode, vision, llm, adapter, denoise, decode_actions, total. */
void gr_metrics_predict(struct gr_metrics *m, double decode_ms, double queue_ms, const struct gr_timing *timing,
                        double total_ms);
void gr_metrics_out_of_range(struct gr_metrics *m, int values); /* state values outside the recorded range */
void gr_metrics_dropped(struct gr_metrics *m);                  /* a queued request whose client had gone */

/* Values read at the moment of printing. */
struct gr_metrics_now {
    const char *state; /* "starting", "ok", "draining" */
    int queue_depth, queue_capacity, busy, open_requests, connections;
    double busy_s; /* of the running predict, 0 when idle */
    const char *version, *model, *device, *isa, *policy;
};
void gr_metrics_print(const struct gr_metrics *m, const struct gr_metrics_now *now, struct gr_buf *out);

#endif
