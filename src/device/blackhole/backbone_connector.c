/* SPDX-License-Identifier: Apache-2.0
 *
 * backbone_connector.c: 2x2 unshuffle, LayerNorm and two products (spec/model.md 5). The four patches of a token are four row tiles of its block,
 * so the unshuffled row is there already: the norm takes its statistics over the four, and the first product takes the rows of its matrix
 * in four parts. GELU is the tanh form, which differs from the exact one by less than 5e-4. */
#include "device/blackhole/backbone.h"

/* sum = unshuffled h W1 + b1 */
static void first_product(struct gr_bh_backbone *p, const struct gr_bh_tiles *groups)
{
    const struct gr_bh_backbone_weights *w = p->w;
    const struct gr_bh_connector *s = &p->connector;
    for (int q = 0; q < GR_BH_PATCHES; q++) {
        struct gr_bh_buf in = s->h; /* row tile q of every block */
        in.addr += (uint32_t)q * in.m_stride;
        in.m_stride *= GR_BH_PATCHES;
        in.mt = s->sum.mt;
        struct gr_bh_linear l = gr_bh_whole(&w->connector1, in, s->sum);
        l.k0 = q * s->h.nt;
        l.k1 = (q + 1) * s->h.nt;
        l.accumulate = q > 0;
        l.stream = GR_BH_STREAM_GROUPS;
        gr_bh_emit_linear(p->b, groups, &l);
    }
}

void gr_bh_connector_place(struct gr_bh_backbone *p, const struct gr_bh_tiles *groups, int group_rows)
{
    const struct gr_bh_backbone_weights *w = p->w;
    struct gr_bh_connector *s = &p->connector;
    const int hidden = gr_bh_tiles_of(w->connector1.n), columns = gr_bh_stage_columns(p->b, groups);
    const uint32_t mark = gr_bh_l1_mark(p->b);
    s->h = gr_bh_alloc(p->b, "normalised image rows", group_rows, gr_bh_tiles_of(w->d.vit.hidden), GR_BH_BF16);
    s->sum = gr_bh_alloc(p->b, "hidden image rows before GELU", group_rows / GR_BH_PATCHES,
                         (hidden + columns - 1) / columns, GR_BH_FP32);
    s->scratch = gr_bh_norm_scratch(p->b, group_rows);
    s->hidden = gr_bh_alloc(p->b, "hidden image rows", w->blocks, hidden, GR_BH_BF16);
    gr_bh_l1_release(p->b, mark);
    p->used[1] = GR_BH_L1_END - gr_bh_l1_lowest(p->b);
}

void gr_bh_emit_connector(struct gr_bh_backbone *p, const struct gr_bh_tiles *groups, struct gr_bh_buf x,
                          struct gr_bh_buf stats)
{
    const struct gr_bh_backbone_weights *w = p->w;
    const int D = w->d.vit.hidden;
    const struct gr_bh_norm n = {.x = x,
                                 .d = GR_BH_PATCHES * D,
                                 .fold = GR_BH_PATCHES,
                                 .eps = GR_CONNECTOR_EPS,
                                 .scale = w->connector_norm,
                                 .shift = w->connector_norm + GR_BH_PATCHES * D,
                                 .stream = GR_BH_STREAM_GROUPS,
                                 .scratch = p->connector.scratch,
                                 .stats = stats,
                                 .out = p->connector.h};
    gr_bh_emit_norm(p->b, groups, &n);
    first_product(p, groups);
    gr_bh_emit_gather(p->b, groups, gr_bh_tiles_of(w->connector1.n), p->connector.sum, GR_BH_GELU, p->connector.hidden);
    const struct gr_bh_linear l = gr_bh_whole(&w->connector2, p->connector.hidden, p->image);
    gr_bh_emit_linear(p->b, &p->t, &l);
    gr_bh_tap(p->b, "mlp1.out", p->image, GR_BH_COLUMNS, 0, w->d.vit.tokens, w->d.llm.hidden);
}
