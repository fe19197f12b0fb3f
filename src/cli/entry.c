/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.c: a launcher of schema 5.1 knows only Python servers: it composes "python -m uvicorn --host H --port P --lifespan on [args] APP [words]". An image
 * without Python understands that all the same. After a forced stop the launcher runs the image as tt-smi. */
#include "cli/entry.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "python", "python3", "python3.12" */
static bool is_python(const char *word)
{
    const char *name = base_name(word);
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

/* Number of words before "-m"; -1: it is no such command line. */
static int python_at(int argc, char **argv)
{
    if (argc >= 1 && is_python(argv[0])) {
        return 1;
    }
    return argc >= 2 && is_python(argv[1]) ? 2 : -1;
}

bool gr_entry_is_python(int argc, char **argv) { return python_at(argc, argv) > 0; }

/* "module.path:attribute" */
static bool is_app(const char *word)
{
    const char *colon = strchr(word, ':');
    if (colon == NULL || colon == word || !(isalpha((unsigned char)word[0]) || word[0] == '_')) {
        return false;
    }
    for (const char *c = word; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.' && c != colon) {
            return false;
        }
    }
    return colon[1] != '\0' && !isdigit((unsigned char)colon[1]);
}

/* uvicorn's options that say nothing to us, and those that are called otherwise here. */
static const struct {
    const char *name, *ours; /* ours NULL: left out */
    bool value;
} options[] = {
    {"--lifespan", NULL, true},
    {"--workers", NULL, true},
    {"--log-level", NULL, true},
    {"--loop", NULL, true},
    {"--http", NULL, true},
    {"--ws", NULL, true},
    {"--interface", NULL, true},
    {"--app-dir", NULL, true},
    {"--forwarded-allow-ips", NULL, true},
    {"--access-log", NULL, false},
    {"--no-access-log", NULL, false},
    {"--proxy-headers", NULL, false},
    {"--no-proxy-headers", NULL, false},
    {"--use-colors", NULL, false},
    {"--no-use-colors", NULL, false},
    {"--no-server-header", NULL, false},
    {"--uds", "--unix", true},
    {"--ssl-keyfile", "--tls-key", true},
    {"--ssl-certfile", "--tls-cert", true},
    {"--timeout-keep-alive", "--idle-s", true},
    {"--timeout-graceful-shutdown", "--drain-s", true},
    {"--limit-concurrency", "--connections", true},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static int find_option(const char *word)
{
    const size_t n = strcspn(word, "=");
    for (int i = 0; i < N_OPTIONS; i++) {
        if (strlen(options[i].name) == n && strncmp(word, options[i].name, n) == 0) {
            return i;
        }
    }
    return -1;
}

enum gr_status gr_entry_serve(int argc, char **argv, int *n, char ***out, struct gr_err *err)
{
    static char verb[] = "serve";
    const int at = python_at(argc, argv);
    bool app = false;
    *n = 0;
    *out = NULL;
    if (at < 0 || argc < at + 2 || strcmp(argv[at], "-m") != 0 || strcmp(argv[at + 1], "uvicorn") != 0) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "there is no Python here; of its command lines only \"python -m uvicorn --host H --port P APP\" is "
            "understood, as `gr00t serve`");
    }
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (words == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the command line");
    }
    words[(*n)++] = argv[0];
    words[(*n)++] = verb;
    for (int i = at + 2; i < argc; i++) {
        const int known = find_option(argv[i]);
        const bool joined = strchr(argv[i], '=') != NULL;
        if (known < 0) {
            if (!app && is_app(argv[i])) {
                app = true;
            } else {
                words[(*n)++] = argv[i];
            }
            continue;
        }
        if (options[known].ours != NULL) { /* "--uds=PATH" too: its value is a word of its own then */
            words[(*n)++] = (char *)(uintptr_t)options[known].ours;
            if (joined) {
                words[(*n)++] = strchr(argv[i], '=') + 1;
            } else if (i + 1 < argc) {
                words[(*n)++] = argv[++i];
            }
        } else if (options[known].value && !joined) {
            i++;
        }
    }
    words[*n] = NULL;
    *out = words;
    return GR_OK;
}

/* ---- tt-smi ---- */

bool gr_entry_is_smi(int argc, char **argv) { return argc >= 1 && strcmp(base_name(argv[0]), "tt-smi") == 0; }

int gr_entry_smi(int argc, char **argv, bool card, struct gr_buf *out)
{
    bool reset = false;
    for (int i = 1; i < argc; i++) {
        reset = reset || strcmp(argv[i], "-r") == 0 || strncmp(argv[i], "--reset", 7) == 0;
    }
    if (!card) { /* nothing is held by anybody: who asks may go on */
        gr_buf_puts(out,
                    reset ? "tt-smi (gr00t): there is no card here (/dev/tenstorrent), so there is nothing to reset\n"
                          : "tt-smi (gr00t): there is no card here (/dev/tenstorrent)\n");
        return 0;
    }
    /* Exit code 0 would be read as "the reset was done". */
    gr_buf_puts(out, reset ? "tt-smi (gr00t): this image cannot reset a card; run `tt-smi -r` on the host\n"
                           : "tt-smi (gr00t): this image cannot show cards; run `tt-smi` on the host\n");
    return 1;
}
