/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer_files.c: vocab.json, merges.txt, added_tokens.json, tokenizer_config.json; tokenizer.json when the first is missing.
 * In: a folder. Out: the vocabulary with its merges, and the added tokens, completed for the Qwen2 vocabulary.
 * Everything is checked here; the messages name file and line. */
#include "model/tokenizer_files.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"

enum {
    VOCAB_MAX_BYTES = 64 << 20, /* vocab.json of Qwen2: 3.4 MB; tokenizer.json: 11 MB */
    QWEN2_ENTRIES = 151643
};

/* The tokens the model family adds to the plain Qwen3 tokenizer folder, with fixed ids (spec added_tokens.json). */
static const struct {
    const char *text;
    int32_t id;
} qwen2_completion[] = {
    {"<IMG_CONTEXT>", 151669}, {"<img>", 151670},      {"</img>", 151671},      {"<box>", 151672},
    {"</box>", 151673},        {"<quad>", 151674},     {"</quad>", 151675},     {"<ref>", 151676},
    {"</ref>", 151677},        {"<interval>", 151678}, {"</interval>", 151679},
};

/* The value of `key` in an object, checked for its kind; absent is GR_ERR_FORMAT too. */
static enum gr_status need(const struct gr_json *object, const char *key, enum gr_json_kind kind, const char *where,
                           const struct gr_json **out, struct gr_err *err)
{
    *out = gr_json_get(object, key);
    if (*out == NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: \"%s\" is missing", where, key);
    }
    if (gr_json_kind(*out) != kind) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: \"%s\" must be %s, found %s", where, key, gr_json_kind_name(kind),
                       gr_json_kind_name(gr_json_kind(*out)));
    }
    return GR_OK;
}

/* ---- Vocabulary. */

static enum gr_status add_vocab(struct gr_bpe *bpe, const struct gr_json *vocab, const char *where, struct gr_err *err)
{
    for (void *it = gr_json_first(vocab); it != NULL; it = gr_json_next(vocab, it)) {
        const struct gr_json *id = gr_json_value(it);
        if (gr_json_kind(id) != GR_JSON_INT) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: id of token \"%.60s\" must be an integer, found %s", where,
                           gr_json_key(it), gr_json_kind_name(gr_json_kind(id)));
        }
        GR_TRY(gr_bpe_add_token(bpe, where, gr_json_key(it), gr_json_int(id), err));
    }
    return GR_OK;
}

/* "left right" with exactly one blank; a blank inside a token is spelled with another character. */
static enum gr_status add_merge_line(struct gr_bpe *bpe, const char *where, size_t number, const char *line, size_t n,
                                     struct gr_err *err)
{
    const char *blank = memchr(line, ' ', n);
    if (blank == NULL || blank == line || blank + 1 == line + n ||
        memchr(blank + 1, ' ', (size_t)(line + n - blank - 1)) != NULL) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s line %zu: expected two tokens with one blank between them, found \"%.*s\"", where, number,
                       n < 80 ? (int)n : 80, line);
    }
    size_t n_left = (size_t)(blank - line);
    return gr_bpe_add_merge(bpe, where, number, line, n_left, blank + 1, n - n_left - 1, err);
}

static enum gr_status add_merges_text(struct gr_bpe *bpe, const char *where, const char *text, size_t n,
                                      struct gr_err *err)
{
    size_t number = 0;
    for (size_t at = 0; at < n;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - line) : n - at;
        at += len + 1;
        number++;
        if (len > 0 && line[len - 1] == '\r') {
            len--; /* never part of a token: the byte is spelled with another character */
        }
        if (len > 0 && !(number == 1 && len >= 8 && memcmp(line, "#version", 8) == 0)) {
            GR_TRY(add_merge_line(bpe, where, number, line, len, err));
        }
    }
    return GR_OK;
}

static size_t count_lines(const char *text, size_t n)
{
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

static enum gr_status read_pair(const char *vocab_path, const char *merges_path, struct gr_bpe **out,
                                struct gr_err *err)
{
    enum gr_status status;
    struct gr_json *vocab = NULL;
    struct gr_bpe *bpe = NULL;
    char *merges = NULL;
    size_t n = 0;

    if (!gr_fs_is_file(merges_path)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: not there, though vocab.json beside it is", merges_path);
    }
    if ((status = gr_json_read(vocab_path, VOCAB_MAX_BYTES, GR_ERR_FORMAT, &vocab, err)) != GR_OK ||
        (status = gr_fs_read(merges_path, VOCAB_MAX_BYTES, &merges, &n, err)) != GR_OK) {
        goto out;
    }
    if (gr_json_kind(vocab) != GR_JSON_OBJECT) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: must be an object of tokens and ids, found %s", vocab_path,
                         gr_json_kind_name(gr_json_kind(vocab)));
        goto out;
    }
    if ((status = gr_bpe_new(gr_json_len(vocab), count_lines(merges, n), &bpe, err)) != GR_OK ||
        (status = add_vocab(bpe, vocab, vocab_path, err)) != GR_OK ||
        (status = add_merges_text(bpe, merges_path, merges, n, err)) != GR_OK ||
        (status = gr_bpe_finish(bpe, vocab_path, err)) != GR_OK) {
        goto out;
    }
    *out = bpe;
    bpe = NULL;
out:
    gr_bpe_free(bpe);
    free(merges);
    gr_json_free(vocab);
    return status;
}

/* ---- tokenizer.json: the same content in one file. */

static enum gr_status add_merge_json(struct gr_bpe *bpe, const char *where, size_t number, const struct gr_json *m,
                                     struct gr_err *err)
{
    if (gr_json_kind(m) == GR_JSON_STRING) {
        const char *line = gr_json_string(m);
        return add_merge_line(bpe, where, number, line, strlen(line), err);
    }
    const struct gr_json *left = gr_json_at(m, 0), *right = gr_json_at(m, 1);
    if (gr_json_len(m) != 2 || gr_json_kind(left) != GR_JSON_STRING || gr_json_kind(right) != GR_JSON_STRING) {
        return gr_fail(err, GR_ERR_FORMAT, "%s line %zu: expected \"left right\" or [\"left\", \"right\"]", where,
                       number);
    }
    const char *a = gr_json_string(left), *b = gr_json_string(right);
    return gr_bpe_add_merge(bpe, where, number, a, strlen(a), b, strlen(b), err);
}

static enum gr_status check_type(const struct gr_json *object, const char *where, const char *name, const char *want,
                                 struct gr_err *err)
{
    const struct gr_json *type = gr_json_get(object, "type");
    const char *found = gr_json_kind(type) == GR_JSON_STRING ? gr_json_string(type) : "none";
    if (strcmp(found, want) != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s of type \"%.60s\" is not supported, expected \"%s\"", where, name,
                       found, want);
    }
    return GR_OK;
}

static enum gr_status read_single(const char *path, const struct gr_json *root, struct gr_bpe **out, struct gr_err *err)
{
    enum gr_status status;
    struct gr_bpe *bpe = NULL;
    const struct gr_json *model, *vocab, *merges;
    char where[GR_PATH_BYTES + 16];
    snprintf(where, sizeof where, "%s model.merges", path);

    GR_TRY(need(root, "model", GR_JSON_OBJECT, path, &model, err));
    GR_TRY(check_type(model, path, "model", "BPE", err));
    GR_TRY(check_type(gr_json_get(root, "normalizer"), path, "normalizer", "NFC", err));
    GR_TRY(need(model, "vocab", GR_JSON_OBJECT, path, &vocab, err));
    GR_TRY(need(model, "merges", GR_JSON_ARRAY, path, &merges, err));
    GR_TRY(gr_bpe_new(gr_json_len(vocab), gr_json_len(merges), &bpe, err));
    status = add_vocab(bpe, vocab, path, err);
    for (size_t i = 0; status == GR_OK && i < gr_json_len(merges); i++) {
        status = add_merge_json(bpe, where, i + 1, gr_json_at(merges, i), err);
    }
    if (status == GR_OK) {
        status = gr_bpe_finish(bpe, path, err);
    }
    if (status != GR_OK) {
        gr_bpe_free(bpe);
        return status;
    }
    *out = bpe;
    return GR_OK;
}

/* ---- Added tokens. */

static enum gr_status added_from_map(struct gr_added_tokens *added, const char *path, struct gr_err *err)
{
    enum gr_status status;
    struct gr_json *root = NULL;
    GR_TRY(gr_json_read(path, VOCAB_MAX_BYTES, GR_ERR_FORMAT, &root, err));
    status = gr_json_kind(root) == GR_JSON_OBJECT
                 ? GR_OK
                 : gr_fail(err, GR_ERR_FORMAT, "%s: must be an object of tokens and ids", path);
    for (void *it = gr_json_first(root); it != NULL && status == GR_OK; it = gr_json_next(root, it)) {
        const struct gr_json *id = gr_json_value(it);
        if (gr_json_kind(id) != GR_JSON_INT) {
            status = gr_fail(err, GR_ERR_FORMAT, "%s: id of \"%.60s\" must be an integer, found %s", path,
                             gr_json_key(it), gr_json_kind_name(gr_json_kind(id)));
        } else {
            status = gr_added_put(added, path, gr_json_key(it), gr_json_int(id), err);
        }
    }
    gr_json_free(root);
    return status;
}

/* One entry with its flags. Stripping and whole-word matching are not implemented, and no Qwen tokenizer asks for them; `special`
 * and `normalized` make no difference for texts without a normal form of their own. */
static enum gr_status put_entry(struct gr_added_tokens *added, const char *path, const struct gr_json *entry,
                                int64_t id, struct gr_err *err)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    const struct gr_json *content;
    GR_TRY(need(entry, "content", GR_JSON_STRING, path, &content, err));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const struct gr_json *flag = gr_json_get(entry, flags[i]);
        if (flag != NULL && !(gr_json_kind(flag) == GR_JSON_BOOL && !gr_json_bool(flag))) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: added token \"%.60s\" has \"%s\" set, which is not supported", path,
                           gr_json_string(content), flags[i]);
        }
    }
    return gr_added_put(added, path, gr_json_string(content), id, err);
}

/* added_tokens_decoder of tokenizer_config.json: {"151643": {"content": "<|endoftext|>", ...}, ...}. */
static enum gr_status added_from_config(struct gr_added_tokens *added, const char *path, bool *given,
                                        struct gr_err *err)
{
    enum gr_status status = GR_OK;
    struct gr_json *root = NULL;
    GR_TRY(gr_json_read(path, VOCAB_MAX_BYTES, GR_ERR_FORMAT, &root, err));
    const struct gr_json *map = gr_json_get(root, "added_tokens_decoder");
    *given = map != NULL;
    if (map != NULL && gr_json_kind(map) != GR_JSON_OBJECT) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: \"added_tokens_decoder\" must be an object", path);
    }
    for (void *it = gr_json_first(map); it != NULL && status == GR_OK; it = gr_json_next(map, it)) {
        const char *key = gr_json_key(it);
        size_t digits = strspn(key, "0123456789");
        if (digits == 0 || digits > 9 || key[digits] != '\0') {
            status = gr_fail(err, GR_ERR_FORMAT, "%s: added_tokens_decoder: \"%.60s\" is not an id", path, key);
        } else {
            status = put_entry(added, path, gr_json_value(it), strtol(key, NULL, 10), err);
        }
    }
    gr_json_free(root);
    return status;
}

/* added_tokens of tokenizer.json: [{"id": 151643, "content": "<|endoftext|>", ...}, ...]. */
static enum gr_status added_from_single(struct gr_added_tokens *added, const char *path, const struct gr_json *root,
                                        struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(root, "added_tokens");
    if (list != NULL && gr_json_kind(list) != GR_JSON_ARRAY) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: \"added_tokens\" must be an array", path);
    }
    for (size_t i = 0; i < gr_json_len(list); i++) {
        const struct gr_json *id;
        GR_TRY(need(gr_json_at(list, i), "id", GR_JSON_INT, path, &id, err));
        GR_TRY(put_entry(added, path, gr_json_at(list, i), gr_json_int(id), err));
    }
    return GR_OK;
}

/* With the Qwen2 vocabulary, what the model family adds; a contradiction with the files is an error of gr_added_put. */
static enum gr_status complete(struct gr_added_tokens *added, const struct gr_bpe *bpe, const char *dir,
                               struct gr_err *err)
{
    if (gr_bpe_count(bpe) == QWEN2_ENTRIES) {
        for (size_t i = 0; i < sizeof qwen2_completion / sizeof *qwen2_completion; i++) {
            GR_TRY(gr_added_put(added, dir, qwen2_completion[i].text, qwen2_completion[i].id, err));
        }
    }
    return GR_OK;
}

/* An added token may sit on a vocabulary entry only when both have the same text. */
static enum gr_status check_overlap(const struct gr_added_tokens *added, const struct gr_bpe *bpe, const char *dir,
                                    struct gr_err *err)
{
    for (size_t i = 0; i < added->n; i++) {
        size_t n = 0;
        const char *piece = gr_bpe_piece(bpe, added->items[i].id, &n);
        if (piece != NULL && (n != added->items[i].len || memcmp(piece, added->items[i].text, n) != 0)) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "%s: added token \"%.60s\" has the id %d, which the vocabulary gives to another token", dir,
                           added->items[i].text, (int)added->items[i].id);
        }
    }
    return GR_OK;
}

struct paths {
    char vocab[GR_PATH_BYTES], merges[GR_PATH_BYTES], added[GR_PATH_BYTES], config[GR_PATH_BYTES],
        single[GR_PATH_BYTES];
};

static enum gr_status read_added(const struct paths *p, const struct gr_json *single, struct gr_added_tokens *added,
                                 struct gr_err *err)
{
    bool given = false;
    if (gr_fs_is_file(p->added)) {
        return added_from_map(added, p->added, err);
    }
    if (gr_fs_is_file(p->config)) {
        GR_TRY(added_from_config(added, p->config, &given, err));
    }
    return given || single == NULL ? GR_OK : added_from_single(added, p->single, single, err);
}

enum gr_status gr_tokenizer_read(const char *dir, struct gr_bpe **out, struct gr_added_tokens *added,
                                 struct gr_err *err)
{
    enum gr_status status;
    struct paths p;
    struct gr_json *single = NULL;
    struct gr_bpe *bpe = NULL;

    GR_TRY(gr_path_join(p.vocab, dir, "vocab.json", err));
    GR_TRY(gr_path_join(p.merges, dir, "merges.txt", err));
    GR_TRY(gr_path_join(p.added, dir, "added_tokens.json", err));
    GR_TRY(gr_path_join(p.config, dir, "tokenizer_config.json", err));
    GR_TRY(gr_path_join(p.single, dir, "tokenizer.json", err));
    GR_TRY(gr_fs_need_dir(dir, GR_ERR_FORMAT, err));
    if (gr_fs_is_file(p.vocab)) {
        status = read_pair(p.vocab, p.merges, &bpe, err);
    } else if (gr_fs_is_file(p.single)) {
        status = gr_json_read(p.single, VOCAB_MAX_BYTES, GR_ERR_FORMAT, &single, err);
        if (status == GR_OK) {
            status = read_single(p.single, single, &bpe, err);
        }
    } else {
        status = gr_fail(err, GR_ERR_FORMAT, "tokenizer folder %s has neither vocab.json nor tokenizer.json", dir);
    }
    if (status != GR_OK || (status = read_added(&p, single, added, err)) != GR_OK ||
        (status = complete(added, bpe, dir, err)) != GR_OK || (status = check_overlap(added, bpe, dir, err)) != GR_OK) {
        goto out;
    }
    gr_added_sort(added);
    *out = bpe;
    bpe = NULL;
out:
    gr_bpe_free(bpe);
    gr_json_free(single);
    if (status != GR_OK) {
        gr_added_free(added);
    }
    return status;
}
