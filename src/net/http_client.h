/* SPDX-License-Identifier: Apache-2.0
 *
 * http_client.h: JSON requests of the client commands to a `gr00t serve`. */
#ifndef GR_NET_HTTP_CLIENT_H
#define GR_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct gr_client;

struct gr_client_config {
    const char *url; /* "http://host:port", "https://...", "unix:/path/of.sock"; a path behind it is kept as prefix */
    const char *api_key; /* NULL: none; sent as Authorization: Bearer, never shown in messages */
    const char *ca_file; /* NULL: the system's certificates */
    /* With ca_file, at a loopback address: whatever name its certificate is made out for. It was named for this service, and
     * nobody else is there. */
    bool any_name;
    double connect_s, total_s; /* 0: 5 and 600 */
};

struct gr_client_reply {
    int status;
    struct gr_buf body; /* NUL-terminated */
    char content_type[128];
    double retry_after_s; /* 0: none */
    double wall_ms;       /* request sent to last byte */
};

/* One kept-alive connection. GR_ERR_USAGE: the address is no such URL. */
enum gr_status gr_client_open(const struct gr_client_config *cfg, struct gr_client **out, struct gr_err *err);
void gr_client_close(struct gr_client *c); /* NULL is allowed */

/* GET when body is NULL, else POST of JSON. Any HTTP status is GR_OK here. GR_ERR_NETWORK: no connection, broken or late answer, bad certificate
 * (names the address and the reason). Free reply->body with gr_buf_free. */
enum gr_status gr_client_send(struct gr_client *c, const char *path, const char *body, size_t n,
                              struct gr_client_reply *reply, struct gr_err *err);
/* GR_OK for 2xx; else the message of the reply's error object with status GR_ERR_INPUT (400, 413, 415, 422), GR_ERR_ACCESS (401, 403), GR_ERR_BUSY (503),
 * GR_ERR_NETWORK (the rest). */
enum gr_status gr_client_check(const struct gr_client *c, const char *path, const struct gr_client_reply *reply,
                               struct gr_err *err);

#endif
