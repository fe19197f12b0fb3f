/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_bench.c: `gr00t bench engine`: time per stage of whole predicts, beside the multiply and memory rates of the same minutes.
 * The first predict (cold pages, sleeping threads) is reported as the start and is not among the runs; with the prefix cache it
 * is also the one that fills it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "cli/bench_report.h"
#include "cli/bench_synthetic.h"
#include "cli/cli.h"
#include "cli/obs_files.h"
#include "cli/open_policy.h"
#include "cli/settings.h"
#include "cli/settings_card.h"
#include "gr00t.h"
#include "policy/observation.h"
#include "policy/policy.h"

enum { RUNS_DEFAULT = 5, RUNS_MAX = 100000 };

struct options {
    const char *model, *json, *state, *instruction;
    bool synthetic;
    struct gr_arg_list images;
    struct gr_arg_int runs;
    struct gr_engine_flags engine;
};

static const struct gr_arg args[] = {
    {.name = "model",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, model),
     .value = "DIR",
     .help = "snapshot folder"},
    {.name = "synthetic",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, synthetic),
     .help =
         "instead of --model: a full-size snapshot of made-up weights, written to\nTMPDIR (6.6 GB) and removed when it is loaded"},
    {.name = "runs",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, runs),
     .value = "N",
     .min = 1,
     .max = RUNS_MAX,
     .help = "timed predicts after the first one [5]"},
    {.name = "json",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, json),
     .value = "FILE",
     .help = "write the report as JSON to FILE"},
    {.name = "image",
     .kind = GR_ARG_LIST,
     .offset = offsetof(struct options, images),
     .value = "[CAMERA=]FILE",
     .help = "picture instead of the built-in one"},
    {.name = "state",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, state),
     .value = "FILE",
     .help = "state instead of the built-in one"},
    {.name = "instruction",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, instruction),
     .value = "TEXT",
     .help = "instruction instead of the built-in one"},
    GR_ENGINE_ARGS(struct options, engine),
};

/* Spreads over the samples, and their medians as one set of rates. sorted [n]: scratch. */
static void summarise(const struct gr_meter_rates *samples, int n, double *sorted, struct gr_bench_result *r)
{
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        for (int i = 0; i < n; i++) {
            sorted[i] = samples[i].ghz[f];
        }
        r->rates.ghz[f] = gr_spread_of(sorted, n).p50;
        for (int i = 0; i < n; i++) {
            sorted[i] = samples[i].gops[f];
        }
        r->gops[f] = gr_spread_of(sorted, n);
        r->rates.gops[f] = r->gops[f].p50;
    }
    for (int i = 0; i < n; i++) {
        sorted[i] = samples[i].gbytes;
    }
    r->gbytes = gr_spread_of(sorted, n);
    r->rates.gbytes = r->gbytes.p50;
}

/* Runs and samples of the rates alternate: rates, run, rates, run, ..., rates. */
static enum gr_status measure(struct gr_policy *policy, const struct gr_observation *obs, struct gr_chunk *chunk,
                              struct gr_meter *meter, struct gr_bench_result *r, struct gr_err *err)
{
    const size_t runs = (size_t)r->runs;
    struct gr_meter_rates *rates = calloc(runs + 1, sizeof *rates);
    double *ms = calloc(runs * GR_BENCH_STAGES + runs + 1, sizeof *ms);
    if (rates == NULL || ms == NULL) {
        free(rates);
        free(ms);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d runs", r->runs);
    }
    enum gr_status status = GR_OK;
    struct gr_meter_cpu before = gr_meter_cpu_now();
    rates[0] = gr_meter_sample(meter);
    for (size_t i = 0; i < runs && status == GR_OK; i++) {
        status = gr_policy_predict(policy, obs, chunk, err);
        for (int s = 0; s < GR_BENCH_STAGES; s++) {
            ms[(size_t)s * runs + i] = gr_bench_time(&chunk->timing, s);
        }
        rates[i + 1] = gr_meter_sample(meter);
    }
    struct gr_meter_cpu after = gr_meter_cpu_now();
    r->others = gr_meter_others(&before, &after);
    r->n_prefix = chunk->timing.n_prefix;
    for (int s = 0; s < GR_BENCH_STAGES; s++) {
        r->ms[s] = gr_spread_of(ms + (size_t)s * runs, r->runs);
    }
    summarise(rates, r->runs + 1, ms + runs * GR_BENCH_STAGES, r);
    free(rates);
    free(ms);
    return status;
}

/* What the runs could have been at best. */
static enum gr_status find_roofs(const struct gr_policy *policy, int n_frames, struct gr_bench_result *r,
                                 struct gr_err *err)
{
    struct gr_work work;
    struct gr_work_size size = {n_frames, r->n_tokens, r->n_prefix};
    GR_TRY(gr_work_make(gr_policy_dims(policy), &size, &work, err));
    enum gr_mat_format *formats = calloc((size_t)work.n, sizeof *formats);
    enum gr_status status =
        formats == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory for %d formats", work.n)
                        : gr_roof_formats(&work, gr_policy_plan(policy), (double)r->info->weight_bytes, formats, err);
    if (status == GR_OK) {
        /* In exact arithmetic attention is fp32; elsewhere it may use 16-bit operands, and the bound must not be too easy. */
        const bool exact = r->info->precision == NULL || strcmp(r->info->precision, "exact") == 0;
        gr_roof_of(&work, formats, !exact && r->kernels->attention16 != NULL, &r->rates, &r->roofs);
    }
    free(formats);
    gr_work_free(&work);
    return status;
}

/* The built-in observation, with the parts that were given replaced. */
struct bench_input {
    struct gr_sample sample;
    struct gr_obs_images images;
    double *state;
    struct gr_observation obs;
};

static enum gr_status make_input(const struct options *o, struct gr_policy *policy, struct bench_input *in,
                                 struct gr_err *err)
{
    const struct gr_info *info = gr_policy_info(policy);
    GR_TRY(gr_sample_make(gr_policy_config(policy), GR_SAMPLE_REPORT, &in->sample, err));
    in->obs = in->sample.obs;
    if (o->images.n > 0) {
        GR_TRY(gr_obs_images_read(&o->images, info, &in->images, err));
        in->obs.frames = in->images.frames;
    }
    if (o->state != NULL) {
        GR_TRY(gr_obs_state_read(o->state, info, &in->state, err));
        in->obs.state = in->state;
    }
    in->obs.instruction = o->instruction != NULL ? o->instruction : in->sample.instruction;
    return GR_OK;
}

static void free_input(struct bench_input *in)
{
    gr_sample_free(&in->sample);
    gr_obs_images_free(&in->images);
    free(in->state);
}

/* Opens the named snapshot, or a temporary one. */
static enum gr_status open_model(struct gr_cli *cli, const struct options *o, double *start, struct gr_policy **policy,
                                 struct gr_err *err)
{
    char dir[GR_PATH_BYTES];
    int threads;
    if ((o->model != NULL) == o->synthetic) {
        return gr_fail(err, GR_ERR_USAGE, "bench engine needs --model DIR or --synthetic, one of them");
    }
    const char *device;
    GR_TRY(gr_settings_device(o->engine.device, &device, err));
    if (gr_settings_on_card(device)) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "bench engine sets the CPU's times against the CPU's limits; of a card, `gr00t bench http` takes the times");
    }
    if (!o->synthetic) {
        *start = gr_clock_ms();
        return gr_cli_open_policy(cli, o->model, &o->engine, policy, err);
    }
    GR_TRY(gr_settings_threads(&o->engine.threads, &threads, err));
    GR_TRY(gr_synthetic_make(cli, threads, dir, err));
    struct gr_engine_flags flags = o->engine;
    flags.cache = flags.cache != NULL ? flags.cache : "off"; /* nothing that will be asked for again */
    *start = gr_clock_ms();
    enum gr_status status = gr_cli_open_policy(cli, dir, &flags, policy, err);
    gr_synthetic_remove(dir);
    return status;
}

static enum gr_status report(struct gr_cli *cli, const struct options *o, const struct gr_bench_result *r,
                             struct gr_err *err)
{
    gr_bench_text(r, &cli->out);
    if (o->json == NULL) {
        return GR_OK;
    }
    struct gr_buf file = {0};
    gr_bench_json(r, &file);
    enum gr_status status = gr_cli_write_file(o->json, &file, err);
    gr_buf_free(&file);
    return status;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct gr_policy *policy = NULL;
    struct gr_chunk *chunk = NULL;
    struct gr_meter *meter = NULL;
    struct bench_input in = {0};
    struct gr_bench_result r = {.model = o->synthetic ? "synthetic" : o->model,
                                .runs = o->runs.given ? (int)o->runs.value : RUNS_DEFAULT,
                                .prefix_cache = !o->engine.no_prefix_cache};
    unsigned flags = gr_cpu_detect();
    double start = 0.0;
    enum gr_status status = open_model(cli, o, &start, &policy, err);
    if (status != GR_OK || (status = make_input(o, policy, &in, err)) != GR_OK ||
        (status = gr_chunk_new(policy, &chunk, err)) != GR_OK ||
        (status = gr_policy_predict(policy, &in.obs, chunk, err)) != GR_OK) {
        goto out;
    }
    r.first_chunk_ms = gr_clock_ms() - start;
    r.peak_rss = (double)gr_peak_rss_bytes();
    r.info = gr_policy_info(policy);
    r.n_tokens = chunk->n_tokens;
    r.n_text = chunk->n_text;
    if ((status = gr_cpu_mask(r.info->isa, &flags, err)) != GR_OK ||
        (status = gr_meter_open(r.info->threads, flags, &meter, err)) != GR_OK) {
        goto out;
    }
    r.kernels = gr_meter_kernels(meter);
    if ((status = measure(policy, &in.obs, chunk, meter, &r, err)) != GR_OK ||
        (status = find_roofs(policy, in.obs.n_frames, &r, err)) != GR_OK) {
        goto out;
    }
    status = report(cli, o, &r, err);
out:
    gr_meter_close(meter);
    free_input(&in);
    gr_chunk_free(chunk);
    gr_policy_close(policy);
    return status;
}

const struct gr_command gr_cmd_bench_engine = {
    .name = "bench engine",
    .summary = "Measure whole predicts, stage by stage",
    .synopsis = "--model DIR|--synthetic [--policy NAME] [--threads N] [--runs N] [--json FILE] [OPTIONS]",
    .more =
        "Columns of the table\n"
        "  GFLOP      matrix and attention products that were really computed, a multiply-add as two\n"
        "  MB, GB/s   packed weights that were read, and how fast\n"
        "  of peak    time of these products at the peak of their multiply instructions, of the measured time; with\n"
        "             several number formats each product counts at the peak of its own instruction\n"
        "  of memory  time to read these weights as fast as all threads can read memory, of the measured time\n"
        "  of bound   the larger of the two, by stage; what bounds a stage stands behind it\n"
        "Peaks and memory are measured between the runs, on all threads at once. All runs have the same instruction, so\n"
        "that the prefix cache is warm; --no-prefix-cache computes the text anew in each.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
