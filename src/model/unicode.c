/* SPDX-License-Identifier: Apache-2.0
 *
 * unicode.c: look-ups in the generated tables: ASCII by comparison, everything else by binary search over ranges. UTF-8 both ways.
 * The C library's isalpha, towlower and friends are of no use here: they follow the locale and another Unicode version. */
#include "model/unicode.h"

#include "base/utf8.h"
#include "model/unicode_tables.h"

bool gr_utf8_next(const char *text, size_t n, size_t *pos, uint32_t *c)
{
    static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *s = (const unsigned char *)text + *pos;
    int len = gr_utf8_length(text + *pos, n - *pos);
    if (len == 0) {
        return false;
    }
    *c = s[0] & lead_bits[len];
    for (int i = 1; i < len; i++) {
        *c = *c << 6 | (s[i] & 0x3Fu);
    }
    *pos += (size_t)len;
    return true;
}

size_t gr_utf8_put(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

static bool in_ranges(uint32_t c, const struct gr_unicode_range *ranges, size_t n)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c > ranges[mid].last) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < n && c >= ranges[lo].first;
}

static bool ascii_letter(uint32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

static bool ascii_digit(uint32_t c) { return c >= '0' && c <= '9'; }

bool gr_unicode_is_word(uint32_t c)
{
    if (c < 0x80) {
        return ascii_letter(c) || ascii_digit(c) || c == '_';
    }
    return in_ranges(c, gr_unicode_word, gr_unicode_word_len);
}

bool gr_unicode_is_space(uint32_t c)
{
    if (c < 0x80) {
        return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    }
    return in_ranges(c, gr_unicode_space, gr_unicode_space_len);
}

enum gr_token_class gr_unicode_token_class(uint32_t c)
{
    if (c < 0x80) {
        if (ascii_letter(c)) {
            return GR_TOKEN_LETTER;
        }
        if (ascii_digit(c)) {
            return GR_TOKEN_NUMBER;
        }
        return c == ' ' || (c >= 0x09 && c <= 0x0D) ? GR_TOKEN_SPACE : GR_TOKEN_OTHER;
    }
    if (in_ranges(c, gr_unicode_token_letter, gr_unicode_token_letter_len)) {
        return GR_TOKEN_LETTER;
    }
    if (in_ranges(c, gr_unicode_token_number, gr_unicode_token_number_len)) {
        return GR_TOKEN_NUMBER;
    }
    return in_ranges(c, gr_unicode_token_space, gr_unicode_token_space_len) ? GR_TOKEN_SPACE : GR_TOKEN_OTHER;
}

/* A capital sigma is final when a cased letter stands before it and none behind it, ignorable characters not counted. A run of
 * ignorable characters is walked at most twice, once from each side, because sigma itself is cased: linear in the text. */
static bool sigma_is_final(const uint32_t *text, size_t n, size_t i)
{
    size_t before = i, after = i + 1;
    while (before > 0 && in_ranges(text[before - 1], gr_unicode_ignorable, gr_unicode_ignorable_len)) {
        before--;
    }
    if (before == 0 || !in_ranges(text[before - 1], gr_unicode_cased, gr_unicode_cased_len)) {
        return false;
    }
    while (after < n && in_ranges(text[after], gr_unicode_ignorable, gr_unicode_ignorable_len)) {
        after++;
    }
    return after == n || !in_ranges(text[after], gr_unicode_cased, gr_unicode_cased_len);
}

size_t gr_unicode_lower(const uint32_t *text, size_t n, size_t i, uint32_t out[2])
{
    uint32_t c = text[i];
    out[0] = c;
    if (c < 0x80) {
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    if (c == 0x3A3) {
        out[0] = sigma_is_final(text, n, i) ? 0x3C2 : 0x3C3;
        return 1;
    }
    size_t lo = 0, hi = gr_unicode_lower_map_len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c > gr_unicode_lower_map[mid].last) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo == gr_unicode_lower_map_len || c < gr_unicode_lower_map[lo].first) {
        return 1;
    }
    const struct gr_unicode_map *m = &gr_unicode_lower_map[lo];
    out[0] = m->to + (c - m->first);
    out[1] = m->second;
    return m->second != 0 ? 2 : 1;
}
