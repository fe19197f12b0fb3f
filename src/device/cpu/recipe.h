/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h: the ladder of number formats, from fast to exact, and which matrices each step keeps in 16 bits. Measured on synthetic
 * checkpoints: errors made early travel through all later layers, so the first language layers gain most from 16 bits, then
 * the first vision layers; the action head tolerates int8 (docs/PERFORMANCE.md). */
#ifndef GR_CPU_RECIPE_H
#define GR_CPU_RECIPE_H

#include <stdbool.h>

#include "kernels/kernels.h"

enum cpu_part {
    CPU_PART_PATCH, /* patch embed */
    CPU_PART_VISION,
    CPU_PART_CONNECTOR,
    CPU_PART_LLM,
    CPU_PART_KV,    /* keys and values of the cross blocks */
    CPU_PART_CODEC, /* state and action encoder, decoder: small, always 16 bits */
    CPU_PART_DIT
};

struct gr_recipe {
    const char *policy; /* name of the policy it is, or that it extends */
    const char *step;   /* exactly */
    bool exact;
    int vision, llm; /* layers at the front in 16 bits, of 27 and 16; other depths in proportion */
    bool connector, kv, dit;
    bool guard; /* a matrix whose own error stands out goes to 16 bits as well */
};

/* All steps, from the cheapest to exact, which is the last one. */
const struct gr_recipe *gr_recipe_ladder(void);
/* The first step with this policy name; NULL: none. */
const struct gr_recipe *gr_recipe_find(const char *policy);
/* Format of a matrix: I8 or `half`. Not for the exact recipe. */
enum gr_mat_format gr_recipe_format(const struct gr_recipe *r, enum gr_mat_format half, enum cpu_part part, int layer,
                                    int layers);

/* The 16-bit format to use: the fastest of the measured peaks [GR_MAT_FORMATS], with half before bf16 before int16 unless a later one is
 * clearly faster. */
enum gr_mat_format gr_recipe_half(const double *gops);

#endif
