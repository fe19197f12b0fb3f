/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c: time that never jumps when the system clock is set. */
#include "base/clock.h"

double gr_clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

struct timespec gr_clock_after(double ms)
{
    struct timespec t;
    const double wait = ms < 0 ? 0 : ms > 1e12 ? 1e12 : ms;
    const time_t s = (time_t)(wait / 1000);
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += s;
    t.tv_nsec += (long)((wait - (double)s * 1000) * 1e6);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

void gr_clock_sleep(double ms)
{
    const struct timespec end = gr_clock_after(ms);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
        ; /* a signal that does not end the process */
    }
}
