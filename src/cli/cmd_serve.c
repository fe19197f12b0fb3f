/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_serve.c: `gr00t serve`: the options of the service, and how its end becomes the end of the process. With a TARGET the service is another process, started
 * by cmd_launch.c, and its options are handed on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cmd_launch.h"
#include "cli/settings_serve.h"
#include "cli/variables.h"
#include "policy/selfcheck.h"

#define LOG_END_MS 500.0 /* for a reader of stderr who stands still */

struct options {
    struct gr_serve_flags service;
    struct gr_launch_flags launch;
};

#define TEXT_OPTION(option, field, what, text)                                                                   \
    {                                                                                                            \
        .name = option, .kind = GR_ARG_STRING, .offset = offsetof(struct options, service.field), .value = what, \
        .help = text                                                                                             \
    }
#define INT_OPTION(option, field, low, high, text)                                                           \
    {                                                                                                        \
        .name = option, .kind = GR_ARG_INT, .offset = offsetof(struct options, service.field), .value = "N", \
        .min = low, .max = high, .help = text                                                                \
    }

static const struct gr_arg args[] = {
    TEXT_OPTION("model", model, "DIR", "snapshot folder"),
    TEXT_OPTION("hf-model", hf_model, "ORG/NAME", "repository in the Hub cache, or a folder; nothing is downloaded"),
    TEXT_OPTION("revision", revision, "REV", "commit or branch of that repository [main]"),
    TEXT_OPTION(
        "layout", layout, "NAME",
        "gr1: one camera, 24 text tokens; gr1_long_text: 152;\nauto: all cameras, what the context allows [gr1]"),
    TEXT_OPTION("host", host, "HOST", "address to listen on [127.0.0.1]"),
    INT_OPTION("port", port, 1, 65535, "port [20000 or the next free one]"),
    TEXT_OPTION("unix", unix_path, "PATH", "a Unix socket instead of a port"),
    TEXT_OPTION("tls-cert", tls_cert, "FILE", "certificate chain, PEM"),
    TEXT_OPTION("tls-key", tls_key, "FILE", "its private key, PEM"),
    TEXT_OPTION("api-key-file", api_key_file, "FILE", "clients must send this key as Authorization: Bearer"),
    TEXT_OPTION("cors-origin", cors_origin, "ORIGIN", "web page that may call the service, or \"*\" [none]"),
    INT_OPTION("queue", queue, 1, 1024, "predicts that may wait, more get 503 [8]"),
    INT_OPTION("connections", connections, 1, 65536, "open connections [4096]"),
    INT_OPTION("body-limit", body_limit, 1024, (int64_t)1 << 32, "bytes of a request body [100663296]"),
    TEXT_OPTION("head-s", head_s, "SECONDS", "time for a request's head [10]"),
    TEXT_OPTION("body-s", body_s, "SECONDS", "time for its body [30]"),
    TEXT_OPTION("idle-s", idle_s, "SECONDS", "silence on a kept connection [60]"),
    TEXT_OPTION("drain-s", drain_s, "SECONDS", "at the end: time for accepted requests [8]"),
    INT_OPTION("warmup-runs", warmup_runs, 1, GR_WARMUP_RUNS_MAX, "predicts of the self-check [3]"),
    TEXT_OPTION("warmup-pcc-min", warmup_pcc_min, "R", "least correlation with the golden chunk [0.999]"),
    GR_ENGINE_ARGS(struct options, service.engine),
    TEXT_OPTION("model-version", model_version, "NAME", "n16"),
    TEXT_OPTION("trace-layout", trace_layout, "NAME", "card: per_stage"),
    TEXT_OPTION("mesh-shape", mesh_shape, "RxC", "card: chips"),
    TEXT_OPTION("visible-devices", visible_devices, "LIST", "card: which ones may be seen"),
    GR_LAUNCH_ARGS(struct options, launch),
};
enum { N_ARGS = sizeof args / sizeof args[0] };

/* ---- with a TARGET ---- */

/* Options that the launcher sets itself or takes for itself. */
static bool is_launchers(const char *name)
{
    static const char *const own[] = {"host", "port", "device-id"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(name, own[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The options of the service that were given, as words again, and those behind "--". Pointers into the options and `numbers` ([N_ARGS]). */
static const char **words_for_service(const struct options *o, const char *const *words, int n_words,
                                      char (*numbers)[24], int *n)
{
    const char **out = calloc((size_t)n_words + 2 * N_ARGS, sizeof *out);
    static char names[N_ARGS][40];
    *n = 0;
    for (int i = 0; out != NULL && i < N_ARGS && args[i].offset < sizeof o->service; i++) {
        const void *field = (const char *)o + args[i].offset;
        const struct gr_arg_int *number = field;
        const char *const *value = field;
        (void)snprintf(names[i], sizeof names[i], "--%s", args[i].name);
        if (is_launchers(args[i].name)) {
            continue;
        }
        if (args[i].kind == GR_ARG_FLAG && *(const bool *)field) {
            out[(*n)++] = names[i];
        } else if (args[i].kind == GR_ARG_INT && number->given) {
            (void)snprintf(numbers[i], sizeof numbers[i], "%" PRId64, number->value);
            out[(*n)++] = names[i];
            out[(*n)++] = numbers[i];
        } else if ((args[i].kind == GR_ARG_STRING || args[i].kind == GR_ARG_CHOICE) && *value != NULL) {
            out[(*n)++] = names[i];
            out[(*n)++] = *value;
        }
    }
    for (int i = 0; out != NULL && i < n_words; i++) {
        out[(*n)++] = words[i];
    }
    return out;
}

static enum gr_status launch(struct gr_cli *cli, const struct options *o, const char *const *words, int n_words,
                             struct gr_err *err)
{
    static char numbers[N_ARGS][24];
    const struct gr_serve_flags *f = &o->service;
    if (f->model != NULL || f->hf_model != NULL || f->revision != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "%s names the weights already: without --model, --hf-model and --revision",
                       words[0]);
    }
    if (cli->n_plain > 1) {
        return gr_fail(err, GR_ERR_USAGE, "unexpected word \"%.80s\": words for the service go behind \"--\"",
                       words[1]);
    }
    if (f->unix_path != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--unix is for a service without a TARGET");
    }
    struct gr_launch_request request = {
        .target = words[0], .flags = &o->launch, .port = f->port, .host = f->host, .devices = f->engine.device_id};
    const char **all = words_for_service(o, words + 1, n_words - 1, numbers, &request.n_words);
    if (all == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the options");
    }
    request.words = all;
    enum gr_status status = gr_launch_verb(cli, &request, err);
    free(all);
    return status;
}

/* ---- without ---- */

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    const struct options *o = options;
    struct gr_serve_settings settings = {0};
    bool unfinished = false;
    if (n_words > 0) {
        return launch(cli, o, words, n_words, err);
    }
    if (gr_launch_flag_given(&o->launch) != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "%s needs a TARGET: gr00t serve TARGET ...; see `gr00t serve --help`",
                       gr_launch_flag_given(&o->launch));
    }
    gr_cli_interrupt_code(0); /* a stop before the service listens is a stop like any other */
    gr_log_stamp(true);
    gr_log_start_thread();
    enum gr_status status = gr_settings_serve(&o->service, &settings, err);
    if (status == GR_OK) {
        status = gr_server_run(&settings.server, &unfinished, err);
    }
    if (unfinished) { /* a thread still uses the settings */
        gr_log_stop_thread(LOG_END_MS);
        gr_writer_unlink_all();
        _exit(gr_exit_code(status));
    }
    gr_serve_settings_free(&settings);
    gr_log_stop_thread(LOG_END_MS);
    return status;
}

const struct gr_command gr_cmd_serve = {
    .name = "serve",
    .summary = "Serve predictions over HTTP",
    .synopsis = "[TARGET] [OPTIONS] [-- WORDS]",
    .more_text = gr_variables_help,
    .more =
        "Without TARGET: a service in the foreground, on the weights that --model, --hf-model or the variables name.\n"
        "With TARGET, a snapshot folder, a package folder, a wire manifest or ORG/NAME[@REVISION]: a service as a process of\n"
        "its own (--container: in docker or podman), watched until it is ready; Ctrl-C then leaves it running. Options of the\n"
        "service and words behind -- are handed on. See also gr00t ps, logs, curl, stop. TT_MODEL_PROGRESS=ndjson prints\n"
        "events instead of rows; TT_MODEL_READY_TIMEOUT is the time for the start in seconds [14400].\n\n"
        "Ends with SIGTERM or SIGINT: new requests are refused, accepted ones answered, exit code 0; a second signal\n"
        "ends it at once, with 0 too. Exit codes otherwise: 1 self-check failed, 2 options, port or address,\n"
        "3 embodiment or a file that cannot be read, 4 snapshot, 7 device.",
    .args = args,
    .n_args = N_ARGS,
    .options_bytes = sizeof(struct options),
    .max_words = -1,
    .words = "TARGET",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
