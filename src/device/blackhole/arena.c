/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c: all streams of a plan as one block of memory, tile by tile and stream by stream: filled by threads piece by piece, or read
 * from the cache folder; written to DRAM stream by stream. */
#include "device/blackhole/arena.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "device/blackhole/arena_impl.h"
#include "device/cache.h"

enum {
    UPLOAD_STEP = 4 << 20,
    SHOW_PACKED = 16 << 20,
    SHOW_UPLOADED = 64 << 20 /* bytes between two calls of progress */
};

struct placed { /* a piece and where its bytes begin in the block */
    const struct gr_bh_piece *piece;
    size_t at;
    struct gr_bh_piece_error error;
};

struct gr_bh_arena {
    struct gr_bh_arena_cfg cfg;
    const struct gr_bh_stream_plan *plan;
    int streams;
    size_t *at; /* [streams] first byte in the block */
    uint8_t *block;
    size_t bytes;
    struct placed *placed; /* NULL when the block came from the cache */
    size_t pieces;
    struct gr_cache cache;
};

void gr_bh_arena_close(struct gr_bh_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    if (arena->block != NULL) {
        gr_big_free(arena->block, arena->bytes);
    }
    free(arena->placed);
    free(arena->at);
    free(arena);
}

/* ---- building ---- */

struct pack_job {
    struct gr_bh_arena *arena;
    _Atomic size_t next, done; /* pieces taken, bytes written */
    size_t shown;
};

static void pack(int id, int n, void *arg)
{
    struct pack_job *j = arg;
    const struct gr_bh_arena *a = j->arena;
    (void)n;
    for (size_t i; (i = atomic_fetch_add(&j->next, 1)) < a->pieces;) {
        struct placed *p = &a->placed[i];
        gr_bh_piece_put(p->piece, a->cfg.weights, a->block + p->at, &p->error);
        const size_t bytes = gr_bh_piece_bytes(p->piece, a->cfg.weights);
        const size_t done = atomic_fetch_add(&j->done, bytes) + bytes;
        if (id == 0 && a->cfg.progress != NULL && done - j->shown >= SHOW_PACKED) { /* thread 0 is the caller's */
            j->shown = done;
            a->cfg.progress(a->cfg.progress_user, "pack weights", done, a->bytes);
        }
    }
}

/* Where every stream begins, and the size of all. Checks every piece. */
static enum gr_status measure(struct gr_bh_arena *a, struct gr_err *err)
{
    for (int s = 0; s < a->streams; s++) {
        const struct gr_bh_stream_plan *plan = &a->plan[s];
        size_t sum = 0;
        for (size_t i = 0; i < plan->pieces; i++) {
            GR_TRY(gr_bh_piece_check(&plan->piece[i], err));
            sum += gr_bh_piece_bytes(&plan->piece[i], a->cfg.weights);
        }
        if (sum != plan->bytes) {
            return gr_fail(err, GR_ERR_DEVICE, "stream %d of tile %d: its pieces have %zu bytes, its plan %zu",
                           s % GR_BH_STREAMS, s / GR_BH_STREAMS, sum, plan->bytes);
        }
        a->at[s] = a->bytes;
        a->pieces += plan->pieces;
        if (!gr_size_add(a->bytes, sum, &a->bytes)) {
            return gr_fail(err, GR_ERR_NOMEM, "streams: more bytes than an address has");
        }
    }
    return a->bytes > 0
               ? GR_OK
               : gr_fail(err, GR_ERR_DEVICE, "streams: the plan of %d tiles is empty", a->streams / GR_BH_STREAMS);
}

static enum gr_status build(struct gr_bh_arena *a, struct gr_pool *pool, struct gr_err *err)
{
    a->placed = calloc(a->pieces, sizeof *a->placed);
    if (a->placed == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "streams: no memory for a list of %zu pieces", a->pieces);
    }
    struct placed *p = a->placed;
    for (int s = 0; s < a->streams; s++) {
        size_t at = a->at[s];
        for (size_t i = 0; i < a->plan[s].pieces; i++, p++) {
            p->piece = &a->plan[s].piece[i];
            p->at = at;
            at += gr_bh_piece_bytes(p->piece, a->cfg.weights);
        }
    }
    struct pack_job j = {.arena = a};
    gr_pool_run(pool, pack, &j);
    if (a->cfg.progress != NULL) {
        a->cfg.progress(a->cfg.progress_user, "pack weights", a->bytes, a->bytes);
    }
    /* The tiles hold the largest number instead: a chip would compute on and answer something. */
    for (size_t i = 0; i < a->pieces; i++) {
        if (a->placed[i].error.broken) {
            return gr_fail(
                err, GR_ERR_FORMAT,
                "tensor %s or its bias holds NaN or a magnitude of 65536 or more, with which this device does not compute",
                a->placed[i].piece->w->name);
        }
    }
    return GR_OK;
}

static enum gr_status fill(struct gr_bh_arena *a, struct gr_pool *pool, struct gr_err *err)
{
    char key[GR_CACHE_KEY_BYTES] = "";
    void *block;
    if (a->cfg.cache_dir != NULL) {
        GR_TRY(gr_bh_arena_key(a->plan, a->streams / GR_BH_STREAMS, &a->cfg, key, sizeof key, err));
    }
    GR_TRY(gr_big_alloc(a->bytes, "streams of weights", &block, err));
    a->block = block;
    a->cache.pool = pool;
    a->cache.progress = a->cfg.progress;
    a->cache.progress_user = a->cfg.progress_user;
    gr_cache_init(&a->cache, a->cfg.cache_dir, key);
    if (!gr_cache_read(&a->cache, a->block, a->bytes)) {
        GR_TRY(build(a, pool, err));
        gr_cache_write(&a->cache, a->block, a->bytes);
    }
    a->cache.pool = NULL;
    return GR_OK;
}

static struct gr_bh_arena *new_arena(const struct gr_bh_stream_plan *plan, int tiles, const struct gr_bh_arena_cfg *cfg)
{
    struct gr_bh_arena *a = calloc(1, sizeof *a);
    if (a == NULL) {
        return NULL;
    }
    a->cfg = *cfg;
    a->plan = plan;
    a->streams = tiles * GR_BH_STREAMS;
    a->at = calloc((size_t)a->streams, sizeof *a->at);
    if (a->at == NULL) {
        free(a);
        return NULL;
    }
    return a;
}

enum gr_status gr_bh_arena_open(const struct gr_bh_stream_plan *plan, int tiles, const struct gr_bh_arena_cfg *cfg,
                                struct gr_bh_arena **out, struct gr_err *err)
{
    struct gr_pool *pool = NULL;
    GR_TRY(gr_pool_new(cfg->threads, &pool, err));
    struct gr_bh_arena *a = new_arena(plan, tiles, cfg);
    if (a == NULL) {
        gr_pool_free(pool);
        return gr_fail(err, GR_ERR_NOMEM, "streams: no memory for %d tiles", tiles);
    }
    enum gr_status status = measure(a, err);
    if (status == GR_OK) {
        status = fill(a, pool, err);
    }
    gr_pool_free(pool);
    if (status != GR_OK) {
        gr_bh_arena_close(a);
        return status;
    }
    *out = a;
    return GR_OK;
}

/* ---- the result ---- */

const void *gr_bh_arena_stream(const struct gr_bh_arena *arena, int tile, int stream)
{
    return arena->block + arena->at[tile * GR_BH_STREAMS + stream];
}

uint64_t gr_bh_arena_bytes(const struct gr_bh_arena *arena) { return arena->bytes; }
enum gr_cache_state gr_bh_arena_cache(const struct gr_bh_arena *arena) { return arena->cache.state; }
const char *gr_bh_arena_file(const struct gr_bh_arena *arena) { return arena->cache.path; }
const char *gr_bh_arena_note(const struct gr_bh_arena *arena) { return arena->cache.note; }

enum gr_status gr_bh_arena_upload(const struct gr_bh_arena *arena, struct gr_bh_machine *m, struct gr_err *err)
{
    uint64_t done = 0, shown = 0;
    for (int s = 0; s < arena->streams; s++) {
        const struct gr_bh_stream_plan *plan = &arena->plan[s];
        for (size_t at = 0; at < plan->bytes;) {
            const size_t n = plan->bytes - at < UPLOAD_STEP ? plan->bytes - at : UPLOAD_STEP;
            GR_TRY(m->ops->dram_write(m, plan->channel, plan->addr + at, arena->block + arena->at[s] + at, n, err));
            at += n;
            done += n;
            if (arena->cfg.progress != NULL && (done == arena->bytes || done - shown >= SHOW_UPLOADED)) {
                shown = done;
                arena->cfg.progress(arena->cfg.progress_user, "upload weights", done, arena->bytes);
            }
        }
    }
    return GR_OK;
}

/* ---- report ---- */

struct line {
    const struct gr_bh_matrix *w;
    size_t first; /* piece */
    struct gr_bh_piece_error error;
};

static int by_matrix(const void *x, const void *y)
{
    const struct line *a = x, *b = y;
    return a->w != b->w ? ((uintptr_t)a->w < (uintptr_t)b->w ? -1 : 1) : a->first < b->first ? -1 : a->first > b->first;
}

static double relative(const struct line *l)
{
    return l->error.signal > 0 ? sqrt(l->error.error / l->error.signal) : 0;
}

static int by_error(const void *x, const void *y)
{
    const struct line *a = x, *b = y;
    const double ea = relative(a), eb = relative(b);
    return ea != eb ? (ea > eb ? -1 : 1) : a->first < b->first ? -1 : a->first > b->first;
}

void gr_bh_arena_report(const struct gr_bh_arena *arena, void (*line)(void *user, const char *text), void *user)
{
    struct line *lines = arena->placed != NULL ? calloc(arena->pieces, sizeof *lines) : NULL;
    size_t n = 0, matrices = 0;
    if (lines == NULL) {
        return;
    }
    for (size_t i = 0; i < arena->pieces; i++) {
        if (arena->placed[i].piece->kind == GR_BH_PIECE_COLUMN) {
            lines[n++] = (struct line){arena->placed[i].piece->w, i, arena->placed[i].error};
        }
    }
    qsort(lines, n, sizeof *lines,
          by_matrix); /* pieces of a matrix side by side, in their order: sums do not depend on threads */
    for (size_t i = 0; i < n; i++) {
        if (matrices > 0 && lines[matrices - 1].w == lines[i].w) {
            lines[matrices - 1].error.error += lines[i].error.error;
            lines[matrices - 1].error.signal += lines[i].error.signal;
        } else {
            lines[matrices++] = lines[i];
        }
    }
    qsort(lines, matrices, sizeof *lines, by_error);
    for (size_t i = 0; i < matrices; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "%s\t%.3e", lines[i].w->name, relative(&lines[i]));
        line(user, text);
    }
    free(lines);
}
