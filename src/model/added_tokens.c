/* SPDX-License-Identifier: Apache-2.0
 *
 * added_tokens.c: a small list of literal tokens, matched longest first at each position (added_rx of the reference). Matching is on
 * bytes: UTF-8 is self-synchronising, so a match always begins and ends at a character. */
#include "model/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "model/bpe.h"

enum gr_status gr_added_put(struct gr_added_tokens *added, const char *where, const char *text, int64_t id,
                            struct gr_err *err)
{
    if (text[0] == '\0') {
        return gr_fail(err, GR_ERR_FORMAT, "%s: added token with id %lld is empty", where, (long long)id);
    }
    if (id < 0 || id >= GR_BPE_MAX_IDS) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: added token \"%.60s\" has the id %lld, expected 0..%d", where, text,
                       (long long)id, GR_BPE_MAX_IDS - 1);
    }
    const struct gr_added_token *same_text = gr_added_by_text(added, text),
                                *same_id = gr_added_by_id(added, (int32_t)id);
    if (same_text != NULL && same_text == same_id) {
        return GR_OK;
    }
    if (same_text != NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: added token \"%.60s\" must have one id, found %d and %lld", where, text,
                       (int)same_text->id, (long long)id);
    }
    if (same_id != NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: id %lld is given to the added tokens \"%.60s\" and \"%.60s\"", where,
                       (long long)id, same_id->text, text);
    }
    if (added->n == GR_ADDED_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: more than %d added tokens", where, GR_ADDED_MAX);
    }
    if (added->n == added->cap) {
        size_t cap = added->cap == 0 ? 64 : 2 * added->cap;
        struct gr_added_token *items = realloc(added->items, cap * sizeof *items);
        if (items == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for the added tokens");
        }
        added->items = items;
        added->cap = cap;
    }
    struct gr_added_token *item = &added->items[added->n];
    *item = (struct gr_added_token){.text = strdup(text), .len = strlen(text), .id = (int32_t)id};
    if (item->text == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the added tokens");
    }
    added->n++;
    return GR_OK;
}

static int compare(const void *pa, const void *pb)
{
    const struct gr_added_token *a = pa, *b = pb;
    unsigned char first_a = (unsigned char)a->text[0], first_b = (unsigned char)b->text[0];
    if (first_a != first_b) {
        return first_a < first_b ? -1 : 1;
    }
    if (a->len != b->len) {
        return a->len > b->len ? -1 : 1;
    }
    return strcmp(a->text, b->text);
}

void gr_added_sort(struct gr_added_tokens *added)
{
    if (added->n > 1) {
        qsort(added->items, added->n, sizeof *added->items, compare);
    }
    uint32_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        added->first[b] = i;
        while (i < added->n && (unsigned char)added->items[i].text[0] == b) {
            i++;
        }
    }
    added->first[256] = i;
}

void gr_added_free(struct gr_added_tokens *added)
{
    for (size_t i = 0; i < added->n; i++) {
        free(added->items[i].text);
    }
    free(added->items);
    *added = (struct gr_added_tokens){0};
}

const struct gr_added_token *gr_added_by_text(const struct gr_added_tokens *added, const char *text)
{
    for (size_t i = 0; i < added->n; i++) {
        if (strcmp(added->items[i].text, text) == 0) {
            return &added->items[i];
        }
    }
    return NULL;
}

const struct gr_added_token *gr_added_by_id(const struct gr_added_tokens *added, int32_t id)
{
    for (size_t i = 0; i < added->n; i++) {
        if (added->items[i].id == id) {
            return &added->items[i];
        }
    }
    return NULL;
}

const struct gr_added_token *gr_added_match(const struct gr_added_tokens *added, const char *text, size_t n, size_t at)
{
    unsigned b = (unsigned char)text[at];
    for (uint32_t i = added->first[b]; i < added->first[b + 1]; i++) {
        const struct gr_added_token *item = &added->items[i];
        if (item->len <= n - at && memcmp(item->text, text + at, item->len) == 0) {
            return item;
        }
    }
    return NULL;
}
