/* SPDX-License-Identifier: Apache-2.0
 *
 * added_tokens.h: the tokens that are matched literally before any splitting, such as <|im_end|>. */
#ifndef GR_MODEL_ADDED_TOKENS_H
#define GR_MODEL_ADDED_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { GR_ADDED_MAX = 4096 }; /* Qwen2 with the image tokens has 37 */

struct gr_added_token {
    char *text; /* owned */
    size_t len;
    int32_t id;
};
/* Zero-initialise; free with gr_added_free. */
struct gr_added_tokens {
    struct gr_added_token *items; /* after gr_added_sort: by first byte, then longest first */
    size_t n, cap;
    uint32_t first[257]; /* items[first[b] .. first[b + 1]) start with byte b */
};

/* GR_ERR_FORMAT, message starting with `where`: empty text, id out of range, text or id given twice. The same pair again is allowed. */
enum gr_status gr_added_put(struct gr_added_tokens *added, const char *where, const char *text, int64_t id,
                            struct gr_err *err);
/* Call once after the last put, before the two look-ups below. */
void gr_added_sort(struct gr_added_tokens *added);
void gr_added_free(struct gr_added_tokens *added);

/* By name or id, NULL when absent. */
const struct gr_added_token *gr_added_by_text(const struct gr_added_tokens *added, const char *text);
const struct gr_added_token *gr_added_by_id(const struct gr_added_tokens *added, int32_t id);
/* The longest added token that text[at..n) starts with, NULL when none does. */
const struct gr_added_token *gr_added_match(const struct gr_added_tokens *added, const char *text, size_t n, size_t at);

#endif
