/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_chunk.c: JSON to arrays, with a message for whatever is not a chunk. The text is foreign: every size is bounded before memory is
 * taken, every row has the width of the first one. */
#include "cli/wire_chunk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/action_table.h"

enum { GROUPS_MAX = 64, STEPS_MAX = 4096, DIM_MAX = 4096, FILE_MAX_BYTES = 64 << 20 };

/* Where a value stands, for messages. */
struct place {
    const char *what, *key;
    enum gr_status code;
};

/* Row `r` of `rows` into out[0 .. n). */
static enum gr_status read_row(const struct gr_json *row, int r, int n, const struct place *at, float *out,
                               struct gr_err *err)
{
    if (gr_json_kind(row) != GR_JSON_ARRAY || gr_json_len(row) != (size_t)n) {
        return gr_fail(err, at->code, "%s: %s[%d] is no list of %d numbers", at->what, at->key, r, n);
    }
    for (int i = 0; i < n; i++) {
        const struct gr_json *x = gr_json_at(row, (size_t)i);
        float v = gr_json_is_number(x) ? (float)gr_json_number(x) : NAN;
        if (!isfinite(v)) {
            return gr_fail(err, at->code, "%s: %s[%d][%d] is no finite number", at->what, at->key, r, i);
        }
        out[i] = v;
    }
    return GR_OK;
}

/* Rows and columns of a list of lists; the width is the first row's. */
static enum gr_status shape_of(const struct gr_json *v, const struct place *at, int *rows, int *cols,
                               struct gr_err *err)
{
    size_t r = gr_json_len(v), c = gr_json_len(gr_json_at(v, 0));
    if (gr_json_kind(v) != GR_JSON_ARRAY || r == 0 || c == 0) {
        return gr_fail(err, at->code, "%s: %s is no list of rows of numbers", at->what, at->key);
    }
    if (r > STEPS_MAX || c > DIM_MAX) {
        return gr_fail(err, at->code, "%s: %s has %zu rows of %zu numbers, at most %d of %d", at->what, at->key, r, c,
                       STEPS_MAX, DIM_MAX);
    }
    *rows = (int)r;
    *cols = (int)c;
    return GR_OK;
}

static enum gr_status read_matrix(const struct gr_json *v, const struct place *at, struct gr_wire_matrix *out,
                                  struct gr_err *err)
{
    GR_TRY(shape_of(v, at, &out->rows, &out->cols, err));
    out->values = calloc((size_t)out->rows * (size_t)out->cols, sizeof *out->values);
    if (out->values == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %s", at->what, at->key);
    }
    for (int r = 0; r < out->rows; r++) {
        GR_TRY(read_row(gr_json_at(v, (size_t)r), r, out->cols, at, out->values + (ptrdiff_t)r * out->cols, err));
    }
    return GR_OK;
}

static enum gr_status add_group(const char *name, const struct gr_json *rows, const struct place *at,
                                struct gr_wire_chunk *out, struct gr_err *err)
{
    int steps, dim;
    GR_TRY(shape_of(rows, at, &steps, &dim, err));
    if (out->n_groups > 0 && steps != out->steps) {
        return gr_fail(err, at->code, "%s: %s has %d steps, the group before it %d", at->what, name, steps, out->steps);
    }
    struct gr_group *g = &out->groups[out->n_groups];
    g->name = strdup(name);
    if (g->name == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", at->what);
    }
    g->dim = dim;
    out->n_groups++;
    out->steps = steps;
    out->dim += dim;
    return GR_OK;
}

/* Names, widths and their order: action_keys when there is such a list, else as they stand. */
static enum gr_status read_groups(const struct gr_json *actions, const struct gr_json *keys, const struct place *at,
                                  struct gr_wire_chunk *out, struct gr_err *err)
{
    size_t n = gr_json_len(actions);
    bool ordered = gr_json_kind(keys) == GR_JSON_ARRAY;
    if (gr_json_kind(actions) != GR_JSON_OBJECT || n == 0 || n > GROUPS_MAX) {
        return gr_fail(err, at->code, "%s: %s is no object of 1 to %d joint groups", at->what, at->key, GROUPS_MAX);
    }
    if (ordered && gr_json_len(keys) != n) {
        return gr_fail(err, at->code, "%s: action_keys names %zu groups, %s has %zu", at->what, gr_json_len(keys),
                       at->key, n);
    }
    out->groups = calloc(n, sizeof *out->groups);
    if (out->groups == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", at->what);
    }
    void *it = gr_json_first(actions);
    for (size_t i = 0; i < n; i++) {
        const struct gr_json *key = gr_json_at(keys, i);
        const char *name = !ordered ? gr_json_key(it) : gr_json_kind(key) == GR_JSON_STRING ? gr_json_string(key) : "";
        const struct gr_json *rows = gr_json_get(actions, name);
        for (int g = 0; g < out->n_groups; g++) {
            rows = strcmp(out->groups[g].name, name) == 0 ? NULL : rows;
        }
        if (rows == NULL) {
            return gr_fail(err, at->code, "%s: action_keys and %s do not name the same groups (\"%.60s\")", at->what,
                           at->key, name);
        }
        struct place here = {at->what, name, at->code};
        GR_TRY(add_group(name, rows, &here, out, err));
        it = gr_json_next(actions, it);
    }
    return GR_OK;
}

static enum gr_status read_actions(const struct gr_json *actions, const struct place *at, struct gr_wire_chunk *out,
                                   struct gr_err *err)
{
    out->actions = calloc((size_t)out->steps * (size_t)out->dim, sizeof *out->actions);
    if (out->actions == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %d x %d actions", at->what, out->steps, out->dim);
    }
    for (int g = 0, d = 0; g < out->n_groups; d += out->groups[g].dim, g++) {
        const struct gr_json *rows = gr_json_get(actions, out->groups[g].name);
        struct place here = {at->what, out->groups[g].name, at->code};
        for (int s = 0; s < out->steps; s++) {
            GR_TRY(read_row(gr_json_at(rows, (size_t)s), s, out->groups[g].dim, &here,
                            out->actions + (ptrdiff_t)s * out->dim + d, err));
        }
    }
    return GR_OK;
}

static void copy_text(const struct gr_json *root, const char *key, char out[GR_WIRE_NAME_BYTES])
{
    const struct gr_json *v = gr_json_get(root, key);
    snprintf(out, GR_WIRE_NAME_BYTES, "%s", gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "");
}

static int64_t int_at(const struct gr_json *root, const char *key)
{
    const struct gr_json *v = gr_json_get(root, key);
    return gr_json_kind(v) == GR_JSON_INT ? gr_json_int(v) : 0;
}

static void read_facts(const struct gr_json *root, struct gr_wire_chunk *out)
{
    copy_text(root, "model", out->model);
    copy_text(root, "version", out->version);
    copy_text(root, "embodiment", out->embodiment);
    copy_text(root, "noise_source", out->noise_source);
    out->has_seed = gr_json_kind(gr_json_get(root, "seed")) == GR_JSON_INT && int_at(root, "seed") >= 0;
    out->seed = out->has_seed ? (uint64_t)int_at(root, "seed") : 0;
    out->seq_len = int_at(root, "seq_len");
    out->prompt_tokens = int_at(root, "prompt_tokens");
    const struct gr_json *timing = gr_json_get(root, "timing_ms");
    for (void *it = gr_json_first(timing); it != NULL; it = gr_json_next(timing, it)) {
        if (gr_json_is_number(gr_json_value(it)) && out->n_timings < GR_WIRE_TIMINGS) {
            struct gr_wire_timing *t = &out->timings[out->n_timings++];
            snprintf(t->name, sizeof t->name, "%s", gr_json_key(it));
            t->ms = gr_json_number(gr_json_value(it));
        }
    }
}

static enum gr_status read_all(const struct gr_json *root, const char *what, enum gr_status code,
                               struct gr_wire_chunk *out, struct gr_err *err)
{
    const struct gr_json *inner = gr_json_get(root, "expected");
    root = gr_json_kind(inner) == GR_JSON_OBJECT ? inner : root;
    bool golden = gr_json_get(root, "actions") == NULL && gr_json_get(root, "actions_fp32") != NULL;
    struct place at = {what, golden ? "actions_fp32" : "actions", code};
    const struct gr_json *actions = gr_json_get(root, at.key), *v;
    if (actions == NULL) {
        return gr_fail(err, code, "%s: neither \"actions\" nor \"actions_fp32\" in it", what);
    }
    read_facts(root, out);
    GR_TRY(read_groups(actions, gr_json_get(root, "action_keys"), &at, out, err));
    GR_TRY(read_actions(actions, &at, out, err));
    if ((v = gr_json_get(root, "action_pred_valid_hd")) != NULL) {
        at.key = "action_pred_valid_hd";
        GR_TRY(read_matrix(v, &at, &out->valid, err));
    }
    if ((v = gr_json_get(root, "action_pred_normalized")) != NULL) {
        at.key = "action_pred_normalized";
        GR_TRY(read_matrix(v, &at, &out->normalized, err));
    }
    return GR_OK;
}

enum gr_status gr_wire_chunk_read(const struct gr_json *root, const char *what, enum gr_status code,
                                  struct gr_wire_chunk *out, struct gr_err *err)
{
    *out = (struct gr_wire_chunk){0};
    enum gr_status status = read_all(root, what, code, out, err);
    if (status != GR_OK) {
        gr_wire_chunk_free(out);
    }
    return status;
}

enum gr_status gr_wire_chunk_load(const char *path, struct gr_wire_chunk *out, struct gr_err *err)
{
    struct gr_json *root = NULL;
    GR_TRY(gr_json_read(path, FILE_MAX_BYTES, GR_ERR_INPUT, &root, err));
    enum gr_status status = gr_wire_chunk_read(root, path, GR_ERR_INPUT, out, err);
    gr_json_free(root);
    return status;
}

void gr_wire_chunk_free(struct gr_wire_chunk *c)
{
    for (int g = 0; g < c->n_groups; g++) {
        free((char *)(uintptr_t)c->groups[g].name);
    }
    free(c->groups);
    free(c->actions);
    free(c->valid.values);
    free(c->normalized.values);
    *c = (struct gr_wire_chunk){0};
}

/* First column of a group, -1 when there is none with this name and width. */
static int column_of(const struct gr_wire_chunk *c, const struct gr_group *group)
{
    for (int g = 0, d = 0; g < c->n_groups; d += c->groups[g].dim, g++) {
        if (strcmp(c->groups[g].name, group->name) == 0) {
            return c->groups[g].dim == group->dim ? d : -1;
        }
    }
    return -1;
}

enum gr_status gr_wire_chunk_align(const struct gr_wire_chunk *from, const struct gr_group *groups, int n_groups,
                                   int steps, const char *what, enum gr_status code, float **out, struct gr_err *err)
{
    int dim = 0;
    if (from->n_groups != n_groups || from->steps != steps) {
        return gr_fail(err, code, "%s has %d steps of %d groups, expected %d of %d", what, from->steps, from->n_groups,
                       steps, n_groups);
    }
    for (int g = 0; g < n_groups; g++) {
        dim += groups[g].dim;
    }
    float *values = calloc((size_t)steps * (size_t)dim, sizeof *values);
    if (values == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", what);
    }
    for (int g = 0, d = 0; g < n_groups; d += groups[g].dim, g++) {
        int column = column_of(from, &groups[g]);
        if (column < 0) {
            free(values);
            return gr_fail(err, code, "%s has no group %.60s with %d joints", what, groups[g].name, groups[g].dim);
        }
        for (int s = 0; s < steps; s++) {
            memcpy(values + (ptrdiff_t)s * dim + d, from->actions + (ptrdiff_t)s * from->dim + column,
                   (size_t)groups[g].dim * sizeof *values);
        }
    }
    *out = values;
    return GR_OK;
}

double gr_wire_chunk_ms(const struct gr_wire_chunk *c, const char *name)
{
    for (int i = 0; i < c->n_timings; i++) {
        if (strcmp(c->timings[i].name, name) == 0) {
            return c->timings[i].ms;
        }
    }
    return 0.0;
}

void gr_wire_chunk_text(const struct gr_wire_chunk *c, int columns, struct gr_buf *out)
{
    gr_buf_line(out, "%s %s, %s: %d steps x %d joints, radians", c->model, c->version, c->embodiment, c->steps, c->dim);
    if (c->seq_len > 0) {
        gr_buf_printf(out, "; %" PRId64 " tokens, %" PRId64 " of them instruction", c->seq_len, c->prompt_tokens);
    }
    if (c->has_seed) {
        gr_buf_printf(out, "; seed %" PRIu64 "\n\n", c->seed);
    } else {
        gr_buf_line(out, "%s%s\n\n", c->noise_source[0] != '\0' ? "; noise from the " : "", c->noise_source);
    }
    gr_action_table(c->groups, c->n_groups, c->actions, c->steps, columns, out);
    for (int i = 0; i < c->n_timings; i++) {
        gr_buf_line(out, "%s%s %.1f", i > 0 ? ", " : "milliseconds: ", c->timings[i].name, c->timings[i].ms);
    }
    gr_buf_puts(out, c->n_timings > 0 ? "\n" : "");
}
