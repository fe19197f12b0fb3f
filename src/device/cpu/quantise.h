/* SPDX-License-Identifier: Apache-2.0
 *
 * quantise.h: exact packed matrices to the low-precision formats of kernels.h. Int8 weights have one scale a column; what rounding would
 * cost is taken back in three steps, all of them at pack time:
 *   smoothing        a factor for each k moves outliers of the rows into the weights: s[k] = (max|x[k]| / max|w[k]|)^1/2
 *   error feedback   each weight's rounding error is handed on to the weights of the same column that are still to be rounded, so
 *                    that the column's products with the calibration rows stay right (GPTQ; Frantar et al. 2022), in dual form:
 *                    the matrix to invert has a row for each calibration row, not for each k
 *   bias correction  what is left of the error on the mean row goes into the bias
 * Pure functions of their inputs: same bits for any number of threads. */
#ifndef GR_CPU_QUANTISE_H
#define GR_CPU_QUANTISE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

enum { GR_QUANT_ROWS = 384 /* calibration rows that are kept of a matrix */ };

/* What went into a product during the calibration predicts: normalised rows, as the product saw them. Owned by the caller. */
struct gr_quant_rows {
    int n, k;
    const float *x;       /* [n, k], a sample of all rows, n <= GR_QUANT_ROWS */
    const float *largest; /* [k] max |x| over all rows */
    const float *mean;    /* [k] over all rows */
};

/* Where the parts of a packed matrix are written; sizes as in struct gr_mat, 64-byte aligned. Every format needs bias (the exact one is
 * copied, and corrected); smooth is needed by I8 with smoothing, and ones without it. Parts that the format does not have may be NULL. */
struct gr_quant_parts {
    void *data;
    float *scale, *offset, *smooth, *bias;
};

struct gr_quantiser {
    struct gr_pool *pool;
    const struct gr_kernels *kernels; /* for feedback and error; another set may round a few weights differently */
    void *const *scratch; /* [threads] the larger of gr_gemm_scratch_bytes(GR_QUANT_ROWS), gr_row_scratch_bytes(k) */
    bool smooth, feedback, bias; /* I8 only: the three steps; the rest is rounded to nearest */
};

/* Bytes of data, and floats of scale, offset, smooth, bias, that format needs for a matrix of these dims. panels is set for `format`. */
size_t gr_quant_data_bytes(const struct gr_mat *exact, enum gr_mat_format format);
int gr_quant_panels(const struct gr_mat *exact, enum gr_mat_format format);

/* exact: F32 or BF16 panels. rows NULL: no smoothing, feedback or correction. out: format I8, I16, F16 or BF16P; its other fields and
 * the parts are filled. error: |y - y32| / |y32| over rows; -1 without rows, INFINITY when y overflows and y32 does not. GR_ERR_NOMEM;
 * GR_ERR_FORMAT when rows, or their exact products, hold NaN or infinity; GR_ERR_USAGE when rows do not fit the matrix. */
enum gr_status gr_quantise(const struct gr_quantiser *q, const struct gr_mat *exact, const struct gr_quant_rows *rows,
                           enum gr_mat_format format, const struct gr_quant_parts *parts, struct gr_mat *out,
                           double *error, struct gr_err *err);

#endif
