/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h: how far two arrays of numbers are apart. */
#ifndef GR_CLI_COMPARE_H
#define GR_CLI_COMPARE_H

#include <stdbool.h>

struct gr_diff {
    bool has_pcc;    /* false when either side is (nearly) constant: standard deviation below 1e-6 */
    double pcc;      /* Pearson correlation over all elements, in double */
    double max_abs;  /* largest |got - want|; infinite when a value is not finite */
    double max_want; /* largest |want| */
    double rel_max;  /* max_abs / max_want; 0 when both are 0 */
    double rel_rms;  /* sqrt(sum (got - want)^2 / sum want^2) */
};

/* got [rows, cols] with row stride ld; want [rows, cols] dense. Pure function. */
struct gr_diff gr_compare(const float *got, int rows, int cols, int ld, const float *want);

#endif
