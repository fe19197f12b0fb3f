/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.h: packed weights on disk: one file "packed-<key>.gr00t" a set of weights and settings. Nothing here can make a load fail: a file
 * that is damaged, foreign, half-written or unreadable counts as none, one that cannot be written stays unwritten, and `note`
 * says why. */
#ifndef GR_DEVICE_CACHE_H
#define GR_DEVICE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/thread_pool.h"
#include "gr00t.h"

enum { GR_CACHE_KEY_BYTES = 1024 };

struct gr_cache {
    enum gr_cache_state state;
    char key[GR_CACHE_KEY_BYTES]; /* everything the content depends on, as text; the rest zero */
    char path[GR_PATH_BYTES];     /* "": none */
    char note[GR_ERR_MSG_BYTES];  /* "": nothing to say */
    bool dirty;                   /* the last gr_cache_read failed and wrote to its block */
    struct gr_pool *pool;         /* hashes and reads */
    gr_progress_fn progress;      /* may be NULL */
    void *progress_user;
};

/* Fills in key and path (the caller has set pool and progress) and removes what killed writers left in the folder. dir NULL: off. */
void gr_cache_init(struct gr_cache *c, const char *dir, const char *key);
/* Adds to the note. */
void gr_cache_say(struct gr_cache *c, const char *text);
/* Fills the block from the file; false, with the block in any state (dirty tells): there is no valid one. */
bool gr_cache_read(struct gr_cache *c, void *block, size_t bytes);
/* Stores the block. state becomes GR_CACHE_WRITTEN or GR_CACHE_UNWRITTEN. */
void gr_cache_write(struct gr_cache *c, const void *block, size_t bytes);

#endif
