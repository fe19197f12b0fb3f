/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_target.c: from a word on the command line to what is to be started, or to what runs. The same word that started a service finds it again, whatever has
 * become of the folder since: what it meant stands in the state file. */
#include "cli/launch_target.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "cli/settings.h"
#include "hub/hub_cache.h"
#include "net/http_client.h"

#define ASK_S 0.5 /* a loopback answer takes a millisecond */
enum { SLUG_STEM = 40 };

/* ---- to be started ---- */

/* A slug that tells folders of the same name apart: "demo-1a2b3c4d". */
static void make_slug(const char *path, const char *stem, char out[GR_LAUNCH_SLUG_BYTES])
{
    size_t n = 0;
    for (; *stem != '\0' && n < SLUG_STEM; stem++) {
        const char c = (char)tolower((unsigned char)*stem);
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (plain || (n > 0 && out[n - 1] != '-')) {
            out[n++] = plain ? c : '-';
        }
    }
    n -= n > 0 && out[n - 1] == '-';
    (void)snprintf(out + n, GR_LAUNCH_SLUG_BYTES - n, "%s%08" PRIx32, n > 0 ? "-" : "snapshot-",
                   (uint32_t)gr_hash64(path, strlen(path), 0));
}

static enum gr_status absolute(const char *path, char out[GR_PATH_BYTES], struct gr_err *err)
{
    char *real = realpath(path, NULL);
    if (real == NULL || strlen(real) >= GR_PATH_BYTES) {
        free(real);
        return gr_fail(err, GR_ERR_INPUT, "%s: its absolute path cannot be found", path);
    }
    strcpy(out, real);
    free(real);
    return GR_OK;
}

/* The folder, or the folder that the file is in: a file of the Hub cache is a link to somewhere else. */
static enum gr_status folder_of(const char *word, char out[GR_PATH_BYTES], struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    const char *slash = strrchr(word, '/');
    if (gr_fs_is_dir(word)) {
        return absolute(word, out, err);
    }
    if (!gr_fs_is_file(word) || strlen(word) >= sizeof dir) {
        return gr_fail(err, GR_ERR_INPUT, "%s: no such file", word);
    }
    (void)snprintf(dir, sizeof dir, "%.*s", slash == NULL ? 1 : (int)(slash - word) + 1, slash == NULL ? "." : word);
    return absolute(dir, out, err);
}

static bool has_file(const char *dir, const char *name)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    return gr_path_join(path, dir, name, &ignored) == GR_OK && gr_fs_is_file(path);
}

static enum gr_status set_image(const char *dir, struct gr_launch_target *out, struct gr_err *err)
{
    GR_TRY(gr_path_join(out->image_dir, dir, "image", err));
    if (!gr_fs_is_dir(out->image_dir)) {
        out->image_dir[0] = '\0';
    }
    return GR_OK;
}

static enum gr_status take_snapshot(const char *dir, const char *stem, struct gr_launch_target *out, struct gr_err *err)
{
    out->is_snapshot = true;
    GR_TRY(absolute(dir, out->snapshot, err));
    const char *slash = strrchr(out->snapshot, '/');
    make_slug(out->snapshot, stem != NULL ? stem : slash + 1, out->slug);
    return GR_OK;
}

static enum gr_status from_path(const char *word, struct gr_launch_target *out, struct gr_err *err)
{
    GR_TRY(folder_of(word, out->canonical, err));
    if (gr_fs_is_dir(word) && !has_file(word, GR_MANIFEST_FILE)) {
        if (!has_file(word, "config.json")) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "%s is neither a package (no " GR_MANIFEST_FILE ") nor a snapshot (no config.json)", word);
        }
        return take_snapshot(word, NULL, out, err);
    }
    GR_TRY(gr_package_target(word, &out->package, err));
    return set_image(out->canonical, out, err);
}

/* A package that was pulled: its manifest is in the tool's state, its image in the Hub cache. */
static enum gr_status from_installed(const struct gr_tool_hub *tool, const struct gr_installed *item,
                                     struct gr_launch_target *out, struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    GR_TRY(gr_package_target(item->manifest, &out->package, err));
    (void)snprintf(out->package.id, sizeof out->package.id, "%s", item->id);
    out->package.installed = true;
    if (!gr_hub_is_commit(item->revision)) {
        return GR_OK;
    }
    GR_TRY(gr_cache_snapshot(tool->cache, item->id, item->revision, dir, err));
    return set_image(dir, out, err);
}

static enum gr_status from_id(const struct gr_tool_hub *tool, const char *id, const char *revision,
                              struct gr_launch_target *out, bool *absent, struct gr_err *err)
{
    struct gr_installed_list list;
    struct gr_hub_place place;
    struct gr_err why = {0};
    (void)snprintf(out->canonical, sizeof out->canonical, "%s", id);
    GR_TRY(gr_installed_read(&tool->dirs, &list, err));
    const struct gr_installed *item = gr_installed_find(&list, id);
    enum gr_status status = GR_OK;
    char commit[GR_HUB_COMMIT_BYTES];
    if (revision[0] != '\0' && gr_cache_resolve(tool->cache, id, revision, commit, &why) == GR_OK) {
        revision = commit; /* what a branch or tag led to when it was pulled */
    }
    if (item != NULL && item->manifest[0] != '\0' && gr_fs_is_file(item->manifest) &&
        (revision[0] == '\0' || strcmp(revision, item->revision) == 0)) {
        status = from_installed(tool, item, out, err);
    } else if (gr_hub_find(id, revision[0] != '\0' ? revision : NULL, &place, &why) == GR_OK &&
               has_file(place.dir, "config.json") && !has_file(place.dir, GR_MANIFEST_FILE)) {
        status = take_snapshot(place.dir, strchr(id, '/') + 1, out, err);
    } else {
        *absent = true;
    }
    gr_installed_free(&list);
    return status;
}

enum gr_status gr_launch_target(const struct gr_tool_hub *tool, const char *word, struct gr_launch_target *out,
                                bool *absent, struct gr_err *err)
{
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES];
    struct gr_err why = {0};
    memset(out, 0, sizeof *out);
    *absent = false;
    if (gr_fs_is_dir(word) || gr_fs_is_file(word)) {
        return from_path(word, out, err);
    }
    if (gr_hub_parse_id(word, id, revision, &why) != GR_OK) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "%.200s is no folder of a snapshot or package, no " GR_MANIFEST_FILE ", and no ORG/NAME[@REVISION]", word);
    }
    return from_id(tool, id, revision, out, absent, err);
}

void gr_launch_target_free(struct gr_launch_target *t)
{
    gr_package_target_free(&t->package);
    memset(t, 0, sizeof *t);
}

/* ---- that runs ---- */

/* The name of the package that was pulled as `id`; "" when there is none. */
static void name_of_installed(const struct gr_state_dirs *d, const char *id, char out[128])
{
    struct gr_installed_list list;
    struct gr_manifest m;
    struct gr_err ignored;
    out[0] = '\0';
    if (gr_installed_read(d, &list, &ignored) != GR_OK) {
        return;
    }
    const struct gr_installed *item = gr_installed_find(&list, id);
    if (item != NULL && gr_manifest_read_wire(item->manifest, &m, &ignored) == GR_OK) {
        (void)snprintf(out, 128, "%s", m.name != NULL ? m.name : "");
        gr_manifest_free(&m);
    }
    gr_installed_free(&list);
}

/* The texts that a state file's target, package or name may be for this word. */
struct meaning {
    const char *word;
    char folder[GR_PATH_BYTES]; /* absolute; of a file the one that it is in; "" */
    char id[GR_HUB_ID_BYTES], package[128];
};

static void understand(const struct gr_state_dirs *d, const char *word, struct meaning *out)
{
    char revision[GR_HUB_REVISION_BYTES];
    struct gr_err ignored;
    *out = (struct meaning){.word = word};
    if (folder_of(word, out->folder, &ignored) != GR_OK) {
        out->folder[0] = '\0';
    }
    if (out->folder[0] == '\0' && gr_hub_parse_id(word, out->id, revision, &ignored) == GR_OK) {
        name_of_installed(d, out->id, out->package);
    }
}

static bool means(const struct meaning *m, const struct gr_running *r)
{
    if (m->word == NULL) {
        return true;
    }
    return strcmp(r->name, m->word) == 0 || strcmp(r->package, m->word) == 0 || strcmp(r->target, m->word) == 0 ||
           (m->folder[0] != '\0' && strcmp(r->target, m->folder) == 0) ||
           (m->id[0] != '\0' && strcmp(r->target, m->id) == 0) ||
           (m->package[0] != '\0' && strcmp(r->package, m->package) == 0);
}

enum gr_status gr_running_find(const struct gr_state_dirs *d, const char *word, const char *profile,
                               struct gr_running_set *out, struct gr_err *err)
{
    struct meaning m = {0};
    int n;
    char(*names)[GR_RUN_NAME_BYTES];
    *out = (struct gr_running_set){0};
    GR_TRY(gr_running_list(d, &names, &n, err));
    if (word != NULL) {
        understand(d, word, &m);
    }
    for (int i = 0; i < n; i++) {
        struct gr_running r;
        struct gr_err why = {0};
        if (gr_running_read(d, names[i], &r, &why) != GR_OK) {
            gr_log(GR_LOG_WARN, "%s", why.msg);
        } else if (means(&m, &r) && (profile == NULL || strcmp(profile, r.profile) == 0)) {
            struct gr_running *items = realloc(out->items, ((size_t)out->n + 1) * sizeof *items);
            if (items == NULL) {
                free(names);
                gr_running_set_free(out);
                return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of services");
            }
            out->items = items;
            out->items[out->n++] = r;
        }
    }
    free(names);
    return GR_OK;
}

void gr_running_set_free(struct gr_running_set *s)
{
    free(s->items);
    *s = (struct gr_running_set){0};
}

enum gr_status gr_running_one(const struct gr_state_dirs *d, const char *word, const char *profile,
                              struct gr_running *out, bool *alive, struct gr_err *err)
{
    struct gr_running_set set;
    GR_TRY(gr_running_find(d, word, profile, &set, err));
    char **environment = gr_launch_environment();
    int n_alive = 0, pick = 0;
    for (int i = 0; i < set.n && (set.n > 1 || alive != NULL); i++) {
        if (gr_launch_alive(&set.items[i], environment)) {
            pick = i;
            n_alive++;
        }
    }
    free(environment);
    enum gr_status status = GR_OK;
    if (set.n == 0) {
        status = gr_fail(err, GR_ERR_INPUT, "no service of %.200s%s%.60s is known; `gr00t ps` lists them", word,
                         profile != NULL ? " with profile " : "", profile != NULL ? profile : "");
    } else if (set.n > 1 && n_alive != 1) {
        status = gr_fail(err, GR_ERR_INPUT, "%d services of %.200s are known (%s, %s%s): name one, or its --profile",
                         set.n, word, set.items[0].name, set.items[1].name, set.n > 2 ? ", ..." : "");
    } else {
        *out = set.items[pick];
        if (alive != NULL) {
            *alive = n_alive == 1;
        }
    }
    gr_running_set_free(&set);
    return status;
}

int gr_running_ask(const struct gr_running *r)
{
    const struct gr_client_config cfg = {.url = r->url,
                                         .ca_file = r->tls_cert[0] != '\0' ? r->tls_cert : NULL,
                                         .connect_s = ASK_S,
                                         .total_s = 2.0 * ASK_S};
    struct gr_client *client = NULL;
    struct gr_client_reply reply = {0};
    struct gr_err ignored;
    const bool answered = gr_client_open(&cfg, &client, &ignored) == GR_OK &&
                          gr_client_send(client, "/ready", NULL, 0, &reply, &ignored) == GR_OK;
    gr_buf_free(&reply.body);
    gr_client_close(client);
    return answered ? reply.status : 0;
}

char **gr_launch_environment(void)
{
    int n = 0;
    while (gr_settings_env_at(n) != NULL) {
        n++;
    }
    char **out = calloc((size_t)n + 1, sizeof *out);
    for (int i = 0; i < n && out != NULL; i++) {
        out[i] = (char *)(uintptr_t)gr_settings_env_at(i); /* the type of execve */
    }
    return out;
}
