/* SPDX-License-Identifier: Apache-2.0
 *
 * test_buf.c: the text buffer, JSON strings, and the shortest decimals of float32 and float64. The C library is the oracle:
 * a decimal must read back to the same bits, and printf with one digit less must not. */
#include "gr_test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { RANDOM_F32 = 400000, RANDOM_F64 = 60000 };

static uint64_t next_random(void)
{
    static uint64_t s = 0x9e3779b97f4a7c15u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s * 0x2545f4914f6cdd1du;
}

static int significant_digits(const char *text)
{
    int n = 0, zeros = 0;
    for (const char *p = text; *p != '\0' && *p != 'e'; p++) {
        if (*p >= '1' && *p <= '9') {
            n += zeros + 1;
            zeros = 0;
        } else if (*p == '0' && n > 0) {
            zeros++;
        }
    }
    return n;
}

static void check_f32(uint32_t bits)
{
    float value, back;
    char text[32], shorter[40];
    memcpy(&value, &bits, 4);
    if (!isfinite(value) || value == 0) {
        return;
    }
    int n = gr_format_f32(text, value);
    if ((size_t)n != strlen(text)) {
        fail_msg("%s: length %d", text, n);
    }
    back = strtof(text, NULL);
    if (memcmp(&back, &value, 4) != 0) {
        fail_msg("%08x prints as %s, which reads as another number", bits, text);
    }
    int digits = significant_digits(text);
    if (digits > 9) {
        fail_msg("%08x prints as %s: more than 9 digits", bits, text);
    }
    if (digits > 1) {
        snprintf(shorter, sizeof shorter, "%.*e", digits - 2, (double)value);
        if (strtof(shorter, NULL) == value) {
            fail_msg("%08x prints as %s, but %s is shorter", bits, text, shorter);
        }
        snprintf(shorter, sizeof shorter, "%.*e", digits - 1, (double)value);
        if (strtof(shorter, NULL) == value &&
            fabs(strtod(shorter, NULL) - (double)value) < fabs(strtod(text, NULL) - (double)value)) {
            fail_msg("%08x prints as %s, but %s is nearer", bits, text, shorter);
        }
    }
}

static void check_f64(uint64_t bits)
{
    double value, back;
    char text[32], shorter[40];
    memcpy(&value, &bits, 8);
    if (!isfinite(value) || value == 0) {
        return;
    }
    int n = gr_format_f64(text, value);
    if ((size_t)n != strlen(text)) {
        fail_msg("%s: length %d", text, n);
    }
    back = strtod(text, NULL);
    if (memcmp(&back, &value, 8) != 0) {
        fail_msg("%016llx prints as %s, which reads as another number", (unsigned long long)bits, text);
    }
    int digits = significant_digits(text);
    if (digits > 17) {
        fail_msg("%s: more than 17 digits", text);
    }
    if (digits > 1) {
        snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
        if (strtod(shorter, NULL) == value) {
            fail_msg("%s, but %s is shorter", text, shorter);
        }
    }
}

static void float32_reads_back_and_is_shortest(void **state)
{
    (void)state;
    for (uint32_t exponent = 0; exponent < 255; exponent++) { /* powers of two and their neighbours */
        for (uint32_t k = 0; k < 4; k++) {
            check_f32((exponent << 23 | k) - 2u);
        }
    }
    for (int i = 0; i < RANDOM_F32; i++) {
        uint32_t bits = (uint32_t)(next_random() >> 32);
        check_f32(i % 3 == 0 ? bits : (bits & 0x807fffffu) | (uint32_t)(100 + next_random() % 50) << 23);
    }
}

static void float64_reads_back_and_is_shortest(void **state)
{
    (void)state;
    for (uint64_t exponent = 0; exponent < 2047; exponent++) {
        for (uint64_t k = 0; k < 3; k++) {
            check_f64((exponent << 52 | k) - 1u);
        }
    }
    for (int i = 0; i < RANDOM_F64; i++) {
        uint64_t bits = next_random();
        check_f64(i % 3 == 0 ? bits : (bits & 0x800fffffffffffffu) | (uint64_t)(1000 + next_random() % 50) << 52);
    }
}

static void float32_has_the_expected_form(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *text;
    } cases[] = {
        {0.0f, "0"},
        {-0.0f, "-0"},
        {1.0f, "1"},
        {0.1f, "0.1"},
        {-1e-7f, "-1e-7"},
        {1e-6f, "0.000001"},
        {1.5e-6f, "0.0000015"},
        {123456.0f, "123456"},
        {16777216.0f, "16777216"},
        {9.99e14f, "999000000000000"},
        {1e16f, "1e16"},
        {1e22f, "1e22"},
        {0.3f, "0.3"},
        {3.1415927f, "3.1415927"},
        {FLT_MAX, "3.4028235e38"},
        {FLT_MIN, "1.1754944e-38"},
        {1e-45f, "1e-45"},
        {8388608.5f, "8388608"},
        {33554436.0f, "33554436"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gr_format_f32(text, cases[i].value), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
    gr_format_f32(text, nanf(""));
    assert_string_equal(text, "null");
}

static void float64_has_the_expected_form(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0"},
        {-0.0, "-0"},
        {100.0, "100"},
        {0.1, "0.1"},
        {0.30000000000000004, "0.30000000000000004"},
        {1e-7, "1e-7"},
        {-123456.75, "-123456.75"},
        {9007199254740993.0, "9007199254740992"},
        {1e16, "1e16"},
        {1e22, "1e22"},
        {1e23, "1e23"},
        {5e-324, "5e-324"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {DBL_MAX, "1.7976931348623157e308"},
        {0x1p-44, "5.684341886080802e-14"},
        {9.5367431640625e-7, "9.5367431640625e-7"},
        {INFINITY, "null"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gr_format_f64(text, cases[i].value), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
    gr_format_f64(text, nan(""));
    assert_string_equal(text, "null");
}

static void numbers_ignore_the_locale(void **state)
{
    (void)state;
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL) {
        gr_test_skip("no locale with a decimal comma on this system");
    }
    char text[32];
    gr_format_f32(text, 1.5f);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "1.5");
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    gr_buf_json_string(&b, "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xf0\x9f\x98\x80");
    assert_string_equal(b.data, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xf0\x9f\x98\x80\"");
    gr_buf_free(&b);
    gr_buf_json_string(&b, "");
    assert_string_equal(b.data, "\"\"");
    gr_buf_free(&b);
}

static void invalid_utf8_in_json_becomes_the_replacement_character(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    gr_buf_json_string(&b, "x\xff\xc3");
    assert_string_equal(b.data, "\"x\xef\xbf\xbd\xef\xbf\xbd\"");
    gr_buf_free(&b);
}

static void a_buffer_grows_and_stays_terminated(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    for (int i = 0; i < 5000; i++) {
        gr_buf_printf(&b, "%d,", i % 10);
        assert_int_equal(b.data[b.len], 0);
    }
    gr_buf_put(&b, "\0x", 2);
    assert_false(b.failed);
    assert_int_equal(b.len, 10002);
    assert_int_equal(b.data[9998], '9');
    assert_int_equal(b.data[10001], 'x');
    gr_buf_free(&b);
    assert_null(b.data);
}

static void a_line_shows_names_without_their_control_characters(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    gr_buf_puts(&b, "\033[31mred\033[0m ");
    gr_buf_line(&b, "%s=%d;\n\n", "a\nb\r\x1b[2J\x7f\xc2\x9b\xe2\x80\xa8\xff\xc3\xa9", 5);
    gr_buf_line(&b, "%s", "no break\n");
    gr_buf_line(&b, "%s", "");
    assert_string_equal(b.data, "\033[31mred\033[0m a?b??[2J????\xc3\xa9=5;\n\nno break?");
    assert_int_equal(b.len, strlen(b.data));
    gr_buf_free(&b);
}

static void a_refused_size_sticks(void **state)
{
    (void)state;
    struct gr_buf b = {0};
    gr_buf_puts(&b, "kept");
    gr_buf_put(&b, "x", SIZE_MAX / 2);
    assert_true(b.failed);
    gr_buf_puts(&b, "dropped");
    gr_buf_printf(&b, "%d", 1);
    assert_string_equal(b.data, "kept");
    gr_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float32_reads_back_and_is_shortest),
        cmocka_unit_test(float64_reads_back_and_is_shortest),
        cmocka_unit_test(float32_has_the_expected_form),
        cmocka_unit_test(float64_has_the_expected_form),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(invalid_utf8_in_json_becomes_the_replacement_character),
        cmocka_unit_test(a_buffer_grows_and_stays_terminated),
        cmocka_unit_test(a_line_shows_names_without_their_control_characters),
        cmocka_unit_test(a_refused_size_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
