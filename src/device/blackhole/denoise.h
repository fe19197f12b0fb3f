/* SPDX-License-Identifier: Apache-2.0
 *
 * denoise.h: the action head as one program: state encoder, keys and values of the cross blocks, four Euler steps of action encoder, 32 blocks,
 * decoder and update (spec/model.md 7). */
#ifndef GR_BLACKHOLE_DENOISE_H
#define GR_BLACKHOLE_DENOISE_H

#include "device/blackhole/bh_build.h"
#include "model/weights.h"

/* Matrices, modulation vectors and position rows of one checkpoint and embodiment slot, with what is computed once: time embeddings, AdaLN
 * scale and shift of every block and step, the constant half of the action encoder. */
struct gr_bh_denoise_weights;
enum gr_status gr_bh_denoise_weights_new(const struct gr_weights *w, int slot, struct gr_bh_denoise_weights **out,
                                         struct gr_err *err);
void gr_bh_denoise_weights_free(struct gr_bh_denoise_weights *w); /* NULL is allowed */
/* Time embedding of a step, [width]: the value of the tap dit.temb.step<k>, which no program computes. */
const float *gr_bh_denoise_temb(const struct gr_bh_denoise_weights *w, int step);

/* Emits operations that write vl.mt row tiles of the text's or the image's rows, from row tile `first` on, to every tile; with a barrier. */
typedef void (*gr_bh_vl_fn)(void *user, bool text, int first, struct gr_bh_buf vl);

struct gr_bh_denoise {
    const struct gr_bh_denoise_weights *w;
    int text_rows, image_rows; /* most rows of vl that blocks see: S - image tokens, image tokens */
    int first_block, blocks;   /* a part of the blocks, for tests; blocks 0: all */
    int steps;                 /* the first so many Euler steps */
    gr_bh_vl_fn vl;            /* rows of vl are computed; NULL: they are inputs */
    void *vl_user;
    struct gr_bh_buf watch; /* of the last norm of a step (layers.h); none is allowed */
    bool
        narrow; /* takes less L1 and more time: two row tiles of computed vl at once, half as many hidden columns of the MLP */
};
/* Emits it, for a build with nothing else before it. Inputs, written before every request: "noise" [horizon, max_action], "state" [1, max_state],
 * "vl_text" [text_rows, llm hidden], "vl_image" [image_rows, llm hidden] (rows of vlln.out, gathered; zeros behind the last one), "text_mask"
 * and "image_mask" [1, rows padded to 32] (0 visible, -1e4 not). Output: "action_pred" [horizon, max_action]. Taps by the names of spec/README.md:
 * state_features, action_features.step<k>, dit.block<i>.step<k>, dit.out.step<k>, velocity.step<k>.
 * The group has as many tiles as the width or the actions have column tiles, or more; those behind take part in barriers only. */
void gr_bh_emit_denoise(struct gr_bh_build *b, const struct gr_bh_denoise *d);

/* The same as a part of a program. First its inputs get their place in L1, at its top; then, with everything else released, what it needs while
 * it runs, which overlays what is placed there later by others: what is written before the last rows of vl are there lies below address
 * `below`, as what lies above is needed for them. Its operations come last. */
struct gr_bh_denoise_plan;
struct gr_bh_denoise_plan *gr_bh_denoise_plan_new(struct gr_bh_build *b,
                                                  const struct gr_bh_denoise *d); /* NULL: b failed */
void gr_bh_denoise_place(struct gr_bh_denoise_plan *p, uint32_t below);
void gr_bh_denoise_emit(struct gr_bh_denoise_plan *p);
void gr_bh_denoise_plan_free(struct gr_bh_denoise_plan *p); /* NULL is allowed */

#endif
