/* SPDX-License-Identifier: Apache-2.0
 *
 * authoring.c: tt-model.yaml, schema 5.1: read, every rule checked, every refusal with line, column and key (docs/PACKAGES.md). The order of the
 * checks is that of the format's other readers, so that a file with two faults is refused for the same one. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "package/manifest_parts.h"
#include "package/yaml.h"

#define KIND_SERVER "tt-dit-server"

static enum gr_status read_schema(const struct gr_reading *r, const struct gr_node *root)
{
    static const char *const keys[] = {"schema", "schema_version"};
    r->m->schema = "5.1";
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *schema;
        GR_TRY(gr_field_string(r, root, NULL, keys[i], 0, &schema));
        if (schema != NULL && strcmp(schema, "5.1") != 0) {
            return gr_field_refuse(r, gr_node_get(root, keys[i]), NULL, keys[i], "expected \"5.1\", found \"%.40s\"",
                                   schema);
        }
    }
    return GR_OK;
}

static enum gr_status read_all_weights(const struct gr_reading *r, const struct gr_node *root)
{
    struct gr_manifest *m = r->m;
    const struct gr_node *list;
    GR_TRY(gr_block_weights(r, gr_node_get(root, "weights"), root, "weights", &m->weights));
    m->has_weights = true;
    GR_TRY(gr_field_few(r, root, NULL, "auxiliary_weights", GR_NULLABLE, &list));
    if (list == NULL) {
        return GR_OK;
    }
    if ((m->auxiliary = gr_arena_take(r->pool, (size_t)list->n, sizeof *m->auxiliary)) == NULL) {
        return gr_arena_none_left(r->err);
    }
    for (; m->n_auxiliary < list->n; m->n_auxiliary++) {
        const int i = m->n_auxiliary;
        const char *where = gr_field_at(r, "auxiliary_weights", i), *repo;
        GR_TRY(gr_block_weights(r, list->items[i], list, where, &m->auxiliary[i]));
        repo = m->auxiliary[i].repo;
        bool twice = strcmp(m->weights.repo, repo) == 0;
        for (int k = 0; k < i; k++) {
            twice = twice || strcmp(m->auxiliary[k].repo, repo) == 0;
        }
        if (twice) {
            return gr_field_refuse(r, list->items[i], where, "repo", "%s is given twice", repo);
        }
    }
    return GR_OK;
}

static enum gr_status one_of(const struct gr_reading *r, const struct gr_node *root, const char *key, const char *value,
                             const char *const *known)
{
    struct gr_buf list = {0};
    for (int i = 0; known[i] != NULL; i++) {
        if (strcmp(value, known[i]) == 0) {
            gr_buf_free(&list);
            return GR_OK;
        }
        gr_buf_printf(&list, "%s%s", i > 0 ? ", " : "", known[i]);
    }
    const enum gr_status status =
        gr_field_refuse(r, gr_node_get(root, key), NULL, key, "expected one of %s, found \"%.60s\"",
                        list.data != NULL ? list.data : "the known ones", value);
    gr_buf_free(&list);
    return status;
}

static enum gr_status read_names(const struct gr_reading *r, const struct gr_node *root)
{
    static const char *const arches[] = {"blackhole", "wormhole_b0", NULL};
    static const char *const kinds[] = {KIND_SERVER, "vllm-fork", "vllm-plugin", NULL};
    struct gr_manifest *m = r->m;
    GR_TRY(gr_field_string(r, root, NULL, "repo", GR_REQUIRED, &m->repo));
    GR_TRY(gr_field_string(r, root, NULL, "name", GR_REQUIRED, &m->name));
    GR_TRY(gr_field_string(r, root, NULL, "arch", GR_REQUIRED, &m->arch));
    GR_TRY(read_schema(r, root));
    if (!gr_is_slug(m->name)) {
        return gr_field_refuse(r, gr_node_get(root, "name"), NULL, "name",
                               "expected a-z, 0-9, \".\", \"_\" and \"-\", a letter or digit first, found \"%.100s\"",
                               m->name);
    }
    GR_TRY(read_all_weights(r, root));
    if (!gr_is_repo_id(m->repo)) {
        return gr_field_refuse(r, gr_node_get(root, "repo"), NULL, "repo",
                               "expected a repository ORG/NAME, found \"%.200s\"", m->repo);
    }
    GR_TRY(one_of(r, root, "arch", m->arch, arches));
    GR_TRY(gr_field_string(r, root, NULL, "kind", 0, &m->kind));
    m->kind = m->kind != NULL ? m->kind : "vllm-plugin";
    return one_of(r, root, "kind", m->kind, kinds);
}

/* ---- source ---- */

/* A folder, or a commit of a git repository. */
static enum gr_status read_root(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                const char *key, struct gr_code_root *out)
{
    static const char *const known[] = {"repo", "ref", "sha", NULL};
    const struct gr_node *node = gr_node_get(map, key);
    if (node != NULL && node->kind == GR_NODE_STRING) {
        return gr_field_word(r, map, where, key, GR_REQUIRED, &out->path);
    }
    const char *inner = gr_arena_printf(r->pool, "%s.%s", where, key);
    GR_TRY(gr_field_need_map(r, node, map, where, key));
    GR_TRY(gr_field_need_known(r, node, inner, known));
    GR_TRY(gr_field_word(r, node, inner, "repo", GR_REQUIRED, &out->repo));
    return gr_field_word(r, node, inner, "ref", GR_REQUIRED, &out->ref);
}

static enum gr_status read_paths(const struct gr_reading *r, const struct gr_node *map, const char *where,
                                 const char *key, struct gr_strings *out)
{
    GR_TRY(gr_field_strings(r, map, where, key, GR_REQUIRED, out, NULL));
    const struct gr_node *list = gr_node_get(map, key);
    if (out->n == 0) {
        return gr_field_refuse(r, list, where, key, "expected at least one path");
    }
    for (int i = 0; i < out->n; i++) {
        if (!gr_is_inner_path(out->items[i])) {
            return gr_field_refuse(
                r, list->items[i], where, gr_field_at(r, key, i),
                "expected a path below its root, without a leading \"/\" and \"..\", found \"%.200s\"", out->items[i]);
        }
    }
    return GR_OK;
}

static enum gr_status read_extra_roots(const struct gr_reading *r, const struct gr_node *list)
{
    static const char *const known[] = {"root", "paths", NULL};
    struct gr_manifest *m = r->m;
    for (int i = 0; list != NULL && i < list->n; i++) {
        const char *where = gr_field_at(r, "source.extra_code", i);
        struct gr_code_root *root = &m->roots[m->n_roots];
        GR_TRY(gr_field_need_map(r, list->items[i], list, where, NULL));
        GR_TRY(gr_field_need_known(r, list->items[i], where, known));
        GR_TRY(read_root(r, list->items[i], where, "root", root));
        GR_TRY(read_paths(r, list->items[i], where, "paths", &root->paths));
        m->n_roots++;
    }
    return GR_OK;
}

static enum gr_status read_source(const struct gr_reading *r, const struct gr_node *root)
{
    static const char *const known[] = {"tt_metal", "code", "extra_code", "ubuntu", "python", NULL};
    struct gr_manifest *m = r->m;
    const struct gr_node *source = gr_node_get(root, "source"), *list;
    GR_TRY(gr_field_need_map(r, source, root, "source", NULL));
    GR_TRY(gr_field_need_known(r, source, "source", known));
    GR_TRY(gr_field_word(r, source, "source", "ubuntu", GR_REQUIRED, &m->ubuntu));
    GR_TRY(gr_field_word(r, source, "source", "python", GR_REQUIRED, &m->python));
    GR_TRY(gr_field_list(r, source, "source", "extra_code", GR_NULLABLE, &list));
    m->roots = gr_arena_take(r->pool, 1 + (size_t)(list != NULL ? list->n : 0), sizeof *m->roots);
    if (m->roots == NULL) {
        return gr_arena_none_left(r->err);
    }
    GR_TRY(read_root(r, source, "source", "tt_metal", &m->roots[0]));
    GR_TRY(read_paths(r, source, "source", "code", &m->roots[0].paths));
    m->n_roots = 1;
    return read_extra_roots(r, list);
}

static enum gr_status read_image_name(const struct gr_reading *r, const struct gr_node *image, const char *key,
                                      const char **out)
{
    GR_TRY(gr_field_string(r, image, "image", key, GR_NULLABLE, out));
    if (*out != NULL && !gr_is_image_name(*out)) {
        return gr_field_refuse(r, gr_node_get(image, key), "image", key,
                               "expected \"hf\" or the name of a registry or image, found \"%.200s\"", *out);
    }
    return GR_OK;
}

static enum gr_status read_image(const struct gr_reading *r, const struct gr_node *root)
{
    static const char *const known[] = {"registry", "repository", NULL};
    struct gr_manifest *m = r->m;
    const struct gr_node *image = gr_node_get(root, "image");
    if (image != NULL) {
        GR_TRY(gr_field_need_map(r, image, root, "image", NULL));
        GR_TRY(gr_field_need_known(r, image, "image", known));
        GR_TRY(read_image_name(r, image, "registry", &m->registry));
        GR_TRY(read_image_name(r, image, "repository", &m->repository));
    }
    m->registry = m->registry != NULL ? m->registry : "hf";
    m->repository = m->repository != NULL ? m->repository : m->name;
    return GR_OK;
}

/* ---- serve ---- */

static enum gr_status read_serve(const struct gr_reading *r, const struct gr_node *root, const struct gr_node **list)
{
    struct gr_manifest *m = r->m;
    const struct gr_node *serve = gr_node_get(root, "serve");
    static const struct gr_node empty = {.kind = GR_NODE_MAP};
    GR_TRY(gr_block_serve(r, serve != NULL ? serve : &empty, "serve", false, &m->serve));
    GR_TRY(gr_field_few(r, root, NULL, "serve_profiles", GR_NULLABLE, list));
    if (*list != NULL && (*list)->n == 0) {
        *list = NULL;
    }
    m->profiles = gr_arena_take(r->pool, *list != NULL ? (size_t)(*list)->n : 1, sizeof *m->profiles);
    if (m->profiles == NULL) {
        return gr_arena_none_left(r->err);
    }
    if (*list == NULL) {
        GR_TRY(gr_block_serve(r, &empty, "serve", false, &m->profiles[0])); /* for its "not given" values */
        m->profiles[0].name = "default";
        m->n_profiles = 1;
    }
    for (; *list != NULL && m->n_profiles < (*list)->n; m->n_profiles++) {
        GR_TRY(gr_block_serve(r, (*list)->items[m->n_profiles], gr_field_at(r, "serve_profiles", m->n_profiles), true,
                              &m->profiles[m->n_profiles]));
    }
    const struct gr_node *at = gr_node_get(root, "default_profile");
    GR_TRY(gr_field_string(r, root, NULL, "default_profile", m->n_profiles > 1 ? 0 : GR_NULLABLE, &m->default_profile));
    GR_TRY(gr_block_check_profiles(r, *list, "serve_profiles", at, "default_profile"));
    if (m->n_profiles > 1 && m->default_profile == NULL) {
        return gr_field_refuse(r, *list, NULL, "default_profile", "required with %d serve profiles, not given",
                               m->n_profiles);
    }
    return GR_OK;
}

static enum gr_status check_profile(const struct gr_reading *r, const struct gr_node *entry,
                                    const struct gr_node *serve, const char *where, const struct gr_profile *p)
{
    const bool engine = strcmp(r->m->kind, KIND_SERVER) != 0;
    const struct gr_node *mesh = gr_node_get(entry, "mesh_device"), *hardware = gr_node_get(entry, "hardware");
    mesh = mesh != NULL && mesh->kind == GR_NODE_STRING ? mesh : gr_node_get(serve, "mesh_device");
    hardware = hardware != NULL && hardware->kind == GR_NODE_STRING ? hardware : gr_node_get(serve, "hardware");
    const struct {
        const char *key;
        bool missing;
    } needed[] = {{"hardware", p->block.hardware == NULL},
                  {"mesh_device", p->block.mesh_device == NULL},
                  {"max_num_seqs", engine && p->block.max_num_seqs < 0},
                  {"block_size", engine && p->block.block_size < 0}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (needed[i].missing) {
            return gr_field_refuse(r, entry, where, needed[i].key,
                                   "required, given neither in profile \"%s\" nor in serve", p->block.name);
        }
    }
    if (p->rows == 0) {
        return gr_field_refuse(r, mesh, where, "mesh_device",
                               "expected a known mesh as P150, P150x2, N300, T3K, or \"(rows, cols)\", found \"%.60s\"",
                               p->block.mesh_device);
    }
    if (p->chips == 0) {
        return gr_field_refuse(
            r, hardware, where, "hardware",
            "expected a board as p100, p150, p300, n150, n300, e150 with xN for several, found \"%.60s\"",
            p->block.hardware);
    }
    if (p->rows * p->cols != p->chips) {
        return gr_field_refuse(r, mesh, where, "mesh_device", "%dx%d has %d chips, but hardware %s has %d", p->rows,
                               p->cols, p->rows * p->cols, p->block.hardware, p->chips);
    }
    return GR_OK;
}

static enum gr_status check_merged(const struct gr_reading *r, const struct gr_node *root, const struct gr_node *list)
{
    struct gr_manifest *m = r->m;
    const struct gr_node *serve = gr_node_get(root, "serve");
    struct gr_profile p;
    serve = serve != NULL ? serve : root; /* for its place */
    for (int i = 0; i < m->n_profiles; i++) {
        GR_TRY(gr_manifest_profile(m, m->profiles[i].name, &p, r->err));
        const enum gr_status status = check_profile(r, list != NULL ? list->items[i] : serve, serve,
                                                    list != NULL ? gr_field_at(r, "serve_profiles", i) : "serve", &p);
        gr_profile_free(&p);
        GR_TRY(status);
    }
    GR_TRY(gr_manifest_profile(m, NULL, &p, r->err));
    m->device_count = p.chips;
    gr_profile_free(&p);
    return GR_OK;
}

/* What the service is told to serve is what is fetched for it: otherwise it ends after the download. */
static enum gr_status check_pin(const struct gr_reading *r, const struct gr_node *block, const char *where)
{
    const struct gr_node *pin = gr_node_get(gr_node_get(block, "env"), GR_MANIFEST_PIN);
    const char *revision = r->m->weights.revision;
    if (pin == NULL || revision == NULL || strcmp(pin->text, revision) == 0) {
        return GR_OK;
    }
    const char *inner = gr_arena_printf(r->pool, "%s.env", where);
    return inner == NULL
               ? gr_arena_none_left(r->err)
               : gr_field_refuse(r, pin, inner, GR_MANIFEST_PIN,
                                 "is \"%.200s\", but weights.revision is \"%.200s\": give both the same commit",
                                 pin->text, revision);
}

static enum gr_status check_pins(const struct gr_reading *r, const struct gr_node *root, const struct gr_node *list)
{
    GR_TRY(check_pin(r, gr_node_get(root, "serve"), "serve"));
    for (int i = 0; list != NULL && i < list->n; i++) {
        GR_TRY(check_pin(r, list->items[i], gr_field_at(r, "serve_profiles", i)));
    }
    return GR_OK;
}

/* ---- runtime ---- */

/* True when a staged path starts with the first `n` bytes of `package` as its first part. */
static bool is_shipped(const struct gr_manifest *m, const char *package, size_t n)
{
    for (int i = 0; i < m->n_roots; i++) {
        for (int k = 0; k < m->roots[i].paths.n; k++) {
            const char *path = m->roots[i].paths.items[k];
            if (strcspn(path, "/") == n && strncmp(path, package, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

static enum gr_status read_runtime(const struct gr_reading *r, const struct gr_node *runtime)
{
    static const char *const known[] = {"app", "packages", "lock", "mesh_shape_env", NULL};
    struct gr_manifest *m = r->m;
    if (strcmp(m->kind, KIND_SERVER) != 0) {
        return GR_OK; /* the other kinds have rules of their own, which their tool checks */
    }
    GR_TRY(gr_field_need_known(r, runtime, "runtime", known));
    GR_TRY(gr_field_word(r, runtime, "runtime", "app", GR_REQUIRED, &m->app));
    const struct gr_node *app = gr_node_get(runtime, "app");
    if (strchr(m->app, ':') == NULL || m->app[0] == '-') {
        return gr_field_refuse(r, app, "runtime", "app", "expected module.path:attribute, found \"%.200s\"", m->app);
    }
    const size_t top = strcspn(m->app, ".:");
    if (!is_shipped(m, m->app, top)) {
        return gr_field_refuse(r, app, "runtime", "app",
                               "its top package \"%.*s\" is no first part of a source.code path",
                               (int)(top < 100 ? top : 100), m->app);
    }
    GR_TRY(gr_field_word(r, runtime, "runtime", "mesh_shape_env", GR_NULLABLE, &m->mesh_shape_env));
    if (m->mesh_shape_env != NULL && !gr_is_variable_name(m->mesh_shape_env)) {
        return gr_field_refuse(r, gr_node_get(runtime, "mesh_shape_env"), "runtime", "mesh_shape_env",
                               "expected the name of a variable, found \"%.100s\"", m->mesh_shape_env);
    }
    GR_TRY(gr_field_word(r, runtime, "runtime", "lock", GR_NULLABLE, &m->lock));
    if (m->lock != NULL && (!gr_is_inner_path(m->lock) || strchr(m->lock, '/') != NULL)) {
        return gr_field_refuse(r, gr_node_get(runtime, "lock"), "runtime", "lock",
                               "expected the name of a file next to the manifest, found \"%.100s\"", m->lock);
    }
    return gr_field_strings(r, runtime, "runtime", "packages", GR_NULLABLE, &m->packages, NULL);
}

/* ---- the whole ---- */

/* Staged paths that lie in folders are there. */
static enum gr_status check_paths(const struct gr_reading *r, const struct gr_node *root, const char *base)
{
    const struct gr_node *source = gr_node_get(root, "source"), *extra = gr_node_get(source, "extra_code");
    for (int i = 0; i < r->m->n_roots; i++) {
        const struct gr_code_root *from = &r->m->roots[i];
        const struct gr_node *list = i == 0 ? gr_node_get(source, "code") : gr_node_get(extra->items[i - 1], "paths");
        const char *where = i == 0 ? "source.code" : gr_field_at(r, "source.extra_code", i - 1);
        for (int k = 0; from->path != NULL && k < from->paths.n; k++) {
            char dir[GR_PATH_BYTES], path[GR_PATH_BYTES];
            struct stat st;
            GR_TRY(gr_path_join(dir, from->path[0] == '/' ? "" : base, from->path, r->err));
            GR_TRY(gr_path_join(path, dir, from->paths.items[k], r->err));
            if (stat(path, &st) != 0) {
                return gr_field_refuse(r, list->items[k], where, NULL, "%s does not exist", path);
            }
        }
    }
    return GR_OK;
}

static enum gr_status read_manifest(const struct gr_reading *r, const struct gr_node *root, const char *base)
{
    static const char *const known[] = {"schema",
                                        "schema_version",
                                        "repo",
                                        "name",
                                        "weights",
                                        "kind",
                                        "arch",
                                        "source",
                                        "image",
                                        "auxiliary_weights",
                                        "serve_profiles",
                                        "default_profile",
                                        "runtime",
                                        "serve",
                                        "verify",
                                        "card",
                                        NULL};
    struct gr_manifest *m = r->m;
    GR_TRY(gr_field_need_map(r, root, NULL, "manifest", NULL));
    const struct gr_node nothing = {.kind = GR_NODE_MAP, .line = root->line, .column = root->column};
    const struct gr_node *list = NULL, *card, *runtime = gr_node_get(root, "runtime");
    GR_TRY(gr_field_need_known(r, root, NULL, known));
    GR_TRY(read_names(r, root));
    GR_TRY(read_source(r, root));
    GR_TRY(read_image(r, root));
    if ((card = gr_node_get(root, "card")) != NULL && card->kind != GR_NODE_NULL) {
        GR_TRY(gr_block_card(r, card, "card", &m->card));
        m->has_card = true;
    }
    GR_TRY(gr_field_strings(r, root, NULL, "verify", 0, &m->verify, NULL));
    runtime = runtime != NULL ? runtime : &nothing;
    GR_TRY(gr_field_need_map(r, runtime, root, "runtime", NULL));
    GR_TRY(read_serve(r, root, &list));
    GR_TRY(check_merged(r, root, list));
    GR_TRY(read_runtime(r, runtime));
    GR_TRY(check_pins(r, root, list)); /* a rule of ours: behind those of the other readers */
    return base != NULL ? check_paths(r, root, base) : GR_OK;
}

enum gr_status gr_manifest_parse_yaml(const char *text, size_t n, const char *what, const char *base,
                                      struct gr_manifest *out, struct gr_err *err)
{
    const struct gr_node *root = NULL;
    *out = (struct gr_manifest){0};
    GR_TRY(gr_manifest_begin(out, err));
    const struct gr_reading r = {.file = what, .pool = out->memory, .m = out, .err = err};
    enum gr_status status = gr_yaml_parse(r.pool, text, n, what, &root, err);
    if (status == GR_OK) {
        status = read_manifest(&r, root, base);
    }
    if (status != GR_OK) {
        gr_manifest_free(out);
    }
    return status;
}

enum gr_status gr_manifest_read_yaml(const char *path, const char *base, struct gr_manifest *out, struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    *out = (struct gr_manifest){0};
    GR_TRY(gr_fs_read(path, GR_MANIFEST_BYTES_MAX, &text, &n, err));
    const enum gr_status status = gr_manifest_parse_yaml(text, n, path, base, out, err);
    free(text);
    return status;
}
