/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c: tt_kernel_manifest.json of schema 5, 5.1 and 6 as it comes out of a repository: somebody else's file. What becomes a path, a name or an
 * argument is checked again here; unknown keys are ignored outside serve blocks (docs/PACKAGES.md). The order of the checks is that of the
 * format's other readers. */
#include <stdlib.h>
#include <string.h>

#include "package/manifest_parts.h"

static enum gr_status read_head(const struct gr_reading *r, const struct gr_node *root)
{
    struct gr_manifest *m = r->m;
    GR_TRY(gr_field_string(r, root, NULL, "name", GR_REQUIRED, &m->name));
    GR_TRY(gr_field_string(r, root, NULL, "tt_metal_version", GR_REQUIRED, &m->tt_metal_version));
    GR_TRY(gr_field_string(r, root, NULL, "arch", GR_REQUIRED, &m->arch));
    GR_TRY(gr_field_string(r, root, NULL, "schema_version", 0, &m->schema));
    m->schema = m->schema != NULL ? m->schema : "5";
    if (strcmp(m->schema, "5") != 0 && strcmp(m->schema, "5.1") != 0 && strcmp(m->schema, "6") != 0) {
        return gr_field_refuse(r, NULL, NULL, "schema_version", "expected \"5\", \"5.1\" or \"6\", found \"%.40s\"",
                               m->schema);
    }
    const struct gr_node *producer = gr_node_get(root, "producer");
    GR_TRY(gr_field_need_map(r, producer, root, "producer", NULL));
    GR_TRY(gr_field_string(r, producer, "producer", "tt_kernel_version", GR_REQUIRED, &m->producer_version));
    GR_TRY(gr_field_string(r, producer, "producer", "created_at", GR_REQUIRED, &m->created_at));
    GR_TRY(gr_field_string(r, producer, "producer", "hostname", GR_NULLABLE, &m->hostname));
    return gr_field_int(r, root, NULL, "device_count", 0, 0, 1 << 20, &m->device_count);
}

static enum gr_status read_all_weights(const struct gr_reading *r, const struct gr_node *root)
{
    struct gr_manifest *m = r->m;
    const struct gr_node *weights = gr_node_get(root, "weights"), *list;
    if (weights != NULL && weights->kind != GR_NODE_NULL) {
        GR_TRY(gr_block_weights(r, weights, root, "weights", &m->weights));
        m->has_weights = true;
    }
    GR_TRY(gr_field_few(r, root, NULL, "auxiliary_weights", GR_NULLABLE, &list));
    if (list == NULL) {
        return GR_OK;
    }
    if ((m->auxiliary = gr_arena_take(r->pool, (size_t)list->n, sizeof *m->auxiliary)) == NULL) {
        return gr_arena_none_left(r->err);
    }
    for (; m->n_auxiliary < list->n; m->n_auxiliary++) {
        GR_TRY(gr_block_weights(r, list->items[m->n_auxiliary], root,
                                gr_field_at(r, "auxiliary_weights", m->n_auxiliary), &m->auxiliary[m->n_auxiliary]));
    }
    return GR_OK;
}

/* ---- container ---- */

static bool is_digest(const char *text)
{
    static const char prefix[] = "sha256:";
    const size_t n = sizeof prefix - 1;
    return strncmp(text, prefix, n) == 0 && strlen(text) == n + 64 && strspn(text + n, "0123456789abcdef") == 64;
}

static enum gr_status need(const struct gr_reading *r, bool good, const char *where, const char *key,
                           const char *expected, const char *found)
{
    return good ? GR_OK : gr_field_refuse(r, NULL, where, key, "expected %s, found \"%.200s\"", expected, found);
}

static enum gr_status read_image(const struct gr_reading *r, const struct gr_node *container)
{
    static const char where[] = "container.image";
    struct gr_manifest *m = r->m;
    const struct gr_node *image = gr_node_get(container, "image");
    GR_TRY(gr_field_need_map(r, image, container, where, NULL));
    GR_TRY(gr_field_string(r, image, where, "tag", GR_REQUIRED, &m->image_tag));
    GR_TRY(gr_field_string(r, image, where, "digest", GR_NULLABLE, &m->image_digest));
    GR_TRY(need(r, m->image_digest == NULL || is_digest(m->image_digest), where, "digest",
                "\"sha256:\" and 64 hexadecimal digits", m->image_digest));
    GR_TRY(need(r, gr_is_image_name(m->image_tag), where, "tag", "an image name as tt-model/NAME:TAG", m->image_tag));
    GR_TRY(gr_field_string(r, image, where, "registry", GR_NULLABLE, &m->registry));
    GR_TRY(gr_field_string(r, image, where, "repository", GR_NULLABLE, &m->repository));
    m->registry = m->registry != NULL ? m->registry : "hf";
    GR_TRY(need(r, gr_is_image_name(m->registry), where, "registry", "\"hf\" or the namespace of a registry",
                m->registry));
    return need(r, m->repository == NULL || gr_is_image_name(m->repository), where, "repository",
                "the name of an image", m->repository);
}

static enum gr_status read_profiles(const struct gr_reading *r, const struct gr_node *container)
{
    static const char where[] = "container.serve_profiles";
    struct gr_manifest *m = r->m;
    const struct gr_node *serve = gr_node_get(container, "serve"), *list;
    static const struct gr_node empty = {.kind = GR_NODE_MAP};
    GR_TRY(gr_block_serve(r, serve != NULL ? serve : &empty, "container.serve", false, &m->serve));
    GR_TRY(gr_field_few(r, container, "container", "serve_profiles", GR_NULLABLE, &list));
    if (list == NULL || list->n == 0) {
        return gr_field_refuse(r, NULL, where, NULL, "expected at least one serve profile");
    }
    if ((m->profiles = gr_arena_take(r->pool, (size_t)list->n, sizeof *m->profiles)) == NULL) {
        return gr_arena_none_left(r->err);
    }
    for (; m->n_profiles < list->n; m->n_profiles++) {
        GR_TRY(gr_block_serve(r, list->items[m->n_profiles], gr_field_at(r, where, m->n_profiles), true,
                              &m->profiles[m->n_profiles]));
    }
    GR_TRY(gr_field_string(r, container, "container", "default_profile", GR_NULLABLE, &m->default_profile));
    GR_TRY(gr_block_check_profiles(r, list, where, NULL, "container.default_profile"));
    return need(r, gr_is_slug(m->name), NULL, "name", "a-z, 0-9, \".\", \"_\" and \"-\", a letter or digit first",
                m->name);
}

static enum gr_status read_runtime(const struct gr_reading *r, const struct gr_node *container)
{
    static const char where[] = "container.runtime";
    struct gr_manifest *m = r->m;
    const struct gr_node *runtime = gr_node_get(container, "runtime");
    if (runtime == NULL || runtime->kind == GR_NODE_NULL) {
        return GR_OK;
    }
    GR_TRY(gr_field_need_map(r, runtime, NULL, where, NULL));
    GR_TRY(gr_field_word(r, runtime, where, "app", GR_NULLABLE, &m->app));
    GR_TRY(need(r, m->app == NULL || m->app[0] != '-', where, "app", "module.path:attribute", m->app));
    GR_TRY(gr_field_word(r, runtime, where, "mesh_shape_env", GR_NULLABLE, &m->mesh_shape_env));
    GR_TRY(need(r, m->mesh_shape_env == NULL || gr_is_variable_name(m->mesh_shape_env), where, "mesh_shape_env",
                "the name of a variable", m->mesh_shape_env));
    GR_TRY(gr_field_word(r, runtime, where, "lock", GR_NULLABLE, &m->lock));
    GR_TRY(need(r, m->lock == NULL || (gr_is_inner_path(m->lock) && strchr(m->lock, '/') == NULL), where, "lock",
                "the name of a file", m->lock));
    return gr_field_strings(r, runtime, where, "packages", GR_NULLABLE, &m->packages, NULL);
}

/* What the tool noted down while it built: a free mapping, of which the push target and the code's digest count. */
static enum gr_status read_built(const struct gr_reading *r, const struct gr_node *container)
{
    static const char where[] = "container.built";
    const struct gr_node *built = gr_node_get(container, "built");
    if (built == NULL || built->kind == GR_NODE_NULL) {
        return GR_OK;
    }
    GR_TRY(gr_field_need_map(r, built, NULL, where, NULL));
    GR_TRY(gr_field_string(r, built, where, "repo", GR_NULLABLE, &r->m->repo));
    GR_TRY(
        need(r, r->m->repo == NULL || gr_is_repo_id(r->m->repo), where, "repo", "a repository ORG/NAME", r->m->repo));
    return gr_field_string(r, built, where, "code_sha256", GR_NULLABLE, &r->m->code_sha256);
}

static enum gr_status read_container(const struct gr_reading *r, const struct gr_node *root)
{
    struct gr_manifest *m = r->m;
    const struct gr_node *container = gr_node_get(root, "container"), *card = gr_node_get(container, "card");
    if (container == NULL || container->kind == GR_NODE_NULL) {
        return gr_field_refuse(r, NULL, NULL, "container", "not given: this is no container package");
    }
    GR_TRY(gr_field_need_map(r, container, root, "container", NULL));
    GR_TRY(read_image(r, container));
    GR_TRY(read_profiles(r, container));
    GR_TRY(gr_field_word(r, container, "container", "kind", GR_NULLABLE, &m->kind));
    m->kind = m->kind != NULL ? m->kind : "vllm-plugin";
    GR_TRY(read_runtime(r, container));
    GR_TRY(gr_field_string(r, container, "container", "code_dir", GR_NULLABLE, &m->code_dir));
    m->code_dir = m->code_dir != NULL ? m->code_dir : "code";
    GR_TRY(need(r, gr_is_inner_path(m->code_dir), "container", "code_dir", "a folder inside the package", m->code_dir));
    GR_TRY(gr_field_strings(r, container, "container", "verify", GR_NULLABLE, &m->verify, NULL));
    GR_TRY(read_built(r, container));
    if (card != NULL && card->kind != GR_NODE_NULL) {
        GR_TRY(gr_block_card(r, card, "container.card", &m->card));
        m->has_card = true;
    }
    return GR_OK;
}

enum gr_status gr_manifest_parse_wire(const char *text, size_t n, const char *what, struct gr_manifest *out,
                                      struct gr_err *err)
{
    struct gr_json *json = NULL;
    const struct gr_node *root = NULL;
    *out = (struct gr_manifest){0};
    if (n > GR_MANIFEST_BYTES_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %zu bytes, at most 1 MiB is read", what, n);
    }
    GR_TRY(gr_json_parse(text, n, what, GR_ERR_FORMAT, &json, err));
    enum gr_status status = gr_manifest_begin(out, err);
    const struct gr_reading r = {.file = what, .pool = out->memory, .m = out, .err = err, .wire = true};
    if (status == GR_OK && (status = gr_node_from_json(r.pool, json, what, &root, err)) == GR_OK &&
        (status = gr_field_need_map(&r, root, NULL, "manifest", NULL)) == GR_OK &&
        (status = read_head(&r, root)) == GR_OK && (status = read_all_weights(&r, root)) == GR_OK) {
        status = read_container(&r, root);
    }
    gr_json_free(json);
    if (status != GR_OK) {
        gr_manifest_free(out);
    }
    return status;
}

enum gr_status gr_manifest_read_wire(const char *path, struct gr_manifest *out, struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    *out = (struct gr_manifest){0};
    GR_TRY(gr_fs_read(path, GR_MANIFEST_BYTES_MAX, &text, &n, err));
    const enum gr_status status = gr_manifest_parse_wire(text, n, path, out, err);
    free(text);
    return status;
}
