/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_image.c: the image chain and the decoders as a filter, for the comparison scripts of this folder.
 *   driver_image stages EDGE FRACTION
 *                         stdin: cases of int32 height, int32 width, RGB bytes; stdout per case: five squares (int32 side, bytes)
 *                         and the float planes (int32 side, 3*side*side float32)
 *   driver_image decode   stdin: cases of int32 n, file bytes; stdout per case: int32 height, int32 width, int32 EXIF orientation,
 *                         RGB bytes; for a refusal int32 0, int32 length, message
 * Numbers are in the byte order of the machine. An end of input between two cases ends the program with 0. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr00t.h"
#include "model/preprocess.h"

static void put(const void *p, size_t n)
{
    if (fwrite(p, 1, n, stdout) != n) {
        perror("driver_image");
        exit(1);
    }
}

static void put_int(int32_t v) { put(&v, sizeof v); }

static void on_stage(void *user, int stage, const uint8_t *rgb, int side)
{
    (void)user;
    (void)stage;
    put_int(side);
    put(rgb, 3 * (size_t)side * (size_t)side);
}

/* n bytes of input, malloc'ed. */
static uint8_t *get(size_t n)
{
    uint8_t *p = malloc(n + 1);
    if (p == NULL || fread(p, 1, n, stdin) != n) {
        fprintf(stderr, "driver_image: short case\n");
        exit(1);
    }
    return p;
}

static int stages(int edge, double fraction)
{
    struct gr_preprocess *pre;
    struct gr_err err;
    if (gr_preprocess_new(edge, fraction, &pre, &err) != GR_OK) {
        fprintf(stderr, "driver_image: %s\n", err.msg);
        return 1;
    }
    const int side = gr_preprocess_side(edge);
    const size_t plane = (size_t)side * (size_t)side;
    uint8_t *u8 = malloc(3 * plane);
    float *pixels = malloc(3 * plane * sizeof *pixels);
    int32_t hw[2];
    gr_preprocess_watch(pre, on_stage, NULL);
    while (fread(hw, sizeof hw, 1, stdin) == 1) {
        uint8_t *rgb = get(3 * (size_t)hw[0] * (size_t)hw[1]);
        if (gr_preprocess_frame(pre, rgb, hw[0], hw[1], u8, &err) != GR_OK) {
            fprintf(stderr, "driver_image: %s\n", err.msg);
            return 1;
        }
        gr_preprocess_pixels(u8, side, pixels);
        put_int(side);
        put(pixels, 3 * plane * sizeof *pixels);
        fflush(stdout);
        free(rgb);
    }
    free(u8);
    free(pixels);
    gr_preprocess_free(pre);
    return 0;
}

static int decode(void)
{
    int32_t n;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        uint8_t *bytes = get((size_t)n);
        struct gr_image image;
        struct gr_err err;
        if (gr_image_decode(bytes, (size_t)n, &image, &err) == GR_OK) {
            put_int(image.height);
            put_int(image.width);
            put_int(image.exif_orientation);
            put(image.rgb, 3 * (size_t)image.height * (size_t)image.width);
        } else {
            put_int(0);
            put_int((int32_t)strlen(err.msg));
            put(err.msg, strlen(err.msg));
        }
        fflush(stdout);
        gr_image_free(&image);
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "stages") == 0) {
        return stages(atoi(argv[2]), strtod(argv[3], NULL));
    }
    if (argc == 2 && strcmp(argv[1], "decode") == 0) {
        return decode();
    }
    fprintf(stderr, "usage: driver_image stages EDGE FRACTION | driver_image decode\n");
    return 2;
}
