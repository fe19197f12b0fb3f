/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_meter.c: measures the surroundings of a bench. The peak is taken between the runs, because the clock rate of a shared
 * machine changes by the minute: a share of a peak measured earlier means nothing. */
#include "cli/bench_meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct gr_spread gr_spread_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    double p50 = n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
    return (struct gr_spread){p50, values[0], values[n - 1]};
}

struct peak_job {
    const struct gr_kernels *kernels;
    double gflops[GR_POOL_THREADS_MAX];
};

static void peak_of_thread(int id, int n, void *arg)
{
    (void)n;
    struct peak_job *job = arg;
    job->gflops[id] = job->kernels->peak[GR_MAT_F32]();
}

double gr_meter_peak(struct gr_pool *pool, const struct gr_kernels *kernels)
{
    struct peak_job job = {.kernels = kernels};
    gr_pool_run(pool, peak_of_thread, &job);
    double sum = 0.0;
    for (int i = 0; i < gr_pool_threads(pool); i++) {
        sum += job.gflops[i];
    }
    return sum;
}

/* user + nice + system + irq + softirq of all CPUs; idle, waiting and stolen time are not work of this machine's processes. */
static double machine_seconds(void)
{
    FILE *f = fopen("/proc/stat", "re");
    unsigned long long user, nice, sys, idle, wait, irq, soft;
    int n = f == NULL
                ? 0
                : fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &sys, &idle, &wait, &irq, &soft);
    if (f != NULL) {
        fclose(f);
    }
    return n == 7 ? (double)(user + nice + sys + irq + soft) / (double)sysconf(_SC_CLK_TCK) : -1.0;
}

struct gr_meter_cpu gr_meter_cpu_now(void)
{
    struct timespec own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    return (struct gr_meter_cpu){machine_seconds(), (double)own.tv_sec + 1e-9 * (double)own.tv_nsec,
                                 gr_clock_ms() / 1000.0};
}

double gr_meter_others(const struct gr_meter_cpu *from, const struct gr_meter_cpu *to)
{
    double wall = to->wall - from->wall;
    if (from->machine < 0.0 || to->machine < 0.0 || wall <= 0.0) {
        return -1.0;
    }
    double others = (to->machine - from->machine - (to->own - from->own)) / wall;
    return others > 0.0 ? others : 0.0;
}
