/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_tokenizer.c: tokenizer and prompt as a filter, for random_tokenizer.py. Argument: a tokenizer folder.
 * stdin: cases of int32 mode, int32 n, n bytes of text. stdout per case: int32 count, then
 *   mode 0 (raw)              count ids
 *   mode 1 (prompt)           int32 n_text, count ids
 *   mode 2 (prompt, verbatim) the same with formalize_language off
 *   mode 3 (formalize)        count bytes
 * A refused text gives -status as count and nothing behind it. Byte order of the machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/prompt.h"
#include "model/tokenizer.h"

enum { IMAGE_TOKENS = 81, MAX_TEXT = 16000, MAX_BYTES = 1 << 20 };

static int32_t ids[4 * MAX_BYTES];
static char cleaned[2 * MAX_BYTES + 1];

static int put(const void *data, size_t size, size_t n) { return fwrite(data, size, n, stdout) == n; }

static int put_int(int32_t v) { return put(&v, sizeof v, 1); }

static int answer(struct gr_tokenizer *tok, struct gr_prompt *const prompts[2], int mode, const char *text, size_t n)
{
    struct gr_err err;
    struct gr_prompt_ids out;
    enum gr_status status;
    size_t count = 0;
    switch (mode) {
    case 0:
        status = gr_tokenizer_encode(tok, text, n, ids, sizeof ids / sizeof *ids, &count, &err);
        return status != GR_OK ? put_int(-(int32_t)status) : put_int((int32_t)count) && put(ids, sizeof *ids, count);
    case 1:
    case 2:
        status = gr_prompt_encode_n(prompts[mode - 1], text, n, &out, &err);
        return status != GR_OK ? put_int(-(int32_t)status)
                               : put_int(out.n_tokens) && put_int(out.n_text) &&
                                     put(out.ids, sizeof *out.ids, (size_t)out.n_tokens);
    default:
        status = gr_formalize(text, n, cleaned, sizeof cleaned, &err);
        return status != GR_OK
                   ? put_int(-(int32_t)status)
                   : put_int((int32_t)strlen(cleaned)) && put(cleaned, 1, strlen(cleaned)); /* no NUL is left */
    }
}

int main(int argc, char **argv)
{
    struct gr_err err;
    struct gr_tokenizer *tok = NULL;
    struct gr_prompt *prompts[2] = {NULL, NULL};
    int32_t head[2];
    char *text = malloc(MAX_BYTES + 1);
    int ok = argc == 2 && text != NULL && gr_tokenizer_open(argv[1], &tok, &err) == GR_OK &&
             gr_prompt_new(tok, 1, IMAGE_TOKENS, MAX_TEXT, true, &prompts[0], &err) == GR_OK &&
             gr_prompt_new(tok, 1, IMAGE_TOKENS, MAX_TEXT, false, &prompts[1], &err) == GR_OK;
    if (!ok) {
        fprintf(stderr, "driver_tokenizer: %s\n", argc == 2 ? err.msg : "one argument: a tokenizer folder");
    }
    while (ok && fread(head, sizeof head, 1, stdin) == 1) {
        ok = head[1] >= 0 && head[1] <= MAX_BYTES && fread(text, 1, (size_t)head[1], stdin) == (size_t)head[1];
        if (ok) {
            text[head[1]] = '\0';
            ok = answer(tok, prompts, head[0], text, (size_t)head[1]);
            fflush(stdout);
        }
    }
    gr_prompt_free(prompts[0]);
    gr_prompt_free(prompts[1]);
    gr_tokenizer_close(tok);
    free(text);
    return ok ? 0 : 1;
}
