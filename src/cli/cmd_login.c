/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_login.c: `gr00t login`: asks the Hub whose token this is, then keeps it where every Hub client looks, readable by its owner alone. The
 * token comes from a file, a pipe or the keyboard (not shown); a word of the command line is seen by everybody on the machine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/settings_tool.h"
#include "hub/upload.h"

enum { TOKEN_MAX_BYTES = 4096 };

struct options {
    const char *token, *token_file;
};

static const struct gr_arg args[] = {
    {.name = "token-file",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, token_file),
     .value = "FILE",
     .help = "read the token from FILE [standard input]"},
    {.name = "token",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, token),
     .value = "TOKEN",
     .help = "the token itself: others on this machine can see it meanwhile"},
};

/* ---- reading ---- */

static volatile sig_atomic_t broken_off;

static void on_signal(int sig) { broken_off = sig; }

/* One line from the terminal with its echo off; the terminal gets its settings back whatever ends the wait. */
static ssize_t read_hidden(char *out, size_t n)
{
    struct termios shown, hidden;
    struct sigaction sa = {.sa_handler = on_signal}, before[3];
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    if (tcgetattr(STDIN_FILENO, &shown) != 0) {
        return read(STDIN_FILENO, out, n);
    }
    sigemptyset(&sa.sa_mask); /* no SA_RESTART: the read ends */
    for (int i = 0; i < 3; i++) {
        sigaction(signals[i], &sa, &before[i]);
    }
    hidden = shown;
    hidden.c_lflag &= ~(tcflag_t)ECHO;
    hidden.c_lflag |= ECHONL | ICANON;
    fputs("Token (not shown): ", stderr);
    fflush(stderr);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    const ssize_t got = broken_off == 0 ? read(STDIN_FILENO, out, n) : -1;
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    for (int i = 0; i < 3; i++) {
        sigaction(signals[i], &before[i], NULL);
    }
    if (broken_off != 0) {
        fputs("\n", stderr);
        raise(broken_off); /* as if it had come now: the usual end */
    }
    return got;
}

static enum gr_status read_input(char out[TOKEN_MAX_BYTES], size_t *n, struct gr_err *err)
{
    ssize_t got;
    *n = 0;
    if (isatty(STDIN_FILENO) == 1) {
        got = read_hidden(out, TOKEN_MAX_BYTES);
        *n = got > 0 ? (size_t)got : 0;
        return got >= 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, errno, "cannot read the token from the terminal");
    }
    while (*n < TOKEN_MAX_BYTES && (got = read(STDIN_FILENO, out + *n, TOKEN_MAX_BYTES - *n)) != 0) {
        if (got < 0 && errno != EINTR) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "cannot read the token from standard input");
        }
        *n += got > 0 ? (size_t)got : 0;
    }
    return GR_OK;
}

/* One word of printable ASCII; white space around it is dropped. The message never holds a byte of it. */
static enum gr_status trim(char *text, size_t n, const char *from, struct gr_err *err)
{
    size_t lead = 0;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        n--;
    }
    while (lead < n && strchr(" \t\r\n", text[lead]) != NULL) {
        lead++;
    }
    for (size_t i = lead; i < n; i++) {
        if (text[i] <= ' ' || text[i] >= 127) {
            return gr_fail(err, GR_ERR_USAGE, "%s holds more than one word of printable ASCII: no token", from);
        }
    }
    if (n == lead || n == TOKEN_MAX_BYTES) {
        return gr_fail(err, GR_ERR_USAGE, "%s %s", from, n == lead ? "holds no token" : "is too long for a token");
    }
    memmove(text, text + lead, n - lead);
    text[n - lead] = '\0';
    return GR_OK;
}

static enum gr_status read_token(const struct options *o, char token[TOKEN_MAX_BYTES + 1], struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0;
    const char *from = o->token != NULL ? "--token" : o->token_file != NULL ? o->token_file : "standard input";
    if (o->token != NULL) {
        gr_log(GR_LOG_WARN,
               "a token on the command line can be seen by every user of this machine; use --token-file or "
               "standard input");
        n = strlen(o->token);
        n = n < TOKEN_MAX_BYTES ? n : TOKEN_MAX_BYTES;
        memcpy(token, o->token, n);
        memset((char *)o->token, '*', strlen(o->token)); /* the process list shows this memory */
    } else if (o->token_file != NULL) {
        GR_TRY(gr_fs_read(o->token_file, TOKEN_MAX_BYTES, &text, &n, err));
        memcpy(token, text, n);
        explicit_bzero(text, n);
        free(text);
    } else {
        GR_TRY(read_input(token, &n, err));
    }
    return trim(token, n, from, err);
}

/* ---- keeping ---- */

/* 0600 from the first byte on; what was there before is replaced as a whole, its mode with it. */
static enum gr_status keep(const char *token, char path[GR_PATH_BYTES], struct gr_err *err)
{
    char named[GR_PATH_BYTES], dir[GR_PATH_BYTES];
    GR_TRY(gr_settings_tool_token_file(named, err));
    const char *slash = strrchr(named, '/');
    if (slash != NULL && slash != named) {
        (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - named), named);
        GR_TRY(gr_fs_mkdirs(dir, err));
    }
    GR_TRY(gr_fs_follow(path, named, err));
    const mode_t mask = umask(0077);
    enum gr_status status = gr_fs_write(path, token, strlen(token), err);
    (void)umask(mask);
    return status;
}

/* The Hub of the environment, with this token instead of the one found there: what is kept now may be damaged, and is about to be replaced. */
static enum gr_status ask(const char *token, char name[GR_HUB_ID_BYTES], struct gr_err *err)
{
    struct gr_tool_hub tool = {0};
    if (setenv("HF_TOKEN", token, 1) != 0) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the token");
    }
    enum gr_status status = gr_settings_tool_hub(&tool, err);
    if (status == GR_OK) {
        status = gr_hub_whoami(tool.hub, name, err);
    }
    gr_tool_hub_free(&tool);
    return status;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    char token[TOKEN_MAX_BYTES + 1] = "", name[GR_HUB_ID_BYTES], path[GR_PATH_BYTES];
    if (o->token != NULL && o->token_file != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--token and --token-file exclude each other");
    }
    const bool shadowed = gr_settings_env("HF_TOKEN") != NULL;
    enum gr_status status = read_token(o, token, err);
    if (status == GR_OK) {
        status = ask(token, name, err);
    }
    if (status == GR_OK) {
        status = keep(token, path, err);
    }
    explicit_bzero(token, sizeof token);
    if (status == GR_OK && shadowed) {
        gr_log(GR_LOG_WARN, "HF_TOKEN is set: as long as it is, it comes before the token kept now");
    }
    if (status == GR_OK) {
        gr_buf_line(&cli->out, "✓ logged in as %s, token kept in %s\n", name, path);
    }
    return status;
}

const struct gr_command gr_cmd_login = {
    .name = "login",
    .summary = "Check a Hub token and keep it for later calls",
    .synopsis = "[--token-file FILE]",
    .more =
        "The token is kept in HF_TOKEN_PATH, else HF_HOME/token, readable by its owner only. HF_TOKEN, when set, comes first.\n\n"
        "Examples\n  gr00t login < token.txt\n  gr00t login",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
