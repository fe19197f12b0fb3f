/* SPDX-License-Identifier: Apache-2.0
 *
 * nfc.h: Unicode normalisation form C over code points in the caller's memory. */
#ifndef GR_MODEL_NFC_H
#define GR_MODEL_NFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when the text is certainly in NFC already: nothing below U+0300 ever composes or decomposes on its own. */
bool gr_nfc_is_plain(const uint32_t *text, size_t n);

/* Code points that n_bytes of UTF-8 can decompose to: the worst is 3 from a character of 2 bytes (U+0390). */
#define GR_NFC_MAX(n_bytes) ((n_bytes) + (n_bytes) / 2 + 4)

/* NFC of text[0..n) into out; out and tmp have room for `cap` code points, at least GR_NFC_MAX of the text's UTF-8 length. Returns the
 * length, or SIZE_MAX when cap was too small. Linear time, no allocation. */
size_t gr_nfc(const uint32_t *text, size_t n, uint32_t *out, uint32_t *tmp, size_t cap);

#endif
