/* SPDX-License-Identifier: Apache-2.0
 *
 * boot_view.h: a start as the user sees it: rows of a checklist on stdout, live on a terminal; or, with TT_MODEL_PROGRESS=ndjson, one JSON event a
 * line (docs/PACKAGES.md). */
#ifndef GR_CLI_BOOT_VIEW_H
#define GR_CLI_BOOT_VIEW_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "launch/launch.h"

struct gr_boot_view {
    struct gr_cli *cli;
    bool events, live; /* ndjson; a terminal on which rows are redrawn */
    bool told;         /* the error event went out */
    const char *key;   /* of the open step; NULL: none */
    char label[96];
    double start_ms, row_ms, told_ms; /* of the whole, of the open row */
    double heard_ms;                  /* last time that the log had something, or the service was asked instead */
    struct gr_progress progress;
};
void gr_boot_view_begin(struct gr_boot_view *v, struct gr_cli *cli, bool events);
/* One step after the other: key "host", "image", "weights", "container", or our own. */
void gr_boot_view_step(struct gr_boot_view *v, const char *key, const char *label);
void gr_boot_view_done(struct gr_boot_view *v, const char *detail);    /* mark: done */
void gr_boot_view_skipped(struct gr_boot_view *v, const char *detail); /* not needed */
void gr_boot_view_failed(struct gr_boot_view *v, const char *detail);
void gr_boot_view_note(struct gr_boot_view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Of a download, user is the view. */
void gr_boot_view_bytes(void *user, uint64_t done, uint64_t total, const char *path);
void gr_boot_view_container(struct gr_boot_view *v, const struct gr_running *r);

/* The error event of a start that failed, unless the failure card was it. */
void gr_boot_view_error(struct gr_boot_view *v, const struct gr_err *e);

/* What stands in the commands that are printed, as a shell wants it. */
struct gr_boot_words {
    const char *target;  /* as it was typed, for sentences */
    const char *service; /* of `gr00t logs`, stop, curl: the target, with --profile when one was named */
    const char *weights; /* of `gr00t pull`, which brings the weights; NULL: they need none */
};
/* Follows the log until the service is ready; a log that stays silent (a full disk, --quiet) is helped out by /ready. limit_s: after that long it is left alone. GR_ERR_BUSY: still starting; else it ended, and the status is
 * what its exit code says when it is a child of ours. The failure card is printed, but not when port_lost is not NULL and the service found its port taken:
 * *port_lost is set then. */
enum gr_status gr_boot_view_watch(struct gr_boot_view *v, const struct gr_running *r, const struct gr_boot_words *words,
                                  char *const *environment, double limit_s, bool *port_lost, struct gr_err *err);
void gr_boot_view_ready(struct gr_boot_view *v, const struct gr_running *r, const struct gr_boot_words *words);
/* "812ms", "4.6s", "1m 21s" */
const char *gr_human_time(char out[32], double ms);

#endif
