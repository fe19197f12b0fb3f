/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c: checkpoint tensors to panels of 32 columns (layouts in kernels/kernels.h). BF16 tensors stay BF16, two columns to a
 * dword, so that memory traffic is half of fp32 and values are exact; F16 and F32 tensors become fp32, also exact. */
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/pack.h"

static int source_columns(const struct cpu_source *s) { return (int)(s->per_slot ? s->w->shape[2] : s->w->shape[0]); }

size_t gr_cpu_bias_floats(const struct cpu_pack_job *job) { return (size_t)job->mat->panels * GR_PANEL; }

enum gr_status gr_cpu_mat_plan(struct cpu_pack_job *job, int k, struct gr_err *err)
{
    struct gr_mat *m = job->mat;
    m->n = 0;
    m->k = k;
    m->format = GR_MAT_BF16;
    for (int i = 0; i < job->n_src; i++) {
        m->n += source_columns(&job->src[i]);
        if (job->src[i].w->dtype != GR_BF16) {
            m->format = GR_MAT_F32;
        }
    }
    m->panels = job->interleave ? (m->n / 2 + 15) / 16 : (m->n + GR_PANEL - 1) / GR_PANEL;
    size_t rows;
    if (!gr_size_mul((size_t)m->panels, (size_t)gr_pad16(k), &rows) ||
        !gr_size_mul(rows, m->format == GR_MAT_BF16 ? 64 : 128, &job->data_bytes)) {
        return gr_fail(err, GR_ERR_FORMAT, "tensor %s is too large to pack", job->src[0].w->name);
    }
    return GR_OK;
}

/* Where column c (0..31) of a panel comes from: false for a pad column. */
static bool column_source(const struct cpu_pack_job *job, int panel, int c, const struct cpu_source **src, int *col)
{
    int n;
    if (job->interleave) {
        *src = &job->src[c / 16];
        n = panel * 16 + c % 16;
    } else {
        n = panel * GR_PANEL + c;
        int i = 0;
        while (i < job->n_src - 1 && n >= source_columns(&job->src[i])) {
            n -= source_columns(&job->src[i++]);
        }
        *src = &job->src[i];
    }
    *col = n;
    return n < source_columns(*src);
}

/* Element index of (k = 0, column) and the step to k + 1. */
static void element_walk(const struct cpu_source *s, int k, int col, size_t *first, size_t *step)
{
    if (s->per_slot) {
        size_t in = (size_t)s->w->shape[1], out = (size_t)s->w->shape[2];
        *first = ((size_t)s->slot * in + (size_t)s->in0) * out + (size_t)col;
        *step = out;
    } else {
        *first = (size_t)col * (size_t)k;
        *step = 1;
    }
}

static uint16_t load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A BF16 panel. Reading 32 columns side by side writes every line of the panel once, in order. Returns false on NaN or infinity. */
static bool pack_bf16_panel(const struct cpu_pack_job *job, int panel, uint32_t *dst)
{
    static const uint8_t zero[2];
    const int k = job->mat->k;
    const uint8_t *src[GR_PANEL];
    size_t step[GR_PANEL];
    for (int c = 0; c < GR_PANEL; c++) {
        const struct cpu_source *s;
        int col;
        src[c] = zero; /* pad columns */
        step[c] = 0;
        if (column_source(job, panel, c, &s, &col)) {
            size_t first;
            element_walk(s, k, col, &first, &step[c]);
            src[c] = (const uint8_t *)s->w->data + 2 * first;
        }
    }
    for (size_t i = 0; i < (size_t)k; i++) {
        for (int c = 0; c < 16; c++) {
            uint32_t lo = load_u16(src[c] + 2 * step[c] * i), hi = load_u16(src[c + 16] + 2 * step[c + 16] * i);
            dst[i * 16 + (size_t)c] = lo | hi << 16;
        }
    }
    uint32_t bad = 0;
    for (size_t i = 0; i < (size_t)k * 16; i++) {
        bad |= (uint32_t)((dst[i] & 0x7f80u) == 0x7f80u) | (uint32_t)((dst[i] & 0x7f800000u) == 0x7f800000u);
    }
    return bad == 0;
}

static bool pack_f32_column(const struct cpu_source *s, int k, int col, float *dst)
{
    size_t first, step;
    element_walk(s, k, col, &first, &step);
    bool ok = true;
    for (int i = 0; i < k; i++) {
        float v = gr_tensor_f32(s->w, first + step * (size_t)i);
        ok = ok && v - v == 0.0f;
        dst[(size_t)i * GR_PANEL] = v;
    }
    return ok;
}

static bool pack_f32_panel(const struct cpu_pack_job *job, int panel, float *dst)
{
    bool ok = true;
    for (int c = 0; c < GR_PANEL; c++) {
        const struct cpu_source *src;
        int col;
        if (column_source(job, panel, c, &src, &col)) {
            ok = pack_f32_column(src, job->mat->k, col, dst + c) && ok;
        }
    }
    return ok;
}

static bool pack_panels(const struct cpu_pack_job *job, int p0, int p1)
{
    const struct gr_mat *m = job->mat;
    const size_t k_pad = (size_t)gr_pad16(m->k);
    bool ok = true;
    for (int p = p0; p < p1; p++) {
        if (m->format == GR_MAT_BF16) {
            ok = pack_bf16_panel(job, p, (uint32_t *)m->data + (size_t)p * k_pad * 16) && ok;
        } else {
            ok = pack_f32_panel(job, p, (float *)m->data + (size_t)p * k_pad * GR_PANEL) && ok;
        }
    }
    return ok;
}

/* False when a bias is NaN or infinite. */
static bool pack_bias(const struct cpu_pack_job *job)
{
    bool ok = true;
    for (int p = 0; p < job->mat->panels; p++) {
        for (int c = 0; c < GR_PANEL; c++) {
            const struct cpu_source *src;
            int col;
            bool real = column_source(job, p, c, &src, &col) && src->b != NULL && src->b->data != NULL;
            size_t i = real ? (size_t)col + (src->per_slot ? (size_t)src->slot * (size_t)src->b->shape[1] : 0) : 0;
            float v = real ? gr_tensor_f32(src->b, i) : 0.0f;
            ok = ok && v - v == 0.0f;
            job->bias[p * GR_PANEL + c] = v;
        }
    }
    return ok;
}

/* ---- on all threads ---- */

struct pack_run {
    const struct cpu_pack_job *job;
    _Atomic bool damaged;
};

/* What else a stacked matrix holds, for messages. */
static const char *siblings(const struct cpu_pack_job *job)
{
    return job->interleave ? " (or up_proj beside it)" : job->n_src > 1 ? " (or k, v beside it)" : "";
}

static void pack_share(int id, int n, void *arg)
{
    struct pack_run *r = arg;
    int p0, p1;
    gr_pool_share(id, n, r->job->mat->panels, &p0, &p1);
    if (!pack_panels(r->job, p0, p1)) {
        atomic_store(&r->damaged, true);
    }
}

enum gr_status gr_cpu_pack(struct gr_pool *pool, const struct cpu_pack_job *job, struct gr_err *err)
{
    struct pack_run run = {.job = job};
    if (!pack_bias(job)) {
        return gr_fail(err, GR_ERR_FORMAT, "the bias of tensor %s%s holds NaN or infinity", job->src[0].w->name,
                       siblings(job));
    }
    gr_pool_run(pool, pack_share, &run);
    if (atomic_load(&run.damaged)) {
        return gr_fail(err, GR_ERR_FORMAT, "tensor %s%s holds NaN or infinity", job->src[0].w->name, siblings(job));
    }
    return GR_OK;
}

enum gr_status gr_cpu_temp_mat(struct gr_pool *pool, const struct cpu_source *src, int k, struct cpu_temp_mat *out,
                               struct gr_err *err)
{
    *out = (struct cpu_temp_mat){0};
    struct cpu_pack_job job = {.mat = &out->mat, .n_src = 1, .src = {*src}};
    GR_TRY(gr_cpu_mat_plan(&job, k, err));
    out->bytes = job.data_bytes + gr_cpu_bias_floats(&job) * sizeof(float);
    GR_TRY(gr_big_alloc(out->bytes, "AdaLN weights", &out->block, err));
    out->mat.data = out->block;
    job.bias = (float *)((char *)out->block + job.data_bytes);
    out->mat.bias = job.bias;
    enum gr_status status = gr_cpu_pack(pool, &job, err);
    if (status != GR_OK) {
        gr_big_free(out->block, out->bytes);
    }
    return status;
}

bool gr_cpu_all_finite(const float *x, size_t n)
{
    float sum = 0.0f; /* of zeros, unless something is not finite */
    for (size_t i = 0; i < n; i++) {
        sum += x[i] - x[i];
    }
    return sum == 0.0f;
}

enum gr_status gr_cpu_check_finite(const float *x, size_t n, const struct gr_tensor *t, struct gr_err *err)
{
    return gr_cpu_all_finite(x, n) ? GR_OK : gr_fail(err, GR_ERR_FORMAT, "tensor %s holds NaN or infinity", t->name);
}
