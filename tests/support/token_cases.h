/* SPDX-License-Identifier: Apache-2.0
 *
 * token_cases.h: reads the tokenizer case lists, one JSON object a line: kind "raw" (text, ids) and "prompt" (instruction, formalized,
 * ids, n_text), where "81*151669" among the ids stands for a run. */
#ifndef GR_TOKEN_CASES_H
#define GR_TOKEN_CASES_H

#include "gr_test.h"

struct token_case {
    bool prompt;
    const char *text; /* or the instruction; may hold NUL characters */
    size_t n_text_bytes;
    const char *formalized;
    int n_text;
    const int32_t *ids; /* runs written out */
    size_t n_ids;
};

/* Calls check for each case of the file; returns how many of each kind there were. Fails the test on a line that cannot be read. */
struct token_case_counts {
    int raw, prompt;
};
struct token_case_counts token_cases_each(const char *path, void (*check)(const struct token_case *c, void *user),
                                          void *user);

/* Fails the test with both lists when they differ. */
void token_ids_equal(const char *what, const char *text, const int32_t *got, size_t n_got, const int32_t *want,
                     size_t n_want);

#endif
