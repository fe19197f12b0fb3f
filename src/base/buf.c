/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.c: a byte buffer that doubles, with the JSON pieces our writers need. Numbers come from decimal.c. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* Room for n more bytes and the NUL. */
static bool reserve(struct gr_buf *b, size_t n)
{
    if (b->failed) {
        return false;
    }
    if (n > SIZE_MAX / 4 - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + n + 1;
    if (need <= b->cap) {
        return true;
    }
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need) {
        cap *= 2; /* need is at most SIZE_MAX / 4 + 1 */
    }
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void gr_buf_put(struct gr_buf *b, const void *bytes, size_t n)
{
    if (!reserve(b, n)) {
        return;
    }
    if (n > 0) {
        memcpy(b->data + b->len, bytes, n);
    }
    b->len += n;
    b->data[b->len] = '\0';
}

void gr_buf_puts(struct gr_buf *b, const char *text) { gr_buf_put(b, text, strlen(text)); }

void gr_buf_append(struct gr_buf *b, const struct gr_buf *from)
{
    gr_buf_put(b, from->data, from->failed ? 0 : from->len);
    b->failed = b->failed || from->failed;
}

static void put_formatted(struct gr_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if (reserve(b, (size_t)n)) {
        (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void gr_buf_printf(struct gr_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_formatted(b, fmt, ap);
    va_end(ap);
}

void gr_buf_line(struct gr_buf *b, const char *fmt, ...)
{
    size_t from = b->len;
    va_list ap;
    va_start(ap, fmt);
    put_formatted(b, fmt, ap);
    va_end(ap);
    if (b->failed) {
        return;
    }
    b->len = from + gr_utf8_clean(b->data + from, b->len - from + 1, b->data + from);
    for (size_t at = b->len, n = strlen(fmt); n > 0 && at > from && fmt[n - 1] == '\n'; n--) {
        b->data[--at] = '\n';
    }
}

void gr_buf_free(struct gr_buf *b)
{
    free(b->data);
    *b = (struct gr_buf){0};
}

static void put_escape(struct gr_buf *b, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char short_form = 0;
    switch (c) {
    case '"':
        short_form = '"';
        break;
    case '\\':
        short_form = '\\';
        break;
    case '\b':
        short_form = 'b';
        break;
    case '\f':
        short_form = 'f';
        break;
    case '\n':
        short_form = 'n';
        break;
    case '\r':
        short_form = 'r';
        break;
    case '\t':
        short_form = 't';
        break;
    default:
        break;
    }
    if (short_form != 0) {
        char out[2] = {'\\', short_form};
        gr_buf_put(b, out, 2);
    } else {
        char out[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        gr_buf_put(b, out, 6);
    }
}

void gr_buf_json_string(struct gr_buf *b, const char *text)
{
    size_t n = strlen(text), start = 0, i = 0;
    gr_buf_put(b, "\"", 1);
    while (i < n) {
        unsigned char c = (unsigned char)text[i];
        int len = gr_utf8_length(text + i, n - i);
        bool plain = len > 1 || (len == 1 && c >= 0x20 && c != '"' && c != '\\');
        if (plain) {
            i += (size_t)len;
            continue;
        }
        gr_buf_put(b, text + start, i - start);
        if (len == 0) {
            gr_buf_put(b, "\xef\xbf\xbd", 3);
        } else {
            put_escape(b, c);
        }
        start = ++i;
    }
    gr_buf_put(b, text + start, n - start);
    gr_buf_put(b, "\"", 1);
}

void gr_buf_json_f32(struct gr_buf *b, float value)
{
    char text[32];
    int n = gr_format_f32(text, value);
    gr_buf_put(b, text, (size_t)n);
}

void gr_buf_json_f64(struct gr_buf *b, double value)
{
    char text[32];
    int n = gr_format_f64(text, value);
    gr_buf_put(b, text, (size_t)n);
}
