/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_quant_scalar.c: products in the low-precision formats, one output row of one panel at a time. Sums run over BLOCK_K k, in
 * the arithmetic of the format, and are then added as floats in order of k; int8 sums are exact over the whole of k. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

#include "kernels/scalar/half_scalar.h"

enum { BLOCK_K = 128 };

static float float_of_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* t[c] += the product of one row with column c of a panel. a: the row's first chunk, the next ones `stride` bytes apart. */
static void row_i8(const uint8_t *a, size_t stride, const void *panel, int k_pad, float *t)
{
    const int8_t *w = panel;
    int32_t sum[GR_PANEL] = {0};
    for (int k0 = 0; k0 < k_pad; k0 += 64, a += stride) {
        for (int i = 0; i < 64; i += 4, w += (size_t)4 * GR_PANEL) {
            for (int c = 0; c < GR_PANEL; c++) {
                const int8_t *q = w + (size_t)4 * (size_t)c;
                sum[c] += a[i] * q[0] + a[i + 1] * q[1] + a[i + 2] * q[2] + a[i + 3] * q[3];
            }
        }
    }
    for (int c = 0; c < GR_PANEL; c++) {
        t[c] += (float)sum[c];
    }
}

static void row_i16(const uint8_t *a, size_t stride, const void *panel, int k_pad, float *t)
{
    const int16_t *w = panel;
    int32_t sum[GR_PANEL] = {0};
    for (int k0 = 0; k0 < k_pad; k0 += 32, a += stride) {
        const int16_t *x = (const int16_t *)(const void *)a;
        for (int i = 0; i < 32; i += 2, w += (size_t)2 * GR_PANEL) {
            for (int c = 0; c < GR_PANEL; c++) {
                sum[c] += x[i] * w[2 * c] + x[i + 1] * w[2 * c + 1];
            }
        }
        if ((k0 + 32) % BLOCK_K == 0 || k0 + 32 == k_pad) {
            for (int c = 0; c < GR_PANEL; c++) {
                t[c] += (float)sum[c];
                sum[c] = 0;
            }
        }
    }
}

static void row_f16(const uint8_t *a, size_t stride, const void *panel, int k_pad, float *t)
{
    const uint16_t *w = panel;
    double sum[GR_PANEL_MAX] = {0}; /* always halves; double holds a half times a half exactly */
    for (int k0 = 0; k0 < k_pad; k0 += 16, a += stride) {
        const uint16_t *x = (const uint16_t *)(const void *)a;
        for (int i = 0; i < 16; i++, w += GR_PANEL_MAX) {
            const double xi = (double)gr_half_to_float(x[2 * i]);
            for (int c = 0; c < GR_PANEL_MAX; c++) {
                sum[c] = gr_half_round(sum[c] + xi * (double)gr_half_to_float(w[c]));
            }
        }
        if ((k0 + 16) % BLOCK_K == 0 || k0 + 16 == k_pad) {
            for (int c = 0; c < GR_PANEL_MAX; c++) {
                t[c] += (float)sum[c];
                sum[c] = 0.0;
            }
        }
    }
}

static void row_bf16p(const uint8_t *a, size_t stride, const void *panel, int k_pad, float *t)
{
    const uint16_t *w = panel;
    float sum[GR_PANEL] = {0};
    for (int k0 = 0; k0 < k_pad; k0 += 32, a += stride) {
        const uint16_t *x = (const uint16_t *)(const void *)a;
        for (int i = 0; i < 32; i++) {
            const float xi = float_of_bf16(x[i]);
            const uint16_t *pairs = w + (size_t)(i / 2) * 2 * GR_PANEL + i % 2;
            for (int c = 0; c < GR_PANEL; c++) {
                sum[c] += xi * float_of_bf16(pairs[2 * c]); /* the product of two BF16 is exact */
            }
        }
        w += (size_t)32 * GR_PANEL;
        if ((k0 + 32) % BLOCK_K == 0 || k0 + 32 == k_pad) {
            for (int c = 0; c < GR_PANEL; c++) {
                t[c] += sum[c];
                sum[c] = 0.0f;
            }
        }
    }
}

/* From the sums of row r with panel p to y, in place. */
static void scale_row(const struct gr_gemm *g, int p, int r, float *t)
{
    const int cols = gr_mat_cols(g->w->format);
    const size_t first = (size_t)p * (size_t)cols;
    const float *bias = (g->bias != NULL ? g->bias : g->w->bias) + first;
    for (int c = 0; c < cols; c++) {
        if (g->w->format == GR_MAT_BF16P) {
            t[c] += bias[c];
            continue;
        }
        const float shift =
            g->w->format == GR_MAT_I8 ? fmaf(g->a->zero[r], g->w->offset[first + (size_t)c], bias[c]) : bias[c];
        t[c] = fmaf(t[c] * g->w->scale[first + (size_t)c], g->a->scale[r], shift);
    }
}

static void product(const struct gr_gemm *g, int p0, int p1,
                    void (*row)(const uint8_t *a, size_t stride, const void *panel, int k_pad, float *t))
{
    const struct gr_acts *a = g->a;
    const size_t row_bytes = gr_acts_row_bytes(a->format, a->k), panel_bytes = gr_mat_panel_bytes(g->w);
    for (int p = p0; p < p1; p++) {
        const uint8_t *panel = (const uint8_t *)g->w->data + (size_t)p * panel_bytes;
        for (int t = 0; t < gr_tile_count(a->m); t++) {
            const int first = gr_tile_first(a->m, t), rows = gr_tile_first(a->m, t + 1) - first;
            const uint8_t *tile = (const uint8_t *)a->data + (size_t)first * row_bytes;
            for (int r = 0; r < rows; r++) {
                float y[GR_PANEL_MAX] = {0};
                row(tile + (size_t)r * GR_CHUNK_BYTES, (size_t)rows * GR_CHUNK_BYTES, panel, a->k_pad, y);
                scale_row(g, p, first + r, y);
                gr_scalar_finish_row(g, p, first + r, y);
            }
        }
    }
}

void gr_scalar_gemm_i8(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    (void)scratch;
    product(g, p0, p1, row_i8);
}

void gr_scalar_gemm_i16(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    (void)scratch;
    product(g, p0, p1, row_i16);
}

void gr_scalar_gemm_f16(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    (void)scratch;
    product(g, p0, p1, row_f16);
}

void gr_scalar_gemm_bf16p(const struct gr_gemm *g, int p0, int p1, void *scratch)
{
    (void)scratch;
    product(g, p0, p1, row_bf16p);
}
