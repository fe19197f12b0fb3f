/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_functions.h: what the SFPU's functions approximate, in double. */
#ifndef BH_FUNCTIONS_H
#define BH_FUNCTIONS_H

#include "device/blackhole/program.h"

/* EXP: 0 below the smallest normal float, 2^64 at most. */
double bh_function(enum gr_bh_function fn, double x, double arg);

#endif
