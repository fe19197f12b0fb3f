/* SPDX-License-Identifier: Apache-2.0
 *
 * quantise.c: one matrix to another format: checks, smoothing, the int8 panels. A thread rounds four panels side by side, so that the
 * calibration rows, which are larger than the panels, are read from memory once for all four. */
#include "device/cpu/quantise.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/feedback.h"
#include "device/cpu/quantise_job.h"

enum { I8_MOST = 127, GROUP = 4, B = GR_FEEDBACK_BLOCK };

/* Lambda of feedback.h in means of |x|^2. The error on rows that were not calibrated with is flat between 0.01 and 0.1: less fits the
 * noise of the calibration rows, 1 gives away half of the gain where rows share a few directions. */
static const double DAMPING = 0.05;
/* Below it 1 / scale would not be a float; weights this small come to nothing anyway. */
static const float SCALE_LEAST = 1e-30f;

struct i8_job {
    const struct gr_quant_job *job;
    struct gr_feedback feedback; /* r 0: to nearest */
    float *stretch;              /* [k]: 1 / smooth */
    float *mean;                 /* [k]: mean row, smoothed; NULL: no bias correction */
    float *largest;              /* [threads][k]: of the weights of each k */
    float *state;                /* [threads][GROUP][r][32] */
};

/* Of one panel while it is rounded. */
struct column {
    float scale[GR_PANEL], inverse[GR_PANEL];
    double correction[GR_PANEL];
    int32_t sum[GR_PANEL];
};

int gr_quant_panels(const struct gr_mat *exact, enum gr_mat_format format)
{
    const int parts = gr_mat_cols(format) / GR_PANEL;
    return (exact->panels + parts - 1) / parts;
}

size_t gr_quant_data_bytes(const struct gr_mat *exact, enum gr_mat_format format)
{
    const struct gr_mat m = {.format = format, .n = exact->n, .k = exact->k};
    return (size_t)gr_quant_panels(exact, format) * gr_mat_panel_bytes(&m);
}

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void gr_quant_read_row(const struct gr_mat *exact, int panel, int k, float *to)
{
    if (panel >= exact->panels || k >= exact->k) {
        memset(to, 0, GR_PANEL * sizeof *to);
        return;
    }
    const size_t row = (size_t)panel * (size_t)gr_pad16(exact->k) + (size_t)k;
    if (exact->format == GR_MAT_F32) {
        memcpy(to, (const float *)exact->data + row * GR_PANEL, GR_PANEL * sizeof *to);
        return;
    }
    const uint32_t *pair = (const uint32_t *)exact->data + row * (GR_PANEL / 2);
    for (int c = 0; c < GR_PANEL / 2; c++) {
        to[c] = float_of_bits(pair[c] << 16);
        to[c + GR_PANEL / 2] = float_of_bits(pair[c] & 0xffff0000u);
    }
}

/* ---- smoothing ---- */

static void find_largest(int id, int n, void *arg)
{
    const struct i8_job *j = arg;
    const struct gr_mat *exact = j->job->exact;
    float *largest = j->largest + (size_t)id * (size_t)exact->k;
    int p0, p1;
    gr_pool_share(id, n, exact->panels, &p0, &p1);
    for (int p = p0; p < p1; p++) {
        for (int k = 0; k < exact->k; k++) {
            float row[GR_PANEL];
            int32_t most = 0; /* floats of one sign are ordered as their bits are */
            gr_quant_read_row(exact, p, k, row);
            for (int c = 0; c < GR_PANEL; c++) {
                int32_t bits;
                memcpy(&bits, &row[c], sizeof bits);
                bits &= 0x7fffffff;
                most = bits > most ? bits : most;
            }
            const float w = float_of_bits((uint32_t)most);
            largest[k] = w > largest[k] ? w : largest[k];
        }
    }
}

/* Geometric mean of the rows' largest values that are not 0; 0 when all are. */
static double typical(const float *largest, int k)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < k; i++) {
        if (largest[i] > 0.0f) {
            sum += log((double)largest[i]);
            n++;
        }
    }
    return n > 0 ? exp(sum / n) : 0.0;
}

/* smooth = 1 / s, s = (max|x| / max|w|)^1/2: rows and weights get the same spread. (An exponent of 0.65 for x is 7 % better on rows of the
 * calibration's distribution, but on other pictures 3 to 15 % worse: largest values of one observation are not to be leant on.) A channel
 * that hardly spoke during the calibration, max|x| below 1/8 of the typical one, is treated as if it had reached that. Where all
 * weights are 0 the rows need not be there at all: smooth 0. */
static void choose_smoothing(const struct i8_job *j)
{
    const struct gr_quant_job *job = j->job;
    const double least = typical(job->rows->largest, job->exact->k) / 8;
    const int k = job->exact->k, threads = gr_pool_threads(job->q->pool);
    for (int i = 0; i < k; i++) {
        double w = 0, x = (double)job->rows->largest[i];
        for (int t = 0; t < threads; t++) {
            w = fmax(w, (double)j->largest[(size_t)t * (size_t)k + (size_t)i]);
        }
        if (least > 0.0) {
            x = x > least ? x : least;
            const double s = w > 0.0 ? fmin(fmax(sqrt(x / w), 1e-15), 1e15) : 0.0; /* 1 / s is a float */
            job->parts->smooth[i] = s > 0.0 ? (float)(1.0 / s) : 0.0f;
            j->stretch[i] = (float)s;
        } else {
            job->parts->smooth[i] = 1.0f;
        }
    }
}

/* ---- int8 panels ---- */

/* One k of a panel, smoothed. */
static void read_smoothed(const struct i8_job *j, int panel, int k, float *row)
{
    gr_quant_read_row(j->job->exact, panel, k, row);
    for (int c = 0; c < GR_PANEL && k < j->job->exact->k; c++) {
        row[c] *= j->stretch[k];
    }
}

static void start_columns(const struct i8_job *j, int panel, struct column *col)
{
    float largest[GR_PANEL] = {0};
    *col = (struct column){0};
    for (int k = 0; k < j->job->exact->k; k++) {
        float row[GR_PANEL];
        read_smoothed(j, panel, k, row);
        for (int c = 0; c < GR_PANEL; c++) {
            const float w = fabsf(row[c]);
            largest[c] = w > largest[c] ? w : largest[c];
        }
    }
    for (int c = 0; c < GR_PANEL; c++) {
        col->scale[c] = fmaxf(largest[c] / I8_MOST, SCALE_LEAST);
        col->inverse[c] = 1.0f / col->scale[c];
    }
}

/* Rounds one block of one panel and writes it: data [k / 4][32][4]. */
static void round_block(const struct i8_job *j, int panel, int block, float *state, struct column *col, int8_t *data)
{
    const struct gr_feedback *f = &j->feedback;
    float w[B * GR_PANEL], q[B * GR_PANEL], sum[GR_PANEL] = {0}, correction[GR_PANEL] = {0};
    for (int i = 0; i < B; i++) {
        read_smoothed(j, panel, f->order[block * B + i], w + (size_t)i * GR_PANEL);
    }
    gr_feedback_round(f, j->job->q->kernels, block, w, col->scale, col->inverse, q, state);
    for (int i = 0; i < B && block * B + i < f->k; i++) {
        const int k = f->order[block * B + i];
        const float mean = j->mean != NULL ? j->mean[k] : 0.0f, *qi = q + (size_t)i * GR_PANEL,
                    *left = w + (size_t)i * GR_PANEL;
        int8_t *to = data + (size_t)(k / 4) * 4 * GR_PANEL + k % 4;
        for (int c = 0; c < GR_PANEL; c++) {
            sum[c] += qi[c];
            correction[c] += mean * left[c];
        }
        for (int c = 0; c < GR_PANEL; c++) {
            to[4 * c] = (int8_t)qi[c];
        }
    }
    for (int c = 0; c < GR_PANEL; c++) {
        col->sum[c] += (int32_t)sum[c];
        col->correction[c] += (double)correction[c];
    }
}

static void round_panels(int id, int n, void *arg)
{
    const struct i8_job *j = arg;
    const struct gr_quant_parts *parts = j->job->parts;
    const size_t panel_bytes = gr_mat_panel_bytes(j->job->out), state = (size_t)j->feedback.r * GR_PANEL;
    float *s = j->state + (size_t)id * GROUP * state;
    struct column col[GROUP];
    int p0, p1;
    gr_pool_share(id, n, j->job->out->panels, &p0, &p1);
    for (int first = p0; first < p1; first += GROUP) {
        const int group = p1 - first < GROUP ? p1 - first : GROUP;
        memset((char *)parts->data + (size_t)first * panel_bytes, 0, (size_t)group * panel_bytes);
        memset(s, 0, (size_t)group * state * sizeof *s);
        for (int g = 0; g < group; g++) {
            start_columns(j, first + g, &col[g]);
        }
        for (int b = 0; b < j->feedback.k_pad / B; b++) {
            for (int g = 0; g < group; g++) {
                round_block(j, first + g, b, s + (size_t)g * state, &col[g],
                            (int8_t *)parts->data + (size_t)(first + g) * panel_bytes);
            }
        }
        for (int i = 0; i < group * GR_PANEL; i++) {
            const struct column *from = &col[i / GR_PANEL];
            const int c = i % GR_PANEL, to = first * GR_PANEL + i;
            parts->scale[to] = from->scale[c];
            parts->offset[to] = from->scale[c] * (float)from->sum[c];
            parts->bias[to] = (float)((double)parts->bias[to] + from->correction[c]);
        }
    }
}

/* Memory of the job behind its feedback; mean NULL without bias correction. */
static enum gr_status allocate(struct i8_job *j, void **block, size_t *bytes, struct gr_err *err)
{
    const struct gr_quant_job *job = j->job;
    const size_t k = (size_t)gr_pad16(job->exact->k), threads = (size_t)gr_pool_threads(job->q->pool);
    const size_t rows = job->rows != NULL ? (size_t)job->rows->n : 0;
    *bytes = (2 * k + threads * k + threads * GROUP * rows * GR_PANEL) * sizeof(float);
    GR_TRY(gr_big_alloc(*bytes, "int8 weights", block, err));
    j->stretch = *block;
    j->mean = j->stretch + k;
    j->largest = j->mean + k;
    j->state = j->largest + threads * k;
    return GR_OK;
}

static enum gr_status quantise_i8(const struct gr_quant_job *job, struct gr_err *err)
{
    const struct gr_quantiser *q = job->q;
    struct i8_job j = {.job = job};
    void *block;
    size_t bytes;
    GR_TRY(allocate(&j, &block, &bytes, err));
    for (int k = 0; k < job->exact->k; k++) {
        j.stretch[k] = 1.0f;
    }
    if (job->out->smooth != NULL) {
        gr_pool_run(q->pool, find_largest, &j);
        choose_smoothing(&j);
    }
    if (job->rows == NULL || !q->bias) {
        j.mean = NULL;
    }
    for (int k = 0; k < job->exact->k && j.mean != NULL; k++) {
        j.mean[k] = job->rows->mean[k] * (job->out->smooth != NULL ? job->out->smooth[k] : 1.0f);
    }
    const bool feedback = job->rows != NULL && q->feedback;
    enum gr_status status =
        gr_feedback_make(q->pool, q->kernels, feedback ? job->rows->x : NULL, feedback ? job->rows->n : 0,
                         job->exact->k, job->out->smooth, DAMPING, &j.feedback, err);
    if (status == GR_OK) {
        gr_pool_run(q->pool, round_panels, &j);
        gr_feedback_free(&j.feedback);
    }
    gr_big_free(block, bytes);
    return status;
}

/* ---- entry ---- */

static void round_16(int id, int n, void *arg)
{
    const struct gr_quant_job *job = arg;
    int p0, p1;
    gr_pool_share(id, n, job->out->panels, &p0, &p1);
    gr_quant_round_panels(job, p0, p1);
}

static enum gr_status check_rows(const struct gr_quant_job *job, struct gr_err *err)
{
    const struct gr_quant_rows *rows = job->rows;
    if (rows->k != job->exact->k || rows->n < 0 || rows->n > GR_QUANT_ROWS) {
        return gr_fail(err, GR_ERR_USAGE, "calibration: %d rows of %d, expected at most %d of %d", rows->n, rows->k,
                       GR_QUANT_ROWS, job->exact->k);
    }
    for (int k = 0; k < rows->k; k++) {
        if (!isfinite(rows->largest[k]) || !isfinite(rows->mean[k])) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "calibration of a %d x %d matrix: input %d is NaN or infinite; the checkpoint's weights "
                           "hold NaN or overflow single precision",
                           job->exact->n, job->exact->k, k);
        }
    }
    return GR_OK;
}

static void set_out(const struct gr_quant_job *job, enum gr_mat_format format)
{
    const struct gr_quant_parts *parts = job->parts;
    const bool i8 = format == GR_MAT_I8;
    const size_t have = (size_t)job->exact->panels * GR_PANEL;
    *job->out = (struct gr_mat){.format = format,
                                .n = job->exact->n,
                                .k = job->exact->k,
                                .panels = gr_quant_panels(job->exact, format),
                                .data = parts->data,
                                .bias = parts->bias,
                                .scale = format == GR_MAT_BF16P ? NULL : parts->scale,
                                .offset = i8 ? parts->offset : NULL,
                                .smooth = i8 && job->q->smooth && job->rows != NULL ? parts->smooth : NULL};
    const size_t need = (size_t)job->out->panels * (size_t)gr_mat_cols(format);
    memcpy(parts->bias, job->exact->bias, have * sizeof(float));
    memset(parts->bias + have, 0, (need - have) * sizeof(float));
    for (int k = 0; k < job->exact->k && i8 && parts->smooth != NULL;
         k++) { /* so that the parts mean the same without out */
        parts->smooth[k] = 1.0f;
    }
}

enum gr_status gr_quantise(const struct gr_quantiser *q, const struct gr_mat *exact, const struct gr_quant_rows *rows,
                           enum gr_mat_format format, const struct gr_quant_parts *parts, struct gr_mat *out,
                           double *error, struct gr_err *err)
{
    struct gr_quant_job job = {
        .q = q, .exact = exact, .rows = rows != NULL && rows->n > 0 ? rows : NULL, .parts = parts, .out = out};
    *error = -1;
    if (job.rows != NULL) {
        GR_TRY(check_rows(&job, err));
    }
    set_out(&job, format);
    if (format == GR_MAT_I8) {
        GR_TRY(quantise_i8(&job, err));
    } else {
        gr_pool_run(q->pool, round_16, &job);
    }
    return job.rows != NULL ? gr_quant_measure(&job, error, err) : GR_OK;
}
