/* SPDX-License-Identifier: Apache-2.0
 *
 * http_player.c: one thread, one connection after the other. */
#include "http_player.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "gr_test.h"

enum { DRIP_MAX = 1024, DRIP_MS = 20 };

static void keep_body(char body[PLAYER_BODY_BYTES], size_t at, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && at + i < PLAYER_BODY_BYTES - 1; i++) {
        body[at + i] = bytes[i];
        body[at + i + 1] = '\0';
    }
}

/* Reads head and body of one request; false when the client is gone. */
static bool read_request(int fd, char head[PLAYER_HEAD_BYTES], char body[PLAYER_BODY_BYTES], size_t *body_bytes)
{
    static const char length[] = "content-length:";
    size_t n = 0, want = 0;
    char *end = NULL;
    while (end == NULL && n < PLAYER_HEAD_BYTES - 1) {
        ssize_t got = recv(fd, head + n, PLAYER_HEAD_BYTES - 1 - n, 0);
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
        head[n] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    if (end == NULL) {
        return false;
    }
    *body_bytes = n - (size_t)(end + 4 - head);
    body[0] = '\0';
    keep_body(body, 0, end + 4, *body_bytes);
    end[4] = '\0';
    for (const char *line = head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, length, sizeof length - 1) == 0) {
            want = strtoul(line + sizeof length - 1, NULL, 10);
        }
    }
    char rest[65536];
    while (*body_bytes < want) {
        ssize_t got = recv(fd, rest, sizeof rest, 0);
        if (got <= 0) {
            return false;
        }
        keep_body(body, *body_bytes, rest, (size_t)got);
        *body_bytes += (size_t)got;
    }
    return true;
}

static void drip(int fd, size_t n)
{
    static const char bytes[DRIP_MAX];
    while (n > 0 && send(fd, bytes, n < DRIP_MAX ? n : DRIP_MAX, MSG_NOSIGNAL) > 0) {
        gr_clock_sleep(DRIP_MS);
    }
}

static void *play(void *user)
{
    struct player *p = user;
    for (int fd; (fd = accept(p->listener, NULL, NULL)) >= 0; close(fd)) {
        p->n_accepted++;
        while (p->n_requests < PLAYER_SCRIPT_MAX &&
               read_request(fd, p->head[p->n_requests], p->body[p->n_requests], &p->body_bytes[p->n_requests])) {
            const char *answer = p->script[p->n_requests++];
            if (answer == NULL || strcmp(answer, PLAYER_CLOSE) == 0) {
                break;
            }
            (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
            drip(fd, p->drip_bytes);
            if (p->close_after_each) {
                break;
            }
        }
    }
    return NULL;
}

void player_start(struct player *p, const char *unix_path)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t n = sizeof in;
    p->listener = socket(unix_path != NULL ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    assert_true(p->listener >= 0);
    if (unix_path != NULL) {
        snprintf(un.sun_path, sizeof un.sun_path, "%s", unix_path);
        snprintf(p->url, sizeof p->url, "unix:%s", unix_path);
        assert_int_equal(bind(p->listener, (struct sockaddr *)&un, sizeof un), 0);
    } else {
        assert_int_equal(bind(p->listener, (struct sockaddr *)&in, sizeof in), 0);
        assert_int_equal(getsockname(p->listener, (struct sockaddr *)&in, &n), 0);
        p->port = ntohs(in.sin_port);
        snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d", p->port);
    }
    assert_int_equal(listen(p->listener, 8), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, play, p), 0);
}

void player_stop(struct player *p)
{
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
}
