/* SPDX-License-Identifier: Apache-2.0
 *
 * download_parts.h: what the files of a download share: one pull, the blobs it lacks, and the transfers that run. Workers (one a connection) fetch;
 * a large blob also has a writer, which takes its parts in order, hashes and appends them, so that the file on disk is always a beginning of
 * the blob without a hole. */
#ifndef GR_HUB_DOWNLOAD_PARTS_H
#define GR_HUB_DOWNLOAD_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/digest.h"
#include "hub/download.h"
#include "hub/hub_cache.h"

enum { GR_DL_PARTS_MAX = GR_PULL_CONNECTIONS_MAX + 2 };

/* A range on its way. */
struct gr_dl_part {
    uint64_t from;
    size_t n, filled, used; /* of which received, and taken by the writer */
    uint8_t *bytes;         /* [part_bytes of the pull] */
};

enum gr_dl_trouble {
    GR_DL_NONE,
    GR_DL_NO_RANGES, /* the server answers a range with the whole file */
    GR_DL_SPOILED    /* what came cannot be right: begin again */
};

struct gr_dl_transfer {
    struct gr_dl *dl;
    struct gr_dl_blob *blob;
    int lock_fd, fd;
    char path[GR_PATH_BYTES]; /* <blob>.incomplete */
    struct gr_digest *digest;
    uint64_t resumed, written,
        next;  /* bytes found; hashed and on disk (the writer's, else the owner's); first byte without a part */
    char *url; /* signed address at a storage host; NULL: ask the Hub */
    /* while it has a writer, all under the pull's lock: */
    bool writer_done, settling;
    pthread_t writer;
    pthread_cond_t data;
    struct gr_dl_part parts[GR_DL_PARTS_MAX]; /* ring, in order */
    int head, n_parts, busy;                  /* busy: workers in a part */
    _Atomic int trouble;                      /* enum gr_dl_trouble: everybody lets go of it */
};

/* An object to fetch; several files may have the same one. */
struct gr_dl_blob {
    const struct gr_hub_file *const *files;
    int n_files;
    bool again; /* the second try: the first did not hash to the id */
};

struct gr_dl {
    struct gr_hub *hub;
    const struct gr_hub_config *cfg;
    const struct gr_pull *pull;
    const struct gr_hub_repo *repo;
    struct gr_dl_blob *blobs; /* that are missing */
    int n_blobs;
    int workers;
    size_t part_bytes;

    pthread_mutex_t lock;
    pthread_cond_t work;
    _Atomic bool stop;
    enum gr_status status; /* of the first failure */
    struct gr_err err;
    int next_blob, n_left;   /* not opened yet; not finished */
    int n_owned;             /* a worker has it for itself: being opened, small, or being ended */
    int *waiting, n_waiting; /* locked by another process, [n_blobs] */
    double retry_ms;         /* when to look at them again */
    bool told_waiting;
    struct gr_dl_transfer *active[GR_PULL_CONNECTIONS_MAX]; /* with a writer */
    int n_active;
    uint8_t *memory, *spare[GR_DL_PARTS_MAX];
    int n_spare;

    pthread_mutex_t show;
    double shown_ms;
    uint64_t total;
    _Atomic uint64_t done, fetched;
};

/* download.c */
void gr_dl_progress(struct gr_dl *dl, uint64_t bytes, const struct gr_dl_blob *b); /* done += bytes (wraps: less) */
void gr_dl_note(const struct gr_dl *dl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* download_run.c: fetches all blobs of dl; what it took is given back in every case. */
enum gr_status gr_dl_run(struct gr_dl *dl, struct gr_err *err);

/* download_blob.c. *out NULL: another process has it (*there false), or it came meanwhile (*there true). */
enum gr_status gr_dl_open(struct gr_dl *dl, struct gr_dl_blob *b, struct gr_dl_transfer **out, bool *there,
                          struct gr_err *err);
void gr_dl_close(struct gr_dl_transfer *t); /* keeps what is on disk */
/* Hashes what an earlier call left. */
enum gr_status gr_dl_hash_resumed(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_err *err);
enum gr_status gr_dl_put(struct gr_dl *dl, struct gr_dl_transfer *t, const void *bytes, size_t n, struct gr_err *err);
/* All bytes are there: the hash decides. *again: it was wrong for the first time, the transfer stands at its beginning. */
enum gr_status gr_dl_finish(struct gr_dl *dl, struct gr_dl_transfer *t, bool *again, struct gr_err *err);
/* As after a wrong hash: begin again once, then GR_ERR_FORMAT. */
enum gr_status gr_dl_begin_again(struct gr_dl *dl, struct gr_dl_transfer *t, const char *why, struct gr_err *err);
enum gr_status gr_dl_link(const struct gr_dl *dl, const struct gr_dl_blob *b, struct gr_err *err);

/* download_fetch.c: bytes from t->written to the end straight to gr_dl_put, or into one part. *trouble instead of an error. */
enum gr_status gr_dl_fetch_rest(struct gr_dl *dl, struct gr_dl_transfer *t, enum gr_dl_trouble *trouble,
                                struct gr_err *err);
enum gr_status gr_dl_fetch_part(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_dl_part *part,
                                enum gr_dl_trouble *trouble, struct gr_err *err);
/* "/ORG/NAME/resolve/COMMIT/PATH". */
void gr_dl_address(const struct gr_hub_repo *repo, const char *path, struct gr_buf *out);

#endif
