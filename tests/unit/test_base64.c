/* SPDX-License-Identifier: Apache-2.0
 *
 * test_base64.c: base64 of RFC 4648, and the position of everything that is not. */
#include "gr_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

static void decodes_to(const char *text, const void *want, size_t n_want)
{
    unsigned char out[256];
    size_t n = 0;
    struct gr_err err;
    assert_true(gr_base64_max(strlen(text)) <= sizeof out);
    gr_test_ok(gr_base64_decode(text, strlen(text), out, &n, &err), &err);
    assert_int_equal(n, n_want);
    assert_memory_equal(out, want, n_want);
}

static void the_examples_of_the_rfc(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[16] = "";
        size_t n = strlen(rows[i][0]);
        gr_base64_encode((const unsigned char *)rows[i][0], n, text);
        assert_int_equal(gr_base64_length(n), strlen(rows[i][1]));
        assert_string_equal(text, rows[i][1]);
        decodes_to(rows[i][1], rows[i][0], n);
    }
}

static void every_byte_survives_at_every_length(void **state)
{
    (void)state;
    unsigned char bytes[768], out[1024];
    char text[1028];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 167 + i / 256);
    }
    for (size_t n = 0; n <= sizeof bytes; n++) {
        size_t got = 0;
        struct gr_err err;
        gr_base64_encode(bytes, n, text);
        gr_test_ok(gr_base64_decode(text, gr_base64_length(n), out, &got, &err), &err);
        assert_int_equal(got, n);
        assert_memory_equal(out, bytes, n);
    }
}

static void img_11_white_space_may_stand_anywhere(void **state)
{
    (void)state;
    decodes_to("Zm9v\nYmFy\n", "foobar", 6);
    decodes_to("\r\n Z m\t9 v Y m F y", "foobar", 6);
    decodes_to("Zm9vYg = =\r\n", "foob", 4);
    decodes_to(" \t\r\n", "", 0);
}

static void img_11_everything_else_is_refused_with_its_position(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"Zm9*", "byte 3 (0x2a) is no base64"},
        {"Zm9vYm\x80y", "byte 6 (0x80) is no base64"},
        {"Zm9v\x0bYmFy", "byte 4 (0x0b) is no base64"},
        {"Zm-_", "byte 2 (0x2d)"}, /* the alphabet for file names is another one */
        {"/etc/hostname", "ends after 1 of the 4 characters"},
        {"Zm9vYg", "ends after 2 of the 4 characters of a group at byte 6"},
        {"Zm9vYg=", "ends after 3 of the 4"},
        {"=", "byte 0 is a padding"},
        {"Z===", "byte 1 is a padding"},
        {"Zg=v", "byte 3 is a base64 character behind the padding"},
        {"Zg==Zg==", "byte 4 stands behind the end"},
        {"Zg== =", "byte 5 stands behind the end"},
        {"Zh==", "bits behind its last byte"},
        {"Zm9=", "byte 3 has bits behind"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char out[64];
        size_t n = 0;
        struct gr_err err;
        gr_test_fails(gr_base64_decode(rows[i].text, strlen(rows[i].text), out, &n, &err), &err, GR_ERR_INPUT,
                      rows[i].message);
    }
}

static void only_64_characters_are_plain(void **state)
{
    (void)state;
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int c = 0; c < 256; c++) {
        char text[4] = {'A', 'A', 'A', (char)c};
        unsigned char out[8];
        size_t n = 0;
        struct gr_err err;
        const char *at = c == 0 ? NULL : strchr(letters, c);
        enum gr_status status = gr_base64_decode(text, 4, out, &n, &err);
        if (c == '=' || at != NULL) {
            gr_test_ok(status, &err);
            assert_int_equal(n, at != NULL ? 3 : 2);
            assert_true(at == NULL || out[2] == at - letters);
        } else {
            gr_test_fails(status, &err, GR_ERR_INPUT, "");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc),
        cmocka_unit_test(every_byte_survives_at_every_length),
        cmocka_unit_test(img_11_white_space_may_stand_anywhere),
        cmocka_unit_test(img_11_everything_else_is_refused_with_its_position),
        cmocka_unit_test(only_64_characters_are_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
