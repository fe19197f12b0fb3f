/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest_parts.c: typed values out of a manifest's tree, each refusal with its place and key, and the texts that are safe as names and paths. */
#include "package/manifest_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

enum { HINT_EDITS = 2, WORD_BYTES_MAX = 4096 };

enum gr_status gr_field_refuse(const struct gr_reading *r, const struct gr_node *at, const char *where, const char *key,
                               const char *fmt, ...)
{
    char why[GR_ERR_MSG_BYTES], place[32] = "";
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (at != NULL && at->line > 0) {
        (void)snprintf(place, sizeof place, ":%d:%d", at->line, at->column);
    }
    where = where != NULL ? where : "";
    key = key != NULL ? key : "";
    return gr_fail(r->err, GR_ERR_FORMAT, "%s%s: %s%s%.100s%s%s", r->file, place, where,
                   where[0] != '\0' && key[0] != '\0' ? "." : "", key, where[0] != '\0' || key[0] != '\0' ? ": " : "",
                   why);
}

static bool is_unquoted(const struct gr_node *node)
{
    return node->kind == GR_NODE_BOOL || node->kind == GR_NODE_INT || node->kind == GR_NODE_REAL ||
           node->kind == GR_NODE_DATE;
}

static enum gr_status wrong_type(const struct gr_reading *r, const struct gr_node *node, const char *where,
                                 const char *key, const char *expected)
{
    if (node->line > 0 && is_unquoted(node) && strstr(expected, "string") != NULL) {
        return gr_field_refuse(r, node, where, key, "expected %s, found %s: quote it, \"%.60s\"", expected,
                               gr_node_kind_name(node->kind), node->text);
    }
    return gr_field_refuse(r, node, where, key, "expected %s, found %s", expected, gr_node_kind_name(node->kind));
}

static enum gr_status missing(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                              const char *expected)
{
    return gr_field_refuse(r, map, where, key, "required, not given; expected %s", expected);
}

/* The value when it is there; *out NULL when it is not and need not be. */
static enum gr_status look_up(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                              int flags, const char *expected, const struct gr_node **out)
{
    const struct gr_node *node = gr_node_get(map, key);
    *out = node;
    if (node == NULL) {
        return flags & GR_REQUIRED ? missing(r, map, where, key, expected) : GR_OK;
    }
    if (node->kind == GR_NODE_NULL) {
        *out = NULL;
        return flags & GR_NULLABLE ? GR_OK : wrong_type(r, node, where, key, expected);
    }
    return GR_OK;
}

enum gr_status gr_field_need_map(const struct gr_reading *r, const struct gr_node *node, const struct gr_node *parent,
                                 const char *where, const char *key)
{
    if (node == NULL) {
        return missing(r, parent, where, key, "a mapping");
    }
    return node->kind == GR_NODE_MAP ? GR_OK : wrong_type(r, node, where, key, "a mapping");
}

static const char *name_at(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

enum gr_status gr_field_need_known(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                   const char *const *known)
{
    int n_known = 0;
    while (known[n_known] != NULL) {
        n_known++;
    }
    for (int i = 0; i < map->n; i++) {
        const struct gr_node *key = map->keys[i];
        bool found = false;
        for (int k = 0; k < n_known && key->kind == GR_NODE_STRING; k++) {
            found = found || strcmp(key->text, known[k]) == 0;
        }
        if (found) {
            continue;
        }
        const char *near = gr_nearest(key->text, HINT_EDITS, name_at, known, n_known);
        if (near != NULL) {
            return gr_field_refuse(r, key, where, key->text, "unknown key, did you mean %s?", near);
        }
        struct gr_buf list = {0};
        for (int k = 0; k < n_known; k++) {
            gr_buf_printf(&list, "%s%s", k > 0 ? ", " : "", known[k]);
        }
        const enum gr_status status = gr_field_refuse(r, key, where, key->text, "unknown key, expected %s",
                                                      list.data != NULL ? list.data : "another one");
        gr_buf_free(&list);
        return status;
    }
    return GR_OK;
}

enum gr_status gr_field_string(const struct gr_reading *r, const struct gr_node *map, const char *where,
                               const char *key, int flags, const char **out)
{
    const struct gr_node *node;
    *out = NULL;
    GR_TRY(look_up(r, map, where, key, flags, "a string", &node));
    if (node != NULL && node->kind != GR_NODE_STRING) {
        return wrong_type(r, node, where, key, "a string");
    }
    *out = node != NULL ? node->text : NULL;
    return GR_OK;
}

static bool is_clean(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

enum gr_status gr_field_word(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                             int flags, const char **out)
{
    GR_TRY(gr_field_string(r, map, where, key, flags, out));
    if (*out != NULL && (**out == '\0' || strlen(*out) > WORD_BYTES_MAX || !is_clean(*out))) {
        return gr_field_refuse(r, gr_node_get(map, key), where, key,
                               "expected 1 to %d bytes without control characters, found %zu", (int)WORD_BYTES_MAX,
                               strlen(*out));
    }
    return GR_OK;
}

/* [+-]?[0-9]+ */
static bool is_decimal(const char *text)
{
    text += *text == '+' || *text == '-';
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

enum gr_status gr_field_int(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                            int flags, int64_t min, int64_t max, int64_t *out)
{
    const struct gr_node *node;
    *out = -1;
    GR_TRY(look_up(r, map, where, key, flags, "an integer", &node));
    if (node == NULL) {
        return GR_OK;
    }
    double value;
    if (node->kind == GR_NODE_INT) {
        value = (double)node->integer;
    } else if (node->kind == GR_NODE_REAL && isfinite(node->real) && node->real == floor(node->real)) {
        value = node->real;
    } else if (node->kind == GR_NODE_STRING && is_decimal(node->text)) {
        value = strtod(node->text, NULL);
    } else {
        return wrong_type(r, node, where, key, "an integer");
    }
    if (value < (double)min || value > (double)max) { /* both are exact in a double */
        return gr_field_refuse(r, node, where, key, "expected %lld to %lld, found %.40s", (long long)min,
                               (long long)max, node->text);
    }
    *out = (int64_t)value;
    return GR_OK;
}

enum gr_status gr_field_list(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                             int flags, const struct gr_node **out)
{
    GR_TRY(look_up(r, map, where, key, flags, "a list", out));
    return *out == NULL || (*out)->kind == GR_NODE_LIST ? GR_OK : wrong_type(r, *out, where, key, "a list");
}

enum gr_status gr_field_few(const struct gr_reading *r, const struct gr_node *map, const char *where, const char *key,
                            int flags, const struct gr_node **out)
{
    GR_TRY(gr_field_list(r, map, where, key, flags, out));
    return *out == NULL || (*out)->n <= GR_FIELD_FEW
               ? GR_OK
               : gr_field_refuse(r, *out, where, key, "expected at most %d entries, found %d", (int)GR_FIELD_FEW,
                                 (*out)->n);
}

enum gr_status gr_field_strings(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                const char *key, int flags, struct gr_strings *out, bool *given)
{
    const struct gr_node *list;
    *out = (struct gr_strings){0};
    GR_TRY(gr_field_list(r, map, where, key, flags, &list));
    if (given != NULL) {
        *given = list != NULL;
    }
    if (list == NULL) {
        return GR_OK;
    }
    if ((out->items = gr_arena_take(r->pool, (size_t)list->n, sizeof *out->items)) == NULL) {
        return gr_arena_none_left(r->err);
    }
    for (int i = 0; i < list->n; i++) {
        if (list->items[i]->kind != GR_NODE_STRING) {
            return wrong_type(r, list->items[i], where, gr_field_at(r, key, i), "a string");
        }
        out->items[out->n++] = list->items[i]->text;
    }
    return GR_OK;
}

const char *gr_field_at(const struct gr_reading *r, const char *where, int index)
{
    const char *text = gr_arena_printf(r->pool, "%s[%d]", where, index);
    return text != NULL ? text : where;
}

/* ---- texts ---- */

static const char name_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";

static bool is_name_part(const char *text, size_t n)
{
    return n > 0 && text[0] != '.' && strspn(text, name_letters) >= n;
}

bool gr_is_repo_id(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash != NULL && strlen(text) < 200 && is_name_part(text, (size_t)(slash - text)) &&
           is_name_part(slash + 1, strlen(slash + 1)) && strstr(text, "..") == NULL && strstr(text, "--") == NULL;
}

bool gr_is_revision_name(const char *text)
{
    const size_t n = strlen(text);
    if (n == 0 || n >= 200 || strstr(text, "..") != NULL) {
        return false;
    }
    for (const char *part = text;;) {
        const size_t length = strcspn(part, "/");
        if (!is_name_part(part, length) || part[0] == '-') {
            return false;
        }
        if (part[length] == '\0') {
            return true;
        }
        part += length + 1;
    }
}

bool gr_is_inner_path(const char *text)
{
    if (*text == '\0' || *text == '/' || strlen(text) >= 1024 || !is_clean(text)) {
        return false;
    }
    for (const char *part = text; part != NULL;) {
        const size_t n = strcspn(part, "/");
        if (n > 255 || (n == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        part = part[n] != '\0' ? part + n + 1 : NULL;
    }
    return true;
}

bool gr_is_profile_name(const char *text)
{
    return strlen(text) < 128 && is_name_part(text, strlen(text)) && text[0] != '-' && text[0] != '_' &&
           strstr(text, "..") == NULL;
}

bool gr_is_image_name(const char *text)
{
    return *text != '-' && *text != '\0' && strlen(text) < 512 && strstr(text, "..") == NULL &&
           text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:@")] == '\0';
}

bool gr_is_variable_name(const char *text)
{
    return *text != '\0' && strchr("0123456789", *text) == NULL &&
           text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

bool gr_is_env_name(const char *text) { return *text != '\0' && strchr(text, '=') == NULL && is_clean(text); }
