/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h: a bar on stderr for work that lasts longer than a second. Only on a terminal; with --log-format json a line a
 * second instead; nothing with --quiet. */
#ifndef GR_CLI_PROGRESS_H
#define GR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"

enum { GR_PROGRESS_MARKS = 8 };
struct gr_progress {
    bool bar, json, drawn;
    bool rate; /* set after gr_progress_begin: the bar also shows the rate of the last seconds and the time left */
    double start_ms, last_ms;
    struct {
        double ms;
        uint64_t done;
    } marks[GR_PROGRESS_MARKS]; /* one a second, ring */
    int n_marks;
};

void gr_progress_begin(struct gr_progress *p, const struct gr_cli *cli);
/* A gr_progress_fn; user is the struct. */
void gr_progress_report(void *user, const char *what, uint64_t done, uint64_t total);
/* Removes the bar. Safe to call twice. */
void gr_progress_end(struct gr_progress *p);

#endif
