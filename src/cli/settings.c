/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c: the only reader of the environment. In: parsed flags and GR00T_* / HF_* variables; out: plain structs.
 * An empty variable counts as not set. */
#include "cli/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "cli/settings_card.h"
#include "cli/variables.h"
#include "policy/policy.h"

enum {
    KEY_FILE_MAX = 4096,
    THREADS_A_CPU =
        8, /* beyond, threads mostly wait for each other: 99 on two CPUs took minutes where two take seconds */
    THREADS_ANYWHERE = 64 /* may always be asked for: a trial, with a warning */
};

static const char *const *own_env; /* a test's list, NULL: environ */

void gr_settings_use_env(const char *const *variables) { own_env = variables; }

const char *gr_settings_env_at(int i)
{
    static const char *const none[] = {NULL};
    const char *const *list = own_env != NULL ? own_env : environ != NULL ? (const char *const *)environ : none;
    return list[i];
}

const char *gr_settings_env(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; gr_settings_env_at(i) != NULL; i++) {
        const char *v = gr_settings_env_at(i);
        if (strncmp(v, name, n) == 0 && v[n] == '=') {
            return v[n + 1] != '\0' ? v + n + 1 : NULL;
        }
    }
    return NULL;
}

/* GR00T_NUM_CQ=1: the user measures the default and does not know it. */
void gr_settings_unknown_variables(void)
{
    for (int i = 0; gr_settings_env_at(i) != NULL; i++) {
        const char *entry = gr_settings_env_at(i);
        char name[80];
        bool known;
        size_t n = strcspn(entry, "=");
        if (strncmp(entry, "GR00T_", 6) != 0 || n >= sizeof name) {
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)n, entry);
        const char *near = gr_variable_near(name, &known);
        if (!known) {
            gr_log(GR_LOG_WARN, "variable %s is unknown and changes nothing%s%s%s", name,
                   near != NULL ? ", did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
        }
    }
}

static const char *env(const char *name) { return gr_settings_env(name); }

static const char *flag_or_env(const char *flag, const char *name) { return flag != NULL ? flag : env(name); }

enum gr_status gr_settings_int(const char *name, const char *text, long min, long max, long *out, struct gr_err *err)
{
    char *end = NULL;
    bool digits = *text != '\0' && strspn(text, "0123456789") == strlen(text);
    errno = 0;
    long v = digits ? strtol(text, &end, 10) : 0;
    if (!digits || errno != 0 || v < min || v > max) {
        return gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\", expected a whole number from %ld to %ld", name, text, min,
                       max);
    }
    *out = v;
    return GR_OK;
}

enum gr_status gr_settings_real(const char *name, const char *text, double min, double max, double *out,
                                struct gr_err *err)
{
    /* The program never calls setlocale, so strtod reads a point. No sign, no exponent, no hexadecimal. */
    char *end = NULL;
    bool plain = *text != '\0' && strspn(text, "0123456789.") == strlen(text);
    double v = plain ? strtod(text, &end) : 0.0;
    if (!plain || end == text || *end != '\0' || !(v >= min && v <= max)) {
        return gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\", expected a number from %g to %g", name, text, min, max);
    }
    *out = v;
    return GR_OK;
}

enum gr_status gr_settings_key(const char *path, char **out, struct gr_err *err)
{
    static const char blank[] = " \t\r\n";
    char *text = NULL;
    size_t n = 0, lead;
    GR_TRY(gr_fs_read(path, KEY_FILE_MAX, &text, &n, err));
    while (n > 0 && strchr(blank, text[n - 1]) != NULL) {
        n--;
    }
    bool plain = true;
    for (lead = 0; lead < n && strchr(blank, text[lead]) != NULL; lead++) {
    }
    for (size_t i = lead; i < n; i++) {
        plain = plain && text[i] > ' ' && text[i] < 127; /* what a header can carry */
    }
    if (n == lead || !plain) {
        free(text);
        return gr_fail(err, GR_ERR_USAGE, "--api-key-file %s %s", path,
                       n == lead ? "is empty" : "holds more than one word of printable ASCII");
    }
    memmove(text, text + lead, n - lead);
    text[n - lead] = '\0';
    *out = text;
    return GR_OK;
}

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
    const int cpus = gr_cpu_count(),
              most = THREADS_A_CPU * cpus > THREADS_ANYWHERE ? THREADS_A_CPU * cpus : THREADS_ANYWHERE;
    long v = 0;
    *out = 0;
    if (flag->given) {
        v = (long)flag->value;
    } else if (text != NULL) {
        GR_TRY(gr_settings_int("GR00T_THREADS", text, 1, GR_POOL_THREADS_MAX, &v, err));
    }
    if (v > most) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "%s is %ld, expected at most %d: this process may use %d CPU%s, and each further thread only makes a "
            "predict slower (results do not depend on it)",
            flag->given ? "--threads" : "GR00T_THREADS", v, most, cpus, cpus == 1 ? "" : "s");
    }
    *out = (int)v;
    return GR_OK;
}

enum gr_status gr_settings_policy(const char *flag, const char *arena, const char **out, struct gr_err *err)
{
    static const struct {
        const char *arena, *policy;
    } stands_for[] = {{"auto", "auto"}, {"bf16", "balanced"}, {"bfp8_b", "mixed"}};
    const char *name = flag_or_env(flag, "GR00T_POLICY"), *from_arena = NULL;
    for (size_t i = 0; arena != NULL && i < sizeof stands_for / sizeof stands_for[0]; i++) {
        from_arena = strcmp(arena, stands_for[i].arena) == 0 ? stands_for[i].policy : from_arena;
    }
    if (arena != NULL && from_arena == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "GR00T_MK_ARENA_DTYPE is \"%.80s\", expected auto, bf16 or bfp8_b", arena);
    }
    struct gr_err why = {0};
    if (gr_policy_check_formats(name, NULL, &why) != GR_OK) {
        return gr_fail(err, why.code, "%s: %s", flag != NULL ? "--policy" : "GR00T_POLICY", why.msg);
    }
    name = name != NULL ? name : from_arena != NULL ? from_arena : "auto";
    *out = strcmp(name, "mixed_dit") == 0 ? "auto" : name;
    return GR_OK;
}

static enum gr_status set_half(const char *flag, const char **out, struct gr_err *err)
{
    struct gr_err why = {0};
    *out = flag_or_env(flag, "GR00T_HALF");
    if (gr_policy_check_formats(NULL, *out, &why) != GR_OK) {
        return gr_fail(err, why.code, "%s: %s", flag != NULL ? "--half" : "GR00T_HALF", why.msg);
    }
    return GR_OK;
}

bool gr_settings_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

enum gr_status gr_settings_cache(const char *flag, char out[GR_PATH_BYTES], struct gr_err *err)
{
    const char *by = flag != NULL ? "--cache" : env("GR00T_CACHE") != NULL ? "GR00T_CACHE" : "GR00T_TT_CACHE";
    const char *dir = flag != NULL ? flag : env(by), *user = env("XDG_CACHE_HOME");
    out[0] = '\0';
    if (dir != NULL && (strcasecmp(dir, "off") == 0 || strcasecmp(dir, "false") == 0 || strcmp(dir, "0") == 0)) {
        return GR_OK;
    }
    if (dir != NULL && gr_settings_one_of(dir, "on", "1", "true")) {
        return gr_fail(err, GR_ERR_USAGE, "%s is \"%s\", expected a folder or off", by, dir);
    }
    if (dir != NULL && strlen(dir) >= GR_PATH_BYTES) {
        return gr_fail(err, GR_ERR_USAGE, "%s: path too long: %.80s...", by, dir);
    }
    if (dir != NULL) {
        strcpy(out, dir);
        return GR_OK;
    }
    if (user != NULL && user[0] == '/') {
        return gr_path_join(out, user, "gr00t", err);
    }
    const char *home = env("HOME");
    return home != NULL && home[0] == '/' ? gr_path_join(out, home, ".cache/gr00t", err) : GR_OK;
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

/* Snapshot folder of Qwen/Qwen3-1.7B in the Hub cache. False when the cache has none; `out` then names the model's folder for the
 * message. */
static bool hub_tokenizer(char out[GR_PATH_BYTES])
{
    struct gr_hub_place place;
    struct gr_err ignored;
    bool found = gr_hub_find("Qwen/Qwen3-1.7B", NULL, &place, &ignored) == GR_OK && has_tokenizer(place.dir);
    strcpy(out, found ? place.dir : place.model);
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

bool gr_settings_find_tokenizer(const char *dir, char out[GR_PATH_BYTES])
{
    struct gr_err ignored;
    return (dir != NULL && gr_path_join(out, dir, "tokenizer", &ignored) == GR_OK && has_tokenizer(out)) ||
           hub_tokenizer(out);
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
    if (gr_settings_find_tokenizer(dir, out)) {
        return GR_OK;
    }
    strcpy(in_hub, out);
    GR_TRY(gr_path_join(out, dir, "tokenizer", err));
    return gr_fail(
        err, GR_ERR_FORMAT,
        "no tokenizer (vocab.json and merges.txt, or tokenizer.json): --tokenizer and GR00T_TOKENIZER_DIR are not given, nothing in %s, nothing in %s; "
        "`gr00t pull --tokenizer` fetches it, or name its folder with --tokenizer",
        out, in_hub[0] != '\0' ? in_hub : "the Hub cache (no folder: HOME is not set)");
}

enum gr_status gr_settings_engine(const char *dir, const struct gr_engine_flags *flags, struct gr_settings *out,
                                  struct gr_err *err)
{
    memset(out, 0, sizeof *out);
    out->engine.embodiment = gr_settings_embodiment(flags->embodiment);
    GR_TRY(gr_settings_device(flags->device, &out->engine.device, err));
    const bool card = gr_settings_on_card(out->engine.device);
    GR_TRY(gr_settings_policy(flags->policy, card ? NULL : flags->mk_arena_dtype, &out->engine.precision, err));
    GR_TRY(set_half(flags->half, &out->engine.half, err));
    GR_TRY(card ? gr_settings_card(flags, &out->engine, err) : gr_settings_no_card(flags, err));
    out->engine.remeasure = flags->remeasure;
    out->engine.no_prefix_cache = flags->no_prefix_cache;
    GR_TRY(gr_settings_cache(flags->cache, out->cache, err));
    out->engine.cache_dir = out->cache[0] != '\0' ? out->cache : NULL;
    out->engine.cpu = flag_or_env(flags->cpu, "GR00T_CPU");
    GR_TRY(gr_settings_threads(&flags->threads, &out->engine.threads, err));
    char config[GR_PATH_BYTES];
    GR_TRY(gr_fs_need_dir(dir, GR_ERR_FORMAT, err));
    /* Before the tokenizer: whoever named the wrong folder should not be sent looking for a vocabulary. */
    GR_TRY(gr_path_join(config, dir, "config.json", err));
    GR_TRY(gr_fs_need_file(config, GR_ERR_FORMAT, err));
    GR_TRY(gr_settings_tokenizer(dir, flags->tokenizer, out->tokenizer, err));
    out->engine.tokenizer_dir = out->tokenizer;
    if (out->engine.threads > gr_cpu_count()) {
        gr_log(GR_LOG_WARN, "%d threads on %d CPUs: they wait for each other, and every predict gets slower",
               out->engine.threads, gr_cpu_count());
    }
    return GR_OK;
}
