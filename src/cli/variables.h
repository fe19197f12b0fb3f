/* SPDX-License-Identifier: Apache-2.0
 *
 * variables.h: every environment variable that the commands know, as data: --help, the manual and the checks come from one table. */
#ifndef GR_CLI_VARIABLES_H
#define GR_CLI_VARIABLES_H

#include "base/buf.h"

enum gr_variable_kind {
    GR_VARIABLE_USED,   /* read; settings_serve.c */
    GR_VARIABLE_CARD,   /* about the card: on the CPU only `accepted` is let through, and changes nothing */
    GR_VARIABLE_FOREIGN /* of the card's own software: not looked at */
};

struct gr_variable {
    const char *name, *flag; /* flag: "--layout", NULL for none */
    enum gr_variable_kind kind;
    const char *accepted; /* GR_VARIABLE_CARD */
    const char *meaning;
};

/* In the order of --help. */
extern const struct gr_variable gr_variables[];
extern const int gr_n_variables;

/* The block of --help, aligned. */
void gr_variables_help(struct gr_buf *out);
/* Nearest known GR00T_ name, NULL when none is near. *known: `name` itself is one. */
const char *gr_variable_near(const char *name, bool *known);

#endif
