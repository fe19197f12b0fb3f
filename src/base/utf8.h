/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h: one strict UTF-8 step (no overlong forms, no surrogates, nothing above U+10FFFF), and text made fit for one line.
 * Names out of files may hold anything, also the sequences that move a terminal's cursor. */
#ifndef GR_BASE_UTF8_H
#define GR_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at p (1 to 4), 0 when the n bytes there do not start with a valid one. n >= 1. */
int gr_utf8_length(const char *p, size_t n);

/* Copies text into out (cap bytes with the NUL, cut at a character): control characters, line breaks of any kind and broken
 * UTF-8 become '?'. Never longer than text; out may be text itself. Returns the length. */
size_t gr_utf8_clean(char *out, size_t cap, const char *text);

#endif
