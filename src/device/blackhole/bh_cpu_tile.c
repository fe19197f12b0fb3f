/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_cpu_tile.c: one tile of the CPU machine walks its operation list. The addresses of an operation are checked as a whole before it
 * starts: strides are not negative, so its last tile is its highest. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/bh_cpu.h"

enum { TILE_ALIGN = 16, CHUNK_ALIGN = 64, ROW_PIECE = 64, ROW_STEP = 1024 };

__attribute__((format(printf, 3, 4))) static bool fault(struct gr_bh_tile *t, const struct gr_bh_op *o, const char *fmt,
                                                        ...)
{
    char text[180];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->status = gr_fail(&t->err, GR_ERR_DEVICE, "tile %d, operation %u (number %td of the list): %s", t->number,
                        t->done, o - t->ops, text);
    return false;
}

static bool format_known(uint32_t f) { return f == GR_BH_FP32 || f == GR_BH_BF16 || f == GR_BH_BFP8; }

/* ----------------------------------------------------------------------------------------------------------------- checks */

/* Addresses of mt x nt x k things of `bytes`, from `low` to `high`. */
struct span {
    const char *what;
    uint32_t base, m, n, k;
    uint64_t bytes, low, high;
};

static bool span_fits(struct gr_bh_tile *t, const struct gr_bh_op *o, struct span s, uint32_t kcount)
{
    uint64_t last =
        (uint64_t)s.base + (uint64_t)s.m * (o->mt - 1u) + (uint64_t)s.n * (o->nt - 1u) + (uint64_t)s.k * (kcount - 1u);
    if ((s.base | (o->mt > 1 ? s.m : 0) | (o->nt > 1 ? s.n : 0) | (kcount > 1 ? s.k : 0)) % TILE_ALIGN) {
        return fault(t, o, "%s at 0x%x with strides 0x%x 0x%x 0x%x is not at multiples of 16", s.what, s.base, s.m, s.n,
                     s.k);
    }
    if (s.base < s.low || last + s.bytes > s.high) {
        return fault(t, o, "%s from 0x%x to 0x%llx lies outside [0x%llx, 0x%llx)", s.what, s.base,
                     (unsigned long long)(last + s.bytes), (unsigned long long)s.low, (unsigned long long)s.high);
    }
    return true;
}

static bool segment_fits(struct gr_bh_tile *t, const struct gr_bh_op *o, const struct gr_bh_segment *g, uint32_t index)
{
    bool ring = g->flags & GR_BH_SEG_RING, max = g->flags & GR_BH_SEG_MAX;
    if ((g->fmt_a != GR_BH_BF16 && g->fmt_a != GR_BH_FP32) || !format_known(g->fmt_b)) {
        return fault(t, o, "operand formats %u and %u", g->fmt_a, g->fmt_b);
    }
    if (g->flags & ~15u || (max && (o->nseg != 1 || g->flags & GR_BH_SEG_ELEMENT))) {
        return fault(t, o, "segment flags 0x%x with %u segments", g->flags, o->nseg);
    }
    if (!g->kcount) {
        return true;
    }
    struct span a = {"A",    g->a + g->a_i * index,      g->a_m,      g->a_n,
                     g->a_k, GR_BH_TILE_BYTES(g->fmt_a), t->list_end, GR_BH_L1_END};
    struct span b = {"B",    g->b + g->b_i * index,      g->b_m,      g->b_n,
                     g->b_k, GR_BH_TILE_BYTES(g->fmt_b), t->list_end, GR_BH_L1_END};
    if (ring) {
        b = (struct span){"B in its chunk", g->b, 0, 0, g->b_k, GR_BH_TILE_BYTES(g->fmt_b), 0, o->chunk};
    }
    return span_fits(t, o, a, g->kcount) && span_fits(t, o, b, g->kcount);
}

static bool ring_hit(const struct gr_bh_head *h, struct span s, const struct gr_bh_op *o)
{
    uint64_t end = s.base + (uint64_t)s.m * (o->mt - 1u) + (uint64_t)s.n * (o->nt - 1u) + s.bytes;
    return h->ring_bytes && s.base < h->ring + h->ring_bytes && end > h->ring;
}

static bool output_fits(struct gr_bh_tile *t, const struct gr_bh_op *o, uint32_t index)
{
    if (!format_known(o->out_fmt) || ((o->flags & GR_BH_OP_ACCUMULATE) && o->out_fmt == GR_BH_BFP8)) {
        return fault(t, o, "output format %u, flags 0x%x", o->out_fmt, o->flags);
    }
    bool row = o->flags & GR_BH_OP_ROW;
    if (row && o->out_fmt != GR_BH_FP32) {
        return fault(t, o, "row 0 of an output that is not fp32");
    }
    uint32_t bytes = GR_BH_TILE_BYTES(o->out_fmt);
    struct span out = {"output", o->out + o->out_i * index, o->out_m, o->out_n, 0, bytes, t->list_end, GR_BH_L1_END};
    struct span to = {
        "destination", o->to + o->to_i * index, o->to_m, o->to_n, 0, row ? ROW_STEP + ROW_PIECE : bytes, t->list_end,
        GR_BH_L1_END};
    if (!span_fits(t, o, out, 1) || (o->dests && !span_fits(t, o, to, 1))) {
        return false;
    }
    if (ring_hit(t->head, out, o) || (o->dests && ring_hit(t->head, to, o))) {
        return fault(t, o, "writes into the ring at 0x%x", t->head->ring);
    }
    return true;
}

/* A row of Dst that no product wrote reads as zeros, but only until the SFPU stores a part of it. */
static bool writes_whole_tile(const struct gr_bh_op *o)
{
    for (int s = 0; s < o->nseg; s++) {
        if (o->seg[s].kcount && !(o->seg[s].flags & GR_BH_SEG_MAX)) {
            return true;
        }
    }
    return false;
}

static bool operation_fits(struct gr_bh_tile *t, const struct gr_bh_op *o, uint32_t index)
{
    if (o->chunk % CHUNK_ALIGN || o->chunk > t->head->ring_bytes) {
        return fault(t, o, "chunk of %u bytes, the ring has %u", o->chunk, t->head->ring_bytes);
    }
    if (o->chunk && o->stream >= GR_BH_STREAMS) {
        return fault(t, o, "stream %u of %d", o->stream, GR_BH_STREAMS);
    }
    if (!o->mt || !o->nt) {
        return true;
    }
    if (o->nseg > GR_BH_SEGMENTS || o->phases < 1 || o->phases > 4 || o->function >= GR_BH_FUNCTIONS) {
        return fault(t, o, "%u segments, %u phases, function %u", o->nseg, o->phases, o->function);
    }
    for (int s = 0; s < o->nseg; s++) {
        if ((o->seg[s].flags & GR_BH_SEG_RING) && !o->chunk) {
            return fault(t, o, "B from the ring without a chunk");
        }
        if (!segment_fits(t, o, &o->seg[s], index)) {
            return false;
        }
    }
    if (o->function != GR_BH_NONE && !writes_whole_tile(o)) {
        return fault(t, o, "function %u of a tile that no product fills: the others of its rows are stale",
                     o->function);
    }
    return output_fits(t, o, index);
}

/* ------------------------------------------------------------------------------------------------------------------ sends */

static bool inside(uint32_t xy, uint32_t xy0, uint32_t xy1)
{
    uint32_t x = xy & 63u, y = xy >> 6;
    return x >= (xy0 & 63u) && x <= (xy1 & 63u) && y >= xy0 >> 6 && y <= xy1 >> 6;
}

static void *grown(void *p, size_t *max, size_t need, size_t size)
{
    size_t n = *max ? *max : 64;
    while (n < need) {
        n *= 2;
    }
    void *q = realloc(p, n * size);
    *max = q ? n : *max;
    return q;
}

/* Room for one more send and its bytes. */
static bool box_room(struct gr_bh_tile *t, const struct gr_bh_op *o, uint32_t bytes)
{
    if (t->sends == t->sends_max) {
        void *p = grown(t->send, &t->sends_max, t->sends + 1, sizeof *t->send);
        if (!p) {
            return fault(t, o, "out of memory");
        }
        t->send = p;
    }
    if (t->box_bytes + bytes > t->box_max) {
        void *p = grown(t->box, &t->box_max, t->box_bytes + bytes, 1);
        if (!p) {
            return fault(t, o, "out of memory");
        }
        t->box = p;
    }
    return true;
}

static bool put_in_box(struct gr_bh_tile *t, const struct gr_bh_op *o, struct gr_bh_when w, uint32_t from, uint32_t to,
                       uint32_t bytes)
{
    bool self = false, others = false;
    for (int i = 0; i < o->dests; i++) {
        const struct gr_bh_dest *d = &t->dests[o->dest + i];
        self |= inside(t->xy, d->xy0, d->xy1) && (d->self || d->xy0 == d->xy1);
        others |= d->xy0 != d->xy1 || d->xy0 != t->xy;
    }
    if (self && from != to) { /* the copy would be of itself */
        struct gr_bh_race why;
        if (t->granule && !gr_bh_race_self(t->granule, w, to, bytes, &why)) {
            return fault(t, o, "0x%x: %s", why.addr, why.text);
        }
        memmove(t->l1 + to, t->l1 + from, bytes);
    }
    if (!others || !box_room(t, o, bytes)) {
        return !others;
    }
    for (int i = 0; i < o->dests; i++) {
        const struct gr_bh_dest *d = &t->dests[o->dest + i];
        if (t->sends == t->sends_max && !box_room(t, o, bytes)) {
            return false;
        }
        t->send[t->sends++] = (struct gr_bh_send){to, bytes, d->xy0, d->xy1, t->box_bytes, w};
    }
    memcpy(t->box + t->box_bytes, t->l1 + from, bytes);
    t->box_bytes += bytes;
    return true;
}

static bool send_tile(struct gr_bh_tile *t, const struct gr_bh_op *o, struct gr_bh_when w, uint32_t from, uint32_t to)
{
    if (!(o->flags & GR_BH_OP_ROW)) {
        return put_in_box(t, o, w, from, to, GR_BH_TILE_BYTES(o->out_fmt));
    }
    return put_in_box(t, o, w, from, to, ROW_PIECE) && put_in_box(t, o, w, from + ROW_STEP, to + ROW_STEP, ROW_PIECE);
}

void gr_bh_tile_receive(struct gr_bh_tile *t, const struct gr_bh_tile *all, int tiles)
{
    for (int i = 0; i < tiles; i++) {
        const struct gr_bh_tile *from = &all[i];
        for (size_t j = 0; from != t && j < from->sends; j++) {
            const struct gr_bh_send *s = &from->send[j];
            if (!inside(t->xy, s->xy0, s->xy1)) {
                continue;
            }
            struct gr_bh_race why;
            if (t->granule && t->status == GR_OK && !gr_bh_race_remote(t->granule, s->when, i, s->to, s->bytes, &why)) {
                t->status = gr_fail(&t->err, GR_ERR_DEVICE, "tile %d, operation %u of tile %d: 0x%x: tile %d %s",
                                    t->number, s->when.op, i, why.addr, t->number, why.text);
            }
            memcpy(t->l1 + s->to, from->box + s->at, s->bytes);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------- operations */

struct place {
    const struct gr_bh_op *o;
    uint32_t index, n;
    const uint8_t *chunk;
    struct gr_bh_when when;
};

static uint32_t a_of(const struct place *p, const struct gr_bh_segment *g, uint32_t m, uint32_t k)
{
    return g->a + p->index * g->a_i + m * g->a_m + p->n * g->a_n + k * g->a_k;
}

static uint32_t b_of(const struct place *p, const struct gr_bh_segment *g, uint32_t m, uint32_t k)
{
    return g->b + p->index * g->b_i + m * g->b_m + p->n * g->b_n + k * g->b_k;
}

static const uint8_t *b_bytes(const struct gr_bh_tile *t, const struct place *p, const struct gr_bh_segment *g,
                              uint32_t m, uint32_t k)
{
    return g->flags & GR_BH_SEG_RING ? p->chunk + g->b + k * g->b_k : t->l1 + b_of(p, g, m, k);
}

/* One k of one segment, for output tiles m0..m1 of a column. */
static void step(const struct gr_bh_tile *t, const struct gr_bh_arith *arith, const struct place *p,
                 const struct gr_bh_segment *g, uint32_t k, uint32_t m0, uint32_t m1, struct gr_bh_scratch *s)
{
    bool transposed = g->flags & GR_BH_SEG_TRANSPOSE, same = g->flags & GR_BH_SEG_RING || !g->b_m;
    for (uint32_t m = m0; m < m1; m++) {
        union gr_bh_dst *dst = &s->dst[m - m0];
        if (g->flags & GR_BH_SEG_MAX) {
            gr_bh_unpack_values(g->fmt_b, transposed, b_bytes(t, p, g, m, k), s->values);
            gr_bh_column_max(dst, s->values, !k);
            continue;
        }
        if (m == m0 || !same) {
            arith->right(g->fmt_b, transposed, p->o->phases, b_bytes(t, p, g, m, k), &s->right);
        }
        arith->left(g->fmt_a, p->o->phases, t->l1 + a_of(p, g, m, k), &s->left);
        if (g->flags & GR_BH_SEG_ELEMENT) {
            arith->element(dst, &s->left, &s->right, p->o->phases);
        } else {
            arith->product(dst, &s->left, &s->right, p->o->phases);
        }
    }
}

/* The FPU's maximum wants ones in the left operand. */
static bool is_ones(const struct gr_bh_tile *t, const struct place *p, const struct gr_bh_segment *g, uint32_t m)
{
    for (uint32_t k = 0; k < g->kcount; k++) {
        const uint8_t *a = t->l1 + a_of(p, g, m, k);
        uint32_t size = g->fmt_a == GR_BH_FP32 ? 4 : 2;
        for (uint32_t i = 0; i < 16; i++) {
            const uint8_t *top = a + (i + 1) * size - 2; /* 0x3f80, the upper half of 1.0f */
            if (top[0] != 0x80 || top[1] != 0x3f || (size == 4 && (top[-1] & 0xe0))) {
                return false;
            }
        }
    }
    return true;
}

/* Reads of output tile (m, p->n) are in order. */
static bool reads_are_safe(struct gr_bh_tile *t, const struct place *p, uint32_t m)
{
    for (int s = 0; t->granule && s < p->o->nseg; s++) {
        const struct gr_bh_segment *g = &p->o->seg[s];
        for (uint32_t k = 0; k < g->kcount; k++) {
            struct gr_bh_race why;
            uint32_t a = a_of(p, g, m, k), b = b_of(p, g, m, k);
            if (!gr_bh_race_read(t->granule, p->when, a, GR_BH_TILE_BYTES(g->fmt_a), &why) ||
                (!(g->flags & GR_BH_SEG_RING) &&
                 !gr_bh_race_read(t->granule, p->when, b, GR_BH_TILE_BYTES(g->fmt_b), &why))) {
                return fault(t, p->o, "0x%x: %s", why.addr, why.text);
            }
        }
    }
    return true;
}

/* Packs tile m of the column and gives it to the mover. */
static bool finish(struct gr_bh_tile *t, const struct place *p, uint32_t m, const union gr_bh_dst *dst)
{
    const struct gr_bh_op *o = p->o;
    struct gr_bh_race why;
    uint32_t out = o->out + p->index * o->out_i + m * o->out_m + p->n * o->out_n;
    uint32_t to = o->to + p->index * o->to_i + m * o->to_m + p->n * o->to_n;
    if (t->granule && !gr_bh_race_write(t->granule, p->when, o->dests, out, GR_BH_TILE_BYTES(o->out_fmt), &why)) {
        return fault(t, o, "0x%x: %s", why.addr, why.text);
    }
    gr_bh_pack(o->out_fmt, o->flags & GR_BH_OP_ACCUMULATE, dst, t->l1 + out);
    return !o->dests || send_tile(t, o, p->when, out, to);
}

static bool column(struct gr_bh_tile *t, const struct gr_bh_arith *arith, const struct place *p,
                   struct gr_bh_scratch *s)
{
    const struct gr_bh_op *o = p->o;
    for (uint32_t m0 = 0; m0 < o->mt; m0 += GR_BH_ROWS_AT_ONCE) {
        uint32_t m1 = m0 + GR_BH_ROWS_AT_ONCE < o->mt ? m0 + GR_BH_ROWS_AT_ONCE : o->mt;
        memset(s->dst, 0, (m1 - m0) * sizeof *s->dst);
        for (int i = 0; i < o->nseg; i++) {
            for (uint32_t k = 0; k < o->seg[i].kcount; k++) {
                step(t, arith, p, &o->seg[i], k, m0, m1, s);
            }
        }
        for (uint32_t m = m0; m < m1; m++) {
            union gr_bh_dst *dst = &s->dst[m - m0];
            if (o->nseg && (o->seg[0].flags & GR_BH_SEG_MAX) && !is_ones(t, p, &o->seg[0], m)) {
                return fault(t, o, "A of a maximum is not ones");
            }
            arith->function(dst, o->function, o->arg);
            if (!reads_are_safe(t, p, m) || !finish(t, p, m, dst)) {
                return false;
            }
        }
    }
    return true;
}

static struct gr_bh_when when_of(const struct gr_bh_tile *t, const struct gr_bh_op *o)
{
    uint32_t open = 0;
    while (open < GR_BH_BARRIERS_KEPT && open < t->barriers &&
           t->barrier_op[(t->barriers - 1 - open) % GR_BH_BARRIERS_KEPT] + o->back >= t->done) {
        open++;
    }
    return (struct gr_bh_when){t->done, o->back, t->barriers, t->barriers - open};
}

/* The next chunk of the operation's stream. The ring's bytes are not kept: a chunk that fits it always finds room in the end. */
static bool next_chunk(struct gr_bh_tile *t, const struct gr_bh_tile_env *env, struct place *p, struct gr_bh_scratch *s)
{
    const struct gr_bh_op *o = p->o;
    const struct gr_bh_stream *st = &t->head->stream[o->stream];
    uint64_t addr = ((uint64_t)st->hi << 32 | st->lo) + t->at[o->stream];
    int channel = gr_bh_dram_channel(st->dram_xy);
    p->chunk = channel < 0 || addr % CHUNK_ALIGN ? NULL : gr_bh_dram_read(env->dram, channel, addr, o->chunk, s->chunk);
    if (!p->chunk) {
        return fault(t, o, "stream %u: nothing at 0x%llx, %u bytes, of the DRAM at x=%u y=%u", o->stream,
                     (unsigned long long)addr, o->chunk, st->dram_xy & 63u, st->dram_xy >> 6);
    }
    t->at[o->stream] += o->chunk;
    return true;
}

static bool execute(struct gr_bh_tile *t, const struct gr_bh_tile_env *env, const struct gr_bh_op *o, uint32_t index,
                    struct gr_bh_scratch *s)
{
    if (!operation_fits(t, o, index)) {
        return false;
    }
    struct place p = {o, index, 0, NULL, when_of(t, o)};
    for (p.n = 0; p.n < o->nt; p.n++) {
        if ((o->chunk && !next_chunk(t, env, &p, s)) || !column(t, env->arith, &p, s)) {
            return false;
        }
    }
    return true;
}

static void keep_streams(struct gr_bh_tile *t, const struct gr_bh_op *loop, bool back)
{
    for (int s = 0; s < GR_BH_STREAMS; s++) {
        if (loop->rewind >> s & 1) {
            uint64_t *kept = &t->saved[t->walk.depth - 1][s];
            *(back ? &t->at[s] : kept) = *(back ? kept : &t->at[s]);
        }
    }
}

void gr_bh_tile_run(struct gr_bh_tile *t, const struct gr_bh_tile_env *env, uint32_t target, struct gr_bh_scratch *s)
{
    while (t->status == GR_OK && !t->waits && t->done != target) {
        const struct gr_bh_op *o;
        uint32_t index = 0;
        enum gr_bh_step e = gr_bh_next(&t->walk, t->ops, &o, &index);
        if (e == GR_BH_STEP_END) {
            memset(t->at, 0, sizeof t->at);
        } else if (e != GR_BH_STEP_OP) {
            keep_streams(t, o, e == GR_BH_STEP_AGAIN);
        } else if (execute(t, env, o, index, s)) {
            if (o->flags & GR_BH_OP_BARRIER) {
                t->barrier_op[t->barriers++ % GR_BH_BARRIERS_KEPT] = t->done;
                t->waits = true;
            }
            t->done++;
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------------ start */

/* Acknowledgements that the mover will wait for must be those that come. */
static enum gr_status dest_checked(const struct gr_bh_tile *t, uint32_t i, struct gr_err *err)
{
    const struct gr_bh_dest *d = &t->dests[i];
    uint32_t x0 = d->xy0 & 63u, y0 = d->xy0 >> 6, x1 = d->xy1 & 63u, y1 = d->xy1 >> 6, n = 0;
    for (uint32_t x = x0; x <= x1; x++) {
        n += x == 8 || x == 9 ? 0 : y1 - y0 + 1; /* columns without Tensix tiles */
    }
    n -= inside(t->xy, d->xy0, d->xy1) && !d->self && d->xy0 != d->xy1;
    if (x0 > x1 || y0 > y1 || n != d->tiles) {
        return gr_fail(err, GR_ERR_DEVICE, "tile %d, destination %u: %u tiles expected, (%u, %u) to (%u, %u) are %u",
                       t->number, i, d->tiles, x0, y0, x1, y1, n);
    }
    return GR_OK;
}

static enum gr_status list_checked(const struct gr_bh_tile *t, struct gr_err *err)
{
    uint32_t depth = 0, computes = 0, i = 0;
    for (; i < t->head->ops && t->ops[i].kind != GR_BH_END; i++) {
        const struct gr_bh_op *o = &t->ops[i];
        bool sends = o->kind == GR_BH_COMPUTE && o->dests && o->mt && o->nt;
        if (o->kind > GR_BH_END || (o->kind == GR_BH_LOOP && (depth == GR_BH_NESTING || !o->count)) ||
            (o->kind == GR_BH_NEXT && !depth) || (sends && (uint32_t)o->dest + o->dests > t->head->dests)) {
            return gr_fail(err, GR_ERR_DEVICE,
                           "tile %d, number %u of the list: kind %u, count %u, depth %u, destinations %u + %u of %u",
                           t->number, i, o->kind, o->count, depth, o->dest, o->dests, t->head->dests);
        }
        for (uint32_t d = 0; sends && d < o->dests; d++) {
            GR_TRY(dest_checked(t, o->dest + d, err));
        }
        depth += o->kind == GR_BH_LOOP ? 1 : o->kind == GR_BH_NEXT ? -1u : 0;
        computes += o->kind == GR_BH_COMPUTE;
    }
    if (i == t->head->ops || depth || !computes) {
        return gr_fail(err, GR_ERR_DEVICE, "tile %d: list of %u without end, inside a loop or without an operation",
                       t->number, t->head->ops);
    }
    return GR_OK;
}

enum gr_status gr_bh_tile_start(struct gr_bh_tile *t, const struct gr_bh_grid *grid, struct gr_err *err)
{
    const void *head = t->l1 + GR_BH_PROGRAM;
    t->head = head;
    const void *ops = t->head + 1;
    t->ops = ops;
    const struct gr_bh_head *h = t->head;
    uint64_t end =
        GR_BH_PROGRAM + sizeof *h + (uint64_t)h->ops * sizeof *t->ops + (uint64_t)h->dests * sizeof *t->dests;
    if (end > GR_BH_L1_END || h->me != (uint32_t)t->number || h->tiles != (uint32_t)grid->tiles) {
        return gr_fail(err, GR_ERR_DEVICE, "tile %d: head of tile %u of %u with %u operations", t->number, h->me,
                       h->tiles, h->ops);
    }
    if (h->ring % CHUNK_ALIGN || (uint64_t)h->ring + h->ring_bytes > GR_BH_L1_END || (h->ring_bytes && h->ring < end)) {
        return gr_fail(err, GR_ERR_DEVICE, "tile %d: ring at 0x%x, %u bytes", t->number, h->ring, h->ring_bytes);
    }
    const void *dests = t->ops + h->ops;
    t->dests = dests;
    t->list_end = (uint32_t)end;
    memset(&t->walk, 0, sizeof t->walk);
    memset(t->at, 0, sizeof t->at);
    t->done = t->barriers = 0;
    t->waits = false;
    t->sends = t->box_bytes = 0;
    t->status = GR_OK;
    if (t->granule) {
        memset(t->granule, 0, GR_BH_L1_END / 16 * sizeof *t->granule);
    }
    return list_checked(t, err);
}

void gr_bh_tile_free(struct gr_bh_tile *t)
{
    free(t->send);
    free(t->box);
    free(t->granule);
}
