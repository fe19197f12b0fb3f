/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange.c: exchanges on libcurl. In: a request; out: the last hop's status, headers and body. Redirects are followed here and not by libcurl,
 * so that each hop is judged before anything is sent: a token that has left its origin never comes back into a request. Time limits are
 * kept here too: libcurl's own count in steps of seconds and average over several. Its verbose output, which shows tokens, is never switched on. */
#include "net/exchange.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "net/http_text.h"
#include "net/transfer.h"

enum { CONNECT_S = 10, STALL_S = 10, HOPS_MAX = 10, POLL_MS = 100 };
enum { UPLOAD_BYTES = 512 << 10, DOWNLOAD_BYTES = 256 << 10, SLOW_BYTES_S = 1024 };

struct gr_http {
    CURL *easy;
    CURLM *multi; /* has the connections; lets us look at limits between two steps */
    char *unix_path, *ca_file;
    bool any_name, proxies;
    double connect_s, stall_s, slow_s;
    const _Atomic bool *cancel;
    char error[CURL_ERROR_SIZE];
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void start_curl(void) { curl_state = curl_global_init(CURL_GLOBAL_DEFAULT); }

static enum gr_status no_memory(struct gr_err *err) { return gr_fail(err, GR_ERR_NOMEM, "no memory for a connection"); }

/* ---- addresses ---- */

/* A part of the URL is there and not empty. */
static bool has_part(CURLU *parts, CURLUPart what)
{
    char *text = NULL;
    bool there = curl_url_get(parts, what, &text, 0) == CURLUE_OK && text != NULL && *text != '\0';
    curl_free(text);
    return there;
}

static bool read_url(CURLU *parts, struct gr_url *out)
{
    char *host = NULL, *port = NULL, *scheme = NULL;
    bool good = curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && *host != '\0' &&
                strlen(host) < sizeof out->host && curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    if (good) {
        *out = (struct gr_url){.secure = strcasecmp(scheme, "https") == 0,
                               .port = (int)strtol(port, NULL, 10),
                               .has_user = has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_PASSWORD),
                               .has_query = has_part(parts, CURLUPART_QUERY),
                               .has_fragment = has_part(parts, CURLUPART_FRAGMENT)};
        for (size_t i = 0; host[i] != '\0'; i++) {
            out->host[i] = (char)tolower((unsigned char)host[i]);
        }
    }
    curl_free(host);
    curl_free(port);
    curl_free(scheme);
    return good;
}

bool gr_url_parse(const char *text, struct gr_url *out)
{
    bool scheme = strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
    if (!scheme || !gr_http_printable(text) ||
        strstr(text, "://")[3] == '/') { /* libcurl would look for a host behind it */
        return false;
    }
    CURLU *parts = curl_url();
    bool good = parts != NULL && curl_url_set(parts, CURLUPART_URL, text, 0) == CURLUE_OK && read_url(parts, out);
    curl_url_cleanup(parts);
    return good;
}

bool gr_url_same_origin(const struct gr_url *a, const struct gr_url *b)
{
    return a->secure == b->secure && a->port == b->port && strcmp(a->host, b->host) == 0;
}

char *gr_url_resolve(const char *from, const char *location, struct gr_url *out)
{
    CURLU *parts = curl_url();
    char *url = NULL, *copy = NULL;
    if (parts != NULL && curl_url_set(parts, CURLUPART_URL, from, 0) == CURLUE_OK &&
        curl_url_set(parts, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
        curl_url_set(parts, CURLUPART_URL, location, CURLU_URLENCODE) == CURLUE_OK &&
        curl_url_set(parts, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
        curl_url_set(parts, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK && read_url(parts, out) &&
        curl_url_get(parts, CURLUPART_URL, &url, 0) == CURLUE_OK) {
        copy = strdup(url);
    }
    curl_free(url);
    curl_url_cleanup(parts);
    return copy;
}

/* ---- failures ---- */

static void no_connection(struct gr_transfer *x, const char *why)
{
    long number = 0;
    char text[GR_HTTP_REASON_BYTES];
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_OS_ERRNO, &number);
    if (number == 0 && x->h->unix_path != NULL) {
        number = access(x->h->unix_path, F_OK) != 0 ? errno : 0; /* not every version of libcurl tells */
    }
    snprintf(text, sizeof text, "%s", number != 0 ? strerror((int)number) : why);
    text[0] = (char)tolower((unsigned char)text[0]);
    /* Behind a proxy it is the proxy that does not answer: libcurl's text names it. */
    char place[sizeof x->here.host + 32]; /* as libcurl names it */
    snprintf(place, sizeof place, "%s", x->here.host + (x->here.host[0] == '['));
    const size_t n = strcspn(place, "]");
    snprintf(place + n, sizeof place - n, " port %d", x->here.port);
    const bool other = x->h->proxies && strstr(why, " port ") != NULL && strstr(why, place) == NULL;
    gr_transfer_broke(x, GR_HTTP_NO_CONNECTION, true, other ? why : text);
}

/* The scheme is probably the wrong one: TLS was spoken to a port that has none, or a port answered plain HTTP with no word of it. */
static const char *scheme_hint(const struct gr_transfer *x, CURLcode code, const char *why)
{
    long head = 0, opened = 0;
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_HEADER_SIZE, &head);
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_NUM_CONNECTS, &opened);
    if (x->h->unix_path != NULL || head > 0 || opened == 0) {
        return NULL;
    }
    if (x->here.secure) {
        const bool plain = strstr(why, "wrong version number") != NULL || strstr(why, "packet length") != NULL;
        return code == CURLE_SSL_CONNECT_ERROR && plain ? "is it http://?" : NULL;
    }
    return code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_WEIRD_SERVER_REPLY ||
                   code == CURLE_UNSUPPORTED_PROTOCOL
               ? "is it https://?"
               : NULL;
}

/* libcurl calls it no memory when a line of the head is longer than it takes. */
static bool is_long_head(const struct gr_transfer *x)
{
    curl_off_t sent = 0;
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
    return sent > 0 && !x->head_ended;
}

/* What libcurl's code means; sets x->status. */
static void explain(struct gr_transfer *x, CURLcode code)
{
    const char *why = x->h->error;
    char text[GR_HTTP_REASON_BYTES];
    long proxy = 0;
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_HTTP_CONNECTCODE, &proxy);
    /* An address in libcurl's text may hold a proxy's password or a signature. */
    if (*why == '\0' || strstr(why, "://") != NULL || strpbrk(why, "?@") != NULL) {
        why = curl_easy_strerror(code);
    }
    x->reply->hint = scheme_hint(x, code, why);
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        if (is_long_head(x)) {
            gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, "a line of its headers is too long, or memory is short");
        } else {
            x->status = no_memory(x->err);
        }
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
        gr_transfer_broke(x, GR_HTTP_UNKNOWN_HOST, true, "the host name is not known");
        break;
    case CURLE_COULDNT_CONNECT:
        no_connection(x, why);
        break;
    case CURLE_OPERATION_TIMEDOUT: /* libcurl has the limit for connecting only */
        snprintf(text, sizeof text, "no connection within %.3g s", x->h->connect_s);
        gr_transfer_broke(x, GR_HTTP_LATE_CONNECTION, true, text);
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        gr_transfer_certificate(x, why, time(NULL));
        break;
    case CURLE_SSL_CACERT_BADFILE:
        gr_transfer_broke(x, GR_HTTP_CERTIFICATE, false,
                          x->h->ca_file != NULL ? why
                                                : "this system has no list of authorities (package ca-certificates)");
        break;
    case CURLE_SSL_CONNECT_ERROR: /* "error:" is OpenSSL's: no TLS there, or none that both know */
        gr_transfer_broke(x, GR_HTTP_UNEXPECTED, strstr(why, "error:") == NULL, why);
        break;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND:
        if (proxy >= 300) {
            snprintf(text, sizeof text, "the proxy answered %ld", proxy);
            gr_transfer_broke(x, GR_HTTP_UNEXPECTED, proxy >= 500, text);
        } else {
            gr_transfer_broke(x, GR_HTTP_CUT, true, why);
        }
        break;
    default:
        gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, why);
        break;
    }
}

/* ---- one hop ---- */

static size_t give_file(char *out, size_t size, size_t n, void *user)
{
    struct gr_transfer *x = user;
    uint64_t left = x->request->body_bytes - x->file_at;
    size_t len = left < size * n ? (size_t)left : size * n;
    ssize_t got = 0;
    if (gr_transfer_cancelled(x)) {
        return CURL_READFUNC_ABORT;
    }
    if (len == 0) {
        return 0;
    }
    do {
        got = pread(x->request->body_fd, out, len, (off_t)(x->request->body_offset + x->file_at));
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        x->status = got < 0 ? gr_fail_errno(x->err, GR_ERR_IO, errno, "cannot read the file that is being sent")
                            : gr_fail(x->err, GR_ERR_IO, "the file became shorter while it was being sent");
        return CURL_READFUNC_ABORT;
    }
    x->file_at += (uint64_t)got;
    return (size_t)got;
}

/* libcurl sends a body again when a kept connection turns out to be dead. */
static int seek_file(void *user, curl_off_t offset, int origin)
{
    struct gr_transfer *x = user;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > x->request->body_bytes) {
        return CURL_SEEKFUNC_CANTSEEK;
    }
    x->file_at = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* libcurl copies header texts; they are wiped before they go back to the heap. */
static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *at = list; at != NULL; at = at->next) {
        explicit_bzero(at->data, strlen(at->data));
    }
    curl_slist_free_all(list);
}

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    *list = longer != NULL ? longer : *list;
    return longer != NULL;
}

static bool is_header(const char *line, const char *name)
{
    size_t n = strlen(name);
    return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

/* An empty value ("Expect:") keeps a header away that libcurl would send: it would wait for "100 Continue" before a large body. */
static bool make_headers(const struct gr_transfer *x, struct curl_slist **list)
{
    const struct gr_http_request *q = x->request;
    bool typed = false, good = add_header(list, "Expect:") && add_header(list, "Accept-Encoding: identity");
    struct gr_buf line = {0};
    for (const char *const *at = q->headers; good && at != NULL && *at != NULL; at++) {
        typed = typed || is_header(*at, "Content-Type");
        if (!x->abroad || !(is_header(*at, "Authorization") || is_header(*at, "Cookie"))) {
            good = add_header(list, *at);
        }
    }
    good = good && (typed || add_header(list, "Content-Type:"));
    if (good && (q->range_from > 0 || q->range_to > 0)) {
        char range[64], to[24] = "";
        if (q->range_to > 0) {
            snprintf(to, sizeof to, "%llu", (unsigned long long)q->range_to);
        }
        snprintf(range, sizeof range, "Range: bytes=%llu-%s", (unsigned long long)q->range_from, to);
        good = add_header(list, range);
    }
    if (good && q->token != NULL && !x->abroad) {
        gr_buf_printf(&line, "Authorization: Bearer %s", q->token);
        good = !line.failed && add_header(list, line.data);
        if (line.data != NULL) {
            explicit_bzero(line.data, line.len);
        }
        gr_buf_free(&line);
    }
    return good;
}

#define SET(option, value) (curl_easy_setopt(x->h->easy, (option), (value)) == CURLE_OK)

static bool set_body(struct gr_transfer *x)
{
    const struct gr_http_request *q = x->request;
    bool good = true;
    if (strcmp(q->method, "HEAD") == 0) {
        return SET(CURLOPT_NOBODY, 1L);
    }
    if (strcmp(q->method, "GET") == 0) {
        return SET(CURLOPT_HTTPGET, 1L);
    }
    if (q->body_fd > 0) {
        good = SET(CURLOPT_UPLOAD, 1L) && SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->body_bytes) &&
               SET(CURLOPT_READFUNCTION, give_file) && SET(CURLOPT_READDATA, x) &&
               SET(CURLOPT_SEEKFUNCTION, seek_file) && SET(CURLOPT_SEEKDATA, x);
    } else {
        good = SET(CURLOPT_POST, 1L) && SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_bytes) &&
               SET(CURLOPT_POSTFIELDS, q->body != NULL ? q->body : "");
    }
    return good && SET(CURLOPT_CUSTOMREQUEST, q->method);
}

static bool set_options(struct gr_transfer *x, const struct curl_slist *headers)
{
    const struct gr_http *h = x->h;
    curl_easy_reset(h->easy);
    bool good = SET(CURLOPT_ERRORBUFFER, h->error) && SET(CURLOPT_NOSIGNAL, 1L) && SET(CURLOPT_QUICK_EXIT, 1L) &&
                SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_FOLLOWLOCATION, 0L) &&
                SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) && (h->proxies || SET(CURLOPT_PROXY, "")) &&
                SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) && SET(CURLOPT_TCP_NODELAY, 1L) &&
                SET(CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BYTES) && SET(CURLOPT_USERAGENT, "gr00t") &&
                SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(1000.0 * h->connect_s));
    /* Refused while the handle keeps the buffer of an exchange that ended before it had a connection: that buffer is as large. */
    (void)SET(CURLOPT_BUFFERSIZE, (long)DOWNLOAD_BYTES);
    if (good && h->unix_path != NULL) {
        good = SET(CURLOPT_UNIX_SOCKET_PATH, h->unix_path);
    }
    if (good && h->ca_file != NULL) {
        good = SET(CURLOPT_CAINFO, h->ca_file) && SET(CURLOPT_CAPATH, NULL) &&
               (!h->any_name || SET(CURLOPT_SSL_VERIFYHOST, 0L));
    }
    return good && SET(CURLOPT_WRITEFUNCTION, gr_transfer_body) && SET(CURLOPT_WRITEDATA, x) &&
           SET(CURLOPT_HEADERFUNCTION, gr_transfer_header) && SET(CURLOPT_HEADERDATA, x) &&
           SET(CURLOPT_HTTPHEADER, headers) && SET(CURLOPT_URL, x->reply->url) && set_body(x);
}

static curl_off_t tell_sent(const struct gr_transfer *x)
{
    curl_off_t up = 0;
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    if (up > 0 && x->request->sent != NULL) {
        x->request->sent(x->request->user, (uint64_t)up);
    }
    return up;
}

/* A server that sends a byte now and then is none. Counted in pieces of the whole time: a burst at the beginning does not pay for an hour. */
static void watch_slow(struct gr_transfer *x, double now, double stall_s)
{
    const double limit_s = x->h->slow_s > stall_s ? x->h->slow_s : stall_s;
    const int64_t came = x->moved - x->slow_moved;
    char why[96];
    if (x->h->slow_s <= 0.0 || now - x->slow_ms <= 1000.0 * limit_s) {
        return;
    }
    if ((double)came < SLOW_BYTES_S * limit_s) {
        snprintf(why, sizeof why, "only %lld bytes came or went in %.3g s", (long long)came, limit_s);
        gr_transfer_broke(x, GR_HTTP_STALLED, true, why);
    }
    x->slow_ms = now;
    x->slow_moved = x->moved;
}

/* Between two steps: tells the progress, and ends what takes too long. */
static void watch(struct gr_transfer *x)
{
    const struct gr_http_request *q = x->request;
    curl_off_t up, down = 0, connected = 0;
    long head = 0;
    double now = gr_clock_ms(), stall_s = q->stall_s > 0.0 ? q->stall_s : x->h->stall_s;
    char why[64];
    up = tell_sent(x);
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_HEADER_SIZE, &head);
    (void)curl_easy_getinfo(x->h->easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
    if (connected == 0 || up + down + head != x->moved) { /* before, the limit for connecting counts */
        x->moved = up + down + head;
        x->moved_ms = now;
    }
    if (connected == 0) {
        x->slow_ms = now;
    }
    if (q->total_s > 0.0 && now - x->start_ms > 1000.0 * q->total_s) {
        snprintf(why, sizeof why, "no complete answer within %.3g s", q->total_s);
        gr_transfer_broke(x, GR_HTTP_LATE, true, why);
    } else if (now - x->moved_ms > 1000.0 * stall_s) {
        snprintf(why, sizeof why, "nothing came or went for %.3g s", stall_s);
        gr_transfer_broke(x, GR_HTTP_STALLED, true, why);
    } else {
        watch_slow(x, now, stall_s);
    }
}

/* CURLE_ABORTED_BY_CALLBACK also when watch() or the user ended it. */
static CURLcode step(struct gr_transfer *x)
{
    CURLM *multi = x->h->multi;
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left = 0;
    bool good = true;
    if (curl_multi_add_handle(multi, x->h->easy) != CURLM_OK) {
        return CURLE_OUT_OF_MEMORY;
    }
    while (running > 0 && x->status == GR_OK && !gr_transfer_cancelled(x) && good) {
        good = curl_multi_perform(multi, &running) == CURLM_OK;
        if (good && running > 0) {
            watch(x);
            (void)curl_multi_poll(multi, NULL, 0, x->status == GR_OK ? POLL_MS : 0, NULL);
        }
    }
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left)) != NULL;) {
        code = message->msg == CURLMSG_DONE ? message->data.result : code;
    }
    tell_sent(x);
    (void)curl_multi_remove_handle(multi, x->h->easy);
    return good ? code : CURLE_OUT_OF_MEMORY;
}

static enum gr_status hop(struct gr_transfer *x)
{
    struct curl_slist *headers = NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    x->h->error[0] = '\0';
    x->head_ended = x->to_sink = false;
    x->skipped = x->file_at = x->range_bytes = 0;
    x->moved = x->slow_moved = 0;
    x->moved_ms = x->slow_ms = gr_clock_ms();
    if (make_headers(x, &headers) && set_options(x, headers)) {
        code = step(x);
    }
    free_headers(headers);
    /* An exchange that came to its end counts: what it did at the other side is done. */
    if (x->status == GR_OK && (code != CURLE_OK || x->next != NULL) && gr_transfer_cancelled(x)) {
        x->status = gr_fail(x->err, GR_ERR_BUSY, "cancelled");
    }
    /* A redirect is known by its head: what becomes of its body does not matter. */
    if (x->status == GR_OK && code != CURLE_OK && x->next == NULL) {
        explain(x, code);
    }
    if (x->status == GR_OK && !x->head_ended) { /* libcurl takes a head that is cut for a whole one */
        gr_transfer_broke(x, GR_HTTP_CUT, true, "in the middle of the headers");
    }
    if (x->status == GR_OK && x->next == NULL && x->range_bytes > 0 && strcmp(x->request->method, "HEAD") != 0 &&
        x->reply->body_bytes != x->range_bytes) {
        gr_transfer_broke(x, GR_HTTP_CUT, true, "the range has another length than it says");
    }
    return x->status;
}

static enum gr_status follow(struct gr_transfer *x)
{
    for (int hops = 0; hop(x) == GR_OK && x->next != NULL; hops++) {
        if (hops == HOPS_MAX) {
            gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, "more than 10 redirects");
            break;
        }
        free(x->reply->url);
        free(x->reply->headers);
        x->reply->headers = NULL;
        x->reply->url = x->next;
        x->next = NULL;
        x->reply->status = 0;
        if (!gr_url_parse(x->reply->url, &x->here)) {
            gr_transfer_broke(x, GR_HTTP_UNEXPECTED, false, "it redirects to something that is no http address");
            break;
        }
        x->abroad = x->abroad || !gr_url_same_origin(&x->here, &x->origin);
    }
    return x->status == GR_ERR_NETWORK && x->reply->fault != GR_HTTP_FINE ? gr_transfer_tell(x) : x->status;
}

static enum gr_status check_request(const struct gr_http_request *q, struct gr_url *origin, struct gr_err *err)
{
    if (!gr_url_parse(q->url, origin) || origin->has_user) {
        return gr_fail(err, GR_ERR_USAGE,
                       "%s is no address, expected http://host or https://host without user and password",
                       strpbrk(q->url, "@?") == NULL ? q->url : "the given URL");
    }
    if (q->token != NULL && (*q->token == '\0' || !gr_http_printable(q->token))) {
        return gr_fail(err, GR_ERR_USAGE, "the token must be printable ASCII without blanks");
    }
    for (const char *const *at = q->headers; at != NULL && *at != NULL; at++) {
        if (strpbrk(*at, "\r\n") != NULL) {
            return gr_fail(err, GR_ERR_USAGE, "a header has a line break in it");
        }
    }
    return GR_OK;
}

enum gr_status gr_http_send(struct gr_http *h, const struct gr_http_request *request, struct gr_http_reply *reply,
                            struct gr_err *err)
{
    struct gr_transfer x = {.h = h,
                            .unix_path = h->unix_path,
                            .cancel = h->cancel,
                            .request = request,
                            .reply = reply,
                            .err = err,
                            .start_ms = gr_clock_ms()};
    *reply = (struct gr_http_reply){0};
    GR_TRY(check_request(request, &x.origin, err));
    x.here = x.origin;
    reply->url = strdup(request->url);
    gr_buf_puts(&reply->body, "");
    if (reply->url == NULL || reply->body.failed) {
        return no_memory(err);
    }
    enum gr_status status = follow(&x);
    reply->wall_ms = gr_clock_ms() - x.start_ms;
    free(x.next);
    gr_buf_free(&x.head);
    return status;
}

/* ---- the handle ---- */

static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

enum gr_status gr_http_open(const struct gr_http_config *cfg, struct gr_http **out, struct gr_err *err)
{
    if (pthread_once(&curl_once, start_curl) != 0 || curl_state != CURLE_OK) {
        return gr_fail(err, GR_ERR_DEVICE, "the HTTP library does not start: %s", curl_easy_strerror(curl_state));
    }
    if (cfg->ca_file != NULL) {
        GR_TRY(gr_fs_need_file(cfg->ca_file, GR_ERR_IO, err));
    }
    struct gr_http *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return no_memory(err);
    }
    h->any_name = cfg->any_name;
    h->proxies = cfg->proxies;
    h->cancel = cfg->cancel;
    h->connect_s = cfg->connect_s > 0.0 ? cfg->connect_s : CONNECT_S;
    h->stall_s = cfg->stall_s > 0.0 ? cfg->stall_s : STALL_S;
    h->slow_s = cfg->slow_s;
    h->easy = curl_easy_init();
    h->multi = curl_multi_init();
    if (h->easy == NULL || h->multi == NULL || !copy(&h->unix_path, cfg->unix_path) ||
        !copy(&h->ca_file, cfg->ca_file)) {
        gr_http_close(h);
        return no_memory(err);
    }
    *out = h;
    return GR_OK;
}

void gr_http_close(struct gr_http *h)
{
    if (h == NULL) {
        return;
    }
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
    free(h->unix_path);
    free(h->ca_file);
    free(h);
}
