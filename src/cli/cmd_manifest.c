/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_manifest.c: `gr00t manifest check`: an authoring file or a wire manifest, accepted with a summary or refused with place and key. */
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "package/manifest.h"

enum { BYTES_MAX = 1 << 20 };

struct options {
    bool json;
    const char *base;
};

static const struct gr_arg args[] = {
    {.name = "base",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, base),
     .value = "DIR",
     .help = "look the files of source.code up below DIR (authoring files)"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print JSON"},
};

/* The manifest in a folder, or the file itself. */
static enum gr_status find_file(const char *word, char out[GR_PATH_BYTES], struct gr_err *err)
{
    if (!gr_fs_is_dir(word)) {
        return gr_path_join(out, "", word, err);
    }
    GR_TRY(gr_path_join(out, word, GR_MANIFEST_FILE, err));
    if (!gr_fs_is_file(out)) {
        GR_TRY(gr_path_join(out, word, "tt-model.yaml", err));
    }
    if (!gr_fs_is_file(out)) {
        return gr_fail(err, GR_ERR_IO, "%s: a folder with neither %s nor tt-model.yaml in it", word, GR_MANIFEST_FILE);
    }
    return GR_OK;
}

/* By the name's end, else by the first character: a wire manifest is a JSON object. */
static enum gr_status is_wire(const char *path, bool *wire, struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    *wire = gr_ends_with(path, ".json");
    if (*wire || gr_ends_with(path, ".yaml") || gr_ends_with(path, ".yml")) {
        return GR_OK;
    }
    GR_TRY(gr_fs_read(path, BYTES_MAX, &text, &n, err));
    *wire = text[strspn(text, " \t\r\n")] == '{';
    free(text);
    return GR_OK;
}

static bool is_default(const struct gr_manifest *m, int i)
{
    return m->default_profile != NULL ? strcmp(m->default_profile, m->profiles[i].name) == 0 : i == 0;
}

static void text_weights(const char *label, const struct gr_weights_ref *ref, struct gr_buf *out)
{
    const char *revision = ref->revision != NULL ? ref->revision : "not pinned";
    gr_buf_line(out, "%-11s%s @ %s", label, ref->repo, revision);
    if (ref->allow.n > 0) {
        gr_buf_printf(out, ", %d pattern%s", ref->allow.n, ref->allow.n == 1 ? "" : "s");
    }
    gr_buf_puts(out, "\n");
}

static enum gr_status text_summary(const char *path, bool wire, const struct gr_manifest *m, struct gr_buf *out,
                                   struct gr_err *err)
{
    struct gr_table t = {.columns = 4, .align = "llll", .indent = 2};
    gr_buf_line(out, "%s: %s manifest, schema %s: accepted\n", path, wire ? "wire" : "authoring", m->schema);
    gr_buf_line(out, "name       %s\n", m->name);
    gr_buf_line(out, "kind       %s for %s\n", m->kind, m->arch);
    if (m->repo != NULL) {
        gr_buf_line(out, "repository %s\n", m->repo);
    }
    if (m->image_tag != NULL) {
        gr_buf_line(out, "image      %s %s\n", m->image_tag, m->image_digest != NULL ? m->image_digest : "");
    }
    if (m->has_weights) {
        text_weights("weights", &m->weights, out);
    }
    for (int i = 0; i < m->n_auxiliary; i++) {
        text_weights("", &m->auxiliary[i], out);
    }
    gr_buf_puts(out, "profiles\n");
    for (int i = 0; i < m->n_profiles; i++) {
        struct gr_profile p;
        GR_TRY(gr_manifest_profile(m, m->profiles[i].name, &p, err));
        gr_table_cell(&t, p.block.name);
        gr_table_cell(&t, is_default(m, i) ? "default" : "");
        gr_table_cellf(&t, "%s, %s", p.block.hardware != NULL ? p.block.hardware : "no board",
                       p.block.mesh_device != NULL ? p.block.mesh_device : "no mesh");
        gr_table_cell(&t, p.block.description != NULL ? p.block.description : "");
        gr_profile_free(&p);
    }
    gr_table_print(&t, out);
    return GR_OK;
}

static void json_weights(struct gr_jw *w, const struct gr_weights_ref *ref)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "repo", ref->repo);
    gr_jw_put_string(w, "revision", ref->revision);
    gr_jw_end_object(w);
}

static enum gr_status json_profiles(struct gr_jw *w, const struct gr_manifest *m, struct gr_err *err)
{
    gr_jw_put_array(w, "profiles");
    for (int i = 0; i < m->n_profiles; i++) {
        struct gr_profile p;
        GR_TRY(gr_manifest_profile(m, m->profiles[i].name, &p, err));
        gr_jw_object(w);
        gr_jw_put_string(w, "name", p.block.name);
        gr_jw_put_bool(w, "default", is_default(m, i));
        gr_jw_put_string(w, "description", p.block.description);
        gr_jw_put_string(w, "hardware", p.block.hardware);
        gr_jw_put_string(w, "mesh_device", p.block.mesh_device);
        gr_jw_put_int(w, "chips", p.chips);
        gr_jw_put_object(w, "env");
        for (int k = 0; k < p.block.n_env; k++) {
            gr_jw_put_string(w, p.block.env[k].name, p.block.env[k].value);
        }
        gr_jw_end_object(w);
        gr_jw_put_array(w, "args");
        for (int k = 0; k < p.block.words.n; k++) {
            gr_jw_string(w, p.block.words.items[k]);
        }
        gr_jw_end_array(w);
        gr_jw_end_object(w);
        gr_profile_free(&p);
    }
    gr_jw_end_array(w);
    return GR_OK;
}

static void log_doubts(const struct gr_manifest *m)
{
    struct gr_buf doubts = {0};
    gr_manifest_doubts(m, &doubts);
    for (char *line = doubts.data, *end; line != NULL && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        gr_log(GR_LOG_WARN, "%s", line);
    }
    gr_buf_free(&doubts);
}

/* m NULL: refused, for the reason in `why`. */
static enum gr_status json_summary(const char *path, bool wire, const struct gr_manifest *m, const struct gr_err *why,
                                   struct gr_buf *out, struct gr_err *err)
{
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "file", path);
    gr_jw_put_string(&w, "form", wire ? "wire" : "authoring");
    gr_jw_put_bool(&w, "accepted", m != NULL);
    if (m == NULL) {
        gr_jw_put_string(&w, "reason", why->msg);
        gr_jw_end_object(&w);
        return GR_OK;
    }
    gr_jw_put_string(&w, "schema", m->schema);
    gr_jw_put_string(&w, "name", m->name);
    gr_jw_put_string(&w, "kind", m->kind);
    gr_jw_put_string(&w, "arch", m->arch);
    gr_jw_put_string(&w, "repo", m->repo);
    gr_jw_put_string(&w, "image", m->image_tag);
    gr_jw_put_string(&w, "image_digest", m->image_digest);
    gr_jw_put_array(&w, "weights");
    if (m->has_weights) {
        json_weights(&w, &m->weights);
    }
    for (int i = 0; i < m->n_auxiliary; i++) {
        json_weights(&w, &m->auxiliary[i]);
    }
    gr_jw_end_array(&w);
    GR_TRY(json_profiles(&w, m, err));
    gr_jw_end_object(&w);
    return GR_OK;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)n_words;
    const struct options *o = options;
    char path[GR_PATH_BYTES];
    bool wire = false;
    struct gr_manifest m = {0};
    struct gr_err ignored = {0};
    GR_TRY(find_file(words[0], path, err));
    GR_TRY(is_wire(path, &wire, err));
    if (wire && o->base != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--base is for authoring files, and %s is a wire manifest", path);
    }
    if (o->base != NULL) {
        GR_TRY(gr_fs_need_dir(o->base, GR_ERR_INPUT, err));
    }
    enum gr_status status = wire ? gr_manifest_read_wire(path, &m, err) : gr_manifest_read_yaml(path, o->base, &m, err);
    if (status != GR_OK) {
        if (o->json && status == GR_ERR_FORMAT) {
            (void)json_summary(path, wire, NULL, err, &cli->out, &ignored);
        }
        return status;
    }
    log_doubts(&m);
    status =
        o->json ? json_summary(path, wire, &m, NULL, &cli->out, err) : text_summary(path, wire, &m, &cli->out, err);
    gr_manifest_free(&m);
    return status;
}

const struct gr_command gr_cmd_manifest_check = {
    .name = "manifest check",
    .summary = "Check a package's manifest",
    .synopsis = "FILE|DIR [--base DIR] [--json]",
    .more =
        "Reads an authoring file (tt-model.yaml, schema 5.1) or a wire manifest (tt_kernel_manifest.json, schema 5, 5.1\n"
        "and 6) and prints what it says, or refuses it: FILE:LINE:COLUMN: KEY: what, with exit code 4. DIR: the manifest\n"
        "in it. JSON has no places: there the key alone is named. Warns where the weights can change under the package: a\n"
        "revision that is no commit, a wire manifest whose TT_WEIGHTS_REVISION is another one.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 1,
    .max_words = 1,
    .words = "FILE",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
