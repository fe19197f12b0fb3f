/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_bench.c: `gr00t bench engine`: time per stage of whole predicts, beside the multiply-add peak of the same minutes.
 * The first predict (cold pages, sleeping threads) is reported as the start and is not among the runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "cli/bench_meter.h"
#include "cli/cli.h"
#include "cli/flops.h"
#include "base/jsonout.h"
#include "cli/obs_files.h"
#include "cli/open_policy.h"
#include "cli/settings.h"
#include "cli/table.h"
#include "gr00t.h"
#include "policy/observation.h"
#include "policy/policy.h"

enum { RUNS_DEFAULT = 5, RUNS_MAX = 100000, N_STAGES = 8 };

struct options {
    const char *model, *json, *state, *instruction;
    struct gr_arg_list images;
    struct gr_arg_int runs;
    struct gr_engine_flags engine;
};

static const struct gr_arg args[] = {
    {.name = "model",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, model),
     .value = "DIR",
     .required = true,
     .help = "snapshot folder"},
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

/* Where the time of a predict goes. Stages without arithmetic worth counting have no GFLOP. */
static const struct {
    const char *name;
    size_t time, flops; /* offsets into gr_timing and gr_flops */
    bool counted;
} stages[N_STAGES] = {
    {"encode", offsetof(struct gr_timing, encode), 0, false},
    {"vision", offsetof(struct gr_timing, vision), offsetof(struct gr_flops, vision), true},
    {"llm", offsetof(struct gr_timing, llm), offsetof(struct gr_flops, llm), true},
    {"adapter", offsetof(struct gr_timing, adapter), offsetof(struct gr_flops, adapter), true},
    {"denoise", offsetof(struct gr_timing, denoise), offsetof(struct gr_flops, denoise), true},
    {"device", offsetof(struct gr_timing, device), offsetof(struct gr_flops, total), true},
    {"decode_actions", offsetof(struct gr_timing, decode_actions), 0, false},
    {"total", offsetof(struct gr_timing, total), offsetof(struct gr_flops, total), true},
};
enum { TOTAL = N_STAGES - 1 };

static double at(const void *record, size_t offset)
{
    double v;
    memcpy(&v, (const char *)record + offset, sizeof v);
    return v;
}

struct result {
    struct gr_spread ms[N_STAGES], peak;
    struct gr_flops flops;
    double first_chunk_ms; /* from the call that opens the snapshot */
    double others;         /* CPUs, negative: unknown */
    int runs, n_tokens, n_text;
};

static double gflops_of(const struct result *r, int stage)
{
    return stages[stage].counted && r->ms[stage].p50 > 0.0
               ? at(&r->flops, stages[stage].flops) / (r->ms[stage].p50 * 1e6)
               : 0.0;
}

static double share_of(const struct result *r, int stage)
{
    return r->peak.p50 > 0.0 ? gflops_of(r, stage) / r->peak.p50 : 0.0;
}

/* Runs and peak samples alternate: peak, run, peak, run, ..., peak. */
static enum gr_status measure(struct gr_policy *policy, const struct gr_observation *obs, struct gr_chunk *chunk,
                              struct gr_pool *pool, const struct gr_kernels *kernels, struct result *r,
                              struct gr_err *err)
{
    double *samples = calloc((size_t)r->runs * N_STAGES + (size_t)r->runs + 1, sizeof *samples);
    if (samples == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d runs", r->runs);
    }
    double *peaks = samples + (size_t)r->runs * N_STAGES;
    struct gr_meter_cpu before = gr_meter_cpu_now();
    enum gr_status status = GR_OK;
    peaks[0] = gr_meter_peak(pool, kernels);
    for (int i = 0; i < r->runs && status == GR_OK; i++) {
        status = gr_policy_predict(policy, obs, chunk, err);
        for (int s = 0; s < N_STAGES; s++) {
            samples[s * r->runs + i] = at(&chunk->timing, stages[s].time);
        }
        peaks[i + 1] = gr_meter_peak(pool, kernels);
    }
    struct gr_meter_cpu after = gr_meter_cpu_now();
    for (int s = 0; s < N_STAGES; s++) {
        r->ms[s] = gr_spread_of(samples + s * r->runs, r->runs);
    }
    r->peak = gr_spread_of(peaks, r->runs + 1);
    r->others = gr_meter_others(&before, &after);
    free(samples);
    return status;
}

static void print_text(const struct options *o, const struct gr_info *info, const struct result *r, struct gr_buf *out)
{
    struct gr_table t = {.columns = 7, .align = "lrrrrrr"};
    const char *const head[] = {"stage", "p50 ms", "min ms", "max ms", "GFLOP", "GFLOP/s", "of peak"};
    char a[32], b[32];
    gr_buf_line(out, "%s, %s: %d runs, %s, %s, %d thread%s, %s; S = %d\n\n", o->model, info->embodiment, r->runs,
                info->device, info->isa, info->threads, info->threads == 1 ? "" : "s", gr_cpu_name(), r->n_tokens);
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int s = 0; s < N_STAGES; s++) {
        gr_table_cell(&t, stages[s].name);
        gr_table_cellf(&t, "%.2f", r->ms[s].p50);
        gr_table_cellf(&t, "%.2f", r->ms[s].min);
        gr_table_cellf(&t, "%.2f", r->ms[s].max);
        if (stages[s].counted) {
            gr_table_cellf(&t, "%.3f", at(&r->flops, stages[s].flops) / 1e9);
            gr_table_cellf(&t, "%.1f", gflops_of(r, s));
            gr_table_cellf(&t, "%.1f %%", 100.0 * share_of(r, s));
        }
        gr_table_end_row(&t);
    }
    gr_table_print(&t, out);
    gr_buf_printf(out, "\nFMA peak of %d thread%s in the same run: %.1f GFLOP/s (median of %d; %.1f to %.1f)\n",
                  info->threads, info->threads == 1 ? "" : "s", r->peak.p50, r->runs + 1, r->peak.min, r->peak.max);
    gr_buf_printf(out, "load %.2f s, first chunk after %.2f s; packed weights %s, peak memory %s\n",
                  info->load_ms / 1000.0, r->first_chunk_ms / 1000.0, gr_human_bytes(a, (double)info->weight_bytes),
                  gr_human_bytes(b, (double)gr_peak_rss_bytes()));
    if (r->others >= 0.0) {
        gr_buf_printf(out, "other processes used %.2f CPUs meanwhile%s\n", r->others,
                      r->others > 0.05 ? ": take the times with care" : "");
    }
}

static void json_spread(struct gr_jw *w, const struct gr_spread *s)
{
    gr_jw_object(w);
    gr_jw_put_milli(w, "p50", s->p50);
    gr_jw_put_milli(w, "min", s->min);
    gr_jw_put_milli(w, "max", s->max);
    gr_jw_end_object(w);
}

static void json_stages(struct gr_jw *w, const struct result *r)
{
    gr_jw_object(w);
    for (int s = 0; s < N_STAGES; s++) {
        gr_jw_put_object(w, stages[s].name);
        gr_jw_key(w, "ms");
        json_spread(w, &r->ms[s]);
        if (stages[s].counted) {
            gr_jw_put_milli(w, "gflop", at(&r->flops, stages[s].flops) / 1e9);
            gr_jw_put_milli(w, "gflops", gflops_of(r, s));
            gr_jw_put_milli(w, "share_of_peak", share_of(r, s));
        }
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
}

static void json_numbers(struct gr_jw *w, const struct gr_info *info, const struct result *r)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"runs", r->runs},
                   {"threads", info->threads},
                   {"seq_len", r->n_tokens},
                   {"prompt_tokens", r->n_text},
                   {"gflop", r->flops.total / 1e9},
                   {"gflops", gflops_of(r, TOTAL)},
                   {"share_of_peak", share_of(r, TOTAL)},
                   {"load_ms", info->load_ms},
                   {"first_chunk_ms", r->first_chunk_ms},
                   {"weight_bytes", (double)info->weight_bytes},
                   {"peak_rss_bytes", (double)gr_peak_rss_bytes()}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        gr_jw_put_milli(w, numbers[i].key, numbers[i].value);
    }
    gr_jw_key(w, "other_cpus");
    if (r->others >= 0.0) {
        gr_jw_milli(w, r->others);
    } else {
        gr_jw_null(w);
    }
}

static enum gr_status write_json(const struct options *o, const struct gr_info *info, const struct result *r,
                                 struct gr_err *err)
{
    struct gr_buf out = {0};
    struct gr_jw w = {.out = &out};
    const char *const texts[][2] = {{"model", o->model}, {"embodiment", info->embodiment}, {"device", info->device},
                                    {"isa", info->isa},  {"cpu", gr_cpu_name()},           {"version", gr_version()}};
    gr_jw_object(&w);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        gr_jw_put_string(&w, texts[i][0], texts[i][1]);
    }
    gr_jw_key(&w, "total_ms");
    json_spread(&w, &r->ms[TOTAL]);
    gr_jw_key(&w, "stages");
    json_stages(&w, r);
    gr_jw_key(&w, "peak_gflops");
    json_spread(&w, &r->peak);
    json_numbers(&w, info, r);
    gr_jw_end_object(&w);
    enum gr_status status = gr_cli_write_file(o->json, &out, err);
    gr_buf_free(&out);
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

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct gr_policy *policy = NULL;
    struct gr_chunk *chunk = NULL;
    struct gr_pool *pool = NULL;
    struct gr_kernels kernels;
    struct bench_input in = {0};
    struct result r = {.runs = o->runs.given ? (int)o->runs.value : RUNS_DEFAULT};
    unsigned flags = gr_cpu_detect();
    double start = gr_clock_ms();
    enum gr_status status = gr_cli_open_policy(cli, o->model, &o->engine, &policy, err);
    if (status != GR_OK || (status = make_input(o, policy, &in, err)) != GR_OK ||
        (status = gr_chunk_new(policy, &chunk, err)) != GR_OK ||
        (status = gr_policy_predict(policy, &in.obs, chunk, err)) != GR_OK) {
        goto out;
    }
    r.first_chunk_ms = gr_clock_ms() - start;
    const struct gr_info *info = gr_policy_info(policy);
    r.n_tokens = chunk->n_tokens;
    r.n_text = chunk->n_text;
    r.flops = gr_flops_of(gr_policy_dims(policy), in.obs.n_frames, chunk->n_tokens);
    if ((status = gr_cpu_mask(info->isa, &flags, err)) != GR_OK ||
        (status = gr_pool_new(info->threads, &pool, err)) != GR_OK) {
        goto out;
    }
    gr_kernels_init(&kernels, flags);
    if ((status = measure(policy, &in.obs, chunk, pool, &kernels, &r, err)) != GR_OK) {
        goto out;
    }
    print_text(o, info, &r, &cli->out);
    if (o->json != NULL) {
        status = write_json(o, info, &r, err);
    }
out:
    gr_pool_free(pool);
    free_input(&in);
    gr_chunk_free(chunk);
    gr_policy_close(policy);
    return status;
}

const struct gr_command gr_cmd_bench_engine = {
    .name = "bench engine",
    .summary = "Measure whole predicts, stage by stage",
    .synopsis = "--model DIR [--threads N] [--runs N] [--json FILE] [OPTIONS]",
    .more =
        "GFLOP counts matrix and attention products, a multiply-add as two. The peak is measured between the runs with\n"
        "multiply-adds on registers, on all threads.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
