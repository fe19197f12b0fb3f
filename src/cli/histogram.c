/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c: nearest-rank percentiles; bars of '#'. Bin edges are multiples of 1, 2 or 5 times a power of ten, so that two runs of one
 * machine have the same edges and can be compared by eye. */
#include "cli/histogram.h"

#include <math.h>
#include <stdlib.h>

enum { BINS = 12, BAR = 50 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* p in percent, so that 99 of 100 is exact. */
static double rank(const double *sorted, int n, int percent)
{
    long at = ((long)n * percent + 99) / 100;
    return sorted[at > 0 ? at - 1 : 0];
}

struct gr_percentiles gr_percentiles_of(double *values, int n)
{
    struct gr_percentiles p = {0};
    qsort(values, (size_t)n, sizeof *values, by_value);
    for (int i = 0; i < n; i++) {
        p.mean += values[i] / n;
    }
    p.p50 = rank(values, n, 50);
    p.p90 = rank(values, n, 90);
    p.p99 = rank(values, n, 99);
    p.min = values[0];
    p.max = values[n - 1];
    return p;
}

void gr_percentiles_json(const struct gr_percentiles *p, struct gr_jw *w)
{
    const struct {
        const char *name;
        double ms;
    } rows[] = {{"p50", p->p50}, {"p90", p->p90}, {"p99", p->p99}, {"max", p->max}, {"mean", p->mean}, {"min", p->min}};
    gr_jw_object(w);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gr_jw_put_milli(w, rows[i].name, rows[i].ms);
    }
    gr_jw_end_object(w);
}

/* Width of a bin for at most BINS of them: 1, 2 or 5 times a power of ten. */
static double bin_width(double range)
{
    double raw = fmax(range, 1e-3) / (BINS - 1), power = pow(10.0, floor(log10(raw)));
    double m = raw / power;
    return (m <= 1.0 ? 1.0 : m <= 2.0 ? 2.0 : m <= 5.0 ? 5.0 : 10.0) * power;
}

static void put_row(const char *text, int count, int most, struct gr_buf *out)
{
    int bar = (int)((long)count * BAR / (most > 0 ? most : 1));
    gr_buf_printf(out, "  %s %6d ", text, count);
    for (int i = 0; i < (count > 0 && bar == 0 ? 1 : bar); i++) {
        gr_buf_puts(out, "#");
    }
    gr_buf_puts(out, "\n");
}

void gr_histogram_text(const double *sorted, int n, struct gr_buf *out)
{
    double top = rank(sorted, n, 99), width = bin_width(top - sorted[0]), low = floor(sorted[0] / width) * width;
    int counts[BINS + 2] = {0}, bins = (int)((top - low) / width) + 1, most = 0;
    bins = bins > BINS + 1 ? BINS + 1 : bins;
    for (int i = 0; i < n; i++) {
        double at = (sorted[i] - low) / width;
        int bin = at < bins ? (int)at : bins;
        counts[bin]++;
        most = counts[bin] > most ? counts[bin] : most;
    }
    int decimals = width < 1.0 ? (int)ceil(-log10(width) - 1e-9) : 0;
    for (int i = 0; i <= bins; i++) {
        struct gr_buf text = {0};
        gr_buf_printf(&text, i < bins ? "%10.*f ms" : ">=%8.*f ms", decimals, low + i * width);
        if (i < bins || counts[i] > 0) {
            put_row(text.data != NULL ? text.data : "", counts[i], most, out);
        }
        gr_buf_free(&text);
    }
}
