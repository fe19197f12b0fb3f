/* SPDX-License-Identifier: Apache-2.0
 *
 * op_reader.c, core N: reads the weight streams from DRAM into the ring, chunk by chunk in program order. Chunks alternate between the two
 * NoCs: each has a counter of its own, so that the next chunk is under way while the last one is waited for. */
#include "device/blackhole/kernels/op_walk.h"

struct reader {
    uint64_t from[GR_BH_STREAMS];                /* next byte of each stream */
    uint64_t mark[GR_BH_NESTING][GR_BH_STREAMS]; /* where the loops around began */
    uint32_t at, bytes;                          /* ring_place */
    uint32_t reads[2];                           /* answers that each NoC will have counted */
    uint32_t produced, noc;
    uint32_t pending; /* 1: the chunk before was asked for on the other NoC and is not published */
};

void kernel_main(void);

static void rewind_all(struct reader *r)
{
    for (uint32_t s = 0; s < GR_BH_STREAMS; s++) {
        r->from[s] = head->stream[s].lo | (uint64_t)head->stream[s].hi << 32;
    }
}

/* Publishes the pending chunk once it is there. Returns whether none is pending. */
static uint32_t publish(struct reader *r)
{
    const uint32_t noc = r->noc ^ 1;
    if (r->pending && ahead(noc_rd(noc, NOC_CNT_RD_RESP), r->reads[noc]) >= 0) {
        FLAG(GR_BH_F_PRODUCED) = ++r->produced;
        r->pending = 0;
    }
    return !r->pending;
}

static uint32_t room(struct reader *r, uint32_t bytes)
{
    (void)publish(r);
    return bytes - FLAG(GR_BH_F_CONSUMED) <= head->ring_bytes;
}

static void read_chunk(struct reader *r, uint32_t stream, uint32_t chunk, uint32_t number)
{
    const uint32_t place = ring_place(&r->at, &r->bytes, chunk);
    AWAIT(GR_BH_W_SPACE, number, room(r, r->bytes));
    for (uint32_t off = 0; off < chunk; off += NOC_MOST_BYTES) {
        const uint32_t len = chunk - off < NOC_MOST_BYTES ? chunk - off : NOC_MOST_BYTES;
        noc_read(r->noc, 0, head->stream[stream].dram_xy, r->from[stream] + off, head->ring + place + off, len);
        r->reads[r->noc]++;
    }
    r->from[stream] += chunk;
    AWAIT(GR_BH_W_READ, number, publish(r));
    r->pending = 1;
    r->noc ^= 1;
}

void kernel_main(void)
{
    struct gr_bh_walk w = {0};
    static struct reader r; /* zero at every start: the host writes the whole image */
    uint32_t number = 0;
    uint32_t index;
    const struct gr_bh_op *o;
    r.reads[0] = noc_rd(0, NOC_CNT_RD_RESP);
    r.reads[1] = noc_rd(1, NOC_CNT_RD_RESP);
    rewind_all(&r);
    for (;;) {
        switch (gr_bh_next(&w, op_list(), &o, &index)) {
        case GR_BH_STEP_OP:
            for (uint32_t n = o->chunk ? o->nt : 0; n; n--) {
                read_chunk(&r, o->stream, o->chunk, number);
            }
            number++;
            break;
        case GR_BH_STEP_ENTER:
            for (uint32_t s = 0; s < GR_BH_STREAMS; s++) {
                r.mark[w.depth - 1][s] = r.from[s];
            }
            break;
        case GR_BH_STEP_AGAIN:
            for (uint32_t s = 0; s < GR_BH_STREAMS; s++) {
                if (o->rewind & 1u << s) {
                    r.from[s] = r.mark[w.depth - 1][s];
                }
            }
            break;
        default:
            rewind_all(&r);
        }
        (void)publish(&r);
    }
}
