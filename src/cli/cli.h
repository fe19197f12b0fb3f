/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h: what the commands share: the command table's row, the context of a run, output to stdout. */
#ifndef GR_CLI_CLI_H
#define GR_CLI_CLI_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/args.h"

/* Context of one run. Commands write results into `out`; it reaches stdout at the end of the run, or earlier with gr_cli_flush. */
struct gr_cli {
    const char *command; /* "predict" */
    bool verbose, quiet;
    bool color;       /* stdout is a terminal and colours are wanted */
    bool json_log;    /* lines on stderr are JSON */
    int n_plain;      /* words before a "--"; those behind it are another program's */
    int columns;      /* width for tables: the terminal's, else 132 */
    bool closed_pipe; /* gr_cli_flush failed because the reader of stdout is gone */
    struct gr_buf out;
};

struct gr_command {
    const char *name;                      /* "predict", or two words: "bench engine" */
    const char *summary;                   /* one line for the list of commands */
    const char *synopsis;                  /* what follows the name in the usage line */
    const char *more;                      /* paragraphs below the options; may be NULL */
    void (*more_text)(struct gr_buf *out); /* and behind it, a text that is made; may be NULL */
    const struct gr_arg *args;
    int n_args;
    size_t options_bytes;     /* of the struct that `args` fills; at most GR_CLI_OPTIONS_BYTES */
    int min_words, max_words; /* words that are not options; max_words -1: any number */
    const char *words;        /* their names for messages: "DIR CASE_DIR..." */
    enum gr_status (*run)(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err);
};

enum { GR_CLI_OPTIONS_BYTES = 1024 };

extern const struct gr_command gr_cmd_predict, gr_cmd_serve, gr_cmd_inspect, gr_cmd_synth, gr_cmd_check,
    gr_cmd_tokenize, gr_cmd_bench_engine, gr_cmd_verify, gr_cmd_smoke, gr_cmd_bench_http, gr_cmd_plot, gr_cmd_curl,
    gr_cmd_package, gr_cmd_manifest_check, gr_cmd_pull, gr_cmd_push, gr_cmd_publish, gr_cmd_unpublish, gr_cmd_search,
    gr_cmd_list, gr_cmd_device, gr_cmd_device_test, gr_cmd_info, gr_cmd_profiles, gr_cmd_rm, gr_cmd_login, gr_cmd_stop,
    gr_cmd_ps, gr_cmd_logs;

/* Writes what `out` holds to stdout and empties it. GR_ERR_IO when the reader is gone or the disk is full. */
enum gr_status gr_cli_flush(struct gr_cli *cli, struct gr_err *err);
/* GR_ERR_NOMEM when the buffer ran out of memory, else writes it to `path`, complete or not at all. */
enum gr_status gr_cli_write_file(const char *path, const struct gr_buf *buf, struct gr_err *err);

/* Process exit code of a status: the only such table. */
int gr_exit_code(enum gr_status status);

/* Exit code after SIGINT or SIGTERM while no other handler is set, 130 at first. */
void gr_cli_interrupt_code(int code);

/* Highest resident memory of this process so far in bytes, 0 when unknown. */
size_t gr_peak_rss_bytes(void);
/* "1.23 GB", "456 kB" (powers of ten) into out. */
const char *gr_human_bytes(char out[32], double bytes);

#endif
