/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.c: the ladder as a table. */
#include "device/cpu/recipe.h"

#include <string.h>

#include "device/plan.h"

enum { FULL_VISION = 27, FULL_LLM = 16 }; /* layers of the published network */

/* The order is that of measured time. A step between two names adds 16-bit layers to the step before it. */
static const struct gr_recipe ladder[] = {
    {.policy = "fastest", .step = "fastest"},
    {.policy = "mixed", .step = "mixed", .llm = 4, .connector = true, .guard = true},
    {.policy = "mixed", .step = "mixed, llm 8", .llm = 8, .connector = true, .guard = true},
    {.policy = "mixed", .step = "mixed, llm 8, vision 4", .vision = 4, .llm = 8, .connector = true, .guard = true},
    {.policy = "fast", .step = "fast", .llm = FULL_LLM, .connector = true, .kv = true, .guard = true},
    {.policy = "fast",
     .step = "fast, vision 8",
     .vision = 8,
     .llm = FULL_LLM,
     .connector = true,
     .kv = true,
     .guard = true},
    {.policy = "fast",
     .step = "fast, vision 16",
     .vision = 16,
     .llm = FULL_LLM,
     .connector = true,
     .kv = true,
     .guard = true},
    {.policy = "balanced",
     .step = "balanced",
     .vision = FULL_VISION,
     .llm = FULL_LLM,
     .connector = true,
     .kv = true,
     .guard = true},
    {.policy = "high",
     .step = "high",
     .vision = FULL_VISION,
     .llm = FULL_LLM,
     .connector = true,
     .kv = true,
     .dit = true},
    {.policy = "exact", .step = "exact", .exact = true},
};

_Static_assert(sizeof ladder / sizeof ladder[0] <= GR_PLAN_TRIES_MAX, "a plan has room for all tries");

const struct gr_recipe *gr_recipe_ladder(void) { return ladder; }

const struct gr_recipe *gr_recipe_find(const char *policy)
{
    for (size_t i = 0; i < sizeof ladder / sizeof ladder[0]; i++) {
        if (strcmp(policy, ladder[i].policy) == 0) {
            return &ladder[i];
        }
    }
    return NULL;
}

/* Layer of a network with `layers` of them lies within the first `prefix` of `full`. */
static bool within(int layer, int layers, int prefix, int full) { return layer * full < prefix * layers; }

enum gr_mat_format gr_recipe_format(const struct gr_recipe *r, enum gr_mat_format half, enum cpu_part part, int layer,
                                    int layers)
{
    bool wide = false;
    switch (part) {
    case CPU_PART_PATCH: /* fractions of a per cent of the time, and everything passes through them */
    case CPU_PART_CODEC:
        wide = true;
        break;
    case CPU_PART_VISION:
        wide = within(layer, layers, r->vision, FULL_VISION);
        break;
    case CPU_PART_CONNECTOR:
        wide = r->connector;
        break;
    case CPU_PART_LLM:
        wide = within(layer, layers, r->llm, FULL_LLM);
        break;
    case CPU_PART_KV:
        wide = r->kv;
        break;
    case CPU_PART_DIT:
        wide = r->dit;
        break;
    }
    return wide ? half : GR_MAT_I8;
}

enum gr_mat_format gr_recipe_half(const double *gops)
{
    static const enum gr_mat_format order[] = {GR_MAT_F16, GR_MAT_BF16P, GR_MAT_I16};
    static const double clearly = 1.25;
    enum gr_mat_format best = order[0];
    for (int i = 1; i < 3; i++) {
        best = gops[order[i]] > clearly * gops[best] ? order[i] : best;
    }
    return best;
}
