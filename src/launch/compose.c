/* SPDX-License-Identifier: Apache-2.0
 *
 * compose.c: the command that serves a package. In a container: the line of the vendor's tool, word for word and in its order (docs/PACKAGES.md), so that what
 * runs is what a reader of the contract expects. Natively: the same program with the same words and variables, where variables that name
 * mounted folders name the folders themselves. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch.h"
#include "launch/native.h"

static const char default_shape_env[] = "FLUX2_MESH_SHAPE";
static const char mesh_graph[] =
    "/opt/tt-metal/tt_metal/fabric/mesh_graph_descriptors/p150_mesh_graph_descriptor.textproto";

/* ---- variables ---- */

static bool is_variable(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.-";
    return name[0] != '\0' && strchr(first, name[0]) != NULL && name[strspn(name, rest)] == '\0';
}

static const char *value_of(const struct gr_env *env, int n, const char *name)
{
    const char *value = NULL;
    for (int i = 0; i < n; i++) { /* the last one counts */
        value = strcmp(env[i].name, name) == 0 ? env[i].value : value;
    }
    return value;
}

bool gr_launch_on_cpu(const struct gr_profile *p, const struct gr_env *env, int n_env)
{
    const char *device = value_of(env, n_env, "GR00T_DEVICE");
    device = device != NULL ? device : value_of(p->block.env, p->block.n_env, "GR00T_DEVICE");
    return device != NULL && strcmp(device, "cpu") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gr_env *)a)->name, ((const struct gr_env *)b)->name);
}

static enum gr_status put_given(const struct gr_env *env, int n, struct gr_command_line *vars, struct gr_err *err)
{
    for (int i = 0; i < n; i++) {
        if (!is_variable(env[i].name)) {
            return gr_fail(err, GR_ERR_USAGE, "\"%.80s\" is no name of a variable", env[i].name);
        }
        gr_command_line_env(vars, env[i].name, env[i].value);
    }
    return GR_OK;
}

/* A repository id is enough when the service is told the pinned revision too; else it would look for "main". */
static bool needs_snapshot(const struct gr_manifest *m, const struct gr_profile *p)
{
    const char *told = value_of(p->block.env, p->block.n_env, "TT_WEIGHTS_REVISION");
    return m->has_weights && m->weights.revision != NULL && (told == NULL || strcmp(told, m->weights.revision) != 0);
}

/* The Hub cache as the mounts show it; false: below the mount of HF_HOME, true: a mount of its own. */
static bool hub_in_container(const struct gr_launch *l, char out[GR_PATH_BYTES])
{
    const char *below = gr_path_below(l->hub_cache, l->hf_home);
    (void)snprintf(out, GR_PATH_BYTES, "%s%s", below != NULL ? "/hf" : "/hf-hub", below != NULL ? below : "");
    return below == NULL;
}

/* HF_MODEL for a container: the repository, or its snapshot as the mount shows it. */
static void put_model(const struct gr_launch *l, const struct gr_profile *p, struct gr_command_line *vars)
{
    const struct gr_weights_ref *w = &l->manifest->weights;
    char path[GR_PATH_BYTES], hub[GR_PATH_BYTES];
    const char *slash = l->manifest->has_weights ? strchr(w->repo, '/') : NULL;
    if (slash == NULL) {
        return;
    }
    if (!needs_snapshot(l->manifest, p)) {
        gr_command_line_env(vars, "HF_MODEL", w->repo);
        return;
    }
    hub_in_container(l, hub);
    (void)snprintf(path, sizeof path, "%.1000s/models--%.*s--%s/snapshots/%s", hub, (int)(slash - w->repo), w->repo,
                   slash + 1, w->revision);
    gr_command_line_env(vars, "HF_MODEL", path);
}

/* What the profile asks for, with names sorted. */
static enum gr_status put_variables(const struct gr_launch *l, const struct gr_profile *p, struct gr_command_line *vars,
                                    struct gr_err *err)
{
    char shape[32];
    put_model(l, p, vars);
    if (p->block.mesh_device != NULL) {
        const char *name = l->manifest->mesh_shape_env != NULL ? l->manifest->mesh_shape_env : default_shape_env;
        if (p->rows <= 0) {
            return gr_fail(err, GR_ERR_FORMAT, "profile %s: mesh_device \"%.60s\" is unknown to this version",
                           p->block.name, p->block.mesh_device);
        }
        (void)snprintf(shape, sizeof shape, "%dx%d", p->rows, p->cols);
        const struct gr_env mesh[] = {{"MESH_DEVICE", p->block.mesh_device}, {name, shape}};
        GR_TRY(put_given(mesh, 2, vars, err));
    }
    GR_TRY(put_given(p->block.env, p->block.n_env, vars, err));
    if (l->cards && l->devices != NULL && strchr(l->devices, ',') == NULL &&
        value_of(vars->env, vars->n_env, "TT_MESH_GRAPH_DESC_PATH") == NULL) {
        gr_command_line_env(vars, "TT_MESH_GRAPH_DESC_PATH", mesh_graph);
    }
    GR_TRY(put_given(l->env, l->n_env, vars, err));
    if (vars->n_env > 0) {
        qsort(vars->env, (size_t)vars->n_env, sizeof *vars->env, by_name);
    }
    return GR_OK;
}

/* ---- words ---- */

/* python -m uvicorn ...: what every reader of schema 5.1 composes; the entry program of our image understands it. */
static void put_command(const struct gr_launch *l, const struct gr_profile *p, const char *host,
                        struct gr_command_line *c)
{
    static const char *const head[] = {"python", "-m", "uvicorn", "--host"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_command_line_word(c, "%s", head[i]);
    }
    gr_command_line_word(c, "%s", host);
    gr_command_line_word(c, "--port");
    gr_command_line_word(c, "%d", l->port);
    gr_command_line_word(c, "--lifespan");
    gr_command_line_word(c, "on");
    for (int i = 0; i < p->block.words.n; i++) {
        gr_command_line_word(c, "%s", p->block.words.items[i]);
    }
    if (l->manifest->app != NULL) {
        gr_command_line_word(c, "%s", l->manifest->app);
    }
    for (int i = 0; i < l->n_words; i++) {
        gr_command_line_word(c, "%s", l->words[i]);
    }
}

static void put_pair(struct gr_command_line *c, const char *option, const char *fmt, const char *a, const char *b)
{
    char text[2 * GR_PATH_BYTES];
    (void)snprintf(text, sizeof text, fmt, a, b);
    gr_command_line_word(c, "%s", option);
    gr_command_line_word(c, "%s", text);
}

/* Number by number: "0,1". */
static enum gr_status put_devices(const struct gr_launch *l, struct gr_command_line *c, struct gr_err *err)
{
    if (l->devices == NULL) {
        gr_command_line_word(c, "--device");
        gr_command_line_word(c, "/dev/tenstorrent");
        return GR_OK;
    }
    if (strspn(l->devices, "0123456789,") != strlen(l->devices) || l->devices[0] == '\0') {
        return gr_fail(err, GR_ERR_USAGE, "--device-id is \"%.80s\", expected numbers like 0 or 0,1", l->devices);
    }
    put_pair(c, "--label", "org.tenstorrent.tt-model.devices=%s%s", l->devices, "");
    for (const char *at = l->devices; at != NULL;) {
        const size_t n = strcspn(at, ",");
        if (n == 0 || n > 4) {
            return gr_fail(err, GR_ERR_USAGE, "--device-id is \"%.80s\", expected numbers like 0 or 0,1", l->devices);
        }
        gr_command_line_word(c, "--device");
        gr_command_line_word(c, "/dev/tenstorrent/%.*s:/dev/tenstorrent/%.*s", (int)n, at, (int)n, at);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return GR_OK;
}

static void put_mounts(const struct gr_launch *l, const char *cache, struct gr_command_line *c)
{
    put_pair(c, "--volume", "%s:/hf%s", l->hf_home, "");
    put_pair(c, "--env", "HF_HOME=/hf%s%s", "", "");
    put_pair(c, "--volume", "%s/cache:/cache%s", cache, "");
    put_pair(c, "--env", "TT_METAL_CACHE=/cache%s%s", "", "");
    put_pair(c, "--volume", "%s/weights:/weight-cache%s", cache, "");
    put_pair(c, "--env", "TT_DIT_CACHE_DIR=/weight-cache%s%s", "", "");
    put_pair(c, "--volume", "%s/tensors:/tensor-cache%s", cache, "");
    put_pair(c, "--env", "TT_CACHE_PATH=/tensor-cache%s%s", "", "");
}

/* Cards: published on every interface as the reference line does, unless a host is named; without cards on this machine only. */
static void put_publish(const struct gr_launch *l, struct gr_command_line *c)
{
    const char *host = l->host != NULL ? l->host : l->cards ? NULL : "127.0.0.1";
    gr_command_line_word(c, "--publish");
    if (host == NULL) {
        gr_command_line_word(c, "%d:%d", l->port, l->port);
    } else {
        gr_command_line_word(c, strchr(host, ':') != NULL ? "[%s]:%d:%d" : "%s:%d:%d", host, l->port, l->port);
    }
}

/* Everybody on the machine may read a command line: a token stands there by its name, as `docker run` takes it from its environment. */
static void put_env_options(const struct gr_launch *l, const struct gr_command_line *vars, struct gr_command_line *c)
{
    if (l->has_token && value_of(vars->env, vars->n_env, "HF_TOKEN") == NULL) {
        put_pair(c, "--env", "HF_TOKEN%s%s", "", "");
    }
    for (int i = 0; i < vars->n_env; i++) {
        const char *name = vars->env[i].name, *value = vars->env[i].value;
        if (gr_is_secret_variable(name)) {
            gr_command_line_word(c, "--env");
            gr_command_line_word(c, "%s", name);
            gr_command_line_env(c, name, value);
        } else {
            gr_command_line_word(c, "--env");
            gr_command_line_word(c, "%s=%s", name, value);
        }
    }
}

static enum gr_status compose_container(const struct gr_launch *l, const struct gr_profile *p, const char *cache,
                                        struct gr_command_line *c, struct gr_err *err)
{
    struct gr_command_line vars = {0};
    enum gr_status status = gr_container_image_ref(l->manifest, c->image, err);
    if (status == GR_OK) {
        status = put_variables(l, p, &vars, err);
    }
    if (status != GR_OK) {
        gr_command_line_free(&vars);
        return status;
    }
    gr_command_line_word(c, "%s", l->engine);
    gr_command_line_word(c, "run");
    if (l->detach) {
        gr_command_line_word(c, "--detach");
    }
    put_pair(c, "--name", "%s%s", c->name, "");
    put_pair(c, "--user", "%s%s", l->user != NULL ? l->user : "0:0", "");
    put_pair(c, "--label", "org.tenstorrent.tt-model=%s%s", l->manifest->name, "");
    put_pair(c, "--label", "org.tenstorrent.tt-model.profile=%s%s", p->block.name, "");
    if (l->cards) {
        status = put_devices(l, c, err);
        put_pair(c, "--ipc", "%s%s", "host", "");
        put_pair(c, "--mount", "type=bind,src=%s,dst=%s", "/dev/hugepages-1G", "/dev/hugepages-1G");
    }
    put_mounts(l, cache, c);
    put_publish(l, c);
    char hub[GR_PATH_BYTES];
    if (hub_in_container(l, hub)) {
        put_pair(c, "--volume", "%s:%s", l->hub_cache, hub);
    }
    if (strcmp(hub, "/hf/hub") != 0) {
        put_pair(c, "--env", "HF_HUB_CACHE=%s%s", hub, "");
    }
    put_env_options(l, &vars, c);
    c->failed = c->failed || vars.failed;
    gr_command_line_free(&vars);
    gr_command_line_word(c, "%s", c->image);
    put_command(l, p, "0.0.0.0", c);
    return status;
}

/* ---- natively ---- */

static enum gr_status compose_native(const struct gr_launch *l, const struct gr_profile *p, const char *cache,
                                     struct gr_command_line *c, struct gr_err *err)
{
    struct gr_command_line vars = {0};
    enum gr_status status = put_variables(l, p, &vars, err);
    if (status == GR_OK && l->root != NULL) {
        gr_native_image_env(l, cache, c);
    }
    for (int i = 0; i < vars.n_env && status == GR_OK; i++) {
        char path[GR_PATH_BYTES];
        const char *value = gr_native_value(l, cache, vars.env[i].value, path);
        gr_command_line_env(c, vars.env[i].name, value);
    }
    c->failed = c->failed || vars.failed;
    gr_command_line_free(&vars);
    GR_TRY(status);
    if (l->snapshot != NULL && value_of(l->env, l->n_env, "HF_MODEL") == NULL &&
        value_of(p->block.env, p->block.n_env, "HF_MODEL") == NULL) {
        gr_command_line_env(c, "HF_MODEL", l->snapshot);
    }
    gr_native_folders(l, cache, c);
    if (c->n_env > 0) {
        qsort(c->env, (size_t)c->n_env, sizeof *c->env, by_name);
    }
    GR_TRY(gr_native_program(l, c, err));
    put_command(l, p, l->host != NULL ? l->host : "127.0.0.1", c);
    return GR_OK;
}

static enum gr_status compose_snapshot(const struct gr_launch *l, struct gr_command_line *c, struct gr_err *err)
{
    if (strcmp(l->engine, "native") != 0) {
        return gr_fail(err, GR_ERR_USAGE, "%s is a snapshot folder: a container needs a package with an image",
                       l->target);
    }
    GR_TRY(put_given(l->env, l->n_env, c, err));
    if (c->n_env > 0) {
        qsort(c->env, (size_t)c->n_env, sizeof *c->env, by_name);
    }
    gr_command_line_word(c, "%s", l->program);
    gr_command_line_word(c, "serve");
    put_pair(c, "--model", "%s%s", l->snapshot, "");
    put_pair(c, "--host", "%s%s", l->host != NULL ? l->host : "127.0.0.1", "");
    gr_command_line_word(c, "--port");
    gr_command_line_word(c, "%d", l->port);
    for (int i = 0; i < l->n_words; i++) {
        gr_command_line_word(c, "%s", l->words[i]);
    }
    return GR_OK;
}

/* ---- all ---- */

static enum gr_status set_names(struct gr_command_line *c, const char *name, const char *profile, struct gr_err *err)
{
    const int n = snprintf(c->name, sizeof c->name, "tt-model-%s-%s", name, profile);
    if (n < 0 || (size_t)n >= sizeof c->name || strlen(profile) >= sizeof c->profile ||
        strlen(name) >= sizeof c->package || !gr_is_run_name(c->name)) {
        return gr_fail(err, GR_ERR_FORMAT, "\"%.80s\" with profile \"%.60s\" makes no name for a service", name,
                       profile);
    }
    (void)snprintf(c->package, sizeof c->package, "%s", name);
    (void)snprintf(c->profile, sizeof c->profile, "%s", profile);
    return GR_OK;
}

static enum gr_status compose_package(const struct gr_launch *l, struct gr_command_line *c, struct gr_err *err)
{
    struct gr_profile p;
    char cache[GR_PATH_BYTES];
    const struct gr_manifest *m = l->manifest;
    GR_TRY(gr_state_package(l->dirs, m->name != NULL ? m->name : "", cache, err));
    if (m->kind == NULL || strcmp(m->kind, "tt-dit-server") != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "package %s is of kind %.60s; only tt-dit-server can be served", m->name,
                       m->kind != NULL ? m->kind : "none");
    }
    GR_TRY(gr_manifest_profile(m, l->profile, &p, err));
    enum gr_status status = set_names(c, m->name, p.block.name, err);
    if (status == GR_OK) {
        status = strcmp(l->engine, "native") == 0 ? compose_native(l, &p, cache, c, err)
                                                  : compose_container(l, &p, cache, c, err);
    }
    gr_profile_free(&p);
    return status;
}

enum gr_status gr_launch_compose(const struct gr_launch *l, struct gr_command_line *out, struct gr_err *err)
{
    *out = (struct gr_command_line){.port = l->port};
    enum gr_status status = GR_OK;
    if (l->manifest != NULL) {
        status = compose_package(l, out, err);
    } else {
        status = set_names(out, l->name, "default", err);
        if (status == GR_OK) {
            status = compose_snapshot(l, out, err);
        }
    }
    if (status == GR_OK && out->failed) {
        status = gr_fail(err, GR_ERR_NOMEM, "no memory for the command line");
    }
    if (status != GR_OK) {
        gr_command_line_free(out);
    }
    return status;
}
