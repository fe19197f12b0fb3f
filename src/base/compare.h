/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h: how far two arrays of numbers are apart. The only place that computes a correlation. */
#ifndef GR_BASE_COMPARE_H
#define GR_BASE_COMPARE_H

#include <stdbool.h>

struct gr_diff {
    bool has_pcc;    /* false when either side is (nearly) constant: standard deviation below 1e-6 */
    double pcc;      /* Pearson correlation over all elements, in double; 0 without one */
    double max_abs;  /* largest |got - want|; infinite when a value is not finite */
    double max_want; /* largest |want| */
    double rel_max;  /* max_abs / max_want; 0 when both are 0 */
    double rel_rms;  /* sqrt(sum (got - want)^2 / sum want^2) */
};

/* Blocks [rows, cols] of two arrays with their row strides. Pure function. */
struct gr_diff gr_compare(const float *got, int got_stride, const float *want, int want_stride, int rows, int cols);

#endif
