/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_shard.c: plans, writes and publishes safetensors files.
 *
 * A file is written in pieces of 4 MiB at page-aligned offsets, taken by the threads in turn; each piece is handed to the disk
 * at once, because a sync at the end would leave the disk idle while values are made and the CPU idle while it syncs. The
 * file has no name until it is complete (O_TMPFILE), so that not even a kill leaves anything behind. */
#include "model/synth_shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "model/synth_fill.h"

/* ---- plan ---- */

static int by_name(const void *a, const void *b)
{
    const struct gr_synth_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Shard number of each tensor; returns how many shards. A tensor larger than the limit gets a shard of its own. */
static size_t split(const struct gr_synth_inventory *inv, size_t *shard_of)
{
    size_t shard = 0;
    uint64_t used = 0;
    for (size_t i = 0; i < inv->count; i++) {
        const uint64_t bytes = 2 * inv->tensors[i].elements;
        if (used > 0 && used + bytes > inv->config->shard_limit) {
            shard++;
            used = 0;
        }
        shard_of[i] = shard;
        used += bytes;
    }
    return shard + 1;
}

static enum gr_status make_header(struct gr_synth_shard *s, struct gr_err *err)
{
    struct gr_tensor *entries = calloc(s->count, sizeof *entries);
    if (entries == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the header of %s", s->name);
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct gr_synth_tensor *t = s->tensors[i];
        entries[i].name = t->name;
        entries[i].dtype = GR_BF16;
        entries[i].ndim = t->ndim;
        memcpy(entries[i].shape, t->shape, sizeof t->shape);
        entries[i].bytes = (size_t)(2 * t->elements);
    }
    enum gr_status status = gr_safetensors_header(entries, s->count, &s->header, &s->header_bytes, err);
    free(entries);
    if (status != GR_OK) {
        return status;
    }
    s->file_bytes = s->header_bytes;
    for (size_t i = 0; i < s->count; i++) {
        s->starts[i] = s->file_bytes;
        s->file_bytes += 2 * s->tensors[i]->elements;
    }
    return GR_OK;
}

static enum gr_status plan_one(const struct gr_synth_inventory *inv, const size_t *shard_of, size_t k, size_t n,
                               struct gr_synth_shard *s, struct gr_err *err)
{
    snprintf(s->name, sizeof s->name, "model-%05zu-of-%05zu.safetensors", k + 1, n);
    s->tensors = calloc(inv->count, sizeof *s->tensors);
    s->starts = calloc(inv->count, sizeof *s->starts);
    if (s->tensors == NULL || s->starts == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the plan of %s", s->name);
    }
    for (size_t i = 0; i < inv->count; i++) {
        if (shard_of[i] == k) {
            s->tensors[s->count++] = &inv->tensors[i];
        }
    }
    qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
    return make_header(s, err);
}

enum gr_status gr_synth_shards_plan(const struct gr_synth_inventory *inv, struct gr_synth_shard **out, size_t *n,
                                    struct gr_err *err)
{
    size_t *shard_of = calloc(inv->count, sizeof *shard_of);
    const size_t count = shard_of == NULL ? 0 : split(inv, shard_of);
    struct gr_synth_shard *shards = shard_of == NULL ? NULL : calloc(count, sizeof *shards);
    if (shards == NULL) {
        free(shard_of);
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the list of %zu tensors", inv->count);
    }
    enum gr_status status = GR_OK;
    for (size_t k = 0; k < count; k++) {
        shards[k].fd = -1;
    }
    for (size_t k = 0; k < count && status == GR_OK; k++) {
        status = plan_one(inv, shard_of, k, count, &shards[k], err);
    }
    free(shard_of);
    if (status != GR_OK) {
        gr_synth_shards_free(shards, count);
        return status;
    }
    *out = shards;
    *n = count;
    return GR_OK;
}

static void drop(struct gr_synth_shard *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd);
        s->fd = -1;
    }
    if (s->temp[0] != '\0') {
        (void)unlink(s->temp);
        s->temp[0] = '\0';
    }
}

void gr_synth_shards_free(struct gr_synth_shard *shards, size_t n)
{
    for (size_t i = 0; shards != NULL && i < n; i++) {
        drop(&shards[i]);
        free(shards[i].tensors);
        free(shards[i].starts);
        free(shards[i].header);
    }
    free(shards);
}

/* ---- crew ---- */

enum gr_status gr_synth_crew_new(const struct gr_synth_config *config, enum gr_synth_weights weights, uint64_t seed,
                                 int threads, struct gr_synth_crew *out, struct gr_err *err)
{
    enum gr_status status = GR_OK;
    *out = (struct gr_synth_crew){.threads = threads};
    out->fillers = calloc((size_t)threads, sizeof *out->fillers);
    out->buffers = calloc((size_t)threads, sizeof *out->buffers);
    if (out->fillers == NULL || out->buffers == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "out of memory for %d threads", threads);
        goto out;
    }
    for (int i = 0; i < threads; i++) {
        status = gr_synth_filler_new(config, weights, seed, &out->fillers[i], err);
        if (status != GR_OK) {
            goto out;
        }
        out->buffers[i] = malloc(GR_SYNTH_PIECE);
        if (out->buffers[i] == NULL) {
            status = gr_fail(err, GR_ERR_NOMEM, "out of memory for the write buffers (%d bytes a thread)",
                             (int)GR_SYNTH_PIECE);
            goto out;
        }
    }
    status = gr_pool_new(threads, &out->pool, err);
out:
    if (status != GR_OK) {
        gr_synth_crew_free(out);
    }
    return status;
}

void gr_synth_crew_free(struct gr_synth_crew *crew)
{
    gr_pool_free(crew->pool);
    for (int i = 0; i < crew->threads; i++) {
        if (crew->fillers != NULL) {
            gr_synth_filler_free(crew->fillers[i]);
        }
        if (crew->buffers != NULL) {
            free(crew->buffers[i]);
        }
    }
    free(crew->fillers);
    free(crew->buffers);
    *crew = (struct gr_synth_crew){0};
}

/* ---- write ---- */

/* Shared by the threads that write one file. */
struct job {
    const struct gr_synth_shard *shard;
    struct gr_synth_crew *crew;
    atomic_uint_fast64_t next; /* offset of the next piece nobody has taken */
    atomic_uint_fast64_t done; /* bytes written */
    atomic_int failed;         /* errno of the first failed write */
};

/* Bytes [offset, offset + n) of the file. Tensors and pieces start at even offsets, so elements are never split. */
static void fill_piece(const struct gr_synth_shard *s, struct gr_synth_filler *filler, uint64_t offset, size_t n,
                       uint8_t *out)
{
    const uint64_t end = offset + n;
    if (offset < s->header_bytes) {
        const uint64_t stop = end < s->header_bytes ? end : s->header_bytes;
        memcpy(out, s->header + offset, (size_t)(stop - offset));
    }
    size_t lo = 0, hi = s->count; /* first tensor that ends behind `offset` */
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (s->starts[mid] + 2 * s->tensors[mid]->elements <= offset) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    for (size_t i = lo; i < s->count && s->starts[i] < end; i++) {
        const uint64_t tensor_end = s->starts[i] + 2 * s->tensors[i]->elements;
        const uint64_t from = s->starts[i] > offset ? s->starts[i] : offset, to = tensor_end < end ? tensor_end : end;
        void *at = out + (from - offset);
        gr_synth_fill(filler, s->tensors[i], (from - s->starts[i]) / 2, (size_t)(to - from) / 2, at);
    }
}

static int write_all(int fd, const uint8_t *bytes, size_t n, uint64_t offset)
{
    while (n > 0) {
        const ssize_t done = pwrite(fd, bytes, n, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? errno : EIO;
        }
        bytes += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return 0;
}

static void write_pieces(int id, int n_threads, void *arg)
{
    struct job *job = arg;
    struct gr_synth_crew *crew = job->crew;
    const struct gr_synth_shard *s = job->shard;
    (void)n_threads;
    while (atomic_load(&job->failed) == 0) {
        const uint64_t offset = atomic_fetch_add(&job->next, GR_SYNTH_PIECE);
        if (offset >= s->file_bytes) {
            return;
        }
        const uint64_t left = s->file_bytes - offset;
        const size_t n = left < GR_SYNTH_PIECE ? (size_t)left : GR_SYNTH_PIECE;
        fill_piece(s, crew->fillers[id], offset, n, crew->buffers[id]);
        const int e = write_all(s->fd, crew->buffers[id], n, offset);
        if (e != 0) {
            int none = 0;
            atomic_compare_exchange_strong(&job->failed, &none, e);
            return;
        }
        /* Only starts the transfer; fsync reports what goes wrong with it. */
        (void)sync_file_range(s->fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
        const uint64_t done = atomic_fetch_add(&job->done, n) + n;
        if (id == 0 && crew->progress != NULL) {
            crew->progress(crew->user, "write weights", crew->done + done, crew->total);
        }
    }
}

/* A file in `dir` without a name, or with a temporary one where the file system cannot do that or /proc is missing. */
static enum gr_status make_file(struct gr_synth_shard *s, const char *dir, struct gr_err *err)
{
    static atomic_uint counter;
    char name[128];
    snprintf(name, sizeof name, ".%s.tmp-%ld-%u", s->name, (long)getpid(), atomic_fetch_add(&counter, 1u));
    GR_TRY(gr_path_join(s->path, dir, s->name, err));
    GR_TRY(gr_path_join(s->temp, dir, name, err));
    s->fd = access("/proc/self/fd", X_OK) == 0 ? open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    if (s->fd >= 0) {
        s->temp[0] = '\0';
        return GR_OK;
    }
    s->fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0) {
        const int e = errno;
        s->temp[0] = '\0';
        return gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot create", s->path);
    }
    return GR_OK;
}

/* Takes the blocks now, so that a full disk or a limit is found before anything is computed. */
static enum gr_status reserve(struct gr_synth_shard *s, struct gr_err *err)
{
    int e = 0;
    do {
        e = fallocate(s->fd, 0, 0, (off_t)s->file_bytes) != 0 ? errno : 0;
    } while (e == EINTR);
    if (e == EOPNOTSUPP || e == ENOSYS) {
        e = ftruncate(s->fd, (off_t)s->file_bytes) != 0 ? errno : 0;
    }
    return e == 0 ? GR_OK
                  : gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot reserve %llu bytes", s->path,
                                  (unsigned long long)s->file_bytes);
}

enum gr_status gr_synth_shard_write(struct gr_synth_shard *shard, const char *dir, struct gr_synth_crew *crew,
                                    struct gr_err *err)
{
    GR_TRY(make_file(shard, dir, err));
    enum gr_status status = reserve(shard, err);
    if (status == GR_OK) {
        struct job job = {.shard = shard, .crew = crew};
        gr_pool_run(crew->pool, write_pieces, &job);
        int e = atomic_load(&job.failed);
        if (e == 0 && fsync(shard->fd) != 0 && errno != EINVAL) { /* EINVAL: a file system without fsync */
            e = errno;
        }
        status = e == 0 ? GR_OK
                        : gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot write %llu bytes", shard->path,
                                        (unsigned long long)shard->file_bytes);
    }
    if (status != GR_OK) {
        drop(shard);
        return status;
    }
    crew->done += shard->file_bytes;
    if (crew->progress != NULL) {
        crew->progress(crew->user, "write weights", crew->done, crew->total);
    }
    return GR_OK;
}

enum gr_status gr_synth_shard_publish(struct gr_synth_shard *shard, struct gr_err *err)
{
    int e = 0;
    if (shard->temp[0] == '\0') { /* link cannot replace a file, rename can: give it a temporary name first */
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", shard->fd);
        int n = snprintf(shard->temp, sizeof shard->temp, "%s.tmp-%ld", shard->path, (long)getpid());
        if (n < 0 || (size_t)n >= sizeof shard->temp) {
            shard->temp[0] = '\0';
            return gr_fail(err, GR_ERR_IO, "%s: name is too long", shard->path);
        }
        if (linkat(AT_FDCWD, link, AT_FDCWD, shard->temp, AT_SYMLINK_FOLLOW) != 0) {
            e = errno;
            shard->temp[0] = '\0'; /* not ours */
        }
    }
    if (e == 0 && rename(shard->temp, shard->path) != 0) {
        e = errno;
    }
    if (e == 0) {
        shard->temp[0] = '\0';
    }
    drop(shard);
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, e, "%s: cannot put the finished file in place", shard->path);
}
