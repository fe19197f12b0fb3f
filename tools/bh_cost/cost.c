/* SPDX-License-Identifier: Apache-2.0
 *
 * cost.c: the walk. Operations are taken in program order, all tiles of one before any of the next. That is possible because tiles wait for
 * each other at barriers alone; what they share, DRAM channels and the NoC, serves requests of one operation in the order of time, and
 * those of an earlier operation first. Times are in clocks. */
#include "cost.h"

#include <stdlib.h>
#include <string.h>

#include "device/blackhole/chip.h"

enum { HISTORY = 16 };

/* T0 had released `bytes` of the ring, all in all, at that time. */
struct freed {
    uint64_t bytes;
    double at;
};
/* The clock of each core: when it is done with what it was given so far. */
struct tile {
    const struct gr_bh_head *head;
    struct gr_bh_walk walk;
    const struct gr_bh_op *op;
    uint32_t index;
    double reader, unpack, math, pack, mover;
    /* N */
    uint32_t ring_at;
    uint64_t ring_bytes, freed_bytes;
    struct freed *freed;
    size_t freed_n, freed_cap, freed_at;
    double room, chunk, came[2]; /* when there was room, the newest chunk came, the last two came */
    uint64_t chunks;
    /* T0, T1, T2 */
    uint32_t unpack_format, pack_format;
    double bank[2], half[2]; /* when the FPU released a source bank, the packer a half of Dst */
    uint64_t pairs, packs;
    /* B */
    double port, acknowledged;
    double done[HISTORY];
    struct bh_cost_executed before[HISTORY];
    double busy[BH_COST_UNITS]; /* of this operation */
};
struct request {
    double at;
    int tile;
    uint32_t bytes;
    uint32_t commands;
    bool all; /* a multicast */
};
struct walk {
    const struct bh_cost_run *run;
    int tiles;
    struct tile *tile;
    struct request *request; /* reads or sends of an output column */
    size_t requests;
    double channel[GR_CHIP_CHANNELS], multicast, end;
    double channel_busy[GR_CHIP_CHANNELS], multicast_busy; /* of this operation */
    uint32_t number, last_loop, last_next;
    struct bh_cost_sums *sum;
};

static double later(double a, double b) { return a > b ? a : b; }

/* What `clocks` of a unit's work take, and their account: that of a tile, a channel or the multicast. */
static double spend(const struct walk *w, double *account, enum bh_cost_unit unit, double clocks)
{
    *account += clocks;
    return w->run->free_units & 1u << unit ? 0 : clocks;
}
static double work(const struct walk *w, struct tile *t, enum bh_cost_unit unit, double clocks)
{
    return spend(w, &t->busy[unit], unit, clocks);
}

static double us(const struct walk *w, double t) { return t * w->run->rates.clock_mhz; }

/* ---- the ring (op_reader.c, op_walk.h) ---- */

static enum gr_status release(struct tile *t, uint64_t bytes, double at, struct gr_err *err)
{
    if (t->freed_n == t->freed_cap) {
        const size_t cap = t->freed_cap > 0 ? 2 * t->freed_cap : 64;
        struct freed *grown = realloc(t->freed, cap * sizeof *grown);
        if (grown == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu chunks", cap);
        }
        t->freed = grown;
        t->freed_cap = cap;
    }
    t->freed[t->freed_n++] = (struct freed){bytes, at};
    return GR_OK;
}

/* The reader asks for the next chunk of an operation as soon as there is room and the chunk before the last has come. */
static enum gr_status ask(struct walk *w, int tile, struct gr_err *err)
{
    struct tile *t = &w->tile[tile];
    const uint32_t size = t->head->ring_bytes, chunk = t->op->chunk;
    if (chunk > size) {
        return gr_fail(err, GR_ERR_DEVICE, "operation %u, tile %d: a chunk of %u bytes, the ring has %u", w->number,
                       tile, chunk, size);
    }
    if (chunk > size - t->ring_at) {
        t->ring_bytes += size - t->ring_at;
        t->ring_at = 0;
        GR_TRY(release(t, t->ring_bytes, t->unpack, err)); /* T0 frees a skipped end when it comes to the chunk */
    }
    t->ring_at += chunk;
    t->ring_bytes += chunk;
    double room = 0;
    while (t->ring_bytes > size && t->freed_bytes < t->ring_bytes - size) {
        room = t->freed[t->freed_at].at;
        t->freed_bytes = t->freed[t->freed_at++].bytes;
    }
    t->room = later(t->room, room);
    const double control = work(w, t, BH_COST_CONTROL, w->run->rates.send_clocks * ((chunk + 16383) / 16384));
    t->reader = later(later(t->reader, t->room), t->came[t->chunks % 2]) + control;
    w->request[w->requests++] = (struct request){.at = t->reader, .tile = tile, .bytes = chunk};
    return GR_OK;
}

static int earlier(const void *a, const void *b)
{
    const struct request *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->tile - y->tile;
}

/* Channels serve one request after the other; a tile cannot take more than a NoC carries. */
static void serve_reads(struct walk *w)
{
    const struct bh_cost_rates *r = &w->run->rates;
    const double per_clock = r->dram_gb * 1e3 / r->clock_mhz * r->dram_percent / 100 / GR_CHIP_CHANNELS;
    qsort(w->request, w->requests, sizeof *w->request, earlier);
    for (size_t i = 0; i < w->requests; i++) {
        const struct request *q = &w->request[i];
        struct tile *t = &w->tile[q->tile];
        const int c = w->run->program->plan[q->tile * GR_BH_STREAMS].channel;
        double *channel = &w->channel[c];
        const double start = later(q->at, *channel),
                     clocks = spend(w, &w->channel_busy[c], BH_COST_DRAM, q->bytes / per_clock);
        *channel = start + clocks;
        const bool none = w->run->free_units & 1u << BH_COST_DRAM;
        const double link = none ? 0 : q->bytes / r->noc_bytes, first = none ? 0 : us(w, r->dram_us);
        const double here = later(*channel, q->at + link) + first;
        t->came[t->chunks % 2] = t->chunk = later(t->chunk, here);
        t->chunks++;
        w->sum->read_bytes += q->bytes;
    }
    w->requests = 0;
}

/* ---- T0, T1, T2 ---- */

static double formats(struct walk *w, struct tile *t, uint32_t *current, uint32_t wanted)
{
    const bool same = *current == wanted;
    *current = wanted;
    return same ? 0 : work(w, t, BH_COST_CONTROL, w->run->rates.format_clocks);
}

static double pair_clocks(const struct bh_cost_rates *r, const struct gr_bh_segment *s)
{
    const double a = GR_BH_TILE_BYTES(s->fmt_a), b = GR_BH_TILE_BYTES(s->fmt_b);
    return later(r->pair_clocks, later(a, b) / r->unpack_bytes) +
           (s->flags & GR_BH_SEG_TRANSPOSE ? r->transpose_clocks : 0);
}

/* The source registers have two banks: a pair is unpacked while the one before is multiplied, not earlier. */
static void segment(struct walk *w, struct tile *t, const struct gr_bh_segment *s)
{
    const struct bh_cost_rates *r = &w->run->rates;
    const bool maximum = s->flags & GR_BH_SEG_MAX, element = s->flags & GR_BH_SEG_ELEMENT;
    const double each = maximum ? r->max_clocks : t->op->phases * (element ? r->element_clocks : r->matrix_clocks);
    t->unpack +=
        formats(w, t, &t->unpack_format, s->fmt_a | (uint32_t)s->fmt_b << 4 | (s->flags & GR_BH_SEG_TRANSPOSE) << 8);
    for (uint32_t k = 0; k < s->kcount; k++) {
        t->unpack = later(t->unpack, t->bank[t->pairs % 2]) + work(w, t, BH_COST_UNPACK, pair_clocks(r, s));
        t->math = later(t->math, t->unpack) + work(w, t, BH_COST_FPU, each);
        t->bank[t->pairs++ % 2] = t->math;
    }
    w->sum->pairs += s->kcount;
    *(maximum || element ? &w->sum->elements : &w->sum->passes) += maximum ? s->kcount : s->kcount * t->op->phases;
}

static double pack_clocks(const struct bh_cost_rates *r, const struct gr_bh_op *op)
{
    return r->pack_clocks +
           GR_BH_TILE_BYTES(op->out_fmt) / r->pack_bytes * (op->flags & GR_BH_OP_ACCUMULATE ? r->pack_add : 1);
}

/* Dst has two halves: a tile is computed while the one before is packed. */
static void output(struct walk *w, int tile)
{
    struct tile *t = &w->tile[tile];
    const struct gr_bh_op *op = t->op;
    t->math = later(t->math, t->half[t->packs % 2]);
    for (uint32_t s = 0; s < op->nseg; s++) {
        segment(w, t, &op->seg[s]);
    }
    if (op->function != GR_BH_NONE) {
        const double clocks = work(w, t, BH_COST_SFPU, bh_cost_function_clocks(&w->run->rates, op->function));
        double *thread = w->run->pack_functions ? &t->pack : &t->math;
        *thread = later(*thread, t->math) + clocks;
        w->sum->functions++;
    }
    const uint32_t format = op->out_fmt | (uint32_t)(op->flags & GR_BH_OP_ACCUMULATE) << 8;
    t->pack = later(t->pack, t->math) + formats(w, t, &t->pack_format, format) +
              work(w, t, BH_COST_PACK, pack_clocks(&w->run->rates, op));
    t->half[t->packs++ % 2] = t->pack;
    w->sum->packs++;
    /* B sends it as soon as it sees it. */
    const double seen = t->pack + work(w, t, BH_COST_CONTROL, w->run->rates.done_clocks);
    t->mover = later(t->mover, seen);
    const struct gr_bh_dest *d = (const struct gr_bh_dest *)((const struct gr_bh_op *)(t->head + 1) + t->head->ops);
    for (uint32_t i = 0; i < op->dests; i++) {
        const bool row = op->flags & GR_BH_OP_ROW, all = d[op->dest + i].xy0 != d[op->dest + i].xy1;
        const uint32_t commands = row ? 2 : 1, bytes = row ? 2 * 64 : GR_BH_TILE_BYTES(op->out_fmt);
        t->mover += work(w, t, BH_COST_CONTROL, w->run->rates.send_clocks * commands);
        w->request[w->requests++] =
            (struct request){.at = t->mover, .tile = tile, .bytes = bytes, .commands = commands, .all = all};
    }
}

/* ---- B ---- */

/* Writes of a tile leave one after the other; multicasts reserve the way to every tile of the group, so there is one at a time. */
static void serve_sends(struct walk *w)
{
    const struct bh_cost_rates *r = &w->run->rates;
    qsort(w->request, w->requests, sizeof *w->request, earlier);
    for (size_t i = 0; i < w->requests; i++) {
        const struct request *q = &w->request[i];
        struct tile *t = &w->tile[q->tile];
        const double clocks = spend(w, q->all ? &w->multicast_busy : &t->busy[BH_COST_NOC], BH_COST_NOC,
                                    q->bytes / r->noc_bytes + (q->all ? q->commands * r->multicast_clocks : 0));
        double start = later(q->at, t->port);
        if (q->all) {
            start = later(start, w->multicast);
            w->multicast = start + clocks;
            w->sum->multicast_bytes += q->bytes;
        } else {
            w->sum->sent_bytes += q->bytes;
        }
        t->port = start + clocks;
        const double acknowledged = t->port + (w->run->free_units & 1u << BH_COST_NOC ? 0 : us(w, r->noc_us));
        t->acknowledged = later(t->acknowledged, acknowledged);
    }
    w->requests = 0;
}

static void barrier(struct walk *w)
{
    double last = 0;
    for (int i = 0; i < w->tiles; i++) {
        last = later(last, w->tile[i].mover);
    }
    const double released = last + work(w, &w->tile[0], BH_COST_BARRIER, us(w, w->run->rates.barrier_us));
    for (int i = 0; i < w->tiles; i++) {
        w->tile[i].mover = released;
    }
    w->sum->barriers++;
}

/* ---- an operation ---- */

/* When all but the `back` operations before this one are complete. */
static double dependencies(struct walk *w, struct tile *t)
{
    const uint32_t history = w->number < HISTORY ? w->number : HISTORY;
    uint32_t back = t->op->back;
    if (w->run->own_back) {
        struct bh_cost_executed before[HISTORY];
        for (uint32_t i = 0; i < history; i++) {
            before[i] = t->before[(w->number - 1 - i) % HISTORY];
        }
        const unsigned own = bh_cost_back((struct bh_cost_executed){t->op, t->index}, before, history);
        back = own > back ? own : back;
    }
    return back < history ? t->done[(w->number - 1 - back) % HISTORY] : 0;
}

static void begin(struct walk *w, struct tile *t)
{
    const struct bh_cost_rates *r = &w->run->rates;
    const double walk = work(w, t, BH_COST_CONTROL, r->walk_clocks), go = dependencies(w, t);
    const double start = work(w, t, BH_COST_CONTROL, r->start_clocks);
    t->unpack = later(t->unpack + walk, go) + start;
    t->math = later(t->math + walk, go) + start;
    t->pack += walk;
    t->mover += walk;
}

static enum gr_status columns(struct walk *w, struct gr_err *err)
{
    uint32_t nt = 0;
    for (int i = 0; i < w->tiles; i++) {
        nt = w->tile[i].op->nt > nt ? w->tile[i].op->nt : nt;
    }
    for (uint32_t n = 0; n < nt; n++) {
        for (int i = 0; i < w->tiles; i++) {
            if (n < w->tile[i].op->nt && w->tile[i].op->chunk > 0) {
                GR_TRY(ask(w, i, err));
            }
        }
        serve_reads(w);
        for (int i = 0; i < w->tiles; i++) {
            struct tile *t = &w->tile[i];
            if (n >= t->op->nt) {
                continue;
            }
            if (t->op->chunk > 0) {
                t->unpack = later(t->unpack, t->chunk);
                t->math = later(t->math, t->chunk);
            }
            for (uint32_t m = 0; m < t->op->mt; m++) {
                output(w, i);
            }
            if (t->op->chunk > 0) {
                GR_TRY(release(t, t->ring_bytes, t->unpack, err));
            }
        }
        serve_sends(w);
    }
    return GR_OK;
}

/* Adds what the operation took of each unit where it took most. */
static void account(struct walk *w)
{
    for (int u = 0; u < BH_COST_UNITS; u++) {
        double most = u == BH_COST_NOC ? w->multicast_busy : 0;
        for (int i = 0; i < w->tiles; i++) {
            most = later(most, w->tile[i].busy[u]);
        }
        for (int c = 0; c < GR_CHIP_CHANNELS && u == BH_COST_DRAM; c++) {
            most = later(most, w->channel_busy[c]);
        }
        w->sum->busy[u] += most;
    }
    memset(w->channel_busy, 0, sizeof w->channel_busy);
    w->multicast_busy = 0;
}

static enum gr_status operation(struct walk *w, struct gr_err *err)
{
    bool meet = false;
    for (int i = 0; i < w->tiles; i++) {
        struct tile *t = &w->tile[i];
        memset(t->busy, 0, sizeof t->busy);
        meet = meet || (t->op->flags & GR_BH_OP_BARRIER);
        begin(w, t);
    }
    GR_TRY(columns(w, err));
    for (int i = 0; i < w->tiles; i++) {
        w->tile[i].mover = later(w->tile[i].mover, w->tile[i].acknowledged);
    }
    if (meet) {
        barrier(w);
    }
    double end = w->end;
    for (int i = 0; i < w->tiles; i++) {
        struct tile *t = &w->tile[i];
        end = later(end, t->mover);
        t->done[w->number % HISTORY] = t->mover + work(w, t, BH_COST_CONTROL, w->run->rates.done_clocks);
        t->before[w->number % HISTORY] = (struct bh_cost_executed){t->op, t->index};
    }
    account(w);
    w->sum->clocks += end - w->end;
    w->sum->operations++;
    w->end = end;
    w->number++;
    return GR_OK;
}

/* ---- the whole list ---- */

static enum gr_status next_step(struct walk *w, enum gr_bh_step *step, uint32_t *pc, struct gr_err *err)
{
    for (int i = 0; i < w->tiles; i++) {
        struct tile *t = &w->tile[i];
        const struct gr_bh_op *ops = (const struct gr_bh_op *)(t->head + 1);
        const enum gr_bh_step s = gr_bh_next(&t->walk, ops, &t->op, &t->index);
        if (i > 0 && (s != *step || (s != GR_BH_STEP_END && t->op - ops != *pc))) {
            return gr_fail(err, GR_ERR_DEVICE, "operation %u: tile %d is at another place than tile 0", w->number, i);
        }
        *step = s;
        *pc = (uint32_t)(t->op - ops);
    }
    return GR_OK;
}

static enum gr_status all(struct walk *w, struct bh_cost_result *out, struct gr_err *err)
{
    int round = 0;
    for (;;) {
        enum gr_bh_step step = GR_BH_STEP_END;
        uint32_t pc = 0;
        GR_TRY(next_step(w, &step, &pc, err));
        const bool top = w->tile[0].walk.depth == 1 && pc == w->last_loop;
        if (step == GR_BH_STEP_END) {
            out->clocks = w->end;
            return GR_OK;
        }
        if (step == GR_BH_STEP_OP) {
            round = pc > w->last_next ? out->rounds - 1 : round;
            w->sum = &out->sums[round * out->stages + (w->run->stage != NULL ? w->run->stage[pc] : 0)];
            GR_TRY(operation(w, err));
        } else if (top) {
            round++;
        }
    }
}

/* Place of the last loop at the top and of its end, and how often it goes round. Without a loop all is round 0. */
static int last_loop(struct walk *w)
{
    const struct gr_bh_op *ops = (const struct gr_bh_op *)(w->tile[0].head + 1);
    int depth = 0, count = 0;
    w->last_loop = w->last_next = UINT32_MAX;
    for (uint32_t i = 0; i < w->tile[0].head->ops; i++) {
        if (ops[i].kind == GR_BH_LOOP && depth++ == 0) {
            w->last_loop = i;
            count = ops[i].count;
        } else if (ops[i].kind == GR_BH_NEXT && --depth == 0) {
            w->last_next = i;
        }
    }
    return count;
}

static enum gr_status prepare(struct walk *w, const struct bh_cost_run *run, struct bh_cost_result *out,
                              struct gr_err *err)
{
    size_t sends = 0;
    w->run = run;
    w->tiles = run->program->grid->tiles;
    w->tile = calloc((size_t)w->tiles, sizeof *w->tile);
    if (w->tile == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d tiles", w->tiles);
    }
    for (int i = 0; i < w->tiles; i++) {
        struct tile *t = &w->tile[i];
        t->head = run->program->list[i];
        t->unpack_format = t->pack_format = UINT32_MAX;
        const struct gr_bh_op *ops = (const struct gr_bh_op *)(t->head + 1);
        size_t most = 1;
        for (uint32_t k = 0; k < t->head->ops; k++) {
            const size_t n = (size_t)ops[k].mt * ops[k].dests;
            most = n > most ? n : most;
        }
        sends += most;
    }
    out->stages = run->stage != NULL ? run->stages : 1;
    out->rounds = last_loop(w) + 2;
    out->sums = calloc((size_t)out->rounds * (size_t)out->stages, sizeof *out->sums);
    w->request = calloc(sends, sizeof *w->request);
    return out->sums != NULL && w->request != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory for the walk");
}

enum gr_status bh_cost_walk(const struct bh_cost_run *run, struct bh_cost_result *out, struct gr_err *err)
{
    struct walk w = {0};
    *out = (struct bh_cost_result){0};
    enum gr_status status = prepare(&w, run, out, err);
    if (status == GR_OK) {
        status = all(&w, out, err);
    }
    for (int i = 0; i < w.tiles && w.tile != NULL; i++) {
        free(w.tile[i].freed);
    }
    free(w.tile);
    free(w.request);
    if (status != GR_OK) {
        bh_cost_free(out);
    }
    return status;
}

void bh_cost_free(struct bh_cost_result *r)
{
    free(r->sums);
    r->sums = NULL;
}

struct bh_cost_sums bh_cost_total(const struct bh_cost_result *r, int round, int stage)
{
    struct bh_cost_sums t = {0};
    for (int i = 0; i < r->rounds * r->stages; i++) {
        const struct bh_cost_sums *s = &r->sums[i];
        if ((round >= 0 && i / r->stages != round) || (stage >= 0 && i % r->stages != stage)) {
            continue;
        }
        t.operations += s->operations, t.barriers += s->barriers, t.read_bytes += s->read_bytes;
        t.pairs += s->pairs, t.passes += s->passes, t.elements += s->elements, t.functions += s->functions;
        t.packs += s->packs, t.sent_bytes += s->sent_bytes, t.multicast_bytes += s->multicast_bytes;
        t.clocks += s->clocks;
        for (int u = 0; u < BH_COST_UNITS; u++) {
            t.busy[u] += s->busy[u];
        }
    }
    return t;
}
