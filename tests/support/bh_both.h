/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_both.h: runs a program of bh_programs.h on the simulated chip and on the CPU machine with the chip's arithmetic, and compares what
 * they left in L1 byte by byte. Also plain double arithmetic on tiles, as a check of both. */
#ifndef GR_BH_BOTH_H
#define GR_BH_BOTH_H

#include "bh_programs.h"

struct gr_chip;

struct bh_out {
    int tile;
    uint32_t at;
    enum gr_bh_format fmt;
};
enum { BH_DEADLINE_MS = 20000 };

struct gr_bh_machine *bh_machine_chip(const struct bh_program *p, unsigned deadline_ms);
struct gr_bh_machine *bh_machine_cpu(const struct bh_program *p);

/* Runs `ops` operations and reads outs[count] tiles of 1024 values each into values [count][1024], which are those of the chip. */
void bh_run_both(const struct bh_program *p, uint32_t ops, const struct bh_out *outs, int count, float (*values)[1024]);
/* The same for machines that are running already; every output must have the same bytes. */
void bh_same(struct gr_bh_machine *chip, struct gr_bh_machine *cpu, const struct bh_out *outs, int count,
             float (*values)[1024]);

/* c += a b, [32, 32] each; abs += |a| |b|. */
void bh_mul(const float *a, const float *b, double *c, double *abs);
/* |got - want| <= relative * scale + absolute for every element, else the test fails with the worst. scale NULL: |want|. */
void bh_close(const char *what, const float *got, const double *want, const double *scale, double relative,
              double absolute);

#endif
