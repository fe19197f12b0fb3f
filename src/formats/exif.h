/* SPDX-License-Identifier: Apache-2.0
 *
 * exif.h: the one EXIF entry we report: how a camera was held when it took a JPEG. */
#ifndef GR_FORMATS_EXIF_H
#define GR_FORMATS_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation 1..8 of a JPEG file in memory; 1 when the file has none or it cannot be read. Reads at most n bytes, takes no
 * memory, never fails: the value is reported, never applied. */
int gr_exif_orientation(const uint8_t *jpeg, size_t n);

#endif
