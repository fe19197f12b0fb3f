/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_launch.c: `gr00t serve TARGET`, in the order of the vendor's tool: what is asked for, host, port, image, weights, start, watch. */
#include "cli/cmd_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/launch_fetch.h"
#include "cli/launch_job.h"
#include "cli/settings.h"

#define READY_S 14400.0 /* a first start on a card compiles its kernels */
enum { PORT_TRIES = 5 };

const char *gr_launch_flag_given(const struct gr_launch_flags *f)
{
    const struct {
        bool given;
        const char *name;
    } all[] = {{f->print, "--print"},
               {f->dry_run, "--dry-run"},
               {f->detach, "--detach"},
               {f->container, "--container"},
               {f->engine != NULL, "--engine"},
               {f->profile != NULL, "--profile"},
               {f->env.n > 0, "--env"},
               {f->arch != NULL, "--arch"},
               {f->no_weights, "--no-weights"},
               {f->local_only, "--local-only"},
               {f->force, "--force"},
               {f->refresh, "--refresh"},
               {f->no_update_check, "--no-update-check"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].given) {
            return all[i].name;
        }
    }
    return NULL;
}

/* ---- what is asked for ---- */

static bool on_path(const char *name)
{
    const char *at = gr_settings_env("PATH");
    for (; at != NULL && *at != '\0'; at += strcspn(at, ":"), at += *at == ':') {
        char path[GR_PATH_BYTES];
        const int n = snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (n > 0 && (size_t)n < sizeof path && gr_fs_is_file(path) && access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static enum gr_status set_engine(struct gr_job *j, struct gr_err *err)
{
    const char *engine = j->flags->engine;
    if (engine == NULL && j->flags->container) {
        engine = on_path("docker") ? "docker" : on_path("podman") ? "podman" : NULL;
        if (engine == NULL && !gr_job_prints(j)) {
            return gr_fail(err, GR_ERR_USAGE, "--container: neither docker nor podman is in PATH");
        }
        engine = engine != NULL ? engine : "docker";
    }
    engine = engine != NULL ? engine : "native";
    if (!gr_settings_one_of(engine, "native", "docker", "podman")) {
        return gr_fail(err, GR_ERR_USAGE, "--engine is \"%.40s\", expected native, docker or podman", engine);
    }
    if (j->flags->container && strcmp(engine, "native") == 0) {
        return gr_fail(err, GR_ERR_USAGE, "--container and --engine native exclude each other");
    }
    (void)snprintf(j->engine, sizeof j->engine, "%s", engine);
    return GR_OK;
}

/* The vendor's front end, which asks for events, looks for a container of docker's once we are done: a native run would be invisible to it. */
static void suit_front_end(struct gr_job *j)
{
    if (j->view.events && j->flags->engine == NULL && !j->target.is_snapshot && on_path("docker")) {
        (void)snprintf(j->engine, sizeof j->engine, "docker");
    }
}

static enum gr_status set_env(struct gr_job *j, struct gr_err *err)
{
    const struct gr_arg_list *given = &j->flags->env;
    if ((j->env = calloc((size_t)given->n + 1, sizeof *j->env)) == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the variables");
    }
    for (int i = 0; i < given->n; i++) {
        const char *equals = strchr(given->items[i], '=');
        if (equals == NULL || equals == given->items[i]) {
            return gr_fail(err, GR_ERR_USAGE, "--env is \"%.80s\", expected NAME=VALUE", given->items[i]);
        }
        j->env[i].name = strndup(given->items[i], (size_t)(equals - given->items[i]));
        j->env[i].value = equals + 1;
        if (j->env[i].name == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for the variables");
        }
        j->launch.n_env++;
    }
    j->launch.env = j->env;
    return GR_OK;
}

static bool is_option(const char *word, const char *option)
{
    const size_t n = strlen(option);
    return strncmp(word, option, n) == 0 && (word[n] == '\0' || word[n] == '=');
}

/* Before anything is fetched. */
static enum gr_status check_words(const struct gr_job *j, struct gr_err *err)
{
    static const char *const weights[] = {"--model", "--hf-model", "--revision"};
    for (int i = 0; i < j->req->n_words; i++) {
        const char *w = j->req->words[i];
        if (is_option(w, "--port")) {
            return gr_fail(err, GR_ERR_USAGE, "--port belongs before the \"--\": it is published, not only passed on");
        }
        if (is_option(w, "--host")) {
            return gr_fail(err, GR_ERR_USAGE, "--host belongs before the \"--\"");
        }
        for (size_t k = 0; k < sizeof weights / sizeof weights[0]; k++) {
            if (is_option(w, weights[k])) {
                return gr_fail(err, GR_ERR_USAGE, "%.200s names the weights already: without %s", j->req->target,
                               weights[k]);
            }
        }
    }
    return GR_OK;
}

/* What stands in printed commands, for a shell. */
static void set_shell_words(struct gr_job *j)
{
    const struct gr_manifest *m = &j->target.package.manifest;
    gr_shell_word(j->req->target, &j->service);
    if (j->flags->profile != NULL) {
        gr_buf_puts(&j->service, " --profile ");
        gr_shell_word(j->flags->profile, &j->service);
    }
    if (j->target.is_snapshot || !m->has_weights) {
        return;
    }
    if (j->target.canonical[0] != '/') {
        gr_shell_word(j->req->target, &j->weights);
        gr_buf_puts(&j->weights, " --with-weights");
    } else { /* a folder: no repository of its own is known */
        char word[GR_HUB_ID_BYTES + GR_HUB_REVISION_BYTES];
        (void)snprintf(word, sizeof word, "%s%s%s", m->weights.repo, m->weights.revision != NULL ? "@" : "",
                       m->weights.revision != NULL ? m->weights.revision : "");
        gr_shell_word(word, &j->weights);
    }
}

static enum gr_status set_words(struct gr_job *j, struct gr_err *err)
{
    j->launch.n_words = j->req->n_words;
    if ((j->words = calloc((size_t)j->req->n_words + 2, sizeof *j->words)) == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the words");
    }
    if (j->req->n_words > 0) {
        memcpy(j->words, j->req->words, (size_t)j->req->n_words * sizeof *j->words);
    }
    if (j->req->devices != NULL &&
        strcmp(j->engine, "native") == 0) { /* no engine hands them out: the service's own option */
        j->words[j->launch.n_words++] = "--device-id";
        j->words[j->launch.n_words++] = j->req->devices;
    }
    j->launch.words = j->words;
    return GR_OK;
}

static enum gr_status check_port(const struct gr_job *j, struct gr_err *err)
{
    return j->req->port.given && !gr_job_prints(j) ? gr_launch_port_free((int)j->req->port.value, err) : GR_OK;
}

/* Everything that can be refused without the repository is refused before it is pulled. */
static enum gr_status before_pull(struct gr_job *j, struct gr_err *err)
{
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES];
    struct gr_err ignored;
    GR_TRY(check_port(j, err));
    if (j->tool.offline || gr_hub_parse_id(j->req->target, id, revision, &ignored) != GR_OK) {
        return GR_OK; /* the pull says why it cannot be */
    }
    const struct gr_weights_ref all = {.repo = id, .revision = revision[0] != '\0' ? revision : NULL};
    return gr_job_tokenizer(j, NULL, &all, err);
}

static enum gr_status find_target(struct gr_job *j, struct gr_err *err)
{
    bool absent;
    const char *word = j->req->target;
    GR_TRY(gr_launch_target(&j->tool, word, &j->target, &absent, err));
    const bool is_id = j->target.canonical[0] != '/';
    if (!absent && !(j->flags->refresh && is_id)) {
        return GR_OK;
    }
    if (gr_job_prints(j) || j->flags->local_only) {
        return absent ? gr_fail(err, GR_ERR_INPUT, "%.200s is not on this machine; `gr00t pull %.200s` fetches it",
                                word, word)
                      : GR_OK;
    }
    gr_launch_target_free(&j->target);
    GR_TRY(before_pull(j, err));
    GR_TRY(gr_launch_pull(&j->view, &j->tool, j->program, word, word, j->flags->force, j->environment, err));
    GR_TRY(gr_launch_target(&j->tool, word, &j->target, &absent, err));
    return absent ? gr_fail(err, GR_ERR_FORMAT, "%.200s was pulled, but is neither a package nor a snapshot", word)
                  : GR_OK;
}

static enum gr_status find_profile(struct gr_job *j, struct gr_err *err)
{
    const struct gr_manifest *m = &j->target.package.manifest;
    char folder[GR_PATH_BYTES];
    if (j->target.is_snapshot) {
        return j->flags->profile == NULL && j->flags->arch == NULL
                   ? GR_OK
                   : gr_fail(err, GR_ERR_USAGE, "%.200s is a snapshot: --profile and --arch are for packages",
                             j->req->target);
    }
    if (j->flags->arch != NULL && (m->arch == NULL || strcmp(m->arch, j->flags->arch) != 0)) {
        return gr_fail(err, GR_ERR_FORMAT, "%.200s is for %s, not for %s", j->req->target,
                       m->arch != NULL ? m->arch : "no chip that it names", j->flags->arch);
    }
    GR_TRY(gr_state_package(&j->tool.dirs, m->name != NULL ? m->name : "", folder, err)); /* before anything is made */
    GR_TRY(gr_manifest_profile(m, j->flags->profile, &j->profile, err));
    j->has_profile = true;
    j->launch.cards =
        strcmp(j->engine, "native") != 0 && !gr_launch_on_cpu(&j->profile, j->launch.env, j->launch.n_env);
    if (m->n_profiles > 1 && j->flags->profile == NULL && !gr_job_prints(j)) {
        gr_boot_view_note(&j->view, "profile %s of %d; `gr00t profiles %.200s` lists them", j->profile.block.name,
                          m->n_profiles, j->service.data != NULL ? j->service.data : "");
    }
    return GR_OK;
}

/* ---- port ---- */

static enum gr_status choose_port(struct gr_job *j, struct gr_err *err)
{
    if (j->req->port.given) {
        j->launch.port = (int)j->req->port.value;
        return check_port(j, err);
    }
    j->launch.port = GR_LAUNCH_PORT;
    if (!gr_job_prints(j)) {
        GR_TRY(gr_launch_port(&j->tool.dirs, j->first_port, &j->launch.port, err));
        if (j->launch.port != GR_LAUNCH_PORT) {
            gr_boot_view_note(&j->view, "port %d is in use; serving on %d instead", GR_LAUNCH_PORT, j->launch.port);
        }
    }
    return GR_OK;
}

/* ---- start ---- */

static enum gr_status compose(struct gr_job *j, struct gr_command_line *line, struct gr_err *err)
{
    struct gr_launch *l = &j->launch;
    l->dirs = &j->tool.dirs;
    l->target = j->target.canonical;
    l->manifest = j->target.is_snapshot ? NULL : &j->target.package.manifest;
    l->name = j->target.slug;
    l->profile = j->flags->profile;
    l->engine = j->engine;
    l->program = j->program;
    l->host = j->req->host;
    l->devices = j->chips[0] != '\0' ? j->chips : j->req->devices;
    l->hf_home = j->tool.hf_home;
    l->hub_cache = j->tool.cache;
    l->has_token = gr_settings_env("HF_TOKEN") != NULL;
    l->environment = j->environment;
    l->detach = j->flags->detach || !gr_job_prints(j);
    return gr_launch_compose(l, line, err);
}

static enum gr_status print_line(struct gr_job *j, struct gr_err *err)
{
    struct gr_command_line line;
    GR_TRY(compose(j, &line, err));
    gr_command_line_text(&line, &j->cli->out);
    gr_buf_puts(&j->cli->out, "\n");
    gr_command_line_free(&line);
    return GR_OK;
}

/* Under the lock: nobody else takes the port between the look and the state file. */
static enum gr_status start_locked(struct gr_job *j, struct gr_running *r, struct gr_err *err)
{
    struct gr_command_line line;
    char detail[64];
    GR_TRY(choose_port(j, err));
    GR_TRY(gr_job_chips(j, err));
    GR_TRY(compose(j, &line, err));
    const bool native = strcmp(j->engine, "native") == 0;
    gr_boot_view_step(&j->view, "container", native ? "process started" : "container started");
    enum gr_status status = gr_launch_start(&j->launch, &line, r, err);
    gr_command_line_free(&line);
    if (status != GR_OK) {
        gr_boot_view_failed(&j->view, "");
        return status;
    }
    (void)snprintf(detail, sizeof detail, "pid %ld", (long)r->pid);
    gr_boot_view_done(&j->view, native ? detail : r->name);
    gr_boot_view_container(&j->view, r);
    if (j->launch.cards && j->req->host == NULL) {
        gr_log(GR_LOG_WARN, "port %d is published on every interface; --host 127.0.0.1 keeps it on this machine",
               r->port);
    }
    return GR_OK;
}

static enum gr_status start(struct gr_job *j, struct gr_running *r, struct gr_err *err)
{
    int lock;
    GR_TRY(gr_launch_lock(&j->tool.dirs, &lock, err));
    if (gr_settings_tool_cancelled()) { /* while the image was looked for, or another start waited for */
        gr_settings_tool_interrupted("nothing was started");
    }
    enum gr_status status = start_locked(j, r, err);
    (void)close(lock);
    return status;
}

/* Before the start: a typing error must not leave a service behind that nobody watches. */
static enum gr_status ready_limit(double *seconds, struct gr_err *err)
{
    const char *text = gr_settings_tool_env("READY_TIMEOUT");
    *seconds = READY_S;
    return text == NULL ? GR_OK : gr_settings_real("TT_MODEL_READY_TIMEOUT", text, 0.0, 1e6, seconds, err);
}

/* ---- all ---- */

/* Refused before anything is fetched. */
static enum gr_status refuse_running(struct gr_job *j, struct gr_err *err)
{
    struct gr_running_set set;
    const char *profile = j->has_profile ? j->profile.block.name : NULL;
    GR_TRY(gr_running_find(&j->tool.dirs, j->target.canonical, profile, &set, err));
    enum gr_status status = GR_OK;
    for (int i = 0; i < set.n && status == GR_OK; i++) {
        if (gr_launch_alive(&set.items[i], j->environment)) {
            status = gr_fail(err, GR_ERR_BUSY, "%s runs already at %s; `gr00t stop %.200s` ends it", set.items[i].name,
                             set.items[i].url, j->service.data != NULL ? j->service.data : "");
        }
    }
    gr_running_set_free(&set);
    return status;
}

/* Between the choice of a port and the service's bind another program may take it: then the next one, unless a port was asked for. */
static enum gr_status start_and_watch(struct gr_job *j, double limit_s, struct gr_err *err)
{
    struct gr_running r;
    const struct gr_boot_words words = {j->req->target, j->service.data, j->weights.data};
    for (int left = PORT_TRIES;; left--) {
        bool lost = false;
        GR_TRY(start(j, &r, err));
        if (j->flags->detach) {
            if (!j->view.events) {
                gr_buf_line(&j->cli->out, "%s starts at %s\n", r.name, r.url);
            }
            return GR_OK;
        }
        enum gr_status status = gr_boot_view_watch(&j->view, &r, &words, j->environment, limit_s,
                                                   j->req->port.given || left == 1 ? NULL : &lost, err);
        if (status == GR_OK) {
            gr_boot_view_ready(&j->view, &r, &words);
        }
        if (!lost) {
            return status;
        }
        gr_boot_view_note(&j->view, "port %d was taken meanwhile; the next free one is tried", r.port);
        j->first_port = r.port + 1;
    }
}

static enum gr_status go(struct gr_job *j, struct gr_err *err)
{
    double limit_s;
    GR_TRY(ready_limit(&limit_s, err));
    GR_TRY(set_engine(j, err));
    GR_TRY(set_env(j, err));
    GR_TRY(check_words(j, err));
    GR_TRY(gr_settings_tool_hub(&j->tool, err));
    GR_TRY(find_target(j, err));
    set_shell_words(j);
    if (j->service.failed || j->weights.failed) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the words");
    }
    suit_front_end(j);
    GR_TRY(set_words(j, err));
    GR_TRY(find_profile(j, err));
    if (gr_job_prints(j)) {
        GR_TRY(gr_job_image(j, err));
        GR_TRY(gr_job_weights(j, err));
        GR_TRY(choose_port(j, err));
        return print_line(j, err);
    }
    GR_TRY(refuse_running(j, err));
    GR_TRY(check_port(j, err));
    GR_TRY(gr_job_host(j, err));
    GR_TRY(gr_job_image(j, err));
    GR_TRY(gr_job_find_tokenizer(j, err));
    GR_TRY(gr_job_weights(j, err));
    return start_and_watch(j, limit_s, err);
}

static enum gr_status own_program(char out[GR_PATH_BYTES], struct gr_err *err)
{
    const ssize_t n = readlink("/proc/self/exe", out, GR_PATH_BYTES - 1);
    if (n <= 0) {
        return gr_fail(err, GR_ERR_DEVICE, "/proc/self/exe does not say where this program is");
    }
    out[n] = '\0';
    return GR_OK;
}

enum gr_status gr_launch_verb(struct gr_cli *cli, const struct gr_launch_request *request, struct gr_err *err)
{
    struct gr_job *j = calloc(1, sizeof *j); /* 30 KB of paths */
    const char *progress = gr_settings_tool_env("PROGRESS");
    if (j == NULL || (j->environment = gr_launch_environment()) == NULL) {
        free(j);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a start");
    }
    j->cli = cli;
    j->req = request;
    j->flags = request->flags;
    j->first_port = GR_LAUNCH_PORT;
    gr_settings_tool_catch();
    gr_boot_view_begin(&j->view, cli, progress != NULL && strcmp(progress, "ndjson") == 0);
    enum gr_status status = own_program(j->program, err);
    if (status == GR_OK) {
        status = go(j, err);
    }
    if (status != GR_OK) {
        gr_boot_view_error(&j->view, err);
    }
    if (j->has_profile) {
        gr_profile_free(&j->profile);
    }
    for (int i = 0; i < j->launch.n_env; i++) {
        free((char *)(uintptr_t)j->env[i].name);
    }
    free(j->env);
    free(j->words);
    gr_buf_free(&j->service);
    gr_buf_free(&j->weights);
    free(j->environment);
    gr_native_root_free(&j->root);
    gr_launch_target_free(&j->target);
    gr_tool_hub_free(&j->tool);
    free(j);
    return status;
}
