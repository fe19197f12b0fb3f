/* SPDX-License-Identifier: Apache-2.0
 *
 * image_cases.c: reads the two lists of picture files with known results. */
#include "image_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { CASES_MAX = 200 };

const char *const image_sum_names[IMAGE_SUMS] = {"rgb",        "letterbox",  "resize256", "crop",
                                                 "resize256b", "bicubic252", "pixels"};

static struct image_case *add(struct image_list *list)
{
    if (list->n == CASES_MAX) {
        fail_msg("more than %d picture cases", (int)CASES_MAX);
    }
    return &list->cases[list->n++];
}

static struct image_list empty_list(void)
{
    struct image_list list = {calloc(CASES_MAX, sizeof *list.cases), 0};
    assert_non_null(list.cases);
    return list;
}

static void copy(char *out, size_t size, const char *text)
{
    if ((size_t)snprintf(out, size, "%s", text) >= size) {
        fail_msg("too long: %s", text);
    }
}

/* One line of cases.tsv: 5 + IMAGE_SUMS fields for a picture, 3 for a refusal. */
static void read_line(struct image_list *list, char *line)
{
    char *field[5 + IMAGE_SUMS] = {NULL}, *rest = line;
    size_t n = 0;
    while (n < sizeof field / sizeof field[0] && rest != NULL) {
        field[n++] = strsep(&rest, "\t");
    }
    struct image_case *c = add(list);
    copy(c->name, sizeof c->name, field[0]);
    copy(c->path, sizeof c->path, gr_test_source("tests/data/images/%s", field[0]));
    if (n == 3 && strcmp(field[1], "refuse") == 0) {
        copy(c->refusal, sizeof c->refusal, field[2]);
        return;
    }
    if (n != sizeof field / sizeof field[0] || strcmp(field[1], "ok") != 0 || rest != NULL) {
        fail_msg("bad line in cases.tsv: %s", field[0]);
    }
    c->ok = true;
    c->width = atoi(field[2]);
    c->height = atoi(field[3]);
    c->orientation = atoi(field[4]);
    for (size_t i = 0; i < IMAGE_SUMS; i++) {
        copy(c->sha256[i], sizeof c->sha256[i], field[5 + i]);
    }
}

struct image_list image_cases_committed(void)
{
    struct image_list list = empty_list();
    char *text = (char *)gr_test_read(gr_test_source("tests/data/images/cases.tsv"), NULL), *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] != '\0' && line[0] != '#') {
            read_line(&list, line);
        }
    }
    free(text);
    return list;
}

static void read_stages(struct image_case *c, const struct gr_json *v)
{
    const struct gr_json *stages = gr_json_get(v, "stages"), *shape = gr_json_get(gr_json_get(stages, "rgb"), "shape");
    assert_int_equal(gr_json_len(shape), 3);
    c->ok = true;
    c->height = (int)gr_json_int(gr_json_at(shape, 0));
    c->width = (int)gr_json_int(gr_json_at(shape, 1));
    for (int i = 0; i < IMAGE_PIXELS; i++) {
        const struct gr_json *sum = gr_json_get(gr_json_get(stages, image_sum_names[i]), "sha256");
        assert_non_null(sum);
        copy(c->sha256[i], sizeof c->sha256[i], gr_json_string(sum));
    }
}

struct image_list image_cases_shared(void)
{
    const char *path = gr_test_shared("spec/image_cases/expected.json");
    struct image_list list = empty_list();
    struct gr_json *root;
    struct gr_err err;
    gr_test_ok(gr_json_read(path, 1 << 20, GR_ERR_FORMAT, &root, &err), &err);
    for (void *it = gr_json_first(root); it != NULL; it = gr_json_next(root, it)) {
        struct image_case *c = add(&list);
        copy(c->name, sizeof c->name, gr_json_key(it));
        copy(c->path, sizeof c->path, gr_test_shared("spec/image_cases/%s", c->name));
        bool ok = strcmp(gr_json_string(gr_json_get(gr_json_value(it), "result")), "ok") == 0;
        if (ok && strcmp(c->name, "gray16_200x160.png") == 0) {
            copy(c->refusal, sizeof c->refusal, "16-bit grey");
        } else if (ok) {
            read_stages(c, gr_json_value(it));
        }
    }
    gr_json_free(root);
    return list;
}

void image_cases_free(struct image_list *list)
{
    free(list->cases);
    list->cases = NULL;
    list->n = 0;
}

void image_read(const char *path, struct gr_image *image)
{
    size_t n;
    struct gr_err err;
    uint8_t *bytes = gr_test_read(path, &n);
    enum gr_status status = gr_image_decode(bytes, n, image, &err);
    free(bytes);
    if (status != GR_OK) {
        fail_msg("%s: %s", path, err.msg);
    }
}
