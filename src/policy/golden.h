/* SPDX-License-Identifier: Apache-2.0
 *
 * golden.h: the chunk that the demo observation must give: built in for the demo snapshot, kept in the cache folder for all others.
 * A kept one is used only when it is whole and was computed for these weights, this observation and this program. */
#ifndef GR_POLICY_GOLDEN_H
#define GR_POLICY_GOLDEN_H

#include <stdbool.h>

#include "base/digest.h"
#include "base/err.h"
#include "gr00t.h"
#include "model/config.h"
#include "policy/demo.h"

struct gr_golden {
    float *actions;    /* [action_steps, action_dim], owned */
    float *normalized; /* [horizon, max_action_dim], owned */
    char kernels[16];
};

enum gr_status gr_golden_new(const struct gr_info *info, struct gr_golden *out, struct gr_err *err);
void gr_golden_free(struct gr_golden *golden);

/* What a golden belongs to: weights and the number formats they are served in, what the snapshot's files say about the embodiment, the
 * observation. Borrows policy and observation. */
enum { GR_GOLDEN_IDENTITY_BYTES = 160 };
struct gr_golden_key {
    const struct gr_info *info;
    const struct gr_observation *obs;
    int n_tokens; /* sequence length of the observation, so that another vocabulary is another golden */
    char identity[GR_GOLDEN_IDENTITY_BYTES]; /* "weights HEX\nconfig HEX\n", as in data/demo/golden/identity.txt */
};
enum gr_status gr_golden_key_make(const struct gr_policy *policy, const struct gr_observation *obs, int n_tokens,
                                  struct gr_golden_key *out, struct gr_err *err);

/* The built-in golden belongs to this policy and its demo. */
bool gr_golden_is_shipped(const struct gr_golden_key *key, const struct gr_demo *demo);
/* Reads it into out (gr_golden_new). GR_ERR_DEVICE: the program was built with other data. */
enum gr_status gr_golden_shipped(const struct gr_info *info, struct gr_golden *out, struct gr_err *err);

/* Name of the kept golden's file into out [GR_PATH_BYTES]. */
enum gr_status gr_golden_path(const char *cache_dir, const struct gr_golden_key *key, char *out, struct gr_err *err);
/* GR_OK with *found false: there is no such file. A file that cannot be used is a failure, whatever its status. */
enum gr_status gr_golden_load(const char *path, const struct gr_golden_key *key, struct gr_golden *out, bool *found,
                              struct gr_err *err);
/* Complete or not at all; makes the folder when missing. */
enum gr_status gr_golden_store(const char *path, const struct gr_golden_key *key, const struct gr_golden *golden,
                               struct gr_err *err);

#endif
