/* SPDX-License-Identifier: Apache-2.0
 *
 * upload.h: a folder to a repository as one commit: large files through LFS (single or multi-part, those already there are not sent), small ones
 * inside the commit. The repository is at its old or its new commit, never between. */
#ifndef GR_HUB_UPLOAD_H
#define GR_HUB_UPLOAD_H

#include "hub/hub.h"

enum gr_visibility { GR_VISIBILITY_KEEP, GR_VISIBILITY_PRIVATE, GR_VISIBILITY_PUBLIC };

struct gr_push {
    const char *dir, *id;
    enum gr_visibility visibility; /* KEEP: private when the repository is created */
    const char *const
        *owned; /* folders ("code/", "image/") where remote files that `dir` lacks are deleted; NULL-terminated */
    const char *summary; /* of the commit */
    /* Last change of the card (README.md) before it is sent; text in and out. `remote`: the repository as it is now, NULL: it does not exist
     * yet. NULL: none. */
    enum gr_status (*rewrite)(void *user, const struct gr_hub_repo *remote, struct gr_buf *text, struct gr_err *err);
    void *user;
    bool dry_run; /* only GET and HEAD */
    /* Repository: "create"; files of `dir`: "send", "replace" (the Hub has one of that name with other bytes), "unchanged"; of the Hub: "delete", "keep" (somebody else's, it stays); visibility: "private",
     * "public". Before the commit; NULL: none. */
    void (*step)(void *user, const char *what, const char *path, uint64_t bytes);
    void (*progress)(void *user, uint64_t done,
                     uint64_t total); /* of large files; any thread, never two at once; NULL: none */
};
struct gr_pushed {
    char id[GR_HUB_ID_BYTES];         /* as the Hub spells it */
    char commit[GR_HUB_COMMIT_BYTES]; /* new head; "" when nothing changed or dry_run */
    char url[512];                    /* page of the commit, else of the repository */
    bool created, is_private, changed_visibility;
    int n_sent, n_unchanged, n_deleted;
    uint64_t
        bytes_sent; /* of files in the commit: what the store held already is counted, though it was not sent again */
};
/* GR_ERR_INPUT (folder), GR_ERR_FORMAT (the Hub refuses the card), GR_ERR_ACCESS, GR_ERR_NETWORK, GR_ERR_BUSY (somebody else committed
 * meanwhile: run again). A rerun sends what is missing. */
enum gr_status gr_hub_push(struct gr_hub *hub, const struct gr_push *push, struct gr_pushed *out, struct gr_err *err);

/* One small text file as a commit on top of repo->commit (from gr_hub_look). Statuses as gr_hub_push. */
enum gr_status gr_hub_put_text(struct gr_hub *hub, const struct gr_hub_repo *repo, const char *path,
                               const struct gr_buf *text, const char *summary, char commit[GR_HUB_COMMIT_BYTES],
                               struct gr_err *err);
/* PUT settings; KEEP does nothing. */
enum gr_status gr_hub_set_visibility(struct gr_hub *hub, const char *id, enum gr_visibility v, struct gr_err *err);
/* Name of the token's owner. GR_ERR_ACCESS. */
enum gr_status gr_hub_whoami(struct gr_hub *hub, char name[GR_HUB_ID_BYTES], struct gr_err *err);

#endif
