/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.h: an action chunk as an SVG picture: one panel per action dimension. Equal input gives equal bytes. */
#ifndef GR_CLI_PLOT_H
#define GR_CLI_PLOT_H

#include "base/buf.h"
#include "gr00t.h"

struct gr_plot {
    const char *title, *subtitle;  /* subtitle may be NULL */
    const struct gr_group *groups; /* [n_groups]; dims in sum = dim */
    int n_groups, steps, dim;
    const float *chunk;                   /* [steps, dim] */
    const float *golden;                  /* [steps, dim] or NULL */
    const char *chunk_name, *golden_name; /* legend */
};

/* Appends the whole SVG document. Values that are not finite leave a gap in their line. */
void gr_plot_svg(const struct gr_plot *plot, struct gr_buf *out);

#endif
