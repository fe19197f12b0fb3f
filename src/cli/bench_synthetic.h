/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_synthetic.h: a full-size snapshot for the time of a bench, where no weights are at hand. */
#ifndef GR_CLI_BENCH_SYNTHETIC_H
#define GR_CLI_BENCH_SYNTHETIC_H

#include "base/fs.h"
#include "cli/cli.h"

/* Writes the snapshot of `gr00t synth full` (uniform weights, 6.6 GB) into a new folder in TMPDIR, or /tmp, with a tokenizer of its own whose
 * prompts are as long as the real one's. `out`: the folder. GR_ERR_IO: no space there. Nothing stays on failure. */
enum gr_status gr_synthetic_make(const struct gr_cli *cli, int threads, char out[GR_PATH_BYTES], struct gr_err *err);
/* Removes the folder. An open policy keeps what it mapped. */
void gr_synthetic_remove(const char *dir);

#endif
