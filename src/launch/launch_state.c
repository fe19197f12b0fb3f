/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_state.c: where the tool keeps its files, and the state file of a running service. A state file is data from disk like any other: what it says is
 * checked before anything is done on its word. */
#include "launch/launch_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/jsonout.h"
#include "package/manifest_parts.h"

enum { STATE_MAX_BYTES = 64 << 10 };
static const char prefix[] = "tt-model-", running_end[] = ".json", stopped_end[] = ".stopped";

/* ---- folders ---- */

/* <root>/tt-model, or <root>/tt-kernel when only that exists. */
static enum gr_status tool_folder(const char *root, char out[GR_PATH_BYTES], struct gr_err *err)
{
    char older[GR_PATH_BYTES];
    GR_TRY(gr_path_join(out, root, "tt-model", err));
    GR_TRY(gr_path_join(older, root, "tt-kernel", err));
    if (!gr_fs_is_dir(out) && gr_fs_is_dir(older)) {
        memcpy(out, older, sizeof older);
    }
    return GR_OK;
}

enum gr_status gr_state_dirs(const char *home, const char *xdg, struct gr_state_dirs *out, struct gr_err *err)
{
    char root[GR_PATH_BYTES], folder[GR_PATH_BYTES];
    if (home == NULL || home[0] != '/') {
        return gr_fail(err, GR_ERR_USAGE, "no folder for the tool's state: HOME is not set to an absolute path");
    }
    GR_TRY(gr_path_join(root, home, ".cache", err));
    GR_TRY(tool_folder(root, out->tools, err));
    if (xdg == NULL || xdg[0] != '/') { /* a relative one is to be ignored, says its specification */
        return gr_path_join(out->installed, out->tools, "installed.json", err);
    }
    GR_TRY(tool_folder(xdg, folder, err));
    return gr_path_join(out->installed, folder, "installed.json", err);
}

enum gr_status gr_state_pulled(const struct gr_state_dirs *d, const char *id, char out[GR_PATH_BYTES],
                               struct gr_err *err)
{
    char name[GR_HUB_ID_BYTES + 64], folder[GR_PATH_BYTES];
    if (!gr_hub_is_id(id)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository, expected ORG/NAME", id);
    }
    const char *slash = strchr(id, '/');
    (void)snprintf(name, sizeof name, "%.*s__%s/" GR_MANIFEST_FILE, (int)(slash - id), id, slash + 1);
    GR_TRY(gr_path_join(folder, d->tools, "pulled", err));
    return gr_path_join(out, folder, name, err);
}

/* The name comes out of a downloaded file. */
enum gr_status gr_state_package(const struct gr_state_dirs *d, const char *name, char out[GR_PATH_BYTES],
                                struct gr_err *err)
{
    if (!gr_is_slug(name) || strcmp(name, "run") == 0 || strcmp(name, "pulled") == 0 ||
        strncmp(name, "installed.json", strlen("installed.json")) == 0) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "the package's name \"%.80s\" is no safe name of a folder: rename the package", name);
    }
    return gr_path_join(out, d->tools, name, err);
}

enum gr_status gr_state_lock(const char *path, int *fd, struct gr_err *err)
{
    char name[GR_PATH_BYTES];
    *fd = -1;
    if ((size_t)snprintf(name, sizeof name, "%s.lock", path) >= sizeof name) {
        return gr_fail(err, GR_ERR_IO, "%s: name is too long", path);
    }
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create the lock", name);
    }
    while (flock(*fd, LOCK_EX) != 0) {
        if (errno != EINTR) { /* a file system without locks: as without another process */
            break;
        }
    }
    return GR_OK;
}

enum gr_status gr_state_run(const struct gr_state_dirs *d, char out[GR_PATH_BYTES], struct gr_err *err)
{
    GR_TRY(gr_path_join(out, d->tools, "run", err));
    GR_TRY(gr_fs_mkdirs(out, err));
    (void)chmod(out, 0700); /* not ours: then its owner has decided */
    return GR_OK;
}

enum gr_status gr_state_write(const char *path, const struct gr_buf *text, struct gr_err *err)
{
    GR_TRY(gr_fs_write(path, text->data, text->len, err));
    return chmod(path, 0600) == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot set its rights", path);
}

/* ---- names ---- */

bool gr_is_run_name(const char *name)
{
    return strlen(name) < GR_RUN_NAME_BYTES && strncmp(name, prefix, sizeof prefix - 1) == 0 &&
           gr_is_profile_name(name);
}

enum gr_status gr_running_path(const struct gr_state_dirs *d, const char *name, const char *end,
                               char out[GR_PATH_BYTES], struct gr_err *err)
{
    char folder[GR_PATH_BYTES], file[GR_RUN_NAME_BYTES + 32];
    if (!gr_is_run_name(name)) {
        return gr_fail(err, GR_ERR_INPUT, "\"%.160s\" is no name of a service (tt-model-NAME-PROFILE)", name);
    }
    GR_TRY(gr_state_run(d, folder, err));
    (void)snprintf(file, sizeof file, "%s%s", name, end);
    return gr_path_join(out, folder, file, err);
}

/* ---- a running service ---- */

static enum gr_status write_record(const struct gr_state_dirs *d, const struct gr_running *r, const char *end,
                                   struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_buf text = {0};
    struct gr_jw w = {.out = &text};
    GR_TRY(gr_running_path(d, r->name, end, path, err));
    gr_jw_object(&w);
    gr_jw_put_string(&w, "name", r->name);
    gr_jw_put_string(&w, "target", r->target);
    gr_jw_put_string(&w, "package", r->package);
    gr_jw_put_string(&w, "profile", r->profile);
    gr_jw_put_string(&w, "engine", r->engine);
    gr_jw_put_int(&w, "pid", r->pid);
    gr_jw_put_u64(&w, "start", r->start);
    gr_jw_put_string(&w, "boot", r->boot);
    gr_jw_put_int(&w, "port", r->port);
    gr_jw_put_bool(&w, "cards", r->cards);
    gr_jw_put_string(&w, "image", r->image);
    gr_jw_put_string(&w, "log", r->log);
    gr_jw_put_string(&w, "url", r->url);
    gr_jw_put_string(&w, "tls_cert", r->tls_cert);
    gr_jw_end_object(&w);
    enum gr_status status =
        text.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a state file") : gr_state_write(path, &text, err);
    gr_buf_free(&text);
    return status;
}

enum gr_status gr_running_write(const struct gr_state_dirs *d, const struct gr_running *r, struct gr_err *err)
{
    return write_record(d, r, running_end, err);
}

enum gr_status gr_stopped_write(const struct gr_state_dirs *d, const struct gr_running *r, struct gr_err *err)
{
    return write_record(d, r, stopped_end, err);
}

static bool take_text(const struct gr_json *root, const char *key, char *out, size_t n)
{
    const struct gr_json *v = gr_json_get(root, key);
    if (gr_json_kind(v) != GR_JSON_STRING || strlen(gr_json_string(v)) >= n) {
        return false;
    }
    (void)snprintf(out, n, "%s", gr_json_string(v));
    return true;
}

static bool take_int(const struct gr_json *root, const char *key, int64_t low, int64_t high, int64_t *out)
{
    const struct gr_json *v = gr_json_get(root, key);
    *out = gr_json_kind(v) == GR_JSON_INT ? gr_json_int(v) : low - 1;
    return *out >= low && *out <= high;
}

/* Name of the first field that cannot be used, NULL: all can. */
static const char *take_fields(const struct gr_json *root, struct gr_running *r)
{
    const struct {
        const char *key;
        char *out;
        size_t n;
    } texts[] = {{"target", r->target, sizeof r->target},
                 {"package", r->package, sizeof r->package},
                 {"profile", r->profile, sizeof r->profile},
                 {"engine", r->engine, sizeof r->engine},
                 {"boot", r->boot, sizeof r->boot},
                 {"image", r->image, sizeof r->image},
                 {"log", r->log, sizeof r->log},
                 {"url", r->url, sizeof r->url}};
    int64_t pid = 0, start = 0, port = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!take_text(root, texts[i].key, texts[i].out, texts[i].n)) {
            return texts[i].key;
        }
    }
    if (gr_json_get(root, "tls_cert") != NULL && !take_text(root, "tls_cert", r->tls_cert, sizeof r->tls_cert)) {
        return "tls_cert"; /* older versions wrote none */
    }
    const bool native = strcmp(r->engine, "native") == 0;
    if (!native && strcmp(r->engine, "docker") != 0 && strcmp(r->engine, "podman") != 0) {
        return "engine";
    }
    /* Pids 0 and 1 and negative ones would mean process groups, and the mother of all. */
    if (!take_int(root, "pid", native ? 2 : 0, INT_MAX, &pid)) {
        return "pid";
    }
    if (!take_int(root, "start", native ? 1 : 0, INT64_MAX, &start)) {
        return "start";
    }
    if (!take_int(root, "port", native ? 1 : 0, 65535, &port)) {
        return "port";
    }
    r->pid = (pid_t)pid;
    r->start = (uint64_t)start;
    r->port = (int)port;
    const struct gr_json *cards = gr_json_get(root, "cards");
    r->cards = gr_json_kind(cards) == GR_JSON_BOOL && gr_json_bool(cards);
    return NULL;
}

static enum gr_status read_record(const struct gr_state_dirs *d, const char *name, const char *end,
                                  struct gr_running *out, struct gr_err *err)
{
    char path[GR_PATH_BYTES], own[GR_RUN_NAME_BYTES] = "";
    struct gr_json *root = NULL;
    memset(out, 0, sizeof *out);
    GR_TRY(gr_running_path(d, name, end, path, err));
    if (!gr_fs_is_file(path)) {
        return gr_fail(err, GR_ERR_INPUT, "%s is not known to run: no %s", name, path);
    }
    GR_TRY(gr_json_read(path, STATE_MAX_BYTES, GR_ERR_FORMAT, &root, err));
    const char *fault =
        take_text(root, "name", own, sizeof own) && strcmp(own, name) == 0 ? take_fields(root, out) : "name";
    gr_json_free(root);
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    return fault == NULL ? GR_OK
                         : gr_fail(err, GR_ERR_FORMAT,
                                   "%s is damaged: \"%s\" is missing or impossible; delete the file", path, fault);
}

enum gr_status gr_running_read(const struct gr_state_dirs *d, const char *name, struct gr_running *out,
                               struct gr_err *err)
{
    return read_record(d, name, running_end, out, err);
}

enum gr_status gr_stopped_read(const struct gr_state_dirs *d, const char *name, struct gr_running *out,
                               struct gr_err *err)
{
    return read_record(d, name, stopped_end, out, err);
}

static void remove_file(const struct gr_state_dirs *d, const char *name, const char *end)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    if (gr_running_path(d, name, end, path, &ignored) == GR_OK) {
        (void)unlink(path);
    }
}

void gr_running_remove(const struct gr_state_dirs *d, const char *name) { remove_file(d, name, running_end); }

void gr_stopped_forget(const struct gr_state_dirs *d, const char *target, const char *profile, bool logs)
{
    struct gr_err ignored;
    int n;
    char(*names)[GR_RUN_NAME_BYTES];
    if (gr_stopped_list(d, &names, &n, &ignored) != GR_OK) {
        return;
    }
    for (int i = 0; i < n; i++) {
        struct gr_running r, now;
        if (gr_stopped_read(d, names[i], &r, &ignored) != GR_OK || strcmp(r.target, target) != 0 ||
            (profile != NULL && strcmp(r.profile, profile) != 0)) {
            continue;
        }
        remove_file(d, names[i], stopped_end);
        if (logs && gr_running_read(d, names[i], &now, &ignored) == GR_ERR_INPUT) {
            remove_file(d, names[i], ".log");
            remove_file(d, names[i], ".log.1");
        }
    }
    free(names);
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* One more place behind n names. */
static enum gr_status grow(char (**names)[GR_RUN_NAME_BYTES], int n, int *room, struct gr_err *err)
{
    if (n < *room) {
        return GR_OK;
    }
    const int more = *room > 0 ? 2 * *room : 16;
    char(*bigger)[GR_RUN_NAME_BYTES] = realloc(*names, (size_t)more * sizeof *bigger);
    if (bigger == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of services");
    }
    *names = bigger;
    *room = more;
    return GR_OK;
}

static enum gr_status list_records(const struct gr_state_dirs *d, const char *ends, char (**names)[GR_RUN_NAME_BYTES],
                                   int *n, struct gr_err *err)
{
    char folder[GR_PATH_BYTES];
    int room = 0;
    *names = NULL;
    *n = 0;
    GR_TRY(gr_path_join(folder, d->tools, "run", err));
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return errno == ENOENT ? GR_OK : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", folder);
    }
    enum gr_status status = GR_OK;
    for (const struct dirent *e = readdir(dir); e != NULL && status == GR_OK; e = readdir(dir)) {
        const size_t len = strlen(e->d_name), end = strlen(ends);
        if (!gr_ends_with(e->d_name, ends) || len - end >= GR_RUN_NAME_BYTES) {
            continue;
        }
        status = grow(names, *n, &room, err);
        if (status == GR_OK) {
            (void)snprintf((*names)[*n], GR_RUN_NAME_BYTES, "%.*s", (int)(len - end), e->d_name);
            *n += gr_is_run_name((*names)[*n]);
        }
    }
    (void)closedir(dir);
    if (status != GR_OK) {
        free(*names);
        *names = NULL;
        *n = 0;
    } else if (*n > 0) {
        qsort(*names, (size_t)*n, sizeof **names, by_name);
    }
    return status;
}

enum gr_status gr_running_list(const struct gr_state_dirs *d, char (**names)[GR_RUN_NAME_BYTES], int *n,
                               struct gr_err *err)
{
    return list_records(d, running_end, names, n, err);
}

enum gr_status gr_stopped_list(const struct gr_state_dirs *d, char (**names)[GR_RUN_NAME_BYTES], int *n,
                               struct gr_err *err)
{
    return list_records(d, stopped_end, names, n, err);
}
