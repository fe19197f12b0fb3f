/* SPDX-License-Identifier: Apache-2.0
 *
 * npy.c: NumPy's .npy container. Its header is the text of a Python dict with three known keys; only that much of Python
 * is understood here, in any key order and with any blanks. */
#include "formats/npy.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAGIC_BYTES = 6, DIMS = 8 };
static const char magic[] = "\x93NUMPY";

struct header {
    bool has_descr, has_order, has_shape;
    bool fortran;
    char descr[16];
    int ndim;
    size_t shape[DIMS];
};

struct text {
    const char *p, *end;
};

static void skip_blanks(struct text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\n' || *t->p == '\r')) {
        t->p++;
    }
}

static bool take(struct text *t, char c)
{
    skip_blanks(t);
    if (t->p < t->end && *t->p == c) {
        t->p++;
        return true;
    }
    return false;
}

static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0) {
        return false;
    }
    t->p += n;
    return true;
}

/* A quoted string without escapes, at most cap - 1 bytes. */
static bool take_string(struct text *t, char *out, size_t cap)
{
    skip_blanks(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"')) {
        return false;
    }
    char quote = *t->p++;
    size_t n = 0;
    while (t->p < t->end && *t->p != quote) {
        if (*t->p == '\\' || n + 1 >= cap) {
            return false;
        }
        out[n++] = *t->p++;
    }
    out[n] = '\0';
    return take(t, quote);
}

static bool take_size(struct text *t, size_t *out)
{
    skip_blanks(t);
    size_t v = 0;
    const char *from = t->p;
    while (t->p < t->end && *t->p >= '0' && *t->p <= '9') {
        if (!gr_size_mul(v, 10, &v) || !gr_size_add(v, (size_t)(*t->p - '0'), &v)) {
            return false;
        }
        t->p++;
    }
    *out = v;
    return t->p > from;
}

/* "()", "(5,)", "(50, 128)" */
static bool take_shape(struct text *t, struct header *h)
{
    if (!take(t, '(')) {
        return false;
    }
    bool comma = true;
    while (!take(t, ')')) {
        if (!comma || h->ndim == DIMS || !take_size(t, &h->shape[h->ndim])) {
            return false;
        }
        h->ndim++;
        comma = take(t, ',');
    }
    return h->ndim != 1 || comma;
}

static bool take_member(struct text *t, struct header *h)
{
    char key[24];
    if (!take_string(t, key, sizeof key) || !take(t, ':')) {
        return false;
    }
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        h->has_descr = true;
        return take_string(t, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        h->has_order = true;
        h->fortran = take_word(t, "True");
        return h->fortran || take_word(t, "False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return take_shape(t, h);
    }
    return false;
}

static bool parse_dict(struct text t, struct header *h)
{
    if (!take(&t, '{')) {
        return false;
    }
    bool comma = true;
    while (!take(&t, '}')) {
        if (!comma || !take_member(&t, h)) {
            return false;
        }
        comma = take(&t, ',');
    }
    skip_blanks(&t);
    return t.p == t.end && h->has_descr && h->has_order && h->has_shape;
}

/* Finds the header text: version 1.0 has a 16-bit length, 2.0 and 3.0 a 32-bit one. */
static enum gr_status find_header(const uint8_t *p, size_t n, const char *what, struct text *text, struct gr_err *err)
{
    if (n < MAGIC_BYTES + 4 || memcmp(p, magic, MAGIC_BYTES) != 0) {
        return gr_fail(err, GR_ERR_INPUT, "%s: not a .npy file (no NumPy signature at the start)", what);
    }
    unsigned major = p[6], minor = p[7];
    if (major < 1 || major > 3 || minor != 0) {
        return gr_fail(err, GR_ERR_INPUT, "%s: .npy version %u.%u, expected 1.0, 2.0 or 3.0", what, major, minor);
    }
    size_t at = major == 1 ? 10 : 12;
    if (n < at) {
        return gr_fail(err, GR_ERR_INPUT, "%s: .npy file of %zu bytes is truncated", what, n);
    }
    size_t length = (size_t)p[8] | (size_t)p[9] << 8;
    if (major > 1) {
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    }
    if (length > n - at) {
        return gr_fail(err, GR_ERR_INPUT, "%s: .npy header of %zu bytes, but only %zu follow: truncated", what, length,
                       n - at);
    }
    *text = (struct text){(const char *)p + at, (const char *)p + at + length};
    return GR_OK;
}

enum gr_status gr_npy_parse(const void *bytes, size_t n, const char *what, struct gr_npy *out, struct gr_err *err)
{
    struct text text = {NULL, NULL};
    struct header h = {0};
    GR_TRY(find_header(bytes, n, what, &text, err));
    if (!parse_dict(text, &h)) {
        return gr_fail(
            err, GR_ERR_INPUT,
            "%s: .npy header is not {'descr': '<f4', 'fortran_order': False, 'shape': (...)} with at most %d dimensions",
            what, (int)DIMS);
    }
    bool is_f64 = strcmp(h.descr, "<f8") == 0;
    if (!is_f64 && strcmp(h.descr, "<f4") != 0) {
        return gr_fail(err, GR_ERR_INPUT,
                       "%s: .npy dtype is '%s', expected '<f4' or '<f8' (little-endian float32 or float64)", what,
                       h.descr);
    }
    if (h.fortran) {
        return gr_fail(err, GR_ERR_INPUT,
                       "%s: .npy array is in Fortran order, expected C order (numpy.ascontiguousarray)", what);
    }
    size_t size = is_f64 ? 8 : 4, count = 1, need;
    bool fits = true;
    for (int i = 0; i < h.ndim; i++) {
        fits = fits && gr_size_mul(count, h.shape[i], &count);
    }
    size_t have = n - (size_t)((const uint8_t *)text.end - (const uint8_t *)bytes);
    if (!fits || !gr_size_mul(count, size, &need) || need != have) {
        return gr_fail(err, GR_ERR_INPUT, "%s: .npy file holds %zu bytes of data, its shape needs %s%zu", what, have,
                       fits && count <= SIZE_MAX / size ? "" : "more than ",
                       fits && count <= SIZE_MAX / size ? count * size : SIZE_MAX);
    }
    float *values = malloc(count == 0 ? sizeof *values : count * sizeof *values);
    if (values == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %zu values", what, count);
    }
    if (is_f64) {
        for (size_t i = 0; i < count; i++) {
            double d;
            memcpy(&d, text.end + 8 * i, 8);
            values[i] = (float)d;
        }
    } else if (count > 0) {
        memcpy(values, text.end, 4 * count);
    }
    *out = (struct gr_npy){.ndim = h.ndim, .count = count, .values = values};
    memcpy(out->shape, h.shape, sizeof out->shape);
    return GR_OK;
}

void gr_npy_free(struct gr_npy *npy)
{
    free(npy->values);
    *npy = (struct gr_npy){0};
}
