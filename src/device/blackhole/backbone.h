/* SPDX-License-Identifier: Apache-2.0
 *
 * backbone.h: vision tower, connector, language model and vlln as parts of one program (spec/model.md 4 to 7.1), in this order:
 *
 *     patches -> vision (row groups) -> connector -> rows of the sequence -> language model -> vlln -> rows of vl for the action head
 *
 * Patch rows are ordered so that the 2x2 unshuffle moves nothing: tokens in blocks of 32, and in each block one row tile for each of the four
 * patches of its tokens. A row group has whole blocks. */
#ifndef GR_BLACKHOLE_BACKBONE_H
#define GR_BLACKHOLE_BACKBONE_H

#include "device/blackhole/bh_build.h"
#include "device/blackhole/layers.h"
#include "model/weights.h"

enum { GR_BH_PATCHES = GR_UNSHUFFLE * GR_UNSHUFFLE }; /* of a token */

struct gr_bh_vit_weights {
    struct gr_bh_matrix q, k, v, out, fc1, fc2;
    const float *norm1, *norm2; /* [2, D]: gain - 1, shift */
};
struct gr_bh_llm_weights {
    struct gr_bh_matrix q, k, v, o, gate, up, down;
    const float *norm1, *norm2;   /* [2, D]: gain - 1, zeros */
    const float *q_norm, *k_norm; /* [2, head_tiles * 32] in the order of the columns of a head */
};

/* Matrices as the program sees them, and what depends on the checkpoint alone. The tensors of gr_weights are borrowed. */
struct gr_bh_backbone_weights {
    struct gr_dims d;
    enum gr_bh_format fmt;
    int blocks; /* of 32 tokens */
    int rows;   /* row tiles of the language model */
    int head_tiles; /* column tiles of a head of the language model: heads are padded to whole tiles, and element i of the first half stands
                       16 columns before element i of the second, so that the rotation stays inside a tile */
    struct gr_bh_matrix patch, connector1, connector2;
    struct gr_bh_vit_weights *vit;
    struct gr_bh_llm_weights *llm;
    const float *vit_post;       /* [2, D] */
    const float *connector_norm; /* [2, 4, D]: of the four parts of a row */
    const float *llm_norm, *vlln;
    const float *positions;     /* [128 blocks, D] in the order of the rows */
    const float *cosine, *sine; /* [32 rows, 32 head_tiles] in the order of the columns */
    int *patch_row;             /* [patches] row of each in raster order */
    /* owned */
    float *values;
    int *maps;
};
/* tokens: longest sequence; fmt of the matrices, 0: the arena's. */
enum gr_status gr_bh_backbone_weights_new(const struct gr_weights *w, int tokens, enum gr_bh_format fmt,
                                          struct gr_bh_backbone_weights **out, struct gr_err *err);
void gr_bh_backbone_weights_free(struct gr_bh_backbone_weights *w); /* NULL is allowed */

/* Buffers of the connector. */
struct gr_bh_connector {
    struct gr_bh_buf h, sum, hidden, scratch;
};

/* The plan: buffers that several parts know. */
struct gr_bh_backbone {
    struct gr_bh_build *b;
    const struct gr_bh_backbone_weights *w;
    int groups;    /* row groups of the vision tower: 1, or `blocks` */
    int mlp_parts; /* the hidden columns of the language model in so many parts, at least as many as the tiles ask for */
    int row_parts; /* the rows of the language model in so many parts, one after the other, which divide w->rows: weights are read for each */
    int text_rows, image_rows, tokens;
    struct gr_bh_tiles t;     /* stage: all tiles */
    struct gr_bh_buf vl_rows; /* input [text and image row tiles, rows]: which row of the sequence goes where */
    struct gr_bh_buf x;       /* rows of the sequence, own columns fp32 */
    struct gr_bh_buf image;   /* own columns fp32 [blocks, 1]: rows of the connector */
    struct gr_bh_buf image_rows_in, token_rows; /* inputs: where image rows go in the sequence; rows of the others */
    struct gr_bh_connector connector;
    struct gr_bh_buf watch; /* of the last norms of vision and language model (layers.h) */
    uint32_t kept;          /* L1: what is below this address may be overlaid behind the language model */
    uint32_t free;          /* L1: the action head uses nothing below this address */
    uint32_t used[3];       /* L1 bytes of buffers of vision, connector, language model */
};

/* Row groups that the tiles allow. */
int gr_bh_backbone_groups(const struct gr_bh_backbone_weights *w, int tiles);
/* Bytes above `kept`, for gr_bh_denoise_place: what rows of vl are made of. */
uint32_t gr_bh_backbone_kept(const struct gr_bh_backbone *p);
/* Buffers and inputs: "image_rows" [32 rows, 32 blocks], "vl_rows" [32 (text + image row tiles), 32 rows], both 0/1. The vision tower adds "patches"
 * [patches, 588] (pixels times 255) and "token_rows" [32 rows, D], each on one tile of its columns, where the action head uses nothing: they
 * may be written for the next request when it begins, or before. */
void gr_bh_backbone_place(struct gr_bh_backbone *p);
/* Emits everything but rows of vl. Taps: vit.embed, vit.layer<i>, vit.out, mlp1.out, llm.input,
 * llm.layer<i>, llm.out, vlln.out; of the language model for all rows of the layout. */
void gr_bh_emit_backbone(struct gr_bh_backbone *p);
/* Row tiles of vl from `first` of the text's or the image's on to vl on every tile. */
void gr_bh_emit_vl(struct gr_bh_backbone *p, bool text, int first, struct gr_bh_buf vl);

/* Parts of it. */
void gr_bh_emit_vision(struct gr_bh_backbone *p); /* and connector: the rows in p->image */
/* Sets connector and used[1]. */
void gr_bh_connector_place(struct gr_bh_backbone *p, const struct gr_bh_tiles *groups, int group_rows);
void gr_bh_emit_connector(struct gr_bh_backbone *p, const struct gr_bh_tiles *groups, struct gr_bh_buf x,
                          struct gr_bh_buf stats);
void gr_bh_emit_llm(struct gr_bh_backbone *p);

/* What row groups read alike has a stream of its own, in which only what a step of the action head reads once comes behind it: so most tiles of a
 * group begin, and end, as those of another do, and share its bytes. */
enum { GR_BH_STREAM_WEIGHTS, GR_BH_STREAM_GROUPS };
void gr_bh_emit_barrier(struct gr_bh_build *b);
/* An operation for every tile of the first `columns` of each group: out = sum of A x B of the caller's segments, mt row tiles. */
struct gr_bh_op *gr_bh_emit_own(struct gr_bh_build *b, const struct gr_bh_tiles *t, int columns, struct gr_bh_buf out);
/* out = function(own), with a barrier: column n of `columns` is on tile n mod tiles of a group, as column n / tiles there. out [mt, columns] on
 * every tile of the group, or with the rows of all groups on all tiles. */
void gr_bh_emit_gather(struct gr_bh_build *b, const struct gr_bh_tiles *t, int columns, struct gr_bh_buf own,
                       enum gr_bh_function function, struct gr_bh_buf out);

#endif
