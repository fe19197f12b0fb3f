/* SPDX-License-Identifier: Apache-2.0
 *
 * feedback.c: u_k of all k by recursive least squares from the last k to the first: P = (lambda I + sum over j >= k of x_j x_j^T)^-1 grows
 * by one x at a time (Sherman-Morrison), which only ever adds positive terms, so that single precision holds 5 digits; the usual order,
 * taking terms away, loses all of them at the end. 32 k at a time, so that nearly all of it is matrix products.
 * Rows are scaled to a mean energy of 1 beforehand: u . s does not depend on the scale, and squares cannot overflow. */
#include "device/cpu/feedback.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { B = GR_FEEDBACK_BLOCK, SUB = 8 /* k between two products inside a block */ };

/* Single precision carries P for a ratio of eigenvalues of 1e6. */
static const double DAMPING_LEAST = 1e-4;

struct place {
    double energy;
    int k;
};

struct job {
    struct gr_pool *pool;
    const struct gr_kernels *kernels;
    const float *x, *smooth;
    double damping, norm; /* norm: rows are multiplied with it */
    const struct gr_feedback *f;
    struct place *place; /* [k] */
    int ld;              /* r padded to panels */
    float *p;            /* [ld][ld]: P */
    float *y;            /* [32][ld]: P x of the block's k, then as they enter P */
    float *minus_u;      /* [ld][32] */
};

static int compare_places(const void *a, const void *b)
{
    const struct place *l = a, *r = b;
    return l->energy != r->energy ? (l->energy < r->energy ? 1 : -1) : (l->k > r->k) - (l->k < r->k);
}

static void measure_energy(int id, int n, void *arg)
{
    const struct job *j = arg;
    int k0, k1;
    gr_pool_share(id, n, j->f->k, &k0, &k1);
    for (int k = k0; k < k1; k++) {
        j->place[k] = (struct place){.energy = 0, .k = k};
    }
    for (int r = 0; r < j->f->r; r++) {
        const float *x = j->x + (size_t)r * (size_t)j->f->k;
        for (int k = k0; k < k1; k++) {
            const double v = (double)x[k] * (j->smooth != NULL ? (double)j->smooth[k] : 1.0);
            j->place[k].energy += v * v;
        }
    }
}

/* Blocks of X in the order of rounding, and their transposes where u will stand. */
static void gather_blocks(const struct job *j, int b0, int b1)
{
    const struct gr_feedback *f = j->f;
    for (int b = b0; b < b1; b++) {
        float *x = f->x + (size_t)b * (size_t)f->r * B, *xt = f->u + (size_t)b * (size_t)f->r * B;
        for (int i = 0; i < B && b * B + i < f->k; i++) {
            const int k = f->order[b * B + i];
            const double scale = j->norm * (j->smooth != NULL ? (double)j->smooth[k] : 1.0);
            for (int r = 0; r < f->r; r++) {
                const float v = (float)((double)j->x[(size_t)r * (size_t)f->k + (size_t)k] * scale);
                x[r * B + i] = xt[i * f->r + r] = v;
            }
        }
    }
}

static void multiply(const struct job *j, const float *a, int lda, const float *b, int ldb, float *c, int ldc, int m,
                     int n, int k)
{
    j->kernels->multiply_add(
        &(struct gr_multiply){.a = a, .lda = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc, .m = m, .n = n, .k = k});
}

/* From y = P x for all k of the block, P without the block, to y = P_(k + 1) x_k and u_k = P_k x_k: the k are entered from the last to
 * the first, each takes its part out of those before it. Columns [c0, c1) of y and u; g [32][32] = x_i . P x_j. */
static void enter_block(const struct job *j, int block, int c0, int c1, float *g)
{
    const struct gr_feedback *f = j->f;
    float *u = f->u + (size_t)block * (size_t)f->r * B, *gram = f->gram + (size_t)block * B * B;
    for (int k = B - 1; k >= 0; k--) {
        const float share = 1.0f / (1.0f + g[k * B + k]);
        float *y = j->y + (size_t)k * (size_t)j->ld;
        for (int i = 0; i < k; i++) {
            const float part = share * g[i * B + k];
            float *before = j->y + (size_t)i * (size_t)j->ld;
            for (int c = c0; c < c1; c++) {
                before[c] -= part * y[c];
            }
            for (int h = 0; h < k; h++) {
                g[i * B + h] -= part * g[k * B + h];
            }
        }
        for (int c = c0; c < c1; c++) {
            j->minus_u[(size_t)c * B + (size_t)k] = -share * y[c];
        }
        for (int c = c0; c < c1 && c < f->r; c++) {
            u[k * f->r + c] = share * y[c];
        }
        for (int i = 0; i < k && c0 == 0 && c1 > 0; i++) {
            gram[k * B + i] = share * g[k * B + i];
        }
    }
}

/* SPMD. A thread owns some columns of y and u and the same rows of P. */
static void solve(int id, int n, void *arg)
{
    const struct job *j = arg;
    const struct gr_feedback *f = j->f;
    const int blocks = f->k_pad / B, ld = j->ld;
    int b0, b1, c0, c1;
    gr_pool_share(id, n, blocks, &b0, &b1);
    gather_blocks(j, b0, b1);
    gr_pool_share(id, n, ld / GR_PANEL, &c0, &c1);
    c0 *= GR_PANEL;
    c1 *= GR_PANEL;
    for (int c = c0; c < c1; c++) {
        j->p[(size_t)c * (size_t)ld + (size_t)c] = (float)(1.0 / j->damping);
    }
    for (int b = blocks - 1; b >= 0; b--) {
        float *x = f->x + (size_t)b * (size_t)f->r * B, *xt = f->u + (size_t)b * (size_t)f->r * B;
        float g[B * B] = {0};
        gr_pool_barrier(j->pool);
        for (int i = 0; i < B; i++) {
            memset(j->y + (size_t)i * (size_t)ld + c0, 0, (size_t)(c1 - c0) * sizeof(float));
        }
        multiply(j, xt, f->r, j->p + c0, ld, j->y + c0, ld, B, c1 - c0, f->r);
        gr_pool_barrier(j->pool);
        multiply(j, j->y, ld, x, B, g, B, B, B, f->r);
        gr_pool_barrier(j->pool);
        enter_block(j, b, c0, c1, g);
        gr_pool_barrier(j->pool);
        multiply(j, j->minus_u + (size_t)c0 * B, B, j->y, ld, j->p + (size_t)c0 * (size_t)ld, ld, c1 - c0, ld, B);
    }
}

/* One block of memory for what stays, one for the work. */
static enum gr_status allocate(struct job *j, struct gr_feedback *f, void **work, size_t *work_bytes,
                               struct gr_err *err)
{
    const size_t k = (size_t)f->k_pad, r = (size_t)f->r, ld = (size_t)j->ld;
    if (k > SIZE_MAX / 64 / (r + B + 1)) {
        return gr_fail(err, GR_ERR_NOMEM, "error feedback: %d rows of %d are too large", f->r, f->k);
    }
    f->bytes = (2 * r * k + B * k) * sizeof(float) + k * sizeof(int32_t);
    *work_bytes = (ld * ld + 2 * ld * B) * sizeof(float) + (size_t)f->k * sizeof(struct place);
    GR_TRY(gr_big_alloc(f->bytes, "error feedback", &f->block, err));
    f->x = f->block;
    f->u = f->x + r * k;
    f->gram = f->u + r * k;
    f->order = (int32_t *)(f->gram + B * k);
    GR_TRY(gr_big_alloc(*work_bytes, "error feedback", work, err));
    j->p = *work;
    j->y = j->p + ld * ld;
    j->minus_u = j->y + ld * B;
    j->place = (struct place *)(j->minus_u + ld * B); /* ld is a multiple of 32: aligned */
    return GR_OK;
}

enum gr_status gr_feedback_make(struct gr_pool *pool, const struct gr_kernels *kernels, const float *x, int r, int k,
                                const float *smooth, double damping, struct gr_feedback *out, struct gr_err *err)
{
    struct job j = {
        .pool = pool, .kernels = kernels, .x = x, .smooth = smooth, .damping = fmax(damping, DAMPING_LEAST), .f = out};
    void *work = NULL;
    size_t work_bytes = 0;
    *out = (struct gr_feedback){.r = r, .k = k, .k_pad = (k + B - 1) / B * B};
    j.ld = (r + GR_PANEL - 1) / GR_PANEL * GR_PANEL;
    enum gr_status status = allocate(&j, out, &work, &work_bytes, err);
    if (status != GR_OK) {
        goto out;
    }
    gr_pool_run(pool, measure_energy, &j);
    qsort(j.place, (size_t)k, sizeof *j.place, compare_places);
    double energy = 0;
    for (int i = 0; i < out->k_pad; i++) {
        out->order[i] = i < k ? j.place[i].k : i;
        energy += i < k ? j.place[i].energy : 0.0;
    }
    if (!isfinite(energy)) {
        status = gr_fail(err, GR_ERR_FORMAT, "error feedback: %d calibration rows of %d hold NaN or infinity", r, k);
    } else if (r == 0 || energy < 1e-60) { /* nothing to learn from; its root is still a normal float */
        out->r = 0;
    } else {
        j.norm = sqrt(r / energy);
        gr_pool_run(pool, solve, &j);
    }
out:
    if (work != NULL) {
        gr_big_free(work, work_bytes);
    }
    if (status != GR_OK) {
        gr_feedback_free(out);
    }
    return status;
}

void gr_feedback_free(struct gr_feedback *f)
{
    if (f->block != NULL) {
        gr_big_free(f->block, f->bytes);
    }
    *f = (struct gr_feedback){0};
}

/* Row i of 32 columns: q and what is left, w - q scale. Adding and taking away 1.5 * 2^23 rounds to nearest even. */
static void round_row(const float *v, const float *scale, const float *inverse, float *w, float *q)
{
    for (int c = 0; c < GR_PANEL; c++) {
        float t = v[c] * inverse[c];
        t = t > 127.0f ? 127.0f : t;
        t = t < -127.0f ? -127.0f : t;
        t = (t + 12582912.0f) - 12582912.0f;
        q[c] = t;
        w[c] -= t * scale[c];
    }
}

void gr_feedback_round(const struct gr_feedback *f, const struct gr_kernels *kernels, int block, float *w,
                       const float *scale, const float *inverse, float *q, float *s)
{
    const struct job j = {.kernels = kernels};
    const float *gram = f->gram + (size_t)block * B * B;
    float wanted[B * GR_PANEL];
    memcpy(wanted, w, sizeof wanted);
    multiply(&j, f->u + (size_t)block * (size_t)f->r * B, f->r, s, GR_PANEL, wanted, GR_PANEL, B, GR_PANEL, f->r);
    for (int i0 = 0; i0 < B; i0 += SUB) {
        for (int i = i0; i < i0 + SUB; i++) {
            const float *e = w + (size_t)i * GR_PANEL;
            round_row(wanted + (size_t)i * GR_PANEL, scale, inverse, w + (size_t)i * GR_PANEL,
                      q + (size_t)i * GR_PANEL);
            for (int h = i + 1; h < i0 + SUB && f->r > 0; h++) {
                const float g = gram[h * B + i];
                for (int c = 0; c < GR_PANEL; c++) {
                    wanted[h * GR_PANEL + c] += g * e[c];
                }
            }
        }
        const int done = i0 + SUB;
        if (f->r > 0 && done < B) {
            multiply(&j, gram + done * B + i0, B, w + (size_t)i0 * GR_PANEL, GR_PANEL, wanted + done * GR_PANEL,
                     GR_PANEL, B - done, GR_PANEL, SUB);
        }
    }
    multiply(&j, f->x + (size_t)block * (size_t)f->r * B, B, w, GR_PANEL, s, GR_PANEL, f->r, GR_PANEL, B);
}
