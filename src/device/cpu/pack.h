/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.h: tensors of a checkpoint to exact packed matrices: BF16 tensors stay BF16, F16 and F32 tensors become fp32. */
#ifndef GR_CPU_PACK_H
#define GR_CPU_PACK_H

#include <stdbool.h>

#include "device/cpu/cpu_device.h"

/* One source of columns of a packed matrix. Linear: rows of w [out, in]. Per-embodiment: w [slots, in, out], rows [in0, in0 + k) of
 * `slot`, whose columns become the outputs. */
struct cpu_source {
    const struct gr_tensor *w, *b; /* b NULL or without data: no bias */
    bool per_slot;
    int slot, in0;
};
enum { CPU_SOURCES = 3 };
struct cpu_pack_job {
    struct gr_mat *mat;
    struct cpu_source src[CPU_SOURCES];
    int n_src;
    bool interleave;   /* gate and up: 16 columns of each in turn */
    size_t data_bytes; /* of the packed form */
    float *bias;       /* where mat->bias is written */
};
/* Fills mat's dims and format, and data_bytes. */
enum gr_status gr_cpu_mat_plan(struct cpu_pack_job *job, int k, struct gr_err *err);
size_t gr_cpu_bias_floats(const struct cpu_pack_job *job); /* of a planned job */
/* Packs matrix and bias on all threads; mat->data and bias are set. GR_ERR_FORMAT names the tensor that holds NaN or infinity. */
enum gr_status gr_cpu_pack(struct gr_pool *pool, const struct cpu_pack_job *job, struct gr_err *err);

/* Whether all n values are finite. */
bool gr_cpu_all_finite(const float *x, size_t n);
/* GR_ERR_FORMAT naming t when one of the n values widened from it is NaN or infinite. */
enum gr_status gr_cpu_check_finite(const float *x, size_t n, const struct gr_tensor *t, struct gr_err *err);

/* Packs one matrix into temporary memory, for products that are needed once at load. Free with gr_big_free(block, bytes). */
struct cpu_temp_mat {
    struct gr_mat mat;
    void *block;
    size_t bytes;
};
enum gr_status gr_cpu_temp_mat(struct gr_pool *pool, const struct cpu_source *src, int k, struct cpu_temp_mat *out,
                               struct gr_err *err);

#endif
