/* SPDX-License-Identifier: Apache-2.0
 *
 * positions.c: see positions.h. */
#include "model/positions.h"

#include <math.h>
#include <stdlib.h>

/* ---- position table: separable triangle filter, half-pixel centres ---- */

static void triangle_row(double *row, int n, int g, int i)
{
    double scale = (double)n / g, support = scale > 1.0 ? scale : 1.0, centre = scale * (i + 0.5), sum = 0.0;
    int lo = (int)(centre - support + 0.5), hi = (int)(centre + support + 0.5);
    lo = lo < 0 ? 0 : lo;
    hi = hi > n ? n : hi;
    for (int j = lo; j < hi; j++) {
        double v = 1.0 - fabs((j - centre + 0.5) / support);
        row[j] = v > 0.0 ? v : 0.0;
        sum += row[j];
    }
    for (int j = lo; j < hi; j++) {
        row[j] /= sum;
    }
}

enum gr_status gr_resize_positions(const struct gr_dims *d, const struct gr_tensor *table, float *out,
                                   struct gr_err *err)
{
    const int n = d->vit.table_side, g = d->vit.grid, D = d->vit.hidden;
    if (n == g) {
        gr_tensor_to_f32(table, 0, (size_t)n * (size_t)n * (size_t)D, out);
        return GR_OK;
    }
    double *m = calloc((size_t)g * (size_t)n, sizeof *m);
    if (m == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the position filter");
    }
    for (int i = 0; i < g; i++) {
        triangle_row(m + (size_t)i * (size_t)n, n, g, i);
    }
    for (int p = 0; p < g * g; p++) {
        const double *my = m + (size_t)(p / g) * (size_t)n, *mx = m + (size_t)(p % g) * (size_t)n;
        for (int c = 0; c < D; c++) {
            double sum = 0.0;
            for (int a = 0; a < n; a++) {
                for (int b = 0; my[a] != 0.0 && b < n; b++) {
                    if (mx[b] != 0.0) {
                        sum +=
                            my[a] * mx[b] *
                            (double)gr_tensor_f32(table, ((size_t)a * (size_t)n + (size_t)b) * (size_t)D + (size_t)c);
                    }
                }
            }
            out[(size_t)p * (size_t)D + (size_t)c] = (float)sum;
        }
    }
    free(m);
    return GR_OK;
}

void gr_rotary_tables(const struct gr_dims *d, int rows, float *cosine, float *sine)
{
    const int half = d->llm.head_dim / 2;
    for (int i = 0; i < half; i++) {
        const float inv = 1.0f / powf(GR_ROPE_THETA, (float)(2 * i) / (float)(2 * half));
        for (int p = 0; p < rows; p++) {
            const float angle = (float)p * inv;
            cosine[(size_t)p * (size_t)half + (size_t)i] = (float)cos((double)angle);
            sine[(size_t)p * (size_t)half + (size_t)i] = (float)sin((double)angle);
        }
    }
}
