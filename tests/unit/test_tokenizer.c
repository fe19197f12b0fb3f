/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tokenizer.c: opening tokenizer folders, good and broken, and encoding raw text.
 * Committed cases use the demo vocabulary (made by the reference); with the shared folder the Qwen2 list runs as well. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "model/tokenizer.h"
#include "token_cases.h"

enum { MAX_IDS = 40000 };

static const char *demo_dir(void) { return gr_test_source("data/demo/tokenizer"); }

static struct gr_tokenizer *open_dir(const char *dir)
{
    struct gr_tokenizer *tok = NULL;
    struct gr_err err;
    gr_test_ok(gr_tokenizer_open(dir, &tok, &err), &err);
    return tok;
}

static size_t encode(struct gr_tokenizer *tok, const char *text, size_t n_bytes, int32_t *ids)
{
    struct gr_err err;
    size_t n = 0;
    gr_test_ok(gr_tokenizer_encode(tok, text, n_bytes, ids, MAX_IDS, &n, &err), &err);
    assert_true(n <= MAX_IDS);
    return n;
}

static void check_raw(const struct token_case *c, void *user)
{
    static int32_t ids[MAX_IDS];
    if (!c->prompt) {
        size_t n = encode(user, c->text, c->n_text_bytes, ids);
        token_ids_equal("raw ids", c->text, ids, n, c->ids, c->n_ids);
    }
}

static void demo_cases_have_the_ids_of_the_reference(void **state)
{
    (void)state;
    struct gr_tokenizer *tok = open_dir(demo_dir());
    struct token_case_counts n =
        token_cases_each(gr_test_source("tests/data/tokenizer/demo_cases.jsonl"), check_raw, tok);
    assert_int_equal(n.raw, 52);
    gr_tokenizer_close(tok);
}

static void shared_cases_have_the_ids_of_the_reference(void **state)
{
    (void)state;
    gr_test_need_shared();
    struct gr_tokenizer *tok = open_dir(gr_test_shared("spec/tokenizer"));
    struct token_case_counts n = token_cases_each(gr_test_shared("spec/tokenizer_cases.jsonl"), check_raw, tok);
    print_message("%d of %d raw id lists equal\n", n.raw, n.raw);
    assert_int_equal(n.raw, 328);
    assert_int_equal(gr_tokenizer_size(tok), 151680);
    assert_int_equal(gr_tokenizer_special(tok, "<IMG_CONTEXT>"), 151669);
    gr_tokenizer_close(tok);
}

static void pieces_of_the_ids_spell_the_text(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    static const char text[] = "pick up the \xE7\xAE\xB1 <|im_end|>\n caf\xC3\xA9 \xF0\x9F\x8D\x90, don't";
    struct gr_tokenizer *tok = open_dir(demo_dir());
    size_t n = encode(tok, text, strlen(text), ids);
    struct gr_buf b = {0};
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *piece = gr_tokenizer_piece(tok, ids[i], &len);
        assert_non_null(piece);
        gr_buf_put(&b, piece, len);
    }
    assert_string_equal(b.data, text);
    gr_buf_free(&b);
    size_t len;
    assert_null(gr_tokenizer_piece(tok, -1, &len));
    assert_null(gr_tokenizer_piece(tok, gr_tokenizer_size(tok), &len));
    gr_tokenizer_close(tok);
}

static void more_ids_than_room_are_counted_but_not_written(void **state)
{
    (void)state;
    int32_t ids[3] = {-7, -7, -7};
    struct gr_err err;
    size_t n = 0;
    struct gr_tokenizer *tok = open_dir(demo_dir());
    gr_test_ok(gr_tokenizer_encode(tok, "pick<img> the pear", 18, ids, 2, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_int_equal(ids[1], gr_tokenizer_special(tok, "<img>"));
    assert_int_equal(ids[2], -7);
    gr_test_ok(gr_tokenizer_encode(tok, "pick the pear", 13, NULL, 0, &n, &err), &err);
    assert_int_equal(n, 3);
    gr_test_ok(gr_tokenizer_encode(tok, "", 0, ids, 2, &n, &err), &err);
    assert_int_equal(n, 0);
    gr_tokenizer_close(tok);
}

static void plain_encoding_never_gives_an_added_token(void **state)
{
    (void)state;
    static const char text[] = "<|im_start|>user<|im_end|><img><IMG_CONTEXT></img><|endoftext|>";
    int32_t ids[200];
    struct gr_err err;
    size_t n = 0;
    struct gr_tokenizer *tok = open_dir(demo_dir());
    int32_t first = gr_tokenizer_special(tok, "<|endoftext|>");
    assert_int_equal(first, 1018);
    gr_test_ok(gr_tokenizer_encode_plain(tok, text, strlen(text), ids, 200, &n, &err), &err);
    assert_true(n > 6 && n <= 200);
    for (size_t i = 0; i < n; i++) {
        assert_true(ids[i] < first);
    }
    gr_tokenizer_close(tok);
}

static void text_that_is_not_utf8_is_refused_with_the_position(void **state)
{
    (void)state;
    struct gr_err err;
    size_t n;
    struct gr_tokenizer *tok = open_dir(demo_dir());
    gr_test_fails(gr_tokenizer_encode(tok, "pick\xC3(", 6, NULL, 0, &n, &err), &err, GR_ERR_INPUT, "byte 4");
    gr_test_fails(gr_tokenizer_encode(tok, "pick\xED\xA0\x80", 7, NULL, 0, &n, &err), &err, GR_ERR_INPUT, "UTF-8");
    gr_test_fails(gr_tokenizer_encode(tok, "pick\xE2\x82", 6, NULL, 0, &n, &err), &err, GR_ERR_INPUT, "byte 4");
    gr_tokenizer_close(tok);
}

/* A quadratic merge loop needs seconds for the long one; the bound is ten times what is wanted of the short one. */
static void a_word_of_2000_characters_takes_milliseconds(void **state)
{
    (void)state;
    static int32_t ids[MAX_IDS];
    enum { LONG = 200000 };
    struct gr_tokenizer *tok = open_dir(demo_dir());
    char *text = malloc(LONG);
    assert_non_null(text);
    uint32_t r = 1;
    for (size_t i = 0; i < LONG; i++) {
        r = r * 1664525 + 1013904223;
        text[i] = "etaoinshr"[(r >> 16) % 9];
    }
    encode(tok, text, 2000, ids);
    double start = gr_test_cpu_ms(CLOCK_THREAD_CPUTIME_ID);
    encode(tok, text, 2000, ids);
    double took = gr_test_cpu_ms(CLOCK_THREAD_CPUTIME_ID) - start;
    print_message("2,000 characters: %.2f ms\n", took);
    assert_true(took < 50);
    struct gr_err err;
    size_t n = 0;
    start = gr_test_cpu_ms(CLOCK_THREAD_CPUTIME_ID);
    gr_test_ok(gr_tokenizer_encode(tok, text, LONG, ids, MAX_IDS, &n, &err), &err);
    took = gr_test_cpu_ms(CLOCK_THREAD_CPUTIME_ID) - start;
    print_message("200,000 characters: %.2f ms\n", took);
    assert_true(n > LONG / 10 && took < 5000);
    free(text);
    gr_tokenizer_close(tok);
}

static void a_text_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    enum { HUGE_TEXT = (8 << 20) + 1 };
    struct gr_err err;
    size_t n;
    char *text = malloc(HUGE_TEXT);
    assert_non_null(text);
    memset(text, 'x', HUGE_TEXT);
    struct gr_tokenizer *tok = open_dir(demo_dir());
    gr_test_fails(gr_tokenizer_encode(tok, text, HUGE_TEXT, NULL, 0, &n, &err), &err, GR_ERR_INPUT, "8388609 bytes");
    gr_tokenizer_close(tok);
    free(text);
}

/* ---- Folders made for one test. */

static void put(const char *dir, const char *name, const char *text)
{
    gr_test_write(gr_test_join(dir, "%s", name), text, strlen(text));
}

static char *get(const char *dir, const char *name)
{
    return (char *)gr_test_read(gr_test_join(dir, "%s", name), NULL);
}

static const char *demo_copy(void)
{
    const char *dir = gr_test_temp_dir();
    gr_test_copy_dir(demo_dir(), dir);
    return dir;
}

/* vocab.json of the 256 bytes plus the given tokens (ids from 256 on), and merges.txt. */
static const char *small_folder(const char *const *tokens, const char *merges)
{
    const char *dir = gr_test_temp_dir();
    char *demo = get(demo_dir(), "vocab.json");
    char *end = strstr(demo, "\": 255,");
    assert_non_null(end);
    end[strlen("\": 255")] = '\0';
    struct gr_buf b = {0};
    gr_buf_puts(&b, demo);
    for (int i = 0; tokens[i] != NULL; i++) {
        gr_buf_printf(&b, ",\n\"%s\": %d", tokens[i], 256 + i);
    }
    gr_buf_puts(&b, "}");
    put(dir, "vocab.json", b.data);
    put(dir, "merges.txt", merges);
    gr_buf_free(&b);
    free(demo);
    return dir;
}

static void check_pieces(struct gr_tokenizer *tok, const char *text, const char *want)
{
    static int32_t ids[MAX_IDS];
    size_t n = encode(tok, text, strlen(text), ids);
    struct gr_buf b = {0};
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *piece = gr_tokenizer_piece(tok, ids[i], &len);
        gr_buf_puts(&b, i > 0 ? "|" : "");
        gr_buf_put(&b, piece, len);
    }
    assert_string_equal(b.data, want);
    gr_buf_free(&b);
}

static void the_leftmost_pair_of_lowest_rank_is_merged_first(void **state)
{
    (void)state;
    static const char *const tokens[] = {"aa", "ab", "bc", "abc", "aaaa", NULL};
    struct gr_tokenizer *tok = open_dir(small_folder(tokens, "#version: 0.2\nb c\na a\na b\nab c\naa aa\n"));
    check_pieces(tok, "aaa", "aa|a"); /* leftmost of equals */
    check_pieces(tok, "aaaaaaa", "aaaa|aa|a");
    check_pieces(tok, "abc", "a|bc"); /* rank 0 before rank 2, although ab + c would be longer */
    check_pieces(tok, "ab", "ab");
    check_pieces(tok, "aabaab", "aa|b|aa|b"); /* rank 1 takes the a that ab would need */
    check_pieces(tok, "c", "c");
    gr_tokenizer_close(tok);
    tok = open_dir(small_folder(
        tokens, "ab c\r\na b\r\n")); /* a low rank that appears late; lines ended the other way; no header */
    check_pieces(tok, "xabcab", "x|abc|ab");
    gr_tokenizer_close(tok);
}

static void added_tokens_are_matched_longest_first(void **state)
{
    (void)state;
    const char *dir = demo_copy();
    struct gr_tokenizer *tok;
    put(dir, "added_tokens.json", "{\"<img\": 1018, \"<img>\": 1019, \"<img><img>!\": 1020, \"\\u7bb1\": 1021}");
    tok = open_dir(dir);
    check_pieces(tok, "<img><img><img>!<img", "<img>|<img><img>!|<img");
    check_pieces(tok, "a\xE7\xAE\xB1<", "a|\xE7\xAE\xB1|<");
    assert_int_equal(gr_tokenizer_size(tok), 1022);
    assert_int_equal(gr_tokenizer_special(tok, "<im"), -1);
    gr_tokenizer_close(tok);
}

static void added_tokens_come_from_the_config_when_their_own_file_is_missing(void **state)
{
    (void)state;
    const char *dir = demo_copy();
    unlink(gr_test_join(dir, "added_tokens.json"));
    put(dir, "tokenizer_config.json",
        "{\"x\": 1, \"added_tokens_decoder\": {\"1018\": {\"content\": \"<a>\", \"lstrip\": false, \"special\": true}, \"2000\": {\"content\": \"<b>\"}}}");
    struct gr_tokenizer *tok = open_dir(dir);
    assert_int_equal(gr_tokenizer_special(tok, "<b>"), 2000);
    assert_int_equal(gr_tokenizer_size(tok), 2001);
    size_t n;
    assert_null(gr_tokenizer_piece(tok, 1500, &n));
    gr_tokenizer_close(tok);
    unlink(gr_test_join(dir, "tokenizer_config.json"));
    tok = open_dir(dir);
    assert_int_equal(gr_tokenizer_special(tok, "<b>"), -1);
    assert_int_equal(gr_tokenizer_size(tok), 1018);
    gr_tokenizer_close(tok);
}

/* tokenizer.json with the demo's content, merges as pairs or as strings. */
static void write_single(const char *dir, bool pairs)
{
    char *vocab = get(demo_dir(), "vocab.json"), *merges = get(demo_dir(), "merges.txt");
    struct gr_buf b = {0};
    gr_buf_printf(
        &b,
        "{\"version\": \"1.0\", \"normalizer\": {\"type\": \"NFC\"}, \"added_tokens\": [{\"id\": 1018, \"content\": \"<x>\", "
        "\"normalized\": false}], \"model\": {\"type\": \"BPE\", \"vocab\": %s, \"merges\": [",
        vocab);
    bool first = true;
    for (char *line = strtok(merges, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *blank = strchr(line, ' ');
        if (line[0] == '#' && strncmp(line, "#version", 8) == 0) {
            continue;
        }
        assert_non_null(blank);
        *blank = '\0';
        gr_buf_puts(&b, first ? "" : ", ");
        if (pairs) {
            gr_buf_puts(&b, "[");
            gr_buf_json_string(&b, line);
            gr_buf_puts(&b, ", ");
            gr_buf_json_string(&b, blank + 1);
            gr_buf_puts(&b, "]");
        } else {
            *blank = ' ';
            gr_buf_json_string(&b, line);
        }
        first = false;
    }
    gr_buf_puts(&b, "]}}");
    put(dir, "tokenizer.json", b.data);
    gr_buf_free(&b);
    free(vocab);
    free(merges);
}

static void a_folder_with_tokenizer_json_alone_gives_the_same_ids(void **state)
{
    (void)state;
    static const char text[] = "Pick up the screwdriver, don't drop it; 12 cm \xE7\xAE\xB1!";
    static int32_t want[MAX_IDS], got[MAX_IDS];
    struct gr_tokenizer *tok = open_dir(demo_dir());
    size_t n_want = encode(tok, text, strlen(text), want);
    gr_tokenizer_close(tok);
    for (int pairs = 0; pairs < 2; pairs++) {
        const char *dir = gr_test_temp_dir();
        write_single(dir, pairs == 1);
        tok = open_dir(dir);
        size_t n = encode(tok, text, strlen(text), got);
        token_ids_equal("ids", text, got, n, want, n_want);
        assert_int_equal(gr_tokenizer_special(tok, "<x>"), 1018);
        gr_tokenizer_close(tok);
    }
}

static void qwen2_ids_are_completed_and_contradictions_refused(void **state)
{
    (void)state;
    gr_test_need_shared();
    struct gr_tokenizer *tok = NULL;
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    char path[4096];
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "vocab.json" : "merges.txt";
        assert_non_null(realpath(gr_test_shared("spec/tokenizer/%s", name), path));
        assert_int_equal(symlink(path, gr_test_join(dir, "%s", name)), 0);
    }
    put(dir, "tokenizer_config.json",
        "{\"added_tokens_decoder\": {\"151644\": {\"content\": \"<|im_start|>\"}, \"151645\": {\"content\": "
        "\"<|im_end|>\"}}}");
    tok = open_dir(dir);
    assert_int_equal(gr_tokenizer_special(tok, "<IMG_CONTEXT>"), 151669);
    assert_int_equal(gr_tokenizer_special(tok, "</interval>"), 151679);
    assert_int_equal(gr_tokenizer_size(tok), 151680);
    gr_tokenizer_close(tok);
    tok = NULL;
    put(dir, "added_tokens.json", "{\"<img>\": 151671}");
    gr_test_fails(gr_tokenizer_open(dir, &tok, &err), &err, GR_ERR_FORMAT, "<img>");
    put(dir, "added_tokens.json", "{\"<other>\": 151670}");
    gr_test_fails(gr_tokenizer_open(dir, &tok, &err), &err, GR_ERR_FORMAT, "<other>");
    put(dir, "added_tokens.json", "{\"<other>\": 100}");
    gr_test_fails(gr_tokenizer_open(dir, &tok, &err), &err, GR_ERR_FORMAT, "the vocabulary gives to another token");
    assert_null(tok);
}

/* ---- Broken folders: one thing wrong in a copy of the demo's. */

static void broken_files_are_refused_by_name_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *file;    /* replaced ... */
        const char *content; /* ... by this; NULL: removed */
        const char *message;
    } cases[] = {
        {"vocab.json", NULL, "neither vocab.json nor tokenizer.json"},
        {"merges.txt", NULL, "merges.txt"},
        {"vocab.json", "", "vocab.json"},
        {"vocab.json", "[1, 2]", "must be an object"},
        {"vocab.json", "{\"a\": 0, \"a\": 1}", "vocab.json"},
        {"vocab.json", "{\"a\": 0, \"b\": 0}", "id 0 is given twice"},
        {"vocab.json", "{\"a\": \"0\"}", "must be an integer"},
        {"vocab.json", "{\"a\": 0.5}", "must be an integer"},
        {"vocab.json", "{\"a\": -1}", "id -1"},
        {"vocab.json", "{\"a\": 1000000}", "id 1000000"},
        {"vocab.json", "{\"\": 3}", "byte-level alphabet"},
        {"vocab.json", "{\"a b\": 3}", "byte-level alphabet"},
        {"vocab.json", "{\"\\u7bb1\": 3}", "byte-level alphabet"},
        {"vocab.json", "{}", "merges.txt line 2"},
        {"merges.txt", "#version: 0.2\nh e\nt her\nq q\n", "merges.txt line 4"},
        {"merges.txt", "h e\nqq t\n", "line 2: merge \"qq\" + \"t\": its first part is not"},
        {"merges.txt", "t qq\n", "line 1: merge \"t\" + \"qq\": its second part is not"},
        {"merges.txt", "q q\n", "line 1: merge \"q\" + \"q\": its result is not"},
        {"merges.txt", "h e\n\nh e\n", "line 3"},
        {"merges.txt", "th\n", "expected two tokens"},
        {"merges.txt", "t  h\n", "expected two tokens"},
        {"merges.txt", "t h e\n", "expected two tokens"},
        {"merges.txt", " t\n", "expected two tokens"},
        {"merges.txt", "t \n", "expected two tokens"},
        {"merges.txt", "h e\n\xff\xfe h\n", "line 2"},
        {"merges.txt", "h e\n#version: 0.2\n", "line 2"},
        {"added_tokens.json", "[]", "must be an object"},
        {"added_tokens.json", "{\"<a>\": \"1\"}", "must be an integer"},
        {"added_tokens.json", "{\"<a>\": -1}", "id -1"},
        {"added_tokens.json", "{\"<a>\": 1000000}", "id 1000000"},
        {"added_tokens.json", "{\"\": 2000}", "empty"},
        {"added_tokens.json", "{\"<a>\": 2000, \"<b>\": 2000}", "id 2000"},
        {"added_tokens.json", "{\"<a>\": 5}", "the vocabulary gives to another token"},
        {"added_tokens.json", "{\"<a>\": 2000", "added_tokens.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = demo_copy();
        struct gr_tokenizer *tok = NULL;
        struct gr_err err;
        if (cases[i].content == NULL) {
            unlink(gr_test_join(dir, "%s", cases[i].file));
        } else {
            put(dir, cases[i].file, cases[i].content);
        }
        gr_test_fails(gr_tokenizer_open(dir, &tok, &err), &err, GR_ERR_FORMAT, cases[i].message);
        assert_null(tok);
        gr_test_temp_clean(NULL);
    }
}

static void broken_tokenizer_json_and_config_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *content, *message;
    } cases[] = {
        {"tokenizer.json", "{}", "\"model\" is missing"},
        {"tokenizer.json", "{\"model\": 1}", "must be object"},
        {"tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}", "Unigram"},
        {"tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}", "normalizer"},
        {"tokenizer.json", "{\"normalizer\": {\"type\": \"NFC\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {}}}",
         "\"merges\" is missing"},
        {"tokenizer.json",
         "{\"normalizer\": {\"type\": \"NFC\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}",
         "single byte"},
        {"tokenizer.json",
         "{\"normalizer\": {\"type\": \"NFC\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}",
         "line 1"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": []}", "must be an object"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"x1\": {\"content\": \"<a>\"}}}",
         "\"x1\" is not an id"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"12345678901\": {\"content\": \"<a>\"}}}",
         "is not an id"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"2000\": {}}}", "\"content\" is missing"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"2000\": {\"content\": \"<a>\", \"lstrip\": true}}}",
         "lstrip"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = demo_copy();
        struct gr_tokenizer *tok = NULL;
        struct gr_err err;
        unlink(gr_test_join(dir, "added_tokens.json"));
        if (strcmp(cases[i].file, "tokenizer.json") == 0) {
            unlink(gr_test_join(dir, "vocab.json"));
        }
        put(dir, cases[i].file, cases[i].content);
        gr_test_fails(gr_tokenizer_open(dir, &tok, &err), &err, GR_ERR_FORMAT, cases[i].message);
        gr_test_temp_clean(NULL);
    }
}

static void a_missing_folder_is_named(void **state)
{
    (void)state;
    struct gr_tokenizer *tok = NULL;
    struct gr_err err;
    const char *dir = gr_test_join(gr_test_temp_dir(), "nothing");
    gr_test_fails(gr_tokenizer_open(dir, &tok, &err), &err, GR_ERR_FORMAT, "nothing: no such folder");
    gr_tokenizer_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_cases_have_the_ids_of_the_reference),
        cmocka_unit_test(shared_cases_have_the_ids_of_the_reference),
        cmocka_unit_test(pieces_of_the_ids_spell_the_text),
        cmocka_unit_test(more_ids_than_room_are_counted_but_not_written),
        cmocka_unit_test(plain_encoding_never_gives_an_added_token),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_with_the_position),
        cmocka_unit_test(a_word_of_2000_characters_takes_milliseconds),
        cmocka_unit_test(a_text_beyond_the_limit_is_refused),
        cmocka_unit_test(the_leftmost_pair_of_lowest_rank_is_merged_first),
        cmocka_unit_test(added_tokens_are_matched_longest_first),
        cmocka_unit_test(added_tokens_come_from_the_config_when_their_own_file_is_missing),
        cmocka_unit_test(a_folder_with_tokenizer_json_alone_gives_the_same_ids),
        cmocka_unit_test(qwen2_ids_are_completed_and_contradictions_refused),
        cmocka_unit_test(broken_files_are_refused_by_name_and_line),
        cmocka_unit_test(broken_tokenizer_json_and_config_are_refused),
        cmocka_unit_test(a_missing_folder_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
