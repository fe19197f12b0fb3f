/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_host.c: bh_host SNAPSHOT [RUNS]: measures the host's share of a predict on 11 x 10 tiles: an observation becomes tiles and is written,
 * the chunk is read. L1 is an array of the host, written once for a multicast, so the bus has no part in the times. What it would have
 * to do is counted: bytes, calls, and windows (the driver is asked to aim at other tiles). A developer's tool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/blackhole/bh_request.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "model/weights.h"

enum {
    COLUMNS = 11,
    ROWS = 10,
    TOKENS = 128, /* an instruction of 24 tokens, the longest of layout gr1 */
    TAIL = 3,     /* of them behind the image */
    IMAGE_TOKEN = -1,
    INPUTS = 16,
    RUNS = 101,
    RUNS_MOST = 9999,
    EVERY = -1,
    NOBODY = -2
};

/* A part of the share: an input, or the chunk. */
struct part {
    const char *name;
    struct gr_bh_buf buf;
    double *ms; /* [runs] */
    size_t bytes;
    int calls, windows;
    double free_at; /* part of the operations of a request, after which the next one's may be written */
};
struct host {
    struct gr_bh_machine base;
    uint8_t *l1;
    struct part part[INPUTS + 1];
    int parts, runs, run;
    int aimed;   /* tile or EVERY */
    double mark; /* end of the last call */
};

/* ---- the machine ---- */

static bool is_in(struct gr_bh_buf b, uint32_t addr)
{
    const uint32_t end = (b.mt - 1u) * b.m_stride + (b.nt - 1u) * b.n_stride + GR_BH_TILE_BYTES(b.fmt);
    return addr >= b.addr && addr - b.addr < end;
}

/* The time since the last call belongs to the input that lies there. */
static enum gr_status moved(struct host *h, int tile, uint32_t addr, size_t bytes, bool chunk, struct gr_err *err)
{
    int i = h->parts - 1; /* the chunk */
    for (int k = 0; !chunk && k < h->parts - 1; k++) {
        i = is_in(h->part[k].buf, addr) ? k : i;
    }
    if (!chunk && i == h->parts - 1) {
        return gr_fail(err, GR_ERR_DEVICE, "%zu bytes at 0x%x belong to no input", bytes, addr);
    }
    struct part *p = &h->part[i];
    const double now = gr_clock_ms();
    p->ms[h->run] += now - h->mark;
    h->mark = now;
    if (h->run == 0) {
        p->bytes += bytes;
        p->calls++;
        p->windows += tile != h->aimed;
    }
    h->aimed = tile;
    return GR_OK;
}

static enum gr_status write_l1(struct gr_bh_machine *m, int tile, uint32_t addr, const void *src, size_t bytes,
                               struct gr_err *err)
{
    struct host *h = (struct host *)m;
    memcpy(h->l1 + addr, src, bytes);
    return moved(h, tile, addr, bytes, false, err);
}

static enum gr_status fill_l1(struct gr_bh_machine *m, uint32_t addr, const void *src, size_t bytes, struct gr_err *err)
{
    return write_l1(m, EVERY, addr, src, bytes, err);
}

static enum gr_status read_l1(struct gr_bh_machine *m, int tile, uint32_t addr, void *dst, size_t bytes,
                              struct gr_err *err)
{
    struct host *h = (struct host *)m;
    memcpy(dst, h->l1 + addr, bytes);
    return moved(h, tile, addr, bytes, true, err);
}

static const struct gr_bh_machine_ops ops = {.l1_write = write_l1, .l1_read = read_l1, .l1_fill = fill_l1};

/* ---- runs ---- */

static enum gr_status add_part(struct host *h, const char *name, struct gr_bh_buf buf, double free_at,
                               struct gr_err *err)
{
    struct part *p = &h->part[h->parts];
    if (h->parts > INPUTS) {
        return gr_fail(err, GR_ERR_DEVICE, "more than %d inputs", INPUTS);
    }
    *p = (struct part){.name = name, .buf = buf, .free_at = free_at, .ms = calloc((size_t)h->runs, sizeof *p->ms)};
    if (p->ms == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d runs", h->runs);
    }
    h->parts++;
    return GR_OK;
}

static enum gr_status open_host(struct host *h, const struct gr_bh_program *p, struct gr_err *err)
{
    h->base.ops = &ops;
    h->aimed = NOBODY;
    h->l1 = calloc(1, GR_BH_L1_END);
    if (h->l1 == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %u bytes of L1", GR_BH_L1_END);
    }
    for (int i = 0; i < p->inputs; i++) {
        const double free_at = (double)p->input[i].after / p->executed;
        GR_TRY(add_part(h, p->input[i].name, p->input[i].buf, free_at, err));
    }
    return add_part(h, "chunk, read", (struct gr_bh_buf){0}, 1.0, err);
}

static void close_host(struct host *h)
{
    for (int i = 0; i < h->parts; i++) {
        free(h->part[i].ms);
    }
    free(h->l1);
}

/* Pixels as a picture has them, any ids, state and noise: the time does not depend on them. */
struct arrays {
    float *pixels, *state, *noise, *action;
    int32_t ids[TOKENS];
};

static enum gr_status make_arrays(struct arrays *a, const struct gr_dims *d, struct gr_err *err)
{
    const size_t n = 3 * (size_t)d->vit.image_side * (size_t)d->vit.image_side;
    const size_t chunk = (size_t)d->dit.horizon * (size_t)d->dit.max_action;
    a->pixels = calloc(n, sizeof *a->pixels);
    a->state = calloc((size_t)d->dit.max_state, sizeof *a->state);
    a->noise = calloc(chunk, sizeof *a->noise);
    a->action = calloc(chunk, sizeof *a->action);
    if (a->pixels == NULL || a->state == NULL || a->noise == NULL || a->action == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for an observation");
    }
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        a->pixels[i] = ((float)(x >> 24) - 127.5f) / 127.5f;
    }
    for (int i = 0; i < TOKENS; i++) {
        const bool text = i < TOKENS - TAIL - d->vit.tokens || i >= TOKENS - TAIL;
        a->ids[i] = text ? i : IMAGE_TOKEN;
    }
    return GR_OK;
}

static enum gr_status run(struct host *h, struct gr_bh_request *r, const struct arrays *a, struct gr_err *err)
{
    const struct gr_bh_observation o = {
        .pixels = a->pixels, .ids = a->ids, .n_tokens = TOKENS, .state = a->state, .noise = a->noise};
    for (h->run = 0; h->run < h->runs; h->run++) {
        h->mark = gr_clock_ms();
        GR_TRY(gr_bh_request_inputs(r, &h->base, &o, 0, err));
        h->mark = gr_clock_ms();
        GR_TRY(gr_bh_request_action(r, &h->base, a->action, err));
        h->part[h->parts - 1].ms[h->run] += gr_clock_ms() - h->mark;
    }
    return GR_OK;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

static void print(struct host *h)
{
    size_t bytes = 0;
    int calls = 0, windows = 0;
    printf("Host's share of a request on %d x %d tiles, %d rows of tokens, median of %d, without the bus:\n\n"
           "%-12s %8s %9s %6s %8s %8s\n",
           COLUMNS, ROWS, TOKENS, h->runs, "", "ms", "bytes", "calls", "windows", "free, %");
    double together[RUNS_MOST] = {0};
    for (int i = 0; i < h->parts; i++) {
        for (int k = 0; k < h->runs; k++) {
            together[k] += h->part[i].ms[k];
        }
    }
    for (int i = 0; i < h->parts; i++) {
        const struct part *p = &h->part[i];
        printf("%-12s %8.3f %9zu %6d %8d %8.0f\n", p->name, median(p->ms, h->runs), p->bytes, p->calls, p->windows,
               100 * p->free_at);
        bytes += p->bytes;
        calls += p->calls;
        windows += p->windows;
    }
    printf("%-12s %8.3f %9zu %6d %8d\n", "together", median(together, h->runs), bytes, calls, windows);
}

static enum gr_status measure(const char *snapshot, struct host *h, struct gr_err *err)
{
    struct gr_config *config = NULL;
    struct gr_snapshot *snap = NULL;
    struct gr_weights *w = NULL;
    struct gr_bh_request *r = NULL;
    struct arrays a = {0};
    enum gr_status status = gr_config_open(snapshot, "gr1", &config, err);
    if (status == GR_OK) {
        status = gr_snapshot_open(snapshot, &snap, err);
    }
    if (status == GR_OK) {
        status = gr_weights_open(snap, config, NULL, NULL, &w, err);
    }
    if (status == GR_OK) {
        const struct gr_bh_request_cfg cfg = {.w = w,
                                              .slot = config->emb.slot,
                                              .max_tokens = TOKENS,
                                              .image_token = IMAGE_TOKEN,
                                              .columns = COLUMNS,
                                              .rows = ROWS,
                                              .weights = GR_BH_BFP8,
                                              .backbone_weights = GR_BH_BF16}; /* as the device */
        status = gr_bh_request_new(&cfg, &r, err);
    }
    if (status == GR_OK) {
        status = make_arrays(&a, &w->dims, err);
    }
    if (status == GR_OK) {
        status = open_host(h, gr_bh_request_program(r), err);
    }
    if (status == GR_OK) {
        status = run(h, r, &a, err);
    }
    if (status == GR_OK) {
        print(h);
    }
    free(a.pixels), free(a.state), free(a.noise), free(a.action);
    gr_bh_request_free(r);
    gr_weights_free(w);
    gr_config_free(config);
    gr_snapshot_close(snap);
    return status;
}

int main(int argc, char **argv)
{
    struct host h = {.runs = argc == 3 ? atoi(argv[2]) : RUNS};
    struct gr_err err = {0};
    if (argc < 2 || argc > 3 || argv[1][0] == '-' || h.runs < 1 || h.runs > RUNS_MOST) {
        (void)fprintf(stderr, "usage: bh_host SNAPSHOT [RUNS]\n");
        return 2;
    }
    const enum gr_status status = measure(argv[1], &h, &err);
    if (status != GR_OK) {
        (void)fprintf(stderr, "bh_host: %s\n", err.msg);
    }
    close_host(&h);
    return status == GR_OK ? 0 : 1;
}
