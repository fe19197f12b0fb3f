/* SPDX-License-Identifier: Apache-2.0
 *
 * upload_lfs.c: large files to the Hub's store, in three steps: ask which of them it lacks and where to put those (lfs_plan.c reads the answer),
 * put whole files or parts in parallel, have each confirmed. Addresses are signed for a while and carry no token of ours; when the store refuses
 * one (expired, a part lost) the Hub is asked again. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "hub/lfs_plan.h"
#include "hub/upload_call.h"

enum { BATCH = 256, WORKERS = 4, ROUNDS = 3 };

struct job {
    int object, part;
    uint64_t counted; /* bytes of it in `done` */
    struct transfer *t;
};
struct transfer {
    struct gr_hub *hub;
    const char *id;
    const struct gr_upload_list *list;
    struct gr_lfs_object *objects;
    struct job *jobs;
    int n_jobs;
    atomic_int next;
    atomic_bool stop;
    pthread_mutex_t lock; /* of what follows */
    enum gr_status status;
    struct gr_err err;
    uint64_t done, total, sent;
    void (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

static void count(struct job *job, uint64_t bytes)
{
    struct transfer *t = job->t;
    pthread_mutex_lock(&t->lock);
    t->done = t->done - job->counted + bytes;
    job->counted = bytes;
    if (t->progress != NULL) {
        t->progress(t->user, t->done, t->total);
    }
    pthread_mutex_unlock(&t->lock);
}

static void on_sent(void *user, uint64_t bytes) { count(user, bytes); }

/* What another address may mend; time-outs and 429 are tried again below. */
static bool keep_refusal(int status) { return status >= 400 && status < 500 && status != 408 && status != 429; }

static bool keep_all(int status)
{
    (void)status;
    return true;
}

static enum gr_status put_part(struct transfer *t, struct job *job, int *http, struct gr_err *err)
{
    struct gr_lfs_object *o = &t->objects[job->object];
    const uint64_t from = (uint64_t)job->part * o->chunk, left = o->file->size - from;
    const uint64_t n = left < o->chunk ? left : o->chunk;
    int fd = -1;
    GR_TRY(gr_upload_open(t->list, o->file, &fd, err));
    struct gr_http_request request = {.method = "PUT",
                                      .url = o->addresses[job->part],
                                      .headers = (const char *const *)o->headers,
                                      .follow = GR_HTTP_FOLLOW_NONE,
                                      .stall_s = GR_UPLOAD_STALL_S,
                                      .body = fd < 0 ? o->file->text + from : NULL,
                                      .body_fd = fd,
                                      .body_offset = from,
                                      .body_bytes = n,
                                      .sent = on_sent,
                                      .user = job};
    struct gr_http_reply reply;
    enum gr_status status = gr_hub_call(t->hub, &request, keep_all, &reply, err);
    if (status == GR_OK && reply.status >= 300 && !keep_refusal(reply.status)) {
        status = gr_hub_refused(t->hub, o->file->path, &reply, err); /* the address would say nothing */
    }
    *http = status == GR_OK ? reply.status : 0;
    if (status == GR_OK && reply.status < 300) {
        count(job, n);
        pthread_mutex_lock(&t->lock);
        t->sent += n;
        pthread_mutex_unlock(&t->lock);
        if (o->multipart && !gr_http_reply_header(&reply, "ETag", o->etags[job->part], GR_LFS_ETAG_BYTES)) {
            status = gr_fail(err, GR_ERR_NETWORK, "%s: the store took a part of %s without naming it (no ETag)", t->id,
                             o->file->path);
        }
    }
    gr_http_reply_free(&reply);
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

static enum gr_status confirm(struct transfer *t, const char *url, const struct gr_buf *body, const char *what,
                              int *http, struct gr_err *err)
{
    const struct gr_upload_call call = {.method = "POST",
                                        .url = gr_hub_below(t->hub, url),
                                        .type = "application/vnd.git-lfs+json",
                                        .body = body,
                                        .keep = keep_refusal,
                                        .blind = true,
                                        .what = what};
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    enum gr_status status = gr_upload_json(t->hub, &call, &reply, &root, err);
    *http = status == GR_OK ? reply.status : 0;
    gr_json_free(root);
    gr_http_reply_free(&reply);
    return status;
}

/* All its parts are there: they become one object, and the Hub is told to look. */
static enum gr_status finish(struct transfer *t, const struct gr_lfs_object *o, int *http, struct gr_err *err)
{
    struct gr_buf body = {0};
    enum gr_status status = GR_OK;
    if (o->multipart) {
        gr_lfs_completion(o, &body);
        status = confirm(t, o->complete, &body, o->file->path, http, err);
        gr_buf_free(&body);
    }
    if (status == GR_OK && *http < 300 && o->verify != NULL) {
        gr_lfs_verification(o, &body);
        status = confirm(t, o->verify, &body, o->file->path, http, err);
        gr_buf_free(&body);
    }
    return status;
}

static enum gr_status run_job(struct transfer *t, struct job *job, struct gr_err *err)
{
    struct gr_lfs_object *o = &t->objects[job->object];
    int http = 0;
    enum gr_status status = GR_OK;
    if (atomic_load(&o->refused) == 0) {
        status = put_part(t, job, &http, err);
    }
    if (http >= 300) {
        atomic_store(&o->refused, http);
    }
    const bool last = atomic_fetch_sub(&o->left, 1) == 1;
    if (status != GR_OK || !last || atomic_load(&o->refused) != 0) {
        return status;
    }
    http = 0;
    status = finish(t, o, &http, err);
    if (http >= 300) {
        atomic_store(&o->refused, http);
    }
    return status;
}

static void *worker(void *user)
{
    struct transfer *t = user;
    while (!atomic_load(&t->stop)) {
        const int i = atomic_fetch_add(&t->next, 1);
        if (i >= t->n_jobs) {
            break;
        }
        struct gr_err err = {0};
        enum gr_status status = run_job(t, &t->jobs[i], &err);
        if (status != GR_OK) {
            atomic_store(&t->stop, true);
            pthread_mutex_lock(&t->lock);
            if (t->status == GR_OK) {
                t->status = status;
                t->err = err;
            }
            pthread_mutex_unlock(&t->lock);
        }
    }
    return NULL;
}

static enum gr_status make_jobs(struct transfer *t, int n_objects, struct gr_err *err)
{
    int n = 0;
    for (int i = 0; i < n_objects; i++) {
        n += t->objects[i].n_parts;
    }
    t->n_jobs = 0;
    t->jobs = calloc((size_t)(n > 0 ? n : 1), sizeof *t->jobs);
    if (t->jobs == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %d parts", t->id, n);
    }
    for (int i = 0; i < n_objects; i++) {
        struct gr_lfs_object *o = &t->objects[i];
        atomic_store(&o->left, o->n_parts);
        for (int part = 0; part < o->n_parts; part++) {
            t->jobs[t->n_jobs++] = (struct job){.object = i, .part = part, .t = t};
        }
        t->done += o->n_parts == 0 ? o->file->size : 0; /* the store has it */
    }
    return GR_OK;
}

/* Puts everything that the objects want. Those the store refused are marked and their bytes no longer counted. */
static enum gr_status transfer(struct transfer *t, int n_objects, struct gr_err *err)
{
    pthread_t threads[WORKERS];
    int started = 0;
    GR_TRY(make_jobs(t, n_objects, err));
    atomic_store(&t->next, 0);
    while (started < WORKERS - 1 && started < t->n_jobs - 1 &&
           gr_thread_start(&threads[started], worker, t) == 0) { /* refused: fewer of them */
        started++;
    }
    (void)worker(t);
    for (int i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < t->n_jobs; i++) {
        if (atomic_load(&t->objects[t->jobs[i].object].refused) != 0) {
            t->done -= t->jobs[i].counted;
        }
    }
    free(t->jobs);
    t->jobs = NULL;
    if (t->status != GR_OK) {
        *err = t->err;
    }
    return t->status;
}

static enum gr_status refused(const struct transfer *t, const struct gr_lfs_object *o, struct gr_err *err)
{
    const int http = atomic_load(&o->refused);
    return gr_fail(err, http == 401 || http == 403 ? GR_ERR_ACCESS : GR_ERR_NETWORK,
                   "%s: the Hub's store refuses %s (status %d), also with new addresses; run again, what was sent is "
                   "not sent again",
                   t->id, o->file->path, http);
}

/* One batch; files[0 .. *n) keeps those to ask for again. */
static enum gr_status one_batch(struct transfer *t, const struct gr_upload_file **files, int *n, bool last_round,
                                struct gr_err *err)
{
    const int asked = *n;
    int again = 0;
    t->objects = calloc((size_t)asked, sizeof *t->objects);
    if (t->objects == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for a batch", t->id);
    }
    enum gr_status status = gr_lfs_plan(t->hub, t->id, files, asked, t->objects, err);
    if (status == GR_OK) {
        status = transfer(t, asked, err);
    }
    for (int i = 0; i < asked && status == GR_OK; i++) {
        if (atomic_load(&t->objects[i].refused) != 0) {
            status = last_round ? refused(t, &t->objects[i], err) : GR_OK;
            files[again++] = files[i];
        }
    }
    *n = again;
    for (int i = 0; i < asked; i++) {
        gr_lfs_object_free(&t->objects[i]);
    }
    free(t->objects);
    t->objects = NULL;
    return status;
}

static int by_oid(const void *a, const void *b)
{
    return strcmp((*(const struct gr_upload_file *const *)a)->sha256,
                  (*(const struct gr_upload_file *const *)b)->sha256);
}

/* Large files to send, each content once. */
static int collect(const struct gr_upload_list *l, const struct gr_upload_file **files, uint64_t *bytes)
{
    int n = 0, kept = 0;
    for (int i = 0; i < l->n; i++) {
        if (l->files[i].send && l->files[i].lfs) {
            files[n++] = &l->files[i];
        }
    }
    qsort(files, (size_t)n, sizeof *files, by_oid);
    for (int i = 0; i < n; i++) {
        if (kept == 0 || strcmp(files[kept - 1]->sha256, files[i]->sha256) != 0) {
            files[kept++] = files[i];
            *bytes += files[i]->size;
        }
    }
    return kept;
}

enum gr_status gr_upload_lfs(struct gr_hub *hub, const char *id, const struct gr_upload_list *l,
                             void (*progress)(void *user, uint64_t done, uint64_t total), void *user, uint64_t *sent,
                             struct gr_err *err)
{
    struct transfer t = {.hub = hub, .id = id, .list = l, .progress = progress, .user = user};
    const struct gr_upload_file **files = calloc((size_t)(l->n > 0 ? l->n : 1), sizeof *files);
    *sent = 0;
    if (files == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the list of large files", id);
    }
    pthread_mutex_init(&t.lock, NULL);
    int n = collect(l, files, &t.total);
    enum gr_status status = GR_OK;
    for (int round = 0; round < ROUNDS && n > 0 && status == GR_OK; round++) {
        int again = 0;
        for (int at = 0; at < n && status == GR_OK; at += BATCH) {
            int some = n - at < BATCH ? n - at : BATCH;
            status = one_batch(&t, files + at, &some, round == ROUNDS - 1, err);
            memmove(files + again, files + at, (size_t)some * sizeof *files);
            again += some;
        }
        n = again;
    }
    *sent = t.sent;
    pthread_mutex_destroy(&t.lock);
    free(files);
    return status;
}
