/* SPDX-License-Identifier: Apache-2.0
 *
 * image.c: a picture file in memory to RGB. The type is taken from the bytes, never from a name or a media type.
 * Only PNG and JPEG are decoded; everything else is named in the refusal, because "not an image" helps nobody whose camera
 * wrote a WebP. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "formats/jpeg.h"
#include "formats/png.h"
#include "gr00t.h"

enum { TEXT_PROBE_BYTES = 512 };

/* Bytes at an offset that give a type away. First match wins; the two types we decode are not in here. */
struct signature {
    size_t offset;
    const char *bytes;
    size_t n;
    const char *name;
};
#define SIGNATURE(offset, bytes, name)               \
    {                                                \
        (offset), (bytes), sizeof(bytes) - 1, (name) \
    }

static const struct signature signatures[] = {
    SIGNATURE(0, "GIF8", "a GIF file"),
    SIGNATURE(8, "WEBP", "a WebP file"),
    SIGNATURE(0, "BM", "a BMP file"),
    SIGNATURE(0, "II*\0", "a TIFF file"),
    SIGNATURE(0, "MM\0*", "a TIFF file"),
    SIGNATURE(0, "II+\0", "a BigTIFF file"),
    SIGNATURE(0, "MM\0+", "a BigTIFF file"),
    SIGNATURE(4, "ftypavif", "an AVIF file"),
    SIGNATURE(4, "ftypavis", "an AVIF file"),
    SIGNATURE(4, "ftyphei", "a HEIC file"),
    SIGNATURE(4, "ftyphev", "a HEIC file"),
    SIGNATURE(4, "ftypmif1", "a HEIF file (HEIC or AVIF)"),
    SIGNATURE(4, "ftypmsf1", "a HEIF file (HEIC or AVIF)"),
    SIGNATURE(4, "ftyp", "an MP4 or QuickTime file"),
    SIGNATURE(0, "\0\0\0\x0CJXL ", "a JPEG XL file"),
    SIGNATURE(0, "\xFF\x0A", "a JPEG XL file"),
    SIGNATURE(0, "\0\0\0\x0CjP  ", "a JPEG 2000 file"),
    SIGNATURE(0, "\xFF\x4F\xFF\x51", "a JPEG 2000 file"),
    SIGNATURE(0, "\0\0\1\0", "an ICO file"),
    SIGNATURE(0, "8BPS", "a Photoshop file"),
    SIGNATURE(0, "%PDF", "a PDF file"),
    SIGNATURE(0, "\x93NUMPY", "a NumPy array file"),
    SIGNATURE(0, "PK\3\4", "a ZIP file"),
    SIGNATURE(0, "\x1F\x8B", "a gzip file"),
    SIGNATURE(0, "\x8AMNG", "an MNG file"),
    SIGNATURE(0, "\x8BJNG", "a JNG file"),
    SIGNATURE(0, "\x1A\x45\xDF\xA3", "a Matroska or WebM file"),
    SIGNATURE(0, "RIFF", "a RIFF file (AVI or WAV)"),
    SIGNATURE(0, "\x89PNG\n", "a PNG file damaged by a transfer in text mode"),
    SIGNATURE(0, "\x89PNG\r\r\n", "a PNG file damaged by a transfer in text mode"),
    SIGNATURE(0, "iVBORw0KGgo", "base64 text of a PNG file, encoded once too often"),
    SIGNATURE(0, "/9j/", "base64 text of a JPEG file, encoded once too often"),
    SIGNATURE(0, "data:", "a data URL"),
};

/* ASCII only and the same in every locale. */
static int is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static int matches(const uint8_t *p, size_t n, const struct signature *s)
{
    return s->offset + s->n <= n && memcmp(p + s->offset, s->bytes, s->n) == 0;
}

static const char *binary_name(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        if (matches(p, n, &signatures[i])) {
            return signatures[i].name;
        }
    }
    if (n >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '7' && is_space(p[2])) {
        return "a PNM file";
    }
    return NULL;
}

/* Case-insensitive search in bytes that need not end with NUL. */
static int contains(const uint8_t *p, size_t n, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= n; i++) {
        size_t j = 0;
        while (j < len && lower(p[i + j]) == word[j]) {
            j++;
        }
        if (j == len) {
            return 1;
        }
    }
    return 0;
}

/* NULL when the first bytes hold a control character that text does not. */
static const char *text_name(const uint8_t *p, size_t n)
{
    size_t probe = n < TEXT_PROBE_BYTES ? n : TEXT_PROBE_BYTES, at = 0;
    for (size_t i = 0; i < probe; i++) {
        if ((p[i] < 0x20 && !is_space(p[i])) || p[i] == 0x7F || p[i] == 0xFF) {
            return NULL;
        }
    }
    if (probe >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) {
        at = 3; /* byte order mark */
    }
    while (at < probe && is_space(p[at])) {
        at++;
    }
    if (at < probe && p[at] == '<') {
        if (contains(p, probe, "<svg")) {
            return "an SVG file";
        }
        return contains(p, probe, "<html") || contains(p, probe, "<!doctype html") ? "an HTML page" : "an XML file";
    }
    if (at < probe && (p[at] == '{' || p[at] == '[')) {
        return "JSON text";
    }
    return "text";
}

static enum gr_status refuse(const uint8_t *p, size_t n, struct gr_err *err)
{
    if (n == 0) {
        return gr_fail(err, GR_ERR_INPUT, "image is empty, expected a PNG or JPEG file");
    }
    const char *name = binary_name(p, n);
    if (name == NULL && n < 8 && memcmp(p, "\x89PNG\r\n\x1A\n", n) == 0) {
        return gr_fail(err, GR_ERR_INPUT, "PNG data is truncated: %zu bytes end inside the signature", n);
    }
    if (name == NULL && n < 3 && memcmp(p, "\xFF\xD8\xFF", n) == 0) {
        return gr_fail(err, GR_ERR_INPUT, "JPEG data is truncated: %zu bytes end inside the signature", n);
    }
    if (name == NULL) {
        name = text_name(p, n);
    }
    if (name != NULL) {
        return gr_fail(err, GR_ERR_INPUT, "image is %s, expected a PNG or JPEG file", name);
    }
    char hex[3 * 8 + 1] = "";
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 8 && i < n; i++) {
        memcpy(hex + 3 * i, (char[]){' ', digits[p[i] >> 4], digits[p[i] & 15], '\0'}, 4);
    }
    return gr_fail(err, GR_ERR_INPUT, "image is of unknown type (%zu bytes, first ones%s), expected a PNG or JPEG file",
                   n, hex);
}

enum gr_status gr_image_decode(const void *bytes, size_t n_bytes, struct gr_image *out, struct gr_err *err)
{
    const uint8_t *p = bytes;
    struct gr_image image = {.exif_orientation = 1};
    if (out == NULL || (bytes == NULL && n_bytes > 0)) {
        return gr_fail(err, GR_ERR_USAGE, "gr_image_decode: bytes and out must not be NULL");
    }
    *out = image;
    if (n_bytes >= 8 && memcmp(p, "\x89PNG\r\n\x1A\n", 8) == 0) {
        GR_TRY(gr_png_decode(p, n_bytes, GR_SIDE_MIN, GR_SIDE_MAX, &image.rgb, &image.height, &image.width, err));
    } else if (n_bytes >= 3 && memcmp(p, "\xFF\xD8\xFF", 3) == 0) {
        GR_TRY(gr_jpeg_decode(p, n_bytes, GR_SIDE_MIN, GR_SIDE_MAX, &image.rgb, &image.height, &image.width,
                              &image.exif_orientation, err));
    } else {
        return refuse(p, n_bytes, err);
    }
    *out = image;
    return GR_OK;
}

void gr_image_free(struct gr_image *image)
{
    if (image != NULL) {
        free(image->rgb);
        *image = (struct gr_image){.exif_orientation = 1};
    }
}
