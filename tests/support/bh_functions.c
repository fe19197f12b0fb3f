/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_functions.c: see bh_functions.h. */
#include "bh_functions.h"

#include <float.h>
#include <math.h>

double bh_function(enum gr_bh_function fn, double x, double arg)
{
    switch (fn) {
    case GR_BH_EXP: {
        double y = exp(x);
        return y < (double)FLT_MIN ? 0 : y > 0x1p64 ? 0x1p64 : y;
    }
    case GR_BH_GELU:
        return x / (1 + exp(-1.59576912160573 * (x + 0.044715 * x * x * x)));
    case GR_BH_SILU:
        return x / (1 + exp(-x));
    case GR_BH_RELU:
        return x > 0 ? x : 0;
    case GR_BH_RECIP:
        return 1 / x;
    case GR_BH_RSQRT:
        return 1 / sqrt(x + arg);
    case GR_BH_SCALE:
        return x * arg;
    case GR_BH_SQUARE:
        return x * x * arg;
    default:
        return x;
    }
}
