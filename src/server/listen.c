/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c: makes the listening socket. A port that somebody listens on is an error or leads to the next one, never to a shared port:
 * SO_REUSEADDR on Linux only allows a port whose connections of a former server are still closing. */
#include "server/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, SYSTEMD_FIRST_FD = 3, PORT_MAX = 65535 };

static bool is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        return (ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24) == 127;
    }
    if (sa->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
    }
    return true;
}

/* Port, url and reach from the address the socket really has. host: as the user wrote it, NULL: from the address. */
static enum gr_status describe(struct gr_listener *l, const char *host, bool tls, struct gr_err *err)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
        struct sockaddr_storage all;
    } addr = {0};
    socklen_t n = sizeof addr;
    const char *scheme = tls ? "https" : "http";
    char text[INET6_ADDRSTRLEN] = "";
    if (getsockname(l->fd, &addr.sa, &n) != 0) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "listening socket has no address");
    }
    if (addr.sa.sa_family == AF_UNIX) {
        l->is_unix = true;
        const size_t path_n =
            n > offsetof(struct sockaddr_un, sun_path) ? n - offsetof(struct sockaddr_un, sun_path) : 0;
        const bool abstract = path_n > 0 && addr.un.sun_path[0] == '\0';
        (void)snprintf(l->url, sizeof l->url, "unix:%s%.*s", abstract ? "@" : "", (int)(path_n - (abstract ? 1 : 0)),
                       addr.un.sun_path + (abstract ? 1 : 0));
        return GR_OK;
    }
    if (addr.sa.sa_family == AF_INET) {
        l->port = ntohs(addr.in.sin_port);
        (void)inet_ntop(AF_INET, &addr.in.sin_addr, text, sizeof text);
    } else if (addr.sa.sa_family == AF_INET6) {
        l->port = ntohs(addr.in6.sin6_port);
        (void)inet_ntop(AF_INET6, &addr.in6.sin6_addr, text, sizeof text);
    } else {
        return gr_fail(err, GR_ERR_USAGE, "listening socket is neither TCP nor Unix (address family %d)",
                       (int)addr.sa.sa_family);
    }
    l->is_public = !is_loopback(&addr.sa);
    const char *shown = host != NULL && strlen(host) < 100 ? host : text;
    const bool brackets = strchr(shown, ':') != NULL && shown[0] != '[';
    (void)snprintf(l->url, sizeof l->url, "%s://%s%s%s:%d", scheme, brackets ? "[" : "", shown, brackets ? "]" : "",
                   l->port);
    return GR_OK;
}

/* ---- TCP ---- */

/* A bound and listening socket, or -1 with errno. */
static int try_bind(const struct addrinfo *ai, int port)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } addr;
    if (ai->ai_addrlen > sizeof addr) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
    if (addr.sa.sa_family == AF_INET) {
        addr.in.sin_port = htons((uint16_t)port);
    } else {
        addr.in6.sin6_port = htons((uint16_t)port);
    }
    const int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &addr.sa, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    const int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

static enum gr_status bind_failed(const char *host, int port, int errnum, struct gr_err *err)
{
    switch (errnum) {
    case EADDRINUSE:
        return gr_fail(
            err, GR_ERR_USAGE,
            "port %d on %s is in use by another program: choose another --port, or leave it out to take a free one",
            port, host);
    case EADDRNOTAVAIL:
        return gr_fail(err, GR_ERR_USAGE, "%s is no address of this machine", host);
    case EACCES:
        return gr_fail(err, GR_ERR_USAGE, "no permission to listen on port %d (below 1024 needs a privilege)", port);
    default:
        return gr_fail_errno(err, GR_ERR_USAGE, errnum, "cannot listen on port %d of %s", port, host);
    }
}

/* The first address of the name that can be bound. A taken port ends the search: the next address of the same name would only hide it. */
static int bind_any(const struct addrinfo *list, int port)
{
    for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next) {
        const int fd = try_bind(ai, port);
        if (fd >= 0 || errno == EADDRINUSE || ai->ai_next == NULL) {
            return fd;
        }
    }
    errno = EADDRNOTAVAIL;
    return -1;
}

static enum gr_status resolve(const char *host, struct addrinfo **out, struct gr_err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char bare[256];
    const size_t n = strlen(host);
    if (n > 2 && n < sizeof bare && host[0] == '[' && host[n - 1] == ']') {
        memcpy(bare, host + 1, n - 2); /* [::1], as in a URL */
        bare[n - 2] = '\0';
        host = bare;
    }
    const int failed = n == 0 ? EAI_NONAME : getaddrinfo(host, NULL, &hints, out);
    if (failed != 0) {
        return gr_fail(err, GR_ERR_USAGE, "unknown host '%s': %s", host, gai_strerror(failed));
    }
    return GR_OK;
}

static enum gr_status listen_tcp(const struct gr_listen_config *cfg, bool tls, struct gr_listener *l,
                                 struct gr_err *err)
{
    const char *host = cfg->host != NULL ? cfg->host : "127.0.0.1";
    if (cfg->port < 0 || cfg->port > PORT_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "port %d is outside 1..%d", cfg->port, PORT_MAX);
    }
    struct addrinfo *list = NULL;
    GR_TRY(resolve(host, &list, err));
    const int first = cfg->port > 0 ? cfg->port : GR_PORT_FIRST, tries = cfg->port > 0 ? 1 : GR_PORT_TRIES;
    int port = first;
    for (; port < first + tries; port++) {
        l->fd = bind_any(list, port);
        if (l->fd >= 0 || errno != EADDRINUSE) {
            break;
        }
    }
    const int errnum = errno;
    freeaddrinfo(list);
    if (l->fd < 0 && tries > 1 && errnum == EADDRINUSE) {
        return gr_fail(err, GR_ERR_USAGE, "ports %d to %d on %s are all in use", first, first + tries - 1, host);
    }
    if (l->fd < 0) {
        return bind_failed(host, port < first + tries ? port : first, errnum, err);
    }
    l->moved = port != first;
    return describe(l, host, tls, err);
}

/* ---- Unix socket ---- */

/* Removes the socket file of a server that is gone. */
static enum gr_status clear_path(const struct sockaddr_un *un, struct gr_err *err)
{
    struct stat st;
    if (lstat(un->sun_path, &st) != 0) {
        return errno == ENOENT ? GR_OK : gr_fail_errno(err, GR_ERR_USAGE, errno, "socket path %s", un->sun_path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return gr_fail(err, GR_ERR_USAGE, "%s exists and is no socket: remove it or choose another path", un->sun_path);
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "socket");
    }
    const int answer = connect(fd, (const struct sockaddr *)un, sizeof *un) == 0 ? 0 : errno;
    (void)close(fd);
    if (answer != ECONNREFUSED) { /* connected, or a full queue: somebody listens; not allowed to ask: not ours */
        return gr_fail(err, GR_ERR_USAGE, "socket %s is in use by another program", un->sun_path);
    }
    if (unlink(un->sun_path) != 0 && errno != ENOENT) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "dead socket file %s cannot be removed", un->sun_path);
    }
    return GR_OK;
}

static enum gr_status listen_unix(const struct gr_listen_config *cfg, bool tls, struct gr_listener *l,
                                  struct gr_err *err)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const size_t n = strlen(cfg->unix_path);
    if (n == 0 || n >= sizeof un.sun_path) {
        return gr_fail(err, GR_ERR_USAGE, "socket path has %zu characters, 1 to %zu are possible", n,
                       sizeof un.sun_path - 1);
    }
    memcpy(un.sun_path, cfg->unix_path, n + 1);
    GR_TRY(clear_path(&un, err));
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "socket");
    }
    if (bind(l->fd, (const struct sockaddr *)&un, sizeof un) != 0) {
        return errno == EADDRINUSE ? gr_fail(err, GR_ERR_USAGE, "socket %s is in use by another program", un.sun_path)
                                   : gr_fail_errno(err, GR_ERR_USAGE, errno, "cannot make the socket %s", un.sun_path);
    }
    (void)snprintf(l->unlink_path, sizeof l->unlink_path, "%s", un.sun_path);
    /* Rights before listening: until then nobody can connect, whatever the umask left open. */
    if (chmod(un.sun_path, cfg->unix_mode != 0 ? (mode_t)(cfg->unix_mode & 0777) : 0600) != 0 ||
        listen(l->fd, BACKLOG) != 0) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "cannot listen on the socket %s", un.sun_path);
    }
    return describe(l, NULL, tls, err);
}

/* ---- socket activation ---- */

static enum gr_status take_inherited(int fd, bool tls, struct gr_listener *l, struct gr_err *err)
{
    int type = 0, listening = 0;
    socklen_t n = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "inherited descriptor %d is no socket", fd);
    }
    n = sizeof listening;
    if (type != SOCK_STREAM || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || listening == 0) {
        return gr_fail(err, GR_ERR_USAGE,
                       "inherited descriptor %d is no listening stream socket (systemd: ListenStream=, Accept=no)", fd);
    }
    const int flags = fcntl(fd, F_GETFL);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return gr_fail_errno(err, GR_ERR_USAGE, errno, "inherited descriptor %d", fd);
    }
    l->inherited = true;
    l->fd = fd;
    return describe(l, NULL, tls, err);
}

enum gr_status gr_listen(const struct gr_listen_config *cfg, bool tls, struct gr_listener *out, struct gr_err *err)
{
    struct gr_listener l = {.fd = -1};
    enum gr_status status;
    if (cfg->inherited_fd >= 0) {
        status = take_inherited(cfg->inherited_fd, tls, &l, err);
    } else if (cfg->unix_path != NULL) {
        status = listen_unix(cfg, tls, &l, err);
    } else {
        status = listen_tcp(cfg, tls, &l, err);
    }
    if (status != GR_OK) {
        gr_listen_close(&l);
    }
    *out = l;
    return status;
}

void gr_listen_close(struct gr_listener *l)
{
    if (l->unlink_path[0] != '\0') {
        (void)unlink(l->unlink_path);
        l->unlink_path[0] = '\0';
    }
    if (l->fd >= 0) {
        (void)close(l->fd);
        l->fd = -1;
    }
}

enum gr_status gr_listen_inherited(const char *listen_pid, const char *listen_fds, int *fd, struct gr_err *err)
{
    *fd = -1;
    if (listen_pid == NULL || listen_fds == NULL) {
        return GR_OK;
    }
    char *end = NULL;
    const long long pid = strtoll(listen_pid, &end, 10);
    if (end == listen_pid || *end != '\0' || pid != (long long)getpid()) {
        return GR_OK; /* meant for a parent of ours */
    }
    const long n = strtol(listen_fds, &end, 10);
    if (end == listen_fds || *end != '\0' || n < 0) {
        return gr_fail(err, GR_ERR_USAGE, "LISTEN_FDS is '%s', expected a number", listen_fds);
    }
    if (n > 1) {
        return gr_fail(err, GR_ERR_USAGE, "systemd passed %ld sockets, one is expected", n);
    }
    *fd = n == 1 ? SYSTEMD_FIRST_FD : -1;
    return GR_OK;
}

void gr_notify(const char *notify_socket, const char *text)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const size_t n = notify_socket != NULL ? strlen(notify_socket) : 0;
    if (n < 2 || n >= sizeof un.sun_path || (notify_socket[0] != '/' && notify_socket[0] != '@')) {
        return;
    }
    memcpy(un.sun_path, notify_socket, n);
    if (un.sun_path[0] == '@') {
        un.sun_path[0] = '\0'; /* the abstract name space */
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    const socklen_t addr_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&un, addr_n);
    (void)close(fd);
}
