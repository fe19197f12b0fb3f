/* SPDX-License-Identifier: Apache-2.0
 *
 * png.c: PNG bytes to RGB through libpng. In: a file in memory. Out: [height, width, 3] uint8, exactly what
 * Pillow's convert("RGB") gives: palette looked up, low grey depths scaled, 16-bit colour cut to the high byte, alpha and
 * tRNS dropped (not blended), gamma and colour profiles ignored.
 * Two things differ on purpose: 16-bit grey is refused, and so is any wrong checksum up to the last row. What follows the
 * last row is not looked at: png_read_end is never called, so a missing IEND is no fault.
 * libpng reports errors by longjmp. Everything that lives across the jump is in a struct of the caller's frame. */
#include "formats/png.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

enum {
    PNG_SIGNATURE_BYTES = 8,
    PNG_HEADER_BYTES = 8 + 8 + 13, /* signature, length and type of the first chunk, IHDR */
    CHUNK_LIMIT = 16 << 20,        /* longest chunk other than IDAT; the ones we need are at most 768 bytes */
    PNG_SIDE_MAX = 65535,          /* of what we write */
    CHUNK_COUNT_LIMIT = 128,       /* chunks libpng may store; we ask it to store none */
    TAIL_BYTES = 64 << 10          /* compressed data behind the last row that libpng may read through */
};

struct reader {
    const uint8_t *bytes;
    size_t n, at;
    size_t end; /* where reading ends; n until the last row is wanted */
    uint8_t *rgb;
    int height, width;
    png_structp png;
    png_infop info;
    bool truncated, nomem;
    const char *refused; /* a fault found by us, not by libpng; static text */
    char msg[160];
};

/* ---- callbacks -------------------------------------------------------------------------------------------------- */

static void on_error(png_structp png, png_const_charp text)
{
    char *msg = png_get_error_ptr(png);
    snprintf(msg, sizeof(((struct reader *)0)->msg), "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png; /* what libpng only warns about does not change pixels; Pillow is silent about it too */
    (void)text;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    void *p = malloc(size);
    if (p == NULL) {
        bool *nomem = png_get_mem_ptr(png);
        *nomem = true;
    }
    return p;
}

static void on_free(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (n > r->end - r->at) {
        r->truncated = r->end == r->n;
        png_error(png, r->truncated ? "data ends" : "compressed data go on behind the last row");
    }
    memcpy(out, r->bytes + r->at, n);
    r->at += n;
}

/* Asks libpng for 8-bit RGB whatever the file holds. */
static void set_transforms(struct reader *r)
{
    int type = png_get_color_type(r->png, r->info), depth = png_get_bit_depth(r->png, r->info);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(r->png);
    }
    if (depth == 16) {
        png_set_strip_16(r->png); /* the high byte, as Pillow; png_set_scale_16 would round */
    }
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8) {
        png_set_expand_gray_1_2_4_to_8(r->png);
    }
    if ((type & PNG_COLOR_MASK_ALPHA) != 0) {
        png_set_strip_alpha(r->png);
    }
    if ((type & PNG_COLOR_MASK_COLOR) == 0) {
        png_set_gray_to_rgb(r->png);
    }
}

/* With the last row libpng inflates all that is left of the compressed data: gigabytes of zeros fit into a small file. A row cannot need
 * more bytes than it has, so what is far behind is no part of the picture. */
static void expect_the_end(struct reader *r)
{
    size_t need = 8 * (size_t)r->width +
                  TAIL_BYTES; /* 16-bit RGBA, not compressed at all, twice: an interlaced pass ends a row earlier */
    r->end = 2 * need < r->n - r->at ? r->at + 2 * need : r->n;
}

/* Header and rows. False: a message is in the struct. Never touches a local after a jump. */
static bool read_picture(struct reader *r)
{
    if (setjmp(png_jmpbuf(r->png)) != 0) {
        return false;
    }
    png_set_user_limits(r->png, (png_uint_32)r->width, (png_uint_32)r->height);
    png_set_chunk_cache_max(r->png, CHUNK_COUNT_LIMIT);
    png_set_chunk_malloc_max(r->png, CHUNK_LIMIT);
    png_set_crc_action(r->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    /* Skips every ancillary chunk unread (text, profiles, gamma, ...), then transparency as well. */
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "tRNS", 1);
    png_set_read_fn(r->png, r, on_read);
    png_read_info(r->png, r->info);
    if (png_get_color_type(r->png, r->info) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(r->png, r->info) == 16) {
        r->refused = "image is a 16-bit grey PNG (depth or infrared?), expected 8-bit grey or colour";
        return false;
    }
    set_transforms(r);
    int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    size_t row_bytes = 3 * (size_t)r->width;
    if (png_get_rowbytes(r->png, r->info) != row_bytes) {
        r->refused = "PNG colour type cannot be turned into 8-bit RGB";
        return false;
    }
    r->rgb = malloc(row_bytes * (size_t)r->height);
    if (r->rgb == NULL) {
        r->nomem = true;
        return false;
    }
    for (int pass = 0; pass < passes; pass++) {
        for (int y = 0; y < r->height; y++) {
            if (pass == passes - 1 && y == r->height - 2) {
                expect_the_end(r);
            }
            png_read_row(r->png, r->rgb + (size_t)y * row_bytes, NULL);
        }
    }
    return true;
}

static uint32_t big_endian_32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Sides from the header, before libpng is started: a file that declares a giant picture costs nothing. */
static enum gr_status check_header(const uint8_t *bytes, size_t n, int side_min, int side_max, int *height, int *width,
                                   struct gr_err *err)
{
    if (n < PNG_SIGNATURE_BYTES || png_sig_cmp(bytes, 0, PNG_SIGNATURE_BYTES) != 0) {
        return gr_fail(err, GR_ERR_INPUT, "image has no PNG signature");
    }
    if (n < PNG_HEADER_BYTES) {
        return gr_fail(err, GR_ERR_INPUT, "PNG data is truncated: %zu bytes end inside the header", n);
    }
    if (big_endian_32(bytes + 8) != 13 || memcmp(bytes + 12, "IHDR", 4) != 0) {
        return gr_fail(err, GR_ERR_INPUT, "PNG data is damaged: the first chunk is not IHDR");
    }
    uint32_t w = big_endian_32(bytes + 16), h = big_endian_32(bytes + 20);
    if (w < (uint32_t)side_min || w > (uint32_t)side_max || h < (uint32_t)side_min || h > (uint32_t)side_max) {
        return gr_fail(err, GR_ERR_INPUT, "image is %ux%u pixels, sides must be %d..%d", (unsigned)w, (unsigned)h,
                       side_min, side_max);
    }
    *width = (int)w;
    *height = (int)h;
    return GR_OK;
}

enum gr_status gr_png_decode(const void *bytes, size_t n, int side_min, int side_max, uint8_t **rgb, int *height,
                             int *width, struct gr_err *err)
{
    struct reader r = {.bytes = bytes, .n = n, .end = n};
    GR_TRY(check_header(bytes, n, side_min, side_max, &r.height, &r.width, err));

    bool ok = false;
    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r.msg, on_error, on_warning, &r.nomem, on_malloc, on_free);
    if (r.png != NULL) {
        r.info = png_create_info_struct(r.png);
    }
    if (r.info == NULL) {
        r.nomem = true;
    } else {
        ok = read_picture(&r);
    }
    png_destroy_read_struct(&r.png, &r.info, NULL);
    if (ok) {
        *rgb = r.rgb;
        *height = r.height;
        *width = r.width;
        return GR_OK;
    }
    free(r.rgb);
    if (r.nomem) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory to decode a PNG of %dx%d pixels", r.width, r.height);
    }
    if (r.refused != NULL) {
        return gr_fail(err, GR_ERR_INPUT, "%s", r.refused);
    }
    if (r.truncated) {
        return gr_fail(err, GR_ERR_INPUT, "PNG data is truncated: %zu bytes end before the last of %d rows", n,
                       r.height);
    }
    return gr_fail(err, GR_ERR_INPUT, "PNG data is damaged: %s", r.msg);
}

enum gr_status gr_png_encode(const uint8_t *rgb, int height, int width, uint8_t **bytes, size_t *n, struct gr_err *err)
{
    if (height < 1 || width < 1 || height > PNG_SIDE_MAX || width > PNG_SIDE_MAX) {
        return gr_fail(err, GR_ERR_USAGE, "cannot write a PNG of %dx%d pixels", width, height);
    }
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image); /* an upper bound: one pass instead of two */
    uint8_t *out = malloc(size);
    if (out == NULL || !png_image_write_to_memory(&image, out, &size, 0, rgb, 0, NULL)) {
        free(out);
        png_image_free(&image);
        return gr_fail(err, GR_ERR_NOMEM, "no memory to write a PNG of %dx%d pixels", width, height);
    }
    uint8_t *cut = realloc(out, size);
    *bytes = cut != NULL ? cut : out;
    *n = size;
    return GR_OK;
}
