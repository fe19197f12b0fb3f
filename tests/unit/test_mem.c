/* SPDX-License-Identifier: Apache-2.0
 *
 * test_mem.c: size arithmetic that does not wrap, and big blocks. */
#include "gr_test.h"

#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

static void products_and_sums_that_overflow_are_refused(void **state)
{
    (void)state;
    size_t out = 7;
    assert_true(gr_size_mul(6, 7, &out));
    assert_int_equal(out, 42);
    assert_true(gr_size_mul(SIZE_MAX, 1, &out));
    assert_true(gr_size_mul(SIZE_MAX, 0, &out));
    assert_int_equal(out, 0);
    assert_false(gr_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_true(gr_size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(gr_size_add(SIZE_MAX, 1, &out));
}

static void big_blocks_are_aligned_zeroed_and_writable(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 2 << 20, (2 << 20) + 1, (5 << 20) - 3};
    struct gr_err err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = NULL;
        gr_test_ok(gr_big_alloc(sizes[i], "test block", &p, &err), &err);
        assert_int_equal((uintptr_t)p % (2 << 20), 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            if (((unsigned char *)p)[k] != 0) {
                fail_msg("byte %zu of %zu is not zero", k, sizes[i]);
            }
        }
        memset(p, 0xa5, sizes[i]);
        gr_big_free(p, sizes[i]);
    }
    gr_big_free(NULL, 5);
}

static void a_freed_block_is_unmapped_to_its_last_page(void **state)
{
    (void)state;
    if (GR_TEST_ASAN) {
        gr_test_skip("with the address sanitizer blocks come from the heap");
    }
    struct gr_err err;
    void *p = NULL;
    const size_t size = (3 << 20) + 5;
    gr_test_ok(gr_big_alloc(size, "test block", &p, &err), &err);
    unsigned char in_core;
    char *last = (char *)p + (3 << 20);
    assert_int_equal(mincore(last, 4096, &in_core), 0);
    gr_big_free(p, size);
    assert_int_not_equal(mincore(last, 4096, &in_core), 0);
}

static void refused_memory_names_what_and_how_much(void **state)
{
    (void)state;
    struct gr_err err;
    void *p = NULL;
    gr_test_fails(gr_big_alloc(SIZE_MAX, "packed weights", &p, &err), &err, GR_ERR_NOMEM, "packed weights");
    gr_test_fails(gr_big_alloc(SIZE_MAX - (1 << 20), "packed weights", &p, &err), &err, GR_ERR_NOMEM, "packed weights");
    gr_test_fails(gr_big_alloc((size_t)1 << 50, "packed weights", &p, &err), &err, GR_ERR_NOMEM,
                  "1125899906842624 bytes");
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_sums_that_overflow_are_refused),
        cmocka_unit_test(big_blocks_are_aligned_zeroed_and_writable),
        cmocka_unit_test(a_freed_block_is_unmapped_to_its_last_page),
        cmocka_unit_test(refused_memory_names_what_and_how_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
