/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_png.c: any bytes through the PNG reader, as they are and once more with all checksums repaired (a mutated file would
 * else never get past the first one). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIDE_MAX = 512, HEAD_BYTES = 12 }; /* small pictures: more inputs a second */

static uint32_t crc32_of(const uint8_t *p, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) {
            c = (c >> 1) ^ ((c & 1) != 0 ? 0xEDB88320u : 0);
        }
        table[i] = c;
    }
    uint32_t c = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        c = table[(c ^ p[i]) & 255] ^ (c >> 8);
    }
    return ~c;
}

static void repair_checksums(uint8_t *p, size_t n)
{
    for (size_t at = 8; n >= HEAD_BYTES && at <= n - HEAD_BYTES;) {
        size_t len = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
        if (len > n - HEAD_BYTES - at) {
            return;
        }
        uint32_t c = crc32_of(p + at + 4, len + 4);
        for (int i = 0; i < 4; i++) {
            p[at + 8 + len + (size_t)i] = (uint8_t)(c >> (24 - 8 * i));
        }
        at += HEAD_BYTES + len;
    }
}

static void decode(const uint8_t *data, size_t size)
{
    uint8_t *rgb = NULL;
    int h, w;
    struct gr_err err;
    if (gr_png_decode(data, size, 1, SIDE_MAX, &rgb, &h, &w, &err) != GR_OK) {
        if (rgb != NULL || err.msg[0] == '\0') {
            abort();
        }
        return;
    }
    if (h < 1 || h > SIDE_MAX || w < 1 || w > SIDE_MAX) {
        abort();
    }
    unsigned sum = 0; /* every sample is read, so that a sanitizer sees one that was never written */
    for (size_t i = 0; i < 3 * (size_t)h * (size_t)w; i++) {
        sum += rgb[i];
    }
    if (sum > 255u * 3 * SIDE_MAX * SIDE_MAX) {
        abort();
    }
    free(rgb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size);
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy != NULL) {
        if (size > 0) {
            memcpy(copy, data, size);
        }
        repair_checksums(copy, size);
        decode(copy, size);
        free(copy);
    }
    return 0;
}
