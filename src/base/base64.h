/* SPDX-License-Identifier: Apache-2.0
 *
 * base64.h: strict base64 (RFC 4648, standard alphabet). White space (space, tab, CR, LF) may stand anywhere, as tools that wrap
 * lines leave it; every other foreign byte, wrong padding, or bits behind the last byte are errors with their position. */
#ifndef GR_BASE_BASE64_H
#define GR_BASE_BASE64_H

#include <stddef.h>

#include "base/err.h"

/* Upper bound of the bytes that n characters decode to. */
size_t gr_base64_max(size_t n);
/* Decodes into out (gr_base64_max(n) bytes), *n_out: bytes written. GR_ERR_INPUT: "byte 1234 is no base64 character ..."; the
 * message never holds bytes of the text. */
enum gr_status gr_base64_decode(const char *text, size_t n, unsigned char *out, size_t *n_out, struct gr_err *err);

/* Characters of n encoded bytes, without a NUL. */
size_t gr_base64_length(size_t n);
/* Writes gr_base64_length(n) characters, no line breaks, no NUL. */
void gr_base64_encode(const unsigned char *bytes, size_t n, char *out);

#endif
