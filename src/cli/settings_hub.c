/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_hub.c: where the weights are: a named folder, or a repository's snapshot in the Hub cache
 * (<root>/models--ORG--NAME/snapshots/COMMIT, names of branches in refs/). Only looks; nothing is downloaded and no other revision takes the
 * place of the one that was asked for. */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "base/log.h"
#include "cli/settings.h"
#include "cli/settings_tool.h"
#include "hub/hub_cache.h"

static enum gr_status not_there(const char *root, const char *repo, const char *revision, const char *looked_for,
                                struct gr_err *err)
{
    char one[GR_HUB_COMMIT_BYTES];
    struct gr_err ignored;
    bool offline = false;
    (void)gr_settings_tool_offline(&offline, &ignored);
    const int n = gr_hub_is_commit(revision) ? 0 : gr_cache_snapshots(root, repo, one);
    if (n > 0) { /* a pull of a bare commit leaves no ref, as the Python client does */
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s @ %s is not in the Hub cache, but %s%s is: name that revision; or `gr00t pull %s@%s`", repo,
                       revision, n > 1 ? "for instance " : "", one, repo, revision);
    }
    return gr_fail(err, GR_ERR_FORMAT, "%s @ %s is not in the Hub cache: no %s; `gr00t pull %s@%s` fetches it%s", repo,
                   revision, looked_for, repo, revision, offline ? " once HF_HUB_OFFLINE is unset" : "");
}

enum gr_status gr_hub_find(const char *repo, const char *revision, struct gr_hub_place *out, struct gr_err *err)
{
    char root[GR_PATH_BYTES], name[GR_HUB_NAME_BYTES + 16], path[GR_PATH_BYTES];
    memset(out, 0, sizeof *out);
    revision = revision != NULL ? revision : "main";
    if (!gr_hub_is_id(repo)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is neither a folder nor a repository ORG/NAME", repo);
    }
    if (!gr_hub_is_revision(revision)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no commit, branch or tag name", revision);
    }
    GR_TRY(gr_settings_hub_root(root, err));
    const char *slash = strchr(repo, '/');
    snprintf(name, sizeof name, "models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
    GR_TRY(gr_path_join(out->model, root, name, err));
    GR_TRY(gr_path_join(path, out->model, "snapshots", err));
    GR_TRY(gr_path_join(out->dir, path, revision, err));
    if (gr_fs_is_dir(out->dir) && strchr(revision, '/') == NULL) {
        strcpy(out->commit, revision);
        return GR_OK;
    }
    char *commit = NULL, refs[GR_PATH_BYTES], ref[GR_PATH_BYTES];
    size_t n = 0;
    GR_TRY(gr_path_join(refs, out->model, "refs", err));
    GR_TRY(gr_path_join(ref, refs, revision, err));
    if (gr_hub_is_commit(revision) || !gr_fs_is_file(ref)) {
        return not_there(root, repo, revision, gr_hub_is_commit(revision) ? out->dir : ref, err);
    }
    GR_TRY(gr_fs_read(ref, GR_HUB_NAME_BYTES - 1, &commit, &n, err));
    commit[strcspn(commit, " \r\n")] = '\0';
    bool ok = gr_hub_is_revision(commit) && strchr(commit, '/') == NULL;
    if (ok) {
        strcpy(out->commit, commit);
    }
    free(commit);
    if (!ok) {
        return gr_fail(err, GR_ERR_FORMAT, "%s holds no commit", ref);
    }
    GR_TRY(gr_path_join(out->dir, path, out->commit, err));
    return gr_fs_is_dir(out->dir) ? GR_OK : not_there(root, repo, revision, out->dir, err);
}

/* .../models--ORG--NAME/snapshots/COMMIT names its repository and revision. */
static void origin_of(const char *dir, struct gr_weights_place *out)
{
    const char *model = strstr(dir, "models--"), *name, *snapshots;
    for (const char *next = model; next != NULL; next = strstr(next + 1, "models--")) {
        model = next; /* the last one */
    }
    if (model == NULL || (model != dir && model[-1] != '/') || (name = strstr(model + 8, "--")) == NULL ||
        (snapshots = strstr(name, "/snapshots/")) == NULL) {
        return;
    }
    const char *commit = snapshots + strlen("/snapshots/");
    size_t n_commit = strcspn(commit, "/");
    if (commit[n_commit + strspn(commit + n_commit, "/")] != '\0' || n_commit == 0 ||
        n_commit >= sizeof out->revision || snapshots - model >= GR_HUB_NAME_BYTES ||
        memchr(model, '/', (size_t)(snapshots - model)) != NULL) {
        return; /* a folder below the snapshot */
    }
    snprintf(out->repo, sizeof out->repo, "%.*s/%.*s", (int)(name - model - 8), model + 8, (int)(snapshots - name - 2),
             name + 2);
    snprintf(out->revision, sizeof out->revision, "%.*s", (int)n_commit, commit);
}

/* A folder that says which revision it is must be the one that is pinned. */
static enum gr_status use_folder(const char *dir, const char *pin, struct gr_weights_place *out, struct gr_err *err)
{
    if (strlen(dir) >= sizeof out->dir) {
        return gr_fail(err, GR_ERR_USAGE, "path too long: %.80s...", dir);
    }
    strcpy(out->dir, dir);
    origin_of(dir, out);
    if (pin != NULL && gr_hub_is_commit(pin) && out->revision[0] != '\0' && strcmp(pin, out->revision) != 0) {
        return gr_fail(err, GR_ERR_USAGE, "%s is revision %s, but %s is pinned", dir, out->revision, pin);
    }
    if (pin != NULL && out->revision[0] == '\0') {
        gr_log(GR_LOG_INFO, "the pinned revision %s is not checked: %s is no folder of the Hub cache", pin, dir);
    }
    return GR_OK;
}

enum gr_status gr_settings_weights(const struct gr_weights_flags *flags, struct gr_weights_place *out,
                                   struct gr_err *err)
{
    const char *dir = flags->model, *hub = flags->hf_model, *pin = flags->revision;
    memset(out, 0, sizeof *out);
    if (dir != NULL && hub != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--model and --hf-model exclude each other");
    }
    if (dir == NULL && hub == NULL) {
        dir = gr_settings_env("GR00T_WEIGHTS_DIR");
    }
    if (hub == NULL) {
        hub = gr_settings_env("HF_MODEL");
    }
    if (pin == NULL) {
        pin = gr_settings_env("TT_WEIGHTS_REVISION");
    }
    if (dir != NULL) {
        return use_folder(dir, pin, out, err);
    }
    if (hub == NULL) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "no weights named: give --model DIR, or set GR00T_WEIGHTS_DIR, or HF_MODEL to a repository in the Hub cache");
    }
    if (!gr_hub_is_id(hub) || gr_fs_is_dir(hub)) {
        return use_folder(hub, pin, out, err);
    }
    struct gr_hub_place place;
    GR_TRY(gr_hub_find(hub, pin, &place, err));
    strcpy(out->dir, place.dir);
    snprintf(out->repo, sizeof out->repo, "%s", hub);
    snprintf(out->revision, sizeof out->revision, "%s", place.commit);
    return GR_OK;
}
