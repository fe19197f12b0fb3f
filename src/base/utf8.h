/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h: one strict UTF-8 step (no overlong forms, no surrogates, nothing above U+10FFFF). */
#ifndef GR_BASE_UTF8_H
#define GR_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at p (1 to 4), 0 when the n bytes there do not start with a valid one. n >= 1. */
int gr_utf8_length(const char *p, size_t n);

#endif
