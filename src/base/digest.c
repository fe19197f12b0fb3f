/* SPDX-License-Identifier: Apache-2.0
 *
 * digest.c: message digests by OpenSSL. A failure on the way is remembered and reported at the end, so that callers add without checking. */
#include "base/digest.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>

struct gr_digest {
    EVP_MD_CTX *ctx;
    bool failed;
};

enum gr_status gr_digest_new(enum gr_digest_kind kind, struct gr_digest **out, struct gr_err *err)
{
    struct gr_digest *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->ctx = EVP_MD_CTX_new();
    }
    if (d == NULL || d->ctx == NULL) {
        gr_digest_free(d);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a digest");
    }
    d->failed = EVP_DigestInit_ex(d->ctx, kind == GR_SHA1 ? EVP_sha1() : EVP_sha256(), NULL) != 1;
    *out = d;
    return GR_OK;
}

void gr_digest_add(struct gr_digest *d, const void *bytes, size_t n)
{
    d->failed = d->failed || EVP_DigestUpdate(d->ctx, bytes, n) != 1;
}

enum gr_status gr_digest_end(struct gr_digest *d, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    bool failed = d->failed || EVP_DigestFinal_ex(d->ctx, bytes, &n) != 1;
    gr_digest_free(d);
    if (failed) {
        return gr_fail(err, GR_ERR_DEVICE, "the crypto library cannot compute this digest");
    }
    size_t at = 0;
    for (unsigned int i = 0; i < n && at + 2 < GR_DIGEST_HEX_BYTES; i++) {
        hex[at++] = digits[bytes[i] >> 4];
        hex[at++] = digits[bytes[i] & 15];
    }
    hex[at] = '\0';
    return GR_OK;
}

void gr_digest_free(struct gr_digest *d)
{
    if (d != NULL) {
        EVP_MD_CTX_free(d->ctx);
        free(d);
    }
}
