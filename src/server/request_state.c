/* SPDX-License-Identifier: Apache-2.0
 *
 * request_state.c: numbers of a request: state groups and explicit noise. Names are matched exactly and never by position: a wrong joint
 * group must not move a robot. */
#include "server/request_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "server/request_parts.h"

enum { LIST_BYTES = 320 };

bool gr_overflows_f32(double v)
{
    return fabs(v) >= 0x1.ffffffp+127; /* half way between the largest float32 and the next power of two */
}

static const char *group_list(const struct gr_info *info, char list[LIST_BYTES])
{
    list[0] = '\0';
    for (int g = 0; g < info->n_state_groups; g++) {
        size_t used = strlen(list);
        snprintf(list + used, LIST_BYTES - used, "%s%s (%d)", g > 0 ? ", " : "", info->state_groups[g].name,
                 info->state_groups[g].dim);
    }
    return list;
}

static bool known_group(const struct gr_info *info, const char *name)
{
    for (int g = 0; g < info->n_state_groups; g++) {
        if (strcmp(info->state_groups[g].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static enum gr_status check_number(const struct gr_json *v, const char *field, bool finite_f32,
                                   struct gr_request_error *why, struct gr_err *err)
{
    if (!gr_json_is_number(v)) {
        return gr_refuse_type(why, err, field, v, "a number");
    }
    double x = gr_json_number(v);
    if (!isfinite(x) || (finite_f32 && gr_overflows_f32(x))) {
        char text[32];
        gr_format_f64(text, x);
        return gr_refuse(why, err, GR_ERR_INPUT, "not_finite", field,
                         "%s is not finite as float32 (%s), expected a finite number", field, text);
    }
    return GR_OK;
}

static enum gr_status parse_group(const struct gr_json *v, const struct gr_group *group, bool finite_f32, double *out,
                                  struct gr_request_error *why, struct gr_err *err)
{
    char field[GR_FIELD_BYTES], base[GR_FIELD_BYTES - 32], expected[64];
    snprintf(base, sizeof base, "%s", gr_field_join(field, "state", group->name));
    snprintf(expected, sizeof expected, "a list of %d numbers", group->dim);
    size_t rows = gr_json_len(v);
    if (gr_json_kind(v) == GR_JSON_ARRAY && rows > 0 && gr_json_kind(gr_json_at(v, 0)) == GR_JSON_ARRAY) {
        if (rows != 1) {
            return gr_refuse(why, err, GR_ERR_INPUT, "wrong_width", base,
                             "%s has %zu rows, expected one row of %d numbers", base, rows, group->dim);
        }
        v = gr_json_at(v, 0);
    }
    if (gr_json_kind(v) != GR_JSON_ARRAY) {
        return gr_refuse_type(why, err, base, v, expected);
    }
    if (gr_json_len(v) != (size_t)group->dim) {
        return gr_refuse(why, err, GR_ERR_INPUT, "wrong_width", base, "%s has %zu values, expected %d", base,
                         gr_json_len(v), group->dim);
    }
    for (int i = 0; i < group->dim; i++) {
        const struct gr_json *x = gr_json_at(v, (size_t)i);
        snprintf(field, sizeof field, "%s[%d]", base, i);
        GR_TRY(check_number(x, field, finite_f32, why, err));
        out[i] = gr_json_number(x);
    }
    return GR_OK;
}

enum gr_status gr_request_state(const struct gr_json *state, const struct gr_info *info, bool finite_f32, double *out,
                                struct gr_request_error *why, struct gr_err *err)
{
    char list[LIST_BYTES], field[GR_FIELD_BYTES], expected[LIST_BYTES + 32];
    if (gr_json_kind(state) != GR_JSON_OBJECT) {
        snprintf(expected, sizeof expected, "an object of groups: %s", group_list(info, list));
        return gr_refuse_type(why, err, "state", state, expected);
    }
    for (void *it = gr_json_first(state); it != NULL; it = gr_json_next(state, it)) {
        if (!known_group(info, gr_json_key(it))) {
            return gr_refuse(why, err, GR_ERR_INPUT, "unknown_group", gr_field_join(field, "state", gr_json_key(it)),
                             "unknown state group \"%.80s\", expected: %s", gr_json_key(it), group_list(info, list));
        }
    }
    for (int g = 0, offset = 0; g < info->n_state_groups; offset += info->state_groups[g].dim, g++) {
        const struct gr_group *group = &info->state_groups[g];
        const struct gr_json *v = gr_json_get(state, group->name);
        if (v == NULL) {
            return gr_refuse(why, err, GR_ERR_INPUT, "missing_group", gr_field_join(field, "state", group->name),
                             "state group %s is missing, expected: %s", group->name, group_list(info, list));
        }
        GR_TRY(parse_group(v, group, finite_f32, out + offset, why, err));
    }
    return GR_OK;
}

static enum gr_status noise_row(const struct gr_json *row, int r, int cols, float *out, struct gr_request_error *why,
                                struct gr_err *err)
{
    char field[GR_FIELD_BYTES];
    snprintf(field, sizeof field, "noise[%d]", r);
    if (gr_json_is_number(row)) {
        return gr_refuse(why, err, GR_ERR_INPUT, "wrong_shape", field, "%s is a number, expected a row of %d numbers",
                         field, cols);
    }
    if (gr_json_kind(row) != GR_JSON_ARRAY) {
        return gr_refuse_type(why, err, field, row, "a list of numbers");
    }
    if (gr_json_len(row) != (size_t)cols) {
        return gr_refuse(why, err, GR_ERR_INPUT, "wrong_shape", field, "%s has %zu numbers, expected %d", field,
                         gr_json_len(row), cols);
    }
    for (int i = 0; i < cols; i++) {
        const struct gr_json *x = gr_json_at(row, (size_t)i);
        if (!gr_json_is_number(x) || gr_overflows_f32(gr_json_number(x))) {
            snprintf(field, sizeof field, "noise[%d][%d]", r, i);
            return check_number(x, field, true, why, err);
        }
        out[i] = (float)gr_json_number(x);
    }
    return GR_OK;
}

enum gr_status gr_request_noise(const struct gr_json *v, const struct gr_info *info, float *out,
                                struct gr_request_error *why, struct gr_err *err)
{
    const int rows = info->horizon, cols = info->max_action_dim;
    if (gr_json_kind(v) != GR_JSON_ARRAY) {
        return gr_refuse_type(why, err, "noise", v, "a list of rows of numbers");
    }
    const struct gr_json *inner = gr_json_at(v, 0);
    if (gr_json_len(v) == 1 && gr_json_kind(inner) == GR_JSON_ARRAY &&
        gr_json_kind(gr_json_at(inner, 0)) == GR_JSON_ARRAY) {
        v = inner; /* [1, rows, cols]; indices in messages leave out the leading 0 */
    }
    if (gr_json_len(v) != (size_t)rows) {
        return gr_refuse(why, err, GR_ERR_INPUT, "wrong_shape", "noise",
                         "noise has %zu rows, expected [%d, %d] or [1, %d, %d] numbers", gr_json_len(v), rows, cols,
                         rows, cols);
    }
    for (int r = 0; r < rows; r++) {
        GR_TRY(noise_row(gr_json_at(v, (size_t)r), r, cols, out + (size_t)r * (size_t)cols, why, err));
    }
    return GR_OK;
}
