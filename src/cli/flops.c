/* SPDX-License-Identifier: Apache-2.0
 *
 * flops.c: counts the matrix products and attention products of one predict from the dimensions; norms and activations are
 * left out (below 0.5 %). The conventions are those of the published comparison of engines (282.1 / 188.6 / 11.7 / 345.1 GFLOP
 * for S = 116), so that shares can be compared: causal attention counts as a full square and the time half of the action
 * encoder counts in every step, although this engine computes it once at load. Together that is 0.2 % of the total. */
#include "cli/flops.h"

#include <stdbool.h>

/* y[rows, out] = x[rows, in] W^T */
static double product(double rows, double in, double out) { return 2.0 * rows * in * out; }

/* Scores and weighted sum of all heads: queries x keys x width, twice. */
static double attention(double queries, double keys, double width) { return 2.0 * 2.0 * queries * keys * width; }

static double vision_flops(const struct gr_dims *d, double images)
{
    double P = d->vit.patches, D = d->vit.hidden, F = d->vit.mlp, H = d->llm.hidden, tokens = d->vit.tokens;
    double layer = 4.0 * product(P, D, D) + 2.0 * product(P, D, F) + attention(P, P, D); /* q k v out, fc1 fc2 */
    double patch = product(P, 3.0 * GR_PATCH * GR_PATCH, D);
    double unshuffled = GR_UNSHUFFLE * GR_UNSHUFFLE * D;
    double connector = product(tokens, unshuffled, H) + product(tokens, H, H);
    return images * (d->vit.layers * layer + patch + connector);
}

static double llm_flops(const struct gr_dims *d, double S)
{
    double D = d->llm.hidden, Q = d->llm.heads * d->llm.head_dim, KV = d->llm.kv_heads * d->llm.head_dim,
           F = d->llm.mlp;
    double layer = 2.0 * product(S, D, Q) + 2.0 * product(S, D, KV) + 3.0 * product(S, D, F) + attention(S, S, Q);
    return d->llm.layers * layer;
}

/* Block b: odd ones attend to themselves, every (2 text_every)-th one to the text rows, the other even ones to the image rows. */
static double keys_of_block(const struct gr_dims *d, int b, double S, double image_rows)
{
    return b % (2 * d->dit.text_every) == 0 ? S - image_rows : image_rows;
}

/* Keys and values of the cross blocks, once a request, and the state encoder. */
static double adapter_flops(const struct gr_dims *d, double S, double image_rows)
{
    double sum = product(1, d->dit.max_state, d->dit.hidden) + product(1, d->dit.hidden, d->dit.width);
    for (int b = 0; b < d->dit.layers; b += 2) {
        sum += 2.0 * product(keys_of_block(d, b, S, image_rows), d->llm.hidden, d->dit.width);
    }
    return sum;
}

static double denoise_flops(const struct gr_dims *d, double S, double image_rows)
{
    double A = d->dit.horizon, T = A + 1.0, D = d->dit.width, F = d->dit.mlp, step = 0.0;
    for (int b = 0; b < d->dit.layers; b++) {
        bool self = b % 2 == 1;
        step += (self ? 4.0 : 2.0) * product(T, D, D) +
                2.0 * product(T, D, F); /* q out, with k v in self blocks; ff1 ff2 */
        step += attention(T, self ? T : keys_of_block(d, b, S, image_rows), D);
    }
    step += product(A, d->dit.max_action, D) + product(A, 2.0 * D, D) + product(A, D, D); /* action encoder W1 W2 W3 */
    step += product(T, D, d->dit.out) + product(T, d->dit.out, d->dit.hidden) +
            product(T, d->dit.hidden, d->dit.max_action);
    return d->dit.steps * step;
}

struct gr_flops gr_flops_of(const struct gr_dims *d, int n_images, int n_tokens)
{
    double S = n_tokens, image_rows = (double)n_images * d->vit.tokens;
    struct gr_flops f = {.vision = vision_flops(d, n_images),
                         .llm = llm_flops(d, S),
                         .adapter = adapter_flops(d, S, image_rows),
                         .denoise = denoise_flops(d, S, image_rows)};
    f.total = f.vision + f.llm + f.adapter + f.denoise;
    return f;
}
