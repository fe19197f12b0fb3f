/* SPDX-License-Identifier: Apache-2.0
 *
 * test_http_client.c: what goes over the wire and what comes back, against a server of a few lines that plays scripted answers. */
#include "gr_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_player.h"
#include "net/http_client.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

static struct gr_client *open_client(const char *url, const char *key, double total_s)
{
    const struct gr_client_config cfg = {.url = url, .api_key = key, .total_s = total_s};
    struct gr_client *c = NULL;
    struct gr_err err = {0};
    gr_test_ok(gr_client_open(&cfg, &c, &err), &err);
    return c;
}

static void requests_have_the_right_head(void **state)
{
    (void)state;
    struct player p = {.script = {OK_REPLY, OK_REPLY}};
    struct gr_client_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    struct gr_client *c = open_client(p.url, "k-123", 0.0);
    gr_test_ok(gr_client_send(c, "/health", NULL, 0, &reply, &err), &err);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body.data, "{}");
    assert_string_equal(reply.content_type, "application/json");
    assert_true(reply.wall_ms > 0.0);
    gr_buf_free(&reply.body);
    gr_test_ok(gr_client_send(c, "/predict", "{\"a\":1}", 7, &reply, &err), &err);
    gr_buf_free(&reply.body);
    gr_client_close(c);
    player_stop(&p);
    assert_int_equal(p.n_accepted, 1); /* kept alive */
    assert_memory_equal(p.head[0], "GET /health HTTP/1.1\r\n", 22);
    assert_memory_equal(p.head[1], "POST /predict HTTP/1.1\r\n", 24);
    for (int i = 0; i < 2; i++) {
        assert_non_null(strstr(p.head[i], "\r\nAuthorization: Bearer k-123\r\n"));
        assert_null(strcasestr(p.head[i], "expect"));
    }
    assert_null(strcasestr(p.head[0], "content-type"));
    assert_non_null(strstr(p.head[1], "\r\nContent-Type: application/json\r\n"));
    assert_int_equal(p.body_bytes[1], 7);
}

static void a_prefix_stays_and_a_slash_at_the_end_goes(void **state)
{
    (void)state;
    struct player p = {.script = {OK_REPLY}};
    struct gr_client_reply reply;
    struct gr_err err = {0};
    char url[160];
    player_start(&p, NULL);
    snprintf(url, sizeof url, "%s/robot/1//", p.url);
    struct gr_client *c = open_client(url, NULL, 0.0);
    gr_test_ok(gr_client_send(c, "/health", NULL, 0, &reply, &err), &err);
    gr_buf_free(&reply.body);
    gr_client_close(c);
    player_stop(&p);
    assert_memory_equal(p.head[0], "GET /robot/1/health ", 20);
    assert_null(strcasestr(p.head[0], "authorization"));
}

/* "Expect: 100-continue" would be a pause of a second before the body. */
static void large_bodies_go_out_without_a_pause(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    struct player p = {.script = {OK_REPLY, OK_REPLY}};
    struct gr_client_reply reply;
    struct gr_err err = {0};
    char *body = malloc(BYTES);
    assert_non_null(body);
    memset(body, 'x', BYTES);
    player_start(&p, NULL);
    struct gr_client *c = open_client(p.url, NULL, 0.0);
    for (int i = 0; i < 2; i++) {
        gr_test_ok(gr_client_send(c, "/predict", body, BYTES, &reply, &err), &err);
        gr_buf_free(&reply.body);
    }
    gr_client_close(c);
    player_stop(&p);
    free(body);
    for (int i = 0; i < 2; i++) {
        assert_null(strcasestr(p.head[i], "expect"));
        assert_int_equal(p.body_bytes[i], BYTES);
    }
}

static void a_connection_that_was_closed_meanwhile_is_opened_again(void **state)
{
    (void)state;
    struct player p = {.script = {OK_REPLY, OK_REPLY}, .close_after_each = true};
    struct gr_client_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    struct gr_client *c = open_client(p.url, NULL, 0.0);
    for (int i = 0; i < 2; i++) {
        gr_test_ok(gr_client_send(c, "/predict", "{}", 2, &reply, &err), &err);
        gr_buf_free(&reply.body);
        usleep(20000);
    }
    gr_client_close(c);
    player_stop(&p);
    assert_int_equal(p.n_accepted, 2);
}

static void chunked_empty_and_late_answers(void **state)
{
    (void)state;
    struct player p = {
        .script = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
                   "HTTP/1.1 503 Busy\r\nRetry-After:  7 \r\nContent-Length: 0\r\n\r\n", PLAYER_SILENCE}};
    struct gr_client_reply reply;
    struct gr_err err = {0};
    player_start(&p, NULL);
    struct gr_client *c = open_client(p.url, NULL, 0.0);
    gr_test_ok(gr_client_send(c, "/demo", NULL, 0, &reply, &err), &err);
    assert_string_equal(reply.body.data, "{\"a\":1}");
    assert_true(reply.retry_after_s == 0.0);
    gr_buf_free(&reply.body);
    gr_test_ok(gr_client_send(c, "/predict", "{}", 2, &reply, &err), &err);
    assert_int_equal(reply.status, 503);
    assert_true(reply.retry_after_s == 7.0);
    assert_string_equal(reply.body.data, "");
    gr_buf_free(&reply.body);
    gr_client_close(c);
    c = open_client(p.url, NULL, 0.4);
    gr_test_fails(gr_client_send(c, "/predict", "{}", 2, &reply, &err), &err, GR_ERR_NETWORK,
                  "/predict: no complete answer within 0.4 s");
    assert_null(reply.body.data);
    gr_client_close(c);
    player_stop(&p);
}

static void broken_answers_name_the_address(void **state)
{
    (void)state;
    static const struct {
        const char *answer, *text;
    } cases[] = {{PLAYER_CLOSE, "closed before the answer was complete"},
                 {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "closed before the answer was complete"},
                 {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", "127.0.0.1"},
                 {"220 mail.example ESMTP\r\n", "is it https://?"},
                 {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "127.0.0.1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct player p = {.script = {cases[i].answer, PLAYER_CLOSE, PLAYER_CLOSE}, .close_after_each = true};
        struct gr_client_reply reply;
        struct gr_err err = {0};
        player_start(&p, NULL);
        struct gr_client *c = open_client(p.url, "sesame", 60.0);
        gr_test_fails(gr_client_send(c, "/predict", "{}", 2, &reply, &err), &err, GR_ERR_NETWORK, cases[i].text);
        assert_non_null(strstr(err.msg, p.url));
        assert_null(strstr(err.msg, "sesame"));
        gr_client_close(c);
        player_stop(&p);
    }
}

static void nobody_there_is_told(void **state)
{
    (void)state;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof in;
    struct gr_client_reply reply;
    struct gr_err err = {0};
    char url[160];
    int held = socket(AF_INET, SOCK_STREAM, 0); /* bound and not listening: refuses */
    assert_int_equal(bind(held, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(held, (struct sockaddr *)&in, &n), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(in.sin_port));
    struct gr_client *c = open_client(url, NULL, 0.0);
    gr_test_fails(gr_client_send(c, "/health", NULL, 0, &reply, &err), &err, GR_ERR_NETWORK,
                  ": connection refused; is `gr00t serve` running there?");
    gr_client_close(c);
    close(held);
    snprintf(url, sizeof url, "unix:%s/none.sock", gr_test_temp_dir());
    c = open_client(url, NULL, 0.0);
    gr_test_fails(gr_client_send(c, "/health", NULL, 0, &reply, &err), &err, GR_ERR_NETWORK,
                  ": no such file or directory;");
    gr_client_close(c);
}

static void unix_sockets_work(void **state)
{
    (void)state;
    struct player p = {.script = {OK_REPLY}};
    struct gr_client_reply reply;
    struct gr_err err = {0};
    player_start(&p, gr_test_join(gr_test_temp_dir(), "s.sock"));
    struct gr_client *c = open_client(p.url, NULL, 0.0);
    gr_test_ok(gr_client_send(c, "/health", NULL, 0, &reply, &err), &err);
    gr_buf_free(&reply.body);
    gr_client_close(c);
    player_stop(&p);
    assert_memory_equal(p.head[0], "GET /health HTTP/1.1\r\nHost: localhost\r\n", 39);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",           "host:1",     "file:///etc/passwd", "http://", "http://a b", "http://u:secret@h",
        "http://h?q", "http://h#f", "http://h:70000",     "unix:",   "http://h\n/"};
    struct gr_client *c = NULL;
    struct gr_err err = {0};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const struct gr_client_config cfg = {.url = urls[i]};
        assert_int_equal(gr_client_open(&cfg, &c, &err), GR_ERR_USAGE);
        assert_null(strstr(err.msg, "secret"));
    }
    static const char *const keys[] = {"", "a b", "a\r\nX-Other: 1", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct gr_client_config cfg = {.url = "http://h", .api_key = keys[i]};
        gr_test_fails(gr_client_open(&cfg, &c, &err), &err, GR_ERR_USAGE, "printable");
    }
    const struct gr_client_config cfg = {.url = "https://h", .ca_file = "/nonexistent/ca.pem"};
    gr_test_fails(gr_client_open(&cfg, &c, &err), &err, GR_ERR_IO, "/nonexistent/ca.pem");
    assert_null(c);
    gr_client_close(NULL);
}

static void statuses_become_codes_and_messages(void **state)
{
    (void)state;
    static const struct {
        int http;
        enum gr_status status;
        const char *body, *text;
    } cases[] = {
        {200, GR_OK, "", ""},
        {204, GR_OK, "", ""},
        {400, GR_ERR_INPUT, "{\"error\":{\"code\":\"x\",\"message\":\"too wide\",\"field\":\"state.waist\"}}",
         "http://h:1/predict answered 400: state.waist: too wide"},
        {422, GR_ERR_INPUT, "{\"error\":{\"message\":\"seed is negative\",\"field\":\"seed\"}}",
         "422: seed is negative"},
        {413, GR_ERR_INPUT, "{\"detail\":\"too large\"}", "413: too large"},
        {415, GR_ERR_INPUT, "", "415"},
        {401, GR_ERR_ACCESS, "{\"error\":{\"message\":\"no key\",\"field\":null}}", "401: no key; --api-key-file"},
        {403, GR_ERR_ACCESS, "[]", "403"},
        {503, GR_ERR_BUSY, "{\"error\":{\"message\":\"starting\"}}", "503: starting"},
        {500, GR_ERR_NETWORK, "{\"error\":{\"message\":\"device lost\"}}", "500: device lost"},
        {404, GR_ERR_NETWORK, "<html>", "404: is this the address of a GR00T service?"},
        {307, GR_ERR_NETWORK, "", "a redirect, which is not followed"},
        {400, GR_ERR_INPUT, "{\"error\":\"text\",\"detail\":[1]}", "400"},
    };
    struct gr_client *c = open_client("http://h:1/", "sesame", 0.0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_client_reply reply = {.status = cases[i].http};
        struct gr_err err = {0};
        gr_buf_puts(&reply.body, cases[i].body);
        assert_int_equal(gr_client_check(c, "/predict", &reply, &err), cases[i].status);
        if (strstr(err.msg, cases[i].text) == NULL) {
            fail_msg("%d: \"%s\" lacks \"%s\"", cases[i].http, err.msg, cases[i].text);
        }
        gr_buf_free(&reply.body);
    }
    gr_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_the_right_head),
        cmocka_unit_test(a_prefix_stays_and_a_slash_at_the_end_goes),
        cmocka_unit_test(large_bodies_go_out_without_a_pause),
        cmocka_unit_test(a_connection_that_was_closed_meanwhile_is_opened_again),
        cmocka_unit_test(chunked_empty_and_late_answers),
        cmocka_unit_test(broken_answers_name_the_address),
        cmocka_unit_test(nobody_there_is_told),
        cmocka_unit_test(unix_sockets_work),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(statuses_become_codes_and_messages),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
