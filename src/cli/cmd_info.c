/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_info.c: `gr00t info` and `gr00t profiles`: what a package says about itself, and whether this machine could serve it. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/launch_fetch.h"
#include "cli/package_target.h"
#include "cli/table.h"

struct info_options {
    const char *arch;
};

static const struct gr_arg info_args[] = {
    {.name = "arch",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct info_options, arch),
     .value = "NAME",
     .help = "fail unless the package is made for this chip"},
};

struct profiles_options {
    bool json;
};

static const struct gr_arg profiles_args[] = {
    {.name = "json",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct profiles_options, json),
     .help = "print the profiles as JSON"},
};

/* Numbered nodes of /dev/tenstorrent. */
static int count_cards(void)
{
    DIR *d = opendir("/dev/tenstorrent");
    int n = 0;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '\0' && strspn(e->d_name, "0123456789") == strlen(e->d_name);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n;
}

/* The service of this profile computes on the CPU. */
static bool needs_no_card(const struct gr_profile *p)
{
    for (int i = 0; i < p->block.n_env; i++) {
        if (strcmp(p->block.env[i].name, "GR00T_DEVICE") == 0) {
            return strcmp(p->block.env[i].value, "cpu") == 0;
        }
    }
    return false;
}

static const char *name_of(const struct gr_serve_block *p) { return p->name != NULL ? p->name : "default"; }

static enum gr_status put_verdict(const struct gr_manifest *m, struct gr_buf *out, struct gr_err *err)
{
    const int cards = count_cards();
    int fewest = 0;
    for (int i = 0; i < m->n_profiles; i++) {
        struct gr_profile p;
        GR_TRY(gr_manifest_profile(m, name_of(&m->profiles[i]), &p, err));
        const bool cpu = needs_no_card(&p);
        const bool tokenizer = gr_launch_has_tokenizer(m, &p);
        const int chips = p.chips;
        gr_profile_free(&p);
        if (cpu || (cards > 0 && chips <= cards)) {
            gr_buf_line(
                out,
                tokenizer ? "✓ can be served here with profile %s (%s)\n"
                          : "✗ cannot be served yet with profile %s (%s): no tokenizer is on this machine; `gr00t pull "
                            "--tokenizer` gets it, serve fetches it too\n",
                name_of(&m->profiles[i]), cpu ? "on the CPU" : "on a card");
            return GR_OK;
        }
        fewest = fewest == 0 || chips < fewest ? chips : fewest;
    }
    gr_buf_line(out, "✗ cannot be served here: needs %d chip%s of kind %s, this machine has %d\n", fewest,
                fewest == 1 ? "" : "s", m->arch, cards);
    return GR_OK;
}

static enum gr_status run_info(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                               struct gr_err *err)
{
    (void)n_words;
    const struct info_options *o = options;
    struct gr_package_target t;
    enum gr_status status = gr_package_target(words[0], &t, err);
    if (status == GR_OK) {
        const bool ended = t.text.len > 0 && t.text.data[t.text.len - 1] == '\n';
        gr_buf_append(&cli->out, &t.text);
        gr_buf_puts(&cli->out, ended ? "\n" : "\n\n");
        if (o->arch != NULL && strcmp(o->arch, t.manifest.arch) != 0) {
            gr_buf_line(&cli->out, "✗ made for %s, not for %s\n", t.manifest.arch, o->arch);
            status = gr_fail(err, GR_ERR_FORMAT, "%s is made for %s, not for %s", words[0], t.manifest.arch, o->arch);
        } else {
            status = put_verdict(&t.manifest, &cli->out, err);
        }
    }
    gr_package_target_free(&t);
    return status;
}

static enum gr_status put_profile(const struct gr_manifest *m, int i, bool is_default, struct gr_jw *w,
                                  struct gr_table *t, struct gr_err *err)
{
    struct gr_profile p;
    const char *name = name_of(&m->profiles[i]), *text = m->profiles[i].description;
    GR_TRY(gr_manifest_profile(m, name, &p, err));
    if (w != NULL) {
        gr_jw_object(w);
        gr_jw_put_string(w, "name", name);
        gr_jw_put_bool(w, "default", is_default);
        gr_jw_put_string(w, "hardware", p.block.hardware);
        gr_jw_put_string(w, "mesh_device", p.block.mesh_device);
        gr_jw_put_int(w, "chips", p.chips);
        gr_jw_put_string(w, "description", text);
        gr_jw_end_object(w);
    } else {
        gr_table_cell(t, is_default ? "*" : " ");
        gr_table_cell(t, name);
        gr_table_cell(t, needs_no_card(&p) ? "cpu" : p.block.hardware != NULL ? p.block.hardware : "");
        gr_table_cellf(t, "%dx%d", p.rows, p.cols);
        gr_table_cell(t, text != NULL ? text : "");
    }
    gr_profile_free(&p);
    return GR_OK;
}

static enum gr_status run_profiles(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                                   struct gr_err *err)
{
    (void)n_words;
    const struct profiles_options *o = options;
    struct gr_package_target target;
    struct gr_jw w = {.out = &cli->out};
    struct gr_table t = {.columns = 5, .align = "lllll"};
    enum gr_status status = gr_package_target(words[0], &target, err);
    const struct gr_manifest *m = &target.manifest;
    static const char *const heads[] = {" ", "PROFILE", "HARDWARE", "MESH", "DESCRIPTION"};
    if (status == GR_OK && o->json) {
        gr_jw_array(&w);
    }
    for (int i = 0; status == GR_OK && !o->json && i < t.columns; i++) {
        gr_table_cell(&t, heads[i]);
    }
    for (int i = 0; status == GR_OK && i < m->n_profiles; i++) {
        const bool is_default =
            m->default_profile != NULL ? strcmp(m->default_profile, name_of(&m->profiles[i])) == 0 : i == 0;
        status = put_profile(m, i, is_default, o->json ? &w : NULL, &t, err);
    }
    if (status == GR_OK && o->json) {
        gr_jw_end_array(&w);
    }
    gr_table_print(&t, &cli->out);
    gr_package_target_free(&target);
    return status;
}

const struct gr_command gr_cmd_info = {
    .name = "info",
    .summary = "Print a package's manifest and whether this machine can serve it",
    .synopsis = "TARGET [--arch NAME]",
    .more =
        "TARGET is a package folder, a manifest file, or ORG/NAME[@REVISION]; what was pulled is not asked from the Hub.",
    .args = info_args,
    .n_args = sizeof info_args / sizeof info_args[0],
    .options_bytes = sizeof(struct info_options),
    .min_words = 1,
    .max_words = 1,
    .words = "TARGET",
    .run = run_info,
};

const struct gr_command gr_cmd_profiles = {
    .name = "profiles",
    .summary = "List the serve profiles of a package; * marks the default one",
    .synopsis = "TARGET [--json]",
    .more = "TARGET is a package folder, a manifest file, or ORG/NAME[@REVISION].",
    .args = profiles_args,
    .n_args = sizeof profiles_args / sizeof profiles_args[0],
    .options_bytes = sizeof(struct profiles_options),
    .min_words = 1,
    .max_words = 1,
    .words = "TARGET",
    .run = run_profiles,
};
_Static_assert(sizeof(struct info_options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
