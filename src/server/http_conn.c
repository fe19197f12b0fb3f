/* SPDX-License-Identifier: Apache-2.0
 *
 * http_conn.c: connections: accepting and refusing them, their time limits, their memory while they are idle, and reading on after a
 * refusal. libmicrohttpd's own time limit sees silence only, so a client that sends a byte a second would stay for ever.
 *
 * The sweep looks at a few connections at a time, so that thousands of them never stop the loop for long. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http_conn.h"

enum {
    ACCEPTS_A_TURN = 16,
    SEND_BUFFER_BYTES = 64 << 10,
    SWEEP_BATCH = 256,
    LINGER_QUIET_MS = 2000, /* a refused client that says nothing for so long has stopped */
    LINGER_READS = 16,
    EXPIRED_GRACE_MS = 2000, /* from the 408 to the end of the socket */
    TRIM_AFTER_MS = 1000,
    FAT_MAX = 256, /* with more connections than this holding memory, the sweep hurries */
    TRIM_SOON_MS = 20,
    HURRY_BATCH = 64,
    HURRY_MS = 5
};

void gr_httpd_warn(struct gr_httpd *http, const char *text)
{
    const double now = gr_clock_ms();
    if (http->cfg.on.on_warning != NULL && now - http->warned_ms > 10000) { /* a flood must not fill the log */
        http->warned_ms = now;
        http->cfg.on.on_warning(http->cfg.on.user, text);
    }
}

/* ---- records ---- */

/* Bytes the kernel has received on this connection so far; 0 when it does not say (Unix sockets). */
uint64_t gr_httpd_received(const struct gr_httpd *http, int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (!http->tcp || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 ||
        n < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) {
        return 0;
    }
    return info.tcpi_bytes_received;
}

void gr_httpd_phase(struct gr_httpd_conn *conn, enum gr_httpd_phase phase)
{
    conn->phase = phase;
    conn->since_ms = gr_clock_ms();
    conn->head_ms = 0;
}

static void name_peer(struct gr_httpd_conn *conn, const struct sockaddr_storage *addr)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (addr->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)addr;
        (void)inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        (void)snprintf(conn->peer, sizeof conn->peer, "%s:%d", text, ntohs(in->sin_port));
    } else if (addr->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)addr;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
        (void)snprintf(conn->peer, sizeof conn->peer, "[%s]:%d", text, ntohs(in->sin6_port));
    } else {
        (void)snprintf(conn->peer, sizeof conn->peer, "unix");
    }
}

static void unlink_conn(struct gr_httpd_conn *conn)
{
    conn->prev->next = conn->next;
    conn->next->prev = conn->prev;
}

static void append_conn(struct gr_httpd *http, struct gr_httpd_conn *conn)
{
    conn->prev = http->ring.prev;
    conn->next = &http->ring;
    conn->prev->next = conn;
    http->ring.prev = conn;
}

static void add(struct gr_httpd *http, int fd, const struct sockaddr_storage *addr, socklen_t addr_n)
{
    struct gr_httpd_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        (void)close(fd);
        return;
    }
    conn->fd = fd;
    gr_httpd_phase(conn, GR_HTTPD_IDLE);
    name_peer(conn, addr);
    if (http->tcp) {
        const int on = 1;
        const int send_bytes = SEND_BUFFER_BYTES; /* left alone it grows to megabytes for a client that does not read */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    }
    http->adding = conn;
    /* Closes fd when it fails, after or without gr_httpd_notify. */
    (void)MHD_add_connection(http->mhd, fd, (const struct sockaddr *)addr, addr_n);
    free(http->adding); /* the library did not even ask for it */
    http->adding = NULL;
}

/* ---- lingering ---- */

static void linger_close(struct gr_httpd *http, int slot)
{
    (void)close(http->linger[slot].fd); /* also leaves epoll: it is the only descriptor of the socket by now */
    http->linger[slot].fd = -1;
    http->n_linger--;
}

/* Reads on from a refused client. Takes fd. */
static void linger_add(struct gr_httpd *http, int fd)
{
    int slot = 0;
    for (int i = 0; i < GR_HTTPD_LINGER; i++) {
        if (http->linger[i].fd < 0) {
            slot = i;
            break;
        }
        if (http->linger[i].end_ms < http->linger[slot].end_ms) {
            slot = i; /* all taken: the oldest has had its time */
        }
    }
    if (http->linger[slot].fd >= 0) {
        linger_close(http, slot);
    }
    const double now = gr_clock_ms();
    http->linger[slot] = (struct gr_httpd_linger){
        .fd = fd, .end_ms = now + http->cfg.limits.body_s * 1000, .quiet_ms = now + LINGER_QUIET_MS};
    http->n_linger++;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(GR_HTTPD_SRC_LINGER + slot)};
    (void)shutdown(fd, SHUT_WR);
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        linger_close(http, slot);
    }
}

/* n < 0 with errno, 0 at the end, as recv. */
static ssize_t discard(const struct gr_httpd *http, int fd)
{
    if (http->tcp) { /* TCP drops the bytes without copying them (tcp(7), MSG_TRUNC) */
        return recv(fd, NULL, (size_t)1 << 20, MSG_DONTWAIT | MSG_TRUNC);
    }
    char sink[16 * 1024];
    return recv(fd, sink, sizeof sink, MSG_DONTWAIT);
}

void gr_httpd_linger_read(struct gr_httpd *http, int slot, double now)
{
    struct gr_httpd_linger *l = &http->linger[slot];
    for (int i = 0; i < LINGER_READS && l->fd >= 0; i++) {
        const ssize_t n = discard(http, l->fd);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            linger_close(http, slot);
        } else if (n < 0) {
            return;
        }
        l->quiet_ms = now + LINGER_QUIET_MS;
    }
}

void gr_httpd_linger_end(struct gr_httpd *http)
{
    for (int i = 0; i < GR_HTTPD_LINGER; i++) {
        if (http->linger[i].fd >= 0) {
            linger_close(http, i);
        }
    }
}

/* The library closes the socket next. What the client still sends, or has sent and nobody read, would then reset the connection. */
static void linger_when_needed(struct gr_httpd *http, const struct gr_httpd_conn *conn)
{
    if (atomic_load(&http->stopping)) {
        return;
    }
    const ssize_t n = discard(http, conn->fd);
    if (n == 0 || (n < 0 && errno != EAGAIN) || (n < 0 && (conn->finished || conn->expired))) {
        return;
    }
    const int fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) {
        linger_add(http, fd);
    }
}

void gr_httpd_notify(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_ConnectionNotificationCode code)
{
    struct gr_httpd *http = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct gr_httpd_conn *conn = http->adding;
        http->adding = NULL;
        conn->mhd = c;
        append_conn(http, conn);
        atomic_fetch_add(&http->connections, 1);
        *ctx = conn;
        return;
    }
    struct gr_httpd_conn *conn = *ctx;
    linger_when_needed(http, conn);
    http->fat -= conn->fat ? 1 : 0;
    unlink_conn(conn);
    atomic_fetch_sub(&http->connections, 1);
    free(conn);
}

/* ---- ending ---- */

static void end(struct gr_httpd_conn *conn)
{
    conn->expired = true;
    (void)shutdown(conn->fd, SHUT_RDWR); /* the library sees the end of the stream and cleans up */
}

/* Between requests, and nothing on the way. */
static bool waits_for_nothing(const struct gr_httpd *http, const struct gr_httpd_conn *c)
{
    int unread = 0;
    return c->phase == GR_HTTPD_IDLE && !c->expired && c->head_ms == 0 &&
           gr_httpd_received(http, c->fd) <= c->base_bytes && (ioctl(c->fd, SIOCINQ, &unread) != 0 || unread == 0);
}

/* ---- accepting ---- */

static void refuse_client(struct gr_httpd *http, int fd)
{
    const struct gr_httpd_refusal why = {503, "busy", "too many connections, try again later"};
    gr_httpd_warn(http, "too many connections: new clients are refused");
    if (gr_httpd_refuse_raw(http, fd, &why)) {
        linger_add(http, fd);
    } else {
        (void)close(fd);
    }
}

/* No descriptor is left: without one the client would stay in the queue and wake us for ever. The spare one is given up for a moment, so that
 * the client can be accepted and sent away. */
static bool refuse_without_descriptors(struct gr_httpd *http)
{
    const struct gr_httpd_refusal why = {503, "busy", "too many connections, try again later"};
    int fd = -1;
    gr_httpd_warn(http, "no file descriptors left: new clients are refused");
    if (http->spare_fd >= 0) {
        (void)close(http->spare_fd);
        fd = accept4(http->cfg.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            (void)gr_httpd_refuse_raw(http, fd, &why);
            (void)shutdown(fd, SHUT_WR);
            (void)discard(http, fd);
            (void)close(fd);
        }
    }
    http->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

/* Ends the connection that has been silent for longest, so that leaked ones do not lock out who has something to ask, health probes
 * first. */
static void make_room(struct gr_httpd *http)
{
    struct gr_httpd_conn *oldest = NULL;
    for (struct gr_httpd_conn *c = http->ring.next; c != &http->ring; c = c->next) {
        if (waits_for_nothing(http, c) && (oldest == NULL || c->since_ms < oldest->since_ms)) {
            oldest = c;
        }
    }
    if (oldest != NULL) {
        end(oldest);
        (void)MHD_run(http->mhd); /* takes it off the list */
    }
}

static void pause_accepting(struct gr_httpd *http)
{
    (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, http->cfg.listen_fd, NULL);
    http->accept_again_ms = gr_clock_ms() + 100;
}

/* Takes what waits, a bounded number a turn. */
void gr_httpd_accept(struct gr_httpd *http)
{
    for (int i = 0; i < ACCEPTS_A_TURN && http->listening; i++) {
        struct sockaddr_storage addr = {0};
        socklen_t addr_n = sizeof addr;
        const int fd = accept4(http->cfg.listen_fd, (struct sockaddr *)&addr, &addr_n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (addr_n < sizeof(sa_family_t)) {
                addr_n = sizeof(sa_family_t); /* an unnamed Unix client */
            }
            if (atomic_load(&http->connections) >= http->cfg.limits.connections) {
                make_room(http);
            }
            if (atomic_load(&http->connections) < http->cfg.limits.connections) {
                add(http, fd, &addr, addr_n);
            } else {
                refuse_client(http, fd);
            }
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!refuse_without_descriptors(http)) {
                pause_accepting(http);
                return;
            }
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
            gr_httpd_warn(http, "the system accepts no connection now");
            pause_accepting(http);
            return;
        }
    }
}

/* ---- memory of idle connections ---- */

/* The method is the first text of a request, and the library's buffer begins with it when nothing stood before it. Only a whole mapping starts at
 * a page, so an address inside one is never taken for its start unless the text lies there by chance; gr_httpd.pool_bytes is 0 for
 * versions of the library whose layout was not looked at. */
void gr_httpd_learn_pool(struct gr_httpd_conn *conn, struct gr_httpd *http, const char *first_byte)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (conn->pool == NULL && http->pool_bytes > 0 && (uintptr_t)first_byte % page == 0) {
        conn->pool = (char *)(uintptr_t)first_byte;
        (void)madvise(conn->pool, http->pool_bytes, MADV_NOHUGEPAGE);
    }
    if (conn->pool != NULL && !conn->fat) {
        conn->fat = true;
        http->fat++;
    }
}

static bool all_zero(const char *p, size_t n) { return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0; }

/* After each request the library fills its 40 KiB with zeros, which costs 80 MB for 2,000 idle clients. A page of zeros that is given
 * back reads as zeros again, so nobody can tell the difference. */
static void trim(struct gr_httpd *http, struct gr_httpd_conn *conn)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0, zeros = 0; at <= http->pool_bytes; at += page) {
        if (at < http->pool_bytes && all_zero(conn->pool + at, page)) {
            zeros += page;
        } else if (zeros > 0) {
            (void)madvise(conn->pool + at - zeros, zeros, MADV_DONTNEED);
            zeros = 0;
        }
    }
    conn->fat = false;
    http->fat--;
}

/* ---- time limits ---- */

/* The library misses an end that arrives together with the last bytes: one edge of epoll for both, and it stops reading at a short read. */
static bool client_ended(const struct gr_httpd_conn *conn)
{
    struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};
    int unread = 0;
    return poll(&p, 1, 0) == 1 && (ioctl(conn->fd, SIOCINQ, &unread) != 0 || unread == 0);
}

static void check_idle(struct gr_httpd *http, struct gr_httpd_conn *conn, double now)
{
    const struct gr_httpd_limits *l = &http->cfg.limits;
    const uint64_t bytes = gr_httpd_received(http, conn->fd);
    if (conn->head_ms == 0 && bytes > conn->base_bytes) {
        conn->head_ms = now;
    }
    const bool late =
        conn->head_ms > 0 ? now - conn->head_ms > l->head_s * 1000 : now - conn->since_ms > l->idle_s * 1000;
    if (late || client_ended(conn)) {
        end(conn);
    } else if (conn->fat && now - conn->since_ms > (http->fat > FAT_MAX ? TRIM_SOON_MS : TRIM_AFTER_MS)) {
        trim(http, conn);
    }
}

static void check_body(struct gr_httpd *http, struct gr_httpd_conn *conn, double now)
{
    const struct gr_httpd_refusal why = {408, "request_timeout", "the body did not arrive in time"};
    const double late = now - conn->since_ms - http->cfg.limits.body_s * 1000;
    if (late > 0 && !conn->expired) {
        conn->expired = true; /* whatever comes now ends it */
        const bool told = gr_httpd_refuse_raw(http, conn->fd, &why);
        (void)shutdown(conn->fd, told ? SHUT_WR : SHUT_RDWR);
        if (told && conn->request != NULL) {
            conn->request->sent_raw = true;
        }
    } else if (late > EXPIRED_GRACE_MS || client_ended(conn)) {
        end(conn);
    }
}

static void check(struct gr_httpd *http, struct gr_httpd_conn *conn, double now)
{
    switch (conn->phase) {
    case GR_HTTPD_IDLE:
        check_idle(http, conn, now);
        break;
    case GR_HTTPD_BODY:
        check_body(http, conn, now);
        break;
    case GR_HTTPD_SEND: /* the client does not read its reply */
        if (now - conn->since_ms > http->cfg.limits.body_s * 1000) {
            end(conn);
        }
        break;
    case GR_HTTPD_KEPT:
        break;
    }
}

/* Closes the connections that wait for nothing. One with bytes on the way gets its reply first. */
void gr_httpd_close_idle(struct gr_httpd *http)
{
    for (struct gr_httpd_conn *c = http->ring.next; c != &http->ring; c = c->next) {
        if (waits_for_nothing(http, c)) {
            end(c);
        }
    }
}

void gr_httpd_sweep(struct gr_httpd *http, double now)
{
    if (http->accept_again_ms > 0 && now >= http->accept_again_ms) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = GR_HTTPD_SRC_LISTEN};
        http->accept_again_ms = 0;
        if (http->listening) {
            (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, http->cfg.listen_fd, &event);
        }
    }
    if (now < http->next_sweep_ms) {
        return;
    }
    const int all = atomic_load(&http->connections), most = http->fat > FAT_MAX ? HURRY_BATCH : SWEEP_BATCH;
    const int n = all < most ? all : most;
    for (int i = 0; i < n; i++) {
        struct gr_httpd_conn *conn = http->ring.next;
        unlink_conn(conn);
        append_conn(http, conn);
        check(http, conn, now);
    }
    for (int i = 0; i < GR_HTTPD_LINGER && http->n_linger > 0; i++) {
        if (http->linger[i].fd >= 0 && (now > http->linger[i].end_ms || now > http->linger[i].quiet_ms)) {
            linger_close(http, i);
        }
    }
    if (http->drain_seen) {
        gr_httpd_close_idle(http);
    }
    http->next_sweep_ms =
        now + (http->fat > FAT_MAX ? HURRY_MS : http->sweep_ms * (all > SWEEP_BATCH ? (double)SWEEP_BATCH / all : 1));
}
