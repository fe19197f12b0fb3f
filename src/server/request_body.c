/* SPDX-License-Identifier: Apache-2.0
 *
 * request_body.c: bytes of a body to a JSON document: long strings cut out, the number of values bounded, and a fault named by its
 * place in the document as well as by its byte. */
#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "server/request_parts.h"

enum {
    LONG_STRING = 1024, /* shorter ones are not worth a stand-in */
    PATH_DEPTH = 8,     /* levels a path shows; a request has four */
    KEY_BYTES = 64
};
/* Stand-in: U+10FFFF, which no text holds, and the index of the span. A body that does hold it, as bytes (0xF4 ...) or as an escape
 * (\udbff...), gets no stand-ins. */
static const char MARK[] = "\xF4\x8F\xBF\xBF";

/* ---- Refusals. */

enum gr_status gr_refuse(struct gr_request_error *why, struct gr_err *err, enum gr_status status, const char *code,
                         const char *field, const char *fmt, ...)
{
    char text[2 * GR_ERR_MSG_BYTES], path[GR_FIELD_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)gr_utf8_clean(path, sizeof path, field);
    memcpy(why->field, path, sizeof path); /* field may be why->field itself */
    snprintf(why->code, sizeof why->code, "%s", code);
    why->in_body = why->field[0] == '\0';
    return gr_fail(err, status, "%s", text);
}

enum gr_status gr_refuse_type(struct gr_request_error *why, struct gr_err *err, const char *field,
                              const struct gr_json *v, const char *expected)
{
    return gr_refuse(why, err, GR_ERR_SCHEMA, "wrong_type", field, "%s is %s, expected %s",
                     field[0] == '\0' ? "body" : field, gr_json_kind_name(gr_json_kind(v)), expected);
}

const char *gr_field_join(char field[GR_FIELD_BYTES], const char *base, const char *name)
{
    char key[KEY_BYTES];
    (void)gr_utf8_clean(key, sizeof key, name);
    snprintf(field, GR_FIELD_BYTES, "%.64s%s%s", base, base[0] != '\0' ? "." : "", key);
    return field;
}

/* ---- Scan: what the parser should not see. */

struct scan {
    struct gr_body_span *spans;
    size_t n, cap;
    size_t n_values;
    bool marked; /* the mark occurs in the body */
    bool failed; /* memory */
};

static void add_span(struct scan *s, size_t at, size_t len)
{
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 4 : 2 * s->cap;
        struct gr_body_span *grown = realloc(s->spans, cap * sizeof *grown);
        if (grown == NULL) {
            s->failed = true;
            return;
        }
        s->spans = grown;
        s->cap = cap;
    }
    s->spans[s->n++] = (struct gr_body_span){at, len};
}

static bool escapes_mark(const char *p, size_t n) /* p behind a backslash */
{
    return n >= 5 && strncasecmp(p, "udbff", 5) == 0;
}

/* A string from its opening quote on; returns the position behind the closing one, n when there is none. *plain: printable ASCII
 * without escapes, so that cutting it out hides no fault. */
static size_t skip_string(const char *text, size_t n, size_t at, bool *plain, bool *marked)
{
    *plain = true;
    for (size_t i = at + 1; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"') {
            return i + 1;
        }
        if (c == '\\') {
            *plain = false;
            *marked = *marked || escapes_mark(text + i + 1, n - i - 1);
            i++;
        } else if (c < 0x20 || c > 0x7e) {
            *plain = false;
            *marked = *marked || c == 0xF4;
        }
    }
    return n;
}

static bool is_key(const char *text, size_t n, size_t behind)
{
    while (behind < n &&
           (text[behind] == ' ' || text[behind] == '\t' || text[behind] == '\n' || text[behind] == '\r')) {
        behind++;
    }
    return behind < n && text[behind] == ':';
}

static void scan_body(const char *text, size_t n, size_t max_values, struct scan *s)
{
    for (size_t i = 0; i < n && s->n_values <= max_values && !s->failed;) {
        char c = text[i];
        if (c == '"') {
            bool plain;
            size_t end = skip_string(text, n, i, &plain, &s->marked);
            if (plain && end - i >= LONG_STRING + 2 && text[end - 1] == '"' && !is_key(text, n, end)) {
                add_span(s, i + 1, end - i - 2);
            }
            i = end;
            continue;
        }
        s->n_values += c == ',' || c == '[' || c == '{';
        i++;
    }
}

/* The text with stand-ins; NULL without memory. */
static char *reduce(const char *text, size_t n, const struct scan *s, size_t *n_out)
{
    struct gr_buf out = {0};
    size_t from = 0;
    for (size_t i = 0; i < s->n; i++) {
        gr_buf_put(&out, text + from, s->spans[i].at - from);
        gr_buf_printf(&out, "%s%zu", MARK, i);
        from = s->spans[i].at + s->spans[i].len;
    }
    gr_buf_put(&out, text + from, n - from);
    *n_out = out.len;
    if (out.failed) {
        gr_buf_free(&out);
        return NULL;
    }
    return out.data;
}

const char *gr_body_string(const struct gr_body *body, const struct gr_json *v, size_t *n)
{
    const char *text = gr_json_string(v);
    size_t mark = sizeof MARK - 1;
    if (body->n_spans > 0 && strncmp(text, MARK, mark) == 0) {
        const struct gr_body_span *span = &body->spans[strtoul(text + mark, NULL, 10)];
        *n = span->len;
        return body->text + span->at;
    }
    *n = strlen(text);
    return text;
}

/* ---- Where in the document a fault lies. */

struct level {
    bool object;
    size_t index;           /* array: element */
    size_t key_at, key_len; /* object: last key, still escaped */
    bool has_key;
};
struct walk {
    struct level level[PATH_DEPTH];
    size_t depth;    /* may exceed PATH_DEPTH: deeper levels are not recorded */
    size_t token_at; /* start of the last value or key */
};

static void walk_string(struct walk *w, size_t from, size_t end)
{
    struct level *l = w->depth > 0 && w->depth <= PATH_DEPTH ? &w->level[w->depth - 1] : NULL;
    w->token_at = from;
    if (l != NULL && l->object && !l->has_key) {
        l->has_key = true;
        l->key_at = from + 1;
        l->key_len = end > from + 1 ? end - from - 2 : 0;
    }
}

static void walk_mark(struct walk *w, char c)
{
    if (c == '{' || c == '[') {
        if (w->depth++ < PATH_DEPTH) {
            w->level[w->depth - 1] = (struct level){.object = c == '{'};
        }
    } else if (c == '}' || c == ']') {
        w->depth -= w->depth > 0;
    } else if (c == ',' && w->depth > 0 && w->depth <= PATH_DEPTH) {
        w->level[w->depth - 1].index++;
        w->level[w->depth - 1].has_key = false;
    }
}

/* Walks the tokens that begin before `stop`; everything before it is well-formed as far as it was read. */
static void walk_to(const char *text, size_t n, size_t stop, struct walk *w)
{
    for (size_t i = 0; i < stop && i < n;) {
        char c = text[i];
        bool plain, marked = false;
        if (c == '"') {
            size_t end = skip_string(text, n, i, &plain, &marked);
            walk_string(w, i, end);
            i = end;
        } else if (strchr("{}[],: \t\r\n", c) != NULL) {
            if (i + 1 < stop) { /* the last one is what the parser stumbled over */
                walk_mark(w, c);
            }
            i++;
        } else {
            w->token_at = i;
            while (i < n && strchr("{}[],:\" \t\r\n", text[i]) == NULL) {
                i++;
            }
        }
    }
}

static void path_of(const char *text, const struct walk *w, char path[GR_FIELD_BYTES])
{
    path[0] = '\0';
    for (size_t d = 0; d < w->depth && d < PATH_DEPTH && w->level[0].object; d++) {
        const struct level *l = &w->level[d];
        size_t used = strlen(path);
        if (!l->object) {
            snprintf(path + used, GR_FIELD_BYTES - used, "[%zu]", l->index);
        } else if (l->object && l->has_key) {
            char key[KEY_BYTES];
            size_t n = l->key_len < sizeof key ? l->key_len : sizeof key - 1;
            memcpy(key, text + l->key_at, n);
            key[n] = '\0';
            (void)gr_utf8_clean(key, sizeof key, key);
            snprintf(path + used, GR_FIELD_BYTES - used, "%s%s", used > 0 ? "." : "", key);
        }
    }
}

/* NaN and Infinity as some JSON writers spell them. */
static bool spells_nonfinite(const char *p, size_t n)
{
    static const char *const words[] = {"nan", "infinity", "inf"};
    if (n > 0 && *p == '-') {
        p++;
        n--;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i]);
        if (n >= len && strncasecmp(p, words[i], len) == 0 && (n == len || !isalnum((unsigned char)p[len]))) {
            return true;
        }
    }
    return false;
}

static bool begins(const char *path, const char *name)
{
    size_t n = strlen(name);
    return strncmp(path, name, n) == 0 && (path[n] == '.' || path[n] == '[');
}

/* Words for a body that the parser refused. */
static enum gr_status explain(const char *text, size_t n, const struct gr_json_fault *fault,
                              struct gr_request_error *why, struct gr_err *err)
{
    char path[GR_FIELD_BYTES];
    struct walk w = {0};
    struct gr_err inner = *err;
    walk_to(text, n, fault->byte, &w);
    path_of(text, &w, path);
    bool big = fault->kind == GR_JSON_FAULT_BIG_INTEGER || fault->kind == GR_JSON_FAULT_BIG_REAL;
    bool numbers = begins(path, "state") || begins(path, "noise");
    bool literal =
        fault->kind == GR_JSON_FAULT_SYNTAX && fault->byte > 0 && spells_nonfinite(text + w.token_at, n - w.token_at);
    if (numbers && (literal || fault->kind == GR_JSON_FAULT_BIG_REAL)) {
        return gr_refuse(why, err, GR_ERR_INPUT, "not_finite", path,
                         "%s is not finite, expected a finite number (%s, byte %zu)", path, inner.msg, fault->byte);
    }
    if (big && strcmp(path, "seed") == 0) {
        return gr_refuse(why, err, GR_ERR_SCHEMA, "out_of_range", path,
                         "seed does not fit, expected 0 to 9223372036854775807 (%s, byte %zu)", inner.msg, fault->byte);
    }
    if (fault->kind == GR_JSON_FAULT_DUPLICATE) {
        return gr_refuse(why, err, GR_ERR_SCHEMA, "duplicate_key", path, "%s, byte %zu", inner.msg, fault->byte);
    }
    return gr_refuse(why, err, GR_ERR_SCHEMA, big ? "out_of_range" : "invalid_json", path, "%s, byte %zu", inner.msg,
                     fault->byte);
}

/* A fault in the text with stand-ins to its byte and column in the body. Lines are the same: a stand-in holds no line break. */
static void restore_position(const struct gr_body *body, struct gr_json_fault *fault, struct gr_err *err)
{
    size_t shift = 0, n_before = 0, columns = 0, mark = sizeof MARK - 1;
    char number[24];
    while (n_before < body->n_spans && body->spans[n_before].at - shift < fault->byte) {
        shift += body->spans[n_before].len - mark - (size_t)snprintf(number, sizeof number, "%zu", n_before);
        n_before++;
    }
    fault->byte += shift;
    const char *line = memrchr(body->text, '\n', fault->byte < body->n ? fault->byte : body->n);
    for (size_t i = n_before; i > 0 && (line == NULL || body->text + body->spans[i - 1].at > line); i--) {
        columns += body->spans[i - 1].len - 1 - (size_t)snprintf(number, sizeof number, "%zu", i - 1);
    }
    char *column = strstr(err->msg, "column ");
    if (column != NULL) {
        char *rest;
        size_t at = strtoul(column + strlen("column "), &rest, 10);
        char *near = strstr(rest, " near '");
        if (near != NULL && strstr(near, MARK) != NULL) { /* would quote a stand-in */
            *near = '\0';
        }
        (void)gr_fail(err, err->code, "%.*scolumn %zu%s", (int)(column - err->msg), err->msg, at + columns, rest);
    }
}

/* ---- Parse. */

enum gr_status gr_body_parse(const char *text, size_t n, size_t max_values, struct gr_body *out,
                             struct gr_request_error *why, struct gr_err *err)
{
    struct scan scan = {0};
    struct gr_json_fault fault;
    enum gr_status status;
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        n -= 3;
    }
    *out = (struct gr_body){.text = text, .n = n};
    scan_body(text, n, max_values, &scan);
    out->spans = scan.spans;
    out->n_spans = scan.marked ? 0 : scan.n;
    if (scan.failed) {
        return gr_refuse(why, err, GR_ERR_NOMEM, "no_memory", "", "no memory for a request of %zu bytes", n);
    }
    if (scan.n_values > max_values) {
        return gr_refuse(why, err, GR_ERR_SCHEMA, "too_many_values", "", "body has more than %zu values", max_values);
    }
    if (out->n_spans > 0) {
        size_t n_reduced = 0;
        out->reduced = reduce(text, n, &scan, &n_reduced);
        if (out->reduced == NULL) {
            return gr_refuse(why, err, GR_ERR_NOMEM, "no_memory", "", "no memory for a request of %zu bytes", n);
        }
        status = gr_json_parse_where(out->reduced, n_reduced, "body", GR_ERR_SCHEMA, &out->root, &fault, err);
        if (status != GR_OK) {
            restore_position(out, &fault, err);
        }
    } else {
        status = gr_json_parse_where(text, n, "body", GR_ERR_SCHEMA, &out->root, &fault, err);
    }
    if (status == GR_ERR_NOMEM) {
        return gr_refuse(why, err, GR_ERR_NOMEM, "no_memory", "", "no memory for a request of %zu bytes", n);
    }
    if (status != GR_OK) {
        return explain(text, n, &fault, why, err);
    }
    return gr_json_kind(out->root) == GR_JSON_OBJECT ? GR_OK
                                                     : gr_refuse_type(why, err, "", out->root, "an object of fields");
}

void gr_body_free(struct gr_body *body)
{
    gr_json_free(body->root);
    free(body->reduced);
    free(body->spans);
    *body = (struct gr_body){0};
}
