/* SPDX-License-Identifier: Apache-2.0
 *
 * base64.c: four characters to three bytes by one table. The fast loop runs while all four are plain; white space, padding and
 * faults fall to the slow one, which takes one character at a time and goes back after the next full group.
 * Positions count from 0 and include white space, so that they can be looked up in the text. */
#include "base/base64.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLANK = 64, PAD = 65, BAD = 255, NOT_PLAIN = 0xC0 };

/* 0..63: value; everything else has a bit of NOT_PLAIN. */
static const uint8_t values[256] = {
#define BAD_16 BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD
    BAD,    BAD,    BAD,    BAD,    BAD,    BAD,    BAD,    BAD,    BAD,   BLANK, BLANK, BAD, BAD, BLANK, BAD, BAD,
    BAD_16, BLANK,  BAD,    BAD,    BAD,    BAD,    BAD,    BAD,    BAD,   BAD,   BAD,   BAD, 62,  BAD,   BAD, BAD,
    63,     52,     53,     54,     55,     56,     57,     58,     59,    60,    61,    BAD, BAD, BAD,   PAD, BAD,
    BAD,    BAD,    0,      1,      2,      3,      4,      5,      6,     7,     8,     9,   10,  11,    12,  13,
    14,     15,     16,     17,     18,     19,     20,     21,     22,    23,    24,    25,  BAD, BAD,   BAD, BAD,
    BAD,    BAD,    26,     27,     28,     29,     30,     31,     32,    33,    34,    35,  36,  37,    38,  39,
    40,     41,     42,     43,     44,     45,     46,     47,     48,    49,    50,    51,  BAD, BAD,   BAD, BAD,
    BAD,    BAD_16, BAD_16, BAD_16, BAD_16, BAD_16, BAD_16, BAD_16, BAD_16
#undef BAD_16
};

/* A group of four that is not complete yet. */
struct group {
    uint32_t bits;
    unsigned n;      /* characters so far, padding included */
    unsigned n_pads; /* of them */
};

size_t gr_base64_max(size_t n) { return n / 4 * 3 + 3; }

size_t gr_base64_length(size_t n) { return (n / 3 + (n % 3 != 0)) * 4; }

/* Plain groups from *at on. Stops at the first character that is none, or when fewer than four are left. */
static size_t plain_groups(const unsigned char *p, size_t n, size_t *at, unsigned char *out)
{
    size_t i = *at, w = 0;
    while (n - i >= 4) {
        uint32_t a = values[p[i]], b = values[p[i + 1]], c = values[p[i + 2]], d = values[p[i + 3]];
        if (((a | b | c | d) & NOT_PLAIN) != 0) {
            break;
        }
        uint32_t v = a << 18 | b << 12 | c << 6 | d;
        out[w] = (unsigned char)(v >> 16);
        out[w + 1] = (unsigned char)(v >> 8 & 0xFF);
        out[w + 2] = (unsigned char)(v & 0xFF);
        w += 3;
        i += 4;
    }
    *at = i;
    return w;
}

/* One more character of a group that is in pieces. */
static enum gr_status take(struct group *g, unsigned char c, size_t at, struct gr_err *err)
{
    unsigned v = values[c];
    if (v == BAD) {
        return gr_fail(err, GR_ERR_INPUT, "byte %zu (0x%02x) is no base64 character", at, (unsigned)c);
    }
    if (v == PAD) {
        if (g->n < 2) {
            return gr_fail(err, GR_ERR_INPUT, "byte %zu is a padding '=' in the wrong place", at);
        }
        g->n_pads++;
        v = 0;
    } else if (g->n_pads > 0) {
        return gr_fail(err, GR_ERR_INPUT, "byte %zu is a base64 character behind the padding", at);
    }
    g->bits = g->bits << 6 | v;
    g->n++;
    return GR_OK;
}

/* Bytes of a full group. */
static enum gr_status close_group(const struct group *g, size_t at, unsigned char *out, size_t *n_out,
                                  struct gr_err *err)
{
    uint32_t unused = g->n_pads == 2 ? 0xFFFF : g->n_pads == 1 ? 0xFF : 0;
    if ((g->bits & unused) != 0) {
        return gr_fail(err, GR_ERR_INPUT, "the base64 group that ends at byte %zu has bits behind its last byte", at);
    }
    for (unsigned i = 0; i < 3 - g->n_pads; i++) {
        out[(*n_out)++] = (unsigned char)(g->bits >> (16 - 8 * i) & 0xFF);
    }
    return GR_OK;
}

enum gr_status gr_base64_decode(const char *text, size_t n, unsigned char *out, size_t *n_out, struct gr_err *err)
{
    const unsigned char *p = (const unsigned char *)text;
    struct group g = {0};
    size_t w = 0, i = 0;
    bool ended = false; /* padding was seen: only white space may follow */
    while (i < n) {
        if (g.n == 0 && !ended) {
            w += plain_groups(p, n, &i, out + w);
            if (i == n) {
                break;
            }
        }
        if (values[p[i]] == BLANK) {
            i++;
            continue;
        }
        if (ended) {
            return gr_fail(err, GR_ERR_INPUT, "byte %zu stands behind the end of the base64 text", i);
        }
        GR_TRY(take(&g, p[i], i, err));
        if (g.n == 4) {
            GR_TRY(close_group(&g, i, out, &w, err));
            ended = g.n_pads > 0;
            g = (struct group){0};
        }
        i++;
    }
    if (g.n != 0) {
        return gr_fail(err, GR_ERR_INPUT,
                       "base64 text ends after %u of the 4 characters of a group at byte %zu (cut, or padding missing)",
                       g.n, n);
    }
    *n_out = w;
    return GR_OK;
}

void gr_base64_encode(const unsigned char *bytes, size_t n, char *out)
{
    static const char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3, out += 4) {
        size_t left = n - i;
        uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        out[0] = letters[v >> 18];
        out[1] = letters[v >> 12 & 63];
        out[2] = left > 1 ? letters[v >> 6 & 63] : '=';
        out[3] = left > 2 ? letters[v & 63] : '=';
    }
}
