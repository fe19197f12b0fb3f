/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_fetch.c: downloads of `serve TARGET`. */
#include "cli/launch_fetch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/settings.h"
#include "hub/download.h"
#include "hub/hub_cache.h"
#include "launch/spawn.h"

enum { EXIT_INTERRUPTED = 130 };

/* An offline reader that asks for "main" would find nothing after a pull of a bare commit. */
static void name_main(const struct gr_tool_hub *tool, const char *id, const char *revision)
{
    char commit[GR_HUB_COMMIT_BYTES];
    struct gr_err ignored;
    if (revision != NULL && gr_hub_is_commit(revision) &&
        gr_cache_resolve(tool->cache, id, "main", commit, &ignored) != GR_OK) {
        (void)gr_cache_write_ref(tool->cache, id, "main", revision, &ignored);
    }
}

enum gr_status gr_launch_pull(struct gr_boot_view *v, const struct gr_tool_hub *tool, const char *program,
                              const char *word, const char *what, bool force, char *const *environment,
                              struct gr_err *err)
{
    static const enum gr_status all[] = {GR_ERR_USAGE,  GR_ERR_INPUT,   GR_ERR_IO,
                                         GR_ERR_FORMAT, GR_ERR_NETWORK, GR_ERR_ACCESS};
    char verb[] = "pull", forced[] = "--force", json[] = "--log-format=json", quiet[] = "--quiet";
    char *argv[8], id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES];
    struct gr_err ignored;
    int n = 0;
    pid_t pid;
    argv[n++] = (char *)(uintptr_t)program; /* the type of execve */
    argv[n++] = verb;
    argv[n++] = (char *)(uintptr_t)word;
    if (force) {
        argv[n++] = forced;
    }
    if (v->cli->json_log) {
        argv[n++] = json;
    }
    if (v->cli->quiet) {
        argv[n++] = quiet;
    }
    argv[n] = NULL;
    const struct gr_spawn s = {argv, environment, -1, STDERR_FILENO, STDERR_FILENO, false};
    gr_boot_view_step(v, "pull", what);
    GR_TRY(gr_spawn(&s, &pid, err));
    const int code = gr_spawn_wait(pid);
    if (code == 0) {
        gr_boot_view_done(v, "pulled");
        if (gr_hub_parse_id(word, id, revision, &ignored) == GR_OK) {
            name_main(tool, id, revision);
        }
        return GR_OK;
    }
    gr_boot_view_failed(v, "");
    if (code == EXIT_INTERRUPTED) {
        gr_settings_tool_interrupted("nothing was started; the same command goes on with the download");
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (gr_exit_code(all[i]) == code) {
            return gr_fail(err, all[i], "%.200s could not be pulled (the reason stands above)", what);
        }
    }
    return gr_fail(err, GR_ERR_DEVICE, "`gr00t pull %.200s` ended with %d", word, code);
}

/* ---- tokenizer ---- */

bool gr_launch_is_own(const struct gr_manifest *m) { return m->app != NULL && strcmp(m->app, "gr00t.native:app") == 0; }

static bool names_option(const char *const *words, int n)
{
    static const char option[] = "--tokenizer";
    for (int i = 0; i < n; i++) {
        if (strncmp(words[i], option, sizeof option - 1) == 0 &&
            (words[i][sizeof option - 1] == '\0' || words[i][sizeof option - 1] == '=')) {
            return true;
        }
    }
    return false;
}

/* A folder of a tokenizer or weights, or another cache than the one that is looked at here: what is in it is the service's business. */
static bool names_variable(const struct gr_env *env, int n)
{
    static const char *const names[] = {"GR00T_TOKENIZER_DIR", "GR00T_WEIGHTS_DIR",     "HF_MODEL",
                                        "HF_HUB_CACHE",        "HUGGINGFACE_HUB_CACHE", "HF_HOME"};
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            if (strcmp(env[i].name, names[k]) == 0 && env[i].value[0] != '\0') {
                return true;
            }
        }
    }
    return false;
}

static bool names_tokenizer(const struct gr_tokenizer_need *need)
{
    const struct gr_serve_block *b = need->profile != NULL ? &need->profile->block : NULL;
    return names_option(need->words, need->n_words) || names_variable(need->env, need->n_env) ||
           (b != NULL && (names_option(b->words.items, b->words.n) || names_variable(b->env, b->n_env))) ||
           (need->callers_env && gr_settings_env("GR00T_TOKENIZER_DIR") != NULL);
}

bool gr_launch_has_tokenizer(const struct gr_manifest *m, const struct gr_profile *p)
{
    const struct gr_tokenizer_need need = {.profile = p};
    struct gr_hub_place place;
    struct gr_err ignored;
    char found[GR_PATH_BYTES];
    const bool weights = m->has_weights && gr_hub_find(m->weights.repo, m->weights.revision, &place, &ignored) == GR_OK;
    return !gr_launch_is_own(m) || names_tokenizer(&need) ||
           gr_settings_find_tokenizer(weights ? place.dir : NULL, found);
}

/* True: nothing needs to be fetched for it, since the repository has one, or is a package, whose weights are another repository, or cannot be read, which
 * its own pull says better. */
static bool comes_along(const struct gr_tool_hub *tool, const struct gr_tokenizer_need *need)
{
    struct gr_hub_repo repo;
    struct gr_err ignored;
    if (gr_hub_look(tool->hub, need->id, need->revision, true, &repo, &ignored) != GR_OK) {
        return need->dir == NULL;
    }
    const char *const files[] = {"tokenizer/vocab.json", "tokenizer/merges.txt", "tokenizer/tokenizer.json"};
    bool has[3];
    for (int i = 0; i < 3; i++) {
        has[i] = gr_hub_repo_find(&repo, files[i]) != NULL && gr_hub_matches(&need->patterns, files[i]);
    }
    const bool comes = (has[0] && has[1]) || has[2] || gr_hub_repo_find(&repo, GR_MANIFEST_FILE) != NULL;
    gr_hub_repo_free(&repo);
    return comes;
}

enum gr_status gr_launch_tokenizer(struct gr_boot_view *v, const struct gr_tool_hub *tool, const char *program,
                                   const struct gr_tokenizer_need *need, bool fetch, char *const *environment,
                                   struct gr_err *err)
{
    char found[GR_PATH_BYTES];
    if (names_tokenizer(need) || gr_settings_find_tokenizer(need->dir, found)) {
        return GR_OK;
    }
    if (!fetch) {
        return gr_fail(
            err, GR_ERR_FORMAT,
            "no tokenizer is on this machine, and none may be fetched now: `gr00t pull --tokenizer` gets it, "
            "or name its folder with --tokenizer");
    }
    if (need->id != NULL && comes_along(tool, need)) {
        return GR_OK;
    }
    return gr_launch_pull(v, tool, program, "--tokenizer", "tokenizer", false, environment, err);
}

/* ---- weights ---- */

static enum gr_status check_ref(const struct gr_weights_ref *w, struct gr_err *err)
{
    if (w->repo != NULL && gr_hub_is_id(w->repo) && (w->revision == NULL || gr_hub_is_revision(w->revision))) {
        return GR_OK;
    }
    return gr_fail(err, GR_ERR_FORMAT, "the manifest names weights \"%.100s\" @ \"%.100s\", which is no repository",
                   w->repo != NULL ? w->repo : "", w->revision != NULL ? w->revision : "main");
}

/* A variable names a path inside the cache folder of the repository. */
static bool is_pinned(const struct gr_profile *p, const char *id)
{
    char name[GR_CACHE_NAME_BYTES], folder[GR_CACHE_NAME_BYTES + 2];
    struct gr_err none;
    if (gr_cache_name(id, name, &none) != GR_OK) {
        return false;
    }
    (void)snprintf(folder, sizeof folder, "/%s/", name);
    for (int i = 0; i < p->block.n_env; i++) {
        if (strstr(p->block.env[i].value, folder) != NULL) {
            return true;
        }
    }
    return false;
}

static enum gr_status fetch_one(struct gr_boot_view *v, const struct gr_tool_hub *tool, const struct gr_weights_ref *w,
                                const struct gr_profile *p, struct gr_err *err)
{
    struct gr_pull pull = {.id = w->repo,
                           .revision = w->revision,
                           .patterns = {w->allow.items, w->ignore.items, w->allow.n, w->ignore.n},
                           .progress = gr_boot_view_bytes,
                           .progress_user = v};
    struct gr_pulled out;
    struct gr_err why = {0};
    char detail[GR_HUB_ID_BYTES + 128], size[2][32];
    if (v->live) {
        gr_progress_begin(&v->progress, v->cli);
        v->progress.rate = true;
    }
    enum gr_status status = gr_hub_pull(tool->hub, &pull, &out, &why);
    gr_progress_end(&v->progress);
    if (gr_settings_tool_cancelled()) {
        gr_settings_tool_interrupted("nothing was started; the same command goes on with the download");
    }
    if (status == GR_OK) {
        (void)snprintf(detail, sizeof detail, "%s @ %.12s, %s%s%s", out.id, out.commit,
                       gr_human_bytes(size[0], (double)out.bytes), out.bytes_fetched > 0 ? ", fetched " : "",
                       out.bytes_fetched > 0 ? gr_human_bytes(size[1], (double)out.bytes_fetched) : "");
        gr_boot_view_done(v, detail);
        gr_pulled_free(&out);
        name_main(tool, w->repo, w->revision);
        return GR_OK;
    }
    gr_boot_view_failed(v, why.msg);
    if (status == GR_ERR_IO ||
        is_pinned(p, w->repo)) { /* a full disk does not get better by starting a service on it */
        *err = why;
        return status;
    }
    gr_log(GR_LOG_WARN, "weights: %s; going on with what is there", why.msg);
    return GR_OK;
}

enum gr_status gr_launch_weights(struct gr_boot_view *v, const struct gr_tool_hub *tool, const struct gr_manifest *m,
                                 const struct gr_profile *p, bool fetch, char snapshot[GR_PATH_BYTES],
                                 struct gr_err *err)
{
    struct gr_hub_place place;
    struct gr_err why = {0};
    snapshot[0] = '\0';
    for (int i = -1; i < m->n_auxiliary && (i >= 0 || m->has_weights); i++) {
        const struct gr_weights_ref *w = i < 0 ? &m->weights : &m->auxiliary[i];
        GR_TRY(check_ref(w, err));
        gr_boot_view_step(v, "weights", "weights");
        if (fetch) {
            GR_TRY(fetch_one(v, tool, w, p, err));
        } else if (gr_hub_find(w->repo, w->revision, &place, &why) == GR_OK) {
            gr_boot_view_done(v, place.dir);
        } else {
            gr_boot_view_skipped(v, why.msg);
        }
    }
    if (m->has_weights && gr_hub_find(m->weights.repo, m->weights.revision, &place, &why) == GR_OK) {
        memcpy(snapshot, place.dir, sizeof place.dir);
    }
    return GR_OK;
}
