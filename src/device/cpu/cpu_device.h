/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_device.h: the CPU device inside: packed network, scratch, and the few steps all stages are made of.
 *
 * A predict is one SPMD job: every thread runs the stage functions from top to bottom and takes its share of rows, panels
 * or heads. Each step ends with a barrier, so whatever a step wrote may be read by any thread in the next. */
#ifndef GR_CPU_DEVICE_H
#define GR_CPU_DEVICE_H

#include <stdbool.h>

#include "base/thread_pool.h"
#include "device/cpu/cache.h"
#include "device/cpu/store.h"
#include "device/device.h"
#include "kernels/kernels.h"

/* ---- packed network; all but the rotary tables points into gr_device.store ---- */

struct cpu_vit_layer {
    struct gr_row_norm norm1, norm2;
    struct gr_mat qkv, out, fc1, fc2; /* [3D, D], [D, D], [F, D], [D, F] */
};
struct cpu_llm_layer {
    struct gr_row_norm norm1, norm2;
    const float *q_gamma, *k_gamma;      /* [Dh] */
    struct gr_mat qkv, o, gate_up, down; /* [(H + 2 Hk) Dh, D], [D, H Dh], [2F, D] interleaved, [D, F] */
};
struct cpu_dit_block {
    struct gr_row_norm *norm1; /* [steps]: gamma = 1 + scale, beta = shift of each Euler step */
    struct gr_mat q;           /* cross blocks: [D, D]; self blocks: q, k, v as [3D, D] */
    struct gr_mat kv;          /* cross blocks: [2D, llm.hidden] */
    struct gr_mat out, ff1, ff2;
    bool cross, text; /* cross: attends to the backbone; text: to its text rows, else image rows */
    float *kv_cache;  /* cross: [visible rows, 2D], once a request */
};
struct cpu_net {
    struct gr_mat patch, connector1, connector2;
    float *vit_pos; /* [P, D], resized to the patch grid */
    struct cpu_vit_layer *vit;
    struct gr_row_norm vit_post, connector_norm, llm_norm, vlln;
    struct cpu_llm_layer *llm;
    float *rope_cos, *rope_sin; /* [max_tokens, Dh / 2] */
    struct gr_mat state1, state2, action1, action2, action3, decoder1, decoder2, proj_out2;
    float *action_bias; /* [steps, panels * 32]: time half of the action encoder's second layer, with its bias */
    float *action_pos;  /* [horizon, D] */
    float *temb;        /* [steps, D] */
    float *ada;         /* [dit.layers + 1, steps, 2, D]: gamma and beta of each AdaLN; the last is out_norm */
    struct cpu_dit_block *dit;
    struct gr_row_norm *out_norm;  /* [steps]; behind it norm1 of all blocks */
    struct gr_row_norm plain_norm; /* LayerNorm without weights, before the feed-forward */
    struct gr_tensor embed;        /* stays in the snapshot's mapping: a predict reads some hundred rows of it */
};

/* ---- scratch of one predict, sized at load; pages are touched only as far as a request needs ---- */

struct cpu_scratch {
    float *patches;                   /* [images * P, 588] */
    float *x, *wide, *attn, *ff;      /* residual, q/k/v, attention output, feed-forward; any stage */
    float *features, *vl;             /* [S, llm.hidden]: image tokens, then vlln output */
    float *state, *action, *velocity; /* [D], [horizon, A], [horizon, A] */
    float *pack;                      /* packed activations */
    int32_t *text_rows, *image_rows;  /* positions in the sequence */
    void **thread;                    /* [threads] kernel scratch */
};

struct gr_device {
    struct gr_device_cfg cfg;
    struct gr_dims dims;
    struct gr_kernels kernels;
    struct gr_kernels reference; /* of the reference path: another set than `kernels` where there is a fast one */
    struct gr_pool *pool;
    struct cpu_net net;
    struct cpu_scratch s;
    struct gr_store
        store; /* all that is computed from the weights: matrices in order of use, then vectors and constants */
    size_t weights_bytes; /* of the matrices */
    struct gr_cache cache;
    void *blocks[64]; /* everything else from gr_big_alloc */
    size_t block_bytes[64];
    int n_blocks;
};

/* Zeroed floats that live as long as the device; a * b of them. */
enum gr_status gr_cpu_floats(struct gr_device *dev, size_t a, size_t b, const char *what, float **out,
                             struct gr_err *err);

/* ---- loading ---- */

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
/* Packs panels [p0, p1) into mat->data (set by the caller); false when a weight is NaN or infinite. */
bool gr_cpu_mat_pack(const struct cpu_pack_job *job, int p0, int p1);
/* job->bias [panels * 32]; false as above. */
bool gr_cpu_bias_pack(const struct cpu_pack_job *job);

/* GR_ERR_FORMAT naming t when one of the n values widened from it is NaN or infinite. */
enum gr_status gr_cpu_check_finite(const float *x, size_t n, const struct gr_tensor *t, struct gr_err *err);
/* The store with all matrices and vectors, from the cache (then with the constants too) or packed. dev->cache says which. */
enum gr_status gr_cpu_load(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err);
/* Rotary tables: they depend on the longest sequence, not on the weights. */
enum gr_status gr_cpu_rotary(struct gr_device *dev, struct gr_err *err);
/* What depends on the checkpoint alone: positions, time embeddings, AdaLN, action encoder's time half. First their places in the store,
 * then their values. */
enum gr_status gr_cpu_place_constants(struct gr_device *dev, struct gr_store *s, struct gr_err *err);
enum gr_status gr_cpu_constants(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err);
/* Packs one matrix into temporary memory, for products that are needed once at load. Free with gr_big_free(mat.data, bytes). */
struct cpu_temp_mat {
    struct gr_mat mat;
    void *block;
    size_t bytes;
};
enum gr_status gr_cpu_temp_mat(struct gr_device *dev, const struct cpu_source *src, int k, struct cpu_temp_mat *out,
                               struct gr_err *err);

/* ---- one predict ---- */

enum { CPU_START, CPU_VISION, CPU_LLM, CPU_ADAPTER, CPU_DENOISE, CPU_STAGES };
struct cpu_run { /* shared by the threads of one predict */
    struct gr_device *dev;
    const struct gr_model_input *in;
    const struct gr_tap_sink *taps;
    const struct gr_kernels *kernels; /* the served set or the reference */
    bool stop[2];                     /* see gr_cpu_stop */
    bool cancelled;                   /* all threads left early */
    double stage_ms[CPU_STAGES];      /* when each stage was done */
};
struct cpu_thread {
    struct cpu_run *run;
    struct gr_device *dev;
    int id, n;
    unsigned layer;      /* calls of gr_cpu_stop so far */
    struct gr_acts acts; /* what the last cpu_pack wrote */
};

/* Rows or items of this thread: [*first, *end). */
void gr_cpu_share(const struct cpu_thread *t, int items, int *first, int *end);
void gr_cpu_barrier(const struct cpu_thread *t);
/* Called by all threads at the start of every layer, with a barrier between two calls: true when the predict was cancelled, for all of them
 * at the same layer. */
bool gr_cpu_stop(struct cpu_thread *t);
/* The steps below work on contiguous rows: a row of x is k floats, a row of out as many as the product has columns. Each ends
 * with a barrier. */
/* Packs m rows of width k (after norm, gathered by index when not NULL) into the scratch. */
void gr_cpu_pack(struct cpu_thread *t, const float *x, const int32_t *index, int m, int k,
                 const struct gr_row_norm *norm);
/* Product of the packed rows with w. bias NULL: the matrix's own. */
void gr_cpu_gemm(const struct cpu_thread *t, const struct gr_mat *w, const float *bias, enum gr_epilogue e, float *out);
/* Both: out = epilogue(norm(x) w + bias) for m rows. norm NULL: none. */
void gr_cpu_linear(struct cpu_thread *t, const float *x, int m, const struct gr_row_norm *norm, const struct gr_mat *w,
                   enum gr_epilogue e, float *out);
/* Hands a tap out when somebody listens. */
void gr_cpu_tap(const struct cpu_thread *t, const float *data, int rows, int cols, int ld, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* All heads of `groups` equal blocks of rows (images). Barrier. */
struct cpu_heads {
    const float *q, *k, *v;
    int ldq, ldk, ldv;
    float *o;
    int ldo;
    int heads, share;    /* query heads per key/value head */
    int groups, m, s, d; /* per group: m query rows, s keys, head width d */
    bool causal;
};
void gr_cpu_attention(const struct cpu_thread *t, const struct cpu_heads *h);

/* The stages; false: cancelled on the way. */
bool gr_cpu_vision(struct cpu_thread *t);  /* pixels -> s.features [images * tokens, llm.hidden] */
bool gr_cpu_llm(struct cpu_thread *t);     /* ids, s.features -> s.x [S, llm.hidden], final norm applied */
bool gr_cpu_adapter(struct cpu_thread *t); /* s.x -> s.vl, cross keys/values, state features */
bool gr_cpu_denoise(struct cpu_thread *t); /* noise -> s.action */

#endif
