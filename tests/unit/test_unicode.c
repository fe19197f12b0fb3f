/* SPDX-License-Identifier: Apache-2.0
 *
 * test_unicode.c: character classes, lower case, UTF-8, NFC and the splitter.
 * The whole code space is judged by fingerprints that were made from unicode_tables.tsv by another program; with the shared folder the
 * table itself is compared entry by entry. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/nfc.h"
#include "model/pretokenize.h"
#include "model/unicode.h"

enum { CODE_SPACE = 0x110000 };

static bool token_letter(uint32_t c) { return gr_unicode_token_class(c) == GR_TOKEN_LETTER; }
static bool token_number(uint32_t c) { return gr_unicode_token_class(c) == GR_TOKEN_NUMBER; }
static bool token_space(uint32_t c) { return gr_unicode_token_class(c) == GR_TOKEN_SPACE; }

static const struct {
    const char *kind; /* in unicode_tables.tsv */
    bool (*is)(uint32_t c);
    size_t members;
    uint64_t fingerprint; /* FNV-1a over the members, one step a code point */
} classes[] = {
    {"py_word", gr_unicode_is_word, 133548, 0x2c8946d0a6deffc5},
    {"py_space", gr_unicode_is_space, 29, 0x4386d9a11e7487c9},
    {"tok_letter", token_letter, 141028, 0x9abbec5090cdd78d},
    {"tok_number", token_number, 1911, 0x88882b4d56227662},
    {"tok_space", token_space, 25, 0x231591ad12ffe059},
};
enum { N_CLASSES = sizeof classes / sizeof *classes };

static uint64_t fnv(uint64_t h, uint64_t value) { return (h ^ value) * 0x100000001B3; }

static void classes_have_the_recorded_members(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_CLASSES; k++) {
        uint64_t h = 0xCBF29CE484222325;
        size_t members = 0;
        for (uint32_t c = 0; c < CODE_SPACE; c++) {
            if (classes[k].is(c)) {
                h = fnv(h, c);
                members++;
            }
        }
        if (members != classes[k].members || h != classes[k].fingerprint) {
            fail_msg("%s: %zu members with fingerprint %llx", classes[k].kind, members, (unsigned long long)h);
        }
    }
}

static void lower_case_has_the_recorded_mappings(void **state)
{
    (void)state;
    uint64_t h = 0xCBF29CE484222325;
    size_t changed = 0;
    for (uint32_t c = 0; c < CODE_SPACE; c++) {
        uint32_t out[2];
        size_t n = gr_unicode_lower(&c, 1, 0, out);
        if (n != 1 || out[0] != c) {
            changed++;
            h = fnv(h, c);
            for (size_t i = 0; i < n; i++) {
                h = fnv(h, out[i]);
            }
        }
    }
    assert_int_equal(changed, 1433);
    assert_true(h == 0x14338ce71ddb0442);
}

static void a_final_sigma_depends_on_its_neighbours(void **state)
{
    (void)state;
    static const struct {
        const uint32_t text[6];
        size_t n, at;
        uint32_t want;
    } cases[] = {
        {{0x3A3}, 1, 0, 0x3C3},                          /* alone */
        {{0x391, 0x3A3}, 2, 1, 0x3C2},                   /* end of a word */
        {{0x391, 0x3A3, 0x391}, 3, 1, 0x3C3},            /* inside */
        {{0x391, 0x3A3, ' ', 0x391}, 4, 1, 0x3C2},       /* before a blank */
        {{0x391, '\'', 0x3A3}, 3, 2, 0x3C2},             /* looks through an apostrophe backwards */
        {{0x391, 0x3A3, '\'', '.', 0x391}, 5, 1, 0x3C3}, /* and forwards */
        {{'1', 0x3A3}, 2, 1, 0x3C3},                     /* a digit has no case */
        {{0x391, 0x3A3, 0x3A3}, 3, 1, 0x3C3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[2];
        assert_int_equal(gr_unicode_lower(cases[i].text, cases[i].n, cases[i].at, out), 1);
        if (out[0] != cases[i].want) {
            fail_msg("case %zu: %x, expected %x", i, (unsigned)out[0], (unsigned)cases[i].want);
        }
    }
}

static void utf8_goes_there_and_back_for_every_character(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < CODE_SPACE; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) {
            continue;
        }
        char bytes[4];
        size_t n = gr_utf8_put(c, bytes), at = 0;
        uint32_t back = 0;
        if (!gr_utf8_next(bytes, n, &at, &back) || at != n || back != c) {
            fail_msg("U+%X does not come back", (unsigned)c);
        }
        at = 0;
        if (n > 1 && gr_utf8_next(bytes, n - 1, &at, &back)) {
            fail_msg("U+%X is read from %zu of its %zu bytes", (unsigned)c, n - 1, n);
        }
    }
}

static void bad_utf8_is_refused_and_moves_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xED\xBF\xBF",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF8\x88\x80\x80\x80",
                                      "\xFF",
                                      "\xE2\x82",
                                      "\xC3("};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t at = 0;
        uint32_t c;
        assert_false(gr_utf8_next(bad[i], strlen(bad[i]), &at, &c));
        assert_int_equal(at, 0);
    }
}

/* ---- NFC. */

static size_t nfc(const uint32_t *text, size_t n, uint32_t *out)
{
    uint32_t tmp[64];
    assert_true(GR_NFC_MAX(4 * n) <= 64);
    return gr_nfc(text, n, out, tmp, 64);
}

static void nfc_gives_the_known_forms(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint32_t in[6], want[6];
    } cases[] = {
        {"e + acute", {'e', 0x301}, {0xE9}},
        {"already composed", {0xE9}, {0xE9}},
        {"Angstrom sign", {0x212B}, {0xC5}},
        {"two marks in the wrong order", {'d', 0x307, 0x323}, {0x1E0D, 0x307}},
        {"marks of one class keep their order", {'a', 0x301, 0x300}, {0xE1, 0x300}},
        {"blocked by a mark of the same class", {'a', 0x305, 0x301}, {'a', 0x305, 0x301}},
        {"composition exclusion", {0x958}, {0x915, 0x93C}},
        {"Hangul L V T", {0x1112, 0x1161, 0x11AB}, {0xD55C}},
        {"Hangul LV T", {0xD558, 0x11AB}, {0xD55C}},
        {"Hangul LV and the unused T base", {0xD558, 0x11A7}, {0xD558, 0x11A7}},
        {"a mark at the start", {0x301, 'a'}, {0x301, 'a'}},
        {"unassigned in Unicode 14, a mark later", {'a', 0x10EFD, 0x323}, {'a', 0x10EFD, 0x323}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = 0, want = 0;
        uint32_t out[64];
        while (n < 6 && cases[i].in[n] != 0) {
            n++;
        }
        while (want < 6 && cases[i].want[want] != 0) {
            want++;
        }
        if (nfc(cases[i].in, n, out) != want || memcmp(out, cases[i].want, want * sizeof *out) != 0) {
            fail_msg("%s: wrong form", cases[i].what);
        }
    }
}

static void nfc_reports_a_buffer_that_is_too_small(void **state)
{
    (void)state;
    uint32_t in[2] = {0x1F82, 0x1F82}, out[8], tmp[8];
    assert_true(gr_nfc(in, 2, out, tmp, 7) == SIZE_MAX);
    assert_int_equal(gr_nfc(in, 2, out, tmp, 8), 2);
}

static void a_long_run_of_marks_is_sorted_by_class_and_stays_stable(void **state)
{
    (void)state;
    enum { N = 6000 };
    uint32_t *in = malloc((N + 1) * sizeof *in), *out = malloc(2 * N * sizeof *out), *tmp = malloc(2 * N * sizeof *tmp);
    assert_true(in != NULL && out != NULL && tmp != NULL);
    in[0] = 'q';
    for (size_t i = 0; i < N; i++) {
        in[1 + i] = i % 3 == 0 ? 0x300 : i % 3 == 1 ? 0x316 : 0x334; /* classes 230, 220, 1 */
    }
    assert_int_equal(gr_nfc(in, N + 1, out, tmp, 2 * N), N + 1);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(out[1 + i], i < N / 3 ? 0x334 : i < 2 * N / 3 ? 0x316 : 0x300);
    }
    free(in);
    free(out);
    free(tmp);
}

/* ---- Splitter: pieces separated by '|'. */

static void text_is_split_as_the_expression_says(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "pick| the| pear", "x|1|2|3|y", "don|'t",   "we|'VE| I|'ll", "it|'s|'re", "''|d",   "'s|'d",
        "a| (|b|),| c",    "!!\n\n|a",  "a|\n\n|b", "a| \n| | b",    "a| | b",    "a|   ",  "a|\tb",
        "_a|_| b",         "(a|.b",     "\n|a",     "1| |2",         " |1",       "a| !|b", "a|  | b",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t text[64];
        size_t ends[64], n = 0, n_ends = 0, k = 0;
        for (const char *p = cases[i]; *p != '\0'; p++) {
            if (*p == '|') {
                ends[n_ends++] = n;
            } else {
                text[n++] = (unsigned char)*p;
            }
        }
        ends[n_ends++] = n;
        bool equal = true;
        for (size_t at = 0; at < n; k++) {
            at = gr_pretokenize_next(text, n, at);
            equal = equal && k < n_ends && at == ends[k];
        }
        equal = equal && k == n_ends;
        if (!equal) {
            fail_msg("\"%s\" is split differently", cases[i]);
        }
    }
}

/* ---- With the shared folder. */

struct line {
    char kind[32];
    uint32_t first, last, to[4];
    size_t n_to;
};

static bool read_line(const char **p, struct line *l)
{
    for (;;) {
        const char *s = *p, *end = strchr(s, '\n');
        if (end == NULL) {
            return false;
        }
        *p = end + 1;
        int used = 0;
        if (sscanf(s, "%31[a-z_] %x %x%n", l->kind, &l->first, &l->last, &used) == 3) {
            l->n_to = 0;
            for (s += used; l->n_to < 4 && *s != '\n';) {
                char *next;
                l->to[l->n_to] = (uint32_t)strtoul(s, &next, 16);
                if (next == s) {
                    break;
                }
                l->n_to++;
                s = next;
            }
            return true;
        }
    }
}

static void every_character_agrees_with_the_shared_table(void **state)
{
    (void)state;
    gr_test_need_shared();
    char *text = (char *)gr_test_read(gr_test_shared("spec/unicode_tables.tsv"), NULL);
    uint8_t *member = calloc(CODE_SPACE, 1);
    uint32_t *form = calloc(CODE_SPACE, sizeof *form * 3); /* nfc: up to 3 code points, 0: itself */
    assert_true(member != NULL && form != NULL);
    const char *p = text;
    struct line l;
    size_t lines = 0;
    while (read_line(&p, &l)) {
        lines++;
        for (uint32_t c = l.first; c <= l.last; c++) {
            uint32_t out[2];
            for (size_t k = 0; k < N_CLASSES; k++) {
                member[c] |= (uint8_t)((strcmp(l.kind, classes[k].kind) == 0) << k);
            }
            if (strcmp(l.kind, "lower") == 0 && c != 0x3A3) {
                assert_int_equal(gr_unicode_lower(&c, 1, 0, out), l.n_to);
                assert_int_equal(out[0], l.to[0] + (c - l.first));
            } else if (strcmp(l.kind, "nfc") == 0) {
                for (size_t i = 0; i < l.n_to; i++) {
                    form[3 * c + i] = l.n_to == 1 ? l.to[0] + (c - l.first) : l.to[i];
                }
            }
        }
    }
    assert_true(lines > 3000);
    for (uint32_t c = 1; c < CODE_SPACE; c++) {
        uint32_t out[64], want[3] = {form[3 * c], form[3 * c + 1], form[3 * c + 2]};
        size_t n_want = want[0] == 0 ? 1 : want[1] == 0 ? 1 : want[2] == 0 ? 2 : 3;
        for (size_t k = 0; k < N_CLASSES; k++) {
            if (classes[k].is(c) != ((member[c] >> k & 1) != 0)) {
                fail_msg("U+%X: %s differs", (unsigned)c, classes[k].kind);
            }
        }
        if (c >= 0xD800 && c <= 0xDFFF) {
            continue;
        }
        want[0] = want[0] == 0 ? c : want[0];
        if (nfc(&c, 1, out) != n_want || memcmp(out, want, n_want * sizeof *out) != 0) {
            fail_msg("U+%X: NFC differs", (unsigned)c);
        }
        if (n_want == 1 && want[0] == c && c < 0x300) {
            assert_true(gr_nfc_is_plain(&c, 1));
        }
    }
    free(member);
    free(form);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_have_the_recorded_members),
        cmocka_unit_test(lower_case_has_the_recorded_mappings),
        cmocka_unit_test(a_final_sigma_depends_on_its_neighbours),
        cmocka_unit_test(utf8_goes_there_and_back_for_every_character),
        cmocka_unit_test(bad_utf8_is_refused_and_moves_nothing),
        cmocka_unit_test(nfc_gives_the_known_forms),
        cmocka_unit_test(nfc_reports_a_buffer_that_is_too_small),
        cmocka_unit_test(a_long_run_of_marks_is_sorted_by_class_and_stays_stable),
        cmocka_unit_test(text_is_split_as_the_expression_says),
        cmocka_unit_test(every_character_agrees_with_the_shared_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
