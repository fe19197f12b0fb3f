/* SPDX-License-Identifier: Apache-2.0
 *
 * denoise_place.c: where the buffers of the action head lie in L1, and what those hold that operations write once a request.
 *
 * What is overlaid comes first, then what lives as long as a request. Text and image rows are dead once keys and values of the cross blocks exist;
 * attention, norms, the hidden columns of the MLP and the decoder are never needed at the same time. */
#include "device/blackhole/denoise_impl.h"

#define MASKED (-1e4f)
enum { NARROW_ROWS = 2 };

/* ---- constants ---- */

static float row0_value(void *user, int r, int c)
{
    (void)user;
    return r == 0 && c == 0 ? 1.0f : 0.0f;
}
static float kept_value(void *user, int r, int c)
{
    const struct gr_bh_denoise_plan *p = user;
    (void)c;
    return r > 0 && r < p->rows ? 1.0f : 0.0f;
}
static float biased_value(void *user, int r, int c) { return c == 0 ? kept_value(user, r, c) : 0.0f; }
static float unit_value(void *user, int r, int c)
{
    (void)user;
    return r == c + 1 ? 1.0f : 0.0f;
}
static float self_mask_value(void *user, int r, int c)
{
    const struct gr_bh_denoise_plan *p = user;
    return r == 0 && c >= p->rows ? MASKED : 0.0f;
}

/* ---- L1 ---- */

static void input(struct gr_bh_denoise_plan *p, const char *name, struct gr_bh_buf buf, enum gr_bh_place place,
                  int row0, int rows, int cols)
{
    gr_bh_input(p->b,
                (struct gr_bh_io){.name = name, .buf = buf, .place = place, .row0 = row0, .rows = rows, .cols = cols});
}

void gr_bh_denoise_inputs(struct gr_bh_denoise_plan *p)
{
    const struct gr_dims *d = &p->w->d;
    p->row0 = gr_bh_constant(p->b, "row 0", GR_BH_BF16, row0_value, NULL);
    p->action = gr_bh_alloc(p->b, "actions", p->mt, 1, GR_BH_FP32);
    p->state = gr_bh_alloc(p->b, "state", 1, gr_bh_tiles_of(d->dit.max_state), GR_BH_BF16);
    input(p, "noise", p->action, GR_BH_COLUMNS, 1, d->dit.horizon, d->dit.max_action);
    input(p, "state", p->state, GR_BH_EVERYWHERE, 0, 1, d->dit.max_state);
    for (int i = 0; i < 2; i++) {
        struct gr_bh_cross *c = i == 0 ? &p->text : &p->image;
        const int keys = gr_bh_tiles_of(c->rows);
        if (gr_bh_cross_used(c)) {
            c->mask = gr_bh_alloc(p->b, c->mask_name, 1, keys, GR_BH_BF16);
            input(p, c->mask_name, c->mask, GR_BH_EVERYWHERE, 0, 1, 32 * keys);
        }
    }
}

static void keys_values_buffers(struct gr_bh_denoise_plan *p, struct gr_bh_cross *c)
{
    const int keys = gr_bh_tiles_of(c->rows), blocks = c->each * p->rounds;
    if (gr_bh_cross_used(c)) {
        c->k = gr_bh_alloc(p->b, "keys of the cross blocks", keys, blocks * p->heads.span, GR_BH_BF16);
        c->v = gr_bh_alloc(p->b, "values of the cross blocks", keys, blocks * p->heads.span, GR_BH_BF16);
    }
}

static uint32_t lower(const struct gr_bh_denoise_plan *p, uint32_t addr)
{
    const uint32_t mark = gr_bh_l1_mark(p->b);
    return mark < addr ? mark : addr;
}

static void vl_buffer(struct gr_bh_denoise_plan *p, struct gr_bh_cross *c)
{
    const int hidden = p->w->d.llm.hidden, keys = gr_bh_tiles_of(c->rows);
    if (gr_bh_cross_used(c)) {
        const int held = p->cfg.vl != NULL && p->cfg.narrow && keys > NARROW_ROWS ? NARROW_ROWS : keys;
        c->vl = gr_bh_alloc(p->b, c->name, held, gr_bh_tiles_of(hidden), GR_BH_BF16);
        if (p->cfg.vl == NULL) {
            input(p, c->name, c->vl, GR_BH_EVERYWHERE, 0, c->rows, hidden);
        }
    }
}

/* Rows of vl that are computed are held for as long as their keys and values are: those of the image lie where those of the text did. Returns the
 * lowest address. */
static uint32_t vl_buffers(struct gr_bh_denoise_plan *p, uint32_t below)
{
    const uint32_t top = gr_bh_l1_mark(p->b);
    gr_bh_l1_leave(p->b, "what is needed beside rows of vl", below);
    const uint32_t mark = gr_bh_l1_mark(p->b);
    vl_buffer(p, &p->text);
    const uint32_t text = gr_bh_l1_mark(p->b);
    if (p->cfg.vl != NULL) {
        gr_bh_l1_release(p->b, mark);
    }
    vl_buffer(p, &p->image);
    const uint32_t lowest = lower(p, text);
    gr_bh_l1_release(p->b, top);
    return lowest;
}

static void lasting_buffers(struct gr_bh_denoise_plan *p)
{
    const struct gr_dims *d = &p->w->d;
    gr_bh_heads_alloc(p->b, &p->heads);
    p->biased = gr_bh_alloc(p->b, "bias rows", p->mt, 1, GR_BH_BF16);
    p->kept = gr_bh_alloc(p->b, "action rows", p->mt, 1, GR_BH_BF16);
    p->unit = gr_bh_alloc(p->b, "unit rows", p->mt, gr_bh_tiles_of(d->dit.horizon), GR_BH_BF16);
    p->self_mask = gr_bh_alloc(p->b, "self mask", 1, p->mt, GR_BH_BF16);
    p->x = gr_bh_alloc(p->b, "rows", p->mt, 1, GR_BH_FP32);
    p->base = gr_bh_alloc(p->b, "state and positions", p->mt, 1, GR_BH_FP32);
    p->part = gr_bh_alloc(p->b, "action features", p->mt, 1, GR_BH_FP32);
    p->actions = gr_bh_alloc(p->b, "gathered actions", p->mt, gr_bh_tiles_of(d->dit.max_action), GR_BH_BF16);
    p->stats = gr_bh_norm_stats_alloc(p->b, p->mt, p->columns, false);
    keys_values_buffers(p, &p->text);
    keys_values_buffers(p, &p->image);
}

/* What the buffers hold that are written once. */
void gr_bh_denoise_constants(struct gr_bh_denoise_plan *p)
{
    gr_bh_emit_heads(p->b, &p->t, &p->heads);
    gr_bh_emit_fill(p->b, &p->t, "bias rows", p->biased, biased_value, p);
    gr_bh_emit_fill(p->b, &p->t, "action rows", p->kept, kept_value, p);
    gr_bh_emit_fill(p->b, &p->t, "unit rows", p->unit, unit_value, p);
    gr_bh_emit_fill(p->b, &p->t, "self mask", p->self_mask, self_mask_value, p);
    gr_bh_emit_norm_stats(p->b, &p->t, p->stats, p->columns);
}

/* The normalised rows lie where the output does: they are dead when that is sent, and no larger. */
static void attention_buffers(struct gr_bh_denoise_plan *p)
{
    p->out = gr_bh_alloc(p->b, "attention", p->mt, p->heads.heads * p->heads.span, GR_BH_BF16);
    p->scratch = gr_bh_norm_scratch(p->b, p->mt);
    p->q = gr_bh_alloc(p->b, "queries", p->mt, p->heads.span, GR_BH_BF16);
    p->k = gr_bh_alloc(p->b, "keys", p->mt, p->heads.span, GR_BH_BF16);
    p->v = gr_bh_alloc(p->b, "values", p->mt, p->heads.span, GR_BH_BF16);
    int keys = p->mt;
    keys = gr_bh_tiles_of(p->text.rows) > keys ? gr_bh_tiles_of(p->text.rows) : keys;
    keys = gr_bh_tiles_of(p->image.rows) > keys ? gr_bh_tiles_of(p->image.rows) : keys;
    p->attention = gr_bh_attention_scratch_new(p->b, &p->heads, keys);
}

/* Returns the lowest address. */
static uint32_t overlaid_buffers(struct gr_bh_denoise_plan *p)
{
    const struct gr_dims *d = &p->w->d;
    const int hidden = gr_bh_tiles_of(d->dit.hidden);
    const uint32_t top = gr_bh_l1_mark(p->b);
    p->state_hidden = gr_bh_alloc(p->b, "hidden state", 1, hidden, GR_BH_BF16);
    uint32_t lowest = gr_bh_l1_mark(p->b);
    gr_bh_l1_release(p->b, top);
    attention_buffers(p);
    lowest = lower(p, lowest);
    gr_bh_l1_release(p->b, top);
    p->h = gr_bh_alloc(p->b, "normalised rows", p->mt, p->columns, GR_BH_BF16);
    const uint32_t gathered = gr_bh_l1_mark(p->b);
    p->features = gr_bh_alloc(p->b, "hidden action features", p->mt, p->columns, GR_BH_BF16);
    lowest = lower(p, lowest);
    gr_bh_l1_release(p->b, gathered);
    p->ff[0] = gr_bh_alloc(p->b, "hidden columns", p->mt, p->hidden_columns, GR_BH_BF16);
    p->ff[1] = gr_bh_alloc(p->b, "hidden columns", p->mt, p->hidden_columns, GR_BH_BF16);
    lowest = lower(p, lowest);
    gr_bh_l1_release(p->b, gathered);
    p->y = gr_bh_alloc(p->b, "decoder input", p->mt, gr_bh_tiles_of(d->dit.out), GR_BH_BF16);
    p->hidden = gr_bh_alloc(p->b, "decoder hidden", p->mt, hidden, GR_BH_BF16);
    lowest = lower(p, lowest);
    gr_bh_l1_release(p->b, top);
    return lowest;
}

void gr_bh_denoise_place(struct gr_bh_denoise_plan *p, uint32_t below)
{
    const uint32_t mark = gr_bh_l1_mark(p->b);
    const uint32_t vl = vl_buffers(p, below), overlaid = overlaid_buffers(p);
    gr_bh_l1_leave(p->b, "what is overlaid", vl < overlaid ? vl : overlaid);
    lasting_buffers(p);
    gr_bh_l1_release(p->b, mark);
}
