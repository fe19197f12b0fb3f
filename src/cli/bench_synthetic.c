/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_synthetic.c: writes and removes the temporary snapshot of `gr00t bench engine --synthetic`. The demo's small vocabulary gives
 * prompts of the same length as the published one (the demo instruction: 12 tokens); one token that no text contains, with the highest id,
 * makes it fit a network with the published number of embeddings. */
#include "cli/bench_synthetic.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "model/embedded.h"
#include "model/synth.h"

enum { SEED = 1600, LAST_ID = 151679 /* rows of the published token embedding, less one */ };

static enum gr_status write_tokenizer(const char *dir, struct gr_err *err)
{
    char folder[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct gr_buf added = {0};
    GR_TRY(gr_path_join(folder, dir, "tokenizer", err));
    GR_TRY(gr_fs_mkdirs(folder, err));
    GR_TRY(gr_path_join(path, folder, "vocab.json", err));
    GR_TRY(gr_fs_write(path, gr_embed_demo_vocab, gr_embed_demo_vocab_size, err));
    GR_TRY(gr_path_join(path, folder, "merges.txt", err));
    GR_TRY(gr_fs_write(path, gr_embed_demo_merges, gr_embed_demo_merges_size, err));
    GR_TRY(gr_path_join(path, folder, "added_tokens.json", err));
    const char *text = (const char *)gr_embed_demo_added_tokens,
               *end = memrchr(text, '}', gr_embed_demo_added_tokens_size);
    size_t n = end != NULL ? (size_t)(end - text) : 0;
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    gr_buf_put(&added, text, n);
    gr_buf_printf(&added, ",\n  \"<|unused|>\": %d\n}\n", LAST_ID);
    enum gr_status status = gr_cli_write_file(path, &added, err);
    gr_buf_free(&added);
    return status;
}

enum gr_status gr_synthetic_make(const struct gr_cli *cli, int threads, char out[GR_PATH_BYTES], struct gr_err *err)
{
    struct gr_progress progress;
    const char *tmp = gr_settings_env("TMPDIR");
    GR_TRY(gr_path_join(out, tmp != NULL ? tmp : "/tmp", "gr00t-bench-XXXXXX", err));
    if (mkdtemp(out) == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot make a folder for the synthetic snapshot (TMPDIR)",
                             out);
    }
    gr_log(GR_LOG_INFO, "synthetic snapshot in %s, removed when it is loaded (an interrupted start leaves it)", out);
    gr_progress_begin(&progress, cli);
    enum gr_status status = gr_synth_write(GR_SYNTH_FULL, GR_SYNTH_UNIFORM, SEED, out,
                                           threads > 0 ? threads : gr_cpu_count(), gr_progress_report, &progress, err);
    gr_progress_end(&progress);
    if (status == GR_OK) {
        status = write_tokenizer(out, err);
    }
    if (status != GR_OK) {
        gr_synthetic_remove(out);
    }
    return status;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void gr_synthetic_remove(const char *dir)
{
    if (nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0) {
        gr_log(GR_LOG_WARN, "%s: cannot be removed: %s", dir, strerror(errno));
    }
}
