/* SPDX-License-Identifier: Apache-2.0
 *
 * selfcheck.c: runs the demo observation some times, which also warms everything up, and judges what came out: the same bits each
 * time, and close to the golden. What a reader would get wrong: a golden that is computed here comes from the reference path of the same
 * program, which reads the same packed weights; it finds faults of the fast kernels, not of the snapshot and not what low-precision
 * formats cost: that is measured against exact arithmetic when they are chosen (device/plan.h). The golden of a card is exact, from the CPU. */
#include "policy/selfcheck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compare.h"
#include "base/fs.h"
#include "policy/golden.h"
#include "policy/policy.h"

#define CONSTANT_MAX_ABS 1e-3 /* rad; bound where there is no correlation to judge */

const char *gr_golden_source_name(enum gr_golden_source source)
{
    return source == GR_GOLDEN_SHIPPED ? "shipped" : "computed";
}

/* ---- comparing ---- */

static void compare_all(const struct gr_info *info, const float *actions, const float *normalized,
                        struct gr_selfcheck *out)
{
    const int steps = info->action_steps, dim = info->action_dim;
    const struct gr_diff all = gr_compare(actions, dim, out->golden_actions, dim, steps, dim);
    out->has_pcc = all.has_pcc;
    out->pcc = all.pcc;
    out->max_abs = all.max_abs;
    out->pcc_slice =
        gr_compare(normalized, info->max_action_dim, out->golden_normalized, info->max_action_dim, steps, dim).pcc;
    for (int g = 0, column = 0; g < info->n_action_groups; column += info->action_groups[g].dim, g++) {
        const struct gr_group *group = &info->action_groups[g];
        const struct gr_diff d =
            gr_compare(actions + column, dim, out->golden_actions + column, dim, steps, group->dim);
        out->groups[g] =
            (struct gr_group_check){.name = group->name, .pcc = d.pcc, .max_abs = d.max_abs, .has_pcc = d.has_pcc};
    }
}

/* ---- the runs ---- */

/* Keeps the first run in out->actions and `normalized`; later ones are compared with it bit for bit. */
static enum gr_status run_all(struct gr_policy *policy, const struct gr_demo *demo,
                              const struct gr_selfcheck_config *cfg, struct gr_chunk *chunk, float *normalized,
                              struct gr_selfcheck *out, bool *repeats, struct gr_err *err)
{
    const size_t n_actions = (size_t)chunk->steps * (size_t)chunk->dim;
    const size_t n_normalized = (size_t)chunk->horizon * (size_t)chunk->max_action_dim;
    *repeats = true;
    for (int k = 0; k < cfg->runs; k++) {
        double start = gr_clock_ms();
        const enum gr_status status = gr_policy_predict(policy, &demo->obs, chunk, err);
        const bool card = gr_policy_info(policy)->card != NULL; /* a card may fail by itself */
        if (status == GR_ERR_DEVICE && k == 0 &&
            !card) { /* inputs and device are known to be good: starting again will not help */
            const struct gr_err why = *err;
            return gr_fail(err, GR_ERR_FORMAT, "%.300s; the checkpoint's weights hold NaN or overflow single precision",
                           why.msg);
        }
        GR_TRY(status);
        out->times[k] = chunk->timing;
        out->runs = k + 1;
        if (k == 0) {
            memcpy(out->actions, chunk->actions, n_actions * sizeof(float));
            memcpy(normalized, chunk->normalized, n_normalized * sizeof(float));
        }
        *repeats = *repeats && memcmp(out->actions, chunk->actions, n_actions * sizeof(float)) == 0 &&
                   memcmp(normalized, chunk->normalized, n_normalized * sizeof(float)) == 0;
        double apart =
            gr_compare(chunk->actions, chunk->dim, out->actions, chunk->dim, chunk->steps, chunk->dim).max_abs;
        out->repeat_max_abs = fmax(out->repeat_max_abs, apart);
        if (cfg->on_run != NULL) {
            cfg->on_run(cfg->user, k + 1, cfg->runs, gr_clock_ms() - start);
        }
    }
    return GR_OK;
}

/* ---- the golden ---- */

static enum gr_status compute_golden(struct gr_policy *policy, const struct gr_demo *demo,
                                     const struct gr_selfcheck_config *cfg, struct gr_chunk *chunk,
                                     struct gr_golden *golden, struct gr_err *err)
{
    const char *kernels = "";
    if (cfg->on_golden != NULL) {
        cfg->on_golden(
            cfg->user,
            gr_policy_info(policy)->card != NULL
                ? "computing a golden chunk with exact arithmetic on the CPU: first start with these weights"
                : "computing a golden chunk on the reference path: first start with these weights and number formats");
    }
    GR_TRY(gr_policy_predict_reference(policy, &demo->obs, chunk, &kernels, err));
    memcpy(golden->actions, chunk->actions, (size_t)chunk->steps * (size_t)chunk->dim * sizeof(float));
    memcpy(golden->normalized, chunk->normalized,
           (size_t)chunk->horizon * (size_t)chunk->max_action_dim * sizeof(float));
    snprintf(golden->kernels, sizeof golden->kernels, "%s", kernels);
    return GR_OK;
}

static enum gr_status find_golden(struct gr_policy *policy, const struct gr_demo *demo,
                                  const struct gr_selfcheck_config *cfg, struct gr_chunk *chunk,
                                  struct gr_golden *golden, struct gr_selfcheck *out, struct gr_err *err)
{
    const struct gr_info *info = gr_policy_info(policy);
    struct gr_golden_key key;
    char path[GR_PATH_BYTES];
    struct gr_err why = {0};
    bool keep = cfg->cache_dir != NULL, found = false;
    GR_TRY(gr_golden_key_make(policy, &demo->obs, chunk->n_tokens, &key, err));
    if (gr_golden_is_shipped(&key, demo)) {
        out->source = GR_GOLDEN_SHIPPED;
        return gr_golden_shipped(info, golden, err);
    }
    if (keep && gr_golden_path(cfg->cache_dir, &key, path, &why) != GR_OK) {
        keep = false;
        snprintf(out->golden_note, sizeof out->golden_note, "%s", why.msg);
    }
    if (keep && gr_golden_load(path, &key, golden, &found, &why) != GR_OK) {
        snprintf(out->golden_note, sizeof out->golden_note, "%.480s; computed again", why.msg);
    }
    out->source = found ? GR_GOLDEN_CACHED : GR_GOLDEN_COMPUTED;
    if (found) {
        return GR_OK;
    }
    GR_TRY(compute_golden(policy, demo, cfg, chunk, golden, err));
    if (keep && gr_golden_store(path, &key, golden, &why) != GR_OK) {
        snprintf(out->golden_note, sizeof out->golden_note, "the golden chunk could not be kept: %.460s", why.msg);
    }
    return GR_OK;
}

/* ---- the verdict ---- */

static enum gr_status judge(const struct gr_selfcheck *c, bool repeats, struct gr_err *err)
{
    const struct gr_group_check *worst = NULL;
    for (int g = 0; g < c->n_groups; g++) {
        worst = worst == NULL || c->groups[g].max_abs > worst->max_abs ? &c->groups[g] : worst;
    }
    if (!repeats) {
        return gr_fail(err, GR_ERR_CHECK,
                       "self-check failed: the same observation gave other bits in %d runs, max|d| %.3g", c->runs,
                       c->repeat_max_abs);
    }
    bool near = c->has_pcc ? c->pcc >= c->pcc_min : c->max_abs <= CONSTANT_MAX_ABS;
    if (near && isfinite(c->max_abs)) {
        return GR_OK;
    }
    return gr_fail(
        err, GR_ERR_CHECK,
        "self-check failed: actions PCC %.9g against the golden chunk (%s, %s), at least %g is wanted; max|d| "
        "%.3g, worst in %.60s",
        c->pcc, gr_golden_source_name(c->source), c->golden_kernels, c->pcc_min, c->max_abs,
        worst != NULL ? worst->name : "none");
}

static enum gr_status check(struct gr_policy *policy, const struct gr_demo *demo, const struct gr_selfcheck_config *cfg,
                            struct gr_chunk *chunk, struct gr_golden *first, struct gr_golden *golden,
                            struct gr_selfcheck *out, struct gr_err *err)
{
    const struct gr_info *info = gr_policy_info(policy);
    bool repeats;
    GR_TRY(gr_golden_new(info, first, err)); /* same shapes: what the first run gives */
    GR_TRY(gr_golden_new(info, golden, err));
    out->actions = first->actions;
    first->actions = NULL;
    out->n_groups = info->n_action_groups;
    out->groups = calloc((size_t)info->n_action_groups + 1, sizeof *out->groups);
    if (out->groups == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the self-check");
    }
    GR_TRY(run_all(policy, demo, cfg, chunk, first->normalized, out, &repeats, err));
    GR_TRY(find_golden(policy, demo, cfg, chunk, golden, out, err));
    memcpy(out->golden_kernels, golden->kernels, sizeof out->golden_kernels);
    out->golden_actions = golden->actions;
    out->golden_normalized = golden->normalized;
    golden->actions = golden->normalized = NULL;
    compare_all(info, out->actions, first->normalized, out);
    out->pcc_min = cfg->pcc_min;
    return judge(out, repeats, err);
}

enum gr_status gr_selfcheck_run(struct gr_policy *policy, const struct gr_demo *demo,
                                const struct gr_selfcheck_config *cfg, struct gr_selfcheck *out, struct gr_err *err)
{
    struct gr_chunk *chunk = NULL;
    struct gr_golden first = {0}, golden = {0};
    memset(out, 0, sizeof *out);
    if (cfg->runs < 1 || cfg->runs > GR_WARMUP_RUNS_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "%d runs of the self-check, expected 1 to %d", cfg->runs, GR_WARMUP_RUNS_MAX);
    }
    enum gr_status status = gr_chunk_new(policy, &chunk, err);
    if (status == GR_OK) {
        status = check(policy, demo, cfg, chunk, &first, &golden, out, err);
    }
    gr_golden_free(&first);
    gr_golden_free(&golden);
    gr_chunk_free(chunk);
    return status;
}

void gr_selfcheck_free(struct gr_selfcheck *check)
{
    free(check->golden_actions);
    free(check->golden_normalized);
    free(check->actions);
    free(check->groups);
    memset(check, 0, sizeof *check);
}
