/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.h: the other names and words under which a launcher starts this program inside an image (docs/PACKAGES.md): as `python -m uvicorn ... APP`, and
 * as tt-smi. */
#ifndef GR_CLI_ENTRY_H
#define GR_CLI_ENTRY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* A command line of uvicorn: "[PROGRAM] python -m uvicorn ...", or "python -m uvicorn ..." under the name python. */
bool gr_entry_is_python(int argc, char **argv);
/* The same as a command line of `gr00t serve`: host, port and what is meant for the service; the application's name and what only concerns uvicorn are
 * left out. *out: NULL-terminated, pointers into argv and constants; free() it. GR_ERR_USAGE: python without -m uvicorn; GR_ERR_NOMEM. */
enum gr_status gr_entry_serve(int argc, char **argv, int *n, char ***out, struct gr_err *err);

bool gr_entry_is_smi(int argc, char **argv);
/* What tt-smi does here: says what is and what is not possible. Returns the exit code. card: there is one. */
int gr_entry_smi(int argc, char **argv, bool card, struct gr_buf *out);

#endif
