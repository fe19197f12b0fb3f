/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c: the option parser behind every command. In: argv and tables; out: filled option structs, or one line that says what is
 * wrong. Names are matched exactly: no abbreviations, so that a new option never changes the meaning of an old command line. */
#include "cli/args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

enum { WORD_MAX = 64, HELP_COLUMN = 28 };

struct all_args {
    const struct gr_arg_set *sets;
    int n_sets;
};

static const struct gr_arg *arg_at(const struct all_args *all, int i, void **values)
{
    for (int s = 0; s < all->n_sets; s++) {
        if (i < all->sets[s].n) {
            *values = all->sets[s].values;
            return &all->sets[s].args[i];
        }
        i -= all->sets[s].n;
    }
    return NULL;
}

static const char *arg_name(const void *ctx, int i)
{
    void *values;
    return arg_at(ctx, i, &values)->name;
}

static const struct gr_arg *find_arg(const struct all_args *all, const char *name, void **values, struct gr_err *err)
{
    const struct gr_arg *arg;
    int n = 0;
    for (; (arg = arg_at(all, n, values)) != NULL; n++) {
        if (strcmp(arg->name, name) == 0) {
            return arg;
        }
    }
    const char *near = gr_nearest(name, GR_ARG_EDITS, arg_name, all, n);
    if (near != NULL) {
        gr_fail(err, GR_ERR_USAGE, "unknown option --%s, did you mean --%s?", name, near);
    } else {
        gr_fail(err, GR_ERR_USAGE, "unknown option --%s; --help lists the options", name);
    }
    return NULL;
}

/* An option of one letter has one dash. */
static const char *dashes(const struct gr_arg *arg) { return arg->name[1] == '\0' ? "-" : "--"; }

static enum gr_status parse_int(const struct gr_arg *arg, const char *text, struct gr_arg_int *out, struct gr_err *err)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    bool digits = *text != '\0' && strspn(text, "+-0123456789") == strlen(text);
    if (!digits || *end != '\0') {
        return gr_fail(err, GR_ERR_USAGE, "%s%s is \"%s\", expected a whole number", dashes(arg), arg->name, text);
    }
    if (errno != 0 || v < arg->min || v > arg->max) {
        return gr_fail(err, GR_ERR_USAGE, "%s%s is %s, expected %" PRId64 " to %" PRId64, dashes(arg), arg->name, text,
                       arg->min, arg->max);
    }
    *out = (struct gr_arg_int){true, v};
    return GR_OK;
}

static const char *choice_at(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

static enum gr_status parse_choice(const struct gr_arg *arg, const char *text, const char **out, struct gr_err *err)
{
    char list[256] = "";
    int n = 0;
    for (; arg->choices[n] != NULL; n++) {
        if (strcmp(arg->choices[n], text) == 0) {
            *out = arg->choices[n];
            return GR_OK;
        }
        if (strlen(list) + strlen(arg->choices[n]) + 3 < sizeof list) {
            strcat(list, n > 0 ? ", " : "");
            strcat(list, arg->choices[n]);
        }
    }
    const char *near = gr_nearest(text, GR_ARG_EDITS, choice_at, arg->choices, n);
    return gr_fail(err, GR_ERR_USAGE, "--%s is \"%s\", expected %s%s%s%s", arg->name, text, list,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static enum gr_status append(struct gr_arg_list *list, const char *text, struct gr_err *err)
{
    const char **items = realloc(list->items, (size_t)(list->n + 1) * sizeof *items);
    if (items == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the command line");
    }
    items[list->n++] = text;
    list->items = items;
    return GR_OK;
}

static enum gr_status store(const struct gr_arg *arg, void *values, const char *text, struct gr_err *err)
{
    void *field = (char *)values + arg->offset;
    bool twice = false;
    switch (arg->kind) {
    case GR_ARG_FLAG:
        *(bool *)field = true;
        return GR_OK;
    case GR_ARG_STRING:
    case GR_ARG_CHOICE:
        twice = *(const char **)field != NULL;
        break;
    case GR_ARG_INT:
        twice = ((struct gr_arg_int *)field)->given;
        break;
    case GR_ARG_LIST:
        break;
    }
    if (twice) {
        return gr_fail(err, GR_ERR_USAGE, "option --%s is given twice", arg->name);
    }
    if (*text == '\0' && !arg->empty_ok && arg->kind != GR_ARG_INT && arg->kind != GR_ARG_CHOICE) {
        return gr_fail(err, GR_ERR_USAGE, "option --%s has an empty value, expected %s", arg->name, arg->value);
    }
    switch (arg->kind) {
    case GR_ARG_STRING:
        *(const char **)field = text;
        return GR_OK;
    case GR_ARG_CHOICE:
        return parse_choice(arg, text, field, err);
    case GR_ARG_INT:
        return parse_int(arg, text, field, err);
    default:
        return append(field, text, err);
    }
}

/* An option whose whole name is one letter: "-n 50" and "--n 50". */
static bool is_letter(const struct all_args *all, const char *word)
{
    void *values;
    for (int i = 0; arg_at(all, i, &values) != NULL; i++) {
        const char *name = arg_at(all, i, &values)->name;
        if (name[1] == '\0' && strcmp(name, word) == 0) {
            return true;
        }
    }
    return false;
}

/* One option at argv[*i]; moves *i to the last word it used. */
static enum gr_status parse_option(int argc, char **argv, int *i, const struct all_args *all, struct gr_err *err)
{
    const char *word = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    char name[WORD_MAX];
    size_t n = strcspn(word, "=");
    if (n >= sizeof name) {
        return gr_fail(err, GR_ERR_USAGE, "unknown option %.80s...; --help lists the options", argv[*i]);
    }
    memcpy(name, word, n);
    name[n] = '\0';
    const char *text = word[n] == '=' ? word + n + 1 : NULL;
    void *values;
    const struct gr_arg *arg = find_arg(all, name, &values, err);
    if (arg == NULL) {
        return err->code;
    }
    if (arg->kind == GR_ARG_FLAG && text != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "option --%s takes no value, found \"%s\"", name, text);
    }
    if (arg->kind != GR_ARG_FLAG && text == NULL) {
        if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0) {
            return gr_fail(err, GR_ERR_USAGE, "option --%s needs a value: --%s %s", name, name, arg->value);
        }
        text = argv[++*i];
    }
    return store(arg, values, text, err);
}

enum gr_status gr_args_parse(int argc, char **argv, const struct gr_arg_set *sets, int n_sets, const char ***words,
                             int *n_words, int *n_plain, struct gr_err *err)
{
    struct all_args all = {sets, n_sets};
    struct gr_arg_list rest = {NULL, 0};
    bool options = true;
    enum gr_status status = GR_OK;
    *n_plain = 0;
    for (int i = 0; i < argc && status == GR_OK; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && strcmp(argv[i], "-h") == 0) {
            char help[] = "--help", *one[] = {help};
            int at = 0;
            status = parse_option(1, one, &at, &all, err);
        } else if (options && argv[i][0] == '-' && (argv[i][1] == '-' || is_letter(&all, argv[i] + 1))) {
            status = parse_option(argc, argv, &i, &all, err);
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            status = gr_fail(err, GR_ERR_USAGE, "unknown option %.80s; options are written --name, --help lists them",
                             argv[i]);
        } else {
            status = append(&rest, argv[i], err);
            *n_plain += options;
        }
    }
    *words = rest.items;
    *n_words = rest.n;
    return status;
}

enum gr_status gr_args_check(const struct gr_arg_set *set, struct gr_err *err)
{
    for (int i = 0; i < set->n; i++) {
        const struct gr_arg *arg = &set->args[i];
        const char *field = (const char *)set->values + arg->offset;
        bool given = true;
        switch (arg->kind) {
        case GR_ARG_FLAG:
            break;
        case GR_ARG_STRING:
        case GR_ARG_CHOICE:
            given = *(const char *const *)field != NULL;
            break;
        case GR_ARG_INT:
            given = ((const struct gr_arg_int *)field)->given;
            break;
        case GR_ARG_LIST:
            given = ((const struct gr_arg_list *)field)->n > 0;
            break;
        }
        if (arg->required && !given) {
            return gr_fail(err, GR_ERR_USAGE, "option --%s %s is missing", arg->name, arg->value);
        }
    }
    return GR_OK;
}

void gr_args_free(const struct gr_arg_set *sets, int n_sets, const char **words)
{
    struct all_args all = {sets, n_sets};
    const struct gr_arg *arg;
    void *values;
    for (int i = 0; (arg = arg_at(&all, i, &values)) != NULL; i++) {
        if (arg->kind == GR_ARG_LIST) {
            struct gr_arg_list *list = (struct gr_arg_list *)(void *)((char *)values + arg->offset);
            free(list->items);
            *list = (struct gr_arg_list){NULL, 0};
        }
    }
    free(words);
}

static void pad(struct gr_buf *out, size_t from, size_t to)
{
    while (from++ < to) {
        gr_buf_puts(out, " ");
    }
}

void gr_args_help(struct gr_buf *out, const struct gr_arg *args, int n)
{
    for (int i = 0; i < n; i++) {
        size_t start = out->len;
        gr_buf_printf(out, "  %s%s", dashes(&args[i]), args[i].name);
        if (args[i].value != NULL) {
            gr_buf_printf(out, " %s", args[i].value);
        }
        size_t used = out->len - start;
        if (used + 2 > HELP_COLUMN) {
            gr_buf_puts(out, "\n");
            used = 0;
        }
        pad(out, used, HELP_COLUMN);
        for (const char *line = args[i].help;;) {
            size_t len = strcspn(line, "\n");
            gr_buf_put(out, line, len);
            if (line[len] == '\0') {
                break;
            }
            gr_buf_puts(out, "\n");
            pad(out, 0, HELP_COLUMN);
            line += len + 1;
        }
        gr_buf_puts(out, args[i].required ? " (required)\n" : "\n");
    }
}
