/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c: time that never jumps when the system clock is set. */
#include "base/clock.h"

#include <time.h>

double gr_clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
