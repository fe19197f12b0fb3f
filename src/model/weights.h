/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.h: every tensor of the network by role, looked up by its published name and checked for shape and dtype
 * (spec/tensors.tsv). Views into the mapped snapshot: nothing is copied. The tensors of the pooling head, lm_head and
 * layers beyond select_layer are never used and may be absent. */
#ifndef GR_MODEL_WEIGHTS_H
#define GR_MODEL_WEIGHTS_H

#include <stdbool.h>

#include "base/err.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/snapshot.h"

/* y = x W^T + b; w [out, in], b [out] (data NULL: no bias). */
struct gr_linear {
    struct gr_tensor w, b;
};
struct gr_norm {
    struct gr_tensor w, b; /* b.data NULL for RMSNorm */
};
/* Per-embodiment layer: w [slots, in, out], b [slots, out]; y = x w[slot] + b[slot]. */
struct gr_cat_linear {
    struct gr_tensor w, b;
};

struct gr_vit_layer {
    struct gr_norm norm1, norm2;
    struct gr_linear q, k, v, out; /* [D, D] */
    struct gr_linear fc1, fc2;     /* [F, D], [D, F] */
};
struct gr_llm_layer {
    struct gr_norm norm1, norm2;     /* input_layernorm, post_attention_layernorm */
    struct gr_linear q, k, v, o;     /* [H*Dh, D], [Hk*Dh, D], [Hk*Dh, D], [D, H*Dh] */
    struct gr_norm q_norm, k_norm;   /* [Dh] */
    struct gr_linear gate, up, down; /* [F, D], [F, D], [D, F] */
};
struct gr_dit_block {
    struct gr_linear ada;          /* norm1.linear [2D, D]: scale, then shift */
    struct gr_linear q, k, v, out; /* k, v: [D, D] in self blocks, [D, llm.hidden] in cross blocks */
    struct gr_linear ff1, ff2;     /* [4D, D], [D, 4D] */
};

struct gr_weights {
    struct gr_dims dims;      /* config completed from the shapes */
    struct gr_linear patch;   /* [D, 3*14*14], element (py*14+px)*3+c */
    struct gr_tensor vit_pos; /* [table_side^2, D] */
    struct gr_vit_layer *vit; /* [vit.layers] */
    struct gr_norm vit_post;
    struct gr_norm connector_norm; /* [4*D] */
    struct gr_linear connector1, connector2;
    struct gr_tensor embed;   /* [vocab, D] */
    struct gr_llm_layer *llm; /* [llm.layers] */
    struct gr_norm llm_norm;
    struct gr_norm vlln;
    struct gr_cat_linear state1, state2, action1, action2, action3, decoder1, decoder2;
    struct gr_tensor action_pos;           /* [max_seq, in_emb] */
    struct gr_linear time1, time2;         /* timestep_embedder */
    struct gr_dit_block *dit;              /* [dit.layers] */
    struct gr_linear proj_out1, proj_out2; /* proj_out_1: shift, then scale */
    const struct gr_snapshot *snap;
};

/* Called for each tensor that the network needs and the snapshot lacks; `name` is valid during the call. */
typedef void (*gr_missing_fn)(void *user, const char *name);

/* Fills *out from the snapshot. missing may be NULL. Free with gr_weights_free (views die with the snapshot).
 * GR_ERR_FORMAT: a tensor with another dtype or shape (names it, expected and found), or missing ones (their number and the
 * first). When a tensor that settles a width is missing, the others are not looked for. GR_ERR_NOMEM. */
enum gr_status gr_weights_open(const struct gr_snapshot *snap, const struct gr_config *cfg, gr_missing_fn missing,
                               void *user, struct gr_weights **out, struct gr_err *err);
void gr_weights_free(struct gr_weights *w); /* NULL is allowed */
/* True when the network uses the tensor of this name with the given dims: inspect lists the others as unused. */
bool gr_weights_uses(const struct gr_weights *w, const char *name);

#endif
