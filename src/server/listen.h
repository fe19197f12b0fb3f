/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.h: the listening socket: TCP port, Unix socket, or one handed over by systemd; and the notes systemd wants to hear. */
#ifndef GR_SERVER_LISTEN_H
#define GR_SERVER_LISTEN_H

#include <stdbool.h>

#include "base/err.h"

enum { GR_PORT_FIRST = 20000, GR_PORT_TRIES = 100, GR_LISTEN_TEXT_BYTES = 160 };

struct gr_listen_config {
    const char *host; /* name or address; NULL: "127.0.0.1" */
    int port;         /* 0: GR_PORT_FIRST or the next free one */
    const char *
        unix_path; /* not NULL: a Unix socket instead. A dead socket file there is replaced, a live one or another file is not */
    unsigned unix_mode; /* permission bits, 0: 0600 */
    int inherited_fd;   /* >= 0: this socket instead (socket activation) */
};

struct gr_listener {
    int fd;
    int port; /* 0 for a Unix socket */
    bool is_unix, is_public, inherited,
        moved;                      /* public: reachable from other machines; moved: GR_PORT_FIRST was taken */
    char url[GR_LISTEN_TEXT_BYTES]; /* "http://127.0.0.1:20000", "unix:/run/gr00t.sock"; https when tls */
    char unlink_path[108];          /* Unix socket file to remove at the end, "" for none */
};

/* Binds and listens, without SO_REUSEPORT. GR_ERR_USAGE: "port 20000 on 127.0.0.1 is in use ...", unknown host, no permission, path too long,
 * inherited descriptor that is no listening stream socket. */
enum gr_status gr_listen(const struct gr_listen_config *cfg, bool tls, struct gr_listener *out, struct gr_err *err);
void gr_listen_close(struct gr_listener *l); /* closes, removes the Unix socket file; safe to call twice */

/* systemd: the descriptor of LISTEN_FDS when LISTEN_PID is this process, else -1. More than one is GR_ERR_USAGE. The strings are the
 * variables' values, NULL when unset. */
enum gr_status gr_listen_inherited(const char *listen_pid, const char *listen_fds, int *fd, struct gr_err *err);
/* Sends one datagram, "READY=1\nSTATUS=...", to the socket named by NOTIFY_SOCKET (path or @abstract). NULL: nothing is sent. */
void gr_notify(const char *notify_socket, const char *text);

#endif
