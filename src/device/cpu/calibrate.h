/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate.h: records what goes into every product of the exact predicts that calibrate: a sample of the rows, and for each k the largest value and
 * the mean. */
#ifndef GR_CPU_CALIBRATE_H
#define GR_CPU_CALIBRATE_H

#include "device/cpu/layout.h"

struct cpu_rows {
    struct gr_quant_rows rows; /* what the quantiser reads */
    float *x, *largest, *mean; /* the same, to write */
    double *sum;               /* [k] */
    int quota;                 /* rows kept of one product */
    long seen;
};
struct cpu_capture {
    struct gr_store store;
    struct cpu_rows *of; /* [layout.n] */
    int n;
};

/* Room for every matrix of the layout; gr_capture_free also after a failure. GR_ERR_NOMEM. */
enum gr_status gr_capture_new(const struct cpu_layout *l, struct cpu_capture *out, struct gr_err *err);
void gr_capture_free(struct cpu_capture *c);
/* Called by all threads with the packed fp32 rows of a product with matrix `id`, behind a barrier; a barrier lies before its end. */
void gr_capture_rows(const struct cpu_thread *t, int id, const struct gr_acts *acts);
/* After the last predict: means. */
void gr_capture_finish(struct cpu_capture *c);

#endif
