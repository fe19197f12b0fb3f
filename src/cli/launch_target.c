/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_target.c: from a word on the command line to what is to be started. */
#include "cli/launch_target.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/settings.h"
#include "hub/hub_cache.h"

enum { SLUG_STEM = 40 };

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

/* A file of the Hub cache is a link to somewhere else. */
enum gr_status gr_target_folder(const char *word, char out[GR_PATH_BYTES], struct gr_err *err)
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

static bool has_entry(const char *dir, const char *name)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    return gr_path_join(path, dir, name, &ignored) == GR_OK && gr_is_there(path);
}

/* Of a snapshot that can be read; a link in it may lead nowhere. */
static enum gr_status need_config(const char *dir, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, "config.json", err));
    return gr_fs_need_file(path, GR_ERR_FORMAT, err);
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
    if (!gr_fs_is_dir(word)) {
        GR_TRY(gr_fs_need_file(word, GR_ERR_FORMAT, err));
    }
    GR_TRY(gr_target_folder(word, out->canonical, err));
    if (gr_fs_is_dir(word) && !has_entry(word, GR_MANIFEST_FILE)) {
        if (!has_entry(word, "config.json")) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "%s is neither a package (no " GR_MANIFEST_FILE ") nor a snapshot (no config.json)", word);
        }
        GR_TRY(need_config(word, err));
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
               need_config(place.dir, &why) == GR_OK && !has_entry(place.dir, GR_MANIFEST_FILE)) {
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
    if (gr_is_there(word)) {
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
