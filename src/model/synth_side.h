/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_side.h: everything of a synthetic snapshot that is not a tensor: the JSON files, the tokenizer folder and the
 * demonstration folder. */
#ifndef GR_MODEL_SYNTH_SIDE_H
#define GR_MODEL_SYNTH_SIDE_H

#include "base/err.h"
#include "model/synth.h"
#include "model/synth_inventory.h"
#include "model/synth_shard.h"

/* config.json, processor_config.json, statistics.json, embodiment_id.json, LICENSE; for the demo kind also tokenizer/ and
 * demo/. with_golden: the weights are those of the committed golden, so demo/golden/ is written; else it is removed. */
enum gr_status gr_synth_side_write(enum gr_synth_kind kind, const struct gr_synth_config *config, bool with_golden,
                                   const char *dir, struct gr_err *err);
/* model.safetensors.index.json */
enum gr_status gr_synth_index_write(const struct gr_synth_inventory *inv, const struct gr_synth_shard *shards, size_t n,
                                    const char *dir, struct gr_err *err);
/* Bytes the files of both functions take at most, for the check of free space. */
enum { GR_SYNTH_SIDE_BYTES = 4 << 20 };

#endif
