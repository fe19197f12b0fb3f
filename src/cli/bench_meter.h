/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_meter.h: what a bench needs beside a clock: medians, the multiply-add peak of this moment, other processes' CPU time. */
#ifndef GR_CLI_BENCH_METER_H
#define GR_CLI_BENCH_METER_H

#include "base/thread_pool.h"
#include "kernels/kernels.h"

struct gr_spread {
    double p50, min, max;
};
/* Sorts values[0 .. n) in place. n >= 1. The median of an even number is the mean of the two middle ones. */
struct gr_spread gr_spread_of(double *values, int n);

/* GFLOP/s of all threads of the pool at once. */
double gr_meter_peak(struct gr_pool *pool, const struct gr_kernels *kernels);

/* CPU time since some moment: of the whole machine from /proc/stat (negative: unknown), and of this process. Seconds. */
struct gr_meter_cpu {
    double machine, own, wall;
};
struct gr_meter_cpu gr_meter_cpu_now(void);
/* CPUs that other processes kept busy between two moments; negative: unknown. /proc/stat counts in steps of 10 ms. */
double gr_meter_others(const struct gr_meter_cpu *from, const struct gr_meter_cpu *to);

#endif
