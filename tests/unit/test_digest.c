/* SPDX-License-Identifier: Apache-2.0
 *
 * test_digest.c: digests against published values, and what identifies the weights of a snapshot: every property of every tensor, nothing
 * of how they are spread over files. */
#include "gr_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "formats/safetensors.h"
#include "model/snapshot.h"

static void digests_have_their_published_values(void **state)
{
    (void)state;
    /* FIPS 180-2, "abc"; the empty git blob. */
    static const struct {
        enum gr_digest_kind kind;
        const char *text;
        size_t n;
        const char *hex;
    } cases[] = {
        {GR_SHA256, "abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {GR_SHA256, "", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {GR_SHA1, "abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {GR_SHA1, "blob 0", 7, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_digest *d = NULL;
        struct gr_err err;
        char hex[GR_DIGEST_HEX_BYTES];
        gr_test_ok(gr_digest_new(cases[i].kind, &d, &err), &err);
        for (size_t k = 0; k < cases[i].n; k++) {
            gr_digest_add(d, cases[i].text + k, 1);
        }
        gr_test_ok(gr_digest_end(d, hex, &err), &err);
        assert_string_equal(hex, cases[i].hex);
    }
    gr_digest_free(NULL);
}

/* ---- snapshots ---- */

enum { BIG = 100000 /* elements; 400 kB, so that only samples are read */ };

struct spec { /* tensors of a test snapshot: values count up from `first` */
    const char *name;
    enum gr_dtype dtype;
    int64_t rows, cols;
    uint32_t first;
};
static const struct spec base_spec[3] = {
    {"a", GR_F32, 5, 2, 1}, {"big", GR_F32, BIG / 10, 10, 50}, {"c", GR_F32, 3, 1, 9}};

static size_t elements(const struct spec *s) { return (size_t)(s->rows * s->cols); }

static void put_file(const char *path, const struct spec *specs, size_t n)
{
    struct gr_tensor t[3] = {{0}};
    struct gr_err err;
    uint8_t *header = NULL;
    size_t header_bytes = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        t[i] = (struct gr_tensor){
            .name = specs[i].name, .dtype = specs[i].dtype, .ndim = 2, .shape = {specs[i].rows, specs[i].cols}};
        total += elements(&specs[i]) * 4;
    }
    gr_test_ok(gr_safetensors_header(t, n, &header, &header_bytes, &err), &err);
    uint8_t *file = malloc(header_bytes + total);
    memcpy(file, header, header_bytes);
    size_t at = header_bytes;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < elements(&specs[i]); k++, at += 4) {
            uint32_t v = specs[i].first + (uint32_t)k;
            memcpy(file + at, &v, 4);
        }
    }
    gr_test_write(path, file, at);
    free(file);
    free(header);
}

static void digest_of(const char *dir, char hex[GR_DIGEST_HEX_BYTES])
{
    struct gr_snapshot *snap = NULL;
    struct gr_err err;
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    gr_test_ok(gr_snapshot_digest(snap, hex, &err), &err);
    gr_snapshot_close(snap);
    assert_int_equal(strlen(hex), 64);
}

static void single(const struct spec *specs, char hex[GR_DIGEST_HEX_BYTES])
{
    const char *dir = gr_test_temp_dir();
    put_file(gr_test_join(dir, "model.safetensors"), specs, 3);
    digest_of(dir, hex);
}

static void files_and_order_do_not_matter(void **state)
{
    (void)state;
    static const char index[] = "{\"weight_map\":{\"a\":\"x-2.safetensors\",\"big\":\"x-1.safetensors\","
                                "\"c\":\"x-2.safetensors\"}}";
    char one[GR_DIGEST_HEX_BYTES], other[GR_DIGEST_HEX_BYTES];
    const char *dir = gr_test_temp_dir();
    const struct spec swapped[2] = {base_spec[2], base_spec[0]};
    put_file(gr_test_join(dir, "x-1.safetensors"), &base_spec[1], 1);
    put_file(gr_test_join(dir, "x-2.safetensors"), swapped, 2);
    gr_test_write(gr_test_join(dir, "model.safetensors.index.json"), index, strlen(index));
    single(base_spec, one);
    digest_of(dir, other);
    assert_string_equal(one, other);
}

static void name_type_shape_and_values_matter(void **state)
{
    (void)state;
    char base[GR_DIGEST_HEX_BYTES], changed[GR_DIGEST_HEX_BYTES];
    single(base_spec, base);
    for (int i = 0; i < 6; i++) {
        struct spec s[3];
        memcpy(s, base_spec, sizeof s);
        switch (i) {
        case 0:
            s[0].name = "b";
            break;
        case 1:
            s[2].dtype = GR_I32; /* same bytes */
            break;
        case 2:
            s[0].rows = 2;
            s[0].cols = 5;
            break;
        case 3:
            s[2].first++;
            break;
        case 4:
            s[1].first++;
            break;
        default:
            s[1].rows--;
            break;
        }
        single(s, changed);
        if (strcmp(base, changed) == 0) {
            fail_msg("change %d is not seen", i);
        }
    }
}

static void both_ends_of_a_large_tensor_are_read(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    char base[GR_DIGEST_HEX_BYTES], changed[GR_DIGEST_HEX_BYTES], path[4096];
    size_t n;
    snprintf(path, sizeof path, "%s", gr_test_join(dir, "model.safetensors"));
    put_file(path, &base_spec[1], 1);
    digest_of(dir, base);
    uint8_t *file = gr_test_read(path, &n);
    const size_t places[] = {n - 1, n - 4 * BIG};
    for (int i = 0; i < 2; i++) {
        file[places[i]] ^= 1;
        gr_test_write(path, file, n);
        digest_of(dir, changed);
        assert_string_not_equal(base, changed);
        file[places[i]] ^= 1;
    }
    free(file);
}

static void content_of(const char *dir, const char *memo, char hex[GR_CONTENT_BYTES])
{
    struct gr_snapshot *snap = NULL;
    struct gr_err err;
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    gr_test_ok(gr_snapshot_content(snap, memo, 2, hex, &err), &err);
    gr_snapshot_close(snap);
}

/* Between the samples, and with the old time put back: nothing is taken from the memo of the file as it was. */
static void content_sees_every_byte_and_every_change(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir(), *memo = gr_test_temp_dir();
    char base[GR_CONTENT_BYTES], again[GR_CONTENT_BYTES], changed[GR_CONTENT_BYTES], path[4096];
    size_t n;
    struct stat before;
    snprintf(path, sizeof path, "%s", gr_test_join(dir, "model.safetensors"));
    put_file(path, &base_spec[1], 1);
    content_of(dir, memo, base);
    content_of(dir, memo, again);
    assert_string_equal(base, again);
    assert_int_equal(stat(path, &before), 0);
    uint8_t *file = gr_test_read(path, &n);
    for (size_t at = n - 4 * BIG; at < n; at += 7919) {
        file[at] ^= 1;
        gr_test_write(path, file, n);
        const struct timespec times[] = {before.st_atim, before.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        content_of(dir, memo, changed);
        assert_string_not_equal(base, changed);
        file[at] ^= 1;
    }
    gr_test_write(path, file, n);
    content_of(dir, memo, again);
    assert_string_equal(base, again);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_have_their_published_values),
        cmocka_unit_test(files_and_order_do_not_matter),
        cmocka_unit_test(name_type_shape_and_values_matter),
        cmocka_unit_test(content_sees_every_byte_and_every_change),
        cmocka_unit_test(both_ends_of_a_large_tensor_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
