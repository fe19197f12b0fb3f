/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_scalar.c: work on single rows: norms, packing into activation tiles, RMSNorm with rotation of queries and keys.
 * Means and variances are summed in double, in two passes: rows of constant or large values lose nothing. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

static double mean_of(const float *x, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        sum += (double)x[i];
    }
    return sum / n;
}

static double mean_square_about(const float *x, int n, double centre)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        double d = (double)x[i] - centre;
        sum += d * d;
    }
    return sum / n;
}

static void norm_row(const float *x, float *out, int n, const struct gr_row_norm *norm)
{
    const double mean = norm->kind == GR_ROW_LAYER ? mean_of(x, n) : 0.0;
    const double rstd = 1.0 / sqrt(mean_square_about(x, n, mean) + (double)norm->eps);
    for (int i = 0; i < n; i++) {
        float y = (float)(((double)x[i] - mean) * rstd);
        y = norm->gamma != NULL ? y * norm->gamma[i] : y;
        out[i] = norm->kind == GR_ROW_LAYER && norm->beta != NULL ? y + norm->beta[i] : y;
    }
}

void gr_scalar_norm_rows(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                         int r1)
{
    for (int r = r0; r < r1; r++) {
        norm_row(x + (size_t)r * (size_t)ldx, out + (size_t)r * (size_t)ldo, cols, norm);
    }
}

void gr_scalar_pack_f32(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    for (int t = 0; t < gr_tile_count(a->m); t++) {
        const int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1);
        float *tile = (float *)a->data + (size_t)first * (size_t)a->k_pad;
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            const float *row = gr_scalar_source_row(src, r, a->k, scratch);
            for (int k = 0; k < a->k_pad; k += GR_CHUNK) {
                float *to = tile + ((size_t)k * (size_t)(end - first)) + (size_t)(r - first) * GR_CHUNK;
                const int n = a->k - k < GR_CHUNK ? a->k - k : GR_CHUNK;
                memset(to, 0, GR_CHUNK * sizeof *to);
                memcpy(to, row + k, (size_t)n * sizeof *to);
            }
        }
    }
}

void gr_scalar_rms_rope(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                        const float *sin, int r0, int r1)
{
    const struct gr_row_norm norm = {.kind = GR_ROW_RMS, .eps = eps, .gamma = gamma, .beta = NULL};
    const int half = dh / 2;
    for (int r = r0; r < r1; r++) {
        const float *cr = cos + (size_t)r * (size_t)half, *sr = sin + (size_t)r * (size_t)half;
        for (int h = 0; h < heads; h++) {
            float *v = x + (size_t)r * (size_t)ldx + (size_t)h * (size_t)dh;
            norm_row(v, v, dh, &norm);
            for (int i = 0; i < half; i++) {
                const float lo = v[i], hi = v[i + half];
                v[i] = lo * cr[i] - hi * sr[i];
                v[i + half] = hi * cr[i] + lo * sr[i];
            }
        }
    }
}
