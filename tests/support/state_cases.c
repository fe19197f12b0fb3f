/* SPDX-License-Identifier: Apache-2.0
 *
 * state_cases.c: reads the records and builds the configuration each of them stands for. */
#include "state_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gr_test.h"
#include "side_files.h"

static const char *const groups[] = {"left_arm", "right_arm", "left_hand", "right_hand", "waist"};
static const int dims[] = {7, 7, 6, 6, 3};
enum { N_GROUPS = 5, STEPS = 16, DIM = 29, HORIZON = 50, WIDTH = 128 };

static const struct gr_json *need(const struct gr_json *object, const char *key, size_t len)
{
    const struct gr_json *v = gr_json_get(object, key);
    if (v == NULL || gr_json_len(v) != len) {
        fail_msg("record has no %s of length %zu", key, len);
    }
    return v;
}

static void set_bool(struct side_files *files, const struct gr_json *settings, const char *key)
{
    const struct gr_json *v = gr_json_get(settings, key);
    if (v == NULL || gr_json_kind(v) != GR_JSON_BOOL) {
        fail_msg("record has no setting %s", key);
    }
    side_files_set(files, SIDE_PROCESSOR, NULL, key, gr_json_bool(v) ? "true" : "false");
}

static void set_groups(struct side_files *files, const char *anchor, const struct gr_json *list)
{
    char text[256] = "[";
    size_t n = 1;
    for (size_t i = 0; i < gr_json_len(list); i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\"", i > 0 ? ", " : "",
                              gr_json_string(gr_json_at(list, i)));
    }
    snprintf(text + n, sizeof text - n, "]");
    side_files_set(files, SIDE_PROCESSOR, anchor, "mean_std_embedding_keys", text);
}

static struct gr_config *config_of(const struct gr_json *record)
{
    static const char *const switches[] = {"apply_sincos_state_encoding", "clip_outliers", "use_percentiles",
                                           "use_relative_action"};
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        set_bool(&files, gr_json_get(record, "settings"), switches[i]);
    }
    set_groups(&files, "\"gr1\"|\"state\":", gr_json_get(record, "mean_std_state"));
    set_groups(&files, "\"gr1\"|\"action\":", gr_json_get(record, "mean_std_action"));
    gr_test_ok(side_files_parse(&files, "gr1", &cfg, &err), &err);
    side_files_free(&files);
    return cfg;
}

static void read_case(const struct gr_json *record, struct state_case *c)
{
    const struct gr_json *state = need(record, "state", N_GROUPS), *encoded = need(record, "encoded", 64);
    const struct gr_json *rows = need(record, "normalized_actions", STEPS),
                         *actions = need(record, "actions", N_GROUPS);
    const char *dtype = gr_json_string(gr_json_get(record, "state_dtype"));
    assert_true(strcmp(dtype, "float32") == 0 || strcmp(dtype, "float64") == 0);
    c->is_f64 = strcmp(dtype, "float64") == 0;
    for (int i = 0; i < 64; i++) {
        c->encoded[i] = (float)gr_json_number(gr_json_at(encoded, (size_t)i));
    }
    for (int i = 0; i < HORIZON * WIDTH; i++) {
        c->normalized[i] = NAN;
    }
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < DIM; i++) {
            c->normalized[t * WIDTH + i] = (float)gr_json_number(gr_json_at(gr_json_at(rows, (size_t)t), (size_t)i));
        }
    }
    for (int g = 0, at = 0; g < N_GROUPS; at += dims[g++]) {
        const struct gr_json *v = need(state, groups[g], (size_t)dims[g]), *a = need(actions, groups[g], STEPS);
        for (int i = 0; i < dims[g]; i++) {
            c->state[at + i] = gr_json_number(gr_json_at(v, (size_t)i));
            for (int t = 0; t < STEPS; t++) {
                c->actions[t * DIM + at + i] = (float)gr_json_number(gr_json_at(gr_json_at(a, (size_t)t), (size_t)i));
            }
        }
    }
}

int state_cases_run(const char *path, state_case_fn fn)
{
    char *text = (char *)gr_test_read(path, NULL);
    struct state_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        struct gr_json *record = NULL;
        struct gr_err err = {0};
        gr_test_ok(gr_json_parse(line, n, path, GR_ERR_FORMAT, &record, &err), &err);
        c->line++;
        c->cfg = config_of(record);
        read_case(record, c);
        fn(c);
        gr_config_free(c->cfg);
        gr_json_free(record);
        line += n + (line[n] == '\n');
    }
    int count = c->line;
    free(c);
    free(text);
    return count;
}
