/* SPDX-License-Identifier: Apache-2.0
 *
 * exif.c: walks the marker segments of a JPEG up to the first scan, finds APP1 "Exif", and in its TIFF part the entry
 * 0x0112 of the first directory. In: file bytes. Out: 1..8.
 * Every offset in there comes from the file: each read is checked against the end of the segment, not of the file. */
#include "formats/exif.h"

#include <stdbool.h>
#include <string.h>

enum {
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_APP1 = 0xE1,
    TAG_ORIENTATION = 0x0112,
    TYPE_SHORT = 3,
    UPRIGHT = 1
};

struct tiff {
    const uint8_t *p;
    size_t n;
    bool big_endian;
};

static unsigned get16(const struct tiff *t, size_t at)
{
    const uint8_t *p = t->p + at;
    return t->big_endian ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
}

static size_t get32(const struct tiff *t, size_t at)
{
    return t->big_endian ? (size_t)get16(t, at) << 16 | get16(t, at + 2)
                         : (size_t)get16(t, at + 2) << 16 | get16(t, at);
}

static int tiff_orientation(const uint8_t *p, size_t n)
{
    struct tiff t = {.p = p, .n = n};
    if (n < 8 || (memcmp(p, "II*\0", 4) != 0 && memcmp(p, "MM\0*", 4) != 0)) {
        return UPRIGHT;
    }
    t.big_endian = p[0] == 'M';
    size_t dir = get32(&t, 4);
    if (dir > n - 2) {
        return UPRIGHT;
    }
    size_t entries = get16(&t, dir), room = (n - dir - 2) / 12;
    for (size_t i = 0; i < entries && i < room; i++) {
        size_t at = dir + 2 + 12 * i;
        if (get16(&t, at) == TAG_ORIENTATION) {
            unsigned v = get16(&t, at + 8);
            return get16(&t, at + 2) == TYPE_SHORT && v >= 1 && v <= 8 ? (int)v : UPRIGHT;
        }
    }
    return UPRIGHT;
}

int gr_exif_orientation(const uint8_t *jpeg, size_t n)
{
    size_t at = 2;
    if (n < 4 || jpeg[0] != 0xFF || jpeg[1] != MARKER_SOI) {
        return UPRIGHT;
    }
    while (n - at >= 4) {
        if (jpeg[at] != 0xFF || jpeg[at + 1] == 0xFF) {
            at++; /* fill bytes and stray bytes before a marker, as libjpeg skips them */
            continue;
        }
        unsigned marker = jpeg[at + 1];
        if (marker == MARKER_SOS || marker == MARKER_EOI) {
            return UPRIGHT;
        }
        size_t len = (size_t)jpeg[at + 2] << 8 | jpeg[at + 3]; /* counts its own two bytes */
        if (marker == 0 || len < 2 || len > n - at - 2) {
            return UPRIGHT;
        }
        const uint8_t *body = jpeg + at + 4;
        if (marker == MARKER_APP1 && len >= 8 && memcmp(body, "Exif\0\0", 6) == 0) {
            return tiff_orientation(body + 6, len - 8);
        }
        at += 2 + len;
    }
    return UPRIGHT;
}
