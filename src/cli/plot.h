/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.h: an action chunk as a picture, SVG or PNG: one panel per action dimension. Equal input gives equal bytes. */
#ifndef GR_CLI_PLOT_H
#define GR_CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "gr00t.h"

struct gr_plot {
    const char *title, *subtitle;  /* subtitle may be NULL */
    const struct gr_group *groups; /* [n_groups]; dims in sum = dim */
    int n_groups, steps, dim;
    const float *chunk;                   /* [steps, dim] */
    const float *golden;                  /* [steps, dim] or NULL */
    const char *chunk_name, *golden_name; /* legend */
};

/* "the instruction, seed 42": at most `most` bytes of the instruction, never half a character. seed may be NULL; out: cap bytes. */
void gr_plot_subtitle(char *out, size_t cap, const char *instruction, size_t most, const uint64_t *seed);

/* Appends the whole SVG document. Values that are not finite leave a gap in their line. */
void gr_plot_svg(const struct gr_plot *plot, struct gr_buf *out);

/* This program was built with cairo. */
bool gr_plot_has_png(void);
/* Appends a PNG file. GR_ERR_USAGE without cairo; GR_ERR_NOMEM, also for a picture larger than cairo can make. */
enum gr_status gr_plot_png(const struct gr_plot *plot, struct gr_buf *out, struct gr_err *err);

#endif
