/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_text.h: how number formats were chosen, for reading: what was asked, which steps were tried with what result, and the format
 * of every matrix, layers that are alike in one line. */
#ifndef GR_CLI_PLAN_TEXT_H
#define GR_CLI_PLAN_TEXT_H

#include "base/buf.h"
#include "device/plan.h"

void gr_plan_text(const struct gr_plan *plan, struct gr_buf *out);

#endif
