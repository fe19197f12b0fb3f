/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonout.h: JSON text for reports and replies: commas, quotes and indentation in one place. Two levels are indented, deeper ones stay on
 * their line, so that reports read well and rows of numbers stay rows; compact text has no blanks at all. */
#ifndef GR_BASE_JSONOUT_H
#define GR_BASE_JSONOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct gr_jw {
    struct gr_buf *out;
    int depth;
    bool started[16]; /* something was already written at this depth */
    bool after_key;
    bool compact; /* for the wire; no line break at the end either */
};

void gr_jw_object(struct gr_jw *w);
void gr_jw_array(struct gr_jw *w);
void gr_jw_end_object(struct gr_jw *w); /* the outermost one ends the line */
void gr_jw_end_array(struct gr_jw *w);
void gr_jw_key(struct gr_jw *w, const char *key);
void gr_jw_string(struct gr_jw *w, const char *text); /* NULL: null */
void gr_jw_f32(struct gr_jw *w, float v);
void gr_jw_f64(struct gr_jw *w, double v);
void gr_jw_milli(struct gr_jw *w, double v); /* to three decimals: for times and rates */
void gr_jw_int(struct gr_jw *w, int64_t v);
void gr_jw_u64(struct gr_jw *w, uint64_t v);
void gr_jw_bool(struct gr_jw *w, bool v);
void gr_jw_null(struct gr_jw *w);
void gr_jw_raw(struct gr_jw *w, const char *json); /* a value that is JSON text already */
/* A list of rows; `stride` values from one row to the next. */
void gr_jw_f32_rows(struct gr_jw *w, const float *values, int rows, int cols, int stride);

/* "key": and the value, or the beginning of one */
void gr_jw_put_object(struct gr_jw *w, const char *key);
void gr_jw_put_array(struct gr_jw *w, const char *key);
void gr_jw_put_string(struct gr_jw *w, const char *key, const char *text); /* NULL: null */
void gr_jw_put_f64(struct gr_jw *w, const char *key, double v);
void gr_jw_put_milli(struct gr_jw *w, const char *key, double v);
void gr_jw_put_int(struct gr_jw *w, const char *key, int64_t v);
void gr_jw_put_u64(struct gr_jw *w, const char *key, uint64_t v);
void gr_jw_put_bool(struct gr_jw *w, const char *key, bool v);

#endif
