/* SPDX-License-Identifier: Apache-2.0
 *
 * config_nonfinite.c: finds the NaN or Infinity that made a JSON file unreadable, for a message that helps.
 * Python writes such words; a parser of real JSON only says "invalid token". In: the text of a refused file. Out: line and path.
 * Runs on any bytes: it never decides anything, it only words an error that is certain already. */
#include <stdio.h>
#include <string.h>

#include "model/config_read.h"

enum { MAX_DEPTH = 16, KEY_BYTES = 48 };

/* Where the scan is: one level per open bracket. Levels deeper than MAX_DEPTH are counted and not named. */
struct place {
    int depth, line;
    struct level {
        bool array;
        size_t index;
        char key[KEY_BYTES];
    } level[MAX_DEPTH];
};

static struct level *top(struct place *p)
{
    return p->depth >= 1 && p->depth <= MAX_DEPTH ? &p->level[p->depth - 1] : NULL;
}

/* The string that starts at text[i] = '"': remembered as the level's key (a value overwrites it, which does no harm: the next key comes
 * before the next value). Returns the position behind it. */
static size_t take_string(struct place *p, const char *text, size_t n, size_t i)
{
    struct level *t = top(p);
    size_t len = 0;
    for (i++; i < n && text[i] != '"'; i++) {
        if (text[i] == '\\' && i + 1 < n) {
            i++;
        }
        if (t != NULL && !t->array && len + 1 < KEY_BYTES) {
            t->key[len++] = text[i];
        }
    }
    if (t != NULL && !t->array) {
        t->key[len] = '\0';
    }
    return i + 1;
}

static void write_place(const struct place *p, const char *word, char *out, size_t cap)
{
    int n = snprintf(out, cap, "line %d: %s in ", p->line, word);
    for (int i = 0; i < p->depth && i < MAX_DEPTH && n >= 0 && (size_t)n < cap; i++) {
        const struct level *t = &p->level[i];
        n += t->array ? snprintf(out + n, cap - (size_t)n, "[%zu]", t->index)
                      : snprintf(out + n, cap - (size_t)n, "%s%s", i > 0 ? "." : "", t->key);
    }
}

static void step(struct place *p, char c)
{
    struct level *t = top(p);
    switch (c) {
    case '\n':
        p->line++;
        break;
    case '{':
    case '[':
        p->depth++;
        t = top(p);
        if (t != NULL) {
            *t = (struct level){.array = c == '['};
        }
        break;
    case '}':
    case ']':
        p->depth -= p->depth > 0;
        break;
    case ',':
        if (t != NULL) {
            t->index++;
        }
        break;
    default:
        break;
    }
}

bool gr_find_nonfinite(const struct gr_config_text *text, char *out, size_t cap)
{
    static const char *const words[] = {"NaN", "Infinity"};
    struct place place = {.line = 1};
    for (size_t i = 0; i < text->n_bytes;) {
        if (text->text[i] == '"') {
            i = take_string(&place, text->text, text->n_bytes, i);
            continue;
        }
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            size_t len = strlen(words[w]);
            if (text->n_bytes - i >= len && memcmp(text->text + i, words[w], len) == 0) {
                write_place(&place, words[w], out, cap);
                return true;
            }
        }
        step(&place, text->text[i]);
        i++;
    }
    return false;
}
