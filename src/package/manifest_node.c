/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest_node.c: the tree of a document, from JSON and to JSON, and its memory: a list of blocks, freed together. */
#include "package/manifest_node.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BLOCK_BYTES = 16384, ALIGN = 16 };

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGN) char bytes[];
};
struct gr_arena {
    struct block *blocks; /* the first one is filled */
};

struct gr_arena *gr_arena_new(void) { return calloc(1, sizeof(struct gr_arena)); }

void gr_arena_free(struct gr_arena *pool)
{
    if (pool == NULL) {
        return;
    }
    for (struct block *b = pool->blocks; b != NULL;) {
        struct block *next = b->next;
        free(b);
        b = next;
    }
    free(pool);
}

void *gr_arena_take(struct gr_arena *pool, size_t n, size_t size)
{
    size_t bytes, rounded;
    if (!gr_size_mul(n, size, &bytes) || !gr_size_add(bytes, ALIGN, &rounded)) {
        return NULL;
    }
    bytes = rounded & ~(size_t)(ALIGN - 1); /* at least one byte more than asked for: never an empty piece */
    struct block *b = pool->blocks;
    if (b == NULL || b->size - b->used < bytes) {
        const size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        size_t all;
        if (!gr_size_add(room, sizeof(struct block), &all) || (b = calloc(1, all)) == NULL) {
            return NULL;
        }
        b->size = room;
        b->next = pool->blocks;
        pool->blocks = b;
    }
    void *p = b->bytes + b->used;
    b->used += bytes;
    return p;
}

char *gr_arena_text(struct gr_arena *pool, const char *text, size_t n)
{
    char *p = n < SIZE_MAX ? gr_arena_take(pool, n + 1, 1) : NULL;
    if (p != NULL && n > 0) {
        memcpy(p, text, n);
    }
    return p;
}

const char *gr_arena_printf(struct gr_arena *pool, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n >= 0 ? gr_arena_take(pool, (size_t)n + 1, 1) : NULL;
    if (p != NULL) {
        (void)vsnprintf(p, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    va_end(ap);
    return p;
}

enum gr_status gr_arena_none_left(struct gr_err *err)
{
    return gr_fail(err, GR_ERR_NOMEM, "no memory to read a manifest");
}

const char *gr_node_kind_name(enum gr_node_kind kind)
{
    static const char *const names[] = {
        [GR_NODE_NULL] = "null",     [GR_NODE_BOOL] = "a boolean", [GR_NODE_INT] = "an integer",
        [GR_NODE_REAL] = "a number", [GR_NODE_DATE] = "a date",    [GR_NODE_STRING] = "a string",
        [GR_NODE_LIST] = "a list",   [GR_NODE_MAP] = "a mapping",
    };
    return names[kind];
}

static int find(const struct gr_node *map, const char *key)
{
    for (int i = 0; map != NULL && map->kind == GR_NODE_MAP && i < map->n; i++) {
        if (map->keys[i]->kind == GR_NODE_STRING && strcmp(map->keys[i]->text, key) == 0) {
            return i;
        }
    }
    return -1;
}

const struct gr_node *gr_node_get(const struct gr_node *map, const char *key)
{
    const int i = find(map, key);
    return i >= 0 ? map->items[i] : NULL;
}

/* ---- from JSON; its reader bounds the depth ---- */

static enum gr_status from_scalar(struct gr_arena *pool, const struct gr_json *json, struct gr_node *node,
                                  struct gr_err *err)
{
    char number[32] = "";
    const char *text = number;
    switch (gr_json_kind(json)) {
    case GR_JSON_BOOL:
        node->kind = GR_NODE_BOOL;
        node->boolean = gr_json_bool(json);
        text = node->boolean ? "true" : "false";
        break;
    case GR_JSON_INT:
        node->kind = GR_NODE_INT;
        node->integer = gr_json_int(json);
        (void)snprintf(number, sizeof number, "%" PRId64, node->integer);
        break;
    case GR_JSON_REAL:
        node->kind = GR_NODE_REAL;
        node->real = gr_json_number(json);
        (void)gr_format_f64(number, node->real);
        break;
    case GR_JSON_STRING:
        node->kind = GR_NODE_STRING;
        text = gr_json_string(json);
        break;
    default:
        node->kind = GR_NODE_NULL;
        break;
    }
    node->text = gr_arena_text(pool, text, strlen(text));
    return node->text != NULL ? GR_OK : gr_arena_none_left(err);
}

static enum gr_status from_key(struct gr_arena *pool, const char *key, const struct gr_node **out, struct gr_err *err)
{
    struct gr_node *node = gr_arena_take(pool, 1, sizeof *node);
    if (node == NULL || (node->text = gr_arena_text(pool, key, strlen(key))) == NULL) {
        return gr_arena_none_left(err);
    }
    node->kind = GR_NODE_STRING;
    node->size = 1;
    *out = node;
    return GR_OK;
}

static enum gr_status from_items(struct gr_arena *pool, const struct gr_json *json, const char *what,
                                 struct gr_node *node, struct gr_err *err)
{
    const size_t n = gr_json_len(json);
    node->kind = gr_json_kind(json) == GR_JSON_ARRAY ? GR_NODE_LIST : GR_NODE_MAP;
    if (n > GR_NODES_MAX || (node->kind == GR_NODE_MAP && n > GR_NODE_ENTRIES_MAX)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: a list or mapping of %zu entries, at most %d and %d are read", what, n,
                       (int)GR_NODES_MAX, (int)GR_NODE_ENTRIES_MAX);
    }
    node->items = gr_arena_take(pool, n, sizeof *node->items);
    node->keys = gr_arena_take(pool, node->kind == GR_NODE_MAP ? n : 0, sizeof *node->keys);
    if (node->items == NULL || node->keys == NULL) {
        return gr_arena_none_left(err);
    }
    void *it = gr_json_first(json);
    for (; (size_t)node->n < n; node->n++) {
        const int i = node->n;
        if (node->kind == GR_NODE_LIST) {
            GR_TRY(gr_node_from_json(pool, gr_json_at(json, (size_t)i), what, &node->items[i], err));
        } else {
            GR_TRY(from_key(pool, gr_json_key(it), &node->keys[i], err));
            GR_TRY(gr_node_from_json(pool, gr_json_value(it), what, &node->items[i], err));
            it = gr_json_next(json, it);
        }
        node->size += node->items[i]->size;
    }
    return GR_OK;
}

enum gr_status gr_node_from_json(struct gr_arena *pool, const struct gr_json *json, const char *what,
                                 const struct gr_node **out, struct gr_err *err)
{
    struct gr_node *node = gr_arena_take(pool, 1, sizeof *node);
    if (node == NULL) {
        return gr_arena_none_left(err);
    }
    node->size = 1;
    const enum gr_json_kind kind = gr_json_kind(json);
    if (kind == GR_JSON_ARRAY || kind == GR_JSON_OBJECT) {
        GR_TRY(from_items(pool, json, what, node, err));
    } else {
        GR_TRY(from_scalar(pool, json, node, err));
    }
    *out = node;
    return GR_OK;
}

/* ---- to JSON ---- */

void gr_node_put_real(struct gr_buf *out, double value)
{
    char text[32];
    (void)gr_format_f64(text, value);
    gr_buf_puts(out, text);
    gr_buf_puts(out, strpbrk(text, ".e") == NULL ? ".0" : "");
}

static const struct gr_node *put_items(const struct gr_node *node, struct gr_buf *out)
{
    const bool map = node->kind == GR_NODE_MAP;
    gr_buf_puts(out, map ? "{" : "[");
    for (int i = 0; i < node->n; i++) {
        gr_buf_puts(out, i > 0 ? "," : "");
        if (map) {
            if (node->keys[i]->kind != GR_NODE_STRING) {
                return node->keys[i];
            }
            gr_buf_json_string(out, node->keys[i]->text);
            gr_buf_puts(out, ":");
        }
        const struct gr_node *fault = gr_node_to_json(node->items[i], out);
        if (fault != NULL) {
            return fault;
        }
    }
    gr_buf_puts(out, map ? "}" : "]");
    return NULL;
}

const struct gr_node *gr_node_to_json(const struct gr_node *node, struct gr_buf *out)
{
    switch (node->kind) {
    case GR_NODE_NULL:
        gr_buf_puts(out, "null");
        return NULL;
    case GR_NODE_BOOL:
        gr_buf_puts(out, node->boolean ? "true" : "false");
        return NULL;
    case GR_NODE_INT:
        gr_buf_printf(out, "%" PRId64, node->integer);
        return NULL;
    case GR_NODE_REAL:
        if (!isfinite(node->real)) {
            return node;
        }
        gr_node_put_real(out, node->real);
        return NULL;
    case GR_NODE_DATE:
        return node;
    case GR_NODE_STRING:
        gr_buf_json_string(out, node->text);
        return NULL;
    case GR_NODE_LIST:
    case GR_NODE_MAP:
        break;
    }
    return put_items(node, out);
}
