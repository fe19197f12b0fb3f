/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.c: validity of one UTF-8 character, after table 3-7 of the Unicode standard. The second byte's range depends on
 * the first: that is what keeps out overlong forms and surrogates. */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static int continues(const unsigned char *u, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if ((u[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return 1;
}

int gr_utf8_length(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) {
        return 1;
    }
    if (u[0] < 0xc2 || u[0] > 0xf4 || n < 2) {
        return 0;
    }
    if (u[0] < 0xe0) {
        return continues(u, 1, 2) ? 2 : 0;
    }
    if (u[0] < 0xf0) {
        if (n < 3 || !continues(u, 1, 3) || (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f)) {
            return 0;
        }
        return 3;
    }
    if (n < 4 || !continues(u, 1, 4) || (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f)) {
        return 0;
    }
    return 4;
}

/* len: bytes of the character at u. */
static bool is_control(const unsigned char *u, int len)
{
    return (len == 1 && (u[0] < 0x20 || u[0] == 0x7f)) ||                                /* C0 */
           (len == 2 && u[0] == 0xc2 && u[1] < 0xa0) ||                                  /* C1 */
           (len == 3 && u[0] == 0xe2 && u[1] == 0x80 && (u[2] == 0xa8 || u[2] == 0xa9)); /* line separators */
}

size_t gr_utf8_clean(char *out, size_t cap, const char *text)
{
    size_t n = strlen(text), w = 0, r = 0;
    while (r < n) {
        int len = gr_utf8_length(text + r, n - r);
        bool bad = len == 0 || is_control((const unsigned char *)text + r, len);
        size_t step = len == 0 ? 1 : (size_t)len, size = bad ? 1 : step;
        if (w + size + 1 > cap) {
            break;
        }
        if (bad) {
            out[w] = '?';
        } else {
            memmove(out + w, text + r, step);
        }
        w += size;
        r += step;
    }
    out[w] = '\0';
    return w;
}
