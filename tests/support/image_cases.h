/* SPDX-License-Identifier: Apache-2.0
 *
 * image_cases.h: the two lists of picture files with known results: our own (tests/data/images/cases.tsv) and the one of the
 * shared folder (spec/image_cases/expected.json). Helpers fail or skip the running test. */
#ifndef IMAGE_CASES_H
#define IMAGE_CASES_H

#include <stdbool.h>
#include <stddef.h>

#include "gr00t.h"
#include "gr_test.h"

/* In the order of both lists; the first is the decoded picture, the last the float planes. */
enum { IMAGE_RGB, IMAGE_LETTERBOX, IMAGE_RESIZE, IMAGE_CROP, IMAGE_RESIZE_B, IMAGE_BICUBIC, IMAGE_PIXELS, IMAGE_SUMS };
extern const char *const image_sum_names[IMAGE_SUMS]; /* as in expected.json; "pixels" for the last */

struct image_case {
    char name[64];
    char path[4096];
    bool ok;
    int width, height, orientation; /* orientation 0: not stated */
    char sha256[IMAGE_SUMS][65];    /* "" : not stated */
    char refusal[128];              /* part of the message, "" : any */
};

struct image_list {
    struct image_case *cases;
    size_t n;
};

struct image_list image_cases_committed(void);
/* Skips the test without the shared folder. The 16-bit grey file, which the list decodes, is turned into a refusal: that is our
 * rule, and the one departure. */
struct image_list image_cases_shared(void);
void image_cases_free(struct image_list *list);

/* Decodes a picture file that must be a good one. Free with gr_image_free. */
void image_read(const char *path, struct gr_image *image);

#endif
