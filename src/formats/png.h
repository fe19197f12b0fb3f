/* SPDX-License-Identifier: Apache-2.0
 *
 * png.h: PNG files to RGB exactly as Pillow's convert("RGB") (spec/preprocess.md 1), and RGB to PNG files. */
#ifndef GR_FORMATS_PNG_H
#define GR_FORMATS_PNG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Decodes to *rgb, [height, width, 3], malloc'ed, untouched on failure. Sides outside [side_min, side_max] are refused from the header, before any pixel
 * memory is taken. GR_ERR_INPUT on damage, truncation, wrong checksum, 16-bit grey. */
enum gr_status gr_png_decode(const void *bytes, size_t n, int side_min, int side_max, uint8_t **rgb, int *height,
                             int *width, struct gr_err *err);

/* Encodes rgb [height, width, 3], sides 1..65535, as an 8-bit RGB PNG into *bytes, malloc'ed, untouched on failure. GR_ERR_NOMEM, GR_ERR_USAGE (sides). */
enum gr_status gr_png_encode(const uint8_t *rgb, int height, int width, uint8_t **bytes, size_t *n, struct gr_err *err);

#endif
