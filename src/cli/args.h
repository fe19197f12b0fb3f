/* SPDX-License-Identifier: Apache-2.0
 *
 * args.h: command-line options as data. Each command describes its options in a table; parsing, messages and --help come from
 * that one table. Values land in the command's own options struct, which the caller has set to zero: zero means "not given". */
#ifndef GR_CLI_ARGS_H
#define GR_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct gr_arg_int {
    bool given;
    int64_t value;
};
struct gr_arg_list {
    const char **items; /* [n], freed by gr_args_free */
    int n;
};

enum gr_arg_kind {
    GR_ARG_FLAG,   /* bool */
    GR_ARG_STRING, /* const char *, not empty */
    GR_ARG_CHOICE, /* const char *, one of `choices` */
    GR_ARG_INT,    /* struct gr_arg_int, within min..max */
    GR_ARG_LIST    /* struct gr_arg_list, may be given several times */
};

struct gr_arg {
    const char *name; /* "seed" for --seed */
    enum gr_arg_kind kind;
    size_t offset;     /* of the field in the options struct */
    const char *value; /* name of the value in --help; NULL for flags */
    const char *help;  /* one line; "\n" starts another one */
    bool required;
    bool empty_ok; /* an empty value is the command's business */
    int64_t min, max;
    const char *const *choices; /* NULL-terminated */
};

/* A table and the struct that its offsets point into. */
struct gr_arg_set {
    const struct gr_arg *args;
    int n;
    void *values;
};

/* Parses argv[0 .. argc) into the sets, looked up in order. Words that are not options are stored in *words ([*n_words], the first *n_plain of them
 * before a "--"; points into argv, freed by gr_args_free). "--name value" and "--name=value"; a name of one letter also as "-n value"; "--"
 * ends the options; "-h" is --help.
 * GR_ERR_USAGE: unknown option (with the nearest known one), missing or superfluous value, out of range, given twice. Missing
 * required options are left to gr_args_check, so that --help works without them. */
enum gr_status gr_args_parse(int argc, char **argv, const struct gr_arg_set *sets, int n_sets, const char ***words,
                             int *n_words, int *n_plain, struct gr_err *err);
/* GR_ERR_USAGE when a required option is missing. */
enum gr_status gr_args_check(const struct gr_arg_set *set, struct gr_err *err);
/* Frees what gr_args_parse took, whether or not it succeeded. */
void gr_args_free(const struct gr_arg_set *sets, int n_sets, const char **words);

/* The options block of --help, aligned. */
void gr_args_help(struct gr_buf *out, const struct gr_arg *args, int n);

/* Edits after which a mistyped option or command is still recognised. */
enum { GR_ARG_EDITS = 2 };

#endif
