/* SPDX-License-Identifier: Apache-2.0
 *
 * boot.c: weights, tokenizer, device, model, warm-up, ready, in this order. Other programs read these log lines (packaging tools draw
 * their checklist from them), so words and order come from one table and are not for rewording. */
#include "server/boot.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/thread.h"
#include "policy/demo.h"
#include "policy/policy.h"
#include "policy/selfcheck.h"

enum phase { WEIGHTS, TOKENIZER, DEVICE, PIPELINE, BUILT, FORMATS, WARMING, RUN, FIDELITY, WARMED, COMPLETE };

static const struct {
    const char *landmark; /* beginning of the log line */
    const char *doing;    /* for /ready while it lasts; NULL: the one before goes on */
} phases[] = {
    [WEIGHTS] = {"Loading weights: ", "load weights"},
    [TOKENIZER] = {"Tokenizer files: ", NULL},
    [DEVICE] = {"Opening device ", "open device"},
    [PIPELINE] = {"Loading pipeline: ", "load pipeline"},
    [BUILT] = {"Model built in ", NULL},
    [FORMATS] = {"Number formats: ", NULL},
    [WARMING] = {"Warming up: ", "warm up"},
    [RUN] = {"Warmup ", NULL},
    [FIDELITY] = {"Warm-up fidelity vs golden fp32: ", NULL},
    [WARMED] = {"Warmup complete ", NULL},
    [COMPLETE] = {"Application startup complete", NULL},
};

enum { LINE_BYTES = 512, LOG_EVERY_MS = 5000 };

struct gr_boot {
    const struct gr_server_config *cfg;
    const struct gr_service_config *names;
    struct gr_service *service;
    void (*on_end)(void *user);
    void *user;
    pthread_t thread;
    bool joined;
    double start_ms, told_ms; /* told: when the log last had a line */
    _Atomic bool stop, done;
    _Atomic(struct gr_policy *) policy; /* the main thread cancels through it */
    enum gr_status status;              /* once done */
    struct gr_err err;
    struct gr_demo demo;
    struct gr_selfcheck check;
    struct gr_boot_facts facts;
};

/* ---- lines ---- */

static void enter(struct gr_boot *b, enum phase phase, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void enter(struct gr_boot *b, enum phase phase, const char *fmt, ...)
{
    char detail[LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    gr_log(GR_LOG_INFO, "%s%s", phases[phase].landmark, detail);
    b->told_ms = gr_clock_ms();
    if (phases[phase].doing != NULL) {
        gr_service_set_phase(b->service, phases[phase].doing);
    }
}

static double megabytes(double bytes) { return bytes / 1e6; }

static void on_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct gr_boot *b = user;
    char text[96];
    double share = total > 0 ? 100.0 * (double)done / (double)total : 0.0;
    snprintf(text, sizeof text, "%.60s %.0f %%", what, share);
    gr_service_set_phase(b->service, text);
    if (gr_clock_ms() - b->told_ms >= LOG_EVERY_MS) {
        b->told_ms = gr_clock_ms();
        if (gr_progress_counts(what)) {
            gr_log(GR_LOG_INFO, "%s (%.0f of %.0f predicts)", text, (double)done, (double)total);
        } else {
            gr_log(GR_LOG_INFO, "%s (%.0f of %.0f MB)", text, megabytes((double)done), megabytes((double)total));
        }
        char note[160];
        snprintf(note, sizeof note, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=%s",
                 text); /* a slow first start is no dead one */
        gr_notify(b->cfg->notify_socket, note);
    }
}

static void on_run(void *user, int k, int runs, double ms) { enter(user, RUN, "%d/%d: %.1f ms", k, runs, ms); }

static void on_golden(void *user, const char *text)
{
    struct gr_boot *b = user;
    gr_log(GR_LOG_INFO, "%s", text);
    gr_service_set_phase(b->service, "compute golden");
}

/* ---- steps ---- */

/* The highest set of kernels that will run, known before the device is open. */
static const char *kernels_of(const char *limit)
{
    unsigned flags = gr_cpu_detect();
    struct gr_err ignored;
    (void)gr_cpu_mask(limit, &flags, &ignored);
    return gr_cpu_best(flags);
}

static const char *cache_words(enum gr_cache_state state)
{
    switch (state) {
    case GR_CACHE_OFF:
        return "cache off";
    case GR_CACHE_WARM:
        return "cache path warm";
    case GR_CACHE_WRITTEN:
        return "cache path cold";
    case GR_CACHE_UNWRITTEN:
        return "cache path cold, not stored";
    }
    return "cache off";
}

/* What was chosen and why, with each step of the ladder that was tried. */
static void tell_formats(struct gr_boot *b, const struct gr_policy *policy)
{
    const struct gr_plan *plan = gr_policy_plan(policy);
    struct gr_buf peaks = {0};
    if (plan == NULL) {
        return; /* exact arithmetic only: nothing was chosen */
    }
    for (int i = 0; i < plan->n_peaks; i++) {
        gr_buf_printf(&peaks, "%s%s %.0f", i == 0 ? "; Gop/s of a thread: " : ", ", plan->peaks[i].format,
                      plan->peaks[i].gops);
    }
    enter(b, FORMATS, "%s (asked: %s%s%s%s)", plan->step, plan->asked, plan->half[0] != '\0' ? "; 16-bit: " : "",
          plan->half, peaks.data != NULL ? peaks.data : "");
    gr_buf_free(&peaks);
    for (int i = 0; i < plan->n_tries; i++) {
        const struct gr_plan_try *t = &plan->tries[i];
        for (int k = 0; k < t->judged; k++) {
            const struct gr_verdict *v = &t->verdict[k];
            gr_log(GR_LOG_INFO,
                   "%s on observation %d (%s): actions PCC %.6f, slice %.6f, max|d| %.2e, worst group %s %.5f: %s",
                   t->step, k + 1, gr_plan_gates(k) ? "gates" : "for the report", v->pcc, v->pcc_slice, v->max_abs,
                   v->worst_group[0] != '\0' ? v->worst_group : "none", v->worst_pcc, v->pass ? "passes" : "fails");
        }
    }
}

static void tell_opening(struct gr_boot *b)
{
    const struct gr_server_config *c = b->cfg;
    const struct gr_options *o = &c->engine;
    if (o->device != NULL && strcmp(o->device, "blackhole") == 0) {
        const bool ops = o->dit_backend != NULL && strcmp(o->dit_backend, "megakernel") != 0;
        const bool given = o->arena != NULL && strcmp(o->arena, "auto") != 0;
        enter(b, DEVICE, "%d (num_command_queues=%d, dit_backend=%s, mk_arena_dtype=%s; %s%s)", o->card,
              o->command_queues != 0 ? o->command_queues : 2, ops ? "ops" : "megakernel", given ? o->arena : "bfp8_b",
              o->simulator != NULL ? "simulator " : "a card", o->simulator != NULL ? o->simulator : "");
        return;
    }
    enter(b, DEVICE, "%s (threads=%d, kernels=%s, policy=%s; %s; %s)", b->names->device, o->threads, kernels_of(o->cpu),
          o->precision != NULL ? o->precision : "auto", c->threads_reason, gr_cpu_name());
}

static void tell_card(const struct gr_card_info *c)
{
    char more[96] = "";
    if (!c->simulator) {
        snprintf(more, sizeof more, ", driver %u.%u.%u, PCI %s", c->driver[0], c->driver[1], c->driver[2], c->pci);
    }
    gr_log(GR_LOG_INFO, "%s: %s, %d Tensix tiles, %d DRAM channels, firmware %u.%u.%u.%u, AICLK %u MHz%s", c->node,
           c->board[0] != '\0' ? c->board : "Blackhole", c->tiles, c->channels, c->firmware[0], c->firmware[1],
           c->firmware[2], c->firmware[3], c->aiclk_mhz, more);
    if (c->note != NULL) {
        gr_log(GR_LOG_WARN, "%s: %s", c->node, c->note);
    }
}

static void tell_built(struct gr_boot *b, const struct gr_info *info)
{
    const struct gr_card_info *c = info->card;
    if (c == NULL) {
        enter(b, BUILT, "%.1f s (weights %.0f MB, %d tensors, %.0f MB packed, %s)", b->facts.model_built_s,
              megabytes((double)info->tensor_bytes), info->n_tensors, megabytes((double)info->weight_bytes),
              cache_words(info->cache));
        return;
    }
    tell_card(c);
    enter(
        b, BUILT,
        "%.1f s (weights %.0f MB, %d tensors, %.0f MB on device, %s; dit_backend %s, arena %s, adapter_mem L1, %d tiles, "
        "%u operations; skipped %d tensors / %.0f MB)",
        b->facts.model_built_s, megabytes((double)info->tensor_bytes), info->n_tensors,
        megabytes((double)info->weight_bytes), cache_words(info->cache), c->dit_backend, c->arena, c->tiles_used,
        c->operations, info->n_skipped, megabytes((double)info->skipped_bytes));
}

static enum gr_status open_policy(struct gr_boot *b, struct gr_policy **policy, struct gr_err *err)
{
    const struct gr_server_config *c = b->cfg;
    struct gr_options options = c->engine;
    double start = gr_clock_ms();
    options.progress = on_progress;
    options.progress_user = b;
    if (c->weights_repo != NULL && c->weights_revision != NULL) {
        enter(b, WEIGHTS, "%s @ %s", c->weights_repo, c->weights_revision);
    } else {
        enter(b, WEIGHTS, "%s", c->snapshot_dir);
    }
    enter(b, TOKENIZER, "%s", options.tokenizer_dir != NULL ? options.tokenizer_dir : c->snapshot_dir);
    tell_opening(b);
    enter(b, PIPELINE, "gr_policy_open(%s, embodiment %s, layout %s)", c->snapshot_dir,
          options.embodiment != NULL ? options.embodiment : "gr1", c->layout);
    GR_TRY(gr_policy_open(c->snapshot_dir, &options, policy, err));
    atomic_store(&b->policy, *policy);
    const struct gr_info *info = gr_policy_info(*policy);
    b->facts.model_built_s = (gr_clock_ms() - start) / 1000.0;
    if (info->cache_note != NULL) {
        gr_log(GR_LOG_WARN, "%s", info->cache_note);
    }
    if (gr_policy_config(*policy)->image_note != NULL) {
        gr_log(GR_LOG_WARN, "%s", gr_policy_config(*policy)->image_note);
    }
    tell_built(b, info);
    tell_formats(b, *policy);
    return GR_OK;
}

static enum gr_status warm_up(struct gr_boot *b, struct gr_policy *policy, struct gr_err *err)
{
    const struct gr_server_config *c = b->cfg;
    const struct gr_selfcheck_config check = {.runs = c->warmup_runs,
                                              .pcc_min = c->warmup_pcc_min,
                                              .cache_dir = c->engine.cache_dir,
                                              .on_run = on_run,
                                              .on_golden = on_golden,
                                              .user = b};
    double start = gr_clock_ms();
    GR_TRY(gr_demo_make(policy, &b->demo, err));
    enter(b, WARMING, "%d predict%s of the %s demo observation", c->warmup_runs, c->warmup_runs == 1 ? "" : "s",
          b->names->version);
    enum gr_status status = gr_selfcheck_run(policy, &b->demo, &check, &b->check, err);
    const struct gr_selfcheck *r = &b->check;
    if (r->golden_note[0] != '\0') {
        gr_log(GR_LOG_WARN, "%s", r->golden_note);
    }
    if (r->golden_actions != NULL) {
        char pcc[32] = "undefined (constant)";
        if (r->has_pcc) {
            snprintf(pcc, sizeof pcc, "%.6f", r->pcc);
        }
        /* A computed golden has the number formats that are served: what they cost is told with them. */
        const struct gr_info *info = gr_policy_info(policy);
        const char *formats = r->source == GR_GOLDEN_SHIPPED || info->card != NULL ? "fp32" : info->precision;
        enter(b, FIDELITY, "actions PCC %s, max|d| %.2e, repeats max|d| %.1e (golden %s, %s, %s)", pcc, r->max_abs,
              r->repeat_max_abs, gr_golden_source_name(r->source), r->golden_kernels, formats);
    }
    GR_TRY(status);
    enter(b, WARMED, "(%d runs, %.1f s)", r->runs, (gr_clock_ms() - start) / 1000.0);
    return GR_OK;
}

static enum gr_status go(struct gr_boot *b, struct gr_err *err)
{
    struct gr_policy *policy = NULL;
    char ready[LINE_BYTES];
    GR_TRY(open_policy(b, &policy, err));
    if (atomic_load(&b->stop)) {
        return gr_fail(err, GR_ERR_BUSY, "stopped during the start");
    }
    GR_TRY(warm_up(b, policy, err));
    if (atomic_load(&b->stop)) {
        return gr_fail(err, GR_ERR_BUSY, "stopped during the start");
    }
    b->facts.policy = policy;
    b->facts.demo = &b->demo;
    b->facts.check = &b->check;
    b->facts.weights_repo = b->cfg->weights_repo;
    b->facts.weights_revision = b->cfg->weights_revision;
    b->facts.snapshot_dir = b->cfg->snapshot_dir;
    b->facts.tokenizer_dir = b->cfg->engine.tokenizer_dir;
    b->facts.threads_reason = b->cfg->threads_reason;
    b->facts.boot_s = (gr_clock_ms() - b->start_ms) / 1000.0;
    GR_TRY(gr_service_ready(b->service, &b->facts, err));
    enter(b, COMPLETE, " (%.1f s)", b->facts.boot_s);
    snprintf(ready, sizeof ready, "READY=1\nSTATUS=serving %s", b->names->model);
    gr_notify(b->cfg->notify_socket, ready);
    return GR_OK;
}

static void *boot_thread(void *arg)
{
    struct gr_boot *b = arg;
    b->status = go(b, &b->err);
    atomic_store(&b->done, true);
    b->on_end(b->user);
    return NULL;
}

/* ---- life of the thread ---- */

enum gr_status gr_boot_start(const struct gr_server_config *cfg, const struct gr_service_config *names,
                             struct gr_service *service, void (*on_end)(void *user), void *user, struct gr_boot **out,
                             struct gr_err *err)
{
    struct gr_boot *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the start");
    }
    b->cfg = cfg;
    b->names = names;
    b->service = service;
    b->on_end = on_end;
    b->user = user;
    b->start_ms = b->told_ms = gr_clock_ms();
    int code = gr_thread_start(&b->thread, boot_thread, b);
    if (code != 0) {
        free(b);
        return gr_fail_errno(err, GR_ERR_DEVICE, code, "cannot start a thread");
    }
    *out = b;
    return GR_OK;
}

bool gr_boot_done(struct gr_boot *b, enum gr_status *status, struct gr_err *err)
{
    if (!atomic_load(&b->done)) {
        return false;
    }
    *status = b->status;
    *err = b->err;
    return true;
}

bool gr_boot_stop(struct gr_boot *b, double timeout_ms)
{
    if (b->joined) {
        return true;
    }
    atomic_store(&b->stop, true);
    struct gr_policy *policy = atomic_load(&b->policy);
    if (policy != NULL && !atomic_load(&b->done)) {
        gr_policy_set_cancel(policy, true);
    }
    const double end = gr_clock_ms() + timeout_ms;
    while (!atomic_load(&b->done) && gr_clock_ms() < end) {
        gr_clock_sleep(2);
    }
    b->joined = atomic_load(&b->done);
    if (b->joined) {
        (void)pthread_join(b->thread, NULL); /* all it still does is to wake the main thread */
    } else {
        (void)pthread_detach(b->thread); /* the process ends under it */
    }
    return b->joined;
}

void gr_boot_free(struct gr_boot *b)
{
    if (b == NULL) {
        return;
    }
    struct gr_policy *policy = atomic_load(&b->policy);
    gr_selfcheck_free(&b->check);
    gr_demo_free(&b->demo);
    if (policy != NULL && gr_policy_info(policy)->card != NULL) {
        gr_log(GR_LOG_INFO, "Releasing the program and device tensors");
        gr_log(GR_LOG_INFO, "Closing device %d", gr_policy_info(policy)->card->number);
    }
    gr_policy_close(policy);
    free(b);
}
