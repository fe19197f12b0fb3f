/* SPDX-License-Identifier: Apache-2.0
 *
 * card.c: README.md of a package. The front matter is complete, so that nothing has to be restored by hand after a push: the Hub shows
 * licence,
 * task and base model from it. Texts of the author go in as they are; what goes into the front matter is quoted. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/build.h"

#define CATALOG_TAG "tt-model-catalog"
enum { TAGS_MAX = 64, TAG_BYTES = 160 };

/* A YAML scalar: plain when nothing in it could mean something else. */
static void put_scalar(struct gr_buf *b, const char *text)
{
    static const char *const words[] = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"};
    bool plain = isalpha((unsigned char)text[0]) && strstr(text, ": ") == NULL;
    for (const char *at = text; *at != '\0' && plain; at++) {
        plain = isalnum((unsigned char)*at) || strchr("._/:-", *at) != NULL;
    }
    plain = plain && !gr_ends_with(text, ":");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        plain = plain && strcasecmp(text, words[i]) != 0;
    }
    if (plain) {
        gr_buf_puts(b, text);
    } else {
        gr_buf_json_string(b, text); /* a JSON string is a YAML one */
    }
}

static void put_field(struct gr_buf *b, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        gr_buf_printf(b, "%s: ", key);
        put_scalar(b, value);
        gr_buf_puts(b, "\n");
    }
}

/* ---- front matter ---- */

struct tags {
    char items[TAGS_MAX][TAG_BYTES];
    int n;
};

static int compare_tags(const void *a, const void *b) { return strcmp(a, b); }

static void add_tag(struct tags *t, const char *text)
{
    char tag[TAG_BYTES];
    (void)snprintf(tag, sizeof tag, "%s", text != NULL ? text : "");
    for (char *at = tag; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->items[i], tag) == 0) {
            return;
        }
    }
    if (tag[0] != '\0' && t->n < TAGS_MAX) {
        memcpy(t->items[t->n++], tag, sizeof tag);
    }
}

/* "NVIDIA License" -> "nvidia-license": the Hub takes a slug only. */
static void put_license_name(struct gr_buf *b, const char *name)
{
    char slug[128];
    size_t n = 0;
    for (const char *at = name; *at != '\0' && n + 1 < sizeof slug; at++) {
        const char c = (char)tolower((unsigned char)*at);
        if (isalnum((unsigned char)c) || c == '.') {
            slug[n++] = c;
        } else if (n > 0 && slug[n - 1] != '-') {
            slug[n++] = '-';
        }
    }
    while (n > 0 && slug[n - 1] == '-') {
        n--;
    }
    slug[n] = '\0';
    put_field(b, "license_name", slug);
}

static enum gr_status put_tags(const struct gr_manifest *m, struct gr_buf *out, struct gr_err *err)
{
    struct tags *t = calloc(1, sizeof *t);
    enum gr_status status = t != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory for the card");
    if (t != NULL) {
        add_tag(t, "tt-model-cache");
        add_tag(t, "tt-model-container");
        add_tag(t, m->arch);
        add_tag(t, m->kind);
    }
    for (int i = 0; i < m->n_profiles && status == GR_OK; i++) {
        struct gr_profile p;
        status = gr_manifest_profile(m, m->profiles[i].name, &p, err);
        if (status == GR_OK) {
            add_tag(t, p.block.hardware);
            gr_profile_free(&p);
        }
    }
    if (status == GR_OK) {
        qsort(t->items, (size_t)t->n, sizeof t->items[0], compare_tags);
        gr_buf_puts(out, "tags:\n");
        for (int i = 0; i < t->n; i++) {
            gr_buf_puts(out, "- ");
            put_scalar(out, t->items[i]);
            gr_buf_puts(out, "\n");
        }
    }
    free(t);
    return status;
}

static enum gr_status put_front_matter(const struct gr_manifest *m, struct gr_buf *out, struct gr_err *err)
{
    const struct gr_card *c = &m->card;
    gr_buf_puts(out, "---\n");
    put_field(out, "license", c->license_id);
    if (c->license_id != NULL && strcmp(c->license_id, "other") == 0 && c->license_name != NULL) {
        put_license_name(out, c->license_name);
    }
    put_field(out, "license_link", c->license_link);
    put_field(out, "pipeline_tag", c->pipeline_tag);
    if (c->base_model.n > 0 || m->has_weights) {
        gr_buf_puts(out, "base_model:\n");
        for (int i = 0; i < (c->base_model.n > 0 ? c->base_model.n : 1); i++) {
            gr_buf_puts(out, "- ");
            put_scalar(out, c->base_model.n > 0 ? c->base_model.items[i] : m->weights.repo);
            gr_buf_puts(out, "\n");
        }
    }
    GR_TRY(put_tags(m, out, err));
    gr_buf_puts(out, "---\n");
    return GR_OK;
}

/* ---- body ---- */

static void put_section(struct gr_buf *b, const char *title, const char *text)
{
    if (text != NULL && text[strspn(text, " \n\t")] != '\0') {
        size_t n = strlen(text);
        while (n > 0 && isspace((unsigned char)text[n - 1])) {
            n--;
        }
        gr_buf_printf(b, title != NULL ? "## %s\n\n" : "%s", title != NULL ? title : "");
        gr_buf_printf(b, "%.*s\n\n", (int)n, text);
    }
}

static const char *or_dash(const char *text) { return text != NULL && text[0] != '\0' ? text : "-"; }

static void put_glance(const struct gr_manifest *m, const struct gr_built *built, struct gr_buf *b)
{
    gr_buf_puts(b, "| At a glance | |\n|---|---|\n");
    gr_buf_printf(b, "| weights | `%s` at `%s`, not in this package |\n", or_dash(m->weights.repo),
                  or_dash(m->weights.revision));
    if (m->card.architecture != NULL) {
        gr_buf_printf(b, "| architecture | %.*s |\n", (int)strcspn(m->card.architecture, "\n"), m->card.architecture);
    }
    if (m->card.status != NULL) {
        gr_buf_printf(b, "| status | %.*s |\n", (int)strcspn(m->card.status, "\n"), m->card.status);
    }
    gr_buf_printf(b, "| image | %.1f MB compressed, one C program, no Python |\n\n",
                  (double)built->image.layer_bytes / 1e6);
}

/* Command lines are what gr_card_rewrite changes: one a line, the repository behind the verb. */
static void put_quickstart(const struct gr_manifest *m, struct gr_buf *b)
{
    const char *id = or_dash(m->repo);
    gr_buf_puts(b, "## Quickstart\n\n");
    gr_buf_printf(b, "```bash\ntt model pull %s\ntt serve %s\n```\n\n", id, id);
    gr_buf_printf(b, "```bash\ntt-model pull  %s --with-weights\ntt-model serve %s\n```\n\n", id, id);
    gr_buf_puts(b, "Without a card, an engine or Python:\n\n");
    gr_buf_printf(b, "```bash\ngr00t pull  %s --with-weights\ngr00t serve %s\n```\n\n", id, id);
    put_section(b, NULL, m->card.quickstart);
}

static enum gr_status put_profiles(const struct gr_manifest *m, const char *chosen, struct gr_buf *b,
                                   struct gr_err *err)
{
    if (m->n_profiles < 2) {
        return GR_OK;
    }
    gr_buf_puts(b, "## Serve profiles\n\n| profile | hardware | mesh | |\n|---|---|---|---|\n");
    for (int i = 0; i < m->n_profiles; i++) {
        struct gr_profile p;
        GR_TRY(gr_manifest_profile(m, m->profiles[i].name, &p, err));
        const char *about = m->profiles[i].description != NULL ? m->profiles[i].description : "";
        gr_buf_printf(b, "| `%s`%s | %s | %s | %.*s |\n", m->profiles[i].name,
                      chosen != NULL && strcmp(chosen, m->profiles[i].name) == 0 ? " (default)" : "",
                      or_dash(p.block.hardware), or_dash(p.block.mesh_device), (int)strcspn(about, "\n"), about);
        gr_profile_free(&p);
    }
    gr_buf_puts(b, "\n");
    return GR_OK;
}

void gr_card_notice(const struct gr_manifest *m, struct gr_buf *out)
{
    const struct gr_card *c = &m->card;
    gr_buf_puts(out,
                "# Licences\n\n"
                "* The program in this package: Apache-2.0, `LICENSE` in `/usr/share/doc/gr00t` of the image.\n"
                "* Shared libraries in the image: the copyright files in `/usr/share/doc` of the image; their exact "
                "packages are listed in `requirements.lock`.\n");
    if (m->has_weights) {
        gr_buf_printf(
            out,
            "* The weights are not part of this package. They are downloaded from `%s`%s%s and are under a licence of "
            "their own",
            m->weights.repo, m->weights.revision != NULL ? " at revision " : "", or_dash(m->weights.revision));
        gr_buf_printf(out, "%s%s", c->license_id != NULL ? ": " : "",
                      c->license_id == NULL                                            ? ""
                      : strcmp(c->license_id, "other") == 0 && c->license_name != NULL ? c->license_name
                                                                                       : c->license_id);
        gr_buf_printf(out, "%s%s. Read it before use: it may forbid what this package makes easy.\n",
                      c->license_link != NULL ? ", " : "", c->license_link != NULL ? c->license_link : "");
    }
}

static void put_licence(const struct gr_manifest *m, struct gr_buf *b)
{
    struct gr_buf notice = {0};
    gr_card_notice(m, &notice);
    const char *list = notice.data != NULL ? strchr(notice.data, '*') : NULL; /* without its title */
    put_section(b, "License", list);
    put_section(b, NULL, m->card.licensing);
    b->failed = b->failed || notice.failed;
    gr_buf_free(&notice);
}

static void put_provenance(const struct gr_manifest *m, const struct gr_built *built, struct gr_buf *b)
{
    gr_buf_puts(b, "## Provenance\n\n| | |\n|---|---|\n");
    gr_buf_printf(b, "| image | `%s` |\n| config digest | `%s` |\n| manifest digest | `%s` |\n", built->image.tag,
                  built->image.config_digest, built->image.manifest_digest);
    gr_buf_printf(b, "| code | %d files, %" PRIu64 " bytes, SHA-256 `%s` |\n", built->n_code, built->code_bytes,
                  built->code_sha256);
    gr_buf_printf(b, "| libraries | %d, listed in `requirements.lock` |\n", built->n_libraries);
    if (built->demo[0] != '\0') {
        gr_buf_printf(b, "| verified in the image | %s |\n", built->demo);
    }
    gr_buf_printf(b, "| built | %s by gr00t %s |\n", or_dash(m->created_at), or_dash(m->producer_version));
}

enum gr_status gr_card_write(const struct gr_manifest *m, const struct gr_built *built, struct gr_buf *out,
                             struct gr_err *err)
{
    const struct gr_card *c = &m->card;
    struct gr_profile p;
    GR_TRY(put_front_matter(m, out, err));
    GR_TRY(gr_manifest_profile(m, NULL, &p, err));
    gr_buf_printf(out, "# %s\n\n", m->name);
    put_section(out, NULL, c->description);
    gr_buf_printf(out, "Runs on **%s** (mesh %s).\n\n", or_dash(p.block.hardware), or_dash(p.block.mesh_device));
    gr_buf_printf(out, "Built with gr00t %s.\n\n", or_dash(m->producer_version));
    put_glance(m, built, out);
    put_section(out, "Intended use", c->intended_use);
    put_section(out, "Out of scope", c->out_of_scope_use);
    put_quickstart(m, out);
    const enum gr_status status = put_profiles(m, p.block.name, out, err);
    gr_profile_free(&p);
    GR_TRY(status);
    put_section(out, "Using it", c->usage);
    put_section(out, "Expected performance", c->performance);
    put_section(out, "Limitations", c->limitations);
    put_section(out, "Risks", c->risks);
    put_section(out, "Related", c->related);
    put_licence(m, out);
    put_provenance(m, built, out);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the card") : GR_OK;
}

/* ---- for another repository ---- */

/* The repository of a command line, "" when the line is none. */
static const char *command_target(const char *line)
{
    static const char *const verbs[] = {"tt model pull ",  "tt serve ",   "tt-model pull ",
                                        "tt-model serve ", "gr00t pull ", "gr00t serve "};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strncmp(line, verbs[i], strlen(verbs[i])) == 0) {
            line += strlen(verbs[i]);
            return line + strspn(line, " ");
        }
    }
    return "";
}

/* The front matter's tag list with the tag, in its sorted place, or without it. */
struct rewrite {
    struct gr_buf out;
    const char *from, *to;
    bool catalog;
    bool front, in_tags, tagged; /* tagged: the tag stands there as it should */
};

static void put_catalog_tag(struct rewrite *w)
{
    if (w->catalog && !w->tagged) {
        gr_buf_puts(&w->out, "- " CATALOG_TAG "\n");
        w->tagged = true;
    }
}

static void rewrite_front(struct rewrite *w, const char *line, size_t n)
{
    const size_t dash = strspn(line, " ");
    const bool item = line[dash] == '-' && line[dash + 1] == ' ';
    if (w->in_tags && item) {
        const char *tag = line + dash + 2;
        const size_t len = (size_t)(line + n - tag);
        if (len == strlen(CATALOG_TAG) && strncmp(tag, CATALOG_TAG, len) == 0) {
            return; /* put where it belongs, or left out */
        }
        const size_t shorter = len < strlen(CATALOG_TAG) ? len : strlen(CATALOG_TAG);
        if (strncmp(tag, CATALOG_TAG, shorter) > 0) {
            put_catalog_tag(w);
        }
    } else if (w->in_tags) {
        put_catalog_tag(w);
        w->in_tags = false;
    }
    if (n == 3 && strncmp(line, "---", 3) == 0) {
        if (w->catalog && !w->tagged) {
            gr_buf_puts(&w->out, "tags:\n");
            put_catalog_tag(w);
        }
        w->front = false;
    } else if (n == 5 && strncmp(line, "tags:", 5) == 0) {
        w->in_tags = true;
    }
    gr_buf_printf(&w->out, "%.*s\n", (int)n, line);
}

static void rewrite_line(struct rewrite *w, const char *line, size_t n)
{
    const char *target = command_target(line);
    const size_t from = strlen(w->from), len = strcspn(target, " \t\r\n`");
    if (len == from && from > 0 && strncmp(target, w->from, from) == 0) {
        gr_buf_printf(&w->out, "%.*s%s%.*s\n", (int)(target - line), line, w->to,
                      (int)(n - (size_t)(target - line) - from), target + from);
    } else {
        gr_buf_printf(&w->out, "%.*s\n", (int)n, line);
    }
}

enum gr_status gr_card_rewrite(struct gr_buf *card, const char *from_repo, const char *to_repo, bool catalog,
                               struct gr_err *err)
{
    struct rewrite w = {.from = from_repo, .to = to_repo, .catalog = catalog};
    const char *text = card->data != NULL ? card->data : "";
    const bool has_front = strncmp(text, "---\n", 4) == 0;
    w.front = has_front;
    if (has_front) {
        gr_buf_puts(&w.out, "---\n");
        text += 4;
    } else if (catalog) {
        gr_buf_puts(&w.out, "---\ntags:\n- " CATALOG_TAG "\n---\n");
    }
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        if (w.front) {
            rewrite_front(&w, text, n);
        } else {
            rewrite_line(&w, text, n);
        }
        text += n + (text[n] == '\n');
    }
    if (w.out.failed) {
        gr_buf_free(&w.out);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the card");
    }
    gr_buf_free(card);
    *card = w.out;
    return GR_OK;
}
