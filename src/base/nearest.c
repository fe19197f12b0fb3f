/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.c: Damerau-Levenshtein distance of short words, three rows of the table at a time. */
#include "base/nearest.h"

#include <stddef.h>
#include <string.h>

enum { WORD_MAX = 64 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words; WORD_MAX when one is too long. */
static int edits(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na >= WORD_MAX || nb >= WORD_MAX) {
        return WORD_MAX;
    }
    int d[3][WORD_MAX + 1];
    int *before = d[0], *above = d[1], *row = d[2];
    for (size_t j = 0; j <= nb; j++) {
        above[j] = (int)j;
    }
    for (size_t i = 1; i <= na; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        int *t = before;
        before = above;
        above = row;
        row = t;
    }
    return above[nb];
}

const char *gr_nearest(const char *word, int most, const char *(*get)(const void *ctx, int i), const void *ctx, int n)
{
    const char *best = NULL;
    int best_edits = most + 1;
    for (int i = 0; i < n; i++) {
        const char *name = get(ctx, i);
        int e = edits(word, name);
        if (e < best_edits && e < (int)strlen(name)) {
            best = name;
            best_edits = e;
        }
    }
    return best;
}
