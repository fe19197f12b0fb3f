/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_arith.h: what one Tensix coprocessor does to tiles, for the CPU machine: unpack, multiply, function, pack.
 *
 * Two sets of the same calls: bit exact, and fast (bh_fast.h). Tiles stay in face order (tile_format.h) throughout: element i of an
 * operand, of Dst and of L1 are the same element, and a 32x32 product is eight 16x16 products of faces. */
#ifndef GR_BLACKHOLE_ARITH_H
#define GR_BLACKHOLE_ARITH_H

#include <stdbool.h>
#include <stdint.h>

#include "device/blackhole/program.h"

enum { GR_BH_ELEMENTS = 1024 };

/* Dst of one tile: fp32. The bit exact set works on u. */
union gr_bh_dst {
    float f[GR_BH_ELEMENTS];
    uint32_t u[GR_BH_ELEMENTS];
};

/* An operand as its set unpacks it. Rows of a left operand run along k, those of a right one along n. */
struct gr_bh_operand {
    _Alignas(64) union {
        float f[GR_BH_ELEMENTS]; /* fast: the value */
        uint32_t u[GR_BH_ELEMENTS];
        struct {                        /* exact, as the FPU's multipliers take it */
            float m[2][GR_BH_ELEMENTS]; /* high and low part of the significand, an integer, with the sign */
            int32_t e[GR_BH_ELEMENTS];  /* biased exponent */
        } part;
    };
};

struct gr_bh_arith {
    /* tile: format f in L1 to an operand. Formats of program.h only. */
    void (*left)(enum gr_bh_format f, int phases, const uint8_t *tile, struct gr_bh_operand *out);
    void (*right)(enum gr_bh_format f, bool transposed, int phases, const uint8_t *tile, struct gr_bh_operand *out);
    void (*product)(union gr_bh_dst *dst, const struct gr_bh_operand *left, const struct gr_bh_operand *right,
                    int phases);
    void (*element)(union gr_bh_dst *dst, const struct gr_bh_operand *left, const struct gr_bh_operand *right,
                    int phases);
    void (*function)(union gr_bh_dst *dst, enum gr_bh_function fn, uint32_t arg);
};
extern const struct gr_bh_arith gr_bh_exact;

/* bf16, bfp8_b or fp32 (cut to tf32) as fp32 bits, as the unpackers give them. */
void gr_bh_unpack(enum gr_bh_format f, bool transposed, const uint8_t *tile, uint32_t *out);
/* The SFPU's functions, bit exact. */
void gr_bh_sfpu(union gr_bh_dst *dst, enum gr_bh_function fn, uint32_t arg);
/* The values of a right operand as the FPU's column maximum sees them: fp32 cut to tf32, subnormals +0. */
void gr_bh_unpack_values(enum gr_bh_format f, bool transposed, const uint8_t *tile, uint32_t *out);
/* Row 0 of dst = the greater of it and the rows of `values`; with `first` of those alone. Other rows are 0 from the start. */
void gr_bh_column_max(union gr_bh_dst *dst, const uint32_t *values, bool first);

/* Dst to L1 as the packer does: rounding, subnormals to zero; `accumulate` adds onto the tile there (fp32, bf16). */
void gr_bh_pack(enum gr_bh_format f, bool accumulate, const union gr_bh_dst *dst, uint8_t *tile);

#endif
