/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.h: the boot of a service as rows of a checklist, fed with the lines of its log (docs/PACKAGES.md, phases). Pure: no clock, no
 * terminal. */
#ifndef GR_LAUNCH_WATCH_H
#define GR_LAUNCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gr_phase {
    GR_PHASE_NONE,
    GR_PHASE_SERVER,
    GR_PHASE_WEIGHTS,
    GR_PHASE_DEVICE,
    GR_PHASE_MODEL,
    GR_PHASE_WARMUP,
    GR_PHASE_READY
};
enum gr_watch_event { GR_WATCH_NOTHING, GR_WATCH_OPENED, GR_WATCH_CLOSED, GR_WATCH_PROGRESS, GR_WATCH_READY };

enum { GR_WATCH_TAIL = 40, GR_WATCH_CAUSES = 50, GR_WATCH_LINE_BYTES = 512 };
struct gr_watch {
    enum gr_phase phase; /* of the open row */
    bool open;
    int percent;      /* -1: none */
    char detail[128]; /* of the row: "Model built in 1.4 s" */
    char tail[GR_WATCH_TAIL][GR_WATCH_LINE_BYTES];
    int n_tail; /* lines seen, the last GR_WATCH_TAIL kept */
    char causes[GR_WATCH_CAUSES][GR_WATCH_LINE_BYTES];
    int n_causes;
    char partial[4096]; /* an unfinished line */
    size_t n_partial;
    double needs_mb; /* of memory, as far as the log has told; 0: it has not */
};
const char *gr_phase_label(enum gr_phase p);
/* Bytes of the log in pieces of any size; calls back for each event with the row it concerns. */
void gr_watch_feed(struct gr_watch *w, const char *bytes, size_t n,
                   void (*event)(void *user, const struct gr_watch *w, enum gr_watch_event e, enum gr_phase row),
                   void *user);
/* Why a boot that ended did not become ready: cause in a word, one sentence, the line that shows it, what to do. All static or inside w. */
struct gr_watch_failure {
    const char *cause, *sentence, *line, *actions[3];
    char killed[160]; /* what `sentence` points to after gr_watch_killed */
};
void gr_watch_explain(const struct gr_watch *w, bool timed_out, struct gr_watch_failure *out);
/* Of one that was killed: out of memory, or perhaps so; with its limit in bytes (0: none known) and what the log says that it needs. */
void gr_watch_killed(const struct gr_watch *w, bool memory, uint64_t limit, struct gr_watch_failure *out);

#endif
