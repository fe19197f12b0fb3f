/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_list.c: `gr00t list`: what was pulled, and whether it could be served now: manifest, package and weights are on disk, complete. */
#include <stdio.h>
#include <string.h>

#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/settings_tool.h"
#include "cli/table.h"
#include "hub/hub_cache.h"

struct options {
    bool json;
};

static const struct gr_arg args[] = {
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the list as JSON"},
};

/* All files of a commit that the patterns ask for. Without a kept listing a snapshot folder has to do. */
static bool is_complete(const char *root, const char *id, const char *revision, const struct gr_hub_patterns *p)
{
    char commit[GR_HUB_COMMIT_BYTES], dir[GR_PATH_BYTES];
    struct gr_hub_repo repo;
    struct gr_err why = {0};
    if (gr_cache_resolve(root, id, revision != NULL ? revision : "main", commit, &why) != GR_OK ||
        gr_cache_snapshot(root, id, commit, dir, &why) != GR_OK || !gr_fs_is_dir(dir)) {
        return false;
    }
    if (gr_cache_read_tree(root, id, commit, &repo, &why) != GR_OK) {
        return true;
    }
    bool complete = true;
    for (int i = 0; i < repo.n_files && complete; i++) {
        complete = !gr_hub_matches(p, repo.files[i].path) || gr_cache_has(root, id, &repo.files[i]);
    }
    gr_hub_repo_free(&repo);
    return complete;
}

static bool has_weights(const char *root, const struct gr_weights_ref *w)
{
    const struct gr_hub_patterns p = {.allow = w->allow.items,
                                      .ignore = w->ignore.items,
                                      .n_allow = w->has_allow ? w->allow.n : 0,
                                      .n_ignore = w->has_ignore ? w->ignore.n : 0};
    return w->repo == NULL || !gr_hub_is_id(w->repo) || (w->revision != NULL && !gr_hub_is_revision(w->revision)) ||
           is_complete(root, w->repo, w->revision, &p);
}

/* What is missing, in words that name the remedy; NULL: nothing. */
static const char *missing(const char *root, const struct gr_installed *item)
{
    struct gr_manifest m;
    struct gr_err why = {0};
    const struct gr_hub_patterns all = {0};
    if (gr_manifest_read_wire(item->manifest, &m, &why) != GR_OK) {
        return "its manifest cannot be read: pull it again";
    }
    const bool local = gr_hub_is_id(item->id) && gr_hub_is_commit(item->revision);
    const char *text = NULL;
    if (local && m.registry != NULL && strcmp(m.registry, "hf") == 0 &&
        !is_complete(root, item->id, item->revision, &all)) {
        text = "the package is not complete: pull it again";
    } else if (m.has_weights && !has_weights(root, &m.weights)) {
        text = "no weights: pull it --with-weights";
    }
    for (int i = 0; i < m.n_auxiliary && text == NULL; i++) {
        text = has_weights(root, &m.auxiliary[i]) ? NULL : "not all of its weights: pull it --with-weights";
    }
    gr_manifest_free(&m);
    return text;
}

static void put_json(const struct gr_installed *item, const char *lacks, struct gr_jw *w)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "id", item->id);
    gr_jw_put_string(w, "revision", item->revision);
    gr_jw_put_string(w, "arch", item->arch);
    gr_jw_put_string(w, "profile", item->profile[0] != '\0' ? item->profile : NULL);
    gr_jw_put_string(w, "image", item->image);
    gr_jw_put_string(w, "manifest", item->manifest);
    gr_jw_put_bool(w, "can_serve", lacks == NULL);
    gr_jw_put_string(w, "missing", lacks);
    gr_jw_end_object(w);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    char root[GR_PATH_BYTES];
    struct gr_state_dirs dirs;
    struct gr_installed_list list;
    struct gr_jw w = {.out = &cli->out};
    struct gr_table t = {.columns = 6, .align = "llllll"};
    GR_TRY(gr_settings_tool_dirs(&dirs, err));
    GR_TRY(gr_settings_hub_root(root, err));
    GR_TRY(gr_installed_read(&dirs, &list, err));
    if (o->json) {
        gr_jw_array(&w);
    }
    for (int i = 0; i < list.n; i++) {
        const struct gr_installed *item = &list.items[i];
        const char *lacks = missing(root, item);
        if (o->json) {
            put_json(item, lacks, &w);
            continue;
        }
        gr_table_cell(&t, lacks == NULL ? "✓" : "✗");
        gr_table_cell(&t, item->id);
        gr_table_cellf(&t, "%.12s", item->revision);
        gr_table_cell(&t, item->arch);
        gr_table_cell(&t, item->profile);
        gr_table_cell(&t, lacks != NULL ? lacks : "");
    }
    if (o->json) {
        gr_jw_end_array(&w);
    } else if (list.n == 0) {
        gr_buf_puts(&cli->out, "○ no packages pulled; `gr00t search` finds some\n");
    }
    gr_table_print(&t, &cli->out);
    gr_installed_free(&list);
    return GR_OK;
}

const struct gr_command gr_cmd_list = {
    .name = "list",
    .summary = "List the packages that were pulled, and whether they can be served now",
    .synopsis = "[--json]",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
