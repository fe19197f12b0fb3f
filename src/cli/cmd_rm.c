/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_rm.c: `gr00t rm`: undoes a pull. The entry of installed.json goes last, so that a run that was broken off can be repeated; what runs, and
 * weights that another package uses, stay. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/launch_target.h"
#include "cli/settings.h"
#include "cli/settings_tool.h"
#include "hub/hub_cache.h"
#include "package/tree.h"

struct options {
    bool keep_cache, include_weights, all, yes;
};

static const struct gr_arg args[] = {
    {.name = "keep-cache",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, keep_cache),
     .help = "keep what its services have cached"},
    {.name = "include-weights",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, include_weights),
     .help = "remove its weights from the Hub cache too"},
    {.name = "all",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, all),
     .help = "every package that was pulled"},
    {.name = "y", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, yes), .help = "yes: needed with --all"},
};

struct removal {
    const struct options *o;
    struct gr_state_dirs dirs;
    char root[GR_PATH_BYTES]; /* of the Hub cache */
    struct gr_installed_list list;
    struct gr_buf *out;
};

static enum gr_status refuse_running(const struct removal *r, const char *id, const char *package, struct gr_err *err)
{
    struct gr_running_set set = {0};
    char **environment = gr_launch_environment();
    if (environment == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the environment");
    }
    enum gr_status status = gr_running_find(&r->dirs, package, NULL, &set, err);
    for (int i = 0; i < set.n && status == GR_OK; i++) {
        if (gr_launch_alive(&set.items[i], environment)) {
            status =
                gr_fail(err, GR_ERR_BUSY, "%s is being served (%s); `gr00t stop %s` first", id, set.items[i].name, id);
        }
    }
    gr_running_set_free(&set);
    free(environment);
    return status;
}

static enum gr_status drop(struct removal *r, const char *path, const char *what, struct gr_err *err)
{
    if (!gr_fs_is_dir(path)) {
        return GR_OK;
    }
    GR_TRY(gr_tree_remove(path, err));
    gr_buf_line(r->out, "✓ removed %s  %s\n", what, path);
    return GR_OK;
}

/* What services of the package keep, and the unpacked image. Only entries that are known: its name comes from a manifest, and "run" or "pulled" would
 * be the tool's own folders. */
static enum gr_status drop_caches(struct removal *r, const char *package, struct gr_err *err)
{
    char folder[GR_PATH_BYTES], path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(folder, r->dirs.tools, package, err));
    DIR *d = opendir(folder);
    enum gr_status status = GR_OK;
    for (struct dirent *e; d != NULL && status == GR_OK && (e = readdir(d)) != NULL;) {
        const char *name = e->d_name;
        const bool cache = gr_settings_one_of(name, "cache", "weights", "tensors"),
                   root = strncmp(name, "root-", 5) == 0;
        if (root || (cache && !r->o->keep_cache)) {
            status = gr_path_join(path, folder, name, err);
            status = status == GR_OK ? drop(r, path, cache ? "cache" : "image", err) : status;
        }
    }
    if (d != NULL) {
        (void)closedir(d);
        (void)rmdir(folder); /* when it is empty now */
    }
    return status;
}

/* Another pulled package that uses these weights; NULL: none. */
static const char *used_by(const struct removal *r, const char *id, const char *weights)
{
    for (int i = 0; i < r->list.n && !r->o->all; i++) {
        const struct gr_installed *item = &r->list.items[i];
        struct gr_manifest m;
        struct gr_err why = {0};
        if (strcmp(item->id, id) == 0 || gr_manifest_read_wire(item->manifest, &m, &why) != GR_OK) {
            continue;
        }
        bool uses = m.has_weights && m.weights.repo != NULL && strcmp(m.weights.repo, weights) == 0;
        for (int k = 0; k < m.n_auxiliary; k++) {
            uses = uses || (m.auxiliary[k].repo != NULL && strcmp(m.auxiliary[k].repo, weights) == 0);
        }
        gr_manifest_free(&m);
        if (uses) {
            return item->id;
        }
    }
    return NULL;
}

static enum gr_status drop_weights(struct removal *r, const char *id, const struct gr_weights_ref *w,
                                   struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    if (w->repo == NULL || !gr_hub_is_id(w->repo)) {
        return GR_OK;
    }
    const char *other = used_by(r, id, w->repo);
    if (other != NULL) {
        gr_buf_line(r->out, "○ weights %s stay: %s uses them\n", w->repo, other);
        return GR_OK;
    }
    GR_TRY(gr_cache_model(r->root, w->repo, path, err));
    return drop(r, path, "weights", err);
}

/* What the manifest tells about; a damaged one must not keep a package from being removed. */
static enum gr_status drop_by_manifest(struct removal *r, const struct gr_installed *item, struct gr_err *err)
{
    struct gr_manifest m;
    struct gr_err why = {0};
    if (gr_manifest_read_wire(item->manifest, &m, &why) != GR_OK || !gr_is_slug(m.name)) {
        gr_log(GR_LOG_WARN, "%s: caches and weights stay, its manifest cannot be read (%s)", item->id, why.msg);
        return GR_OK;
    }
    enum gr_status status = refuse_running(r, item->id, m.name, err);
    if (status == GR_OK) {
        status = drop_caches(r, m.name, err);
    }
    if (status == GR_OK && r->o->include_weights && m.has_weights) {
        status = drop_weights(r, item->id, &m.weights, err);
    }
    for (int i = 0; status == GR_OK && r->o->include_weights && i < m.n_auxiliary; i++) {
        status = drop_weights(r, item->id, &m.auxiliary[i], err);
    }
    gr_manifest_free(&m);
    return status;
}

static enum gr_status remove_one(struct removal *r, const struct gr_installed *item, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    if (!gr_hub_is_id(item->id)) { /* somebody's hand in the file: no path is made of it */
        return gr_installed_remove(&r->dirs, item->id, err);
    }
    GR_TRY(drop_by_manifest(r, item, err));
    GR_TRY(gr_cache_model(r->root, item->id, path, err));
    GR_TRY(drop(r, path, "package", err));
    GR_TRY(gr_state_pulled(&r->dirs, item->id, path, err));
    *strrchr(path, '/') = '\0';
    GR_TRY(drop(r, path, "manifest", err));
    GR_TRY(gr_installed_remove(&r->dirs, item->id, err));
    gr_buf_line(r->out, "✓ %s removed\n", item->id);
    return GR_OK;
}

static enum gr_status remove_all(struct removal *r, struct gr_err *err)
{
    if (r->list.n > 0 && !r->o->yes) {
        return gr_fail(err, GR_ERR_USAGE, "--all removes %d package%s; say so with -y", r->list.n,
                       r->list.n == 1 ? "" : "s");
    }
    if (r->list.n == 0) {
        gr_buf_puts(r->out, "○ no packages pulled\n");
    }
    for (int i = 0; i < r->list.n; i++) {
        GR_TRY(remove_one(r, &r->list.items[i], err));
    }
    return GR_OK;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    struct removal r = {.o = options, .out = &cli->out};
    if (r.o->all == (n_words > 0)) {
        return gr_fail(err, GR_ERR_USAGE, "%s",
                       r.o->all ? "--all and a package exclude each other" : "missing ORG/NAME, or --all -y");
    }
    GR_TRY(gr_settings_tool_dirs(&r.dirs, err));
    GR_TRY(gr_settings_hub_root(r.root, err));
    GR_TRY(gr_installed_read(&r.dirs, &r.list, err));
    const struct gr_installed *item = n_words > 0 ? gr_installed_find(&r.list, words[0]) : NULL;
    enum gr_status status = GR_OK;
    if (r.o->all) {
        status = remove_all(&r, err);
    } else if (item == NULL) {
        status = gr_fail(err, GR_ERR_INPUT, "%.200s was not pulled; `gr00t list` shows what was", words[0]);
    } else {
        status = remove_one(&r, item, err);
    }
    gr_installed_free(&r.list);
    return status;
}

const struct gr_command gr_cmd_rm = {
    .name = "rm",
    .summary = "Remove a package that was pulled",
    .synopsis = "ORG/NAME [--keep-cache] [--include-weights] | --all -y",
    .more = "Weights stay unless --include-weights is given and no other package uses them.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 1,
    .words = "ORG/NAME",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
