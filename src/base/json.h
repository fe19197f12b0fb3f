/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h: strict RFC 8259 reading. The only file that knows the JSON library is json.c.
 * Duplicate keys, NaN, 1e999, lone surrogates, trailing text, a byte order mark and nesting deeper than
 * 64 are errors. Values are borrowed from the document and live until gr_json_free. */
#ifndef GR_BASE_JSON_H
#define GR_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gr_json; /* one value */

enum gr_json_kind {
    GR_JSON_NULL,
    GR_JSON_BOOL,
    GR_JSON_INT,
    GR_JSON_REAL,
    GR_JSON_STRING,
    GR_JSON_ARRAY,
    GR_JSON_OBJECT
};

/* Parses n bytes. `what` names the source in messages ("config.json"). Fails with `code` (the caller knows whether a bad
 * document is an input or a snapshot fault) and a message with line and column. Free the root with gr_json_free. */
enum gr_status gr_json_parse(const char *text, size_t n, const char *what, enum gr_status code, struct gr_json **root,
                             struct gr_err *err);
/* What a document that was refused suffered from, for callers that have their own words for it. */
enum gr_json_fault_kind {
    GR_JSON_FAULT_SYNTAX,
    GR_JSON_FAULT_DUPLICATE,   /* a key twice in one object */
    GR_JSON_FAULT_BIG_INTEGER, /* a number without fraction beyond 64 bits */
    GR_JSON_FAULT_BIG_REAL     /* a number beyond the largest float64 */
};
struct gr_json_fault {
    enum gr_json_fault_kind kind;
    size_t byte; /* bytes read when it was noticed: it stands right before */
};
/* As gr_json_parse; fills *fault when a document is refused. */
enum gr_status gr_json_parse_where(const char *text, size_t n, const char *what, enum gr_status code,
                                   struct gr_json **root, struct gr_json_fault *fault, struct gr_err *err);
/* Reads and parses a file of at most max_bytes. */
enum gr_status gr_json_read(const char *path, size_t max_bytes, enum gr_status code, struct gr_json **root,
                            struct gr_err *err);
void gr_json_free(struct gr_json *root);

/* NULL, an absent value, counts as GR_JSON_NULL. */
enum gr_json_kind gr_json_kind(const struct gr_json *v);
const char *gr_json_kind_name(enum gr_json_kind kind);
bool gr_json_is_number(const struct gr_json *v);

/* Length of an array or object, 0 for everything else (NULL included). */
size_t gr_json_len(const struct gr_json *v);
/* Element of an array, value of an object; NULL when absent or `v` is not of that kind (NULL included). */
const struct gr_json *gr_json_at(const struct gr_json *array, size_t i);
const struct gr_json *gr_json_get(const struct gr_json *object, const char *key);

/* Members of an object in file order: for (it = gr_json_first(o); it; it = gr_json_next(o, it)). */
void *gr_json_first(const struct gr_json *object);
void *gr_json_next(const struct gr_json *object, void *it);
const char *gr_json_key(void *it);
const struct gr_json *gr_json_value(void *it);

/* The caller has checked the kind. */
bool gr_json_bool(const struct gr_json *v);
int64_t gr_json_int(const struct gr_json *v);
double gr_json_number(const struct gr_json *v);      /* INT or REAL */
const char *gr_json_string(const struct gr_json *v); /* NUL-terminated UTF-8; embedded NUL is refused at parse time */

#endif
