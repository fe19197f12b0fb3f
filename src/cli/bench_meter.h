/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_meter.h: what a bench needs beside a clock: medians, the multiply and memory rates of this moment, other processes' CPU time. */
#ifndef GR_CLI_BENCH_METER_H
#define GR_CLI_BENCH_METER_H

#include "base/thread_pool.h"
#include "kernels/kernels.h"

struct gr_spread {
    double p50, min, max;
};
/* Sorts values[0 .. n) in place. n >= 1. The median of an even number is the mean of the two middle ones. */
struct gr_spread gr_spread_of(double *values, int n);

/* What all threads reach at once, at one moment. */
struct gr_meter_rates {
    double gops
        [GR_MAT_FORMATS]; /* sum over the threads: multiply instruction of each format, Gop/s; 0: the table has none */
    double ghz[GR_MAT_FORMATS]; /* mean clock of the threads directly behind that loop; 0: unknown */
    double gbytes;              /* reading memory, GB/s */
};

struct gr_meter;
/* Takes a buffer of 256 MiB to read. flags: enum gr_cpu_flags of the kernels. GR_ERR_NOMEM. */
enum gr_status gr_meter_open(int threads, unsigned flags, struct gr_meter **out, struct gr_err *err);
void gr_meter_close(struct gr_meter *meter); /* NULL is allowed */
const struct gr_kernels *gr_meter_kernels(const struct gr_meter *meter);
/* Some ten ms a format. */
struct gr_meter_rates gr_meter_sample(struct gr_meter *meter);

/* CPU time since some moment: of the whole machine from /proc/stat (negative: unknown), and of this process. Seconds. */
struct gr_meter_cpu {
    double machine, own, wall;
};
struct gr_meter_cpu gr_meter_cpu_now(void);
/* CPUs that other processes kept busy between two moments; negative: unknown. /proc/stat counts in steps of 10 ms. */
double gr_meter_others(const struct gr_meter_cpu *from, const struct gr_meter_cpu *to);

#endif
