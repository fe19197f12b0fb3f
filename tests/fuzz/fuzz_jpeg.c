/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_jpeg.c: any bytes through the JPEG reader and the EXIF walk, and through type detection. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/exif.h"
#include "formats/jpeg.h"
#include "gr00t.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIDE_MAX = 512 }; /* small pictures: more inputs a second */

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *rgb = NULL;
    int h, w, orientation;
    struct gr_err err;
    struct gr_image image;
    if (gr_jpeg_decode(data, size, 1, SIDE_MAX, &rgb, &h, &w, &orientation, &err) == GR_OK) {
        unsigned sum = 0; /* reads every byte: all of them must have been written */
        for (size_t i = 0; i < 3 * (size_t)h * (size_t)w; i++) {
            sum += rgb[i];
        }
        sink = sum;
        if (h < 1 || h > SIDE_MAX || w < 1 || w > SIDE_MAX || orientation < 1 || orientation > 8) {
            abort();
        }
        free(rgb);
    } else if (rgb != NULL || err.msg[0] == '\0') {
        abort();
    }
    orientation = gr_exif_orientation(data, size);
    if (orientation < 1 || orientation > 8) {
        abort();
    }
    if (gr_image_decode(data, size < 24 ? size : 24, &image, &err) == GR_OK) { /* the start only: type detection */
        abort();
    }
    return 0;
}
