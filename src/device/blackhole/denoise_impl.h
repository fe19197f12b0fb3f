/* SPDX-License-Identifier: Apache-2.0
 *
 * denoise_impl.h: what denoise_weights.c prepares, denoise_place.c gives a place in L1 and denoise.c emits. */
#ifndef GR_BLACKHOLE_DENOISE_IMPL_H
#define GR_BLACKHOLE_DENOISE_IMPL_H

#include "device/blackhole/denoise.h"
#include "device/blackhole/layers.h"

struct gr_bh_block_weights {
    struct gr_bh_matrix q, k, v, out, ff1, ff2;
    bool cross, text; /* keys and values of vl: of its text rows, else of its image rows */
};

struct gr_bh_denoise_weights {
    struct gr_dims d;
    struct gr_tensor position_rows; /* [1, rows, D]: as a layer of slots it multiplies shifted unit rows */
    struct gr_bh_matrix position, state1, state2, action1, action3, proj_out2, decoder1, decoder2;
    struct gr_bh_matrix
        *action2; /* [steps]: upper half of k; the lower half times the waves of the step is in the bias */
    struct gr_bh_block_weights *block; /* [layers] */
    int *out_row;                      /* row map of their output products */
    float *temb;                       /* [steps, D]: time embeddings, for who wants to see them */
    float *action_bias;                /* [steps, D] */
    float *modulation;                 /* [layers + 1, steps, 2, D]: scale, shift; last those before proj_out_2 */
};

static inline const float *gr_bh_denoise_scale(const struct gr_bh_denoise_weights *w, int layer, int step)
{
    return w->modulation + ((size_t)layer * (size_t)w->d.dit.steps + (size_t)step) * 2 * (size_t)w->d.dit.width;
}
static inline const float *gr_bh_denoise_shift(const struct gr_bh_denoise_weights *w, int layer, int step)
{
    return gr_bh_denoise_scale(w, layer, step) + w->d.dit.width;
}

/* Keys and values of the cross blocks of one kind: those of block i of them at i times the stride of a round's share. */
struct gr_bh_cross {
    const char *name, *mask_name;
    int rows, each; /* rows of vl; blocks of this kind in a cycle */
    struct gr_bh_buf vl, mask, k, v;
};

struct gr_bh_denoise_plan {
    struct gr_bh_build *b;
    struct gr_bh_denoise cfg;
    const struct gr_bh_denoise_weights *w;
    struct gr_bh_tiles t;
    struct gr_bh_heads heads;
    int rows, mt, columns;         /* of x: tokens, row tiles, column tiles */
    int hidden_columns;            /* of the MLP at a time */
    int first, cycle, rounds;      /* blocks first + round * cycle + 0..cycle-1 */
    struct gr_bh_buf row0;         /* bias rows of the state: row 0 */
    struct gr_bh_buf biased, kept; /* [mt, 1]: ones in column 0 of the action rows; in all columns of them */
    struct gr_bh_buf unit;         /* [mt, horizon]: row r is unit vector r - 1 */
    struct gr_bh_buf self_mask;    /* [1, mt] */
    struct gr_bh_buf x, base,
        part; /* own columns fp32: the rows; state and positions, equal in all steps; what is added */
    struct gr_bh_buf action, actions; /* own columns fp32; gathered, clean */
    struct gr_bh_buf state, stats;
    struct gr_bh_cross text, image;
    /* overlaid */
    struct gr_bh_buf state_hidden, h, ff[2], scratch, q, k, v, out, features, y, hidden;
    struct gr_bh_attention_scratch attention;
};

static inline bool gr_bh_cross_used(const struct gr_bh_cross *c) { return c->each > 0; }

/* denoise_place.c: buffers of the host's inputs; what the buffers hold that are written once a request. */
void gr_bh_denoise_inputs(struct gr_bh_denoise_plan *p);
void gr_bh_denoise_constants(struct gr_bh_denoise_plan *p);

#endif
