/* SPDX-License-Identifier: Apache-2.0
 *
 * test_png.c: the PNG reader against files with one thing wrong. Pixel equality with Pillow is in test_image. */
#include "gr_test.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "formats/png.h"

struct bytes {
    uint8_t *p;
    size_t n;
};

static uint8_t *noise_rgb(int height, int width)
{
    size_t n = 3 * (size_t)height * (size_t)width;
    uint8_t *rgb = malloc(n);
    uint32_t x = 12345u + (uint32_t)width;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        rgb[i] = (uint8_t)(x >> 24);
    }
    return rgb;
}

static struct bytes encoded(int height, int width)
{
    struct bytes b = {NULL, 0};
    uint8_t *rgb = noise_rgb(height, width);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    assert_true(png_image_write_to_memory(&image, NULL, &b.n, 0, rgb, 0, NULL)); /* the size */
    b.p = malloc(b.n);
    assert_true(png_image_write_to_memory(&image, b.p, &b.n, 0, rgb, 0, NULL));
    free(rgb);
    return b;
}

static enum gr_status decode(const struct bytes *b, uint8_t **rgb, struct gr_err *err)
{
    int h, w;
    *rgb = NULL;
    return gr_png_decode(b->p, b->n, 1, 4096, rgb, &h, &w, err);
}

static void expect_refused(const struct bytes *b, const char *text)
{
    uint8_t *rgb;
    struct gr_err err;
    gr_test_fails(decode(b, &rgb, &err), &err, GR_ERR_INPUT, text);
    assert_null(rgb);
}

static uint32_t crc32_of(const uint8_t *p, size_t n)
{
    uint32_t c = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++) {
            c = (c >> 1) ^ ((c & 1) != 0 ? 0xEDB88320u : 0);
        }
    }
    return ~c;
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> (24 - 8 * i));
    }
}

/* Adds a chunk of n bytes of 0x5A behind IHDR. */
static struct bytes with_chunk(const struct bytes *b, const char *type, size_t n)
{
    const size_t at = 8 + 25;
    struct bytes out = {malloc(b->n + 12 + n), b->n + 12 + n};
    memcpy(out.p, b->p, at);
    put32(out.p + at, (uint32_t)n);
    memcpy(out.p + at + 4, type, 4);
    memset(out.p + at + 8, 0x5A, n);
    put32(out.p + at + 8 + n, crc32_of(out.p + at + 4, 4 + n));
    memcpy(out.p + at + 12 + n, b->p + at, b->n - at);
    return out;
}

/* Sets a byte of IHDR and its checksum. */
static struct bytes with_header_byte(const struct bytes *b, size_t at, uint8_t value)
{
    struct bytes out = {malloc(b->n), b->n};
    memcpy(out.p, b->p, b->n);
    out.p[16 + at] = value;
    put32(out.p + 29, crc32_of(out.p + 12, 17));
    return out;
}

static void every_size_gives_its_pixels(void **state)
{
    (void)state;
    static const int sizes[][2] = {{64, 64}, {127, 65}, {64, 301}, {1, 1}, {400, 300}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int height = sizes[i][0], width = sizes[i][1], h, w;
        uint8_t *rgb = noise_rgb(height, width), *back;
        struct gr_err err;
        struct bytes b = encoded(height, width);
        gr_test_ok(gr_png_decode(b.p, b.n, 1, 4096, &back, &h, &w, &err), &err);
        assert_int_equal(h, height);
        assert_int_equal(w, width);
        assert_memory_equal(back, rgb, 3 * (size_t)h * (size_t)w);
        free(back);
        free(rgb);
        free(b.p);
    }
}

static void side_limits_are_the_callers(void **state)
{
    (void)state;
    struct bytes b = encoded(80, 90);
    struct gr_err err;
    uint8_t *rgb;
    int h, w;
    gr_test_fails(gr_png_decode(b.p, b.n, 64, 89, &rgb, &h, &w, &err), &err, GR_ERR_INPUT,
                  "90x80 pixels, sides must be 64..89");
    gr_test_fails(gr_png_decode(b.p, b.n, 81, 99, &rgb, &h, &w, &err), &err, GR_ERR_INPUT,
                  "90x80 pixels, sides must be 81..99");
    gr_test_ok(gr_png_decode(b.p, b.n, 80, 90, &rgb, &h, &w, &err), &err);
    free(rgb);
    free(b.p);
}

static void a_wrong_byte_anywhere_before_the_end_is_refused(void **state)
{
    (void)state;
    struct bytes b = {NULL, 0};
    b.p = gr_test_read(gr_test_source("tests/data/images/grey1_90x80.png"), &b.n);
    for (size_t at = 0; at < b.n - 12; at++) { /* the last 12 bytes are IEND, which is not read */
        for (int bit = 0; bit < 8; bit += 3) {
            b.p[at] = (uint8_t)(b.p[at] ^ (1 << bit));
            expect_refused(&b, "");
            b.p[at] = (uint8_t)(b.p[at] ^ (1 << bit));
        }
    }
    free(b.p);
}

static void ancillary_chunks_of_any_content_are_skipped(void **state)
{
    (void)state;
    static const char *const types[] = {"tEXt", "zTXt", "iTXt", "iCCP", "gAMA", "cHRM", "sRGB", "eXIf", "tIME",
                                        "pHYs", "sBIT", "tRNS", "bKGD", "hIST", "sPLT", "acTL", "fcTL", "zzZz"};
    struct bytes plain = encoded(64, 64);
    struct gr_err err;
    uint8_t *want;
    gr_test_ok(decode(&plain, &want, &err), &err);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (size_t n = 0; n < 70000; n += 6999) {
            struct bytes b = with_chunk(&plain, types[i], n);
            uint8_t *rgb;
            gr_test_ok(decode(&b, &rgb, &err), &err);
            assert_memory_equal(rgb, want, 3 * 64 * 64);
            free(rgb);
            free(b.p);
        }
    }
    free(want);
    free(plain.p);
}

static void an_unknown_critical_chunk_is_refused(void **state)
{
    (void)state;
    struct bytes plain = encoded(64, 64), b = with_chunk(&plain, "ABCD", 10);
    expect_refused(&b, "damaged");
    free(b.p);
    b = with_chunk(&plain, "IHDR", 13);
    expect_refused(&b, "damaged");
    free(b.p);
    free(plain.p);
}

static void a_chunk_length_that_lies_is_refused(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0, 1, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct bytes b = encoded(64, 64);
        put32(b.p + 46, lengths[i]); /* first IDAT, behind IHDR and sRGB */
        expect_refused(&b, "");
        put32(b.p + 8, lengths[i]); /* IHDR */
        expect_refused(&b, "first chunk is not IHDR");
        free(b.p);
    }
}

static void header_fields_out_of_range_are_refused(void **state)
{
    (void)state;
    /* depth, colour type, compression, filter, interlace: offsets 8..12 of IHDR */
    static const uint8_t wrong[][2] = {{8, 0}, {8, 3},  {8, 4},  {8, 32}, {9, 1},   {9, 5},
                                       {9, 7}, {10, 1}, {11, 1}, {12, 2}, {12, 255}};
    struct bytes plain = encoded(64, 64);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bytes b = with_header_byte(&plain, wrong[i][0], wrong[i][1]);
        expect_refused(&b, "damaged");
        free(b.p);
    }
    free(plain.p);
}

static void a_missing_end_chunk_is_no_fault(void **state)
{
    (void)state;
    struct bytes b = encoded(64, 64);
    struct gr_err err;
    uint8_t *rgb;
    b.n -= 12;
    gr_test_ok(decode(&b, &rgb, &err), &err);
    free(rgb);
    b.n -= 1; /* now the checksum of the data is cut */
    expect_refused(&b, "truncated");
    free(b.p);
}

static void sixteen_bit_grey_is_refused_and_says_so(void **state)
{
    (void)state;
    struct bytes b = {NULL, 0};
    b.p = gr_test_read(gr_test_source("tests/data/images/refuse_grey16.png"), &b.n);
    expect_refused(&b, "16-bit grey PNG");
    free(b.p);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    static const int sides[][2] = {{1, 1}, {64, 64}, {3, 257}, {256, 256}, {1, 4096}};
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        const int h = sides[i][0], w = sides[i][1];
        uint8_t *rgb = noise_rgb(h, w), *back = NULL;
        struct bytes b = {NULL, 0};
        struct gr_err err;
        int height, width;
        gr_test_ok(gr_png_encode(rgb, h, w, &b.p, &b.n, &err), &err);
        gr_test_ok(gr_png_decode(b.p, b.n, 1, 4096, &back, &height, &width, &err), &err);
        assert_int_equal(height, h);
        assert_int_equal(width, w);
        assert_memory_equal(back, rgb, 3 * (size_t)h * (size_t)w);
        free(b.p);
        free(back);
        free(rgb);
    }
    struct bytes none = {NULL, 0};
    struct gr_err err;
    gr_test_fails(gr_png_encode((const uint8_t *)"", 0, 5, &none.p, &none.n, &err), &err, GR_ERR_USAGE, "5x0");
    assert_null(none.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_gives_its_pixels),
        cmocka_unit_test(side_limits_are_the_callers),
        cmocka_unit_test(a_wrong_byte_anywhere_before_the_end_is_refused),
        cmocka_unit_test(ancillary_chunks_of_any_content_are_skipped),
        cmocka_unit_test(an_unknown_critical_chunk_is_refused),
        cmocka_unit_test(a_chunk_length_that_lies_is_refused),
        cmocka_unit_test(header_fields_out_of_range_are_refused),
        cmocka_unit_test(a_missing_end_chunk_is_no_fault),
        cmocka_unit_test(sixteen_bit_grey_is_refused_and_says_so),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests_name("png", tests, NULL, NULL);
}
