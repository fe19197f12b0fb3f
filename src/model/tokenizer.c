/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.c: text to ids: added tokens are cut out, each run between them goes through NFC, splitting and BPE.
 * In: UTF-8. Out: ids. A run is normalised and split as a whole, so a piece may join characters of what the caller put together;
 * an added token in the middle ends the run. All scratch is owned by the tokenizer. */
#include "model/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>

#include "gr00t.h"
#include "model/added_tokens.h"
#include "model/bpe.h"
#include "model/nfc.h"
#include "model/pretokenize.h"
#include "model/tokenizer_files.h"
#include "model/unicode.h"

enum {
    READY_BYTES = 8 * GR_INSTRUCTION_MAX_CHARS, /* texts up to here find their scratch ready */
    TEXT_MAX_BYTES = 8 << 20,                   /* far above any instruction; keeps the scratch below 0.5 GB */
    NFC_BYTES_GROWTH = 3 /* NFC never makes UTF-8 more than three times as long (Unicode FAQ, U+1D160) */
};

struct gr_tokenizer {
    struct gr_bpe *bpe;
    struct gr_added_tokens added;
    int32_t size;
    size_t cap;              /* bytes of text the scratch is big enough for */
    uint32_t *chars;         /* [cap] */
    uint32_t *nfc, *nfc_tmp; /* [GR_NFC_MAX(cap)] */
    char *bytes;             /* [NFC_BYTES_GROWTH * cap] a piece in UTF-8 */
    struct gr_bpe_work work;
};

/* Where ids go. */
struct sink {
    int32_t *ids;
    size_t max, n;
};

static void put_id(struct sink *to, int32_t id)
{
    if (to->n < to->max) {
        to->ids[to->n] = id;
    }
    to->n++;
}

static void free_scratch(struct gr_tokenizer *tok)
{
    free(tok->chars);
    free(tok->nfc);
    free(tok->nfc_tmp);
    free(tok->bytes);
    tok->chars = tok->nfc = tok->nfc_tmp = NULL;
    tok->bytes = NULL;
    tok->cap = 0;
}

static enum gr_status reserve(struct gr_tokenizer *tok, size_t n_bytes, struct gr_err *err)
{
    if (n_bytes > TEXT_MAX_BYTES) {
        return gr_fail(err, GR_ERR_INPUT, "text has %zu bytes, at most %d can be tokenized", n_bytes, TEXT_MAX_BYTES);
    }
    n_bytes += 4; /* so that "room for one more character" below never stops a text that fits */
    GR_TRY(gr_bpe_work_reserve(&tok->work, NFC_BYTES_GROWTH * n_bytes, err));
    if (n_bytes <= tok->cap) {
        return GR_OK;
    }
    free_scratch(tok);
    tok->chars = malloc(n_bytes * sizeof *tok->chars);
    tok->nfc = malloc(GR_NFC_MAX(n_bytes) * sizeof *tok->nfc);
    tok->nfc_tmp = malloc(GR_NFC_MAX(n_bytes) * sizeof *tok->nfc_tmp);
    tok->bytes = malloc(NFC_BYTES_GROWTH * n_bytes);
    if (tok->chars == NULL || tok->nfc == NULL || tok->nfc_tmp == NULL || tok->bytes == NULL) {
        free_scratch(tok);
        return gr_fail(err, GR_ERR_NOMEM, "no memory to tokenize %zu bytes", n_bytes);
    }
    tok->cap = n_bytes;
    return GR_OK;
}

enum gr_status gr_tokenizer_open(const char *dir, struct gr_tokenizer **out, struct gr_err *err)
{
    enum gr_status status;
    struct gr_tokenizer *tok = calloc(1, sizeof *tok);
    if (tok == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the tokenizer");
    }
    if ((status = gr_tokenizer_read(dir, &tok->bpe, &tok->added, err)) != GR_OK ||
        (status = reserve(tok, READY_BYTES, err)) != GR_OK) {
        gr_tokenizer_close(tok);
        return status;
    }
    tok->size = gr_bpe_size(tok->bpe);
    for (size_t i = 0; i < tok->added.n; i++) {
        if (tok->added.items[i].id >= tok->size) {
            tok->size = tok->added.items[i].id + 1;
        }
    }
    *out = tok;
    return GR_OK;
}

void gr_tokenizer_close(struct gr_tokenizer *tok)
{
    if (tok != NULL) {
        gr_bpe_free(tok->bpe);
        gr_added_free(&tok->added);
        gr_bpe_work_free(&tok->work);
        free_scratch(tok);
        free(tok);
    }
}

/* One run without added tokens, valid UTF-8. */
static enum gr_status encode_run(struct gr_tokenizer *tok, const char *text, size_t n_bytes, struct sink *to,
                                 struct gr_err *err)
{
    const uint32_t *chars = tok->chars;
    size_t n = 0;
    for (size_t at = 0; at < n_bytes && gr_utf8_next(text, n_bytes, &at, &tok->chars[n]);) {
        n++;
    }
    if (!gr_nfc_is_plain(chars, n)) {
        n = gr_nfc(tok->chars, n, tok->nfc, tok->nfc_tmp, GR_NFC_MAX(tok->cap));
        chars = tok->nfc;
        if (n == SIZE_MAX) {
            return gr_fail(err, GR_ERR_INPUT, "text of %zu bytes grows too much under NFC", n_bytes);
        }
    }
    for (size_t at = 0; at < n;) {
        size_t end = gr_pretokenize_next(chars, n, at), len = 0;
        for (; at < end; at++) {
            if (len + 4 > NFC_BYTES_GROWTH * tok->cap) {
                return gr_fail(err, GR_ERR_INPUT, "text of %zu bytes grows too much under NFC", n_bytes);
            }
            len += gr_utf8_put(chars[at], tok->bytes + len);
        }
        size_t room = to->n < to->max ? to->max - to->n : 0;
        to->n += gr_bpe_encode(tok->bpe, tok->bytes, len, &tok->work, room > 0 ? to->ids + to->n : NULL, room);
    }
    return GR_OK;
}

static enum gr_status check_text(const char *text, size_t n, struct gr_err *err)
{
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t from = at;
        if (!gr_utf8_next(text, n, &at, &c)) {
            return gr_fail(err, GR_ERR_INPUT, "text is not valid UTF-8 at byte %zu (0x%02x)", from,
                           (unsigned)(unsigned char)text[from]);
        }
    }
    return GR_OK;
}

static enum gr_status encode(struct gr_tokenizer *tok, const char *text, size_t n_bytes, bool match_added,
                             struct sink *to, struct gr_err *err)
{
    GR_TRY(check_text(text, n_bytes, err));
    GR_TRY(reserve(tok, n_bytes, err));
    size_t run = 0;
    for (size_t at = 0; match_added && at < n_bytes;) {
        const struct gr_added_token *hit = gr_added_match(&tok->added, text, n_bytes, at);
        if (hit == NULL) {
            at++;
            continue;
        }
        GR_TRY(encode_run(tok, text + run, at - run, to, err));
        put_id(to, hit->id);
        at += hit->len;
        run = at;
    }
    return encode_run(tok, text + run, n_bytes - run, to, err);
}

enum gr_status gr_tokenizer_encode(struct gr_tokenizer *tok, const char *text, size_t n_bytes, int32_t *ids,
                                   size_t max_ids, size_t *n, struct gr_err *err)
{
    struct sink to = {.ids = ids, .max = max_ids};
    GR_TRY(encode(tok, text, n_bytes, true, &to, err));
    *n = to.n;
    return GR_OK;
}

enum gr_status gr_tokenizer_encode_plain(struct gr_tokenizer *tok, const char *text, size_t n_bytes, int32_t *ids,
                                         size_t max_ids, size_t *n, struct gr_err *err)
{
    struct sink to = {.ids = ids, .max = max_ids};
    GR_TRY(encode(tok, text, n_bytes, false, &to, err));
    *n = to.n;
    return GR_OK;
}

int32_t gr_tokenizer_special(const struct gr_tokenizer *tok, const char *name)
{
    const struct gr_added_token *t = gr_added_by_text(&tok->added, name);
    return t != NULL ? t->id : -1;
}

const char *gr_tokenizer_piece(const struct gr_tokenizer *tok, int32_t id, size_t *n_bytes)
{
    const struct gr_added_token *t = gr_added_by_id(&tok->added, id);
    if (t != NULL) {
        *n_bytes = t->len;
        return t->text;
    }
    return gr_bpe_piece(tok->bpe, id, n_bytes);
}

int32_t gr_tokenizer_size(const struct gr_tokenizer *tok) { return tok->size; }
