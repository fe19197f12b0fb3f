/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_serve.h: options and variables of `gr00t serve` to the plain configuration of server.h. */
#ifndef GR_CLI_SETTINGS_SERVE_H
#define GR_CLI_SETTINGS_SERVE_H

#include "base/cpu.h"
#include "cli/settings.h"
#include "server/server.h"

struct gr_serve_flags {
    const char *model, *hf_model, *revision, *layout;
    const char *host, *unix_path, *tls_cert, *tls_key, *api_key_file, *cors_origin;
    const char *head_s, *body_s, *idle_s, *drain_s, *warmup_pcc_min;
    /* about the card, beside those in `engine` */
    const char *model_version, *trace_layout, *mesh_shape, *visible_devices;
    struct gr_arg_int port, queue, body_limit, connections, warmup_runs;
    struct gr_engine_flags engine;
};

/* Everything that `server` points to. Zero-initialise; free with gr_serve_settings_free; must not be moved. */
struct gr_serve_settings {
    struct gr_server_config server;
    struct gr_settings engine;
    struct gr_weights_place weights;
    char threads_reason[GR_CPU_WHY_BYTES];
    char *api_key, *tls_cert, *tls_key;
};

/* Logs what deserves a note (variables that change nothing here, unknown ones, a readable key file, no cache). GR_ERR_USAGE: a value that is
 * none, options that exclude each other; statuses of gr_settings_weights and gr_settings_engine; GR_ERR_IO: a key or certificate that
 * cannot be read. */
enum gr_status gr_settings_serve(const struct gr_serve_flags *flags, struct gr_serve_settings *out, struct gr_err *err);
void gr_serve_settings_free(struct gr_serve_settings *settings);

#endif
