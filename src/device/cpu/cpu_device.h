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
#include "device/cache.h"
#include "device/cpu/prefix.h"
#include "device/cpu/store.h"
#include "device/device.h"
#include "kernels/kernels.h"

/* ---- packed network; all but the rotary tables points into gr_device.store ---- */

struct cpu_matrix {
    struct gr_mat mat;
    const struct cpu_matrix *next; /* what a predict multiplies with afterwards, so that it can be fetched ahead */
    int id;                        /* place in the layout */
};
struct cpu_vit_layer {
    struct gr_row_norm norm1, norm2;
    struct cpu_matrix qkv, out, fc1, fc2; /* [3D, D], [D, D], [F, D], [D, F] */
};
struct cpu_llm_layer {
    struct gr_row_norm norm1, norm2;
    const float *q_gamma, *k_gamma;          /* [Dh] */
    struct cpu_matrix qkv, o, gate_up, down; /* [(H + 2 Hk) Dh, D], [D, H Dh], [2F, D] interleaved, [D, F] */
};
struct cpu_dit_block {
    struct gr_row_norm *norm1; /* [steps]: gamma = 1 + scale, beta = shift of each Euler step */
    struct cpu_matrix q;       /* cross blocks: [D, D]; self blocks: q, k, v as [3D, D] */
    struct cpu_matrix kv;      /* cross blocks: [2D, llm.hidden] */
    struct cpu_matrix out, ff1, ff2;
    bool cross, text; /* cross: attends to the backbone; text: to its text rows, else image rows */
    float *image_kv;  /* cross blocks that see the image: [image rows, 2D], once a request */
    char *packed;     /* cross blocks, 16-bit attention: packed keys and values of each head, once a request */
};
struct cpu_net {
    struct cpu_matrix patch, connector1, connector2;
    float *vit_pos; /* [P, D], resized to the patch grid */
    struct cpu_vit_layer *vit;
    struct gr_row_norm vit_post, connector_norm, llm_norm, vlln;
    struct cpu_llm_layer *llm;
    float *rope_cos, *rope_sin; /* [max_tokens, Dh / 2] */
    struct cpu_matrix state1, state2, action1, action2, action3, decoder1, decoder2, proj_out2;
    float *action_bias; /* [steps, action_bias_ld]: time half of the action encoder's second layer, with its bias */
    int action_bias_ld; /* columns of the widest panels there are */
    float *action_pos;  /* [horizon, D] */
    float *temb;        /* [steps, D] */
    float *ada;         /* [dit.layers + 1, steps, 2, D]: gamma and beta of each AdaLN; the last is out_norm */
    struct cpu_dit_block *dit;
    struct gr_row_norm *out_norm;  /* [steps]; behind it norm1 of all blocks */
    struct gr_row_norm plain_norm; /* LayerNorm without weights, before the feed-forward */
    struct gr_tensor embed;        /* stays in the snapshot's mapping: a predict reads some hundred rows of it */
    bool attention16;              /* 16-bit attention in vision and action head */
};

/* ---- scratch of one predict, sized at load; pages are touched only as far as a request needs ---- */

struct cpu_scratch {
    float *patches;                   /* [images * P, 588] */
    float *x, *wide, *attn, *ff;      /* residual, q/k/v, attention output, feed-forward; any stage */
    float *features, *vl;             /* [S, llm.hidden]: image tokens, then vlln output */
    float *state, *action, *velocity; /* [D], [horizon, A], [horizon, A] */
    void *pack;                       /* packed activations */
    float *row_scale, *row_zero;      /* of the packed rows */
    int32_t *text_rows, *image_rows;  /* positions in the sequence */
    size_t packed_head;               /* bytes of one head in cpu_dit_block.packed */
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
    struct cpu_prefixes prefixes;
    struct gr_store
        store; /* all that is computed from the weights: matrices in order of use, then vectors and constants */
    size_t weights_bytes; /* of the matrices */
    struct gr_cache cache;
    struct gr_plan plan;
    void *blocks[64]; /* everything else from gr_big_alloc */
    size_t block_bytes[64];
    int n_blocks;
};

/* Zeroed floats that live as long as the device; a * b of them. */
enum gr_status gr_cpu_floats(struct gr_device *dev, size_t a, size_t b, const char *what, float **out,
                             struct gr_err *err);
/* All buffers of a predict; dims are known. */
enum gr_status gr_cpu_scratch(struct gr_device *dev, struct gr_err *err);

/* ---- one predict ---- */

enum { CPU_START, CPU_VISION, CPU_LLM, CPU_ADAPTER, CPU_DENOISE, CPU_STAGES };
struct cpu_capture;
struct cpu_run { /* shared by the threads of one predict */
    struct gr_device *dev;
    const struct gr_model_input *in;
    const struct gr_tap_sink *taps;
    const struct gr_kernels *kernels; /* the served set or the reference */
    struct cpu_capture *capture;      /* records the rows of every product; NULL: does not */
    struct cpu_prefix *prefix;        /* where the language model's keys and values are kept */
    int skip;                         /* rows at the front that need not be computed: prefix has them */
    bool stop[2];                     /* see gr_cpu_stop */
    bool cancelled;                   /* all threads left early */
    double stage_ms[CPU_STAGES];      /* when each stage was done */
};
struct cpu_thread {
    struct cpu_run *run;
    struct gr_device *dev;
    int id, n;
    unsigned layer; /* calls of gr_cpu_stop so far */
};

/* One predict; `run` has kernels, taps and capture set. GR_ERR_INPUT: ids do not fit the device; GR_ERR_BUSY: cancelled. */
enum gr_status gr_cpu_predict(struct gr_device *dev, struct cpu_run *run, const struct gr_model_input *in,
                              float *action, struct gr_err *err);

/* Rows or items of this thread: [*first, *end). */
void gr_cpu_share(const struct cpu_thread *t, int items, int *first, int *end);
void gr_cpu_barrier(const struct cpu_thread *t);
/* Called by all threads at the start of every layer, with a barrier between two calls: true when the predict was cancelled, for all of them
 * at the same layer. */
bool gr_cpu_stop(struct cpu_thread *t);

/* out = epilogue(norm(x) w + bias) for m rows. x and out are contiguous: a row of x is k floats, a row of out as many as the product has
 * columns. Ends with a barrier. */
struct cpu_product {
    const float *x;
    const int32_t *index; /* gather rows of x; NULL: all in order */
    int m;
    const struct gr_row_norm *norm; /* NULL: none */
    const struct cpu_matrix *w;
    const float *bias; /* NULL: the matrix's own */
    enum gr_epilogue epilogue;
    float *out;
};
void gr_cpu_product(struct cpu_thread *t, const struct cpu_product *p);
/* The common case. */
void gr_cpu_linear(struct cpu_thread *t, const float *x, int m, const struct gr_row_norm *norm,
                   const struct cpu_matrix *w, enum gr_epilogue e, float *out);
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
    bool fp32;    /* never in 16 bits */
    char *packed; /* 16-bit keys and values of one group from gr_cpu_attention_pack; NULL: none */
};
void gr_cpu_attention(const struct cpu_thread *t, const struct cpu_heads *h);
/* Attention in vision and action head runs on 16-bit operands. */
bool gr_cpu_attention16(const struct cpu_thread *t);
/* Fills h->packed from h->k and h->v; this thread's share of the heads, no barrier. */
void gr_cpu_attention_pack(const struct cpu_thread *t, const struct cpu_heads *h);

/* The stages; false: cancelled on the way. */
bool gr_cpu_vision(struct cpu_thread *t);  /* pixels -> s.features [images * tokens, llm.hidden] */
bool gr_cpu_llm(struct cpu_thread *t);     /* ids, s.features -> s.x [S - skip, llm.hidden], final norm applied */
bool gr_cpu_adapter(struct cpu_thread *t); /* s.x -> s.vl, cross keys/values, state features */
bool gr_cpu_denoise(struct cpu_thread *t); /* noise -> s.action */

#endif
