/* SPDX-License-Identifier: Apache-2.0
 *
 * op_walk.h: what the five cores of the interpreter share: the walk over the list of program.h, waiting with a word for the host's
 * watchdog, and the gate before an operation. CORE_ID says whose status word it is. */
#ifndef GR_KERNEL_OP_WALK_H
#define GR_KERNEL_OP_WALK_H

#include "device/blackhole/kernels/tensix_hw.h"

static const struct gr_bh_head *const head = (const struct gr_bh_head *)GR_BH_PROGRAM;

#define STATUS L1_32(GR_BH_STATUS + 4 * CORE_ID)

/* Spins until cond; `number` is the operation for the host. The word is written only when there is something to wait for. */
#define AWAIT(why, number, cond)            \
    do {                                    \
        if (!(cond)) {                      \
            STATUS = (number) << 8 | (why); \
            while (!(cond)) {               \
                l1_refresh();               \
            }                               \
            STATUS = (number) << 8;         \
        }                                   \
    } while (0)

static inline int32_t ahead(uint32_t a, uint32_t b) { return (int32_t)(a - b); /* counters wrap */ }

static inline const struct gr_bh_op *op_list(void) { return (const struct gr_bh_op *)(head + 1); }

/* The next operation in program order; a complete request begins anew. */
static inline const struct gr_bh_op *next_op(struct gr_bh_walk *w, uint32_t *index)
{
    const struct gr_bh_op *o;
    while (gr_bh_next(w, op_list(), &o, index) != GR_BH_STEP_OP) {
    }
    return o;
}

/* Before operation `number` the host must allow it and all but the `back` before it must be complete. T0 and T1 both wait here: nothing
 * may be pushed that could get stuck in the coprocessor's queues, because a reset of the cores does not empty those. */
static inline void gate(uint32_t number, uint32_t back)
{
    AWAIT(GR_BH_W_LIMIT, number, ahead(FLAG(GR_BH_F_LIMIT), number) > 0);
    AWAIT(GR_BH_W_DEPEND, number, ahead(FLAG(GR_BH_F_DONE), number - back) >= 0);
}

/* Chunks in the ring: a chunk never wraps, so the bytes from `at` to the end are skipped when they are too few. Adds to *bytes, the number
 * of bytes ever used, skipped ones included, and returns the new chunk's offset. N and T0 call it with the same chunks and agree. */
static inline uint32_t ring_place(uint32_t *at, uint32_t *bytes, uint32_t chunk)
{
    const uint32_t size = head->ring_bytes;
    uint32_t place = *at;
    if (chunk > size - place) {
        *bytes += size - place;
        place = 0;
    }
    *at = place + chunk;
    *bytes += chunk;
    return place;
}

static inline void wait_configured(void) { AWAIT(GR_BH_W_CONFIG, 0u, FLAG(GR_BH_F_READY) == 1); }

#endif
