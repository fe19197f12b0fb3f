/* SPDX-License-Identifier: Apache-2.0
 *
 * check_case.h: runs one golden case (folder with obs.json, image, inputs.safetensors, taps_fp32.safetensors, expected.json)
 * through an open policy and compares every stored array. Which of them decide depends on the policy: exact arithmetic is held to
 * bounds of every array; any other promises the actions, and its taps are compared without being judged. */
#ifndef GR_CLI_CHECK_CASE_H
#define GR_CLI_CHECK_CASE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/compare.h"
#include "gr00t.h"
#include "policy/judge.h"

/* Bounds of an fp32 engine against the fp32 reference: two independent fp32 implementations differ by 2e-5 of the largest value. */
#define GR_CHECK_REL_MAX 1e-4
#define GR_CHECK_REL_RMS 2e-5
#define GR_CHECK_ACTION_MAX 1e-4 /* radians */

enum gr_check_kind {
    GR_CHECK_EQUAL,  /* inputs of the network: bit for bit */
    GR_CHECK_TAP,    /* GR_CHECK_REL_MAX and GR_CHECK_REL_RMS */
    GR_CHECK_ACTIONS /* physical actions: GR_CHECK_ACTION_MAX, or gr_check_result.verdict */
};

struct gr_check_row {
    char name[64];
    enum gr_check_kind kind;
    bool arrived, ok;
    bool judged;    /* else its figures are for information: ok when it arrived in its shape */
    int rows, cols; /* as handed out by the engine */
    struct gr_diff diff;
    double load;        /* largest share of a bound that is used up; above 1 is a failure */
    const void *stored; /* borrowed tensor during the run */
};

struct gr_check_group {
    const char *name; /* of the policy */
    int dim;
    struct gr_group_verdict verdict;
};

struct gr_check_result {
    struct gr_check_row *rows; /* [n], owned */
    int n, failed;
    struct gr_check_group *groups; /* [n_groups] of the physical actions, owned */
    int n_groups;
    bool by_actions;                              /* the policy is not exact: verdict decides, taps do not */
    struct gr_verdict verdict;                    /* pcc_slice NaN and no pass: the case has no action_pred */
    int worst;                                    /* index of the array nearest to, or furthest beyond, its bound */
    int n_tokens, n_text, want_tokens, want_text; /* want_*: -1 when expected.json does not say */
    bool ok;
    double ms;
};

/* GR_ERR_INPUT or GR_ERR_IO: the case itself cannot be used. A broken bound is no error: see `ok`. */
enum gr_status gr_check_case(struct gr_policy *policy, const char *case_dir, struct gr_check_result *out,
                             struct gr_err *err);
void gr_check_result_free(struct gr_check_result *result);

#endif
