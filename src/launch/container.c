/* SPDX-License-Identifier: Apache-2.0
 *
 * container.c: docker and podman by their command lines, which are the same in all that is used here. */
#include "launch/container.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_S 60.0 /* inspect, version: an engine that answers does so at once */
#define RUN_S 120.0
#define RESET_S 180.0 /* of tt-smi, as the vendor's tool */
enum { KILLED = 137, WORDS_MAX = 24, ID_BYTES = 80 };

enum gr_status gr_container_ask(const char *engine, const char *const *words, char *const *environment, double limit_s,
                                struct gr_ran *out, struct gr_err *err)
{
    char *argv[WORDS_MAX + 2];
    int n = 0;
    argv[n++] = (char *)(uintptr_t)engine; /* execve's own type */
    for (int i = 0; words[i] != NULL && n < WORDS_MAX; i++) {
        argv[n++] = (char *)(uintptr_t)words[i];
    }
    argv[n] = NULL;
    return gr_spawn_run(argv, environment, limit_s, out, err);
}

bool gr_container_answer(const char *engine, const char *const *words, char *const *environment, char *out, size_t n)
{
    struct gr_ran ran;
    struct gr_err ignored;
    out[0] = '\0';
    if (gr_container_ask(engine, words, environment, ASK_S, &ran, &ignored) != GR_OK) {
        return false;
    }
    const bool ok = ran.code == 0;
    if (ok && ran.out.data != NULL) {
        (void)snprintf(out, n, "%.*s", (int)strcspn(ran.out.data, "\r\n"), ran.out.data);
    }
    gr_buf_free(&ran.out);
    return ok;
}

static enum gr_status must(const char *engine, const char *const *words, char *const *environment, double limit_s,
                           const char *what, struct gr_err *err)
{
    struct gr_ran ran;
    GR_TRY(gr_container_ask(engine, words, environment, limit_s, &ran, err));
    gr_buf_free(&ran.out);
    return ran.code == 0 ? GR_OK
                         : gr_fail(err, GR_ERR_DEVICE, "%s cannot %s: %s", engine, what,
                                   ran.complaint[0] != '\0' ? ran.complaint : "it does not say why");
}

/* ---- facts ---- */

enum gr_status gr_container_user(const char *engine, char *const *environment, char out[32], struct gr_err *err)
{
    static const char *const docker[] = {"info", "--format", "{{.SecurityOptions}}", NULL};
    static const char *const podman[] = {"info", "--format", "{{.Host.Security.Rootless}}", NULL};
    const bool is_podman = strcmp(engine, "podman") == 0;
    char text[512];
    if (!gr_container_answer(engine, is_podman ? podman : docker, environment, text, sizeof text)) {
        return gr_fail(err, GR_ERR_DEVICE, "%s does not answer: is it installed, and does its service run? (`%s info`)",
                       engine, engine);
    }
    if (is_podman ? strcmp(text, "true") == 0 : strstr(text, "rootless") != NULL) {
        (void)snprintf(out, 32, "0:0"); /* which is the caller, seen from outside */
    } else {
        (void)snprintf(out, 32, "%ld:%ld", (long)getuid(), (long)getgid());
    }
    return GR_OK;
}

enum gr_status gr_container_image_ref(const struct gr_manifest *m, char out[256], struct gr_err *err)
{
    const char *tag = m->image_tag != NULL ? m->image_tag : "";
    int n;
    if (m->registry == NULL || strcmp(m->registry, "hf") == 0) {
        n = snprintf(out, 256, "%s", tag);
    } else {
        const char *name = m->repository;
        const char *colon = strrchr(tag, ':'), *slash = strrchr(tag, '/');
        char own[256];
        if (name == NULL) { /* the tag's last part without the version */
            const char *from = slash != NULL ? slash + 1 : tag;
            (void)snprintf(own, sizeof own, "%.*s", (int)strcspn(from, ":"), from);
            name = own;
        }
        int registry = (int)strlen(m->registry);
        while (registry > 0 && m->registry[registry - 1] == '/') {
            registry--;
        }
        n = m->image_digest != NULL
                ? snprintf(out, 256, "%.*s/%s@%s", registry, m->registry, name, m->image_digest)
                : snprintf(out, 256, "%.*s/%s:%s", registry, m->registry, name, colon != NULL ? colon + 1 : "latest");
    }
    if (n <= 0 || n >= 256 || out[0] == '-') { /* an option instead of an image */
        return gr_fail(err, GR_ERR_FORMAT, "the manifest names no image that can be run");
    }
    return GR_OK;
}

bool gr_container_runs(const char *engine, const char *name, char *const *environment)
{
    const char *const words[] = {"container", "inspect", "--format", "{{.State.Running}}", name, NULL};
    char text[16];
    return gr_container_answer(engine, words, environment, text, sizeof text) && strcmp(text, "true") == 0;
}

int gr_container_exit_code(const char *engine, const char *name, char *const *environment)
{
    const char *const words[] = {"container", "inspect", "--format", "{{.State.ExitCode}}", name, NULL};
    char text[16];
    return gr_container_answer(engine, words, environment, text, sizeof text) ? atoi(text) : -1;
}

/* ---- image ---- */

/* "sha256:<hex>" or "<hex>" of an image that the engine holds; false: it does not. */
static bool image_id(const char *engine, const char *ref, char *const *environment, char out[ID_BYTES])
{
    const char *const words[] = {"image", "inspect", "--format", "{{.Id}}", ref, NULL};
    char text[ID_BYTES];
    if (!gr_container_answer(engine, words, environment, text, sizeof text) || text[0] == '\0') {
        return false;
    }
    (void)snprintf(out, ID_BYTES, "%s%.*s", strncmp(text, "sha256:", 7) == 0 ? "" : "sha256:", ID_BYTES - 8, text);
    return true;
}

static enum gr_status load(const char *engine, const char *image_dir, char *const *environment, struct gr_err *err)
{
    char *argv[] = {(char *)(uintptr_t)engine, "load", NULL};
    int ends[2];
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return gr_fail_errno(err, GR_ERR_DEVICE, errno, "no descriptors for %s load", engine);
    }
    const struct gr_spawn s = {argv, environment, ends[0], -1, -1, false};
    enum gr_status status = gr_spawn(&s, &pid, err);
    (void)close(ends[0]);
    if (status != GR_OK) {
        (void)close(ends[1]);
        return status;
    }
    status = gr_oci_stream(image_dir, ends[1], err);
    (void)close(ends[1]);
    const int code = gr_spawn_wait(pid);
    if (code != 0) { /* which is also why the stream broke */
        return gr_fail(err, GR_ERR_DEVICE, "%s load of %s ended with %d", engine, image_dir, code);
    }
    return status;
}

enum gr_status gr_container_image(const char *engine, const struct gr_manifest *m, const char *image_dir,
                                  char *const *environment, char loaded_id[80], bool *loaded, struct gr_err *err)
{
    char ref[256], id[ID_BYTES] = "";
    struct gr_oci_image image;
    *loaded = false;
    GR_TRY(gr_container_image_ref(m, ref, err));
    const bool there = image_id(engine, ref, environment, id);
    const bool known = there && ((m->image_digest != NULL && strcmp(id, m->image_digest) == 0) ||
                                 (loaded_id[0] != '\0' && strcmp(id, loaded_id) == 0));
    if (known || (m->registry != NULL && strcmp(m->registry, "hf") != 0)) {
        return GR_OK; /* of a registry: `run` fetches it by its digest */
    }
    if (image_dir == NULL || !gr_fs_is_dir(image_dir)) {
        return there ? GR_OK
                     : gr_fail(err, GR_ERR_INPUT,
                               "%s does not hold image %s and there is no image/ beside the manifest: pull the package "
                               "again with --force, load the image by hand (`%s load`), or run it natively",
                               engine, ref, engine);
    }
    GR_TRY(gr_oci_check(image_dir, &image, err));
    if (!there || (strcmp(id, image.config_digest) != 0 && strcmp(id, image.manifest_digest) != 0)) {
        GR_TRY(load(engine, image_dir, environment, err));
        *loaded = true;
        if (!image_id(engine, ref, environment, id)) {
            return gr_fail(err, GR_ERR_DEVICE, "%s loaded %s but has no image called %s", engine, image_dir, ref);
        }
    }
    (void)snprintf(loaded_id, ID_BYTES, "%s", id);
    return GR_OK;
}

/* ---- one container ---- */

enum gr_status gr_container_start(const struct gr_launch *l, const struct gr_command_line *c, char *const *environment,
                                  struct gr_err *err)
{
    const char *const inspect[] = {"container", "inspect", "--format", "{{.Id}}", c->name, NULL};
    const char *const rm[] = {"rm", c->name, NULL};
    struct gr_ran ran;
    char id[ID_BYTES];
    if (gr_container_answer(l->engine, inspect, l->environment, id,
                            sizeof id)) { /* dead: launch.c has asked whether it runs */
        GR_TRY(must(l->engine, rm, l->environment, ASK_S, "remove the old container", err));
    }
    GR_TRY(gr_spawn_run(c->argv, environment, RUN_S, &ran, err));
    gr_buf_free(&ran.out);
    return ran.code == 0 ? GR_OK
                         : gr_fail(err, GR_ERR_DEVICE, "%s cannot start %s: %s", l->engine, c->name,
                                   ran.complaint[0] != '\0' ? ran.complaint : "it does not say why");
}

/* Another container of a package holds cards: a reset would pull them away from it. */
static bool cards_taken(const char *engine, char *const *environment)
{
    const char *const words[] = {"ps", "--quiet", "--filter", "label=org.tenstorrent.tt-model", NULL};
    char text[ID_BYTES];
    return gr_container_answer(engine, words, environment, text, sizeof text) && text[0] != '\0';
}

static enum gr_stop_kind reset(const struct gr_running *r, char *const *environment)
{
    const char *const words[] = {"run",    "--rm", "--device",     "/dev/tenstorrent",
                                 "--user", "0:0",  "--entrypoint", "tt-smi",
                                 r->image, "-r",   "all",          NULL};
    struct gr_err ignored;
    if (cards_taken(r->engine, environment)) {
        return GR_STOP_KILLED_LEFT_ALONE;
    }
    return must(r->engine, words, environment, RESET_S, "reset", &ignored) == GR_OK ? GR_STOP_KILLED_RESET
                                                                                    : GR_STOP_KILLED_NO_RESET;
}

/* With the container the engine's log goes too. */
static void keep_log(const struct gr_running *r, char *const *environment)
{
    char *argv[] = {(char *)(uintptr_t)r->engine, "logs", (char *)(uintptr_t)r->name, NULL};
    struct gr_err ignored;
    int log;
    pid_t pid;
    if (gr_launch_log_new(r->log, &log, &ignored) == GR_OK) {
        const struct gr_spawn s = {argv, environment, -1, log, log, false};
        if (gr_spawn(&s, &pid, &ignored) == GR_OK) {
            (void)gr_spawn_wait(pid);
        }
        (void)close(log);
    }
}

enum gr_status gr_container_stop(const struct gr_running *r, char *const *environment, double grace_s,
                                 enum gr_stop_kind *how, struct gr_err *err)
{
    char grace[32], code[16];
    const bool ran = gr_container_runs(r->engine, r->name, environment);
    (void)snprintf(grace, sizeof grace, "%.0f", grace_s);
    const char *const stop[] = {"stop", "-t", grace, r->name, NULL};
    const char *const inspect[] = {"container", "inspect", "--format", "{{.State.ExitCode}}", r->name, NULL};
    const char *const rm[] = {"rm", r->name, NULL};
    *how = GR_STOP_NOTHING;
    if (ran) {
        GR_TRY(must(r->engine, stop, environment, grace_s + ASK_S, "stop the container", err));
        *how = GR_STOP_CLEAN;
    }
    if (!gr_container_answer(r->engine, inspect, environment, code, sizeof code)) {
        char user[32]; /* no such container, or no engine: then nothing is known about it */
        return gr_container_user(r->engine, environment, user, err);
    }
    keep_log(r, environment);
    GR_TRY(must(r->engine, rm, environment, ASK_S, "remove the container", err));
    if (ran && atoi(code) == KILLED) {
        *how = r->cards ? reset(r, environment) : GR_STOP_KILLED;
    }
    return GR_OK;
}
