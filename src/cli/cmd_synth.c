/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_synth.c: `gr00t synth`: writes a synthetic snapshot, for trying and measuring without weights. */
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fs.h"
#include "base/thread_pool.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "model/synth.h"
#include "model/verify.h"
#include "base/nearest.h"

enum { DEFAULT_SEED = 1600 }; /* the seed of the golden cases */

struct options {
    struct gr_arg_int seed, threads;
    const char *weights;
};

static const char *const kinds[] = {"demo", "tiny", "full", NULL};
static const char *const weights[] = {"uniform", "gaussian", "outliers", NULL};
static const struct gr_arg args[] = {
    {.name = "seed",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, seed),
     .value = "N",
     .min = 0,
     .max = INT64_MAX,
     .help = "seed of the weights [1600]"},
    {.name = "weights",
     .kind = GR_ARG_CHOICE,
     .offset = offsetof(struct options, weights),
     .value = "FAMILY",
     .choices = weights,
     .help = "uniform, gaussian or outliers [uniform]"},
    {.name = "threads",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, threads),
     .value = "N",
     .min = 1,
     .max = GR_POOL_THREADS_MAX,
     .help = "threads [GR00T_THREADS, CPUs this process may use]"},
};

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *kind_at(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

static void add_sum(void *user, const struct gr_verify_file *file)
{
    if (file->found != NULL && strcmp(file->kind, "sha256") == 0) {
        gr_buf_line(user, "%s  %s\n", file->found, file->name);
    }
}

/* DIR/SHA256SUMS of what was written, as sha256sum prints it: `gr00t verify DIR` reads it. */
static enum gr_status write_sums(const char *dir, struct gr_progress *progress, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_verify_counts counts;
    struct gr_buf sums = {0};
    GR_TRY(gr_path_join(path, dir, "SHA256SUMS", err));
    enum gr_status status = gr_verify_dir(dir, NULL, gr_progress_report, progress, add_sum, &sums, &counts, err);
    if (status == GR_OK || status == GR_ERR_CHECK) { /* that nobody knows a checksum yet is why they are written */
        status = gr_cli_write_file(path, &sums, err);
    }
    gr_buf_free(&sums);
    return status;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    static const enum gr_synth_kind kind_values[] = {GR_SYNTH_DEMO, GR_SYNTH_TINY, GR_SYNTH_FULL};
    static const enum gr_synth_weights weight_values[] = {GR_SYNTH_UNIFORM, GR_SYNTH_GAUSSIAN, GR_SYNTH_OUTLIERS};
    (void)n_words;
    const struct options *o = options;
    struct gr_progress progress;
    int kind = index_of(kinds, words[0]), family = o->weights != NULL ? index_of(weights, o->weights) : 0, threads = 0;
    if (kind < 0) {
        const char *near = gr_nearest(words[0], GR_ARG_EDITS, kind_at, kinds, 3);
        return gr_fail(err, GR_ERR_USAGE, "unknown snapshot \"%.80s\", expected demo, tiny or full%s%s%s", words[0],
                       near != NULL ? "; did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
    }
    gr_settings_unknown_variables();
    GR_TRY(gr_settings_threads(&o->threads, &threads, err));
    double start = gr_clock_ms();
    gr_progress_begin(&progress, cli);
    enum gr_status status =
        gr_synth_write(kind_values[kind], weight_values[family], o->seed.given ? (uint64_t)o->seed.value : DEFAULT_SEED,
                       words[1], threads > 0 ? threads : gr_cpu_count(), gr_progress_report, &progress, err);
    if (status == GR_OK &&
        kind_values[kind] != GR_SYNTH_FULL) { /* 6.6 GB would be read once more; docs/SYNTHETIC.md has their hashes */
        status = write_sums(words[1], &progress, err);
    }
    gr_progress_end(&progress);
    if (status == GR_OK && !cli->quiet) {
        gr_buf_printf(&cli->out, "%s snapshot (%s weights) written to %s in %.1f s\n", kinds[kind], weights[family],
                      words[1], (gr_clock_ms() - start) / 1000.0);
    }
    return status;
}

const struct gr_command gr_cmd_synth = {
    .name = "synth",
    .summary = "Write a synthetic snapshot, for trying and measuring without weights",
    .synopsis = "demo|tiny|full DIR [OPTIONS]",
    .more = "demo  a few MB with its own small vocabulary: everything works offline\n"
            "tiny  small network, real vocabulary size; predict needs the tokenizer files of Qwen3-1.7B\n"
            "full  the published shapes, 6.6 GB; tokenizer files as for tiny\n\n"
            "DIR is new, empty, or has a snapshot that synth wrote. `gr00t verify DIR` checks demo and tiny\n"
            "against their SHA256SUMS.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 2,
    .max_words = 2,
    .words = "demo|tiny|full DIR",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
