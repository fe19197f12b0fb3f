/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_shard.h: the safetensors files of a synthetic snapshot: which tensor goes where, writing them with several threads,
 * and giving them their names at the end. Until gr_synth_shard_publish nothing appears in the folder. */
#ifndef GR_MODEL_SYNTH_SHARD_H
#define GR_MODEL_SYNTH_SHARD_H

#include "base/err.h"
#include "base/fs.h"
#include "base/thread_pool.h"
#include "gr00t.h"
#include "model/synth_inventory.h"

struct gr_synth_shard {
    char name[64];                          /* "model-00001-of-00002.safetensors" */
    const struct gr_synth_tensor **tensors; /* name order; owned array of borrowed tensors */
    uint64_t *starts;                       /* [count]: file offset of each tensor */
    size_t count;
    uint8_t *header; /* length, JSON and padding as in the file; owned */
    size_t header_bytes;
    uint64_t file_bytes;
    int fd;                   /* -1: not open */
    char path[GR_PATH_BYTES]; /* where it goes */
    char temp[GR_PATH_BYTES]; /* its name until then; "" while it has none (O_TMPFILE) */
};

/* Splits the inventory in module order at the shard limit and makes the headers. */
enum gr_status gr_synth_shards_plan(const struct gr_synth_inventory *inv, struct gr_synth_shard **out, size_t *n,
                                    struct gr_err *err);
/* Closes and removes what was not published. */
void gr_synth_shards_free(struct gr_synth_shard *shards, size_t n);

/* One writing thread's scratch and the place where progress is counted. */
struct gr_synth_filler;
struct gr_synth_crew {
    struct gr_pool *pool;
    int threads;
    struct gr_synth_filler **fillers; /* [threads] */
    uint8_t **buffers;                /* [threads], GR_SYNTH_PIECE each */
    gr_progress_fn progress;
    void *user;
    uint64_t done, total; /* file bytes of all shards */
};
enum { GR_SYNTH_PIECE = 4 << 20 };
enum gr_status gr_synth_crew_new(const struct gr_synth_config *config, enum gr_synth_weights weights, uint64_t seed,
                                 int threads, struct gr_synth_crew *out, struct gr_err *err);
void gr_synth_crew_free(struct gr_synth_crew *crew);

/* Makes the file in folder `dir`, reserves its blocks, writes it with all threads and syncs it. Its bytes do not depend on the
 * number of threads. */
enum gr_status gr_synth_shard_write(struct gr_synth_shard *shard, const char *dir, struct gr_synth_crew *crew,
                                    struct gr_err *err);
/* Gives the written file its name, replacing an older one, and closes it. */
enum gr_status gr_synth_shard_publish(struct gr_synth_shard *shard, struct gr_err *err);

#endif
