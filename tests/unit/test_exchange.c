/* SPDX-License-Identifier: Apache-2.0
 *
 * test_exchange.c: exchanges over the loopback: ranges, redirects and where the token goes, bodies in both directions, and every way in which an
 * exchange ends early. */
#include "gr_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "http_player.h"
#include "net/exchange.h"
#include "net/transfer.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#define TOKEN "tok-sesame"
#define BEARER "\r\nAuthorization: Bearer " TOKEN "\r\n"
/* What ends before the first was ended by the limit that a test sets, not by one of these. */
static const double hang_ms = GR_TEST_HANG_MS, long_s = 600.0;

static struct gr_http *open_http(double stall_s, const _Atomic bool *cancel)
{
    const struct gr_http_config cfg = {.stall_s = stall_s, .cancel = cancel};
    struct gr_http *h = NULL;
    struct gr_err err = {0};
    gr_test_ok(gr_http_open(&cfg, &h, &err), &err);
    return h;
}

/* The last URL made: good until the next call. */
static const char *at(const struct player *p, const char *path)
{
    static char url[4][256];
    static int next;
    char *out = url[next++ % 4];
    snprintf(out, sizeof url[0], "%s%s", p->url, path);
    return out;
}

/* A sink that keeps what comes, and fails with `refuse` after `most` bytes. */
struct taken {
    bool take;
    int wants, status_seen;
    char type[32];
    size_t most;
    enum gr_status refuse;
    struct gr_buf bytes;
    uint64_t sent;
};

static bool want(void *user, const struct gr_http_reply *reply)
{
    struct taken *t = user;
    t->wants++;
    t->status_seen = reply->status;
    (void)gr_http_reply_header(reply, "content-type", t->type, sizeof t->type);
    assert_int_equal(t->bytes.len, 0);
    return t->take && reply->status < 300;
}

static enum gr_status sink(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    struct taken *t = user;
    if (t->refuse != GR_OK && t->bytes.len + n > t->most) {
        return gr_fail(err, t->refuse, "the disk is full");
    }
    gr_buf_put(&t->bytes, bytes, n);
    return GR_OK;
}

static void sent(void *user, uint64_t bytes) { ((struct taken *)user)->sent = bytes; }

static void bodies_go_to_the_sink_or_into_the_reply(void **state)
{
    (void)state;
    static struct player p = {
        .script = {
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Late: 1\r\n\r\n",
            "HTTP/1.1 404 No\r\nContent-Type: text/x\r\nContent-Length: 4\r\n\r\nnone",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    struct taken t = {.take = true};
    struct gr_http_request q = {.method = "GET", .url = at(&p, "/a"), .want = want, .sink = sink, .user = &t};
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_string_equal(t.bytes.data, "abcde");
    assert_string_equal(t.type, "text/plain");
    assert_int_equal(reply.body_bytes, 5);
    assert_int_equal(reply.body.len, 0);
    assert_string_equal(reply.url, q.url);
    assert_null(strstr(reply.headers, "X-Late"));
    assert_int_equal(t.wants, 1);
    gr_http_reply_free(&reply);
    gr_buf_free(&t.bytes);
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_int_equal(t.status_seen, 404);
    assert_string_equal(reply.body.data, "none");
    assert_int_equal(t.bytes.len, 0);
    gr_http_reply_free(&reply);
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_int_equal(t.wants, 3); /* also for an empty body */
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
    assert_int_equal(p.n_accepted, 1);
    assert_non_null(strstr(p.head[0], "\r\nAccept-Encoding: identity\r\n"));
    assert_null(strcasestr(p.head[0], "authorization"));
}

static void ranges_are_asked_for_and_checked(void **state)
{
    (void)state;
    static const struct {
        uint64_t from, to;
        const char *line, *answer, *body; /* body NULL: refused */
    } cases[] = {
        {2, 4, "\r\nRange: bytes=2-4\r\n",
         "HTTP/1.1 206 P\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", "cde"},
        {7, 0, "\r\nRange: bytes=7-\r\n", "HTTP/1.1 206 P\r\nContent-Range: bytes 7-8/9\r\nContent-Length: 2\r\n\r\nhi",
         "hi"},
        {0, 1, "\r\nRange: bytes=0-1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcdefghi", "abcdefghi"},
        {2, 4, "Range", "HTTP/1.1 206 P\r\nContent-Range: bytes 1-3/9\r\nContent-Length: 3\r\n\r\nbcd", NULL},
        {2, 4, "Range", "HTTP/1.1 206 P\r\nContent-Range: bytes 2-5/9\r\nContent-Length: 4\r\n\r\ncdef", NULL},
        {2, 4, "Range", "HTTP/1.1 206 P\r\nContent-Length: 3\r\n\r\ncde", NULL},
        {2, 4, "Range", "HTTP/1.1 206 P\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 2\r\n\r\ncd", NULL},
        {2, 0, "Range", "HTTP/1.1 206 P\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 4\r\n\r\ncdef", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct player p;
        struct gr_http_reply reply;
        struct gr_err err = {0};
        p = (struct player){.script = {cases[i].answer}};
        player_start(&p, NULL);
        struct gr_http *h = open_http(0.0, NULL);
        const struct gr_http_request q = {
            .method = "GET", .url = p.url, .range_from = cases[i].from, .range_to = cases[i].to};
        if (cases[i].body != NULL) {
            gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
            assert_string_equal(reply.body.data, cases[i].body);
        } else {
            gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK, "range");
            assert_true(reply.again);
        }
        gr_http_reply_free(&reply);
        gr_http_close(h);
        player_stop(&p);
        assert_non_null(strstr(p.head[0], cases[i].line));
    }
}

static void a_token_that_left_its_origin_does_not_come_back(void **state)
{
    (void)state;
    static struct player home, away;
    static const char *const headers[] = {"authorization: Basic Zm9v", "Cookie: a=b", "X-Kept: 1", NULL};
    char out[256], back[256];
    struct gr_http_reply reply;
    struct gr_err err = {0};
    player_start(&home, NULL);
    player_start(&away, NULL);
    snprintf(
        out, sizeof out,
        "HTTP/1.1 302 F\r\nLocation: http://user:pw@127.0.0.1:%d/big?Signature=s3cret#x\r\nContent-Length: 4\r\n\r\nover",
        away.port);
    snprintf(back, sizeof back, "HTTP/1.1 302 F\r\nLocation: %s/end\r\nContent-Length: 0\r\n\r\n", home.url);
    home.script[0] = "HTTP/1.1 307 T\r\nLocation: /renamed?x=1\r\nContent-Length: 0\r\n\r\n";
    home.script[1] = out;
    home.script[2] = "HTTP/1.1 200 OK\r\nX-Hop: last\r\nContent-Length: 3\r\n\r\nend";
    away.script[0] = back;
    struct gr_http *h = open_http(0.0, NULL);
    struct taken t = {.take = true};
    const struct gr_http_request q = {.method = "GET",
                                      .url = at(&home, "/first"),
                                      .headers = headers,
                                      .token = TOKEN,
                                      .follow = GR_HTTP_FOLLOW_ALL,
                                      .want = want,
                                      .sink = sink,
                                      .user = &t};
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.url, at(&home, "/end"));
    assert_string_equal(t.bytes.data, "end"); /* nothing of the redirects' bodies */
    assert_int_equal(t.wants, 1);
    assert_null(strstr(reply.headers, "Location"));
    gr_http_reply_free(&reply);
    gr_buf_free(&t.bytes);
    gr_http_close(h);
    player_stop(&home);
    player_stop(&away);
    assert_memory_equal(home.head[1], "GET /renamed?x=1 ", 17);
    assert_memory_equal(away.head[0], "GET /big?Signature=s3cret HTTP", 30);
    for (int i = 0; i < 2; i++) {
        assert_non_null(strstr(home.head[i], BEARER));
        assert_non_null(strstr(home.head[i], "Cookie: a=b"));
    }
    const char *const foreign[] = {away.head[0], home.head[2]};
    for (int i = 0; i < 2; i++) {
        assert_null(strcasestr(foreign[i], "authorization"));
        assert_null(strcasestr(foreign[i], "cookie"));
        assert_non_null(strstr(foreign[i], "X-Kept: 1"));
    }
}

static void redirects_stop_where_they_must(void **state)
{
    (void)state;
#define TO(where) "HTTP/1.1 302 F\r\nLocation: " where "\r\nX-Linked-Etag: \"e\"\r\nContent-Length: 0\r\n\r\n"
    static const struct {
        const char *method, *answer;
        enum gr_http_follow follow;
        int status;       /* 0: an error */
        const char *text; /* of the error */
    } cases[] = {
        {"HEAD", TO("http://foreign.invalid/x"), GR_HTTP_FOLLOW_ORIGIN, 302, ""},
        {"GET", TO("https://127.0.0.1/"), GR_HTTP_FOLLOW_ORIGIN, 302, ""},
        {"GET", TO("/next"), GR_HTTP_FOLLOW_NONE, 302, ""},
        {"GET", TO("/next"), GR_HTTP_FOLLOW_ORIGIN, 200, ""},
        {"HEAD", TO("next"), GR_HTTP_FOLLOW_ORIGIN, 200, ""},
        {"PUT", TO("/next"), GR_HTTP_FOLLOW_ALL, 302, ""}, /* would lose its body */
        {"POST", TO("/next"), GR_HTTP_FOLLOW_ALL, 302, ""},
        {"GET", "HTTP/1.1 302 F\r\nContent-Length: 0\r\n\r\n", GR_HTTP_FOLLOW_ALL, 302, ""},
        {"GET", "HTTP/1.1 304 F\r\nLocation: /\r\n\r\n", GR_HTTP_FOLLOW_ALL, 304, ""},
        {"GET", TO("file:///etc/passwd"), GR_HTTP_FOLLOW_ALL, 0, "no http address"},
        {"GET", TO("http:///"), GR_HTTP_FOLLOW_ALL, 0, "no http address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct player p;
        struct gr_http_reply reply;
        struct gr_err err = {0};
        bool head = strcmp(cases[i].method, "HEAD") == 0;
        p = (struct player){
            .script = {cases[i].answer, head ? "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n" : OK_REPLY}};
        player_start(&p, NULL);
        struct gr_http *h = open_http(0.0, NULL);
        const struct gr_http_request q = {.method = cases[i].method,
                                          .url = p.url,
                                          .token = TOKEN,
                                          .follow = cases[i].follow,
                                          .body = "x",
                                          .body_bytes = 1};
        enum gr_status got = gr_http_send(h, &q, &reply, &err);
        if (cases[i].status == 0) {
            gr_test_fails(got, &err, GR_ERR_NETWORK, cases[i].text);
            assert_false(reply.again);
        } else {
            gr_test_ok(got, &err);
            assert_int_equal(reply.status, cases[i].status);
        }
        gr_http_reply_free(&reply);
        gr_http_close(h);
        player_stop(&p);
        assert_int_equal(p.n_requests, cases[i].status == 200 ? 2 : 1);
    }
}

static void ten_redirects_are_enough(void **state)
{
    (void)state;
    static struct player p;
    struct gr_http_reply reply;
    struct gr_err err = {0};
    for (int i = 0; i < PLAYER_SCRIPT_MAX; i++) {
        p.script[i] = "HTTP/1.1 301 M\r\nLocation: /round?key=s3cret\r\nContent-Length: 0\r\n\r\n";
    }
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    const struct gr_http_request q = {.method = "GET", .url = p.url, .follow = GR_HTTP_FOLLOW_ALL};
    gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK, "more than 10 redirects");
    assert_null(strstr(err.msg, "s3cret"));
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
    assert_int_equal(p.n_requests, 11);
    assert_int_equal(p.n_accepted, 1);
}

/* The rule for https needs no TLS: it looks at the header lines alone. */
static void nothing_leads_from_https_to_http(void **state)
{
    (void)state;
    static const char *const targets[] = {"http://h/", "https://h/"};
    for (int i = 0; i < 2; i++) {
        struct gr_http_reply reply = {0};
        struct gr_err err = {0};
        const struct gr_http_request q = {.method = "GET", .follow = GR_HTTP_FOLLOW_ALL};
        struct gr_transfer x = {.request = &q, .reply = &reply, .err = &err};
        char line[64], status[] = "HTTP/1.1 302 F\r\n", end[] = "\r\n";
        assert_true(gr_url_parse("https://h/a?key=s3cret", &x.origin));
        x.here = x.origin;
        reply.url = strdup("https://h/a?key=s3cret");
        size_t n = (size_t)snprintf(line, sizeof line, "location: %s\r\n", targets[i]);
        assert_int_equal(gr_transfer_header(status, 1, sizeof status - 1, &x), sizeof status - 1);
        assert_int_equal(gr_transfer_header(line, 1, n, &x), n);
        assert_int_equal(gr_transfer_header(end, 1, 2, &x), i == 0 ? 0 : 2);
        if (i == 0) {
            gr_test_fails(gr_transfer_tell(&x), &err, GR_ERR_NETWORK, "h: it redirects from https to http");
            assert_null(strstr(err.msg, "s3cret"));
            assert_null(x.next);
        } else {
            assert_string_equal(x.next, "https://h/");
        }
        free(x.next);
        gr_http_reply_free(&reply);
    }
}

static void a_wrong_clock_is_named(void **state)
{
    (void)state;
    static const struct {
        time_t now;
        const char *why, *text;
    } cases[] = {{0, "certificate is not yet valid", "the system clock is wrong: it says 1970-01-01"},
                 {1800000000, "certificate is not yet valid", "of h is not accepted: certificate is not yet valid"},
                 {0, "self-signed certificate", "of h is not accepted: self-signed certificate"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_http_reply reply = {0};
        struct gr_err err = {0};
        struct gr_transfer x = {.reply = &reply, .err = &err, .here = {.secure = true, .host = "h", .port = 443}};
        gr_transfer_certificate(&x, cases[i].why, cases[i].now);
        gr_test_fails(gr_transfer_tell(&x), &err, GR_ERR_NETWORK, cases[i].text);
        assert_int_equal(reply.fault, GR_HTTP_CERTIFICATE);
        assert_false(reply.again);
    }
}

static void broken_answers_say_whether_to_try_again(void **state)
{
    (void)state;
    char long_line[150000];
    snprintf(long_line, sizeof long_line, "HTTP/1.1 200 OK\r\nX: %0*d\r\n\r\n", 140000, 0);
    const struct {
        const char *answer;
        enum gr_http_fault fault;
        bool again;
        const char *text;
    } cases[] = {
        {PLAYER_CLOSE, GR_HTTP_CUT, true, "is it https://?"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", GR_HTTP_CUT, true, "closed before"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", GR_HTTP_CUT, true, "closed before"},
        {"HTTP/1.1 200 OK\r\nContent-Le", GR_HTTP_CUT, true, ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" /* more than max_body */
         "0123456789012345678901234567890123456789012345678901234567890123456789",
         GR_HTTP_TOO_LONG, false, "longer than"},
        {"220 mail ESMTP\r\n", GR_HTTP_UNEXPECTED, false, "is it https://?"},
        {long_line, GR_HTTP_UNEXPECTED, false, "too long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct player p;
        struct gr_http_reply reply;
        struct gr_err err = {0};
        char host[64];
        p = (struct player){.script = {cases[i].answer, PLAYER_CLOSE}, .close_after_each = true};
        player_start(&p, NULL);
        snprintf(host, sizeof host, "127.0.0.1:%d", p.port);
        struct gr_http *h = open_http(0.0, NULL);
        const struct gr_http_request q = {
            .method = "GET", .url = at(&p, "/p?Signature=s3cret"), .token = TOKEN, .max_body = 64};
        gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK, cases[i].text);
        assert_int_equal(reply.fault, cases[i].fault);
        assert_int_equal(reply.again, cases[i].again);
        assert_true((reply.hint != NULL) == (strstr(cases[i].text, "://") != NULL));
        assert_non_null(strstr(err.msg, host));
        assert_null(strstr(err.msg, "s3cret"));
        assert_null(strstr(err.msg, TOKEN));
        gr_http_reply_free(&reply);
        gr_http_close(h);
        player_stop(&p);
    }
}

static void bytes_behind_the_answer_are_no_answer(void **state)
{
    (void)state;
    static struct player p = {
        .script = {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
                   OK_REPLY},
        .close_after_each = true};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    const struct gr_http_request q = {.method = "GET", .url = p.url};
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_string_equal(reply.body.data, "abc");
    gr_http_reply_free(&reply);
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_string_equal(reply.body.data, "{}");
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
}

static void silence_ends_at_the_limit(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        double stall_s, total_s; /* stall_s 0: a long one */
        enum gr_http_fault fault;
        const char *text;
    } cases[] = {{PLAYER_SILENCE, 0.3, 0.0, GR_HTTP_STALLED, "nothing came or went for 0.3 s"},
                 {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 0.3, 0.0, GR_HTTP_STALLED, "nothing came or went"},
                 {PLAYER_SILENCE, 0.0, 0.3, GR_HTTP_LATE, "no complete answer within 0.3 s"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct player p;
        struct gr_http_reply reply;
        struct gr_err err = {0};
        p = (struct player){.script = {cases[i].answer}};
        player_start(&p, NULL);
        struct gr_http *h = open_http(i == 0 ? cases[i].stall_s : long_s, NULL);
        const struct gr_http_request q = {
            .method = "GET", .url = p.url, .total_s = cases[i].total_s, .stall_s = i == 0 ? 0.0 : cases[i].stall_s};
        gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK, cases[i].text);
        assert_int_equal(reply.fault, cases[i].fault);
        assert_true(reply.again);
        assert_true(reply.wall_ms >= 290.0 && reply.wall_ms < hang_ms);
        gr_http_reply_free(&reply);
        gr_http_close(h);
        player_stop(&p);
    }
}

static double drip_time(size_t piece, double slow_s, double total_s, struct gr_http_reply *reply, struct gr_err *err)
{
    static struct player p;
    p = (struct player){.script = {"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"}, .drip_bytes = piece};
    struct gr_http *h = NULL;
    player_start(&p, NULL);
    const struct gr_http_config cfg = {.stall_s = 2.0, .slow_s = slow_s}; /* far more than the 20 ms of the player */
    gr_test_ok(gr_http_open(&cfg, &h, err), err);
    struct taken t = {.take = true};
    const struct gr_http_request q = {
        .method = "GET", .url = p.url, .total_s = total_s, .want = want, .sink = sink, .user = &t};
    assert_int_equal(gr_http_send(h, &q, reply, err), GR_ERR_NETWORK);
    gr_http_close(h);
    player_stop(&p);
    gr_buf_free(&t.bytes);
    return reply->wall_ms;
}

static void a_server_that_drips_is_given_up(void **state)
{
    (void)state;
    struct gr_http_reply reply;
    struct gr_err err = {0};
    const double ms = drip_time(1, 2.5, long_s, &reply, &err);
    assert_int_equal(reply.fault, GR_HTTP_STALLED);
    assert_true(reply.again);
    assert_non_null(strstr(err.msg, "bytes came or went in 2.5 s"));
    assert_true(ms >= 2490.0 && ms < hang_ms);
    assert_true(reply.body_bytes > 0); /* what came is kept: the next try goes on from there */
    gr_http_reply_free(&reply);
    (void)drip_time(1, 0.0, 3.0, &reply, &err); /* no limit: only the whole time */
    assert_int_equal(reply.fault, GR_HTTP_LATE);
    gr_http_reply_free(&reply);
    (void)drip_time(1024, 2.5, 6.0, &reply, &err); /* 50 KiB/s are slow, not too slow: 1 KiB/s */
    assert_int_equal(reply.fault, GR_HTTP_LATE);
    gr_http_reply_free(&reply);
}

static void the_sink_s_status_passes_through(void **state)
{
    (void)state;
    static struct player p = {.script = {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef", OK_REPLY}};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    struct taken t = {.take = true, .refuse = GR_ERR_IO, .most = 3};
    struct gr_http_request q = {.method = "GET", .url = p.url, .want = want, .sink = sink, .user = &t};
    gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_IO, "the disk is full");
    assert_false(reply.again);
    assert_int_equal(reply.status, 200);
    gr_http_reply_free(&reply);
    t.refuse = GR_OK;
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_string_equal(t.bytes.data, "{}");
    gr_http_reply_free(&reply);
    gr_buf_free(&t.bytes);
    gr_http_close(h);
    player_stop(&p);
}

static void head_has_headers_and_no_body(void **state)
{
    (void)state;
    static struct player p = {
        .script = {
            "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-Linked-Size:  123 \t\r\nx-repo-COMMIT: c0\r\nEmpty:\r\nContent-Length: 99\r\n\r\n"}};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    char value[8];
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    const struct gr_http_request q = {.method = "HEAD", .url = at(&p, "/f"), .token = TOKEN};
    gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
    assert_int_equal(reply.body_bytes, 0);
    assert_true(gr_http_reply_header(&reply, "x-linked-size", value, sizeof value));
    assert_string_equal(value, "123");
    assert_true(gr_http_reply_header(&reply, "X-Repo-Commit", value, sizeof value));
    assert_string_equal(value, "c0");
    assert_true(gr_http_reply_header(&reply, "Empty", value, sizeof value));
    assert_string_equal(value, "");
    assert_false(gr_http_reply_header(&reply, "X-Linked", value, sizeof value));
    assert_false(gr_http_reply_header(&reply, "X-Early", value, sizeof value)); /* not of the last answer */
    assert_false(gr_http_reply_header(&(struct gr_http_reply){0}, "X", value, sizeof value));
    assert_string_equal(value, "");
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
    assert_memory_equal(p.head[0], "HEAD /f HTTP/1.1\r\n", 18);
    assert_non_null(strstr(p.head[0], BEARER));
}

static void endless_headers_are_refused(void **state)
{
    (void)state;
    static char answer[400 << 10];
    static struct player p = {.script = {answer}};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    size_t n = (size_t)snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\n");
    while (n + 1100 < sizeof answer) {
        n += (size_t)snprintf(answer + n, sizeof answer - n, "X-Long: %01000d\r\n", 0);
    }
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    const struct gr_http_request q = {.method = "GET", .url = p.url};
    gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK, "headers are longer than 256 KiB");
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
}

static void bodies_of_requests_come_from_memory_and_files(void **state)
{
    (void)state;
    static struct player p = {.script = {"HTTP/1.1 308 P\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n", OK_REPLY,
                                         OK_REPLY, "HTTP/1.1 307 T\r\nLocation: /part\r\nContent-Length: 0\r\n\r\n",
                                         OK_REPLY, OK_REPLY},
                              .close_after_each = true};
    static const char *const headers[] = {"Content-Type: application/x-ndjson", NULL};
    const char *path = gr_test_join(gr_test_temp_dir(), "body");
    struct gr_http_reply reply;
    struct gr_err err = {0};
    gr_test_write(path, "0123456789", 10);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd > 0);
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    struct taken t = {0};
    /* Each answer closes the connection that libcurl believes to be open: bodies are sent again. */
    const struct gr_http_request cases[] = {
        {.method = "POST",
         .url = at(&p, "/a"),
         .headers = headers,
         .body = "{\"a\":1}",
         .body_bytes = 7,
         .follow = GR_HTTP_FOLLOW_ORIGIN},
        {.method = "PUT", .url = at(&p, "/b"), .body = "abc", .body_bytes = 3},
        {.method = "PUT",
         .url = at(&p, "/c"),
         .body_fd = fd,
         .body_offset = 3,
         .body_bytes = 4,
         .follow = GR_HTTP_FOLLOW_ALL,
         .sent = sent,
         .user = &t},
        {.method = "POST", .url = at(&p, "/d")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gr_test_ok(gr_http_send(h, &cases[i], &reply, &err), &err);
        assert_int_equal(reply.status, 200);
        gr_http_reply_free(&reply);
        usleep(20000);
    }
    assert_int_equal(t.sent, 4);
    const struct gr_http_request beyond = {
        .method = "PUT", .url = p.url, .body_fd = fd, .body_offset = 3, .body_bytes = 40};
    gr_test_fails(gr_http_send(h, &beyond, &reply, &err), &err, GR_ERR_IO, "became shorter");
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
    close(fd);
    static const char *const lines[] = {"POST /a ", "POST /there ", "PUT /b ", "PUT /c ", "PUT /part ", "POST /d "};
    static const char *const bodies[] = {"{\"a\":1}", "{\"a\":1}", "abc", "3456", "3456", ""};
    for (int i = 0; i < 6; i++) {
        assert_memory_equal(p.head[i], lines[i], strlen(lines[i]));
        assert_string_equal(p.body[i], bodies[i]);
        assert_int_equal(strcasestr(p.head[i], "content-type") != NULL, i < 2);
        assert_null(strcasestr(p.head[i], "expect"));
        assert_null(strcasestr(p.head[i], "transfer-encoding"));
    }
    assert_non_null(strstr(p.head[5], "\r\nContent-Length: 0\r\n"));
}

static void a_file_is_sent_again_from_its_beginning(void **state)
{
    (void)state;
    static struct player p = {.script = {OK_REPLY, PLAYER_CLOSE, OK_REPLY}};
    const char *path = gr_test_join(gr_test_temp_dir(), "again");
    struct gr_http_reply reply;
    struct gr_err err = {0};
    gr_test_write(path, "0123456789", 10);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd > 0);
    player_start(&p, NULL);
    struct gr_http *h = open_http(0.0, NULL);
    const struct gr_http_request q = {.method = "PUT", .url = p.url, .body_fd = fd, .body_offset = 2, .body_bytes = 5};
    for (int i = 0; i < 2; i++) { /* the second meets a connection that dies under it */
        gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
        gr_http_reply_free(&reply);
    }
    gr_http_close(h);
    player_stop(&p);
    close(fd);
    assert_int_equal(p.n_accepted, 2);
    assert_int_equal(p.n_requests, 3);
    assert_string_equal(p.body[1], "23456");
    assert_string_equal(p.body[2], "23456");
}

/* Set by the sink, when the exchange is under way. */
struct cancelled {
    _Atomic bool came, cancel;
};

static enum gr_status note_bytes(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    (void)bytes;
    (void)n;
    (void)err;
    atomic_store(&((struct cancelled *)user)->came, true);
    return GR_OK;
}

static bool want_all(void *user, const struct gr_http_reply *reply)
{
    (void)user;
    (void)reply;
    return true;
}

static void *cancel_when_it_waits(void *user)
{
    struct cancelled *c = user;
    while (!atomic_load(&c->came)) {
        usleep(1000);
    }
    usleep(150000);
    atomic_store(&c->cancel, true);
    return NULL;
}

static void cancel_ends_it_soon(void **state)
{
    (void)state;
    static struct player p = {.script = {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}};
    struct cancelled c = {false, false};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    pthread_t thread;
    player_start(&p, NULL);
    struct gr_http *h = open_http(long_s, &c.cancel);
    const struct gr_http_request q = {.method = "GET", .url = p.url, .want = want_all, .sink = note_bytes, .user = &c};
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_it_waits, &c), 0);
    gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_BUSY, "cancelled");
    assert_true(reply.wall_ms >= 100.0 && reply.wall_ms < hang_ms); /* nothing else would have ended it */
    assert_false(reply.again);
    gr_http_reply_free(&reply);
    pthread_join(thread, NULL);
    gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_BUSY, "cancelled"); /* before anything is sent */
    gr_http_reply_free(&reply);
    gr_http_close(h);
    player_stop(&p);
    assert_int_equal(p.n_requests, 1);
}

static void nobody_there(void **state)
{
    (void)state;
    static struct player p;
    struct gr_http_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    player_stop(&p); /* the port is free again */
    struct gr_http *h = open_http(0.0, NULL);
    struct gr_http_request q = {.method = "GET", .url = at(&p, "/a?b=s3cret"), .token = TOKEN};
    gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK, ": connection refused");
    assert_int_equal(reply.fault, GR_HTTP_NO_CONNECTION);
    assert_true(reply.again);
    assert_int_equal(reply.status, 0);
    assert_null(strstr(err.msg, "s3cret"));
    gr_http_reply_free(&reply);
    q.url = "http://no-such-host.invalid/";
    for (int i = 0; i < 2; i++) { /* the second time too: libcurl keeps a buffer after such an end */
        gr_test_fails(gr_http_send(h, &q, &reply, &err), &err, GR_ERR_NETWORK,
                      "no answer from no-such-host.invalid: the host name is not known");
        assert_int_equal(reply.fault, GR_HTTP_UNKNOWN_HOST);
        gr_http_reply_free(&reply);
    }
    gr_http_close(h);
}

static void proxies_only_when_asked_for(void **state)
{
    (void)state;
    static struct player proxy = {.script = {OK_REPLY}}, direct = {.script = {OK_REPLY}};
    player_start(&proxy, NULL);
    player_start(&direct, NULL);
    setenv("http_proxy", proxy.url, 1);
    setenv("no_proxy", "", 1);
    for (int i = 0; i < 2; i++) {
        const struct gr_http_config cfg = {.proxies = i == 1};
        struct gr_http *h = NULL;
        struct gr_http_reply reply;
        struct gr_err err = {0};
        const struct gr_http_request q = {.method = "GET", .url = i == 0 ? direct.url : "http://far.invalid/x"};
        gr_test_ok(gr_http_open(&cfg, &h, &err), &err);
        gr_test_ok(gr_http_send(h, &q, &reply, &err), &err);
        gr_http_reply_free(&reply);
        gr_http_close(h);
    }
    unsetenv("http_proxy");
    unsetenv("no_proxy");
    player_stop(&proxy);
    player_stop(&direct);
    assert_int_equal(proxy.n_requests, 1);
    assert_int_equal(direct.n_requests, 1);
    assert_memory_equal(proxy.head[0], "GET http://far.invalid/x ", 25);
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {"",
                                       "/a",
                                       "h",
                                       "ftp://h/",
                                       "http://",
                                       "http://a b",
                                       "http://h:70000/",
                                       "http://u:s3cret@h/",
                                       "http://h/?k=s3cret h"};
    static const char *const tokens[] = {"", "s3cret b", "s3cret\r\nX-Other: 1", "\xc3\xa9"};
    static const char *const headers[] = {"X-A: s3cret\r\nX-B: 2", NULL};
    struct gr_http_reply reply;
    struct gr_err err = {0};
    struct gr_http *h = open_http(0.0, NULL);
    for (size_t i = 0; i < sizeof urls / sizeof urls[0] + sizeof tokens / sizeof tokens[0] + 1; i++) {
        struct gr_http_request q = {.method = "GET", .url = "http://h/"};
        size_t of_token = i - sizeof urls / sizeof urls[0];
        if (i < sizeof urls / sizeof urls[0]) {
            q.url = urls[i];
        } else if (of_token < sizeof tokens / sizeof tokens[0]) {
            q.token = tokens[of_token];
        } else {
            q.headers = headers;
        }
        assert_int_equal(gr_http_send(h, &q, &reply, &err), GR_ERR_USAGE);
        assert_null(strstr(err.msg, "s3cret"));
        gr_http_reply_free(&reply);
    }
    gr_http_close(h);
    gr_http_close(NULL);
    const struct gr_http_config cfg = {.ca_file = "/nonexistent/ca.pem"};
    gr_test_fails(gr_http_open(&cfg, &h, &err), &err, GR_ERR_IO, "/nonexistent/ca.pem");
}

static void origins_compare_scheme_host_and_port(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {{"http://h", "http://H:80/x?y", true},   {"https://h:443", "HTTPS://h/", true},
                 {"http://h", "https://h", false},        {"http://h", "http://h:81", false},
                 {"http://h.a", "http://h.a.b", false},   {"http://[::1]:8", "http://[::1]:8/", true},
                 {"http://h:443", "https://h:443", false}};
    struct gr_url a, b;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(gr_url_parse(cases[i].a, &a) && gr_url_parse(cases[i].b, &b));
        assert_int_equal(gr_url_same_origin(&a, &b), cases[i].same);
    }
}

static void the_moment_to_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        double seconds;
    } cases[] = {
        {"", -1.0},
        {"Retry-After: 7\n", 7.0},
        {"retry-after: 0\nRateLimit: \"api\";r=0;t=55\n", 0.0},
        {"Date: Wed, 21 Oct 2015 07:28:00 GMT\nRetry-After: Wed, 21 Oct 2015 07:28:30 GMT\n", 30.0},
        {"Date: Tue, 29 Feb 2028 23:59:50 GMT\nRetry-After: Wed, 01 Mar 2028 00:00:00 GMT\n", 10.0},
        {"Retry-After: Wed, 21 Oct 2015 07:28:30 GMT\n", 0.0},
        {"Retry-After: soon\n", -1.0},
        {"Retry-After: -5\n", -1.0},
        {"RateLimit: \"api\";r=0;t=55\n", 55.0},
        {"RateLimit: \"api\"; r=0; t=55\n", 55.0},
        {"RateLimit: \"api\";r=12;t=55\n", -1.0},
        {"RateLimit: \"api\";t=\n", -1.0},
        {"Retry-After: soon\nRateLimit: \"api\";r=0;t=55\n", 55.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char headers[160];
        snprintf(headers, sizeof headers, "%s", cases[i].headers);
        double got = gr_http_retry_after(&(struct gr_http_reply){.headers = headers});
        if (got != cases[i].seconds) {
            fail_msg("%s: %g instead of %g", cases[i].headers, got, cases[i].seconds);
        }
    }
    time_t then = time(NULL) + 100;
    struct tm tm;
    char text[96];
    strftime(text, sizeof text, "Retry-After: %a, %d %b %Y %H:%M:%S GMT\n", gmtime_r(&then, &tm));
    double got = gr_http_retry_after(&(struct gr_http_reply){.headers = text});
    assert_true(got > 80.0 && got <= 100.0);
}

static void addresses_are_percent_encoded(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    gr_url_encode(&b, "a/b c~1-_.%?\xc3\xa9", "");
    gr_buf_puts(&b, " ");
    gr_url_encode(&b, "refs/pr/1", "/");
    gr_url_encode(&b, "", "/");
    assert_string_equal(b.data, "a%2Fb%20c~1-_.%25%3F%C3%A9 refs/pr/1");
    gr_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_go_to_the_sink_or_into_the_reply),
        cmocka_unit_test(ranges_are_asked_for_and_checked),
        cmocka_unit_test(a_token_that_left_its_origin_does_not_come_back),
        cmocka_unit_test(redirects_stop_where_they_must),
        cmocka_unit_test(ten_redirects_are_enough),
        cmocka_unit_test(nothing_leads_from_https_to_http),
        cmocka_unit_test(a_wrong_clock_is_named),
        cmocka_unit_test(broken_answers_say_whether_to_try_again),
        cmocka_unit_test(bytes_behind_the_answer_are_no_answer),
        cmocka_unit_test(silence_ends_at_the_limit),
        cmocka_unit_test(a_server_that_drips_is_given_up),
        cmocka_unit_test(the_sink_s_status_passes_through),
        cmocka_unit_test(head_has_headers_and_no_body),
        cmocka_unit_test(endless_headers_are_refused),
        cmocka_unit_test(bodies_of_requests_come_from_memory_and_files),
        cmocka_unit_test(a_file_is_sent_again_from_its_beginning),
        cmocka_unit_test(cancel_ends_it_soon),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(proxies_only_when_asked_for),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(origins_compare_scheme_host_and_port),
        cmocka_unit_test(the_moment_to_come_back),
        cmocka_unit_test(addresses_are_percent_encoded),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, gr_test_temp_clean);
}
