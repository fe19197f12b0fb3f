/* SPDX-License-Identifier: Apache-2.0
 *
 * upload_call.h: what the parts of an upload share: a call with a JSON body, and a commit. */
#ifndef GR_HUB_UPLOAD_CALL_H
#define GR_HUB_UPLOAD_CALL_H

#include "base/json.h"
#include "base/jsonout.h"
#include "hub/upload_files.h"

/* The Hub and its store think for a while about large requests before the first byte of the answer. */
#define GR_UPLOAD_STALL_S 60.0

struct gr_upload_call {
    const char *method, *url; /* as in gr_hub_call */
    const char *type;         /* of the body; NULL: application/json */
    const struct gr_buf *body;
    bool (*keep)(int status);
    bool blind;       /* nobody reads the answer */
    const char *what; /* for messages: "ORG/NAME: commit" */
};
/* *root: the answer when it is JSON, NULL when a kept refusal is not; an answer 2xx that is none is GR_ERR_NETWORK. Free both. */
enum gr_status gr_upload_json(struct gr_hub *hub, const struct gr_upload_call *call, struct gr_http_reply *reply,
                              struct gr_json **root, struct gr_err *err);
/* Member of a JSON object when it is a string, else NULL. */
const char *gr_upload_text(const struct gr_json *object, const char *key);

/* The content of large files (send and lfs are set) to the store, those that it lacks. *sent: bytes that were. Statuses of gr_hub_push. */
enum gr_status gr_upload_lfs(struct gr_hub *hub, const char *id, const struct gr_upload_list *l,
                             void (*progress)(void *user, uint64_t done, uint64_t total), void *user, uint64_t *sent,
                             struct gr_err *err);

/* One commit on main: files to send, paths to delete. */
struct gr_upload_commit {
    const char *id, *parent, *summary;
    const struct gr_upload_list *list;
    const char *const *deleted;
    int n_deleted;
};
/* The paths are in the answer's commit, also when the answer was lost. commit: new head; url[url_bytes] may be "". GR_ERR_BUSY: the head is
 * somebody else's. */
enum gr_status gr_upload_commit(struct gr_hub *hub, const struct gr_upload_commit *c, char commit[GR_HUB_COMMIT_BYTES],
                                char *url, size_t url_bytes, struct gr_err *err);

#endif
