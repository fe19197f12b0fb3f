/* SPDX-License-Identifier: Apache-2.0
 *
 * pretokenize.c: the splitting expression
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * as a hand-written scanner, one function per alternative, tried in this order. Written by hand and not given to a regular
 * expression library because \p{L}, \p{N} and \s must be those of the tokenizer library's Unicode version (unicode.h), whatever
 * version a library on the machine has. Follows Tokenizer.split of the reference. */
#include "model/pretokenize.h"

#include <stdbool.h>

#include "model/unicode.h"

static bool is_break(uint32_t c) { return c == '\r' || c == '\n'; }

/* 's 't 're 've 'm 'll 'd in any case. U+017F (long s) is an s without case; no other letter here has a partner outside ASCII. */
static size_t contraction(const uint32_t *text, size_t n, size_t at)
{
    static const char *const suffix[7] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (text[at] != '\'') {
        return at;
    }
    for (size_t k = 0; k < 7; k++) {
        size_t i = at + 1;
        const char *want = suffix[k];
        for (; *want != '\0' && i < n; want++, i++) {
            uint32_t c = text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i];
            if (c != (uint32_t)*want && !(c == 0x17F && *want == 's')) {
                break;
            }
        }
        if (*want == '\0') {
            return i;
        }
    }
    return at;
}

/* [^\r\n letter number]? letter+ */
static size_t word(const uint32_t *text, size_t n, size_t at)
{
    size_t i = at;
    enum gr_token_class class = gr_unicode_token_class(text[i]);
    if (class != GR_TOKEN_LETTER) {
        if (class == GR_TOKEN_NUMBER || is_break(text[i])) {
            return at;
        }
        i++;
    }
    size_t first = i;
    while (i < n && gr_unicode_token_class(text[i]) == GR_TOKEN_LETTER) {
        i++;
    }
    return i > first ? i : at;
}

/*  ?[^space letter number]+[\r\n]*  */
static size_t symbols(const uint32_t *text, size_t n, size_t at)
{
    size_t first = text[at] == ' ' ? at + 1 : at;
    size_t i = first;
    while (i < n && gr_unicode_token_class(text[i]) == GR_TOKEN_OTHER) {
        i++;
    }
    if (i == first) {
        return at;
    }
    while (i < n && is_break(text[i])) {
        i++;
    }
    return i;
}

/* space*[\r\n]+ | space+(?!non-space) | space+. The first wins when the run of white space has a line break anywhere: up to the last
 * one. Otherwise a run in front of something leaves its last character to the next piece. */
static size_t spaces(const uint32_t *text, size_t n, size_t at)
{
    size_t i = at, after_break = at;
    while (i < n && gr_unicode_token_class(text[i]) == GR_TOKEN_SPACE) {
        if (is_break(text[i])) {
            after_break = i + 1;
        }
        i++;
    }
    if (after_break > at) {
        return after_break;
    }
    return i == n || i - at <= 1 ? i : i - 1;
}

size_t gr_pretokenize_next(const uint32_t *text, size_t n, size_t at)
{
    size_t end = contraction(text, n, at);
    if (end == at) {
        end = word(text, n, at);
    }
    if (end == at && gr_unicode_token_class(text[at]) == GR_TOKEN_NUMBER) {
        end = at + 1;
    }
    if (end == at) {
        end = symbols(text, n, at);
    }
    if (end == at) {
        end = spaces(text, n, at);
    }
    return end;
}
