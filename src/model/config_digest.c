/* SPDX-License-Identifier: Apache-2.0
 *
 * config_digest.c: identifies what a snapshot's side files say about an embodiment, as far as it changes actions. */
#include <stdint.h>
#include <string.h>

#include "model/config.h"

static void add_table(struct gr_digest *d, const double *table, size_t n)
{
    const unsigned char have = table != NULL;
    gr_digest_add(d, &have, 1);
    gr_digest_add(d, table, have ? n * sizeof *table : 0);
}

static void add_group(struct gr_digest *d, const struct gr_group_config *g, int steps)
{
    const int32_t numbers[] = {g->dim, (int32_t)g->mode, g->relative, g->state_index, g->state_offset, g->per_step};
    const size_t n = (size_t)g->dim * (size_t)(g->per_step ? steps : 1);
    gr_digest_add(d, g->name, strlen(g->name) + 1);
    gr_digest_add(d, numbers, sizeof numbers);
    add_table(d, g->lo, n);
    add_table(d, g->hi, n);
    add_table(d, g->mean, n);
    add_table(d, g->std, n);
}

enum gr_status gr_config_digest(const struct gr_config *c, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err)
{
    const struct gr_embodiment *e = &c->emb;
    const int32_t numbers[] = {e->slot,
                               e->n_cameras,
                               e->frames_per_camera,
                               e->n_state,
                               e->n_action,
                               e->action_steps,
                               c->shortest_image_edge,
                               c->formalize_language,
                               c->use_percentiles,
                               c->clip_outliers,
                               c->apply_sincos_state_encoding,
                               c->use_relative_action};
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, numbers, sizeof numbers);
    gr_digest_add(d, &c->crop_fraction, sizeof c->crop_fraction);
    for (int i = 0; i < e->n_state + e->n_action; i++) {
        add_group(d, i < e->n_state ? &e->state[i] : &e->action[i - e->n_state], e->action_steps);
    }
    return gr_digest_end(d, hex, err);
}
