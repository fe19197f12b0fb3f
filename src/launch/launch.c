/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c: a service's life as seen from outside: a free port, the start, its log, the stop. A native service is signalled through a descriptor
 * of its process, opened before the start time is compared, so that a number that was given out again meanwhile is never hit. */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "launch/container.h"
#include "launch/spawn.h"

enum { AFTER_KILL_MS = 10000, POLL_MS = 20 };

static bool is_native(const char *engine) { return strcmp(engine, "native") == 0; }

/* ---- ports ---- */

enum gr_status gr_launch_lock(const struct gr_state_dirs *d, int *fd, struct gr_err *err)
{
    char folder[GR_PATH_BYTES], path[GR_PATH_BYTES];
    GR_TRY(gr_state_run(d, folder, err));
    GR_TRY(gr_path_join(path, folder, "start", err));
    return gr_state_lock(path, fd, err);
}

/* 0, or the errno of a bind on all addresses; address reuse: the remains of old connections do not count. */
static int try_port(int port)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0) {
        return errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const int e = bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 ? 0 : errno;
    (void)close(fd);
    return e;
}

enum gr_status gr_launch_port_free(int port, struct gr_err *err)
{
    const int e = try_port(port);
    if (e == EADDRINUSE) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "port %d is in use by another program: choose another --port, or leave it out to take a free one", port);
    }
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_USAGE, e, "port %d cannot be used", port);
}

/* Ports of services that run or start: one that has only just been started does not listen yet. */
static enum gr_status recorded_ports(const struct gr_state_dirs *d, bool taken[GR_LAUNCH_PORTS], struct gr_err *err)
{
    int n;
    char(*names)[GR_RUN_NAME_BYTES];
    GR_TRY(gr_running_list(d, &names, &n, err));
    for (int i = 0; i < n; i++) {
        struct gr_running r;
        struct gr_err ignored;
        if (gr_running_read(d, names[i], &r, &ignored) == GR_OK && r.port >= GR_LAUNCH_PORT &&
            r.port < GR_LAUNCH_PORT + GR_LAUNCH_PORTS) {
            const bool on = !is_native(r.engine) || gr_process_runs(r.pid, r.start, r.boot);
            taken[r.port - GR_LAUNCH_PORT] = taken[r.port - GR_LAUNCH_PORT] || on;
        }
    }
    free(names);
    return GR_OK;
}

enum gr_status gr_launch_port(const struct gr_state_dirs *d, int first, int *port, struct gr_err *err)
{
    bool taken[GR_LAUNCH_PORTS] = {false};
    GR_TRY(recorded_ports(d, taken, err));
    for (int i = first - GR_LAUNCH_PORT; i < GR_LAUNCH_PORTS; i++) {
        if (!taken[i] && try_port(GR_LAUNCH_PORT + i) == 0) {
            *port = GR_LAUNCH_PORT + i;
            return GR_OK;
        }
    }
    return gr_fail(err, GR_ERR_BUSY, "ports %d to %d are all in use", first, GR_LAUNCH_PORT + GR_LAUNCH_PORTS - 1);
}

/* ---- stop ---- */

/* Through the descriptor; on kernels before 5.3, which have none, by the number. */
static int send_signal(int process, pid_t pid, int sig)
{
    return process >= 0 ? (int)syscall(SYS_pidfd_send_signal, process, sig, NULL, 0) : kill(pid, sig);
}

/* Ended, or is a zombie of ours. */
static bool wait_gone(const struct gr_running *r, double ms)
{
    const double end = gr_clock_ms() + ms;
    while (gr_process_runs(r->pid, r->start, r->boot)) {
        if (gr_clock_ms() > end) {
            return false;
        }
        gr_clock_sleep(POLL_MS);
    }
    (void)waitpid(r->pid, NULL, WNOHANG); /* when it was our child */
    return true;
}

static enum gr_status stop_native(const struct gr_running *r, double grace_s, enum gr_stop_kind *how,
                                  struct gr_err *err)
{
    const int process = (int)syscall(SYS_pidfd_open, r->pid, 0);
    enum gr_status status = GR_OK;
    *how = GR_STOP_NOTHING;
    if (gr_process_runs(r->pid, r->start, r->boot)) { /* asked after opening: the descriptor is of this very process */
        *how = GR_STOP_CLEAN;
        if (send_signal(process, r->pid, SIGTERM) != 0 && errno != ESRCH) {
            status =
                gr_fail_errno(err, GR_ERR_ACCESS, errno, "%s: process %ld cannot be signalled", r->name, (long)r->pid);
        } else if (!wait_gone(r, 1000.0 * grace_s)) {
            *how = GR_STOP_KILLED;
            (void)send_signal(process, r->pid, SIGKILL);
            if (!wait_gone(r, AFTER_KILL_MS)) {
                status =
                    gr_fail(err, GR_ERR_DEVICE, "%s: process %ld does not end even when killed", r->name, (long)r->pid);
            }
        }
    }
    if (process >= 0) {
        (void)close(process);
    }
    return status;
}

static enum gr_status end_service(const struct gr_running *r, char *const *environment, double grace_s,
                                  enum gr_stop_kind *how, struct gr_err *err)
{
    return is_native(r->engine) ? stop_native(r, grace_s, how, err)
                                : gr_container_stop(r, environment, grace_s, how, err);
}

static bool is_same(const struct gr_running *a, const struct gr_running *b)
{
    return a->pid == b->pid && a->start == b->start && strcmp(a->engine, b->engine) == 0;
}

static bool still_runs(const struct gr_state_dirs *d, const struct gr_running *r, char *const *environment,
                       struct gr_err *ignored)
{
    struct gr_running now;
    return gr_running_read(d, r->name, &now, ignored) == GR_OK && is_same(&now, r) &&
           gr_launch_alive(&now, environment);
}

enum gr_status gr_launch_stop(const struct gr_state_dirs *d, const struct gr_running *r, char *const *environment,
                              double grace_s, enum gr_stop_kind *how, struct gr_err *err)
{
    struct gr_running now, last = *r;
    struct gr_err ignored;
    int lock;
    if (!is_native(r->engine)) {
        GR_TRY(gr_running_path(d, r->name, ".log", last.log, err)); /* where its log is kept once the engine has none */
    }
    GR_TRY(end_service(&last, environment, grace_s, how, err));
    GR_TRY(gr_launch_lock(d, &lock, err));
    if (*how == GR_STOP_NOTHING && still_runs(d, r, environment, &ignored)) {
        /* A container has its state file before it runs: its start has only now given the lock back. */
        const enum gr_status status = end_service(&last, environment, grace_s, how, err);
        if (status != GR_OK) {
            (void)close(lock);
            return status;
        }
    }
    /* The end took its time: the file may be that of the next start by now. */
    if (gr_running_read(d, r->name, &now, &ignored) != GR_OK ||
        (is_same(&now, r) && !gr_launch_alive(&now, environment))) {
        (void)gr_stopped_write(d, &last, &ignored); /* for `logs` alone: no fault of the stop */
        gr_running_remove(d, r->name);
    }
    (void)close(lock);
    return GR_OK;
}

/* ---- start ---- */

/* Variables of the caller that must not reach a service: sockets of whoever started us; for a package also what would overrule its profile. */
static bool kept_back(const char *entry, bool package)
{
    static const char *const always[] = {
        "NOTIFY_SOCKET=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "TT_MODEL_PROGRESS="};
    static const char *const packaged[] = {
        "GR00T_", "HF_MODEL=", "TT_WEIGHTS_REVISION=", "TT_MESH_SHAPE=", "MESH_DEVICE=", "ARCH_NAME="};
    bool back = false;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        back = back || strncmp(entry, always[i], strlen(always[i])) == 0;
    }
    for (size_t i = 0; i < sizeof packaged / sizeof packaged[0]; i++) {
        back = back || (package && strncmp(entry, packaged[i], strlen(packaged[i])) == 0);
    }
    return back;
}

static bool replaced(const char *entry, const struct gr_command_line *c)
{
    for (int i = 0; i < c->n_env; i++) {
        const size_t n = strlen(c->env[i].name);
        if (strncmp(entry, c->env[i].name, n) == 0 && entry[n] == '=') {
            return true;
        }
    }
    return false;
}

/* The caller's variables (for an engine all of them) with those of the command over them, in `out`, whose `argv` is the environment. */
static enum gr_status merge_environment(const struct gr_launch *l, const struct gr_command_line *c,
                                        struct gr_command_line *out, struct gr_err *err)
{
    for (char *const *at = l->environment; at != NULL && *at != NULL; at++) {
        if (!(is_native(l->engine) && kept_back(*at, l->manifest != NULL)) && !replaced(*at, c)) {
            gr_command_line_word(out, "%s", *at);
        }
    }
    for (int i = 0; i < c->n_env; i++) {
        gr_command_line_word(out, "%s=%s", c->env[i].name, c->env[i].value);
    }
    return out->failed || out->argv == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory for the environment") : GR_OK;
}

enum gr_status gr_launch_log_new(const char *path, int *fd, struct gr_err *err)
{
    char before[GR_PATH_BYTES];
    if ((size_t)snprintf(before, sizeof before, "%s.1", path) < sizeof before) {
        (void)rename(path, before);
    }
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create the log", path);
    }
    (void)fchmod(*fd, 0600); /* what a umask has taken from the owner */
    return GR_OK;
}

static enum gr_status start_native(const struct gr_launch *l, const struct gr_command_line *c, char *const *environment,
                                   struct gr_running *r, struct gr_err *err)
{
    int log;
    struct gr_held held;
    GR_TRY(gr_running_path(l->dirs, c->name, ".log", r->log, err));
    GR_TRY(gr_launch_log_new(r->log, &log, err));
    const struct gr_spawn s = {c->argv, environment, -1, log, log, true};
    enum gr_status status = gr_spawn_held(&s, &held, err);
    (void)close(log);
    GR_TRY(status);
    r->pid = held.pid;
    gr_process_boot(r->boot);
    r->start = gr_process_start(r->pid);
    if (r->start == 0) {
        status = gr_fail(err, GR_ERR_DEVICE, "/proc does not show the new process %ld", (long)r->pid);
    } else {
        status = gr_running_write(l->dirs, r, err);
    }
    if (status != GR_OK) { /* a service that nobody can find again is none */
        gr_spawn_drop(&held);
        return status;
    }
    return gr_spawn_go(&held, c->argv[0], err);
}

/* The engine knows it by its name. */
static enum gr_status start_container(const struct gr_launch *l, const struct gr_command_line *c,
                                      char *const *environment, const struct gr_running *r, struct gr_err *err)
{
    GR_TRY(gr_running_write(l->dirs, r, err));
    return gr_container_start(l, c, environment, err);
}

/* As the caller: an engine would make them as root. */
static enum gr_status make_folders(const struct gr_launch *l, struct gr_err *err)
{
    static const char *const names[] = {"cache", "weights", "tensors"};
    char folder[GR_PATH_BYTES], path[GR_PATH_BYTES];
    if (l->manifest == NULL) {
        return GR_OK;
    }
    GR_TRY(gr_state_package(l->dirs, l->manifest->name, folder, err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        GR_TRY(gr_path_join(path, folder, names[i], err));
        GR_TRY(gr_fs_mkdirs(path, err));
    }
    GR_TRY(gr_fs_mkdirs(l->hf_home, err));
    return gr_fs_mkdirs(l->hub_cache, err);
}

/* The certificate that the words name, as `serve` or as uvicorn calls it; NULL: plain HTTP. */
static const char *certificate_of(const struct gr_command_line *c)
{
    static const char *const names[] = {"--tls-cert", "--ssl-certfile"};
    const char *file = NULL;
    for (int i = 0; i < c->argc; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            const size_t n = strlen(names[k]);
            if (strcmp(c->argv[i], names[k]) == 0 && i + 1 < c->argc) {
                file = c->argv[i + 1];
            } else if (strncmp(c->argv[i], names[k], n) == 0 && c->argv[i][n] == '=') {
                file = c->argv[i] + n + 1;
            }
        }
    }
    return file;
}

static void set_address(const struct gr_launch *l, const struct gr_command_line *c, struct gr_running *r)
{
    const char *host = l->host != NULL ? l->host : "127.0.0.1", *cert = certificate_of(c);
    const bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0; /* reached by a loopback address too */
    (void)snprintf(r->url, sizeof r->url, strchr(host, ':') != NULL && !any ? "%s://[%.200s]:%d" : "%s://%.200s:%d",
                   cert != NULL ? "https" : "http", any ? "127.0.0.1" : host, c->port);
    char *real = cert != NULL && is_native(l->engine) ? realpath(cert, NULL) : NULL; /* else it is a container's path */
    if (real != NULL && strlen(real) < sizeof r->tls_cert) {
        strcpy(r->tls_cert, real);
    }
    free(real);
}

/* Two repositories may call their packages the same. The first one's service has the name that every tool gives it, the next one's a number of
 * its target behind that. */
static enum gr_status take_name(const struct gr_launch *l, struct gr_command_line *c, struct gr_err *err)
{
    struct gr_running has;
    struct gr_err ignored;
    char name[sizeof c->name + 16];
    if (gr_running_read(l->dirs, c->name, &has, &ignored) != GR_OK || strcmp(has.target, l->target) == 0 ||
        !gr_launch_alive(&has, l->environment)) {
        return GR_OK;
    }
    (void)snprintf(name, sizeof name, "%s-%08" PRIx32, c->name, (uint32_t)gr_hash64(l->target, strlen(l->target), 0));
    if (!gr_is_run_name(name)) {
        return gr_fail(err, GR_ERR_BUSY, "%s is the name of a service of %.200s; `gr00t stop %s` ends it", c->name,
                       has.target, c->name);
    }
    for (int i = 0; i + 1 < c->argc && !is_native(l->engine); i++) {
        if (strcmp(c->argv[i], "--name") == 0) {
            char *word = strdup(name);
            if (word == NULL) {
                return gr_fail(err, GR_ERR_NOMEM, "no memory for the command line");
            }
            free(c->argv[i + 1]);
            c->argv[i + 1] = word;
            break;
        }
    }
    strcpy(c->name, name);
    return GR_OK;
}

enum gr_status gr_launch_start(const struct gr_launch *l, struct gr_command_line *c, struct gr_running *out,
                               struct gr_err *err)
{
    struct gr_running before;
    struct gr_err ignored;
    memset(out, 0, sizeof *out);
    GR_TRY(take_name(l, c, err));
    const bool known = gr_running_read(l->dirs, c->name, &before, &ignored) == GR_OK;
    if ((known && gr_launch_alive(&before, l->environment)) ||
        (!is_native(l->engine) && gr_container_runs(l->engine, c->name, l->environment))) {
        return gr_fail(err, GR_ERR_BUSY, "%s runs already (%s); `gr00t stop %s` ends it", c->name,
                       known ? before.url : l->engine, c->name);
    }
    gr_running_remove(l->dirs, c->name);
    gr_stopped_forget(l->dirs, l->target, c->profile, false);
    (void)snprintf(out->name, sizeof out->name, "%s", c->name);
    (void)snprintf(out->target, sizeof out->target, "%s", l->target);
    (void)snprintf(out->package, sizeof out->package, "%s", c->package);
    (void)snprintf(out->profile, sizeof out->profile, "%s", c->profile);
    (void)snprintf(out->engine, sizeof out->engine, "%s", l->engine);
    (void)snprintf(out->image, sizeof out->image, "%s", c->image);
    out->cards = l->cards && !is_native(l->engine);
    out->port = c->port;
    set_address(l, c, out);
    GR_TRY(make_folders(l, err));
    struct gr_command_line environment = {0};
    enum gr_status status = merge_environment(l, c, &environment, err);
    if (status == GR_OK) {
        status = is_native(l->engine) ? start_native(l, c, environment.argv, out, err)
                                      : start_container(l, c, environment.argv, out, err);
    }
    gr_command_line_free(&environment);
    if (status != GR_OK) {
        gr_running_remove(l->dirs, c->name);
    }
    return status;
}

bool gr_launch_alive(const struct gr_running *r, char *const *environment)
{
    return is_native(r->engine) ? gr_process_runs(r->pid, r->start, r->boot)
                                : environment != NULL && gr_container_runs(r->engine, r->name, environment);
}

/* ---- log ---- */

enum gr_status gr_launch_log_open(const struct gr_running *r, char *const *environment, bool follow,
                                  struct gr_log_stream *out, struct gr_err *err)
{
    *out = (struct gr_log_stream){.fd = -1};
    if (r->log[0] != '\0') { /* native, or kept by a stop */
        out->fd = open(r->log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return out->fd >= 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read the log", r->log);
    }
    char *argv[] = {(char *)(uintptr_t)r->engine, "logs", follow ? "--follow" : (char *)(uintptr_t)r->name,
                    follow ? (char *)(uintptr_t)r->name : NULL, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return gr_fail_errno(err, GR_ERR_DEVICE, errno, "no descriptors for %s logs", r->engine);
    }
    const struct gr_spawn s = {argv, environment, -1, ends[1], ends[1], false};
    enum gr_status status = gr_spawn(&s, &out->child, err);
    (void)close(ends[1]);
    if (status != GR_OK) {
        (void)close(ends[0]);
        out->child = 0;
        return status;
    }
    out->fd = ends[0];
    return GR_OK;
}

void gr_launch_log_close(struct gr_log_stream *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    if (s->child > 0) { /* `logs --follow` would go on */
        (void)kill(s->child, SIGTERM);
        (void)gr_spawn_wait(s->child);
    }
    *s = (struct gr_log_stream){.fd = -1};
}
