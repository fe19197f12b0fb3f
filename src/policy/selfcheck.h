/* SPDX-License-Identifier: Apache-2.0
 *
 * selfcheck.h: does this process compute what it should? Runs the demo observation and compares with a golden chunk: the shipped one when it
 * belongs to these weights, else one computed by the reference path at the first start and kept in the cache folder. */
#ifndef GR_POLICY_SELFCHECK_H
#define GR_POLICY_SELFCHECK_H

#include <stdbool.h>

#include "base/err.h"
#include "gr00t.h"
#include "policy/demo.h"

enum { GR_WARMUP_RUNS_MAX = 100 };

enum gr_golden_source {
    GR_GOLDEN_SHIPPED, /* part of the program: result of the numpy reference */
    GR_GOLDEN_CACHED,  /* computed by an earlier start on this machine */
    GR_GOLDEN_COMPUTED /* computed just now */
};
const char *gr_golden_source_name(enum gr_golden_source source); /* "shipped", "computed" (also for cached) */

struct gr_group_check { /* one action group against the golden */
    const char *name;
    double pcc, max_abs;
    bool has_pcc; /* false: one side is constant */
};

struct gr_selfcheck {
    enum gr_golden_source source;
    char golden_kernels[16];            /* kernels that computed the golden; "numpy" for the shipped one */
    char golden_note[GR_ERR_MSG_BYTES]; /* why a kept golden was not used or could not be kept; "" for nothing */
    float *golden_actions;              /* [action_steps, action_dim], owned */
    float *golden_normalized;           /* [horizon, max_action_dim], owned */
    float *actions;                     /* what this process computes, [action_steps, action_dim], owned */
    int runs;
    struct gr_timing times[GR_WARMUP_RUNS_MAX]; /* [runs] */
    double pcc_min;                             /* the gate: pcc must not be below it */
    double pcc;                                 /* physical actions against the golden */
    bool has_pcc;
    double max_abs;        /* rad */
    double pcc_slice;      /* normalised chunk, rows and columns that become actions */
    double repeat_max_abs; /* between the runs: 0 */
    int n_groups;
    struct gr_group_check *groups; /* [n_groups], owned */
};

struct gr_selfcheck_config {
    int runs;              /* 1..GR_WARMUP_RUNS_MAX */
    double pcc_min;        /* 0.999 */
    const char *cache_dir; /* NULL: a computed golden is not kept */
    /* Called after each run, k from 1. May be NULL. */
    void (*on_run)(void *user, int k, int runs, double ms);
    void (*on_golden)(void *user, const char *text); /* before a golden is computed, which takes a while. May be NULL */
    void *user;
};

/* GR_ERR_CHECK: PCC below pcc_min or a repeat that is not bit-equal; *out is filled then too. Statuses of gr_policy_predict. Free with
 * gr_selfcheck_free in every case (out zeroed by this call). */
enum gr_status gr_selfcheck_run(struct gr_policy *policy, const struct gr_demo *demo,
                                const struct gr_selfcheck_config *cfg, struct gr_selfcheck *out, struct gr_err *err);
void gr_selfcheck_free(struct gr_selfcheck *check);

#endif
