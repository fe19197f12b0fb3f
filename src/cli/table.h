/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h: text tables for the terminal: cells are collected, then printed with aligned columns. */
#ifndef GR_CLI_TABLE_H
#define GR_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { GR_TABLE_COLUMNS = 48 };

/* Zero-initialise, set `columns` and `align` ("lrr": one letter a column, left or right; missing letters mean right). */
struct gr_table {
    int columns;
    const char *align;
    int indent;   /* blanks before each row */
    char **cells; /* [n] texts, owned */
    size_t n, cap;
    bool failed;
};

/* Appends a cell; rows fill from left to right. */
void gr_table_cell(struct gr_table *t, const char *text);
void gr_table_cellf(struct gr_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fills the rest of the current row with empty cells; nothing when the row is empty. */
void gr_table_end_row(struct gr_table *t);
/* Prints all rows and frees the cells. A refused allocation marks `out` as failed. Width counts code points. */
void gr_table_print(struct gr_table *t, struct gr_buf *out);

#endif
