/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c: the only reader of the environment. In: parsed flags and GR00T_* / HF_* variables; out: plain structs.
 * An empty variable counts as not set. */
#include "cli/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : NULL;
}

static const char *flag_or_env(const char *flag, const char *name) { return flag != NULL ? flag : env(name); }

bool gr_settings_no_color(void)
{
    const char *term = env("TERM");
    return env("NO_COLOR") != NULL || (term != NULL && strcmp(term, "dumb") == 0);
}

static enum gr_status copy_path(char out[GR_PATH_BYTES], const char *path, struct gr_err *err)
{
    if (strlen(path) >= GR_PATH_BYTES) {
        return gr_fail(err, GR_ERR_USAGE, "path too long: %.80s...", path);
    }
    strcpy(out, path);
    return GR_OK;
}

const char *gr_settings_embodiment(const char *flag)
{
    const char *tag = flag_or_env(flag, "GR00T_EMBODIMENT");
    return tag != NULL ? tag : "gr1";
}

enum gr_status gr_settings_threads(const struct gr_arg_int *flag, int *out, struct gr_err *err)
{
    const char *text = env("GR00T_THREADS");
    *out = 0;
    if (flag->given) {
        *out = (int)flag->value;
    } else if (text != NULL) {
        char *end;
        errno = 0;
        long v = strtol(text, &end, 10);
        if (*end != '\0' || errno != 0 || v < 1 || v > GR_POOL_THREADS_MAX) {
            return gr_fail(err, GR_ERR_USAGE, "GR00T_THREADS is \"%s\", expected a whole number from 1 to %d", text,
                           GR_POOL_THREADS_MAX);
        }
        *out = (int)v;
    }
    return GR_OK;
}

enum gr_status gr_settings_hub_root(char out[GR_PATH_BYTES], struct gr_err *err)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", NULL},
                  {"HUGGINGFACE_HUB_CACHE", NULL},
                  {"HF_HOME", "hub"},
                  {"XDG_CACHE_HOME", "huggingface/hub"},
                  {"HOME", ".cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *root = env(places[i].variable);
        if (root != NULL && places[i].below != NULL) {
            return gr_path_join(out, root, places[i].below, err);
        }
        if (root != NULL) {
            return copy_path(out, root, err);
        }
    }
    return gr_fail(err, GR_ERR_USAGE,
                   "no Hub cache folder: none of HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME is set");
}

static bool has_file(const char *dir, const char *name)
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    return gr_path_join(path, dir, name, &ignored) == GR_OK && gr_fs_is_file(path);
}

/* What gr_tokenizer_open can read is in `dir`. */
static bool has_tokenizer(const char *dir)
{
    return (has_file(dir, "vocab.json") && has_file(dir, "merges.txt")) || has_file(dir, "tokenizer.json");
}

/* Snapshot folder of Qwen/Qwen3-1.7B in the Hub cache: refs/main holds the revision. False when the cache has none; `out` then
 * names the model's folder for the message. */
static bool hub_tokenizer(char out[GR_PATH_BYTES])
{
    char root[GR_PATH_BYTES], model[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct gr_err ignored;
    out[0] = '\0';
    if (gr_settings_hub_root(root, &ignored) != GR_OK ||
        gr_path_join(model, root, "models--Qwen--Qwen3-1.7B", &ignored) != GR_OK) {
        return false;
    }
    strcpy(out, model);
    char *revision = NULL;
    size_t n;
    if (gr_path_join(path, model, "refs/main", &ignored) != GR_OK ||
        gr_fs_read(path, 256, &revision, &n, &ignored) != GR_OK) {
        return false;
    }
    revision[strcspn(revision, " \r\n")] = '\0';
    bool plain = revision[0] != '\0' && strchr(revision, '/') == NULL && strcmp(revision, "..") != 0;
    bool found = plain && gr_path_join(path, model, "snapshots", &ignored) == GR_OK &&
                 gr_path_join(out, path, revision, &ignored) == GR_OK && has_tokenizer(out);
    free(revision);
    return found;
}

static enum gr_status named_tokenizer(const char *dir, const char *by, char out[GR_PATH_BYTES], struct gr_err *err)
{
    struct gr_err why = {0};
    enum gr_status status = gr_fs_need_dir(dir, GR_ERR_FORMAT, &why);
    if (status != GR_OK) {
        return gr_fail(err, status, "%s names %s", by, why.msg);
    }
    if (!has_tokenizer(dir)) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s names %s, which has neither vocab.json and merges.txt nor tokenizer.json", by, dir);
    }
    return copy_path(out, dir, err);
}

enum gr_status gr_settings_tokenizer(const char *dir, const char *flag, char out[GR_PATH_BYTES], struct gr_err *err)
{
    const char *variable = env("GR00T_TOKENIZER_DIR");
    if (flag != NULL) {
        return named_tokenizer(flag, "--tokenizer", out, err);
    }
    if (variable != NULL) {
        return named_tokenizer(variable, "GR00T_TOKENIZER_DIR", out, err);
    }
    char in_hub[GR_PATH_BYTES];
    GR_TRY(gr_path_join(out, dir, "tokenizer", err));
    if (has_tokenizer(out)) {
        return GR_OK;
    }
    if (hub_tokenizer(in_hub)) {
        strcpy(out, in_hub);
        return GR_OK;
    }
    return gr_fail(
        err, GR_ERR_FORMAT,
        "no tokenizer (vocab.json and merges.txt, or tokenizer.json): --tokenizer and GR00T_TOKENIZER_DIR are not given, nothing in %s, nothing in %s; "
        "copy the tokenizer files of Qwen/Qwen3-1.7B to one of these or name their folder with --tokenizer",
        out, in_hub[0] != '\0' ? in_hub : "the Hub cache (no folder: HOME is not set)");
}

enum gr_status gr_settings_engine(const char *dir, const struct gr_engine_flags *flags, struct gr_settings *out,
                                  struct gr_err *err)
{
    memset(out, 0, sizeof *out);
    out->engine.embodiment = gr_settings_embodiment(flags->embodiment);
    out->engine.device = flag_or_env(flags->device, "GR00T_DEVICE");
    out->engine.precision = flag_or_env(flags->policy, "GR00T_POLICY");
    out->engine.cpu = flag_or_env(flags->cpu, "GR00T_CPU");
    GR_TRY(gr_settings_threads(&flags->threads, &out->engine.threads, err));
    char config[GR_PATH_BYTES];
    GR_TRY(gr_fs_need_dir(dir, GR_ERR_FORMAT, err));
    /* Before the tokenizer: whoever named the wrong folder should not be sent looking for a vocabulary. */
    GR_TRY(gr_path_join(config, dir, "config.json", err));
    GR_TRY(gr_fs_need_file(config, GR_ERR_FORMAT, err));
    GR_TRY(gr_settings_tokenizer(dir, flags->tokenizer, out->tokenizer, err));
    out->engine.tokenizer_dir = out->tokenizer;
    return GR_OK;
}
