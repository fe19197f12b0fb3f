/* SPDX-License-Identifier: Apache-2.0
 *
 * command_line.c: an argument vector under construction, and the line a shell would read. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch.h"

void gr_command_line_word(struct gr_command_line *c, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    char **argv = n >= 0 ? realloc(c->argv, ((size_t)c->argc + 2) * sizeof *argv) : NULL;
    if (argv == NULL) {
        if (n >= 0) {
            free(text);
        }
        c->failed = true;
        return;
    }
    argv[c->argc++] = text;
    argv[c->argc] = NULL;
    c->argv = argv;
}

void gr_command_line_env(struct gr_command_line *c, const char *name, const char *value)
{
    char *copy = strdup(value);
    for (int i = 0; i < c->n_env && copy != NULL; i++) {
        if (strcmp(c->env[i].name, name) == 0) {
            free((char *)(uintptr_t)c->env[i].value);
            c->env[i].value = copy;
            return;
        }
    }
    char *own = strdup(name);
    struct gr_env *env = realloc(c->env, ((size_t)c->n_env + 1) * sizeof *env);
    if (env != NULL) {
        c->env = env;
    }
    if (copy == NULL || own == NULL || env == NULL) {
        free(copy);
        free(own);
        c->failed = true;
        return;
    }
    env[c->n_env++] = (struct gr_env){own, copy};
}

void gr_command_line_free(struct gr_command_line *c)
{
    for (int i = 0; i < c->argc; i++) {
        free(c->argv[i]);
    }
    for (int i = 0; i < c->n_env; i++) { /* ours, const only for readers */
        free((char *)(uintptr_t)c->env[i].name);
        free((char *)(uintptr_t)c->env[i].value);
    }
    free(c->argv);
    free(c->env);
    *c = (struct gr_command_line){0};
}

bool gr_is_secret_variable(const char *name)
{
    return strcmp(name, "HF_TOKEN") == 0 || strcmp(name, "HUGGING_FACE_HUB_TOKEN") == 0;
}

void gr_shell_word(const char *text, struct gr_buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*text != '\0' && text[strspn(text, plain)] == '\0') {
        gr_buf_puts(out, text);
        return;
    }
    gr_buf_puts(out, "'");
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            gr_buf_puts(out, "'\"'\"'");
        } else {
            gr_buf_put(out, text, 1);
        }
    }
    gr_buf_puts(out, "'");
}

void gr_command_line_text(const struct gr_command_line *c, struct gr_buf *out)
{
    for (int i = 0; i < c->n_env; i++) {
        gr_buf_printf(out, "%s=", c->env[i].name);
        if (gr_is_secret_variable(c->env[i].name)) {
            gr_buf_puts(out, "***");
        } else if (c->env[i].value[0] != '\0') {
            gr_shell_word(c->env[i].value, out);
        }
        gr_buf_puts(out, " ");
    }
    for (int i = 0; i < c->argc; i++) {
        gr_buf_puts(out, i > 0 ? " " : "");
        gr_shell_word(c->argv[i], out);
    }
}
