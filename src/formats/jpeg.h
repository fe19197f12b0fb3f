/* SPDX-License-Identifier: Apache-2.0
 *
 * jpeg.h: JPEG files to RGB exactly as Pillow's convert("RGB"); CMYK included. Truncated data is an error. */
#ifndef GR_FORMATS_JPEG_H
#define GR_FORMATS_JPEG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* As gr_png_decode. *orientation: the EXIF orientation 1..8, never applied; 1 when absent. */
enum gr_status gr_jpeg_decode(const void *bytes, size_t n, int side_min, int side_max, uint8_t **rgb, int *height,
                              int *width, int *orientation, struct gr_err *err);

#endif
