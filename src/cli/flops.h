/* SPDX-License-Identifier: Apache-2.0
 *
 * flops.h: the matrix products of one predict, one by one, for the benches. */
#ifndef GR_CLI_FLOPS_H
#define GR_CLI_FLOPS_H

#include "base/err.h"
#include "model/spec.h"

enum gr_work_stage { GR_WORK_VISION, GR_WORK_LLM, GR_WORK_ADAPTER, GR_WORK_DENOISE, GR_WORK_STAGES };
enum { GR_PRODUCT_NAME_BYTES = 32 };

/* y[m, n] = x[m, k] W, `times` times a predict. */
struct gr_product {
    char name[GR_PRODUCT_NAME_BYTES]; /* as in struct gr_plan_matrix */
    enum gr_work_stage stage;
    int m, n, k, times;
};

struct gr_work {
    struct gr_product *products; /* in order of use, owned */
    int n;
    double attention[GR_WORK_STAGES]; /* operations of scores and weighted sums */
};

/* What a predict was asked for. n_prefix: rows of the language model that came from the prefix cache. */
struct gr_work_size {
    int n_images, n_tokens, n_prefix;
};

/* Free with gr_work_free. GR_ERR_NOMEM. */
enum gr_status gr_work_make(const struct gr_dims *d, const struct gr_work_size *size, struct gr_work *out,
                            struct gr_err *err);
void gr_work_free(struct gr_work *work);

/* Operations, a multiply-add counts two. */
double gr_product_flops(const struct gr_product *p);
double gr_work_flops(const struct gr_work *work, enum gr_work_stage stage);

#endif
