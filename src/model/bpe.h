/* SPDX-License-Identifier: Apache-2.0
 *
 * bpe.h: byte-level byte-pair encoding: a vocabulary, ranked merges, and the merge loop over one piece of text.
 *
 *     gr_bpe_new -> gr_bpe_add_token ... -> gr_bpe_add_merge ... -> gr_bpe_finish -> gr_bpe_encode ... -> gr_bpe_free
 *
 * Tokens and merges come spelled in the printable byte alphabet of the files ("G with dot" for a blank) and are kept as bytes. */
#ifndef GR_MODEL_BPE_H
#define GR_MODEL_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    GR_BPE_MAX_IDS = 1000000, /* published vocabularies end near 262,144; a larger id is a damaged file */
    GR_BPE_MAX_MERGES = 4000000
};

struct gr_bpe;

/* n_tokens and n_merges are upper bounds of what will be added. */
enum gr_status gr_bpe_new(size_t n_tokens, size_t n_merges, struct gr_bpe **out, struct gr_err *err);
void gr_bpe_free(struct gr_bpe *bpe); /* NULL is allowed */

/* GR_ERR_FORMAT, message starting with `where`: text outside the byte alphabet, id out of range, id or text given twice. */
enum gr_status gr_bpe_add_token(struct gr_bpe *bpe, const char *where, const char *text, int64_t id,
                                struct gr_err *err);
/* Rank is the order of the calls; `line` is for the message. Both parts and their join must be tokens; a pair comes once. */
enum gr_status gr_bpe_add_merge(struct gr_bpe *bpe, const char *where, size_t line, const char *left, size_t n_left,
                                const char *right, size_t n_right, struct gr_err *err);
/* Checks that each single byte is a token and drops what only loading needs. */
enum gr_status gr_bpe_finish(struct gr_bpe *bpe, const char *where, struct gr_err *err);

/* Number of tokens, and highest id + 1. */
size_t gr_bpe_count(const struct gr_bpe *bpe);
int32_t gr_bpe_size(const struct gr_bpe *bpe);
/* Bytes of a token, NULL when the id has none. Not NUL-terminated; owned by bpe. */
const char *gr_bpe_piece(const struct gr_bpe *bpe, int32_t id, size_t *n_bytes);

/* Scratch of the merge loop, reusable; zero-initialise. One piece at a time. */
struct gr_bpe_work {
    struct gr_bpe_symbol *symbols;
    uint64_t *heap;
    size_t cap; /* bytes of a piece it is big enough for */
};
/* Grows the scratch to pieces of n bytes. */
enum gr_status gr_bpe_work_reserve(struct gr_bpe_work *work, size_t n, struct gr_err *err);
void gr_bpe_work_free(struct gr_bpe_work *work);

/* Merges one piece of n >= 1 bytes, n <= work->cap. Writes at most max_ids and returns the full count. Time n log n. */
size_t gr_bpe_encode(const struct gr_bpe *bpe, const char *bytes, size_t n, struct gr_bpe_work *work, int32_t *ids,
                     size_t max_ids);

#endif
