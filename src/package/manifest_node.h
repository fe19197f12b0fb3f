/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest_node.h: a document as a small tree, the same one for YAML (with places) and JSON (without), and the memory it lives in.
 * A node may stand in several places of the tree (YAML aliases), so a tree is walked and never changed after it was made. */
#ifndef GR_PACKAGE_MANIFEST_NODE_H
#define GR_PACKAGE_MANIFEST_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Memory that is given back as a whole. */
struct gr_arena;
struct gr_arena *gr_arena_new(void); /* NULL: no memory */
void gr_arena_free(struct gr_arena *pool);
void *gr_arena_take(struct gr_arena *pool, size_t n, size_t size);      /* [n], zeroed; NULL: no memory */
char *gr_arena_text(struct gr_arena *pool, const char *text, size_t n); /* with a NUL behind it */
const char *gr_arena_printf(struct gr_arena *pool, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
enum gr_status gr_arena_none_left(struct gr_err *err); /* the message for a NULL of the above */

enum gr_node_kind {
    GR_NODE_NULL,
    GR_NODE_BOOL,
    GR_NODE_INT,
    GR_NODE_REAL,
    GR_NODE_DATE, /* YAML only; text as written */
    GR_NODE_STRING,
    GR_NODE_LIST,
    GR_NODE_MAP
};

struct gr_node {
    enum gr_node_kind kind;
    int line, column; /* from 1; 0: unknown (JSON) */
    const char *text; /* scalars: as written; "" for an empty null */
    bool boolean;
    int64_t integer;
    double real;
    const struct gr_node **items; /* [n] of a list; values of a map */
    const struct gr_node **keys;  /* [n] of a map: scalars */
    int n;
    int size; /* nodes of the tree below and with this one, each alias counted as often as it is used */
};

/* Depth: below the 64 of the JSON reader, as a document becomes part of a deeper one on the wire. */
enum { GR_NODES_MAX = 65536, GR_NODE_DEPTH_MAX = 60, GR_NODE_ENTRIES_MAX = 1024 };

const char *gr_node_kind_name(enum gr_node_kind kind); /* "a string" */
/* Value of a string key; NULL when absent or `map` is no map (NULL included). */
const struct gr_node *gr_node_get(const struct gr_node *map, const char *key);

/* what: the source, for messages. */
enum gr_status gr_node_from_json(struct gr_arena *pool, const struct gr_json *json, const char *what,
                                 const struct gr_node **out, struct gr_err *err);
/* Compact JSON text. What JSON has no word for (a date, an infinity, a key that is no string) is returned as the node at fault; NULL: none. */
const struct gr_node *gr_node_to_json(const struct gr_node *node, struct gr_buf *out);

/* A finite real so that it is read as one again: "5.0". */
void gr_node_put_real(struct gr_buf *out, double value);

#endif
