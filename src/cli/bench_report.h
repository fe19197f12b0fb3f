/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_report.h: what `gr00t bench engine` measured, and its two forms: tables for people, JSON for scripts. */
#ifndef GR_CLI_BENCH_REPORT_H
#define GR_CLI_BENCH_REPORT_H

#include "base/buf.h"
#include "cli/bench_meter.h"
#include "cli/bench_roofline.h"
#include "gr00t.h"

/* Where the time of a predict goes, in the order of struct gr_timing. */
enum {
    GR_BENCH_ENCODE,
    GR_BENCH_VISION,
    GR_BENCH_LLM,
    GR_BENCH_ADAPTER,
    GR_BENCH_DENOISE,
    GR_BENCH_DEVICE, /* all four */
    GR_BENCH_DECODE,
    GR_BENCH_TOTAL,
    GR_BENCH_STAGES
};
double gr_bench_time(const struct gr_timing *t, int stage); /* ms */

struct gr_bench_result {
    const char *model; /* folder, or "synthetic" */
    const struct gr_info *info;
    const struct gr_kernels *kernels;
    int runs, n_tokens, n_text, n_prefix;
    bool prefix_cache;
    struct gr_spread ms[GR_BENCH_STAGES];
    struct gr_spread gops[GR_MAT_FORMATS], gbytes; /* runs + 1 samples between the runs */
    struct gr_meter_rates rates;                   /* their medians */
    struct gr_roofs roofs;                         /* at these medians */
    double first_chunk_ms;                         /* from the call that opens the snapshot */
    double others;                                 /* CPUs, negative: unknown */
    double peak_rss;                               /* bytes, before the bench took memory itself */
};

void gr_bench_text(const struct gr_bench_result *r, struct gr_buf *out);
void gr_bench_json(const struct gr_bench_result *r, struct gr_buf *out);

#endif
