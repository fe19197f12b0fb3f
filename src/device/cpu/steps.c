/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c: the steps that all stages share: split work over threads, pack rows, multiply, attend, hand out taps. */
#include <stdarg.h>
#include <stdio.h>

#include "device/cpu/cpu_device.h"

enum { TAP_NAME_BYTES = 64 };

void gr_cpu_share(const struct cpu_thread *t, int items, int *first, int *end)
{
    gr_pool_share(t->id, t->n, items, first, end);
}

void gr_cpu_barrier(const struct cpu_thread *t) { gr_pool_barrier(t->dev->pool); }

/* All threads must leave at the same layer, or the others wait at a barrier for ever. So only thread 0 looks at the flag, and everybody acts
 * on what it saw one layer ago: a barrier lies between that write and these reads, and another one before the slot is written again. */
bool gr_cpu_stop(struct cpu_thread *t)
{
    struct cpu_run *r = t->run;
    const unsigned i = t->layer++;
    if (t->id == 0) {
        r->stop[i & 1] = r->in->cancel != NULL && atomic_load_explicit(r->in->cancel, memory_order_relaxed);
    }
    return r->stop[(i + 1) & 1];
}

void gr_cpu_pack(struct cpu_thread *t, const float *x, const int32_t *index, int m, int k,
                 const struct gr_row_norm *norm)
{
    int r0, r1;
    gr_cpu_share(t, m, &r0, &r1);
    t->acts = (struct gr_acts){.m = m, .k = k, .k_pad = gr_pad16(k), .data = t->dev->s.pack};
    const struct gr_row_source src = {.x = x, .ldx = k, .index = index, .norm = norm};
    t->run->kernels->pack_rows[t->acts.format](&t->acts, &src, r0, r1, t->dev->s.thread[t->id]);
    gr_cpu_barrier(t);
}

void gr_cpu_gemm(const struct cpu_thread *t, const struct gr_mat *w, const float *bias, enum gr_epilogue e, float *out)
{
    int p0, p1;
    gr_cpu_share(t, w->panels, &p0, &p1);
    const int columns = e == GR_EPI_SILU_MUL ? w->n / 2 : w->n;
    struct gr_gemm g = {.w = w, .a = &t->acts, .bias = bias, .out = out, .ldo = columns, .epilogue = e};
    t->run->kernels->gemm[w->format](&g, p0, p1, t->dev->s.thread[t->id]);
    gr_cpu_barrier(t);
}

void gr_cpu_linear(struct cpu_thread *t, const float *x, int m, const struct gr_row_norm *norm, const struct gr_mat *w,
                   enum gr_epilogue e, float *out)
{
    gr_cpu_pack(t, x, NULL, m, w->k, norm);
    gr_cpu_gemm(t, w, NULL, e, out);
}

void gr_cpu_attention(const struct cpu_thread *t, const struct cpu_heads *h)
{
    int first, end;
    gr_cpu_share(t, h->groups * h->heads, &first, &end);
    for (int i = first; i < end; i++) {
        size_t group = (size_t)(i / h->heads), head = (size_t)(i % h->heads), kv = head / (size_t)h->share;
        struct gr_attention a = {.q = h->q + group * (size_t)h->m * (size_t)h->ldq + head * (size_t)h->d,
                                 .ldq = h->ldq,
                                 .k = h->k + group * (size_t)h->s * (size_t)h->ldk + kv * (size_t)h->d,
                                 .ldk = h->ldk,
                                 .v = h->v + group * (size_t)h->s * (size_t)h->ldv + kv * (size_t)h->d,
                                 .ldv = h->ldv,
                                 .o = h->o + group * (size_t)h->m * (size_t)h->ldo + head * (size_t)h->d,
                                 .ldo = h->ldo,
                                 .m = h->m,
                                 .s = h->s,
                                 .d = h->d,
                                 .causal = h->causal,
                                 .scale = 1.0f / __builtin_sqrtf((float)h->d)};
        t->run->kernels->attention(&a, t->dev->s.thread[t->id]);
    }
    gr_cpu_barrier(t);
}

void gr_cpu_tap(const struct cpu_thread *t, const float *data, int rows, int cols, int ld, const char *fmt, ...)
{
    const struct gr_tap_sink *taps = t->run->taps;
    if (taps == NULL) {
        return;
    }
    if (t->id == 0) {
        char name[TAP_NAME_BYTES];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(name, sizeof name, fmt, ap);
        va_end(ap);
        taps->put(taps->user, name, data, rows, cols, ld);
    }
    gr_cpu_barrier(t); /* nobody goes on to overwrite `data` */
}
