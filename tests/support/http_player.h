/* SPDX-License-Identifier: Apache-2.0
 *
 * http_player.h: an HTTP server of a few lines for tests of clients: plays scripted answers in order and keeps what it was asked. */
#ifndef GR_HTTP_PLAYER_H
#define GR_HTTP_PLAYER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define PLAYER_SILENCE ""    /* reads the request and never answers */
#define PLAYER_CLOSE "close" /* reads the request and closes */
enum { PLAYER_HEAD_BYTES = 8192, PLAYER_BODY_BYTES = 256, PLAYER_SCRIPT_MAX = 16 };

/* One connection after the other; answer i of the script goes to request i. */
struct player {
    const char *script[PLAYER_SCRIPT_MAX];
    bool close_after_each; /* without saying so */
    size_t drip_bytes;     /* after an answer so many more every 20 ms, for as long as somebody listens; 0: none */
    int listener, n_accepted, n_requests, port;
    char head[PLAYER_SCRIPT_MAX][PLAYER_HEAD_BYTES];
    char body[PLAYER_SCRIPT_MAX][PLAYER_BODY_BYTES]; /* its beginning, NUL-terminated */
    size_t body_bytes[PLAYER_SCRIPT_MAX];
    pthread_t thread;
    char url[128];
};

/* unix_path NULL: a port of the loopback. */
void player_start(struct player *p, const char *unix_path);
/* The client is closed before: its connection would keep the thread waiting. */
void player_stop(struct player *p);

#endif
