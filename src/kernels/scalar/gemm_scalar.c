/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_scalar.c: the product of packed activations with packed weights, panel after panel, then bias and epilogue.
 * Order of the sums of one output element: k in blocks of 256; within a block four k at a time, (a0 w0 + a1 w1) +
 * (a2 w2 + a3 w3) added to the block's sum; blocks added in order. Short chains keep the error far below the
 * golden bound, and the loops over the 32 columns are what a compiler turns into vector code by itself. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

enum { K_BLOCK = 256 };

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Weights of panel p, k in [k0, k1), as [k][32] floats: in place or widened into `wide`. */
static const float *panel_block(const struct gr_mat *w, int k_pad, int p, int k0, int k1, float *wide)
{
    size_t first = (size_t)p * (size_t)k_pad + (size_t)k0;
    if (w->format == GR_MAT_F32) {
        return (const float *)w->data + first * GR_PANEL;
    }
    const uint32_t *pair = (const uint32_t *)w->data + first * (GR_PANEL / 2);
    for (int k = k0; k < k1; k++, pair += GR_PANEL / 2) {
        float *row = wide + (size_t)(k - k0) * GR_PANEL;
        for (int c = 0; c < GR_PANEL / 2; c++) {
            row[c] = float_of_bits(pair[c] << 16);
            row[c + GR_PANEL / 2] = float_of_bits(pair[c] & 0xffff0000u);
        }
    }
    return wide;
}

/* sum[c] += the product of one row's chunks (16 floats each, `stride` floats apart) with a block of weights. */
static void add_block(const float *a, size_t stride, const float *w, int k, float *sum)
{
    float block[GR_PANEL] = {0};
    for (int k0 = 0; k0 < k; k0 += GR_CHUNK, a += stride) {
        for (int i = 0; i < GR_CHUNK; i += 4, w += 4 * GR_PANEL) {
            for (int c = 0; c < GR_PANEL; c++) {
                block[c] += (a[i] * w[c] + a[i + 1] * w[c + GR_PANEL]) +
                            (a[i + 2] * w[c + 2 * GR_PANEL] + a[i + 3] * w[c + 3 * GR_PANEL]);
            }
        }
    }
    for (int c = 0; c < GR_PANEL; c++) {
        sum[c] += block[c];
    }
}

static float activate(enum gr_epilogue e, float y)
{
    switch (e) {
    case GR_EPI_GELU_TANH:
        return 0.5f * y * (1.0f + tanhf(0.7978845608028654f * (y + 0.044715f * y * y * y)));
    case GR_EPI_GELU_ERF:
        return 0.5f * y * (1.0f + erff(y * 0.70710678118654752f));
    case GR_EPI_SILU:
        return y / (1.0f + expf(-y));
    case GR_EPI_RELU:
        return y < 0.0f ? 0.0f : y; /* a NaN stays */
    default:
        return y;
    }
}

void gr_scalar_finish_row(const struct gr_gemm *g, int p, int r, const float *y)
{
    const int n = g->w->n, cols = gr_mat_cols(g->w->format), half = GR_PANEL / 2;
    float *out = g->out + (size_t)r * (size_t)g->ldo;
    if (g->epilogue ==
        GR_EPI_SILU_MUL) { /* column c of the panel's cols / 2: gate at 16 gates and 16 ups from pair to pair */
        for (int c = 0, to = p * cols / 2; c < cols / 2 && to < n / 2; c++, to++) {
            const float *gate = y + c / half * GR_PANEL + c % half;
            out[to] = activate(GR_EPI_SILU, gate[0]) * gate[half];
        }
        return;
    }
    for (int c = 0; c < cols && p * cols + c < n; c++) {
        float *to = out + p * cols + c, v = activate(g->epilogue, y[c]);
        *to = g->epilogue == GR_EPI_ADD ? *to + v : v;
    }
}

/* One row of panel p: bias, activation, store. */
static void finish_row(const struct gr_gemm *g, int p, int r, float *sum)
{
    const float *bias = (g->bias != NULL ? g->bias : g->w->bias) + (size_t)p * GR_PANEL;
    for (int c = 0; c < GR_PANEL; c++) {
        sum[c] += bias[c];
    }
    gr_scalar_finish_row(g, p, r, sum);
}

void gr_scalar_gemm(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    const struct gr_acts *a = g->a;
    float *wide = scratch, *sums = wide + (size_t)K_BLOCK * GR_PANEL; /* widened weights; [m][32] sums */
    for (int p = p0; p < p1; p++) {
        memset(sums, 0, (size_t)a->m * GR_PANEL * sizeof *sums);
        for (int k0 = 0; k0 < a->k_pad; k0 += K_BLOCK) {
            const int k1 = k0 + K_BLOCK < a->k_pad ? k0 + K_BLOCK : a->k_pad;
            const float *w = panel_block(g->w, a->k_pad, p, k0, k1, wide);
            for (int t = 0; t < gr_tile_count(a->m); t++) {
                const int first = gr_tile_first(a->m, t), rows = gr_tile_first(a->m, t + 1) - first;
                const float *tile =
                    (const float *)a->data + (size_t)first * (size_t)a->k_pad + (size_t)k0 * (size_t)rows;
                for (int r = 0; r < rows; r++) {
                    add_block(tile + (size_t)r * GR_CHUNK, (size_t)rows * GR_CHUNK, w, k1 - k0,
                              sums + (size_t)(first + r) * GR_PANEL);
                }
            }
        }
        for (int r = 0; r < a->m; r++) {
            finish_row(g, p, r, sums + (size_t)r * GR_PANEL);
        }
    }
}
