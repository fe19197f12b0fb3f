/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_cache.h: the Hub cache on disk, as the Python client lays it out (blobs, snapshots, refs, locks, trees), so that each reads what the
 * other wrote:
 *   <root>/models--ORG--NAME/blobs/<oid>, snapshots/<commit>/<path> -> ../../blobs/<oid>, refs/<revision>, trees/<commit>.json,
 *   <root>/.locks/models--ORG--NAME/<oid>.lock (flock), blobs/<oid>.incomplete (ours: resumed under the lock, hashed again first). */
#ifndef GR_HUB_HUB_CACHE_H
#define GR_HUB_HUB_CACHE_H

#include "base/fs.h"
#include "hub/hub.h"

/* "models--ORG--NAME". GR_ERR_USAGE: no repository. */
enum { GR_CACHE_NAME_BYTES = GR_HUB_ID_BYTES + 16 };
enum gr_status gr_cache_name(const char *id, char out[GR_CACHE_NAME_BYTES], struct gr_err *err);
/* All into out[GR_PATH_BYTES]. GR_ERR_USAGE: a name that would leave the cache, or too long. */
enum gr_status gr_cache_model(const char *root, const char *id, char *out, struct gr_err *err);
enum gr_status gr_cache_blob(const char *root, const char *id, const char *oid, char *out, struct gr_err *err);
enum gr_status gr_cache_snapshot(const char *root, const char *id, const char *commit, char *out, struct gr_err *err);

/* Commit that refs/<revision> names, or the revision itself when it is one. GR_ERR_FORMAT: not in the cache; the message names a commit that is, since
 * a pull of a bare commit leaves no ref, as the Python client does. */
enum gr_status gr_cache_resolve(const char *root, const char *id, const char *revision,
                                char commit[GR_HUB_COMMIT_BYTES], struct gr_err *err);
enum gr_status gr_cache_write_ref(const char *root, const char *id, const char *revision, const char *commit,
                                  struct gr_err *err);
/* Number of snapshots of the repository, and the commit of one of them ("" for none). */
int gr_cache_snapshots(const char *root, const char *id, char one[GR_HUB_COMMIT_BYTES]);
/* Relative link of the snapshot to a blob that is there; replaces a link or file of that name, touches nothing when it is right already. */
enum gr_status gr_cache_link(const char *root, const char *id, const char *commit, const char *path, const char *oid,
                             struct gr_err *err);
/* trees/<commit>.json, mode 0600, and <root>/CACHEDIR.TAG; neither is touched when it is there and says the same. */
enum gr_status gr_cache_write_tree(const char *root, const struct gr_hub_repo *repo, struct gr_err *err);
/* Files of a commit as the tree says; GR_ERR_FORMAT: none is kept. Free with gr_hub_repo_free. */
enum gr_status gr_cache_read_tree(const char *root, const char *id, const char *commit, struct gr_hub_repo *out,
                                  struct gr_err *err);

/* The same from the links of snapshots/<commit>, for caches that keep no tree: what is there, which need not be all. GR_ERR_FORMAT: no such
 * snapshot, or a link whose blob is gone. */
enum gr_status gr_cache_read_links(const char *root, const char *id, const char *commit, struct gr_hub_repo *out,
                                   struct gr_err *err);
/* A blob of that size is there. */
bool gr_cache_has(const char *root, const char *id, const struct gr_hub_file *f);

/* flock on the blob's lock file without waiting: *fd is the lock (close it to let go), -1 while another process has it. */
enum gr_status gr_cache_try_lock(const char *root, const char *id, const char *oid, int *fd, struct gr_err *err);

#endif
