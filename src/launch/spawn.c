/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn.c: child processes by posix_spawn, which tells whether the program could be run at all. */
#include "launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

enum { OUTPUT_MAX_BYTES = 1 << 20, STEP_MS = 50 };

static int add_stream(posix_spawn_file_actions_t *actions, int fd, int number)
{
    return fd >= 0 ? posix_spawn_file_actions_adddup2(actions, fd, number)
                   : posix_spawn_file_actions_addopen(actions, number, "/dev/null",
                                                      number == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
}

/* The child starts with no signal blocked and none of those ignored that this program ignores. */
static const int reset[] = {SIGPIPE, SIGXFSZ, SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGCHLD};
enum { N_RESET = sizeof reset / sizeof reset[0] };

static int set_up(const struct gr_spawn *s, posix_spawnattr_t *attr, posix_spawn_file_actions_t *actions)
{
    sigset_t none, defaults;
    (void)sigemptyset(&none);
    (void)sigemptyset(&defaults);
    for (int i = 0; i < N_RESET; i++) {
        (void)sigaddset(&defaults, reset[i]);
    }
    const int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (s->session ? POSIX_SPAWN_SETSID : 0);
    int e = posix_spawnattr_setflags(attr, (short)flags);
    e = e != 0 ? e : posix_spawnattr_setsigmask(attr, &none);
    e = e != 0 ? e : posix_spawnattr_setsigdefault(attr, &defaults);
    e = e != 0 ? e : add_stream(actions, s->in, STDIN_FILENO);
    e = e != 0 ? e : add_stream(actions, s->out, STDOUT_FILENO);
    return e != 0 ? e : add_stream(actions, s->error, STDERR_FILENO);
}

enum gr_status gr_spawn(const struct gr_spawn *s, pid_t *pid, struct gr_err *err)
{
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    if (posix_spawnattr_init(&attr) != 0 || posix_spawn_file_actions_init(&actions) != 0) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a child process");
    }
    int e = set_up(s, &attr, &actions);
    e = e != 0 ? e : posix_spawnp(pid, s->argv[0], &actions, &attr, s->argv, s->environment);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_INPUT, e, "cannot run %s", s->argv[0]);
}

/* ---- held ---- */

enum { FIRST_FREE = STDERR_FILENO + 1 };

/* A child that became no program ends without this program's own end. */
_Noreturn static void end_child(void)
{
    for (;;) {
        (void)kill(getpid(), SIGKILL);
    }
}

/* The descriptor (of /dev/null for none) where the three streams do not overwrite it. */
static int out_of_way(int fd)
{
    fd = fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
    return fd >= FIRST_FREE ? fd : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
}

/* Only what is safe in a signal handler may be called here. */
_Noreturn static void held_child(const struct gr_spawn *s, int go, int failed)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    char word = 0;
    ssize_t n;
    (void)setsid();
    (void)sigemptyset(&plain.sa_mask);
    (void)sigemptyset(&none);
    for (int i = 0; i < N_RESET; i++) {
        (void)sigaction(reset[i], &plain, NULL);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    const int wait_for = out_of_way(go), tell = out_of_way(failed);
    const int streams[] = {out_of_way(s->in), out_of_way(s->out), out_of_way(s->error)};
    bool ready = true;
    for (int i = 0; i < FIRST_FREE; i++) {
        ready = ready && dup2(streams[i], i) == i;
    }
    do {
        n = read(wait_for, &word, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
        end_child();
    }
    if (ready) {
        (void)execvpe(s->argv[0], s->argv, s->environment);
    }
    const int e = errno;
    (void)!write(tell, &e, sizeof e);
    end_child();
}

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

enum gr_status gr_spawn_held(const struct gr_spawn *s, struct gr_held *out, struct gr_err *err)
{
    int fds[4] = {-1, -1, -1, -1}; /* go: read, write; failed: read, write */
    if (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0) {
        const int e = errno;
        close_all(fds, 4);
        return gr_fail_errno(err, GR_ERR_DEVICE, e, "no descriptors for a child process");
    }
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]); /* else it would wait for itself */
        held_child(s, fds[0], fds[3]);
    }
    const int e = errno;
    (void)close(fds[0]);
    (void)close(fds[3]);
    *out = (struct gr_held){pid, fds[1], fds[2]};
    if (pid < 0) {
        (void)close(fds[1]);
        (void)close(fds[2]);
        return gr_fail_errno(err, GR_ERR_NOMEM, e, "no child process");
    }
    return GR_OK;
}

void gr_spawn_drop(struct gr_held *h)
{
    (void)close(h->go);
    (void)close(h->failed);
    (void)gr_spawn_wait(h->pid);
}

enum gr_status gr_spawn_go(struct gr_held *h, const char *program, struct gr_err *err)
{
    int e = 0;
    ssize_t n = write(h->go, "", 1); /* the child is there, or its end is what waitpid tells */
    do {
        n = read(h->failed, &e, sizeof e);
    } while (n < 0 && errno == EINTR);
    (void)close(h->go);
    (void)close(h->failed);
    if (n != (ssize_t)sizeof e) {
        return GR_OK; /* closed by the exec */
    }
    (void)gr_spawn_wait(h->pid);
    return gr_fail_errno(err, GR_ERR_INPUT, e, "cannot run %s", program);
}

int gr_spawn_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reads what is there; false: the other end is closed. */
static bool drain(int fd, struct gr_buf *into)
{
    char piece[4096];
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n > 0 && into->len + (size_t)n <= OUTPUT_MAX_BYTES) {
        gr_buf_put(into, piece, (size_t)n);
    }
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static void last_line(const struct gr_buf *text, char out[256])
{
    char line[256];
    size_t end = text->len;
    while (end > 0 && (text->data[end - 1] == '\n' || text->data[end - 1] == '\r')) {
        end--;
    }
    size_t from = end;
    while (from > 0 && text->data[from - 1] != '\n') {
        from--;
    }
    (void)snprintf(line, sizeof line, "%.*s", (int)(end - from), text->len > 0 ? text->data + from : "");
    (void)gr_utf8_clean(out, 256, line);
}

/* Both ends at once, so that neither fills up while the other is waited for. */
static bool read_both(const int fds[2], double limit_s, struct gr_buf *out, struct gr_buf *error)
{
    const double end = gr_clock_ms() + 1000.0 * limit_s;
    bool open[2] = {true, true};
    while (open[0] || open[1]) {
        struct pollfd p[2] = {{.fd = open[0] ? fds[0] : -1, .events = POLLIN},
                              {.fd = open[1] ? fds[1] : -1, .events = POLLIN}};
        if (gr_clock_ms() > end) {
            return false;
        }
        (void)poll(p, 2, STEP_MS);
        for (int i = 0; i < 2; i++) {
            if (p[i].fd >= 0 && p[i].revents != 0) {
                open[i] = drain(fds[i], i == 0 ? out : error);
            }
        }
    }
    return true;
}

static enum gr_status read_child(const struct gr_spawn *s, const int fds[2], int write_ends[2], double limit_s,
                                 struct gr_ran *out, struct gr_err *err)
{
    struct gr_buf error = {0};
    pid_t pid = 0;
    enum gr_status status = gr_spawn(s, &pid, err);
    for (int i = 0; i < 2; i++) {
        (void)close(write_ends[i]);
        write_ends[i] = -1;
    }
    if (status != GR_OK) {
        return status;
    }
    const bool ended = read_both(fds, limit_s, &out->out, &error);
    if (!ended) {
        (void)kill(pid, SIGKILL);
    }
    out->code = gr_spawn_wait(pid);
    last_line(&error, out->complaint);
    const bool failed = out->out.failed || error.failed;
    gr_buf_free(&error);
    if (!ended) {
        return gr_fail(err, GR_ERR_DEVICE, "%s %s did not end within %.0f s", s->argv[0],
                       s->argv[1] != NULL ? s->argv[1] : "", limit_s);
    }
    return failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the output of %s", s->argv[0]) : GR_OK;
}

enum gr_status gr_spawn_run(char *const *argv, char *const *environment, double limit_s, struct gr_ran *out,
                            struct gr_err *err)
{
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    *out = (struct gr_ran){0};
    enum gr_status status = GR_OK;
    if (pipe2(pipes[0], O_CLOEXEC) != 0 || pipe2(pipes[1], O_CLOEXEC) != 0) {
        status = gr_fail_errno(err, GR_ERR_DEVICE, errno, "no descriptors for %s", argv[0]);
    }
    int write_ends[2] = {pipes[0][1], pipes[1][1]};
    if (status == GR_OK) {
        const int fds[2] = {pipes[0][0], pipes[1][0]};
        const struct gr_spawn s = {argv, environment, -1, write_ends[0], write_ends[1], false};
        status = read_child(&s, fds, write_ends, limit_s, out, err);
    }
    for (int i = 0; i < 2; i++) {
        if (pipes[i][0] >= 0) {
            (void)close(pipes[i][0]);
        }
        if (write_ends[i] >= 0) {
            (void)close(write_ends[i]);
        }
    }
    if (status != GR_OK) {
        gr_buf_free(&out->out);
    }
    return status;
}
