/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_plot.c: `gr00t plot`: a chunk beside the one that is expected, a panel for each joint. In: a running service (its demo request) or
 * JSON files; out: an SVG or PNG file and one line of figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compare.h"
#include "base/fs.h"
#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/plot.h"
#include "cli/served.h"
#include "cli/wire_chunk.h"

enum { TITLE_BYTES = 320, SUBTITLE_BYTES = 200 };

struct options {
    const char *chunk, *golden, *out;
    struct gr_served_flags served;
};

static const struct gr_arg args[] = {
    {.name = "out",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, out),
     .value = "FILE",
     .required = true,
     .help = "FILE.svg or FILE.png"},
    {.name = "chunk",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, chunk),
     .value = "FILE.json",
     .help = "a reply of the service or of `gr00t predict --json`\n[the demo request is sent to --url]"},
    {.name = "golden",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, golden),
     .value = "PATH",
     .help = "what it should be: folder or expected.json of a golden case, a\n"
             "saved /demo, or another reply [what /demo expects]"},
    GR_SERVED_ARGS(struct options, served),
};

struct plot {
    struct gr_wire_chunk chunk, golden;
    bool has_golden;
    char instruction[SUBTITLE_BYTES]; /* the beginning of it; "": none */
};

static bool is_png(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcasecmp(path + n - 4, ".png") == 0;
}

/* Before anything is asked or read. */
static enum gr_status check_options(const struct options *o, struct gr_err *err)
{
    size_t n = strlen(o->out);
    if (is_png(o->out)) {
        if (!gr_plot_has_png()) {
            return gr_fail(err, GR_ERR_USAGE,
                           "--out %s: this program was built without cairo and draws SVG only; name a "
                           ".svg file, or install libcairo2-dev and build again",
                           o->out);
        }
    } else if (n <= 4 || strcasecmp(o->out + n - 4, ".svg") != 0) {
        return gr_fail(err, GR_ERR_USAGE, "--out %s: expected a name that ends in .svg or .png", o->out);
    }
    if (o->chunk != NULL && (o->served.url != NULL || o->served.wait.given)) {
        return gr_fail(err, GR_ERR_USAGE, "--chunk is a file that exists already; without --url and --wait");
    }
    return GR_OK;
}

static enum gr_status ask(const struct options *o, struct plot *p, struct gr_err *err)
{
    struct gr_served served = {0};
    struct gr_json *demo = NULL, *reply_root = NULL;
    struct gr_client_reply reply = {0};
    struct gr_buf body = {0};
    enum gr_status status = gr_served_open(&o->served, &served, err);
    if (status != GR_OK || (status = gr_served_ready(&served, err)) != GR_OK ||
        (status = gr_served_get(&served, "/demo", &demo, err)) != GR_OK) {
        goto out;
    }
    const struct gr_json *request = gr_json_get(demo, "request");
    struct gr_jw w = {.out = &body, .compact = true};
    gr_json_rewrite(request, &w);
    const struct gr_json *text = gr_json_get(request, "instruction");
    gr_plot_subtitle(p->instruction, sizeof p->instruction,
                     gr_json_kind(text) == GR_JSON_STRING ? gr_json_string(text) : "", SUBTITLE_BYTES - 4, NULL);
    if ((status = gr_served_predict(&served, &body, &reply, &reply_root, err)) != GR_OK ||
        (status = gr_wire_chunk_read(reply_root, "reply of /predict", GR_ERR_NETWORK, &p->chunk, err)) != GR_OK) {
        goto out;
    }
    if (o->golden == NULL) {
        status = gr_wire_chunk_read(demo, "/demo", GR_ERR_NETWORK, &p->golden, err);
        p->has_golden = status == GR_OK;
    }
out:
    gr_buf_free(&body);
    gr_buf_free(&reply.body);
    gr_json_free(demo);
    gr_json_free(reply_root);
    gr_served_close(&served);
    return status;
}

static void title_of(const struct gr_wire_chunk *c, char out[TITLE_BYTES])
{
    if (c->model[0] == '\0') {
        snprintf(out, TITLE_BYTES, "GR00T N1.6 action chunk (radians)");
    } else {
        snprintf(out, TITLE_BYTES, "%s action chunk, %s (radians)", c->model, c->embodiment);
    }
}

static enum gr_status draw(struct gr_cli *cli, const struct options *o, const struct plot *p, struct gr_err *err)
{
    const struct gr_wire_chunk *c = &p->chunk;
    char title[TITLE_BYTES], subtitle[SUBTITLE_BYTES + 40], legend[GR_WIRE_NAME_BYTES + 20];
    float *golden = NULL;
    struct gr_buf file = {0};
    if (p->has_golden) {
        GR_TRY(gr_wire_chunk_align(&p->golden, c->groups, c->n_groups, c->steps, "the golden chunk", GR_ERR_INPUT,
                                   &golden, err));
    }
    title_of(c, title);
    gr_plot_subtitle(subtitle, sizeof subtitle, p->instruction, SUBTITLE_BYTES, c->has_seed ? &c->seed : NULL);
    snprintf(legend, sizeof legend, "%s", o->chunk != NULL ? "chunk" : "served chunk");
    const struct gr_plot plot = {.title = title,
                                 .subtitle = subtitle[0] != '\0' ? subtitle : NULL,
                                 .groups = c->groups,
                                 .n_groups = c->n_groups,
                                 .steps = c->steps,
                                 .dim = c->dim,
                                 .chunk = c->actions,
                                 .golden = golden,
                                 .chunk_name = legend,
                                 .golden_name = "expected (golden)"};
    enum gr_status status = GR_OK;
    if (is_png(o->out)) {
        status = gr_plot_png(&plot, &file, err);
    } else {
        gr_plot_svg(&plot, &file);
    }
    if (status == GR_OK && (status = gr_cli_write_file(o->out, &file, err)) == GR_OK) {
        gr_buf_line(&cli->out, "%s: %d joints, %d steps", o->out, c->dim, c->steps);
        if (golden != NULL) {
            struct gr_diff d = gr_compare(c->actions, c->dim, golden, c->dim, c->steps, c->dim);
            gr_buf_printf(&cli->out, "; against golden: PCC %.6f, max|d| %.2e rad", d.pcc, d.max_abs);
        }
        gr_buf_puts(&cli->out, "\n");
    }
    gr_buf_free(&file);
    free(golden);
    return status;
}

/* A file, or the folder of a golden case. */
static enum gr_status load_golden(const char *path, struct gr_wire_chunk *out, struct gr_err *err)
{
    char file[GR_PATH_BYTES];
    if (!gr_fs_is_dir(path)) {
        return gr_wire_chunk_load(path, out, err);
    }
    GR_TRY(gr_path_join(file, path, "expected.json", err));
    return gr_wire_chunk_load(file, out, err);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct plot p = {0};
    enum gr_status status = check_options(o, err);
    if (status == GR_OK && o->golden != NULL) {
        status = load_golden(o->golden, &p.golden, err);
        p.has_golden = status == GR_OK;
    }
    if (status == GR_OK) {
        status = o->chunk != NULL ? gr_wire_chunk_load(o->chunk, &p.chunk, err) : ask(o, &p, err);
    }
    if (status == GR_OK) {
        status = draw(cli, o, &p, err);
    }
    gr_wire_chunk_free(&p.chunk);
    gr_wire_chunk_free(&p.golden);
    return status;
}

const struct gr_command gr_cmd_plot = {
    .name = "plot",
    .summary = "Draw a chunk beside the expected one, a panel for each joint",
    .synopsis = "--out FILE.svg [--url URL | --chunk FILE.json] [OPTIONS]",
    .more = "Without --chunk the demo request is sent to the service and drawn beside what /demo expects.\n\n"
            "Examples\n  gr00t plot --out chunk.svg\n"
            "  gr00t plot --chunk reply.json --golden expected.json --out chunk.svg",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
