/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_job.c: what `serve TARGET` makes ready before the start. */
#include "cli/launch_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/launch_fetch.h"
#include "cli/settings.h"

bool gr_job_prints(const struct gr_job *j) { return j->flags->print || j->flags->dry_run; }

/* ---- host ---- */

static const char nodes[] = "/dev/tenstorrent";

static bool has_huge_pages(void)
{
    char *text = NULL;
    bool found = false;
    FILE *f = fopen("/proc/mounts", "re");
    size_t cap = 0;
    while (f != NULL && !found && getline(&text, &cap, f) > 0) {
        found = strstr(text, " /dev/hugepages-1G hugetlbfs ") != NULL;
    }
    free(text);
    if (f != NULL) {
        (void)fclose(f);
    }
    return found;
}

enum gr_status gr_job_host(struct gr_job *j, struct gr_err *err)
{
    if (!j->launch.cards) {
        return GR_OK;
    }
    gr_boot_view_step(&j->view, "host", "host ready");
    struct gr_err unfit = {0};
    const char *lacks = access(nodes, F_OK) != 0 ? "there is no /dev/tenstorrent"
                        : !has_huge_pages()      ? "no hugetlbfs is mounted at /dev/hugepages-1G"
                                                 : NULL;
    if (lacks == NULL && gr_container_fit(j->engine, nodes, j->environment, &unfit) != GR_OK) {
        lacks = unfit.msg;
    }
    if (lacks == NULL) {
        gr_boot_view_done(&j->view, "");
        return GR_OK;
    }
    if (j->flags->force) {
        gr_boot_view_skipped(&j->view, lacks);
        return GR_OK;
    }
    gr_boot_view_failed(&j->view, lacks);
    return gr_fail(err, GR_ERR_DEVICE,
                   "profile %s needs a card: %s; a profile with GR00T_DEVICE=cpu runs without one, "
                   "--force tries anyway",
                   j->profile.block.name, lacks);
}

enum gr_status gr_job_chips(struct gr_job *j, struct gr_err *err)
{
    return j->launch.cards && !j->flags->force
               ? gr_container_chips(j->engine, nodes, j->req->devices, j->profile.chips, j->environment, j->chips, err)
               : GR_OK;
}

/* ---- tokenizer ---- */

enum gr_status gr_job_tokenizer(struct gr_job *j, const char *dir, const struct gr_weights_ref *w, struct gr_err *err)
{
    struct gr_tokenizer_need need = {.words = j->req->words,
                                     .n_words = j->req->n_words,
                                     .env = j->env,
                                     .n_env = j->launch.n_env,
                                     .profile = j->has_profile ? &j->profile : NULL,
                                     .callers_env = !j->has_profile,
                                     .dir = dir};
    if (w != NULL) {
        need.id = w->repo;
        need.revision = w->revision;
        need.patterns = (struct gr_hub_patterns){w->allow.items, w->ignore.items, w->allow.n, w->ignore.n};
    }
    return gr_launch_tokenizer(&j->view, &j->tool, j->program, &need, !j->flags->local_only && !j->tool.offline,
                               j->environment, err);
}

/* ---- image ---- */

static enum gr_status native_image(struct gr_job *j, struct gr_err *err)
{
    const struct gr_manifest *m = &j->target.package.manifest;
    if (j->target.image_dir[0] == '\0') {
        if (!gr_job_prints(j)) {
            gr_log(GR_LOG_WARN, "%s has no image/ beside its manifest: this gr00t itself serves it", m->name);
        }
        return GR_OK;
    }
    if (!gr_job_prints(j)) {
        gr_boot_view_step(&j->view, "image", "image");
    }
    GR_TRY(gr_native_root(&j->tool.dirs, m->name, j->target.image_dir, &j->root, err));
    gr_boot_view_done(&j->view, j->root.dir);
    j->launch.root = &j->root;
    return GR_OK;
}

/* What the engine calls the image is remembered, so that the next start need not look into the layout. */
static void remember(struct gr_job *j, const struct gr_installed *item, const char *loaded_id)
{
    struct gr_installed changed = *item;
    struct gr_err why = {0};
    (void)snprintf(changed.image_loaded_id, sizeof changed.image_loaded_id, "%s", loaded_id);
    if (gr_installed_put(&j->tool.dirs, &changed, &why) != GR_OK) {
        gr_log(GR_LOG_WARN, "%s", why.msg);
    }
}

static enum gr_status container_image(struct gr_job *j, struct gr_err *err)
{
    const struct gr_manifest *m = &j->target.package.manifest;
    struct gr_installed_list list;
    char id[80] = "", label[sizeof j->view.label], before[80];
    bool loaded;
    GR_TRY(gr_installed_read(&j->tool.dirs, &list, err));
    const struct gr_installed *item = gr_installed_find(&list, j->target.package.id);
    (void)snprintf(id, sizeof id, "%s", item != NULL ? item->image_loaded_id : "");
    memcpy(before, id, sizeof before);
    (void)snprintf(label, sizeof label, "image %s", m->image_tag != NULL ? m->image_tag : "");
    gr_boot_view_step(&j->view, "image", label);
    enum gr_status status = gr_container_image(
        j->engine, m, j->target.image_dir[0] != '\0' ? j->target.image_dir : NULL, j->environment, id, &loaded, err);
    if (status == GR_OK) {
        gr_boot_view_done(&j->view, loaded ? "loaded" : "");
        if (item != NULL && strcmp(before, id) != 0) {
            remember(j, item, id);
        }
    } else {
        gr_boot_view_failed(&j->view, "");
    }
    gr_installed_free(&list);
    return status;
}

enum gr_status gr_job_image(struct gr_job *j, struct gr_err *err)
{
    if (j->target.is_snapshot) {
        return GR_OK;
    }
    if (strcmp(j->engine, "native") == 0) {
        return native_image(j, err);
    }
    if (j->tool.hf_home[0] != '/' || j->tool.cache[0] != '/') {
        return gr_fail(err, GR_ERR_USAGE,
                       "HF_HOME and HF_HUB_CACHE must be absolute paths to be mounted into a container");
    }
    if (gr_container_user(j->engine, j->environment, j->user, err) != GR_OK) {
        if (!gr_job_prints(j)) {
            return err->code;
        }
        (void)snprintf(j->user, sizeof j->user, "%ld:%ld", (long)getuid(), (long)getgid());
    }
    j->launch.user = j->user;
    return gr_job_prints(j) ? GR_OK : container_image(j, err);
}

enum gr_status gr_job_find_tokenizer(struct gr_job *j, struct gr_err *err)
{
    const struct gr_manifest *m = &j->target.package.manifest;
    struct gr_hub_place place;
    struct gr_err ignored;
    if (j->target.is_snapshot) {
        return gr_job_tokenizer(j, j->target.snapshot, NULL, err);
    }
    if (!gr_launch_is_own(m)) {
        return GR_OK; /* another program, which knows what it needs */
    }
    const bool here = m->has_weights && gr_hub_find(m->weights.repo, m->weights.revision, &place, &ignored) == GR_OK;
    return gr_job_tokenizer(j, here ? place.dir : NULL, m->has_weights && !j->flags->no_weights ? &m->weights : NULL,
                            err);
}

enum gr_status gr_job_weights(struct gr_job *j, struct gr_err *err)
{
    const bool fetch = !j->flags->no_weights && !j->flags->local_only && !j->tool.offline;
    struct gr_hub_place place;
    struct gr_err ignored;
    const struct gr_manifest *m = &j->target.package.manifest;
    if (j->target.is_snapshot) {
        j->launch.snapshot = j->target.snapshot;
        return GR_OK;
    }
    if (!gr_job_prints(j)) {
        GR_TRY(gr_launch_weights(&j->view, &j->tool, m, &j->profile, fetch, j->snapshot, err));
    } else if (m->has_weights && gr_hub_find(m->weights.repo, m->weights.revision, &place, &ignored) == GR_OK) {
        memcpy(j->snapshot, place.dir, sizeof j->snapshot);
    }
    j->launch.snapshot = j->snapshot[0] != '\0' ? j->snapshot : NULL;
    return GR_OK;
}
