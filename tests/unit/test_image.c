/* SPDX-License-Identifier: Apache-2.0
 *
 * test_image.c: gr_image_decode on whole files: pixels equal to Pillow's, everything else refused with the right words, no
 * memory taken for pictures that only claim to be large. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gr00t.h"
#include "image_cases.h"

static void refuse_file(const char *path, const char *text)
{
    size_t n;
    struct gr_image image;
    struct gr_err err;
    uint8_t *bytes = gr_test_read(path, &n);
    gr_test_fails(gr_image_decode(bytes, n, &image, &err), &err, GR_ERR_INPUT, text);
    assert_null(image.rgb);
    free(bytes);
}

static size_t rgb_bytes(const struct gr_image *image) { return 3 * (size_t)image->height * (size_t)image->width; }

static void check_case(const struct image_case *c)
{
    if (!c->ok) {
        refuse_file(c->path, c->refusal);
        return;
    }
    struct gr_image image;
    char hex[65];
    image_read(c->path, &image);
    gr_test_sha256(image.rgb, rgb_bytes(&image), hex);
    if (image.width != c->width || image.height != c->height) {
        fail_msg("%s: %dx%d, expected %dx%d", c->name, image.width, image.height, c->width, c->height);
    }
    if (strcmp(hex, c->sha256[IMAGE_RGB]) != 0) {
        fail_msg("%s: pixels differ from Pillow's", c->name);
    }
    if (c->orientation != 0) {
        assert_int_equal(image.exif_orientation, c->orientation);
    }
    gr_image_free(&image);
}

/* First: later tests raise the peak that this one measures. */
static void a_picture_that_claims_to_be_giant_costs_no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"refuse_bomb.png", "refuse_bomb_header.png", "refuse_bomb.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        long before = gr_test_peak_kib();
        refuse_file(gr_test_source("tests/data/images/%s", names[i]), "sides must be 64..4096");
        assert_true(gr_test_peak_kib() - before < 5 * 1024);
    }
}

static void pictures_decode_or_are_refused_as_listed(void **state)
{
    (void)state;
    struct image_list list = image_cases_committed();
    assert_true(list.n >= 70);
    for (size_t i = 0; i < list.n; i++) {
        check_case(&list.cases[i]);
    }
    image_cases_free(&list);
}

static void shared_pictures_decode_or_are_refused_as_listed(void **state)
{
    (void)state;
    struct image_list list = image_cases_shared();
    assert_int_equal(list.n, 33);
    for (size_t i = 0; i < list.n; i++) {
        check_case(&list.cases[i]);
    }
    image_cases_free(&list);
}

/* Arrays beside some of the shared pictures: byte for byte, not only by hash. */
static void shared_arrays_equal_the_pixels(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"bilevel_130x130.png", "bilevel_130x130_png"},
                                           {"cmyk_240x320.jpg", "cmyk_240x320_jpg"},
                                           {"gray_240x320.jpg", "gray_240x320_jpg"},
                                           {"interlaced_310x233.png", "interlaced_310x233_png"},
                                           {"la_260x200.png", "la_260x200_png"},
                                           {"palette16_trns_320x240.png", "palette16_trns_320x240_png"},
                                           {"palette64_320x240.png", "palette64_320x240_png"},
                                           {"rgb16_200x160.png", "rgb16_200x160_png"},
                                           {"rgba_260x200.png", "rgba_260x200_png"}};
    gr_test_need_shared();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct gr_image image;
        size_t n;
        image_read(gr_test_shared("spec/image_cases/%s", names[i][0]), &image);
        uint8_t *npy = gr_test_read(gr_test_shared("spec/image_cases/%s.rgb.npy", names[i][1]), &n);
        size_t head = 10 + (size_t)npy[8] + ((size_t)npy[9] << 8); /* format 1.0 */
        assert_int_equal(n - head, rgb_bytes(&image));
        assert_memory_equal(npy + head, image.rgb, n - head);
        free(npy);
        gr_image_free(&image);
    }
}

static void every_cut_of_a_file_is_refused_or_gives_the_same_pixels(void **state)
{
    (void)state;
    static const char *const names[] = {"grey4_90x80.png", "palette2_84x71.png", "quality5_100x75.jpg",
                                        "progressive_131x99.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n, decoded = 0;
        struct gr_image whole, part;
        struct gr_err err;
        uint8_t *bytes = gr_test_read(gr_test_source("tests/data/images/%s", names[i]), &n);
        gr_test_ok(gr_image_decode(bytes, n, &whole, &err), &err);
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *copy = malloc(cut + 1); /* its own block: a read behind the end shows */
            memcpy(copy, bytes, cut);
            if (gr_image_decode(copy, cut, &part, &err) == GR_OK) {
                assert_memory_equal(part.rgb, whole.rgb, rgb_bytes(&whole));
                decoded++;
                gr_image_free(&part);
            } else {
                assert_int_equal(err.code, GR_ERR_INPUT);
                assert_null(part.rgb);
            }
            free(copy);
        }
        assert_true(decoded <= 16); /* cuts inside IEND or the end marker only */
        gr_image_free(&whole);
        free(bytes);
    }
}

static void free_is_allowed_twice_and_on_null(void **state)
{
    (void)state;
    struct gr_image image;
    image_read(gr_test_source("tests/data/images/rgb_64x64.png"), &image);
    gr_image_free(&image);
    assert_null(image.rgb);
    gr_image_free(&image);
    gr_image_free(NULL);
}

static void refusals_name_what_was_found(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } cases[] = {
        {"GIF89a........", 14, "a GIF file"},
        {"RIFF....WEBPVP8 ", 16, "a WebP file"},
        {"RIFF....WAVEfmt ", 16, "a RIFF file"},
        {"BM\0\0\0\0", 6, "a BMP file"},
        {"II*\0....", 8, "a TIFF file"},
        {"MM\0*....", 8, "a TIFF file"},
        {"\0\0\0\x20"
         "ftypavif....",
         16, "an AVIF file"},
        {"\0\0\0\x20"
         "ftypheix....",
         16, "a HEIC file"},
        {"\0\0\0\x20"
         "ftypmif1....",
         16, "a HEIF file"},
        {"\0\0\0\x20"
         "ftypisom....",
         16, "an MP4"},
        {"\0\0\0\x0CJXL \r\n\x87\n", 12, "a JPEG XL file"},
        {"<svg width='9'/>", 16, "an SVG file"},
        {"  <?xml version='1.0'?><a/>", 26, "an XML file"},
        {"data:image/png;base64,iVBOR", 27, "a data URL"},
        {"/9j/4AAQSkZJRg==", 16, "base64 text of a JPEG"},
        {"/home/robot/frame.png", 21, "is text"},
        {"P6 64 64 255\n", 13, "a PNM file"},
        {"\x93NUMPY\1\0", 8, "a NumPy array file"},
        {"\x1F\x8B\x08\0", 4, "a gzip file"},
        {"\x89PNG", 4, "inside the signature"},
        {"\xFF\xD8", 2, "inside the signature"},
        {"\xFF", 1, "inside the signature"},
        {"\0", 1, "unknown type (1 bytes, first ones 00)"},
        {"\xEF\xBB\xBF", 3, "is text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_image image;
        struct gr_err err;
        uint8_t *copy = malloc(cases[i].n);
        memcpy(copy, cases[i].bytes, cases[i].n);
        gr_test_fails(gr_image_decode(copy, cases[i].n, &image, &err), &err, GR_ERR_INPUT, cases[i].text);
        free(copy);
    }
    struct gr_image image;
    struct gr_err err;
    gr_test_fails(gr_image_decode(NULL, 0, &image, &err), &err, GR_ERR_INPUT, "image is empty");
}

/* ---- problems others reported (pain/cases.md, IMG-02 .. IMG-14) --------------------------------------------------- */

static const char *pain(const char *name) { return gr_test_shared("pain/files/images/%s", name); }

static void decode_pain(const char *name, struct gr_image *image) { image_read(pain(name), image); }

static void expect_same_pixels(const char *a, const char *b)
{
    struct gr_image first, second;
    decode_pain(a, &first);
    decode_pain(b, &second);
    assert_int_equal(first.height, second.height);
    assert_int_equal(first.width, second.width);
    if (memcmp(first.rgb, second.rgb, rgb_bytes(&first)) != 0) {
        fail_msg("%s and %s decode to different pixels", a, b);
    }
    gr_image_free(&first);
    gr_image_free(&second);
}

static void img_05_bombs_are_refused_from_the_header(void **state)
{
    (void)state;
    gr_test_need_shared();
    long before = gr_test_peak_kib();
    refuse_file(pain("bomb_20000x20000_1bit.png"), "image is 20000x20000 pixels, sides must be 64..4096");
    refuse_file(pain("bomb_ihdr_only_65535x65535.png"), "image is 65535x65535 pixels, sides must be 64..4096");
    assert_true(gr_test_peak_kib() - before < 5 * 1024);
}

static void img_02_channels_come_out_as_rgb(void **state)
{
    (void)state;
    static const uint8_t red[3] = {220, 20, 20}, swapped[3] = {20, 20, 220};
    struct gr_image image;
    gr_test_need_shared();
    decode_pain("base_256.png", &image);
    assert_memory_equal(image.rgb + 3 * (256 / 4 * 256 + 256 / 5), red, 3);
    gr_image_free(&image);
    decode_pain("bgr_swapped.png", &image);
    assert_memory_equal(image.rgb + 3 * (256 / 4 * 256 + 256 / 5), swapped, 3);
    gr_image_free(&image);
}

static void img_03_exif_turns_are_reported_and_not_applied(void **state)
{
    (void)state;
    struct gr_image image;
    gr_test_need_shared();
    decode_pain("exif_orient6.jpg", &image);
    assert_int_equal(image.exif_orientation, 6);
    assert_int_equal(image.height, 640);
    assert_int_equal(image.width, 480);
    gr_image_free(&image);
    decode_pain("exif_none_same_pixels.jpg", &image);
    assert_int_equal(image.exif_orientation, 1);
    gr_image_free(&image);
    expect_same_pixels("exif_orient6.jpg", "exif_none_same_pixels.jpg");
}

static void img_04_08_equal_pictures_in_other_forms_decode_equal(void **state)
{
    (void)state;
    gr_test_need_shared();
    expect_same_pixels("rgba_opaque.png", "base_256.png");
    expect_same_pixels("interlaced_adam7.png", "base_256.png");
    expect_same_pixels("rgb16.png", "base_256.png");
    expect_same_pixels("progressive.jpg", "baseline.jpg");
}

static void img_06_the_largest_frame_decodes_and_one_more_column_does_not(void **state)
{
    (void)state;
    struct gr_image image;
    gr_test_need_shared();
    decode_pain("edge_4096x4096.png", &image);
    assert_int_equal(image.height, 4096);
    assert_int_equal(image.width, 4096);
    gr_image_free(&image);
    decode_pain("edge_64x64.png", &image);
    gr_image_free(&image);
    refuse_file(pain("edge_63x64.png"), "image is 63x64 pixels, sides must be 64..4096");
    refuse_file(pain("edge_4097x64.png"), "image is 4097x64 pixels, sides must be 64..4096");
}

static void img_07_cmyk_keeps_its_colours(void **state)
{
    (void)state;
    struct gr_image cmyk, base;
    gr_test_need_shared();
    decode_pain("cmyk.jpg", &cmyk);
    decode_pain("base_256.png", &base);
    double sum = 0;
    for (size_t i = 0; i < rgb_bytes(&base); i++) {
        sum += abs(cmyk.rgb[i] - base.rgb[i]);
    }
    assert_true(sum / (double)rgb_bytes(&base) < 2.0);
    gr_image_free(&cmyk);
    gr_image_free(&base);
}

static void img_09_missing_data_and_wrong_checksums_are_refused(void **state)
{
    (void)state;
    gr_test_need_shared();
    refuse_file(pain("truncated_60pct.jpg"), "JPEG data is truncated: 4533 bytes");
    refuse_file(pain("truncated_60pct.png"), "PNG data is truncated: 1030 bytes");
    refuse_file(pain("badcrc_idat.png"), "CRC");
}

static void img_12_13_other_types_are_named(void **state)
{
    (void)state;
    gr_test_need_shared();
    refuse_file(pain("really_a_gif.png"), "a GIF file");
    refuse_file(pain("really_a_webp.png"), "a WebP file");
    refuse_file(pain("really_a_bmp.png"), "a BMP file");
    refuse_file(pain("not_an_image.png"), "expected a PNG or JPEG file");
}

/* image_facts.json holds Pillow's pixels of every file it decodes; ours are equal, or the file is one we refuse. */
static void pixels_of_all_reported_files_equal_pillow(void **state)
{
    (void)state;
    static const char *const refused[] = {"badcrc_idat.png",  "edge_4097x64.png", "edge_63x64.png",
                                          "really_a_bmp.png", "really_a_gif.png", "really_a_webp.png"};
    struct gr_json *root;
    struct gr_err err;
    int equal = 0;
    gr_test_need_shared();
    gr_test_ok(gr_json_read(gr_test_shared("pain/files/image_facts.json"), 1 << 20, GR_ERR_FORMAT, &root, &err), &err);
    for (void *it = gr_json_first(root); it != NULL; it = gr_json_next(root, it)) {
        const struct gr_json *sum = gr_json_get(gr_json_get(gr_json_value(it), "pillow"), "sha");
        bool ours = sum != NULL;
        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
            ours = ours && strcmp(gr_json_key(it), refused[i]) != 0;
        }
        if (!ours) {
            refuse_file(pain(gr_json_key(it)), "");
            continue;
        }
        struct gr_image image;
        char hex[65];
        decode_pain(gr_json_key(it), &image);
        gr_test_sha256(image.rgb, rgb_bytes(&image), hex);
        if (strncmp(hex, gr_json_string(sum), 12) != 0) {
            fail_msg("%s: pixels differ from Pillow's", gr_json_key(it));
        }
        equal++;
        gr_image_free(&image);
    }
    gr_json_free(root);
    assert_int_equal(equal, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_that_claims_to_be_giant_costs_no_memory),
        cmocka_unit_test(img_05_bombs_are_refused_from_the_header),
        cmocka_unit_test(pictures_decode_or_are_refused_as_listed),
        cmocka_unit_test(shared_pictures_decode_or_are_refused_as_listed),
        cmocka_unit_test(shared_arrays_equal_the_pixels),
        cmocka_unit_test(every_cut_of_a_file_is_refused_or_gives_the_same_pixels),
        cmocka_unit_test(free_is_allowed_twice_and_on_null),
        cmocka_unit_test(refusals_name_what_was_found),
        cmocka_unit_test(img_02_channels_come_out_as_rgb),
        cmocka_unit_test(img_03_exif_turns_are_reported_and_not_applied),
        cmocka_unit_test(img_04_08_equal_pictures_in_other_forms_decode_equal),
        cmocka_unit_test(img_06_the_largest_frame_decodes_and_one_more_column_does_not),
        cmocka_unit_test(img_07_cmyk_keeps_its_colours),
        cmocka_unit_test(img_09_missing_data_and_wrong_checksums_are_refused),
        cmocka_unit_test(img_12_13_other_types_are_named),
        cmocka_unit_test(pixels_of_all_reported_files_equal_pillow),
    };
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
