/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c: aligned columns. Cells keep their own text, so that a column's width is known before anything is printed. */
#include "cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void gr_table_cell(struct gr_table *t, const char *text)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        char **cells = realloc(t->cells, cap * sizeof *cells);
        if (cells == NULL) {
            t->failed = true;
            return;
        }
        t->cells = cells;
        t->cap = cap;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        t->failed = true;
        return;
    }
    (void)gr_utf8_clean(copy, strlen(copy) + 1, copy);
    t->cells[t->n++] = copy;
}

void gr_table_cellf(struct gr_table *t, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    gr_table_cell(t, text);
}

void gr_table_end_row(struct gr_table *t)
{
    while (!t->failed && t->n % (size_t)t->columns != 0) {
        gr_table_cell(t, "");
    }
}

/* Code points: bytes that do not continue a character. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return n;
}

static void pad(struct gr_buf *out, size_t n)
{
    while (n-- > 0) {
        gr_buf_put(out, " ", 1);
    }
}

static void print_row(const struct gr_table *t, char *const *row, const size_t *widths, struct gr_buf *out)
{
    size_t used = (size_t)t->columns;
    while (used > 0 && row[used - 1][0] == '\0') {
        used--; /* no blanks at the end of a line */
    }
    pad(out, used > 0 ? (size_t)t->indent : 0);
    bool align_known = true;
    for (size_t c = 0; c < used; c++) {
        align_known = align_known && t->align != NULL && t->align[c] != '\0';
        bool left = align_known && t->align[c] == 'l';
        size_t blanks = widths[c] - width_of(row[c]);
        pad(out, c > 0 ? 2 : 0);
        pad(out, left ? 0 : blanks);
        gr_buf_puts(out, row[c]);
        pad(out, left && c + 1 < used ? blanks : 0);
    }
    gr_buf_puts(out, "\n");
}

void gr_table_print(struct gr_table *t, struct gr_buf *out)
{
    gr_table_end_row(t);
    size_t widths[GR_TABLE_COLUMNS] = {0}, columns = (size_t)t->columns;
    for (size_t i = 0; i < t->n; i++) {
        size_t w = width_of(t->cells[i]);
        if (w > widths[i % columns]) {
            widths[i % columns] = w;
        }
    }
    if (t->failed) {
        out->failed = true;
    } else {
        for (size_t i = 0; i < t->n; i += columns) {
            print_row(t, t->cells + i, widths, out);
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    t->cells = NULL;
    t->n = t->cap = 0;
}
