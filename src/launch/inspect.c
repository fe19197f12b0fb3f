/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect.c: what an engine says about the containers that run: those of packages that another tool started, and the chips that are taken. docker and
 * podman answer `container inspect` with the same fields as far as they are read here. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "launch/container.h"
#include "launch/spawn.h"

#define ASK_S 60.0
#define OTHERS_S 3.0 /* every verb about services asks, also where nothing of ours is in docker */
#define LABEL "org.tenstorrent.tt-model"
enum { CONTAINERS_MAX = 128, WORDS_BEFORE = 3, CHIPS_MAX = 64, OLDEST_DOCKER = 25 };

/* ---- what runs ---- */

/* argv of `inspect` in place of the ids in `text`, one a line. */
static int split_ids(const char *engine, char *text, char *argv[WORDS_BEFORE + CONTAINERS_MAX + 1])
{
    static char container[] = "container", inspect[] = "inspect";
    int n = 0;
    argv[n++] = (char *)(uintptr_t)engine; /* execve's own type */
    argv[n++] = container;
    argv[n++] = inspect;
    char *rest = text;
    for (char *id = strtok_r(text, "\r\n", &rest); id != NULL && n < WORDS_BEFORE + CONTAINERS_MAX;
         id = strtok_r(NULL, "\r\n", &rest)) {
        argv[n++] = id;
    }
    argv[n] = NULL;
    return n - WORDS_BEFORE;
}

/* An array of all running containers, those with `label` (NULL: any) only; *root NULL: there are none. */
static enum gr_status inspect_running(const char *engine, const char *label, char *const *environment, double limit_s,
                                      struct gr_json **root, struct gr_err *err)
{
    char filter[128], *argv[WORDS_BEFORE + CONTAINERS_MAX + 1];
    struct gr_ran ran;
    (void)snprintf(filter, sizeof filter, "label=%s", label != NULL ? label : "");
    const char *const words[] = {"ps", "--quiet", "--no-trunc", label != NULL ? "--filter" : NULL, filter, NULL};
    *root = NULL;
    GR_TRY(gr_container_ask(engine, words, environment, limit_s, &ran, err));
    const int n = ran.code == 0 && ran.out.data != NULL ? split_ids(engine, ran.out.data, argv) : 0;
    struct gr_ran all = {0};
    enum gr_status status = ran.code == 0 ? GR_OK : gr_fail(err, GR_ERR_DEVICE, "%s ps: %s", engine, ran.complaint);
    if (status == GR_OK && n > 0) {
        status = gr_spawn_run(argv, environment, limit_s, &all, err);
    }
    if (status == GR_OK && n > 0) { /* one that ended meanwhile makes the code 1; the others are there all the same */
        status = gr_json_parse(all.out.data != NULL ? all.out.data : "", all.out.len, "the engine's answer",
                               GR_ERR_DEVICE, root, err);
    }
    gr_buf_free(&ran.out);
    gr_buf_free(&all.out);
    return status;
}

static const char *text_at(const struct gr_json *object, const char *key)
{
    const struct gr_json *v = gr_json_get(object, key);
    return gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "";
}

static bool true_at(const struct gr_json *object, const char *key)
{
    const struct gr_json *v = gr_json_get(object, key);
    return gr_json_kind(v) == GR_JSON_BOOL && gr_json_bool(v);
}

static const char *name_of(const struct gr_json *c)
{
    const char *name = text_at(c, "Name");
    return name[0] == '/' ? name + 1 : name; /* docker's begins with a slash */
}

/* ---- other tools' services ---- */

/* First published port. {"20000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "20000"}]} */
static void set_address(const struct gr_json *c, struct gr_running *r)
{
    const struct gr_json *ports = gr_json_get(gr_json_get(c, "NetworkSettings"), "Ports");
    for (void *it = gr_json_first(ports); it != NULL; it = gr_json_next(ports, it)) {
        const struct gr_json *at = gr_json_at(gr_json_value(it), 0);
        const char *host = text_at(at, "HostIp");
        const int port = atoi(text_at(at, "HostPort"));
        if (port <= 0 || port > 65535) {
            continue;
        }
        const bool any = host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
        r->port = port;
        (void)snprintf(r->url, sizeof r->url,
                       strchr(host, ':') != NULL && !any ? "http://[%.60s]:%d" : "http://%.60s:%d",
                       any ? "127.0.0.1" : host, port);
        return;
    }
}

static bool read_service(const struct gr_json *c, struct gr_running *r)
{
    const struct gr_json *config = gr_json_get(c, "Config"), *labels = gr_json_get(config, "Labels");
    const char *name = name_of(c), *image = text_at(config, "Image");
    *r = (struct gr_running){.other = true, .engine = "docker"};
    if (!gr_is_run_name(name) || !true_at(gr_json_get(c, "State"), "Running")) {
        return false;
    }
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    (void)snprintf(r->package, sizeof r->package, "%s", text_at(labels, LABEL));
    (void)snprintf(r->profile, sizeof r->profile, "%s", text_at(labels, LABEL ".profile"));
    (void)snprintf(r->target, sizeof r->target, "%s", text_at(labels, LABEL ".repo")); /* the image's label */
    (void)snprintf(r->image, sizeof r->image, "%s", image[0] != '-' ? image : "");
    const struct gr_json *devices = gr_json_get(gr_json_get(c, "HostConfig"), "Devices");
    for (size_t i = 0; i < gr_json_len(devices); i++) {
        r->cards = r->cards || strncmp(text_at(gr_json_at(devices, i), "PathOnHost"), "/dev/tenstorrent", 16) == 0;
    }
    set_address(c, r);
    return true;
}

enum gr_status gr_container_others(char *const *environment, struct gr_running **items, int *n, struct gr_err *err)
{
    struct gr_json *root = NULL;
    struct gr_err ignored;
    *items = NULL;
    *n = 0;
    const double end = gr_clock_ms() + 1000.0 * OTHERS_S;
    const enum gr_status status = inspect_running("docker", LABEL, environment, OTHERS_S, &root, &ignored);
    if (status != GR_OK && gr_clock_ms() >= end) {
        return gr_fail(err, GR_ERR_BUSY,
                       "docker has not answered for %.0f s: services that another tool started in it are left out",
                       OTHERS_S);
    }
    if (status != GR_OK || gr_json_len(root) == 0) {
        gr_json_free(root);
        return GR_OK;
    }
    struct gr_running *all = calloc(gr_json_len(root), sizeof *all);
    for (size_t i = 0; i < gr_json_len(root) && all != NULL; i++) {
        *n += read_service(gr_json_at(root, i), &all[*n]);
    }
    gr_json_free(root);
    *items = all;
    return all != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory for the list of containers");
}

/* ---- chips ---- */

struct chips {
    int number[CHIPS_MAX];        /* of the nodes, ascending */
    const char *taken[CHIPS_MAX]; /* by the container of that name; NULL: free */
    int n;
};

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static bool is_number(const char *text, int *out)
{
    const size_t n = strspn(text, "0123456789");
    *out = n > 0 && n < 5 && text[n] == '\0' ? atoi(text) : -1;
    return *out >= 0;
}

static void list_chips(const char *nodes, struct chips *out)
{
    DIR *d = opendir(nodes);
    *out = (struct chips){.n = 0};
    for (struct dirent *e; d != NULL && out->n < CHIPS_MAX && (e = readdir(d)) != NULL;) {
        out->n += is_number(e->d_name, &out->number[out->n]);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    qsort(out->number, (size_t)out->n, sizeof out->number[0], by_number);
}

/* The container has `nodes` as a whole, or the node of that number. */
static bool has_chip(const struct gr_json *host, const char *nodes, int number)
{
    const struct gr_json *devices = gr_json_get(host, "Devices");
    char node[GR_PATH_BYTES];
    (void)snprintf(node, sizeof node, "%.4000s/%d", nodes, number);
    for (size_t i = 0; i < gr_json_len(devices); i++) {
        const char *path = text_at(gr_json_at(devices, i), "PathOnHost");
        if (strcmp(path, nodes) == 0 || strcmp(path, node) == 0) {
            return true;
        }
    }
    return true_at(host, "Privileged");
}

static void mark_taken(const struct gr_json *containers, const char *nodes, struct chips *chips)
{
    for (size_t i = 0; i < gr_json_len(containers); i++) {
        const struct gr_json *c = gr_json_at(containers, i), *host = gr_json_get(c, "HostConfig");
        for (int k = 0; k < chips->n && strcmp(text_at(host, "IpcMode"), "host") == 0; k++) {
            if (chips->taken[k] == NULL && has_chip(host, nodes, chips->number[k])) {
                chips->taken[k] = name_of(c);
            }
        }
    }
}

static void put_chip(int number, char out[GR_CHIPS_BYTES])
{
    const size_t n = strlen(out);
    (void)snprintf(out + n, GR_CHIPS_BYTES - n, "%s%d", n > 0 ? "," : "", number);
}

static enum gr_status take_given(const struct chips *chips, const char *nodes, const char *given, int want,
                                 char out[GR_CHIPS_BYTES], struct gr_err *err)
{
    bool used[CHIPS_MAX] = {false};
    int n = 0;
    for (const char *at = given; at != NULL; n++) {
        char word[8] = "";
        int number, k = 0;
        const size_t len = strcspn(at, ",");
        (void)snprintf(word, sizeof word, "%.*s", len < sizeof word ? (int)len : 0, at);
        if (!is_number(word, &number)) {
            return gr_fail(err, GR_ERR_USAGE, "--device-id is \"%.80s\", expected numbers like 0 or 0,1", given);
        }
        while (k < chips->n && chips->number[k] != number) {
            k++;
        }
        if (k == chips->n) {
            return gr_fail(err, GR_ERR_DEVICE, "--device-id: there is no chip %d (%s/%d)", number, nodes, number);
        }
        if (used[k]) {
            return gr_fail(err, GR_ERR_USAGE, "--device-id names chip %d twice", number);
        }
        if (chips->taken[k] != NULL) {
            return gr_fail(err, GR_ERR_DEVICE, "--device-id: chip %d is taken by container %.100s", number,
                           chips->taken[k]);
        }
        used[k] = true;
        put_chip(number, out);
        at = at[len] == ',' ? at + len + 1 : NULL;
    }
    return n == want ? GR_OK
                     : gr_fail(err, GR_ERR_USAGE, "--device-id names %d chip%s, the profile needs %d", n,
                               n == 1 ? "" : "s", want);
}

static enum gr_status take_lowest(const struct chips *chips, int want, char out[GR_CHIPS_BYTES], struct gr_err *err)
{
    int n = 0;
    const char *by = NULL;
    for (int k = 0; k < chips->n; k++) {
        by = by == NULL ? chips->taken[k] : by;
        if (chips->taken[k] == NULL && n++ < want) {
            put_chip(chips->number[k], out);
        }
    }
    if (n >= want) {
        return GR_OK;
    }
    out[0] = '\0';
    return gr_fail(err, GR_ERR_DEVICE, "too few chips free: the profile needs %d, %d of %d %s free%s%.100s", want, n,
                   chips->n, n == 1 ? "is" : "are", by != NULL ? "; one is taken by container " : "",
                   by != NULL ? by : "");
}

enum gr_status gr_container_chips(const char *engine, const char *nodes, const char *given, int want,
                                  char *const *environment, char out[GR_CHIPS_BYTES], struct gr_err *err)
{
    struct chips chips;
    struct gr_json *containers = NULL;
    out[0] = '\0';
    list_chips(nodes, &chips);
    GR_TRY(inspect_running(engine, NULL, environment, ASK_S, &containers, err));
    mark_taken(containers, nodes, &chips);
    enum gr_status status =
        given != NULL ? take_given(&chips, nodes, given, want, out, err) : take_lowest(&chips, want, out, err);
    gr_json_free(containers);
    return status;
}

/* ---- fit for cards ---- */

/* Read-write for the plain user: groups are not known inside a rootless engine's user namespace. */
static bool plain_access(const struct stat *st)
{
    const mode_t bits = st->st_uid == getuid() ? st->st_mode >> 6 : st->st_mode;
    return (bits & 06) == 06;
}

static enum gr_status check_rights(const char *engine, const char *nodes, struct gr_err *err)
{
    struct chips chips;
    list_chips(nodes, &chips);
    for (int k = 0; k < chips.n; k++) {
        char node[GR_PATH_BYTES];
        struct stat st;
        (void)snprintf(node, sizeof node, "%.4000s/%d", nodes, chips.number[k]);
        if (stat(node, &st) == 0 && !plain_access(&st)) {
            return gr_fail(
                err, GR_ERR_DEVICE,
                "%s runs rootless, and %s is not read-write for user %ld itself (groups do not count there): change its "
                "rights, use an engine that runs as root, or serve natively",
                engine, node, (long)getuid());
        }
    }
    return GR_OK;
}

enum gr_status gr_container_fit(const char *engine, const char *nodes, char *const *environment, struct gr_err *err)
{
    static const char *const version[] = {"version", "--format", "{{.Server.Version}}", NULL};
    char user[32], text[64];
    GR_TRY(gr_container_user(engine, environment, user, err));
    if (strcmp(engine, "docker") == 0) {
        if (!gr_container_answer(engine, version, environment, text, sizeof text)) {
            return gr_fail(err, GR_ERR_DEVICE, "docker does not say which version its server has (`docker version`)");
        }
        if (atoi(text) < OLDEST_DOCKER) {
            return gr_fail(err, GR_ERR_DEVICE,
                           "the docker server is version %s; packages for cards want %d or later: update docker, use "
                           "--engine podman, or serve natively",
                           text, OLDEST_DOCKER);
        }
    }
    return strcmp(user, "0:0") == 0 && getuid() != 0 ? check_rights(engine, nodes, err) : GR_OK;
}
