/* SPDX-License-Identifier: Apache-2.0
 *
 * download_run.c: who fetches what. One worker a connection takes the next part of a blob that is open, or opens the next blob; a blob of one
 * part at most is one worker's alone. The memory for parts is bounded: a worker that finds none waits for a writer. Blobs that another
 * process has locked are looked at again now and then. The first failure stops all; what came is kept on disk. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "hub/download_parts.h"

enum { WAIT_MS = 100, WRITE_BYTES = 1 << 20 };

static void lock(struct gr_dl *dl) { (void)pthread_mutex_lock(&dl->lock); }

static void unlock(struct gr_dl *dl) { (void)pthread_mutex_unlock(&dl->lock); }

static void fail(struct gr_dl *dl, enum gr_status status, const struct gr_err *err)
{
    lock(dl);
    if (dl->status == GR_OK) {
        dl->status = status;
        dl->err = *err;
    }
    dl->stop = true;
    for (int i = 0; i < dl->n_active; i++) {
        (void)pthread_cond_broadcast(&dl->active[i]->data);
    }
    (void)pthread_cond_broadcast(&dl->work);
    unlock(dl);
}

/* ---- the writer of a large blob ---- */

/* Bytes of the first part that are not written yet, at most WRITE_BYTES; waits for them. 0: done, or in trouble. */
static size_t next_piece(struct gr_dl *dl, struct gr_dl_transfer *t, const uint8_t **bytes)
{
    size_t n = 0;
    lock(dl);
    while (n == 0 && !dl->stop && t->trouble == GR_DL_NONE && t->written < t->blob->files[0]->size) {
        struct gr_dl_part *p = &t->parts[t->head];
        n = t->n_parts > 0 ? p->filled - p->used : 0;
        n = n < WRITE_BYTES ? n : WRITE_BYTES;
        *bytes = p->bytes + p->used;
        if (n == 0) {
            (void)pthread_cond_wait(&t->data, &dl->lock);
        }
    }
    unlock(dl);
    return n;
}

static void piece_written(struct gr_dl *dl, struct gr_dl_transfer *t, size_t n)
{
    lock(dl);
    struct gr_dl_part *p = &t->parts[t->head];
    p->used += n;
    if (p->used == p->n) {
        dl->spare[dl->n_spare++] = p->bytes;
        t->head = (t->head + 1) % GR_DL_PARTS_MAX;
        t->n_parts--;
        (void)pthread_cond_broadcast(&dl->work);
    }
    unlock(dl);
}

static void *writer(void *arg)
{
    struct gr_dl_transfer *t = arg;
    struct gr_err err = {0};
    const uint8_t *bytes = NULL;
    enum gr_status status = gr_dl_hash_resumed(t->dl, t, &err);
    for (size_t n; status == GR_OK && (n = next_piece(t->dl, t, &bytes)) > 0;) {
        status = gr_dl_put(t->dl, t, bytes, n, &err);
        if (status == GR_OK) {
            piece_written(t->dl, t, n);
        }
    }
    if (status != GR_OK) {
        fail(t->dl, status, &err);
    }
    lock(t->dl);
    t->writer_done = true;
    (void)pthread_cond_broadcast(&t->dl->work);
    unlock(t->dl);
    return NULL;
}

/* ---- jobs of a worker ---- */

static void blob_done(struct gr_dl *dl, uint64_t bytes, const struct gr_dl_blob *b)
{
    gr_dl_progress(dl, bytes, b);
    lock(dl);
    dl->n_left--;
    dl->n_owned--;
    (void)pthread_cond_broadcast(&dl->work);
    unlock(dl);
}

/* The worker fetches, hashes and writes by itself: what is small, and what a server gives in one piece only. */
static enum gr_status do_whole(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err)
{
    for (bool again = true; again;) {
        enum gr_dl_trouble trouble = GR_DL_NONE;
        GR_TRY(gr_dl_hash_resumed(dl, t, err));
        GR_TRY(gr_dl_fetch_rest(dl, t, &trouble, err));
        if (trouble == GR_DL_SPOILED) {
            GR_TRY(gr_dl_begin_again(dl, t, "is shorter than the Hub lists", err));
            continue;
        }
        GR_TRY(gr_dl_finish(dl, t, &again, err));
    }
    return GR_OK;
}

/* Takes t over. */
static enum gr_status whole(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err)
{
    const struct gr_dl_blob *b = t->blob;
    enum gr_status status = do_whole(dl, t, err);
    gr_dl_close(t);
    if (status == GR_OK) {
        blob_done(dl, 0, b);
    }
    return status;
}

/* Takes t over: a writer for a large blob. */
static enum gr_status start(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err)
{
    if (t->blob->files[0]->size - t->resumed <= dl->part_bytes) {
        return whole(dl, t, err);
    }
    t->writer_done = t->settling = false;
    t->head = t->n_parts = t->busy = 0;
    lock(dl);
    const bool runs = gr_thread_start(&t->writer, writer, t) == 0;
    if (runs) {
        dl->active[dl->n_active++] = t;
        dl->n_owned--;
        (void)pthread_cond_broadcast(&dl->work);
    }
    unlock(dl);
    return runs ? GR_OK : whole(dl, t, err);
}

static enum gr_status open_blob(struct gr_dl *dl, int i, struct gr_err *err)
{
    struct gr_dl_blob *b = &dl->blobs[i];
    struct gr_dl_transfer *t = NULL;
    bool there = false;
    GR_TRY(gr_dl_open(dl, b, &t, &there, err));
    if (there) {
        blob_done(dl, b->files[0]->size, b);
        return GR_OK;
    }
    if (t != NULL) {
        return start(dl, t, err);
    }
    lock(dl);
    dl->waiting[dl->n_waiting++] = i;
    dl->n_owned--;
    dl->retry_ms = gr_clock_ms() + WAIT_MS;
    const bool told = dl->told_waiting;
    dl->told_waiting = true;
    unlock(dl);
    if (!told) {
        gr_dl_note(dl, "another process is fetching %s of %s: the work is shared", b->files[0]->path, dl->pull->id);
    }
    return GR_OK;
}

static enum gr_status fetch_part(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_dl_part *part,
                                 struct gr_err *err)
{
    enum gr_dl_trouble trouble = GR_DL_NONE;
    enum gr_status status = gr_dl_fetch_part(dl, t, part, &trouble, err);
    lock(dl);
    if (trouble != GR_DL_NONE) {
        t->trouble = (int)trouble;
        (void)pthread_cond_broadcast(&t->data);
    }
    status = t->trouble != GR_DL_NONE && !dl->stop ? GR_OK : status;
    t->busy--;
    (void)pthread_cond_broadcast(&dl->work);
    unlock(dl);
    return status;
}

/* The writer has ended and nobody is in a part any more. */
static enum gr_status settle(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err)
{
    bool again = false;
    const struct gr_dl_blob *b = t->blob;
    (void)pthread_join(t->writer, NULL);
    lock(dl);
    for (; t->n_parts > 0; t->n_parts--, t->head = (t->head + 1) % GR_DL_PARTS_MAX) {
        dl->spare[dl->n_spare++] = t->parts[t->head].bytes;
    }
    for (int i = 0; i < dl->n_active; i++) {
        if (dl->active[i] == t) {
            dl->active[i] = dl->active[--dl->n_active];
            break;
        }
    }
    dl->n_owned++;
    unlock(dl);
    const int trouble = t->trouble;
    t->trouble = GR_DL_NONE;
    t->resumed = t->next = t->written;
    enum gr_status status = GR_OK;
    if (dl->stop) {
        status = gr_fail(err, GR_ERR_BUSY, "given up");
    } else if (trouble == GR_DL_NO_RANGES) {
        gr_dl_note(dl, "%s: the server knows no ranges, one connection has to do", b->files[0]->path);
        return whole(dl, t, err);
    } else if (trouble == GR_DL_SPOILED) {
        status = gr_dl_begin_again(dl, t, "is shorter than the Hub lists", err);
        again = true;
    } else {
        status = gr_dl_finish(dl, t, &again, err);
    }
    if (status == GR_OK && again) {
        return start(dl, t, err);
    }
    gr_dl_close(t);
    if (status == GR_OK) {
        blob_done(dl, 0, b);
    }
    return status;
}

struct job {
    enum { JOB_END, JOB_WAIT, JOB_OPEN, JOB_PART, JOB_SETTLE } kind;
    struct gr_dl_transfer *t;
    struct gr_dl_part *part;
    int blob;
};

static bool take_part(struct gr_dl *dl, struct gr_dl_transfer *t, struct job *job)
{
    const uint64_t left = t->blob->files[0]->size - t->next;
    if (left == 0 || dl->n_spare == 0 || t->trouble != GR_DL_NONE || t->n_parts == GR_DL_PARTS_MAX) {
        return false;
    }
    struct gr_dl_part *p = &t->parts[(t->head + t->n_parts) % GR_DL_PARTS_MAX];
    *p = (struct gr_dl_part){
        .from = t->next, .n = left < dl->part_bytes ? (size_t)left : dl->part_bytes, .bytes = dl->spare[--dl->n_spare]};
    t->next += p->n;
    t->n_parts++;
    t->busy++;
    *job = (struct job){.kind = JOB_PART, .t = t, .part = p};
    return true;
}

static struct job pick(struct gr_dl *dl)
{
    struct job job = {.kind = dl->stop || dl->n_left == 0 ? JOB_END : JOB_WAIT};
    for (int i = 0; i < dl->n_active && job.kind == JOB_WAIT; i++) {
        struct gr_dl_transfer *t = dl->active[i];
        if (t->writer_done && t->busy == 0 && !t->settling) {
            t->settling = true;
            job = (struct job){.kind = JOB_SETTLE, .t = t};
        }
    }
    for (int i = 0; i < dl->n_active && job.kind == JOB_WAIT; i++) {
        (void)take_part(dl, dl->active[i], &job);
    }
    if (job.kind == JOB_WAIT && dl->n_active + dl->n_owned < dl->workers) {
        if (dl->next_blob < dl->n_blobs) {
            job = (struct job){.kind = JOB_OPEN, .blob = dl->next_blob++};
        } else if (dl->n_waiting > 0 && gr_clock_ms() >= dl->retry_ms) {
            job = (struct job){.kind = JOB_OPEN, .blob = dl->waiting[0]};
            memmove(dl->waiting, dl->waiting + 1, (size_t)--dl->n_waiting * sizeof *dl->waiting);
        }
        dl->n_owned += job.kind == JOB_OPEN;
    }
    return job;
}

static struct job next_job(struct gr_dl *dl)
{
    struct job job;
    lock(dl);
    while ((job = pick(dl)).kind == JOB_WAIT) {
        const struct timespec until = gr_clock_after(WAIT_MS);
        (void)pthread_cond_timedwait(&dl->work, &dl->lock, &until);
        if (gr_hub_cancelled(dl->hub)) {
            break;
        }
    }
    unlock(dl);
    return job;
}

static void *worker(void *arg)
{
    struct gr_dl *dl = arg;
    for (;;) {
        struct gr_err err = {0};
        const struct job job = next_job(dl);
        enum gr_status status = GR_OK;
        switch (job.kind) {
        case JOB_END:
            return NULL;
        case JOB_WAIT:
            status = gr_fail(&err, GR_ERR_BUSY, "interrupted");
            break;
        case JOB_OPEN:
            status = open_blob(dl, job.blob, &err);
            break;
        case JOB_PART:
            status = fetch_part(dl, job.t, job.part, &err);
            break;
        case JOB_SETTLE:
            status = settle(dl, job.t, &err);
            break;
        }
        if (status != GR_OK) {
            fail(dl, status, &err);
        }
    }
}

/* ---- all of it ---- */

static enum gr_status set_up(struct gr_dl *dl, struct gr_err *err)
{
    pthread_condattr_t clock;
    const size_t n_parts = (size_t)dl->workers + 2;
    dl->n_left = dl->n_blobs;
    dl->waiting = calloc((size_t)dl->n_blobs, sizeof *dl->waiting);
    dl->memory = malloc(n_parts * dl->part_bytes); /* pages that no part needs are never touched */
    if (dl->waiting == NULL || dl->memory == NULL || pthread_condattr_init(&clock) != 0) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu parts of %zu bytes", n_parts, dl->part_bytes);
    }
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&dl->work, &clock);
    (void)pthread_condattr_destroy(&clock);
    for (size_t i = 0; i < n_parts; i++) {
        dl->spare[dl->n_spare++] = dl->memory + i * dl->part_bytes;
    }
    return GR_OK;
}

enum gr_status gr_dl_run(struct gr_dl *dl, struct gr_err *err)
{
    pthread_t threads[GR_PULL_CONNECTIONS_MAX];
    int n = 0;
    enum gr_status status = set_up(dl, err);
    while (status == GR_OK && n < dl->workers && gr_thread_start(&threads[n], worker, dl) == 0) {
        n++;
    }
    if (status == GR_OK && n == 0) {
        (void)worker(dl); /* no thread to be had: this one does it all, but for large blobs' writers */
    }
    for (int i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < dl->n_active; i++) { /* after a failure */
        (void)pthread_join(dl->active[i]->writer, NULL);
        gr_dl_close(dl->active[i]);
    }
    if (dl->waiting != NULL && dl->memory != NULL) {
        (void)pthread_cond_destroy(&dl->work);
    }
    free(dl->waiting);
    free(dl->memory);
    if (status == GR_OK && dl->status != GR_OK) {
        *err = dl->err;
        status = dl->status;
    }
    return status;
}
