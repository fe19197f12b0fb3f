/* SPDX-License-Identifier: Apache-2.0
 *
 * synth.h: synthetic snapshots with the names, shapes and file layout of the published one (spec/model.md 9). */
#ifndef GR_MODEL_SYNTH_H
#define GR_MODEL_SYNTH_H

#include <stdint.h>

#include "base/err.h"
#include "gr00t.h"

enum gr_synth_kind { GR_SYNTH_DEMO, GR_SYNTH_TINY, GR_SYNTH_FULL };
enum gr_synth_weights { GR_SYNTH_UNIFORM, GR_SYNTH_GAUSSIAN, GR_SYNTH_OUTLIERS };

/* Writes a complete snapshot folder; existing files of those names are replaced one by one, each complete or not at all. A folder with anything
 * else in it is refused (GR_ERR_USAGE), but for a tokenizer/ and names that begin with a dot. SHA256SUMS is removed: it
 * would be that of the files before. Free space is checked first. */
enum gr_status gr_synth_write(enum gr_synth_kind kind, enum gr_synth_weights weights, uint64_t seed, const char *dir,
                              int threads, gr_progress_fn progress, void *user, struct gr_err *err);

#endif
