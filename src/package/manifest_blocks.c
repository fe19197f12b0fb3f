/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest_blocks.c: the blocks that authoring and wire manifests share: weights, serve blocks and profiles, card. */
#include <inttypes.h>
#include <string.h>

#include "package/manifest_parts.h"

enum { PORT_MAX = 65535, ARGS_MAX = 4096 };
static const int64_t setting_max = (int64_t)1 << 53;

/* ---- weights ---- */

enum gr_status gr_block_weights(const struct gr_reading *r, const struct gr_node *node, const struct gr_node *parent,
                                const char *where, struct gr_weights_ref *out)
{
    static const char *const known[] = {"repo", "revision", "allow_patterns", "ignore_patterns", NULL};
    const struct gr_node *at = node;
    const char *key = NULL;
    *out = (struct gr_weights_ref){0};
    if (!r->wire && node != NULL && node->kind == GR_NODE_STRING) {
        out->repo = node->text;
    } else {
        GR_TRY(gr_field_need_map(r, node, parent, where, NULL));
        if (!r->wire) {
            GR_TRY(gr_field_need_known(r, node, where, known));
        }
        key =
            r->wire && (gr_node_get(node, "repo_id") != NULL || gr_node_get(node, "repo") == NULL) ? "repo_id" : "repo";
        GR_TRY(gr_field_string(r, node, where, key, GR_REQUIRED, &out->repo));
        GR_TRY(gr_field_strings(r, node, where, "allow_patterns", GR_NULLABLE, &out->allow, &out->has_allow));
        GR_TRY(gr_field_strings(r, node, where, "ignore_patterns", GR_NULLABLE, &out->ignore, &out->has_ignore));
        GR_TRY(gr_field_string(r, node, where, "revision", GR_NULLABLE, &out->revision));
        at = gr_node_get(node, key);
    }
    if (!gr_is_repo_id(out->repo)) {
        return gr_field_refuse(r, at, where, key, "expected a repository ORG/NAME, found \"%.200s\"", out->repo);
    }
    if (out->revision != NULL && !gr_is_revision_name(out->revision)) {
        return gr_field_refuse(r, gr_node_get(node, "revision"), where, "revision",
                               "expected a commit, branch or tag name, found \"%.200s\"", out->revision);
    }
    return GR_OK;
}

/* ---- serve blocks ---- */

static enum gr_status read_env(const struct gr_reading *r, const struct gr_node *map, const char *where,
                               struct gr_serve_block *out)
{
    const struct gr_node *env = gr_node_get(map, "env");
    if (env == NULL) {
        return GR_OK;
    }
    const char *inner = gr_arena_printf(r->pool, "%s.env", where);
    GR_TRY(gr_field_need_map(r, env, map, where, "env"));
    if (inner == NULL || (out->env = gr_arena_take(r->pool, (size_t)env->n, sizeof *out->env)) == NULL) {
        return gr_arena_none_left(r->err);
    }
    for (int i = 0; i < env->n; i++) {
        const char *name = env->keys[i]->text, *value;
        if (env->keys[i]->kind != GR_NODE_STRING) {
            return gr_field_refuse(r, env->keys[i], inner, name,
                                   "expected a string as the variable's name, found %s: quote it",
                                   gr_node_kind_name(env->keys[i]->kind));
        }
        if (!gr_is_env_name(name)) {
            return gr_field_refuse(r, env->keys[i], inner, name, "expected the name of an environment variable");
        }
        GR_TRY(gr_field_string(r, env, inner, name, GR_REQUIRED, &value));
        out->env[out->n_env++] = (struct gr_env){.name = name, .value = value};
    }
    return GR_OK;
}

/* A word of the command line: a string, or an integer as the reader of such files prints it. */
static enum gr_status add_word(const struct gr_reading *r, const struct gr_node *node, const char *where,
                               struct gr_strings *words)
{
    const char *text = node->text;
    if (node->kind == GR_NODE_INT) {
        text = gr_arena_printf(r->pool, "%" PRId64, node->integer);
    } else if (node->kind != GR_NODE_STRING) {
        return gr_field_refuse(r, node, where, NULL, "expected a string, found %s", gr_node_kind_name(node->kind));
    }
    if (text == NULL) {
        return gr_arena_none_left(r->err);
    }
    words->items[words->n++] = text;
    return GR_OK;
}

static enum gr_status read_args(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                struct gr_serve_block *out)
{
    const struct gr_node *list;
    GR_TRY(gr_field_list(r, map, where, "args", 0, &list));
    if (list == NULL) {
        return GR_OK;
    }
    const char *inner = gr_arena_printf(r->pool, "%s.args", where);
    if (list->size > ARGS_MAX) {
        return gr_field_refuse(r, list, where, "args", "more than %d words", (int)ARGS_MAX);
    }
    if (inner == NULL || (out->words.items = gr_arena_take(r->pool, (size_t)list->size, sizeof(char *))) == NULL) {
        return gr_arena_none_left(r->err);
    }
    for (int i = 0; i < list->n; i++) {
        const struct gr_node *item = list->items[i];
        if (item->kind != GR_NODE_LIST) {
            GR_TRY(add_word(r, item, gr_field_at(r, inner, i), &out->words));
        }
        for (int k = 0; item->kind == GR_NODE_LIST && k < item->n; k++) {
            GR_TRY(add_word(r, item->items[k], gr_field_at(r, inner, i), &out->words));
        }
    }
    return GR_OK;
}

/* The JSON text of a list or mapping; NULL when it is not there. */
static enum gr_status keep_json(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                const char *key, const char **out)
{
    const struct gr_node *node = gr_node_get(map, key);
    struct gr_buf text = {0};
    if (node == NULL) {
        return GR_OK;
    }
    const struct gr_node *fault = gr_node_to_json(node, &text);
    enum gr_status status = GR_OK;
    if (fault != NULL) {
        status =
            gr_field_refuse(r, fault, where, key, "JSON cannot hold %s here, found %.60s: quote it",
                            fault->kind == GR_NODE_REAL ? "this number" : gr_node_kind_name(fault->kind), fault->text);
    } else if (text.failed || (*out = gr_arena_text(r->pool, text.data, text.len)) == NULL) {
        status = gr_arena_none_left(r->err);
    }
    gr_buf_free(&text);
    return status;
}

static enum gr_status read_capabilities(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                        struct gr_serve_block *out)
{
    static const char *const known[] = {"tool_parser", "reasoning_parser", NULL};
    const struct gr_node *node = gr_node_get(map, "capabilities");
    if (node == NULL || node->kind == GR_NODE_NULL) {
        return GR_OK;
    }
    const char *inner = gr_arena_printf(r->pool, "%s.capabilities", where);
    GR_TRY(gr_field_need_map(r, node, map, where, "capabilities"));
    GR_TRY(gr_field_need_known(r, node, inner, known));
    GR_TRY(gr_field_string(r, node, inner, "tool_parser", GR_NULLABLE, &out->tool_parser));
    GR_TRY(gr_field_string(r, node, inner, "reasoning_parser", GR_NULLABLE, &out->reasoning_parser));
    out->has_capabilities = true;
    return GR_OK;
}

static enum gr_status read_profile_name(const struct gr_reading *r, const struct gr_node *node, const char *where,
                                        struct gr_serve_block *out)
{
    GR_TRY(gr_field_string(r, node, where, "name", GR_REQUIRED, &out->name));
    GR_TRY(gr_field_string(r, node, where, "description", GR_NULLABLE, &out->description));
    if (!gr_is_profile_name(out->name)) { /* it becomes part of a container's and a file's name */
        return gr_field_refuse(r, gr_node_get(node, "name"), where, "name",
                               "expected letters, digits, \".\", \"_\" and \"-\", found \"%.100s\"", out->name);
    }
    return GR_OK;
}

enum gr_status gr_block_serve(const struct gr_reading *r, const struct gr_node *node, const char *where, bool profile,
                              struct gr_serve_block *out)
{
    static const char *const known[] = {"name",           "description",   "hardware",          "mesh_device", "port",
                                        "args",           "max_model_len", "max_num_seqs",      "block_size",  "env",
                                        "server_timeout", "capabilities",  "additional_config", NULL};
    *out = (struct gr_serve_block){0};
    GR_TRY(gr_field_need_map(r, node, NULL, where, NULL));
    GR_TRY(gr_field_need_known(r, node, where, profile ? known : known + 2));
    GR_TRY(gr_field_word(r, node, where, "hardware", GR_NULLABLE, &out->hardware));
    GR_TRY(gr_field_word(r, node, where, "mesh_device", GR_NULLABLE, &out->mesh_device));
    GR_TRY(gr_field_int(r, node, where, "port", GR_NULLABLE, 1, PORT_MAX, &out->port));
    GR_TRY(gr_field_int(r, node, where, "max_model_len", GR_NULLABLE, 0, setting_max, &out->max_model_len));
    GR_TRY(gr_field_int(r, node, where, "max_num_seqs", GR_NULLABLE, 0, setting_max, &out->max_num_seqs));
    GR_TRY(gr_field_int(r, node, where, "block_size", GR_NULLABLE, 0, setting_max, &out->block_size));
    GR_TRY(gr_field_int(r, node, where, "server_timeout", GR_NULLABLE, 0, setting_max, &out->server_timeout));
    GR_TRY(read_capabilities(r, node, where, out));
    const struct gr_node *config = gr_node_get(node, "additional_config");
    if (config != NULL) {
        GR_TRY(gr_field_need_map(r, config, node, where, "additional_config"));
        GR_TRY(keep_json(r, node, where, "additional_config", &out->additional_config));
    }
    GR_TRY(read_args(r, node, where, out));
    GR_TRY(keep_json(r, node, where, "args", &out->args));
    GR_TRY(read_env(r, node, where, out));
    return profile ? read_profile_name(r, node, where, out) : GR_OK;
}

enum gr_status gr_block_check_profiles(const struct gr_reading *r, const struct gr_node *list, const char *where,
                                       const struct gr_node *default_profile, const char *default_key)
{
    const struct gr_manifest *m = r->m;
    bool found = m->default_profile == NULL;
    struct gr_buf names = {0};
    for (int i = 0; i < m->n_profiles; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(m->profiles[i].name, m->profiles[k].name) == 0) {
                gr_buf_free(&names);
                return gr_field_refuse(r, list != NULL ? gr_node_get(list->items[i], "name") : NULL,
                                       gr_field_at(r, where, i), "name", "\"%s\" is the name of %s already",
                                       m->profiles[i].name, gr_field_at(r, where, k));
            }
        }
        found = found || strcmp(m->profiles[i].name, m->default_profile) == 0;
        gr_buf_printf(&names, "%s%s", i > 0 ? ", " : "", m->profiles[i].name);
    }
    enum gr_status status = GR_OK;
    if (!found) {
        status = gr_field_refuse(r, default_profile, NULL, default_key, "\"%.100s\" names no profile, expected %s",
                                 m->default_profile, names.data != NULL ? names.data : "one of them");
    }
    gr_buf_free(&names);
    return status;
}

/* ---- card ---- */

/* [a-z0-9.-]+: the Hub refuses anything else as license_name */
static bool is_license_slug(const char *text)
{
    return *text != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static enum gr_status read_license(const struct gr_reading *r, const struct gr_node *card, const char *where,
                                   struct gr_card *out)
{
    static const char *const known[] = {"id", "name", "link", NULL};
    const struct gr_node *node = gr_node_get(card, "license");
    if (node == NULL || node->kind == GR_NODE_NULL) {
        return GR_OK;
    }
    const char *inner = gr_arena_printf(r->pool, "%s.license", where);
    GR_TRY(gr_field_need_map(r, node, card, where, "license"));
    if (!r->wire) {
        GR_TRY(gr_field_need_known(r, node, inner, known));
    }
    GR_TRY(gr_field_word(r, node, inner, "id", GR_NULLABLE, &out->license_id));
    GR_TRY(gr_field_word(r, node, inner, "name", GR_NULLABLE, &out->license_name));
    GR_TRY(gr_field_word(r, node, inner, "link", GR_NULLABLE, &out->license_link));
    if (!r->wire && out->license_name != NULL && !is_license_slug(out->license_name)) {
        return gr_field_refuse(r, gr_node_get(node, "name"), inner, "name",
                               "expected a short name of a-z, 0-9, \".\" and \"-\", found \"%.100s\"",
                               out->license_name);
    }
    return GR_OK;
}

enum gr_status gr_block_card(const struct gr_reading *r, const struct gr_node *node, const char *where,
                             struct gr_card *out)
{
    static const char *const known[] = {"description", "quickstart",  "architecture", "status",     "intended_use",
                                        "usage",       "performance", "limitations",  "risks",      "out_of_scope_use",
                                        "licensing",   "related",     "license",      "base_model", "pipeline_tag",
                                        NULL};
    *out = (struct gr_card){0};
    const struct {
        const char *key, **value;
    } texts[] = {
        {"description", &out->description},
        {"quickstart", &out->quickstart},
        {"architecture", &out->architecture},
        {"status", &out->status},
        {"intended_use", &out->intended_use},
        {"out_of_scope_use", &out->out_of_scope_use},
        {"usage", &out->usage},
        {"performance", &out->performance},
        {"limitations", &out->limitations},
        {"risks", &out->risks},
        {"licensing", &out->licensing},
        {"related", &out->related},
        {"pipeline_tag", &out->pipeline_tag},
    };
    GR_TRY(gr_field_need_map(r, node, NULL, where, NULL));
    if (!r->wire) {
        GR_TRY(gr_field_need_known(r, node, where, known));
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        GR_TRY(gr_field_string(r, node, where, texts[i].key, GR_NULLABLE, texts[i].value));
    }
    GR_TRY(read_license(r, node, where, out));
    return gr_field_strings(r, node, where, "base_model", GR_NULLABLE, &out->base_model, NULL);
}
