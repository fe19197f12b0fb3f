/* SPDX-License-Identifier: Apache-2.0
 *
 * test_err.c: failure messages are one line of valid UTF-8 that fits, whatever goes into them. */
#include "gr_test.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

static void assert_valid(const struct gr_err *err)
{
    size_t n = strlen(err->msg);
    assert_true(n < GR_ERR_MSG_BYTES);
    for (size_t i = 0; i < n;) {
        int len = gr_utf8_length(err->msg + i, n - i);
        assert_true(len > 0);
        assert_true(len > 1 || ((unsigned char)err->msg[i] >= 0x20 && err->msg[i] != 0x7f));
        i += (size_t)len;
    }
}

static void fail_returns_its_code_and_keeps_the_text(void **state)
{
    (void)state;
    struct gr_err err;
    assert_int_equal(gr_fail(&err, GR_ERR_INPUT, "state.%s has %d values", "waist", 4), GR_ERR_INPUT);
    assert_int_equal(err.code, GR_ERR_INPUT);
    assert_string_equal(err.msg, "state.waist has 4 values");
}

static void control_characters_become_question_marks(void **state)
{
    (void)state;
    struct gr_err err;
    gr_fail(&err, GR_ERR_IO, "a\nb\tc\x1b[31m\x7f%s", "\xc2\x85\xe2\x80\xa8|\xc3\xa9\xe2\x82\xac");
    assert_string_equal(err.msg, "a?b?c?[31m???|\xc3\xa9\xe2\x82\xac");
    assert_valid(&err);
}

static void broken_utf8_becomes_question_marks(void **state)
{
    (void)state;
    struct gr_err err;
    /* lone continuation, overlong, surrogate, above U+10FFFF, cut sequence */
    gr_fail(&err, GR_ERR_IO, "%s", "\x80|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82");
    assert_string_equal(err.msg, "?|??|???|????|??");
}

static void long_messages_are_cut_at_a_character(void **state)
{
    (void)state;
    for (size_t lead = 0; lead < 4; lead++) {
        char text[3 * GR_ERR_MSG_BYTES];
        memset(text, 'x', lead);
        for (size_t i = lead; i + 3 < sizeof text; i += 3) {
            memcpy(text + i, "\xe2\x82\xac", 4);
        }
        struct gr_err err;
        gr_fail(&err, GR_ERR_IO, "%s", text);
        assert_valid(&err);
        assert_true(strlen(err.msg) >= GR_ERR_MSG_BYTES - 4);
        gr_fail_errno(&err, GR_ERR_IO, ENOSPC, "%s", text);
        assert_valid(&err);
        assert_non_null(strstr(err.msg, "No space left"));
    }
}

static void errno_is_appended_in_words(void **state)
{
    (void)state;
    struct gr_err err;
    assert_int_equal(gr_fail_errno(&err, GR_ERR_IO, ENOENT, "%s: cannot open", "f"), GR_ERR_IO);
    assert_string_equal(err.msg, "f: cannot open: No such file or directory");
    assert_int_equal(gr_fail_errno(&err, GR_ERR_IO, ENOMEM, "map"), GR_ERR_NOMEM);
    assert_int_equal(err.code, GR_ERR_NOMEM);
}

static void a_message_may_quote_the_previous_one(void **state)
{
    (void)state;
    struct gr_err err;
    gr_fail(&err, GR_ERR_IO, "inner");
    gr_fail(&err, GR_ERR_FORMAT, "outer: %s", err.msg);
    assert_string_equal(err.msg, "outer: inner");
}

static enum gr_status tries(struct gr_err *err, int *after)
{
    GR_TRY(gr_fail(err, GR_ERR_FORMAT, "first"));
    (*after)++;
    return gr_fail(err, GR_ERR_IO, "second");
}

static void try_leaves_the_function_with_the_first_failure(void **state)
{
    (void)state;
    struct gr_err err;
    int after = 0;
    assert_int_equal(tries(&err, &after), GR_ERR_FORMAT);
    assert_string_equal(err.msg, "first");
    assert_int_equal(after, 0);
}

static void every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int i = GR_OK; i <= GR_ERR_CHECK; i++) {
        assert_string_not_equal(gr_status_name((enum gr_status)i), "unknown");
        for (int k = GR_OK; k < i; k++) {
            assert_string_not_equal(gr_status_name((enum gr_status)i), gr_status_name((enum gr_status)k));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_returns_its_code_and_keeps_the_text),
        cmocka_unit_test(control_characters_become_question_marks),
        cmocka_unit_test(broken_utf8_becomes_question_marks),
        cmocka_unit_test(long_messages_are_cut_at_a_character),
        cmocka_unit_test(errno_is_appended_in_words),
        cmocka_unit_test(a_message_may_quote_the_previous_one),
        cmocka_unit_test(try_leaves_the_function_with_the_first_failure),
        cmocka_unit_test(every_status_has_its_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
