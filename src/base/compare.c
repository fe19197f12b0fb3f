/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c: differences of two arrays. Two passes, so that the correlation of large offsets stays exact. */
#include "base/compare.h"

#include <math.h>
#include <stddef.h>

#define STD_MIN 1e-6 /* below it a correlation says nothing */

static double ratio(double a, double b) { return a == 0.0 ? 0.0 : b == 0.0 ? INFINITY : a / b; }

struct gr_diff gr_compare(const float *got, int got_stride, const float *want, int want_stride, int rows, int cols)
{
    struct gr_diff d = {0};
    double sum_got = 0.0, sum_want = 0.0, square_diff = 0.0, square_want = 0.0, n = (double)rows * (double)cols;
    for (int r = 0; r < rows; r++) {
        const float *got_row = got + (ptrdiff_t)r * got_stride, *want_row = want + (ptrdiff_t)r * want_stride;
        for (int c = 0; c < cols; c++) {
            double g = (double)got_row[c], w = (double)want_row[c];
            double diff = isfinite(g) && isfinite(w) ? fabs(g - w) : INFINITY;
            d.max_abs = fmax(d.max_abs, diff);
            d.max_want = fmax(d.max_want, fabs(w));
            square_diff += diff * diff;
            square_want += w * w;
            sum_got += g;
            sum_want += w;
        }
    }
    double mean_got = sum_got / n, mean_want = sum_want / n, gg = 0.0, ww = 0.0, gw = 0.0;
    for (int r = 0; r < rows; r++) {
        const float *got_row = got + (ptrdiff_t)r * got_stride, *want_row = want + (ptrdiff_t)r * want_stride;
        for (int c = 0; c < cols; c++) {
            double g = (double)got_row[c] - mean_got, w = (double)want_row[c] - mean_want;
            gg += g * g;
            ww += w * w;
            gw += g * w;
        }
    }
    d.has_pcc = sqrt(gg / n) >= STD_MIN && sqrt(ww / n) >= STD_MIN;
    d.pcc = d.has_pcc ? gw / sqrt(gg * ww) : 0.0;
    d.rel_max = ratio(d.max_abs, d.max_want);
    d.rel_rms = sqrt(ratio(square_diff, square_want));
    return d;
}
