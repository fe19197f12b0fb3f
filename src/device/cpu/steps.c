/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c: the steps that all stages share: split work over threads, pack rows, multiply, attend, hand out taps. */
#include <stdarg.h>
#include <stdio.h>

#include "device/cpu/calibrate.h"
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

/* What this thread reads after its part of p: its part of the matrix that follows. */
static void fetch_next(const struct cpu_thread *t, const struct cpu_matrix *w, struct gr_gemm *g)
{
    if (w->next == NULL) {
        return;
    }
    const struct gr_mat *next = &w->next->mat;
    int p0, p1;
    gr_cpu_share(t, next->panels, &p0, &p1);
    g->next = (const char *)next->data + (size_t)p0 * gr_mat_panel_bytes(next);
    g->next_bytes = (size_t)(p1 - p0) * gr_mat_panel_bytes(next);
}

void gr_cpu_product(struct cpu_thread *t, const struct cpu_product *p)
{
    const struct cpu_scratch *s = &t->dev->s;
    const struct gr_mat *w = &p->w->mat;
    const enum gr_row_format rows = gr_mat_rows(w->format);
    const struct gr_acts acts = {.format = rows,
                                 .m = p->m,
                                 .k = w->k,
                                 .k_pad = gr_row_pad(rows, w->k),
                                 .data = s->pack,
                                 .scale = s->row_scale,
                                 .zero = s->row_zero};
    const struct gr_row_source src = {.x = p->x, .ldx = w->k, .index = p->index, .norm = p->norm, .smooth = w->smooth};
    int first, end;
    gr_cpu_share(t, p->m, &first, &end);
    t->run->kernels->pack_rows[rows](&acts, &src, first, end, s->thread[t->id]);
    gr_cpu_barrier(t);
    if (t->run->capture != NULL) {
        gr_capture_rows(t, p->w->id, &acts);
    }
    struct gr_gemm g = {.w = w,
                        .a = &acts,
                        .bias = p->bias,
                        .out = p->out,
                        .ldo = p->epilogue == GR_EPI_SILU_MUL ? w->n / 2 : w->n,
                        .epilogue = p->epilogue};
    fetch_next(t, p->w, &g);
    gr_cpu_share(t, w->panels, &first, &end);
    t->run->kernels->gemm[w->format](&g, first, end, s->thread[t->id]);
    gr_cpu_barrier(t);
}

void gr_cpu_linear(struct cpu_thread *t, const float *x, int m, const struct gr_row_norm *norm,
                   const struct cpu_matrix *w, enum gr_epilogue e, float *out)
{
    gr_cpu_product(t, &(struct cpu_product){.x = x, .m = m, .norm = norm, .w = w, .epilogue = e, .out = out});
}

static struct gr_attention head_of(const struct cpu_heads *h, int i)
{
    const size_t group = (size_t)(i / h->heads), head = (size_t)(i % h->heads), kv = head / (size_t)h->share;
    return (struct gr_attention){.q = h->q + group * (size_t)h->m * (size_t)h->ldq + head * (size_t)h->d,
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
}

bool gr_cpu_attention16(const struct cpu_thread *t)
{
    return t->dev->net.attention16 && t->run->kernels->attention16 != NULL;
}

void gr_cpu_attention_pack(const struct cpu_thread *t, const struct cpu_heads *h)
{
    int first, end;
    gr_cpu_share(t, h->heads, &first, &end);
    for (int i = first; i < end; i++) {
        const struct gr_attention a = head_of(h, i);
        t->run->kernels->attention16_pack(&a, h->packed + (size_t)i * t->dev->s.packed_head);
    }
}

void gr_cpu_attention(const struct cpu_thread *t, const struct cpu_heads *h)
{
    const struct gr_kernels *k = t->run->kernels;
    const bool narrow = !h->fp32 && gr_cpu_attention16(t);
    void *scratch = t->dev->s.thread[t->id];
    int first, end;
    gr_cpu_share(t, h->groups * h->heads, &first, &end);
    for (int i = first; i < end; i++) {
        const struct gr_attention a = head_of(h, i);
        if (narrow && h->packed != NULL) {
            k->attention16_run(&a, h->packed + (size_t)i * t->dev->s.packed_head, scratch);
        } else {
            (narrow ? k->attention16 : k->attention)(&a, scratch);
        }
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
