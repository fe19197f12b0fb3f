/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h: a growing byte buffer for text that is built up (JSON, SVG, tables).
 * A refused allocation sets `failed` and later calls do nothing, so that a caller checks once at the end. */
#ifndef GR_BASE_BUF_H
#define GR_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct gr_buf {
    char *data; /* NUL-terminated when not NULL; owned */
    size_t len, cap;
    bool failed;
};

void gr_buf_put(struct gr_buf *b, const void *bytes, size_t n);
void gr_buf_puts(struct gr_buf *b, const char *text);
/* All of `from`, which stays as it is; when it has failed, b fails too. */
void gr_buf_append(struct gr_buf *b, const struct gr_buf *from);
void gr_buf_printf(struct gr_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As gr_buf_printf, for one line of a report that shows names out of files: whatever in it is not printable becomes '?'; line
 * breaks at the end of fmt stay. */
void gr_buf_line(struct gr_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void gr_buf_free(struct gr_buf *b);

/* Shortest decimal that reads back as the same float32 / float64: "0.1", "-1e-7", "3". Never depends on the locale.
 * Writes at most 32 bytes with the NUL and returns the length. NaN and infinities give "null" (JSON has no word for them). */
int gr_format_f32(char out[32], float value);
int gr_format_f64(char out[32], double value);

/* JSON pieces. String: quotes and escapes; invalid UTF-8 becomes U+FFFD. */
void gr_buf_json_string(struct gr_buf *b, const char *text);
void gr_buf_json_f32(struct gr_buf *b, float value);
void gr_buf_json_f64(struct gr_buf *b, double value);

#endif
