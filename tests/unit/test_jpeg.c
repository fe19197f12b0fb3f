/* SPDX-License-Identifier: Apache-2.0
 *
 * test_jpeg.c: the JPEG reader against files with one thing wrong, and the EXIF walk. Pixel equality with Pillow is in
 * test_image. */
#include "gr_test.h"

#include <stdlib.h>
#include <string.h>

#include "formats/exif.h"
#include "formats/jpeg.h"

struct bytes {
    uint8_t *p;
    size_t n;
};

static struct bytes read_data(const char *name)
{
    struct bytes b;
    b.p = gr_test_read(gr_test_source("tests/data/images/%s", name), &b.n);
    return b;
}

static enum gr_status decode(const struct bytes *b, uint8_t **rgb, struct gr_err *err)
{
    int h, w, orientation;
    *rgb = NULL;
    return gr_jpeg_decode(b->p, b->n, 64, 4096, rgb, &h, &w, &orientation, err);
}

static void expect_refused(const struct bytes *b, const char *text)
{
    uint8_t *rgb;
    struct gr_err err;
    gr_test_fails(decode(b, &rgb, &err), &err, GR_ERR_INPUT, text);
    assert_null(rgb);
}

/* Offset of a marker segment (its 0xFF) from `at` on. */
static size_t find_marker(const struct bytes *b, uint8_t marker, size_t at)
{
    for (; at + 1 < b->n; at++) {
        if (b->p[at] == 0xFF && b->p[at + 1] == marker) {
            return at;
        }
    }
    fail_msg("no marker %02x", marker);
    return 0;
}

/* The file with one of its scans of a chroma component repeated `times` times at its end. */
static struct bytes with_repeated_scan(const struct bytes *b, size_t times)
{
    size_t scan = 0, end;
    do {
        scan = find_marker(b, 0xDA, scan + 1);
    } while (b->p[scan + 4] != 1 || b->p[scan + 5] != 2);
    for (end = scan + 2; b->p[end] != 0xFF || b->p[end + 1] == 0; end++) {
    }
    struct bytes many = {malloc(b->n + times * (end - scan)), b->n - 2};
    memcpy(many.p, b->p, many.n);
    for (size_t i = 0; i < times; i++) {
        memcpy(many.p + many.n, b->p + scan, end - scan);
        many.n += end - scan;
    }
    memcpy(many.p + many.n, "\xFF\xD9", 2);
    many.n += 2;
    return many;
}

static void too_many_scans_are_refused(void **state)
{
    (void)state;
    struct bytes b = read_data("progressive_131x99.jpg"), some = with_repeated_scan(&b, 400),
                 many = with_repeated_scan(&b, 600);
    struct gr_err err;
    uint8_t *rgb;
    gr_test_ok(decode(&some, &rgb, &err), &err);
    free(rgb);
    expect_refused(&many, "131x99 pixels has more than 500 scans");
    memcpy(some.p + find_marker(&some, 0xC2, 0) + 5, "\x10\x00\x10\x00", 4); /* 4096x4096: each scan costs more */
    expect_refused(&some, "4096x4096 pixels has more than 16 scans");
    free(some.p);
    free(many.p);
    free(b.p);
}

static void arithmetic_coding_is_refused(void **state)
{
    (void)state;
    struct bytes b = read_data("progressive_131x99.jpg");
    b.p[find_marker(&b, 0xC2, 0) + 1] = 0xCA; /* SOF10: the same frame, arithmetic-coded */
    expect_refused(&b, "arithmetic-coded, expected Huffman");
    free(b.p);
}

static void sides_are_refused_from_the_header(void **state)
{
    (void)state;
    static const struct {
        unsigned h, w;
        const char *text;
    } cases[] = {{65000, 65000, "image is 65000x65000 pixels, sides must be 64..4096"},
                 {64, 4097, "image is 4097x64 pixels, sides must be 64..4096"},
                 {63, 64, "image is 64x63 pixels, sides must be 64..4096"},
                 {65535, 65535, "JPEG data is damaged"},
                 {0, 64, "JPEG data is damaged"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes b = read_data("grey_100x75.jpg");
        size_t sof = find_marker(&b, 0xC0, 0);
        b.p[sof + 5] = (uint8_t)(cases[i].h >> 8);
        b.p[sof + 6] = (uint8_t)cases[i].h;
        b.p[sof + 7] = (uint8_t)(cases[i].w >> 8);
        b.p[sof + 8] = (uint8_t)cases[i].w;
        expect_refused(&b, cases[i].text);
        free(b.p);
    }
}

/* A grey file with another height: the data end in the middle of the picture that the header promises. */
static void fewer_rows_than_promised_are_truncation(void **state)
{
    (void)state;
    struct bytes b = read_data("grey_100x75.jpg");
    size_t sof = find_marker(&b, 0xC0, 0);
    b.p[sof + 5] = 4;
    b.n -= 2;
    expect_refused(&b, "truncated");
    free(b.p);
}

static void two_colour_components_are_refused(void **state)
{
    (void)state;
    struct bytes b = read_data("jpeg444_120x97.jpg");
    size_t sof = find_marker(&b, 0xC0, 0);
    b.p[sof + 3] = 14;
    b.p[sof + 9] = 2;
    memmove(b.p + sof + 16, b.p + sof + 19, b.n - sof - 19);
    b.n -= 3;
    size_t sos = find_marker(&b, 0xDA, sof);
    b.p[sos + 3] = 10;
    b.p[sos + 4] = 2;
    memmove(b.p + sos + 9, b.p + sos + 11, b.n - sos - 11);
    b.n -= 2;
    expect_refused(&b, "2 colour components");
    free(b.p);
}

static void grey_gives_three_equal_channels(void **state)
{
    (void)state;
    struct bytes b = read_data("grey_100x75.jpg");
    struct gr_err err;
    uint8_t *rgb;
    gr_test_ok(decode(&b, &rgb, &err), &err);
    for (size_t i = 0; i < 3 * 100 * 75; i += 3) {
        assert_int_equal(rgb[i], rgb[i + 1]);
        assert_int_equal(rgb[i], rgb[i + 2]);
    }
    free(rgb);
    free(b.p);
}

static void bytes_behind_the_end_are_ignored(void **state)
{
    (void)state;
    struct bytes b = read_data("jpeg420_131x99.jpg"), longer = {malloc(b.n + 1000), b.n + 1000};
    struct gr_err err;
    uint8_t *a, *c;
    memcpy(longer.p, b.p, b.n);
    memset(longer.p + b.n, 0xFF, 1000);
    gr_test_ok(decode(&b, &a, &err), &err);
    gr_test_ok(decode(&longer, &c, &err), &err);
    assert_memory_equal(a, c, 3 * 131 * 99);
    free(a);
    free(c);
    free(b.p);
    free(longer.p);
}

static void a_wrong_byte_anywhere_never_does_harm(void **state)
{
    (void)state;
    static const char *const names[] = {"quality5_100x75.jpg", "progressive_131x99.jpg", "exif6_ii_100x75.jpg"};
    uint32_t x = 1;
    int refused = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bytes b = read_data(names[i]);
        for (size_t at = 0; at < b.n; at++) {
            uint8_t old = b.p[at], *rgb;
            struct gr_err err;
            x = x * 1664525u + 1013904223u;
            b.p[at] = (uint8_t)(x >> 24);
            if (decode(&b, &rgb, &err) == GR_OK) {
                free(rgb);
            } else {
                assert_int_equal(err.code, GR_ERR_INPUT);
                refused++;
            }
            b.p[at] = old;
        }
        free(b.p);
    }
    assert_true(refused > 50);
}

/* ---- EXIF -------------------------------------------------------------------------------------------------------- */

/* A JPEG start with one APP1 segment of the given body; segment length len_field, -1: right. In a block of its own size. */
static struct bytes jpeg_with_app1(const void *body, size_t n, int len_field)
{
    struct bytes b = {malloc(6 + n), 6 + n};
    size_t len = len_field >= 0 ? (size_t)len_field : n + 2;
    memcpy(b.p, "\xFF\xD8\xFF\xE1", 4);
    b.p[4] = (uint8_t)(len >> 8);
    b.p[5] = (uint8_t)len;
    memcpy(b.p + 6, body, n);
    return b;
}

static int orientation_of(const void *body, size_t n, int len_field)
{
    struct bytes b = jpeg_with_app1(body, n, len_field);
    int v = gr_exif_orientation(b.p, b.n);
    free(b.p);
    return v;
}

static void orientation_is_read_in_both_byte_orders(void **state)
{
    (void)state;
    uint8_t little[] = "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
    uint8_t big[] = "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
    for (uint8_t v = 0; v < 12; v++) {
        int want = v >= 1 && v <= 8 ? v : 1;
        little[24] = v;
        big[25] = v;
        assert_int_equal(orientation_of(little, sizeof little - 1, -1), want);
        assert_int_equal(orientation_of(big, sizeof big - 1, -1), want);
    }
}

static void damaged_exif_reads_as_upright(void **state)
{
    (void)state;
    static const uint8_t good[] = "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
    uint8_t bad[sizeof good - 1];
    assert_int_equal(orientation_of(good, sizeof good - 1, -1), 6);
    for (size_t n = 0; n < sizeof bad; n++) { /* the segment ends early */
        assert_int_equal(orientation_of(good, n, -1), 1);
    }
    assert_int_equal(orientation_of(good, sizeof bad, (int)sizeof bad + 3), 1); /* longer than the file */
    assert_int_equal(orientation_of(good, sizeof bad, 0), 1);
    assert_int_equal(orientation_of(good, sizeof bad, 1), 1);
    assert_int_equal(orientation_of(good, sizeof bad, 65535), 1);
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 'e'}, {6, 'X'}, {8, 1}, {9, '+'}, {10, 0xFF}, {13, 0xFF}, {13, 25}, {19, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(bad, good, sizeof bad);
        bad[wrong[i].at] = wrong[i].value;
        assert_int_equal(orientation_of(bad, sizeof bad, -1), 1);
    }
    memcpy(bad, good, sizeof bad);
    bad[14] = 0xFF; /* 65281 entries, one of them there */
    assert_int_equal(orientation_of(bad, sizeof bad, -1), 6);
}

static void orientation_is_looked_for_before_the_first_scan_only(void **state)
{
    (void)state;
    static const uint8_t tail[] = "\xFF\xE1\0\x1E"
                                  "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
    uint8_t file[64] = "\xFF\xD8\xFF\xE0\0\x04"
                       "ab\xFF\xFF"; /* another segment, fill bytes */
    memcpy(file + 9, tail, sizeof tail - 1);
    assert_int_equal(gr_exif_orientation(file, 9 + sizeof tail - 1), 6);
    file[3] = 0xDA;
    assert_int_equal(gr_exif_orientation(file, 9 + sizeof tail - 1), 1);
    assert_int_equal(gr_exif_orientation(file, 3), 1);
    assert_int_equal(gr_exif_orientation((const uint8_t *)"\x89PNG\r\n", 6), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_many_scans_are_refused),
        cmocka_unit_test(arithmetic_coding_is_refused),
        cmocka_unit_test(sides_are_refused_from_the_header),
        cmocka_unit_test(fewer_rows_than_promised_are_truncation),
        cmocka_unit_test(two_colour_components_are_refused),
        cmocka_unit_test(grey_gives_three_equal_channels),
        cmocka_unit_test(bytes_behind_the_end_are_ignored),
        cmocka_unit_test(a_wrong_byte_anywhere_never_does_harm),
        cmocka_unit_test(orientation_is_read_in_both_byte_orders),
        cmocka_unit_test(damaged_exif_reads_as_upright),
        cmocka_unit_test(orientation_is_looked_for_before_the_first_scan_only),
    };
    return cmocka_run_group_tests_name("jpeg", tests, NULL, NULL);
}
