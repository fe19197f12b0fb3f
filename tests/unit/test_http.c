/* SPDX-License-Identifier: Apache-2.0
 *
 * test_http.c: a real server on a free port of loopback, a small handler, and clients that behave badly on raw sockets. The handler answers
 * GET at once, POST /echo from another thread, POST /hold when the test says so. SIGPIPE stays at its default: a write to a vanished client
 * would end this program. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gr_test.h"
#include "server/http.h"
#include "server/listen.h"

/* HANG_S: nothing here takes so long, however busy the machine is; what a test waits for in vain ends then. The limits of the server are
 * far longer where a test is not about them, so that what comes within HANG_S does not come from them. */
enum { REPLY_MAX = 64 * 1024, MB = 1024 * 1024, HANG_S = GR_TEST_HANG_MS / 1000, LONG_S = 600 };

static struct server {
    struct gr_httpd *http;
    struct gr_listener listener;
    atomic_int heads, ends, sent, refused, warnings;
    _Atomic(struct gr_httpd_request *) held;
    char unix_path[100];
} sv;

/* ---- the handler ---- */

static void answer(struct gr_httpd_request *r, int status, const char *text)
{
    struct gr_buf body = {0};
    gr_buf_puts(&body, text);
    const struct gr_httpd_header headers[] = {{"X-Test", "a\r\nSet-Cookie: b"}, {"Bad Name", "c"}};
    const struct gr_httpd_reply reply = {
        .status = status, .content_type = "text/plain", .headers = headers, .n_headers = 2};
    gr_httpd_reply(r, &reply, &body);
    assert_null(body.data);
}

static void *answer_later(void *arg)
{
    struct gr_httpd_request *r = arg;
    size_t n = 0;
    const char *body = gr_httpd_body(r, &n);
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum = sum * 31 + (unsigned char)body[i];
    }
    char text[64];
    (void)snprintf(text, sizeof text, "%zu %u", n, sum);
    gr_httpd_release_body(r);
    answer(r, 200, text);
    return NULL;
}

static void on_head(void *user, struct gr_httpd_request *r)
{
    assert_ptr_equal(user, &sv);
    atomic_fetch_add(&sv.heads, 1);
    const char *path = gr_httpd_path(r);
    const bool post = gr_httpd_method(r) == GR_HTTPD_POST;
    if (post && (strcmp(path, "/echo") == 0 || strcmp(path, "/hold") == 0 || strcmp(path, "/now") == 0)) {
        return;
    }
    if (strcmp(path, "/big") == 0) {
        struct gr_buf body = {0};
        char line[1024];
        memset(line, 'z', sizeof line);
        for (int i = 0; i < 32 * 1024; i++) {
            gr_buf_put(&body, line, sizeof line);
        }
        gr_httpd_reply(r, &(struct gr_httpd_reply){.status = 200, .content_type = "text/plain"}, &body);
        return;
    }
    if (gr_httpd_method(r) == GR_HTTPD_OPTIONS) {
        gr_httpd_reply(r, &(struct gr_httpd_reply){.status = 204}, NULL);
        return;
    }
    answer(r, post ? 405 : strncmp(path, "/ok", 3) == 0 ? 200 : 404, path);
}

static void on_body(void *user, struct gr_httpd_request *r)
{
    (void)user;
    pthread_t thread;
    if (strcmp(gr_httpd_path(r), "/hold") == 0) {
        atomic_store(&sv.held, r);
    } else if (strcmp(gr_httpd_path(r), "/now") == 0) {
        size_t n = 0;
        answer(r, 200, gr_httpd_body(r, &n));
    } else if (pthread_create(&thread, NULL, answer_later, r) == 0) {
        (void)pthread_detach(thread);
    }
}

static void on_end(void *user, struct gr_httpd_request *r, bool sent)
{
    (void)user;
    (void)r;
    atomic_fetch_add(&sv.sent, sent ? 1 : 0);
    atomic_fetch_add(&sv.ends, 1);
}

static void on_refused(void *user, int status, const char *why)
{
    (void)user;
    (void)status;
    (void)why;
    atomic_fetch_add(&sv.refused, 1);
}

static void on_warning(void *user, const char *text)
{
    (void)user;
    (void)text;
    atomic_fetch_add(&sv.warnings, 1);
}

/* ---- the server ---- */

static const struct gr_httpd_limits limits = {.connections = 100,
                                              .head_bytes = 16 * 1024,
                                              .body_bytes = 4 * MB,
                                              .bodies_bytes = 6 * MB,
                                              .head_s = LONG_S,
                                              .body_s = LONG_S,
                                              .idle_s = LONG_S};

static void start_on(const struct gr_httpd_limits *l, const struct gr_listen_config *where)
{
    struct gr_err err;
    atomic_store(&sv.heads, 0);
    atomic_store(&sv.ends, 0);
    atomic_store(&sv.sent, 0);
    atomic_store(&sv.refused, 0);
    atomic_store(&sv.warnings, 0);
    atomic_store(&sv.held, NULL);
    gr_test_ok(gr_listen(where, false, &sv.listener, &err), &err);
    const struct gr_httpd_config cfg = {.listen_fd = sv.listener.fd,
                                        .unix_socket = sv.listener.is_unix,
                                        .inherited = sv.listener.inherited,
                                        .limits = *l,
                                        .on = {on_head, on_body, on_end, on_refused, on_warning, &sv}};
    gr_test_ok(gr_httpd_start(&cfg, &sv.http, &err), &err);
}

static void start(const struct gr_httpd_limits *l) { start_on(l, &(struct gr_listen_config){.inherited_fd = -1}); }

static void stop(void)
{
    gr_httpd_drain(sv.http);
    assert_true(gr_httpd_wait_idle(sv.http, HANG_S * 1000));
    gr_httpd_free(sv.http);
    gr_listen_close(&sv.listener);
    assert_int_equal(atomic_load(&sv.heads), atomic_load(&sv.ends)); /* on_end once for each on_head */
}

static bool until(bool (*done)(void))
{
    gr_test_wait(done());
    return done();
}
static bool is_held(void) { return atomic_load(&sv.held) != NULL; }
static bool is_gone(void) { return gr_httpd_gone(atomic_load(&sv.held)); }
static bool all_ended(void) { return atomic_load(&sv.ends) == atomic_load(&sv.heads); }
static bool has_head(void) { return atomic_load(&sv.heads) > 0; }
static bool are_20(void) { return gr_httpd_connections(sv.http) == 20; }
static bool are_90(void) { return gr_httpd_connections(sv.http) == 90; }
static bool is_full(void) { return gr_httpd_connections(sv.http) == 100; }
static bool no_connection(void) { return gr_httpd_connections(sv.http) == 0; }

/* ---- clients ---- */

static int connect_fd(void)
{
    if (sv.listener.is_unix) {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        memcpy(un.sun_path, sv.unix_path, strlen(sv.unix_path) + 1);
        assert_int_equal(connect(fd, (const struct sockaddr *)&un, sizeof un), 0);
        return fd;
    }
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)sv.listener.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (const struct sockaddr *)&in, sizeof in) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void wait_at_most(int fd, double s)
{
    const struct timeval t = {.tv_sec = (time_t)s, .tv_usec = (suseconds_t)((s - (double)(time_t)s) * 1e6)};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), 0);
}

static int dial(void)
{
    const int fd = connect_fd();
    assert_true(fd >= 0);
    wait_at_most(fd, HANG_S);
    return fd;
}

static bool put(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Sends n bytes of c; false when the other side refused on the way. */
static bool put_many(int fd, size_t n, char c)
{
    char block[16384];
    memset(block, c, sizeof block);
    while (n > 0) {
        const ssize_t w = send(fd, block, n < sizeof block ? n : sizeof block, MSG_NOSIGNAL);
        if (w <= 0) {
            return false;
        }
        n -= (size_t)w;
    }
    return true;
}

/* Everything until the other side closes (0), resets (-1) or is silent (-2). */
static int read_all(int fd, char *out)
{
    size_t at = 0;
    for (;;) {
        const ssize_t n = recv(fd, out + at, REPLY_MAX - 1 - at, 0);
        out[at + (n > 0 ? (size_t)n : 0)] = '\0';
        if (n <= 0) {
            return n == 0 ? 0 : errno == EAGAIN ? -2 : -1;
        }
        at += (size_t)n;
        if (at + 1 >= REPLY_MAX) {
            return 0;
        }
    }
}

/* One reply with its body, by Content-Length. */
static void read_one(int fd, char *out)
{
    size_t at = 0;
    out[0] = '\0';
    while (at + 1 < REPLY_MAX) {
        const ssize_t n = recv(fd, out + at, 1, 0);
        if (n <= 0) {
            return;
        }
        out[++at] = '\0';
        if (at >= 4 && memcmp(out + at - 4, "\r\n\r\n", 4) == 0) {
            break;
        }
    }
    const char *length = strstr(out, "Content-Length: ");
    size_t left = length != NULL ? (size_t)strtoul(length + 16, NULL, 10) : 0;
    while (left > 0 && at + 1 < REPLY_MAX) {
        const ssize_t n = recv(fd, out + at, left < REPLY_MAX - 1 - at ? left : REPLY_MAX - 1 - at, 0);
        if (n <= 0) {
            return;
        }
        at += (size_t)n;
        left -= (size_t)n;
        out[at] = '\0';
    }
}

static int replies_in(const char *text)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, "HTTP/1.1 ")) != NULL; p += 9) {
        n++;
    }
    return n;
}

#define assert_starts(text, with)                                 \
    do {                                                          \
        if (strncmp((text), (with), strlen(with)) != 0) {         \
            fail_msg("expected %s, got: %.300s", (with), (text)); \
        }                                                         \
    } while (0)
#define assert_has(text, part)                                  \
    do {                                                        \
        if (strstr((text), (part)) == NULL) {                   \
            fail_msg("expected %s in: %.400s", (part), (text)); \
        }                                                       \
    } while (0)

static char got[REPLY_MAX];

/* Share of one CPU that this program uses in 0.3 s. One that waits uses none, one that spins what others leave it. */
static double cpu_share(void)
{
    const double t = gr_clock_ms(), used = gr_test_cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
    gr_clock_sleep(300);
    return (gr_test_cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - used) / (gr_clock_ms() - t);
}

/* Of several, because the work of the moment before may still be going on. */
static double least_cpu_share(double enough)
{
    double best = 1e9;
    for (int i = 0; i < 10 && best >= enough; i++) {
        const double now = cpu_share();
        best = now < best ? now : best;
    }
    return best;
}

/* One client, one text, what comes back until the server closes. */
static int exchange(const char *text)
{
    const int fd = dial();
    (void)put(fd, text);
    const int end = read_all(fd, got);
    (void)close(fd);
    return end;
}

#define HEAD_OF(line) line " HTTP/1.1\r\nHost: t\r\n"
#define GET_OK HEAD_OF("GET /ok") "\r\n"

/* ---- tests ---- */

static void replies_at_once_and_from_another_thread(void **state)
{
    (void)state;
    start(&limits);
    const int fd = dial();
    for (int i = 0; i < 300; i++) { /* the other thread often replies before the handler has returned */
        assert_true(put(fd, HEAD_OF("POST /echo") "Content-Length: 5\r\n\r\nhello"));
        read_one(fd, got);
        assert_starts(got, "HTTP/1.1 200 ");
        assert_has(got, "\r\n\r\n5 99162322");
        assert_true(put(fd, GET_OK));
        read_one(fd, got);
        assert_has(got, "\r\n\r\n/ok");
    }
    assert_true(put(fd, HEAD_OF("POST /now") "Content-Length: 3\r\n\r\nabc"));
    read_one(fd, got);
    assert_has(got, "\r\n\r\nabc");
    (void)close(fd);
    assert_true(until(no_connection));
    assert_int_equal(atomic_load(&sv.sent), 601);
    stop();
}

static void header_values_start_no_header_of_their_own(void **state)
{
    (void)state;
    start(&limits);
    assert_int_equal(exchange(HEAD_OF("GET /ok") "Connection: close\r\n\r\n"), 0);
    assert_has(got, "X-Test: a  Set-Cookie: b\r\n");
    assert_null(strstr(got, "\nSet-Cookie"));
    assert_null(strstr(got, "Bad Name"));
    stop();
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    start(&limits);
    (void)exchange(HEAD_OF("GET /ok1") "\r\n" HEAD_OF("POST /echo") "Content-Length: 2\r\n\r\nxy" HEAD_OF(
        "GET /ok3") "Connection: close\r\n\r\n");
    assert_int_equal(replies_in(got), 3);
    const char *one = strstr(got, "/ok1"), *two = strstr(got, "\r\n\r\n2 "), *three = strstr(got, "/ok3");
    assert_true(one != NULL && two != NULL && three != NULL && one < two && two < three);
    stop();
}

static void head_has_the_length_and_no_body(void **state)
{
    (void)state;
    start(&limits);
    (void)exchange(HEAD_OF("HEAD /ok") "\r\n" HEAD_OF("HEAD /nope") "Connection: close\r\n\r\n");
    assert_int_equal(replies_in(got), 2);
    assert_has(got, "Content-Length: 3\r\n");
    assert_has(got, "HTTP/1.1 404 ");
    assert_null(strstr(got, "\r\n\r\n/"));
    stop();
}

static void http_1_0_and_absolute_targets_are_served(void **state)
{
    (void)state;
    start(&limits);
    assert_int_equal(exchange("GET /ok%20a?x=1 HTTP/1.0\r\n\r\n"), 0);
    assert_has(got, "\r\n\r\n/ok a");
    assert_has(got, "Connection: close");
    assert_int_equal(exchange("GET http://h/ok2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 0);
    assert_has(got, "\r\n\r\n/ok2");
    (void)exchange(HEAD_OF("OPTIONS *") "Connection: close\r\n\r\n");
    assert_starts(got, "HTTP/1.1 204 ");
    stop();
}

static void what_two_readers_would_frame_differently_is_refused_once(void **state)
{
    (void)state;
    static const char smuggled[] = "GET /ok-smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    static const struct {
        const char *headers;
        int status;
    } cases[] = {{"Content-Length: 2\r\nContent-Length: 0\r\n", 400},
                 {"Content-Length: 0\r\nContent-Length: 0\r\n", 400},
                 {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", 400},
                 {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
                 {"Transfer-Encoding: gzip, chunked\r\n", 400},
                 {"Transfer-Encoding: identity\r\n", 400},
                 {"Transfer-Encoding : chunked\r\n", 400},
                 {"Content-Length : 5\r\nContent-Length: 0\r\n", 400},
                 {"Content-Length: -1\r\n", 400},
                 {"Content-Length: +1\r\n", 400},
                 {"Content-Length: 1,1\r\n", 400},
                 {"Content-Length: 0x10\r\n", 400},
                 {"Content-Length: \r\n", 400},
                 {"Host: u\r\nContent-Length: 0\r\n", 400},
                 {"X: a\001b\r\nContent-Length: 0\r\n", 400},
                 {"Content-Length: 99999999999999999999999999\r\n", 413},
                 {"Content-Length: 1000000000000\r\n", 413},
                 {"Content-Length: 4194305\r\n", 413}};
    start(&limits);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024], want[32];
        (void)snprintf(text, sizeof text, HEAD_OF("POST /echo") "%s\r\n%s", cases[i].headers, smuggled);
        (void)snprintf(want, sizeof want, "HTTP/1.1 %d ", cases[i].status);
        const int end = exchange(text);
        if (end != 0 || strncmp(got, want, strlen(want)) != 0 || replies_in(got) != 1 ||
            strstr(got, "smuggled") != NULL) {
            fail_msg("%s: end %d, %s", cases[i].headers, end, got);
        }
        assert_has(got, "Connection: close");
        assert_has(got, "{\"error\":{\"code\":\"");
        assert_has(got, "\"field\":null},\"detail\":\"");
    }
    assert_int_equal(atomic_load(&sv.refused), sizeof cases / sizeof cases[0]);
    assert_int_equal(atomic_load(&sv.heads), 0);
    (void)exchange("GET /ok HTTP/1.1\r\n\r\n"); /* no Host */
    assert_starts(got, "HTTP/1.1 400 ");
    assert_int_equal(replies_in(got), 1);
    (void)exchange("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_starts(got, "HTTP/1.1 400 ");
    stop();
}

static void the_right_client_is_refused_among_many_unfinished_heads(void **state)
{
    (void)state;
    start(&limits);
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = dial();
        assert_true(put(fds[i], HEAD_OF("POST /echo")));
    }
    assert_true(until(are_20));
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* most heads are read by now; none has to be */
    assert_true(put(fds[7], "Content-Length: -1\r\n\r\n"));
    assert_int_equal(read_all(fds[7], got), 0);
    assert_starts(got, "HTTP/1.1 400 ");
    assert_int_equal(replies_in(got), 1);
    for (int i = 0; i < 20; i++) {
        if (i != 7) {
            assert_true(put(fds[i], "Content-Length: 1\r\n\r\nq"));
            read_one(fds[i], got);
            assert_starts(got, "HTTP/1.1 200 ");
        }
        (void)close(fds[i]);
    }
    stop();
}

static void a_head_of_16_kib_passes_and_a_larger_one_is_431(void **state)
{
    (void)state;
    start(&limits);
    char *text = calloc(1, 128 * 1024);
    for (int big = 0; big <= 2; big++) {
        const size_t n = big == 0 ? 16 * 1024 - 100 : big == 1 ? 17 * 1024 : 100 * 1024;
        size_t at = (size_t)sprintf(text, "GET /ok HTTP/1.1\r\nHost: t\r\nConnection: close\r\n");
        while (at < n) { /* some 250 headers */
            at += (size_t)sprintf(text + at, "X-%04zu: %0*d\r\n", at % 10000, 52, 7);
        }
        (void)sprintf(text + at, "\r\n");
        assert_int_equal(exchange(text), 0);
        assert_starts(got, big == 0 ? "HTTP/1.1 200 " : "HTTP/1.1 431 ");
        assert_int_equal(replies_in(got), 1);
    }
    free(text);
    stop();
}

static void chunked_bodies_arrive_whole(void **state)
{
    (void)state;
    start(&limits);
    const int fd = dial();
    assert_true(put(fd, HEAD_OF("POST /now") "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
    assert_true(put(fd, "2;ext=1\r\nde\r\n0\r\nTrailer: x\r\n\r\n"));
    read_one(fd, got);
    assert_has(got, "\r\n\r\nabcde");
    assert_true(put(fd, GET_OK));
    read_one(fd, got);
    assert_starts(got, "HTTP/1.1 200 ");
    assert_true(put(fd, HEAD_OF("POST /now") "Transfer-Encoding: chunked\r\n\r\nzz\r\n"));
    assert_int_equal(read_all(fd, got), 0);
    assert_starts(got, "HTTP/1.1 400 ");
    assert_int_equal(replies_in(got), 1);
    (void)close(fd);
    stop();
}

static void expect_100_is_answered_at_once_or_with_the_refusal(void **state)
{
    (void)state;
    start(&limits);
    const int fd = dial();
    assert_true(put(fd, HEAD_OF("POST /now") "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
    assert_int_equal(recv(fd, got, 25, MSG_WAITALL), 25); /* before any of the body has been sent */
    assert_memory_equal(got, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    assert_true(put(fd, "ab"));
    read_one(fd, got);
    assert_has(got, "\r\n\r\nab");
    (void)close(fd);
    (void)exchange(HEAD_OF("POST /ok") "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_starts(got, "HTTP/1.1 405 ");
    assert_int_equal(replies_in(got), 1);
    stop();
}

static void a_small_unwanted_body_keeps_the_connection(void **state)
{
    (void)state;
    start(&limits);
    const int fd = dial();
    assert_true(put(fd, HEAD_OF("POST /ok") "Content-Length: 30000\r\n\r\n"));
    assert_true(put_many(fd, 30000, 'a'));
    read_one(fd, got);
    assert_starts(got, "HTTP/1.1 405 ");
    assert_true(put(fd, GET_OK));
    read_one(fd, got);
    assert_starts(got, "HTTP/1.1 200 ");
    (void)close(fd);
    stop();
}

static void a_client_that_sends_100_mb_can_read_its_refusal(void **state)
{
    (void)state;
    start(&limits);
    int fd = dial();
    assert_true(put(fd, HEAD_OF("POST /echo") "Content-Length: 104857600\r\n\r\n"));
    assert_true(put_many(fd, 100 * MB, 'a'));
    assert_int_equal(read_all(fd, got), 0);
    assert_starts(got, "HTTP/1.1 413 ");
    (void)close(fd);
    fd = dial();
    assert_true(put(fd, HEAD_OF("POST /echo") "Transfer-Encoding: chunked\r\n\r\n6400000\r\n"));
    assert_true(put_many(fd, 100 * MB, 'a'));
    assert_int_equal(read_all(fd, got), 0);
    assert_starts(got, "HTTP/1.1 413 ");
    assert_int_equal(replies_in(got), 1);
    (void)close(fd);
    fd = dial();
    assert_true(put(fd, HEAD_OF("GET /ok") "X-Big: "));
    assert_true(put_many(fd, 20 * MB, 'a'));
    assert_int_equal(read_all(fd, got), 0);
    assert_starts(got, "HTTP/1.1 431 ");
    (void)close(fd);
    assert_true(until(no_connection));
    assert_true(until(all_ended));
    stop();
}

static void memory_follows_received_bytes_and_all_bodies_are_bounded(void **state)
{
    (void)state;
    start(&limits);
    const long before = gr_test_peak_kib();
    int fds[90];
    for (int i = 0; i < 90; i++) { /* 360 MB announced */
        fds[i] = dial();
        assert_true(put(fds[i], HEAD_OF("POST /echo") "Content-Length: 4194304\r\n\r\nx"));
    }
    assert_true(until(are_90));
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000},
                    NULL); /* for a server that takes memory for what was announced */
    assert_int_equal(gr_httpd_connections(sv.http), 90);
    if (!GR_TEST_FOREIGN_MALLOC) {
        assert_true(gr_test_peak_kib() - before < 8 * 1024);
    }
    struct pollfd large[3];
    for (int i = 0; i < 3; i++) { /* 6 MB for all: the second large body no longer fits beside the first */
        large[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        (void)put_many(fds[i], 4 * MB - 2, 'y');
    }
    assert_true(poll(large, 3, HANG_S * 1000) > 0); /* the first refusal: no body is complete yet */
    int full = 0, busy = 0;
    for (int i = 0; i < 3; i++) {
        (void)put(fds[i], "y");
        read_one(fds[i], got);
        full += strncmp(got, "HTTP/1.1 200 ", 13) == 0;
        if (strncmp(got, "HTTP/1.1 503 ", 13) == 0) {
            busy++;
            assert_has(got, "Retry-After: 1\r\n");
        }
    }
    assert_int_equal(full + busy, 3);
    assert_in_range(busy, 1, 2);
    for (int i = 0; i < 90; i++) {
        (void)close(fds[i]);
    }
    assert_true(until(no_connection));
    const int fd = dial(); /* everything was given back */
    assert_true(put(fd, HEAD_OF("POST /echo") "Content-Length: 4194304\r\n\r\n"));
    assert_true(put_many(fd, 4 * MB, 'y'));
    read_one(fd, got);
    assert_starts(got, "HTTP/1.1 200 ");
    (void)close(fd);
    stop();
}

/* Waits until the server closes; the text it sent is in got. */
static void wait_for_close(int fd)
{
    assert_int_not_equal(read_all(fd, got), -2);
    (void)close(fd);
}

static const struct gr_httpd_limits quick = {.connections = 100,
                                             .head_bytes = 16 * 1024,
                                             .body_bytes = 64 * MB,
                                             .bodies_bytes = 64 * MB,
                                             .head_s = 0.4,
                                             .body_s = 0.7,
                                             .idle_s = 1.2};

static void *drip(void *arg)
{
    const int fd = *(int *)arg;
    while (send(fd, "a", 1, MSG_NOSIGNAL) == 1) { /* for as long as the server lets us */
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return NULL;
}

static void every_part_has_its_time_limit(void **state)
{
    (void)state;
    start(&quick);
    const double t = gr_clock_ms();
    int silent = dial(), dripping = dial();
    assert_true(put(dripping, "GET /ok HTTP/1.1\r\nHost: "));
    int slow = dial();
    assert_true(put(slow, HEAD_OF("POST /echo") "Content-Length: 1000000\r\n\r\n"));
    int idle = dial();
    assert_true(put(idle, GET_OK));
    read_one(idle, got);
    pthread_t a, b;
    assert_int_equal(pthread_create(&a, NULL, drip, &dripping), 0);
    assert_int_equal(pthread_create(&b, NULL, drip, &slow), 0);
    assert_int_not_equal(read_all(dripping, got), -2); /* although bytes keep coming: they end only after the close */
    assert_true(gr_clock_ms() - t >= 350);
    assert_int_not_equal(read_all(slow, got), -2);
    assert_true(gr_clock_ms() - t >= 650);
    assert_starts(got, "HTTP/1.1 408 ");
    assert_int_equal(replies_in(got), 1);
    assert_int_not_equal(read_all(silent, got), -2);
    assert_int_not_equal(read_all(idle, got), -2);
    assert_true(gr_clock_ms() - t >= 1150);
    (void)pthread_join(a, NULL);
    (void)pthread_join(b, NULL);
    (void)close(silent);
    (void)close(dripping);
    (void)close(idle);
    (void)close(slow);
    assert_true(until(no_connection));
    stop();
}

static void a_client_that_does_not_read_its_reply_is_closed(void **state)
{
    (void)state;
    start(&quick);
    const int fd = dial();
    const double t = gr_clock_ms();
    assert_true(put(fd, HEAD_OF("GET /big") "\r\n"));
    assert_true(until(has_head));
    assert_true(until(no_connection));
    assert_true(gr_clock_ms() - t >= 650); /* not before body_s */
    assert_int_equal(atomic_load(&sv.ends), 1);
    assert_int_equal(atomic_load(&sv.sent), 0);
    (void)close(fd);
    stop();
}

static void an_endless_chunk_header_costs_no_time_of_others(void **state)
{
    (void)state;
    start(&quick);
    const int fd = dial();
    assert_true(put(fd, HEAD_OF("POST /echo") "Transfer-Encoding: chunked\r\n\r\n5;"));
    wait_at_most(fd, 0.1);
    struct timeval send_wait = {.tv_usec = 100000};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_wait, sizeof send_wait), 0);
    (void)put_many(fd, MB, 'a');
    assert_true(least_cpu_share(0.5) < 0.5);
    (void)close(fd);
    assert_true(until(no_connection));
    stop();
}

static void a_vanished_client_is_noticed_and_ends_once(void **state)
{
    (void)state;
    start(&limits);
    for (int reset = 0; reset <= 1; reset++) {
        const int fd = dial();
        atomic_store(&sv.held, NULL);
        assert_true(put(fd, HEAD_OF("POST /hold") "Content-Length: 2\r\n\r\nab"));
        assert_true(until(is_held));
        assert_false(is_gone());
        assert_int_equal(gr_httpd_open_requests(sv.http), 1);
        assert_false(gr_httpd_wait_idle(sv.http, 20));
        const struct linger hard = {.l_onoff = reset};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        (void)close(fd);
        assert_true(until(is_gone));
        const int ends = atomic_load(&sv.ends);
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        assert_int_equal(atomic_load(&sv.ends), ends); /* only after the reply was given */
        answer(atomic_load(&sv.held), 200, "late");
        assert_true(gr_httpd_wait_idle(sv.http, HANG_S * 1000));
        assert_int_equal(atomic_load(&sv.ends), ends + 1);
        assert_int_equal(atomic_load(&sv.sent), 1); /* a closed side could be a half, a reset one takes nothing */
    }
    stop();
}

static void clients_that_reset_in_the_middle_of_a_reply_hurt_nobody(void **state)
{
    (void)state;
    start(&limits);
    for (int i = 0; i < 30; i++) {
        const int fd = dial();
        assert_true(put(fd, i % 2 ? HEAD_OF("GET /big") "\r\n" : GET_OK GET_OK GET_OK));
        if (i % 3) {
            (void)recv(fd, got, 1, 0);
        }
        const struct linger hard = {.l_onoff = 1};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        (void)close(fd);
    }
    assert_true(until(no_connection));
    (void)exchange(HEAD_OF("GET /ok") "Connection: close\r\n\r\n");
    assert_starts(got, "HTTP/1.1 200 ");
    stop();
}

static void an_end_together_with_the_last_bytes_is_noticed(void **state)
{
    (void)state;
    start(&limits);
    int fd = dial();
    assert_true(put(fd, HEAD_OF("POST /echo") "Content-Length: 9\r\n\r\nab"));
    (void)shutdown(fd, SHUT_WR);
    wait_for_close(fd);
    fd = dial();
    assert_true(put(fd, GET_OK));
    (void)shutdown(fd, SHUT_WR);
    wait_for_close(fd);
    assert_starts(got, "HTTP/1.1 200 ");
    assert_true(until(all_ended));
    stop();
}

static void more_clients_than_the_limit_are_refused_with_words(void **state)
{
    (void)state;
    start(&limits);
    int fds[130];
    for (int i = 0; i < 100; i++) { /* each in the middle of its head: none is idle */
        fds[i] = dial();
        assert_true(put(fds[i], "GET /ok HTTP/1.1\r\n"));
    }
    assert_true(until(is_full));
    for (int i = 100; i < 130; i++) {
        fds[i] = dial();
        (void)put(fds[i], GET_OK);
    }
    int ok = 0, busy = 0;
    for (int i = 129; i >= 0; i--) {
        if (i < 100) {
            (void)put(fds[i], "Host: x\r\n\r\n");
        }
        read_one(fds[i], got);
        ok += strncmp(got, "HTTP/1.1 200 ", 13) == 0;
        busy += strncmp(got, "HTTP/1.1 503 ", 13) == 0;
        (void)close(fds[i]);
    }
    assert_int_equal(ok, 100);
    assert_int_equal(busy, 30);
    assert_int_equal(atomic_load(&sv.refused), 30);
    assert_in_range(atomic_load(&sv.warnings), 1, 5); /* one each 10 s, not one a client */
    assert_true(until(no_connection));
    const int fd = dial();
    assert_true(put(fd, GET_OK));
    read_one(fd, got);
    assert_starts(got, "HTTP/1.1 200 ");
    (void)close(fd);
    stop();
}

static void a_new_client_takes_the_place_of_the_longest_silent_one(void **state)
{
    (void)state;
    start(&limits);
    int fds[103];
    for (int i = 0; i < 100; i++) {
        fds[i] = dial();
        assert_true(put(fds[i], GET_OK));
        read_one(fds[i], got);
    }
    assert_true(put(fds[0], GET_OK)); /* heard of again: now 1, 2 and 3 have been silent for longest */
    read_one(fds[0], got);
    assert_true(until(is_full));
    for (int i = 100; i < 103; i++) {
        fds[i] = dial();
        assert_true(put(fds[i], GET_OK));
        read_one(fds[i], got);
        assert_starts(got, "HTTP/1.1 200 ");
    }
    for (int i = 1; i <= 3; i++) {
        wait_for_close(fds[i]);
    }
    assert_true(put(fds[0], GET_OK));
    read_one(fds[0], got);
    assert_starts(got, "HTTP/1.1 200 ");
    assert_int_equal(atomic_load(&sv.warnings), 0);
    for (int i = 0; i < 103; i++) {
        if (i < 1 || i > 3) {
            (void)close(fds[i]);
        }
    }
    stop();
}

static void without_descriptors_nothing_spins(void **state)
{
    (void)state;
    start(&limits);
    int fds[60];
    int n = 0;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (; n < 20; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[n] >= 0);
    }
    low = old;
    low.rlim_cur = (rlim_t)fds[n - 1] + 1; /* no further descriptor in this process */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    const struct sockaddr_in in = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)sv.listener.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < n; i++) {
        assert_int_equal(connect(fds[i], (const struct sockaddr *)&in, sizeof in), 0);
    }
    assert_true(least_cpu_share(0.25) < 0.25); /* 5 % are wanted */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    wait_at_most(fds[0], HANG_S);
    read_one(fds[0], got);
    assert_starts(got, "HTTP/1.1 503 ");
    for (int i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
    (void)exchange(HEAD_OF("GET /ok") "Connection: close\r\n\r\n");
    assert_starts(got, "HTTP/1.1 200 ");
    stop();
}

static void drain_refuses_new_clients_closes_idle_ones_and_finishes_the_rest(void **state)
{
    (void)state;
    start(&limits);
    const int idle = dial(), busy = dial();
    assert_true(put(idle, GET_OK));
    read_one(idle, got);
    assert_true(put(busy, HEAD_OF("POST /hold") "Content-Length: 1\r\n\r\na"));
    assert_true(until(is_held));
    gr_httpd_drain(sv.http);
    assert_int_equal(connect_fd(), -1);
    wait_for_close(idle);
    assert_false(gr_httpd_wait_idle(sv.http, 30));
    answer(atomic_load(&sv.held), 200, "done");
    assert_int_equal(read_all(busy, got), 0);
    assert_has(got, "Connection: close");
    assert_has(got, "done");
    (void)close(busy);
    assert_true(gr_httpd_wait_idle(sv.http, HANG_S * 1000));
    stop();
}

static void an_inherited_socket_stays_open_for_its_owner(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener owner;
    gr_test_ok(gr_listen(&(struct gr_listen_config){.inherited_fd = -1}, false, &owner, &err), &err);
    start_on(&limits, &(struct gr_listen_config){.inherited_fd = dup(owner.fd)});
    (void)exchange(HEAD_OF("GET /ok") "Connection: close\r\n\r\n");
    assert_starts(got, "HTTP/1.1 200 ");
    gr_httpd_drain(sv.http);
    const int waiting = connect_fd(); /* for the next server */
    assert_true(waiting >= 0);
    stop();
    start_on(&limits, &(struct gr_listen_config){.inherited_fd = dup(owner.fd)});
    wait_at_most(waiting, HANG_S);
    assert_true(put(waiting, GET_OK));
    read_one(waiting, got);
    assert_starts(got, "HTTP/1.1 200 ");
    (void)close(waiting);
    stop();
    gr_listen_close(&owner);
}

static void it_ends_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        start(&limits);
        const int a = dial(), b = dial();
        (void)put(a, HEAD_OF("POST /echo") "Content-Length: 50\r\n\r\nxyz");
        (void)put(b, HEAD_OF("POST /now") "Content-Length: 3\r\n\r\nxyz" GET_OK);
        if (i % 2) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        }
        gr_httpd_drain(sv.http);
        (void)gr_httpd_wait_idle(sv.http, 20); /* a waits for the rest of its body: no reply is owed to it */
        gr_httpd_free(sv.http);
        gr_listen_close(&sv.listener);
        assert_int_equal(atomic_load(&sv.heads), atomic_load(&sv.ends));
        (void)close(a);
        (void)close(b);
    }
    gr_httpd_free(NULL);
}

static void unix_sockets_are_served_too(void **state)
{
    (void)state;
    (void)snprintf(sv.unix_path, sizeof sv.unix_path, "%s", gr_test_join(gr_test_temp_dir(), "s"));
    start_on(&quick, &(struct gr_listen_config){.unix_path = sv.unix_path, .inherited_fd = -1});
    const int fd = dial();
    assert_true(put(fd, GET_OK HEAD_OF("POST /echo") "Content-Length: 1\r\n\r\nx"));
    read_one(fd, got);
    assert_starts(got, "HTTP/1.1 200 ");
    read_one(fd, got);
    assert_has(got, "\r\n\r\n1 ");
    wait_for_close(fd);
    stop();
    start_on(&limits, &(struct gr_listen_config){.unix_path = sv.unix_path, .inherited_fd = -1});
    const int large = dial();
    assert_true(put(large, HEAD_OF("POST /echo") "Content-Length: 1000000000\r\n\r\n"));
    assert_true(put_many(large, 20 * MB, 'a'));
    assert_int_equal(read_all(large, got), 0);
    assert_starts(got, "HTTP/1.1 413 ");
    (void)close(large);
    stop();
}

/* Segments with data that came on this connection; 0: an old kernel does not tell. */
static unsigned segments_in(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n), 0);
    return info.tcpi_data_segs_in;
}

/* Of a reply in two pieces the second would wait for a delayed acknowledgement of the first: 40 ms. */
static void a_reply_on_a_kept_connection_is_one_piece(void **state)
{
    (void)state;
    enum { N = 200 };
    start(&limits);
    const int fd = dial();
    for (int i = 0; i < N; i++) {
        assert_true(put(fd, GET_OK));
        read_one(fd, got);
        assert_starts(got, "HTTP/1.1 200 ");
    }
    const unsigned segments = segments_in(fd);
    assert_true(segments == 0 || segments == N);
    (void)close(fd);
    stop();
}

static void tls_material_is_checked(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_httpd *http = NULL;
    struct gr_listener l;
    gr_test_ok(gr_listen(&(struct gr_listen_config){.inherited_fd = -1}, true, &l, &err), &err);
    const struct gr_httpd_config cfg = {.listen_fd = l.fd,
                                        .tls_cert = "no",
                                        .tls_key = "no",
                                        .limits = limits,
                                        .on = {on_head, on_body, on_end, on_refused, on_warning, &sv}};
    gr_test_fails(gr_httpd_start(&cfg, &http, &err), &err, GR_ERR_USAGE, "TLS");
    gr_listen_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_at_once_and_from_another_thread),
        cmocka_unit_test(memory_follows_received_bytes_and_all_bodies_are_bounded),
        cmocka_unit_test(header_values_start_no_header_of_their_own),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(head_has_the_length_and_no_body),
        cmocka_unit_test(http_1_0_and_absolute_targets_are_served),
        cmocka_unit_test(what_two_readers_would_frame_differently_is_refused_once),
        cmocka_unit_test(the_right_client_is_refused_among_many_unfinished_heads),
        cmocka_unit_test(a_head_of_16_kib_passes_and_a_larger_one_is_431),
        cmocka_unit_test(chunked_bodies_arrive_whole),
        cmocka_unit_test(expect_100_is_answered_at_once_or_with_the_refusal),
        cmocka_unit_test(a_small_unwanted_body_keeps_the_connection),
        cmocka_unit_test(a_client_that_sends_100_mb_can_read_its_refusal),
        cmocka_unit_test(every_part_has_its_time_limit),
        cmocka_unit_test(a_client_that_does_not_read_its_reply_is_closed),
        cmocka_unit_test(an_endless_chunk_header_costs_no_time_of_others),
        cmocka_unit_test(a_vanished_client_is_noticed_and_ends_once),
        cmocka_unit_test(clients_that_reset_in_the_middle_of_a_reply_hurt_nobody),
        cmocka_unit_test(an_end_together_with_the_last_bytes_is_noticed),
        cmocka_unit_test(more_clients_than_the_limit_are_refused_with_words),
        cmocka_unit_test(a_new_client_takes_the_place_of_the_longest_silent_one),
        cmocka_unit_test(without_descriptors_nothing_spins),
        cmocka_unit_test(drain_refuses_new_clients_closes_idle_ones_and_finishes_the_rest),
        cmocka_unit_test(an_inherited_socket_stays_open_for_its_owner),
        cmocka_unit_test(it_ends_at_any_moment),
        cmocka_unit_test(unix_sockets_are_served_too),
        cmocka_unit_test(a_reply_on_a_kept_connection_is_one_piece),
        cmocka_unit_test(tls_material_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
