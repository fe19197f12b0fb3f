/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_inventory.h: the tensors of a synthetic snapshot: names, shapes, spread of the values, the few elements that are
 * overwritten, and which channels an outlier moves between (docs/SYNTHETIC.md). No values are made here. */
#ifndef GR_MODEL_SYNTH_INVENTORY_H
#define GR_MODEL_SYNTH_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/synth.h"

/* Dimensions of one kind of snapshot. */
struct gr_synth_config {
    const char *word; /* "demo", "tiny", "full" */
    struct {
        int hidden, mlp, layers, heads, patch, channels, positions;
    } vit;
    struct {
        int hidden, mlp, layers, heads, kv_heads, head_dim, vocab;
        bool lm_head;
        int template_ids[2]; /* <|im_start|> and <|im_end|> of the vocabulary the snapshot is used with */
    } llm;
    struct {
        int layers, heads, head_dim, out, hidden, in_emb, max_state, max_action, horizon, slots, max_seq, steps,
            text_every, time_channels;
    } head;
    uint64_t shard_limit; /* tensor bytes of a shard */
};

const struct gr_synth_config *gr_synth_config_of(enum gr_synth_kind kind);

/* Channels of the activation between a producer and its consumers, for the outlier family. */
struct gr_synth_channels {
    uint64_t name_hash;  /* FNV-1a of the first consumer's name; the draws come from it */
    int count;           /* 0: none */
    int head_dim, share; /* attention values: `share` query heads read one value head; else share is 1 */
};

/* Elements (row0 + i, col0 + i), i < count, of every slot are set to value. */
struct gr_synth_diagonal {
    int row0, col0;
    double value;
};

enum gr_synth_boost { GR_SYNTH_BOOST_NONE, GR_SYNTH_BOOST_POSITIONS, GR_SYNTH_BOOST_TEMPLATE };
enum { GR_SYNTH_NAME_BYTES = 96 };

struct gr_synth_tensor {
    char name[GR_SYNTH_NAME_BYTES];
    int ndim;
    int64_t shape[3];
    uint64_t elements;
    double center, half; /* uniform in center - half .. center + half */
    int n_diagonals, diagonal_count;
    struct gr_synth_diagonal diagonals[2];
    struct gr_synth_channels rows, cols; /* written by this tensor's rows, read by its columns */
    enum gr_synth_boost boost;
};

struct gr_synth_inventory {
    const struct gr_synth_config *config;
    struct gr_synth_tensor *tensors; /* module order: it decides the shard split */
    size_t count, capacity;
    uint64_t bytes; /* of all tensors, BF16 */
    bool failed;    /* out of memory or a name too long: seen once at the end */
};

/* Free with gr_synth_inventory_free, also after a failure. */
enum gr_status gr_synth_inventory_make(const struct gr_synth_config *config, struct gr_synth_inventory *out,
                                       struct gr_err *err);
void gr_synth_inventory_free(struct gr_synth_inventory *inv);
const struct gr_synth_tensor *gr_synth_inventory_find(const struct gr_synth_inventory *inv, const char *name);

/* 64-bit FNV-1a of a name. */
uint64_t gr_synth_hash(const char *name);

#endif
