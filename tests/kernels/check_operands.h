/* SPDX-License-Identifier: Apache-2.0
 *
 * check_operands.h: operands in the low-precision formats of kernels.h, made bit by bit here and not by the kernels, and what they
 * mean as numbers. */
#ifndef GR_TESTS_KERNELS_CHECK_OPERANDS_H
#define GR_TESTS_KERNELS_CHECK_OPERANDS_H

#include "check.h"

enum check_operand_kind {
    OPERANDS_RANDOM,
    OPERANDS_SPREAD, /* float formats: magnitudes over the whole of what is usual, subnormals among them; integers: as random */
    OPERANDS_WORST /* the largest sums: every activation the largest, every weight the most negative */
};

/* Slots that the functions below take. */
enum {
    SLOT_MEANT_W,
    SLOT_MEANT_X,
    SLOT_PANELS,
    SLOT_ACTS,
    SLOT_ACT_SCALE,
    SLOT_ACT_ZERO,
    SLOT_BIAS,
    SLOT_SCALE,
    SLOT_OFFSET,
    SLOT_FREE
};

struct check_weights {
    struct gr_mat mat;
    float *meant; /* [n, k] the packed numbers, before the column's scale */
};
struct check_acts {
    struct gr_acts acts;
    float *meant; /* [m, k] the packed numbers, before the row's scale and zero */
};

/* gate_up: rows 0 .. n/2 - 1 of meant are gates, the rest ups. */
struct check_weights check_make_weights(enum gr_mat_format format, int n, int k, int gate_up,
                                        enum check_operand_kind kind);
struct check_acts check_make_acts(enum gr_row_format format, int m, int k, enum check_operand_kind kind);
/* Rows [first, first + m) as operands of their own. The three slots are given. */
struct gr_acts check_part_of_acts(const struct gr_acts *all, int first, int m, int data, int scale, int zero);
/* Empty rows for a kernel to fill: canaries. The three slots are given. */
struct gr_acts check_empty_acts(enum gr_row_format format, int m, int k, int data, int scale, int zero);

/* Place among [panels * cols] of output column j; gate_up: of its gate (up 0) or up. */
int check_column_at(int j, int gate_up, int up);
/* Byte of element (row, k) in packed rows. */
size_t check_byte_at(const struct gr_acts *a, int row, int k);
/* Element (row, k) of packed rows as a number, before scale and zero. */
float check_element(const struct gr_acts *a, int row, int k);
float check_half(unsigned bits);

#endif
