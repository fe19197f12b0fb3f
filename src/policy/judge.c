/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c: see judge.h. What a reader would get wrong: a nearly constant group has a meaningless correlation, so that a group also
 * passes when no value is off by more than a hundredth of the group's recorded range. */
#include "policy/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/actions.h"
#include "policy/observation.h"

#define NORMALIZED_RANGE 2.0 /* -1..1 */

/* Largest minus smallest recorded value of the group; 0: unknown. */
static double range_of(const struct gr_group_config *g, int steps)
{
    if (g->lo == NULL || g->hi == NULL) {
        return 0.0;
    }
    double lo = g->lo[0], hi = g->hi[0];
    for (int i = 1; i < g->dim * (g->per_step ? steps : 1); i++) {
        lo = fmin(lo, g->lo[i]);
        hi = fmax(hi, g->hi[i]);
    }
    return hi > lo ? hi - lo : 0.0;
}

void gr_judge_group(const struct gr_config *c, int g, const float *exact_actions, const float *actions,
                    struct gr_group_verdict *out)
{
    const struct gr_embodiment *e = &c->emb;
    int column = 0;
    for (int i = 0; i < g; i++) {
        column += e->action[i].dim;
    }
    out->diff = gr_compare(actions + column, e->action_dim, exact_actions + column, e->action_dim, e->action_steps,
                           e->action[g].dim);
    out->range = range_of(&e->action[g], e->action_steps);
    out->near = out->diff.max_abs <= GR_JUDGE_GROUP_SHARE * out->range;
    out->pass = out->near || (out->diff.has_pcc && out->diff.pcc >= GR_JUDGE_GROUP_PCC);
}

static bool judge_groups(const struct gr_config *c, const float *exact, const float *actions, struct gr_verdict *out)
{
    const struct gr_embodiment *e = &c->emb;
    bool all = true;
    out->worst_pcc = 1.0;
    for (int g = 0; g < e->n_action; g++) {
        struct gr_group_verdict v;
        gr_judge_group(c, g, exact, actions, &v);
        const double pcc = v.diff.pcc; /* 0 without a correlation */
        all = all && v.pass;
        if ((pcc >= GR_JUDGE_GROUP_PCC || !v.near) && (pcc < out->worst_pcc || out->worst_group[0] == '\0')) {
            out->worst_pcc = pcc;
            snprintf(out->worst_group, sizeof out->worst_group, "%s", e->action[g].name);
        }
    }
    return all;
}

void gr_judge_chunks(const struct gr_config *c, const float *exact_actions, const float *actions, const float *exact,
                     const float *normalized, double pcc_min, struct gr_verdict *out)
{
    const int steps = c->emb.action_steps, dim = c->emb.action_dim, width = c->dims.dit.max_action;
    const struct gr_diff all = gr_compare(actions, dim, exact_actions, dim, steps, dim);
    const struct gr_diff slice = gr_compare(normalized, width, exact, width, steps, dim);
    *out = (struct gr_verdict){
        .pcc = all.has_pcc ? all.pcc : NAN, .pcc_slice = slice.has_pcc ? slice.pcc : NAN, .max_abs = all.max_abs};
    const bool groups = judge_groups(c, exact_actions, actions, out);
    /* Where all of a chunk is constant its groups have been judged by their differences already. */
    const bool whole = !all.has_pcc || all.pcc >= pcc_min;
    const bool part =
        slice.has_pcc ? slice.pcc >= GR_JUDGE_SLICE_PCC : slice.max_abs <= GR_JUDGE_GROUP_SHARE * NORMALIZED_RANGE;
    out->pass = groups && whole && part && isfinite(all.max_abs) && isfinite(slice.max_abs);
}

/* ---- observations ---- */

/* The longest beginning of a built-in instruction that a small layout has room for: words, then characters. */
static enum gr_status fit(struct gr_prompt *prompt, char *instruction, struct gr_prompt_ids *ids, struct gr_err *err)
{
    for (size_t n = strlen(instruction);;) {
        const enum gr_status status = gr_prompt_encode(prompt, instruction, ids, err);
        if (status != GR_ERR_INPUT || n <= 1) {
            return status;
        }
        const char *space = strrchr(instruction, ' ');
        n = space != NULL ? (size_t)(space - instruction) : n - 1;
        instruction[n] = '\0';
    }
}

static enum gr_status add_prompts(struct gr_digest *d, struct gr_prompt *prompt, struct gr_err *err)
{
    for (int i = 0; i < GR_PLAN_OBSERVATIONS; i++) {
        char instruction[GR_SAMPLE_TEXT_BYTES];
        struct gr_prompt_ids ids;
        gr_sample_instruction(i + 1, instruction);
        GR_TRY(fit(prompt, instruction, &ids, err));
        gr_digest_add(d, ids.ids, (size_t)ids.n_tokens * sizeof *ids.ids);
    }
    return GR_OK;
}

enum gr_status gr_judge_digest(const struct gr_encoder *e, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err)
{
    const int32_t edition = GR_SAMPLE_EDITION;
    char config[GR_DIGEST_HEX_BYTES];
    struct gr_digest *d;
    GR_TRY(gr_config_digest(e->config, config, err));
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, &edition, sizeof edition);
    gr_digest_add(d, config, sizeof config);
    const enum gr_status status = add_prompts(d, e->prompt, err);
    const enum gr_status ended = gr_digest_end(d, hex, err);
    return status != GR_OK ? status : ended;
}

static enum gr_status input(void *user, int i, struct gr_model_input *in, struct gr_err *err)
{
    struct gr_judge *j = user;
    if (j->in[i] == NULL) {
        struct gr_sample sample;
        struct gr_encoded *space = NULL;
        GR_TRY(gr_sample_make(j->encoder->config, i + 1, &sample, err));
        enum gr_status status = gr_encoder_space(j->encoder, &space, err);
        if (status == GR_OK) {
            struct gr_prompt_ids ids;
            status = fit(j->encoder->prompt, sample.instruction, &ids, err);
        }
        if (status == GR_OK) {
            status = gr_encoder_run(j->encoder, &sample.obs, space, err);
        }
        gr_sample_free(&sample);
        if (status != GR_OK) {
            gr_encoded_free(space);
            return status;
        }
        j->in[i] = space;
    }
    *in = gr_encoded_input(j->in[i], j->cancel);
    return GR_OK;
}

static void judge(void *user, int i, const float *exact, const float *action, struct gr_verdict *out)
{
    struct gr_judge *j = user;
    const struct gr_config *c = j->encoder->config;
    const size_t n = (size_t)c->emb.action_steps * (size_t)c->emb.action_dim;
    const struct gr_encoded *in = j->in[i];
    struct gr_err why;
    *out = (struct gr_verdict){.pcc = NAN, .pcc_slice = NAN, .max_abs = INFINITY};
    if (j->actions == NULL && (j->actions = malloc(2 * n * sizeof *j->actions)) == NULL) {
        return;
    }
    float *wanted = j->actions, *got = j->actions + n;
    if (in != NULL && gr_actions_decode(c, exact, in->raw_state, in->state_f64, wanted, &why) == GR_OK &&
        gr_actions_decode(c, action, in->raw_state, in->state_f64, got, &why) == GR_OK) {
        gr_judge_chunks(c, wanted, got, exact, action, GR_JUDGE_PCC_CHOICE, out);
    }
}

struct gr_calibration gr_judge_calibration(struct gr_judge *j)
{
    return (struct gr_calibration){.input = input, .judge = judge, .user = j};
}

void gr_judge_free(struct gr_judge *j)
{
    for (int i = 0; i < GR_PLAN_OBSERVATIONS; i++) {
        gr_encoded_free(j->in[i]);
    }
    free(j->actions);
    *j = (struct gr_judge){0};
}
