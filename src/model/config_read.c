/* SPDX-License-Identifier: Apache-2.0
 *
 * config_read.c: rules over JSON objects, and the memory of a config.
 * In: a parsed object and a table of rules. Out: values at the rule's address, the list of unknown keys, or a message.
 * All strings and tables are copies: nothing points into the JSON document. */
#include "model/config_read.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"

/* Every piece of memory is in one list, so that freeing does not depend on how far reading got. */
struct block {
    struct block *next;
    _Alignas(16) unsigned char bytes[];
};

struct config_box {
    struct gr_config cfg; /* first: a gr_config pointer is a config_box pointer */
    struct block *blocks;
    int ignored_cap;
};

static struct config_box *box_of(struct gr_config *cfg) { return (struct config_box *)cfg; }

enum gr_status gr_config_new(struct gr_config **out, struct gr_err *err)
{
    struct config_box *box = calloc(1, sizeof *box);
    if (box == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the configuration");
    }
    *out = &box->cfg;
    return GR_OK;
}

void gr_config_free(struct gr_config *cfg)
{
    if (cfg == NULL) {
        return;
    }
    struct config_box *box = box_of(cfg);
    for (struct block *b = box->blocks; b != NULL;) {
        struct block *next = b->next;
        free(b);
        b = next;
    }
    free(box);
}

void *gr_config_alloc(struct gr_config *cfg, size_t n, size_t bytes, struct gr_err *err)
{
    size_t total = 0;
    struct block *b = NULL;
    if (gr_size_mul(n, bytes, &total) && gr_size_add(total, sizeof *b, &total)) {
        b = calloc(1, total);
    }
    if (b == NULL) {
        (void)gr_fail(err, GR_ERR_NOMEM, "no memory for the configuration (%zu x %zu bytes)", n, bytes);
        return NULL;
    }
    struct config_box *box = box_of(cfg);
    b->next = box->blocks;
    box->blocks = b;
    return b->bytes;
}

const char *gr_config_copy(struct gr_config *cfg, const char *text, struct gr_err *err)
{
    size_t n = strlen(text) + 1;
    char *copy = gr_config_alloc(cfg, n, 1, err);
    if (copy != NULL) {
        memcpy(copy, text, n);
    }
    return copy;
}

/* Doubling without realloc: the outgrown arrays stay in the list of blocks, which costs as much again and no more. */
static enum gr_status list_ignored(const struct gr_scope *s, const char *key, struct gr_err *err)
{
    struct gr_config *cfg = s->cfg;
    struct config_box *box = box_of(cfg);
    if (cfg->n_ignored == box->ignored_cap) {
        int cap = box->ignored_cap == 0 ? 16 : 2 * box->ignored_cap;
        const char **grown = gr_config_alloc(cfg, (size_t)cap, sizeof *grown, err);
        if (grown == NULL) {
            return GR_ERR_NOMEM;
        }
        if (cfg->n_ignored > 0) {
            memcpy(grown, cfg->ignored, (size_t)cfg->n_ignored * sizeof *grown);
        }
        cfg->ignored = grown;
        box->ignored_cap = cap;
    }
    char text[512];
    (void)snprintf(text, sizeof text, "%s: %s%s", s->file, s->path, key);
    const char *copy = gr_config_copy(cfg, text, err);
    if (copy == NULL) {
        return GR_ERR_NOMEM;
    }
    cfg->ignored[cfg->n_ignored++] = copy;
    return GR_OK;
}

/* ---------------------------------------------------------------------------------------------- messages */

static void describe(const struct gr_json *v, char *out, size_t cap)
{
    if (v == NULL) {
        (void)snprintf(out, cap, "missing");
        return;
    }
    switch (gr_json_kind(v)) {
    case GR_JSON_BOOL:
        (void)snprintf(out, cap, "%s", gr_json_bool(v) ? "true" : "false");
        break;
    case GR_JSON_INT:
        (void)snprintf(out, cap, "%lld", (long long)gr_json_int(v));
        break;
    case GR_JSON_REAL:
        (void)snprintf(out, cap, "%.10g", gr_json_number(v));
        break;
    case GR_JSON_STRING:
        (void)snprintf(out, cap, "\"%.80s\"", gr_json_string(v));
        break;
    case GR_JSON_ARRAY:
        (void)snprintf(out, cap, "an array of %zu", gr_json_len(v));
        break;
    case GR_JSON_OBJECT:
        (void)snprintf(out, cap, "an object");
        break;
    case GR_JSON_NULL:
        (void)snprintf(out, cap, "null");
        break;
    }
}

enum gr_status gr_scope_fail(const struct gr_scope *s, const char *key, const struct gr_json *found, struct gr_err *err,
                             const char *wanted, ...)
{
    char want[256], is[128];
    va_list args;
    va_start(args, wanted);
    (void)vsnprintf(want, sizeof want, wanted, args);
    va_end(args);
    describe(found, is, sizeof is);
    return gr_fail(err, GR_ERR_FORMAT, "%s: %s%.80s is %s, %s", s->file, s->path, key, is, want);
}

/* ------------------------------------------------------------------------------------------------ scopes */

enum gr_status gr_scope_root(struct gr_config *cfg, const char *file, const struct gr_json *root, struct gr_scope *out,
                             struct gr_err *err)
{
    if (gr_json_kind(root) != GR_JSON_OBJECT) {
        char is[128];
        describe(root, is, sizeof is);
        return gr_fail(err, GR_ERR_FORMAT, "%s: the file holds %s, expected an object", file, is);
    }
    *out = (struct gr_scope){.cfg = cfg, .file = file, .object = root};
    return GR_OK;
}

enum gr_status gr_scope_enter(const struct gr_scope *s, const char *key, struct gr_scope *out, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(s->object, key);
    if (gr_json_kind(v) != GR_JSON_OBJECT) {
        return gr_scope_fail(s, key, v, err, "expected an object");
    }
    struct gr_scope inner = {.cfg = s->cfg, .file = s->file, .object = v};
    /* A path that does not fit is only shortened: it is part of messages, nothing else. */
    (void)snprintf(inner.path, sizeof inner.path, "%.150s%.100s.", s->path, key);
    *out = inner;
    return GR_OK;
}

/* ------------------------------------------------------------------------------------------------- rules */

static enum gr_status apply_bool(const struct gr_scope *s, const struct gr_rule *r, const struct gr_json *v,
                                 struct gr_err *err)
{
    enum gr_json_kind kind = gr_json_kind(v);
    if (kind != GR_JSON_BOOL) {
        return gr_scope_fail(s, r->key, v, err, "expected true or false");
    }
    *r->to_bool = gr_json_bool(v);
    return GR_OK;
}

static enum gr_status apply_int(const struct gr_scope *s, const struct gr_rule *r, const struct gr_json *v,
                                struct gr_err *err)
{
    if (gr_json_kind(v) != GR_JSON_INT || (double)gr_json_int(v) < r->lo || (double)gr_json_int(v) > r->hi) {
        return gr_scope_fail(s, r->key, v, err, "expected an integer %.0f..%.0f", r->lo, r->hi);
    }
    *r->to_int = (int)gr_json_int(v);
    return GR_OK;
}

static enum gr_status apply_number(const struct gr_scope *s, const struct gr_rule *r, const struct gr_json *v,
                                   struct gr_err *err)
{
    if (!gr_json_is_number(v) || !(gr_json_number(v) >= r->lo && gr_json_number(v) <= r->hi)) {
        return gr_scope_fail(s, r->key, v, err, "expected a number %g..%g", r->lo, r->hi);
    }
    *r->to_number = gr_json_number(v);
    return GR_OK;
}

/* Settings that change results and of which we implement one value. */
static enum gr_status apply_only(const struct gr_scope *s, const struct gr_rule *r, const struct gr_json *v,
                                 struct gr_err *err)
{
    enum gr_json_kind kind = gr_json_kind(v);
    switch (r->kind) {
    case GR_RULE_ONLY_TRUE:
    case GR_RULE_ONLY_FALSE: {
        bool want = r->kind == GR_RULE_ONLY_TRUE;
        if (kind != GR_JSON_BOOL || gr_json_bool(v) != want) {
            return gr_scope_fail(s, r->key, v, err, "supported: %s", want ? "true" : "false");
        }
        return GR_OK;
    }
    case GR_RULE_ONLY_NULL:
        return kind == GR_JSON_NULL ? GR_OK : gr_scope_fail(s, r->key, v, err, "supported: null");
    case GR_RULE_ONLY_NUMBER:
        if (!gr_json_is_number(v) || gr_json_number(v) < r->lo || gr_json_number(v) > r->lo) {
            return gr_scope_fail(s, r->key, v, err, "supported: %g", r->lo);
        }
        return GR_OK;
    case GR_RULE_ONLY_TEXT:
        if (kind != GR_JSON_STRING || strcmp(gr_json_string(v), r->text) != 0) {
            return gr_scope_fail(s, r->key, v, err, "supported: \"%s\"", r->text);
        }
        return GR_OK;
    default:
        if (kind != GR_JSON_STRING || !gr_ends_with(gr_json_string(v), r->text)) {
            return gr_scope_fail(s, r->key, v, err, "supported: \"%s\"", r->text);
        }
        return GR_OK;
    }
}

static enum gr_status apply_rule(const struct gr_scope *s, const struct gr_rule *r, struct gr_err *err)
{
    if (r->kind == GR_RULE_ELSEWHERE) {
        return GR_OK;
    }
    const struct gr_json *v = gr_json_get(s->object, r->key);
    if (v == NULL) {
        return r->optional ? GR_OK : gr_fail(err, GR_ERR_FORMAT, "%s: %s%s is missing", s->file, s->path, r->key);
    }
    switch (r->kind) {
    case GR_RULE_INT:
        return apply_int(s, r, v, err);
    case GR_RULE_BOOL:
        return apply_bool(s, r, v, err);
    case GR_RULE_NUMBER:
        return apply_number(s, r, v, err);
    default:
        return apply_only(s, r, v, err);
    }
}

static bool is_known(const char *key, const struct gr_rule *rules, size_t n, const char *const *ignored)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rules[i].key, key) == 0) {
            return true;
        }
    }
    for (; ignored != NULL && *ignored != NULL; ignored++) {
        if (strcmp(*ignored, key) == 0) {
            return true;
        }
    }
    return false;
}

enum gr_status gr_scope_apply(const struct gr_scope *s, const struct gr_rule *rules, size_t n,
                              const char *const *ignored, struct gr_err *err)
{
    for (size_t i = 0; i < n; i++) {
        GR_TRY(apply_rule(s, &rules[i], err));
    }
    for (void *it = gr_json_first(s->object); it != NULL; it = gr_json_next(s->object, it)) {
        if (!is_known(gr_json_key(it), rules, n, ignored)) {
            GR_TRY(list_ignored(s, gr_json_key(it), err));
        }
    }
    return GR_OK;
}

/* ------------------------------------------------------------------------------------------------- names */

int gr_name_index(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

enum gr_status gr_scope_names(const struct gr_scope *s, const char *key, int max, const char ***names, int *n,
                              struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(s->object, key);
    size_t len = gr_json_len(list);
    if (gr_json_kind(list) != GR_JSON_ARRAY || len < 1 || len > (size_t)max) {
        return gr_scope_fail(s, key, list, err, "expected an array of 1..%d names", max);
    }
    const char **copy = gr_config_alloc(s->cfg, len, sizeof *copy, err);
    if (copy == NULL) {
        return GR_ERR_NOMEM;
    }
    for (size_t i = 0; i < len; i++) {
        const struct gr_json *v = gr_json_at(list, i);
        char where[128];
        (void)snprintf(where, sizeof where, "%.80s[%zu]", key, i);
        if (gr_json_kind(v) != GR_JSON_STRING || gr_json_string(v)[0] == '\0') {
            return gr_scope_fail(s, where, v, err, "expected a name");
        }
        if (gr_name_index(copy, (int)i, gr_json_string(v)) >= 0) {
            return gr_scope_fail(s, where, v, err, "which is listed twice");
        }
        copy[i] = gr_config_copy(s->cfg, gr_json_string(v), err);
        if (copy[i] == NULL) {
            return GR_ERR_NOMEM;
        }
    }
    *names = copy;
    *n = (int)len;
    return GR_OK;
}
