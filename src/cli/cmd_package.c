/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_package.c: `gr00t package`: a package folder with its image out of an authoring manifest. A row a step, as it settles; the last
 * line says
 * where the package is. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "model/embedded.h"
#include "package/build.h"

enum { SHOWN_FROM_MS = 800 };

struct options {
    bool container, no_verify, json;
    const char *out, *program;
};

static const struct gr_arg args[] = {
    {.name = "out",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, out),
     .value = "DIR",
     .help = "folder; the package is DIR/<name> and is replaced as a whole [build]"},
    {.name = "program",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, program),
     .value = "FILE",
     .help = "the gr00t to ship [this one]"},
    {.name = "container",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, container),
     .help = "a container package; there is no other kind"},
    {.name = "no-verify",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, no_verify),
     .help = "do not run the finished image's program on its demo"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the result as JSON"},
};

struct rows {
    struct gr_cli *cli;
    bool shown;
};

static void put_time(struct gr_buf *out, double ms)
{
    if (ms >= 60000.0) {
        gr_buf_printf(out, "  %dm %ds", (int)(ms / 60000.0), (int)(ms / 1000.0) % 60);
    } else if (ms >= 1000.0) {
        gr_buf_printf(out, "  %.1fs", ms / 1000.0);
    } else if (ms >= SHOWN_FROM_MS) {
        gr_buf_printf(out, "  %.0fms", ms);
    }
}

static void show_step(void *user, enum gr_build_mark mark, const char *label, const char *detail, double ms)
{
    static const char *const marks[] = {"✓", "○", "!"};
    struct rows *r = user;
    struct gr_err ignored;
    if (!r->shown) { /* --json, --quiet */
        if (mark == GR_BUILD_WARNING) {
            gr_log(GR_LOG_WARN, "%s: %s", label, detail);
        }
        return;
    }
    gr_buf_line(&r->cli->out, "%s %-13s %s", marks[mark], label, detail);
    put_time(&r->cli->out, ms);
    gr_buf_puts(&r->cli->out, "\n");
    (void)gr_cli_flush(r->cli, &ignored); /* a reader that is gone is told at the end */
}

/* SOURCE_DATE_EPOCH, the convention of reproducible builds, else now. Only the wire manifest has a time in it. */
static enum gr_status created_at(int64_t *out, struct gr_err *err)
{
    const char *text = gr_settings_env("SOURCE_DATE_EPOCH");
    char *end = NULL;
    *out = (int64_t)time(NULL);
    if (text != NULL) {
        errno = 0;
        const long long value = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0' || value < 0 || value > 253402300799LL) { /* year 9999 */
            return gr_fail(err, GR_ERR_USAGE, "SOURCE_DATE_EPOCH is \"%.40s\", expected seconds since 1970", text);
        }
        *out = value;
    }
    return GR_OK;
}

static void print_json(const struct gr_built *b, double ms, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "package", b->dir);
    gr_jw_put_object(&w, "image");
    gr_jw_put_string(&w, "tag", b->image.tag);
    gr_jw_put_string(&w, "digest", b->image.config_digest);
    gr_jw_put_string(&w, "manifest_digest", b->image.manifest_digest);
    gr_jw_put_u64(&w, "bytes", b->image.layer_bytes);
    gr_jw_put_int(&w, "layers", b->image.n_layers);
    gr_jw_end_object(&w);
    gr_jw_put_object(&w, "code");
    gr_jw_put_int(&w, "files", b->n_code);
    gr_jw_put_int(&w, "dropped", b->n_dropped);
    gr_jw_put_u64(&w, "bytes", b->code_bytes);
    gr_jw_put_string(&w, "sha256", b->code_sha256);
    gr_jw_end_object(&w);
    gr_jw_put_object(&w, "root");
    gr_jw_put_u64(&w, "program_bytes", b->program_bytes);
    gr_jw_put_int(&w, "libraries", b->n_libraries);
    gr_jw_put_u64(&w, "bytes", b->root_bytes);
    gr_jw_end_object(&w);
    gr_jw_put_string(&w, "version", b->version[0] != '\0' ? b->version : NULL);
    gr_jw_put_string(&w, "demo", b->demo[0] != '\0' ? b->demo : NULL);
    gr_jw_put_milli(&w, "ms", ms);
    gr_jw_end_object(&w);
}

static volatile sig_atomic_t broken_off;

static void on_signal(int sig) { broken_off = sig; }

/* A signal ends the build at its next step, and then the program in the usual way: with nothing half-built left. A second one of its kind
 * ends at once. */
static enum gr_status build(const struct gr_build *b, struct gr_built *built, struct gr_err *err)
{
    enum { N = 3 };
    static const int signals[N] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND}, before[N];
    sigemptyset(&sa.sa_mask);
    for (int i = 0; i < N; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) { /* under nohup */
            sigaction(signals[i], &sa, NULL);
        }
    }
    const enum gr_status status = gr_package_build(b, built, err);
    for (int i = 0; i < N; i++) {
        sigaction(signals[i], &before[i], NULL);
    }
    if (broken_off != 0) {
        raise(broken_off);
    }
    return status;
}

/* The authoring file of the working folder, for a call without one. */
static enum gr_status default_manifest(const char **out, struct gr_err *err)
{
    static const char name[] = "tt-model.yaml";
    char here[GR_PATH_BYTES];
    *out = name;
    if (gr_fs_is_file(name)) {
        return GR_OK;
    }
    return gr_fail(
        err, GR_ERR_IO,
        "no %s in %s: run this in the folder that has one, or name it, `gr00t package FILE`. To get one, copy "
        "that of gr00t's sources, which docs/PACKAGES.md explains",
        name, getcwd(here, sizeof here) != NULL ? here : "this folder");
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    const struct options *o = options;
    struct rows rows = {.cli = cli, .shown = !o->json && !cli->quiet};
    struct gr_built built;
    char *license = strndup((const char *)gr_embed_license, gr_embed_license_size);
    struct gr_build b = {.manifest = n_words > 0 ? words[0] : NULL,
                         .out = o->out != NULL ? o->out : "build",
                         .program = o->program,
                         .license = license,
                         .stop = &broken_off,
                         .verify = !o->no_verify,
                         .step = show_step,
                         .user = &rows};
    const double start = gr_clock_ms();
    enum gr_status status = license != NULL ? created_at(&b.created, err) : gr_fail(err, GR_ERR_NOMEM, "no memory");
    if (status == GR_OK && b.manifest == NULL) {
        status = default_manifest(&b.manifest, err);
    }
    if (status == GR_OK) {
        status = build(&b, &built, err);
    }
    free(license);
    GR_TRY(status);
    const double ms = gr_clock_ms() - start;
    if (o->json) {
        print_json(&built, ms, &cli->out);
    } else if (!cli->quiet) {
        gr_buf_line(&cli->out, "✓ package       %s: image %s, %.1f MB", built.dir, built.image.tag,
                    (double)built.image.layer_bytes / 1e6);
        put_time(&cli->out, ms);
        gr_buf_puts(&cli->out, "\n");
        gr_buf_line(&cli->out, "→ gr00t push %s\n", built.dir);
    }
    return GR_OK;
}

const struct gr_command gr_cmd_package = {
    .name = "package",
    .summary = "Build a package: image, manifest and card out of tt-model.yaml",
    .synopsis = "[FILE] [OPTIONS]",
    .more =
        "FILE is an authoring manifest of schema 5.1 [tt-model.yaml]; paths in it are taken from the working folder.\n"
        "The image holds this program with the libraries it needs, and the code that the manifest lists. It has no\n"
        "time and no machine in it: the same input gives the same digest. SOURCE_DATE_EPOCH fixes the manifest's time.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 0,
    .max_words = 1,
    .words = "FILE",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
