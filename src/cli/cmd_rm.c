/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_rm.c: `gr00t rm`: undoes a pull, of a package or of a snapshot. The entry of installed.json goes last, so that a run that was broken off
 * can be repeated; what runs, and what another package uses, stay. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cache_remove.h"
#include "cli/cli.h"
#include "cli/launch_target.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "cli/settings_tool.h"
#include "package/tree.h"

struct options {
    bool keep_cache, include_weights, all, yes, dry_run;
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
    {.name = "y",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, yes),
     .help = "yes: needed with --all, and for weights that a package uses"},
    {.name = "dry-run",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, dry_run),
     .help = "say what would be removed; remove nothing"},
};

struct removal {
    const struct options *o;
    struct gr_state_dirs dirs;
    char root[GR_PATH_BYTES]; /* of the Hub cache */
    struct gr_installed_list list;
    struct gr_buf *out;
};

/* word: a package's name, or a repository; other: a package of that name whose services do not count, or NULL. */
static enum gr_status refuse_running(const struct removal *r, const char *id, const char *word, const char *other,
                                     struct gr_err *err)
{
    struct gr_running_set set = {0};
    char **environment = gr_launch_environment();
    if (environment == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the environment");
    }
    enum gr_status status = gr_running_find(&r->dirs, word, NULL, &set, err);
    for (int i = 0; i < set.n && status == GR_OK; i++) {
        const bool counts = other == NULL || strcmp(set.items[i].target, other) != 0;
        if (counts && gr_launch_alive(&set.items[i], environment)) {
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
    if (!r->o->dry_run) {
        GR_TRY(gr_tree_remove(path, err));
    }
    gr_buf_line(r->out, "%s %s  %s\n", r->o->dry_run ? "→ would remove" : "✓ removed", what, path);
    return GR_OK;
}

/* commit NULL: the whole repository. What is not in the cache is no failure. */
static enum gr_status drop_repository(struct removal *r, const char *id, const char *commit, const char *what,
                                      struct gr_err *err)
{
    struct gr_cache_removed done;
    struct gr_err why = {0};
    char size[32], count[48] = "";
    const enum gr_status status = gr_cache_remove(r->root, id, commit, r->o->dry_run, &done, &why);
    if (status != GR_OK) {
        return status == GR_ERR_INPUT ? GR_OK : gr_fail(err, status, "%s", why.msg);
    }
    if (done.link) {
        gr_buf_line(r->out, "%s %s  %s  (a link: what it leads to stays)\n",
                    r->o->dry_run ? "→ would remove" : "✓ removed", what, done.path);
        return GR_OK;
    }
    if (done.n_snapshots > 1) {
        (void)snprintf(count, sizeof count, "%d snapshots, ", done.n_snapshots);
    }
    gr_buf_line(r->out, "%s %s  %s  (%s%d files, %s)\n", r->o->dry_run ? "→ would remove" : "✓ removed", what,
                done.path, count, done.n_blobs, gr_human_bytes(size, (double)done.bytes));
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
        if (!r->o->dry_run) {
            (void)rmdir(folder); /* when it is empty now */
        }
    }
    return status;
}

/* w is of this repository, and of this commit when one is named. */
static bool is_of(const struct removal *r, const struct gr_weights_ref *w, const char *weights, const char *commit)
{
    char leads_to[GR_HUB_COMMIT_BYTES];
    struct gr_err ignored;
    return w->repo != NULL && strcmp(w->repo, weights) == 0 &&
           (commit == NULL ||
            gr_cache_resolve(r->root, weights, w->revision != NULL ? w->revision : "main", leads_to, &ignored) !=
                GR_OK ||
            strcmp(leads_to, commit) == 0);
}

static bool uses(const struct removal *r, const struct gr_manifest *m, const char *weights, const char *commit)
{
    bool found = m->has_weights && is_of(r, &m->weights, weights, commit);
    for (int k = 0; k < m->n_auxiliary; k++) {
        found = found || is_of(r, &m->auxiliary[k], weights, commit);
    }
    return found;
}

/* Another pulled package than `id` that uses these weights, or (weights NULL) that has this name; NULL: none, or it goes too. */
static const char *used_by(const struct removal *r, const char *id, const char *weights, const char *commit,
                           const char *name)
{
    for (int i = 0; i < r->list.n && !r->o->all; i++) {
        const struct gr_installed *item = &r->list.items[i];
        struct gr_manifest m;
        struct gr_err why = {0};
        if (strcmp(item->id, id) == 0 || gr_manifest_read_wire(item->manifest, &m, &why) != GR_OK) {
            continue;
        }
        const bool found = weights != NULL ? uses(r, &m, weights, commit) : m.name != NULL && strcmp(m.name, name) == 0;
        gr_manifest_free(&m);
        if (found) {
            return item->id;
        }
    }
    return NULL;
}

/* The service reads what is in the repository `id`, or in `folder` of the Hub cache: it was started from there, or from a package that names it. */
static bool reads(const struct removal *r, const struct gr_running *s, const char *folder, const char *id,
                  const char *commit)
{
    const struct gr_installed *item = gr_installed_find(&r->list, s->target);
    const size_t n = strlen(folder);
    char path[GR_PATH_BYTES];
    struct gr_manifest m;
    struct gr_err ignored;
    if (n > 0 && strncmp(s->target, folder, n) == 0 && (s->target[n] == '/' || s->target[n] == '\0')) {
        return true;
    }
    if ((item == NULL && (s->target[0] != '/' || gr_path_join(path, s->target, GR_MANIFEST_FILE, &ignored) != GR_OK)) ||
        gr_manifest_read_wire(item != NULL ? item->manifest : path, &m, &ignored) != GR_OK) {
        return false;
    }
    const bool found = uses(r, &m, id, commit);
    gr_manifest_free(&m);
    return found;
}

/* The name of a running service that reads it; "": none does. Also one that was started from a folder, of which no list of packages tells. */
static enum gr_status find_reader(const struct removal *r, const char *id, const char *commit,
                                  char name[GR_RUN_NAME_BYTES], struct gr_err *err)
{
    struct gr_running_set set = {0};
    char path[GR_PATH_BYTES];
    name[0] = '\0';
    GR_TRY(commit != NULL ? gr_cache_snapshot(r->root, id, commit, path, err) : gr_cache_model(r->root, id, path, err));
    char **environment = gr_launch_environment();
    if (environment == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the environment");
    }
    char *folder = realpath(path, NULL); /* as a service's target stands in its record */
    enum gr_status status = gr_running_find(&r->dirs, NULL, NULL, &set, err);
    for (int i = 0; i < set.n && status == GR_OK && name[0] == '\0'; i++) {
        if (reads(r, &set.items[i], folder != NULL ? folder : "", id, commit) &&
            gr_launch_alive(&set.items[i], environment)) {
            (void)snprintf(name, GR_RUN_NAME_BYTES, "%s", set.items[i].name);
        }
    }
    gr_running_set_free(&set);
    free(folder);
    free(environment);
    return status;
}

static enum gr_status drop_weights(struct removal *r, const char *id, const struct gr_weights_ref *w,
                                   struct gr_err *err)
{
    if (w->repo == NULL || !gr_hub_is_id(w->repo)) {
        return GR_OK;
    }
    const char *other = used_by(r, id, w->repo, NULL, NULL);
    if (other != NULL) {
        gr_buf_line(r->out, "○ weights %s stay: %s uses them\n", w->repo, other);
        return GR_OK;
    }
    char service[GR_RUN_NAME_BYTES];
    GR_TRY(find_reader(r, w->repo, NULL, service, err));
    if (service[0] != '\0') {
        gr_buf_line(r->out, "○ weights %s stay: the service %s uses them\n", w->repo, service);
        return GR_OK;
    }
    return drop_repository(r, w->repo, NULL, "weights", err);
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
    const char *other = used_by(r, item->id, NULL, NULL, m.name);
    enum gr_status status = refuse_running(r, item->id, m.name, other, err);
    if (status == GR_OK && other != NULL) {
        gr_buf_line(r->out, "○ image and caches of %s stay: %s has the same name\n", m.name, other);
    } else if (status == GR_OK) {
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

/* commit: only that snapshot of what is in the Hub cache; NULL: all of it. */
static enum gr_status remove_one(struct removal *r, const struct gr_installed *item, const char *commit,
                                 struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    if (!gr_hub_is_id(item->id)) { /* somebody's hand in the file: no path is made of it */
        return r->o->dry_run ? GR_OK : gr_installed_remove(&r->dirs, item->id, err);
    }
    GR_TRY(drop_by_manifest(r, item, err));
    GR_TRY(drop_repository(r, item->id, commit, "package", err));
    GR_TRY(gr_state_pulled(&r->dirs, item->id, path, err));
    *strrchr(path, '/') = '\0';
    GR_TRY(drop(r, path, "manifest", err));
    if (!r->o->dry_run) {
        GR_TRY(gr_installed_remove(&r->dirs, item->id, err));
        gr_stopped_forget(&r->dirs, item->id, NULL, true);
        gr_buf_line(r->out, "✓ %s removed\n", item->id);
    }
    return GR_OK;
}

/* What is in the Hub cache without being a pulled package: weights, a tokenizer, an older revision. */
static enum gr_status remove_cached(struct removal *r, const char *id, const char *commit, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(commit != NULL ? gr_cache_snapshot(r->root, id, commit, path, err) : gr_cache_model(r->root, id, path, err));
    if (!gr_fs_is_dir(path)) {
        return gr_fail(err, GR_ERR_INPUT,
                       "%s%s%s was not pulled (no %.250s); `gr00t list` shows the packages that were", id,
                       commit != NULL ? "@" : "", commit != NULL ? commit : "", path);
    }
    const char *other = used_by(r, "", id, commit, NULL);
    if (other != NULL && !r->o->yes && !r->o->dry_run) {
        return gr_fail(err, GR_ERR_USAGE, "%s serves with what is in %s; -y removes it all the same", other, id);
    }
    if (other != NULL) {
        gr_log(GR_LOG_WARN, "%s serves with what is in %s", other, id);
    }
    GR_TRY(refuse_running(r, id, id, NULL, err));
    char service[GR_RUN_NAME_BYTES];
    GR_TRY(find_reader(r, id, commit, service, err));
    if (service[0] != '\0') {
        return gr_fail(err, GR_ERR_BUSY, "%s is in use by the service %s; `gr00t stop %s` first", id, service, service);
    }
    return drop_repository(r, id, commit, "snapshot", err);
}

static enum gr_status remove_named(struct removal *r, const char *word, struct gr_err *err)
{
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES], commit[GR_HUB_COMMIT_BYTES];
    struct gr_err why = {0};
    const struct gr_installed *item = gr_installed_find(&r->list, word);
    if (item != NULL) {
        return remove_one(r, item, NULL, err);
    }
    GR_TRY(gr_hub_parse_id(word, id, revision, err));
    if (revision[0] == '\0') {
        return remove_cached(r, id, NULL, err);
    }
    if (gr_cache_resolve(r->root, id, revision, commit, &why) != GR_OK) {
        return gr_fail(err, GR_ERR_INPUT, "%s", why.msg);
    }
    item = gr_installed_find(&r->list, id);
    return item != NULL && strcmp(item->revision, commit) == 0 ? remove_one(r, item, commit, err)
                                                               : remove_cached(r, id, commit, err);
}

static enum gr_status remove_all(struct removal *r, struct gr_err *err)
{
    if (r->list.n > 0 && !r->o->yes && !r->o->dry_run) {
        return gr_fail(err, GR_ERR_USAGE, "--all removes %d package%s; say so with -y", r->list.n,
                       r->list.n == 1 ? "" : "s");
    }
    if (r->list.n == 0) {
        gr_buf_puts(r->out, "○ no packages pulled\n");
    }
    for (int i = 0; i < r->list.n; i++) {
        GR_TRY(remove_one(r, &r->list.items[i], NULL, err));
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
    enum gr_status status = r.o->all ? remove_all(&r, err) : remove_named(&r, words[0], err);
    gr_installed_free(&r.list);
    return status;
}

const struct gr_command gr_cmd_rm = {
    .name = "rm",
    .summary = "Remove a package or a snapshot that was pulled",
    .synopsis = "ORG/NAME[@REVISION] [--keep-cache] [--include-weights] [--dry-run] | --all -y",
    .more =
        "Of a package the weights stay unless --include-weights is given and no other package uses them. A repository that is no\n"
        "package, for instance weights, goes out of the Hub cache; with @REVISION only that snapshot and what no other\n"
        "snapshot links to.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 1,
    .words = "ORG/NAME[@REVISION]",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
