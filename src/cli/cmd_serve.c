/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_serve.c: `gr00t serve`: the options of the service, and how its end becomes the end of the process. */
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/settings_serve.h"
#include "cli/variables.h"
#include "policy/selfcheck.h"

#define LOG_END_MS 500.0 /* for a reader of stderr who stands still */

#define TEXT_OPTION(option, field, what, text)                                                                  \
    {                                                                                                           \
        .name = option, .kind = GR_ARG_STRING, .offset = offsetof(struct gr_serve_flags, field), .value = what, \
        .help = text                                                                                            \
    }
#define INT_OPTION(option, field, low, high, text)                                                          \
    {                                                                                                       \
        .name = option, .kind = GR_ARG_INT, .offset = offsetof(struct gr_serve_flags, field), .value = "N", \
        .min = low, .max = high, .help = text                                                               \
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
    GR_ENGINE_ARGS(struct gr_serve_flags, engine),
    TEXT_OPTION("model-version", model_version, "NAME", "n16"),
    TEXT_OPTION("mk-arena-dtype", mk_arena_dtype, "NAME", "policy when none is given: auto, bf16, bfp8_b"),
    TEXT_OPTION("trace-layout", trace_layout, "NAME", "card: per_stage"),
    TEXT_OPTION("dit-backend", dit_backend, "NAME", "card: megakernel"),
    TEXT_OPTION("num-cqs", num_cqs, "N", "card: command queues"),
    TEXT_OPTION("mesh-shape", mesh_shape, "RxC", "card: chips"),
    TEXT_OPTION("device-id", device_id, "N", "card: which one"),
    TEXT_OPTION("visible-devices", visible_devices, "LIST", "card: which ones may be seen"),
};

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)cli;
    (void)words;
    (void)n_words;
    struct gr_serve_settings settings = {0};
    bool unfinished = false;
    gr_cli_interrupt_code(0); /* a stop before the service listens is a stop like any other */
    gr_log_stamp(true);
    gr_log_start_thread();
    enum gr_status status = gr_settings_serve(options, &settings, err);
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
    .synopsis = "[--model DIR] [OPTIONS]",
    .more_text = gr_variables_help,
    .more =
        "Ends with SIGTERM or SIGINT: new requests are refused, accepted ones answered, exit code 0; a second signal\n"
        "ends it at once, with 0 too. Exit codes otherwise: 1 self-check failed, 2 options, port or address,\n"
        "3 embodiment or a file that cannot be read, 4 snapshot, 7 device.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct gr_serve_flags),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct gr_serve_flags) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
