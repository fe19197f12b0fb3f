/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml.h: one YAML 1.1 document as a tree of nodes, scalars resolved as PyYAML's safe loader does: yes, no, on and off are booleans, 010 is
 * eight, 1:30 is ninety, 2026-01-01 is a date, 1e3 is a text, and whatever stands in quotes is one.
 *
 * Refused beyond what PyYAML refuses: a key twice in one mapping, integers beyond 64 bits, aliases that grow beyond GR_NODES_MAX nodes or hold themselves, tags other
 * than those of the core types, nesting, entries and sizes beyond the bounds of manifest_node.h. */
#ifndef GR_PACKAGE_YAML_H
#define GR_PACKAGE_YAML_H

#include "package/manifest_node.h"

enum { GR_YAML_BYTES_MAX = 1 << 20 };

/* GR_ERR_FORMAT "WHAT:LINE:COLUMN: ...", GR_ERR_NOMEM. An empty document is a null. The tree lives in `pool`. */
enum gr_status gr_yaml_parse(struct gr_arena *pool, const char *text, size_t n, const char *what,
                             const struct gr_node **root, struct gr_err *err);

/* Kind and value of a plain scalar out of its text (yaml_scalar.c). False: a number without digits ("0x_"), of hundreds of them, or an
 * integer beyond 64 bits. */
bool gr_yaml_resolve(const char *text, struct gr_node *node);

#endif
