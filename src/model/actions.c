/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.c: the network's normalised actions to joint targets, bit for bit as decode_actions of the reference.
 * In: [horizon, max_action] float32, of which [action_steps, action_dim] is used. Out: [action_steps, action_dim] float32.
 * Relative groups come out absolute: per-step tables, then the raw state is added. Never add it again. */
#include "model/actions.h"

#include <math.h>

/* Min/max: clip, shift and halve in float32, scale in double. Mean/std: in double, stored as float32, never clipped. */
static double unnormalize(const struct gr_group_config *g, float x, int table_index)
{
    if (g->mode == GR_NORM_MEAN_STD) {
        double std = g->std[table_index];
        return std == 0.0 ? (double)x : (double)(float)((double)x * std + g->mean[table_index]);
    }
    float clipped = x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
    float unit = (clipped + 1.0f) / 2.0f;
    return (double)unit * (g->hi[table_index] - g->lo[table_index]) + g->lo[table_index];
}

static enum gr_status decode_row(const struct gr_group_config *g, int step, const float *row, const double *state,
                                 bool is_f64, float *out, struct gr_err *err)
{
    for (int i = 0; i < g->dim; i++) {
        if (!isfinite(row[i])) {
            return gr_fail(err, GR_ERR_DEVICE,
                           "action.%.80s[%d] of step %d: the network returned a value that is not finite", g->name, i,
                           step);
        }
        double y = unnormalize(g, row[i], (g->per_step ? step * g->dim : 0) + i);
        if (!isfinite((float)y)) { /* only mean/std can get here: min/max is clipped and its tables are float32 */
            return gr_fail(err, GR_ERR_DEVICE,
                           "action.%.80s[%d] of step %d: the network returned %g, beyond float32 in physical units",
                           g->name, i, step, (double)row[i]);
        }
        if (g->relative) {
            double reference = state[g->state_offset + i];
            y += is_f64 ? reference : (double)(float)reference;
        }
        out[i] = (float)y;
        if (!isfinite(out[i])) { /* a finite offset on a finite state: the state is absurd */
            return gr_fail(err, GR_ERR_INPUT, "state of action.%.80s[%d] is %g: the target is beyond float32", g->name,
                           i, state[g->state_offset + i]);
        }
    }
    return GR_OK;
}

enum gr_status gr_actions_decode(const struct gr_config *cfg, const float *normalized, const double *state, bool is_f64,
                                 float *actions, struct gr_err *err)
{
    const struct gr_embodiment *e = &cfg->emb;
    for (int step = 0; step < e->action_steps; step++) {
        const float *row = normalized + (size_t)step * (size_t)cfg->dims.dit.max_action;
        float *out = actions + (size_t)step * (size_t)e->action_dim;
        for (int k = 0; k < e->n_action; k++) {
            GR_TRY(decode_row(&e->action[k], step, row, state, is_f64, out, err));
            row += e->action[k].dim;
            out += e->action[k].dim;
        }
    }
    return GR_OK;
}
