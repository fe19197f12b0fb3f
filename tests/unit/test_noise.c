/* SPDX-License-Identifier: Apache-2.0
 *
 * test_noise.c: the noise of known seeds, bit for bit. Random seeds are compared by tests/golden/random_noise.py. */
#include "gr_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "formats/safetensors.h"
#include "model/noise.h"

enum { VALUES = 50 * 128 };

static float *noise_of(uint64_t seed, size_t n)
{
    float *out = malloc((n + 1) * sizeof *out);
    out[n] = 4711.0f;
    gr_noise(seed, out, n);
    assert_true(out[n] == 4711.0f);
    return out;
}

static void first_values_of_seed_42_are_the_published_ones(void **state)
{
    (void)state;
    static const uint32_t want[4] = {0x3FF6A529, 0x3FBE5F53, 0x3F669567, 0xC006C0DB}; /* spec/noise.md, last line */
    float *x = noise_of(42, VALUES);
    assert_memory_equal(x, want, sizeof want);
    free(x);
}

/* Sums of 6400 float32, little-endian, computed with gauss_noise of the reference. */
static void known_seeds_give_known_noise(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        const char *sha256;
    } cases[] = {
        {0, "0f0d6762704c0ecabd87b355e84f27e45c47d96910982434f205945b4f5a772e"},
        {1, "e152fa0a67e70abbda90903d2d7f0f54ebe537e0161ce7083f7b15bb06a46acc"},
        {5, "a7d571bacb9a69be0268ab589a35bb07aa7dae3f7281ca22990c9d6dd39a684c"},
        {42, "07abfb1520ac38da7a64cc8d184ce5569066226e122b7042a8cab11bf682d0a9"},
        {123456789, "944452a820a164c58a171e5e7be9f41a3a698da7b02217f63337209413c20b2c"},
        {4294967295u, "1e0e6c1a121effb99b0333a07e44f1131dacdf6c9bcacf3fe1690b9b893ea57a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hex[65];
        float *x = noise_of(cases[i].seed, VALUES);
        gr_test_sha256(x, VALUES * sizeof *x, hex);
        assert_string_equal(hex, cases[i].sha256);
        free(x);
    }
}

static void only_the_low_32_bits_of_a_seed_matter(void **state)
{
    (void)state;
    static const uint64_t pairs[][2] = {{5, (1ull << 32) + 5}, {(1ull << 32) - 1, (1ull << 63) - 1}, {0, 7ull << 32}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        float *a = noise_of(pairs[i][0], VALUES), *b = noise_of(pairs[i][1], VALUES);
        assert_memory_equal(a, b, VALUES * sizeof *a);
        free(a);
        free(b);
    }
}

static void a_shorter_request_is_the_start_of_a_longer_one(void **state)
{
    (void)state;
    float *all = noise_of(9, VALUES);
    for (size_t n = 0; n <= 1600; n += 16) {
        float *x = noise_of(9, n);
        assert_memory_equal(all, x, n * sizeof *x);
        free(x);
    }
    free(all);
}

static void a_size_that_16_does_not_divide_fills_its_end_from_later_draws(void **state)
{
    (void)state;
    enum { N = 168, BLOCKS = N / 16 * 16 };
    float *all = noise_of(9, VALUES), x[N];
    memset(x, 0xff, sizeof x); /* NaN: a value that is not written shows */
    gr_noise(9, x, N);
    assert_memory_equal(all, x, (N - 16) * sizeof *x);
    assert_memory_not_equal(all + N - 16, x + N - 16, (BLOCKS - (N - 16)) * sizeof *x);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == x[i]);
    }
    free(all);
}

static void noise_looks_standard_normal(void **state)
{
    (void)state;
    enum { N = 64000 };
    float *x = noise_of(2026, N);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < N; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
    }
    assert_true(sum / N > -0.02 && sum / N < 0.02); /* 5 standard errors */
    assert_true(squares / N > 0.97 && squares / N < 1.03);
    free(x);
}

static void shared_cases_are_bit_equal(void **state)
{
    (void)state;
    struct gr_safetensors *st;
    struct gr_err err;
    int n = 0;
    gr_test_ok(gr_safetensors_open(gr_test_shared("spec/noise_cases.safetensors"), &st, &err), &err);
    for (size_t i = 0; i < gr_safetensors_count(st); i++) {
        const struct gr_tensor *t = gr_safetensors_at(st, i);
        if (strncmp(t->name, "seed_", 5) != 0) {
            continue; /* scalar_path_seed_42: another generator, kept for comparison only */
        }
        float *x = noise_of(strtoull(t->name + 5, NULL, 10), VALUES);
        assert_int_equal(t->bytes, VALUES * sizeof *x);
        if (memcmp(t->data, x, t->bytes) != 0) {
            fail_msg("%s differs", t->name);
        }
        free(x);
        n++;
    }
    gr_safetensors_close(st);
    assert_int_equal(n, 7);
}

static void a_request_takes_well_under_ten_milliseconds(void **state)
{
    (void)state;
    double best = 1e9; /* 0.2 ms measured; ten times the budget of 1 ms, because the machine may be busy */
    for (int i = 0; i < 200 && best >= 10.0; i++) {
        double start = gr_clock_ms();
        free(noise_of((uint64_t)i, VALUES));
        double took = gr_clock_ms() - start;
        best = took < best ? took : best;
    }
    assert_true(best < 10.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_values_of_seed_42_are_the_published_ones),
        cmocka_unit_test(known_seeds_give_known_noise),
        cmocka_unit_test(only_the_low_32_bits_of_a_seed_matter),
        cmocka_unit_test(a_shorter_request_is_the_start_of_a_longer_one),
        cmocka_unit_test(a_size_that_16_does_not_divide_fills_its_end_from_later_draws),
        cmocka_unit_test(noise_looks_standard_normal),
        cmocka_unit_test(shared_cases_are_bit_equal),
        cmocka_unit_test(a_request_takes_well_under_ten_milliseconds),
    };
    return cmocka_run_group_tests_name("noise", tests, NULL, NULL);
}
