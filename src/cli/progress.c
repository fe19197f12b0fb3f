/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c: the bar. In: bytes done and total from the library; out: at most twelve redraws a second on stderr. The first
 * second shows nothing, so that quick runs stay quiet. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "policy/policy.h"

enum { BAR_WIDTH = 30, FIRST_MS = 1000, REDRAW_MS = 80, LINE_MS = 1000, MARK_MS = 1000 };

void gr_progress_begin(struct gr_progress *p, const struct gr_cli *cli)
{
    *p = (struct gr_progress){.json = cli->json_log && !cli->quiet, .start_ms = gr_clock_ms()};
    p->bar = !cli->quiet && !cli->json_log && isatty(STDERR_FILENO) == 1;
    p->last_ms = p->start_ms;
}

/* Bytes a second since the oldest mark: what was there before the start does not count, and a pause shows. Negative: not known yet. */
static double rate_of(struct gr_progress *p, double now, uint64_t done)
{
    const int last = (p->n_marks + GR_PROGRESS_MARKS - 1) % GR_PROGRESS_MARKS;
    if (p->n_marks == 0 || now - p->marks[last].ms >= MARK_MS) {
        p->marks[p->n_marks % GR_PROGRESS_MARKS].ms = now;
        p->marks[p->n_marks % GR_PROGRESS_MARKS].done = done;
        p->n_marks++;
    }
    const int oldest = p->n_marks > GR_PROGRESS_MARKS ? p->n_marks % GR_PROGRESS_MARKS : 0;
    const double ms = now - p->marks[oldest].ms;
    return ms >= MARK_MS && done >= p->marks[oldest].done ? (double)(done - p->marks[oldest].done) / ms * 1000.0 : -1.0;
}

/* "  123 MB/s, 1:02:03 left" */
static void rate_text(struct gr_progress *p, uint64_t done, uint64_t total, char *out, size_t n)
{
    char size[32], left[48] = "";
    const double rate = rate_of(p, p->last_ms, done);
    out[0] = '\0';
    if (rate < 0.0) {
        return;
    }
    if (rate > 0.0 && total >= done && (double)(total - done) / rate < 360000.0) {
        const int s = (int)((double)(total - done) / rate + 0.5);
        if (s >= 3600) {
            snprintf(left, sizeof left, ", %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
        } else {
            snprintf(left, sizeof left, ", %d:%02d left", s / 60, s % 60);
        }
    }
    snprintf(out, n, "  %s/s%s", gr_human_bytes(size, rate), left);
}

static void draw_bar(struct gr_progress *p, const char *what, uint64_t done, uint64_t total)
{
    double part = total > 0 ? (double)done / (double)total : 0.0;
    part = part > 1.0 ? 1.0 : part;
    char bar[BAR_WIDTH + 1], size[2][32], rate[96] = "";
    if (p->rate) {
        rate_text(p, done, total, rate, sizeof rate);
    }
    int full = (int)(part * BAR_WIDTH);
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = '\0';
    if (gr_progress_counts(what)) {
        fprintf(stderr, "\r%-14s [%s] %3d %%  %" PRIu64 " of %" PRIu64 "\033[K", what, bar, (int)(part * 100.0), done,
                total);
    } else {
        fprintf(stderr, "\r%-14s [%s] %3d %%  %s of %s%s\033[K", what, bar, (int)(part * 100.0),
                gr_human_bytes(size[0], (double)done), gr_human_bytes(size[1], (double)total), rate);
    }
    fflush(stderr);
    p->drawn = true;
}

void gr_progress_report(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct gr_progress *p = user;
    double now = gr_clock_ms();
    if (now - p->start_ms < FIRST_MS || (!p->bar && !p->json)) {
        return;
    }
    if (p->bar && now - p->last_ms >= REDRAW_MS) {
        p->last_ms = now;
        draw_bar(p, what, done, total);
    } else if (p->json && now - p->last_ms >= LINE_MS) {
        p->last_ms = now;
        struct gr_buf line = {0};
        gr_buf_puts(&line, "{\"level\": \"info\", \"progress\": ");
        gr_buf_json_string(&line, what);
        gr_buf_printf(&line, ", \"done\": %" PRIu64 ", \"total\": %" PRIu64 "}\n", done, total);
        fputs(line.data != NULL && !line.failed ? line.data : "", stderr);
        gr_buf_free(&line);
    }
}

void gr_progress_end(struct gr_progress *p)
{
    if (p->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->drawn = false;
}
