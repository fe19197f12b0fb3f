/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest.h: what somebody probably meant: the known word with the fewest edits from the one that was written. */
#ifndef GR_BASE_NEAREST_H
#define GR_BASE_NEAREST_H

/* The candidate nearest to `word`: at most `most` edits (insert, delete, replace, swap of neighbours) and fewer than its length; NULL when none is
 * near. get(ctx, i) names candidate i of n; words of 64 bytes and more are near to nothing. */
const char *gr_nearest(const char *word, int most, const char *(*get)(const void *ctx, int i), const void *ctx, int n);

#endif
