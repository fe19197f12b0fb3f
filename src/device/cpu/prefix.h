/* SPDX-License-Identifier: Apache-2.0
 *
 * prefix.h: what the language model computed for the text before the image. The model is causal, so those rows depend on the prompt
 * alone: while the instruction stays, their keys and values, and those of the cross blocks that see the text, are taken from the
 * last predict. Rows of a product do not depend on which other rows run (kernels.h), so the chunk has the same bits.
 *
 * An entry holds the keys and values of whole sequences; the rows behind the prefix are overwritten by every predict, so nothing is ever
 * copied. A few entries, least recently used first out: a robot that alternates between tasks keeps all of them. */
#ifndef GR_CPU_PREFIX_H
#define GR_CPU_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { GR_PREFIXES = 4, GR_PREFIX_MB = 512 /* of memory that long prompts may touch; at least one entry */ };

struct gr_device;

struct cpu_prefix {
    int32_t *ids;   /* [max_tokens] tokens of the prefix */
    int n;          /* rows that are valid; 0: none */
    float *llm_kv;  /* [llm.layers, max_tokens, 2 Hk Dh]: keys (rotated), values */
    float *text_kv; /* [cross blocks that see text, max_tokens, 2 D] */
    uint64_t used;  /* clock of last use */
};
struct cpu_prefixes {
    struct cpu_prefix entry[GR_PREFIXES];
    int n;
    uint64_t clock;
};

enum gr_status gr_prefix_init(struct gr_device *dev, struct gr_err *err);
void gr_prefix_free(struct gr_device *dev);
/* The entry to compute with and in *rows how many rows at its front are valid for these ids; without a match the least recently
 * used entry, emptied. n: tokens before the first image; fresh: take nothing from earlier predicts. */
struct cpu_prefix *gr_prefix_take(struct gr_device *dev, const int32_t *ids, int n, bool fresh, int *rows);
/* The rows of a finished predict become valid. */
void gr_prefix_keep(struct cpu_prefix *entry, const int32_t *ids, int n);
/* Forgets everything: other weights or kernels computed it. */
void gr_prefix_clear(struct gr_device *dev);

/* Keys and values of language layer i, [max_tokens, 2 Hk Dh], and of the text block number i, [max_tokens, 2 D]. */
float *gr_prefix_llm(const struct gr_device *dev, const struct cpu_prefix *entry, int layer);
float *gr_prefix_text(const struct gr_device *dev, const struct cpu_prefix *entry, int block);

#endif
