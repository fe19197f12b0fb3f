/* SPDX-License-Identifier: Apache-2.0
 *
 * token_cases.c: see token_cases.h. */
#include "token_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MAX_IDS = 20000 };

static size_t read_ids(const struct gr_json *list, int32_t *ids)
{
    size_t n = 0;
    for (size_t i = 0; i < gr_json_len(list); i++) {
        const struct gr_json *v = gr_json_at(list, i);
        int count = 1, id = 0;
        if (gr_json_kind(v) == GR_JSON_STRING) {
            assert_int_equal(sscanf(gr_json_string(v), "%d*%d", &count, &id), 2);
        } else {
            assert_int_equal(gr_json_kind(v), GR_JSON_INT);
            id = (int)gr_json_int(v);
        }
        for (int k = 0; k < count; k++) {
            assert_true(n < MAX_IDS);
            ids[n++] = id;
        }
    }
    return n;
}

/* Our JSON reader refuses NUL in strings, one case has it: it travels as U+E000, which no case uses. */
static const char NUL_ESCAPE[] = "\\u0000", STAND_IN_ESCAPE[] = "\\ue000", STAND_IN[] = "\xEE\x80\x80";

static void hide_nul(char *line, size_t n)
{
    assert_null(memmem(line, n, STAND_IN_ESCAPE, strlen(STAND_IN_ESCAPE)));
    for (char *at; (at = memmem(line, n, NUL_ESCAPE, strlen(NUL_ESCAPE))) != NULL;) {
        memcpy(at, STAND_IN_ESCAPE, strlen(STAND_IN_ESCAPE));
    }
}

/* A copy with real NUL characters. */
static char *show_nul(const char *text, size_t *n)
{
    char *out = strdup(text);
    assert_non_null(out);
    *n = strlen(out);
    for (char *at; (at = memmem(out, *n, STAND_IN, strlen(STAND_IN))) != NULL;) {
        *at = '\0';
        memmove(at + 1, at + strlen(STAND_IN), (size_t)(out + *n - at) - strlen(STAND_IN));
        *n -= strlen(STAND_IN) - 1;
    }
    return out;
}

struct token_case_counts token_cases_each(const char *path, void (*check)(const struct token_case *c, void *user),
                                          void *user)
{
    struct token_case_counts counts = {0, 0};
    struct gr_err err;
    size_t n = 0;
    char *text = (char *)gr_test_read(path, &n);
    int32_t *ids = malloc(MAX_IDS * sizeof *ids);
    assert_non_null(ids);
    for (char *line = text, *end; line < text + n; line = end + 1) {
        struct gr_json *root = NULL;
        end = memchr(line, '\n', (size_t)(text + n - line));
        assert_non_null(end);
        hide_nul(line, (size_t)(end - line));
        gr_test_ok(gr_json_parse(line, (size_t)(end - line), path, GR_ERR_INPUT, &root, &err), &err);
        struct token_case c = {.prompt = strcmp(gr_json_string(gr_json_get(root, "kind")), "prompt") == 0, .ids = ids};
        c.n_ids = read_ids(gr_json_get(root, "ids"), ids);
        char *own = show_nul(gr_json_string(gr_json_get(root, c.prompt ? "instruction" : "text")), &c.n_text_bytes);
        c.text = own;
        if (c.prompt) {
            c.formalized = gr_json_string(gr_json_get(root, "formalized"));
            c.n_text = (int)gr_json_int(gr_json_get(root, "n_text"));
            counts.prompt++;
        } else {
            counts.raw++;
        }
        check(&c, user);
        free(own);
        gr_json_free(root);
    }
    free(ids);
    free(text);
    return counts;
}

void token_ids_equal(const char *what, const char *text, const int32_t *got, size_t n_got, const int32_t *want,
                     size_t n_want)
{
    if (n_got == n_want && (n_got == 0 || memcmp(got, want, n_got * sizeof *got) == 0)) {
        return;
    }
    print_error("%s of \"%s\"\n  want %zu ids:", what, text, n_want);
    for (size_t i = 0; i < n_want; i++) {
        print_error(" %d", (int)want[i]);
    }
    print_error("\n  got  %zu ids:", n_got);
    for (size_t i = 0; i < n_got; i++) {
        print_error(" %d", (int)got[i]);
    }
    print_error("\n");
    fail_msg("token ids differ");
}
