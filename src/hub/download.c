/* SPDX-License-Identifier: Apache-2.0
 *
 * download.c: a snapshot from the Hub into its cache. In: repository, revision, patterns; out: a snapshot folder whose files are complete and hashed,
 * or an error and whatever came so far. Decides what is missing, whether the disk takes it, and writes tree, links and ref; the bytes
 * are download_run.c's business. */
#include "hub/download.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "hub/download_parts.h"

enum { CONNECTIONS = 8, PART_BYTES = 8 << 20, PARTS_BYTES = 64 << 20, PROGRESS_MS = 100 };

void gr_pulled_free(struct gr_pulled *p) { gr_hub_repo_free(&p->repo); }

void gr_dl_note(const struct gr_dl *dl, const char *fmt, ...)
{
    char line[GR_ERR_MSG_BYTES];
    if (dl->cfg->note == NULL) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    dl->cfg->note(dl->cfg->note_user, line);
}

/* Who finds another thread showing does not wait: a terminal that stands still must not stop the transfers. */
void gr_dl_progress(struct gr_dl *dl, uint64_t bytes, const struct gr_dl_blob *b)
{
    const uint64_t done = atomic_fetch_add_explicit(&dl->done, bytes, memory_order_relaxed) + bytes;
    if (dl->pull->progress == NULL || pthread_mutex_trylock(&dl->show) != 0) {
        return;
    }
    const double now = gr_clock_ms();
    if (now - dl->shown_ms >= PROGRESS_MS || done == dl->total) {
        dl->shown_ms = now;
        dl->pull->progress(dl->pull->progress_user, done, dl->total, b->files[0]->path);
    }
    (void)pthread_mutex_unlock(&dl->show);
}

/* ---- what is missing ---- */

struct plan {
    const struct gr_hub_file **wanted; /* by object, then by path; [n] */
    struct gr_dl_blob *missing;        /* in path order; [n_missing] */
    int n, n_missing;
    uint64_t missing_bytes;
};

static void plan_free(struct plan *p)
{
    free(p->wanted);
    free(p->missing);
    memset(p, 0, sizeof *p);
}

static int by_object(const void *a, const void *b)
{
    const struct gr_hub_file *x = *(const struct gr_hub_file *const *)a, *y = *(const struct gr_hub_file *const *)b;
    const int d = strcmp(x->oid, y->oid);
    return d != 0 ? d : strcmp(x->path, y->path);
}

static int by_first_path(const void *a, const void *b)
{
    return strcmp(((const struct gr_dl_blob *)a)->files[0]->path, ((const struct gr_dl_blob *)b)->files[0]->path);
}

/* Fills the plan and the counts of `out`. */
static enum gr_status make_plan(const struct gr_hub_config *cfg, const struct gr_pull *pull,
                                const struct gr_hub_repo *repo, struct plan *p, struct gr_pulled *out,
                                struct gr_err *err)
{
    p->wanted = calloc((size_t)repo->n_files + 1, sizeof(*p->wanted));
    p->missing = calloc((size_t)repo->n_files + 1, sizeof *p->missing);
    if (p->wanted == NULL || p->missing == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the files of %s", repo->id);
    }
    for (int i = 0; i < repo->n_files; i++) {
        if (gr_hub_matches(&pull->patterns, repo->files[i].path)) {
            p->wanted[p->n++] = &repo->files[i];
        }
    }
    if (p->n > 1) {
        qsort(p->wanted, (size_t)p->n, sizeof(*p->wanted), by_object);
    }
    for (int i = 0, next; i < p->n; i = next) {
        const struct gr_hub_file *f = p->wanted[i];
        for (next = i + 1; next < p->n && strcmp(p->wanted[next]->oid, f->oid) == 0; next++) {
            if (p->wanted[next]->size != f->size) {
                return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub lists two sizes for one object (%s, %s)", repo->id,
                               f->path, p->wanted[next]->path);
            }
        }
        if (f->size > UINT64_MAX / 2 - out->bytes) {
            return gr_fail(err, GR_ERR_INPUT, "%s: the sizes that the Hub lists are absurd", repo->id);
        }
        out->bytes += f->size;
        if (!pull->force && gr_cache_has(cfg->cache_root, pull->id, f)) {
            out->bytes_present += f->size;
            out->n_present += next - i;
        } else {
            p->missing[p->n_missing++] = (struct gr_dl_blob){.files = &p->wanted[i], .n_files = next - i};
            p->missing_bytes += f->size;
        }
    }
    out->n_files = p->n;
    if (p->n_missing > 1) {
        qsort(p->missing, (size_t)p->n_missing, sizeof *p->missing, by_first_path);
    }
    return p->n > 0 ? GR_OK
                    : gr_fail(err, GR_ERR_INPUT, "%s @ %s: none of its %d files matches the patterns", repo->id,
                              repo->commit, repo->n_files);
}

static enum gr_status link_present(const struct gr_hub_config *cfg, const struct gr_pull *pull, const char *commit,
                                   const struct plan *p, struct gr_err *err)
{
    for (int i = 0; i < p->n; i++) {
        if (gr_cache_has(cfg->cache_root, pull->id, p->wanted[i])) {
            GR_TRY(gr_cache_link(cfg->cache_root, pull->id, commit, p->wanted[i]->path, p->wanted[i]->oid, err));
        }
    }
    return GR_OK;
}

/* ---- room ---- */

static uint64_t begun_bytes(const char *root, const char *id, const struct plan *p)
{
    uint64_t sum = 0;
    for (int i = 0; i < p->n_missing; i++) {
        char blob[GR_PATH_BYTES], path[GR_PATH_BYTES + 16];
        struct gr_err ignored;
        struct stat st;
        if (gr_cache_blob(root, id, p->missing[i].files[0]->oid, blob, &ignored) == GR_OK &&
            snprintf(path, sizeof path, "%s.incomplete", blob) > 0 && stat(path, &st) == 0 &&
            (uint64_t)st.st_size <= p->missing[i].files[0]->size) {
            sum += (uint64_t)st.st_size;
        }
    }
    return sum;
}

static enum gr_status check_room(const struct gr_hub_config *cfg, const struct gr_pull *pull, const struct plan *p,
                                 struct gr_err *err)
{
    char model[GR_PATH_BYTES], blobs[GR_PATH_BYTES];
    uint64_t room = 0;
    GR_TRY(gr_cache_model(cfg->cache_root, pull->id, model, err));
    GR_TRY(gr_path_join(blobs, model, "blobs", err));
    GR_TRY(gr_fs_mkdirs(blobs, err));
    const uint64_t need = p->missing_bytes - (pull->force ? 0 : begun_bytes(cfg->cache_root, pull->id, p));
    struct gr_err ignored;
    if (gr_fs_free_bytes(blobs, &room, &ignored) != GR_OK || need <= room) {
        return GR_OK; /* a file system that does not tell says it when it is full */
    }
    return gr_fail(err, GR_ERR_IO,
                   "not enough room in %s: %.3f GB are needed, %.3f GB are free; HF_HUB_CACHE names another place",
                   cfg->cache_root, (double)need / 1e9, (double)room / 1e9);
}

/* ---- the pull ---- */

/* What the cache knows of the revision without asking: its tree, else the links that are there. */
static enum gr_status look_in_cache(const struct gr_hub_config *cfg, const struct gr_pull *pull, bool links,
                                    struct gr_hub_repo *out, struct gr_err *err)
{
    char commit[GR_HUB_COMMIT_BYTES];
    struct gr_err ignored;
    GR_TRY(gr_cache_resolve(cfg->cache_root, pull->id, pull->revision != NULL ? pull->revision : "main", commit, err));
    if (links && gr_cache_read_tree(cfg->cache_root, pull->id, commit, out, &ignored) != GR_OK) {
        return gr_cache_read_links(cfg->cache_root, pull->id, commit, out, err);
    }
    return links ? GR_OK : gr_cache_read_tree(cfg->cache_root, pull->id, commit, out, err);
}

static enum gr_status fetch_missing(struct gr_hub *hub, const struct gr_pull *pull, struct plan *p,
                                    struct gr_pulled *out, struct gr_err *err)
{
    struct gr_dl dl = {.hub = hub,
                       .cfg = gr_hub_settings(hub),
                       .pull = pull,
                       .repo = &out->repo,
                       .blobs = p->missing,
                       .n_blobs = p->n_missing,
                       .workers = pull->connections > 0 ? pull->connections : CONNECTIONS,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .show = PTHREAD_MUTEX_INITIALIZER,
                       .total = out->bytes,
                       .done = out->bytes_present};
    dl.workers = dl.workers < GR_PULL_CONNECTIONS_MAX ? dl.workers : GR_PULL_CONNECTIONS_MAX;
    dl.part_bytes = (size_t)PARTS_BYTES / (size_t)(dl.workers + 2);
    dl.part_bytes = dl.part_bytes < PART_BYTES ? dl.part_bytes : PART_BYTES;
    enum gr_status status = gr_dl_run(&dl, err);
    out->bytes_fetched = dl.fetched;
    (void)pthread_mutex_destroy(&dl.lock);
    (void)pthread_mutex_destroy(&dl.show);
    return status;
}

static enum gr_status pull_online(struct gr_hub *hub, const struct gr_pull *pull, struct plan *p, struct gr_pulled *out,
                                  struct gr_err *err)
{
    const struct gr_hub_config *cfg = gr_hub_settings(hub);
    const char *revision = pull->revision != NULL ? pull->revision : "main";
    GR_TRY(gr_hub_look(hub, pull->id, revision, true, &out->repo, err));
    GR_TRY(make_plan(cfg, pull, &out->repo, p, out, err));
    if (pull->looked != NULL) {
        GR_TRY(pull->looked(pull->looked_user, &out->repo, err));
    }
    if (pull->dry_run) {
        return GR_OK;
    }
    if (p->n_missing > 0) {
        GR_TRY(check_room(cfg, pull, p, err));
    }
    struct gr_hub_repo tree = out->repo; /* under the name that the cache's folder has */
    struct gr_err why = {0};
    (void)snprintf(tree.id, sizeof tree.id, "%s", pull->id);
    enum gr_status status = gr_cache_write_tree(cfg->cache_root, &tree, &why);
    if (status != GR_OK && p->n_missing > 0) {
        return gr_fail(err, status, "%s", why.msg); /* else: a complete cache may be read-only */
    }
    GR_TRY(link_present(cfg, pull, out->repo.commit, p, err));
    if (p->n_missing > 0) {
        GR_TRY(fetch_missing(hub, pull, p, out, err));
    }
    status = gr_cache_write_ref(cfg->cache_root, pull->id, revision, out->repo.commit, &why);
    return status == GR_OK || (p->n_missing == 0 && status == GR_ERR_IO) ? GR_OK : gr_fail(err, status, "%s", why.msg);
}

static enum gr_status pull_offline(struct gr_hub *hub, const struct gr_pull *pull, struct plan *p,
                                   struct gr_pulled *out, struct gr_err *err)
{
    const struct gr_hub_config *cfg = gr_hub_settings(hub);
    struct gr_err why = {0};
    if (look_in_cache(cfg, pull, true, &out->repo, &why) != GR_OK) {
        return gr_fail(err, why.code == GR_ERR_FORMAT ? GR_ERR_NETWORK : why.code,
                       "%.320s, and HF_HUB_OFFLINE forbids the network: unset it, or pull on a machine that has a "
                       "network and copy the cache",
                       why.msg);
    }
    GR_TRY(make_plan(cfg, pull, &out->repo, p, out, err));
    if (pull->looked != NULL) {
        GR_TRY(pull->looked(pull->looked_user, &out->repo, err));
    }
    if (p->n_missing > 0 && !pull->dry_run) {
        return gr_fail(
            err, GR_ERR_NETWORK,
            "%s @ %s: %d of %d files are not in the Hub cache (%s ...), and HF_HUB_OFFLINE forbids the network: "
            "unset it, or pull on a machine that has a network and copy the cache",
            pull->id, out->repo.commit, p->n - out->n_present, p->n, p->missing[0].files[0]->path);
    }
    return link_present(cfg, pull, out->repo.commit, p, err);
}

/* A commit never changes: when all of it is there, nobody need be asked. */
static bool complete_commit(struct gr_hub *hub, const struct gr_pull *pull, struct plan *p, struct gr_pulled *out)
{
    const struct gr_hub_config *cfg = gr_hub_settings(hub);
    struct gr_err ignored;
    if (pull->force || pull->revision == NULL || !gr_hub_is_commit(pull->revision)) {
        return false;
    }
    if (look_in_cache(cfg, pull, false, &out->repo, &ignored) == GR_OK &&
        make_plan(cfg, pull, &out->repo, p, out, &ignored) == GR_OK && p->n_missing == 0) {
        return true;
    }
    plan_free(p);
    gr_hub_repo_free(&out->repo);
    memset(out, 0, sizeof *out);
    return false;
}

enum gr_status gr_hub_pull(struct gr_hub *hub, const struct gr_pull *pull, struct gr_pulled *out, struct gr_err *err)
{
    struct plan p = {0};
    struct gr_pull asked = *pull;
    const struct gr_hub_config *cfg = gr_hub_settings(hub);
    memset(out, 0, sizeof *out);
    if (cfg->cache_root == NULL || !gr_hub_is_id(pull->id)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository", pull->id);
    }
    asked.force = pull->force && !cfg->offline;
    enum gr_status status = GR_OK;
    if (complete_commit(hub, &asked, &p, out)) {
        status = pull->looked != NULL ? pull->looked(pull->looked_user, &out->repo, err) : GR_OK;
        status = status == GR_OK ? link_present(cfg, &asked, out->repo.commit, &p, err) : status;
    } else {
        status = cfg->offline ? pull_offline(hub, &asked, &p, out, err) : pull_online(hub, &asked, &p, out, err);
    }
    if (status == GR_OK) {
        (void)snprintf(out->id, sizeof out->id, "%s", pull->id);
        (void)snprintf(out->commit, sizeof out->commit, "%s", out->repo.commit);
        status = gr_cache_snapshot(cfg->cache_root, pull->id, out->commit, out->snapshot, err);
    }
    plan_free(&p);
    if (status != GR_OK) {
        gr_pulled_free(out);
    }
    return status;
}
