/* SPDX-License-Identifier: Apache-2.0
 *
 * download.h: a repository's files at one commit into the Hub cache: parallel ranges of the large ones, resumed across processes, every byte
 * hashed against the Hub's object id before it gets its name. A snapshot never holds a wrong byte. */
#ifndef GR_HUB_DOWNLOAD_H
#define GR_HUB_DOWNLOAD_H

#include "base/fs.h"
#include "hub/hub.h"

struct gr_pull {
    const char *id, *revision; /* revision NULL: main */
    struct gr_hub_patterns patterns;
    int connections; /* 0: 8; at most GR_PULL_CONNECTIONS_MAX */
    bool dry_run;    /* look and count only */
    bool force;      /* fetch again what is there */
    /* At most ten times a second and at the end; any thread, never two at once. NULL: none. */
    void (*progress)(void *user, uint64_t done, uint64_t total, const char *path);
    void *progress_user;
    /* What the revision holds, before anything is fetched: not GR_OK ends the pull with that status. NULL: none. */
    enum gr_status (*looked)(void *user, const struct gr_hub_repo *repo, struct gr_err *err);
    void *looked_user;
};
enum { GR_PULL_CONNECTIONS_MAX = 16 };
struct gr_pulled {
    char id[GR_HUB_ID_BYTES], commit[GR_HUB_COMMIT_BYTES]; /* id: as asked for, which names the folder in the cache */
    char snapshot[GR_PATH_BYTES];                          /* folder */
    int n_files, n_present;                                /* wanted; of these complete before */
    uint64_t bytes, bytes_present, bytes_fetched;
    struct gr_hub_repo
        repo; /* what the Hub lists (offline, or with everything of a commit there: what the cache remembers) */
};
/* Order: look, check free disk space (both numbers in the message), files, and the ref last: until then a branch name leads to the snapshot that
 * it led to before. Large files come in ranges over several connections and are written in order, so that <oid>.incomplete is always the beginning
 * of the file, whenever the process ends; the next call hashes it again and goes on. Two calls share the work by the locks of the cache. A file is
 * there when its blob has the right size: blobs get their name only after their hash was right. A commit that is there completely needs no network,
 * and no write. Offline: succeeds when everything that the tree lists is there. GR_ERR_IO (disk full), GR_ERR_INPUT (nothing matches, not found), GR_ERR_FORMAT (bytes that do not hash to their id after
 * a second try), GR_ERR_NETWORK (also offline: the revision or a file of it is not there), GR_ERR_ACCESS, GR_ERR_BUSY (cancelled; what came so far is kept for the next call). */
enum gr_status gr_hub_pull(struct gr_hub *hub, const struct gr_pull *pull, struct gr_pulled *out, struct gr_err *err);
void gr_pulled_free(struct gr_pulled *p);
/* One small file (at most max_bytes) of a repository into memory, hashed like the others; from the cache when it is there. */
enum gr_status gr_hub_fetch_text(struct gr_hub *hub, const struct gr_hub_repo *repo, const char *path, size_t max_bytes,
                                 struct gr_buf *out, struct gr_err *err);

#endif
