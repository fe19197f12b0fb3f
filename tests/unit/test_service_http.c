/* SPDX-License-Identifier: Apache-2.0
 *
 * test_service_http.c: the service behind the real HTTP layer, over sockets: a predict on the wire, many clients at once, one connection
 * for many requests, clients that vanish, and the end while clients are there. */
#include "gr_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "boot_fixture.h"
#include "server/http.h"
#include "server/service_parts.h"

static struct gr_boot_fixture fixture;

struct served {
    struct gr_service *service;
    struct gr_httpd *http;
    int fd, port;
};

static struct served serve(bool ready)
{
    struct served s = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    struct gr_err err;
    assert_int_equal(bind(s.fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s.fd, 64), 0);
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&a, &n), 0);
    s.port = ntohs(a.sin_port);
    gr_test_ok(gr_service_new(&fixture.config, &s.service, &err), &err);
    const struct gr_httpd_config cfg = {
        .listen_fd = s.fd, .limits = fixture.config.limits, .on = gr_service_callbacks(s.service)};
    gr_test_ok(gr_httpd_start(&cfg, &s.http, &err), &err);
    gr_service_set_http(s.service, s.http);
    if (ready) {
        gr_test_ok(gr_service_ready(s.service, &fixture.facts, &err), &err);
    }
    return s;
}

static void unserve(struct served *s)
{
    gr_service_drain(s->service);
    gr_httpd_drain(s->http);
    assert_true(gr_httpd_wait_idle(s->http, 20000));
    gr_service_stop(s->service);
    gr_httpd_free(s->http);
    gr_service_free(s->service);
    close(s->fd);
}

static int dial(const struct served *s)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct timeval patience = {.tv_sec = 60};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void put(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t w = send(fd, text, n, MSG_NOSIGNAL);
        assert_true(w > 0);
        text += w;
        n -= (size_t)w;
    }
}

static void put_request(int fd, const char *line, const char *body)
{
    char head[256];
    int n = snprintf(head, sizeof head,
                     "%s HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", line,
                     body != NULL ? strlen(body) : 0);
    put(fd, head, (size_t)n);
    put(fd, body != NULL ? body : "", body != NULL ? strlen(body) : 0);
}

/* One reply: its status; *body (to be freed) when not NULL. */
static int get_reply(int fd, bool head_only, char **body)
{
    struct gr_buf head = {0};
    char c;
    while (head.len < 4 || memcmp(head.data + head.len - 4, "\r\n\r\n", 4) != 0) {
        assert_int_equal(recv(fd, &c, 1, 0), 1);
        gr_buf_put(&head, &c, 1);
    }
    const int status = atoi(head.data + 9);
    const char *at = strcasestr(head.data, "\r\nContent-Length:");
    size_t n = at != NULL && !head_only ? strtoul(at + 17, NULL, 10) : 0;
    char *text = calloc(1, n + 1);
    if (n > 0) { /* recv of nothing waits for something */
        assert_int_equal(recv(fd, text, n, MSG_WAITALL), n);
    }
    gr_buf_free(&head);
    if (body != NULL) {
        *body = text;
    } else {
        free(text);
    }
    return status;
}

static char *demo_request(const struct served *s)
{
    int fd = dial(s);
    char *demo;
    put_request(fd, "GET /demo", NULL);
    assert_int_equal(get_reply(fd, false, &demo), 200);
    close(fd);
    char *begin = strstr(demo, "{\"images\""), *last = strstr(demo, ",\"expected\":");
    *last = '\0';
    memmove(demo, begin, strlen(begin) + 1);
    return demo;
}

/* Up to "action_horizon": what must be equal. */
static char *actions_of(char *reply)
{
    char *last = strstr(reply, "\"action_horizon\"");
    assert_non_null(last);
    *last = '\0';
    return reply;
}

static void one_connection_carries_many_requests(void **state)
{
    (void)state;
    struct served s = serve(false);
    int fd = dial(&s);
    put_request(fd, "POST /predict", "{}");
    assert_int_equal(get_reply(fd, false, NULL), 503);
    put_request(fd, "GET /ready", NULL);
    assert_int_equal(get_reply(fd, false, NULL), 503);
    struct gr_err err;
    gr_test_ok(gr_service_ready(s.service, &fixture.facts, &err), &err);
    put_request(fd, "GET /ready", NULL);
    assert_int_equal(get_reply(fd, false, NULL), 200);
    put_request(fd, "HEAD /info", NULL);
    assert_int_equal(get_reply(fd, true, NULL), 200);
    put_request(fd, "GET /nowhere", NULL);
    assert_int_equal(get_reply(fd, false, NULL), 404);
    char *body = demo_request(&s), *first, *second;
    put_request(fd, "POST /predict", body);
    put_request(fd, "POST /predict", body);
    assert_int_equal(get_reply(fd, false, &first), 200);
    assert_int_equal(get_reply(fd, false, &second), 200);
    assert_string_equal(actions_of(first), actions_of(second));
    put_request(fd, "POST /predict", "{\"images\":1}");
    assert_int_equal(get_reply(fd, false, NULL), 422);
    put_request(fd, "GET /metrics", NULL);
    char *metrics;
    assert_int_equal(get_reply(fd, false, &metrics), 200);
    assert_non_null(strstr(metrics, "\ngr00t_requests_total{route=\"/predict\",status=\"200\"} 2\n"));
    free(metrics);
    free(first);
    free(second);
    free(body);
    close(fd);
    unserve(&s);
}

struct client {
    const struct served *served;
    const char *body, *expected;
    int answered, other;
    char *last;
};

static void *ask_often(void *arg)
{
    struct client *c = arg;
    int fd = dial(c->served);
    for (int i = 0; i < 10; i++) {
        char *reply;
        put_request(fd, "POST /predict", c->body);
        const int status = get_reply(fd, false, &reply);
        if (status == 200) {
            c->answered++;
            if (c->expected != NULL && strcmp(actions_of(reply), c->expected) != 0) {
                c->other++;
            }
        } else if (status != 503) {
            c->other++;
        }
        free(reply);
    }
    close(fd);
    return NULL;
}

static void clients_at_once_get_what_each_would_get_alone(void **state)
{
    (void)state;
    enum { CLIENTS = 4 };
    struct served s = serve(true);
    char *body = demo_request(&s);
    struct client c[CLIENTS] = {0};
    pthread_t t[CLIENTS];
    int fd = dial(&s), answered = 0;
    for (int i = 0; i < CLIENTS; i++) {
        char *own = strdup(body), *reply;
        memcpy(strstr(own, "\"seed\":42") + 7, i == 0 ? "42" : i == 1 ? " 1" : i == 2 ? " 2" : " 3", 2);
        put_request(fd, "POST /predict", own);
        assert_int_equal(get_reply(fd, false, &reply), 200);
        c[i] = (struct client){.served = &s, .body = own, .expected = actions_of(reply)};
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, ask_often, &c[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(c[i].other, 0);
        answered += c[i].answered;
        free((char *)c[i].body);
        free((char *)c[i].expected);
    }
    assert_true(answered > 10);
    free(body);
    close(fd);
    unserve(&s);
}

static void clients_that_vanish_leave_nothing_behind(void **state)
{
    (void)state;
    struct served s = serve(true);
    char *body = demo_request(&s), *reply;
    for (int i = 0; i < 30; i++) {
        int fd = dial(&s);
        const struct linger at_once = {.l_onoff = 1};
        if (i % 3 == 0) {
            static const char half[] = "POST /predict HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n{";
            put(fd, half, sizeof half - 1);
        } else {
            put_request(fd, "POST /predict", body);
        }
        if (i % 2 == 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        close(fd);
    }
    int fd = dial(&s), status = 503;
    for (int i = 0; i < 200 && status == 503; i++) {
        put_request(fd, "POST /predict", body);
        status = get_reply(fd, false, &reply);
        free(reply);
    }
    assert_int_equal(status, 200);
    close(fd);
    free(body);
    unserve(&s);
}

static void the_end_answers_clients_that_wait(void **state)
{
    (void)state;
    struct served s = serve(true);
    char *body = demo_request(&s);
    int fd[3];
    for (int i = 0; i < 3; i++) {
        fd[i] = dial(&s);
        put_request(fd[i], "POST /predict", body);
    }
    for (int i = 0; i < 2000 && gr_service_waiting(s.service) + (gr_service_busy_s(s.service) > 0) == 0; i++) {
        usleep(100);
    }
    gr_service_drain(s.service);
    gr_service_stop(s.service); /* the deadline has passed */
    for (int i = 0; i < 3; i++) {
        const int status = get_reply(fd[i], false, NULL);
        assert_true(status == 200 || status == 503);
        close(fd[i]);
    }
    free(body);
    unserve(&s);
}

/* Of CPU, of client and service together: the time on the wall depends on what else runs. */
static void a_get_route_takes_less_than_a_millisecond(void **state)
{
    (void)state;
    struct served s = serve(true);
    int fd = dial(&s);
    enum { N = 200 };
    const double begin = gr_test_cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < N; i++) {
        put_request(fd, i % 2 == 0 ? "GET /health" : "GET /ready", NULL);
        assert_int_equal(get_reply(fd, false, NULL), 200);
    }
    const double ms = (gr_test_cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - begin) / N;
    print_message("# a GET: %.3f ms of CPU\n", ms);
    assert_true(ms < 10); /* ten times the figure */
    close(fd);
    unserve(&s);
}

static int make(void **state)
{
    (void)state;
    gr_log_setup(GR_LOG_ERROR, false);
    return gr_boot_fixture_make(&fixture);
}

static int clean(void **state)
{
    (void)state;
    gr_boot_fixture_free(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_carries_many_requests),
        cmocka_unit_test(clients_at_once_get_what_each_would_get_alone),
        cmocka_unit_test(clients_that_vanish_leave_nothing_behind),
        cmocka_unit_test(the_end_answers_clients_that_wait),
        cmocka_unit_test(a_get_route_takes_less_than_a_millisecond),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
