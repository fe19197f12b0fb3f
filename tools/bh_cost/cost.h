/* SPDX-License-Identifier: Apache-2.0
 *
 * cost.h: what a program of tile operations costs, by arithmetic. The lists are walked as the five cores walk them (gr_bh_next); every
 * core, DRAM channel and the NoC has a clock of its own, and an event is as late as the latest thing it waits for. Nothing here was
 * measured on a card: every rate is an option with a default and its source. */
#ifndef BH_COST_H
#define BH_COST_H

#include "device/blackhole/bh_build.h"

/* What a piece of time is spent on. */
enum bh_cost_unit {
    BH_COST_DRAM,    /* weights into the ring */
    BH_COST_UNPACK,  /* operand pairs from L1 to the source registers */
    BH_COST_FPU,     /* products, fidelity phases, maxima */
    BH_COST_SFPU,    /* functions */
    BH_COST_PACK,    /* results to L1 */
    BH_COST_NOC,     /* results to other tiles, until they are acknowledged */
    BH_COST_BARRIER, /* from the last arrival to the release */
    BH_COST_CONTROL, /* code of the five cores around all that */
    BH_COST_UNITS
};
extern const char *const bh_cost_unit_name[BH_COST_UNITS];

/* Rates. A clock is one of the Tensix. */
struct bh_cost_rates {
    double clock_mhz;
    double dram_gb, dram_percent, dram_us;
    double pair_clocks, unpack_bytes, transpose_clocks;
    double matrix_clocks, element_clocks, max_clocks;
    double sfpu_clocks, sfpu_mad_clocks;
    double pack_clocks, pack_bytes, pack_add;
    double noc_bytes, multicast_clocks, noc_us, barrier_us;
    double walk_clocks, start_clocks, format_clocks, send_clocks, done_clocks;
};
/* One rate: its name as an option, where it is in the struct, its default, and where that comes from. */
struct bh_cost_rate {
    const char *name;
    size_t offset;
    double value;
    const char *unit, *source;
};
extern const struct bh_cost_rate bh_cost_rate[];
extern const int bh_cost_rate_count;
void bh_cost_defaults(struct bh_cost_rates *r);
/* Clocks of a function on one tile: instructions of kernels/sfpu.h. */
double bh_cost_function_clocks(const struct bh_cost_rates *r, unsigned function);

struct bh_cost_run {
    const struct gr_bh_program *program;
    struct bh_cost_rates rates;
    unsigned free_units; /* bit u: unit u takes no time: what the program would gain */
    bool own_back;       /* dependencies by the addresses of the operations (bh_cost_back), not by `back` */
    bool pack_functions; /* what if T2 pushed the functions, so that they overlap the products of the next tile */
    const int *stage;    /* [operations of the list] stage of each; NULL: all 0 */
    int stages;
};

struct bh_cost_sums {
    uint64_t operations, barriers;
    uint64_t read_bytes;                  /* from DRAM, all tiles */
    uint64_t pairs;                       /* unpacked, all tiles */
    uint64_t passes;                      /* 32x32x32 products, each fidelity phase once */
    uint64_t elements;                    /* element-wise passes and maxima */
    uint64_t functions, packs;            /* tiles */
    uint64_t sent_bytes, multicast_bytes; /* to one tile, counted once a destination; to all, counted once */
    double busy[BH_COST_UNITS];           /* clocks of the tile that has most of it in an operation */
    double clocks;                        /* from the end of the operation before to its end on the slowest tile */
};

/* Rounds of the last loop at the top (Euler steps), with what comes before as round 0 and behind as the last. */
struct bh_cost_result {
    int rounds, stages;
    struct bh_cost_sums *sums; /* [rounds][stages] */
    double clocks;             /* of a request */
};
/* Fails with GR_ERR_DEVICE for a program that could not go on: a chunk longer than the ring, lists that differ between tiles. */
enum gr_status bh_cost_walk(const struct bh_cost_run *run, struct bh_cost_result *out, struct gr_err *err);
void bh_cost_free(struct bh_cost_result *r);
struct bh_cost_sums bh_cost_total(const struct bh_cost_result *r, int round, int stage); /* -1: all */

/* How many of the `n` operations just before (before[0] the last one) need not be complete when `op` starts, by addresses of one tile: it
 * must see what they pack, and must not overwrite what they may still be sending. None behind a barrier. */
struct bh_cost_executed {
    const struct gr_bh_op *op;
    uint32_t index; /* of the innermost loop */
};
unsigned bh_cost_back(struct bh_cost_executed op, const struct bh_cost_executed *before, unsigned n);

/* Stages by the matrix that an operation multiplies, or that the next such operation does. stage [operations of the list]. */
enum { BH_COST_STAGES = 64, BH_COST_NAME = 64 };
struct bh_cost_stages {
    int *stage, n;
    char name[BH_COST_STAGES][BH_COST_NAME];
};
enum gr_status bh_cost_stages_new(const struct gr_bh_program *p, enum gr_bh_format weights, struct bh_cost_stages *out,
                                  struct gr_err *err);
void bh_cost_stages_free(struct bh_cost_stages *s);

#endif
