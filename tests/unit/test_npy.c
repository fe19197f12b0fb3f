/* SPDX-License-Identifier: Apache-2.0
 *
 * test_npy.c: .npy arrays: NumPy's own header text, both float types, and everything that is refused. */
#include "corpus.h"

#include <stdio.h>

#include "formats/npy.h"

/* numpy.save of numpy.arange(6, dtype="<f4").reshape(2, 3), byte for byte. */
static const char numpy_header[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
                                   "                                                          \n";

static void a_file_of_numpy_is_read(void **state)
{
    (void)state;
    char bytes[128 + 24];
    float values[6] = {0, 1, 2, 3, 4, 5};
    struct gr_npy npy;
    struct gr_err err;
    assert_int_equal(sizeof numpy_header - 1, 128);
    memcpy(bytes, numpy_header, 128);
    memcpy(bytes + 128, values, 24);
    gr_test_ok(gr_npy_parse(bytes, sizeof bytes, "x", &npy, &err), &err);
    assert_int_equal(npy.ndim, 2);
    assert_int_equal(npy.shape[0], 2);
    assert_int_equal(npy.shape[1], 3);
    assert_int_equal(npy.count, 6);
    assert_memory_equal(npy.values, values, 24);
    gr_npy_free(&npy);
    assert_null(npy.values);
}

/* A version 1.0 file of `count` values with the first ndim sides of `shape`; returns its length. */
static size_t put_file(char *out, const size_t *shape, int ndim, const float *values, size_t count)
{
    size_t n = (size_t)sprintf(out + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < ndim; i++) {
        n += (size_t)sprintf(out + 10 + n, "%zu,", shape[i]);
    }
    n += (size_t)sprintf(out + 10 + n, ")}\n");
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)n;
    out[9] = 0;
    memcpy(out + 10 + n, values, 4 * count);
    return 10 + n + 4 * count;
}

static void every_rank_is_read(void **state)
{
    (void)state;
    static const size_t shape[8] = {2, 1, 3, 1, 1, 2, 1, 2};
    float values[24];
    struct gr_err err;
    for (int i = 0; i < 24; i++) {
        values[i] = (float)i * 0.1f;
    }
    for (int ndim = 0; ndim <= 8; ndim++) {
        char bytes[256];
        size_t count = 1;
        struct gr_npy npy;
        for (int i = 0; i < ndim; i++) {
            count *= shape[i];
        }
        size_t n = put_file(bytes, shape, ndim, values, count);
        gr_test_ok(gr_npy_parse(bytes, n, "x", &npy, &err), &err);
        assert_int_equal(npy.ndim, ndim);
        assert_int_equal(npy.count, count);
        assert_memory_equal(npy.shape, shape, sizeof(size_t) * (size_t)ndim);
        assert_memory_equal(npy.values, values, 4 * count);
        gr_npy_free(&npy);
    }
}

static void float64_is_rounded_once(void **state)
{
    (void)state;
    static const char header[] = "\x93NUMPY\x01\x00\x39\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}  ";
    double d[2] = {0.1, 1.0 + 0x1p-24 + 0x1p-50};
    char bytes[10 + 57 + 16];
    struct gr_npy npy;
    struct gr_err err;
    assert_int_equal(sizeof header - 1, 67);
    memcpy(bytes, header, 67);
    memcpy(bytes + 67, d, 16);
    gr_test_ok(gr_npy_parse(bytes, sizeof bytes, "x", &npy, &err), &err);
    assert_true(npy.values[0] == 0.1f);
    assert_true(npy.values[1] == 1.0f + 0x1p-23f);
    gr_npy_free(&npy);
}

static bool takes(const char *path, const char *name)
{
    size_t n;
    uint8_t *bytes = gr_test_read(path, &n);
    struct gr_npy npy = {0};
    struct gr_err err;
    enum gr_status status = gr_npy_parse(bytes, n, name, &npy, &err);
    if (status != GR_OK) {
        assert_int_equal(status, GR_ERR_INPUT);
        assert_int_equal(strncmp(err.msg, name, strlen(name)), 0);
    }
    gr_npy_free(&npy);
    free(bytes);
    return status == GR_OK;
}

static void the_corpus_is_sorted_into_good_and_bad(void **state)
{
    (void)state;
    corpus_check("npy", takes);
}

static void refusals_name_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *file, *message;
    } cases[] = {
        {"bad-magic", "not a .npy file"},    {"bad-version", "version 4.0"},
        {"bad-dtype", "dtype is '<i8'"},     {"bad-big-endian", "'>f4'"},
        {"bad-fortran", "Fortran order"},    {"bad-short", "holds 15 bytes of data, its shape needs 16"},
        {"bad-cut-header", "truncated"},     {"bad-overflow", "more than"},
        {"bad-structured", "header is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n;
        uint8_t *bytes = gr_test_read(gr_test_source("tests/fuzz/corpus/npy/%s.npy", cases[i].file), &n);
        struct gr_npy npy;
        struct gr_err err;
        gr_test_fails(gr_npy_parse(bytes, n, "noise", &npy, &err), &err, GR_ERR_INPUT, cases[i].message);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_numpy_is_read),  cmocka_unit_test(every_rank_is_read),
        cmocka_unit_test(float64_is_rounded_once),  cmocka_unit_test(the_corpus_is_sorted_into_good_and_bad),
        cmocka_unit_test(refusals_name_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
