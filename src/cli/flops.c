/* SPDX-License-Identifier: Apache-2.0
 *
 * flops.c: lists the matrix products and counts the attention products that one predict really computes; norms and activations are left
 * out (below 0.5 %). Two things a reader would get wrong: causal attention counts as a full square, as the published figures
 * do (0.1 % of the total), and the time half of the action encoder's second layer is computed at load, so its products here are
 * half as deep as the checkpoint's tensor. */
#include "cli/flops.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct list {
    struct gr_work *work;
    enum gr_work_stage stage;
    int m, times; /* of the products that are added next */
};

static void add(struct list *l, int n, int k, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void add(struct list *l, int n, int k, const char *fmt, ...)
{
    struct gr_product *p = &l->work->products[l->work->n++];
    va_list ap;
    *p = (struct gr_product){.stage = l->stage, .m = l->m, .n = n, .k = k, .times = l->times};
    va_start(ap, fmt);
    (void)vsnprintf(p->name, sizeof p->name, fmt, ap);
    va_end(ap);
}

/* Scores and weighted sum of all heads: queries x keys x width, twice. */
static void attend(struct list *l, double queries, double keys, double width)
{
    l->work->attention[l->stage] += 2.0 * 2.0 * queries * keys * width * l->times;
}

static void vision(struct list *l, const struct gr_dims *d, int images)
{
    const int D = d->vit.hidden, H = d->llm.hidden;
    *l = (struct list){l->work, GR_WORK_VISION, images * d->vit.patches, 1};
    add(l, D, 3 * GR_PATCH * GR_PATCH, "patch");
    for (int i = 0; i < d->vit.layers; i++) {
        add(l, 3 * D, D, "vit.%d.qkv", i);
        add(l, D, D, "vit.%d.out", i);
        add(l, d->vit.mlp, D, "vit.%d.fc1", i);
        add(l, D, d->vit.mlp, "vit.%d.fc2", i);
        attend(l, l->m, d->vit.patches, D);
    }
    l->m = images * d->vit.tokens;
    add(l, H, GR_UNSHUFFLE * GR_UNSHUFFLE * D, "connector1");
    add(l, H, H, "connector2");
}

static void llm(struct list *l, const struct gr_dims *d, const struct gr_work_size *size)
{
    const int D = d->llm.hidden, Q = d->llm.heads * d->llm.head_dim, KV = d->llm.kv_heads * d->llm.head_dim;
    *l = (struct list){l->work, GR_WORK_LLM, size->n_tokens - size->n_prefix, 1};
    for (int i = 0; i < d->llm.layers; i++) {
        add(l, Q + 2 * KV, D, "llm.%d.qkv", i);
        add(l, D, Q, "llm.%d.o", i);
        add(l, 2 * d->llm.mlp, D, "llm.%d.gate_up", i);
        add(l, D, d->llm.mlp, "llm.%d.down", i);
        attend(l, l->m, size->n_tokens, Q);
    }
}

/* Block b: odd ones attend to themselves, every (2 text_every)-th one to the text rows, the other even ones to the image rows. */
static bool is_text(const struct gr_dims *d, int b) { return b % (2 * d->dit.text_every) == 0; }

/* Keys and values of the cross blocks, once a request, and the state encoder. */
static void adapter(struct list *l, const struct gr_dims *d, const struct gr_work_size *size)
{
    const int image_rows = size->n_images * d->vit.tokens;
    *l = (struct list){l->work, GR_WORK_ADAPTER, 0, 1};
    for (int b = 0; b < d->dit.layers; b += 2) {
        l->m = is_text(d, b) ? size->n_tokens - image_rows - size->n_prefix : image_rows;
        add(l, 2 * d->dit.width, d->llm.hidden, "dit.%d.kv", b);
    }
    l->m = 1;
    add(l, d->dit.hidden, d->dit.max_state, "state1");
    add(l, d->dit.width, d->dit.hidden, "state2");
}

static void denoise(struct list *l, const struct gr_dims *d, const struct gr_work_size *size)
{
    const int A = d->dit.horizon, T = A + 1, D = d->dit.width, image_rows = size->n_images * d->vit.tokens;
    *l = (struct list){l->work, GR_WORK_DENOISE, A, d->dit.steps};
    add(l, D, d->dit.max_action, "action1");
    add(l, D, D, "action2");
    add(l, D, D, "action3");
    l->m = T;
    for (int b = 0; b < d->dit.layers; b++) {
        const bool self = b % 2 == 1;
        add(l, self ? 3 * D : D, D, "dit.%d.q", b);
        add(l, D, D, "dit.%d.out", b);
        add(l, d->dit.mlp, D, "dit.%d.ff1", b);
        add(l, D, d->dit.mlp, "dit.%d.ff2", b);
        attend(l, T, self ? T : is_text(d, b) ? size->n_tokens - image_rows : image_rows, D);
    }
    add(l, d->dit.out, D, "proj_out2");
    l->m = A; /* the state row is not decoded */
    add(l, d->dit.hidden, d->dit.out, "decoder1");
    add(l, d->dit.max_action, d->dit.hidden, "decoder2");
}

enum gr_status gr_work_make(const struct gr_dims *d, const struct gr_work_size *size, struct gr_work *out,
                            struct gr_err *err)
{
    const size_t most = 16 + 4 * (size_t)d->vit.layers + 4 * (size_t)d->llm.layers + 5 * (size_t)d->dit.layers;
    *out = (struct gr_work){.products = calloc(most, sizeof *out->products)};
    if (out->products == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of %zu products", most);
    }
    struct list l = {.work = out};
    vision(&l, d, size->n_images);
    llm(&l, d, size);
    adapter(&l, d, size);
    denoise(&l, d, size);
    return GR_OK;
}

void gr_work_free(struct gr_work *work)
{
    free(work->products);
    *work = (struct gr_work){0};
}

double gr_product_flops(const struct gr_product *p) { return 2.0 * p->m * p->n * (double)p->k * p->times; }

double gr_work_flops(const struct gr_work *work, enum gr_work_stage stage)
{
    double sum = work->attention[stage];
    for (int i = 0; i < work->n; i++) {
        sum += work->products[i].stage == stage ? gr_product_flops(&work->products[i]) : 0.0;
    }
    return sum;
}
