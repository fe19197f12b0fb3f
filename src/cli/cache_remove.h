/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_remove.h: repositories, or one snapshot of them, out of the Hub cache, without taking away a byte that another snapshot still links to. */
#ifndef GR_CLI_CACHE_REMOVE_H
#define GR_CLI_CACHE_REMOVE_H

#include "hub/hub_cache.h"

struct gr_cache_removed {
    int n_snapshots, n_blobs;
    uint64_t bytes; /* of the blobs */
    bool all;       /* nothing of the repository is left */
    bool link;      /* the repository's folder was a link, which went alone: nothing of what it leads to is counted */
    char path[GR_PATH_BYTES]; /* what was removed: the repository's folder, or that of the snapshot */
};
/* commit NULL: all of the repository. Of one snapshot: its folder, its kept listing, refs that lead to it, blobs that no other snapshot links to; with the
 * last one the repository goes. dry_run: only counts. GR_ERR_INPUT: not in the cache; GR_ERR_BUSY: it is being pulled; GR_ERR_IO. */
enum gr_status gr_cache_remove(const char *root, const char *id, const char *commit, bool dry_run,
                               struct gr_cache_removed *out, struct gr_err *err);

#endif
