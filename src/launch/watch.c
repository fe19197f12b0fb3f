/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c: lines of a boot log to rows of a checklist. The table of landmarks has our own server's (server/boot.c), where weights come before the device,
 * and those of the card's other servers; a row never opens again once a later one has. */
#include "launch/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *gr_phase_label(enum gr_phase p)
{
    switch (p) {
    case GR_PHASE_NONE:
        return "starting";
    case GR_PHASE_SERVER:
        return "server process started";
    case GR_PHASE_WEIGHTS:
        return "weights found";
    case GR_PHASE_DEVICE:
        return "device opened";
    case GR_PHASE_MODEL:
        return "model built";
    case GR_PHASE_WARMUP:
        return "warmed up";
    case GR_PHASE_READY:
        return "ready";
    }
    return "starting";
}

/* '#' stands for digits. What follows a landmark that ends with a blank is the row's detail, else the whole line is. */
struct landmark {
    enum gr_phase phase;
    bool done;
    const char *text;
};
static const struct landmark landmarks[] = {
    {GR_PHASE_SERVER, false, "Started server process "},
    {GR_PHASE_SERVER, false, "Waiting for application startup"},
    {GR_PHASE_DEVICE, false, "Opening device "},
    {GR_PHASE_DEVICE, false, "Opening user mode device driver"},
    {GR_PHASE_DEVICE, false, "Starting devices in cluster"},
    {GR_PHASE_DEVICE, true, "Fabric initialized on # devices"},
    {GR_PHASE_MODEL, true, "Model built in #"},
    {GR_PHASE_MODEL, false, "Loading pipeline: "},
    {GR_PHASE_MODEL, false, "Loading pipeline"},
    {GR_PHASE_WEIGHTS, false, "Loading weights: "},
    {GR_PHASE_WEIGHTS, false, "Loading weights"},
    {GR_PHASE_WEIGHTS, false, "Loading checkpoint"},
    {GR_PHASE_WEIGHTS, false, "Fetching # files"},
    {GR_PHASE_WEIGHTS, false, "safetensors"},
    {GR_PHASE_WARMUP, true, "Warmup complete"},
    {GR_PHASE_WARMUP, false, "Warming up"},
    {GR_PHASE_WARMUP, false, "warming up"},
    {GR_PHASE_WARMUP, false, "Warmup"},
    {GR_PHASE_WARMUP, false, "warmup"},
    {GR_PHASE_WARMUP, false, "Warm up"},
    {GR_PHASE_WARMUP, false, "warm up"},
    {GR_PHASE_WARMUP, false, "Capturing trace"},
    {GR_PHASE_WARMUP, false, "Compiling"},
};
static const char ready_text[] = "Application startup complete";

/* Bytes of `line` that `pattern` takes; 0: it does not begin there. */
static size_t match_here(const char *line, const char *pattern)
{
    const char *at = line;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '#') {
            const size_t digits = strspn(at, "0123456789");
            if (digits == 0) {
                return 0;
            }
            at += digits;
        } else if (*at++ != *pattern) {
            return 0;
        }
    }
    return (size_t)(at - line);
}

static const char *find(const char *line, const char *pattern, size_t *n)
{
    for (; *line != '\0'; line++) {
        if ((*n = match_here(line, pattern)) > 0) {
            return line;
        }
    }
    return NULL;
}

/* ---- causes ---- */

static const char *const flag_signs[] = {"unknown option --", "unrecognized arguments", "No such option",
                                         "unexpected word", NULL};
static const char *const held_signs[] = {"Sysmem mapped at unexpected NOC address", "CHIP_IN_USE",
                                         "stale process holding", NULL};
static const char *const port_signs[] = {"Address already in use", " is in use", NULL};
static const char *const memory_signs[] = {"Cannot allocate memory", "no memory for", "out of memory", "MemoryError",
                                           NULL};
static const char *const weights_signs[] = {"not in the Hub cache", "no weights named", NULL};
static const char *const error_signs[] = {"error",    "Error", "ERROR",  "Traceback", "fatal",   "FATAL",
                                          "CRITICAL", "panic", "failed", "FAILED",    "refused", NULL};

struct kind {
    const char *const *signs;
    const char *cause, *sentence, *actions[3];
};
static const struct kind kinds[] = {
    {flag_signs,
     "rejected option",
     "The service does not know an option that was passed on to it.",
     {"leave the option out, or see `gr00t serve --help` for those it knows"}},
    {held_signs,
     "device held",
     "Another process holds the card.",
     {"stop the other service (`gr00t ps`)", "then reset the card and serve again"}},
    {port_signs,
     "port in use",
     "Something else listens on that port.",
     {"serve with another --port, or without: the next free one is taken"}},
    {memory_signs,
     "not enough memory",
     "The service asked for more memory than there is.",
     {"stop other services (`gr00t ps`)", "serve with --policy fast or mixed, which take less"}},
    {weights_signs,
     "weights missing",
     "The weights that the package names are not on this machine.",
     {"`gr00t pull ORG/NAME --with-weights` fetches them", "or serve again without --no-weights and --local-only"}},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static bool has_sign(const char *line, const char *const *signs)
{
    for (; *signs != NULL; signs++) {
        if (strstr(line, *signs) != NULL) {
            return true;
        }
    }
    return false;
}

/* "port 20000 is in use; serving on 20001 instead" is a note of a start that goes on. */
static const struct kind *kind_of(const char *line)
{
    for (int i = 0; i < N_KINDS; i++) {
        if (has_sign(line, kinds[i].signs) && strstr(line, "instead") == NULL) {
            return &kinds[i];
        }
    }
    return NULL;
}

static void keep(struct gr_watch *w, const char *line)
{
    (void)snprintf(w->tail[w->n_tail % GR_WATCH_TAIL], GR_WATCH_LINE_BYTES, "%s", line);
    w->n_tail++;
    if (kind_of(line) != NULL || has_sign(line, error_signs)) {
        (void)snprintf(w->causes[w->n_causes % GR_WATCH_CAUSES], GR_WATCH_LINE_BYTES, "%s", line);
        w->n_causes++;
    }
}

/* Line i of those kept, 0 the newest; NULL: no more. */
static const char *cause_at(const struct gr_watch *w, int i)
{
    return i < w->n_causes && i < GR_WATCH_CAUSES ? w->causes[(w->n_causes - 1 - i) % GR_WATCH_CAUSES] : NULL;
}

static const char *newest_line(const struct gr_watch *w)
{
    return w->n_tail > 0 ? w->tail[(w->n_tail - 1) % GR_WATCH_TAIL] : NULL;
}

void gr_watch_explain(const struct gr_watch *w, bool timed_out, struct gr_watch_failure *out)
{
    static const char *const read_log = "read the log: `gr00t logs TARGET`";
    *out = (struct gr_watch_failure){.line = newest_line(w)};
    if (timed_out) {
        out->cause = "still starting";
        out->sentence = "The service is not ready yet; it goes on starting.";
        out->actions[0] = "watch it: `gr00t logs TARGET -f`";
        out->actions[1] = "stop it: `gr00t stop TARGET`";
        return;
    }
    for (int k = 0; k < N_KINDS; k++) {
        for (int i = 0; cause_at(w, i) != NULL; i++) {
            if (kind_of(cause_at(w, i)) == &kinds[k]) {
                out->cause = kinds[k].cause;
                out->sentence = kinds[k].sentence;
                out->line = cause_at(w, i);
                memcpy(out->actions, kinds[k].actions, sizeof out->actions);
                return;
            }
        }
    }
    out->cause = "ended during the start";
    out->sentence = "The service ended before it was ready.";
    out->line = cause_at(w, 0) != NULL ? cause_at(w, 0) : out->line;
    out->actions[0] = read_log;
}

void gr_watch_killed(const struct gr_watch *w, bool memory, uint64_t limit, struct gr_watch_failure *out)
{
    char facts[64] = "";
    if (limit > 0) {
        (void)snprintf(facts, sizeof facts, ": limit %.0f MB", (double)limit / 1e6);
    }
    if (w->needs_mb > 0.0) {
        const size_t n = strlen(facts);
        (void)snprintf(facts + n, sizeof facts - n, "%s needs more than %.0f MB", n > 0 ? "," : ":", w->needs_mb);
    }
    *out = (struct gr_watch_failure){.cause = memory ? "out of memory" : "killed",
                                     .line = newest_line(w),
                                     .actions = {limit > 0 ? "give it more memory, or stop other services (`gr00t ps`)"
                                                           : "stop other services (`gr00t ps`)",
                                                 "serve with --policy fast or mixed, which take less"}};
    (void)snprintf(out->killed, sizeof out->killed, "The service was killed%s%s.",
                   memory ? "; out of memory" : ", perhaps for want of memory", facts);
    out->sentence = out->killed;
}

/* ---- rows ---- */

/* The message of a log line: without time and level ("2026-11-29T23:40:12.123Z info  text", "INFO:     text", {"ts": ..., "msg": "text"}). */
static const char *message_of(const char *line)
{
    const char *json = line[0] == '{' ? strstr(line, "\"msg\": \"") : NULL;
    if (json != NULL) {
        return json + strlen("\"msg\": \"");
    }
    const size_t stamp = strspn(line, "0123456789-:.TZ");
    if (stamp >= 20 && line[stamp] == ' ') {
        line += stamp + strspn(line + stamp, " ");
        line += strcspn(line, " ");
        return line + strspn(line, " ");
    }
    const size_t level = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (level >= 4 && line[level] == ':' && line[level + 1] == ' ') {
        line += level + 1;
        return line + strspn(line, " ");
    }
    return line;
}

static void set_detail(struct gr_watch *w, const char *text)
{
    size_t n = gr_utf8_clean(w->detail, sizeof w->detail, text);
    if (n >= 2 && strcmp(w->detail + n - 2, "\"}") == 0) { /* end of a JSON line */
        w->detail[n - 2] = '\0';
    }
}

typedef void (*event_fn)(void *user, const struct gr_watch *w, enum gr_watch_event e, enum gr_phase row);

static void close_row(struct gr_watch *w, event_fn event, void *user)
{
    if (w->open) {
        w->open = false;
        w->percent = -1;
        event(user, w, GR_WATCH_CLOSED, w->phase);
    }
}

static void open_row(struct gr_watch *w, enum gr_phase phase, const char *detail, event_fn event, void *user)
{
    close_row(w, event, user);
    w->phase = phase;
    w->open = true;
    w->percent = -1;
    set_detail(w, detail);
    event(user, w, GR_WATCH_OPENED, phase);
}

/* Percent that the line tells: "NN%|####   | a/b", "what NN % (a of b MB)", "Warmup a/b: ..."; -1: none. Computed from a and b. */
static int percent_of(const char *line)
{
    double a = -1.0, b = 0.0;
    const char *bar = strstr(line, "%|"), *of = strstr(line, " % ("), *run = strstr(line, "Warmup ");
    if (bar != NULL && (bar = strchr(bar + 2, '|')) != NULL) {
        if (sscanf(bar + 1, " %lf/%lf", &a, &b) != 2) {
            return -1;
        }
    } else if (of != NULL) {
        if (sscanf(of, " %% (%lf of %lf", &a, &b) != 2) {
            return -1;
        }
    } else if (run == NULL || sscanf(run, "Warmup %lf/%lf", &a, &b) != 2) {
        return -1;
    }
    return a >= 0.0 && b > 0.0 && a <= b ? (int)(100.0 * a / b) : -1;
}

/* "what NN % (a of b MB)" while weights are read, "(weights a MB, n tensors, b MB packed" once they are. */
static double megabytes_of(const char *line)
{
    double of = 0.0, packed = 0.0;
    const char *read = strstr(line, " % ("), *built = strstr(line, "(weights ");
    if (read != NULL) {
        return sscanf(read, " %% (%*f of %lf MB)", &of) == 1 ? of : 0.0;
    }
    return built != NULL && sscanf(built, "(weights %lf MB, %*d tensors, %lf MB packed", &of, &packed) == 2
               ? of + packed
               : 0.0;
}

static void take_line(struct gr_watch *w, const char *line, event_fn event, void *user)
{
    const double needs_mb = megabytes_of(line);
    w->needs_mb = needs_mb > w->needs_mb ? needs_mb : w->needs_mb;
    keep(w, line);
    if (strstr(line, ready_text) != NULL) {
        close_row(w, event, user);
        w->phase = GR_PHASE_READY;
        event(user, w, GR_WATCH_READY, GR_PHASE_READY);
        return;
    }
    for (size_t i = 0; i < sizeof landmarks / sizeof landmarks[0]; i++) {
        const struct landmark *l = &landmarks[i];
        size_t n = 0;
        const char *at = find(line, l->text, &n);
        if (at == NULL) {
            continue;
        }
        const char *detail = at[n - 1] == ' ' ? at + n : message_of(line);
        if (l->phase > w->phase) {
            open_row(w, l->phase, detail, event, user);
        }
        if (l->done && l->phase == w->phase && w->open) {
            set_detail(w, detail);
            close_row(w, event, user);
        }
        break; /* the table has the more telling of two landmarks first */
    }
    const int percent = percent_of(line);
    if (percent >= 0 && w->open && percent != w->percent) {
        w->percent = percent;
        event(user, w, GR_WATCH_PROGRESS, w->phase);
    }
}

/* Ends the unfinished line: colours go, bytes that are no UTF-8 and control characters become '?'. */
static void end_line(struct gr_watch *w, event_fn event, void *user)
{
    char line[GR_WATCH_LINE_BYTES];
    size_t n = 0;
    w->partial[w->n_partial] = '\0';
    for (const char *at = w->partial; *at != '\0';) {
        if (at[0] == 0x1b && at[1] == '[') {
            at += 2 + strspn(at + 2, "0123456789;?");
            at += *at != '\0';
        } else {
            w->partial[n++] = *at == '\t' ? ' ' : *at;
            at++;
        }
    }
    w->partial[n] = '\0';
    w->n_partial = 0;
    if (gr_utf8_clean(line, sizeof line, w->partial) > strspn(line, " ")) {
        take_line(w, line, event, user);
    }
}

void gr_watch_feed(struct gr_watch *w, const char *bytes, size_t n, event_fn event, void *user)
{
    for (size_t i = 0; i < n && w->phase != GR_PHASE_READY; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r') {
            end_line(w, event, user);
        } else if (w->n_partial + 1 < sizeof w->partial) {
            w->partial[w->n_partial++] = bytes[i] != '\0' ? bytes[i] : '?'; /* what does not fit is not looked at */
        }
    }
}
