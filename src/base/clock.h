/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h: monotonic time, and moments to wait for. */
#ifndef GR_BASE_CLOCK_H
#define GR_BASE_CLOCK_H

#include <time.h>

/* Milliseconds of CLOCK_MONOTONIC. */
double gr_clock_ms(void);
/* The moment `ms` from now on that clock, for the timed waits of pthread. Negative: now; at most 10^12 ms ahead. */
struct timespec gr_clock_after(double ms);
/* Waits at least so long, whatever signals come in between. */
void gr_clock_sleep(double ms);

#endif
