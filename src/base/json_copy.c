/* SPDX-License-Identifier: Apache-2.0
 *
 * json_copy.c: a parsed value written again. */
#include "base/json_copy.h"

#include <string.h>

enum { REWRITE_DEPTH = 12 };

void gr_json_rewrite(const struct gr_json *v, struct gr_jw *w)
{
    if (w->depth >= REWRITE_DEPTH) { /* no request is nested so deep; the writer's own limit is a little above */
        gr_jw_null(w);
        return;
    }
    switch (gr_json_kind(v)) {
    case GR_JSON_NULL:
        gr_jw_null(w);
        break;
    case GR_JSON_BOOL:
        gr_jw_bool(w, gr_json_bool(v));
        break;
    case GR_JSON_INT:
        gr_jw_int(w, gr_json_int(v));
        break;
    case GR_JSON_REAL:
        gr_jw_f64(w, gr_json_number(v));
        break;
    case GR_JSON_STRING:
        gr_jw_string(w, gr_json_string(v));
        break;
    case GR_JSON_ARRAY:
        gr_jw_array(w);
        for (size_t i = 0; i < gr_json_len(v); i++) {
            gr_json_rewrite(gr_json_at(v, i), w);
        }
        gr_jw_end_array(w);
        break;
    case GR_JSON_OBJECT:
        gr_json_rewrite_members(v, NULL, w);
        gr_jw_end_object(w);
        break;
    }
}

static bool named(const char *const *names, const char *key)
{
    for (; names != NULL && *names != NULL; names++) {
        if (strcmp(*names, key) == 0) {
            return true;
        }
    }
    return false;
}

void gr_json_rewrite_members(const struct gr_json *from, const char *const *skip, struct gr_jw *w)
{
    gr_jw_object(w);
    for (void *it = gr_json_first(from); it != NULL; it = gr_json_next(from, it)) {
        if (!named(skip, gr_json_key(it))) {
            gr_jw_key(w, gr_json_key(it));
            gr_json_rewrite(gr_json_value(it), w);
        }
    }
}
