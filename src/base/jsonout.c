/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonout.c: writes JSON into a buffer, value after value. A caller that nests deeper than 16 has a bug (assert). */
#include "base/jsonout.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

enum { INDENTED = 2 };

static void line(struct gr_jw *w, int depth)
{
    gr_buf_puts(w->out, "\n");
    for (int i = 0; i < depth; i++) {
        gr_buf_puts(w->out, "  ");
    }
}

/* Before each value or key: the comma and the line break it needs. */
static void next(struct gr_jw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0) {
        return;
    }
    bool comma = w->started[w->depth];
    w->started[w->depth] = true;
    if (w->compact) {
        gr_buf_puts(w->out, comma ? "," : "");
    } else if (w->depth <= INDENTED) {
        gr_buf_puts(w->out, comma ? "," : "");
        line(w, w->depth);
    } else {
        gr_buf_puts(w->out, comma ? ", " : "");
    }
}

static void begin(struct gr_jw *w, const char *bracket)
{
    next(w);
    gr_buf_puts(w->out, bracket);
    assert(w->depth < 15);
    w->started[++w->depth] = false;
}

static void finish(struct gr_jw *w, const char *bracket)
{
    assert(w->depth > 0);
    if (!w->compact && w->depth <= INDENTED && w->started[w->depth]) {
        line(w, w->depth - 1);
    }
    gr_buf_puts(w->out, bracket);
    if (--w->depth == 0 && !w->compact) {
        gr_buf_puts(w->out, "\n");
    }
}

void gr_jw_object(struct gr_jw *w) { begin(w, "{"); }
void gr_jw_array(struct gr_jw *w) { begin(w, "["); }
void gr_jw_end_object(struct gr_jw *w) { finish(w, "}"); }
void gr_jw_end_array(struct gr_jw *w) { finish(w, "]"); }

void gr_jw_key(struct gr_jw *w, const char *key)
{
    next(w);
    gr_buf_json_string(w->out, key);
    gr_buf_puts(w->out, w->compact ? ":" : ": ");
    w->after_key = true;
}

void gr_jw_string(struct gr_jw *w, const char *text)
{
    next(w);
    if (text == NULL) {
        gr_buf_puts(w->out, "null");
    } else {
        gr_buf_json_string(w->out, text);
    }
}

void gr_jw_f32(struct gr_jw *w, float v)
{
    next(w);
    gr_buf_json_f32(w->out, v);
}

void gr_jw_f64(struct gr_jw *w, double v)
{
    next(w);
    gr_buf_json_f64(w->out, v);
}

void gr_jw_milli(struct gr_jw *w, double v) { gr_jw_f64(w, isfinite(v) ? round(v * 1000.0) / 1000.0 : v); }

void gr_jw_int(struct gr_jw *w, int64_t v)
{
    next(w);
    gr_buf_printf(w->out, "%" PRId64, v);
}

void gr_jw_u64(struct gr_jw *w, uint64_t v)
{
    next(w);
    gr_buf_printf(w->out, "%" PRIu64, v);
}

void gr_jw_bool(struct gr_jw *w, bool v)
{
    next(w);
    gr_buf_puts(w->out, v ? "true" : "false");
}

void gr_jw_null(struct gr_jw *w)
{
    next(w);
    gr_buf_puts(w->out, "null");
}

void gr_jw_raw(struct gr_jw *w, const char *json)
{
    next(w);
    gr_buf_puts(w->out, json);
}

void gr_jw_f32_rows(struct gr_jw *w, const float *values, int rows, int cols, int stride)
{
    gr_jw_array(w);
    for (int r = 0; r < rows; r++) {
        const float *row = values + (ptrdiff_t)r * stride;
        gr_jw_array(w);
        for (int i = 0; i < cols; i++) {
            gr_jw_f32(w, row[i]);
        }
        gr_jw_end_array(w);
    }
    gr_jw_end_array(w);
}

void gr_jw_put_object(struct gr_jw *w, const char *key)
{
    gr_jw_key(w, key);
    gr_jw_object(w);
}

void gr_jw_put_array(struct gr_jw *w, const char *key)
{
    gr_jw_key(w, key);
    gr_jw_array(w);
}

void gr_jw_put_string(struct gr_jw *w, const char *key, const char *text)
{
    gr_jw_key(w, key);
    gr_jw_string(w, text);
}

void gr_jw_put_f64(struct gr_jw *w, const char *key, double v)
{
    gr_jw_key(w, key);
    gr_jw_f64(w, v);
}

void gr_jw_put_milli(struct gr_jw *w, const char *key, double v)
{
    gr_jw_key(w, key);
    gr_jw_milli(w, v);
}

void gr_jw_put_int(struct gr_jw *w, const char *key, int64_t v)
{
    gr_jw_key(w, key);
    gr_jw_int(w, v);
}

void gr_jw_put_u64(struct gr_jw *w, const char *key, uint64_t v)
{
    gr_jw_key(w, key);
    gr_jw_u64(w, v);
}

void gr_jw_put_bool(struct gr_jw *w, const char *key, bool v)
{
    gr_jw_key(w, key);
    gr_jw_bool(w, v);
}
