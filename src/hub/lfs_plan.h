/* SPDX-License-Identifier: Apache-2.0
 *
 * lfs_plan.h: what the Hub answers when it is asked where large files go: an address each, or one for every part. */
#ifndef GR_HUB_LFS_PLAN_H
#define GR_HUB_LFS_PLAN_H

#include "hub/upload_files.h"

enum { GR_LFS_ETAG_BYTES = 160 };

struct gr_lfs_object {
    const struct gr_upload_file *file;
    int n_parts; /* 0: the store has it */
    bool multipart;
    uint64_t chunk;                   /* bytes of a part, the last one may be shorter */
    char **addresses;                 /* [n_parts] */
    char **headers;                   /* that a single PUT carries; NULL-terminated, or NULL */
    char *complete, *verify;          /* NULL: none */
    char (*etags)[GR_LFS_ETAG_BYTES]; /* [n_parts], what the store called them */
    atomic_int left, refused;         /* parts to come; HTTP status of a refusal, 0: none */
};

/* Asks for n files (at most 256) and fills objects[n], which are zero. Free each with gr_lfs_object_free, also after a failure. GR_ERR_NETWORK: an
 * answer that makes no sense; statuses of gr_hub_call. */
enum gr_status gr_lfs_plan(struct gr_hub *hub, const char *id, const struct gr_upload_file *const *files, int n,
                           struct gr_lfs_object *objects, struct gr_err *err);
void gr_lfs_object_free(struct gr_lfs_object *o);
/* The part of the plan that reads one object of the answer; endpoint: of the Hub. */
struct gr_json;
enum gr_status gr_lfs_read_object(const char *endpoint, const struct gr_json *answer, struct gr_lfs_object *o,
                                  struct gr_err *err);

/* Bodies of the two closing calls. */
void gr_lfs_completion(const struct gr_lfs_object *o, struct gr_buf *out);
void gr_lfs_verification(const struct gr_lfs_object *o, struct gr_buf *out);

#endif
