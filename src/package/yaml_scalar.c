/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml_scalar.c: what a plain scalar means in YAML 1.1, by the regular expressions of PyYAML's resolver (resolver.py) and the arithmetic of
 * its safe constructor, each form as a small matcher. Differences between the two matter: "1e3" and "-.5" are texts there, "1.e+3" is a number. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "package/yaml.h"

#define DIGITS "0123456789"
#define DIGITS_ "0123456789_"

static bool one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *behind_sign(const char *p) { return *p == '+' || *p == '-' ? p + 1 : p; }

/* (?::[0-5]?[0-9])+ ; NULL: does not match. */
static const char *behind_sixtieths(const char *p)
{
    if (*p != ':') {
        return NULL;
    }
    while (*p == ':') {
        p++;
        if (p[0] >= '0' && p[0] <= '5' && is_digit(p[1])) {
            p += 2;
        } else if (is_digit(p[0])) {
            p++;
        } else {
            return NULL;
        }
    }
    return p;
}

static int digit_value(char c) { return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c - 'A' + 10; }

/* Digits of any base. */
struct number {
    bool big, any; /* beyond 64 bits; at least one digit */
    uint64_t whole;
};
static void add_digit(struct number *x, unsigned base, unsigned digit)
{
    x->any = true;
    x->big = x->big || __builtin_mul_overflow(x->whole, (uint64_t)base, &x->whole) ||
             __builtin_add_overflow(x->whole, (uint64_t)digit, &x->whole);
}

static bool set_integer(struct gr_node *node, const struct number *x, bool negative)
{
    const uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    node->kind = GR_NODE_INT;
    node->integer = negative ? (int64_t)(0 - x->whole) : (int64_t)x->whole;
    node->real = (double)node->integer;
    return x->any && !x->big && x->whole <= limit;
}

static bool read_digits(struct gr_node *node, const char *p, unsigned base, bool negative)
{
    struct number x = {0};
    for (; *p != '\0'; p++) {
        if (*p != '_') {
            add_digit(&x, base, (unsigned)digit_value(*p));
        }
    }
    return set_integer(node, &x, negative);
}

/* "1:30": digits of base 60, each written in decimal. */
static bool read_sixtieths(struct gr_node *node, const char *p, bool negative)
{
    struct number x = {0};
    while (*p != '\0') {
        if (*p == ':') {
            unsigned part = 0;
            for (p++; is_digit(*p); p++) {
                part = part * 10 + (unsigned)(*p - '0');
            }
            add_digit(&x, 60, part);
        } else {
            if (*p != '_') {
                add_digit(&x, 10, (unsigned)(*p - '0'));
            }
            p++;
        }
    }
    return set_integer(node, &x, negative);
}

/* 1: an integer, 0: none, -1: one without digits or beyond 64 bits. */
static int match_int(const char *text, struct gr_node *node)
{
    const bool negative = *text == '-';
    const char *p = behind_sign(text);
    int base = 0;
    if (p[0] == '0' && p[1] == 'b' && p[2] != '\0' && p[2 + strspn(p + 2, "01_")] == '\0') {
        base = 2;
    } else if (p[0] == '0' && p[1] == 'x' && p[2] != '\0' && p[2 + strspn(p + 2, DIGITS_ "abcdefABCDEF")] == '\0') {
        base = 16;
    } else if (p[0] == '0' && p[1 + strspn(p + 1, "01234567_")] == '\0') {
        base = 8; /* also a single 0 */
    } else if (p[0] >= '1' && p[0] <= '9') {
        const char *end = p + strspn(p, DIGITS_), *last = behind_sixtieths(end);
        if (*end == '\0') {
            base = 10;
        } else if (last != NULL && *last == '\0') {
            return read_sixtieths(node, p, negative) ? 1 : -1;
        }
    }
    if (base == 0) {
        return 0;
    }
    return read_digits(node, p + (base == 2 || base == 16 ? 2 : 0), (unsigned)base, negative) ? 1 : -1;
}

/* [eE][-+][0-9]+ or nothing, then the end. */
static bool is_exponent_end(const char *p)
{
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p != '+' && *p != '-') {
            return false;
        }
        p++;
        const size_t n = strspn(p, DIGITS);
        return n > 0 && p[n] == '\0';
    }
    return *p == '\0';
}

/* The program never sets a locale: strtod reads a point. `end`: where the text of this number stops. False: longer than any sane number. */
static bool read_real(const char *p, const char *end, double *out)
{
    char plain[400];
    size_t n = 0;
    for (; p < end && n < sizeof plain; p++) {
        if (*p != '_') {
            plain[n++] = *p;
        }
    }
    if (n == sizeof plain) {
        return false;
    }
    plain[n] = '\0';
    *out = strtod(plain, NULL);
    return true;
}

/* "1:30.5" */
static bool read_real_sixtieths(const char *p, double *out)
{
    *out = 0.0;
    for (;;) {
        const char *colon = strchr(p, ':');
        double part;
        if (!read_real(p, colon != NULL ? colon : p + strlen(p), &part)) {
            return false;
        }
        *out = *out * 60.0 + part;
        if (colon == NULL) {
            return true;
        }
        p = colon + 1;
    }
}

/* 1: a real, 0: none, -1: one that is too long. */
static int match_real(const char *text, struct gr_node *node)
{
    static const char *const infinity[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nan_words[] = {".nan", ".NaN", ".NAN", NULL};
    const char *p = behind_sign(text), *end = p + strspn(p, DIGITS_), *sixtieths = behind_sixtieths(end);
    bool read = true;
    if (one_of(p, infinity)) {
        node->real = (double)INFINITY;
    } else if (one_of(text, nan_words)) {
        node->real = (double)NAN;
    } else if ((is_digit(p[0]) || (end == text && is_digit(p[1]))) && *end == '.' &&
               is_exponent_end(end + 1 + strspn(end + 1, DIGITS_))) {
        read = read_real(p, p + strlen(p), &node->real); /* ".5" has no sign there */
    } else if (is_digit(p[0]) && sixtieths != NULL && *sixtieths == '.' &&
               sixtieths[1 + strspn(sixtieths + 1, DIGITS_)] == '\0') {
        read = read_real_sixtieths(p, &node->real);
    } else {
        return 0;
    }
    node->kind = GR_NODE_REAL;
    node->real = *text == '-' ? -node->real : node->real;
    return read ? 1 : -1;
}

/* One or two digits (`two`: two exactly); NULL: none. */
static const char *behind_digits(const char *p, bool two)
{
    if (p == NULL || !is_digit(p[0]) || (two && !is_digit(p[1]))) {
        return NULL;
    }
    return is_digit(p[1]) ? p + 2 : p + 1;
}

static const char *behind_char(const char *p, char c) { return p != NULL && *p == c ? p + 1 : NULL; }

/* Z or [-+]H[H][:MM], after blanks; then the end. */
static bool is_zone_end(const char *p)
{
    p += strspn(p, " \t");
    if (*p == 'Z') {
        return p[1] == '\0';
    }
    if (*p == '+' || *p == '-') {
        p = behind_digits(p + 1, false);
        if (p != NULL && *p == ':') {
            p = behind_digits(p + 1, true);
        }
        return p != NULL && *p == '\0';
    }
    return false;
}

static bool match_date(const char *text)
{
    if (strspn(text, DIGITS) != 4) {
        return false;
    }
    const char *month = behind_digits(behind_char(text + 4, '-'), false),
               *day = behind_digits(behind_char(month, '-'), false);
    if (day == NULL) {
        return false;
    }
    if (*day == '\0') {
        return strlen(text) == 10; /* without a time both have two digits */
    }
    const char *p = *day == 'T' || *day == 't' ? day + 1 : day + strspn(day, " \t");
    if (p == day) {
        return false;
    }
    p = behind_digits(behind_char(behind_digits(p, false), ':'), true);
    p = behind_digits(behind_char(p, ':'), true);
    if (p == NULL) {
        return false;
    }
    if (*p == '.') {
        p += 1 + strspn(p + 1, DIGITS);
    }
    return *p == '\0' || is_zone_end(p);
}

bool gr_yaml_resolve(const char *text, struct gr_node *node)
{
    static const char *const yes[] = {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", NULL};
    static const char *const no[] = {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", NULL};
    static const char *const null[] = {"", "~", "null", "Null", "NULL", NULL};
    node->kind = GR_NODE_STRING;
    if (one_of(text, yes) || one_of(text, no)) {
        node->kind = GR_NODE_BOOL;
        node->boolean = one_of(text, yes);
    } else if (one_of(text, null)) {
        node->kind = GR_NODE_NULL;
    } else {
        int found = match_real(text, node);
        if (found == 0) {
            found = match_int(text, node);
        }
        if (found == 0 && match_date(text)) {
            node->kind = GR_NODE_DATE;
        }
        return found >= 0;
    }
    return true;
}
