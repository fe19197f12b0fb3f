/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_fast.h: the arithmetic of bh_arith.h in plain fp32, for programs of full size. */
#ifndef GR_BLACKHOLE_FAST_H
#define GR_BLACKHOLE_FAST_H

#include "device/blackhole/bh_arith.h"

/* Operands are rounded as the unpackers and the multipliers of one or two fidelity phases cut them; products and sums are fp32, in order
 * of k. The part of the product that three phases leave out (low bits times low bits, below 2^-12 of it) is kept. */
extern const struct gr_bh_arith gr_bh_fast;

#endif
