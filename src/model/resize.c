/* SPDX-License-Identifier: Apache-2.0
 *
 * resize.c: area and bicubic resizing, bit for bit as resize_area and resize_bicubic_pil of the reference. In: square uint8
 * pictures. Out: the same. Everything runs row by row, so that a 4096x4096 frame is read once and never copied.
 * Rounding is the specification here: order of sums, float against double and "product and sum round separately" must stay as
 * they are (the build sets -ffp-contract=off). */
#include "model/resize.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ALIGN = 64, UP_BITS = 11, BICUBIC_BITS = 22 };

/* Hands out `bytes` of the block, or only counts when there is no block yet. */
static void *take(void *memory, size_t *used, size_t bytes)
{
    void *p = memory == NULL ? NULL : (uint8_t *)memory + *used;
    *used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static uint8_t clamp_u8(float x) { return (uint8_t)(x < 0.0f ? 0.0f : x > 255.0f ? 255.0f : x); }

/* ---- area: tables ------------------------------------------------------------------------------------------------ */

size_t gr_area_place(struct gr_area *a, int n_max, int d, void *memory)
{
    size_t used = 0, entries = (size_t)n_max + 2 * (size_t)d, out = (size_t)d, in = 3 * (size_t)n_max;
    a->n_max = n_max;
    a->d = d;
    a->n = 0;
    a->entry_dst = take(memory, &used, entries * sizeof *a->entry_dst);
    a->entry_src = take(memory, &used, entries * sizeof *a->entry_src);
    a->entry_weight = take(memory, &used, entries * sizeof *a->entry_weight);
    a->ofs = take(memory, &used, out * sizeof *a->ofs);
    a->c0 = take(memory, &used, out * sizeof *a->c0);
    a->c1 = take(memory, &used, out * sizeof *a->c1);
    a->row = take(memory, &used, in * sizeof *a->row);
    a->sum = take(memory, &used, in * sizeof *a->sum);
    a->line = take(memory, &used, 3 * out * sizeof *a->line);
    a->acc = take(memory, &used, 3 * out * sizeof *a->acc);
    a->pair[0] = take(memory, &used, 3 * out * sizeof *a->pair[0]);
    a->pair[1] = take(memory, &used, 3 * out * sizeof *a->pair[1]);
    return used;
}

static void add_entry(struct gr_area *a, int dst, int src, double weight)
{
    a->entry_dst[a->n_entries] = dst;
    a->entry_src[a->n_entries] = src;
    a->entry_weight[a->n_entries] = (float)weight;
    a->n_entries++;
}

/* _area_table of the reference: which source rows (columns) a destination covers, and how much of each. */
static void plan_table(struct gr_area *a, double scale)
{
    a->n_entries = 0;
    for (int d = 0; d < a->d; d++) {
        double f1 = d * scale, f2 = f1 + scale, cell = fmin(scale, a->n - f1);
        int s1 = (int)ceil(f1), s2 = (int)floor(f2);
        s2 = s2 < a->n - 1 ? s2 : a->n - 1;
        s1 = s1 < s2 ? s1 : s2;
        if (s1 - f1 > 1e-3) {
            add_entry(a, d, s1 - 1, (s1 - f1) / cell);
        }
        for (int s = s1; s < s2; s++) {
            add_entry(a, d, s, 1.0 / cell);
        }
        if (f2 - s2 > 1e-3) {
            add_entry(a, d, s2, fmin(fmin(f2 - s2, 1.0), cell) / cell);
        }
    }
}

static void plan_up(struct gr_area *a, double inv, double scale)
{
    for (int d = 0; d < a->d; d++) {
        int s = (int)floor(d * scale);
        float f = (float)((d + 1) - (s + 1) * inv);
        f = f <= 0.0f ? 0.0f : f - floorf(f);
        if (s >= a->n - 1) {
            s = a->n - 1;
            f = 0.0f;
        }
        a->ofs[d] = s;
        a->c0[d] = (int32_t)rintf((1.0f - f) * (float)(1 << UP_BITS));
        a->c1[d] = (int32_t)rintf(f * (float)(1 << UP_BITS));
    }
}

void gr_area_plan(struct gr_area *a, int n)
{
    if (a->n == n) {
        return;
    }
    a->n = n;
    double inv = (double)a->d / n, scale = 1.0 / inv;
    if (n == a->d) {
        a->kind = GR_AREA_COPY;
    } else if (scale < 1.0) {
        a->kind = GR_AREA_UP;
        plan_up(a, inv, scale);
    } else if (fabs(scale - rint(scale)) < DBL_EPSILON) {
        /* Some whole ratios miss this by one ulp and take the table, as in the reference: 98 = 2744 / 28. None at 256. */
        a->kind = GR_AREA_WHOLE;
        a->k = (int)rint(scale);
    } else {
        a->kind = GR_AREA_TABLE;
        plan_table(a, scale);
    }
}

/* ---- area: rows -------------------------------------------------------------------------------------------------- */

/* Row y of the square with its padding, NULL when it is all padding. */
static const uint8_t *square_row(const struct gr_area *a, const struct gr_square *src, int y)
{
    if (y < src->top || y >= src->top + src->height) {
        return NULL;
    }
    const uint8_t *stored = src->rgb + (size_t)(y - src->top) * src->stride_bytes;
    if (src->width == src->side) {
        return stored;
    }
    size_t left = 3 * (size_t)src->left, mid = 3 * (size_t)src->width, all = 3 * (size_t)src->side;
    memset(a->row, 0, left);
    memcpy(a->row + left, stored, mid);
    memset(a->row + left + mid, 0, all - left - mid);
    return a->row;
}

static void run_copy(const struct gr_area *a, const struct gr_square *src, uint8_t *out)
{
    size_t row_bytes = 3 * (size_t)a->d;
    for (int y = 0; y < a->d; y++, out += row_bytes) {
        const uint8_t *row = square_row(a, src, y);
        if (row == NULL) {
            memset(out, 0, row_bytes);
        } else {
            memcpy(out, row, row_bytes);
        }
    }
}

/* k source rows are added up first (that loop is one vector instruction per 16 bytes), then k columns. Sums are exact. */
static void run_whole(const struct gr_area *a, const struct gr_square *src, uint8_t *out)
{
    const int k = a->k;
    const size_t n3 = 3 * (size_t)a->n;
    const float share = (float)(1.0 / ((double)k * k));
    uint16_t *restrict sum = a->sum;
    for (int dy = 0; dy < a->d; dy++) {
        memset(sum, 0, n3 * sizeof *sum);
        for (int y = dy * k; y < (dy + 1) * k; y++) {
            const uint8_t *restrict row = square_row(a, src, y);
            for (size_t i = 0; row != NULL && i < n3; i++) {
                sum[i] = (uint16_t)(sum[i] + row[i]);
            }
        }
        const uint16_t *p = sum;
        for (int dx = 0; dx < a->d; dx++, out += 3) {
            uint32_t r = 0, g = 0, b = 0;
            for (int i = 0; i < k; i++, p += 3) {
                r += p[0];
                g += p[1];
                b += p[2];
            }
            if (k == 2) {
                out[0] = (uint8_t)((r + 2) >> 2);
                out[1] = (uint8_t)((g + 2) >> 2);
                out[2] = (uint8_t)((b + 2) >> 2);
            } else {
                out[0] = clamp_u8(rintf((float)r * share));
                out[1] = clamp_u8(rintf((float)g * share));
                out[2] = clamp_u8(rintf((float)b * share));
            }
        }
    }
}

/* Horizontal pass of the table: line[d] = sum of src[s] * weight, in table order. */
static void table_line(const struct gr_area *a, const uint8_t *row)
{
    float *line = a->line;
    for (int i = 0; i < a->n_entries;) {
        const int d = a->entry_dst[i];
        float r = 0.0f, g = 0.0f, b = 0.0f;
        for (; i < a->n_entries && a->entry_dst[i] == d; i++) {
            const uint8_t *p = row + 3 * (size_t)a->entry_src[i];
            const float w = a->entry_weight[i];
            r = r + (float)p[0] * w;
            g = g + (float)p[1] * w;
            b = b + (float)p[2] * w;
        }
        line[3 * d] = r;
        line[3 * d + 1] = g;
        line[3 * d + 2] = b;
    }
}

static void run_table(const struct gr_area *a, const struct gr_square *src, uint8_t *out)
{
    const size_t d3 = 3 * (size_t)a->d;
    float *restrict acc = a->acc;
    const float *restrict line = a->line;
    int have = -1; /* source row in `line`; the last row of one destination is often the first of the next */
    for (int i = 0; i < a->n_entries;) {
        const int d = a->entry_dst[i];
        memset(acc, 0, d3 * sizeof *acc); /* 0 + w*x is w*x: the reference sets the first product */
        for (; i < a->n_entries && a->entry_dst[i] == d; i++) {
            const int s = a->entry_src[i];
            const uint8_t *row = square_row(a, src, s);
            if (row == NULL) {
                continue; /* adding zeros changes nothing: all terms are >= 0 */
            }
            if (s != have) {
                table_line(a, row);
                have = s;
            }
            const float w = a->entry_weight[i];
            for (size_t j = 0; j < d3; j++) {
                acc[j] = acc[j] + w * line[j];
            }
        }
        for (size_t j = 0; j < d3; j++) {
            *out++ = clamp_u8(rintf(acc[j]));
        }
    }
}

/* Horizontal pass of the up-scale into pair[s & 1]. */
static const int32_t *up_line(const struct gr_area *a, const struct gr_square *src, int s, int have[2])
{
    int32_t *line = a->pair[s & 1];
    if (have[s & 1] == s) {
        return line;
    }
    have[s & 1] = s;
    const uint8_t *row = square_row(a, src, s);
    if (row == NULL) {
        memset(line, 0, 3 * (size_t)a->d * sizeof *line);
        return line;
    }
    for (int d = 0; d < a->d; d++) {
        const uint8_t *p = row + 3 * (size_t)a->ofs[d];
        const uint8_t *q = a->ofs[d] + 1 < a->n ? p + 3 : p;
        for (int c = 0; c < 3; c++) {
            line[3 * d + c] = p[c] * a->c0[d] + q[c] * a->c1[d];
        }
    }
    return line;
}

static void run_up(const struct gr_area *a, const struct gr_square *src, uint8_t *out)
{
    const size_t d3 = 3 * (size_t)a->d;
    int have[2] = {-1, -1};
    for (int d = 0; d < a->d; d++, out += d3) {
        const int s = a->ofs[d], next = s + 1 < a->n ? s + 1 : s;
        const int32_t *restrict h0 = up_line(a, src, s, have);
        const int32_t *restrict h1 = up_line(a, src, next, have);
        const int32_t c0 = a->c0[d], c1 = a->c1[d];
        for (size_t j = 0; j < d3; j++) {
            int32_t v = (((c0 * (h0[j] >> 4)) >> 16) + ((c1 * (h1[j] >> 4)) >> 16) + 2) >> 2;
            out[j] = (uint8_t)(v > 255 ? 255 : v);
        }
    }
}

void gr_area_run(const struct gr_area *a, const struct gr_square *src, uint8_t *out)
{
    switch (a->kind) {
    case GR_AREA_COPY:
        run_copy(a, src, out);
        break;
    case GR_AREA_WHOLE:
        run_whole(a, src, out);
        break;
    case GR_AREA_TABLE:
        run_table(a, src, out);
        break;
    case GR_AREA_UP:
        run_up(a, src, out);
        break;
    }
}

/* ---- Pillow's bicubic -------------------------------------------------------------------------------------------- */

static double cubic(double x)
{
    const double a = -0.5; /* Pillow's choice; OpenCV uses -0.75 */
    x = fabs(x);
    if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    }
    if (x < 2.0) {
        return (((x - 5) * x + 8) * x - 4) * a;
    }
    return 0.0;
}

static double filter_scale(int n, int m)
{
    double scale = (double)n / m;
    return scale > 1.0 ? scale : 1.0;
}

/* _pil_coeffs of the reference, one output position. */
static void bicubic_weights(struct gr_bicubic *b, int x)
{
    const double scale = (double)b->n / b->m, fs = filter_scale(b->n, b->m), support = 2.0 * fs, ss = 1.0 / fs;
    const double center = (x + 0.5) * scale;
    int lo = (int)(center - support + 0.5), hi = (int)(center + support + 0.5);
    lo = lo > 0 ? lo : 0;
    hi = hi < b->n ? hi : b->n;
    double total = 0.0;
    for (int j = 0; j < hi - lo; j++) {
        total += cubic((j + lo - center + 0.5) * ss);
    }
    int32_t *out = b->weight + (size_t)x * (size_t)b->taps_max;
    for (int j = 0; j < hi - lo; j++) {
        double w = cubic((j + lo - center + 0.5) * ss);
        w = total != 0.0 ? w / total : w;
        out[j] = (int32_t)(w * (1 << BICUBIC_BITS) + (w >= 0 ? 0.5 : -0.5));
    }
    b->lo[x] = lo;
    b->taps[x] = hi - lo;
}

size_t gr_bicubic_place(struct gr_bicubic *b, int n, int m, void *memory)
{
    size_t used = 0, out = (size_t)m;
    b->n = n;
    b->m = m;
    b->taps_max = 2 * (int)ceil(2.0 * filter_scale(n, m)) + 1;
    b->lo = take(memory, &used, out * sizeof *b->lo);
    b->taps = take(memory, &used, out * sizeof *b->taps);
    b->weight = take(memory, &used, out * (size_t)b->taps_max * sizeof *b->weight);
    b->half = take(memory, &used, 3 * out * (size_t)n);
    for (int x = 0; memory != NULL && x < m; x++) {
        bicubic_weights(b, x);
    }
    return used;
}

/* Sums stay inside int32: weights add up to 2^22, their negative part is below a fifth of that. */
static uint8_t fixed_u8(int32_t sum)
{
    int32_t v = sum >> BICUBIC_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void gr_bicubic_run(const struct gr_bicubic *b, const uint8_t *in, uint8_t *out)
{
    const size_t n3 = 3 * (size_t)b->n, m3 = 3 * (size_t)b->m;
    if (b->n == b->m) {
        memcpy(out, in, n3 * (size_t)b->n);
        return;
    }
    const int32_t half_one = 1 << (BICUBIC_BITS - 1);
    for (int y = 0; y < b->n; y++) {
        const uint8_t *row = in + (size_t)y * n3;
        uint8_t *to = b->half + (size_t)y * m3;
        for (int x = 0; x < b->m; x++, to += 3) {
            const uint8_t *p = row + 3 * (size_t)b->lo[x];
            const int32_t *w = b->weight + (size_t)x * (size_t)b->taps_max;
            int32_t r = half_one, g = half_one, bl = half_one;
            for (int j = 0; j < b->taps[x]; j++, p += 3) {
                r += p[0] * w[j];
                g += p[1] * w[j];
                bl += p[2] * w[j];
            }
            to[0] = fixed_u8(r);
            to[1] = fixed_u8(g);
            to[2] = fixed_u8(bl);
        }
    }
    for (int y = 0; y < b->m; y++) {
        const uint8_t *rows = b->half + (size_t)b->lo[y] * m3;
        const int32_t *w = b->weight + (size_t)y * (size_t)b->taps_max;
        const int taps = b->taps[y];
        for (size_t i = 0; i < m3; i++) {
            int32_t sum = half_one;
            for (int j = 0; j < taps; j++) {
                sum += rows[(size_t)j * m3 + i] * w[j];
            }
            *out++ = fixed_u8(sum);
        }
    }
}
