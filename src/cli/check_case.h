/* SPDX-License-Identifier: Apache-2.0
 *
 * check_case.h: runs one golden case (folder with obs.json, image, inputs.safetensors, taps_fp32.safetensors, expected.json)
 * through an open policy and compares every stored array. */
#ifndef GR_CLI_CHECK_CASE_H
#define GR_CLI_CHECK_CASE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/compare.h"
#include "gr00t.h"

/* Bounds of an fp32 engine against the fp32 reference: two independent fp32 implementations differ by 2e-5 of the largest value. */
#define GR_CHECK_REL_MAX 1e-4
#define GR_CHECK_REL_RMS 2e-5
#define GR_CHECK_ACTION_MAX 1e-4 /* radians */

enum gr_check_kind {
    GR_CHECK_EQUAL,  /* inputs of the network: bit for bit */
    GR_CHECK_TAP,    /* GR_CHECK_REL_MAX and GR_CHECK_REL_RMS */
    GR_CHECK_ACTIONS /* physical actions: GR_CHECK_ACTION_MAX */
};

struct gr_check_row {
    char name[64];
    enum gr_check_kind kind;
    bool arrived, ok;
    int rows, cols; /* as handed out by the engine */
    struct gr_diff diff;
    double load;        /* largest share of a bound that is used up; above 1 is a failure */
    const void *stored; /* borrowed tensor during the run */
};

struct gr_check_result {
    struct gr_check_row *rows; /* [n], owned */
    int n, failed;
    int worst;                                    /* index of the tap nearest to, or furthest beyond, its bound */
    int n_tokens, n_text, want_tokens, want_text; /* want_*: -1 when expected.json does not say */
    bool ok;
    double ms;
};

/* GR_ERR_INPUT or GR_ERR_IO: the case itself cannot be used. A broken bound is no error: see `ok`. */
enum gr_status gr_check_case(struct gr_policy *policy, const char *case_dir, struct gr_check_result *out,
                             struct gr_err *err);
void gr_check_result_free(struct gr_check_result *result);

#endif
