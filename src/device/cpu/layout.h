/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h: what the packed network consists of: every matrix in the order a predict uses it, every vector, and their places in
 * a store. */
#ifndef GR_CPU_LAYOUT_H
#define GR_CPU_LAYOUT_H

#include "device/cpu/pack.h"
#include "device/cpu/quantise.h"
#include "device/cpu/recipe.h"

struct cpu_entry { /* a matrix */
    char name[GR_PLAN_NAME_BYTES];
    enum cpu_part part;
    int layer, layers; /* of its part */
    struct cpu_matrix *matrix;
    struct gr_mat exact; /* packed without loss; data and bias NULL when only its dims are known */
    struct cpu_pack_job pack;
    enum gr_mat_format format; /* in which it is stored */
    size_t at, bytes;          /* of all parts in the store */
    int calls;                 /* products a predict does with it */
};
struct cpu_vector {
    const struct gr_tensor *t;
    const float **out; /* what points to it */
    float *data;
};
struct cpu_layout {
    struct cpu_entry *entries;
    int n;
    struct cpu_vector *vectors;
    int n_vectors;
    size_t matrices_end; /* in the store; vectors and constants stand behind it */
};

/* Lists everything, makes the tables of layers in dev->net and links each matrix to the following one. Formats are exact. */
enum gr_status gr_layout_make(struct gr_device *dev, const struct gr_weights *w, struct cpu_layout *out,
                              struct gr_err *err);
void gr_layout_free(struct cpu_layout *l);

/* The next parts of a matrix in `format`: data, bias, and what else the format has. */
enum gr_status gr_layout_take(struct gr_store *s, const struct cpu_entry *e, enum gr_mat_format format,
                              struct gr_quant_parts *parts, struct gr_err *err);
/* A fresh, zeroed store of the size the layout needs; every pointer of the network goes into it. What *s held before is freed. */
enum gr_status gr_layout_store(struct gr_device *dev, struct cpu_layout *l, struct gr_store *s, struct gr_err *err);

#endif
