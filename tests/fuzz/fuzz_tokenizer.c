/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tokenizer.c: any bytes as text for the tokenizer and the prompt, with the demo vocabulary. What is accepted must come out as
 * ids whose pieces spell the text again (texts below U+0300 are their own NFC); a prompt must keep its frame; a refusal must say why.
 * Finds the vocabulary through GR00T_SOURCE_ROOT, else below the current folder. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/prompt.h"
#include "model/tokenizer.h"

enum { MAX_IDS = 1 << 16, MAX_TEXT = 24, IMAGES = 2, IMAGE_TOKENS = 3 };

static struct gr_tokenizer *tok;
static struct gr_prompt *prompts[2];

static void need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz_tokenizer: %s\n", what);
        abort();
    }
}

static void open_once(void)
{
    struct gr_err err;
    char dir[4096];
    const char *root = getenv("GR00T_SOURCE_ROOT");
    snprintf(dir, sizeof dir, "%s/data/demo/tokenizer", root != NULL ? root : ".");
    need(gr_tokenizer_open(dir, &tok, &err) == GR_OK, "cannot open the demo vocabulary: set GR00T_SOURCE_ROOT");
    for (int i = 0; i < 2; i++) {
        need(gr_prompt_new(tok, IMAGES, IMAGE_TOKENS, MAX_TEXT, i == 0, &prompts[i], &err) == GR_OK, err.msg);
    }
}

static void check_refusal(enum gr_status status, const struct gr_err *err)
{
    need(status == GR_ERR_INPUT && err->code == GR_ERR_INPUT && err->msg[0] != '\0', "a refusal of the wrong kind");
}

static void check_raw(const char *text, size_t n, bool plain)
{
    static int32_t ids[MAX_IDS];
    struct gr_err err;
    size_t count = 0, at = 0;
    bool own_form = true;
    enum gr_status status = plain ? gr_tokenizer_encode_plain(tok, text, n, ids, MAX_IDS, &count, &err)
                                  : gr_tokenizer_encode(tok, text, n, ids, MAX_IDS, &count, &err);
    if (status != GR_OK) {
        check_refusal(status, &err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        own_form = own_form && (unsigned char)text[i] < 0xCC;
    }
    for (size_t i = 0; i < count && count <= MAX_IDS; i++) {
        size_t len = 0;
        const char *piece = gr_tokenizer_piece(tok, ids[i], &len);
        need(piece != NULL && len > 0, "an id without a piece");
        if (own_form) {
            need(len <= n - at && memcmp(text + at, piece, len) == 0, "pieces that spell another text");
            at += len;
        }
    }
    need(!own_form || count > MAX_IDS || at == n, "pieces that end early");
}

static void check_prompt(struct gr_prompt *p, const char *text, size_t n)
{
    struct gr_err err;
    struct gr_prompt_ids out;
    enum gr_status status = gr_prompt_encode_n(p, text, n, &out, &err);
    if (status != GR_OK) {
        check_refusal(status, &err);
        return;
    }
    int image_rows = 0;
    for (int i = 0; i < out.n_tokens; i++) {
        need(out.ids[i] >= 0 && out.ids[i] < gr_tokenizer_size(tok), "an id out of range");
        image_rows += out.ids[i] == gr_prompt_image_token(p);
    }
    need(image_rows == IMAGES * IMAGE_TOKENS, "a wrong number of image tokens");
    need(out.n_text <= MAX_TEXT && out.n_tokens <= gr_prompt_max_tokens(p), "a prompt beyond its limit");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gr_err err;
    if (tok == NULL) {
        open_once();
    }
    /* Copies of the exact size, so that a read beyond the end is seen. */
    char *text = malloc(size > 0 ? size : 1), *cleaned = malloc(2 * size + 1);
    need(text != NULL && cleaned != NULL, "no memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    check_raw(text, size, false);
    check_raw(text, size, true);
    check_prompt(prompts[0], text, size);
    check_prompt(prompts[1], text, size);
    if (gr_formalize(text, size, cleaned, 2 * size + 1, &err) == GR_OK) {
        size_t n = strlen(cleaned);
        char *again = malloc(2 * n + 1);
        need(again != NULL && gr_formalize(cleaned, n, again, 2 * n + 1, &err) == GR_OK, "cleaned text is refused");
        free(again);
    }
    free(cleaned);
    free(text);
    return 0;
}
