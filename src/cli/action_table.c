/* SPDX-License-Identifier: Apache-2.0
 *
 * action_table.c: names, indices, then a row for each step; as many groups side by side as fit. */
#include "cli/action_table.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 9, STEP_CELL = 4, GROUP_GAP = 2 };

static int group_width(const struct gr_group *g)
{
    int name = (int)strlen(g->name) + GROUP_GAP;
    return (g->dim * CELL > name ? g->dim * CELL : name) + GROUP_GAP;
}

enum { NAME_LINE = -2, INDEX_LINE = -1 }; /* above the steps */

/* One group's part of a line; row: its values of this step. */
static void put_cells(const struct gr_group *g, int line, const float *row, struct gr_buf *out)
{
    if (line == NAME_LINE) {
        gr_buf_line(out, "  %s", g->name);
        return;
    }
    for (int i = 0; i < g->dim; i++) {
        char text[32];
        if (line == INDEX_LINE) {
            snprintf(text, sizeof text, "[%d]", i);
        } else {
            snprintf(text, sizeof text, "%.4f", (double)row[i]);
        }
        gr_buf_printf(out, "%*s", CELL, text);
    }
}

void gr_action_table(const struct gr_group *groups, int n_groups, const float *actions, int steps, int columns,
                     struct gr_buf *out)
{
    int dim = 0;
    for (int g = 0; g < n_groups; g++) {
        dim += groups[g].dim;
    }
    for (int first = 0, first_dim = 0, last; first < n_groups; first = last) {
        int width = STEP_CELL, block = 0;
        for (last = first;
             last < n_groups && (last == first || width + group_width(&groups[last]) - GROUP_GAP <= columns); last++) {
            width += group_width(&groups[last]);
            block += groups[last].dim;
        }
        for (int line = NAME_LINE; line < steps; line++) {
            char head[16];
            snprintf(head, sizeof head, "%d", line);
            gr_buf_printf(out, "%*s", STEP_CELL, line == NAME_LINE ? "" : line == INDEX_LINE ? "step" : head);
            for (int g = first, d = first_dim; g < last; d += groups[g].dim, g++) {
                size_t start = out->len;
                put_cells(&groups[g], line, line < 0 ? NULL : actions + (ptrdiff_t)line * dim + d, out);
                int pad = group_width(&groups[g]) - (int)(out->len - start);
                gr_buf_printf(out, "%*s", g + 1 < last && pad > 0 ? pad : 0, "");
            }
            gr_buf_puts(out, "\n");
        }
        gr_buf_puts(out, "\n");
        first_dim += block;
    }
}
