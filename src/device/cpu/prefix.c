/* SPDX-License-Identifier: Apache-2.0
 *
 * prefix.c: the entries of the prefix cache: memory, look-up, ageing. */
#include "device/cpu/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu_device.h"

static size_t llm_floats(const struct gr_device *dev)
{
    return (size_t)dev->cfg.max_tokens * 2 * (size_t)dev->dims.llm.kv_heads * (size_t)dev->dims.llm.head_dim;
}

static size_t text_floats(const struct gr_device *dev)
{
    return (size_t)dev->cfg.max_tokens * 2 * (size_t)dev->dims.dit.width;
}

/* Blocks 0, 2 text_every, 4 text_every ... see the text. */
static size_t text_blocks(const struct gr_device *dev)
{
    const int every = 2 * dev->dims.dit.text_every;
    return (size_t)((dev->dims.dit.layers + every - 1) / every);
}

enum gr_status gr_prefix_init(struct gr_device *dev, struct gr_err *err)
{
    const size_t each =
        ((size_t)dev->dims.llm.layers * llm_floats(dev) + text_blocks(dev) * text_floats(dev)) * sizeof(float);
    const size_t fit = ((size_t)GR_PREFIX_MB << 20) / each;
    dev->prefixes.n = fit < 1 ? 1 : fit < GR_PREFIXES ? (int)fit : GR_PREFIXES;
    for (int i = 0; i < dev->prefixes.n; i++) {
        struct cpu_prefix *e = &dev->prefixes.entry[i];
        e->ids = calloc((size_t)dev->cfg.max_tokens, sizeof *e->ids);
        if (e->ids == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %d token numbers", dev->cfg.max_tokens);
        }
        GR_TRY(gr_cpu_floats(dev, (size_t)dev->dims.llm.layers, llm_floats(dev), "language keys and values", &e->llm_kv,
                             err));
        GR_TRY(gr_cpu_floats(dev, text_blocks(dev), text_floats(dev), "text keys and values", &e->text_kv, err));
    }
    return GR_OK;
}

void gr_prefix_free(struct gr_device *dev)
{
    for (int i = 0; i < GR_PREFIXES; i++) {
        free(dev->prefixes.entry[i].ids);
    }
}

static bool holds(const struct cpu_prefix *e, const int32_t *ids, int n)
{
    return e->n == n && memcmp(e->ids, ids, (size_t)n * sizeof *ids) == 0;
}

struct cpu_prefix *gr_prefix_take(struct gr_device *dev, const int32_t *ids, int n, bool fresh, int *rows)
{
    struct cpu_prefixes *all = &dev->prefixes;
    struct cpu_prefix *oldest = &all->entry[0], *found = NULL;
    for (int i = 0; i < all->n; i++) {
        struct cpu_prefix *e = &all->entry[i];
        oldest = e->used < oldest->used ? e : oldest;
        found = holds(e, ids, n) ? e : found;
    }
    struct cpu_prefix *e = found != NULL ? found : oldest;
    if (found == NULL || fresh) {
        e->n = 0;
    }
    e->used = ++all->clock;
    *rows = e->n;
    return e;
}

void gr_prefix_keep(struct cpu_prefix *entry, const int32_t *ids, int n)
{
    memcpy(entry->ids, ids, (size_t)n * sizeof *ids);
    entry->n = n;
}

void gr_prefix_clear(struct gr_device *dev)
{
    for (int i = 0; i < GR_PREFIXES; i++) {
        dev->prefixes.entry[i].n = 0;
    }
}

float *gr_prefix_llm(const struct gr_device *dev, const struct cpu_prefix *entry, int layer)
{
    return entry->llm_kv + (size_t)layer * llm_floats(dev);
}

float *gr_prefix_text(const struct gr_device *dev, const struct cpu_prefix *entry, int block)
{
    return entry->text_kv + (size_t)block * text_floats(dev);
}
