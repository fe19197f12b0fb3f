/* SPDX-License-Identifier: Apache-2.0
 *
 * json_copy.h: parsed JSON written again: parts of a document that are passed on. */
#ifndef GR_BASE_JSON_COPY_H
#define GR_BASE_JSON_COPY_H

#include "base/json.h"
#include "base/jsonout.h"

/* Writes a parsed value as it is; whole numbers stay whole, others are the shortest text of their float64. */
void gr_json_rewrite(const struct gr_json *v, struct gr_jw *w);
/* Members of request `from` except those that `skip` (NULL-terminated) names; the object stays open for more. */
void gr_json_rewrite_members(const struct gr_json *from, const char *const *skip, struct gr_jw *w);

#endif
