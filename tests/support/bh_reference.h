/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_reference.h: a few blocks of the action head in double (spec/model.md 7), from the weights as stored: what goldens do not hold for the
 * full-size network. */
#ifndef BH_REFERENCE_H
#define BH_REFERENCE_H

#include "bh_golden.h"

/* x [horizon + 1, width] before the first block of step 0. */
void bh_reference_rows(const struct bh_net *net, const struct bh_case *c, double *x);
/* x through block i of step 0. */
void bh_reference_block(const struct bh_net *net, const struct bh_case *c, int i, double *x);

#endif
