/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml.c: events of libyaml, which is known to this file only, to a tree of nodes. libyaml keeps its own stack; ours recurses and stops at a
 * depth. An alias puts the same node into a second place: a node's `size` counts what a walk over it will meet, and is what is bounded. */
#include "package/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { ANCHORS_MAX = 1024 };

struct anchor {
    const char *name;
    const struct gr_node *node; /* NULL: still being read */
};
struct builder {
    yaml_parser_t parser;
    struct gr_arena *pool;
    const char *text, *what;
    size_t n;
    struct gr_err *err;
    struct anchor anchors[ANCHORS_MAX];
    int n_anchors, nodes;
    size_t seen, seen_chars; /* byte and character up to which tabs were looked for */
};
/* Entries of a list or mapping while it is read. */
struct entry {
    const struct gr_node *key, *item; /* key NULL in a list */
};
struct entries {
    struct entry *all;
    int n, cap;
};

static enum gr_status refuse(struct builder *b, yaml_mark_t at, const char *why)
{
    return gr_fail(b->err, GR_ERR_FORMAT, "%s:%zu:%zu: %s", b->what, at.line + 1, at.column + 1, why);
}

/* Place of a byte, for faults that come before there are tokens. */
static yaml_mark_t place_of(const struct builder *b, size_t at)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < at && i < b->n; i++) {
        if (b->text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)b->text[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static enum gr_status report(struct builder *b)
{
    const yaml_parser_t *p = &b->parser;
    const char *problem = p->problem != NULL ? p->problem : "unreadable";
    if (p->error == YAML_MEMORY_ERROR) {
        return gr_arena_none_left(b->err);
    }
    if (p->error == YAML_READER_ERROR) {
        const yaml_mark_t at = place_of(b, p->problem_offset);
        return gr_fail(b->err, GR_ERR_FORMAT, "%s:%zu:%zu: not valid YAML: %s", b->what, at.line + 1, at.column + 1,
                       problem);
    }
    if (p->context != NULL) {
        return gr_fail(b->err, GR_ERR_FORMAT, "%s:%zu:%zu: not valid YAML: %s, %s from %zu:%zu", b->what,
                       p->problem_mark.line + 1, p->problem_mark.column + 1, problem, p->context,
                       p->context_mark.line + 1, p->context_mark.column + 1);
    }
    return gr_fail(b->err, GR_ERR_FORMAT, "%s:%zu:%zu: not valid YAML: %s", b->what, p->problem_mark.line + 1,
                   p->problem_mark.column + 1, problem);
}

/* NULL: refused, b->err says why. */
static struct gr_node *new_node(struct builder *b, yaml_mark_t at, enum gr_node_kind kind)
{
    if (++b->nodes > GR_NODES_MAX) {
        (void)refuse(b, at, "more than 65536 values in one document");
        return NULL;
    }
    struct gr_node *node = gr_arena_take(b->pool, 1, sizeof *node);
    if (node == NULL) {
        (void)gr_arena_none_left(b->err);
        return NULL;
    }
    node->kind = kind;
    node->line = (int)at.line + 1; /* the text has at most 1 MiB */
    node->column = (int)at.column + 1;
    node->size = 1;
    return node;
}

/* ---- tabs ---- */

/* libyaml takes tabs as blanks between values, PyYAML takes them nowhere but in quotes, block texts and comments: what it refuses must not pass
 * here. Looks at the characters from where it stopped last up to `until`; those before `from` (inside a quoted or block text) are free. */
static enum gr_status check_tabs(struct builder *b, size_t from, size_t until)
{
    bool comment = false;
    char before = '\n';
    for (; b->seen < b->n && b->seen_chars < until; b->seen++) {
        const char c = b->text[b->seen];
        if (((unsigned char)c & 0xc0) == 0x80) {
            continue; /* not the first byte of its character */
        }
        if (b->seen_chars < from) {
            comment = c != '\n' && (comment || (c == '#' && (before == ' ' || before == '\n')));
            if (c == '\t' && !comment) {
                return refuse(b, place_of(b, b->seen), "a tab between values, expected blanks");
            }
        }
        before = c;
        b->seen_chars++;
    }
    return GR_OK;
}

static enum gr_status check_tabs_to(struct builder *b, const yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT && event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return check_tabs(b, event->start_mark.index, event->end_mark.index);
    }
    return event->type == YAML_STREAM_END_EVENT ? check_tabs(b, SIZE_MAX, SIZE_MAX) : GR_OK;
}

static enum gr_status next(struct builder *b, yaml_event_t *event)
{
    if (yaml_parser_parse(&b->parser, event) == 0) {
        return report(b);
    }
    const enum gr_status status = check_tabs_to(b, event);
    if (status != GR_OK) {
        yaml_event_delete(event);
    }
    return status;
}

/* ---- anchors ---- */

static const struct anchor *find_anchor(const struct builder *b, const char *name)
{
    for (int i = 0; i < b->n_anchors; i++) {
        if (strcmp(b->anchors[i].name, name) == 0) {
            return &b->anchors[i];
        }
    }
    return NULL;
}

static enum gr_status set_anchor(struct builder *b, const yaml_char_t *name, yaml_mark_t at, int *index)
{
    *index = -1;
    if (name == NULL) {
        return GR_OK;
    }
    if (b->n_anchors == ANCHORS_MAX) {
        return refuse(b, at, "more than 1024 anchors in one document");
    }
    if (find_anchor(b, (const char *)name) != NULL) {
        return gr_fail(b->err, GR_ERR_FORMAT, "%s:%zu:%zu: anchor &%s is there already", b->what, at.line + 1,
                       at.column + 1, (const char *)name);
    }
    struct anchor *a = &b->anchors[b->n_anchors];
    a->node = NULL;
    if ((a->name = gr_arena_text(b->pool, (const char *)name, strlen((const char *)name))) == NULL) {
        return gr_arena_none_left(b->err);
    }
    *index = b->n_anchors++;
    return GR_OK;
}

static enum gr_status read_alias(struct builder *b, const yaml_event_t *event, const struct gr_node **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *a = find_anchor(b, name);
    if (a != NULL) {
        *out = a->node;
        return a->node != NULL ? GR_OK : refuse(b, event->start_mark, "an alias inside the value that it stands for");
    }
    return gr_fail(b->err, GR_ERR_FORMAT, "%s:%zu:%zu: alias *%s has no anchor before it", b->what,
                   event->start_mark.line + 1, event->start_mark.column + 1, name);
}

/* ---- scalars ---- */

/* NULL: none, or "!", which means that the text decides. */
static const char *tag_of(const yaml_char_t *tag)
{
    return tag != NULL && strcmp((const char *)tag, "!") != 0 ? (const char *)tag : NULL;
}

static bool is_plain(const yaml_event_t *event, const char *text)
{
    return event->type == YAML_SCALAR_EVENT && event->data.scalar.plain_implicit && event->data.scalar.tag == NULL &&
           strcmp((const char *)event->data.scalar.value, text) == 0;
}

/* A scalar with a tag: its text must mean what the tag says. */
static enum gr_status apply_tag(struct builder *b, const yaml_event_t *event, struct gr_node *node)
{
    static const struct {
        const char *tag;
        enum gr_node_kind kind;
    } tags[] = {{YAML_NULL_TAG, GR_NODE_NULL},  {YAML_BOOL_TAG, GR_NODE_BOOL},      {YAML_INT_TAG, GR_NODE_INT},
                {YAML_FLOAT_TAG, GR_NODE_REAL}, {YAML_TIMESTAMP_TAG, GR_NODE_DATE}, {YAML_STR_TAG, GR_NODE_STRING}};
    const char *tag = (const char *)event->data.scalar.tag;
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (strcmp(tag, tags[i].tag) != 0) {
            continue;
        }
        if (tags[i].kind == GR_NODE_STRING) {
            node->kind = GR_NODE_STRING;
            return GR_OK;
        }
        const bool read = gr_yaml_resolve(node->text, node);
        if (tags[i].kind == GR_NODE_REAL && node->kind == GR_NODE_INT) {
            node->kind = GR_NODE_REAL; /* `real` is set for integers too */
        }
        if (read && node->kind == tags[i].kind) {
            return GR_OK;
        }
        return gr_fail(b->err, GR_ERR_FORMAT, "%s:%d:%d: \"%.80s\" is not %s, as its tag says", b->what, node->line,
                       node->column, node->text, gr_node_kind_name(tags[i].kind));
    }
    return gr_fail(b->err, GR_ERR_FORMAT, "%s:%d:%d: tag %.80s: only the core types of YAML are read", b->what,
                   node->line, node->column, tag);
}

static enum gr_status read_scalar(struct builder *b, const yaml_event_t *event, struct gr_node *node)
{
    const char *value = (const char *)event->data.scalar.value;
    if (strlen(value) != event->data.scalar.length) {
        return refuse(b, event->start_mark, "a NUL character in a text");
    }
    if ((node->text = gr_arena_text(b->pool, value, event->data.scalar.length)) == NULL) {
        return gr_arena_none_left(b->err);
    }
    if (tag_of(event->data.scalar.tag) != NULL) {
        return apply_tag(b, event, node);
    }
    if ((event->data.scalar.plain_implicit || event->data.scalar.tag != NULL) && !gr_yaml_resolve(node->text, node)) {
        return gr_fail(b->err, GR_ERR_FORMAT,
                       "%s:%d:%d: \"%.80s\" cannot be read as a number; quote it if it is a text", b->what, node->line,
                       node->column, node->text);
    }
    return GR_OK;
}

/* ---- lists and mappings ---- */

static enum gr_status append(struct builder *b, struct entries *e, const struct gr_node *key,
                             const struct gr_node *item)
{
    if (e->n == e->cap) {
        const int cap = e->cap > 0 ? e->cap * 2 : 16;
        struct entry *all = realloc(e->all, (size_t)cap * sizeof *all);
        if (all == NULL) {
            return gr_arena_none_left(b->err);
        }
        e->all = all;
        e->cap = cap;
    }
    e->all[e->n++] = (struct entry){key, item};
    return GR_OK;
}

static int find_key(const struct entries *e, const struct gr_node *key)
{
    for (int i = 0; i < e->n; i++) {
        if (e->all[i].key->kind == key->kind && strcmp(e->all[i].key->text, key->text) == 0) {
            return i;
        }
    }
    return -1;
}

static enum gr_status put(struct builder *b, struct entries *e, const struct gr_node *key, const struct gr_node *item)
{
    const int i = find_key(e, key);
    if (i >= 0) {
        e->all[i] = (struct entry){key, item};
        return GR_OK;
    }
    return append(b, e, key, item);
}

/* Copies the entries into the node and bounds what a walk over it meets. */
static enum gr_status settle(struct builder *b, yaml_mark_t at, const struct entries *e, struct gr_node *node)
{
    if (node->kind == GR_NODE_MAP && e->n > GR_NODE_ENTRIES_MAX) {
        return refuse(b, at, "more than 1024 keys in one mapping");
    }
    node->n = e->n;
    node->items = gr_arena_take(b->pool, (size_t)e->n, sizeof *node->items);
    node->keys = gr_arena_take(b->pool, (size_t)e->n, sizeof *node->keys);
    if (node->items == NULL || node->keys == NULL) {
        return gr_arena_none_left(b->err);
    }
    for (int i = 0; i < e->n; i++) {
        node->items[i] = e->all[i].item;
        node->keys[i] = e->all[i].key;
        node->size += e->all[i].item->size;
        if (node->size > GR_NODES_MAX) {
            return refuse(b, at, "aliases make this value larger than 65536 values");
        }
    }
    return GR_OK;
}

static enum gr_status build(struct builder *b, yaml_event_t *event, int depth, const struct gr_node **out);

static enum gr_status read_next(struct builder *b, int depth, const struct gr_node **out)
{
    yaml_event_t event;
    GR_TRY(next(b, &event));
    const enum gr_status status = build(b, &event, depth, out);
    yaml_event_delete(&event);
    return status;
}

static enum gr_status merge_one(struct builder *b, struct entries *e, const struct gr_node *from)
{
    if (from->kind != GR_NODE_MAP) {
        return gr_fail(b->err, GR_ERR_FORMAT, "%s:%d:%d: <<: expected a mapping or a list of mappings, found %s",
                       b->what, from->line, from->column, gr_node_kind_name(from->kind));
    }
    for (int i = 0; i < from->n; i++) {
        GR_TRY(put(b, e, from->keys[i], from->items[i]));
    }
    return GR_OK;
}

/* What `<<` brings comes first and gives way to the mapping's own keys; of a list the first mapping wins. */
static enum gr_status merge(struct builder *b, const struct gr_node *from, const struct entries *own,
                            struct entries *all)
{
    if (from->kind == GR_NODE_LIST) {
        for (int i = from->n - 1; i >= 0; i--) {
            GR_TRY(merge_one(b, all, from->items[i]));
        }
    } else {
        GR_TRY(merge_one(b, all, from));
    }
    for (int i = 0; i < own->n; i++) {
        GR_TRY(put(b, all, own->all[i].key, own->all[i].item));
    }
    return GR_OK;
}

static enum gr_status read_key(struct builder *b, yaml_event_t *event, int depth, const struct gr_node **out)
{
    if (is_plain(event, "<<") || is_plain(event, "=")) { /* as values they are refused, as keys they are words */
        struct gr_node *node = new_node(b, event->start_mark, GR_NODE_STRING);
        if (node == NULL) {
            return b->err->code;
        }
        node->text = is_plain(event, "=") ? "=" : "<<";
        *out = node;
        return GR_OK;
    }
    GR_TRY(build(b, event, depth, out));
    if ((*out)->kind == GR_NODE_LIST || (*out)->kind == GR_NODE_MAP) {
        return refuse(b, event->start_mark, "a list or mapping as a key");
    }
    return GR_OK;
}

/* One entry, its key being `event`. */
static enum gr_status read_entry(struct builder *b, yaml_event_t *event, int depth, struct entries *own,
                                 const struct gr_node **merged)
{
    const struct gr_node *key = NULL, *item = NULL;
    const bool is_merge = is_plain(event, "<<");
    GR_TRY(read_key(b, event, depth, &key));
    const int before = find_key(own, key);
    if (before >= 0 || (is_merge && *merged != NULL)) {
        const struct gr_node *first = before >= 0 ? own->all[before].key : *merged;
        return gr_fail(b->err, GR_ERR_FORMAT, "%s:%d:%d: %s: key given twice, first at %d:%d", b->what, key->line,
                       key->column, key->text, first->line, first->column);
    }
    if (own->n >= GR_NODE_ENTRIES_MAX) {
        return refuse(b, event->start_mark, "more than 1024 keys in one mapping");
    }
    GR_TRY(read_next(b, depth, &item));
    if (is_merge) {
        *merged = item;
        return GR_OK;
    }
    return append(b, own, key, item);
}

static enum gr_status read_items(struct builder *b, const yaml_event_t *start, int depth, struct gr_node *node)
{
    const bool map = node->kind == GR_NODE_MAP;
    struct entries own = {0}, all = {0};
    const struct gr_node *merged = NULL;
    enum gr_status status = GR_OK;
    for (bool end = false; !end && status == GR_OK;) {
        yaml_event_t event;
        if ((status = next(b, &event)) != GR_OK) {
            break;
        }
        if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) {
            end = true;
        } else if (map) {
            status = read_entry(b, &event, depth + 1, &own, &merged);
        } else {
            const struct gr_node *item = NULL;
            if ((status = build(b, &event, depth + 1, &item)) == GR_OK) {
                status = append(b, &own, NULL, item);
            }
        }
        yaml_event_delete(&event);
    }
    if (status == GR_OK && merged != NULL && (status = merge(b, merged, &own, &all)) == GR_OK) {
        status = settle(b, start->start_mark, &all, node);
    } else if (status == GR_OK) {
        status = settle(b, start->start_mark, &own, node);
    }
    free(own.all);
    free(all.all);
    return status;
}

static enum gr_status build_collection(struct builder *b, yaml_event_t *event, int depth, struct gr_node *node)
{
    const bool map = node->kind == GR_NODE_MAP;
    const char *tag = tag_of(map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
    if (tag != NULL && strcmp(tag, map ? YAML_MAP_TAG : YAML_SEQ_TAG) != 0) {
        return refuse(b, event->start_mark, "a tag on a list or mapping: only the core types of YAML are read");
    }
    return read_items(b, event, depth, node);
}

static enum gr_status build(struct builder *b, yaml_event_t *event, int depth, const struct gr_node **out)
{
    int anchor;
    if (depth > GR_NODE_DEPTH_MAX) {
        return refuse(b, event->start_mark, "nested deeper than 60 levels");
    }
    if (event->type == YAML_ALIAS_EVENT) {
        return read_alias(b, event, out);
    }
    if (is_plain(event, "<<") || is_plain(event, "=")) {
        return refuse(b, event->start_mark, "<< or = as a value, quote it if it is a text");
    }
    const bool scalar = event->type == YAML_SCALAR_EVENT, map = event->type == YAML_MAPPING_START_EVENT;
    struct gr_node *node = new_node(b, event->start_mark, scalar ? GR_NODE_STRING : map ? GR_NODE_MAP : GR_NODE_LIST);
    if (node == NULL) {
        return b->err->code;
    }
    GR_TRY(set_anchor(b,
                      scalar ? event->data.scalar.anchor
                      : map  ? event->data.mapping_start.anchor
                             : event->data.sequence_start.anchor,
                      event->start_mark, &anchor));
    GR_TRY(scalar ? read_scalar(b, event, node) : build_collection(b, event, depth, node));
    if (anchor >= 0) {
        b->anchors[anchor].node = node;
    }
    *out = node;
    return GR_OK;
}

/* ---- the document ---- */

static enum gr_status read_document(struct builder *b, const struct gr_node **root)
{
    struct gr_node *nothing = new_node(b, (yaml_mark_t){0}, GR_NODE_NULL);
    if (nothing == NULL) {
        return b->err->code;
    }
    nothing->text = "";
    *root = nothing;
    for (int documents = 0;;) {
        yaml_event_t event;
        GR_TRY(next(b, &event));
        const yaml_event_type_t type = event.type;
        enum gr_status status = GR_OK;
        if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1) {
            status = refuse(b, event.start_mark, "a second document, expected one");
        }
        yaml_event_delete(&event);
        if (status == GR_OK && type == YAML_DOCUMENT_START_EVENT) {
            status = read_next(b, 0, root);
        }
        if (status != GR_OK || type == YAML_STREAM_END_EVENT) {
            return status;
        }
    }
}

enum gr_status gr_yaml_parse(struct gr_arena *pool, const char *text, size_t n, const char *what,
                             const struct gr_node **root, struct gr_err *err)
{
    if (n > GR_YAML_BYTES_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %zu bytes, at most 1 MiB is read", what, n);
    }
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, which libyaml would count as a column */
        text += 3;
        n -= 3;
    }
    struct builder *b = calloc(1, sizeof *b);
    if (b == NULL || yaml_parser_initialize(&b->parser) == 0) {
        free(b);
        return gr_arena_none_left(err);
    }
    b->pool = pool;
    b->text = text;
    b->n = n;
    b->what = what;
    b->err = err;
    yaml_parser_set_encoding(&b->parser, YAML_UTF8_ENCODING); /* else a mark at the start chooses UTF-16 */
    yaml_parser_set_input_string(&b->parser, (const unsigned char *)text, n);
    const enum gr_status status = read_document(b, root);
    yaml_parser_delete(&b->parser);
    free(b);
    return status;
}
