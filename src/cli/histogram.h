/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.h: what a series of latencies looks like: percentiles and a histogram as text.
 * A percentile is the nearest rank: of n sorted values, number ceil(p * n). It is always a value that was measured. */
#ifndef GR_CLI_HISTOGRAM_H
#define GR_CLI_HISTOGRAM_H

#include "base/buf.h"
#include "base/jsonout.h"

struct gr_percentiles {
    double p50, p90, p99, max, mean, min;
};

/* Sorts values[0 .. n) in place. n >= 1. */
struct gr_percentiles gr_percentiles_of(double *values, int n);
/* {"p50": ..., "p90": ..., "p99": ..., "max": ..., "mean": ..., "min": ...} */
void gr_percentiles_json(const struct gr_percentiles *p, struct gr_jw *w);

/* Rows of equal width from the smallest value to p99, one more for the rest; values sorted, n >= 1. */
void gr_histogram_text(const double *sorted, int n, struct gr_buf *out);

#endif
