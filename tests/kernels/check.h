/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h: what the parts of the kernel checker share: sets under test, random numbers, guarded memory, packing,
 * verdicts.
 *
 * Memory of a case comes from slots: each ends at an unreadable page and starts behind a canary, so that a read or
 * write past the end stops the program (the handler prints the case) and a write before the start or into a gap
 * between rows is found. */
#ifndef GR_TESTS_KERNELS_CHECK_H
#define GR_TESTS_KERNELS_CHECK_H

#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

enum { SETS_MAX = 8, SLOTS = 20 };
#define EPS 5.9604645e-8 /* half a unit in the last place of 1.0f: the error of one rounding */

/* The sets this CPU can run, each with everything below it; [0] is scalar. */
extern struct gr_kernels check_sets[SETS_MAX];
extern const char *check_names[SETS_MAX];
extern int check_set_count;
/* True when set s has a function of its own for an entry of the table; else the set below was checked with it. */
#define CHECK_OWN(s, entry) check_uses(s, (s) == 0 || check_sets[s].entry != check_sets[(s)-1].entry)
int check_uses(int s, int own);

enum check_family {
    FAMILY_NORMAL,
    FAMILY_LARGE,    /* about 1e4 */
    FAMILY_CANCEL,   /* neighbours of opposite sign, equal up to 1e-4 */
    FAMILY_DENORMAL, /* about 1e-40 */
    FAMILY_SPREAD,   /* magnitudes 2^-16 .. 2^16 */
    FAMILY_ZERO,     /* 0 and -0 with a rare 1 */
    FAMILY_COUNT
};

void check_seed(uint64_t seed);
int check_below(int n); /* 0 .. n - 1 */
float check_value(enum check_family family);
void check_fill(float *x, size_t n, enum check_family family);

/* Slot `id` with `bytes` of memory, filled with a NaN pattern; 4-byte aligned, or 64-byte when bytes is a multiple
 * of 64. */
void *check_slot(int id, size_t bytes);
float *check_floats(int id, size_t n);
int check_is_canary(float x);
float check_canary(void);

/* Starts a group of cases, one TAP line for each set that was used in it; names the case for reports; ends the group. */
void check_begin(const char *group);
void check_case(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check_end(void);
/* Verdicts on set s. They print the first few failures of a group only. */
void check_near(int s, const char *what, int row, int column, double got, double want, double tolerance);
void check_true(int s, const char *what, int ok);
void check_same(int s, const char *what, const float *a, const float *b, size_t n); /* bit for bit */
void check_slots(int s);                                                            /* canaries before all slots */
int check_finish(void); /* prints the plan; 1 when a group failed */

/* What a kernel must give and how far it may be from that. */
struct check_result {
    double y, error;
};
/* Of all epilogues but ADD and SILU_MUL; error: that of y grows with the slope, plus roundings of the function. */
struct check_result check_activate(enum gr_epilogue e, struct check_result v);

/* Packed copies made here, not by the kernels. w [n, k] row-major; gate_up: rows 0..n/2-1 gate, the rest up. */
struct gr_mat check_pack_weights(int slot, const float *w, int n, int k, enum gr_mat_format format, int gate_up);
struct gr_acts check_pack_acts(int slot, const float *x, int m, int k);
/* Where element (row, k) of packed activations stands. */
size_t check_acts_at(const struct gr_acts *a, int row, int k);
float check_bf16(float x); /* cut to BF16 */
void *check_scratch(int slot, size_t bytes);

void check_gemm_all(void);
void check_attention_all(void);
void check_attention16_all(void);
void check_rows_all(void);
void check_quant_all(void);
void check_quant_rows_all(void);
void bench_all(void);
void bench_quant(void);
/* Median time of one call of fn(context), in seconds on this CPU. */
double bench_median_s(void (*fn)(void *), void *context);

#endif
