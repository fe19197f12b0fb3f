/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.c: the file of packed weights: a header with the key and a hash of every 1 MiB chunk, itself hashed, then the block as it stands in
 * memory. Every field is compared with what this process expects; no size or position is taken from the file. Read, not mapped:
 * products stream weights from huge pages, which a file mapping does not get, and a file that shrinks later cannot hurt. */
#include "device/cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/hash.h"

/* VERSION: raise it whenever the same key would give other bytes: packing, constants, order of parts. */
enum { VERSION = 1, BYTE_ORDER_MARK = 0x01020304, CHUNK = 1 << 20, PAGE = 4096, NAME_HEX = 32 };
enum { BATCH = 128 /* chunks between two calls of progress */, WRITE_STEP = 32 * CHUNK };
enum { SPARE = 64 << 20 /* bytes of disk that are left to others */ };

static const char magic[8] = "GR00TPAK";

struct header { /* native byte order; behind it a hash a chunk, then zeros up to `header_bytes` */
    char magic[8];
    uint32_t version, byte_order;
    uint64_t header_bytes, data_bytes, chunk_bytes;
    uint64_t hash; /* of the header with zero here */
    char key[GR_CACHE_KEY_BYTES];
};

static size_t chunk_count(size_t bytes) { return bytes / CHUNK + (bytes % CHUNK != 0); }

static size_t header_size(size_t bytes)
{
    size_t n = sizeof(struct header) + chunk_count(bytes) * sizeof(uint64_t);
    return (n + PAGE - 1) / PAGE * PAGE;
}

static uint64_t header_hash(const struct header *h, size_t header_bytes)
{
    struct header bare = *h;
    bare.hash = 0;
    uint64_t first = gr_hash64(&bare, sizeof bare, VERSION);
    return gr_hash64(h + 1, header_bytes - sizeof bare, first);
}

void gr_cache_say(struct gr_cache *c, const char *text)
{
    size_t at = strlen(c->note);
    if (strstr(c->note, text) == NULL) { /* a load may ask for several files of one folder */
        (void)snprintf(c->note + at, sizeof c->note - at, "%s%s", at > 0 ? "; " : "", text);
    }
}

static void show(const struct gr_cache *c, const char *what, size_t done, size_t total)
{
    if (c->progress != NULL) {
        c->progress(c->progress_user, what, done, total);
    }
}

static enum gr_status name_file(struct gr_cache *c, const char *dir, struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES], name[64];
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, c->key, sizeof c->key);
    GR_TRY(gr_digest_end(d, hex, err));
    (void)snprintf(name, sizeof name, "packed-%.*s.gr00t", NAME_HEX, hex);
    return gr_path_join(c->path, dir, name, err);
}

void gr_cache_init(struct gr_cache *c, const char *dir, const char *key)
{
    struct gr_err err;
    c->state = GR_CACHE_OFF;
    if (dir == NULL) {
        return;
    }
    c->state = GR_CACHE_UNWRITTEN;
    (void)snprintf(c->key, sizeof c->key, "%s", key);
    if (strlen(key) >= sizeof c->key) {
        gr_cache_say(c, "the key of the packed weights is too long"); /* cut, it could stand for other weights */
        return;
    }
    if (dir[0] == '\0') {
        gr_cache_say(c, "the name of the cache folder is empty");
        return;
    }
    if (name_file(c, dir, &err) != GR_OK) {
        gr_cache_say(c, err.msg);
        c->path[0] = '\0';
        return;
    }
    gr_writer_sweep(dir, "packed-");
}

/* ---- chunks, on all threads ---- */

struct chunk_job {
    int fd; /* -1: hash only */
    uint64_t data_at;
    const char *path;
    uint8_t *block;
    size_t bytes, end; /* chunks before `end` are taken */
    _Atomic size_t next;
    uint64_t *sums;
    _Atomic bool failed;
    struct gr_err err; /* of the first thread that failed */
    atomic_flag reported;
};

static void report(struct chunk_job *j, const struct gr_err *err)
{
    if (!atomic_flag_test_and_set(&j->reported)) {
        j->err = *err;
    }
    atomic_store(&j->failed, true);
}

static void do_chunks(int id, int n, void *arg)
{
    struct chunk_job *j = arg;
    (void)id;
    (void)n;
    for (;;) {
        size_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->end || atomic_load(&j->failed)) {
            return;
        }
        size_t at = i * CHUNK, left = j->bytes - at, size = left < CHUNK ? left : CHUNK;
        struct gr_err err;
        if (j->fd >= 0 && gr_fs_read_at(j->fd, j->path, j->block + at, size, j->data_at + at, &err) != GR_OK) {
            report(j, &err);
            return;
        }
        uint64_t sum = gr_hash64(j->block + at, size, i);
        if (j->fd < 0) {
            j->sums[i] = sum;
        } else if (sum != j->sums[i]) {
            (void)gr_fail(&err, GR_ERR_FORMAT, "%s: is damaged at byte %llu", j->path,
                          (unsigned long long)(j->data_at + at));
            report(j, &err);
            return;
        }
    }
}

/* Reads and checks, or hashes, all chunks. */
static bool run_chunks(const struct gr_cache *c, struct chunk_job *j, const char *what)
{
    const size_t chunks = chunk_count(j->bytes);
    atomic_init(&j->next, 0);
    atomic_init(&j->failed, false);
    atomic_flag_clear(&j->reported);
    for (size_t first = 0; first < chunks && !atomic_load(&j->failed); first += BATCH) {
        j->end = chunks - first < BATCH ? chunks : first + BATCH;
        atomic_store(&j->next, first);
        gr_pool_run(c->pool, do_chunks, j);
        if (what != NULL) {
            show(c, what, j->end == chunks ? j->bytes : j->end * CHUNK, j->bytes);
        }
    }
    return !atomic_load(&j->failed);
}

/* ---- read ---- */

static enum gr_status check_header(const struct gr_cache *c, const struct header *h, size_t bytes, struct gr_err *err)
{
    const char *p = c->path;
    if (memcmp(h->magic, magic, sizeof magic) != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: is not a file of packed weights", p);
    }
    if (h->byte_order != BYTE_ORDER_MARK) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: was written on a machine of another byte order", p);
    }
    if (h->version != VERSION) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: has format version %u, expected %d", p, h->version, VERSION);
    }
    if (header_hash(h, header_size(bytes)) != h->hash) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: its header is damaged", p);
    }
    if (memcmp(h->key, c->key, sizeof c->key) != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: belongs to other weights or settings", p);
    }
    if (h->header_bytes != header_size(bytes) || h->data_bytes != bytes || h->chunk_bytes != CHUNK) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: holds %llu bytes, expected %zu", p, (unsigned long long)h->data_bytes,
                       bytes);
    }
    return GR_OK;
}

static enum gr_status read_file(struct gr_cache *c, int fd, size_t file_bytes, void *block, size_t bytes,
                                struct gr_err *err)
{
    const size_t head = header_size(bytes);
    struct header *h = malloc(head);
    if (h == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its header", c->path);
    }
    enum gr_status status = gr_fs_read_at(fd, c->path, h, file_bytes < head ? file_bytes : head, 0, err);
    if (status == GR_OK && file_bytes < head) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: has %zu bytes, expected %zu", c->path, file_bytes, head + bytes);
    }
    if (status == GR_OK) {
        status = check_header(c, h, bytes, err);
    }
    if (status == GR_OK && file_bytes != head + bytes) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: has %zu bytes, expected %zu", c->path, file_bytes, head + bytes);
    }
    if (status == GR_OK) {
        struct chunk_job j = {
            .fd = fd, .path = c->path, .data_at = head, .block = block, .bytes = bytes, .sums = (uint64_t *)(h + 1)};
        if (!run_chunks(c, &j, "read packed weights")) {
            c->dirty = true;
            *err = j.err;
            status = err->code;
        }
    }
    free(h);
    return status;
}

bool gr_cache_read(struct gr_cache *c, void *block, size_t bytes)
{
    struct gr_err err;
    int fd = -1;
    size_t file_bytes = 0;
    c->dirty = false;
    if (c->path[0] == '\0' || access(c->path, F_OK) != 0) {
        return false; /* nothing there is nothing to say */
    }
    enum gr_status status = gr_fs_open(c->path, &fd, &file_bytes, &err);
    if (status == GR_OK) {
        status = read_file(c, fd, file_bytes, block, bytes, &err);
        (void)close(fd);
    }
    if (status != GR_OK) {
        gr_cache_say(c, err.msg);
        return false;
    }
    c->state = GR_CACHE_WARM;
    return true;
}

/* ---- write ---- */

static enum gr_status check_space(const char *dir, size_t bytes, struct gr_err *err)
{
    uint64_t room;
    GR_TRY(gr_fs_free_bytes(dir, &room, err));
    if (room < (uint64_t)bytes + SPARE) {
        return gr_fail(err, GR_ERR_IO, "%s: %.1f MB are free, packed weights need %.1f MB", dir, (double)room / 1e6,
                       ((double)bytes + SPARE) / 1e6);
    }
    return GR_OK;
}

static enum gr_status write_file(struct gr_cache *c, const struct header *h, const uint8_t *block, size_t bytes,
                                 struct gr_err *err)
{
    struct gr_writer *w = NULL;
    GR_TRY(gr_writer_open(c->path, &w, err));
    enum gr_status status = gr_writer_write(w, h, header_size(bytes), err);
    for (size_t at = 0; status == GR_OK && at < bytes; at += WRITE_STEP) {
        size_t size = bytes - at < WRITE_STEP ? bytes - at : WRITE_STEP;
        status = gr_writer_write(w, block + at, size, err);
        show(c, "store packed weights", at + size, bytes);
    }
    if (status != GR_OK) {
        gr_writer_abort(w);
        return status;
    }
    return gr_writer_commit(w, err);
}

static enum gr_status store(struct gr_cache *c, const void *block, size_t bytes, struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    memcpy(dir, c->path, sizeof dir);
    *strrchr(dir, '/') = '\0'; /* path is dir/name */
    const char *folder = dir[0] != '\0' ? dir : "/";
    GR_TRY(gr_fs_mkdirs(folder, err));
    GR_TRY(check_space(folder, header_size(bytes) + bytes, err));
    struct header *h = calloc(1, header_size(bytes));
    if (h == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its header", c->path);
    }
    memcpy(h->magic, magic, sizeof magic);
    h->version = VERSION;
    h->byte_order = BYTE_ORDER_MARK;
    h->header_bytes = header_size(bytes);
    h->data_bytes = bytes;
    h->chunk_bytes = CHUNK;
    memcpy(h->key, c->key, sizeof h->key);
    /* Nothing is written through `block`: the job only hashes. */
    struct chunk_job j = {
        .fd = -1, .path = c->path, .block = (uint8_t *)(uintptr_t)block, .bytes = bytes, .sums = (uint64_t *)(h + 1)};
    (void)run_chunks(c, &j, NULL);
    h->hash = header_hash(h, header_size(bytes));
    enum gr_status status = write_file(c, h, block, bytes, err);
    free(h);
    return status;
}

void gr_cache_write(struct gr_cache *c, const void *block, size_t bytes)
{
    struct gr_err err;
    if (c->path[0] == '\0') {
        return;
    }
    if (store(c, block, bytes, &err) == GR_OK) {
        c->state = GR_CACHE_WRITTEN;
    } else {
        c->state = GR_CACHE_UNWRITTEN;
        gr_cache_say(c, err.msg);
    }
}
