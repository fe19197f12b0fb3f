/* SPDX-License-Identifier: Apache-2.0
 *
 * prompt.h: instruction to token ids: strip, formalize_language, chat template with one image run per frame (spec/model.md 3). */
#ifndef GR_MODEL_PROMPT_H
#define GR_MODEL_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/tokenizer.h"

struct gr_prompt;

/* Resolves the template's special tokens by name and sizes all scratch.
 * n_images >= 1 image runs of image_tokens tokens each; max_text_tokens: longest instruction. */
enum gr_status gr_prompt_new(struct gr_tokenizer *tok, int n_images, int image_tokens, int max_text_tokens,
                             bool formalize, struct gr_prompt **out, struct gr_err *err);
void gr_prompt_free(struct gr_prompt *p);

/* Largest sequence: template + images + max_text_tokens. */
int gr_prompt_max_tokens(const struct gr_prompt *p);
int32_t gr_prompt_image_token(const struct gr_prompt *p);

struct gr_prompt_ids {
    const int32_t *ids; /* [n_tokens], owned by the prompt, valid until the next encode */
    int n_tokens;       /* S */
    int n_text;         /* S minus the sequence length of an empty instruction */
};
/* GR_ERR_INPUT: empty after stripping and cleaning, more than 2000 characters, invalid UTF-8, n_text above the limit ("n_text exceeds
 * L_max": both numbers). No allocation. */
enum gr_status gr_prompt_encode(struct gr_prompt *p, const char *instruction, struct gr_prompt_ids *out,
                                struct gr_err *err);
/* The same for n bytes that may hold NUL characters (ordinary ones: the cleaning deletes them). */
enum gr_status gr_prompt_encode_n(struct gr_prompt *p, const char *instruction, size_t n, struct gr_prompt_ids *out,
                                  struct gr_err *err);
/* The cleaned instruction, as formalize_language leaves it: for tests and `gr00t tokenize`. Writes at most cap bytes with NUL. */
enum gr_status gr_formalize(const char *text, size_t n_bytes, char *out, size_t cap, struct gr_err *err);

#endif
