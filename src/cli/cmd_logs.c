/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_logs.c: `gr00t logs TARGET`: the log of a service as it is, or as it grows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/launch_target.h"

enum { PIECE_BYTES = 64 << 10, PAUSE_MS = 100 };

struct options {
    bool follow, f;
    const char *profile;
};

static const struct gr_arg args[] = {
    {.name = "follow",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, follow),
     .help = "go on until the service ends"},
    {.name = "f", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, f), .help = "the same"},
    {.name = "profile",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, profile),
     .value = "NAME",
     .help = "of that profile, when several run"},
};

static enum gr_status copy(struct gr_cli *cli, const struct gr_running *r, const struct gr_log_stream *log, bool follow,
                           struct gr_err *err)
{
    char *piece = malloc(PIECE_BYTES);
    enum gr_status status = piece == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory for the log") : GR_OK;
    bool last = false; /* one more look after the end: what was written before it */
    while (status == GR_OK) {
        const ssize_t n = read(log->fd, piece, PIECE_BYTES);
        if (n > 0) {
            gr_buf_put(&cli->out, piece, (size_t)n);
            status = gr_cli_flush(cli, err);
            last = false;
        } else if (n < 0 && errno != EINTR) {
            status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read the log", r->name);
        } else if (n == 0 && (log->child > 0 || !follow || last)) {
            break;
        } else if (n == 0) {
            last = !gr_launch_alive(r, NULL);
            gr_clock_sleep(last ? 0 : PAUSE_MS);
        }
    }
    free(piece);
    return status;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)n_words;
    const struct options *o = options;
    struct gr_state_dirs dirs;
    struct gr_running r;
    struct gr_log_stream log;
    bool follow = o->follow || o->f, stopped;
    GR_TRY(gr_settings_tool_dirs(&dirs, err));
    GR_TRY(gr_running_logged(&dirs, words[0], o->profile, &r, &stopped, err));
    if (stopped) {
        gr_log(GR_LOG_INFO, "%s is stopped; this is its last log", r.name);
        follow = false;
    }
    char **environment = gr_launch_environment();
    if (environment == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the environment");
    }
    enum gr_status status = gr_launch_log_open(&r, environment, follow, &log, err);
    if (status == GR_OK) {
        status = copy(cli, &r, &log, follow, err);
        gr_launch_log_close(&log);
    }
    free(environment);
    return status;
}

const struct gr_command gr_cmd_logs = {
    .name = "logs",
    .summary = "Show the log of a service that `serve TARGET` started",
    .synopsis = "TARGET [-f] [--profile NAME]",
    .more =
        "TARGET is what was served, a package's name, or a name that `gr00t ps` prints. The log of a service that was stopped is kept\n"
        "until the next start of the same target; that of the start before stays beside it, with .1 at the end of its name.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 1,
    .max_words = 1,
    .words = "TARGET",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
