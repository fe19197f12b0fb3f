/* SPDX-License-Identifier: Apache-2.0
 *
 * unicode.h: UTF-8 and the character classes of the prompt. Two families that differ on purpose: word/space/lower are those of
 * formalize_language (Unicode 14), token_* are those of the splitting expression (the tokenizer library's Unicode). Pure functions. */
#ifndef GR_MODEL_UNICODE_H
#define GR_MODEL_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at text[*pos], *pos < n, and moves *pos behind it. False (nothing moved) when the bytes are not UTF-8:
 * overlong forms, surrogates, above U+10FFFF and cut sequences included. */
bool gr_utf8_next(const char *text, size_t n, size_t *pos, uint32_t *c);
/* Bytes of one character; returns 1..4. c must be a Unicode scalar value. */
size_t gr_utf8_put(uint32_t c, char out[4]);

bool gr_unicode_is_word(uint32_t c);
bool gr_unicode_is_space(uint32_t c);

/* Full lower case of text[i]; the final sigma rule looks at its neighbours in the (not yet lowered) text. Returns 1 or 2 characters. */
size_t gr_unicode_lower(const uint32_t *text, size_t n, size_t i, uint32_t out[2]);

/* What the splitting expression asks about a character: at most one of the bits. */
enum gr_token_class { GR_TOKEN_OTHER = 0, GR_TOKEN_LETTER = 1, GR_TOKEN_NUMBER = 2, GR_TOKEN_SPACE = 4 };
enum gr_token_class gr_unicode_token_class(uint32_t c);

#endif
