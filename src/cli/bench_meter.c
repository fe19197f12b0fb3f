/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_meter.c: measures the surroundings of a bench. The rates are taken between the runs, because the clock and the memory of a
 * shared machine change by the minute: a share of a peak measured earlier means nothing. All threads measure the same thing at once. */
#include "cli/bench_meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

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

enum {
    READ_BYTES = 256 << 20,
    LINE = 64,
    AHEAD = 64 /* lines */,
    CLOCK_LOOPS = 30000,
    CLOCK_TRIES = 3,
    CLOCK_ADDS = 16
};

struct gr_meter {
    struct gr_pool *pool;
    struct gr_kernels kernels;
    void *buffer;
    struct { /* of each thread */
        double gops[GR_MAT_FORMATS], ghz[GR_MAT_FORMATS];
        uint64_t sum; /* of what was read: a result that nobody keeps need not be computed */
    } thread[GR_POOL_THREADS_MAX];
    double read_ms;
};

/* A chain of dependent additions takes a cycle each. Both operands are registers: additions of small constants cost recent CPUs
 * nothing. As long as one try of the peak loops, some 100 microseconds, and the best of as many: interruptions by a hypervisor, every
 * 50 microseconds on the machine this was written on, then take the same part of both. */
static double clock_ghz(void)
{
    double best = 0.0;
#if defined(__x86_64__)
    for (int i = 0; i < CLOCK_TRIES; i++) {
        unsigned long x = 1, n = CLOCK_LOOPS;
        double start = gr_clock_ms();
#define ADD4 "add %1,%1\n add %1,%1\n add %1,%1\n add %1,%1\n"
        __asm__ volatile("1:\n" ADD4 ADD4 ADD4 ADD4 "dec %0\n jnz 1b\n" : "+r"(n), "+r"(x) : : "cc");
        double ghz = (double)CLOCK_LOOPS * CLOCK_ADDS / (gr_clock_ms() - start) * 1e-6;
        best = ghz > best ? ghz : best;
    }
#endif
    return best;
}

/* One load a line brings in the whole line; asking some lines ahead keeps more of them under way, as the kernels do. */
static uint64_t read_lines(const char *p, size_t bytes)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i < bytes; i += LINE) {
        __builtin_prefetch(p + i + (size_t)AHEAD * LINE, 0, 2);
        memcpy(&word, p + i, sizeof word);
        sum ^= word;
    }
    return sum;
}

static void share_of_buffer(const struct gr_meter *m, int id, int n, char **at, size_t *bytes)
{
    int first, end;
    gr_pool_share(id, n, READ_BYTES / LINE - AHEAD, &first, &end);
    *at = (char *)m->buffer + (size_t)first * LINE;
    *bytes = (size_t)(end - first) * LINE;
}

static void touch(int id, int n, void *arg)
{
    char *at;
    size_t bytes;
    share_of_buffer(arg, id, n, &at, &bytes);
    memset(at, 1, bytes); /* pages that were never written are all the same one */
}

static void sample(int id, int n, void *arg)
{
    struct gr_meter *m = arg;
    const struct gr_kernels *k = &m->kernels;
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        gr_pool_barrier(m->pool);
        if (f > 0 && k->peak[f] == k->peak[f - 1]) {
            m->thread[id].gops[f] = m->thread[id].gops[f - 1];
            m->thread[id].ghz[f] = m->thread[id].ghz[f - 1];
        } else if (k->peak[f] != NULL) {
            m->thread[id].gops[f] = k->peak[f]();
            m->thread[id].ghz[f] = clock_ghz();
        }
    }
    char *at;
    size_t bytes;
    share_of_buffer(m, id, n, &at, &bytes);
    gr_pool_barrier(m->pool);
    double start = gr_clock_ms();
    m->thread[id].sum = read_lines(at, bytes);
    gr_pool_barrier(m->pool);
    if (id == 0) {
        m->read_ms = gr_clock_ms() - start;
    }
}

enum gr_status gr_meter_open(int threads, unsigned flags, struct gr_meter **out, struct gr_err *err)
{
    struct gr_meter *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the meter");
    }
    enum gr_status status = gr_pool_new(threads, &m->pool, err);
    if (status == GR_OK) {
        status = gr_big_alloc(READ_BYTES, "buffer to measure the memory", &m->buffer, err);
    }
    if (status != GR_OK) {
        gr_meter_close(m);
        return status;
    }
    gr_kernels_init(&m->kernels, flags);
    gr_pool_run(m->pool, touch, m);
    *out = m;
    return GR_OK;
}

void gr_meter_close(struct gr_meter *m)
{
    if (m != NULL) {
        gr_big_free(m->buffer, READ_BYTES);
        gr_pool_free(m->pool);
        free(m);
    }
}

const struct gr_kernels *gr_meter_kernels(const struct gr_meter *m) { return &m->kernels; }

struct gr_meter_rates gr_meter_sample(struct gr_meter *m)
{
    struct gr_meter_rates r = {0};
    const int n = gr_pool_threads(m->pool);
    gr_pool_run(m->pool, sample, m);
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        for (int i = 0; i < n; i++) {
            r.gops[f] += m->thread[i].gops[f];
            r.ghz[f] += m->thread[i].ghz[f] / n;
        }
    }
    r.gbytes = (double)(READ_BYTES - AHEAD * LINE) / m->read_ms * 1e-6;
    return r;
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
