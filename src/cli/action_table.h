/* SPDX-License-Identifier: Apache-2.0
 *
 * action_table.h: an action chunk as a text table. */
#ifndef GR_CLI_ACTION_TABLE_H
#define GR_CLI_ACTION_TABLE_H

#include "base/buf.h"
#include "gr00t.h"

/* actions [steps, sum of the groups' dims]. Table of steps x dims in blocks of groups no wider than `columns`. */
void gr_action_table(const struct gr_group *groups, int n_groups, const float *actions, int steps, int columns,
                     struct gr_buf *out);

#endif
