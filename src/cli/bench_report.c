/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_report.c: prints a bench. Shares are of the medians of the same minutes: "of peak" compares with the multiply instructions
 * alone, "of bound" with whichever of them and the memory takes longer. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/table.h"

enum { NAME_BYTES = 96 };
static const double PEAK_TOLERANCE = 0.05; /* of what clock and ports allow */
static const double NAMED_SHARE = 0.1;     /* of a stage's ideal time: smaller parts are not named */

/* Rows of the table; a roof of -1: no arithmetic worth counting, of GR_WORK_STAGES: the total. */
static const struct {
    const char *name;
    size_t time; /* offset into gr_timing */
    int roof;
} stages[GR_BENCH_STAGES] = {
    [GR_BENCH_ENCODE] = {"encode", offsetof(struct gr_timing, encode), -1},
    [GR_BENCH_VISION] = {"vision", offsetof(struct gr_timing, vision), GR_WORK_VISION},
    [GR_BENCH_LLM] = {"llm", offsetof(struct gr_timing, llm), GR_WORK_LLM},
    [GR_BENCH_ADAPTER] = {"adapter", offsetof(struct gr_timing, adapter), GR_WORK_ADAPTER},
    [GR_BENCH_DENOISE] = {"denoise", offsetof(struct gr_timing, denoise), GR_WORK_DENOISE},
    [GR_BENCH_DEVICE] = {"device", offsetof(struct gr_timing, device), GR_WORK_STAGES},
    [GR_BENCH_DECODE] = {"decode_actions", offsetof(struct gr_timing, decode_actions), -1},
    [GR_BENCH_TOTAL] = {"total", offsetof(struct gr_timing, total), GR_WORK_STAGES},
};

double gr_bench_time(const struct gr_timing *t, int stage)
{
    double ms;
    memcpy(&ms, (const char *)t + stages[stage].time, sizeof ms);
    return ms;
}

static const struct gr_roof *roof_of(const struct gr_bench_result *r, int stage)
{
    const int i = stages[stage].roof;
    return i < 0 ? NULL : i == GR_WORK_STAGES ? &r->roofs.total : &r->roofs.stage[i];
}

/* part / ms of the stage, 0 for a stage that took no time. */
static double per_ms(const struct gr_bench_result *r, int stage, double part)
{
    return r->ms[stage].p50 > 0.0 ? part / r->ms[stage].p50 : 0.0;
}

static struct gr_instruction instruction(const struct gr_bench_result *r, int f)
{
    return gr_instruction_of((enum gr_mat_format)f, r->kernels->gemm_isa[f]);
}

/* F32 and BF16 are the same instruction: one of them is enough. */
static bool measured(const struct gr_bench_result *r, int f)
{
    return r->rates.gops[f] > 0.0 && (f == 0 || r->kernels->peak[f] != r->kernels->peak[f - 1]);
}

/* What keeps the stage from being faster: "memory", or the instructions that its ideal time consists of. */
static void binding(const struct gr_bench_result *r, const struct gr_roof *roof, char out[NAME_BYTES])
{
    size_t n = 0;
    out[0] = '\0';
    if (roof->memory_ms > roof->ops_ms) {
        (void)snprintf(out, NAME_BYTES, "memory");
        return;
    }
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        double ms = roof->format_ms[f];
        if (f == GR_MAT_F32) { /* the same instruction */
            ms += roof->format_ms[GR_MAT_BF16];
        } else if (f == GR_MAT_BF16) {
            continue;
        }
        if (ms > NAMED_SHARE * roof->ops_ms && n < NAME_BYTES) {
            n += (size_t)snprintf(out + n, NAME_BYTES - n, "%s%s", n > 0 ? "+" : "", instruction(r, f).name);
        }
    }
}

static const char *policy_of(const struct gr_info *info) { return info->precision != NULL ? info->precision : "exact"; }

/* Of the observation that had no part in choosing the formats; without figures the chunk is the fp32 one itself. */
static const struct gr_fidelity *fidelity(const struct gr_info *info)
{
    return info->n_fidelity > GR_PLAN_REPORT ? &info->fidelity[GR_PLAN_REPORT] : NULL;
}

/* ---- text ---- */

static void text_head(const struct gr_bench_result *r, struct gr_buf *out)
{
    const struct gr_info *i = r->info;
    gr_buf_line(out, "%s, %s: %d runs, %s, %s, %d thread%s, %s; S = %d\n", r->model, i->embodiment, r->runs, i->device,
                i->isa, i->threads, i->threads == 1 ? "" : "s", gr_cpu_name(), r->n_tokens);
    gr_buf_printf(out, "policy %s%s%s%s, prefix cache %s: %d of %d language rows reused\n\n", policy_of(i),
                  i->precision_step != NULL ? " (" : "", i->precision_step != NULL ? i->precision_step : "",
                  i->precision_step != NULL ? ")" : "", r->prefix_cache ? "on" : "off", r->n_prefix, r->n_tokens);
}

static void text_stages(const struct gr_bench_result *r, struct gr_buf *out)
{
    static const char *const head[] = {"stage", "p50 ms", "min ms",  "max ms",    "GFLOP",    "Gop/s",
                                       "MB",    "GB/s",   "of peak", "of memory", "of bound", "bound by"};
    struct gr_table t = {.columns = 12, .align = "lrrrrrrrrrrl"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int s = 0; s < GR_BENCH_STAGES; s++) {
        const struct gr_roof *roof = roof_of(r, s);
        gr_table_cell(&t, stages[s].name);
        gr_table_cellf(&t, "%.2f", r->ms[s].p50);
        gr_table_cellf(&t, "%.2f", r->ms[s].min);
        gr_table_cellf(&t, "%.2f", r->ms[s].max);
        if (roof != NULL) {
            char name[NAME_BYTES];
            binding(r, roof, name);
            gr_table_cellf(&t, "%.3f", roof->flops / 1e9);
            gr_table_cellf(&t, "%.1f", per_ms(r, s, roof->flops) / 1e6);
            gr_table_cellf(&t, "%.1f", roof->bytes / 1e6);
            gr_table_cellf(&t, "%.1f", per_ms(r, s, roof->bytes) / 1e6);
            gr_table_cellf(&t, "%.1f %%", 100.0 * per_ms(r, s, roof->ops_ms));
            gr_table_cellf(&t, "%.1f %%", 100.0 * per_ms(r, s, roof->memory_ms));
            gr_table_cellf(&t, "%.1f %%", 100.0 * per_ms(r, s, roof->bound_ms));
            gr_table_cell(&t, name);
        }
        gr_table_end_row(&t);
    }
    gr_table_print(&t, out);
}

static void text_peaks(const struct gr_bench_result *r, struct gr_buf *out)
{
    static const char *const head[] = {"format", "instruction", "set",       "Gop/s",    "min",
                                       "max",    "GHz",         "per cycle", "possible", "reached"};
    struct gr_table t = {.columns = 10, .align = "lllrrrrrrr"};
    const int threads = r->info->threads;
    bool off = false;
    gr_buf_printf(out, "\npeak of the multiply instructions, %d thread%s at once, between the runs (median of %d)\n",
                  threads, threads == 1 ? "" : "s", r->runs + 1);
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        if (measured(r, f)) {
            double possible, gops = r->rates.gops[f] / threads;
            struct gr_instruction in = instruction(r, f);
            double rate = gr_instruction_rate(&in, gops, r->rates.ghz[f], &possible);
            gr_table_cell(&t, gr_format_name((enum gr_mat_format)f));
            gr_table_cell(&t, in.name);
            gr_table_cell(&t, r->kernels->gemm_isa[f] != NULL ? r->kernels->gemm_isa[f] : "");
            gr_table_cellf(&t, "%.1f", r->gops[f].p50);
            gr_table_cellf(&t, "%.1f", r->gops[f].min);
            gr_table_cellf(&t, "%.1f", r->gops[f].max);
            if (rate > 0.0) {
                gr_table_cellf(&t, "%.2f", r->rates.ghz[f]);
                gr_table_cellf(&t, "%g", rate);
                gr_table_cellf(&t, "%.1f", possible * threads);
                gr_table_cellf(&t, "%.1f %%", 100.0 * gops / possible);
                off = off || fabs(gops / possible - 1.0) > PEAK_TOLERANCE;
            }
            gr_table_end_row(&t);
        }
    }
    gr_table_print(&t, out);
    gr_buf_puts(
        out,
        "possible = threads x instructions per cycle x operations of one x clock; per cycle: the nearest of 2, 1, 1/2, "
        "... 1/64;\nclock: a chain of dependent additions behind each loop\n");
    if (off) {
        gr_buf_puts(
            out,
            "a peak is more than 5 % off what the clock allows: the clock changed meanwhile, take the shares with care\n");
    }
    gr_buf_printf(out, "memory read by %d thread%s at once: %.1f GB/s (%.1f to %.1f)\n", threads,
                  threads == 1 ? "" : "s", r->gbytes.p50, r->gbytes.min, r->gbytes.max);
}

void gr_bench_text(const struct gr_bench_result *r, struct gr_buf *out)
{
    char a[32], b[32];
    const struct gr_fidelity *f = fidelity(r->info);
    text_head(r, out);
    text_stages(r, out);
    text_peaks(r, out);
    if (f != NULL) {
        gr_buf_printf(out, "actions against fp32: PCC %.6f, worst group %s %.6f, largest difference %.2g rad\n", f->pcc,
                      f->worst_group != NULL ? f->worst_group : "none", f->worst_pcc, f->max_abs);
    } else {
        gr_buf_puts(out, "actions against fp32: the same arithmetic\n");
    }
    gr_buf_printf(out, "load %.2f s, first chunk after %.2f s; packed weights %s, peak memory %s\n",
                  r->info->load_ms / 1000.0, r->first_chunk_ms / 1000.0,
                  gr_human_bytes(a, (double)r->info->weight_bytes), gr_human_bytes(b, r->peak_rss));
    if (r->others >= 0.0) {
        gr_buf_printf(out, "other processes used %.2f CPUs meanwhile%s\n", r->others,
                      r->others > 0.05 ? ": take the times with care" : "");
    }
}

/* ---- JSON ---- */

static void json_spread(struct gr_jw *w, const char *key, const struct gr_spread *s)
{
    gr_jw_put_object(w, key);
    gr_jw_put_milli(w, "p50", s->p50);
    gr_jw_put_milli(w, "min", s->min);
    gr_jw_put_milli(w, "max", s->max);
    gr_jw_end_object(w);
}

static void json_stages(struct gr_jw *w, const struct gr_bench_result *r)
{
    gr_jw_put_object(w, "stages");
    for (int s = 0; s < GR_BENCH_STAGES; s++) {
        const struct gr_roof *roof = roof_of(r, s);
        gr_jw_put_object(w, stages[s].name);
        json_spread(w, "ms", &r->ms[s]);
        if (roof != NULL) {
            char name[NAME_BYTES];
            binding(r, roof, name);
            gr_jw_put_milli(w, "gflop", roof->flops / 1e9);
            gr_jw_put_milli(w, "gops", per_ms(r, s, roof->flops) / 1e6);
            gr_jw_put_milli(w, "mbytes", roof->bytes / 1e6);
            gr_jw_put_milli(w, "gbytes_per_s", per_ms(r, s, roof->bytes) / 1e6);
            gr_jw_put_milli(w, "peak_ms", roof->ops_ms);
            gr_jw_put_milli(w, "memory_ms", roof->memory_ms);
            gr_jw_put_milli(w, "share_of_peak", per_ms(r, s, roof->ops_ms));
            gr_jw_put_milli(w, "share_of_memory", per_ms(r, s, roof->memory_ms));
            gr_jw_put_milli(w, "share_of_bound", per_ms(r, s, roof->bound_ms));
            gr_jw_put_string(w, "bound_by", name);
        }
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
}

static void json_peaks(struct gr_jw *w, const struct gr_bench_result *r)
{
    gr_jw_put_object(w, "peaks");
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        if (measured(r, f)) {
            double possible, gops = r->rates.gops[f] / r->info->threads;
            struct gr_instruction in = instruction(r, f);
            double rate = gr_instruction_rate(&in, gops, r->rates.ghz[f], &possible);
            gr_jw_put_object(w, gr_format_name((enum gr_mat_format)f));
            gr_jw_put_string(w, "instruction", in.name);
            gr_jw_put_string(w, "isa", r->kernels->gemm_isa[f]);
            json_spread(w, "gops", &r->gops[f]);
            gr_jw_put_milli(w, "ghz", r->rates.ghz[f]);
            gr_jw_put_f64(w, "per_cycle", rate);
            gr_jw_key(w, "of_possible");
            if (possible > 0.0) {
                gr_jw_milli(w, gops / possible);
            } else {
                gr_jw_null(w);
            }
            gr_jw_end_object(w);
        }
    }
    gr_jw_end_object(w);
}

static void json_numbers(struct gr_jw *w, const struct gr_bench_result *r)
{
    const struct gr_fidelity *f = fidelity(r->info);
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"runs", r->runs},
                   {"threads", r->info->threads},
                   {"seq_len", r->n_tokens},
                   {"prompt_tokens", r->n_text},
                   {"prefix_rows", r->n_prefix},
                   {"gflop", r->roofs.total.flops / 1e9},
                   {"gops", per_ms(r, GR_BENCH_TOTAL, r->roofs.total.flops) / 1e6},
                   {"share_of_peak", per_ms(r, GR_BENCH_TOTAL, r->roofs.total.ops_ms)},
                   {"share_of_bound", per_ms(r, GR_BENCH_TOTAL, r->roofs.total.bound_ms)},
                   {"load_ms", r->info->load_ms},
                   {"first_chunk_ms", r->first_chunk_ms},
                   {"weight_bytes", (double)r->info->weight_bytes},
                   {"peak_rss_bytes", r->peak_rss}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        gr_jw_put_milli(w, numbers[i].key, numbers[i].value);
    }
    gr_jw_put_f64(w, "pcc_actions", f != NULL ? f->pcc : 1.0); /* 1: fp32 itself */
    gr_jw_put_f64(w, "pcc_worst_group", f != NULL ? f->worst_pcc : 1.0);
    gr_jw_put_string(w, "worst_group", f != NULL ? f->worst_group : NULL);
    gr_jw_key(w, "other_cpus");
    if (r->others >= 0.0) {
        gr_jw_milli(w, r->others);
    } else {
        gr_jw_null(w);
    }
}

void gr_bench_json(const struct gr_bench_result *r, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    const struct gr_info *i = r->info;
    const char *const texts[][2] = {
        {"model", r->model},      {"embodiment", i->embodiment},
        {"device", i->device},    {"isa", i->isa},
        {"policy", policy_of(i)}, {"policy_step", i->precision_step},
        {"half", i->half},        {"prefix_cache", r->prefix_cache ? "on" : "off"},
        {"cpu", gr_cpu_name()},   {"version", gr_version()},
    };
    gr_jw_object(&w);
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        gr_jw_put_string(&w, texts[t][0], texts[t][1]);
    }
    json_spread(&w, "total_ms", &r->ms[GR_BENCH_TOTAL]);
    json_stages(&w, r);
    json_peaks(&w, r);
    json_spread(&w, "memory_gbytes_per_s", &r->gbytes);
    json_numbers(&w, r);
    gr_jw_end_object(&w);
}
