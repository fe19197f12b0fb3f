/* SPDX-License-Identifier: Apache-2.0
 *
 * feedback.h: rounding with error feedback (GPTQ; Frantar et al. 2022), in dual form. Columns of weights w [K] are rounded k after k. With
 * X [r, K] the calibration rows, each step chooses for the weights that are still exact the values that minimise
 *     |X (w - q)|^2 + lambda |w - q|^2
 * given those that are rounded already. Let s = sum over rounded k of x_k (w_k - q_k), x_k the k-th column of X. Then the k-th weight is
 * rounded from w_k + u_k . s, where
 *     u_k = (lambda I + sum over j >= k of x_j x_j^T)^-1 x_k
 * is the same for all columns: r floats for each k, in place of the K x K matrix of the usual form. */
#ifndef GR_CPU_FEEDBACK_H
#define GR_CPU_FEEDBACK_H

#include <stdint.h>

#include "base/err.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

enum { GR_FEEDBACK_BLOCK = 32 /* k that are rounded between two updates of s */ };

/* What all columns of a matrix share. k stands in the order of rounding, most energetic first, in blocks; k_pad is a multiple of 32,
 * x and u are zero from k on. */
struct gr_feedback {
    int r, k, k_pad;
    int32_t *order; /* [k_pad]: which k is rounded at place i; i itself from k on */
    float *x;       /* [blocks][r][32] */
    float *u;       /* [blocks][32][r] */
    float *gram;    /* [blocks][32][32]: gram[j][i] = u_j . x_i for j > i, else unspecified */
    void *block;
    size_t bytes;
};

/* x [r, k], finite, is multiplied with smooth [k] (NULL: ones). lambda = damping * mean over the rows of |x|^2, damping at least 1e-4.
 * r 0 or rows of zeros give plain rounding to nearest. GR_ERR_NOMEM; GR_ERR_FORMAT: x is not finite. */
enum gr_status gr_feedback_make(struct gr_pool *pool, const struct gr_kernels *kernels, const float *x, int r, int k,
                                const float *smooth, double damping, struct gr_feedback *out, struct gr_err *err);
void gr_feedback_free(struct gr_feedback *f);

/* The next 32 places of 32 columns. w [32][32]: exact weights, in the order of rounding; overwritten with w - q scale. scale and
 * inverse [32]: inverse = 1 / scale. q [32][32]: whole numbers in +-127. s [r][32]: the state, zeros before the first block. */
void gr_feedback_round(const struct gr_feedback *f, const struct gr_kernels *kernels, int block, float *w,
                       const float *scale, const float *inverse, float *q, float *s);

#endif
