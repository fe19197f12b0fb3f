/* SPDX-License-Identifier: Apache-2.0
 *
 * corpus.h: the seed corpora of the fuzz targets double as tables of good and bad inputs: a file called good-* must be accepted,
 * one called bad-* must be refused. */
#ifndef GR_TEST_CORPUS_H
#define GR_TEST_CORPUS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr_test.h"

/* Calls check(path, name) for every file of tests/fuzz/corpus/<input>; check returns whether the reader took it. */
static inline void corpus_check(const char *input, bool (*check)(const char *path, const char *name))
{
    char dir[4096]; /* a copy: the loop makes more paths than the helper keeps */
    (void)snprintf(dir, sizeof dir, "%s", gr_test_source("tests/fuzz/corpus/%s", input));
    DIR *d = opendir(dir);
    if (d == NULL) {
        fail_msg("%s: cannot open", dir);
        return;
    }
    int good = 0, bad = 0, wrong = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        bool want = strncmp(e->d_name, "good-", 5) == 0;
        if (!want && strncmp(e->d_name, "bad-", 4) != 0) {
            continue;
        }
        *(want ? &good : &bad) += 1;
        if (check(gr_test_join(dir, "%s", e->d_name), e->d_name) != want) {
            print_message("%s: %s\n", e->d_name, want ? "refused" : "accepted");
            wrong++;
        }
    }
    closedir(d);
    assert_true(good >= 5 && bad >= 20);
    assert_int_equal(wrong, 0);
}

#endif
