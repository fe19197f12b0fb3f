/* SPDX-License-Identifier: Apache-2.0
 *
 * served.h: what the client commands (smoke, bench http, plot, curl) share: where the service is, the key, waiting until it is ready,
 * asking it. The bodies of requests are JSON text, so that what the service's own /demo says can be sent back unchanged. */
#ifndef GR_CLI_SERVED_H
#define GR_CLI_SERVED_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_copy.h"
#include "base/jsonout.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/wire_chunk.h"
#include "net/http_client.h"

enum { GR_SERVED_WAIT_MAX_S = 86400 };

/* The options that the client commands share; a member of their options struct. */
struct gr_served_flags {
    const char *url, *api_key_file, *ca_file;
    bool any_name; /* not an option: ca_file is the service's own certificate, see http_client.h */
    struct gr_arg_int wait;
};

/* Table rows for a `struct gr_served_flags` member `m` of options struct `type`. */
#define GR_SERVED_ARGS(type, m)                                                                                \
    {.name = "url",                                                                                            \
     .kind = GR_ARG_STRING,                                                                                    \
     .offset = offsetof(type, m.url),                                                                          \
     .value = "URL",                                                                                           \
     .help = "the service: http://host:port, https://host:port or\nunix:/path [http://127.0.0.1:20000]"},      \
        {.name = "api-key-file",                                                                               \
         .kind = GR_ARG_STRING,                                                                                \
         .offset = offsetof(type, m.api_key_file),                                                             \
         .value = "FILE",                                                                                      \
         .help = "file with the key the service asks for"},                                                    \
        {.name = "ca-file",                                                                                    \
         .kind = GR_ARG_STRING,                                                                                \
         .offset = offsetof(type, m.ca_file),                                                                  \
         .value = "FILE",                                                                                      \
         .help = "certificate authority to trust, PEM [the system's]"},                                        \
    {                                                                                                          \
        .name = "wait", .kind = GR_ARG_INT, .offset = offsetof(type, m.wait), .value = "SECONDS", .min = 0,    \
        .max = GR_SERVED_WAIT_MAX_S,                                                                           \
        .help = "wait as long for a service that is not there yet or still\nstarting [600 for a starting one]" \
    }

/* An opened service. Zero-initialise; free with gr_served_close. */
struct gr_served {
    struct gr_client *client;
    const char *url; /* without the key; for messages and reports */
    char *key;
    struct gr_client_config config; /* for more connections to the same service */
    double wait_s;                  /* for a starting or busy service */
    bool wait_for_listener;         /* --wait was given: also for one that does not answer */
};

/* Reads the key and gets a connection ready; nothing is sent yet. GR_ERR_USAGE, GR_ERR_IO. */
enum gr_status gr_served_open(const struct gr_served_flags *flags, struct gr_served *out, struct gr_err *err);
void gr_served_close(struct gr_served *s);
/* Asks /health until it says "ok"; notes on stderr while waiting. GR_ERR_NETWORK, GR_ERR_ACCESS. */
enum gr_status gr_served_ready(struct gr_served *s, struct gr_err *err);

/* GET of a JSON object; free *root with gr_json_free. GR_ERR_NETWORK (also when the answer is not what a service says), GR_ERR_ACCESS. */
enum gr_status gr_served_get(struct gr_served *s, const char *path, struct gr_json **root, struct gr_err *err);
/* What /demo hands out. */
struct gr_served_demo {
    struct gr_json *root;          /* the whole document; free with gr_json_free */
    const struct gr_json *request; /* an object of it: a body that can be posted as it is */
    uint64_t seed;                 /* of the request; GR_DEFAULT_SEED when it names none */
};
/* GET /demo; statuses of gr_served_get, also when there is no request in it. */
enum gr_status gr_served_demo(struct gr_served *s, struct gr_served_demo *out, struct gr_err *err);
/* Member "noise" of a request: the noise of `seed` in the shape of a normalised chunk. Fails with `code` when there is none of a possible size (the
 * caller knows whose fault that is); GR_ERR_NOMEM. */
enum gr_status gr_served_put_noise(uint64_t seed, const struct gr_wire_matrix *shape, enum gr_status code,
                                   struct gr_jw *w, struct gr_err *err);

/* POST /predict; a service that is busy is asked again after the pause it names, at most five times. GR_OK only for a 2xx answer that is a JSON
 * object: *root, free with gr_json_free. reply->body is the text, free with gr_buf_free; both untouched by a failure. */
enum gr_status gr_served_predict(struct gr_served *s, const struct gr_buf *body, struct gr_client_reply *reply,
                                 struct gr_json **root, struct gr_err *err);

#endif
