/* SPDX-License-Identifier: Apache-2.0
 *
 * package_target.c: from the word on the command line to a manifest. What is on disk is taken before the Hub is asked, and a name that is neither
 * says what was tried. */
#include "cli/package_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hub/download.h"

enum { MANIFEST_MAX_BYTES = 4 << 20 };

void gr_package_target_free(struct gr_package_target *t)
{
    gr_manifest_free(&t->manifest);
    gr_buf_free(&t->text);
    memset(t, 0, sizeof *t);
}

bool gr_is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static enum gr_status from_file(const char *path, struct gr_package_target *out, struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    if (strlen(path) >= sizeof out->where) {
        return gr_fail(err, GR_ERR_USAGE, "path too long: %.80s...", path);
    }
    strcpy(out->where, path);
    GR_TRY(gr_fs_read(path, MANIFEST_MAX_BYTES, &text, &n, err));
    gr_buf_put(&out->text, text, n);
    free(text);
    if (out->text.failed) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path);
    }
    return gr_manifest_parse_wire(out->text.data != NULL ? out->text.data : "", n, path, &out->manifest, err);
}

static enum gr_status from_path(const char *target, struct gr_package_target *out, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    if (gr_fs_is_dir(target)) {
        GR_TRY(gr_path_join(path, target, GR_MANIFEST_FILE, err));
        GR_TRY(gr_fs_need_file(path, GR_ERR_FORMAT, err));
        return from_file(path, out, err);
    }
    if (gr_ends_with(target, ".yaml") || gr_ends_with(target, ".yml")) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "%s is an authoring manifest; run `gr00t package %s --out build` and name the folder that it makes, "
            "for instance `gr00t serve build/NAME`",
            target, target);
    }
    return from_file(target, out, err);
}

bool gr_package_has_tag(const struct gr_hub_repo *repo, const char *tag)
{
    for (int i = 0; i < repo->n_tags; i++) {
        if (strcmp(repo->tags[i], tag) == 0) {
            return true;
        }
    }
    return false;
}

enum gr_status gr_package_on_hub(struct gr_hub *hub, const struct gr_hub_repo *repo, struct gr_buf *text,
                                 struct gr_manifest *out, struct gr_err *err)
{
    char what[GR_HUB_ID_BYTES + 64];
    if (gr_hub_repo_find(repo, GR_MANIFEST_FILE) == NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "%s has no %s: it is no package", repo->id, GR_MANIFEST_FILE);
    }
    (void)snprintf(what, sizeof what, "%s of %s", GR_MANIFEST_FILE, repo->id);
    GR_TRY(gr_hub_fetch_text(hub, repo, GR_MANIFEST_FILE, MANIFEST_MAX_BYTES, text, err));
    return gr_manifest_parse_wire(text->data != NULL ? text->data : "", text->len, what, out, err);
}

static enum gr_status from_hub(struct gr_tool_hub *tool, const char *id, const char *revision,
                               struct gr_package_target *out, struct gr_err *err)
{
    struct gr_hub_repo repo;
    GR_TRY(gr_hub_look(tool->hub, id, revision[0] != '\0' ? revision : NULL, true, &repo, err));
    (void)snprintf(out->where, sizeof out->where, "%s at %s", repo.id, repo.commit);
    (void)snprintf(out->id, sizeof out->id, "%s", repo.id);
    enum gr_status status = gr_package_on_hub(tool->hub, &repo, &out->text, &out->manifest, err);
    gr_hub_repo_free(&repo);
    return status;
}

/* *found: it is pulled, at that revision if one is named. */
static enum gr_status from_installed(const struct gr_state_dirs *dirs, const char *id, const char *revision,
                                     struct gr_package_target *out, bool *found, struct gr_err *err)
{
    struct gr_installed_list list;
    *found = false;
    GR_TRY(gr_installed_read(dirs, &list, err));
    const struct gr_installed *item = gr_installed_find(&list, id);
    enum gr_status status = GR_OK;
    if (item != NULL && (revision[0] == '\0' || strcmp(revision, item->revision) == 0)) {
        *found = out->installed = true;
        (void)snprintf(out->id, sizeof out->id, "%s", item->id);
        status = from_file(item->manifest, out, err);
    }
    gr_installed_free(&list);
    return status;
}

enum gr_status gr_package_target(const char *target, struct gr_package_target *out, struct gr_err *err)
{
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES];
    struct gr_state_dirs dirs;
    struct gr_tool_hub tool = {0};
    struct gr_err why = {0};
    bool found = false;
    memset(out, 0, sizeof *out);
    if (gr_is_there(target)) {
        return from_path(target, out, err);
    }
    if (gr_hub_parse_id(target, id, revision, &why) != GR_OK) {
        return gr_fail(err, GR_ERR_USAGE, "%.200s is no package folder, no %s, and no ORG/NAME[@REVISION]", target,
                       GR_MANIFEST_FILE);
    }
    GR_TRY(gr_settings_tool_dirs(&dirs, err));
    GR_TRY(from_installed(&dirs, id, revision, out, &found, err));
    if (found) {
        return GR_OK;
    }
    enum gr_status status = gr_settings_tool_hub(&tool, err);
    if (status == GR_OK) {
        status = from_hub(&tool, id, revision, out, err);
    }
    gr_tool_hub_free(&tool);
    return status;
}

static bool is_blank(const char *text) { return text == NULL || text[strspn(text, " \t\r\n")] == '\0'; }

enum gr_status gr_package_catalog_check(const struct gr_manifest *m, const char *what, struct gr_err *err)
{
    const bool performance = m->has_card && !is_blank(m->card.performance);
    const bool limitations = m->has_card && !is_blank(m->card.limitations);
    if (performance && limitations) {
        return GR_OK;
    }
    return gr_fail(err, GR_ERR_FORMAT,
                   "%s: a catalog listing needs card.performance and card.limitations, %s missing or empty; fill "
                   "them in in tt-model.yaml and build the package again",
                   what,
                   performance   ? "card.limitations is"
                   : limitations ? "card.performance is"
                                 : "both are");
}
