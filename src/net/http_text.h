/* SPDX-License-Identifier: Apache-2.0
 *
 * http_text.h: header lines, shared by exchange.c and http_text.c. */
#ifndef GR_NET_HTTP_TEXT_H
#define GR_NET_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* First header of that name (any case) among lines that end with \n: its value without blanks at the ends, inside `headers`. */
bool gr_http_find(const char *headers, const char *name, const char **value, size_t *n);
/* Printable ASCII without blanks: what an address and a token are made of. "" is. */
bool gr_http_printable(const char *text);

#endif
