/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.h: Qwen2 byte-level BPE from vocab.json, merges.txt and the added tokens (spec/preprocess.md 3). */
#ifndef GR_MODEL_TOKENIZER_H
#define GR_MODEL_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gr_tokenizer;

/* Opens folder `dir`: vocab.json and merges.txt, or tokenizer.json alone. Added tokens: added_tokens.json, else
 * added_tokens_decoder of tokenizer_config.json, else those of tokenizer.json when it is alone. With the Qwen2 vocabulary
 * (151643 entries) the ids 151669..151679 are completed when the files lack them; another id for the same name is an
 * error. GR_ERR_FORMAT with file and line. */
enum gr_status gr_tokenizer_open(const char *dir, struct gr_tokenizer **out, struct gr_err *err);
void gr_tokenizer_close(struct gr_tokenizer *tok);

/* Raw text to ids: added tokens are matched first, then NFC, split, BPE. Writes at most max_ids; *n is the full count,
 * so *n > max_ids means "did not fit". Time is near-linear in the text. Works in scratch owned by the tokenizer: one
 * caller at a time, no allocation for texts of at most 8 * GR_INSTRUCTION_MAX_CHARS bytes (longer ones grow the
 * scratch). GR_ERR_INPUT: not UTF-8, above 8 MiB. A NUL is a character like any other. */
enum gr_status gr_tokenizer_encode(struct gr_tokenizer *tok, const char *text, size_t n_bytes, int32_t *ids,
                                   size_t max_ids, size_t *n, struct gr_err *err);
/* The same without matching added tokens: the text is ordinary text whatever it spells. For text that comes from a user. */
enum gr_status gr_tokenizer_encode_plain(struct gr_tokenizer *tok, const char *text, size_t n_bytes, int32_t *ids,
                                         size_t max_ids, size_t *n, struct gr_err *err);
/* Id of an added token by name, -1 when absent. */
int32_t gr_tokenizer_special(const struct gr_tokenizer *tok, const char *name);
/* Text of one id as bytes (not NUL-terminated; a piece may be part of a character), NULL when unknown. */
const char *gr_tokenizer_piece(const struct gr_tokenizer *tok, int32_t id, size_t *n_bytes);
/* Number of ids, highest id + 1. */
int32_t gr_tokenizer_size(const struct gr_tokenizer *tok);

#endif
