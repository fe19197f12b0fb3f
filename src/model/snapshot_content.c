/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_content.c: the checksum of all weights. Pieces of tensors are hashed by several threads, each with its place as seed, and added up: the
 * same sum for any number of threads. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "model/snapshot.h"

enum { PIECE = 4 << 20, LINE_BYTES = 64 };

struct sum {
    const struct gr_snapshot *snap;
    _Atomic uint64_t total;
};

static void add_share(int id, int n, void *arg)
{
    struct sum *s = arg;
    uint64_t place = 0, total = 0;
    for (size_t i = 0; i < gr_snapshot_count(s->snap); i++) {
        const struct gr_tensor *t = gr_snapshot_at(s->snap, i);
        for (size_t at = 0; at < t->bytes; at += PIECE, place++) {
            if (place % (uint64_t)n == (uint64_t)id) {
                total += gr_hash64((const char *)t->data + at, t->bytes - at < PIECE ? t->bytes - at : PIECE, place);
            }
        }
        gr_snapshot_done(s->snap, t); /* what another thread still wants of it comes back from the page cache */
    }
    s->total += total;
}

static enum gr_status add_up(const struct gr_snapshot *snap, int threads, uint64_t *out, struct gr_err *err)
{
    struct gr_pool *pool;
    struct sum s = {.snap = snap};
    GR_TRY(gr_pool_new(threads, &pool, err));
    gr_pool_run(pool, add_share, &s);
    gr_pool_free(pool);
    *out = s.total;
    return GR_OK;
}

/* "STATE CONTENT CHECK": the last one over the two before, so that a damaged line is none. */
static void write_line(uint64_t state, uint64_t content, char out[LINE_BYTES])
{
    const uint64_t both[] = {state, content};
    (void)snprintf(out, LINE_BYTES, "%016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", state, content,
                   gr_hash64(both, sizeof both, 0));
}

static bool read_memo(const char *path, uint64_t state, uint64_t *content)
{
    struct gr_err none;
    char *text = NULL, same[LINE_BYTES];
    size_t n;
    uint64_t found;
    if (!gr_fs_is_file(path) || gr_fs_read(path, LINE_BYTES, &text, &n, &none) != GR_OK) {
        return false;
    }
    const bool two = sscanf(text, "%16" SCNx64 " %16" SCNx64, &found, content) == 2;
    if (two) {
        write_line(state, *content, same);
    }
    const bool ok = two && strcmp(text, same) == 0;
    free(text);
    return ok;
}

enum gr_status gr_snapshot_content(const struct gr_snapshot *snap, const char *memo_dir, int threads,
                                   char hex[GR_CONTENT_BYTES], struct gr_err *err)
{
    const uint64_t state = gr_snapshot_state(snap);
    char name[LINE_BYTES], path[GR_PATH_BYTES], line[LINE_BYTES];
    uint64_t content;
    struct gr_err none;
    (void)snprintf(name, sizeof name, "content-%016" PRIx64 ".txt", state);
    GR_TRY(gr_path_join(path, memo_dir, name, err));
    if (!read_memo(path, state, &content)) {
        GR_TRY(add_up(snap, threads, &content, err));
        write_line(state, content, line);
        if (gr_fs_mkdirs(memo_dir, &none) == GR_OK) {
            (void)gr_fs_write(path, line, strlen(line), &none); /* the next start reads everything again */
        }
    }
    (void)snprintf(hex, GR_CONTENT_BYTES, "%016" PRIx64, content);
    return GR_OK;
}
