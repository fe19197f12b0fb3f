/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_tool.c: environment to an open Hub and the tool's folders; and the end of a transfer by a signal, which is a flag first. The token goes
 * from where it was found straight into the hub. */
#include "cli/settings_tool.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/settings.h"

enum { TOKEN_MAX = 4096, EXIT_INTERRUPTED = 130 };
#define SILENCE_MAX_S 3600.0

static _Atomic bool cancelled;

static const char *env(const char *name) { return gr_settings_env(name); }

/* ---- signals ---- */

static void on_signal(int sig)
{
    (void)sig;
    if (atomic_exchange(&cancelled, true)) {
        gr_writer_unlink_all();
        _exit(EXIT_INTERRUPTED);
    }
}

void gr_settings_tool_catch(void)
{
    struct sigaction sa = {.sa_handler = on_signal}, now;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN) { /* under nohup it stays ignored */
        sigaction(SIGHUP, &sa, NULL);
    }
}

bool gr_settings_tool_cancelled(void) { return atomic_load(&cancelled); }

void gr_settings_tool_interrupted(const char *kept)
{
    gr_writer_unlink_all();
    gr_log(GR_LOG_WARN, "interrupted: %s", kept);
    _exit(EXIT_INTERRUPTED);
}

/* ---- folders ---- */

const char *gr_settings_tool_env(const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "TT_MODEL_%.40s", name);
    const char *value = env(full);
    snprintf(full, sizeof full, "TT_KERNEL_%.40s", name);
    return value != NULL ? value : env(full);
}

enum gr_status gr_settings_tool_dirs(struct gr_state_dirs *out, struct gr_err *err)
{
    const char *home = env("HOME");
    if (home == NULL || home[0] != '/') {
        return gr_fail(
            err, GR_ERR_USAGE,
            "HOME is %s%.200s: set it to an absolute path, in whose .cache/tt-model the state of packages and "
            "services is kept",
            home == NULL ? "not set" : "", home == NULL ? "" : home);
    }
    return gr_state_dirs(env("HOME"), env("XDG_CACHE_HOME"), out, err);
}

static enum gr_status copy_path(char out[GR_PATH_BYTES], const char *text, const char *name, struct gr_err *err)
{
    if (strlen(text) >= GR_PATH_BYTES) {
        return gr_fail(err, GR_ERR_USAGE, "%s is too long for a path", name);
    }
    strcpy(out, text);
    return GR_OK;
}

static enum gr_status hf_home(char out[GR_PATH_BYTES], struct gr_err *err)
{
    const char *home = env("HF_HOME"), *user = env("XDG_CACHE_HOME");
    if (home != NULL) {
        return copy_path(out, home, "HF_HOME", err);
    }
    if (user != NULL) {
        return gr_path_join(out, user, "huggingface", err);
    }
    if (env("HOME") != NULL) {
        return gr_path_join(out, env("HOME"), ".cache/huggingface", err);
    }
    return gr_fail(err, GR_ERR_USAGE, "neither HF_HOME nor HOME is set");
}

enum gr_status gr_settings_tool_token_file(char out[GR_PATH_BYTES], struct gr_err *err)
{
    const char *path = env("HF_TOKEN_PATH");
    char home[GR_PATH_BYTES];
    if (path != NULL) {
        return copy_path(out, path, "HF_TOKEN_PATH", err);
    }
    GR_TRY(hf_home(home, err));
    return gr_path_join(out, home, "token", err);
}

/* ---- the hub ---- */

/* The words of the Python client, which takes every other one for "off": a misspelt wish for no network is refused here. */
enum gr_status gr_settings_tool_offline(bool *out, struct gr_err *err)
{
    static const char *const words[] = {"1", "on", "yes", "true", "0", "off", "no", "false"};
    enum { WORDS = sizeof words / sizeof words[0] };
    const char *value = env("HF_HUB_OFFLINE");
    *out = false;
    for (int i = 0; value != NULL && i < WORDS; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            *out = i < WORDS / 2;
            return GR_OK;
        }
    }
    return value == NULL
               ? GR_OK
               : gr_fail(err, GR_ERR_USAGE,
                         "HF_HUB_OFFLINE is \"%.40s\", expected 1, on, yes, true, or 0, off, no, false", value);
}

/* *out is malloc'ed and without blanks at its ends; NULL: there is none. */
static enum gr_status find_token(char **out, struct gr_err *err)
{
    static const char blank[] = " \t\r\n";
    char path[GR_PATH_BYTES];
    size_t n = 0;
    *out = NULL;
    if (env("HF_TOKEN") != NULL) {
        *out = strdup(env("HF_TOKEN"));
        if (*out == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for the token");
        }
    } else {
        GR_TRY(gr_settings_tool_token_file(path, err));
        if (access(path, F_OK) != 0) {
            return GR_OK;
        }
        GR_TRY(gr_fs_read(path, TOKEN_MAX, out, &n, err));
    }
    char *token = *out;
    const size_t lead = strspn(token, blank);
    n = strlen(token);
    while (n > lead && strchr(blank, token[n - 1]) != NULL) {
        n--;
    }
    memmove(token, token + lead, n - lead);
    token[n - lead] = '\0';
    if (n == lead) {
        free(token);
        *out = NULL;
    }
    return GR_OK;
}

static void note(void *user, const char *line)
{
    (void)user;
    gr_log(GR_LOG_WARN, "%s", line);
}

static enum gr_status open_hub(struct gr_tool_hub *out, const char *token, struct gr_err *err)
{
    const char *silence = env("HF_HUB_DOWNLOAD_TIMEOUT"), *ca_file = env("SSL_CERT_FILE");
    double silence_s = 0.0;
    if (silence != NULL) {
        GR_TRY(gr_settings_real("HF_HUB_DOWNLOAD_TIMEOUT", silence, 0.1, SILENCE_MAX_S, &silence_s, err));
    }
    const struct gr_hub_config cfg = {.endpoint = env("HF_ENDPOINT"),
                                      .token = token,
                                      .cache_root = out->cache,
                                      .offline = out->offline,
                                      .ca_file = ca_file != NULL ? ca_file : env("REQUESTS_CA_BUNDLE"),
                                      .time_limit_s = silence_s,
                                      .cancel = &cancelled,
                                      .note = note};
    return gr_hub_open(&cfg, &out->hub, err);
}

enum gr_status gr_settings_tool_hub(struct gr_tool_hub *out, struct gr_err *err)
{
    char *token = NULL;
    memset(out, 0, sizeof *out);
    GR_TRY(gr_settings_tool_dirs(&out->dirs, err)); /* wants HOME, with which the others are found too */
    GR_TRY(gr_settings_hub_root(out->cache, err));
    GR_TRY(hf_home(out->hf_home, err));
    GR_TRY(gr_settings_tool_offline(&out->offline, err));
    GR_TRY(find_token(&token, err));
    out->has_token = token != NULL;
    enum gr_status status = open_hub(out, token, err);
    if (token != NULL) {
        explicit_bzero(token, strlen(token));
    }
    free(token);
    return status;
}

void gr_tool_hub_free(struct gr_tool_hub *t)
{
    gr_hub_close(t->hub);
    t->hub = NULL;
}
