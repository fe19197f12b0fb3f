/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hash.c: the checksum notices every changed bit, every length, every place. */
#include "gr_test.h"

#include <string.h>

#include "base/hash.h"

enum { N = 1000 };

static void fill(uint8_t *p, size_t n)
{
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (uint8_t)(x >> 24);
    }
}

static void every_flipped_bit_changes_the_hash(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 127, 128, 200};
    uint8_t p[256];
    fill(p, sizeof p);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const uint64_t before = gr_hash64(p, sizes[s], 5);
        for (size_t bit = 0; bit < 8 * sizes[s]; bit++) {
            p[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_true(gr_hash64(p, sizes[s], 5) != before);
            p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_true(gr_hash64(p, sizes[s], 5) == before);
    }
}

static void length_and_seed_count(void **state)
{
    (void)state;
    static const uint8_t zeros[N];
    for (size_t n = 0; n < 300; n++) {
        assert_true(gr_hash64(zeros, n, 0) != gr_hash64(zeros, n + 1, 0));
        assert_true(gr_hash64(zeros, n, n) != gr_hash64(zeros, n, n + 1));
    }
    assert_true(gr_hash64(NULL, 0, 1) == gr_hash64(zeros, 0, 1));
}

static void alignment_does_not_matter(void **state)
{
    (void)state;
    uint8_t p[N], moved[N + 8];
    fill(p, sizeof p);
    for (size_t shift = 0; shift < 8; shift++) {
        memcpy(moved + shift, p, N);
        assert_true(gr_hash64(moved + shift, N, 0) == gr_hash64(p, N, 0));
    }
}

static void exchanged_words_change_the_hash(void **state)
{
    (void)state;
    uint64_t p[64];
    fill((uint8_t *)p, sizeof p);
    const uint64_t before = gr_hash64(p, sizeof p, 0);
    for (int i = 0; i < 64; i++) {
        for (int k = i + 1; k < 64; k++) {
            uint64_t a = p[i], b = p[k];
            p[i] = b;
            p[k] = a;
            assert_true(gr_hash64(p, sizeof p, 0) != before);
            p[i] = a;
            p[k] = b;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_changes_the_hash),
        cmocka_unit_test(length_and_seed_count),
        cmocka_unit_test(alignment_does_not_matter),
        cmocka_unit_test(exchanged_words_change_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
