/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.h: the safetensors files of a snapshot folder behind one name table: shards through model.safetensors.index.json,
 * or the single file model.safetensors. */
#ifndef GR_MODEL_SNAPSHOT_H
#define GR_MODEL_SNAPSHOT_H

#include "base/digest.h"
#include "base/err.h"
#include "formats/safetensors.h"

struct gr_snapshot;

/* Maps all shards and checks them against the index: files the index names exist, every tensor of the index is in its shard,
 * no tensor of a shard is missing in the index or in two shards, total_size (when present) equals the sum; a shard file in
 * the folder that the index does not name is an error. GR_ERR_FORMAT or GR_ERR_IO. */
enum gr_status gr_snapshot_open(const char *dir, struct gr_snapshot **out, struct gr_err *err);
void gr_snapshot_close(struct gr_snapshot *snap); /* NULL is allowed */

size_t gr_snapshot_count(const struct gr_snapshot *snap);
const struct gr_tensor *gr_snapshot_at(const struct gr_snapshot *snap, size_t i);           /* name order */
const struct gr_tensor *gr_snapshot_find(const struct gr_snapshot *snap, const char *name); /* NULL when absent */
void gr_snapshot_done(const struct gr_snapshot *snap, const struct gr_tensor *t);           /* pages not needed soon */
uint64_t gr_snapshot_state(const struct gr_snapshot *snap); /* of all shards: another one after any change to a file */
int gr_snapshot_shards(const struct gr_snapshot *snap);
size_t gr_snapshot_bytes(const struct gr_snapshot *snap); /* tensor bytes */

/* What identifies the weights: hex SHA-256 over name, dtype, shape, size and sampled blocks of every tensor, in name order. File names and
 * how tensors are spread over shards do not matter. A change that misses every sample goes unseen: for telling checkpoints
 * apart, not for proving one whole (that is verify's job). Reads at most 72 KiB a tensor. */
enum gr_status gr_snapshot_digest(const struct gr_snapshot *snap, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err);

/* snapshot_content.c: a checksum over every byte of every tensor, in hex: what is computed from weights and kept must not outlive a repair that the
 * samples above miss. It is kept in `memo_dir` under the state of the files, so that they are read only when something about them
 * changed. GR_ERR_NOMEM; a memo that cannot be written is none. */
enum { GR_CONTENT_BYTES = 17 };
enum gr_status gr_snapshot_content(const struct gr_snapshot *snap, const char *memo_dir, int threads,
                                   char hex[GR_CONTENT_BYTES], struct gr_err *err);

#endif
