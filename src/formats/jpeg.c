/* SPDX-License-Identifier: Apache-2.0
 *
 * jpeg.c: JPEG bytes to RGB through libjpeg-turbo's classic API. In: a file in memory. Out: [height, width, 3] uint8,
 * exactly what Pillow's convert("RGB") gives: accurate integer DCT, fancy upsampling, CMYK by Pillow's formula.
 * libjpeg's own memory source invents an end marker when data run out and returns grey rows with a warning. Ours never
 * does: a row that cannot be had from the bytes is an error. (Mostly so even if just the end marker is missing, because the
 * entropy decoder reads ahead; Pillow behaves the same.)
 * libjpeg reports errors by longjmp. Everything that lives across the jump is in a struct of the caller's frame. */
#include "formats/jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

#include "formats/exif.h"

enum fault {
    FAULT_NONE,
    FAULT_LIBRARY,
    FAULT_TRUNCATED,
    FAULT_SIZE,
    FAULT_COMPONENTS,
    FAULT_ARITHMETIC,
    FAULT_SCANS,
    FAULT_NOMEM
};

enum {
    /* Cameras write one scan, progressive encoders about ten. Each one walks the whole picture (50 ms a component at 4096x4096), even if
     * it is 30 bytes long: so large pictures get fewer, 16 at 4096x4096. */
    SCANS_MAX = 500,
    SCANNED_PIXELS_MAX = 1 << 28
};

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf env;
    int side_min, side_max;
    uint8_t *rgb;
    enum fault fault;
    char msg[JMSG_LENGTH_MAX];
};

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

static void on_error(j_common_ptr common)
{
    struct reader *r = common->client_data;
    common->err->format_message(common, r->msg);
    r->fault = common->err->msg_code == JERR_OUT_OF_MEMORY ? FAULT_NOMEM : FAULT_LIBRARY;
    longjmp(r->env, 1);
}

/* Warnings (damaged entropy data, stray bytes) are ignored as Pillow does; missing data never come this way. */
static void on_message(j_common_ptr common, int level)
{
    (void)common;
    (void)level;
}

static void on_output(j_common_ptr common) { (void)common; }

static void on_source(j_decompress_ptr jpeg) { (void)jpeg; }

static boolean on_fill(j_decompress_ptr jpeg)
{
    (void)jpeg;
    return FALSE; /* all bytes were there from the start: libjpeg suspends, which we read as "truncated" */
}

static void on_skip(j_decompress_ptr jpeg, long n)
{
    struct jpeg_source_mgr *s = jpeg->src;
    if (n <= 0) {
        return;
    }
    size_t step = (size_t)n < s->bytes_in_buffer ? (size_t)n : s->bytes_in_buffer;
    s->next_input_byte += step;
    s->bytes_in_buffer -= step;
}

static int scans_max(const struct jpeg_decompress_struct *j)
{
    size_t pixels = (size_t)j->image_width * j->image_height, n = SCANNED_PIXELS_MAX / (pixels > 0 ? pixels : 1);
    return n < SCANS_MAX ? (int)n : SCANS_MAX;
}

static void on_progress(j_common_ptr common)
{
    struct reader *r = common->client_data;
    if (r->jpeg.input_scan_number > scans_max(&r->jpeg)) {
        r->fault = FAULT_SCANS;
        longjmp(r->env, 1);
    }
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* One row of four-component samples. Pillow takes them as inverted CMYK whatever the Adobe marker says. */
static void cmyk_row(const JSAMPLE *in, uint8_t *out, int width)
{
    for (int x = 0; x < width; x++) {
        unsigned nk = in[4 * x + 3]; /* 255 - K */
        for (int c = 0; c < 3; c++) {
            unsigned t = (255u - in[4 * x + c]) * nk + 128;
            unsigned ink = ((t >> 8) + t) >> 8; /* C * nk / 255, rounded */
            out[3 * x + c] = (uint8_t)(nk > ink ? nk - ink : 0);
        }
    }
}

static bool stop(struct reader *r, enum fault which)
{
    r->fault = which;
    return false;
}

static bool read_header(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    if (jpeg_read_header(j, TRUE) != JPEG_HEADER_OK) {
        return stop(r, FAULT_TRUNCATED);
    }
    JDIMENSION lo = (JDIMENSION)r->side_min, hi = (JDIMENSION)r->side_max;
    if (j->image_width < lo || j->image_width > hi || j->image_height < lo || j->image_height > hi) {
        return stop(r, FAULT_SIZE);
    }
    if (j->num_components != 1 && j->num_components != 3 && j->num_components != 4) {
        return stop(r, FAULT_COMPONENTS);
    }
    if (j->arith_code) {
        return stop(r, FAULT_ARITHMETIC);
    }
    j->out_color_space = j->num_components == 4 ? JCS_CMYK : JCS_RGB;
    j->dct_method = JDCT_ISLOW;
    j->do_fancy_upsampling = TRUE;
    return true;
}

static bool read_rows(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    if (!jpeg_start_decompress(j)) {
        return stop(r, FAULT_TRUNCATED);
    }
    size_t row_bytes = 3 * (size_t)j->output_width;
    r->rgb = malloc(row_bytes * j->output_height);
    if (r->rgb == NULL) {
        return stop(r, FAULT_NOMEM);
    }
    JSAMPARRAY cmyk = NULL;
    if (j->out_color_space == JCS_CMYK) {
        cmyk = j->mem->alloc_sarray((j_common_ptr)j, JPOOL_IMAGE, 4 * j->output_width, 1);
    }
    while (j->output_scanline < j->output_height) {
        uint8_t *out = r->rgb + j->output_scanline * row_bytes;
        JSAMPROW row = out;
        if (jpeg_read_scanlines(j, cmyk != NULL ? cmyk : &row, 1) != 1) {
            return stop(r, FAULT_TRUNCATED);
        }
        if (cmyk != NULL) {
            cmyk_row(cmyk[0], out, (int)j->output_width);
        }
    }
    (void)jpeg_finish_decompress(
        j); /* damage up to the end marker is an error, a missing end marker is none: all pixels are here */
    return true;
}

/* False: r->fault says why. Holds no local across the jump. */
static bool read_picture(struct reader *r)
{
    if (setjmp(r->env) != 0) {
        return false;
    }
    jpeg_create_decompress(&r->jpeg);
    r->jpeg.src = &r->source;
    r->jpeg.progress = &r->progress;
    return read_header(r) && read_rows(r);
}

static enum gr_status explain(const struct reader *r, size_t n, struct gr_err *err)
{
    const struct jpeg_decompress_struct *j = &r->jpeg;
    unsigned w = j->image_width, h = j->image_height;
    switch (r->fault) {
    case FAULT_TRUNCATED:
        return gr_fail(err, GR_ERR_INPUT, "JPEG data is truncated: %zu bytes end before the end of the picture", n);
    case FAULT_SIZE:
        return gr_fail(err, GR_ERR_INPUT, "image is %ux%u pixels, sides must be %d..%d", w, h, r->side_min,
                       r->side_max);
    case FAULT_COMPONENTS:
        return gr_fail(err, GR_ERR_INPUT, "JPEG has %d colour components, expected 1 (grey), 3 (colour) or 4 (CMYK)",
                       j->num_components);
    case FAULT_ARITHMETIC: /* ten times slower than Huffman coding, even for no data at all: seconds out of a kilobyte */
        return gr_fail(err, GR_ERR_INPUT, "JPEG is arithmetic-coded, expected Huffman coding, which all cameras write");
    case FAULT_SCANS:
        return gr_fail(err, GR_ERR_INPUT, "JPEG of %ux%u pixels has more than %d scans", w, h, scans_max(j));
    case FAULT_NOMEM:
        return gr_fail(err, GR_ERR_NOMEM, "no memory to decode a JPEG of %ux%u pixels", w, h);
    case FAULT_NONE:
    case FAULT_LIBRARY:
        break;
    }
    return gr_fail(err, GR_ERR_INPUT, "JPEG data is damaged: %s", r->msg);
}

enum gr_status gr_jpeg_decode(const void *bytes, size_t n, int side_min, int side_max, uint8_t **rgb, int *height,
                              int *width, int *orientation, struct gr_err *err)
{
    struct reader r = {.side_min = side_min, .side_max = side_max};
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = on_error;
    r.errors.emit_message = on_message;
    r.errors.output_message = on_output;
    r.source.next_input_byte = bytes;
    r.source.bytes_in_buffer = n;
    r.source.init_source = on_source;
    r.source.fill_input_buffer = on_fill;
    r.source.skip_input_data = on_skip;
    r.source.resync_to_restart = jpeg_resync_to_restart;
    r.source.term_source = on_source;
    r.progress.progress_monitor = on_progress;

    enum gr_status status = GR_OK;
    if (read_picture(&r)) {
        *rgb = r.rgb;
        *height = (int)r.jpeg.output_height;
        *width = (int)r.jpeg.output_width;
        *orientation = gr_exif_orientation(bytes, n);
    } else {
        status = explain(&r, n, err);
        free(r.rgb);
    }
    jpeg_destroy_decompress(&r.jpeg);
    return status;
}
