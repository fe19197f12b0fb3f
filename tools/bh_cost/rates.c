/* SPDX-License-Identifier: Apache-2.0
 *
 * rates.c: the assumptions of the model. */
#include <stddef.h>

#include "cost.h"

const char *const bh_cost_unit_name[BH_COST_UNITS] = {"stream", "unpack", "FPU",     "SFPU",
                                                      "pack",   "NoC",    "barrier", "control"};

#define RATE(field) #field, offsetof(struct bh_cost_rates, field)
#define GUESS "guess"
const struct bh_cost_rate bh_cost_rate[] = {
    {RATE(clock_mhz), 1350, "MHz", "AICLK of a p150 under load"},
    {RATE(dram_gb), 512, "GB/s", "8 channels of GDDR6 at 16 GT/s, board's data sheet"},
    {RATE(dram_percent), 87.5, "%", "design budget: 85 to 90 % of it"},
    {RATE(dram_us), 0.8, "us", GUESS ": first byte of a chunk after it was asked for"},
    {RATE(pair_clocks), 50, "clocks", "design budget: one pair of operand tiles, both unpackers at once"},
    {RATE(unpack_bytes), 64, "B/clock", GUESS ": of each unpacker; fp32 tiles take longer than a pair"},
    {RATE(transpose_clocks), 50, "clocks", GUESS ": more for a transposed B, which is unpacked face by face"},
    {RATE(matrix_clocks), 16, "clocks", "16 MVMUL, one a clock, for each fidelity phase"},
    {RATE(element_clocks), 8, "clocks", "8 ELWMUL, one a clock, for each fidelity phase"},
    {RATE(max_clocks), 4, "clocks", "4 GMPOOL, one a clock"},
    {RATE(sfpu_clocks), 1, "clocks", "an SFPU instruction, 32 lanes"},
    {RATE(sfpu_mad_clocks), 2, "clocks", "one that the next one waits for: swap (multiply-adds are interleaved)"},
    {RATE(pack_clocks), 60, "clocks", GUESS ": a tile's configuration words, clearing the Dst half, waiting"},
    {RATE(pack_bytes), 32, "B/clock", GUESS},
    {RATE(pack_add), 2, "times", GUESS ": packing onto what is in L1"},
    {RATE(noc_bytes), 64, "B/clock", "width of a NoC link; multicasts of a group one at a time"},
    {RATE(multicast_clocks), 0, "clocks",
     "design budget counts bytes only; more of each, if reserving its way takes time"},
    {RATE(noc_us), 0.5, "us", GUESS ": a write to its last acknowledgement"},
    {RATE(barrier_us), 2, "us", "design budget, from the last arrival on"},
    {RATE(walk_clocks), 100, "clocks", GUESS ": a core finds its next operation"},
    {RATE(start_clocks), 100, "clocks", GUESS ": ... sees that it may start, reads its fields"},
    {RATE(format_clocks), 60, "clocks", GUESS ": formats of an unpacker or the packer change"},
    {RATE(send_clocks), 50, "clocks", GUESS ": registers of one NoC command"},
    {RATE(done_clocks), 50, "clocks", GUESS ": a flag in L1 is written and seen"},
};
const int bh_cost_rate_count = (int)(sizeof bh_cost_rate / sizeof bh_cost_rate[0]);

void bh_cost_defaults(struct bh_cost_rates *r)
{
    for (int i = 0; i < bh_cost_rate_count; i++) {
        *(double *)((char *)r + bh_cost_rate[i].offset) = bh_cost_rate[i].value;
    }
}

/* Half the instructions of a pair of the 32 steps over a tile, load and store included: those that take one clock, and those behind which
 * one is lost, swaps. Without swaps the core's loop costs a clock a step. `once`: constants, a tile. */
enum { STEPS = 32 };
static const struct {
    double plain, chained, once;
} instructions[GR_BH_FUNCTIONS] = {
    [GR_BH_EXP] = {10.5, 2, 9}, /* load, argument, power (7.5 + 2), store */
    [GR_BH_GELU] = {20, 2, 9},  /* load, argument (3.5), power, 1 + , reciprocal and product with x (7), store */
    [GR_BH_SILU] = {17.5, 2, 9}, [GR_BH_RELU] = {2, 1, 0},  [GR_BH_RECIP] = {7, 0, 0},
    [GR_BH_RSQRT] = {12, 0, 13}, [GR_BH_SCALE] = {4, 0, 3}, [GR_BH_SQUARE] = {5, 0, 3},
};

double bh_cost_function_clocks(const struct bh_cost_rates *r, unsigned function)
{
    if (function >= GR_BH_FUNCTIONS) {
        return 0;
    }
    const double step =
        instructions[function].plain * r->sfpu_clocks + instructions[function].chained * r->sfpu_mad_clocks;
    return STEPS * step + instructions[function].once * r->sfpu_clocks;
}
