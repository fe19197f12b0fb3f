/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c: strict JSON on top of jansson, which is known to this file only. A struct gr_json is a json_t under another
 * name. jansson recurses, so nesting is bounded by a scan of the bytes before it sees them. */
#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum { DEPTH_MAX = 64 };

struct place {
    size_t line, column;
};

static json_t *unwrap(const struct gr_json *v)
{
    return (json_t *)(uintptr_t)v; /* jansson's reference counts and iterators want non-const values */
}

static const struct gr_json *wrap(const json_t *v) { return (const struct gr_json *)v; }

static struct place place_of(const char *text, size_t at)
{
    struct place p = {1, 1};
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            p.line++;
            p.column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            p.column++;
        }
    }
    return p;
}

/* Position of the bracket that opens level DEPTH_MAX + 1, n when there is none. Brackets inside strings do not count; in
 * a broken document the answer may be off, but never lets jansson in too deep: it stops at the first fault. */
static size_t too_deep_at(const char *text, size_t n)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > DEPTH_MAX) {
                return i;
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return n;
}

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\n' && text[i] != '\r') {
            return false;
        }
    }
    return true;
}

/* Faults that deserve their own words. */
static enum gr_status check_bytes(const char *text, size_t n, const char *what, enum gr_status code,
                                  struct gr_json_fault *fault, struct gr_err *err)
{
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        return gr_fail(err, code, "%s: starts with a byte order mark, expected plain UTF-8 without one", what);
    }
    if (n >= 2 &&
        (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0 || text[0] == '\0' || text[1] == '\0')) {
        return gr_fail(err, code, "%s: looks like UTF-16 or UTF-32 text or binary data, expected JSON in UTF-8", what);
    }
    const char *nul = n > 0 ? memchr(text, '\0', n) : NULL;
    if (nul != NULL) { /* jansson would take one after the document for its end */
        struct place p = place_of(text, (size_t)(nul - text));
        fault->byte = (size_t)(nul - text);
        return gr_fail(err, code, "%s: line %zu, column %zu: NUL byte in the text", what, p.line, p.column);
    }
    if (is_blank(text, n)) {
        return gr_fail(err, code, "%s: empty, expected JSON", what);
    }
    size_t deep = too_deep_at(text, n);
    if (deep < n) {
        struct place p = place_of(text, deep);
        fault->byte = deep;
        return gr_fail(err, code, "%s: line %zu, column %zu: nested deeper than %d levels", what, p.line, p.column,
                       (int)DEPTH_MAX);
    }
    return GR_OK;
}

static enum gr_status report(const char *text, size_t n, const char *what, enum gr_status code, const json_error_t *e,
                             struct gr_json_fault *fault, struct gr_err *err)
{
    const char *why = e->text;
    fault->byte = e->position > 0 ? (size_t)e->position < n ? (size_t)e->position : n : 0;
    if (*why == '\0') { /* jansson tells a fault of the text in words; a refused allocation leaves none */
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to parse %zu bytes", what, n);
    }
    switch (json_error_code(e)) {
    case json_error_out_of_memory:
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to parse %zu bytes", what, n);
    case json_error_null_character:
    case json_error_null_byte_in_key:
        why = "\\u0000 inside a string is not allowed";
        break;
    case json_error_numeric_overflow:
        fault->kind = strstr(e->text, "integer") != NULL ? GR_JSON_FAULT_BIG_INTEGER : GR_JSON_FAULT_BIG_REAL;
        why = fault->kind == GR_JSON_FAULT_BIG_INTEGER ? "integer does not fit in 64 bits"
                                                       : "number is too large for a 64-bit float";
        break;
    case json_error_duplicate_key: {
        fault->kind = GR_JSON_FAULT_DUPLICATE;
        const char *key = strstr(e->text, "near '");
        if (key != NULL) {
            return gr_fail(err, code, "%s: line %d, column %d: key appears twice in one object, %s", what, e->line,
                           e->column, key);
        }
        why = "key appears twice in one object";
        break;
    }
    default:
        break;
    }
    struct place p = place_of(text, fault->byte);
    /* jansson counts lines and columns itself; ours is used where it has none. */
    if (e->line > 0) {
        p.line = (size_t)e->line;
        p.column = e->column > 0 ? (size_t)e->column : 1;
    }
    return gr_fail(err, code, "%s: line %zu, column %zu: %s", what, p.line, p.column, why);
}

enum gr_status gr_json_parse_where(const char *text, size_t n, const char *what, enum gr_status code,
                                   struct gr_json **root, struct gr_json_fault *fault, struct gr_err *err)
{
    *fault = (struct gr_json_fault){0};
    GR_TRY(check_bytes(text, n, what, code, fault, err));
    json_error_t e;
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (v == NULL) {
        return report(text, n, what, code, &e, fault, err);
    }
    *root = (struct gr_json *)v;
    return GR_OK;
}

enum gr_status gr_json_parse(const char *text, size_t n, const char *what, enum gr_status code, struct gr_json **root,
                             struct gr_err *err)
{
    struct gr_json_fault fault;
    return gr_json_parse_where(text, n, what, code, root, &fault, err);
}

enum gr_status gr_json_read(const char *path, size_t max_bytes, enum gr_status code, struct gr_json **root,
                            struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    GR_TRY(gr_fs_read(path, max_bytes, &text, &n, err));
    enum gr_status status = gr_json_parse(text, n, path, code, root, err);
    free(text);
    return status;
}

void gr_json_free(struct gr_json *root) { json_decref((json_t *)root); }

enum gr_json_kind gr_json_kind(const struct gr_json *v)
{
    if (v == NULL) {
        return GR_JSON_NULL;
    }
    switch (json_typeof(unwrap(v))) {
    case JSON_OBJECT:
        return GR_JSON_OBJECT;
    case JSON_ARRAY:
        return GR_JSON_ARRAY;
    case JSON_STRING:
        return GR_JSON_STRING;
    case JSON_INTEGER:
        return GR_JSON_INT;
    case JSON_REAL:
        return GR_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return GR_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return GR_JSON_NULL;
}

const char *gr_json_kind_name(enum gr_json_kind kind)
{
    switch (kind) {
    case GR_JSON_NULL:
        return "null";
    case GR_JSON_BOOL:
        return "boolean";
    case GR_JSON_INT:
        return "integer";
    case GR_JSON_REAL:
        return "number";
    case GR_JSON_STRING:
        return "string";
    case GR_JSON_ARRAY:
        return "array";
    case GR_JSON_OBJECT:
        return "object";
    }
    return "unknown";
}

bool gr_json_is_number(const struct gr_json *v) { return json_is_number(unwrap(v)); }

size_t gr_json_len(const struct gr_json *v)
{
    const json_t *j = unwrap(v);
    return json_is_array(j) ? json_array_size(j) : json_is_object(j) ? json_object_size(j) : 0;
}

const struct gr_json *gr_json_at(const struct gr_json *array, size_t i)
{
    return wrap(json_array_get(unwrap(array), i));
}

const struct gr_json *gr_json_get(const struct gr_json *object, const char *key)
{
    return wrap(json_object_get(unwrap(object), key));
}

void *gr_json_first(const struct gr_json *object) { return json_object_iter(unwrap(object)); }

void *gr_json_next(const struct gr_json *object, void *it) { return json_object_iter_next(unwrap(object), it); }

const char *gr_json_key(void *it) { return json_object_iter_key(it); }

const struct gr_json *gr_json_value(void *it) { return wrap(json_object_iter_value(it)); }

bool gr_json_bool(const struct gr_json *v) { return json_is_true(unwrap(v)); }

int64_t gr_json_int(const struct gr_json *v) { return json_integer_value(unwrap(v)); }

double gr_json_number(const struct gr_json *v) { return json_number_value(unwrap(v)); }

const char *gr_json_string(const struct gr_json *v) { return json_string_value(unwrap(v)); }
