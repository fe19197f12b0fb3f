/* SPDX-License-Identifier: Apache-2.0
 *
 * state_cases.h: records of expected state encodings and decoded actions (one JSON object a line): the settings and the groups with
 * mean/std, state, 64 encoded numbers, normalised actions [16, 29] and joint targets. Numbers are exact decimals. */
#ifndef STATE_CASES_H
#define STATE_CASES_H

#include "model/config.h"

struct state_case {
    int line;              /* in the file, from 1 */
    struct gr_config *cfg; /* the published files with the record's settings */
    bool is_f64;
    double state[29];
    float encoded[64];
    float normalized[50 * 128]; /* [horizon, max_action]: what the record does not say is NaN, to catch a read of it */
    float actions[16 * 29];
};

typedef void (*state_case_fn)(const struct state_case *c);

/* Calls fn for every record of the file and returns their number. Fails the test on a record it cannot read. */
int state_cases_run(const char *path, state_case_fn fn);

#endif
