/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate.c: the rows of the calibration predicts. Each thread takes its share of the k of a product, so no two write to one place, and
 * sums run over rows in order: same bits for any number of threads. */
#include "device/cpu/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static enum gr_status place(const struct cpu_layout *l, struct cpu_capture *c, struct gr_err *err)
{
    for (int i = 0; i < l->n; i++) {
        const size_t k = (size_t)l->entries[i].exact.k;
        struct cpu_rows *r = &c->of[i];
        void *sum;
        GR_TRY(gr_store_floats(&c->store, GR_QUANT_ROWS, k, "calibration rows", &r->x, err));
        GR_TRY(gr_store_floats(&c->store, k, 1, "calibration rows", &r->largest, err));
        GR_TRY(gr_store_floats(&c->store, k, 1, "calibration rows", &r->mean, err));
        GR_TRY(gr_store_take(&c->store, k, sizeof *r->sum, "calibration rows", &sum, err));
        r->sum = sum;
        const int quota = GR_QUANT_ROWS / (GR_PLAN_CALIBRATIONS * l->entries[i].calls);
        r->quota = quota > 0 ? quota : 1; /* more products than rows: those of the first */
        r->rows = (struct gr_quant_rows){.k = (int)k, .x = r->x, .largest = r->largest, .mean = r->mean};
    }
    return GR_OK;
}

enum gr_status gr_capture_new(const struct cpu_layout *l, struct cpu_capture *out, struct gr_err *err)
{
    *out = (struct cpu_capture){.n = l->n, .store = {.bytes = SIZE_MAX}};
    out->of = calloc((size_t)l->n, sizeof *out->of);
    if (out->of == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the calibration of %d matrices", l->n);
    }
    GR_TRY(place(l, out, err));
    out->store = (struct gr_store){.bytes = out->store.at};
    GR_TRY(gr_big_alloc(out->store.bytes, "calibration rows", &out->store.base, err));
    return place(l, out, err);
}

void gr_capture_free(struct cpu_capture *c)
{
    if (c->store.base != NULL) {
        gr_big_free(c->store.base, c->store.bytes);
    }
    free(c->of);
    *c = (struct cpu_capture){0};
}

/* Row r of m is one of `quota` rows that are spread evenly over them. */
static bool sampled(int r, int m, int quota) { return m <= quota || (long)(r + 1) * quota / m > (long)r * quota / m; }

static void take_row(struct cpu_rows *rows, const float *x, int k0, int n, float *keep)
{
    for (int i = 0; i < n; i++) {
        rows->largest[k0 + i] = fmaxf(rows->largest[k0 + i], fabsf(x[i]));
        rows->sum[k0 + i] += (double)x[i];
    }
    if (keep != NULL) {
        memcpy(keep + k0, x, (size_t)n * sizeof *x);
    }
}

void gr_capture_rows(const struct cpu_thread *t, int id, const struct gr_acts *acts)
{
    struct cpu_rows *rows = &t->run->capture->of[id];
    const int k = acts->k, m = acts->m, chunks = acts->k_pad / GR_CHUNK, room = GR_QUANT_ROWS - rows->rows.n;
    const int quota = rows->quota < room ? rows->quota : room;
    int c0, c1, kept = 0;
    gr_cpu_share(t, chunks, &c0, &c1);
    for (int tile = 0; tile < gr_tile_count(m); tile++) {
        const int first = gr_tile_first(m, tile), end = gr_tile_first(m, tile + 1);
        for (int r = first; r < end; r++) {
            float *keep = NULL;
            if (sampled(r, m, quota)) {
                keep = rows->x + (size_t)(rows->rows.n + kept++) * (size_t)k;
            }
            for (int c = c0; c < c1; c++) {
                const float *x = (const float *)acts->data + (size_t)first * (size_t)acts->k_pad +
                                 ((size_t)c * (size_t)(end - first) + (size_t)(r - first)) * GR_CHUNK;
                const int left = k - c * GR_CHUNK;
                take_row(rows, x, c * GR_CHUNK, left < GR_CHUNK ? left : GR_CHUNK, keep);
            }
        }
    }
    gr_cpu_barrier(t); /* nobody reads the count any more */
    if (t->id == 0) {
        rows->rows.n += kept;
        rows->seen += m;
    }
}

void gr_capture_finish(struct cpu_capture *c)
{
    for (int i = 0; i < c->n; i++) {
        struct cpu_rows *r = &c->of[i];
        for (int k = 0; k < r->rows.k; k++) {
            r->mean[k] = r->seen > 0 ? (float)(r->sum[k] / (double)r->seen) : 0.0f;
        }
    }
}
