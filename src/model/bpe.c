/* SPDX-License-Identifier: Apache-2.0
 *
 * bpe.c: vocabulary and merges as open-addressing hash tables, and the merge loop with a linked list and a heap.
 * In: tokens and merges one by one, then the bytes of a piece. Out: ids. The result is that of "merge the leftmost pair of lowest
 * rank, again and again" (Tokenizer.bpe of the reference), in n log n instead of n^2 steps.
 * Merges are kept as pairs of ids, so that no text is touched while encoding. */
#include "model/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/unicode.h"

enum { NONE = -1, ALPHABET_END = 256 + 68 }; /* 68 bytes have no printable form of their own */

struct token {
    uint32_t offset, len; /* in blob; len 0: no token */
};
struct merge {
    int32_t left, right; /* left NONE: empty slot */
    uint32_t rank;
    int32_t joined;
};
struct gr_bpe_symbol {
    int32_t id; /* NONE: merged into its left neighbour */
    uint32_t prev, next;
};

struct gr_bpe {
    struct token *tokens; /* [cap_ids], by id */
    size_t cap_ids, n_ids, count, max_tokens;
    char *blob;
    size_t blob_len, blob_cap;
    uint64_t *names; /* [name_mask + 1] hash << 32 | id + 1; 0: empty. Only while loading */
    size_t name_mask;
    struct merge *merges; /* [merge_mask + 1] */
    size_t merge_mask, n_merges, max_merges;
    int32_t byte_id[256];
    int16_t byte_of[ALPHABET_END]; /* code point of the printable alphabet to byte, NONE elsewhere */
};

static uint32_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 0xCBF29CE484222325u; /* FNV-1a, then folded: the low bits alone are weak for short texts */
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)s[i]) * 0x100000001B3u;
    }
    h *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static size_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    return (size_t)((h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 20);
}

/* Power of two with at most three quarters of the slots in use. */
static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size - size / 4 <= n) {
        size *= 2;
    }
    return size;
}

static void fill_alphabet(int16_t byte_of[ALPHABET_END])
{
    int next = 256;
    for (int c = 0; c < ALPHABET_END; c++) {
        byte_of[c] = NONE;
    }
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        byte_of[printable ? b : next++] = (int16_t)b;
    }
}

enum gr_status gr_bpe_new(size_t n_tokens, size_t n_merges, struct gr_bpe **out, struct gr_err *err)
{
    if (n_tokens > GR_BPE_MAX_IDS || n_merges > GR_BPE_MAX_MERGES) {
        return gr_fail(err, GR_ERR_FORMAT, "vocabulary of %zu tokens and %zu merges, at most %d and %d are supported",
                       n_tokens, n_merges, GR_BPE_MAX_IDS, GR_BPE_MAX_MERGES);
    }
    struct gr_bpe *bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the vocabulary");
    }
    size_t n_names = table_size(n_tokens), n_slots = table_size(n_merges);
    bpe->names = calloc(n_names, sizeof *bpe->names);
    bpe->merges = malloc(n_slots * sizeof *bpe->merges);
    if (bpe->names == NULL || bpe->merges == NULL) {
        gr_bpe_free(bpe);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a vocabulary of %zu tokens and %zu merges", n_tokens,
                       n_merges);
    }
    bpe->name_mask = n_names - 1;
    bpe->merge_mask = n_slots - 1;
    bpe->max_tokens = n_tokens;
    bpe->max_merges = n_merges;
    memset(bpe->merges, 0xFF, n_slots * sizeof *bpe->merges); /* left = NONE */
    fill_alphabet(bpe->byte_of);
    *out = bpe;
    return GR_OK;
}

void gr_bpe_free(struct gr_bpe *bpe)
{
    if (bpe != NULL) {
        free(bpe->tokens);
        free(bpe->blob);
        free(bpe->names);
        free(bpe->merges);
        free(bpe);
    }
}

/* Id of a token by its bytes, NONE when absent. */
static int32_t find_name(const struct gr_bpe *bpe, const char *bytes, size_t n)
{
    uint32_t hash = hash_bytes(bytes, n);
    for (size_t i = hash & bpe->name_mask; bpe->names[i] != 0; i = (i + 1) & bpe->name_mask) {
        if ((uint32_t)(bpe->names[i] >> 32) == hash) {
            int32_t id = (int32_t)((uint32_t)bpe->names[i] - 1);
            const struct token *t = &bpe->tokens[id];
            if (t->len == n && memcmp(bpe->blob + t->offset, bytes, n) == 0) {
                return id;
            }
        }
    }
    return NONE;
}

static void put_name(struct gr_bpe *bpe, int32_t id)
{
    const struct token *t = &bpe->tokens[id];
    uint32_t hash = hash_bytes(bpe->blob + t->offset, t->len);
    size_t i = hash & bpe->name_mask;
    while (bpe->names[i] != 0) {
        i = (i + 1) & bpe->name_mask;
    }
    bpe->names[i] = (uint64_t)hash << 32 | ((uint32_t)id + 1);
}

static enum gr_status reserve_id(struct gr_bpe *bpe, size_t id, struct gr_err *err)
{
    if (id >= bpe->cap_ids) {
        size_t cap = bpe->cap_ids == 0 ? 1024 : bpe->cap_ids;
        while (cap <= id) {
            cap *= 2;
        }
        struct token *tokens = realloc(bpe->tokens, cap * sizeof *tokens);
        if (tokens == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu token ids", cap);
        }
        memset(tokens + bpe->cap_ids, 0, (cap - bpe->cap_ids) * sizeof *tokens);
        bpe->tokens = tokens;
        bpe->cap_ids = cap;
    }
    return GR_OK;
}

static enum gr_status reserve_blob(struct gr_bpe *bpe, size_t n, struct gr_err *err)
{
    size_t need;
    if (!gr_size_add(bpe->blob_len, n, &need) || need > INT32_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "the texts of the vocabulary exceed 2 GiB");
    }
    if (need > bpe->blob_cap) {
        size_t cap = bpe->blob_cap == 0 ? 65536 : bpe->blob_cap;
        while (cap < need) {
            cap *= 2;
        }
        char *blob = realloc(bpe->blob, cap);
        if (blob == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu bytes of vocabulary", cap);
        }
        bpe->blob = blob;
        bpe->blob_cap = cap;
    }
    return GR_OK;
}

/* Text in the printable alphabet to bytes behind the end of the blob, at `skip`; the caller has made room. False: not of the alphabet. */
static bool decode_alphabet(const struct gr_bpe *bpe, const char *text, size_t n, size_t skip, size_t *n_bytes)
{
    char *to = bpe->blob + bpe->blob_len + skip;
    size_t at = 0, len = 0;
    while (at < n) {
        uint32_t c;
        if (!gr_utf8_next(text, n, &at, &c) || c >= ALPHABET_END || bpe->byte_of[c] < 0) {
            return false;
        }
        to[len++] = (char)bpe->byte_of[c];
    }
    *n_bytes = len;
    return true;
}

enum gr_status gr_bpe_add_token(struct gr_bpe *bpe, const char *where, const char *text, int64_t id, struct gr_err *err)
{
    size_t n = strlen(text), len = 0;
    if (id < 0 || id >= GR_BPE_MAX_IDS) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: token \"%.60s\" has the id %lld, expected 0..%d", where, text,
                       (long long)id, GR_BPE_MAX_IDS - 1);
    }
    if (bpe->count == bpe->max_tokens) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: more tokens than announced", where);
    }
    GR_TRY(reserve_id(bpe, (size_t)id, err));
    GR_TRY(reserve_blob(bpe, n, err));
    if (!decode_alphabet(bpe, text, n, 0, &len) || len == 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: token \"%.60s\" (id %lld) is not spelled in the byte-level alphabet",
                       where, text, (long long)id);
    }
    if (bpe->tokens[id].len != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: id %lld is given twice, the second time to \"%.60s\"", where,
                       (long long)id, text);
    }
    if (find_name(bpe, bpe->blob + bpe->blob_len, len) != NONE) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: token \"%.60s\" is given twice", where, text);
    }
    bpe->tokens[id] = (struct token){.offset = (uint32_t)bpe->blob_len, .len = (uint32_t)len};
    bpe->blob_len += len;
    bpe->n_ids = (size_t)id >= bpe->n_ids ? (size_t)id + 1 : bpe->n_ids;
    bpe->count++;
    put_name(bpe, (int32_t)id);
    return GR_OK;
}

/* Slot of a pair: the one that holds it or the empty one where it belongs. */
static struct merge *find_merge(const struct gr_bpe *bpe, int32_t left, int32_t right)
{
    size_t i = hash_pair(left, right) & bpe->merge_mask;
    while (bpe->merges[i].left != NONE && (bpe->merges[i].left != left || bpe->merges[i].right != right)) {
        i = (i + 1) & bpe->merge_mask;
    }
    return &bpe->merges[i];
}

enum gr_status gr_bpe_add_merge(struct gr_bpe *bpe, const char *where, size_t line, const char *left, size_t n_left,
                                const char *right, size_t n_right, struct gr_err *err)
{
    size_t len_left = 0, len_right = 0;
    int cut_left = n_left < 60 ? (int)n_left : 60, cut_right = n_right < 60 ? (int)n_right : 60;
    if (bpe->n_merges == bpe->max_merges) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: more merges than announced", where);
    }
    GR_TRY(reserve_blob(bpe, n_left + n_right, err));
    if (!decode_alphabet(bpe, left, n_left, 0, &len_left) ||
        !decode_alphabet(bpe, right, n_right, len_left, &len_right)) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s line %zu: merge \"%.*s\" + \"%.*s\" is not spelled in the byte-level alphabet", where, line,
                       cut_left, left, cut_right, right);
    }
    const char *bytes = bpe->blob + bpe->blob_len;
    int32_t a = find_name(bpe, bytes, len_left), b = find_name(bpe, bytes + len_left, len_right);
    int32_t joined = find_name(bpe, bytes, len_left + len_right);
    if (len_left == 0 || len_right == 0 || a == NONE || b == NONE || joined == NONE) {
        const char *what = a == NONE ? "its first part" : b == NONE ? "its second part" : "its result";
        return gr_fail(err, GR_ERR_FORMAT, "%s line %zu: merge \"%.*s\" + \"%.*s\": %s is not in the vocabulary", where,
                       line, cut_left, left, cut_right, right, what);
    }
    struct merge *m = find_merge(bpe, a, b);
    if (m->left != NONE) {
        return gr_fail(err, GR_ERR_FORMAT, "%s line %zu: merge \"%.*s\" + \"%.*s\" is given twice", where, line,
                       cut_left, left, cut_right, right);
    }
    *m = (struct merge){.left = a, .right = b, .rank = (uint32_t)bpe->n_merges, .joined = joined};
    bpe->n_merges++;
    return GR_OK;
}

enum gr_status gr_bpe_finish(struct gr_bpe *bpe, const char *where, struct gr_err *err)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        bpe->byte_id[b] = find_name(bpe, &byte, 1);
        if (bpe->byte_id[b] == NONE) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "%s: no token for the single byte 0x%02x, so not every text can be encoded", where,
                           (unsigned)b);
        }
    }
    free(bpe->names);
    bpe->names = NULL;
    return GR_OK;
}

size_t gr_bpe_count(const struct gr_bpe *bpe) { return bpe->count; }

int32_t gr_bpe_size(const struct gr_bpe *bpe) { return (int32_t)bpe->n_ids; }

const char *gr_bpe_piece(const struct gr_bpe *bpe, int32_t id, size_t *n_bytes)
{
    if (id < 0 || (size_t)id >= bpe->n_ids || bpe->tokens[id].len == 0) {
        return NULL;
    }
    *n_bytes = bpe->tokens[id].len;
    return bpe->blob + bpe->tokens[id].offset;
}

enum gr_status gr_bpe_work_reserve(struct gr_bpe_work *work, size_t n, struct gr_err *err)
{
    if (n <= work->cap) {
        return GR_OK;
    }
    size_t n_symbols, n_heap;
    struct gr_bpe_work grown = {.cap = n};
    /* Heap: n - 1 pairs at the start; each of at most n - 1 merges takes one out and puts at most two in. */
    if (n >= UINT32_MAX || !gr_size_mul(n, sizeof *grown.symbols, &n_symbols) ||
        !gr_size_mul(2 * n, sizeof *grown.heap, &n_heap)) {
        return gr_fail(err, GR_ERR_INPUT, "a piece of %zu bytes is too long for the tokenizer", n);
    }
    grown.symbols = malloc(n_symbols);
    grown.heap = malloc(n_heap);
    if (grown.symbols == NULL || grown.heap == NULL) {
        gr_bpe_work_free(&grown);
        return gr_fail(err, GR_ERR_NOMEM, "no memory to tokenize a piece of %zu bytes", n);
    }
    gr_bpe_work_free(work);
    *work = grown;
    return GR_OK;
}

void gr_bpe_work_free(struct gr_bpe_work *work)
{
    free(work->symbols);
    free(work->heap);
    *work = (struct gr_bpe_work){0};
}

/* ---- Binary heap of rank << 32 | position: the smallest is the leftmost pair of lowest rank. */

static void heap_push(uint64_t *heap, size_t *n, uint64_t key)
{
    size_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2] > key) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = key;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n) {
            break;
        }
        if (child + 1 < *n && heap[child + 1] < heap[child]) {
            child++;
        }
        if (heap[child] >= last) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void push_pair(const struct gr_bpe *bpe, const struct gr_bpe_symbol *s, size_t left, size_t n, uint64_t *heap,
                      size_t *n_heap)
{
    size_t right = s[left].next;
    if (right < n) {
        const struct merge *m = find_merge(bpe, s[left].id, s[right].id);
        if (m->left != NONE) {
            heap_push(heap, n_heap, (uint64_t)m->rank << 32 | left);
        }
    }
}

size_t gr_bpe_encode(const struct gr_bpe *bpe, const char *bytes, size_t n, struct gr_bpe_work *work, int32_t *ids,
                     size_t max_ids)
{
    struct gr_bpe_symbol *s = work->symbols;
    size_t n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        s[i] = (struct gr_bpe_symbol){.id = bpe->byte_id[(unsigned char)bytes[i]],
                                      .prev = (uint32_t)i - 1, /* of the first one: a value that is never < n */
                                      .next = (uint32_t)i + 1};
    }
    for (size_t i = 0; i + 1 < n; i++) {
        push_pair(bpe, s, i, n, work->heap, &n_heap);
    }
    while (n_heap > 0) {
        uint64_t key = heap_pop(work->heap, &n_heap);
        size_t left = (uint32_t)key, right = s[left].next;
        if (s[left].id == NONE || right >= n) {
            continue; /* swallowed since it was pushed */
        }
        const struct merge *m = find_merge(bpe, s[left].id, s[right].id);
        if (m->left == NONE || m->rank != (uint32_t)(key >> 32)) {
            continue; /* one side has grown since; the new pair is in the heap on its own */
        }
        s[left].id = m->joined;
        s[right].id = NONE;
        s[left].next = s[right].next;
        if (s[left].next < n) {
            s[s[left].next].prev = (uint32_t)left;
        }
        if (s[left].prev < n) {
            push_pair(bpe, s, s[left].prev, n, work->heap, &n_heap);
        }
        push_pair(bpe, s, left, n, work->heap, &n_heap);
    }
    size_t count = 0;
    for (size_t i = 0; i < n; i = s[i].next) {
        if (count < max_ids) {
            ids[count] = s[i].id;
        }
        count++;
    }
    return count;
}
