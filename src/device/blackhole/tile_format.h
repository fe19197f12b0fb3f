/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_format.h: 32x32 tiles as Tensix stores them, and the number formats inside.
 *
 * A tile is four 16x16 faces (top-left, top-right, bottom-left, bottom-right), each row-major: element (r, c) is at
 * 256 (2 (r / 16) + c / 16) + 16 (r mod 16) + c mod 16. bfp8_b: 64 exponent bytes (one per face row), then 1024 bytes of sign and 7-bit
 * magnitude: value = (-1)^s m / 64 * 2^(e - 127), e of the largest element of its 16. */
#ifndef GR_BLACKHOLE_TILE_FORMAT_H
#define GR_BLACKHOLE_TILE_FORMAT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/blackhole/program.h"

/* Weights, biases, inputs: whatever the host gives is smaller than this, or refused. Then no sum of products that begins with a normalised row
 * reaches 2^128, where the FPU goes on with a wrong number; the residual streams have a watch (layers.h, struct gr_bh_norm). The action encoder
 * alone begins with what is not normalised: actions after a step, which stay in the chunk however large they are. */
#define GR_BH_LARGEST 0x1p16f
#define GR_BH_OUT_OF_RANGE "%s: element %d is %g, and this device computes with magnitudes below 65536"
static inline bool gr_bh_in_range(float v) { return fabsf(v) < GR_BH_LARGEST; } /* NaN is not */
/* The first of n values that is not; n: all are. */
size_t gr_bh_first_out_of_range(const float *v, size_t n);

uint16_t gr_bh_bf16(float v); /* nearest even; NaN stays NaN */
float gr_bh_from_bf16(uint16_t v);

/* src [32, 32] with row stride ld floats to one tile at dst, GR_BH_TILE_BYTES(f) bytes. bfp8_b rounds to nearest even, never writes a
 * negative zero (it reads as minus infinity). Not finite values are the caller's fault: they become the largest magnitude. */
void gr_bh_tile_put(enum gr_bh_format f, const float *src, size_t ld, void *dst);
/* The part rows x cols of src, the rest zero. */
void gr_bh_tile_put_part(enum gr_bh_format f, const float *src, size_t ld, int rows, int cols, void *dst);
void gr_bh_tile_get(enum gr_bh_format f, const void *src, float *dst, size_t ld);
/* Row r of a tile alone, the same bits: its first cols <= 32 values; what is behind them becomes zero. */
void gr_bh_tile_put_row(enum gr_bh_format f, int r, const float *src, int cols, void *dst);
void gr_bh_tile_get_row(enum gr_bh_format f, int r, const void *src, int cols, float *dst);

#endif
