/* SPDX-License-Identifier: Apache-2.0
 *
 * http_client.c: one kept-alive connection on libcurl. In: an address, a path, a JSON body; out: status, body, time on the wire.
 * Redirects are never followed and proxies never used, so that the key and the picture reach the named host and no other. The key
 * stands in no message: libcurl's verbose output is never switched on. */
#include "net/http_client.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"

enum { CONNECT_S = 5, TOTAL_S = 600, UPLOAD_BYTES = 512 << 10, ADDRESS_MAX = 2048 };
enum { REPLY_MAX_BYTES = 256 << 20, REASON_BYTES = CURL_ERROR_SIZE + 64 };

struct gr_client {
    CURL *curl;
    struct curl_slist *get_headers, *post_headers;
    char *address; /* as the user wrote it, without a slash at the end: for messages */
    char *base;    /* what paths are appended to */
    double connect_s, total_s;
    char error[CURL_ERROR_SIZE];
};

/* Where the bytes of a running transfer go. */
struct sink {
    struct gr_buf *body;
    double retry_after_s;
    bool too_large;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void start_curl(void) { curl_state = curl_global_init(CURL_GLOBAL_DEFAULT); }

static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
    struct sink *sink = user;
    if (sink->body->len + size * n > REPLY_MAX_BYTES) {
        sink->too_large = true;
        return 0;
    }
    gr_buf_put(sink->body, bytes, size * n);
    return sink->body->failed ? 0 : size * n;
}

static size_t take_header(char *bytes, size_t size, size_t n, void *user)
{
    static const char name[] = "retry-after:";
    struct sink *sink = user;
    size_t len = size * n, i = sizeof name - 1;
    if (len > i && strncasecmp(bytes, name, i) == 0) {
        double seconds = 0.0;
        while (i < len && (bytes[i] == ' ' || bytes[i] == '\t')) {
            i++;
        }
        for (; i < len && bytes[i] >= '0' && bytes[i] <= '9' && seconds < 1e6; i++) {
            seconds = 10.0 * seconds + (bytes[i] - '0');
        }
        sink->retry_after_s = seconds;
    }
    return len;
}

static enum gr_status no_memory(struct gr_err *err) { return gr_fail(err, GR_ERR_NOMEM, "no memory for a connection"); }

static bool printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f) {
            return false;
        }
    }
    return true;
}

/* A part of the URL is there and not empty. */
static bool has_part(CURLU *parts, CURLUPart what)
{
    char *text = NULL;
    bool there = curl_url_get(parts, what, &text, 0) == CURLUE_OK && text != NULL && *text != '\0';
    curl_free(text);
    return there;
}

static enum gr_status check_url(const char *url, struct gr_err *err)
{
    CURLU *parts = curl_url();
    if (parts == NULL) {
        return no_memory(err);
    }
    enum gr_status status = GR_OK;
    bool scheme = strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
    if (!scheme || !printable(url) || curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK ||
        !has_part(parts, CURLUPART_HOST)) {
        /* No text of a URL with "@" in messages: there may be a password in front of it. */
        status = gr_fail(err, GR_ERR_USAGE,
                         "%s is no address of a service, expected http://host:port, https://host:port or unix:/path",
                         strchr(url, '@') == NULL ? url : "the given URL");
    } else if (has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_PASSWORD)) {
        status = gr_fail(err, GR_ERR_USAGE,
                         "a user or password in the address is not supported; the service wants an "
                         "API key (--api-key-file)");
    } else if (has_part(parts, CURLUPART_QUERY) || has_part(parts, CURLUPART_FRAGMENT)) {
        status = gr_fail(err, GR_ERR_USAGE, "%s: an address ends before \"?\" and \"#\"", url);
    }
    curl_url_cleanup(parts);
    return status;
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

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    if (longer == NULL) {
        return false;
    }
    *list = longer;
    return true;
}

/* "Expect:" empty: libcurl would wait for a "100 Continue" before it sends a large body. */
static enum gr_status make_headers(struct gr_client *c, const char *key, struct gr_err *err)
{
    struct gr_buf line = {0};
    bool good = add_header(&c->get_headers, "Accept: application/json") &&
                add_header(&c->post_headers, "Accept: application/json") && add_header(&c->post_headers, "Expect:") &&
                add_header(&c->post_headers, "Content-Type: application/json");
    if (key != NULL) {
        if (*key == '\0' || !printable(key)) {
            return gr_fail(err, GR_ERR_USAGE, "the API key must be printable ASCII without blanks");
        }
        gr_buf_printf(&line, "Authorization: Bearer %s", key);
        good =
            good && !line.failed && add_header(&c->get_headers, line.data) && add_header(&c->post_headers, line.data);
        if (line.data != NULL) {
            explicit_bzero(line.data, line.len);
        }
        gr_buf_free(&line);
    }
    return good ? GR_OK : no_memory(err);
}

static enum gr_status set_options(struct gr_client *c, const struct gr_client_config *cfg, const char *socket_path,
                                  struct gr_err *err)
{
    CURL *h = c->curl;
    bool good = curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->error) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_PROXY, "") == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_TCP_NODELAY, 1L) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BYTES) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_USERAGENT, "gr00t") == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)(1000.0 * c->connect_s)) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)(1000.0 * c->total_s)) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK;
    good = good && curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK;
    if (good && socket_path != NULL) {
        good = curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, socket_path) == CURLE_OK;
    }
    if (good && cfg->ca_file != NULL) {
        good = curl_easy_setopt(h, CURLOPT_CAINFO, cfg->ca_file) == CURLE_OK &&
               curl_easy_setopt(h, CURLOPT_CAPATH, NULL) == CURLE_OK;
    }
    return good ? GR_OK : gr_fail(err, GR_ERR_DEVICE, "the HTTP library refuses a setting: %s", c->error);
}

enum gr_status gr_client_open(const struct gr_client_config *cfg, struct gr_client **out, struct gr_err *err)
{
    const char *socket_path = NULL;
    if (pthread_once(&curl_once, start_curl) != 0 || curl_state != CURLE_OK) {
        return gr_fail(err, GR_ERR_DEVICE, "the HTTP library does not start: %s", curl_easy_strerror(curl_state));
    }
    struct gr_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return no_memory(err);
    }
    c->connect_s = cfg->connect_s > 0.0 ? cfg->connect_s : CONNECT_S;
    c->total_s = cfg->total_s > 0.0 ? cfg->total_s : TOTAL_S;
    c->curl = curl_easy_init();
    enum gr_status status = c->curl == NULL ? no_memory(err) : read_address(c, cfg->url, &socket_path, err);
    if (status == GR_OK && cfg->ca_file != NULL) {
        status = gr_fs_need_file(cfg->ca_file, GR_ERR_IO, err);
    }
    if (status == GR_OK) {
        status = make_headers(c, cfg->api_key, err);
    }
    if (status == GR_OK) {
        status = set_options(c, cfg, socket_path, err);
    }
    if (status != GR_OK) {
        gr_client_close(c);
        return status;
    }
    *out = c;
    return GR_OK;
}

/* libcurl copies header texts; they are wiped before they go back to the heap. */
static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *at = list; at != NULL; at = at->next) {
        explicit_bzero(at->data, strlen(at->data));
    }
    curl_slist_free_all(list);
}

void gr_client_close(struct gr_client *c)
{
    if (c == NULL) {
        return;
    }
    curl_easy_cleanup(c->curl);
    free_headers(c->get_headers);
    free_headers(c->post_headers);
    free(c->address);
    free(c->base);
    free(c);
}

static enum gr_status no_answer(const struct gr_client *c, struct gr_err *err)
{
    long number = 0;
    char reason[REASON_BYTES];
    (void)curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &number);
    if (number == 0 && strncmp(c->address, "unix:", 5) == 0) {
        number = access(c->address + 5, F_OK) != 0 ? errno : 0; /* not every version of libcurl tells */
    }
    snprintf(reason, sizeof reason, "%s", number != 0 ? strerror((int)number) : c->error);
    reason[0] = (char)tolower((unsigned char)reason[0]);
    return gr_fail(err, GR_ERR_NETWORK, "no answer from %s: %s; is `gr00t serve` running there?", c->address, reason);
}

static enum gr_status broken(const struct gr_client *c, CURLcode code, const char *path, const struct sink *sink,
                             double seconds, struct gr_err *err)
{
    const char *why = c->error[0] != '\0' ? c->error : curl_easy_strerror(code);
    if (sink->too_large) {
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: the answer is longer than %d MiB", c->address, path,
                       REPLY_MAX_BYTES >> 20);
    }
    if (sink->body->failed || code == CURLE_OUT_OF_MEMORY) {
        return gr_fail(err, GR_ERR_NOMEM, "%s%s: no memory for the answer", c->address, path);
    }
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return gr_fail(err, GR_ERR_NETWORK, "no answer from %s: the host name is not known", c->address);
    case CURLE_COULDNT_CONNECT:
        return no_answer(c, err);
    case CURLE_OPERATION_TIMEDOUT:
        if (seconds < 0.95 * c->total_s) {
            return gr_fail(err, GR_ERR_NETWORK,
                           "no answer from %s: no connection within %.3g s; is `gr00t serve` "
                           "running there?",
                           c->address, c->connect_s);
        }
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: no complete answer within %.3g s", c->address, path, c->total_s);
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: the connection was closed before the answer was complete (%s)",
                       c->address, path, why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return gr_fail(err, GR_ERR_NETWORK,
                       "the certificate of %s is not accepted: %s; --ca-file names the authority "
                       "to trust",
                       c->address, why);
    default:
        return gr_fail(err, GR_ERR_NETWORK, "%s%s: %s; is this the address of a GR00T service?", c->address, path, why);
    }
}

static void take_facts(struct gr_client *c, struct gr_client_reply *reply)
{
    long number = 0;
    char *type = NULL;
    (void)curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &number);
    (void)curl_easy_getinfo(c->curl, CURLINFO_CONTENT_TYPE, &type);
    reply->status = (int)number;
    snprintf(reply->content_type, sizeof reply->content_type, "%s", type != NULL ? type : "");
}

enum gr_status gr_client_send(struct gr_client *c, const char *path, const char *body, size_t n,
                              struct gr_client_reply *reply, struct gr_err *err)
{
    struct sink sink = {.body = &reply->body};
    char url[2 * ADDRESS_MAX];
    *reply = (struct gr_client_reply){0};
    if ((size_t)snprintf(url, sizeof url, "%s%s", c->base, path) >= sizeof url) {
        return gr_fail(err, GR_ERR_USAGE, "%s%s is too long", c->address, path);
    }
    gr_buf_puts(&reply->body, "");
    c->error[0] = '\0';
    bool good = curl_easy_setopt(c->curl, CURLOPT_URL, url) == CURLE_OK;
    good = good && curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &sink) == CURLE_OK;
    good = good && curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, &sink) == CURLE_OK;
    if (body == NULL) {
        good = good && curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L) == CURLE_OK;
        good = good && curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->get_headers) == CURLE_OK;
    } else {
        good = good && curl_easy_setopt(c->curl, CURLOPT_POST, 1L) == CURLE_OK;
        good = good && curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n) == CURLE_OK;
        good = good && curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body) == CURLE_OK;
        good = good && curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->post_headers) == CURLE_OK;
    }
    if (!good) {
        gr_buf_free(&reply->body);
        return no_memory(err);
    }
    double start = gr_clock_ms();
    CURLcode code = curl_easy_perform(c->curl);
    reply->wall_ms = gr_clock_ms() - start;
    if (code != CURLE_OK) {
        enum gr_status status = broken(c, code, path, &sink, reply->wall_ms / 1000.0, err);
        gr_buf_free(&reply->body);
        return status;
    }
    reply->retry_after_s = sink.retry_after_s;
    take_facts(c, reply);
    return GR_OK;
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
