/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_write.c: the wire manifest as text: schema 5.1, two blanks a level, one value a line, every optional field (null when unset), the keys in the
 * order of the tool that defined the format. base/jsonout.h indents two levels only, which is too few here. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "package/manifest.h"
#include "package/manifest_node.h"

struct writer {
    struct gr_buf *out;
    int depth;
    bool first;
};

static void new_line(struct writer *w)
{
    gr_buf_puts(w->out, "\n");
    for (int i = 0; i < w->depth; i++) {
        gr_buf_puts(w->out, "  ");
    }
}

/* Before a member (with its key) or an element (key NULL). */
static void begin_value(struct writer *w, const char *key)
{
    if (w->depth > 0) {
        gr_buf_puts(w->out, w->first ? "" : ",");
        new_line(w);
    }
    if (key != NULL) {
        gr_buf_json_string(w->out, key);
        gr_buf_puts(w->out, ": ");
    }
    w->first = false;
}

static void open_value(struct writer *w, const char *key, const char *bracket)
{
    begin_value(w, key);
    gr_buf_puts(w->out, bracket);
    w->depth++;
    w->first = true;
}

static void close_value(struct writer *w, const char *bracket)
{
    w->depth--;
    if (!w->first) {
        new_line(w);
    }
    gr_buf_puts(w->out, bracket);
    w->first = false;
}

static void put_text(struct writer *w, const char *key, const char *text)
{
    begin_value(w, key);
    if (text != NULL) {
        gr_buf_json_string(w->out, text);
    } else {
        gr_buf_puts(w->out, "null");
    }
}

static void put_raw(struct writer *w, const char *key, const char *json)
{
    begin_value(w, key);
    gr_buf_puts(w->out, json);
}

static void put_number(struct writer *w, const char *key, int64_t value)
{
    begin_value(w, key);
    if (value >= 0) {
        gr_buf_printf(w->out, "%" PRId64, value);
    } else {
        gr_buf_puts(w->out, "null");
    }
}

static void put_texts(struct writer *w, const char *key, const struct gr_strings *texts)
{
    open_value(w, key, "[");
    for (int i = 0; i < texts->n; i++) {
        put_text(w, NULL, texts->items[i]);
    }
    close_value(w, "]");
}

static void put_optional_texts(struct writer *w, const char *key, const struct gr_strings *texts, bool given)
{
    if (given) {
        put_texts(w, key, texts);
    } else {
        put_text(w, key, NULL);
    }
}

/* A value that somebody wrote, with our indentation. Its reader bounded the depth. */
static void put_json(struct writer *w, const char *key, const struct gr_json *v)
{
    switch (gr_json_kind(v)) {
    case GR_JSON_OBJECT:
        open_value(w, key, "{");
        for (void *it = gr_json_first(v); it != NULL; it = gr_json_next(v, it)) {
            put_json(w, gr_json_key(it), gr_json_value(it));
        }
        close_value(w, "}");
        return;
    case GR_JSON_ARRAY:
        open_value(w, key, "[");
        for (size_t i = 0; i < gr_json_len(v); i++) {
            put_json(w, NULL, gr_json_at(v, i));
        }
        close_value(w, "]");
        return;
    case GR_JSON_STRING:
        put_text(w, key, gr_json_string(v));
        return;
    case GR_JSON_INT:
        begin_value(w, key);
        gr_buf_printf(w->out, "%" PRId64, gr_json_int(v));
        return;
    case GR_JSON_REAL:
        begin_value(w, key);
        gr_node_put_real(w->out, gr_json_number(v));
        return;
    case GR_JSON_BOOL:
        put_raw(w, key, gr_json_bool(v) ? "true" : "false");
        return;
    case GR_JSON_NULL:
        put_text(w, key, NULL);
        return;
    }
}

static enum gr_status put_free(struct writer *w, const char *key, const char *text, const char *none,
                               struct gr_err *err)
{
    struct gr_json *v = NULL;
    text = text != NULL ? text : none;
    GR_TRY(gr_json_parse(text, strlen(text), key, GR_ERR_FORMAT, &v, err));
    put_json(w, key, v);
    gr_json_free(v);
    return GR_OK;
}

/* ---- the blocks ---- */

static void put_weights(struct writer *w, const char *key, const struct gr_weights_ref *ref)
{
    open_value(w, key, "{");
    put_text(w, "repo_id", ref->repo);
    put_text(w, "revision", ref->revision);
    put_optional_texts(w, "allow_patterns", &ref->allow, ref->has_allow);
    put_optional_texts(w, "ignore_patterns", &ref->ignore, ref->has_ignore);
    put_text(w, "repo_type", "model");
    close_value(w, "}");
}

static enum gr_status put_serve(struct writer *w, const char *key, const struct gr_serve_block *b, bool profile,
                                struct gr_err *err)
{
    open_value(w, key, "{");
    put_text(w, "hardware", b->hardware);
    put_text(w, "mesh_device", b->mesh_device);
    put_number(w, "port", b->port);
    put_number(w, "max_model_len", b->max_model_len);
    put_number(w, "max_num_seqs", b->max_num_seqs);
    put_number(w, "block_size", b->block_size);
    put_number(w, "server_timeout", b->server_timeout);
    if (b->has_capabilities) {
        open_value(w, "capabilities", "{");
        put_text(w, "tool_parser", b->tool_parser);
        put_text(w, "reasoning_parser", b->reasoning_parser);
        close_value(w, "}");
    } else {
        put_text(w, "capabilities", NULL);
    }
    GR_TRY(put_free(w, "additional_config", b->additional_config, "{}", err));
    GR_TRY(put_free(w, "args", b->args, "[]", err));
    open_value(w, "env", "{");
    for (int i = 0; i < b->n_env; i++) {
        put_text(w, b->env[i].name, b->env[i].value);
    }
    close_value(w, "}");
    if (profile) {
        put_text(w, "name", b->name);
        put_text(w, "description", b->description);
    }
    close_value(w, "}");
    return GR_OK;
}

static void put_runtime(struct writer *w, const struct gr_manifest *m)
{
    open_value(w, "runtime", "{");
    if (m->app != NULL) {
        put_text(w, "app", m->app);
    }
    if (m->packages.n > 0) {
        put_texts(w, "packages", &m->packages);
    }
    if (m->mesh_shape_env != NULL) {
        put_text(w, "mesh_shape_env", m->mesh_shape_env);
    }
    if (m->lock != NULL) {
        put_text(w, "lock", m->lock);
    }
    close_value(w, "}");
}

static void put_card(struct writer *w, const struct gr_card *c)
{
    open_value(w, "card", "{");
    put_text(w, "description", c->description);
    put_text(w, "quickstart", c->quickstart);
    put_text(w, "architecture", c->architecture);
    put_text(w, "status", c->status);
    put_text(w, "intended_use", c->intended_use);
    put_text(w, "out_of_scope_use", c->out_of_scope_use);
    put_text(w, "usage", c->usage);
    put_text(w, "performance", c->performance);
    put_text(w, "limitations", c->limitations);
    put_text(w, "risks", c->risks);
    put_text(w, "licensing", c->licensing);
    put_text(w, "related", c->related);
    if (c->license_id != NULL || c->license_name != NULL || c->license_link != NULL) {
        open_value(w, "license", "{");
        put_text(w, "id", c->license_id);
        put_text(w, "name", c->license_name);
        put_text(w, "link", c->license_link);
        close_value(w, "}");
    } else {
        put_text(w, "license", NULL);
    }
    put_text(w, "pipeline_tag", c->pipeline_tag);
    put_optional_texts(w, "base_model", &c->base_model, c->base_model.n > 0);
    close_value(w, "}");
}

static void put_built(struct writer *w, const struct gr_manifest *m)
{
    open_value(w, "built", "{");
    put_text(w, "image", m->image_tag);
    put_text(w, "repo", m->repo);
    put_text(w, "tt_model_version", m->producer_version);
    put_text(w, "created_at", m->created_at);
    put_text(w, "code_sha256", m->code_sha256);
    put_text(w, "image_digest", m->image_digest);
    close_value(w, "}");
}

static enum gr_status put_container(struct writer *w, const struct gr_manifest *m, struct gr_err *err)
{
    open_value(w, "container", "{");
    open_value(w, "image", "{");
    put_text(w, "registry", m->registry);
    put_text(w, "repository", m->repository);
    put_text(w, "tag", m->image_tag);
    put_text(w, "digest", m->image_digest);
    close_value(w, "}");
    put_text(w, "kind", m->kind);
    put_runtime(w, m);
    GR_TRY(put_serve(w, "serve", &m->serve, false, err));
    open_value(w, "serve_profiles", "[");
    for (int i = 0; i < m->n_profiles; i++) {
        GR_TRY(put_serve(w, NULL, &m->profiles[i], true, err));
    }
    close_value(w, "]");
    put_text(w, "default_profile", m->default_profile);
    put_text(w, "code_dir", m->code_dir != NULL ? m->code_dir : "code");
    put_texts(w, "verify", &m->verify);
    put_built(w, m);
    if (m->has_card) {
        put_card(w, &m->card);
    } else {
        put_text(w, "card", NULL);
    }
    close_value(w, "}");
    return GR_OK;
}

static void put_head(struct writer *w, const struct gr_manifest *m)
{
    /* Of the two other package formats; every reader expects them. */
    static const char *const others[] = {"mesh", "entrypoint", "resources", "capabilities"};
    put_text(w, "schema_version", "5.1");
    put_text(w, "name", m->name);
    put_text(w, "tt_metal_version", m->tt_metal_version != NULL ? m->tt_metal_version : "unknown");
    put_text(w, "arch", m->arch);
    if (m->device_count >= 0) { /* other readers refuse a null here, and take a manifest without it */
        put_number(w, "device_count", m->device_count);
    }
    open_value(w, "producer", "{");
    put_text(w, "tt_kernel_version", m->producer_version);
    put_text(w, "created_at", m->created_at);
    put_text(w, "hostname", m->hostname);
    close_value(w, "}");
    if (m->has_weights) {
        put_weights(w, "weights", &m->weights);
    } else {
        put_text(w, "weights", NULL);
    }
    open_value(w, "auxiliary_weights", "[");
    for (int i = 0; i < m->n_auxiliary; i++) {
        put_weights(w, NULL, &m->auxiliary[i]);
    }
    close_value(w, "]");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put_text(w, others[i], NULL);
    }
    put_raw(w, "env", "{}");
    put_text(w, "bundled", NULL);
    put_text(w, "deps", NULL);
}

enum gr_status gr_manifest_write_wire(const struct gr_manifest *m, struct gr_buf *out, struct gr_err *err)
{
    struct writer w = {.out = out};
    open_value(&w, NULL, "{");
    put_head(&w, m);
    GR_TRY(put_container(&w, m, err));
    close_value(&w, "}");
    gr_buf_puts(out, "\n");
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a wire manifest") : GR_OK;
}
