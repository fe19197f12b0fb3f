/* SPDX-License-Identifier: Apache-2.0
 *
 * digest.h: SHA-256 and SHA-1 (git blob ids) behind one seam; digest.c is the only file that knows the crypto library. */
#ifndef GR_BASE_DIGEST_H
#define GR_BASE_DIGEST_H

#include <stddef.h>

#include "base/err.h"

enum gr_digest_kind { GR_SHA256, GR_SHA1 };
enum { GR_DIGEST_HEX_BYTES = 65 };

struct gr_digest;
enum gr_status gr_digest_new(enum gr_digest_kind kind, struct gr_digest **out, struct gr_err *err);
void gr_digest_add(struct gr_digest *d, const void *bytes, size_t n);
/* Lower-case hex with NUL; frees d. GR_ERR_DEVICE when the crypto library failed on the way. */
enum gr_status gr_digest_end(struct gr_digest *d, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err);
void gr_digest_free(struct gr_digest *d); /* NULL is allowed */

#endif
