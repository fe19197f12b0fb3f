/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_pull.c: `gr00t pull`: a repository of the Hub into its cache. One that holds a wire manifest is a package and is entered into the tool's state;
 * with it come, when asked for, the weights that it names and the tokenizer. Anything else is a snapshot. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/package_target.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "cli/settings_tool.h"
#include "hub/download.h"
#include "hub/hub_cache.h"

/* Where gr_settings_tokenizer looks last; its vocabulary is that of Qwen2. */
static const char tokenizer_id[] = "Qwen/Qwen3-1.7B";
static const char *const tokenizer_files[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};

struct options {
    bool with_weights, tokenizer, dry_run, force, json;
    struct gr_arg_list allow, ignore;
    struct gr_arg_int connections;
    const char *arch;
};

static const struct gr_arg args[] = {
    {.name = "with-weights",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, with_weights),
     .help = "of a package: also the weights that its manifest names"},
    {.name = "tokenizer",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, tokenizer),
     .help = "also the tokenizer files, from Qwen/Qwen3-1.7B"},
    {.name = "allow",
     .kind = GR_ARG_LIST,
     .offset = offsetof(struct options, allow),
     .value = "PATTERN",
     .help = "only files like this, \"*.json\"; * also matches /"},
    {.name = "ignore",
     .kind = GR_ARG_LIST,
     .offset = offsetof(struct options, ignore),
     .value = "PATTERN",
     .help = "no files like this; goes before --allow"},
    {.name = "force",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, force),
     .help = "fetch again what is there"},
    {.name = "arch",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, arch),
     .value = "NAME",
     .help = "of a package: fail before anything is fetched unless it is for this chip"},
    {.name = "connections",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, connections),
     .value = "N",
     .min = 1,
     .max = GR_PULL_CONNECTIONS_MAX,
     .help = "at a time, also on one file [8]"},
    {.name = "dry-run",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, dry_run),
     .help = "list what would be fetched"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the result as JSON"},
};

struct job {
    struct gr_cli *cli;
    const struct options *o;
    struct gr_tool_hub tool;
    struct gr_progress progress;
    struct gr_jw w;
    struct gr_buf json;
    /* of the repository that was named, once it turns out to be a package */
    bool is_package;
    struct gr_manifest manifest;
    struct gr_buf manifest_text;
};

/* ---- output ---- */

static void show(void *user, uint64_t done, uint64_t total, const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[16];
    snprintf(name, sizeof name, "%.14s", slash != NULL ? slash + 1 : path);
    gr_progress_report(user, name, done, total);
}

static bool is_there(const struct job *j, const struct gr_pull *pull, const struct gr_hub_file *f)
{
    return !pull->force && gr_cache_has(j->tool.cache, pull->id, f);
}

static void list_files(struct job *j, const struct gr_pull *pull, const struct gr_pulled *p)
{
    char size[32];
    for (int i = 0; i < p->repo.n_files; i++) {
        const struct gr_hub_file *f = &p->repo.files[i];
        if (gr_hub_matches(&pull->patterns, f->path)) {
            gr_buf_line(&j->cli->out, "  %-6s %9s  %s\n", is_there(j, pull, f) ? "there" : "fetch",
                        gr_human_bytes(size, (double)f->size), f->path);
        }
    }
}

static void json_files(struct job *j, const struct gr_pull *pull, const struct gr_pulled *p)
{
    gr_jw_put_array(&j->w, "file_list");
    for (int i = 0; i < p->repo.n_files; i++) {
        const struct gr_hub_file *f = &p->repo.files[i];
        if (gr_hub_matches(&pull->patterns, f->path)) {
            gr_jw_object(&j->w);
            gr_jw_put_string(&j->w, "path", f->path);
            gr_jw_put_u64(&j->w, "size", f->size);
            gr_jw_put_string(&j->w, f->lfs ? "sha256" : "git_sha1", f->oid);
            gr_jw_put_bool(&j->w, "present", is_there(j, pull, f));
            gr_jw_end_object(&j->w);
        }
    }
    gr_jw_end_array(&j->w);
}

static void report_json(struct job *j, const struct gr_pull *pull, const struct gr_pulled *p, const char *kind,
                        double ms)
{
    struct gr_jw *w = &j->w;
    gr_jw_object(w);
    gr_jw_put_string(w, "id", p->id);
    gr_jw_put_string(w, "commit", p->commit);
    gr_jw_put_string(w, "kind", kind);
    gr_jw_put_string(w, "snapshot", p->snapshot);
    gr_jw_put_int(w, "files", p->n_files);
    gr_jw_put_int(w, "files_present", p->n_present);
    gr_jw_put_u64(w, "bytes", p->bytes);
    gr_jw_put_u64(w, "bytes_present", p->bytes_present);
    gr_jw_put_u64(w, "bytes_fetched", p->bytes_fetched);
    gr_jw_put_bool(w, "dry_run", pull->dry_run);
    gr_jw_put_milli(w, "seconds", ms / 1000.0);
    if (pull->dry_run) {
        json_files(j, pull, p);
    }
    gr_jw_end_object(w);
}

/* The folder stands alone on the last line, for scripts. */
static void report_text(struct job *j, const struct gr_pull *pull, const struct gr_pulled *p, const char *kind,
                        double ms)
{
    char size[2][32];
    struct gr_buf *out = &j->cli->out;
    gr_buf_line(out, "%s @ %s: %s, %d files, %s\n", p->id, p->commit, kind, p->n_files,
                gr_human_bytes(size[0], (double)p->bytes));
    if (pull->dry_run) {
        list_files(j, pull, p);
        gr_buf_printf(out, "%s to fetch, %s there\n", gr_human_bytes(size[0], (double)(p->bytes - p->bytes_present)),
                      gr_human_bytes(size[1], (double)p->bytes_present));
        return;
    }
    if (p->bytes_fetched > 0) {
        gr_buf_printf(out, "%s fetched in %.1f s, %s/s\n", gr_human_bytes(size[0], (double)p->bytes_fetched),
                      ms / 1000.0, gr_human_bytes(size[1], (double)p->bytes_fetched / (ms > 1.0 ? ms : 1.0) * 1000.0));
    } else {
        gr_buf_puts(out, "all of it was there\n");
    }
    gr_buf_line(out, "%s\n", p->snapshot);
}

/* ---- one repository ---- */

static enum gr_status pull_one(struct job *j, struct gr_pull *pull, const char *kind, struct gr_pulled *out,
                               struct gr_err *err)
{
    const double start = gr_clock_ms();
    pull->connections = j->o->connections.given ? (int)j->o->connections.value : 0;
    pull->dry_run = j->o->dry_run;
    pull->force = j->o->force;
    pull->progress = show;
    pull->progress_user = &j->progress;
    gr_progress_begin(&j->progress, j->cli);
    j->progress.rate = true;
    enum gr_status status = gr_hub_pull(j->tool.hub, pull, out, err);
    gr_progress_end(&j->progress);
    if (gr_settings_tool_cancelled()) {
        gr_settings_tool_interrupted("what came so far is kept, the same command goes on from there");
    }
    GR_TRY(status);
    kind = j->is_package && strcmp(kind, "snapshot") == 0 ? "package" : kind;
    if (j->o->json) {
        report_json(j, pull, out, kind, gr_clock_ms() - start);
    } else {
        report_text(j, pull, out, kind, gr_clock_ms() - start);
    }
    struct gr_err ignored; /* shown as it goes; a write error comes up again at the end */
    (void)gr_cli_flush(j->cli, &ignored);
    return GR_OK;
}

/* A manifest among the files makes it a package; one for another chip is not fetched. */
static enum gr_status looked(void *user, const struct gr_hub_repo *repo, struct gr_err *err)
{
    struct job *j = user;
    j->is_package = gr_hub_repo_find(repo, GR_MANIFEST_FILE) != NULL;
    if (!j->is_package) {
        if (j->o->arch != NULL) {
            return gr_fail(err, GR_ERR_USAGE, "%s is no package (no " GR_MANIFEST_FILE "), --arch is for packages",
                           repo->id);
        }
        return GR_OK;
    }
    GR_TRY(gr_package_on_hub(j->tool.hub, repo, &j->manifest_text, &j->manifest, err));
    if (j->o->arch != NULL && (j->manifest.arch == NULL || strcmp(j->o->arch, j->manifest.arch) != 0)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s is for %s, not for %s: nothing is fetched", repo->id,
                       j->manifest.arch != NULL ? j->manifest.arch : "no chip that it names", j->o->arch);
    }
    return GR_OK;
}

static void set_text(char *out, size_t n, const char *text) { snprintf(out, n, "%s", text != NULL ? text : ""); }

/* The manifest's copy and the entry in installed.json: from here on other verbs, and the vendor's tool, know the package. */
static enum gr_status enter(struct job *j, const struct gr_pulled *p, struct gr_err *err)
{
    const struct gr_manifest *m = &j->manifest;
    struct gr_installed item = {0};
    char dir[GR_PATH_BYTES];
    GR_TRY(gr_state_pulled(&j->tool.dirs, p->id, item.manifest, err));
    set_text(dir, sizeof dir, item.manifest);
    char *slash = strrchr(dir, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    GR_TRY(gr_fs_mkdirs(dir, err));
    GR_TRY(gr_fs_write(item.manifest, j->manifest_text.data, j->manifest_text.len, err));
    set_text(item.id, sizeof item.id, p->id);
    set_text(item.revision, sizeof item.revision, p->commit);
    set_text(item.arch, sizeof item.arch, m->arch);
    set_text(item.image, sizeof item.image, m->image_tag);
    set_text(item.image_digest, sizeof item.image_digest, m->image_digest);
    set_text(item.profile, sizeof item.profile, m->default_profile != NULL ? m->default_profile : m->profiles[0].name);
    item.profiles.items = calloc((size_t)m->n_profiles + 1, sizeof *item.profiles.items);
    if (item.profiles.items == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the profiles");
    }
    for (int i = 0; i < m->n_profiles; i++) {
        item.profiles.items[item.profiles.n++] = m->profiles[i].name != NULL ? m->profiles[i].name : "default";
    }
    enum gr_status status = gr_installed_put(&j->tool.dirs, &item, err);
    free(item.profiles.items);
    return status;
}

static enum gr_status pull_weights(struct job *j, const struct gr_weights_ref *w, struct gr_err *err)
{
    struct gr_pull pull = {
        .id = w->repo, .revision = w->revision, .patterns = {w->allow.items, w->ignore.items, w->allow.n, w->ignore.n}};
    struct gr_pulled out;
    if (w->repo == NULL || !gr_hub_is_id(w->repo) || (w->revision != NULL && !gr_hub_is_revision(w->revision))) {
        return gr_fail(err, GR_ERR_FORMAT, "the manifest names weights \"%.100s\" @ \"%.100s\", which is no repository",
                       w->repo != NULL ? w->repo : "", w->revision != NULL ? w->revision : "main");
    }
    GR_TRY(pull_one(j, &pull, "weights", &out, err));
    gr_pulled_free(&out);
    return GR_OK;
}

static enum gr_status pull_named(struct job *j, const char *word, struct gr_err *err)
{
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES];
    struct gr_pulled out;
    GR_TRY(gr_hub_parse_id(word, id, revision, err));
    struct gr_pull pull = {.id = id,
                           .revision = revision[0] != '\0' ? revision : NULL,
                           .patterns = {j->o->allow.items, j->o->ignore.items, j->o->allow.n, j->o->ignore.n},
                           .looked = looked,
                           .looked_user = j};
    GR_TRY(pull_one(j, &pull, "snapshot", &out, err));
    enum gr_status status = j->is_package && !j->o->dry_run ? enter(j, &out, err) : GR_OK;
    gr_pulled_free(&out);
    if (status == GR_OK && j->o->with_weights && j->manifest.has_weights) {
        status = pull_weights(j, &j->manifest.weights, err);
    }
    for (int i = 0; status == GR_OK && j->o->with_weights && i < j->manifest.n_auxiliary; i++) {
        status = pull_weights(j, &j->manifest.auxiliary[i], err);
    }
    return status;
}

static enum gr_status pull_tokenizer(struct job *j, struct gr_err *err)
{
    struct gr_pull pull = {
        .id = tokenizer_id,
        .patterns = {.allow = tokenizer_files, .n_allow = sizeof tokenizer_files / sizeof tokenizer_files[0]}};
    struct gr_pulled out;
    GR_TRY(pull_one(j, &pull, "tokenizer", &out, err));
    gr_pulled_free(&out);
    return GR_OK;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    struct job j = {.cli = cli, .o = options};
    j.w.out = &j.json;
    if (n_words == 0 && !j.o->tokenizer) {
        return gr_fail(err, GR_ERR_USAGE, "missing ORG/NAME[@REVISION]; only --tokenizer goes without");
    }
    gr_settings_tool_catch();
    gr_jw_object(&j.w);
    gr_jw_put_array(&j.w, "repositories");
    enum gr_status status = gr_settings_tool_hub(&j.tool, err);
    if (status == GR_OK && n_words > 0) {
        status = pull_named(&j, words[0], err);
    }
    if (status == GR_OK && j.o->tokenizer) {
        status = pull_tokenizer(&j, err);
    }
    gr_jw_end_array(&j.w);
    gr_jw_end_object(&j.w);
    if (status == GR_OK && j.o->json) {
        gr_buf_append(&cli->out, &j.json);
    }
    gr_manifest_free(&j.manifest);
    gr_buf_free(&j.manifest_text);
    gr_buf_free(&j.json);
    gr_tool_hub_free(&j.tool);
    return status;
}

const struct gr_command gr_cmd_pull = {
    .name = "pull",
    .summary = "Download a repository of the Hub into its cache and verify every byte",
    .synopsis = "ORG/NAME[@REVISION] [OPTIONS]",
    .more =
        "The cache is the one of the Hub's own clients: they find what is pulled here, and what they fetched is not fetched\n"
        "again. Run it again after a break: it goes on where it stopped. The folder is the last line of the output.\n"
        "Variables: HF_ENDPOINT, HF_TOKEN (else HF_TOKEN_PATH, HF_HOME/token), HF_HUB_CACHE, HF_HOME, HF_HUB_OFFLINE,\n"
        "HF_HUB_DOWNLOAD_TIMEOUT (seconds of silence, 10), SSL_CERT_FILE, http_proxy, https_proxy, no_proxy.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 0,
    .max_words = 1,
    .words = "ORG/NAME[@REVISION]",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
