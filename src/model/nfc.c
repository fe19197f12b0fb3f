/* SPDX-License-Identifier: Apache-2.0
 *
 * nfc.c: decompose, order, compose; character data by utf8proc (this is the only file that knows it). The ordering is ours because
 * utf8proc's own is quadratic in a run of combining marks, and text comes from outside.
 * utf8proc may know a later Unicode than the reference (14): characters that are younger and would decompose, compose or be
 * reordered (table `apart`) are passed through and split the text, as an unassigned character does in the reference. */
#include "model/nfc.h"

#include <string.h>
#include <utf8proc.h>

enum { FIRST_ACTIVE = 0x300 };

/* Blocks of Unicode 15 to 17 that hold characters with a combining class or a decomposition; all unassigned in Unicode 14. And U+11A7,
 * the unused base of the Hangul trailing consonants: it never composes, but utf8proc 2.8 composes it with a syllable and so drops it. */
static const uint32_t apart[][2] = {
    {0x897, 0x897},     {0x11A7, 0x11A7},   {0x1ACF, 0x1AFF},   {0x105C0, 0x105FF}, {0x10D40, 0x10D8F},
    {0x10EC0, 0x10EFF}, {0x11380, 0x113FF}, {0x11F00, 0x11F5F}, {0x16100, 0x1613F}, {0x16D40, 0x16D7F},
    {0x1E030, 0x1E08F}, {0x1E4D0, 0x1E4FF}, {0x1E5D0, 0x1E5FF}, {0x1E6C0, 0x1E6FF},
};

static bool is_apart(uint32_t c)
{
    if (c < 0x897) {
        return false;
    }
    for (size_t i = 0; i < sizeof apart / sizeof *apart && c >= apart[i][0]; i++) {
        if (c <= apart[i][1]) {
            return true;
        }
    }
    return false;
}

bool gr_nfc_is_plain(const uint32_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] >= FIRST_ACTIVE) {
            return false;
        }
    }
    return true;
}

static unsigned combining_class(uint32_t c)
{
    return c < FIRST_ACTIVE ? 0 : (unsigned)utf8proc_get_property((utf8proc_int32_t)c)->combining_class & 0xFF;
}

/* Stable counting sort of a run of marks by combining class. Two marks, the common case, need no table. */
static void sort_marks(uint32_t *marks, size_t n, uint32_t *tmp)
{
    if (n == 2) {
        if (combining_class(marks[0]) > combining_class(marks[1])) {
            uint32_t first = marks[0];
            marks[0] = marks[1];
            marks[1] = first;
        }
        return;
    }
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) {
        start[combining_class(marks[i]) + 1]++;
    }
    for (size_t k = 1; k < 257; k++) {
        start[k] += start[k - 1];
    }
    for (size_t i = 0; i < n; i++) {
        tmp[start[combining_class(marks[i])]++] = marks[i];
    }
    memcpy(marks, tmp, n * sizeof *marks);
}

static void order_marks(uint32_t *text, size_t n, uint32_t *tmp)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && combining_class(text[end]) != 0) {
            end++;
        }
        if (end - i > 1) {
            sort_marks(text + i, end - i, tmp);
        }
        i = end + 1;
    }
}

/* One stretch without such characters; writes behind out[0..at) and returns the new length, SIZE_MAX when it does not fit. */
static size_t normalise(const uint32_t *text, size_t n, uint32_t *out, size_t at, uint32_t *tmp, size_t cap)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    size_t end = at;
    for (size_t i = 0; i < n; i++) {
        int boundary = 0;
        utf8proc_ssize_t room = (utf8proc_ssize_t)(cap - end);
        utf8proc_ssize_t got =
            utf8proc_decompose_char((utf8proc_int32_t)text[i], (utf8proc_int32_t *)out + end, room, options, &boundary);
        if (got < 0 || got > room) {
            return SIZE_MAX;
        }
        end += (size_t)got;
    }
    order_marks(out + at, end - at, tmp);
    utf8proc_ssize_t left =
        utf8proc_normalize_utf32((utf8proc_int32_t *)out + at, (utf8proc_ssize_t)(end - at), options);
    return left < 0 ? SIZE_MAX : at + (size_t)left;
}

size_t gr_nfc(const uint32_t *text, size_t n, uint32_t *out, uint32_t *tmp, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at != SIZE_MAX;) {
        size_t end = i;
        while (end < n && !is_apart(text[end])) {
            end++;
        }
        at = normalise(text + i, end - i, out, at, tmp, cap);
        if (end < n && at != SIZE_MAX) {
            if (at == cap) {
                return SIZE_MAX;
            }
            out[at++] = text[end++];
        }
        i = end;
    }
    return at;
}
