/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_publish.c: `gr00t publish` and `unpublish`: the catalog tag in the card of a repository, as a commit of that one file. The tag comes
 * before the visibility: a repository that became public without it would be half published. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/package_target.h"
#include "hub/download.h"
#include "hub/upload.h"
#include "package/build.h"

enum { CARD_MAX_BYTES = 4 << 20 };

/* *changed: the card was another one. */
static enum gr_status set_tag(struct gr_hub *hub, const struct gr_hub_repo *repo, bool listed, bool *changed,
                              struct gr_err *err)
{
    struct gr_buf before = {0}, card = {0};
    char commit[GR_HUB_COMMIT_BYTES];
    if (gr_hub_repo_find(repo, "README.md") == NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "%s has no README.md to carry the tag; push the package again", repo->id);
    }
    enum gr_status status = gr_hub_fetch_text(hub, repo, "README.md", CARD_MAX_BYTES, &before, err);
    if (status == GR_OK) {
        gr_buf_append(&card, &before);
        status = gr_card_rewrite(&card, repo->id, repo->id, listed, err);
    }
    if (status == GR_OK) {
        *changed = card.failed || card.len != before.len || memcmp(card.data, before.data, card.len) != 0;
        status = *changed ? gr_hub_put_text(hub, repo, "README.md", &card,
                                            listed ? "List in the catalog" : "Take off the catalog", commit, err)
                          : GR_OK;
    }
    gr_buf_free(&before);
    gr_buf_free(&card);
    return status;
}

static enum gr_status change(struct gr_cli *cli, struct gr_hub *hub, const char *id, bool listed, struct gr_err *err)
{
    struct gr_hub_repo repo;
    struct gr_manifest manifest = {0};
    struct gr_buf text = {0};
    bool changed = false;
    GR_TRY(gr_hub_look(hub, id, NULL, true, &repo, err));
    enum gr_status status = GR_OK;
    if (listed) {
        status = gr_package_on_hub(hub, &repo, &text, &manifest, err);
        status = status == GR_OK ? gr_package_catalog_check(&manifest, repo.id, err) : status;
        gr_manifest_free(&manifest);
        gr_buf_free(&text);
    }
    if (status == GR_OK) {
        status = set_tag(hub, &repo, listed, &changed, err);
    }
    if (status == GR_OK && listed && repo.is_private) {
        status = gr_hub_set_visibility(hub, repo.id, GR_VISIBILITY_PUBLIC, err);
    }
    if (status == GR_OK && listed) {
        gr_buf_printf(&cli->out, "%s %s is %s and %s in the catalog\n", changed || repo.is_private ? "✓" : "○", repo.id,
                      repo.is_private ? "public now" : "public", changed ? "listed" : "was listed already");
    } else if (status == GR_OK) {
        gr_buf_printf(&cli->out, "%s %s is %s in the catalog; it stays %s\n", changed ? "✓" : "○", repo.id,
                      changed ? "no longer" : "not", repo.is_private ? "private" : "public");
    }
    gr_hub_repo_free(&repo);
    return status;
}

static enum gr_status run(struct gr_cli *cli, const char *id, bool listed, struct gr_err *err)
{
    struct gr_tool_hub tool = {0};
    if (!gr_hub_is_id(id)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository, expected ORG/NAME", id);
    }
    enum gr_status status = gr_settings_tool_hub(&tool, err);
    if (status == GR_OK) {
        status = change(cli, tool.hub, id, listed, err);
    }
    gr_tool_hub_free(&tool);
    return status;
}

static enum gr_status run_publish(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                                  struct gr_err *err)
{
    (void)options;
    (void)n_words;
    return run(cli, words[0], true, err);
}

static enum gr_status run_unpublish(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                                    struct gr_err *err)
{
    (void)options;
    (void)n_words;
    return run(cli, words[0], false, err);
}

const struct gr_command gr_cmd_publish = {
    .name = "publish",
    .summary = "List a pushed package in the catalog and make its repository public",
    .synopsis = "ORG/NAME",
    .more = "The package's card must say something about performance and limitations.",
    .min_words = 1,
    .max_words = 1,
    .words = "ORG/NAME",
    .run = run_publish,
};

const struct gr_command gr_cmd_unpublish = {
    .name = "unpublish",
    .summary = "Take a package off the catalog",
    .synopsis = "ORG/NAME",
    .more = "The repository stays as visible as it is; `gr00t push DIR --private` hides it.",
    .min_words = 1,
    .max_words = 1,
    .words = "ORG/NAME",
    .run = run_unpublish,
};
