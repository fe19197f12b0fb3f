/* SPDX-License-Identifier: Apache-2.0
 *
 * quantise_job.h: what the files of gr_quantise share: one matrix on its way to another format. */
#ifndef GR_CPU_QUANTISE_JOB_H
#define GR_CPU_QUANTISE_JOB_H

#include "device/cpu/quantise.h"

struct gr_quant_job {
    const struct gr_quantiser *q;
    const struct gr_mat *exact;
    const struct gr_quant_rows *rows;   /* NULL: none */
    const struct gr_quant_parts *parts; /* where results go */
    struct gr_mat *out;                 /* format, n, k, panels and the vectors are set */
};

/* k of one panel of the exact matrix, widened: to [32]. A panel or k that the matrix does not have gives zeros. */
void gr_quant_read_row(const struct gr_mat *exact, int panel, int k, float *to);

/* Panels [p0, p1) of a 16-bit format, rounded to nearest, with their scales. */
void gr_quant_round_panels(const struct gr_quant_job *job, int p0, int p1);

/* |y - y32| / |y32| of the finished matrix over the calibration rows. */
enum gr_status gr_quant_measure(const struct gr_quant_job *job, double *error, struct gr_err *err);

#endif
