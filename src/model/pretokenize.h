/* SPDX-License-Identifier: Apache-2.0
 *
 * pretokenize.h: where one piece of the Qwen2 splitting expression ends. BPE merges never cross the border of a piece. */
#ifndef GR_MODEL_PRETOKENIZE_H
#define GR_MODEL_PRETOKENIZE_H

#include <stddef.h>
#include <stdint.h>

/* End of the piece that starts at text[at], at < n; always > at. text is one run between added tokens, in NFC. */
size_t gr_pretokenize_next(const uint32_t *text, size_t n, size_t at);

#endif
