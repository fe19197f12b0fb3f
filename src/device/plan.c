/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c: a plan as a JSON file and back. What a reader would get wrong: a number that JSON cannot hold is written as null, and null
 * means something else in each place: a correlation that is undefined (constant values), a difference that is infinite. And "check" is
 * the checksum of the whole text with zeros in its own place, so that a flipped digit is not believed. */
#include "device/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/utf8.h"

enum { FILE_MAX = 8 << 20, MATRICES_MAX = 8192, KIND = 1 /* of file: another number is another layout */, HEX = 16 };
static const char no_check[] = "0000000000000000", check_key[] = "\"check\": \"";
/* Correlations are computed in double, so that one of equal arrays may be a little above 1. */
static const double PCC_MAX = 1.0 + 1e-9;
static const double GOPS_MAX = 1e9;

void gr_plan_free(struct gr_plan *plan)
{
    free(plan->matrices);
    *plan = (struct gr_plan){0};
}

/* ---- writing ---- */

static void put_verdict(struct gr_jw *w, const struct gr_verdict *v)
{
    gr_jw_object(w);
    gr_jw_put_f64(w, "pcc", v->pcc);
    gr_jw_put_f64(w, "pcc_slice", v->pcc_slice);
    gr_jw_put_f64(w, "max_abs", v->max_abs);
    gr_jw_put_f64(w, "worst_pcc", v->worst_pcc);
    gr_jw_put_string(w, "worst_group", v->worst_group);
    gr_jw_put_bool(w, "pass", v->pass);
    gr_jw_end_object(w);
}

static void put_tries(struct gr_jw *w, const struct gr_plan *plan)
{
    gr_jw_put_array(w, "tries");
    for (int i = 0; i < plan->n_tries; i++) {
        const struct gr_plan_try *t = &plan->tries[i];
        gr_jw_object(w);
        gr_jw_put_string(w, "step", t->step);
        gr_jw_put_bool(w, "pass", t->pass);
        gr_jw_put_array(w, "verdicts");
        for (int k = 0; k < t->judged; k++) {
            put_verdict(w, &t->verdict[k]);
        }
        gr_jw_end_array(w);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
}

void gr_plan_put_peaks(struct gr_jw *w, const struct gr_plan *plan)
{
    gr_jw_put_array(w, "peaks");
    for (int i = 0; plan != NULL && i < plan->n_peaks; i++) {
        gr_jw_object(w);
        gr_jw_put_string(w, "format", plan->peaks[i].format);
        gr_jw_put_string(w, "isa", plan->peaks[i].isa);
        gr_jw_put_milli(w, "gops", plan->peaks[i].gops);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
}

void gr_plan_put(struct gr_jw *w, const struct gr_plan *plan)
{
    gr_jw_put_string(w, "asked", plan->asked);
    gr_jw_put_string(w, "policy", plan->policy);
    gr_jw_put_string(w, "step", plan->step);
    gr_jw_put_string(w, "half", plan->half);
    gr_jw_put_string(w, "cpu", plan->cpu);
    gr_plan_put_peaks(w, plan);
    put_tries(w, plan);
    gr_jw_put_array(w, "matrices");
    for (int i = 0; i < plan->n_matrices; i++) {
        gr_jw_object(w);
        gr_jw_put_string(w, "name", plan->matrices[i].name);
        gr_jw_put_string(w, "format", plan->matrices[i].format);
        gr_jw_put_f64(w, "error", plan->matrices[i].error);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
}

/* The 16 digits of the checksum in a file's text, NULL when they are not where they are written. */
static char *find_check(char *file, size_t n)
{
    char *at = memmem(file, n, check_key, sizeof check_key - 1);
    return at != NULL && n - (size_t)(at - file) >= sizeof check_key - 1 + HEX ? at + sizeof check_key - 1 : NULL;
}

static void checksum(const char *file, size_t n, char hex[HEX + 1])
{
    (void)snprintf(hex, HEX + 1, "%016" PRIx64, gr_hash64(file, n, KIND));
}

enum gr_status gr_plan_write(const char *path, const char *key, const struct gr_plan *plan, struct gr_err *err)
{
    struct gr_buf out = {0};
    struct gr_jw w = {.out = &out};
    gr_jw_object(&w);
    gr_jw_put_int(&w, "gr00t_plan", KIND);
    gr_jw_put_string(&w, "check", no_check);
    gr_jw_put_string(&w, "key", key);
    gr_plan_put(&w, plan);
    gr_jw_end_object(&w);
    char hex[HEX + 1], *at = out.failed ? NULL : find_check(out.data, out.len);
    if (at == NULL) {
        gr_buf_free(&out);
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for a plan", path);
    }
    checksum(out.data, out.len, hex);
    memcpy(at, hex, HEX);
    enum gr_status status = gr_fs_write(path, out.data, out.len, err);
    gr_buf_free(&out);
    return status;
}

/* ---- reading ---- */

struct reader {
    const char *path;
    struct gr_err *err;
};

static enum gr_status damaged(const struct reader *r, const char *key)
{
    return gr_fail(r->err, GR_ERR_FORMAT, "%s: \"%s\" is missing or is no value of a plan", r->path, key);
}

/* A string of at most cap - 1 bytes that a terminal can show. */
static enum gr_status text(const struct reader *r, const struct gr_json *o, const char *key, char *out, size_t cap)
{
    const struct gr_json *v = gr_json_get(o, key);
    if (gr_json_kind(v) != GR_JSON_STRING || strlen(gr_json_string(v)) >= cap) {
        return damaged(r, key);
    }
    (void)gr_utf8_clean(out, cap, gr_json_string(v));
    return strcmp(out, gr_json_string(v)) == 0 ? GR_OK : damaged(r, key);
}

/* A number in lo..hi. */
static enum gr_status number(const struct reader *r, const struct gr_json *o, const char *key, double lo, double hi,
                             double *out)
{
    const struct gr_json *v = gr_json_get(o, key);
    if (!gr_json_is_number(v)) {
        return damaged(r, key);
    }
    *out = gr_json_number(v);
    return *out >= lo && *out <= hi ? GR_OK : damaged(r, key);
}

/* The same, or null for what JSON cannot hold: `none`. */
static enum gr_status number_or(const struct reader *r, const struct gr_json *o, const char *key, double lo, double hi,
                                double none, double *out)
{
    const struct gr_json *v = gr_json_get(o, key);
    if (v != NULL && gr_json_kind(v) == GR_JSON_NULL) {
        *out = none;
        return GR_OK;
    }
    return number(r, o, key, lo, hi, out);
}

static enum gr_status boolean(const struct reader *r, const struct gr_json *o, const char *key, bool *out)
{
    const struct gr_json *v = gr_json_get(o, key);
    if (gr_json_kind(v) != GR_JSON_BOOL) {
        return damaged(r, key);
    }
    *out = gr_json_bool(v);
    return GR_OK;
}

/* An array of min to max elements. */
static enum gr_status array(const struct reader *r, const struct gr_json *o, const char *key, int min, int max,
                            const struct gr_json **out, int *n)
{
    *out = gr_json_get(o, key);
    const size_t len = gr_json_len(*out);
    if (gr_json_kind(*out) != GR_JSON_ARRAY || len < (size_t)min || len > (size_t)max) {
        return damaged(r, key);
    }
    *n = (int)len;
    return GR_OK;
}

static enum gr_status verdict(const struct reader *r, const struct gr_json *o, struct gr_verdict *out)
{
    GR_TRY(number_or(r, o, "pcc", -PCC_MAX, PCC_MAX, NAN, &out->pcc));
    GR_TRY(number_or(r, o, "pcc_slice", -PCC_MAX, PCC_MAX, NAN, &out->pcc_slice));
    GR_TRY(number_or(r, o, "max_abs", 0.0, HUGE_VAL, INFINITY, &out->max_abs));
    GR_TRY(number(r, o, "worst_pcc", -PCC_MAX, PCC_MAX, &out->worst_pcc));
    GR_TRY(text(r, o, "worst_group", out->worst_group, sizeof out->worst_group));
    return boolean(r, o, "pass", &out->pass);
}

static enum gr_status one_try(const struct reader *r, const struct gr_json *o, struct gr_plan_try *out)
{
    const struct gr_json *list;
    GR_TRY(text(r, o, "step", out->step, sizeof out->step));
    GR_TRY(boolean(r, o, "pass", &out->pass));
    GR_TRY(array(r, o, "verdicts", 0, GR_PLAN_OBSERVATIONS, &list, &out->judged));
    for (int k = 0; k < out->judged; k++) {
        GR_TRY(verdict(r, gr_json_at(list, (size_t)k), &out->verdict[k]));
    }
    return GR_OK;
}

static enum gr_status matrices(const struct reader *r, const struct gr_json *root, struct gr_plan *out)
{
    const struct gr_json *list;
    int n = 0;
    GR_TRY(array(r, root, "matrices", 0, MATRICES_MAX, &list, &n));
    out->matrices = calloc((size_t)n + 1, sizeof *out->matrices);
    if (out->matrices == NULL) {
        return gr_fail(r->err, GR_ERR_NOMEM, "%s: no memory for %d matrices", r->path, n);
    }
    out->n_matrices = n;
    for (int i = 0; i < n; i++) {
        struct gr_plan_matrix *m = &out->matrices[i];
        const struct gr_json *o = gr_json_at(list, (size_t)i);
        GR_TRY(text(r, o, "name", m->name, sizeof m->name));
        GR_TRY(text(r, o, "format", m->format, sizeof m->format));
        GR_TRY(number_or(r, o, "error", -1.0, HUGE_VAL, INFINITY, &m->error));
    }
    return GR_OK;
}

static enum gr_status fields(const struct reader *r, const struct gr_json *root, struct gr_plan *out)
{
    const struct gr_json *list;
    GR_TRY(text(r, root, "asked", out->asked, sizeof out->asked));
    GR_TRY(text(r, root, "policy", out->policy, sizeof out->policy));
    GR_TRY(text(r, root, "step", out->step, sizeof out->step));
    GR_TRY(text(r, root, "half", out->half, sizeof out->half));
    GR_TRY(text(r, root, "cpu", out->cpu, sizeof out->cpu));
    GR_TRY(array(r, root, "peaks", 0, GR_PLAN_PEAKS, &list, &out->n_peaks));
    for (int i = 0; i < out->n_peaks; i++) {
        const struct gr_json *o = gr_json_at(list, (size_t)i);
        GR_TRY(text(r, o, "format", out->peaks[i].format, sizeof out->peaks[i].format));
        GR_TRY(text(r, o, "isa", out->peaks[i].isa, sizeof out->peaks[i].isa));
        GR_TRY(number(r, o, "gops", 0.0, GOPS_MAX, &out->peaks[i].gops));
    }
    GR_TRY(array(r, root, "tries", 0, GR_PLAN_TRIES_MAX, &list, &out->n_tries));
    for (int i = 0; i < out->n_tries; i++) {
        GR_TRY(one_try(r, gr_json_at(list, (size_t)i), &out->tries[i]));
    }
    return matrices(r, root, out);
}

static enum gr_status head(const struct reader *r, const struct gr_json *root, const char *key)
{
    const struct gr_json *kind = gr_json_get(root, "gr00t_plan"), *k = gr_json_get(root, "key");
    if (gr_json_kind(kind) != GR_JSON_INT || gr_json_int(kind) != KIND || gr_json_kind(k) != GR_JSON_STRING) {
        return gr_fail(r->err, GR_ERR_FORMAT, "%s is no plan of this version", r->path);
    }
    if (strcmp(gr_json_string(k), key) != 0) {
        return gr_fail(r->err, GR_ERR_FORMAT,
                       "%s belongs to other weights, another CPU, other settings or another version", r->path);
    }
    return GR_OK;
}

static enum gr_status parse(const struct reader *r, char *file, size_t n, struct gr_json **root)
{
    char want[HEX + 1] = "", got[HEX + 1], *at = find_check(file, n);
    if (at != NULL) {
        memcpy(want, at, HEX);
        memcpy(at, no_check, HEX);
    }
    checksum(file, n, got);
    if (strcmp(want, got) != 0) {
        return gr_fail(r->err, GR_ERR_FORMAT, "%s is damaged: its checksum does not fit", r->path);
    }
    return gr_json_parse(file, n, r->path, GR_ERR_FORMAT, root, r->err);
}

enum gr_status gr_plan_read(const char *path, const char *key, struct gr_plan *out, struct gr_err *err)
{
    struct gr_json *root = NULL;
    char *file = NULL;
    size_t n = 0;
    const struct reader r = {path, err};
    *out = (struct gr_plan){0};
    if (access(path, F_OK) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s", path);
    }
    enum gr_status status = gr_fs_read(path, FILE_MAX, &file, &n, err);
    if (status != GR_OK) { /* a folder, or a file that may not be read, is no plan either */
        return err->code = status == GR_ERR_IO ? GR_ERR_FORMAT : status;
    }
    status = parse(&r, file, n, &root);
    free(file);
    if (status == GR_OK) {
        status = head(&r, root, key);
    }
    if (status == GR_OK) {
        status = fields(&r, root, out);
    }
    gr_json_free(root);
    if (status != GR_OK) {
        gr_plan_free(out);
        return status;
    }
    out->kept = true;
    snprintf(out->file, sizeof out->file, "%s", path);
    return GR_OK;
}
