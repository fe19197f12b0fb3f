/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_text.c: see plan_text.h. A matrix is called "vit.3.fc1": part, layer, role; matrices of one role and format are one line. */
#include "cli/plan_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"

static void pcc_cell(struct gr_table *t, double pcc)
{
    if (isnan(pcc)) {
        gr_table_cell(t, "constant");
    } else {
        gr_table_cellf(t, "%.6f", pcc);
    }
}

static void text_tries(const struct gr_plan *plan, struct gr_buf *out)
{
    struct gr_table t = {.columns = 8, .align = "llrrrllr", .indent = 2};
    const char *const head[] = {"tried", "observation", "actions PCC", "slice PCC", "max|d|", "", "worst group", "PCC"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        gr_table_cell(&t, head[i]);
    }
    for (int i = 0; i < plan->n_tries; i++) {
        for (int k = 0; k < plan->tries[i].judged; k++) {
            const struct gr_verdict *v = &plan->tries[i].verdict[k];
            gr_table_cell(&t, k == 0 ? plan->tries[i].step : "");
            gr_table_cellf(&t, "%d, %s", k + 1, gr_plan_gates(k) ? "gate" : "report");
            pcc_cell(&t, v->pcc);
            pcc_cell(&t, v->pcc_slice);
            gr_table_cellf(&t, "%.2e", v->max_abs);
            gr_table_cell(&t, v->pass ? "passes" : "fails");
            gr_table_cell(&t, v->worst_group);
            if (v->worst_group[0] != '\0') {
                pcc_cell(&t, v->worst_pcc);
            }
            gr_table_end_row(&t);
        }
    }
    gr_table_print(&t, out);
}

/* "vit.3.fc1" to "vit.*.fc1" and 3; a name without a layer stays as it is: -1. */
static int role_of(const char *name, char role[GR_PLAN_NAME_BYTES])
{
    const char *dot = strchr(name, '.');
    const size_t digits = dot != NULL ? strspn(dot + 1, "0123456789") : 0;
    if (digits == 0 || digits > 6 || dot[1 + digits] != '.') {
        snprintf(role, GR_PLAN_NAME_BYTES, "%s", name);
        return -1;
    }
    snprintf(role, GR_PLAN_NAME_BYTES, "%.*s*%s", (int)(dot + 1 - name), name, dot + 1 + digits);
    return atoi(dot + 1);
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* n layers as ranges: "0-3, 7". In order of number: the order of use may be another one. */
static void put_ranges(int *layers, int n, struct gr_buf *out)
{
    if (n > 1) {
        qsort(layers, (size_t)n, sizeof *layers, by_number);
    }
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && layers[end] == layers[end - 1] + 1; end++) {
        }
        gr_buf_printf(out, "%s%d", first > 0 ? ", " : "", layers[first]);
        if (end - first > 1) {
            gr_buf_printf(out, "-%d", layers[end - 1]);
        }
    }
}

/* Matrix i and all later ones of the same role and format; marks them. */
static void text_role(const struct gr_plan *plan, int i, bool *done, int *layers, struct gr_table *t)
{
    char role[GR_PLAN_NAME_BYTES], other[GR_PLAN_NAME_BYTES];
    struct gr_buf ranges = {0};
    double error = -1.0;
    int n = 0;
    (void)role_of(plan->matrices[i].name, role);
    for (int m = i; m < plan->n_matrices; m++) {
        const struct gr_plan_matrix *mat = &plan->matrices[m];
        const int layer = role_of(mat->name, other);
        if (done[m] || strcmp(role, other) != 0 || strcmp(mat->format, plan->matrices[i].format) != 0) {
            continue;
        }
        done[m] = true;
        error = fmax(error, mat->error);
        if (layer >= 0) {
            layers[n++] = layer;
        }
    }
    put_ranges(layers, n, &ranges);
    gr_table_cell(t, role);
    gr_table_cell(t, ranges.data != NULL ? ranges.data : "");
    gr_table_cell(t, plan->matrices[i].format);
    if (error >= 0.0) {
        gr_table_cellf(t, "%.1e", error);
    } else {
        gr_table_cell(t, "not measured");
    }
    gr_buf_free(&ranges);
}

static void text_matrices(const struct gr_plan *plan, struct gr_buf *out)
{
    struct gr_table t = {.columns = 4, .align = "lllr", .indent = 2};
    bool *done = calloc((size_t)plan->n_matrices + 1, sizeof *done);
    int *layers = calloc((size_t)plan->n_matrices + 1, sizeof *layers);
    if (done == NULL || layers == NULL) {
        out->failed = true;
        free(done);
        free(layers);
        return;
    }
    gr_table_cell(&t, "matrix");
    gr_table_cell(&t, "layers");
    gr_table_cell(&t, "format");
    gr_table_cell(&t, "largest error");
    for (int i = 0; i < plan->n_matrices; i++) {
        if (!done[i]) {
            text_role(plan, i, done, layers, &t);
        }
    }
    gr_table_print(&t, out);
    free(done);
    free(layers);
}

void gr_plan_text(const struct gr_plan *plan, struct gr_buf *out)
{
    gr_buf_line(out, "formats        %s (asked: %s%s%s)\n", plan->step, plan->asked,
                plan->half[0] != '\0' ? "; 16-bit: " : "", plan->half);
    if (plan->kept) {
        gr_buf_line(out, "  kept in  %s\n", plan->file);
    }
    gr_buf_line(out, "  on       %s\n", plan->cpu);
    for (int i = 0; i < plan->n_peaks; i++) {
        gr_buf_line(out, "  peak     %s %.0f Gop/s of a thread (%s)\n", plan->peaks[i].format, plan->peaks[i].gops,
                    plan->peaks[i].isa);
    }
    if (plan->n_tries > 0) {
        text_tries(plan, out);
    }
    if (plan->n_matrices > 0) {
        text_matrices(plan, out);
    }
}
