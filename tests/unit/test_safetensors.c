/* SPDX-License-Identifier: Apache-2.0
 *
 * test_safetensors.c: the strict reader on good and damaged files, exact widening, and the header writer. */
#include "corpus.h"

#include <math.h>
#include <stdio.h>

#include "formats/safetensors.h"

static const char *corpus_file(const char *name)
{
    return gr_test_source("tests/fuzz/corpus/safetensors/%s.safetensors", name);
}

static void tensors_are_found_by_name_in_name_order(void **state)
{
    (void)state;
    struct gr_safetensors *st = NULL;
    struct gr_err err;
    gr_test_ok(gr_safetensors_open(corpus_file("good-any-order"), &st, &err), &err);
    assert_int_equal(gr_safetensors_count(st), 2);
    const struct gr_tensor *a = gr_safetensors_at(st, 0), *z = gr_safetensors_find(st, "z");
    assert_string_equal(a->name, "a");
    assert_int_equal(*(const char *)a->data, 'y');
    assert_int_equal(*(const char *)z->data, 'x');
    assert_ptr_equal(z, gr_safetensors_at(st, 1));
    assert_null(gr_safetensors_at(st, 2));
    assert_null(gr_safetensors_find(st, "b"));
    assert_null(gr_safetensors_find(st, "__metadata__"));
    gr_safetensors_close(st);
    gr_safetensors_close(NULL);
}

static void shapes_dtypes_and_sizes_come_from_the_header(void **state)
{
    (void)state;
    struct gr_safetensors *st = NULL;
    struct gr_err err;
    static const char *const dtypes[] = {"F32", "F16", "BF16", "U8", "I64", "BOOL"};
    static const size_t bytes[] = {8, 6, 2, 1, 8, 2}, start[] = {0, 8, 14, 16, 17, 25};
    gr_test_ok(gr_safetensors_open(corpus_file("good-dtypes"), &st, &err), &err);
    assert_int_equal(gr_safetensors_count(st), 6);
    for (size_t i = 0; i < 6; i++) {
        const struct gr_tensor *t = gr_safetensors_at(st, i);
        assert_string_equal(gr_dtype_name(t->dtype), dtypes[i]);
        assert_int_equal(t->bytes, bytes[i]);
        assert_int_equal(*(const uint8_t *)t->data, start[i]);
    }
    assert_int_equal(gr_safetensors_find(st, "e")->ndim, 0);
    assert_int_equal(gr_safetensors_find(st, "b")->shape[0], 3);
    gr_safetensors_close(st);
}

static void tensors_of_no_bytes_are_allowed(void **state)
{
    (void)state;
    struct gr_safetensors *st = NULL;
    struct gr_err err;
    gr_test_ok(gr_safetensors_open(corpus_file("good-empty-tensor"), &st, &err), &err);
    const struct gr_tensor *a = gr_safetensors_find(st, "a");
    assert_int_equal(a->bytes, 0);
    assert_int_equal(a->shape[1], 5);
    gr_tensor_to_f32(a, 0, 0, NULL);
    gr_safetensors_done(st, a);
    assert_true(gr_tensor_f32(gr_safetensors_find(st, "b"), 0) == 1.0f);
    gr_safetensors_close(st);
}

static bool takes(const char *path, const char *name)
{
    (void)name;
    struct gr_safetensors *st = NULL;
    struct gr_err err;
    enum gr_status status = gr_safetensors_open(path, &st, &err);
    if (status != GR_OK) {
        assert_int_equal(status, GR_ERR_FORMAT);
        assert_non_null(strstr(err.msg, name)); /* the file is named */
    }
    gr_safetensors_close(st);
    return status == GR_OK;
}

static void the_corpus_is_sorted_into_good_and_bad(void **state)
{
    (void)state;
    corpus_check("safetensors", takes);
}

static void refusals_name_tensor_expected_and_found(void **state)
{
    (void)state;
    static const struct {
        const char *file, *message;
    } cases[] = {
        {"bad-empty", "empty file"},
        {"bad-lfs", "git-lfs pointer of 126 bytes"},
        {"bad-html", "HTML page"},
        {"bad-html-2", "HTML page"},
        {"bad-short", "6 bytes, a safetensors file has at least 8"},
        {"bad-length-past-end", "header length 100, but only 2 bytes follow"},
        {"bad-length-huge", "header length 9223372036854775813, limit 104857600"},
        {"bad-not-object", "does not start with '{'"},
        {"bad-duplicate", "key appears twice"},
        {"bad-dtype", "tensor a: dtype F8_E4M3 is not supported"},
        {"bad-shape-negative", "tensor a: shape[0] is not a non-negative integer"},
        {"bad-shape-overflow", "tensor a: size of its shape overflows"},
        {"bad-9-dims", "tensor a: 9 dimensions"},
        {"bad-offsets-size", "tensor a: data_offsets [0, 3] hold 3 bytes, shape and dtype F32 need 4"},
        {"bad-offsets-backwards", "run backwards"},
        {"bad-overlap", "tensor b: starts at 1, inside tensor a, which ends at 2"},
        {"bad-gap", "tensor b: starts at 2, expected 1"},
        {"bad-gap-at-start", "tensor a: starts at 1, expected 0"},
        {"bad-truncated", "7 bytes of data, the header describes 8: file is truncated, 1 bytes are missing"},
        {"bad-trailing", "1 bytes too many"},
        {"bad-unknown-key", "tensor a: unknown key x"},
        {"bad-missing-key", "tensor a: shape is missing"},
        {"bad-metadata", "__metadata__.format is integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gr_safetensors *st = NULL;
        struct gr_err err;
        gr_test_fails(gr_safetensors_open(corpus_file(cases[i].file), &st, &err), &err, GR_ERR_FORMAT,
                      cases[i].message);
        assert_null(st);
    }
    struct gr_safetensors *st = NULL;
    struct gr_err err;
    gr_test_fails(gr_safetensors_open(gr_test_source("tests/fuzz/corpus"), &st, &err), &err, GR_ERR_IO,
                  "is a directory");
}

static void every_cut_of_a_file_is_refused(void **state)
{
    (void)state;
    const char *path = gr_test_join(gr_test_temp_dir(), "cut.safetensors");
    size_t n;
    uint8_t *bytes = gr_test_read(corpus_file("good-dtypes"), &n);
    for (size_t cut = 0; cut < n; cut++) {
        struct gr_safetensors *st = NULL;
        struct gr_err err;
        gr_test_write(path, bytes, cut);
        assert_int_equal(gr_safetensors_open(path, &st, &err), GR_ERR_FORMAT);
        assert_null(st);
    }
    free(bytes);
}

/* value = (1 + m / 1024) * 2^(e - 15), m / 1024 * 2^-14 below 2^-14: in double, by definition. */
static double f16_value(unsigned h)
{
    int e = (int)(h >> 10 & 31);
    double m = h & 1023;
    double v = e == 0 ? ldexp(m, -24) : e == 31 ? (m == 0 ? (double)INFINITY : (double)NAN) : ldexp(1024 + m, e - 25);
    return (h & 0x8000u) != 0 ? -v : v;
}

static void every_f16_and_bf16_widens_exactly(void **state)
{
    (void)state;
    enum { N = 65536 };
    static uint8_t raw[2 * N + 1];
    static float out[N];
    for (size_t odd = 0; odd < 2; odd++) { /* data may start at any byte */
        for (unsigned i = 0; i < N; i++) {
            raw[odd + 2 * i] = (uint8_t)i;
            raw[odd + 2 * i + 1] = (uint8_t)(i >> 8);
        }
        struct gr_tensor t = {.name = "t", .dtype = GR_F16, .ndim = 1, .shape = {N}, .data = raw + odd, .bytes = 2 * N};
        gr_tensor_to_f32(&t, 0, N, out);
        for (unsigned i = 0; i < N; i++) {
            double want = f16_value(i);
            bool same = isnan(want) ? isnan(out[i]) : (double)out[i] == want && !signbit(out[i]) == !signbit(want);
            if (!same || memcmp(&out[i], &(float){gr_tensor_f32(&t, i)}, 4) != 0) {
                fail_msg("F16 %04x widens to %.9g", i, (double)out[i]);
            }
        }
        t.dtype = GR_BF16;
        gr_tensor_to_f32(&t, 0, N, out);
        for (unsigned i = 0; i < N; i++) {
            uint32_t bits;
            memcpy(&bits, &out[i], 4);
            assert_int_equal(bits, i << 16);
        }
    }
}

static void a_part_of_a_tensor_is_widened_from_its_first_element(void **state)
{
    (void)state;
    uint8_t raw[1 + 4 * 5];
    float values[5] = {1, -2, 3.5f, 0.1f, -0.0f}, out[4] = {9, 9, 9, 9};
    memcpy(raw + 1, values, sizeof values);
    struct gr_tensor t = {.name = "t", .dtype = GR_F32, .ndim = 1, .shape = {5}, .data = raw + 1, .bytes = 20};
    gr_tensor_to_f32(&t, 2, 3, out);
    assert_memory_equal(out, values + 2, 12);
    assert_true(out[3] == 9);
    assert_true(gr_tensor_f32(&t, 1) == -2);
}

static void the_header_is_what_json_dumps_gives(void **state)
{
    (void)state;
    static const char want[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[3,2],"
        "\"data_offsets\":[0,12]},\"b\\\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"
        "\"c\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[16,16]}}";
    const struct gr_tensor t[] = {
        {.name = "a.weight", .dtype = GR_BF16, .ndim = 2, .shape = {3, 2}},
        {.name = "b\"", .dtype = GR_F32, .ndim = 0},
        {.name = "c", .dtype = GR_I64, .ndim = 2, .shape = {0, 7}},
    };
    uint8_t *header = NULL;
    size_t n = 0;
    struct gr_err err;
    gr_test_ok(gr_safetensors_header(t, 3, &header, &n, &err), &err);
    uint64_t length;
    memcpy(&length, header, 8);
    assert_int_equal(n % 8, 0);
    assert_int_equal(length, n - 8);
    assert_true(length >= sizeof want - 1 && length < sizeof want - 1 + 8);
    assert_memory_equal(header + 8, want, sizeof want - 1);
    for (size_t i = 8 + sizeof want - 1; i < n; i++) {
        assert_int_equal(header[i], ' ');
    }
    free(header);
}

static void what_the_writer_describes_the_reader_takes(void **state)
{
    (void)state;
    const char *path = gr_test_join(gr_test_temp_dir(), "w.safetensors");
    struct gr_err err;
    for (size_t count = 0; count < 40; count++) {
        struct gr_tensor t[40];
        char names[40][8];
        size_t bytes = 0, n = 0;
        for (size_t i = 0; i < count; i++) {
            snprintf(names[i], sizeof names[i], "t%zu", i);
            t[i] = (struct gr_tensor){
                .name = names[i], .dtype = (enum gr_dtype)(i % 13), .ndim = 2, .shape = {(int64_t)i % 5, 3}};
            bytes += gr_dtype_bytes(t[i].dtype) * (i % 5) * 3;
        }
        uint8_t *header = NULL;
        gr_test_ok(gr_safetensors_header(t, count, &header, &n, &err), &err);
        uint8_t *file = calloc(1, n + bytes);
        assert_non_null(file);
        memcpy(file, header, n);
        gr_test_write(path, file, n + bytes);
        struct gr_safetensors *st = NULL;
        gr_test_ok(gr_safetensors_open(path, &st, &err), &err);
        assert_int_equal(gr_safetensors_count(st), count);
        for (size_t i = 0; i < count; i++) {
            const struct gr_tensor *r = gr_safetensors_find(st, names[i]);
            assert_non_null(r);
            assert_int_equal(r->dtype, t[i].dtype);
            assert_int_equal(r->shape[0], t[i].shape[0]);
        }
        gr_safetensors_close(st);
        free(file);
        free(header);
    }
}

static void shapes_that_cannot_be_written_are_refused(void **state)
{
    (void)state;
    struct gr_tensor t = {.name = "t", .dtype = GR_F32, .ndim = 2, .shape = {-1, 2}};
    uint8_t *header = NULL;
    size_t n = 0;
    struct gr_err err;
    gr_test_fails(gr_safetensors_header(&t, 1, &header, &n, &err), &err, GR_ERR_USAGE, "tensor t");
    t.shape[0] = t.shape[1] = INT64_MAX;
    gr_test_fails(gr_safetensors_header(&t, 1, &header, &n, &err), &err, GR_ERR_USAGE, "tensor t");
    t.ndim = GR_TENSOR_DIMS + 1;
    gr_test_fails(gr_safetensors_header(&t, 1, &header, &n, &err), &err, GR_ERR_USAGE, "tensor t");
    assert_null(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found_by_name_in_name_order),
        cmocka_unit_test(shapes_dtypes_and_sizes_come_from_the_header),
        cmocka_unit_test(tensors_of_no_bytes_are_allowed),
        cmocka_unit_test(the_corpus_is_sorted_into_good_and_bad),
        cmocka_unit_test(refusals_name_tensor_expected_and_found),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(every_f16_and_bf16_widens_exactly),
        cmocka_unit_test(a_part_of_a_tensor_is_widened_from_its_first_element),
        cmocka_unit_test(the_header_is_what_json_dumps_gives),
        cmocka_unit_test(what_the_writer_describes_the_reader_takes),
        cmocka_unit_test(shapes_that_cannot_be_written_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
