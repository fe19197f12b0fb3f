/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.h: dimensions of a GR00T N1.6 network and the constants its files do not carry.
 *
 * Dimension letters used in all comments: P patches of one image, T tokens (rows), S sequence length,
 * D model width, H heads, Hk key/value heads, Dh head width, F feed-forward width, A action width. */
#ifndef GR_MODEL_SPEC_H
#define GR_MODEL_SPEC_H

/* Published constants of the backbone (spec/model.md 2, from the model code of Isaac-GR00T N1.6, SigLIP2 and Qwen3-1.7B);
 * config.json says nothing about them unless it has the key eagle_config. */
#define GR_VIT_EPS 1e-6f       /* SigLIP2 LayerNorm */
#define GR_CONNECTOR_EPS 1e-5f /* mlp1.0 LayerNorm */
#define GR_LLM_EPS 1e-6f       /* Qwen3 RMSNorm */
#define GR_ROPE_THETA 1e6f
#define GR_VLLN_EPS 1e-5f
#define GR_DIT_EPS 1e-5f       /* norm1, norm3 */
#define GR_DIT_OUT_EPS 1e-6f   /* before proj_out_2 */
#define GR_TIME_PERIOD 10000.0 /* sinusoidal time embeddings */
enum {
    GR_PATCH = 14,
    GR_VIT_HEADS = 16,
    GR_UNSHUFFLE = 2,        /* connector: 2x2 patches to one token */
    GR_MAX_POSITIONS = 40960 /* Qwen3-1.7B max_position_embeddings */
};

/* Shapes of one checkpoint, from config.json and the tensor shapes. */
struct gr_dims {
    struct {
        int hidden, mlp, layers, heads; /* 1152, 4304, 27, 16 */
        int table_side;                 /* position table is table_side^2 rows: 16 */
        int image_side, grid;           /* 252, 18: patches per side */
        int patches;                    /* grid^2 = 324 */
        int tokens;                     /* image tokens after the unshuffle: 81 */
    } vit;
    struct {
        int hidden, mlp, layers, heads, kv_heads, head_dim, vocab; /* 2048, 6144, 16, 16, 8, 128, 151680 */
    } llm;
    struct {
        int layers, heads, head_dim, width; /* 32, 32, 48, 1536 = heads * head_dim */
        int mlp;                            /* 6144 = 4 * width */
        int out;                            /* output_dim 1024 */
        int hidden;                         /* hidden_size 1024 of state encoder and decoder */
        int max_state, max_action, horizon; /* 128, 128, 50 */
        int slots;                          /* max_num_embodiments 32 */
        int max_seq;                        /* rows of the position table 1024 */
        int steps, time_buckets;            /* 4 Euler steps, 1000 */
        int text_every;                     /* attend_text_every_n_blocks 2 */
        int time_channels;                  /* 256 */
    } dit;
};

#endif
