/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h: the whole life of `gr00t serve`: listen, answer /health, open the weights, check the engine, serve, drain, end.
 * Signals, threads and log lines live here; settings come in as plain values. */
#ifndef GR_SERVER_SERVER_H
#define GR_SERVER_SERVER_H

#include <stdbool.h>

#include "base/err.h"
#include "gr00t.h"
#include "server/http.h"
#include "server/listen.h"

/* Borrowed during the call. */
struct gr_server_config {
    struct gr_options
        engine; /* embodiment, tokenizer, device, precision, threads, cache_dir; progress is the server's */
    const char *snapshot_dir;
    const char *weights_repo, *weights_revision; /* NULL: unknown */
    const char *layout;                          /* "gr1", "gr1_long_text", "auto" */
    const char *threads_reason;
    struct gr_listen_config listen;
    const char *tls_cert, *tls_key; /* PEM text or NULL */
    const char *api_key, *cors_origin;
    struct gr_httpd_limits limits;
    int queue;
    double drain_s;
    int warmup_runs;
    double warmup_pcc_min;
    const char *notify_socket; /* systemd's NOTIFY_SOCKET or NULL */
};

/* Returns when the service has ended. GR_OK after SIGTERM or SIGINT, also during the start, and after the second one, which does not wait
 * for answers. Failures of the start with their own status; a fatal device error later is GR_ERR_DEVICE. Nothing listens afterwards.
 * *unfinished: a thread could not be stopped in time and still uses *cfg; the caller must end the process now, without exit(). */
enum gr_status gr_server_run(const struct gr_server_config *cfg, bool *unfinished, struct gr_err *err);

#endif
