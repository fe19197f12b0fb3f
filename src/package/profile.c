/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.c: a profile merged over the defaults in `serve`: nulls are dropped first, mappings merge key by key, everything else replaces, and an
 * empty list or mapping in the profile erases nothing (docs/PACKAGES.md). */
#include <string.h>

#include "package/manifest_parts.h"

/* ---- additional_config: mappings of any depth ---- */

/* An empty mapping with room for `cap` entries; NULL: no memory. */
static struct gr_node *new_map(struct gr_arena *pool, int cap)
{
    struct gr_node *map = gr_arena_take(pool, 1, sizeof *map);
    if (map == NULL || (map->items = gr_arena_take(pool, (size_t)cap, sizeof *map->items)) == NULL ||
        (map->keys = gr_arena_take(pool, (size_t)cap, sizeof *map->keys)) == NULL) {
        return NULL;
    }
    map->kind = GR_NODE_MAP;
    return map;
}

static enum gr_status drop_nulls(struct gr_arena *pool, const struct gr_node *node, const struct gr_node **out,
                                 struct gr_err *err)
{
    *out = node;
    if (node->kind != GR_NODE_MAP) {
        return GR_OK;
    }
    struct gr_node *map = new_map(pool, node->n);
    if (map == NULL) {
        return gr_arena_none_left(err);
    }
    for (int i = 0; i < node->n; i++) {
        if (node->items[i]->kind != GR_NODE_NULL) {
            map->keys[map->n] = node->keys[i];
            GR_TRY(drop_nulls(pool, node->items[i], &map->items[map->n], err));
            map->n++;
        }
    }
    *out = map;
    return GR_OK;
}

static int index_of(const struct gr_node *map, const char *key)
{
    for (int i = 0; i < map->n; i++) {
        if (strcmp(map->keys[i]->text, key) == 0) {
            return i;
        }
    }
    return map->n;
}

static bool is_empty(const struct gr_node *node)
{
    return (node->kind == GR_NODE_LIST || node->kind == GR_NODE_MAP) && node->n == 0;
}

static enum gr_status merge(struct gr_arena *pool, const struct gr_node *base, const struct gr_node *over,
                            const struct gr_node **out, struct gr_err *err)
{
    struct gr_node *map = new_map(pool, base->n + over->n);
    if (map == NULL) {
        return gr_arena_none_left(err);
    }
    for (; map->n < base->n; map->n++) {
        map->keys[map->n] = base->keys[map->n];
        map->items[map->n] = base->items[map->n];
    }
    for (int i = 0; i < over->n; i++) {
        const struct gr_node *value = over->items[i];
        const int at = index_of(map, over->keys[i]->text);
        const bool old = at < map->n;
        if (old && value->kind == GR_NODE_MAP && map->items[at]->kind == GR_NODE_MAP) {
            GR_TRY(merge(pool, map->items[at], value, &map->items[at], err));
        } else if (!is_empty(value)) {
            map->keys[at] = over->keys[i];
            map->items[at] = value;
            map->n += !old;
        }
    }
    *out = map;
    return GR_OK;
}

static enum gr_status parse(struct gr_arena *pool, const char *text, const struct gr_node **out, struct gr_err *err)
{
    struct gr_json *json;
    text = text != NULL ? text : "{}";
    GR_TRY(gr_json_parse(text, strlen(text), "additional_config", GR_ERR_FORMAT, &json, err));
    const enum gr_status status = gr_node_from_json(pool, json, "additional_config", out, err);
    gr_json_free(json);
    return status == GR_OK ? drop_nulls(pool, *out, out, err) : status;
}

static enum gr_status merge_config(struct gr_arena *pool, const char *base, const char *over, const char **out,
                                   struct gr_err *err)
{
    const struct gr_node *a, *b, *merged = NULL;
    struct gr_buf text = {0};
    *out = NULL;
    if (base == NULL && over == NULL) {
        return GR_OK;
    }
    GR_TRY(parse(pool, base, &a, err));
    GR_TRY(parse(pool, over, &b, err));
    GR_TRY(merge(pool, a, b, &merged, err));
    (void)gr_node_to_json(merged, &text); /* it came from JSON: nothing that JSON cannot hold */
    *out = text.failed ? NULL : gr_arena_text(pool, text.data, text.len);
    gr_buf_free(&text);
    return *out != NULL ? GR_OK : gr_arena_none_left(err);
}

/* ---- the block ---- */

static enum gr_status merge_env(struct gr_arena *pool, const struct gr_serve_block *base,
                                const struct gr_serve_block *over, struct gr_serve_block *out, struct gr_err *err)
{
    out->env = gr_arena_take(pool, (size_t)base->n_env + (size_t)over->n_env, sizeof *out->env);
    if (out->env == NULL) {
        return gr_arena_none_left(err);
    }
    out->n_env = base->n_env;
    for (int i = 0; i < base->n_env; i++) {
        out->env[i] = base->env[i];
    }
    for (int i = 0; i < over->n_env; i++) {
        int at = 0;
        while (at < out->n_env && strcmp(out->env[at].name, over->env[i].name) != 0) {
            at++;
        }
        out->env[at] = over->env[i];
        out->n_env += at == out->n_env;
    }
    return GR_OK;
}

static const char *text_of(const char *over, const char *base) { return over != NULL ? over : base; }

static int64_t number_of(int64_t over, int64_t base) { return over >= 0 ? over : base; }

static enum gr_status merge_block(struct gr_arena *pool, const struct gr_serve_block *base,
                                  const struct gr_serve_block *over, struct gr_serve_block *out, struct gr_err *err)
{
    const struct gr_serve_block *args = over->words.n > 0 ? over : base;
    *out = (struct gr_serve_block){
        .name = over->name,
        .description = over->description,
        .hardware = text_of(over->hardware, base->hardware),
        .mesh_device = text_of(over->mesh_device, base->mesh_device),
        .port = number_of(over->port, base->port),
        .max_model_len = number_of(over->max_model_len, base->max_model_len),
        .max_num_seqs = number_of(over->max_num_seqs, base->max_num_seqs),
        .block_size = number_of(over->block_size, base->block_size),
        .server_timeout = number_of(over->server_timeout, base->server_timeout),
        .tool_parser = text_of(over->tool_parser, base->tool_parser),
        .reasoning_parser = text_of(over->reasoning_parser, base->reasoning_parser),
        .has_capabilities = over->has_capabilities || base->has_capabilities,
        .args = args->args,
        .words = args->words,
    };
    GR_TRY(merge_config(pool, base->additional_config, over->additional_config, &out->additional_config, err));
    return merge_env(pool, base, over, out, err);
}

/* NULL: none of that name, err says which there are. */
static const struct gr_serve_block *find(const struct gr_manifest *m, const char *name, struct gr_err *err)
{
    const char *wanted = text_of(name, m->default_profile);
    struct gr_buf names = {0};
    for (int i = 0; i < m->n_profiles; i++) {
        if (wanted == NULL || strcmp(m->profiles[i].name, wanted) == 0) {
            gr_buf_free(&names);
            return &m->profiles[i];
        }
        gr_buf_printf(&names, "%s%s", i > 0 ? ", " : "", m->profiles[i].name);
    }
    (void)gr_fail(err, GR_ERR_USAGE, "no serve profile named \"%.100s\"; this package has: %s",
                  wanted != NULL ? wanted : "", names.data != NULL ? names.data : "none");
    gr_buf_free(&names);
    return NULL;
}

enum gr_status gr_manifest_profile(const struct gr_manifest *m, const char *name, struct gr_profile *out,
                                   struct gr_err *err)
{
    *out = (struct gr_profile){0};
    const struct gr_serve_block *block = find(m, name, err);
    if (block == NULL) {
        return err->code;
    }
    struct gr_arena *pool = gr_arena_new();
    if (pool == NULL) {
        return gr_arena_none_left(err);
    }
    const enum gr_status status = merge_block(pool, &m->serve, block, &out->block, err);
    if (status != GR_OK) {
        gr_arena_free(pool);
        *out = (struct gr_profile){0};
        return status;
    }
    out->memory = pool;
    out->chips = out->block.hardware != NULL ? gr_hardware_chips(out->block.hardware) : 0;
    if (out->block.mesh_device == NULL || !gr_mesh_shape(out->block.mesh_device, &out->rows, &out->cols)) {
        out->rows = out->cols = 0;
    }
    return GR_OK;
}

void gr_profile_free(struct gr_profile *p)
{
    gr_arena_free(p->memory);
    *p = (struct gr_profile){0};
}
