/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_push.c: `gr00t push`: a package folder to its repository on the Hub as one commit. What is to happen to card and listing is decided here,
 * how the files get there in hub/upload.c. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/package_target.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "hub/upload.h"
#include "package/build.h"
#include "package/oci.h"

struct options {
    const char *repo;
    bool publish, is_private, is_public, dry_run, json;
};

static const struct gr_arg args[] = {
    {.name = "repo",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, repo),
     .value = "ORG/NAME",
     .help = "repository to write to [the one the package was built for]"},
    {.name = "publish",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, publish),
     .help = "list it in the catalog; makes it public"},
    {.name = "private",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, is_private),
     .help = "make the repository private; takes it off the catalog"},
    {.name = "public",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, is_public),
     .help = "make the repository public"},
    {.name = "dry-run",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, dry_run),
     .help = "list what would be created, sent, replaced, kept and deleted;\nwrite nothing"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the result as JSON"},
};

/* What happens to one file or to the repository. */
struct step {
    const char *what;
    char *path;
    uint64_t bytes;
};
struct push {
    const struct options *o;
    const struct gr_manifest *manifest;
    const char *target;
    struct step *steps;
    int n, cap;
    bool failed, listed;
    struct gr_progress bar;
};

static void on_step(void *user, const char *what, const char *path, uint64_t bytes)
{
    struct push *p = user;
    gr_log(GR_LOG_DEBUG, "%s %s", what, path);
    if (p->n == p->cap) {
        const int cap = p->cap > 0 ? 2 * p->cap : 64;
        struct step *steps = realloc(p->steps, (size_t)cap * sizeof *steps);
        p->failed = p->failed || steps == NULL;
        p->steps = steps != NULL ? steps : p->steps;
        p->cap = steps != NULL ? cap : p->cap;
    }
    char *copy = p->failed ? NULL : strdup(path);
    p->failed = copy == NULL;
    if (copy != NULL) {
        p->steps[p->n++] = (struct step){.what = what, .path = copy, .bytes = bytes};
    }
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
    gr_progress_report(&((struct push *)user)->bar, "send", done, total);
}

/* A line "key:" of the front matter. */
static bool has_key(const char *text, const char *key)
{
    const char *end = strncmp(text, "---\n", 4) == 0 ? strstr(text + 3, "\n---") : NULL;
    const size_t n = strlen(key);
    for (const char *at = text; end != NULL && (at = strchr(at, '\n')) != NULL && at < end;) {
        at++;
        if (strncmp(at, key, n) == 0 && at[n] == ':') {
            return true;
        }
    }
    return false;
}

/* What the Hub shows and finds a model by. Its page would have to be edited by hand, and the next push would undo that. */
static void warn_gaps(const char *card)
{
    static const char *const keys[] = {"license", "pipeline_tag", "base_model", "tags"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!has_key(card, keys[i])) {
            gr_log(GR_LOG_WARN, "README.md: its front matter has no %s; give it in `card` of tt-model.yaml", keys[i]);
        }
    }
}

/* A listing is kept over the push unless the repository becomes private. */
static enum gr_status rewrite(void *user, const struct gr_hub_repo *remote, struct gr_buf *text, struct gr_err *err)
{
    struct push *p = user;
    const bool was = remote != NULL && gr_package_has_tag(remote, GR_CATALOG_TAG);
    struct gr_err why = {0};
    p->listed = !p->o->is_private && (p->o->publish || was);
    if (p->listed && gr_package_catalog_check(p->manifest, p->target, &why) != GR_OK) {
        gr_log(GR_LOG_WARN, "it stays in the catalog, but: %s", why.msg);
    }
    if (was && !p->listed) {
        gr_log(GR_LOG_INFO, "%s leaves the catalog: private", p->target);
    }
    if (text->data != NULL) {
        warn_gaps(text->data);
    }
    const char *from = p->manifest->repo != NULL ? p->manifest->repo : p->target;
    return gr_card_rewrite(text, from, p->target, p->listed, err);
}

static void put_json(const struct push *p, const struct gr_pushed *done, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "repo", done->id);
    gr_jw_put_bool(&w, "dry_run", p->o->dry_run);
    gr_jw_put_bool(&w, "created", done->created);
    gr_jw_put_bool(&w, "private", done->is_private);
    gr_jw_put_bool(&w, "visibility_changed", done->changed_visibility);
    gr_jw_put_bool(&w, "catalog", p->listed);
    gr_jw_put_string(&w, "commit", done->commit[0] != '\0' ? done->commit : NULL);
    gr_jw_put_string(&w, "url", done->url);
    gr_jw_put_int(&w, "sent", done->n_sent);
    gr_jw_put_int(&w, "unchanged", done->n_unchanged);
    gr_jw_put_int(&w, "deleted", done->n_deleted);
    gr_jw_put_u64(&w, "bytes_sent", done->bytes_sent);
    gr_jw_put_array(&w, "steps");
    for (int i = 0; i < p->n; i++) {
        gr_jw_object(&w);
        gr_jw_put_string(&w, "action", p->steps[i].what);
        gr_jw_put_string(&w, "path", p->steps[i].path);
        gr_jw_put_u64(&w, "bytes", p->steps[i].bytes);
        gr_jw_end_object(&w);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
}

static void put_plan(const struct push *p, const struct gr_pushed *done, struct gr_buf *out)
{
    struct gr_table t = {.columns = 3, .align = "lrl"};
    char size[32];
    for (int i = 0; i < p->n; i++) {
        const struct step *s = &p->steps[i];
        gr_table_cell(&t, s->what);
        gr_table_cell(&t, strchr(s->what, 'p') == s->what || strcmp(s->what, "create") == 0
                              ? ""
                              : gr_human_bytes(size, (double)s->bytes));
        gr_table_cell(&t, s->path);
    }
    gr_table_print(&t, out);
    gr_buf_line(out, "%s: %d to send (at most %s), %d unchanged, %d to delete; %s%s; nothing was written\n", done->id,
                done->n_sent, gr_human_bytes(size, (double)done->bytes_sent), done->n_unchanged, done->n_deleted,
                done->is_private ? "private" : "public", p->listed ? ", in the catalog" : "");
}

static void put_text(const struct push *p, const struct gr_pushed *done, struct gr_buf *out)
{
    char size[32];
    const char *visible = done->is_private ? "private" : "public";
    if (done->created) {
        gr_buf_line(out, "✓ %s created, %s\n", done->id, visible);
    }
    if (done->commit[0] == '\0') {
        gr_buf_line(out, "○ nothing to send, %s holds these %d files\n", done->id, done->n_unchanged);
    } else {
        gr_buf_line(out, "✓ %d file%s sent (%s), %d unchanged, %d deleted\n", done->n_sent,
                    done->n_sent == 1 ? "" : "s", gr_human_bytes(size, (double)done->bytes_sent), done->n_unchanged,
                    done->n_deleted);
        gr_buf_line(out, "✓ commit %s\n", done->url);
    }
    if (done->changed_visibility) {
        gr_buf_line(out, "✓ %s is %s now\n", done->id, visible);
    }
    if (p->listed) {
        gr_buf_line(out, "✓ in the catalog (tag %s)\n", GR_CATALOG_TAG);
    } else {
        gr_buf_line(out, "→ gr00t publish %s   makes it public and lists it\n", done->id);
    }
}

/* A damaged image would be refused by everybody who pulls it. */
static enum gr_status check_image(const char *dir, const struct gr_manifest *m, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_oci_image image;
    struct gr_err why = {0};
    GR_TRY(gr_path_join(path, dir, "image", err));
    if (!gr_fs_is_dir(path) && (m->registry == NULL || strcmp(m->registry, "hf") != 0)) {
        return GR_OK; /* the image is in a registry */
    }
    const enum gr_status status = gr_oci_check(path, &image, &why);
    if (status != GR_OK) {
        return gr_fail(err, status, "%.400s; nothing was sent: build the package again (`gr00t package`)", why.msg);
    }
    if (m->image_digest != NULL && strcmp(m->image_digest, image.config_digest) != 0 &&
        strcmp(m->image_digest, image.manifest_digest) != 0) {
        gr_log(GR_LOG_WARN, "%s: the manifest names the image %s, image/ holds %s", dir, m->image_digest,
               image.config_digest);
    }
    return GR_OK;
}

/* The manifest has the sum over the code that the image was built with. */
static enum gr_status check_code(const char *dir, const struct gr_manifest *m, struct gr_err *err)
{
    char path[GR_PATH_BYTES], sum[65];
    GR_TRY(gr_path_join(path, dir, "code", err));
    if (m->code_sha256 == NULL) {
        return GR_OK;
    }
    if (!gr_fs_is_dir(path)) {
        gr_log(GR_LOG_WARN, "%s: there is no code/, but the image was built with some", dir);
        return GR_OK;
    }
    GR_TRY(gr_stage_digest(path, sum, err));
    if (strcmp(sum, m->code_sha256) != 0) {
        gr_log(GR_LOG_WARN,
               "%s: files were added, changed or removed since the image was built: what is served is the image's "
               "code; `gr00t package` builds both",
               path);
    }
    return GR_OK;
}

static enum gr_status check(const char *dir, const struct push *p, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    if (p->target == NULL) {
        return gr_fail(err, GR_ERR_USAGE,
                       "%s does not say where it belongs (container.built.repo); give --repo ORG/NAME", dir);
    }
    if (!gr_hub_is_id(p->target)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository, expected ORG/NAME", p->target);
    }
    if (p->o->publish) {
        GR_TRY(gr_package_catalog_check(p->manifest, dir, err));
    }
    GR_TRY(gr_path_join(path, dir, "README.md", err));
    GR_TRY(gr_fs_need_file(path, GR_ERR_FORMAT, err));
    GR_TRY(gr_path_join(path, dir, "LICENSE-NOTICE.md", err));
    if (!gr_fs_is_file(path)) {
        gr_log(GR_LOG_WARN, "%s: no LICENSE-NOTICE.md: nothing in the package names the licence of its weights", dir);
    }
    GR_TRY(check_image(dir, p->manifest, err));
    return check_code(dir, p->manifest, err);
}

static enum gr_status push(struct gr_cli *cli, const char *dir, struct push *p, struct gr_err *err)
{
    static const char *const owned[] = {"code/", "image/", NULL};
    struct gr_tool_hub tool = {0};
    struct gr_pushed done = {0};
    const struct gr_push what = {.dir = dir,
                                 .id = p->target,
                                 .visibility = p->o->publish || p->o->is_public ? GR_VISIBILITY_PUBLIC
                                               : p->o->is_private               ? GR_VISIBILITY_PRIVATE
                                                                                : GR_VISIBILITY_KEEP,
                                 .owned = owned,
                                 .summary = "Upload package with gr00t push",
                                 .rewrite = rewrite,
                                 .user = p,
                                 .dry_run = p->o->dry_run,
                                 .step = on_step,
                                 .progress = on_progress};
    enum gr_status status = gr_settings_tool_hub(&tool, err);
    if (status == GR_OK) {
        gr_settings_tool_catch();
        gr_progress_begin(&p->bar, cli);
        status = gr_hub_push(tool.hub, &what, &done, err);
        gr_progress_end(&p->bar);
    }
    if (status == GR_ERR_ACCESS &&
        !tool.has_token) { /* also for a name that is still free the Hub says "no such repository" */
        status =
            gr_fail(err, status,
                    "%s: no token was sent, and a push needs one that may write: make it at %.200s/settings/tokens, "
                    "then `gr00t login`, or set HF_TOKEN",
                    p->target, gr_hub_settings(tool.hub)->endpoint);
    }
    gr_tool_hub_free(&tool);
    if (status != GR_OK && gr_settings_tool_cancelled()) {
        gr_settings_tool_interrupted("what was sent is kept by the Hub: run again to send the rest");
    }
    if (status == GR_OK && p->failed) {
        status = gr_fail(err, GR_ERR_NOMEM, "no memory for the report");
    }
    if (status == GR_OK) {
        (p->o->json ? put_json : p->o->dry_run ? put_plan : put_text)(p, &done, &cli->out);
    }
    return status;
}

/* `gr00t package --out DIR` makes DIR/NAME: naming DIR is an easy mistake. */
static enum gr_status no_package(const char *dir, struct gr_err *err)
{
    char inner[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct gr_err ignored;
    bool found = false;
    DIR *d = opendir(dir);
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && !found; e = readdir(d)) {
        found = e->d_name[0] != '.' && gr_path_join(inner, dir, e->d_name, &ignored) == GR_OK &&
                gr_path_join(path, inner, GR_MANIFEST_FILE, &ignored) == GR_OK && gr_fs_is_file(path);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return found
               ? gr_fail(err, GR_ERR_FORMAT, "%s is no package, it has one in it: `gr00t push %.300s`", dir, inner)
               : gr_fail(err, GR_ERR_FORMAT,
                         "%s is no package: it has no %s; `gr00t package FILE --out DIR` makes DIR/NAME, which is one",
                         dir, GR_MANIFEST_FILE);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)n_words;
    const struct options *o = options;
    struct gr_manifest manifest = {0};
    struct push p = {.o = o, .manifest = &manifest};
    char path[GR_PATH_BYTES];
    if (o->is_private && (o->publish || o->is_public)) {
        return gr_fail(err, GR_ERR_USAGE, "--private and --%s exclude each other", o->publish ? "publish" : "public");
    }
    GR_TRY(gr_fs_need_dir(words[0], GR_ERR_INPUT, err));
    GR_TRY(gr_path_join(path, words[0], GR_MANIFEST_FILE, err));
    if (!gr_fs_is_file(path)) {
        return no_package(words[0], err);
    }
    GR_TRY(gr_manifest_read_wire(path, &manifest, err));
    p.target = o->repo != NULL ? o->repo : manifest.repo;
    enum gr_status status = check(words[0], &p, err);
    if (status == GR_OK) {
        status = push(cli, words[0], &p, err);
    }
    for (int i = 0; i < p.n; i++) {
        free(p.steps[i].path);
    }
    free(p.steps);
    gr_manifest_free(&manifest);
    return status;
}

const struct gr_command gr_cmd_push = {
    .name = "push",
    .summary = "Send a package folder to its repository on the Hub, as one commit",
    .synopsis = "DIR [--repo ORG/NAME] [--publish] [--private | --public] [--dry-run] [--json]",
    .more =
        "A repository that is missing is created, private unless --public or --publish is given; one that is there keeps\n"
        "its visibility. Files that the Hub has are not sent again. In code/ and image/ the repository gets exactly\n"
        "the folder's files; what else is in it stays. Needs a token that may write (`gr00t login`).\n\n"
        "Examples\n  gr00t push build/gr00t-n1.6-3b-native --dry-run\n"
        "  gr00t push build/gr00t-n1.6-3b-native --repo my-org/my-name",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 1,
    .max_words = 1,
    .words = "DIR",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
