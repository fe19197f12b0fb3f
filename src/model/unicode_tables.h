/* SPDX-License-Identifier: Apache-2.0
 *
 * unicode_tables.h: layout of the generated tables; only unicode.c looks into them. Ranges are sorted, inclusive, disjoint. */
#ifndef GR_MODEL_UNICODE_TABLES_H
#define GR_MODEL_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct gr_unicode_range {
    uint32_t first, last;
};
/* c in first..last becomes to + (c - first), followed by `second` when that is not 0. */
struct gr_unicode_map {
    uint32_t first, last, to, second;
};

extern const struct gr_unicode_range gr_unicode_word[];
extern const size_t gr_unicode_word_len;
extern const struct gr_unicode_range gr_unicode_space[];
extern const size_t gr_unicode_space_len;
extern const struct gr_unicode_range gr_unicode_cased[];
extern const size_t gr_unicode_cased_len;
extern const struct gr_unicode_range gr_unicode_ignorable[];
extern const size_t gr_unicode_ignorable_len;
extern const struct gr_unicode_range gr_unicode_token_letter[];
extern const size_t gr_unicode_token_letter_len;
extern const struct gr_unicode_range gr_unicode_token_number[];
extern const size_t gr_unicode_token_number_len;
extern const struct gr_unicode_range gr_unicode_token_space[];
extern const size_t gr_unicode_token_space_len;
extern const struct gr_unicode_map gr_unicode_lower_map[];
extern const size_t gr_unicode_lower_map_len;

#endif
