/* SPDX-License-Identifier: Apache-2.0
 *
 * http_client.c: one kept-alive connection to a service, on exchange.h. In: an address, a path, a JSON body; out: status, body, time on the wire.
 * Redirects are never followed and proxies never used, so that the key and the picture reach the named host and no other. */
#include "net/http_client.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/json.h"
#include "net/exchange.h"
#include "net/http_text.h"

enum { CONNECT_S = 5, TOTAL_S = 600, ADDRESS_MAX = 2048, REPLY_MAX_BYTES = 256 << 20 };

struct gr_client {
    struct gr_http *http;
    char *address; /* as the user wrote it, without a slash at the end: for messages */
    char *base;    /* what paths are appended to */
    char *key;     /* NULL: none */
    double total_s;
};

static enum gr_status no_memory(struct gr_err *err) { return gr_fail(err, GR_ERR_NOMEM, "no memory for a connection"); }

static enum gr_status check_url(const char *url, struct gr_err *err)
{
    struct gr_url parts;
    if (!gr_url_parse(url, &parts)) {
        /* No text of a URL with "@" in messages: there may be a password in front of it. */
        return gr_fail(err, GR_ERR_USAGE,
                       "%s is no address of a service, expected http://host:port, https://host:port or unix:/path",
                       strchr(url, '@') == NULL ? url : "the given URL");
    }
    if (parts.has_user) {
        return gr_fail(err, GR_ERR_USAGE,
                       "a user or password in the address is not supported; the service wants an "
                       "API key (--api-key-file)");
    }
    if (parts.has_query || parts.has_fragment) {
        return gr_fail(err, GR_ERR_USAGE, "%s: an address ends before \"?\" and \"#\"", url);
    }
    return GR_OK;
}

/* Splits cfg->url: base for http, socket path for unix. *socket_path points into cfg->url or is NULL. */
static enum gr_status read_address(struct gr_client *c, const char *url, const char **socket_path, struct gr_err *err)
{
    *socket_path = NULL;
    if (strlen(url) >= ADDRESS_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "the address has %zu characters, at most %d", strlen(url), ADDRESS_MAX - 1);
    }
    if (strncmp(url, "unix:", 5) == 0) {
        *socket_path = url + 5;
        size_t n = strlen(*socket_path), most = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
        if (n == 0 || n > most) {
            return gr_fail(err, GR_ERR_USAGE, "%s: the path of a socket has 1 to %zu characters", url, most);
        }
        c->base = strdup("http://localhost");
    } else {
        GR_TRY(check_url(url, err));
        c->base = strdup(url);
    }
    c->address = strdup(url);
    if (c->base == NULL || c->address == NULL) {
        return no_memory(err);
    }
    char *const both[] = {c->base, *socket_path == NULL ? c->address : NULL};
    for (int i = 0; i < 2 && both[i] != NULL; i++) {
        for (size_t n = strlen(both[i]); n > 0 && both[i][n - 1] == '/'; n--) {
            both[i][n - 1] = '\0';
        }
    }
    return GR_OK;
}

static bool is_loopback(const char *url)
{
    struct gr_url u;
    struct in_addr address;
    return gr_url_parse(url, &u) && (strcmp(u.host, "localhost") == 0 || strcmp(u.host, "[::1]") == 0 ||
                                     (inet_pton(AF_INET, u.host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127));
}

enum gr_status gr_client_open(const struct gr_client_config *cfg, struct gr_client **out, struct gr_err *err)
{
    struct gr_http_config http = {.ca_file = cfg->ca_file,
                                  .any_name = cfg->any_name && is_loopback(cfg->url),
                                  .connect_s = cfg->connect_s > 0.0 ? cfg->connect_s : CONNECT_S};
    if (cfg->api_key != NULL && (*cfg->api_key == '\0' || !gr_http_printable(cfg->api_key))) {
        return gr_fail(err, GR_ERR_USAGE, "the API key must be printable ASCII without blanks");
    }
    struct gr_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return no_memory(err);
    }
    c->total_s = cfg->total_s > 0.0 ? cfg->total_s : TOTAL_S;
    http.stall_s = 2.0 * c->total_s; /* a service may think for as long as it is given */
    enum gr_status status = read_address(c, cfg->url, &http.unix_path, err);
    if (status == GR_OK && cfg->api_key != NULL && (c->key = strdup(cfg->api_key)) == NULL) {
        status = no_memory(err);
    }
    if (status == GR_OK) {
        status = gr_http_open(&http, &c->http, err);
    }
    if (status != GR_OK) {
        gr_client_close(c);
        return status;
    }
    *out = c;
    return GR_OK;
}

void gr_client_close(struct gr_client *c)
{
    if (c == NULL) {
        return;
    }
    gr_http_close(c->http);
    if (c->key != NULL) {
        explicit_bzero(c->key, strlen(c->key));
    }
    free(c->key);
    free(c->address);
    free(c->base);
    free(c);
}

/* The message for somebody who wants to reach a `gr00t serve`. */
static enum gr_status broken(const struct gr_client *c, const char *path, const struct gr_http_reply *r,
                             struct gr_err *err)
{
    switch (r->fault) {
    case GR_HTTP_UNKNOWN_HOST:
        return gr_fail(err, GR_ERR_NETWORK, "no answer from %s: %s", c->address, r->reason);
    case GR_HTTP_NO_CONNECTION:
    case GR_HTTP_LATE_CONNECTION:
        return gr_fail(err, GR_ERR_NETWORK, "no answer from %s: %s; is `gr00t serve` running there?", c->address,
                       r->reason);
    case GR_HTTP_LATE:
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: %s", c->address, path, r->reason);
    case GR_HTTP_TOO_LONG:
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: the answer is longer than %d MiB", c->address, path,
                       REPLY_MAX_BYTES >> 20);
    case GR_HTTP_CUT:
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: the connection was closed before the answer was complete (%s)%s%s",
                       c->address, path, r->reason, r->hint != NULL ? "; " : "", r->hint != NULL ? r->hint : "");
    case GR_HTTP_CERTIFICATE:
        return gr_fail(err, GR_ERR_NETWORK,
                       "the certificate of %s is not accepted: %s; --ca-file names the authority "
                       "to trust",
                       c->address, r->reason);
    default:
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: %s; %s", c->address, path, r->reason,
                       r->hint != NULL ? r->hint : "is this the address of a GR00T service?");
    }
}

enum gr_status gr_client_send(struct gr_client *c, const char *path, const char *body, size_t n,
                              struct gr_client_reply *reply, struct gr_err *err)
{
    static const char *const get_headers[] = {"Accept: application/json", NULL};
    static const char *const post_headers[] = {"Accept: application/json", "Content-Type: application/json", NULL};
    char url[2 * ADDRESS_MAX];
    *reply = (struct gr_client_reply){0};
    if ((size_t)snprintf(url, sizeof url, "%s%s", c->base, path) >= sizeof url) {
        return gr_fail(err, GR_ERR_USAGE, "%s%s is too long", c->address, path);
    }
    const struct gr_http_request request = {.method = body == NULL ? "GET" : "POST",
                                            .url = url,
                                            .headers = body == NULL ? get_headers : post_headers,
                                            .token = c->key,
                                            .total_s = c->total_s,
                                            .body = body,
                                            .body_bytes = body == NULL ? 0 : n,
                                            .max_body = REPLY_MAX_BYTES};
    struct gr_http_reply got;
    enum gr_status status = gr_http_send(c->http, &request, &got, err);
    if (status == GR_OK) {
        double wait_s = gr_http_retry_after(&got);
        reply->status = got.status;
        reply->wall_ms = got.wall_ms;
        reply->retry_after_s = wait_s > 0.0 ? wait_s : 0.0;
        (void)gr_http_reply_header(&got, "Content-Type", reply->content_type, sizeof reply->content_type);
        reply->body = got.body; /* moved */
        got.body = (struct gr_buf){0};
    } else if (status == GR_ERR_NETWORK) {
        status = broken(c, path, &got, err);
    }
    gr_http_reply_free(&got);
    return status;
}

static enum gr_status status_of(int http)
{
    switch (http) {
    case 400:
    case 413:
    case 415:
    case 422:
        return GR_ERR_INPUT;
    case 401:
    case 403:
        return GR_ERR_ACCESS;
    case 503:
        return GR_ERR_BUSY;
    default:
        return GR_ERR_NETWORK;
    }
}

/* The error object's message and field, else a detail that is plain text, else what the number means to a user. */
static void reason_of(const struct gr_client_reply *reply, char *out, size_t cap)
{
    struct gr_json *root = NULL;
    struct gr_err ignored;
    const char *message = NULL, *field = NULL;
    if (gr_json_parse(reply->body.data, reply->body.len, "reply", GR_ERR_NETWORK, &root, &ignored) == GR_OK) {
        const struct gr_json *error = gr_json_get(root, "error"), *text = gr_json_get(error, "message");
        if (gr_json_kind(text) != GR_JSON_STRING) {
            text = gr_json_get(root, "detail");
        }
        message = gr_json_kind(text) == GR_JSON_STRING ? gr_json_string(text) : NULL;
        text = gr_json_get(error, "field");
        field = gr_json_kind(text) == GR_JSON_STRING && *gr_json_string(text) != '\0' ? gr_json_string(text) : NULL;
    }
    if (message != NULL && field != NULL && strstr(message, field) == NULL) {
        snprintf(out, cap, "%s: %s", field, message);
    } else if (message != NULL) {
        snprintf(out, cap, "%s", message);
    } else if (reply->status >= 300 && reply->status < 400) {
        snprintf(out, cap, "a redirect, which is not followed; give the address it leads to");
    } else {
        snprintf(out, cap, "%s",
                 status_of(reply->status) == GR_ERR_NETWORK ? "is this the address of a GR00T service?"
                                                            : "without a reason");
    }
    gr_json_free(root);
}

enum gr_status gr_client_check(const struct gr_client *c, const char *path, const struct gr_client_reply *reply,
                               struct gr_err *err)
{
    char reason[GR_ERR_MSG_BYTES];
    if (reply->status >= 200 && reply->status < 300) {
        return GR_OK;
    }
    enum gr_status status = status_of(reply->status);
    reason_of(reply, reason, sizeof reason);
    return gr_fail(err, status, "%s%s answered %d: %s%s", c->address, path, reply->status, reason,
                   status == GR_ERR_ACCESS ? "; --api-key-file names the file with the key" : "");
}
