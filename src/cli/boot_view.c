/* SPDX-License-Identifier: Apache-2.0
 *
 * boot_view.c: the checklist, the events, and the loop that reads a service's log. Rows go out at once, one by one: whoever reads them waits for them. */
#include "cli/boot_view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/jsonout.h"
#include "cli/launch_target.h"
#include "cli/settings_tool.h"

static const char port_cause[] = "port in use"; /* launch/watch.c */
enum { STEP_MS = 50, EVENT_MS = 500, TIME_FROM_MS = 800, SILENCE_MS = 2000 };
static const char done_mark[] = "\xe2\x9c\x93", skipped_mark[] = "\xe2\x97\x8b", failed_mark[] = "\xe2\x9c\x97",
                  current_mark[] = "\xe2\x97\x89", next_mark[] = "\xe2\x86\x92";

const char *gr_human_time(char out[32], double ms)
{
    if (ms < 999.5) {
        (void)snprintf(out, 32, "%.0fms", ms);
    } else if (ms < 59950.0) {
        (void)snprintf(out, 32, "%.1fs", ms / 1000.0);
    } else {
        const long s = (long)(ms / 1000.0 + 0.5);
        (void)snprintf(out, 32, "%ldm %lds", s / 60, s % 60);
    }
    return out;
}

/* ---- output ---- */

/* A reader who is gone does not stop a start. */
static void flush(struct gr_boot_view *v)
{
    struct gr_err ignored;
    (void)gr_cli_flush(v->cli, &ignored);
}

static void clear_line(struct gr_boot_view *v)
{
    if (v->live) {
        gr_buf_puts(&v->cli->out, "\r\033[K");
    }
}

static void put_mark(struct gr_boot_view *v, const char *mark, const char *color)
{
    gr_buf_printf(&v->cli->out, v->cli->color ? "\033[%sm%s\033[0m " : "%.0s%s ", color, mark);
}

static void row(struct gr_boot_view *v, const char *mark, const char *color, const char *label, const char *detail,
                double ms)
{
    char time[32];
    if (v->events || v->cli->quiet) {
        return;
    }
    clear_line(v);
    put_mark(v, mark, color);
    gr_buf_line(&v->cli->out, "%s%s%s%s%s\n", label, detail[0] != '\0' ? "  " : "", detail,
                ms >= TIME_FROM_MS ? "  " : "", ms >= TIME_FROM_MS ? gr_human_time(time, ms) : "");
    flush(v);
}

/* The open row while it lasts: redrawn on a terminal; else one line, with --verbose or in a pipe. */
static void draw_open(struct gr_boot_view *v, const char *more, bool first)
{
    if (v->events || v->cli->quiet) {
        return;
    }
    if (v->live) {
        clear_line(v);
        put_mark(v, current_mark, "36");
        gr_buf_printf(&v->cli->out, "%s%s%s", v->label, more[0] != '\0' ? "  " : "", more);
    } else if (first) {
        gr_buf_line(&v->cli->out, "  %s\xe2\x80\xa6\n", v->label);
    }
    flush(v);
}

static struct gr_jw begin_event(struct gr_boot_view *v, const char *name)
{
    struct gr_jw w = {.out = &v->cli->out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "event", name);
    return w;
}

static void end_event(struct gr_boot_view *v, struct gr_jw *w)
{
    gr_jw_end_object(w);
    gr_buf_puts(&v->cli->out, "\n");
    flush(v);
}

static void step_event(struct gr_boot_view *v, const char *state, const char *detail)
{
    if (v->events) {
        struct gr_jw w = begin_event(v, "step");
        gr_jw_put_string(&w, "key", v->key);
        gr_jw_put_string(&w, "state", state);
        gr_jw_put_string(&w, "label", v->label);
        gr_jw_put_string(&w, "detail", detail);
        end_event(v, &w);
    }
}

/* ---- steps ---- */

void gr_boot_view_begin(struct gr_boot_view *v, struct gr_cli *cli, bool events)
{
    *v = (struct gr_boot_view){.cli = cli, .events = events, .start_ms = gr_clock_ms()};
    v->live = isatty(STDOUT_FILENO) == 1 && !cli->verbose && !events;
}

void gr_boot_view_step(struct gr_boot_view *v, const char *key, const char *label)
{
    v->key = key;
    v->row_ms = gr_clock_ms();
    v->told_ms = 0.0;
    (void)snprintf(v->label, sizeof v->label, "%s", label);
    step_event(v, "start", "");
    draw_open(v, "", true);
}

static void settle(struct gr_boot_view *v, const char *state, const char *mark, const char *color, const char *detail)
{
    if (v->key == NULL) {
        return;
    }
    gr_progress_end(&v->progress);
    step_event(v, state, detail);
    row(v, mark, color, v->label, detail, gr_clock_ms() - v->row_ms);
    v->key = NULL;
}

void gr_boot_view_done(struct gr_boot_view *v, const char *detail) { settle(v, "done", done_mark, "32", detail); }
void gr_boot_view_skipped(struct gr_boot_view *v, const char *detail) { settle(v, "done", skipped_mark, "33", detail); }
void gr_boot_view_failed(struct gr_boot_view *v, const char *detail) { settle(v, "fail", failed_mark, "31", detail); }

void gr_boot_view_note(struct gr_boot_view *v, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    row(v, skipped_mark, "33", text, "", 0.0);
}

void gr_boot_view_bytes(void *user, uint64_t done, uint64_t total, const char *path)
{
    struct gr_boot_view *v = user;
    if (!v->events) {
        const char *slash = strrchr(path, '/');
        char name[16];
        (void)snprintf(name, sizeof name, "%.14s", slash != NULL ? slash + 1 : path);
        gr_progress_report(&v->progress, name, done, total);
        return;
    }
    if (gr_clock_ms() - v->told_ms >= EVENT_MS || done == total) {
        v->told_ms = gr_clock_ms();
        struct gr_jw w = begin_event(v, "progress");
        gr_jw_put_u64(&w, "done", done);
        gr_jw_put_u64(&w, "total", total);
        gr_jw_put_string(&w, "unit", "bytes");
        end_event(v, &w);
    }
}

void gr_boot_view_container(struct gr_boot_view *v, const struct gr_running *r)
{
    if (v->events) {
        char endpoint[GR_PATH_BYTES];
        (void)snprintf(endpoint, sizeof endpoint, "%s/v1", r->url);
        struct gr_jw w = begin_event(v, "container");
        gr_jw_put_string(&w, "id", r->name);
        gr_jw_put_string(&w, "endpoint", endpoint);
        end_event(v, &w);
    }
}

/* ---- watching ---- */

static void on_event(void *user, const struct gr_watch *w, enum gr_watch_event e, enum gr_phase phase)
{
    struct gr_boot_view *v = user;
    char more[32];
    switch (e) {
    case GR_WATCH_OPENED:
        gr_boot_view_step(v, "boot", gr_phase_label(phase));
        break;
    case GR_WATCH_CLOSED:
        gr_boot_view_done(v, w->detail);
        break;
    case GR_WATCH_PROGRESS:
        (void)snprintf(more, sizeof more, "%d %%", w->percent);
        draw_open(v, more, false);
        if (v->events) {
            struct gr_jw j = begin_event(v, "progress");
            gr_jw_put_int(&j, "done", w->percent);
            gr_jw_put_int(&j, "total", 100);
            gr_jw_put_string(&j, "unit", "count");
            end_event(v, &j);
        }
        break;
    case GR_WATCH_READY:
    case GR_WATCH_NOTHING:
        break;
    }
}

/* Feeds what the log has; false: nothing more will come (of the engine's output). */
static bool feed(struct gr_boot_view *v, struct gr_watch *w, const struct gr_log_stream *log)
{
    char piece[8192];
    ssize_t n;
    do {
        struct pollfd p = {.fd = log->fd, .events = POLLIN};
        if (log->child > 0 && poll(&p, 1, STEP_MS) <= 0) {
            return true;
        }
        n = read(log->fd, piece, sizeof piece);
        if (n > 0) {
            v->heard_ms = gr_clock_ms();
            gr_watch_feed(w, piece, (size_t)n, on_event, v);
        }
    } while (n > 0 && w->phase != GR_PHASE_READY);
    return log->child == 0 || n > 0 || w->phase == GR_PHASE_READY;
}

/* True: it ended. *code: of a child of ours or a container; -1: unknown. */
static bool ended(const struct gr_running *r, char *const *environment, bool more, int *code)
{
    int status;
    *code = -1;
    if (strcmp(r->engine, "native") != 0) {
        if (more || gr_launch_alive(r, environment)) {
            return false;
        }
        *code = gr_container_exit_code(r->engine, r->name, environment);
        return true;
    }
    if (waitpid(r->pid, &status, WNOHANG) == r->pid) {
        *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return true;
    }
    return !gr_launch_alive(r, environment);
}

static void error_event(struct gr_boot_view *v, const char *cause, const char *detail, const char *evidence,
                        const char *const *actions, size_t n)
{
    struct gr_jw w = begin_event(v, "error");
    gr_jw_put_string(&w, "cause", cause);
    gr_jw_put_string(&w, "detail", detail);
    gr_jw_put_string(&w, "evidence", evidence);
    gr_jw_put_array(&w, "actions");
    for (size_t i = 0; i < n && actions[i] != NULL; i++) {
        gr_jw_string(&w, actions[i]);
    }
    gr_jw_end_array(&w);
    end_event(v, &w);
    v->told = true;
}

void gr_boot_view_error(struct gr_boot_view *v, const struct gr_err *e)
{
    if (v->key != NULL) {
        gr_boot_view_failed(v, "");
    }
    if (v->events && !v->told) {
        error_event(v, gr_status_name(e->code), e->msg, "", NULL, 0);
    }
}

enum { ACTIONS = sizeof((struct gr_watch_failure){0}.actions) / sizeof(char *) };

/* The failure as it is told: with the words of this start in its commands. */
struct told {
    struct gr_watch_failure f;
    char sentence[160], actions[ACTIONS][GR_PATH_BYTES];
};

/* `text` with each `mark` replaced. */
static void fill_in(char *text, size_t n, const char *mark, const char *by)
{
    char before[GR_PATH_BYTES];
    (void)snprintf(before, sizeof before, "%s", text);
    const char *at = strstr(before, mark);
    if (at != NULL) {
        (void)snprintf(text, n, "%.*s%s%s", (int)(at - before), before, by, at + strlen(mark));
    }
}

/* What only this program's own service says. */
static void name_own_cause(const struct gr_boot_words *words, struct gr_watch_failure *f)
{
    const char *line = f->line != NULL ? f->line : "";
    if (strstr(line, "no tokenizer (") != NULL) {
        f->cause = "tokenizer missing";
        f->sentence = "The service found no tokenizer.";
        f->actions[0] = "`gr00t pull --tokenizer` fetches it; then serve again";
        f->actions[1] = "or name its folder: --tokenizer DIR";
    } else if (words->weights != NULL && strstr(line, "/snapshots/") != NULL &&
               strstr(line, ": no such folder") != NULL) {
        f->cause = "weights missing";
        f->sentence = "The weights that the package names are not on this machine.";
        f->actions[0] = "`gr00t pull ORG/NAME --with-weights` fetches them";
        f->actions[1] = NULL;
    }
}

static void set_told(const struct gr_watch_failure *f, const struct gr_running *r, const struct gr_boot_words *words,
                     struct told *out)
{
    static const char pull_words[] = "ORG/NAME --with-weights";
    *out = (struct told){.f = *f};
    name_own_cause(words, &out->f);
    if (strcmp(f->cause, port_cause) == 0) {
        (void)snprintf(out->sentence, sizeof out->sentence, "Something else listens on port %d.", r->port);
        out->f.sentence = out->sentence;
    }
    for (int i = 0; i < ACTIONS && out->f.actions[i] != NULL; i++) {
        const bool pulls = strstr(out->f.actions[i], pull_words) != NULL;
        (void)snprintf(out->actions[i], sizeof out->actions[i], "%s",
                       pulls && words->weights == NULL ? "name their folder: --env GR00T_WEIGHTS_DIR=DIR"
                                                       : out->f.actions[i]);
        fill_in(out->actions[i], sizeof out->actions[i], "TARGET", words->service);
        fill_in(out->actions[i], sizeof out->actions[i], pull_words, words->weights);
        out->f.actions[i] = out->actions[i];
    }
}

static void card(struct gr_boot_view *v, const struct gr_watch_failure *f)
{
    struct gr_buf *out = &v->cli->out;
    if (v->events) {
        error_event(v, f->cause, f->sentence, f->line != NULL ? f->line : "", f->actions,
                    sizeof f->actions / sizeof f->actions[0]);
        return;
    }
    clear_line(v);
    put_mark(v, failed_mark, "31");
    gr_buf_line(out, "%s\n", f->cause);
    gr_buf_line(out, "  %s\n", f->sentence);
    if (f->line != NULL) {
        gr_buf_line(out, "  > %s\n", f->line);
    }
    for (size_t i = 0; i < sizeof f->actions / sizeof f->actions[0] && f->actions[i] != NULL; i++) {
        gr_buf_line(out, "  %s %s\n", next_mark, f->actions[i]);
    }
    flush(v);
}

/* Back from the exit code to a status that gives the same one. */
static enum gr_status status_of(int code)
{
    static const enum gr_status all[] = {GR_ERR_CHECK,  GR_ERR_USAGE,   GR_ERR_INPUT,
                                         GR_ERR_FORMAT, GR_ERR_NETWORK, GR_ERR_ACCESS};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (gr_exit_code(all[i]) == code) {
            return all[i];
        }
    }
    return GR_ERR_DEVICE;
}

static enum gr_status explain(struct gr_boot_view *v, const struct gr_watch_failure *f, const struct gr_running *r,
                              const struct gr_boot_words *words, bool timed_out, int code, struct gr_err *err)
{
    static struct told told; /* 12 KB; one start a process */
    char how[64] = "";
    set_told(f, r, words, &told);
    gr_boot_view_failed(v, timed_out ? "not yet" : "");
    card(v, &told.f);
    if (code > 128) {
        (void)snprintf(how, sizeof how, " (ended by signal %d)", code - 128);
    } else if (code >= 0) {
        (void)snprintf(how, sizeof how, " (exit code %d)", code);
    }
    return gr_fail(err, timed_out ? GR_ERR_BUSY : status_of(code), "%.120s: %s%s", words->target, told.f.sentence, how);
}

/* Why the service ended. */
static enum gr_status after_end(struct gr_boot_view *v, const struct gr_watch *w, const struct gr_running *r,
                                const struct gr_boot_words *words, char *const *environment, int code, bool *port_lost,
                                struct gr_err *err)
{
    struct gr_watch_failure f;
    struct gr_killed killed;
    if (code == 128 + SIGKILL) {
        gr_launch_killed(r, environment, &killed);
        gr_watch_killed(w, killed.memory, killed.limit, &f);
    } else {
        gr_watch_explain(w, false, &f);
    }
    if (port_lost != NULL && strcmp(f.cause, port_cause) == 0) {
        *port_lost = true;
        gr_boot_view_failed(v, "");
        return gr_fail(err, GR_ERR_USAGE, "port %d was taken by another program meanwhile", r->port);
    }
    return explain(v, &f, r, words, false, code, err);
}

_Noreturn static void interrupted(struct gr_boot_view *v, const struct gr_boot_words *words)
{
    char kept[2 * GR_PATH_BYTES];
    clear_line(v);
    flush(v);
    (void)snprintf(kept, sizeof kept,
                   "the service goes on starting; `gr00t logs %.4000s` shows it, `gr00t stop %.4000s` ends it",
                   words->service, words->service);
    gr_settings_tool_interrupted(kept);
}

/* True: the log says nothing any more, and the service itself says that it is ready. */
static bool ready_in_silence(struct gr_boot_view *v, const struct gr_running *r)
{
    if (gr_clock_ms() - v->heard_ms < SILENCE_MS) {
        return false;
    }
    const bool ready = gr_running_ask(r) == 200;
    v->heard_ms = gr_clock_ms();
    if (ready) {
        gr_boot_view_done(v, "");
    }
    return ready;
}

enum gr_status gr_boot_view_watch(struct gr_boot_view *v, const struct gr_running *r, const struct gr_boot_words *words,
                                  char *const *environment, double limit_s, bool *port_lost, struct gr_err *err)
{
    static struct gr_watch w; /* 60 KB; one start a process */
    struct gr_log_stream log;
    const double end = gr_clock_ms() + 1000.0 * limit_s;
    enum gr_status status = GR_OK;
    w = (struct gr_watch){.percent = -1};
    v->heard_ms = gr_clock_ms();
    GR_TRY(gr_launch_log_open(r, environment, true, &log, err));
    for (;;) {
        int code;
        bool more = feed(v, &w, &log);
        if (w.phase == GR_PHASE_READY) {
            break;
        }
        if (gr_settings_tool_cancelled()) {
            gr_launch_log_close(&log);
            interrupted(v, words);
        }
        if (ended(r, environment, more, &code)) {
            (void)feed(v, &w, &log); /* its last words */
            if (w.phase != GR_PHASE_READY) {
                gr_watch_feed(&w, "\n", 1, on_event, v);
            }
            status = after_end(v, &w, r, words, environment, code, port_lost, err);
            break;
        }
        if (ready_in_silence(v, r)) {
            break;
        }
        if (gr_clock_ms() > end) {
            struct gr_watch_failure f;
            gr_watch_explain(&w, true, &f);
            status = explain(v, &f, r, words, true, -1, err);
            break;
        }
        gr_clock_sleep(more && log.child > 0 ? 1 : STEP_MS);
    }
    gr_launch_log_close(&log);
    return status;
}

void gr_boot_view_ready(struct gr_boot_view *v, const struct gr_running *r, const struct gr_boot_words *words)
{
    char time[32];
    struct gr_buf *out = &v->cli->out, trust = {0};
    if (v->events) {
        return;
    }
    if (r->tls_cert[0] != '\0') {
        gr_buf_puts(&trust, "--cacert ");
        gr_shell_word(r->tls_cert, &trust);
        gr_buf_puts(&trust, " ");
    }
    clear_line(v);
    put_mark(v, done_mark, "32");
    gr_buf_line(out, "%s ready  %s\n\n", words->target, gr_human_time(time, gr_clock_ms() - v->start_ms));
    gr_buf_line(out, "%s\n", r->name);
    gr_buf_line(out, "  endpoint  %s\n", r->url);
    gr_buf_line(out, "  models    curl %s%s/v1/models\n", trust.data != NULL ? trust.data : "", r->url);
    gr_buf_line(out, "  try       gr00t curl %s\n", words->service);
    gr_buf_puts(out, "\n");
    gr_buf_line(out, "  gr00t logs %s -f \xc2\xb7 gr00t stop %s\n", words->service, words->service);
    gr_buf_free(&trust);
    flush(v);
}
