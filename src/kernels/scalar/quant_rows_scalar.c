/* SPDX-License-Identifier: Apache-2.0
 *
 * quant_rows_scalar.c: rows to the low-precision formats: gather, norm, multiplication with the smoothing vector, then what
 * kernels.h states for each format. The row is finished as floats in scratch first, so every format sees the same values. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/scalar/half_scalar.h"

#define SMALLEST_SCALE 1e-20f

const float *gr_scalar_source_row(const struct gr_row_source *src, int r, int k, float *buffer)
{
    const float *x = src->x + (size_t)(src->index != NULL ? src->index[r] : r) * (size_t)src->ldx;
    if (src->norm != NULL) {
        gr_scalar_norm_rows(x, 0, buffer, 0, k, src->norm, 0, 1);
        x = buffer;
    }
    if (src->smooth != NULL) {
        for (int i = 0; i < k; i++) {
            buffer[i] = x[i] * src->smooth[i];
        }
        x = buffer;
    }
    return x;
}

/* What the scale of a row follows from. */
struct range {
    float lo, hi; /* 0 among them */
    bool broken;  /* NaN or infinity */
};

static struct range range_of(const float *x, int k)
{
    struct range range = {0};
    for (int i = 0; i < k; i++) {
        range.lo = x[i] < range.lo ? x[i] : range.lo;
        range.hi = x[i] > range.hi ? x[i] : range.hi;
        range.broken = range.broken || !isfinite(x[i]);
    }
    return range;
}

static float largest_of(const struct range *range) { return range->hi > -range->lo ? range->hi : -range->lo; }

static float at_least(float x, float least) { return x > least ? x : least; }

static int within(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

/* One row of packed activations. */
struct target {
    uint8_t *chunk;      /* its first 64 bytes */
    size_t stride;       /* bytes to the next */
    float *scale, *zero; /* NULL where the format has none */
};

static void quantise_u8(const float *x, int k, const struct target *to)
{
    const struct range range = range_of(x, k);
    const float scale = at_least((range.hi - range.lo) / 255.0f, SMALLEST_SCALE), inverse = 1.0f / scale;
    const int zero_point = range.broken ? 0 : within((int)rintf(-range.lo * inverse), 0, 255);
    *to->scale = range.broken ? NAN : scale;
    *to->zero = -*to->scale * (float)zero_point;
    for (int i = 0; i < k; i++) {
        uint8_t *chunk = to->chunk + (size_t)(i / 64) * to->stride;
        chunk[i % 64] = range.broken ? 0 : (uint8_t)within((int)rintf(x[i] * inverse) + zero_point, 0, 255);
    }
}

static void quantise_i16(const float *x, int k, const struct target *to)
{
    const struct range range = range_of(x, k);
    const float scale = at_least(largest_of(&range) / 8191.0f, SMALLEST_SCALE), inverse = 1.0f / scale;
    *to->scale = range.broken ? NAN : scale;
    for (int i = 0; i < k; i++) {
        const int16_t q = range.broken ? 0 : (int16_t)rintf(x[i] * inverse);
        memcpy(to->chunk + (size_t)(i / 32) * to->stride + i % 32 * 2, &q, sizeof q);
    }
}

static void quantise_f16(const float *x, int k, const struct target *to)
{
    const struct range range = range_of(x, k);
    int e = 3; /* scale 1 */
    if (!range.broken && largest_of(&range) > 0.0f) {
        (void)frexpf(largest_of(&range), &e);
        e = e < GR_F16_LEAST_EXPONENT + 3 ? GR_F16_LEAST_EXPONENT + 3 : e;
    }
    *to->scale = range.broken ? NAN : ldexpf(1.0f, e - 3);
    const float inverse = ldexpf(1.0f, 3 - e);
    for (int i = 0; i < k; i++) {
        const uint16_t half = gr_half_from_float(x[i] * inverse), twice[2] = {half, half};
        memcpy(to->chunk + (size_t)(i / 16) * to->stride + i % 16 * 4, twice, sizeof twice);
    }
}

static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) {
        return (uint16_t)(bits >> 16 | 0x40u); /* quiet: cutting it must not make it an infinity */
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static void round_bf16(const float *x, int k, const struct target *to)
{
    for (int i = 0; i < k; i++) {
        const uint16_t bits = bf16_of(x[i]);
        memcpy(to->chunk + (size_t)(i / 32) * to->stride + i % 32 * 2, &bits, sizeof bits);
    }
}

static void pack(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, float *buffer,
                 void (*quantise)(const float *x, int k, const struct target *to))
{
    const size_t row_bytes = gr_acts_row_bytes(a->format, a->k);
    for (int t = 0; t < gr_tile_count(a->m); t++) {
        const int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1);
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            uint8_t *tile = (uint8_t *)a->data + (size_t)first * row_bytes;
            const struct target to = {.chunk = tile + (size_t)(r - first) * GR_CHUNK_BYTES,
                                      .stride = (size_t)(end - first) * GR_CHUNK_BYTES,
                                      .scale = a->scale != NULL ? a->scale + r : NULL,
                                      .zero = a->zero != NULL ? a->zero + r : NULL};
            memset(to.chunk + (row_bytes / GR_CHUNK_BYTES - 1) * to.stride, 0, GR_CHUNK_BYTES); /* pad k */
            quantise(gr_scalar_source_row(src, r, a->k, buffer), a->k, &to);
        }
    }
}

void gr_scalar_pack_u8(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_u8);
}

void gr_scalar_pack_i16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_i16);
}

void gr_scalar_pack_f16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, quantise_f16);
}

void gr_scalar_pack_bf16(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    pack(a, src, r0, r1, scratch, round_bf16);
}
