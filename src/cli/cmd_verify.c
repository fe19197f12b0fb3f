/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_verify.c: `gr00t verify`: every file of a folder against its checksum. */
#include <inttypes.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "base/jsonout.h"
#include "cli/progress.h"
#include "model/verify.h"

struct options {
    const char *sums;
    bool json;
};

static const struct gr_arg args[] = {
    {.name = "sums",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, sums),
     .value = "FILE",
     .help = "checksums as sha256sum prints them [DIR/SHA256SUMS]"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the report as JSON"},
};

struct report {
    struct gr_cli *cli;
    struct gr_progress progress;
    struct gr_jw w;
    bool json;
};

static void json_file(struct gr_jw *w, const struct gr_verify_file *f)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "name", f->name);
    gr_jw_put_string(w, "result", gr_verify_result_name(f->result));
    gr_jw_put_string(w, "kind", f->kind);
    gr_jw_put_string(w, "expected", f->expected);
    gr_jw_put_string(w, "found", f->found);
    gr_jw_put_u64(w, "bytes", f->bytes);
    gr_jw_end_object(w);
}

static void each_file(void *user, const struct gr_verify_file *f)
{
    struct report *r = user;
    if (r->json) {
        json_file(&r->w, f);
        return;
    }
    bool bad = f->result == GR_VERIFY_MISMATCH || f->result == GR_VERIFY_MISSING, color = r->cli->color && bad;
    if (!bad && r->cli->quiet) {
        return;
    }
    char size[32];
    gr_progress_end(&r->progress); /* the bar's line is needed for text */
    gr_buf_printf(&r->cli->out, "%s%-8s%s  ", color ? "\033[31m" : "", gr_verify_result_name(f->result),
                  color ? "\033[0m" : "");
    gr_buf_line(&r->cli->out, "%s  (%s)\n", f->name, gr_human_bytes(size, (double)f->bytes));
    if (f->result == GR_VERIFY_MISMATCH) {
        gr_buf_printf(&r->cli->out, "          expected %s\n          found    %s\n", f->expected, f->found);
    }
    struct gr_err ignored; /* shown as it goes; a write error comes up again at the end */
    (void)gr_cli_flush(r->cli, &ignored);
    r->cli->closed_pipe = false; /* the verdict on the files goes before it */
}

static void print_counts(struct gr_cli *cli, const struct gr_verify_counts *c, double ms)
{
    char size[32];
    gr_buf_printf(&cli->out, "%zu ok, %zu mismatched, %zu missing, %zu without checksum (%s); %s hashed in %.1f s\n",
                  c->ok, c->mismatch, c->missing, c->unknown, c->source != NULL ? c->source : "none",
                  gr_human_bytes(size, (double)c->bytes), ms / 1000.0);
}

static void json_counts(struct gr_jw *w, const struct gr_verify_counts *c)
{
    gr_jw_put_u64(w, "ok", c->ok);
    gr_jw_put_u64(w, "mismatch", c->mismatch);
    gr_jw_put_u64(w, "missing", c->missing);
    gr_jw_put_u64(w, "unknown", c->unknown);
    gr_jw_put_u64(w, "bytes", c->bytes);
    gr_jw_put_string(w, "source", c->source);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)n_words;
    const struct options *o = options;
    struct gr_verify_counts counts = {0};
    struct report report = {.cli = cli, .json = o->json};
    struct gr_buf json = {0};
    double start = gr_clock_ms();
    report.w.out = &json;
    if (o->json) {
        gr_jw_object(&report.w);
        gr_jw_key(&report.w, "dir");
        gr_jw_string(&report.w, words[0]);
        gr_jw_key(&report.w, "files");
        gr_jw_array(&report.w);
    }
    gr_progress_begin(&report.progress, cli);
    enum gr_status status =
        gr_verify_dir(words[0], o->sums, gr_progress_report, &report.progress, each_file, &report, &counts, err);
    gr_progress_end(&report.progress);
    bool complete = status == GR_OK || status == GR_ERR_CHECK;
    if (o->json && complete) {
        gr_jw_end_array(&report.w);
        json_counts(&report.w, &counts);
        gr_jw_end_object(&report.w);
        gr_buf_append(&cli->out, &json);
    } else if (complete) {
        print_counts(cli, &counts, gr_clock_ms() - start);
    }
    gr_buf_free(&json);
    return status;
}

const struct gr_command gr_cmd_verify = {
    .name = "verify",
    .summary = "Hash every file of a folder and compare with its checksum",
    .synopsis = "DIR [--sums FILE] [--json]",
    .more =
        "Without a sums file the checksums are the names of the Hub cache's blobs, or what `hf download --local-dir` noted\n"
        "in DIR/.cache. Exit code 1 when a file differs, is missing, or when no checksum is known at all.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 1,
    .max_words = 1,
    .words = "DIR",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
