/* SPDX-License-Identifier: Apache-2.0
 *
 * build_verify.c: runs the program of a finished image, without an engine, in the image's own root: in a change-root when the system lets
 * us
 * (as root, or in a user namespace), else through the image's own loader and libraries. What it prints and returns decides. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <grp.h>
#include <unistd.h>

#include "base/clock.h"
#include "package/build.h"
#include "package/root_elf.h"
#include "package/tree.h"

enum { IMAGE_USER = 1000, OUTPUT_MAX = 64 << 10, TIMEOUT_MS = 120000, LOOK_MS = 200, ARGS_MAX = 16 };
#define PROGRAM "/usr/bin/gr00t"

struct sandbox {
    char root[GR_PATH_BYTES];
    struct gr_oci_run run; /* its environment */
    bool isolated;         /* change-root works here */
    const volatile sig_atomic_t *stop;
    char loader[GR_PATH_BYTES], libraries[GR_PATH_BYTES], program[GR_PATH_BYTES];
};

static bool write_map(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

/* In the child: into the root, as the image's user. */
static bool enter(const char *root)
{
    char map[64];
    const uid_t uid = getuid();
    const gid_t gid = getgid();
    char proc[GR_PATH_BYTES], dev[GR_PATH_BYTES];
    const bool named = snprintf(proc, sizeof proc, "%s/proc", root) < GR_PATH_BYTES &&
                       snprintf(dev, sizeof dev, "%s/dev", root) < GR_PATH_BYTES;
    bool mounts = false;
    if (uid != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
            return false;
        }
        (void)snprintf(map, sizeof map, "%d %ld 1", IMAGE_USER, (long)uid);
        (void)write_map("/proc/self/setgroups", "deny");
        if (!write_map("/proc/self/uid_map", map)) {
            return false;
        }
        (void)snprintf(map, sizeof map, "%d %ld 1", IMAGE_USER, (long)gid);
        (void)write_map("/proc/self/gid_map", map);
        mounts = true;
    } else {
        mounts = unshare(CLONE_NEWNS) == 0;
    }
    /* An engine mounts these too; the program runs without, so a refusal is no failure. Private: nothing of it is seen outside. */
    if (mounts && named && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) {
        (void)mount("/proc", proc, NULL, MS_BIND | MS_REC, NULL);
        (void)mount("/dev", dev, NULL, MS_BIND | MS_REC, NULL);
    }
    if (chroot(root) != 0 || chdir("/") != 0) {
        return false;
    }
    return uid != 0 || (setgroups(0, NULL) == 0 && setresgid(IMAGE_USER, IMAGE_USER, IMAGE_USER) == 0 &&
                        setresuid(IMAGE_USER, IMAGE_USER, IMAGE_USER) == 0);
}

/* The child ends itself by a signal: nothing below the command line calls exit. `why` tells what did not work; it closes when a program
 * starts. */
static void child(const struct sandbox *s, char *const *argv, char *const *env, int out, int why)
{
    static const char no_root = 'r', no_start = 's';
    const int null = open("/dev/null", O_RDONLY);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(null >= 0 ? null : out, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    const bool inside = !s->isolated || enter(s->root);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cleared by the change of user */
    if (inside) {
        (void)execve(argv[0], argv, env);
    }
    const ssize_t told = write(why, inside ? &no_start : &no_root, 1);
    (void)told;
    for (;;) {
        (void)kill(getpid(), SIGKILL);
    }
}

static void close_if(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static bool is_stopped(const struct sandbox *s) { return s->stop != NULL && *s->stop != 0; }

/* Reads until the program ends (true), the time is over, or this run is to stop. */
static bool collect(const struct sandbox *s, int fd, struct gr_buf *out, double until)
{
    char block[4096];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int r = poll(&p, 1, LOOK_MS);
        if (is_stopped(s) || (r <= 0 && gr_clock_ms() >= until)) {
            return false;
        }
        if (r <= 0) {
            continue;
        }
        const ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return true;
        }
        if (out->len < OUTPUT_MAX) {
            gr_buf_put(out, block, (size_t)n);
        }
    }
}

/* Last line of what was printed: the reason or the result. */
static void last_line(const struct gr_buf *text, char *out, size_t cap)
{
    size_t end = text->len;
    while (end > 0 && (text->data[end - 1] == '\n' || text->data[end - 1] == ' ')) {
        end--;
    }
    size_t from = end;
    while (from > 0 && text->data[from - 1] != '\n') {
        from--;
    }
    (void)snprintf(out, cap, "%.*s", (int)(end - from), text->data != NULL ? text->data + from : "");
}

/* *why: 'r' no change-root here, 's' not started, 0 it ran and ended with *code. */
static enum gr_status spawn(const struct sandbox *s, char *const *argv, char *const *env, struct gr_buf *out, int *code,
                            char *why, struct gr_err *err)
{
    int output[2] = {-1, -1}, reason[2] = {-1, -1}, state = 0;
    bool ended = true;
    pid_t pid = -1;
    if (pipe2(output, O_CLOEXEC) == 0 && pipe2(reason, O_CLOEXEC) == 0) {
        pid = fork();
    }
    const int e = errno;
    if (pid == 0) {
        child(s, argv, env, output[1], reason[1]);
    }
    close_if(output[1]);
    close_if(reason[1]);
    *why = 0;
    if (pid > 0) {
        ended = collect(s, output[0], out, gr_clock_ms() + TIMEOUT_MS);
        if (!ended) {
            (void)kill(pid, SIGKILL);
        }
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
        }
        *why = read(reason[0], why, 1) == 1 ? *why : 0;
    }
    close_if(output[0]);
    close_if(reason[0]);
    if (pid < 0) {
        return gr_fail_errno(err, GR_ERR_IO, e, "cannot start the image's program");
    }
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (is_stopped(s)) {
        return gr_fail(err, GR_ERR_CHECK, "interrupted while the image's program ran");
    }
    return ended ? GR_OK : gr_fail(err, GR_ERR_CHECK, "the image's program ran for more than %d s", TIMEOUT_MS / 1000);
}

/* Runs the program with these words. */
static enum gr_status run(struct sandbox *s, const char *const *words, char *result, size_t cap, struct gr_err *err)
{
    char *argv[ARGS_MAX + 5];
    int n = 0, code = 0;
    char why = 0;
    if (!s->isolated && s->loader[0] != '\0') {
        argv[n++] = s->loader;
        argv[n++] = (char *)(uintptr_t) "--library-path";
        argv[n++] = s->libraries;
    }
    argv[n++] = s->isolated ? (char *)(uintptr_t)PROGRAM : s->program;
    for (int i = 0; words[i] != NULL && i < ARGS_MAX; i++) {
        argv[n++] = (char *)(uintptr_t)words[i]; /* execve does not write to them */
    }
    argv[n] = NULL;
    char **env = calloc((size_t)s->run.env.n + 1, sizeof *env);
    struct gr_buf out = {0};
    if (env == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory to start the image's program");
    }
    for (int i = 0; i < s->run.env.n; i++) {
        env[i] = (char *)(uintptr_t)s->run.env.items[i];
    }
    enum gr_status status = spawn(s, argv, env, &out, &code, &why, err);
    last_line(&out, result, cap);
    free(env);
    gr_buf_free(&out);
    if (status == GR_OK && why == 'r') {
        s->isolated = false; /* not allowed here: the image's loader instead */
        return run(s, words, result, cap, err);
    }
    if (status == GR_OK && why == 's') {
        status = gr_fail(err, GR_ERR_CHECK,
                         "the image's program does not start: its loader is missing, or the file is no program for "
                         "this machine");
    } else if (status == GR_OK && code != 0) {
        status = gr_fail(err, GR_ERR_CHECK, "the image's program failed at `gr00t %s` with exit code %d%s%s", words[0],
                         code, result[0] != '\0' ? ": " : "", result);
    }
    return status;
}

static enum gr_status prepare(struct sandbox *s, const char *image, struct gr_err *err)
{
    struct gr_elf *elf = malloc(sizeof *elf);
    enum gr_status status = elf != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory to verify the image");
    if (status == GR_OK) {
        status = gr_oci_read_run(image, &s->run, err);
    }
    if (status == GR_OK) {
        status = gr_path_join(s->program, s->root, &PROGRAM[1], err);
    }
    if (status == GR_OK) {
        status = gr_elf_read(s->program, elf, err);
    }
    if (status == GR_OK && elf->loader[0] == '/') {
        status = gr_path_join(s->loader, s->root, elf->loader + 1, err);
        const int n =
            snprintf(s->libraries, sizeof s->libraries,
                     "%s/lib/x86_64-linux-gnu:%s/usr/lib/x86_64-linux-gnu:%s/lib64:%s/usr/lib64:%s/lib:%s/usr/lib",
                     s->root, s->root, s->root, s->root, s->root, s->root);
        if (n < 0 || (size_t)n >= sizeof s->libraries) {
            status = gr_fail(err, GR_ERR_IO, "%s: path is too long to verify the image there", s->root);
        }
    }
    free(elf);
    return status;
}

static enum gr_status run_checks(struct sandbox *s, struct gr_built *out, struct gr_err *err)
{
    char demo[GR_PATH_BYTES], golden[GR_PATH_BYTES], line[256];
    const char *const version[] = {"--version", NULL};
    GR_TRY(run(s, version, out->version, sizeof out->version, err));
    if (strncmp(out->version, "gr00t ", 6) != 0) {
        return gr_fail(err, GR_ERR_CHECK, "the image's program calls itself \"%s\", expected gr00t and a version",
                       out->version);
    }
    /* decided by the first run: inside, or seen from here */
    GR_TRY(gr_path_join(demo, s->isolated ? "" : s->root, s->isolated ? "/tmp/demo" : "tmp/demo", err));
    GR_TRY(gr_path_join(golden, demo, "demo/golden", err));
    const char *const synth[] = {"synth", "demo", demo, "--quiet", NULL};
    const char *const check[] = {"check", demo, golden, "--cache", "off", "--quiet", NULL};
    GR_TRY(run(s, synth, line, sizeof line, err));
    return run(s, check, out->demo, sizeof out->demo, err);
}

enum gr_status gr_package_verify(const char *image, const char *scratch_dir, const volatile sig_atomic_t *stop,
                                 struct gr_built *out, struct gr_err *err)
{
    struct gr_oci_image facts;
    struct gr_err ignored;
    struct sandbox s = {.isolated = true, .stop = stop};
    GR_TRY(gr_path_join(s.root, scratch_dir, "root", err));
    char *real = realpath(scratch_dir, NULL); /* a change of folder must not move it */
    enum gr_status status = real != NULL ? gr_path_join(s.root, real, "root", err)
                                         : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot follow", scratch_dir);
    free(real);
    if (status == GR_OK) {
        status = gr_oci_unpack(image, s.root, &facts, err);
    }
    if (status == GR_OK) {
        status = prepare(&s, image, err);
    }
    if (status == GR_OK) {
        status = run_checks(&s, out, err);
    }
    gr_oci_run_free(&s.run);
    (void)gr_tree_remove(s.root, &ignored);
    return status;
}
