/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_format.h: 32x32 tiles as Tensix stores them, and the number formats inside.
 *
 * A tile is four 16x16 faces (top-left, top-right, bottom-left, bottom-right), each row-major: element (r, c) is at
 * 256 (2 (r / 16) + c / 16) + 16 (r mod 16) + c mod 16. bfp8_b: 64 exponent bytes (one per face row), then 1024 bytes of sign and 7-bit
 * magnitude: value = (-1)^s m / 64 * 2^(e - 127), e of the largest element of its 16. */
#ifndef GR_BLACKHOLE_TILE_FORMAT_H
#define GR_BLACKHOLE_TILE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "device/blackhole/program.h"

uint16_t gr_bh_bf16(float v); /* nearest even; NaN stays NaN */
float gr_bh_from_bf16(uint16_t v);

/* src [32, 32] with row stride ld floats to one tile at dst, GR_BH_TILE_BYTES(f) bytes. bfp8_b rounds to nearest even, never writes a
 * negative zero (it reads as minus infinity). Not finite values are the caller's fault: they become the largest magnitude. */
void gr_bh_tile_put(enum gr_bh_format f, const float *src, size_t ld, void *dst);
/* The part rows x cols of src, the rest zero. */
void gr_bh_tile_put_part(enum gr_bh_format f, const float *src, size_t ld, int rows, int cols, void *dst);
void gr_bh_tile_get(enum gr_bh_format f, const void *src, float *dst, size_t ld);

#endif
