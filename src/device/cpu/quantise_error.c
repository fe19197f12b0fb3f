/* SPDX-License-Identifier: Apache-2.0
 *
 * quantise_error.c: what a format costs: the calibration rows times the exact matrix and times the new one, both by the kernels that a
 * predict uses. A panel at a time, so that no whole output is held; the panels' sums are added in order. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/quantise_job.h"

struct measure {
    const struct gr_quant_job *job;
    struct gr_acts acts[2]; /* as the exact matrix and as the new one takes them */
    float *out[2];          /* [threads][n][64] */
    double *sums;           /* [panels][2]: difference, exact; squared */
};

static void pack(int id, int n, void *arg)
{
    const struct measure *m = arg;
    const struct gr_quant_job *job = m->job;
    int r0, r1;
    gr_pool_share(id, n, job->rows->n, &r0, &r1);
    for (int i = 0; i < 2; i++) {
        const struct gr_row_source src = {
            .x = job->rows->x, .ldx = job->rows->k, .smooth = i == 0 ? NULL : job->out->smooth};
        job->q->kernels->pack_rows[m->acts[i].format](&m->acts[i], &src, r0, r1, job->q->scratch[id]);
    }
}

/* Panel p of w as a matrix of its own. */
static struct gr_mat one_panel(const struct gr_mat *w, int p)
{
    const size_t first = (size_t)p * (size_t)gr_mat_cols(w->format);
    struct gr_mat panel = *w;
    panel.n = gr_mat_cols(w->format);
    panel.panels = 1;
    panel.data = (const char *)w->data + (size_t)p * gr_mat_panel_bytes(w);
    panel.bias = w->bias + first;
    panel.scale = w->scale != NULL ? w->scale + first : NULL;
    panel.offset = w->offset != NULL ? w->offset + first : NULL;
    return panel;
}

static void compare_panel(const struct measure *m, int id, int p)
{
    const struct gr_quant_job *job = m->job;
    const int cols = gr_mat_cols(job->out->format), parts = cols / GR_PANEL, rows = job->rows->n;
    float *y[2];
    for (int i = 0; i < 2; i++) {
        y[i] = m->out[i] + (size_t)id * (size_t)rows * GR_PANEL_MAX;
    }
    for (int i = 0; i <= parts; i++) { /* the exact panels, then the new one */
        const struct gr_mat *mat = i < parts ? job->exact : job->out;
        const int panel = i < parts ? p * parts + i : p;
        if (panel >= mat->panels) { /* an odd last panel of 32 beside 64 */
            continue;
        }
        const struct gr_mat w = one_panel(mat, panel);
        const struct gr_gemm g = {.w = &w,
                                  .a = &m->acts[i < parts ? 0 : 1],
                                  .out = i < parts ? y[0] + (size_t)i * GR_PANEL : y[1],
                                  .ldo = GR_PANEL_MAX,
                                  .epilogue = GR_EPI_STORE};
        job->q->kernels->gemm[w.format](&g, 0, 1, job->q->scratch[id]);
    }
    const int left = (job->exact->panels - p * parts) * GR_PANEL;
    double *sums = m->sums + 2 * (size_t)p;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < cols && c < left; c++) {
            const size_t i = (size_t)r * GR_PANEL_MAX + (size_t)c;
            const double want = (double)y[0][i], d = (double)y[1][i] - want;
            sums[0] += d * d;
            sums[1] += want * want;
        }
    }
}

static void compare(int id, int n, void *arg)
{
    const struct measure *m = arg;
    int p0, p1;
    gr_pool_share(id, n, m->job->out->panels, &p0, &p1);
    for (int p = p0; p < p1; p++) {
        compare_panel(m, id, p);
    }
}

static size_t aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

enum gr_status gr_quant_measure(const struct gr_quant_job *job, double *error, struct gr_err *err)
{
    struct measure m = {.job = job};
    const size_t rows = (size_t)job->rows->n, threads = (size_t)gr_pool_threads(job->q->pool);
    const size_t vector = aligned(rows * sizeof(float)), out = aligned(threads * rows * GR_PANEL_MAX * sizeof(float));
    const struct gr_mat *mats[2] = {job->exact, job->out};
    size_t data[2], sums = aligned(2 * (size_t)job->out->panels * sizeof(double)), total = sums;
    for (int i = 0; i < 2; i++) {
        data[i] = aligned(rows * gr_acts_row_bytes(gr_mat_rows(mats[i]->format), job->exact->k));
        total += data[i] + 2 * vector + out;
    }
    void *block;
    GR_TRY(gr_big_alloc(total, "error of a number format", &block, err));
    char *at = block;
    m.sums = (double *)at;
    at += sums;
    for (int i = 0; i < 2; i++) {
        const enum gr_row_format format = gr_mat_rows(mats[i]->format);
        m.acts[i] = (struct gr_acts){.format = format,
                                     .m = job->rows->n,
                                     .k = job->exact->k,
                                     .k_pad = gr_row_pad(format, job->exact->k),
                                     .data = at,
                                     .scale = (float *)(at + data[i]),
                                     .zero = (float *)(at + data[i] + vector)};
        m.out[i] = (float *)(at + data[i] + 2 * vector);
        at += data[i] + 2 * vector + out;
    }
    gr_pool_run(job->q->pool, pack, &m);
    gr_pool_run(job->q->pool, compare, &m);
    double difference = 0, exact = 0;
    for (int p = 0; p < job->out->panels; p++) {
        difference += m.sums[2 * p];
        exact += m.sums[2 * p + 1];
    }
    gr_big_free(block, total);
    /* What overflows in the new format only is the format's fault. */
    *error = !isfinite(difference) ? INFINITY : exact > 0 ? sqrt(difference / exact) : difference > 0 ? 1.0 : 0.0;
    if (!isfinite(exact)) {
        return gr_fail(
            err, GR_ERR_FORMAT,
            "calibration of a %d x %d matrix: products hold NaN or infinity; the checkpoint's weights are too "
            "large for single precision",
            job->exact->n, job->exact->k);
    }
    return GR_OK;
}
