/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: entry point of `gr00t`: the table of verbs, global options, and what a status means as an exit code.
 * Nothing below this folder prints or exits; a command returns a status and this file turns it into one line on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/entry.h"
#include "cli/settings.h"
#include "gr00t.h"
#include "base/nearest.h"
#include "device/blackhole/kmd_window.h"

static const struct gr_command *const commands[] = {
    &gr_cmd_predict,  &gr_cmd_serve,        &gr_cmd_inspect,   &gr_cmd_synth,          &gr_cmd_check,
    &gr_cmd_tokenize, &gr_cmd_bench_engine, &gr_cmd_verify,    &gr_cmd_smoke,          &gr_cmd_bench_http,
    &gr_cmd_plot,     &gr_cmd_curl,         &gr_cmd_package,   &gr_cmd_manifest_check, &gr_cmd_pull,
    &gr_cmd_push,     &gr_cmd_publish,      &gr_cmd_unpublish, &gr_cmd_search,         &gr_cmd_list,
    &gr_cmd_info,     &gr_cmd_profiles,     &gr_cmd_rm,        &gr_cmd_login,          &gr_cmd_stop,
    &gr_cmd_ps,       &gr_cmd_logs,         &gr_cmd_device,    &gr_cmd_device_test};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };
enum { EXIT_SNAPSHOT = 4, EXIT_DEVICE = 7, EXIT_INTERRUPTED = 130, EXIT_CLOSED_PIPE = 141, REPORT_MS = 500 };

/* The one place where a status becomes an exit code (documented in the man page). */
int gr_exit_code(enum gr_status status)
{
    switch (status) {
    case GR_OK:
        return 0;
    case GR_ERR_CHECK:
        return 1;
    case GR_ERR_USAGE:
        return 2;
    case GR_ERR_INPUT:
    case GR_ERR_SCHEMA:
    case GR_ERR_IO:
        return 3;
    case GR_ERR_FORMAT:
        return 4;
    case GR_ERR_NETWORK:
        return 5;
    case GR_ERR_ACCESS:
        return 6;
    case GR_ERR_BUSY:
    case GR_ERR_NOMEM:
    case GR_ERR_DEVICE:
        return 7;
    }
    return 7;
}

struct globals {
    bool help, version, verbose, quiet, no_color;
    const char *log_format;
};

static const char *const log_formats[] = {"text", "json", NULL};
static const struct gr_arg global_args[] = {
    {.name = "help", .kind = GR_ARG_FLAG, .offset = offsetof(struct globals, help), .help = "show this text"},
    {.name = "version", .kind = GR_ARG_FLAG, .offset = offsetof(struct globals, version), .help = "show the version"},
    {.name = "verbose", .kind = GR_ARG_FLAG, .offset = offsetof(struct globals, verbose), .help = "say more"},
    {.name = "quiet",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct globals, quiet),
     .help = "no progress, no warnings"},
    {.name = "no-color",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct globals, no_color),
     .help = "no colours [NO_COLOR]"},
    {.name = "log-format",
     .kind = GR_ARG_CHOICE,
     .offset = offsetof(struct globals, log_format),
     .value = "FORMAT",
     .choices = log_formats,
     .help = "lines on stderr: text or json"},
};
enum { N_GLOBAL_ARGS = sizeof global_args / sizeof global_args[0] };

static volatile sig_atomic_t interrupted_code = EXIT_INTERRUPTED;

void gr_cli_interrupt_code(int code) { interrupted_code = code; }

static void on_interrupt(int sig)
{
    (void)sig;
    gr_writer_unlink_all(); /* nothing half-written stays; files under their final names are complete */
    _exit(interrupted_code);
}

static volatile sig_atomic_t json_errors;

#define FILE_LOST "a mapped file (snapshot or cache) became shorter while it was in use, or its disk cannot be read"
#define CARD_LOST "the card was reset or taken out while it was in use"

/* A page of a mapped snapshot or cache file that is no longer behind the mapping: the file was cut short, or its disk fails. Or a window of the
 * card, which the driver takes away when somebody resets it. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    static const char text[2][160] = {"gr00t: " FILE_LOST "\n", "gr00t: " CARD_LOST "\n"};
    static const char json[2][240] = {
        "{\"level\": \"error\", \"code\": \"format\", \"exit\": 4, \"msg\": \"" FILE_LOST "\"}\n",
        "{\"level\": \"error\", \"code\": \"device\", \"exit\": 7, \"msg\": \"" CARD_LOST "\"}\n"};
    const bool card = gr_kmd_window_has(info->si_addr);
    const char *line = json_errors ? json[card] : text[card];
    (void)sig;
    (void)context;
    gr_writer_unlink_all();
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, REPORT_MS) == 1) { /* else nobody reads */
        ssize_t n = write(STDERR_FILENO, line, strlen(line));
        (void)n;
    }
    _exit(card ? EXIT_DEVICE : EXIT_SNAPSHOT);
}

/* Descriptors 0..2 exist (a later open() must not land on a closed stdout); broken pipes are errors, not signals, so that
 * files are finished or cleaned up first. */
static void set_up_process(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) < 0) {
            break;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* who ignores it would not learn how its children ended */
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is then a failed write like a full disk */
    struct sigaction sa = {.sa_handler = on_interrupt};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) { /* under nohup it stays ignored */
        sigaction(SIGHUP, &sa, NULL);
    }
    struct sigaction bus = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
}

static void set_up_output(struct gr_cli *cli, const struct globals *g)
{
    struct winsize size;
    bool terminal = isatty(STDOUT_FILENO) == 1;
    cli->verbose = g->verbose;
    cli->quiet = g->quiet;
    cli->json_log = g->log_format != NULL && strcmp(g->log_format, "json") == 0;
    json_errors = cli->json_log;
    cli->color = terminal && !g->no_color && !gr_settings_no_color();
    cli->columns = 132; /* two groups of seven joints side by side */
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
        cli->columns = size.ws_col;
    }
    gr_log_setup(g->quiet ? GR_LOG_ERROR : g->verbose ? GR_LOG_DEBUG : GR_LOG_INFO, cli->json_log);
}

static void report_error(const struct gr_cli *cli, const struct gr_err *err)
{
    struct gr_buf line = {0};
    if (gr_log_stamped()) { /* a service: its log may have a reader who stands still */
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (!cli->json_log) {
            gr_log(GR_LOG_ERROR, "%s: %s", cli->command, err->msg);
            return;
        }
        if (poll(&out, 1, REPORT_MS) != 1) {
            return;
        }
    }
    if (cli->json_log) {
        gr_buf_puts(&line, "{\"level\": \"error\", \"command\": ");
        gr_buf_json_string(&line, cli->command != NULL ? cli->command : "");
        gr_buf_printf(&line, ", \"code\": \"%s\", \"exit\": %d, \"msg\": ", gr_status_name(err->code),
                      gr_exit_code(err->code));
        gr_buf_json_string(&line, err->msg);
        gr_buf_puts(&line, "}\n");
    } else if (cli->command != NULL) {
        gr_buf_printf(&line, "gr00t: %s: %s\n", cli->command, err->msg);
    } else {
        gr_buf_printf(&line, "gr00t: %s\n", err->msg);
    }
    if (line.data != NULL && !line.failed) {
        fputs(line.data, stderr);
    } else { /* no memory for the line */
        fprintf(stderr, "gr00t: %s\n", err->msg);
    }
    gr_buf_free(&line);
}

/* The commands whose name is `prefix` or starts with "prefix "; "": all. */
static void list_commands(struct gr_buf *out, const char *prefix)
{
    size_t n = strlen(prefix);
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i]->name;
        if (n == 0 || (strncmp(name, prefix, n) == 0 && name[n] == ' ')) {
            gr_buf_printf(out, "  %-14s %s\n", name, commands[i]->summary);
        }
    }
}

static void main_help(struct gr_buf *out)
{
    gr_buf_puts(
        out,
        "Usage: gr00t COMMAND [OPTIONS]\n\n"
        "Runs the robot policy GR00T N1.6 on a CPU or a Tenstorrent Blackhole card: one observation in, one action\n"
        "chunk out.\n\nCommands\n");
    list_commands(out, "");
    gr_buf_puts(out, "\nOptions of every command\n");
    gr_args_help(out, global_args, N_GLOBAL_ARGS);
    gr_buf_puts(out, "\n`gr00t COMMAND --help` explains one command. `man gr00t` has exit codes and variables.\n");
}

static void command_help(struct gr_buf *out, const struct gr_command *cmd)
{
    gr_buf_printf(out, "Usage: gr00t %s %s\n\n%s.\n", cmd->name, cmd->synopsis, cmd->summary);
    if (cmd->n_args > 0) {
        gr_buf_puts(out, "\nOptions\n");
        gr_args_help(out, cmd->args, cmd->n_args);
    }
    gr_buf_puts(out, "\nOptions of every command\n");
    gr_args_help(out, global_args, N_GLOBAL_ARGS);
    if (cmd->more != NULL) {
        gr_buf_printf(out, "\n%s\n", cmd->more);
    }
    if (cmd->more_text != NULL) {
        gr_buf_puts(out, "\n");
        cmd->more_text(out);
    }
}

/* True when `word` is the first word of a two-word command. */
static bool is_family(const char *word)
{
    size_t n = strlen(word);
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strncmp(commands[i]->name, word, n) == 0 && commands[i]->name[n] == ' ') {
            return true;
        }
    }
    return false;
}

/* The command named by one word, or by two. *used: words taken. NULL when there is none. */
static const struct gr_command *find_command(const char *first, const char *second, int *used)
{
    const struct gr_command *one_word = NULL; /* "device", when there is no "device SECOND" */
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i]->name;
        size_t n = strlen(first);
        if (strcmp(name, first) == 0) {
            one_word = commands[i];
        }
        if (second != NULL && strncmp(name, first, n) == 0 && name[n] == ' ' && strcmp(name + n + 1, second) == 0) {
            *used = 2;
            return commands[i];
        }
    }
    *used = 1;
    return one_word;
}

/* Full names for two words, first words for one: "bench" is near "benhc", "bench engine" is not. */
struct name_list {
    char words[N_COMMANDS][32];
};

static const char *name_at(const void *ctx, int i) { return ((const struct name_list *)ctx)->words[i]; }

static enum gr_status unknown_command(const char *first, const char *second, struct gr_err *err)
{
    char word[128];
    struct name_list names;
    bool family = is_family(first);
    if (family && second == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "%s needs a second word; `gr00t %s --help` lists them", first, first);
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i]->name;
        snprintf(names.words[i], sizeof names.words[i], "%.*s", family ? (int)strlen(name) : (int)strcspn(name, " "),
                 name);
    }
    snprintf(word, sizeof word, "%.60s%s%.60s", first, family ? " " : "", family ? second : "");
    const char *near = gr_nearest(word, GR_ARG_EDITS, name_at, &names, N_COMMANDS);
    if (near != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "unknown command \"%s\", did you mean %s?", word, near);
    }
    return gr_fail(err, GR_ERR_USAGE, "unknown command \"%s\"; `gr00t --help` lists the commands", word);
}

/* `gr00t help [COMMAND]` and `gr00t FAMILY --help`. */
static enum gr_status show_help(const char *first, const char *second, struct gr_buf *out, struct gr_err *err)
{
    int used;
    if (first == NULL) {
        main_help(out);
        return GR_OK;
    }
    const struct gr_command *cmd = find_command(first, second, &used);
    if (cmd != NULL) {
        command_help(out, cmd);
        return GR_OK;
    }
    if (is_family(first) && second == NULL) {
        gr_buf_printf(out, "Usage: gr00t %s COMMAND [OPTIONS]\n\nCommands\n", first);
        list_commands(out, first);
        return GR_OK;
    }
    return unknown_command(first, second, err);
}

static enum gr_status run_command(struct gr_cli *cli, const struct gr_command *cmd, const struct gr_arg_set *set,
                                  const char *const *words, int n_words, struct gr_err *err)
{
    if (n_words < cmd->min_words) {
        return gr_fail(err, GR_ERR_USAGE, "missing %s; usage: gr00t %s %s", cmd->words, cmd->name, cmd->synopsis);
    }
    if (cmd->max_words >= 0 && n_words > cmd->max_words) {
        return gr_fail(err, GR_ERR_USAGE, "unexpected word \"%s\"; usage: gr00t %s %s", words[cmd->max_words],
                       cmd->name, cmd->synopsis);
    }
    GR_TRY(gr_args_check(set, err));
    return cmd->run(cli, set->values, words, n_words, err);
}

/* Finds the first word that is not an option; `--log-format json` before the command has a value. */
static int first_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            return i;
        }
        i += strcmp(argv[i], "--log-format") == 0;
    }
    return argc;
}

static enum gr_status parse_and_run(struct gr_cli *cli, int argc, char **argv, struct gr_err *err)
{
    alignas(max_align_t) char options[GR_CLI_OPTIONS_BYTES] = {0};
    struct globals g = {0};
    int verb = first_word(argc, argv), used = 0;
    const char *first = verb < argc ? argv[verb] : NULL;
    const char *second = verb + 1 < argc && argv[verb + 1][0] != '-' ? argv[verb + 1] : NULL;
    const struct gr_command *cmd = first != NULL ? find_command(first, second, &used) : NULL;
    struct gr_arg_set sets[2] = {{global_args, N_GLOBAL_ARGS, &g}, {NULL, 0, options}};
    const char **words = NULL;
    int n_words = 0;
    if (cmd != NULL) {
        cli->command = cmd->name;
        sets[1].args = cmd->args;
        sets[1].n = cmd->n_args;
        for (int i = verb; i + used < argc; i++) {
            argv[i] = argv[i + used]; /* the command's own words are no arguments */
        }
        argc -= used;
    }
    enum gr_status status = gr_args_parse(argc - 1, argv + 1, sets, 2, &words, &n_words, &cli->n_plain, err);
    set_up_output(cli, &g);
    bool help_word = first != NULL && strcmp(first, "help") == 0;
    if (cmd == NULL && first != NULL && !help_word && !(is_family(first) && second == NULL)) {
        status = unknown_command(first, second, err); /* more telling than the options of an unknown command */
    } else if (status != GR_OK) {
        ; /* told by the parser */
    } else if (g.version) {
        gr_buf_printf(&cli->out, "gr00t %s\n", gr_version());
    } else if (g.help && cmd != NULL) {
        command_help(&cli->out, cmd);
    } else if (cmd != NULL) {
        status = run_command(cli, cmd, &sets[1], words, n_words, err);
    } else if (help_word) {
        status = show_help(n_words > 1 ? words[1] : NULL, n_words > 2 ? words[2] : NULL, &cli->out, err);
    } else if (g.help) {
        status = show_help(first, second, &cli->out, err);
    } else if (first == NULL) {
        status = gr_fail(err, GR_ERR_USAGE, "no command given; `gr00t --help` lists the commands");
    } else {
        status = unknown_command(first, second, err);
    }
    gr_args_free(sets, 2, words);
    return status;
}

int main(int argc, char **argv)
{
    struct gr_cli cli = {0};
    struct gr_err err = {0}, write_err = {0};
    set_up_process();
    if (gr_entry_is_smi(argc, argv)) {
        const int code = gr_entry_smi(argc, argv, access("/dev/tenstorrent", F_OK) == 0, &cli.out);
        const bool told = gr_cli_flush(&cli, &write_err) == GR_OK;
        gr_buf_free(&cli.out);
        return told ? code : gr_exit_code(GR_ERR_IO);
    }
    char **words = argv;
    enum gr_status status = gr_entry_is_python(argc, argv) ? gr_entry_serve(argc, argv, &argc, &words, &err) : GR_OK;
    if (status == GR_OK) {
        status = parse_and_run(&cli, argc, words, &err);
    }
    if (words != argv) {
        free(words);
    }
    bool reader_gone = cli.closed_pipe; /* it is what ended the run */
    /* What was found out is shown even when the run failed: a failed check prints its table. */
    enum gr_status written = gr_cli_flush(&cli, &write_err);
    if (status == GR_OK) {
        status = written;
        err = write_err;
        reader_gone = cli.closed_pipe;
    }
    if (status != GR_OK && !reader_gone) {
        report_error(&cli, &err);
    }
    gr_buf_free(&cli.out);
    return reader_gone ? EXIT_CLOSED_PIPE : gr_exit_code(status);
}
