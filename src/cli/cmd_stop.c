/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_stop.c: `gr00t stop TARGET`: SIGTERM, time to finish, SIGKILL, and which of them it was. Nothing running is no fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/boot_view.h"
#include "cli/cli.h"
#include "cli/launch_target.h"
#include "cli/settings.h"

#define GRACE_S 120.0 /* as the vendor's tool */
#define GRACE_MAX_S 86400.0

struct options {
    bool all, json;
    const char *profile, *grace;
};

static const struct gr_arg args[] = {
    {.name = "profile",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, profile),
     .value = "NAME",
     .help = "only that profile [every one that runs]"},
    {.name = "all",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, all),
     .help = "every service that `serve TARGET` started"},
    {.name = "grace-s",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, grace),
     .value = "SECONDS",
     .help = "time to finish before it is killed [120]"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the result as JSON"},
};

static const struct {
    const char *word, *text;
} kinds[] = {
    [GR_STOP_NOTHING] = {"gone", "had ended already"},
    [GR_STOP_CLEAN] = {"clean", "clean shutdown"},
    [GR_STOP_KILLED] = {"killed", "killed: it did not end in time"},
    [GR_STOP_KILLED_RESET] = {"killed", "killed \xe2\x80\x94 mesh reset ran"},
    [GR_STOP_KILLED_NO_RESET] = {"killed", "killed \xe2\x80\x94 mesh reset did NOT complete"},
    [GR_STOP_KILLED_LEFT_ALONE] = {"killed", "killed \xe2\x80\x94 mesh reset skipped: another service has cards"}};

static void report(struct gr_cli *cli, const struct options *o, struct gr_jw *w, const struct gr_running *r,
                   enum gr_stop_kind how, double ms)
{
    char time[32];
    if (o->json) {
        gr_jw_object(w);
        gr_jw_put_string(w, "name", r->name);
        gr_jw_put_string(w, "how", kinds[how].word);
        gr_jw_put_string(w, "detail", kinds[how].text);
        gr_jw_put_milli(w, "seconds", ms / 1000.0);
        gr_jw_end_object(w);
        return;
    }
    const char *mark = how == GR_STOP_CLEAN ? "\xe2\x9c\x93" : how == GR_STOP_NOTHING ? "\xe2\x97\x8b" : "!";
    gr_buf_line(&cli->out, "%s %s  %s%s%s\n", mark, r->name, kinds[how].text, ms >= 800.0 ? "  " : "",
                ms >= 800.0 ? gr_human_time(time, ms) : "");
}

static enum gr_status stop_all(struct gr_cli *cli, const struct options *o, const struct gr_state_dirs *dirs,
                               const struct gr_running_set *set, double grace_s, char *const *environment,
                               struct gr_err *err)
{
    struct gr_jw w = {.out = &cli->out};
    enum gr_status worst = GR_OK;
    int stopped = 0;
    if (o->json) {
        gr_jw_array(&w);
    }
    for (int i = 0; i < set->n; i++) { /* one that cannot be stopped does not save the others */
        if (o->all && set->items[i].other) {
            gr_log(GR_LOG_INFO, "%s was started by another tool; `gr00t stop %s` stops it", set->items[i].name,
                   set->items[i].name);
            continue;
        }
        enum gr_stop_kind how = GR_STOP_NOTHING;
        struct gr_err why = {0};
        const double start = gr_clock_ms();
        const enum gr_status status = gr_launch_stop(dirs, &set->items[i], environment, grace_s, &how, &why);
        if (status != GR_OK && worst == GR_OK) {
            worst = status;
            *err = why;
        } else if (status == GR_OK) {
            stopped += how != GR_STOP_NOTHING;
            report(cli, o, &w, &set->items[i], how, gr_clock_ms() - start);
        }
    }
    if (o->json) {
        gr_jw_end_array(&w);
    } else if (stopped == 0 && worst == GR_OK) {
        gr_buf_puts(&cli->out, "\xe2\x97\x8b nothing running\n");
    } else {
        gr_buf_printf(&cli->out, "%s stopped %d service(s)\n", worst == GR_OK ? "\xe2\x9c\x93" : "!", stopped);
    }
    return worst;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    const struct options *o = options;
    struct gr_state_dirs dirs;
    struct gr_running_set set;
    double grace_s = GRACE_S;
    if ((n_words == 0) != o->all) {
        return gr_fail(err, GR_ERR_USAGE,
                       o->all ? "--all stops every service: without a TARGET"
                              : "missing TARGET; --all stops every service, `gr00t ps` lists them");
    }
    if (o->grace != NULL) {
        GR_TRY(gr_settings_real("--grace-s", o->grace, 0.0, GRACE_MAX_S, &grace_s, err));
    }
    GR_TRY(gr_settings_tool_dirs(&dirs, err));
    char **environment = gr_launch_environment();
    if (environment == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the environment");
    }
    enum gr_status status = gr_running_find(&dirs, n_words > 0 ? words[0] : NULL, o->profile, &set, err);
    if (status == GR_OK && n_words > 0) {
        status = gr_running_one_target(&set, words[0], environment, err);
    }
    if (status == GR_OK) {
        status = stop_all(cli, o, &dirs, &set, grace_s, environment, err);
    }
    gr_running_set_free(&set);
    free(environment);
    return status;
}

const struct gr_command gr_cmd_stop = {
    .name = "stop",
    .summary = "Stop what `serve TARGET` started",
    .synopsis = "TARGET [--profile NAME] [OPTIONS] | --all",
    .more =
        "TARGET is what was served, a package's name, or a name that `gr00t ps` prints; all its profiles. SIGTERM first; a service\n"
        "that does not end in time is killed, and the row says so. Nothing running: exit code 0. The log stays: `gr00t logs TARGET`.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 0,
    .max_words = 1,
    .words = "TARGET",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
