/* SPDX-License-Identifier: Apache-2.0
 *
 * test_preprocess.c: every stage of the image chain against the hashes and arrays of the reference. Random sizes are compared by
 * tests/golden/random_images.py. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr00t.h"
#include "image_cases.h"
#include "model/preprocess.h"

enum { SIDE = 252, U8_BYTES = 3 * SIDE * SIDE };

struct watched {
    const char *name;
    const struct image_case *want; /* NULL: only counts */
    int calls;
};

static struct gr_preprocess *new_chain(int edge, double fraction)
{
    struct gr_preprocess *p;
    struct gr_err err;
    gr_test_ok(gr_preprocess_new(edge, fraction, &p, &err), &err);
    return p;
}

static void on_stage(void *user, int stage, const uint8_t *rgb, int side)
{
    static const int sums[GR_STAGES] = {IMAGE_LETTERBOX, IMAGE_RESIZE, IMAGE_CROP, IMAGE_RESIZE_B, IMAGE_BICUBIC};
    struct watched *w = user;
    char hex[65];
    assert_int_equal(stage, w->calls);
    w->calls++;
    if (w->want != NULL) {
        gr_test_sha256(rgb, 3 * (size_t)side * (size_t)side, hex);
        if (strcmp(hex, w->want->sha256[sums[stage]]) != 0) {
            fail_msg("%s: stage %s differs from the reference", w->want->name, image_sum_names[sums[stage]]);
        }
    }
}

/* Runs every decodable picture of a list through one chain and compares all stages; returns the number of pictures. */
static int check_list(const struct image_list *list)
{
    struct gr_preprocess *p = new_chain(256, 0.95);
    uint8_t *u8 = malloc(U8_BYTES);
    float *pixels = malloc(U8_BYTES * sizeof *pixels);
    int n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct image_case *c = &list->cases[i];
        struct watched w = {c->name, c, 0};
        struct gr_image image;
        struct gr_err err;
        char hex[65];
        if (!c->ok) {
            continue;
        }
        image_read(c->path, &image);
        gr_preprocess_watch(p, on_stage, &w);
        gr_test_ok(gr_preprocess_frame(p, image.rgb, image.height, image.width, u8, &err), &err);
        assert_int_equal(w.calls, GR_STAGES);
        gr_preprocess_watch(p, NULL, NULL); /* and once without a watcher: the path without copies */
        memset(u8, 0, U8_BYTES);
        gr_test_ok(gr_preprocess_frame(p, image.rgb, image.height, image.width, u8, &err), &err);
        gr_test_sha256(u8, U8_BYTES, hex);
        assert_string_equal(hex, c->sha256[IMAGE_BICUBIC]);
        gr_preprocess_pixels(u8, SIDE, pixels);
        gr_test_sha256(pixels, U8_BYTES * sizeof *pixels, hex);
        if (c->sha256[IMAGE_PIXELS][0] != '\0') {
            assert_string_equal(hex, c->sha256[IMAGE_PIXELS]);
        }
        gr_image_free(&image);
        n++;
    }
    free(u8);
    free(pixels);
    gr_preprocess_free(p);
    return n;
}

static void every_stage_equals_the_reference(void **state)
{
    (void)state;
    struct image_list list = image_cases_committed();
    assert_true(check_list(&list) >= 40);
    image_cases_free(&list);
}

static void every_stage_of_the_shared_pictures_equals_the_reference(void **state)
{
    (void)state;
    struct image_list list = image_cases_shared();
    assert_int_equal(check_list(&list), 26); /* 33 files: 6 rejects and the 16-bit grey one */
    image_cases_free(&list);
}

/* Where a stage leaves the arrays of the shared folder, its neighbours say by how much. */
static void compare_array(const char *file, const uint8_t *got, size_t bytes)
{
    size_t n;
    uint8_t *npy = gr_test_read(gr_test_shared("spec/image_cases/%s", file), &n);
    size_t head = 10 + (size_t)npy[8] + ((size_t)npy[9] << 8); /* format 1.0 */
    assert_int_equal(n - head, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (npy[head + i] != got[i]) {
            fail_msg("%s: byte %zu is %d, expected %d", file, i, got[i], npy[head + i]);
        }
    }
    free(npy);
}

struct arrays {
    const char *stem;
    bool has_resize;
};

static void on_array(void *user, int stage, const uint8_t *rgb, int side)
{
    const struct arrays *a = user;
    char name[128];
    if (stage == GR_STAGE_BICUBIC || (stage == GR_STAGE_RESIZE && a->has_resize)) {
        snprintf(name, sizeof name, "%s.%s.npy", a->stem, stage == GR_STAGE_RESIZE ? "resize256" : "bicubic252");
        compare_array(name, rgb, 3 * (size_t)side * (size_t)side);
    }
}

static void shared_arrays_equal_the_stages(void **state)
{
    (void)state;
    struct image_list list = image_cases_shared();
    struct gr_preprocess *p = new_chain(256, 0.95);
    uint8_t *u8 = malloc(U8_BYTES);
    int with_resize = 0, n = 0;
    for (size_t i = 0; i < list.n; i++) {
        struct gr_image image;
        struct gr_err err;
        char stem[80];
        if (!list.cases[i].ok) {
            continue;
        }
        snprintf(stem, sizeof stem, "%s", list.cases[i].name);
        *strrchr(stem, '.') = '_';
        struct arrays a = {stem, gr_test_exists(gr_test_shared("spec/image_cases/%s.resize256.npy", stem))};
        if (!gr_test_exists(gr_test_shared("spec/image_cases/%s.bicubic252.npy", stem))) {
            continue;
        }
        n++;
        with_resize += a.has_resize;
        image_read(list.cases[i].path, &image);
        gr_preprocess_watch(p, on_array, &a);
        gr_test_ok(gr_preprocess_frame(p, image.rgb, image.height, image.width, u8, &err), &err);
        gr_image_free(&image);
    }
    assert_int_equal(n, 26);
    assert_int_equal(with_resize, 6);
    free(u8);
    gr_preprocess_free(p);
    image_cases_free(&list);
}

/* pain/cases.md IMG-01 and IMG-14: sums of the last stage from the reference. */
static void long_and_odd_frames_equal_the_reference(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"aspect_4096x64.png", "400066344b25eefaab4abbe44c19ccd7437852561cd6cb69acde77a7a0674082"},
        {"aspect_64x4096.png", "c63d3a38b6d41b85ebf7514e940e846bfcd73debe89b78152f992a02cf184b22"},
        {"odd_257x129.png", "74db8b04b11a2f89eb7ea9625c4e807b4f2c6da8e1aaa01a2204b7077e230e35"},
        {"edge_64x64.png", "dc72f6c13bc0744ffa83201593c7114be0e98d5671b048012e7d1ef81e4d5c39"},
        {"letterbox_640x480.png", "4029e192f295ed127d53b1c53b9c8f1dbadfa8b8a7082f48b1317fa73e20d904"},
        {"letterbox_480x640.png", "63f3ca9f592713f3ee0d480295d37f7d610d94d4e44ea26802f244f5b9370cc0"},
        {"base_256.png", "7757c0b6ec9f8dc9cebca03a6efda441f5ce14c3d3e523a58edff774199cdd26"},
    };
    gr_test_need_shared();
    struct gr_preprocess *p = new_chain(256, 0.95);
    uint8_t *u8 = malloc(U8_BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_image image;
        struct gr_err err;
        char hex[65];
        image_read(gr_test_shared("pain/files/images/%s", cases[i][0]), &image);
        gr_test_ok(gr_preprocess_frame(p, image.rgb, image.height, image.width, u8, &err), &err);
        gr_test_sha256(u8, U8_BYTES, hex);
        assert_string_equal(hex, cases[i][1]);
        gr_image_free(&image);
    }
    free(u8);
    gr_preprocess_free(p);
}

static void a_frame_gives_the_same_bytes_after_other_sizes(void **state)
{
    (void)state;
    static const int sizes[][2] = {{64, 64}, {256, 256}, {512, 512}, {300, 301}, {700, 64}, {64, 700}, {2048, 100}};
    struct gr_preprocess *p = new_chain(256, 0.95), *fresh;
    uint8_t *first = malloc(U8_BYTES), *again = malloc(U8_BYTES), *rgb = malloc(3 * 2048 * 2048);
    struct gr_err err;
    uint32_t x = 7;
    for (size_t i = 0; i < 3 * 2048 * 2048; i++) {
        x = x * 1664525u + 1013904223u;
        rgb[i] = (uint8_t)(x >> 24);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fresh = new_chain(256, 0.95);
        gr_test_ok(gr_preprocess_frame(fresh, rgb, sizes[i][0], sizes[i][1], first, &err), &err);
        gr_test_ok(gr_preprocess_frame(p, rgb, sizes[i][0], sizes[i][1], again, &err), &err);
        assert_memory_equal(first, again, U8_BYTES);
        gr_preprocess_free(fresh);
    }
    free(first);
    free(again);
    free(rgb);
    gr_preprocess_free(p);
}

static void a_side_out_of_range_is_refused_with_the_numbers(void **state)
{
    (void)state;
    static const struct {
        int h, w;
        const char *text;
    } cases[] = {{63, 64, "64x63"},     {64, 63, "63x64"}, {4097, 64, "64x4097"},
                 {64, 4097, "4097x64"}, {0, 64, "64x0"},   {-5, 64, "64x-5"}};
    struct gr_preprocess *p = new_chain(256, 0.95);
    uint8_t rgb[3] = {0}, u8[3];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_err err;
        gr_test_fails(gr_preprocess_frame(p, rgb, cases[i].h, cases[i].w, u8, &err), &err, GR_ERR_INPUT, cases[i].text);
    }
    gr_preprocess_free(p);
}

static void settings_out_of_range_end_the_load(void **state)
{
    (void)state;
    struct gr_preprocess *p;
    struct gr_err err;
    gr_test_fails(gr_preprocess_new(0, 0.95, &p, &err), &err, GR_ERR_FORMAT, "shortest_image_edge is 0");
    gr_test_fails(gr_preprocess_new(-256, 0.95, &p, &err), &err, GR_ERR_FORMAT, "shortest_image_edge is -256");
    gr_test_fails(gr_preprocess_new(100000, 0.95, &p, &err), &err, GR_ERR_FORMAT, "shortest_image_edge is 100000");
    gr_test_fails(gr_preprocess_new(256, 0.0, &p, &err), &err, GR_ERR_FORMAT, "crop_fraction is 0");
    gr_test_fails(gr_preprocess_new(256, 1.01, &p, &err), &err, GR_ERR_FORMAT, "crop_fraction is 1.01");
    gr_test_fails(gr_preprocess_new(256, -1.0, &p, &err), &err, GR_ERR_FORMAT, "crop_fraction is -1");
    gr_test_fails(gr_preprocess_new(256, (double)NAN, &p, &err), &err, GR_ERR_FORMAT, "crop_fraction is");
    gr_preprocess_free(NULL);
}

static void the_last_side_is_the_nearest_multiple_of_28(void **state)
{
    (void)state;
    static const int cases[][2] = {
        {256, 252}, {252, 252}, {224, 224}, {448, 448}, {28, 28},   {40, 28},    {41, 28}, {43, 56},
        {42, 56},   {70, 56},   {98, 112},  {126, 112}, {300, 308}, {2048, 2044}}; /* 42, 70, 98, 126: ties to even */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(gr_preprocess_side(cases[i][0]), cases[i][1]);
    }
}

static void pixels_are_planes_of_minus_one_to_one(void **state)
{
    (void)state;
    uint8_t u8[3 * 16 * 16];
    float pixels[3 * 256];
    for (int i = 0; i < 256; i++) {
        u8[3 * i] = (uint8_t)i;
        u8[3 * i + 1] = (uint8_t)(255 - i);
        u8[3 * i + 2] = 7;
    }
    gr_preprocess_pixels(u8, 16, pixels);
    for (int i = 0; i < 256; i++) {
        volatile float shifted = (float)i - 127.5f; /* a true division, not a product with 1/127.5 */
        float want = shifted / 127.5f;
        assert_memory_equal(&pixels[i], &want, sizeof want);
        assert_memory_equal(&pixels[256 + 255 - i], &want, sizeof want);
        assert_memory_equal(&pixels[512], &pixels[512 + i], sizeof want);
    }
    assert_true(pixels[0] == -1.0f && pixels[255] == 1.0f);
}

static void watching_costs_its_memory_only_while_used(void **state)
{
    (void)state;
    if (GR_TEST_ASAN) {
        gr_test_skip("with the address sanitizer blocks come from the heap");
    }
    long before = gr_test_peak_kib();
    struct gr_preprocess *p = new_chain(256, 0.95);
    uint8_t *rgb = calloc(3, 256 * 256), *u8 = malloc(U8_BYTES);
    struct gr_err err;
    gr_test_ok(gr_preprocess_frame(p, rgb, 256, 256, u8, &err), &err);
    assert_true(gr_test_peak_kib() - before < 16 * 1024); /* some huge pages; the reserved block is above 50 MB */
    free(rgb);
    free(u8);
    gr_preprocess_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watching_costs_its_memory_only_while_used), /* first: measures the peak */
        cmocka_unit_test(every_stage_equals_the_reference),
        cmocka_unit_test(every_stage_of_the_shared_pictures_equals_the_reference),
        cmocka_unit_test(shared_arrays_equal_the_stages),
        cmocka_unit_test(long_and_odd_frames_equal_the_reference),
        cmocka_unit_test(a_frame_gives_the_same_bytes_after_other_sizes),
        cmocka_unit_test(a_side_out_of_range_is_refused_with_the_numbers),
        cmocka_unit_test(settings_out_of_range_end_the_load),
        cmocka_unit_test(the_last_side_is_the_nearest_multiple_of_28),
        cmocka_unit_test(pixels_are_planes_of_minus_one_to_one),
    };
    return cmocka_run_group_tests_name("preprocess", tests, NULL, NULL);
}
