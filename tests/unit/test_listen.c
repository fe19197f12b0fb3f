/* SPDX-License-Identifier: Apache-2.0
 *
 * test_listen.c: which socket a configuration gives, and which sentence when it gives none. Ports are found by asking the system for a free
 * one; a test that needs GR_PORT_FIRST itself works with whatever else is running. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gr_test.h"
#include "server/listen.h"

#define CFG(...) (&(struct gr_listen_config){.inherited_fd = -1, __VA_ARGS__})

static int connect_port(int port)
{
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&in, sizeof in) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&un, sizeof un) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void without_a_port_the_next_free_one_is_taken(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener a, b;
    gr_test_ok(gr_listen(CFG(.port = 0), false, &a, &err), &err);
    gr_test_ok(gr_listen(CFG(.port = 0), false, &b, &err), &err);
    assert_in_range(a.port, GR_PORT_FIRST, GR_PORT_FIRST + GR_PORT_TRIES - 1);
    assert_true(b.port > a.port);
    assert_true(b.moved);
    assert_int_equal(a.moved, a.port != GR_PORT_FIRST);
    assert_false(a.is_public || a.is_unix || a.inherited);
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", b.port);
    assert_string_equal(b.url, url);
    const int fd = connect_port(b.port);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_true((fcntl(b.fd, F_GETFD) & FD_CLOEXEC) != 0);
    gr_listen_close(&a);
    gr_listen_close(&b);
    gr_listen_close(&b);
}

static void a_given_port_that_is_taken_is_named(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener a, b;
    char want[32];
    gr_test_ok(gr_listen(CFG(.port = 0), true, &a, &err), &err);
    assert_memory_equal(a.url, "https://", 8);
    (void)snprintf(want, sizeof want, "port %d on 127.0.0.1", a.port);
    gr_test_fails(gr_listen(CFG(.port = a.port), false, &b, &err), &err, GR_ERR_USAGE, want);
    gr_test_fails(gr_listen(CFG(.port = a.port, .host = "0.0.0.0"), false, &b, &err), &err, GR_ERR_USAGE, "in use");
    assert_int_equal(b.fd, -1);
    gr_listen_close(&a);
}

static void a_port_is_free_again_right_after_the_stop(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener a;
    gr_test_ok(gr_listen(CFG(.port = 0), false, &a, &err), &err);
    const int port = a.port;
    const int client = connect_port(port), served = accept(a.fd, NULL, NULL);
    assert_true(client >= 0 && served >= 0);
    (void)close(served); /* our side closes first: it is the one that waits */
    gr_listen_close(&a);
    (void)close(client);
    gr_test_ok(gr_listen(CFG(.port = port), false, &a, &err), &err);
    assert_false(a.moved);
    gr_listen_close(&a);
}

static void hosts_are_names_or_addresses_of_both_families(void **state)
{
    (void)state;
    static const struct {
        const char *host, *url;
        bool is_public, must;
    } cases[] = {{"localhost", "http://localhost:", false, false},
                 {"127.0.0.1", "http://127.0.0.1:", false, true},
                 {"127.3.2.1", "http://127.3.2.1:", false, true},
                 {"0.0.0.0", "http://0.0.0.0:", true, true},
                 {"::1", "http://[::1]:", false, false},
                 {"[::1]", "http://[::1]:", false, false},
                 {"::", "http://[::]:", true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_err err;
        struct gr_listener l;
        if (gr_listen(CFG(.host = cases[i].host), false, &l, &err) != GR_OK) {
            assert_false(cases[i].must); /* a machine without IPv6 or without /etc/hosts */
            continue;
        }
        assert_memory_equal(l.url, cases[i].url, strlen(cases[i].url));
        assert_int_equal(l.is_public, cases[i].is_public);
        gr_listen_close(&l);
    }
}

static void bad_hosts_and_ports_are_told(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener l;
    gr_test_fails(gr_listen(CFG(.host = "no such host"), false, &l, &err), &err, GR_ERR_USAGE,
                  "unknown host 'no such host'");
    gr_test_fails(gr_listen(CFG(.host = ""), false, &l, &err), &err, GR_ERR_USAGE, "unknown host");
    gr_test_fails(gr_listen(CFG(.host = "192.0.2.1"), false, &l, &err), &err, GR_ERR_USAGE,
                  "no address of this machine");
    gr_test_fails(gr_listen(CFG(.port = 70000), false, &l, &err), &err, GR_ERR_USAGE, "70000");
    gr_test_fails(gr_listen(CFG(.port = -1), false, &l, &err), &err, GR_ERR_USAGE, "-1");
}

static void a_unix_socket_has_its_rights_and_replaces_a_dead_one(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener a, b;
    struct stat st;
    const char *path = gr_test_join(gr_test_temp_dir(), "gr.sock");
    gr_test_ok(gr_listen(CFG(.unix_path = path), false, &a, &err), &err);
    assert_true(a.is_unix);
    assert_int_equal(a.port, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char url[300];
    (void)snprintf(url, sizeof url, "unix:%s", path);
    assert_string_equal(a.url, url);
    assert_string_equal(a.unlink_path, path);
    gr_test_fails(gr_listen(CFG(.unix_path = path), false, &b, &err), &err, GR_ERR_USAGE, "in use");
    const int fd = connect_unix(path);
    assert_true(fd >= 0); /* the failed start left the live one alone */
    (void)close(fd);
    (void)close(a.fd); /* as after kill -9 */
    assert_true(gr_test_exists(path));
    gr_test_ok(gr_listen(CFG(.unix_path = path, .unix_mode = 0666), false, &b, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    gr_listen_close(&b);
    assert_false(gr_test_exists(path));
}

static void a_path_that_cannot_be_a_socket_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener l;
    char longest[200];
    const char *file = gr_test_join(gr_test_temp_dir(), "file");
    gr_test_write(file, "x", 1);
    gr_test_fails(gr_listen(CFG(.unix_path = file), false, &l, &err), &err, GR_ERR_USAGE, "no socket");
    assert_true(gr_test_exists(file));
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[108] = '\0';
    gr_test_fails(gr_listen(CFG(.unix_path = longest), false, &l, &err), &err, GR_ERR_USAGE,
                  "108 characters, 1 to 107");
    gr_test_fails(gr_listen(CFG(.unix_path = ""), false, &l, &err), &err, GR_ERR_USAGE, "0 characters");
    gr_test_fails(gr_listen(CFG(.unix_path = "/nonexistent/dir/s"), false, &l, &err), &err, GR_ERR_USAGE,
                  "/nonexistent/dir/s");
}

static void an_inherited_socket_is_used_as_it_is(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_listener a, b;
    gr_test_ok(gr_listen(CFG(.port = 0), false, &a, &err), &err);
    const int passed = dup(a.fd);
    gr_test_ok(gr_listen(&(struct gr_listen_config){.inherited_fd = passed}, false, &b, &err), &err);
    assert_true(b.inherited && !b.moved);
    assert_int_equal(b.port, a.port);
    assert_string_equal(b.url, a.url);
    assert_true((fcntl(passed, F_GETFD) & FD_CLOEXEC) != 0);
    gr_listen_close(&b);
    gr_listen_close(&a);
    const int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    gr_test_fails(gr_listen(&(struct gr_listen_config){.inherited_fd = plain}, false, &b, &err), &err, GR_ERR_USAGE,
                  "no listening stream socket");
    gr_test_fails(gr_listen(&(struct gr_listen_config){.inherited_fd = file}, false, &b, &err), &err, GR_ERR_USAGE,
                  "no socket");
    (void)close(plain);
    (void)close(file);
}

static void systemd_variables_count_only_for_this_process(void **state)
{
    (void)state;
    struct gr_err err;
    char me[32];
    int fd = 0;
    (void)snprintf(me, sizeof me, "%ld", (long)getpid());
    gr_test_ok(gr_listen_inherited(me, "1", &fd, &err), &err);
    assert_int_equal(fd, 3);
    static const char *const none[][2] = {{NULL, NULL}, {NULL, "1"}, {"1", "1"}, {"x", "1"}, {"", ""}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        gr_test_ok(gr_listen_inherited(none[i][0], none[i][1], &fd, &err), &err);
        assert_int_equal(fd, -1);
    }
    gr_test_ok(gr_listen_inherited(me, "0", &fd, &err), &err);
    assert_int_equal(fd, -1);
    gr_test_fails(gr_listen_inherited(me, "2", &fd, &err), &err, GR_ERR_USAGE, "2 sockets");
    gr_test_fails(gr_listen_inherited(me, "two", &fd, &err), &err, GR_ERR_USAGE, "two");
    assert_int_equal(fd, -1);
}

static void systemd_hears_one_datagram(void **state)
{
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const char *path = gr_test_join(gr_test_temp_dir(), "notify");
    char text[64] = "", abstract[64];
    for (int kind = 0; kind < 2; kind++) {
        (void)snprintf(abstract, sizeof abstract, "@gr-test-%ld", (long)getpid());
        const char *name = kind == 0 ? path : abstract;
        memset(un.sun_path, 0, sizeof un.sun_path);
        memcpy(un.sun_path, name, strlen(name));
        un.sun_path[0] = kind == 0 ? '/' : '\0';
        const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
        assert_int_equal(bind(fd, (const struct sockaddr *)&un, n), 0);
        gr_notify(name, "READY=1\nSTATUS=ok");
        assert_int_equal(recv(fd, text, sizeof text, 0), 17);
        assert_memory_equal(text, "READY=1\nSTATUS=ok", 17);
        assert_int_equal(recv(fd, text, sizeof text, 0), -1);
        (void)close(fd);
    }
    gr_notify(NULL, "x");
    gr_notify("", "x");
    gr_notify("relative", "x");
    gr_notify("/nonexistent/notify", "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_port_the_next_free_one_is_taken),
        cmocka_unit_test(a_given_port_that_is_taken_is_named),
        cmocka_unit_test(a_port_is_free_again_right_after_the_stop),
        cmocka_unit_test(hosts_are_names_or_addresses_of_both_families),
        cmocka_unit_test(bad_hosts_and_ports_are_told),
        cmocka_unit_test(a_unix_socket_has_its_rights_and_replaces_a_dead_one),
        cmocka_unit_test(a_path_that_cannot_be_a_socket_is_refused),
        cmocka_unit_test(an_inherited_socket_is_used_as_it_is),
        cmocka_unit_test(systemd_variables_count_only_for_this_process),
        cmocka_unit_test(systemd_hears_one_datagram),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
