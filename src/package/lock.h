/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.h: which distribution package and version a file comes from, by dpkg's own records: the counterpart of requirements.lock. */
#ifndef GR_PACKAGE_LOCK_H
#define GR_PACKAGE_LOCK_H

#include "base/buf.h"
#include "base/err.h"

struct gr_owner {
    const char *path;            /* of the file; given */
    char package[128], arch[32]; /* "" when no package owns it */
    char version[128];
};
/* Fills in owners. dpkg: "/var/lib/dpkg"; a folder that is not there leaves all without owner. */
enum gr_status gr_lock_owners(const char *dpkg, struct gr_owner *owners, int n, struct gr_err *err);
/* "name==version" lines, sorted, each once; a file without owner gives "<file name>==sha256:<hex>". extra: more lines, or NULL. */
enum gr_status gr_lock_text(const struct gr_owner *owners, int n, const char *const *extra, int n_extra,
                            struct gr_buf *out, struct gr_err *err);

#endif
