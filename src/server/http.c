/* SPDX-License-Identifier: Apache-2.0
 *
 * http.c: start, loop, drain and end of the HTTP server, and the small questions about a request. One thread runs everything:
 * libmicrohttpd in external polling mode, the listening socket, the ready list of other threads' replies, and the sweep of http_conn.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "server/http_conn.h"

enum {
    /* Above 32 KiB the library maps a connection's memory, so that untouched pages cost nothing and idle ones can be given back
     * (http_conn.c). 40 KiB take a head of 16 KiB with some 300 headers. */
    POOL_BYTES = 40 * 1024,
    EVENTS = 64,
    SWEEP_MS_MIN = 20,
    SWEEP_MS_MAX = 500,
    SPINS_MAX = 100
};

/* ---- the loop ---- */

static void take_replies(struct gr_httpd *http)
{
    (void)pthread_mutex_lock(&http->lock);
    struct gr_httpd_request *r = http->ready_first;
    http->ready_first = http->ready_last = NULL;
    (void)pthread_mutex_unlock(&http->lock);
    while (r != NULL) {
        struct gr_httpd_request *next = r->next_ready;
        if (r->kept) {
            MHD_resume_connection(r->mhd); /* the handler is called again and finds the response */
        }
        r = next;
    }
}

/* What waits to be accepted was there before the end was announced and is still served. */
static void begin_drain(struct gr_httpd *http)
{
    if (http->drain_seen || !atomic_load(&http->draining)) {
        return;
    }
    for (int i = 0; i < 256; i++) {
        struct pollfd p = {.fd = http->cfg.listen_fd, .events = POLLIN};
        if (poll(&p, 1, 0) != 1 || (p.revents & POLLIN) == 0) {
            break;
        }
        gr_httpd_accept(http);
    }
    http->drain_seen = true;
    http->listening = false;
    (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, http->cfg.listen_fd, NULL);
    if (!http->cfg.inherited) {
        (void)shutdown(http->cfg.listen_fd, SHUT_RDWR);
    }
    gr_httpd_close_idle(http);
    (void)pthread_mutex_lock(&http->lock);
    http->drained = true;
    (void)pthread_cond_broadcast(&http->changed);
    (void)pthread_mutex_unlock(&http->lock);
}

static void serve_event(struct gr_httpd *http, uint64_t source, double now)
{
    uint64_t count;
    switch (source) {
    case GR_HTTPD_SRC_MHD:
        break; /* MHD_run looks itself */
    case GR_HTTPD_SRC_WAKE:
        (void)!read(http->wake_fd, &count, sizeof count);
        break;
    case GR_HTTPD_SRC_LISTEN:
        gr_httpd_accept(http);
        break;
    default:
        if (http->linger[source - GR_HTTPD_SRC_LINGER].fd >= 0) {
            gr_httpd_linger_read(http, (int)(source - GR_HTTPD_SRC_LINGER), now);
        }
        break;
    }
}

/* Milliseconds until something is due. The library says "at once" for ever when a client sends a chunk header that never ends: then
 * it is asked every millisecond, until the body's time limit ends that client. */
static int wait_ms(struct gr_httpd *http, int spins)
{
    MHD_UNSIGNED_LONG_LONG busy = 0;
    if (MHD_get_timeout(http->mhd, &busy) == MHD_YES && busy == 0) {
        return spins < SPINS_MAX ? 0 : 1;
    }
    double left = http->next_sweep_ms;
    if (http->accept_again_ms > 0 && http->accept_again_ms < left) {
        left = http->accept_again_ms;
    }
    left -= gr_clock_ms();
    return left < 0 ? 0 : (int)left + 1;
}

static void end_library(struct gr_httpd *http)
{
    take_replies(http);
    (void)MHD_run(http->mhd);
    /* A request that is still kept breaks the contract, and the library would abort the process: end it without a reply. */
    for (struct gr_httpd_conn *c = http->ring.next; c != &http->ring; c = c->next) {
        if (c->phase == GR_HTTPD_KEPT) {
            c->expired = true;
            MHD_resume_connection(c->mhd);
        }
    }
    (void)MHD_run(http->mhd);
    MHD_stop_daemon(http->mhd);
    http->mhd = NULL;
    gr_httpd_linger_end(http);
}

static void *loop(void *arg)
{
    struct gr_httpd *http = arg;
    int spins = 0;
    while (!atomic_load(&http->stopping)) {
        struct epoll_event events[EVENTS];
        const int n = epoll_wait(http->epoll_fd, events, EVENTS, wait_ms(http, spins));
        const double now = gr_clock_ms();
        spins = n > 0 ? 0 : spins + 1;
        for (int i = 0; i < n; i++) {
            serve_event(http, events[i].data.u64, now);
        }
        begin_drain(http);
        take_replies(http);
        (void)MHD_run(http->mhd);
        gr_httpd_sweep(http, now);
    }
    end_library(http);
    return NULL;
}

/* ---- start ---- */

/* The library has no callback for its own refusals but this one. Those for a bad Content-Length or a missing Host go out with their head
 * twice (0.9.75), and all are HTML. A connection in that state is the only one with a head size and no call of our handler yet: we write the
 * refusal and close the sending side, so that the library's own finds no way out. */
static void refuse_for_library(struct gr_httpd *http, unsigned status)
{
    struct gr_httpd_refusal why = {(int)status, "bad_request",
                                   "Host is missing or Content-Length is no number of bytes"};
    if (status == 413) {
        why = (struct gr_httpd_refusal){413, "body_too_large", "the body is larger than the limit"};
    } else if (status == 431) {
        why = (struct gr_httpd_refusal){431, "head_too_large", "request line and headers are larger than the limit"};
    }
    for (struct gr_httpd_conn *c = http->ring.next; c != &http->ring; c = c->next) {
        if (c->in_head && MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != NULL) {
            c->in_head = false;
            (void)shutdown(c->fd, gr_httpd_refuse_raw(http, c->fd, &why) ? SHUT_WR : SHUT_RDWR);
            return;
        }
    }
}

static void hear_log(void *cls, const char *fmt, va_list ap)
{
    struct gr_httpd *http = cls;
    const char *status = strstr(fmt, "%u ('%s')");
    if (status != NULL && status == strchr(fmt, '%')) { /* its first value, or we would read another one */
        refuse_for_library(http, va_arg(ap, unsigned));
    } else if (http->start_log[0] == '\0') { /* the first is the cause; later ones tell of clients */
        (void)vsnprintf(http->start_log, sizeof http->start_log, fmt, ap);
        http->start_log[strcspn(http->start_log, "\n")] = '\0';
    }
}

/* A request line is complete. What is returned becomes the context of the first call of the handler. */
static void *hear_uri(void *cls, const char *uri, struct MHD_Connection *c)
{
    (void)cls;
    (void)uri;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    ((struct gr_httpd_conn *)info->socket_context)->in_head = true;
    return NULL;
}

static size_t pool_bytes(const struct gr_httpd_limits *limits)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 head = limits->head_bytes < (1u << 24) ? limits->head_bytes : 1u << 24;
    const size_t bytes = head * 2 + 8192 > POOL_BYTES ? head * 2 + 8192 : POOL_BYTES;
    return (bytes + page - 1) / page * page;
}

static enum gr_status start_library(struct gr_httpd *http, struct gr_err *err)
{
    const size_t pool = pool_bytes(&http->cfg.limits);
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)http->cfg.tls_cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)http->cfg.tls_key},
                                   {MHD_OPTION_END, 0, NULL}};
    if (http->tls) {
        if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
            return gr_fail(err, GR_ERR_USAGE, "TLS: libmicrohttpd on this machine was built without it");
        }
        flags |= MHD_USE_TLS;
    }
    http->mhd =
        MHD_start_daemon(flags, 0, NULL, NULL, gr_httpd_handle, http, MHD_OPTION_EXTERNAL_LOGGER, hear_log, http,
                         MHD_OPTION_URI_LOG_CALLBACK, hear_uri, http, MHD_OPTION_NOTIFY_COMPLETED, gr_httpd_completed,
                         http, MHD_OPTION_NOTIFY_CONNECTION, gr_httpd_notify, http, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)http->cfg.limits.connections + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool,
                         MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, http->tls ? tls : &tls[2], MHD_OPTION_END);
    if (http->mhd == NULL) {
        return http->tls ? gr_fail(err, GR_ERR_USAGE, "TLS certificate or key cannot be used: %s", http->start_log)
                         : gr_fail(err, GR_ERR_DEVICE, "HTTP cannot start: %s", http->start_log);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, "HTTP cannot start: libmicrohttpd has no epoll");
    }
    http->mhd_fd = info->epoll_fd;
    /* Layout of the pool as read in these versions; others work, with more memory per idle client. */
    http->pool_bytes = strcmp(MHD_get_version(), "0.9.75") == 0 ? pool : 0;
    return GR_OK;
}

static bool watch(struct gr_httpd *http, int fd, uint64_t source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = source};
    return epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static enum gr_status start_loop(struct gr_httpd *http, struct gr_err *err)
{
    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    http->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int flags = fcntl(http->cfg.listen_fd, F_GETFL);
    if (http->epoll_fd < 0 || http->wake_fd < 0 || flags < 0 ||
        fcntl(http->cfg.listen_fd, F_SETFL, flags | O_NONBLOCK) != 0 || !watch(http, http->mhd_fd, GR_HTTPD_SRC_MHD) ||
        !watch(http, http->wake_fd, GR_HTTPD_SRC_WAKE) || !watch(http, http->cfg.listen_fd, GR_HTTPD_SRC_LISTEN)) {
        return gr_fail_errno(err, GR_ERR_DEVICE, errno, "HTTP cannot start");
    }
    http->listening = true;
    const int failed = gr_thread_start(&http->thread, loop, http);
    return failed == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_DEVICE, failed, "HTTP cannot start its thread");
}

static double sweep_ms(const struct gr_httpd_limits *l)
{
    double s = l->head_s < l->body_s ? l->head_s : l->body_s;
    s = (l->idle_s < s ? l->idle_s : s) * 1000 / 4;
    return s < SWEEP_MS_MIN ? SWEEP_MS_MIN : s > SWEEP_MS_MAX ? SWEEP_MS_MAX : s;
}

static void discard_server(struct gr_httpd *http)
{
    if (http->mhd != NULL) {
        MHD_stop_daemon(http->mhd);
    }
    const int fds[] = {http->epoll_fd, http->wake_fd, http->spare_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    (void)pthread_cond_destroy(&http->changed);
    (void)pthread_mutex_destroy(&http->lock);
    free(http);
}

enum gr_status gr_httpd_start(const struct gr_httpd_config *cfg, struct gr_httpd **out, struct gr_err *err)
{
    struct gr_httpd *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "HTTP cannot start: no memory");
    }
    http->cfg = *cfg;
    http->tls = cfg->tls_cert != NULL || cfg->tls_key != NULL;
    http->tcp = !cfg->unix_socket;
    http->epoll_fd = http->wake_fd = http->spare_fd = -1;
    http->ring.prev = http->ring.next = &http->ring;
    http->warned_ms = -1e9;
    http->sweep_ms = sweep_ms(&cfg->limits);
    http->next_sweep_ms = gr_clock_ms() + http->sweep_ms;
    for (int i = 0; i < GR_HTTPD_LINGER; i++) {
        http->linger[i].fd = -1;
    }
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&http->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&http->lock, NULL);
    enum gr_status status = start_library(http, err);
    if (status == GR_OK) {
        status = start_loop(http, err);
    }
    if (status != GR_OK) {
        discard_server(http);
        return status;
    }
    *out = http;
    return GR_OK;
}

enum gr_status gr_httpd_check_tls(const char *cert, const char *key, struct gr_err *err)
{
    struct gr_httpd *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "TLS: no memory");
    }
    http->cfg = (struct gr_httpd_config){.tls_cert = cert, .tls_key = key, .limits = {.connections = 1}};
    http->tls = true;
    enum gr_status status = start_library(http, err); /* nothing listens: it only reads the two */
    if (http->mhd != NULL) {
        MHD_stop_daemon(http->mhd);
    }
    free(http);
    return status;
}

/* ---- drain and end ---- */

static void wake(struct gr_httpd *http)
{
    const uint64_t one = 1;
    (void)!write(http->wake_fd, &one, sizeof one);
}

void gr_httpd_drain(struct gr_httpd *http)
{
    atomic_store(&http->draining, true);
    wake(http);
    if (pthread_equal(pthread_self(), http->thread)) {
        return; /* in a callback: this thread comes to it right after */
    }
    (void)pthread_mutex_lock(&http->lock);
    while (!http->drained) {
        (void)pthread_cond_wait(&http->changed, &http->lock);
    }
    (void)pthread_mutex_unlock(&http->lock);
}

bool gr_httpd_wait_idle(struct gr_httpd *http, double timeout_ms)
{
    const struct timespec end = gr_clock_after(timeout_ms);
    (void)pthread_mutex_lock(&http->lock);
    while (atomic_load(&http->open_requests) > 0 &&
           pthread_cond_timedwait(&http->changed, &http->lock, &end) != ETIMEDOUT) {
    }
    const bool idle = atomic_load(&http->open_requests) == 0;
    (void)pthread_mutex_unlock(&http->lock);
    return idle;
}

int gr_httpd_open_requests(const struct gr_httpd *http) { return atomic_load(&http->open_requests); }

int gr_httpd_connections(const struct gr_httpd *http) { return atomic_load(&http->connections); }

void gr_httpd_free(struct gr_httpd *http)
{
    if (http == NULL) {
        return;
    }
    atomic_store(&http->stopping, true);
    wake(http);
    (void)pthread_join(http->thread, NULL);
    discard_server(http);
}

/* ---- a request ---- */

enum gr_httpd_method gr_httpd_method(const struct gr_httpd_request *r) { return r->method; }

const char *gr_httpd_method_name(const struct gr_httpd_request *r) { return r->method_name; }

const char *gr_httpd_path(const struct gr_httpd_request *r) { return r->path; }

const char *gr_httpd_header(const struct gr_httpd_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

const char *gr_httpd_body(const struct gr_httpd_request *r, size_t *n)
{
    *n = r->body_len;
    return r->body != NULL ? r->body : "";
}

void gr_httpd_release_body(struct gr_httpd_request *r)
{
    free(r->body);
    atomic_fetch_sub(&r->http->bodies, r->body_cap);
    r->body = NULL;
    r->body_len = r->body_cap = 0;
}

double gr_httpd_arrived_ms(const struct gr_httpd_request *r) { return r->arrived_ms; }

const char *gr_httpd_peer(const struct gr_httpd_request *r) { return r->conn->peer; }

void gr_httpd_set_user(struct gr_httpd_request *r, void *user) { r->user = user; }

void *gr_httpd_user(const struct gr_httpd_request *r) { return r->user; }

/* The library leaves a suspended connection's socket alone, so it can be asked from any thread. RDHUP is seen even when unread bytes
 * (a next request, TLS's farewell) stand before the end. */
bool gr_httpd_gone(const struct gr_httpd_request *r)
{
    struct pollfd p = {.fd = r->conn->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}
