/* SPDX-License-Identifier: Apache-2.0
 *
 * quantise_round.c: exact panels to the 16-bit formats F16, I16 and BF16P: each weight on its own, rounded to nearest even. Two passes over
 * a panel, one for the largest weight of each column, one to convert. */
#include <math.h>
#include <string.h>

#include "device/cpu/quantise_job.h"

enum { I16_MOST = 2047, COLS_MOST = GR_PANEL_MAX };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* |x| < 65504. Below 2^-14 halves have the step 2^-24, which is that of floats in [0.5, 1): adding 0.5 rounds to it. */
static uint16_t half_of(float x)
{
    const uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    const uint32_t small = bits_of(fabsf(x) + 0.5f) - bits_of(0.5f);
    return (uint16_t)((bits >> 16 & 0x8000u) | (magnitude < 113u << 23 ? small : normal));
}

/* Finite stays finite: what would round up to infinity becomes the largest number. */
static uint16_t bf16_of(float x)
{
    const uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000u) | (rounded < 0x7f80u ? rounded : 0x7f7fu));
}

/* One k of a target panel: one or two panels of the exact matrix side by side. */
static void read_wide(const struct gr_quant_job *job, int panel, int k, float *to)
{
    const int parts = gr_mat_cols(job->out->format) / GR_PANEL;
    for (int i = 0; i < parts; i++) {
        gr_quant_read_row(job->exact, panel * parts + i, k, to + (size_t)i * GR_PANEL);
    }
}

/* Power of two next above the largest weight, so that all lie within +-1; of a size whose inverse is a normal float. */
static float half_scale(float largest)
{
    int e = 0;
    if (largest > 0.0f) {
        frexpf(largest, &e);
        e = e < -100 ? -100 : e > 126 ? 126 : e;
    }
    return ldexpf(1.0f, e);
}

static void column_scales(const struct gr_quant_job *job, int panel, float *scale, float *inverse)
{
    const int cols = gr_mat_cols(job->out->format);
    float row[COLS_MOST], largest[COLS_MOST] = {0};
    for (int k = 0; k < job->exact->k; k++) {
        read_wide(job, panel, k, row);
        for (int c = 0; c < cols; c++) {
            const float w = fabsf(row[c]);
            largest[c] = w > largest[c] ? w : largest[c];
        }
    }
    for (int c = 0; c < cols; c++) {
        scale[c] = job->out->format == GR_MAT_F16 ? half_scale(largest[c]) : fmaxf(largest[c] / I16_MOST, 1e-30f);
        inverse[c] = 1.0f / scale[c];
    }
}

static void f16_row(const float *row, const float *inverse, uint16_t *to)
{
    for (int c = 0; c < 64; c++) {
        to[c] = half_of(row[c] * inverse[c]);
    }
}

/* Row of pairs of k: element c of this k stands at to[2 c]. */
static void i16_row(const float *row, const float *inverse, uint16_t *to)
{
    for (int c = 0; c < GR_PANEL; c++) {
        float q = rintf(row[c] * inverse[c]);
        q = q > I16_MOST ? I16_MOST : q < -I16_MOST ? -I16_MOST : q;
        to[2 * c] = (uint16_t)(int16_t)q;
    }
}

static void bf16_row(const float *row, uint16_t *to)
{
    for (int c = 0; c < GR_PANEL; c++) {
        to[2 * c] = bf16_of(row[c]);
    }
}

void gr_quant_round_panels(const struct gr_quant_job *job, int p0, int p1)
{
    const enum gr_mat_format format = job->out->format;
    const int cols = gr_mat_cols(format);
    const size_t panel_bytes = gr_mat_panel_bytes(job->out), k_bytes = gr_mat_k_bytes(format);
    float row[COLS_MOST], inverse[COLS_MOST];
    for (int p = p0; p < p1; p++) {
        uint16_t *data = (uint16_t *)((char *)job->parts->data + (size_t)p * panel_bytes);
        if (format != GR_MAT_BF16P) {
            column_scales(job, p, job->parts->scale + (size_t)p * (size_t)cols, inverse);
        }
        for (int k = 0; k < (int)(panel_bytes / k_bytes); k++) {
            uint16_t *pair = data + (size_t)(k / 2) * 2 * GR_PANEL + k % 2;
            read_wide(job, p, k, row);
            if (format == GR_MAT_F16) {
                f16_row(row, inverse, data + (size_t)k * 64);
            } else if (format == GR_MAT_I16) {
                i16_row(row, inverse, pair);
            } else {
                bf16_row(row, pair);
            }
        }
    }
}
